//! The configuration of a sink.

use crate::{Gather, Policy, Webhook};
use outlast_client::Notice;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One sink. The engine knows which notices it is for, and makes deliveries only for those.
#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// Its name, unique in a home: deliveries are kept under it.
    pub name: String,
    /// How many calls of it may run at once. A session has one at most.
    pub at_once: usize,
    /// When a failed call is made again.
    pub retry: Policy,
    /// How it is called.
    pub way: Way,
}

/// How a sink is called.
#[derive(Debug, Clone)]
pub enum Way {
    /// By running a command.
    Hook(Hook),
    /// By a signed request over HTTP.
    Webhook(Webhook),
}

/// How many calls of a sink run at once, unless configured otherwise.
const DEFAULT_CONCURRENT_CALLS: usize = 4;

/// The longest name of a sink.
const MAX_NAME_BYTES: usize = 64;

/// A name that no sink can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no name for a sink: 1 to {MAX_NAME_BYTES} letters, digits, `-`, `_` and `.`")]
pub struct BadName(pub String);

impl SinkConfig {
    /// A hook with the usual limits.
    pub fn hook(name: &str, hook: Hook) -> Result<Self, BadName> {
        Ok(Self { name: checked(name)?, at_once: DEFAULT_CONCURRENT_CALLS, retry: Policy::hook(), way: Way::Hook(hook) })
    }

    /// A webhook with the usual limits.
    pub fn webhook(name: &str, webhook: Webhook) -> Result<Self, BadName> {
        Ok(Self { name: checked(name)?, at_once: DEFAULT_CONCURRENT_CALLS, retry: Policy::webhook(), way: Way::Webhook(webhook) })
    }
}

fn checked(name: &str) -> Result<String, BadName> {
    let fits = !name.is_empty() && name.len() <= MAX_NAME_BYTES;
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if fits && plain { Ok(name.to_owned()) } else { Err(BadName(name.to_owned())) }
}

/// Describes a notice for people, on one line.
pub type DescribeNotice = Arc<dyn Fn(&Notice) -> String + Send + Sync>;

/// A command that is run for notices.
#[derive(Clone)]
pub struct Hook {
    /// The command.
    pub command: HookCommand,
    /// Its whole environment, except the variables about the notice. Values are never shown.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub dir: PathBuf,
    /// How long it may run.
    pub time_limit: Duration,
    /// How long it has between TERM and KILL.
    pub grace: Duration,
    /// Which notices one run gets together.
    pub gather: Gather,
    /// Whether it wakes an agent. If so, it claims its notices before each run, since the agent may have seen them in an answer.
    pub wakes: bool,
    /// Describes a notice for people on one line, which is OUTLAST_TEXT. Without it, OUTLAST_TEXT is the text for models.
    pub one_line: Option<DescribeNotice>,
}

/// The command of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookCommand {
    /// A command line for `/bin/sh`.
    Shell(String),
    /// A program and its arguments.
    Argv(Vec<String>),
}

impl Hook {
    /// How long a hook may run unless configured otherwise.
    pub const TIME_LIMIT: Duration = Duration::from_secs(30);
    /// How long it has between TERM and KILL.
    pub const GRACE: Duration = Duration::from_secs(2);
    /// How long notices are gathered for a hook that wakes an agent.
    pub const WAKE_WINDOW: Duration = Duration::from_millis(100);

    /// A hook with the usual limits.
    pub fn new(command: HookCommand, env: Vec<(OsString, OsString)>, dir: PathBuf) -> Self {
        Self { command, env, dir, time_limit: Self::TIME_LIMIT, grace: Self::GRACE, gather: Gather::none(), wakes: false, one_line: None }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsString> = self.env.iter().map(|(name, _)| name).collect();
        f.debug_struct("Hook")
            .field("command", &self.command)
            .field("env", &names)
            .field("dir", &self.dir)
            .field("time_limit", &self.time_limit)
            .field("grace", &self.grace)
            .field("gather", &self.gather)
            .field("wakes", &self.wakes)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_of_a_hooks_environment_is_shown() {
        let hook = Hook::new(HookCommand::Argv(vec!["x".into()]), vec![("TOKEN".into(), "hush".into())], "/".into());
        let shown = format!("{hook:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("hush"), "{shown}");
    }

    #[test]
    fn names_are_plain() {
        let hook = || Hook::new(HookCommand::Shell(":".into()), Vec::new(), "/".into());
        assert!(SinkConfig::hook("wake-1.a_b", hook()).is_ok());
        for bad in ["", "a b", "a/b", "ä", &"a".repeat(65)] {
            assert!(SinkConfig::hook(bad, hook()).is_err(), "{bad}");
        }
    }
}
