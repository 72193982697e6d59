//! Errors as callers see them: what was wrong with which value, a stable name, and what to do.

use crate::index::IndexError;
use crate::near::Near;
use outlast_core::{BadId, ProcessId, Refusal};
use outlast_wire::code;
use outlast_wire::v1::{Error, ErrorKind};
use std::io;

fn error(kind: ErrorKind, code: &str, error: impl Into<String>, hint: impl Into<String>) -> Error {
    Error { error: error.into(), code: code.into(), hint: hint.into(), kind, status: "error".into(), exit_code: None }
}

/// The caller asks differently.
pub(crate) fn refusal(code: &str, what: impl Into<String>, hint: impl Into<String>) -> Error {
    error(ErrorKind::Refusal, code, what, hint)
}

/// The caller asks again.
pub(crate) fn unavailable(what: impl Into<String>, hint: impl Into<String>) -> Error {
    error(ErrorKind::Unavailable, code::UNAVAILABLE, what, hint)
}

/// Ours, or the machine's. The whole of it goes to the log.
pub(crate) fn fault(what: impl std::fmt::Display) -> Error {
    tracing::error!(%what, "fault");
    error(ErrorKind::Fault, code::FAULT, what.to_string(), "look into engine.log in the state directory")
}

/// The engine is about to end.
pub(crate) fn stopping() -> Error {
    unavailable("the engine is stopping", "ask again: a new one is started on demand; processes go on")
}

/// No such process, and which may be meant.
pub(crate) fn not_found(given: &str, near: &[Near]) -> Error {
    let shown: String = given.chars().take(80).collect();
    let what = format!("No process with ID {shown}");
    let meant: Vec<String> = near.iter().map(ToString::to_string).collect();
    let meant = if meant.is_empty() { String::new() } else { format!("did you mean {}? ", meant.join(" or ")) };
    Error { status: "not_found".into(), ..refusal(code::NOT_FOUND, what, format!("{meant}`outlast list --all` shows those there are")) }
}

/// No conversation that the caller may touch.
pub(crate) fn no_session(given: &str) -> Error {
    let shown: String = given.chars().take(80).collect();
    let what = format!("No waits of a session {shown}");
    Error { status: "not_found".into(), ..refusal(code::NOT_FOUND, what, "a session may interrupt its own waits, and nobody else's") }
}

/// Not even a name.
pub(crate) fn bad_id(bad: &BadId, near: &[Near]) -> Error {
    // To the contract, what names no process is a process that is not there.
    Error { status: "not_found".into(), code: code::BAD_ID.into(), ..not_found(&bad.given, near) }
}

/// A prefix of several.
pub(crate) fn ambiguous(given: &str, candidates: &[ProcessId]) -> Error {
    let shown: Vec<String> = candidates.iter().take(8).map(ToString::to_string).collect();
    let more = if candidates.len() > shown.len() { format!(" and {} more", candidates.len() - shown.len()) } else { String::new() };
    refusal(code::AMBIGUOUS_ID, format!("{given:?} could be {}{more}", shown.join(", ")), "give more digits")
}

/// A rule said no.
pub(crate) fn rule(refusal_of_core: &Refusal) -> Error {
    let text = refusal_of_core.to_string();
    match refusal_of_core {
        Refusal::AlreadyExited { exit_code } => Error {
            status: "already_exited".into(),
            exit_code: Some(*exit_code),
            ..refusal(code::ALREADY_EXITED, text, "`outlast log` shows its output")
        },
        Refusal::NoInput => refusal(code::NO_INPUT, text, "start it with --stdin or --pty to be able to write to it"),
        Refusal::StillRunning => refusal(code::STILL_RUNNING, text, "`outlast kill` stops it"),
        Refusal::StillStarting => unavailable(text, "ask again in a moment"),
    }
}

/// The index said no.
pub(crate) fn index(e: &IndexError) -> Error {
    match e {
        IndexError::NoRoom { .. } => unavailable(
            format!("nothing can be written down, so nothing was started: {e}"),
            "free some space or make the state directory writable; running processes are not affected",
        ),
        IndexError::Closed => stopping(),
        IndexError::Other { .. } => fault(e),
    }
}

/// A file could not be written or read.
pub(crate) fn disk(doing: impl std::fmt::Display, e: &io::Error) -> Error {
    let what = format!("{doing}: {e}");
    match e.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            unavailable(what, "free some space; running processes are not affected")
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            unavailable(what, "make the state directory writable; running processes are not affected")
        }
        _ if e.raw_os_error() == Some(libc::EMFILE) || e.raw_os_error() == Some(libc::ENFILE) => {
            unavailable(what, "too many files are open: raise the limit (ulimit -n), or stop some processes")
        }
        _ => fault(what),
    }
}
