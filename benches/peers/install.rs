//! Installs the other programs from where their users get them.

use crate::bench_suite::harness::Settings;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of the Hermes agent that the benchmarks were written against.
const HERMES: &str = "hermes-agent==0.19.0";

/// The Python of an environment in which the Hermes agent is installed.
pub(super) fn hermes(settings: &Settings) -> Result<PathBuf> {
    let place = settings.place.join("peers/hermes");
    let (python, done) = (place.join("bin/python"), place.join("installed"));
    if !std::fs::read_to_string(&done).is_ok_and(|what| what == HERMES) {
        eprintln!("… installing {HERMES}");
        call(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        call(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", HERMES]))?;
        std::fs::write(&done, HERMES)?;
    }
    Ok(python)
}

/// The directory with `pueue` and `pueued`.
pub(super) fn pueue(settings: &Settings) -> Result<PathBuf> {
    let root = settings.place.join("peers");
    let bin = root.join("bin");
    if !bin.join("pueue").exists() || !bin.join("pueued").exists() {
        eprintln!("… installing pueue");
        let mut install = crate::cargo();
        install.args(["install", "--quiet", "--locked", "pueue", "--root"]).arg(&root).arg("--target-dir").arg(root.join("build"));
        call(&mut install)?;
        // It is only needed for the build.
        std::fs::remove_dir_all(root.join("build"))?;
    }
    Ok(bin)
}

/// A program of a Debian package, which is installed if it is missing and we have the permission.
pub(super) fn debian(program: &str, package: &str) -> Result<PathBuf> {
    if let Some(path) = find(program) {
        return Ok(path);
    }
    ensure!(rustix::process::geteuid().is_root(), "{program} is not installed, and only root can install {package}");
    eprintln!("… installing {package}");
    call(
        Command::new("apt-get")
            .args(["install", "--yes", "--quiet", "--no-install-recommends", package])
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )?;
    find(program).with_context(|| format!("{package} has no {program}"))
}

fn find(program: &str) -> Option<PathBuf> {
    ["/usr/local/bin", "/usr/bin", "/bin"].iter().map(|dir| Path::new(dir).join(program)).find(|path| path.exists())
}

fn call(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().with_context(|| format!("cannot run {name}"))?;
    let said = String::from_utf8_lossy(&done.stderr).trim().lines().last().unwrap_or_default().to_owned();
    ensure!(done.status.success(), "{name}: {said}");
    Ok(())
}
