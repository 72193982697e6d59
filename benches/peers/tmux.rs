//! tmux: sessions that keep running without a terminal.

use super::{command, install};
use crate::bench_suite::harness::{Bench, Who};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server in a home of its own, ended when it is dropped.
pub(crate) struct Tmux {
    program: PathBuf,
    home: tempfile::TempDir,
}

impl Tmux {
    pub(crate) fn ready(bench: &mut Bench) -> Option<Self> {
        super::ready(bench, Who::Tmux, |bench| {
            let program = install::debian("tmux", "tmux")?;
            let home = tempfile::Builder::new().prefix("ol-tmux-").tempdir_in(&bench.settings.disk)?;
            let tmux = Self { program, home };
            // The server stays as long as there is a session.
            tmux.call(&["new-session", "-d", "-s", "first", "sleep 100000"])?;
            Ok(tmux)
        })
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A call of its command line.
    pub(crate) fn command(&self) -> Command {
        let mut call = command(&self.program, self.home.path());
        call.arg("-S").arg(self.home.path().join("socket")).args(["-f", "/dev/null"]);
        call
    }

    pub(crate) fn call(&self, args: &[&str]) -> Result<String> {
        let done = self.command().args(args).output().context("cannot run tmux")?;
        ensure!(done.status.success(), "tmux {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim());
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// The pid of its server.
    pub(crate) fn server(&self) -> Result<u32> {
        self.call(&["display-message", "-p", "#{pid}"])?.trim().parse().context("tmux has no server")
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.call(&["kill-server"]);
    }
}
