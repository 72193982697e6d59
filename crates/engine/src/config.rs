//! The settings of an engine. No other module reads the environment or a configuration file.

use crate::limits::Inherited;
use outlast_core::{Time, limits};
use outlast_wire::v1::Setting;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The settings of an engine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The state directory.
    pub home: PathBuf,
    /// The `outlast` executable: what a keeper with news starts, so that hooks and webhooks are called and notices made while no engine
    /// runs. Without one, news waits in the folder of its process for the next engine.
    pub program: Option<PathBuf>,
    /// The keeper's program.
    pub keeper: KeeperProgram,
    /// Whether secrets are masked for readers.
    pub redact: bool,
    /// How long a stop waits before KILL, if the request has no grace period.
    pub grace: Duration,
    /// How many processes may run at a time.
    pub max_running: usize,
    /// How long a finished process is kept.
    pub keep_for: Duration,
    /// How much disk the processes of the home may take.
    pub keep_bytes: u64,
    /// The longest wait of the `process` tool. The engine itself has no limit.
    pub wait_limit: Duration,
    /// After this age a running process no longer keeps a session from being reset, if the request names no age.
    pub max_age: Duration,
    /// How many bytes of the end of each log are kept.
    pub log_tail_bytes: u64,
    /// How long an idle engine stays; zero means for ever.
    pub idle_exit: Duration,
    /// How long login files may take.
    pub snapshot_limit: Duration,
    /// How many matches of watch patterns are reported.
    pub watch: outlast_core::Rules,
    /// How long a notice is kept once it is settled.
    pub keep_notices: Duration,
    /// The sinks that notices are delivered to.
    pub sinks: Vec<Push>,
    /// The user whose login files and shell are used.
    pub user: UserInfo,
    /// Directories for sockets, best first: short paths, on a tmpfs if there is one.
    pub run_candidates: Vec<PathBuf>,
    /// Whether to leave the starter's session and cgroup. An embedded engine stays where it is.
    pub detach: bool,
    /// Whether to make cgroups: one for the engine outside the starter's, and one for each command. Without them, a stop follows the tree
    /// process by process.
    pub cgroup: bool,
    /// The settings that `engine status` reports. The engine does not use them: the other fields count.
    pub settings: BTreeMap<String, Setting>,
    /// The source of the time.
    pub clock: Clock,
    /// Environment variables for keepers. A keeper that has news starts an engine with them, so it has the same settings. Commands do not
    /// get them.
    pub keeper_env: Vec<(OsString, OsString)>,
    /// The limits that the engine got from its starter; none if the engine left them alone.
    pub(crate) inherited: Option<Inherited>,
    /// The program of links to environments; none if commands can only run on this machine.
    pub link: Option<LinkProgram>,
    /// Where test points are named, with the feature `test-points`.
    pub test_points: Option<PathBuf>,
}

impl Config {
    /// For an engine inside another program: it stays in that program's kernel session and cgroup and runs until it is stopped, and no
    /// keeper starts another one. Change single fields afterwards.
    pub fn embedded(home: impl Into<PathBuf>, keeper: KeeperProgram, user: UserInfo) -> Self {
        Self { program: None, detach: false, idle_exit: Duration::ZERO, ..Self::new(home, PathBuf::new(), keeper, user) }
    }

    /// The defaults of the contract for a home. Change single fields afterwards.
    pub fn new(home: impl Into<PathBuf>, program: impl Into<PathBuf>, keeper: KeeperProgram, user: UserInfo) -> Self {
        Self {
            home: home.into(),
            program: Some(program.into()),
            keeper,
            redact: true,
            grace: limits::DEFAULT_GRACE,
            max_running: limits::DEFAULT_MAX_RUNNING,
            keep_for: limits::DEFAULT_KEEP_FOR,
            keep_bytes: limits::DEFAULT_KEEP_BYTES,
            wait_limit: limits::DEFAULT_WAIT_LIMIT,
            max_age: limits::DEFAULT_MAX_AGE,
            log_tail_bytes: limits::LOG_TAIL_BYTES,
            idle_exit: Duration::from_secs(600),
            snapshot_limit: crate::shell::DEFAULT_LIMIT,
            watch: outlast_core::Rules::default(),
            keep_notices: limits::DEFAULT_KEEP_FOR,
            sinks: Vec::new(),
            user,
            run_candidates: vec!["/dev/shm".into(), "/tmp".into()],
            detach: true,
            cgroup: true,
            settings: BTreeMap::new(),
            clock: Clock::system(),
            keeper_env: Vec::new(),
            inherited: None,
            link: None,
            test_points: None,
        }
    }
}

/// The keeper's program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeeperProgram {
    /// `outlast-keeper`, started as `outlast-keeper DIR`.
    Binary(PathBuf),
    /// A program that becomes a keeper when it is started as `PROGRAM __keeper DIR`, such as `outlast`.
    SelfAsKeeper(PathBuf),
}

impl KeeperProgram {
    /// The running program, so that an embedding program needs no other. Its `main` has to run the keeper if the first argument is
    /// `__keeper`.
    pub fn this_program() -> Self {
        // The running executable, also if its file was replaced or removed since.
        Self::SelfAsKeeper("/proc/self/exe".into())
    }

    /// The file.
    pub fn path(&self) -> &std::path::Path {
        match self {
            Self::Binary(path) | Self::SelfAsKeeper(path) => path,
        }
    }
}

/// The program of links: one process of it for each environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkProgram {
    /// The file.
    pub path: PathBuf,
    /// Its whole environment: it reads the configuration, and runs programs of the user such as `ssh`.
    pub env: Vec<(OsString, OsString)>,
}

/// A sink, and which notices it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// Its name.
    pub name: String,
    /// The kinds of notices it gets; empty means all.
    pub kinds: Vec<String>,
    /// The sessions whose notices it gets, with `*` for any text; empty means all.
    pub sessions: Vec<String>,
    /// Whether it wakes the agent itself. A notice that it delivered is not delivered to other takers, and it does not deliver those that
    /// they have.
    pub wakes: bool,
}

impl Push {
    /// A sink that observes all notices.
    pub fn observer(name: impl Into<String>) -> Self {
        Self { name: name.into(), kinds: Vec::new(), sessions: Vec::new(), wakes: false }
    }

    pub(crate) fn takes(&self, kind: &str, session: &str) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|k| k == kind))
            && (self.sessions.is_empty() || self.sessions.iter().any(|pattern| glob(pattern, session)))
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// The user whose login files and shell count.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UserInfo {
    /// The login name.
    pub name: String,
    /// The home directory.
    pub home: PathBuf,
    /// The login shell.
    pub shell: PathBuf,
}

impl UserInfo {
    /// A user with a home directory and a login shell.
    pub fn new(name: impl Into<String>, home: impl Into<PathBuf>, shell: impl Into<PathBuf>) -> Self {
        Self { name: name.into(), home: home.into(), shell: shell.into() }
    }

    /// The user named by the variables `USER`, `HOME` and `SHELL`. Missing ones count as empty, `/` and `/bin/sh`.
    pub fn of_env(env: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut user = Self::new("", "/", "/bin/sh");
        for (name, value) in env.into_iter().filter(|(_, value)| !value.is_empty()) {
            match name.to_str() {
                Some("USER") => user.name = value.to_string_lossy().into_owned(),
                Some("HOME") => user.home = value.into(),
                Some("SHELL") => user.shell = value.into(),
                _ => {}
            }
        }
        user
    }
}

/// The source of the time. Tests replace it.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> Time + Send + Sync>,
    /// Time that passes, from an arbitrary start, unaffected by changes of the clock.
    elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Clock {
    /// The clock of the system.
    pub fn system() -> Self {
        Self::with_elapsed(outlast_store::os::now, || Duration::from_nanos(outlast_store::os::boottime_ns()))
    }

    /// A clock that shows what `now` returns. Elapsed time comes from it too, so it never looks like a clock that was set.
    pub fn of(now: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        let now = Arc::new(now);
        let same = Arc::clone(&now);
        Self::with_elapsed(move || now(), move || Duration::from_micros(u64::try_from(same().micros()).unwrap_or(0)))
    }

    /// A clock that shows what `now` returns, with elapsed time from `elapsed`. If the two differ, the clock was set.
    pub fn with_elapsed(now: impl Fn() -> Time + Send + Sync + 'static, elapsed: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { now: Arc::new(now), elapsed: Arc::new(elapsed) }
    }

    /// UTC now.
    pub fn now(&self) -> Time {
        (self.now)()
    }

    /// How much time has passed since an arbitrary start.
    pub(crate) fn elapsed(&self) -> Duration {
        (self.elapsed)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({})", self.now())
    }
}
