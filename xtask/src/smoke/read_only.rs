//! The home becomes read-only while commands run.
//!
//! The shell commands for this are `--make-read-only` and `--make-writable`. Without the second one the home stays read-only, and only one
//! check is run.

use super::gate::Gate;
use super::{ends_with, until};
use crate::Flags;
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::Product;
use outlast_testkit::trees::{alive_in, leavers};
use std::process::Command;
use std::time::{Duration, Instant};

struct ReadOnly;

impl ReadOnly {
    fn new() -> Result<Self> {
        let line = flag("--make-read-only")?.context("--make-read-only is missing")?;
        shell(&line)?;
        Ok(Self)
    }

    /// Makes the home writable again. While an engine or a keeper has a file open, the mount is busy, so this is repeated.
    fn end(self) -> Result<()> {
        std::mem::forget(self);
        let Some(line) = flag("--make-writable")? else { return Ok(()) };
        until("the home to be writable", || shell(&line).ok())
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        if let Ok(Some(line)) = flag("--make-writable") {
            // The check has failed already, with its own reason.
            let _second = shell(&line);
        }
    }
}

fn flag(name: &str) -> Result<Option<String>> {
    Flags(&std::env::args().collect::<Vec<_>>()).get(name)
}

fn shell(line: &str) -> Result<()> {
    let done = Command::new("/bin/sh").args(["-c", line]).output()?;
    ensure!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}

pub(crate) fn list_and_log_answer(p: &Product) -> Result<()> {
    let gate = Gate::new(p)?;
    let id = p.run(&format!("echo before; {}; exit 51", gate.wait()));
    until("its first line", || p.call(["log", &id, "--raw"]).out.starts_with(b"before").then_some(()))?;
    let read_only = ReadOnly::new()?;
    let polled = p.json(["poll", &id]);
    ensure!(polled["phase"] == "running", "poll answered {polled}");
    let listed = p.json(["list"]);
    ensure!(listed["processes"].as_array().is_some_and(|l| l.iter().any(|v| v["session_id"] == id.as_str())), "list answered {listed}");
    let log = p.call(["log", &id, "--raw"]);
    ensure!(log.out == b"before\n", "log answered {:?} {}", log.text(), log.err);
    gate.open()?;
    ends_with(p, &id, 51)?;
    read_only.end()
}

pub(crate) fn start_is_refused_at_once(p: &Product) -> Result<()> {
    p.engine();
    let read_only = ReadOnly::new()?;
    let began = Instant::now();
    let answer = p.call(["run", "--json", "--", "exit 52"]);
    let (said, took) = (answer.json(), began.elapsed());
    ensure!(took < Duration::from_secs(10), "run answered after {took:?}: {said}");
    ensure!(answer.code != Some(0) && said["hint"].as_str().is_some_and(|h| !h.is_empty()), "run answered {said}");
    ensure!(said["error"].as_str().is_some_and(|e| e.contains("ead-only")), "run answered {said}");
    read_only.end()
}

pub(crate) fn stop_works(p: &Product) -> Result<()> {
    let dir = p.work().join("leavers-read-only");
    std::fs::create_dir(&dir)?;
    let id = p.run_with(&["--cwd", &dir.display().to_string()], leavers().line);
    until("the tree to stand", || dir.join("ready").exists().then_some(()))?;
    let read_only = ReadOnly::new()?;
    let killed = p.json(["kill", &id, "--grace", "0.3"]);
    ensure!(killed["status"] == "killed", "kill answered {killed}");
    let left = alive_in(&dir);
    ensure!(left.is_empty(), "left alive: {left:?}");
    read_only.end()
}

pub(crate) fn end_is_known(p: &Product) -> Result<()> {
    let gate = Gate::new(p)?;
    let id = p.run(&format!("{}; exit 53", gate.wait()));
    let read_only = ReadOnly::new()?;
    gate.open()?;
    ends_with(p, &id, 53)?;
    read_only.end()?;
    ends_with(p, &id, 53)
}

pub(crate) fn works_again_when_writable(p: &Product) -> Result<()> {
    ReadOnly::new()?.end()?;
    let id = until("a start", || p.json(["run", "--", "exit 54"])["session_id"].as_str().map(str::to_owned))?;
    ends_with(p, &id, 54)
}
