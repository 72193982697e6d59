//! That what embedders use builds alone, with each set of features, and that the least of it stays small. In the workspace a crate has the features that any other
//! wants of its dependencies, so that one it forgot to name is missed only here.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::path::Path;

/// A package and the flags that choose its features.
const SETS: [(&str, &[&str]); 5] = [
    ("outlast-client", &["--no-default-features"]),
    ("outlast-client", &[]),
    ("outlast-tools", &[]),
    ("outlast-engine", &[]),
    ("outlast-keeper", &[]),
];

/// How many crates a client without features is made of, itself and two others of ours included.
const LEAST: usize = 28;

/// What is wrong.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (package, flags) in SETS {
        let shown = format!("{package} {}", flags.join(" "));
        let out = crate::cargo()
            .current_dir(root)
            .args(["check", "--quiet", "--lib", "--locked", "-p", package])
            .args(flags)
            .output()
            .context("cannot run cargo check")?;
        // Warnings of what is only used with a feature come here and nowhere else.
        let said = String::from_utf8_lossy(&out.stderr);
        if !out.status.success() || said.contains("warning: ") {
            wrong.push(format!("{} does not build alone:\n{}", shown.trim_end(), said.trim_end()));
        }
    }
    let all = crates_of(root, SETS[0])?;
    if all.len() > LEAST {
        wrong.push(format!(
            "a client without features is made of {} crates, and {LEAST} are meant: {}",
            all.len(),
            all.into_iter().collect::<Vec<_>>().join(" ")
        ));
    }
    Ok(wrong)
}

fn crates_of(root: &Path, (package, flags): (&str, &[&str])) -> Result<BTreeSet<String>> {
    let out = crate::cargo()
        .current_dir(root)
        .args(["tree", "--locked", "-e", "normal", "--prefix", "none", "-p", package])
        .args(flags)
        .output()?;
    ensure!(out.status.success(), "cargo tree: {}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    Ok(text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
}
