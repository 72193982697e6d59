//! What people are shown of a notice. The agent gets another text. No id of ours is shown.

use outlast_core::{Body, Completion, Notice, Reason, WatchMatch};
use outlast_text::{strip, tail_chars};
use serde_json::{Map, Value};

/// How much people are shown of notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeMode {
    /// Everything, with the end of the output.
    All,
    /// How a process ended and the end of its output, and what was posted.
    Result,
    /// The same of processes that failed to start, or ended with another exit code than 0.
    Error,
    /// One line, and a few more if a process failed.
    Concise,
    /// No notices.
    Off,
}

/// How many characters of output people are shown: as many as a terminal shows without scrolling.
pub const MAX_SHOWN_OUTPUT_CHARS: usize = 1000;

/// How many characters of output people are shown of a failure in mode concise.
pub const MAX_CONCISE_OUTPUT_CHARS: usize = 300;

/// The longest command in a line for people.
pub const MAX_SHOWN_COMMAND_CHARS: usize = 120;

/// The text for people, if they are shown anything.
pub fn shown(notice: &Notice, mode: NoticeMode) -> Option<String> {
    let mut text = match &notice.body {
        Body::Completion(end) => completion(end, mode)?,
        Body::Posted(fields) => posted(fields, mode)?,
        body => {
            let is_whole = match mode {
                NoticeMode::All => true,
                NoticeMode::Concise => false,
                NoticeMode::Result | NoticeMode::Error | NoticeMode::Off => return None,
            };
            match body {
                Body::WatchMatch(found) => watch_match(found, is_whole),
                Body::WatchDisabled { name, command, .. } => {
                    let process = process(name.as_deref());
                    format!("{process} is no longer watched, because too many of its lines matched: {}", one_line(command))
                }
                Body::WatchOverflowTripped { .. } => "Too many watched lines came at once; for a while none are reported.".to_owned(),
                Body::WatchOverflowReleased { suppressed, .. } => {
                    format!("Watched lines are reported again. {suppressed} were left out.")
                }
                Body::Until { .. } => "What was waited for has happened.".to_owned(),
                // Of a newer kind than this gateway.
                _ => "A notice arrived.".to_owned(),
            }
        }
    };
    if notice.repeat {
        text.push_str("\n(this may be a repeat)");
    }
    Some(text)
}

fn completion(end: &Completion, mode: NoticeMode) -> Option<String> {
    // An unknown exit code is no error that was seen.
    let is_error = end.exit_code.is_some_and(|code| code != 0) || end.completion_reason == Reason::FailedStart;
    let has_failed = is_error || end.completion_reason == Reason::Lost;
    let chars = match mode {
        NoticeMode::All | NoticeMode::Result => MAX_SHOWN_OUTPUT_CHARS,
        NoticeMode::Error if is_error => MAX_SHOWN_OUTPUT_CHARS,
        NoticeMode::Error | NoticeMode::Off => return None,
        NoticeMode::Concise if has_failed => MAX_CONCISE_OUTPUT_CHARS,
        NoticeMode::Concise => 0,
    };
    let mut lines = vec![format!("{}: {}", title(end), one_line(&end.command))];
    if chars > 0 {
        lines.extend(end.handoff_note.as_deref().map(one_line).filter(|note| !note.is_empty()));
        lines.extend(tail(&end.output, end.output_cut.unwrap_or(0), chars));
    }
    Some(lines.join("\n"))
}

/// A process as people call it.
fn process(name: Option<&str>) -> String {
    match name.map(one_line).filter(|name| !name.is_empty()) {
        Some(name) => format!("The process {name}"),
        None => "A process".to_owned(),
    }
}

/// How a process ended.
fn title(end: &Completion) -> String {
    let process = process(end.name.as_deref());
    let memory = if end.oom { ", out of memory" } else { "" };
    let how = match (&end.signal, end.exit_code) {
        (Some(signal), _) => format!("{}{memory}", one_line(signal)),
        (None, Some(code)) => format!("exit code {code}{memory}"),
        (None, None) => "its exit code is unknown".to_owned(),
    };
    match end.completion_reason {
        Reason::FailedStart => format!("{process} failed to start"),
        Reason::Lost => format!("{process} was lost ({how})"),
        Reason::Killed => format!("{process} was stopped ({how})"),
        // Of its own, or for a reason that is newer than this gateway.
        _ => format!("{process} ended ({how})"),
    }
}

fn watch_match(found: &WatchMatch, is_whole: bool) -> String {
    let process = process(found.name.as_deref());
    let mut lines = vec![format!("{process} printed \"{}\": {}", one_line(&found.pattern), one_line(&found.command))];
    if is_whole {
        lines.extend(tail(&found.output, 0, MAX_SHOWN_OUTPUT_CHARS));
        lines.extend((found.suppressed > 0).then(|| format!("({} matches before it were left out)", found.suppressed)));
    }
    lines.join("\n")
}

/// A notice that a client posted: its message, or else its kind.
fn posted(fields: &Map<String, Value>, mode: NoticeMode) -> Option<String> {
    let field = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let message = ["message", "text", "summary"].iter().find_map(|name| field(name));
    let title = match field("type") {
        Some("async_delegation") => "A delegation ended".to_owned(),
        Some(kind) => format!("A notice of kind {} was posted", one_line(kind)),
        None => "A notice was posted".to_owned(),
    };
    match (mode, message) {
        (NoticeMode::Error | NoticeMode::Off, _) => None,
        (NoticeMode::Concise, Some(message)) => Some(format!("{title}: {}", one_line(message))),
        (NoticeMode::All | NoticeMode::Result, Some(message)) => {
            Some(std::iter::once(format!("{title}:")).chain(tail(message, 0, MAX_SHOWN_OUTPUT_CHARS)).collect::<Vec<_>>().join("\n"))
        }
        (NoticeMode::All | NoticeMode::Result | NoticeMode::Concise, None) => Some(format!("{title}.")),
    }
}

/// The end of a text from the start of a line, and before it how much is missing, `cut` characters of it from before.
fn tail(text: &str, cut: u64, chars: usize) -> Vec<String> {
    let clean = clean(text);
    let kept = tail_chars(clean.trim_end(), chars);
    let removed = cut + kept.cut.map_or(0, |cut| cut.removed_chars as u64);
    let remark = (removed > 0).then(|| format!("({removed} characters before this are left out)"));
    let lines = (!kept.text.is_empty()).then(|| kept.text.to_owned());
    lines.is_some().then_some(remark).flatten().into_iter().chain(lines).collect()
}

/// Text of another program without what a terminal would obey.
fn clean(text: &str) -> String {
    let is_plain = |c: &char| !c.is_control() || matches!(c, '\n' | '\t');
    strip(text).chars().filter(is_plain).collect()
}

/// The same on one line, cut.
fn one_line(text: &str) -> String {
    let line = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_SHOWN_COMMAND_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
