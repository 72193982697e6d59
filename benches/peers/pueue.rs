//! pueue: a daemon with a queue, and a command line.

use super::{command, install};
use crate::bench_suite::harness::{Bench, Who};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time limit of short operations.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the benchmark asks whether all jobs are done. Pueue does not notify.
const LOOK: Duration = Duration::from_millis(200);

/// A daemon in a home of its own, shut down when it is dropped.
pub(crate) struct Pueue {
    bin: PathBuf,
    home: tempfile::TempDir,
    daemon: Child,
}

impl Pueue {
    /// A daemon that runs this many jobs at a time.
    pub(crate) fn ready(bench: &mut Bench, wide: usize) -> Option<Self> {
        Self::with(bench, wide, |_| "daemon: {}".to_owned())
    }

    /// A daemon that also writes ends into a file, with a command for each.
    pub(crate) fn announcing(bench: &mut Bench, wide: usize) -> Option<Self> {
        Self::with(bench, wide, |home| {
            format!("daemon:\n  callback: \"echo {{{{ id }}}} {{{{ exit_code }}}} >> {}\"", home.join("announced").display())
        })
    }

    fn with(bench: &mut Bench, wide: usize, daemon: impl FnOnce(&Path) -> String) -> Option<Self> {
        super::ready(bench, Who::Pueue, |bench| {
            let bin = install::pueue(&bench.settings)?;
            let home = tempfile::Builder::new().prefix("ol-pueue-").tempdir_in(&bench.settings.disk)?;
            let at = |name: &str| home.path().join(name).display().to_string();
            let config = format!(
                "client: {{}}\n{}\nshared:\n  pueue_directory: {}\n  runtime_directory: {}\n  use_unix_socket: true\n  unix_socket_path: {}\n",
                daemon(home.path()),
                at("state"),
                at("run"),
                at("socket"),
            );
            std::fs::create_dir(home.path().join("run"))?;
            std::fs::write(home.path().join("pueue.yml"), config)?;
            let daemon = start(&bin, home.path())?;
            let pueue = Self { bin, home, daemon };
            pueue.until_there()?;
            pueue.call(&["parallel", &wide.to_string()])?;
            Ok(pueue)
        })
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// A call of its command line.
    pub(crate) fn command(&self) -> Command {
        let mut call = command(self.bin.join("pueue"), self.home.path());
        call.arg("--config").arg(self.home.path().join("pueue.yml"));
        call
    }

    pub(crate) fn call(&self, args: &[&str]) -> Result<String> {
        let done = self.command().args(args).output().context("cannot run pueue")?;
        ensure!(done.status.success(), "pueue {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim());
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    /// Its tasks, as it lists them.
    pub(crate) fn tasks(&self) -> Result<Vec<Value>> {
        let status: Value = serde_json::from_str(&self.call(&["status", "--json"])?)?;
        Ok(status["tasks"].as_object().context("a status has tasks")?.values().cloned().collect())
    }

    /// Waits until this many jobs are done.
    pub(crate) fn until_done(&self, many: usize) -> Result<()> {
        let began = Instant::now();
        while self.tasks()?.iter().filter(|task| task["status"]["Done"].is_object()).count() < many {
            ensure!(began.elapsed() < PATIENCE * 60, "it does not come to an end");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Kills the daemon, and starts another.
    pub(crate) fn crash(&mut self) -> Result<()> {
        self.daemon.kill()?;
        self.daemon.wait()?;
        // A user would remove the files that it left, too.
        let _left = std::fs::remove_file(self.home.path().join("socket"));
        let _left = std::fs::remove_file(self.home.path().join("run/pueue.pid"));
        self.daemon = start(&self.bin, self.home.path())?;
        self.until_there()
    }

    fn until_there(&self) -> Result<()> {
        let began = Instant::now();
        while let Err(e) = self.call(&["status"]) {
            ensure!(began.elapsed() < PATIENCE, "{e:#}");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Pueue {
    fn drop(&mut self) {
        // Its jobs end with it. It is stopped even if it does not answer.
        let _killed = self.call(&["kill", "--all"]);
        let _asked = self.call(&["shutdown"]);
        let began = Instant::now();
        while began.elapsed() < PATIENCE && matches!(self.daemon.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        let _killed = self.daemon.kill();
        let _reaped = self.daemon.wait();
    }
}

fn start(bin: &Path, home: &Path) -> Result<Child> {
    let log = std::fs::File::create(home.join("daemon.log"))?;
    let mut daemon = command(bin.join("pueued"), home);
    daemon.arg("--config").arg(home.join("pueue.yml")).stdout(Stdio::null()).stderr(log);
    daemon.spawn().context("cannot start pueued")
}
