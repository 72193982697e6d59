//! What all places share: a directory with the programs, the running call, and everything that has to be undone.

use anyhow::{Context, Result, bail, ensure};
use outlast_testkit::leftovers;
use outlast_testkit::product::kill_and_wait;
use std::cell::OnceCell;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

use super::containers::Daemon;

/// Set by Ctrl-C or TERM: the campaign ends when the running call has ended, and everything is undone.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The process group of the running call.
static RUNNING: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Bench {
    /// Everything that is created is below this directory.
    root: tempfile::TempDir,
    /// Dockerd, started by the first place that needs it; or why there is none.
    daemon: OnceCell<Result<Daemon, String>>,
}

impl Bench {
    pub(crate) fn new(program: PathBuf) -> Result<Self> {
        watch_for_interrupts()?;
        let root = tempfile::Builder::new().prefix("ol-places-").permissions(PermissionsExt::from_mode(0o755)).tempdir()?;
        let bench = Self { root, daemon: OnceCell::new() };
        std::fs::create_dir(bench.bin())?;
        let keeper = program.with_file_name("outlast-keeper");
        for file in [&program, &keeper, &std::env::current_exe()?] {
            if file.exists() {
                let to = bench.bin().join(file.file_name().context("a name")?);
                std::fs::hard_link(file, &to)
                    .or_else(|_| std::fs::copy(file, &to).map(drop))
                    .with_context(|| format!("{}", to.display()))?;
            }
        }
        Ok(bench)
    }

    /// The directory of the programs: `outlast`, its keeper and this one.
    pub(crate) fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    /// A directory for one place.
    pub(crate) fn dir(&self, name: &str) -> Result<PathBuf> {
        let dir = self.root.path().join(name);
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// The same, writable for any user.
    pub(crate) fn home(&self, name: &str) -> Result<PathBuf> {
        let dir = self.dir(name)?;
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o1777))?;
        Ok(dir)
    }

    pub(crate) fn daemon(&self) -> Result<&Daemon> {
        let daemon = self.daemon.get_or_init(|| Daemon::start(&self.root.path().join("docker")).map_err(|e| format!("{e:#}")));
        daemon.as_ref().map_err(|why| anyhow::anyhow!("{why}"))
    }

    /// The call of the smoke set on this machine.
    pub(crate) fn smoke(&self, dir: &Path, flags: &[&str]) -> Command {
        let mut command = Command::new(self.bin().join("xtask"));
        command.args(smoke_args(&self.bin(), dir, flags)).current_dir("/");
        command
    }

    /// Makes the call and collects the results of its checks.
    pub(crate) fn run(&self, mut command: Command) -> Result<Ran> {
        // The call has a process group of its own, so that Ctrl-C at a terminal reaches only us, and everything ends in order.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("run {}", command.get_program().display()))?;
        RUNNING.store(child.id(), SeqCst);
        let err = child.stderr.take().context("a pipe")?;
        let err = std::thread::spawn(move || BufReader::new(err).lines().map_while(Result::ok).collect::<Vec<_>>());
        let (mut ran, mut last) = (Ran::default(), Vec::new());
        for line in BufReader::new(child.stdout.take().context("a pipe")?).split(b'\n') {
            // A console may print anything.
            let line = String::from_utf8_lossy(&line?).into_owned();
            ran.take(&line);
            last.push(line.trim_end().to_owned());
            last.drain(..last.len().saturating_sub(3));
        }
        let status = child.wait()?;
        RUNNING.store(0, SeqCst);
        let err = err.join().unwrap_or_default();
        if ran.good.is_empty() && ran.failed.is_empty() {
            last.extend(err.iter().skip(err.len().saturating_sub(3)).cloned());
            bail!("nothing ran there ({status}): {}", last.join(" | "));
        }
        if !status.success() && ran.failed.is_empty() {
            ran.failed.push(("all".into(), format!("the smoke set ended early ({status}): {}", err.join(" | "))));
        }
        Ok(ran)
    }

    /// Makes a call and shows the lines of its output that contain one of these words. Returns whether it succeeded.
    pub(crate) fn shown(&self, mut command: Command, words: &[&str]) -> Result<bool> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().with_context(|| format!("run {}", command.get_program().display()))?;
        RUNNING.store(child.id(), SeqCst);
        for line in BufReader::new(child.stdout.take().context("a pipe")?).split(b'\n') {
            let line = String::from_utf8_lossy(&line?).into_owned();
            if words.iter().any(|word| line.contains(word)) {
                println!("{line}");
            }
        }
        let status = child.wait()?;
        RUNNING.store(0, SeqCst);
        Ok(status.success())
    }

    /// An error once Ctrl-C was pressed.
    pub(crate) fn checked(&self) -> Result<()> {
        ensure!(!INTERRUPTED.load(SeqCst), "interrupted");
        Ok(())
    }
}

/// The arguments of the smoke set, with programs in `bin` and a home below `dir`, as seen from where it runs.
pub(crate) fn smoke_args(bin: &Path, dir: &Path, flags: &[&str]) -> Vec<String> {
    let mut args = vec!["__smoke".to_owned(), "--program".into(), bin.join("outlast").display().to_string()];
    args.extend(["--dir".into(), dir.display().to_string()]);
    args.extend(flags.iter().map(|f| (*f).to_owned()));
    args
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(self.daemon.take());
        // Processes that an interrupted place left on this machine have a home below the root on their command line or in their
        // environment.
        for (pid, _) in leftovers::processes(self.root.path()) {
            let _gone = kill_and_wait(pid);
        }
    }
}

/// The results of the checks in one place.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    pub(crate) good: Vec<String>,
    /// The name of each failed check, and why.
    pub(crate) failed: Vec<(String, String)>,
    /// What `doctor` reports as weaker there.
    pub(crate) weaker: Vec<String>,
    /// Why it was not tried.
    pub(crate) skipped: Option<String>,
}

impl Ran {
    pub(crate) fn skipped(why: String) -> Self {
        Self { skipped: Some(why), ..Self::default() }
    }

    fn take(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(name) = line.strip_prefix("ok ").and_then(|l| l.split(' ').next()) {
            self.good.push(name.to_owned());
        } else if let Some((name, why)) = line.strip_prefix("FAILED ").and_then(|l| l.split_once(": ")) {
            self.failed.push((name.to_owned(), why.to_owned()));
        } else if let Some(what) = line.strip_prefix("weaker ").or_else(|| line.strip_prefix("said ")) {
            self.weaker.push(what.to_owned());
        }
    }

    /// Adds the results of another call in the same place.
    pub(crate) fn add(&mut self, other: Self) {
        self.good.extend(other.good);
        self.failed.extend(other.failed);
        for what in other.weaker {
            if !self.weaker.contains(&what) {
                self.weaker.push(what);
            }
        }
    }

    pub(crate) fn line(&self, name: &str) -> String {
        if let Some(why) = &self.skipped {
            return format!("skipped: {name}: {why}");
        }
        let mut text = format!("{name:<24} {:>3} passed {:>3} failed", self.good.len(), self.failed.len());
        for (check, why) in self.failed.iter().filter(|(_, why)| !why.starts_with("not tried")) {
            text += &format!("\n    FAILED {check}: {}", why.chars().take(400).collect::<String>());
        }
        text
    }
}

/// On a signal, ends the running call, so that everything is undone in the ordinary way.
fn watch_for_interrupts() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut int, mut term, mut hup) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?)
    };
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! { _ = int.recv() => {}, _ = term.recv() => {}, _ = hup.recv() => {} }
                INTERRUPTED.store(true, SeqCst);
                if let Some(group) = rustix::process::Pid::from_raw(RUNNING.load(SeqCst) as i32) {
                    // If it has ended already, there is nothing to signal.
                    let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
            }
        });
    });
    Ok(())
}
