//! Notices for a user, one line each. The texts for models are in `outlast_text::announce`.

use super::super::out::{Tone, tame};
use super::super::{Context, times};
use jiff::tz::TimeZone;
use outlast_client::{Body, Completion, Notice, Reason, Time, WatchMatch};
use serde_json::{Map, Value};

/// How many characters of a command stand for a process without a name.
const MAX_COMMAND_CHARS: usize = 40;
/// How many characters of a line of output, or of a message, are shown.
const MAX_QUOTE_CHARS: usize = 300;

/// The line about a notice: when, of which session if not of `own`, and what.
pub(super) fn line(ctx: &Context, notice: &Notice, own: Option<&str>) -> String {
    let (now, zone) = (times::now(), ctx.world.zone());
    let when = ctx.out.paint(Tone::Quiet, &times::clock(notice.created_at, now, &zone));
    let session = match notice.session_key.as_str() {
        "" => String::new(),
        session if own == Some(session) => String::new(),
        session => format!("[{}] ", one_line(session, MAX_COMMAND_CHARS)),
    };
    let (what, tone) = sentence(notice, now, &zone);
    format!("{when} {session}{}\n", ctx.out.paint(tone, &what))
}

/// What happened, and how good that is.
pub(in crate::cli) fn sentence(notice: &Notice, now: Time, zone: &TimeZone) -> (String, Tone) {
    let (mut what, tone) = match &notice.body {
        Body::Completion(end) => completion(notice, end),
        Body::WatchMatch(found) => (watch_match(notice, found), Tone::Plain),
        Body::WatchDisabled { command, suppressed, .. } => {
            let what = format!("{} is no longer watched: too many of its lines matched", subject(notice, command));
            (with_left_out(what, *suppressed), Tone::Busy)
        }
        Body::WatchOverflowTripped { .. } => {
            ("matches are not reported for a while: too many processes matched at once".to_owned(), Tone::Busy)
        }
        Body::WatchOverflowReleased { suppressed, .. } => {
            (with_left_out("matches are reported again".to_owned(), *suppressed), Tone::Plain)
        }
        Body::Until { message, .. } => (one_line(&times::with_clock_times(message, now, zone), MAX_QUOTE_CHARS), Tone::Plain),
        Body::Posted(fields) => (posted(fields), Tone::Plain),
        // Of a later release than this program.
        _ => (format!("a notice of kind {}", one_line(notice.kind(), MAX_COMMAND_CHARS)), Tone::Plain),
    };
    if notice.repeat {
        what += " (may have been shown before)";
    }
    (what, tone)
}

/// The process of a notice: its name, or else its command and its id.
fn subject(notice: &Notice, command: &str) -> String {
    match notice.name() {
        Some(name) => one_line(name, MAX_QUOTE_CHARS),
        None if notice.session_id.is_empty() => one_line(command, MAX_COMMAND_CHARS),
        None => format!("{} ({})", one_line(command, MAX_COMMAND_CHARS), tame(&notice.session_id)),
    }
}

fn completion(notice: &Notice, end: &Completion) -> (String, Tone) {
    let after = match (end.started_at, end.ended_at) {
        (Some(start), Some(end)) if end >= start => format!(" after {}", took(end.micros() - start.micros())),
        _ => String::new(),
    };
    let signal = end.signal.as_deref().map(tame);
    let (how, tone) = match (end.completion_reason, end.exit_code, signal) {
        (Reason::FailedStart, code, _) => {
            (format!("could not be started{}", code.map(|code| format!(" (exit {code})")).unwrap_or_default()), Tone::Bad)
        }
        (Reason::Lost, ..) => ("is lost: it ended, and its exit status is unknown".to_owned(), Tone::Bad),
        (_, _, Some(signal)) if end.oom => (format!("was killed{after}: the machine ran out of memory ({signal})"), Tone::Bad),
        (Reason::Killed, _, Some(signal)) if end.termination_source == "timeout" => {
            (format!("was stopped at its time limit{after} ({signal})"), Tone::Bad)
        }
        (Reason::Killed, _, Some(signal)) => (format!("was stopped ({signal}){after}"), Tone::Busy),
        (_, _, Some(signal)) => (format!("was killed by {signal}{after}"), Tone::Bad),
        (_, Some(0), None) => (format!("finished (exit 0){after}"), Tone::Good),
        (_, Some(code), None) => (format!("failed (exit {code}){after}"), Tone::Bad),
        (_, None, None) => (format!("ended{after}, and its exit status is unknown"), Tone::Bad),
    };
    (format!("{} {how}", subject(notice, &end.command)), tone)
}

fn watch_match(notice: &Notice, found: &WatchMatch) -> String {
    let mut lines = found.output.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().map(|line| format!(": {}", one_line(line, MAX_QUOTE_CHARS))).unwrap_or_default();
    let more = match lines.count() {
        0 => String::new(),
        1 => " (and 1 more line)".to_owned(),
        n => format!(" (and {n} more lines)"),
    };
    let pattern = one_line(&found.pattern, MAX_COMMAND_CHARS);
    with_left_out(format!("{} printed \"{pattern}\"{first}{more}", subject(notice, &found.command)), found.suppressed)
}

fn with_left_out(what: String, matches: u64) -> String {
    match matches {
        0 => what,
        1 => format!("{what}; 1 match before this was left out"),
        n => format!("{what}; {n} matches before this were left out"),
    }
}

/// A notice that a client posted: its message, or else its fields.
fn posted(fields: &Map<String, Value>) -> String {
    let field = |name: &str| fields.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let kind = one_line(field("type").unwrap_or("notice"), MAX_COMMAND_CHARS);
    if let Some(message) = ["message", "text", "summary"].into_iter().find_map(field) {
        return format!("{kind}: {}", one_line(message, MAX_QUOTE_CHARS));
    }
    let rest: Map<String, Value> =
        fields.iter().filter(|(name, _)| *name != "type").map(|(name, value)| (name.clone(), value.clone())).collect();
    if rest.is_empty() { kind } else { format!("{kind}: {}", one_line(&Value::Object(rest).to_string(), MAX_QUOTE_CHARS)) }
}

/// `340ms` below a second, otherwise as everywhere: `4s`, `3m 20s`.
pub(in crate::cli) fn took(micros: i64) -> String {
    match micros.max(0) {
        short @ 0..1_000_000 => format!("{}ms", short / 1_000),
        long => times::age(long.unsigned_abs() / 1_000_000),
    }
}

/// Text of another program on one line, without what a terminal would obey, cut.
fn one_line(text: &str, chars: usize) -> String {
    let words = tame(text).split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &words[..at]),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(event: Value) -> String {
        let mut whole = json!({"event_id": "evt_1", "created_at": "2026-01-31T14:03:22Z", "session_id": "proc_ab12000000ff"});
        whole.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        let notice: Notice = serde_json::from_value(whole).unwrap();
        sentence(&notice, "2026-01-31T15:00:00Z".parse().unwrap(), &TimeZone::UTC).0
    }

    fn ended(more: Value) -> String {
        let mut event = json!({
            "type": "completion", "command": "make test", "exit_code": 1, "completion_reason": "exited",
            "started_at": "2026-01-31T14:03:18Z", "ended_at": "2026-01-31T14:03:22.9Z",
        });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        said(event)
    }

    #[test]
    fn each_notice_is_one_line_for_a_person() {
        let long = "cargo test --workspace --all-features -- --nocapture";
        let all = [
            ended(json!({"name": "suite"})),
            ended(json!({"exit_code": 0})),
            ended(json!({"command": long, "ended_at": "2026-01-31T14:03:18.34Z"})),
            ended(
                json!({"name": "suite", "exit_code": -15, "signal": "SIGTERM", "completion_reason": "killed", "termination_source": "kill"}),
            ),
            ended(
                json!({"name": "suite", "exit_code": -15, "signal": "SIGTERM", "completion_reason": "killed", "termination_source": "timeout"}),
            ),
            ended(json!({"name": "suite", "exit_code": -11, "signal": "SIGSEGV", "repeat": true})),
            ended(json!({"name": "suite", "exit_code": -9, "signal": "SIGKILL", "oom": true})),
            ended(json!({"exit_code": 127, "completion_reason": "failed_start", "started_at": null, "ended_at": null})),
            ended(json!({"exit_code": null, "completion_reason": "lost"})),
            ended(json!({"exit_code": null})),
            said(
                json!({"type": "watch_match", "name": "web", "command": "npm start", "pattern": "listening", "output": "Server listening on 8080\n"}),
            ),
            said(json!({"type": "watch_match", "command": "npm start", "pattern": "x", "output": "x1\n\nx2\x1b[2J\nx3", "suppressed": 2})),
            said(json!({"type": "watch_disabled", "name": "web", "command": "npm start", "message": "m", "suppressed": 1})),
            said(json!({"type": "watch_overflow_tripped", "message": "m"})),
            said(json!({"type": "watch_overflow_released", "message": "m", "suppressed": 3})),
            said(json!({"type": "until", "barrier": "b", "why": "time", "message": "It is 2026-01-31T14:00:00Z."})),
            said(json!({"type": "deploy", "message": "stage 2\nis done"})),
            said(json!({"type": "deploy", "n": 3, "ok": true})),
            said(json!({"type": "deploy"})),
        ];
        insta::assert_snapshot!(all.join("\n"));
    }
}
