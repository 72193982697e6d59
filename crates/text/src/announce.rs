//! Notices as their readers get them.
//!
//! A notice is one line in brackets, or several lines of which the last is only a closing bracket. Text from other programs and users
//! (output, commands, patterns, posted fields) goes through [`quote`]: each of its lines is marked or follows a label of ours, so that none
//! can pass for a line of the notice. Remarks about a quote come before it, unless the contract has them after it.
//!
//! Decision 168: docs/decisions/notices.md.

mod delegation;
mod quote;

use crate::head_chars;
use outlast_core::{Body, Completion, Notice, Reason, WatchMatch};
use quote::{block, label, line};
use serde_json::{Map, Value};

/// The line that marks a notice that may have been delivered before. It is always the second line.
const REPEAT: &str = "(this may be a repeat)";

/// The most characters of a command that are shown. The event has the whole command.
const MAX_COMMAND_CHARS: usize = 16_384;

/// The most characters of a command in the mark of an earlier conversation.
const MAX_MARK_CHARS: usize = 120;

/// The characters of a time up to its seconds.
const SECONDS_CHARS: usize = 19;

/// Fields of an event about its owner and its delivery. They do not say what happened.
const ADDRESS: [&str; 14] = [
    "type",
    "event_id",
    "seq",
    "created_at",
    "session_id",
    "session_key",
    "task_id",
    "generation",
    "platform",
    "chat_id",
    "user_id",
    "user_name",
    "thread_id",
    "message_id",
];

/// The text of one notice.
pub fn announce(notice: &Notice) -> String {
    let id = or(&line(&notice.session_id), "unknown");
    let id = match notice.name().map(line).filter(|name| !name.trim().is_empty()) {
        Some(name) => format!("{name} ({id})"),
        None => id,
    };
    match &notice.body {
        Body::Completion(end) => completion(notice, &id, end),
        Body::WatchMatch(seen) => watch_match(notice, &id, seen),
        Body::WatchDisabled { message, .. } => told(notice, message, "Watch patterns disabled."),
        Body::WatchOverflowTripped { message } => told(notice, message, "Watch-pattern overflow."),
        Body::WatchOverflowReleased { message, .. } => told(notice, message, "Watch-pattern notifications resumed."),
        Body::Until { barrier, why, message } => {
            let plain = format!("Barrier {} is open ({}).", or(&line(barrier), "unknown"), or(&line(why), "?"));
            told(notice, message, &plain)
        }
        Body::Posted(fields) if notice.kind() == "async_delegation" => delegation::text(notice, fields),
        Body::Posted(fields) => posted(notice, fields),
        // A kind that is newer than this reader.
        _ => told(notice, "", "Something happened."),
    }
}

/// The same, for a conversation that the notice has passed to because its own one is over.
pub fn announce_earlier(notice: &Notice) -> String {
    let (command, started_at) = match &notice.body {
        Body::Completion(end) => (end.command.as_str(), end.started_at),
        Body::WatchMatch(WatchMatch { command, .. }) | Body::WatchDisabled { command, .. } => (command.as_str(), None),
        _ => ("", None),
    };
    let text = announce(notice);
    let command = or(&line(head_chars(command, MAX_MARK_CHARS).text), &notice.session_id);
    let started = started_at.map(|at| format!(", started {}", at.to_string().chars().take(SECONDS_CHARS).collect::<String>() + "Z"));
    let mark = format!("(from an earlier conversation: {command}{})", started.unwrap_or_default());
    match text.split_once('\n') {
        None => format!("{}\n{mark}\n]", text.strip_suffix(']').unwrap_or(&text)),
        Some((title, rest)) => match rest.strip_prefix(REPEAT) {
            Some(rest) => format!("{title}\n{REPEAT}\n{mark}{rest}"),
            None => format!("{title}\n{mark}\n{rest}"),
        },
    }
}

/// The text of several notices that were fetched together: a header that asks for one answer, then each notice. A single notice has no
/// header.
pub fn announce_all(notices: &[Notice]) -> String {
    announce_header(notices.len()).into_iter().chain(notices.iter().map(announce)).collect::<Vec<_>>().join("\n\n")
}

/// The header of `count` notices that are delivered together. A single notice has none.
pub fn announce_header(count: usize) -> Option<String> {
    (count > 1).then(|| {
        format!(
            "[IMPORTANT: {count} background notices arrived together and follow below. Read them all, then give one consolidated answer.]"
        )
    })
}

fn completion(notice: &Notice, id: &str, end: &Completion) -> String {
    let status = match end.completion_reason {
        Reason::Killed => format!("terminated by {}", or(&line(&end.termination_source), "Outlast")),
        Reason::Lost => "marked lost because the process backend disappeared".to_owned(),
        Reason::FailedStart => "failed to start".to_owned(),
        Reason::Exited if end.exit_code == Some(0) => "completed normally".to_owned(),
        // It exited with another code, or for a reason that is newer than this reader.
        _ => "exited".to_owned(),
    };
    let code = end.exit_code.map_or_else(|| "?".to_owned(), |code| code.to_string());
    let signal = match (end.exit_code, &end.signal) {
        (Some(-15 | 143), _) => ", SIGTERM".to_owned(),
        (_, Some(name)) if !name.is_empty() => format!(", {}", line(name)),
        _ => String::new(),
    };
    let memory = if end.oom { ", out of memory" } else { "" };
    let mut lines = Vec::new();
    if let Some(note) = end.handoff_note.as_deref().filter(|note| !note.trim().is_empty()) {
        lines.push(label("Note:", note));
    }
    lines.extend(command(&end.command));
    if let Some(cut) = end.output_cut.filter(|cut| *cut > 0) {
        lines.push(format!("({cut} characters of output before this were cut)"));
    }
    if let Some(missing) = end.output_missing.filter(|missing| *missing > 0) {
        lines.push(format!("({missing} bytes of output are missing: the disk refused them)"));
    }
    lines.push("Output:".to_owned());
    lines.extend(block(&end.output));
    bracket(notice, &format!("Background process {id} {status} (exit code {code}{signal}{memory})."), &lines)
}

fn watch_match(notice: &Notice, id: &str, seen: &WatchMatch) -> String {
    let pattern = or(&line(&seen.pattern), "?");
    let mut lines = command(&seen.command);
    lines.push("Matched output:".to_owned());
    lines.extend(block(&seen.output));
    if seen.suppressed > 0 {
        lines.push(format!("({} earlier matches were suppressed by rate limit)", seen.suppressed));
    }
    bracket(notice, &format!("Background process {id} matched watch pattern \"{pattern}\"."), &lines)
}

/// The lines that show the command.
fn command(command: &str) -> Vec<String> {
    let shown = head_chars(command, MAX_COMMAND_CHARS);
    let cut = shown.cut.map(|cut| format!("({} characters of the command are not shown)", cut.removed_chars));
    cut.into_iter().chain([label("Command:", &or(shown.text, "unknown"))]).collect()
}

/// A notice whose text is only its message, on one line.
fn told(notice: &Notice, message: &str, missing: &str) -> String {
    bracket(notice, &or(&line(message), missing), &[])
}

/// A notice that a client posted. Its title says so: it must not look like an event that Outlast observed.
fn posted(notice: &Notice, fields: &Map<String, Value>) -> String {
    let title = match fields.get("type").and_then(scalar).map(|kind| line(&kind)) {
        Some(kind) if !kind.trim().is_empty() => format!("A notice of kind \"{kind}\" was posted."),
        _ => "A notice of unknown kind was posted.".to_owned(),
    };
    let message =
        ["message", "text"].iter().find_map(|name| fields.get(*name).and_then(Value::as_str).filter(|text| !text.trim().is_empty()));
    if let Some(message) = message {
        return bracket(notice, &title, &[label("Message:", message)]);
    }
    let told: Map<String, Value> =
        fields.iter().filter(|(name, _)| !ADDRESS.contains(&name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect();
    // On one line: indented, deeply nested fields would be many times as long.
    match serde_json::to_string(&told) {
        Ok(fields) if !told.is_empty() => bracket(notice, &title, &[label("Fields:", &fields)]),
        // There are no fields. A map of JSON values always prints.
        Ok(_) | Err(_) => bracket(notice, &title, &[]),
    }
}

/// Title, mark and lines in one pair of brackets. If there are several lines, the closing bracket has a line of its own, which no quote can
/// imitate.
fn bracket(notice: &Notice, title: &str, lines: &[String]) -> String {
    let mut text = format!("[IMPORTANT: {title}");
    let more = notice.repeat.then_some(REPEAT).into_iter().chain(lines.iter().map(String::as_str));
    let is_one_line = more.fold(true, |_, line| {
        text.push('\n');
        text.push_str(line);
        false
    });
    text.push_str(if is_one_line { "]" } else { "\n]" });
    text
}

fn or(text: &str, missing: &str) -> String {
    if text.trim().is_empty() { missing.to_owned() } else { text.to_owned() }
}

/// A field of any type as text; `None` for null.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Some(value.to_string()),
    }
}

#[cfg(test)]
mod tests;
