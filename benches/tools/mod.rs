//! Small programs for the measurements, built when they are needed.

use crate::bench_suite::harness::Settings;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program that prints when it ends.
pub(crate) fn stamp(settings: &Settings) -> Result<PathBuf> {
    stamp_in(&settings.place)
}

/// The same, kept in this directory.
pub(crate) fn stamp_in(place: &Path) -> Result<PathBuf> {
    const SOURCE: &str = include_str!("stamp.rs");
    std::fs::create_dir_all(place).with_context(|| format!("cannot make {}", place.display()))?;
    let (source, program) = (place.join("stamp.rs"), place.join("stamp"));
    if program.exists() && std::fs::read_to_string(&source).is_ok_and(|text| text == SOURCE) {
        return Ok(program);
    }
    std::fs::write(&source, SOURCE).with_context(|| format!("cannot write {}", source.display()))?;
    let new = program.with_extension("new");
    let flags = ["--edition", "2024", "-O", "-C", "panic=abort", "-C", "target-feature=+crt-static", "-C", "strip=symbols", "-o"];
    let built = Command::new("rustc").args(flags).arg(&new).arg(&source).status().context("cannot run rustc")?;
    ensure!(built.success(), "the stamp does not build");
    std::fs::rename(&new, &program)?;
    Ok(program)
}

/// The time that a stamp printed, in nanoseconds.
pub(crate) fn stamped(output: &str) -> Result<u64> {
    output.trim().parse().with_context(|| format!("{output:?} is no stamp"))
}

/// The clock of the stamps, in nanoseconds.
pub(crate) fn clock() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// How long ago a stamp was printed, in seconds.
pub(crate) fn since(output: &str, now: u64) -> Result<f64> {
    Ok(now.saturating_sub(stamped(output)?) as f64 / 1e9)
}
