//! `cargo xtask check`: licences, sources and duplicate versions of all dependencies, which `cargo-deny` checks against `deny.toml`.

use anyhow::{Context, Result};
use std::path::Path;

/// What `cargo-deny` complains about. Without it, or without the sources of all dependencies, this part is skipped; in CI that is a failure.
pub(crate) fn check(root: &Path) -> Result<Option<String>> {
    let run =
        |words: &str| crate::cargo().current_dir(root).args(words.split(' ')).output().with_context(|| format!("cannot run cargo {words}"));
    let skipped = |why: &str| {
        let text = format!("licences, sources and duplicate versions were not checked: {why}");
        if std::env::var_os("CI").is_some() {
            return Some(text);
        }
        println!("check: skipped: {text}");
        None
    };
    if !run("deny --version")?.status.success() {
        return Ok(skipped("install cargo-deny with `cargo install cargo-deny --locked`"));
    }
    // It reads the dependencies for all platforms, and a build has downloaded those for this one.
    let fetched = run("fetch --locked --quiet")?;
    if !fetched.status.success() {
        return Ok(skipped(String::from_utf8_lossy(&fetched.stderr).trim_end()));
    }
    let out = run("deny --offline --locked --workspace check -D unmatched-skip -D unnecessary-skip licenses bans sources")?;
    Ok((!out.status.success()).then(|| format!("cargo deny:\n{}", String::from_utf8_lossy(&out.stderr).trim_end())))
}
