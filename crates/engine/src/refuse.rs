//! Errors as callers see them: what was wrong with which value, a stable name, and what to do.

use crate::index::IndexError;
use crate::near::Near;
use outlast_core::{ProcessId, Refusal};
use outlast_wire::code;
use outlast_wire::v1::{Error, ErrorKind, LeftProcess};
use std::io;
use std::path::Path;

/// A request that will not be accepted in this form.
pub(crate) fn refusal(code: &str, what: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::new(ErrorKind::Refusal, code, what, hint)
}

/// A request of a newer client.
pub(crate) fn unknown(what: &str, asked: &impl std::fmt::Debug) -> Error {
    refusal(
        code::BAD_REQUEST,
        format!("this engine does not know {what} like {asked:?}"),
        "end it with `outlast engine stop`: the next one is as new as its caller",
    )
}

/// A request that may succeed later.
pub(crate) fn unavailable(what: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unavailable, code::UNAVAILABLE, what, hint)
}

/// The same, with a code of its own.
pub(crate) fn unavailable_as(code: &str, what: impl Into<String>, hint: impl Into<String>) -> Error {
    unavailable(what, hint).with_code(code)
}

/// A process in a sandbox whose keepers are dead.
pub(crate) fn orphan_elsewhere(id: ProcessId) -> Error {
    let what = format!("both keepers of {id} in its sandbox are dead, so it cannot be signalled from here");
    refusal(code::UNREACHABLE, what, "stop it in the sandbox; its end is then seen here")
}

/// A fault of ours or of the machine. It is logged.
pub(crate) fn fault(what: impl std::fmt::Display) -> Error {
    tracing::error!(%what, "fault");
    Error::new(ErrorKind::Fault, code::FAULT, what.to_string(), "look into engine.log in the state directory")
}

/// A system call that every start needs is refused here.
pub(crate) fn refused_call(what: &str) -> Error {
    refusal(
        code::REFUSED_CALL,
        format!("{what}: nothing can be started"),
        "allow it in the container's seccomp profile (Docker 20.10.10 and newer do; --security-opt seccomp=FILE), and use a kernel from 5.10 on",
    )
}

/// The engine is about to end.
pub(crate) fn stopping() -> Error {
    // It has a code of its own: a client waits for this engine to end, and a sink inside it has to end.
    unavailable("the engine is stopping", "ask again: a new one is started on demand; processes keep running").with_code(code::STOPPING)
}

/// The home was removed or replaced under the engine.
pub(crate) fn home_gone(home: &Path) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        code::HOME_GONE,
        format!("the state directory {} was removed or replaced while the engine ran, so nothing was accepted", home.display()),
        "ask again: a new engine is started for the directory that is there now; processes of the old one keep running until they end",
    )
}

/// No such process, with suggestions.
pub(crate) fn not_found(given: &str, near: &[Near]) -> Error {
    let shown: String = given.chars().take(80).collect();
    let what = format!("No process with ID {shown}");
    let meant: Vec<String> = near.iter().map(ToString::to_string).collect();
    let meant = if meant.is_empty() { String::new() } else { format!("did you mean {}? ", meant.join(" or ")) };
    refusal(code::NOT_FOUND, what, format!("{meant}`outlast list --all` lists all processes")).with_status("not_found")
}

/// No session whose waits the caller may interrupt.
pub(crate) fn no_session(given: &str) -> Error {
    let shown: String = given.chars().take(80).collect();
    let what = format!("No waits of a session {shown}");
    refusal(code::NOT_FOUND, what, "a session may interrupt only its own waits").with_status("not_found")
}

/// No process can have this id or name.
pub(crate) fn bad_id(given: &str) -> Error {
    // By the contract, a text that cannot name a process is answered like an unknown process.
    not_found(given, &[]).with_code(code::BAD_ID)
}

/// The beginning of several ids, or of one id and the name of another process.
pub(crate) fn ambiguous(given: &str, candidates: &[ProcessId]) -> Error {
    let shown: Vec<String> = candidates.iter().take(8).map(ToString::to_string).collect();
    let more = if candidates.len() > shown.len() { format!(" and {} more", candidates.len() - shown.len()) } else { String::new() };
    refusal(code::AMBIGUOUS_ID, format!("{given:?} could be {}{more}", shown.join(", ")), "give more digits, or the whole id")
}

/// A refusal by the rules in core.
pub(crate) fn rule(refusal_of_core: &Refusal) -> Error {
    let text = refusal_of_core.to_string();
    match refusal_of_core {
        Refusal::AlreadyExited { exit_code } => {
            let error = refusal(code::ALREADY_EXITED, text, "`outlast log` shows its output");
            error.with_status("already_exited").with_exit_code(*exit_code)
        }
        Refusal::NoInput => refusal(code::NO_INPUT, text, "start it with --stdin or --pty to be able to write to it"),
        Refusal::StillRunning => refusal(code::STILL_RUNNING, text, "`outlast kill` stops it"),
        Refusal::StillStarting => unavailable(text, "ask again in a moment"),
    }
}

/// The process belongs to another conversation of the caller's session.
pub(crate) fn other_conversation(id: ProcessId) -> Error {
    let what = format!("{id} belongs to another conversation of this session, which is still open");
    refusal(code::OTHER_CONVERSATION, what, "leave it to that conversation; with force it is changed all the same")
}

/// A finished process has left these running.
pub(crate) fn left_running(id: ProcessId, left: &[LeftProcess]) -> Error {
    let named: Vec<String> = left.iter().map(|one| format!("{} {}", one.pid, one.command)).collect();
    let (count, them) = if left.len() == 1 { ("1 process".to_owned(), "it") } else { (format!("{} processes", left.len()), "them") };
    let what = format!("{id} has ended, but left {count} running: {}", named.join(", "));
    refusal(code::STILL_RUNNING, what, format!("`outlast kill {id}` stops {them}"))
}

/// A process that is not known holds the output of a finished one open.
pub(crate) fn output_held(id: ProcessId) -> Error {
    let what = format!("{id} has ended, but another process still holds its output open");
    refusal(code::STILL_RUNNING, what, "it can be removed once that process has ended or closed it")
}

/// The index refused a change.
pub(crate) fn index(e: &IndexError) -> Error {
    index_so(e, "nothing was changed")
}

/// The index refused a new process.
pub(crate) fn index_start(e: &IndexError) -> Error {
    index_so(e, "nothing was started")
}

fn index_so(e: &IndexError, so: &str) -> Error {
    match e {
        IndexError::NoRoom { .. } => unavailable(
            format!("nothing can be written down, so {so}: {e}"),
            "free some space or make the state directory writable; running processes are not affected",
        ),
        IndexError::HomeGone { path } => home_gone(path.parent().unwrap_or(path)),
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
