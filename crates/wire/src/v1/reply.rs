//! Replies of the engine. The field names are the contract's.

use super::event::Event;
use super::process::{LeftProcess, present};
use outlast_core::OsText;
use serde::{Deserialize, Serialize};

/// One message from the engine.
pub type Reply<T> = ReplyWith<T, Event>;

/// One message from a server with events of this type.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReplyWith<T, E> {
    /// The request's number.
    pub of: u64,
    /// The answer: the last message for this request.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub answer: Option<T>,
    /// Why the request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// An event before the answer.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub event: Option<E>,
}

impl<T, E> ReplyWith<T, E> {
    /// A reply with the answer.
    pub fn answer(of: u64, answer: T) -> Self {
        Self { of, answer: Some(answer), error: None, event: None }
    }

    /// A reply with an error.
    pub fn error(of: u64, error: Error) -> Self {
        Self { of, answer: None, error: Some(error), event: None }
    }

    /// A reply with an event.
    pub fn event(of: u64, event: E) -> Self {
        Self { of, answer: None, error: None, event: Some(event) }
    }
}

/// The engine's half of the hello.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version that both sides will speak: the lower of their newest ones.
    pub version: u32,
    /// The program's own version.
    pub program: String,
    /// The engine's pid.
    pub pid: u32,
    /// The home that the engine serves. If a home is a copy, the engine that it names may serve the original. Engines of earlier
    /// versions do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<OsText>,
}

/// What the caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// Ask differently.
    Refusal,
    /// Ask again later.
    Unavailable,
    /// Report it: a bug in Outlast, or an error of the machine.
    Fault,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct Error {
    /// What is wrong, and with which value.
    pub error: String,
    /// A stable code, from [`crate::code`].
    pub code: String,
    /// What the caller can do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// The kind of error.
    pub kind: ErrorKind,
    /// The contract's `status` for this error: `not_found`, `already_exited` or `error`.
    pub status: String,
    /// The exit code, if the process has ended.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub exit_code: Option<Option<i32>>,
    /// What a kill stopped although the process had ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_left: Option<Box<StoppedLeft>>,
}

/// The result of a kill of a process that had ended before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StoppedLeft {
    /// The descendants that were stopped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_killed: Vec<LeftProcess>,
    /// What is wrong although they were stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl StoppedLeft {
    /// These were stopped, with an optional warning.
    pub fn new(left_killed: Vec<LeftProcess>, warning: Option<String>) -> Self {
        Self { left_killed, warning }
    }

    /// Whether nothing was left to stop.
    pub fn is_nothing(&self) -> bool {
        self.left_killed.is_empty() && self.warning.is_none()
    }
}

impl Error {
    /// An error of this kind, with a code, a message and a hint.
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

    /// The same, with another of the contract's `status` words.
    #[must_use]
    pub fn with_status(self, status: impl Into<String>) -> Self {
        Self { status: status.into(), ..self }
    }

    /// The same, with another code.
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
