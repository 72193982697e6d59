//! The host of the tools, and what it can do.

use outlast_client::Caller;
use outlast_core::{Route, limits};
use std::time::Duration;

/// The kind of caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// An agent.
    #[default]
    Agent,
    /// A script that an agent wrote. It ends before a background process does, so it only has `terminal`, in the foreground.
    CodeExecution,
}

/// What happens to a foreground command that is not done in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AtLimit {
    /// It keeps running in the background, and its end becomes a notice.
    #[default]
    HandOver,
    /// It is stopped.
    Kill,
}

/// A set of tools. All do the same; models differ in the tools that they know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Profile {
    /// `terminal` and `process`.
    #[default]
    Hermes,
    /// `exec_command` and `write_stdin`.
    Codex,
    /// `run`, `wait`, `log`, `list`, `kill`, `write` and `notices`.
    Native,
}

impl Profile {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Codex => "codex",
            Self::Native => "native",
        }
    }

    /// All profiles.
    pub const ALL: [Self; 3] = [Self::Native, Self::Hermes, Self::Codex];
}

/// The environment of the tools. The tools themselves read neither environment nor configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Host {
    /// Environment, directory and umask that commands inherit.
    pub caller: Caller,
    /// The place of the conversation in a chat.
    pub route: Route,
    /// Whether it can deliver notices after the call. A one-shot runner or a stateless server cannot.
    pub can_notify: bool,
    /// The set of tools.
    pub profile: Profile,
    /// The kind of caller.
    pub policy: Policy,
    /// What happens to a foreground command that is not done in time.
    pub at_limit: AtLimit,
    /// How long a foreground command may take by default. May be longer than a call may ask for.
    pub default_timeout: Duration,
    /// How long a call may take that names no wait of its own. `None` if the host does not mind.
    pub answer_within: Option<Duration>,
    /// The longest time that a call may ask for.
    pub foreground_limit: Duration,
    /// The longest wait of `process`.
    pub wait_limit: Duration,
    /// The most characters of output in the answer of a foreground call.
    pub output_chars: usize,
    /// The most characters of an answer, as JSON.
    pub result_chars: usize,
}

impl Host {
    /// A host that can notify, with the contract's limits.
    pub fn new(caller: Caller) -> Self {
        Self {
            caller,
            route: Route::default(),
            can_notify: true,
            profile: Profile::default(),
            policy: Policy::default(),
            at_limit: AtLimit::default(),
            default_timeout: limits::DEFAULT_WAIT_LIMIT,
            answer_within: None,
            foreground_limit: limits::FOREGROUND_LIMIT,
            wait_limit: limits::DEFAULT_WAIT_LIMIT,
            output_chars: limits::FOREGROUND_CHARS,
            result_chars: limits::RESULT_CHARS,
        }
    }

    /// How long a call waits that names no wait of its own, and would wait this long.
    pub(crate) fn usual_wait(&self, usual: Duration) -> Duration {
        self.answer_within.map_or(usual, |most| usual.min(most))
    }

    /// What happens to a foreground command at its limit. A script could not reach a command that keeps running, so its command is stopped.
    pub(crate) fn at_limit(&self) -> AtLimit {
        match self.policy {
            Policy::Agent => self.at_limit,
            Policy::CodeExecution => AtLimit::Kill,
        }
    }
}
