//! Campaigns: the product is broken on purpose, many times, and everything it promised is counted.

mod core;
mod faults;
mod flood;
mod histories;
mod notices;
mod report;
mod round;
mod stop;

use crate::Flags;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

pub(crate) use self::core::run as core;
pub(crate) use self::flood::run as flood;
pub(crate) use self::histories::run as histories;
pub(crate) use self::notices::run as notices;
pub(crate) use self::stop::run as stop;

/// The program under test: the one named, or one built now, with test points.
fn program(flags: &Flags<'_>) -> Result<PathBuf> {
    if let Some(path) = flags.get::<PathBuf>("--program")? {
        return path.canonicalize().with_context(|| format!("{}", path.display()));
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "--quiet", "--package", "outlast", "--features", "test-points"]).status()?;
    ensure!(built.success(), "outlast does not build");
    let beside = std::env::current_exe()?;
    Ok(beside.with_file_name("outlast"))
}

/// Shown to a person, never to a pipe.
fn progress(round: u64, end: u64, began: Instant) {
    use std::io::{IsTerminal, Write};
    let mut err = std::io::stderr();
    if err.is_terminal() {
        // A terminal that is gone has nobody to tell.
        let _gone = write!(err, "\r{}/{end} rounds, {:.0} s ", round + 1, began.elapsed().as_secs_f64());
    }
}
