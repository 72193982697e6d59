//! A home that was created earlier, and now lies in the lower layer of an overlayfs, as in an image.

use super::ends_with;
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::{Product, eventually};
use std::process::Command;
use std::sync::OnceLock;

/// The processes that ran before the home was covered.
static OLD: OnceLock<[String; 3]> = OnceLock::new();

/// Runs some commands, stops the engine, and covers the home with a layer: `line` is a shell command that gets the directory as its first
/// argument.
pub(crate) fn cover(p: &Product, line: &str) -> Result<()> {
    let ids = [61, 62, 63].map(|code| p.run(&format!("echo from below; exit {code}")));
    for (id, code) in ids.iter().zip([61, 62, 63]) {
        ends_with(p, id, code)?;
    }
    p.call(["engine", "stop"]);
    eventually("the keepers to leave", || p.processes().is_empty().then_some(()));
    let root = p.home().root;
    let root = root.parent().context("a directory")?;
    let done = Command::new("/bin/sh").args(["-c", line, "sh"]).arg(root).output()?;
    ensure!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr).trim());
    OLD.get_or_init(|| ids);
    Ok(())
}

fn old() -> Result<&'static [String; 3]> {
    OLD.get().context("no home was covered")
}

pub(crate) fn old_processes_are_known(p: &Product) -> Result<()> {
    for (id, code) in old()?.iter().zip([61, 62, 63]) {
        ends_with(p, id, code)?;
        super::printed(p, id, b"from below\n")?;
    }
    Ok(())
}

pub(crate) fn removed_from_the_lower_layer(p: &Product) -> Result<()> {
    let id = &old()?[0];
    let removed = p.json(["rm", id]);
    ensure!(removed["status"] == "removed", "rm answered {removed}");
    ensure!(!p.folder(id).path.exists(), "its folder is still there");
    Ok(())
}

pub(crate) fn cleaned_from_the_lower_layer(p: &Product) -> Result<()> {
    let cleaned = p.json(["clean"]);
    for id in &old()?[1..] {
        ensure!(!p.folder(id).path.exists(), "the folder of {id} is still there; clean answered {cleaned}");
    }
    Ok(())
}
