//! The real `outlast` in a home of its own.

use crate::os::Refusal;
use crate::{leftovers, points::Points};
use anyhow::{Result, bail, ensure};
use outlast_core::ProcessId;
use outlast_store::dir::{Home, ProcessDir};
use outlast_store::meta::Snapshot;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

pub use crate::waiting::{PATIENCE, eventually, kill_and_wait, terminate, wait_for_end};

/// A home, and the program that serves it. Dropping it stops everything, and fails the test if anything is left behind.
#[derive(Debug)]
pub struct Product {
    tmp: Option<tempfile::TempDir>,
    root: PathBuf,
    home: PathBuf,
    program: PathBuf,
    points: Points,
    env: Vec<(OsString, OsString)>,
    refused: Vec<Refusal>,
}

impl Product {
    /// A fresh home in the temp directory; `program` is the `outlast` to test.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self::in_dir(program, &std::env::temp_dir())
    }

    /// A fresh home with an engine in it, for documentation examples. The engine is started here, so that the user's settings and
    /// login files have no effect.
    pub fn running() -> Self {
        let product = Self::new(crate::built::program("outlast"));
        product.engine();
        product
    }

    /// A fresh home below `parent`.
    pub fn in_dir(program: impl Into<PathBuf>, parent: &Path) -> Self {
        let tmp = tempfile::Builder::new().prefix("ol-").tempdir_in(parent).expect("a temp directory");
        let root = tmp.path().to_owned();
        for dir in ["user", "work"] {
            std::fs::create_dir(root.join(dir)).expect("a directory");
        }
        let points = Points::new(root.join("points")).expect("a directory");
        Self { tmp: Some(tmp), home: root.join("home"), root, program: program.into(), points, env: Vec::new(), refused: Vec::new() }
    }

    /// The same, with its state directory elsewhere. The caller removes it.
    pub fn with_home(mut self, home: PathBuf) -> Self {
        self.home = home;
        self
    }

    /// The same, with a variable in the environment of every call.
    pub fn with_env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The same, with a system call refused for every call of the program and all its descendants.
    pub fn refusing(mut self, refusal: Refusal) -> Self {
        self.refused.push(refusal);
        self
    }

    /// The `outlast` under test.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The state directory.
    pub fn home(&self) -> Home {
        Home { root: self.home.clone() }
    }

    /// A directory for the test's own files; commands run there.
    pub fn work(&self) -> PathBuf {
        self.root.join("work")
    }

    /// The user's home directory, with empty dotfiles.
    pub fn user(&self) -> PathBuf {
        self.root.join("user")
    }

    /// Its test points.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// Writes the configuration file.
    pub fn configure(&self, toml: &str) {
        let dir = self.user().join(".config/outlast");
        std::fs::create_dir_all(&dir).expect("a directory");
        std::fs::write(dir.join("config.toml"), toml).expect("a file");
    }

    /// A call of the program, in a clean environment.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(args)
            .env_clear()
            .env("HOME", self.user())
            .env("USER", "tester")
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("OUTLAST_HOME", self.home().root)
            .env("OUTLAST_TEST_POINTS", self.points.dir())
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .current_dir(self.work())
            .stdin(Stdio::null());
        if !self.refused.is_empty() {
            crate::os::refuse(&mut command, &self.refused);
        }
        command
    }

    /// Calls the program and returns its output.
    pub fn call<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Answer {
        Answer::of(self.command(args).output().expect("outlast runs"))
    }

    /// Calls the program with this standard input.
    pub fn call_with_input<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, input: &[u8]) -> Answer {
        use std::io::Write;
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("outlast runs");
        // A call that is refused closes its input early; its answer says so.
        let _refused = child.stdin.take().expect("a pipe").write_all(input);
        Answer::of(child.wait_with_output().expect("outlast ends"))
    }

    /// Calls the program with `--json` and returns the object that it prints, whatever its exit code.
    pub fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        let args: Vec<OsString> = args.into_iter().map(|a| a.as_ref().to_owned()).collect();
        let (verb, rest) = args.split_first().expect("a verb");
        self.call([verb.clone(), "--json".into()].into_iter().chain(rest.iter().cloned())).json()
    }

    /// Starts a shell line and returns its id.
    pub fn run(&self, line: &str) -> String {
        self.run_with(&[], line)
    }

    /// Starts a shell line with flags and returns its id.
    pub fn run_with(&self, flags: &[&str], line: &str) -> String {
        let started = self.json(["run"].iter().chain(flags).chain(&["--", line]));
        started["session_id"].as_str().unwrap_or_else(|| panic!("not started: {started}")).to_owned()
    }

    /// Waits for the end and returns the answer.
    pub fn wait(&self, id: &str) -> Value {
        self.json(["wait", id, "--timeout", "60"])
    }

    /// The process's folder.
    pub fn folder(&self, id: &str) -> ProcessDir {
        self.home().process(id.parse::<ProcessId>().expect("a process id"))
    }

    /// The current contents of its `meta`.
    pub fn meta(&self, id: &str) -> Snapshot {
        Snapshot::read(&self.folder(id)).expect("a meta file")
    }

    /// The contents of its `meta` once both keepers have done all work for its start and wait for events.
    pub fn meta_at_rest(&self, id: &str) -> Snapshot {
        eventually("keepers at rest", || {
            let meta = self.meta(id);
            [meta.pump, meta.holder].into_iter().all(waits_in_poll).then_some(meta)
        })
    }

    /// The pid of the engine, which is started if none runs.
    pub fn engine(&self) -> u32 {
        let status = self.json(["engine", "start"]);
        status["pid"].as_u64().unwrap_or_else(|| panic!("no engine: {status}")) as u32
    }

    /// Kills the engine with SIGKILL and waits until it has exited.
    pub fn kill_engine(&self) -> u32 {
        let pid = self.engine();
        kill_and_wait(pid).expect("the engine can be killed");
        pid
    }

    /// All living processes of this home.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let mut all = leftovers::processes(&self.root);
        if !self.home.starts_with(&self.root) {
            all.extend(leftovers::processes(&self.home).into_iter().filter(|one| !all.contains(one)).collect::<Vec<_>>());
        }
        all
    }

    /// Stops all processes, then the engine, and waits until none is left.
    pub fn shut_down(&self) -> Result<()> {
        if self.home().root.exists() {
            self.call(["kill", "--all", "--grace", "0"]);
            self.call(["engine", "stop"]);
        }
        let tag = self.socket_dir().and_then(|d| Some(d.file_name()?.to_str()?.to_owned()));
        let began = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            if began.elapsed() > PATIENCE {
                for (pid, _) in &left {
                    // It must not disturb the next test; the failure is reported below.
                    let _gone = kill_and_wait(*pid);
                }
                bail!("still running: {left:?}");
            }
            wait_for_end(left[0].0, Duration::from_secs(1));
        }
        if let Some(dir) = self.socket_dir() {
            let mut names: Vec<_> = std::fs::read_dir(&dir).map(|d| d.flatten().map(|e| e.file_name()).collect()).unwrap_or_default();
            // The engine's own socket is replaced at its next start.
            names.retain(|n| n != "engine");
            ensure!(names.is_empty(), "sockets left: {names:?}");
            std::fs::remove_dir_all(&dir).or_else(|e| if e.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
        }
        if let Some(tag) = tag {
            let left = leftovers::cgroups(&tag);
            ensure!(left.is_empty(), "cgroups left: {left:?}");
        }
        Ok(())
    }

    /// The directory of its sockets.
    pub fn socket_dir(&self) -> Option<PathBuf> {
        std::fs::read_link(self.home().run_link()).ok()
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        let done = self.shut_down().and_then(|()| crate::machine::unmount_all(&self.root));
        if std::thread::panicking() || done.is_err() {
            // A failure keeps its directory and log.
            let kept = self.tmp.take().map(tempfile::TempDir::keep);
            eprintln!("kept: {}", kept.unwrap_or_default().display());
        }
        let done = done.and_then(|()| Ok(self.tmp.take().map_or(Ok(()), tempfile::TempDir::close)?));
        if let (Err(e), false) = (done, std::thread::panicking()) {
            panic!("left behind: {e:#}");
        }
    }
}

/// The output of a call.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its exit code, if it exited.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: Vec<u8>,
    /// Its standard error, as text.
    pub err: String,
}

impl Answer {
    fn of(output: Output) -> Self {
        Self { code: output.status.code(), out: output.stdout, err: String::from_utf8_lossy(&output.stderr).into_owned() }
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Standard output as one JSON object.
    pub fn json(&self) -> Value {
        let text = self.text();
        assert_eq!(text.lines().count(), 1, "one object on one line, not {text:?} (stderr {:?})", self.err);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("not JSON: {e}: {text:?}"))
    }

    /// The same, if it exited 0.
    pub fn good(self) -> Self {
        assert_eq!(self.code, Some(0), "out {:?} err {:?}", self.text(), self.err);
        self
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self::of(output)
    }
}

/// Whether a process waits in `poll`. True if the kernel does not say where it is.
fn waits_in_poll(pid: u32) -> bool {
    let Ok(call) = std::fs::read_to_string(format!("/proc/{pid}/syscall")) else { return pid != 0 };
    let number = call.split(' ').next().and_then(|number| number.parse().ok());
    #[cfg(target_arch = "x86_64")]
    let is_old_poll = number == Some(libc::SYS_poll);
    #[cfg(not(target_arch = "x86_64"))]
    let is_old_poll = false;
    is_old_poll || number == Some(libc::SYS_ppoll)
}
