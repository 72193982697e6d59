//! How a process ended: as text, and as the exit code of `outlast`.

use super::failure::OURS;
use super::out::Tone;
use super::{named, times};
use outlast_client::{Fate, ProcessInfo, Reason, Status, Time};

/// The exit code after a time limit, as `timeout` has it.
pub(crate) const TIMED_OUT: i32 = 124;

/// The exit code of `outlast` for an ending: that of the command, 128+n for signal n, 124 after a time limit, 126 or 127 if it did not start, 125 if
/// it is unknown.
pub(crate) fn exit_code(fate: &Fate) -> i32 {
    match (fate.completion_reason, fate.exit_code.flatten()) {
        (Some(Reason::FailedStart), _) => fate.start_code.unwrap_or(126),
        (Some(Reason::Killed), _) if fate.termination_source.as_deref() == Some("timeout") => TIMED_OUT,
        (_, Some(code @ 0..)) => code & 0xff,
        (_, Some(signal)) => 128 + (-signal & 0x7f),
        (_, None) => OURS,
    }
}

/// Whether `outlast` exits with a code that is not the command's, so that a remark has to explain it.
pub(crate) fn is_ours(fate: &Fate) -> bool {
    let is_limit = fate.completion_reason == Some(Reason::Killed) && fate.termination_source.as_deref() == Some("timeout");
    let is_unknown = fate.completion_reason != Some(Reason::FailedStart) && fate.exit_code.flatten().is_none();
    is_limit || is_unknown
}

/// The state of a process in a word or two.
pub(crate) fn standing(p: &ProcessInfo) -> (String, Tone) {
    standing_with(p, |left| format!("{left} still running"))
}

/// The same for a narrow column.
pub(crate) fn short_standing(p: &ProcessInfo) -> (String, Tone) {
    standing_with(p, |left| if left == 1 { "1 runs".into() } else { format!("{left} run") })
}

fn standing_with(p: &ProcessInfo, left: impl Fn(usize) -> String) -> (String, Tone) {
    match p.phase.as_str() {
        _ if p.is_suspended => ("suspended".into(), Tone::Busy),
        "exited" | "draining" => {
            let (outcome, tone) = outcome(&p.fate);
            match p.left.len() {
                0 => (outcome, tone),
                count => (format!("{outcome}, {}", left(count)), Tone::Busy),
            }
        }
        "running" | "adopted" => (p.phase.clone(), Tone::Good),
        "lost" if !p.left.is_empty() => (format!("lost, {}", left(p.left.len())), Tone::Busy),
        "starting" | "stopping" | "orphaned" | "unreachable" => (p.phase.clone(), Tone::Busy),
        "failed_start" => ("failed to start".into(), Tone::Bad),
        _ => (p.phase.clone(), Tone::Bad),
    }
}

/// Marks processes that a stop signal has suspended. A list of the engine does not contain that.
pub(crate) fn mark_suspended(processes: &mut [ProcessInfo]) {
    for p in processes.iter_mut().filter(|p| p.fate.completion_reason.is_none()) {
        p.is_suspended = p.pid.is_some_and(crate::os::is_suspended);
    }
}

/// How a process ended, in a word or two.
fn outcome(fate: &Fate) -> (String, Tone) {
    match (fate.exit_code.flatten(), &fate.signal) {
        (_, Some(signal)) => (signal.clone(), Tone::Bad),
        (Some(0), None) => ("exited 0".into(), Tone::Quiet),
        (Some(code), None) => (format!("exited {code}"), Tone::Bad),
        (None, None) => ("exited, code unknown".into(), Tone::Bad),
    }
}

/// How a command ended, for the user who has just started it. None if it runs.
pub(crate) fn outcome_in_words(p: &ProcessInfo) -> Option<String> {
    if !matches!(p.phase.as_str(), "exited" | "draining") {
        return None;
    }
    Some(match (p.fate.exit_code.flatten(), &p.fate.signal) {
        (_, Some(signal)) => format!("was killed by {signal}"),
        (Some(0), None) => "finished".into(),
        (Some(code), None) => format!("failed (exit {code})"),
        (None, None) => "finished, exit code unknown".into(),
    })
}

/// Whether it has finished because it was stopped, but not at its time limit.
pub(crate) fn was_stopped(p: &ProcessInfo) -> bool {
    p.fate.completion_reason == Some(Reason::Killed) && p.fate.termination_source.as_deref() != Some("timeout")
}

/// Whether it has finished in another way than with exit code 0, and was not stopped on request.
pub(crate) fn is_failed(p: &ProcessInfo) -> bool {
    p.status == Status::Exited && p.fate.exit_code.flatten() != Some(0) && !was_stopped(p)
}

/// How long it ran, as far as that is known: a process whose end was not observed ran at least until its last output.
pub(crate) fn time(p: &ProcessInfo, age: impl Fn(u64) -> String) -> Option<String> {
    match (p.is_uptime_at_least, p.uptime_seconds) {
        (false, seconds) => Some(age(seconds)),
        (true, 0) => None,
        (true, seconds) => Some(format!("≥{}", age(seconds))),
    }
}

/// How long ago it ended: at least as long as it is known to have ended.
pub(crate) fn ended(fate: &Fate, now: Time) -> Option<String> {
    let ago = times::ago(fate.ended_by()?, now)?;
    Some(if fate.ended_at.is_some() { ago } else { format!("≥{ago}") })
}

/// The signal or the exit code.
fn result(fate: &Fate) -> String {
    match (fate.exit_code.flatten(), &fate.signal) {
        (_, Some(signal)) => signal.clone(),
        (Some(code), None) => format!("exit code {code}"),
        (None, None) => "exit code unknown".into(),
    }
}

/// How it ended, as a sentence without its subject.
pub(crate) fn sentence(fate: &Fate) -> String {
    let how = match (fate.exit_code.flatten(), &fate.signal) {
        (_, Some(signal)) => format!("was killed by {signal}"),
        (Some(code), None) => format!("exited with code {code}"),
        (None, None) => "ended, and its exit status is unknown".into(),
    };
    match (fate.completion_reason, fate.termination_source.as_deref()) {
        (Some(Reason::FailedStart), _) => format!("failed to start: {}", fate.start_error.as_deref().unwrap_or("no reason is known")),
        (Some(Reason::Killed), Some("timeout")) => format!("was stopped at its time limit ({})", result(fate)),
        (Some(Reason::Killed), Some(source)) if !source.is_empty() => {
            let verb = match source.strip_prefix("process.").unwrap_or(source) {
                "kill_all" => "kill --all",
                verb => verb,
            };
            format!("was stopped by {verb} ({})", result(fate))
        }
        (Some(Reason::Lost), _) => "is lost: it ended, and its exit status is unknown".into(),
        _ => how,
    }
}

/// What is known of a process that runs although its output has ended, and what a user can do about it. `typed` is what hints call it.
pub(crate) fn without_reader(p: &ProcessInfo, typed: &str) -> String {
    let of = named::shown(p.session_id, p.name.as_deref());
    match p.phase.as_str() {
        "orphaned" => format!(
            "{of} is orphaned: it keeps running, but its output has no reader\n  `outlast kill {typed}` stops it, `outlast rerun {typed}` runs its command again"
        ),
        "adopted" => format!("{of} is adopted: it keeps running, and its output is not available"),
        _ => format!("{of} keeps running, but its output is closed; `outlast wait {typed}` waits for its end"),
    }
}

/// Whether the output of a process that runs is out of reach: its keepers are dead, or it was adopted.
pub(crate) fn is_out_of_reach(p: &ProcessInfo) -> bool {
    matches!(p.phase.as_str(), "orphaned" | "adopted")
}

/// How it ended, as [`sentence`] says it, after the user has pressed Ctrl-C, for which the engine was asked to stop several processes.
pub(crate) fn sentence_after_ctrl_c(fate: &Fate) -> String {
    let source = fate.termination_source.as_deref().map(|source| source.strip_prefix("process.").unwrap_or(source));
    match (fate.completion_reason, source) {
        (Some(Reason::Killed), Some("kill_all")) => format!("was stopped by Ctrl-C ({})", result(fate)),
        _ => sentence(fate),
    }
}
