//! What the host of the tools is and can do.

use outlast_client::Caller;
use outlast_core::{Route, limits};
use std::time::Duration;

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// An agent.
    #[default]
    Agent,
    /// A script that an agent wrote. It ends before anything in the background would, so it has `terminal` alone, in the foreground.
    CodeExecution,
}

/// What becomes of a foreground command that is not done in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AtLimit {
    /// It goes on in the background, and its end is told.
    #[default]
    HandOver,
    /// It is stopped.
    Kill,
}

/// Which tools there are. All do the same underneath; models differ in what they know.
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
    /// Its name, as it is asked for.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Codex => "codex",
            Self::Native => "native",
        }
    }

    /// All there are.
    pub const ALL: [Self; 3] = [Self::Native, Self::Hermes, Self::Codex];
}

/// The surroundings of the tools. Nothing below reads an environment or a configuration.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Host {
    /// Environment, directory and umask that commands inherit.
    pub caller: Caller,
    /// Where in a chat the conversation is.
    pub route: Route,
    /// Whether it can tell the agent something after the call; a one-shot runner or a stateless server cannot.
    pub can_notify: bool,
    /// Which tools there are.
    pub profile: Profile,
    /// Who calls.
    pub policy: Policy,
    /// What becomes of a foreground command that is not done in time.
    pub at_limit: AtLimit,
    /// How long a foreground command may take if its call does not say. May be longer than what a call may say.
    pub default_timeout: Duration,
    /// The longest that a call may say.
    pub foreground_limit: Duration,
    /// The longest wait of `process`.
    pub wait_limit: Duration,
    /// How many characters of output a foreground call answers with.
    pub output_chars: usize,
    /// How many characters an answer has in all, as JSON.
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
            foreground_limit: limits::FOREGROUND_LIMIT,
            wait_limit: limits::DEFAULT_WAIT_LIMIT,
            output_chars: limits::FOREGROUND_CHARS,
            result_chars: limits::RESULT_CHARS,
        }
    }

    /// What becomes of a foreground command at its limit here. A script cannot reach what was handed over, so it is never handed over to it.
    pub(crate) fn at_limit(&self) -> AtLimit {
        match self.policy {
            Policy::Agent => self.at_limit,
            Policy::CodeExecution => AtLimit::Kill,
        }
    }
}
