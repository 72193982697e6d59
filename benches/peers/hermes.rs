//! The reference: the process registry of the Hermes agent, driven in its own process by `reference.py`.

use super::{command, install};
use crate::bench_suite::harness::{Bench, Who};
use crate::bench_suite::start::REAL;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SCRIPT: &str = include_str!("reference.py");

/// The files in the user's home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dotfiles {
    Clean,
    Real,
}

/// An installed reference.
#[derive(Clone)]
pub(crate) struct Hermes {
    python: PathBuf,
    script: PathBuf,
    disk: PathBuf,
}

impl Hermes {
    pub(crate) fn ready(bench: &mut Bench) -> Option<Self> {
        super::ready(bench, Who::Hermes, |bench| {
            let python = install::hermes(&bench.settings)?;
            let script = bench.settings.place.join("reference.py");
            std::fs::write(&script, SCRIPT)?;
            Ok(Self { python, script, disk: bench.settings.disk.clone() })
        })
    }

    /// A home directory for it.
    pub(crate) fn home(&self, dotfiles: Dotfiles) -> Result<tempfile::TempDir> {
        let home = tempfile::Builder::new().prefix("ol-ref-").tempdir_in(&self.disk)?;
        if dotfiles == Dotfiles::Real {
            std::fs::write(home.path().join(".bashrc"), REAL)?;
            std::fs::write(home.path().join(".bash_profile"), ". ~/.bashrc\n")?;
        }
        Ok(home)
    }

    /// Runs a measurement in a new home, and returns the named values.
    pub(crate) fn ask(&self, dotfiles: Dotfiles, args: &[&str], names: &[&str]) -> Result<Vec<Vec<f64>>> {
        let home = self.home(dotfiles)?;
        self.ask_in(home.path(), args, names)
    }

    /// The same in an existing home.
    pub(crate) fn ask_in(&self, home: &Path, args: &[&str], names: &[&str]) -> Result<Vec<Vec<f64>>> {
        let done = self.call(home, args).stdout(Stdio::piped()).stderr(Stdio::piped()).output().context("cannot run python")?;
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        ensure!(done.status.success(), "reference.py {}: {}", args.join(" "), err.trim().lines().last().unwrap_or_default());
        let found: Value = serde_json::from_str(out.trim().lines().last().unwrap_or_default())?;
        names.iter().map(|name| numbers(&found, name)).collect()
    }

    /// Lets it start jobs and wait to be killed. Returns the process, and the pids of the jobs.
    pub(crate) fn jobs(&self, home: &Path, args: &[&str]) -> Result<(Child, Vec<u32>)> {
        use std::io::BufRead;
        let mut child = self.call(home, args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut line)?;
        let pids = numbers(&serde_json::from_str(&line)?, "pids")?;
        Ok((child, pids.into_iter().map(|pid| pid as u32).collect()))
    }

    fn call(&self, home: &Path, args: &[&str]) -> Command {
        let mut call = command(&self.python, home);
        call.arg(&self.script).args(args).env("HERMES_HOME", home.join(".hermes")).env("SHELL", "/bin/bash");
        call
    }
}

fn numbers(found: &Value, name: &str) -> Result<Vec<f64>> {
    let values = found[name].as_array().with_context(|| format!("it did not measure {name}"))?;
    Ok(values.iter().filter_map(Value::as_f64).collect())
}
