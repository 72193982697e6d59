//! The one place that reads environment, configuration file and user. Everything below gets them as arguments.
//!
//! A value comes from the environment, else from `config.toml`, else it is the default of the contract. A value that cannot be read causes a warning, and the
//! default is used.

#[path = "config/detach.rs"]
mod detach;
#[path = "config/gateway.rs"]
mod gateway;
#[path = "config/keys.rs"]
mod keys;
#[path = "config/reader.rs"]
mod reader;
#[path = "config/sinks.rs"]
mod sinks;
#[path = "config/world.rs"]
mod world;

pub(crate) use detach::DetachKey;
#[allow(unused_imports)] // Only the gateway uses them.
pub(crate) use gateway::{AgentTable, GatewayTable, LimitTable, Permission, ResetTable};
pub(crate) use sinks::Sinks;
#[allow(unused_imports)] // The gateway has no terminal and no scratch home.
pub(crate) use world::{Colours, TRIAL_LOCK, TerminalNotice, User, World};

use outlast_core::{Rules, expand_home, limits};
use reader::{SettingReader, seconds};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// Limits for notices of lines that match.
    pub(crate) watch: Rules,
    /// How long a notice is kept once it is settled.
    pub(crate) keep_notices: Duration,
    /// The keys that leave `attach`.
    pub(crate) detach_key: DetachKey,
    /// How a user at a terminal is notified that a process has ended.
    #[allow(dead_code)] // The gateway notifies in conversations.
    pub(crate) notify: Notify,
    /// The shortest run of a process that causes such a notification.
    #[allow(dead_code)] // The gateway notifies in conversations.
    pub(crate) notify_after: Duration,
    /// The hooks and webhooks.
    pub(crate) sinks: Sinks,
    /// How the gateway runs.
    #[allow(dead_code)] // Only the gateway uses it.
    pub(crate) gateway: GatewayTable,
    /// The file as it was read.
    pub(crate) tables: toml::Table,
    /// Each value in effect, and where it came from.
    pub(crate) shown: Vec<Shown>,
    /// What was wrong with values that were replaced by their defaults.
    pub(crate) warnings: Vec<String>,
    /// Why the whole file could not be read.
    pub(crate) unreadable: Option<String>,
}

/// One value in effect.
#[derive(Debug, PartialEq)]
pub(crate) struct Shown {
    pub(crate) key: &'static str,
    pub(crate) value: toml::Value,
    pub(crate) from: Origin,
}

/// How a user at a terminal is notified that a process has ended, unless a flag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notify {
    Off,
    /// By the bell of the terminal from which the process was started.
    Terminal,
    /// By a notification of the desktop.
    Desktop,
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

/// The settings for a home, from the text of the configuration file and the environment. Sinks are read separately.
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
    let mut r = SettingReader { env: &env, table, shown: Vec::new(), warnings };

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

/// A syntax error as one line of text, with the number of the line in the file.
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

/// Limits for notices of lines that match.
fn rules(r: &mut SettingReader<'_>) -> Rules {
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

#[cfg(test)]
#[path = "config/tests.rs"]
mod tests;
