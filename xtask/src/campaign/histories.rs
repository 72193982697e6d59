//! `cargo xtask campaign histories`: which matches are told, in histories of any kind, against a second reading of the rules.

use crate::Flags;
use anyhow::{Result, ensure};
use std::process::Command;
use std::time::Instant;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let cases = flags.get("--cases")?.unwrap_or(1_000_000_u64);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let test = |command: &mut Command| -> Result<()> {
        ensure!(command.status()?.success(), "a history was told wrongly; what is printed above is the shortest such");
        Ok(())
    };
    let args = ["test", "--quiet", "--release", "--package", "outlast-core", "--lib"];
    ensure!(Command::new(&cargo).args(args).arg("--no-run").status()?.success(), "the tests do not build");
    let began = Instant::now();
    test(Command::new(&cargo).args(args).arg("watch::histories").env("PROPTEST_CASES", cases.to_string()))?;
    println!("campaign histories: {cases} histories of each kind, {:.0} s, 0 told wrongly", began.elapsed().as_secs_f64());
    Ok(())
}
