//! task-spooler: a queue whose server is started by its first call.

use super::{command, install};
use crate::bench_suite::harness::{Bench, Who};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The time between two checks whether all jobs are done.
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(300);

/// A server in a home of its own, ended when it is dropped.
pub(crate) struct Spooler {
    program: PathBuf,
    home: tempfile::TempDir,
}

impl Spooler {
    /// A server that runs this many jobs at a time, and writes ends into a file.
    pub(crate) fn ready(bench: &mut Bench, wide: usize) -> Option<Self> {
        super::ready(bench, Who::TaskSpooler, |bench| {
            let program = install::debian("tsp", "task-spooler")?;
            let home = tempfile::Builder::new().prefix("ol-tsp-").tempdir_in(&bench.settings.disk)?;
            let announce = format!("#!/bin/sh\necho \"$1 $2\" >> {}\n", home.path().join("announced").display());
            std::fs::write(home.path().join("announce"), announce)?;
            std::fs::set_permissions(home.path().join("announce"), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
            let spooler = Self { program, home };
            spooler.call(&["-S", &wide.to_string()])?;
            Ok(spooler)
        })
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A call of its command line. With `announces`, ends are announced.
    pub(crate) fn command(&self, announces: bool) -> Command {
        let mut call = command(&self.program, self.home.path());
        call.env("TS_SOCKET", self.home.path().join("socket")).env("TMPDIR", self.home.path()).env("TS_MAXFINISHED", "5000");
        if announces {
            call.env("TS_ONFINISH", self.home.path().join("announce"));
        }
        call
    }

    pub(crate) fn call(&self, args: &[&str]) -> Result<String> {
        let done = self.command(false).args(args).output().context("cannot run tsp")?;
        ensure!(done.status.success(), "tsp {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim());
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// Waits until this many jobs are done.
    pub(crate) fn until_done(&self, many: usize) -> Result<()> {
        let began = Instant::now();
        while self.call(&[])?.lines().filter(|line| line.contains(" finished ")).count() < many {
            ensure!(began.elapsed() < PATIENCE, "it does not come to an end");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The pid of its server.
    pub(crate) fn server(&self) -> Result<u32> {
        super::server_of(&self.home.path().join("socket")).context("tsp has no server")
    }
}

impl Drop for Spooler {
    fn drop(&mut self) {
        // Its jobs keep running when the server ends, so they are ended first.
        let _ended = self.call(&["-K"]);
    }
}
