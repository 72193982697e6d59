//! The one place that reads environment, configuration file and user: below it they are arguments.
//!
//! A value comes from the environment, else from `config.toml`, else from the contract. One that cannot be read is warned about and defaulted.

#[path = "config/detach.rs"]
mod detach;
#[path = "config/gateway.rs"]
mod gateway;
#[path = "config/keys.rs"]
mod keys;
#[path = "config/sinks.rs"]
mod sinks;

pub(crate) use detach::DetachKey;
#[allow(unused_imports)] // Only the gateway's own program makes something of them.
pub(crate) use gateway::{AgentTable, GatewayTable, LimitTable, Permission, ResetTable};
pub(crate) use sinks::Sinks;

use anyhow::Context as _;
use outlast_core::{Owner, Rules, expand_home, limits};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The lock file that marks a directory as the scratch home of a `doctor`.
pub(crate) const TRIAL_LOCK: &str = "doctor.lock";

/// What this process was started with.
#[derive(Debug)]
pub(crate) struct World {
    /// The environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// The working directory.
    pub(crate) cwd: PathBuf,
    /// Which permissions new files lack, where the system says.
    pub(crate) umask: Option<u32>,
    /// I/O class and level, if the system reports them.
    pub(crate) io_priority: Option<i32>,
    /// This executable.
    pub(crate) program: PathBuf,
    /// The user.
    pub(crate) user: User,
}

/// The user whose login files and shell count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) home: Option<PathBuf>,
    pub(crate) shell: PathBuf,
}

/// What is configured.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) home: PathBuf,
    pub(crate) file: PathBuf,
    pub(crate) redact: bool,
    pub(crate) grace: Duration,
    pub(crate) max_running: usize,
    pub(crate) keep_for: Duration,
    pub(crate) keep_bytes: u64,
    pub(crate) wait_limit: Duration,
    pub(crate) foreground_limit: Duration,
    pub(crate) max_age: Duration,
    pub(crate) log_tail_bytes: u64,
    pub(crate) idle_exit: Duration,
    pub(crate) snapshot_limit: Duration,
    pub(crate) cgroup: bool,
    /// How much is told of lines that match.
    pub(crate) watch: Rules,
    /// How long a notice is kept once it is settled.
    pub(crate) keep_notices: Duration,
    /// What leaves an `attach`.
    pub(crate) detach_key: DetachKey,
    /// How a person at a terminal is told that a process has ended.
    #[allow(dead_code)] // The gateway tells in conversations.
    pub(crate) notify: Notify,
    /// How long a process must have run for that.
    #[allow(dead_code)] // The gateway tells in conversations.
    pub(crate) notify_after: Duration,
    /// The sinks that push.
    pub(crate) sinks: Sinks,
    /// How the gateway runs.
    #[allow(dead_code)] // Only the gateway's own program makes something of it.
    pub(crate) gateway: GatewayTable,
    /// The file as it was read.
    pub(crate) tables: toml::Table,
    /// Each value as it counts, and where it came from.
    pub(crate) shown: Vec<Shown>,
    /// What was wrong with those that were defaulted.
    pub(crate) warnings: Vec<String>,
    /// Why nothing of the file could be read.
    pub(crate) unreadable: Option<String>,
}

/// One effective value.
#[derive(Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) key: &'static str,
    pub(crate) value: toml::Value,
    pub(crate) from: Origin,
}

/// Where colours are welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    Never,
    OnTerminals,
    Always,
}

/// How a person at a terminal is told that a process has ended, unless a flag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notify {
    Off,
    /// By the terminal from which the process was started.
    Terminal,
    /// By the desktop.
    Desktop,
}

/// Which sequence has a terminal show a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code)] // The gateway has no terminal.
pub(crate) enum TerminalNotice {
    /// None: the bell is all it has.
    None,
    Osc9,
    Osc777,
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File,
    Env(&'static str),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File => f.write_str("config.toml"),
            Self::Env(name) => write!(f, "environment ({name})"),
        }
    }
}

impl World {
    /// As it is now.
    pub(crate) fn here() -> Self {
        let env: Vec<_> = std::env::vars_os().collect();
        let uid = rustix::process::getuid().as_raw();
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let user = user(&passwd, uid, |name| lookup(&env, name));
        let cwd = crate::os::working_dir();
        let umask = std::fs::read_to_string("/proc/self/status").ok().and_then(|s| umask(&s));
        Self { cwd, umask, io_priority: crate::os::io_priority(), program: program(), user, env }
    }

    /// A variable that is set and not empty.
    pub(crate) fn var(&self, name: &str) -> Option<&OsStr> {
        self.env.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_os_str())
    }

    /// The file or directory that a flag or a variable names: `~` is the user's home directory, a relative path is relative to the working
    /// directory.
    pub(crate) fn path(&self, given: impl AsRef<Path>) -> PathBuf {
        self.cwd.join(expand_home(given.as_ref(), self.user.home.as_deref()))
    }

    /// The variables that settings, home and user are found by, for an engine that is started without a caller. Nothing of a conversation is among them.
    pub(crate) fn settings_env(&self, sinks: &Sinks) -> Vec<(OsString, OsString)> {
        const OF_A_CALL: [&str; 5] = ["OUTLAST_SESSION", "OUTLAST_TASK", "OUTLAST_GENERATION", "OUTLAST_PROCESS_ID", "OUTLAST_TEST_POINTS"];
        const PLAIN: [&str; 9] = ["HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "TZ", "TERMINAL_TIMEOUT", "HERMES_REDACT_SECRETS"];
        let secret = |name: &str| sinks.secret_env.iter().any(|n| n == name);
        let wanted = |name: &str| {
            PLAIN.contains(&name)
                || secret(name)
                || name.starts_with("XDG_")
                || (name.starts_with("OUTLAST_") && !OF_A_CALL.contains(&name))
        };
        self.env.iter().filter(|(name, _)| name.to_str().is_some_and(wanted)).cloned().collect()
    }

    /// For whom requests are made, unless flags say.
    pub(crate) fn owner(&self) -> Owner {
        let text = |name| self.var(name).map(|v| v.to_string_lossy().into_owned());
        Owner { session: text("OUTLAST_SESSION"), task: text("OUTLAST_TASK"), generation: text("OUTLAST_GENERATION") }
    }

    /// Where colours are welcome: `NO_COLOR` forbids them, `CLICOLOR_FORCE` asks for them whatever reads the output, `CLICOLOR=0` and a terminal that knows none
    /// are content without.
    pub(crate) fn colours(&self) -> Colours {
        let forced = self.var("CLICOLOR_FORCE").is_some_and(|v| v != "0");
        match (self.var("NO_COLOR").is_some(), forced) {
            (true, _) => Colours::Never,
            (false, true) => Colours::Always,
            (false, false) if self.is_dumb() || self.var("CLICOLOR").is_some_and(|v| v == "0") => Colours::Never,
            (false, false) => Colours::OnTerminals,
        }
    }

    /// The time zone of the user: that of `TZ`, else that of the machine.
    #[allow(dead_code)] // The gateway's own program shows no times.
    pub(crate) fn zone(&self) -> jiff::tz::TimeZone {
        jiff::tz::TimeZone::system()
    }

    /// The editor of the user, which may have arguments.
    #[allow(dead_code)] // The gateway's own program edits nothing.
    pub(crate) fn editor(&self) -> OsString {
        self.var("VISUAL").or_else(|| self.var("EDITOR")).map_or_else(|| "vi".into(), OsStr::to_owned)
    }

    /// The directory for short-lived files.
    #[allow(dead_code)] // The gateway's own program has none.
    pub(crate) fn temp_dir(&self) -> PathBuf {
        self.var("TMPDIR").map(PathBuf::from).filter(|dir| dir.is_absolute()).unwrap_or_else(|| "/tmp".into())
    }

    /// Which sequence has the terminal show a notice. VTE, rxvt and foot understand OSC 777, others OSC 9 if any.
    #[allow(dead_code)] // The gateway has no terminal.
    pub(crate) fn terminal_notice(&self) -> TerminalNotice {
        let term = self.var("TERM").and_then(OsStr::to_str).unwrap_or_default();
        match term {
            "" | "dumb" | "linux" => TerminalNotice::None,
            _ if self.var("VTE_VERSION").is_some() || term.starts_with("rxvt") || term.starts_with("foot") => TerminalNotice::Osc777,
            _ => TerminalNotice::Osc9,
        }
    }

    /// Whether the terminal, if there is one, cannot rewrite a line.
    pub(crate) fn is_dumb(&self) -> bool {
        self.var("TERM").is_none_or(|t| t == "dumb")
    }

    /// `outlast-keeper` beside this executable, if it is there.
    pub(crate) fn keeper(&self) -> Option<PathBuf> {
        self.beside("outlast-keeper")
    }

    /// `outlast-gateway` beside this executable, if it is there.
    pub(crate) fn gateway(&self) -> Option<PathBuf> {
        self.beside("outlast-gateway")
    }

    fn beside(&self, name: &str) -> Option<PathBuf> {
        let path = self.program.with_file_name(name);
        let usable = rustix::fs::access(&path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file();
        usable.then_some(path)
    }

    /// Where sockets may lie, best first: short paths on a tmpfs.
    pub(crate) fn socket_places(&self) -> Vec<PathBuf> {
        let runtime = self.var("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
        runtime.into_iter().chain(["/dev/shm".into(), "/tmp".into()]).collect()
    }

    /// Reads the configuration, and finds the state directory.
    pub(crate) fn settings(&self) -> anyhow::Result<Settings> {
        Ok(self.settings_in(self.home()?))
    }

    /// The state directory.
    pub(crate) fn home(&self) -> anyhow::Result<PathBuf> {
        match self.var("OUTLAST_HOME") {
            Some(home) => Ok(self.path(home)),
            None => Ok(self.xdg("XDG_STATE_HOME", ".local/state").context("no home directory is known: set OUTLAST_HOME")?.join("outlast")),
        }
    }

    /// Reads the configuration for a given state directory.
    pub(crate) fn settings_in(&self, home: PathBuf) -> Settings {
        let file = self.config_home().map(|dir| dir.join("outlast/config.toml"));
        let file = file.unwrap_or_else(|| "/etc/outlast/config.toml".into());
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => Ok(text),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(e) => Err(e.to_string()),
        };
        let mut settings = read(home, file, text, self.user.home.as_deref(), |name| self.var(name).map(OsStr::to_owned));
        let (file, warnings) = (settings.file.clone(), &mut settings.warnings);
        let names = FileNames { file: &file, user_home: self.user.home.as_deref() };
        settings.sinks = sinks::read(&settings.tables, &names, &self.env, warnings);
        if settings.home.join(TRIAL_LOCK).exists() {
            // The receivers of hooks and webhooks would take a trial for real notices.
            settings.sinks = Sinks::default();
        }
        settings
    }

    /// Where the user's programs have their configuration.
    pub(crate) fn config_home(&self) -> Option<PathBuf> {
        self.xdg("XDG_CONFIG_HOME", ".config")
    }

    /// A directory of another program's: where its variable says, else below the user's home.
    pub(crate) fn place(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let set = self.var(variable).map(|dir| self.path(dir));
        set.or_else(|| self.user.home.as_ref().map(|home| home.join(below_home)))
    }

    /// This executable under the name that lasts longest: the one it is found by, which an upgrade leaves in place, else its own. None where nobody can say.
    pub(crate) fn lasting_program(&self) -> Option<PathBuf> {
        let real = self.program.canonicalize().ok().filter(|p| p.is_absolute() && !self.program.starts_with("/proc"))?;
        let name = real.file_name()?;
        let found = self.var("PATH").into_iter().flat_map(std::env::split_paths).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name));
        let same = |path: &PathBuf| path.canonicalize().is_ok_and(|p| p == real);
        found.into_iter().find(same).or(Some(real.clone()))
    }

    fn xdg(&self, name: &str, fallback: &str) -> Option<PathBuf> {
        // The specification has relative paths ignored.
        let set = self.var(name).map(PathBuf::from).filter(|p| p.is_absolute());
        set.or_else(|| self.user.home.as_ref().map(|home| home.join(fallback)))
    }
}

/// The mask as the kernel tells it; asking for it in any other way would change it.
fn umask(status: &str) -> Option<u32> {
    status.lines().find_map(|l| l.strip_prefix("Umask:")).and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
}

fn lookup(env: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    env.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.clone())
}

/// This executable, also after an upgrade has replaced it.
fn program() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        Ok(path) => match path.to_str().and_then(|p| p.strip_suffix(" (deleted)")).map(PathBuf::from) {
            Some(replaced) if replaced.exists() => replaced,
            _ => "/proc/self/exe".into(),
        },
        Err(_) => "/proc/self/exe".into(),
    }
}

/// The user of `uid`: home and shell as at a login, else what the environment says.
fn user(passwd: &str, uid: u32, env: impl Fn(&str) -> Option<OsString>) -> User {
    let entry = passwd.lines().map(|l| l.split(':').collect::<Vec<_>>()).find(|f| f.len() == 7 && f[2].parse() == Ok(uid));
    let field = |i: usize| entry.as_ref().map(|f| f[i].to_owned()).filter(|f| !f.is_empty());
    let name = || env("USER").or_else(|| env("LOGNAME")).map(|n| n.to_string_lossy().into_owned());
    User {
        name: field(0).or_else(name).unwrap_or_else(|| uid.to_string()),
        home: env("HOME").map(PathBuf::from).filter(|h| h.is_absolute()).or_else(|| field(5).map(PathBuf::from)),
        shell: field(6).map(PathBuf::from).or_else(|| env("SHELL").map(PathBuf::from)).unwrap_or_else(|| "/bin/sh".into()),
    }
}

fn read(
    home: PathBuf,
    file: PathBuf,
    text: Result<String, String>,
    user_home: Option<&Path>,
    env: impl Fn(&str) -> Option<OsString>,
) -> Settings {
    let (mut warnings, mut unreadable) = (Vec::new(), None);
    let table = text.and_then(|text| text.parse::<toml::Table>().map_err(|e| syntax_error(&text, &e)));
    let table = table.unwrap_or_else(|e| {
        let what = format!("cannot read {}: {e}", file.display());
        warnings.push(format!("{what}; every setting has its default instead"));
        unreadable = Some(what);
        toml::Table::new()
    });
    warnings.extend(keys::unknown(&table, &file));
    let mut r = Reader { env: &env, table, shown: Vec::new(), warnings };

    let grace = r.number("terminal.daemon_term_grace_seconds", &["OUTLAST_TERM_GRACE_SECONDS"], limits::DEFAULT_GRACE.as_secs_f64());
    let max_age = r.number("session_reset.bg_process_max_age_hours", &[], limits::DEFAULT_MAX_AGE.as_secs_f64() / 3600.0);
    let redact = r.flag("security.redact_secrets", &["OUTLAST_REDACT_SECRETS", "HERMES_REDACT_SECRETS"], true);
    let wait_limit = r.count("terminal.timeout", &["TERMINAL_TIMEOUT"], limits::DEFAULT_WAIT_LIMIT.as_secs());
    let foreground = r.count("terminal.max_foreground_timeout", &["TERMINAL_MAX_FOREGROUND_TIMEOUT"], limits::FOREGROUND_LIMIT.as_secs());
    let max_running = r.count("limits.max_running", &[], limits::DEFAULT_MAX_RUNNING as u64);
    let keep_days = r.number("retention.days", &[], limits::DEFAULT_KEEP_FOR.as_secs_f64() / 86_400.0);
    let keep_bytes = r.bytes("retention.bytes", limits::DEFAULT_KEEP_BYTES);
    let log_tail_bytes = r.bytes("log.tail_bytes", limits::LOG_TAIL_BYTES);
    let idle_exit = r.number("engine.idle_exit_seconds", &[], 60.0);
    let cgroup = r.flag("engine.cgroup", &[], true);
    let snapshot = r.number("shell.snapshot_seconds", &[], 10.0);
    let watch = rules(&mut r);
    let keep_notices = r.number("retention.notice_days", &["OUTLAST_NOTICE_DAYS"], limits::DEFAULT_KEEP_FOR.as_secs_f64() / 86_400.0);
    let gateway = gateway::read(&mut r, &FileNames { file: &file, user_home });
    let detach_key = r.key("attach.detach_key", &["OUTLAST_DETACH_KEY"]);
    let notify = match r.word("notify", &["off", "terminal", "desktop"]).as_str() {
        "terminal" => Notify::Terminal,
        "desktop" => Notify::Desktop,
        _ => Notify::Off,
    };
    let notify_after = r.time("notify_after", Duration::from_secs(30));
    Settings {
        home,
        file,
        redact,
        grace: seconds(grace),
        max_running: usize::try_from(max_running).unwrap_or(usize::MAX),
        keep_for: seconds(keep_days * 86_400.0),
        keep_bytes,
        wait_limit: Duration::from_secs(wait_limit),
        foreground_limit: Duration::from_secs(foreground),
        max_age: seconds(max_age * 3600.0),
        log_tail_bytes,
        idle_exit: seconds(idle_exit),
        snapshot_limit: seconds(snapshot),
        cgroup,
        watch,
        keep_notices: seconds(keep_notices * 86_400.0),
        detach_key,
        notify,
        notify_after,
        sinks: Sinks::default(),
        gateway,
        tables: r.table,
        shown: r.shown,
        warnings: r.warnings,
        unreadable,
    }
}

/// What is wrong in a file, on one line and with the number of the line.
fn syntax_error(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map(|before| format!("line {}: ", before.matches('\n').count() + 1)).unwrap_or_default();
    format!("{line}{}", error.message().trim_end().replace('\n', " "))
}

/// What the paths in a configuration file are relative to.
struct FileNames<'a> {
    file: &'a Path,
    user_home: Option<&'a Path>,
}

impl FileNames<'_> {
    /// The path that a value names: `~` is the user's home directory, a relative path is relative to the directory of the file.
    fn path(&self, given: impl AsRef<Path>) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("/")).join(expand_home(given.as_ref(), self.user_home))
    }
}

/// How much is told of lines that match.
fn rules(r: &mut Reader<'_>) -> Rules {
    let usual = Rules::default();
    let few = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let spacing = r.number("watch.spacing_seconds", &["OUTLAST_WATCH_SPACING_SECONDS"], usual.spacing.as_secs_f64());
    let strikes = r.count("watch.strikes", &["OUTLAST_WATCH_STRIKES"], u64::from(usual.strikes));
    let lifetime = r.count_or_none("watch.lifetime", &["OUTLAST_WATCH_LIFETIME"], usual.lifetime.map(u64::from));
    let burst = r.count("watch.burst", &["OUTLAST_WATCH_BURST"], u64::from(usual.burst));
    let window = r.number("watch.window_seconds", &["OUTLAST_WATCH_WINDOW_SECONDS"], usual.window.as_secs_f64());
    let rest = r.number("watch.rest_seconds", &["OUTLAST_WATCH_REST_SECONDS"], usual.rest.as_secs_f64());
    Rules {
        spacing: seconds(spacing),
        strikes: few(strikes),
        lifetime: lifetime.map(few),
        burst: few(burst),
        window: seconds(window),
        rest: seconds(rest),
    }
}

impl Settings {
    /// Where the value of `key` came from.
    pub(crate) fn origin(&self, key: &str) -> Origin {
        self.shown.iter().find(|s| s.key == key).map_or(Origin::Default, |s| s.from)
    }
}

/// Seconds that were checked to be finite and not negative; more than fits is as long as can be.
fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)
}

struct Reader<'a> {
    env: &'a dyn Fn(&str) -> Option<OsString>,
    table: toml::Table,
    shown: Vec<Shown>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// A number of something; a negative one counts as none.
    fn number(&mut self, key: &'static str, env: &[&'static str], default: f64) -> f64 {
        let parse = |v: &toml::Value| {
            let n = match v {
                toml::Value::Integer(i) => *i as f64,
                toml::Value::Float(f) => *f,
                toml::Value::String(s) => s.trim().parse().ok()?,
                _ => return None,
            };
            n.is_finite().then_some(n.max(0.0))
        };
        self.value(key, env, default, parse, |n| toml::Value::Float(*n))
    }

    fn count(&mut self, key: &'static str, env: &[&'static str], default: u64) -> u64 {
        let parse = |v: &toml::Value| match v {
            toml::Value::Integer(i) => u64::try_from(*i).ok().filter(|n| *n > 0),
            toml::Value::String(s) => s.trim().parse().ok().filter(|n| *n > 0),
            _ => None,
        };
        self.value(key, env, default, parse, whole)
    }

    /// A number of something, or 0 where there is to be no such limit.
    fn count_or_none(&mut self, key: &'static str, env: &[&'static str], default: Option<u64>) -> Option<u64> {
        let parse = |v: &toml::Value| match v {
            toml::Value::Integer(i) => u64::try_from(*i).ok(),
            toml::Value::String(s) => s.trim().parse().ok(),
            _ => None,
        };
        let n = self.value(key, env, default.unwrap_or(0), parse, whole);
        Some(n).filter(|n| *n > 0)
    }

    /// An hour of the day.
    fn hour(&mut self, key: &'static str, default: u64) -> u8 {
        let parse = |v: &toml::Value| v.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n < 24);
        u8::try_from(self.value(key, &[], default, parse, whole)).unwrap_or_default()
    }

    fn flag(&mut self, key: &'static str, env: &[&'static str], default: bool) -> bool {
        let parse = |v: &toml::Value| match v {
            toml::Value::Boolean(b) => Some(*b),
            toml::Value::Integer(i) => [(1, true), (0, false)].iter().find(|(n, _)| n == i).map(|(_, b)| *b),
            toml::Value::String(s) => match s.trim().to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(true),
                "0" | "false" | "no" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        };
        self.value(key, env, default, parse, |b| toml::Value::Boolean(*b))
    }

    fn key(&mut self, key: &'static str, env: &[&'static str]) -> DetachKey {
        let parse = |v: &toml::Value| v.as_str().and_then(|text| text.parse().ok());
        self.value(key, env, DetachKey::default(), parse, |key| toml::Value::String(key.to_string()))
    }

    /// A time: a number of seconds, or a text with units such as `30s` or `1h30m`.
    fn time(&mut self, key: &'static str, default: Duration) -> Duration {
        let parse = |v: &toml::Value| match v {
            toml::Value::Integer(seconds) => u64::try_from(*seconds).ok().map(Duration::from_secs),
            toml::Value::Float(seconds) => Duration::try_from_secs_f64(*seconds).ok(),
            toml::Value::String(text) => Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok(),
            _ => None,
        };
        self.value(key, &[], default, parse, |time| toml::Value::String(format!("{}s", time.as_secs_f64())))
    }

    /// One of these words, of which the first is the default; any text if there are none, and then the default is nothing.
    fn word(&mut self, key: &'static str, words: &[&str]) -> String {
        let parse = |v: &toml::Value| v.as_str().filter(|text| words.is_empty() || words.contains(text)).map(str::to_owned);
        let default = words.first().copied().unwrap_or_default().to_owned();
        self.value(key, &[], default, parse, |text| toml::Value::String(text.clone()))
    }

    /// One of the words for how much is shown of notices, of which the first is the default. `false` is the last, which is nothing.
    fn notices(&mut self, key: &'static str, words: &[&str]) -> String {
        let parse = |v: &toml::Value| match v {
            toml::Value::Boolean(false) => words.last().map(|word| (*word).to_owned()),
            other => other.as_str().filter(|text| words.contains(text)).map(str::to_owned),
        };
        let default = words.first().copied().unwrap_or_default().to_owned();
        self.value(key, &[], default, parse, |text| toml::Value::String(text.clone()))
    }

    fn bytes(&mut self, key: &'static str, default: u64) -> u64 {
        let parse = |v: &toml::Value| match v {
            toml::Value::Integer(i) => u64::try_from(*i).ok(),
            toml::Value::String(s) => size(s),
            _ => None,
        };
        self.value(key, &[], default, parse, whole)
    }

    fn value<T>(
        &mut self,
        key: &'static str,
        env: &[&'static str],
        default: T,
        parse: impl Fn(&toml::Value) -> Option<T>,
        show: impl Fn(&T) -> toml::Value,
    ) -> T {
        let set = env.iter().find_map(|name| (self.env)(name).map(|v| (*name, v)));
        let given = match set {
            Some((name, value)) => Some((toml::Value::String(value.to_string_lossy().into_owned()), Origin::Env(name))),
            None => find(&self.table, key).map(|v| (v.clone(), Origin::File)),
        };
        let (value, from) = match given {
            None => (default, Origin::Default),
            Some((raw, from)) => match parse(&raw) {
                Some(value) => (value, from),
                None => {
                    self.warnings.push(format!("{key} = {raw} ({from}) makes no sense; using the default {}", show(&default)));
                    (default, Origin::Default)
                }
            },
        };
        self.shown.push(Shown { key, value: show(&value), from });
        value
    }
}

fn whole(n: &u64) -> toml::Value {
    toml::Value::Integer(i64::try_from(*n).unwrap_or(i64::MAX))
}

fn find<'a>(table: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    match key.split_once('.') {
        Some((section, name)) => table.get(section)?.as_table()?.get(name),
        None => table.get(key),
    }
}

/// A number of bytes: `5GiB`, `64 MiB`, `2GB`, `1048576`.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
