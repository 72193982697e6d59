//! How a gateway ends: the signal, the exit code, and the word that it leaves in the lock.

use crate::lock::LockWord;
use std::fmt;

/// The exit code of a restart: a service manager starts it again.
pub const EXIT_RESTART: i32 = 75;
/// The exit code after a SIGTERM that no client asked for.
pub const EXIT_UNASKED: i32 = 1;
/// The exit code if the configuration, or a file of a newer version, has to be changed first.
pub const EXIT_CONFIGURATION: i32 = 78;

/// The signal that asked a gateway to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGTERM that no client asked for.
    Terminate,
    /// SIGINT: a person at the terminal of `gateway run`.
    Interrupt,
}

impl StopSignal {
    /// How a gateway ends that was still starting: a person stops it, and anything else leaves the lock as it found it.
    pub(crate) fn end_of_start(self, before: LockWord) -> (LockWord, i32) {
        match self {
            Self::Terminate => (before, EXIT_UNASKED),
            Self::Interrupt => (LockWord::Stopped, 0),
        }
    }
}

/// How a gateway ends that a user stopped, as its row in `run` has it.
pub(crate) const HOW_STOPPED: &str = "stop";
/// The same for Ctrl-C of `gateway run`.
pub(crate) const HOW_INTERRUPTED: &str = "sigint";

/// How a gateway ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    /// What the lock says afterwards.
    pub(crate) word: LockWord,
    pub(crate) how: &'static str,
    /// If turns are open, the engine starts a gateway for them after a while.
    pub(crate) does_return: bool,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = match (self.word, self.does_return) {
            (LockWord::AtWork, _) => "the next gateway is started",
            (LockWord::Stopped, _) => "it stays stopped until a user starts it",
            (LockWord::Empty, true) => "the engine starts the next one in a minute if turns are open",
            (LockWord::Empty, false) => "the engine starts the next one when there is something to do",
        };
        write!(f, "{}; {next}", self.how)
    }
}
