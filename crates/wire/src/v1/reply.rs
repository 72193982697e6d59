//! What the engine answers. The field names are the contract's.

use super::process::{LeftProcess, present};
use outlast_core::{OsText, Time};
use serde::{Deserialize, Serialize};

/// One message from the engine: the number of the request it belongs to, and the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reply<T> {
    /// The request's number.
    pub of: u64,
    /// The answer, the last there is for this request.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub answer: Option<T>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// Something on the way to the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
}

impl<T> Reply<T> {
    /// The answer.
    pub fn answer(of: u64, answer: T) -> Self {
        Self { of, answer: Some(answer), error: None, event: None }
    }
    /// Why there is none.
    pub fn error(of: u64, error: Error) -> Self {
        Self { of, answer: None, error: Some(error), event: None }
    }
    /// Something on the way.
    pub fn event(of: u64, event: Event) -> Self {
        Self { of, answer: None, error: None, event: Some(event) }
    }
}

/// The engine's half of the hello.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version that will be spoken: the lower of the two newest.
    pub version: u32,
    /// The program's own version.
    pub program: String,
    /// The engine's pid.
    pub pid: u32,
    /// The home it serves: what a home remembers may be another's, if it is a copy of it. Older engines do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<OsText>,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The caller asks differently.
    Refusal,
    /// The caller asks again.
    Unavailable,
    /// Ours, or the machine's.
    Fault,
}

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct Error {
    /// What was wrong, with which value.
    pub error: String,
    /// A stable name, from [`crate::code`].
    pub code: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// Whose turn it is.
    pub kind: ErrorKind,
    /// The contract's `status` for this error: `not_found`, `already_exited` or `error`.
    pub status: String,
    /// The exit code, where the process is over.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub exit_code: Option<Option<i32>>,
    /// What a kill did although the process was over before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_left: Option<Box<StoppedLeft>>,
}

/// What a kill of a process that was over before came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StoppedLeft {
    /// What the process had left running, and was stopped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_killed: Vec<LeftProcess>,
    /// What is not as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl StoppedLeft {
    /// These were stopped, and something may not be as it should be.
    pub fn new(left_killed: Vec<LeftProcess>, warning: Option<String>) -> Self {
        Self { left_killed, warning }
    }

    /// Whether there is nothing to say: nothing was left.
    pub fn is_nothing(&self) -> bool {
        self.left_killed.is_empty() && self.warning.is_none()
    }
}

impl Error {
    /// An error of a kind, under a stable name, with what was wrong and what to do.
    pub fn new(kind: ErrorKind, code: impl Into<String>, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            code: code.into(),
            hint: hint.into(),
            kind,
            status: "error".into(),
            exit_code: None,
            stopped_left: None,
        }
    }

    /// The same, under another of the contract's `status` words.
    #[must_use]
    pub fn with_status(self, status: impl Into<String>) -> Self {
        Self { status: status.into(), ..self }
    }

    /// The same, under another name.
    #[must_use]
    pub fn with_code(self, code: impl Into<String>) -> Self {
        Self { code: code.into(), ..self }
    }

    /// The same, about a process that is over.
    #[must_use]
    pub fn with_exit_code(self, exit_code: Option<i32>) -> Self {
        Self { exit_code: Some(exit_code), ..self }
    }

    /// The same, of a kill that did something all the same.
    #[must_use]
    pub fn with_stopped_left(self, stopped: StoppedLeft) -> Self {
        Self { stopped_left: (!stopped.is_nothing()).then(|| Box::new(stopped)), ..self }
    }
}

/// Something on the way to an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The raw frames that follow begin at this byte.
    At {
        /// Which.
        byte: u64,
    },
    /// The bytes from this one on came within a second of this time.
    Came {
        /// The first of them.
        byte: u64,
        /// When.
        at: Time,
    },
    /// Bytes are missing.
    Gap {
        /// First missing byte.
        from: u64,
        /// First byte that is there again.
        to: u64,
        /// Why.
        why: String,
    },
    /// Nothing is missed from here on.
    Waiting {
        /// The notice behind which that is. Engines from before it was told do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// Whoever looks on is to leave; the process goes on.
    ViewClosed,
    /// These sessions have notices that can be taken.
    Sessions {
        /// Which.
        sessions: Vec<String>,
    },
    /// A notice was made.
    Notice {
        /// Which.
        told: Box<super::notice::Told>,
    },
}
