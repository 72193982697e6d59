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

/// The line that marks what may have been told before, always the second.
const REPEAT: &str = "(this may be a repeat)";

/// The most characters of a command that are shown. Its event has all of it.
const LONGEST_COMMAND: usize = 16_384;

/// Fields of an event that say for whom it is and how it got there, not what happened.
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
        // Of a newer kind than this reader: that it happened is told, in no words of ours.
        _ => told(notice, "", "Something happened."),
    }
}

/// The text of several that were fetched together: a header that asks for one answer, then each. One alone is its own text.
pub fn announce_all(notices: &[Notice]) -> String {
    announce_header(notices.len()).into_iter().chain(notices.iter().map(announce)).collect::<Vec<_>>().join("\n\n")
}

/// The header of so many notices that are told together. One alone has none.
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
        // Of its own with another code, or for a reason that is newer than this reader.
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

/// The command, as far as it is shown.
fn command(command: &str) -> Vec<String> {
    let shown = head_chars(command, LONGEST_COMMAND);
    let cut = shown.cut.map(|cut| format!("({} characters of the command are not shown)", cut.removed_chars));
    cut.into_iter().chain([label("Command:", &or(shown.text, "unknown"))]).collect()
}

/// A kind that is nothing but its message, on one line.
fn told(notice: &Notice, message: &str, missing: &str) -> String {
    bracket(notice, &or(&line(message), missing), &[])
}

/// A kind that somebody else made up. It says so: what is posted must not pass for what we saw.
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
    // On one line: laid out, fields that lie deep inside each other would be many times as long.
    match serde_json::to_string(&told) {
        Ok(fields) if !told.is_empty() => bracket(notice, &title, &[label("Fields:", &fields)]),
        // Nothing to tell; a map of JSON values always prints.
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

/// A field as text, whatever its type; nothing for one that says nothing.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => Some(value.to_string()),
    }
}

#[cfg(test)]
mod tests;
