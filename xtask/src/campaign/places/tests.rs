//! `--tests`: all tests of the product, and the campaigns, inside Docker.

use super::bench::Bench;
use super::containers;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The user, and the flags of `docker run`.
const USERS: [(&str, &[&str]); 2] = [("root", &[]), ("user", &["--user", "1000:1000", "-e", "HOME=/home/agent"])];

/// What runs in the container besides the tests.
const CAMPAIGNS: [&[&str]; 2] = [&["core", "--rounds", "300"], &["stop", "--rounds", "20"]];

pub(crate) fn run(bench: &Bench) -> Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let tests = built()?;
    let mount = format!("{0}:{0}:ro", repository.display());
    let root = format!("INSTA_WORKSPACE_ROOT={}", repository.display());
    let mut bad = Vec::new();
    for (name, flags) in USERS {
        let inside = |words: &[&str]| -> Result<bool> {
            let mut command = containers::docker_run(bench, flags)?;
            command.args(["--init", "-v", &mount, "-e", &root, "-e", "INSTA_UPDATE=no", "-w"]);
            command.arg(repository.join("crates/outlast")).arg(containers::IMAGE).args(words);
            bench.checked()?;
            bench.shown(command, &["skipped:", "FAILED", "failed", "panicked", "campaign", "test result", "BAD", "0 lost"])
        };
        println!("== tests in Docker as {name}");
        // Without this, the output of passing tests is hidden, and with it which tests were skipped.
        if !inside(&[&tests.display().to_string(), "--show-output"])? {
            bad.push(format!("tests as {name}"));
        }
        for campaign in CAMPAIGNS {
            println!("== campaign {} in Docker as {name}", campaign.join(" "));
            let words: Vec<&str> =
                ["/outlast/xtask", "campaign"].iter().chain(campaign).chain(&["--program", "/outlast/outlast"]).copied().collect();
            if !inside(&words)? {
                bad.push(format!("campaign {} as {name}", campaign[0]));
            }
        }
    }
    ensure!(bad.is_empty(), "failed in Docker: {}", bad.join(", "));
    Ok(())
}

/// Builds the tests and returns their paths.
fn built() -> Result<PathBuf> {
    let mut command = crate::cargo();
    command.args(["test", "--quiet", "--package", "outlast", "--test", "it", "--no-run", "--message-format", "json"]);
    let done = command.stderr(Stdio::inherit()).output()?;
    ensure!(done.status.success(), "the tests do not build");
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    let messages = told.lines().filter_map(|l| serde_json::from_str::<Value>(l).ok());
    let found = messages.filter(|m| m["target"]["name"] == "it").find_map(|m| m["executable"].as_str().map(PathBuf::from));
    found.context("cargo does not say where the tests are")
}
