//! The result of a sub-agent.
//!
//! The contract has a title in brackets and free text after it. A last line names the delegation again, so that nothing in the text can
//! imitate its end. Results are quoted line by line, so that no result looks like the title of another.

use super::quote::{block, label, line};
use super::{REPEAT, or, scalar};
use outlast_core::{Notice, Time};
use serde_json::{Map, Value};

type Fields = Map<String, Value>;

/// The most bytes of all results of a batch, unless the first alone takes more. The text says how many are left out; the event has all of
/// them. Without a limit a short event could make an enormous text: each result has its own line, and all may name the same long goal.
const MAX_RESULTS_BYTES: usize = 512 << 10;

pub(super) fn text(notice: &Notice, fields: &Fields) -> String {
    let id = or(&line(&field(fields, "delegation_id").unwrap_or_default()), "unknown");
    let results = fields.get("results").and_then(Value::as_array);
    let batch = fields.get("is_batch") == Some(&Value::Bool(true)) || results.is_some();
    let title = if batch { "ASYNC DELEGATION BATCH" } else { "ASYNC DELEGATION" };
    let mut lines = vec![format!("[{title} COMPLETE — {id}]")];
    lines.extend(notice.repeat.then(|| REPEAT.to_owned()));
    match batch {
        true => many(notice, fields, results.map_or(&[], Vec::as_slice), &mut lines),
        false => one(notice, fields, &mut lines),
    }
    lines.push(format!("[END OF {title} — {id}]"));
    lines.join("\n")
}

fn one(notice: &Notice, fields: &Fields, lines: &mut Vec<String>) {
    lines.push(
        "A sub-agent that you sent off earlier has finished. The task it was given follows, then its result: act on it, or send it off again \
         if things have changed since."
            .to_owned(),
    );
    lines.push(String::new());
    lines.extend(dispatched(notice, fields));
    lines.push(label("Original goal:", &field(fields, "goal").unwrap_or_default()));
    lines.extend(given(fields));
    lines.push(role(fields));
    let status = field(fields, "status").unwrap_or_else(|| "completed".into());
    lines.push(format!(
        "Status: {} API calls: {} Duration: {}s",
        line(&status),
        short(fields, "api_calls"),
        short(fields, "duration_seconds")
    ));
    lines.push("--- RESULT ---".to_owned());
    let error = field(fields, "error");
    let summary = field(fields, "summary").and_then(|summary| block(&summary));
    match (&status[..], summary) {
        ("completed" | "success", Some(summary)) => lines.push(summary),
        ("completed" | "success", None) => {
            lines.push("(no summary)".to_owned());
            lines.extend(error.and_then(|error| block(&error)));
        }
        (_, summary) => {
            lines.push(match (&status[..], error) {
                ("interrupted", Some(error)) => label("The sub-agent was interrupted before it was done:", &error),
                ("interrupted", None) => "The sub-agent was interrupted before it was done.".to_owned(),
                (_, Some(error)) => label(&format!("The sub-agent failed (status={}):", line(&status)), &error),
                (_, None) => format!("The sub-agent failed (status={}).", line(&status)),
            });
            lines.extend(partial(summary));
        }
    }
}

fn many(notice: &Notice, fields: &Fields, results: &[Value], lines: &mut Vec<String>) {
    let goals = fields.get("goals").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of = if results.is_empty() { goals.len() } else { results.len() };
    lines.push(format!(
        "A batch of {of} sub-agents that you sent off earlier has finished. All their results follow together: act on them, or send them off \
         again if things have changed since."
    ));
    lines.push(String::new());
    lines.extend(dispatched(notice, fields));
    lines.extend(given(fields));
    let total = ["total_duration_seconds", "duration_seconds"].iter().find_map(|name| field(fields, name));
    lines.push(format!("{} Total duration: {}s", role(fields), total.map_or_else(|| "?".to_owned(), |total| line(&total))));
    if results.is_empty() {
        lines.push("--- ERROR ---".to_owned());
        lines.push(match field(fields, "error") {
            Some(error) => label("The batch failed:", &error),
            None => "The batch brought no results.".to_owned(),
        });
        return;
    }
    let index = |at: usize, result: &Value| result.get("task_index").and_then(Value::as_u64).unwrap_or(at as u64);
    let mut sorted: Vec<(u64, &Value)> = results.iter().enumerate().map(|(at, result)| (index(at, result), result)).collect();
    sorted.sort_by_key(|(index, _)| *index);
    let mut bytes = 0;
    for (n, (index, result)) in sorted.into_iter().enumerate() {
        let goal = usize::try_from(index).ok().and_then(|i| goals.get(i)).and_then(filled);
        let mut shown = vec![String::new()];
        task(index, of, goal, result, &mut shown);
        bytes += shown.iter().map(|line| line.len() + 1).sum::<usize>();
        if n > 0 && bytes > MAX_RESULTS_BYTES {
            lines.push(String::new());
            lines.push(format!("--- {} more results are not shown ---", of - n));
            break;
        }
        lines.extend(shown);
    }
}

fn task(index: u64, of: usize, goal: Option<String>, result: &Value, lines: &mut Vec<String>) {
    let none = Fields::new();
    let fields = result.as_object().unwrap_or(&none);
    let status = or(&line(&field(fields, "status").unwrap_or_default()), "?");
    let good = matches!(&status[..], "completed" | "success");
    let mut header = format!("--- {} TASK {}/{of}", if good { '✓' } else { '✗' }, index.saturating_add(1));
    if let Some(goal) = goal.or_else(|| field(fields, "goal")) {
        header.push_str(&format!(": {}", line(&goal)));
    }
    header.push_str(&format!(" (status={status}"));
    if let Some(calls) = field(fields, "api_calls") {
        header.push_str(&format!(", api_calls={}", line(&calls)));
    }
    if let Some(seconds) = field(fields, "duration_seconds") {
        header.push_str(&format!(", {}s", line(&seconds)));
    }
    lines.push(format!("{header}) ---"));
    let error = field(fields, "error");
    // A result that is not an object is shown as it is.
    let summary = if result.is_object() { field(fields, "summary") } else { filled(result) };
    match (summary.and_then(|summary| block(&summary)), error) {
        (Some(summary), _) if good => lines.push(summary),
        (Some(summary), error) => {
            lines.extend(error.map(|error| format!("({})", label(&format!("{status}:"), &error))));
            lines.extend(partial(Some(summary)));
        }
        (None, Some(error)) => lines.push(format!("({})", label(&format!("no summary — status={status}:"), &error))),
        (None, None) => lines.push(format!("(no summary — status={status})")),
    }
}

fn partial(summary: Option<String>) -> Vec<String> {
    summary.map_or_else(Vec::new, |summary| vec!["Partial output:".to_owned(), summary])
}

fn dispatched(notice: &Notice, fields: &Fields) -> Option<String> {
    let at = fields.get("dispatched_at").and_then(time)?;
    let until = fields.get("completed_at").and_then(time).unwrap_or(notice.created_at);
    let shown = at.to_string();
    // RFC 3339 to the second. A time outside the calendar is shown as it prints.
    let shown = match (shown.get(..10), shown.get(10..11), shown.get(11..19)) {
        (Some(date), Some("T"), Some(clock)) => format!("{date} {clock} UTC"),
        _ => shown,
    };
    Some(format!("Dispatched: {shown} ({} ago)", age(until.seconds_since(at))))
}

fn given(fields: &Fields) -> Vec<String> {
    let toolsets = match fields.get("toolsets") {
        Some(Value::Array(all)) => Some(all.iter().filter_map(filled).collect::<Vec<_>>().join(", ")).filter(|all| !all.is_empty()),
        Some(other) => filled(other),
        None => None,
    };
    let context = field(fields, "context").map(|context| label("Context you provided:", &context));
    context.into_iter().chain(toolsets.map(|toolsets| label("Toolsets:", &toolsets))).collect()
}

fn role(fields: &Fields) -> String {
    let role = field(fields, "role").unwrap_or_else(|| "leaf".into());
    format!("Role: {} Model: {}", line(&role), short(fields, "model"))
}

/// Seconds since 1970, or RFC 3339.
fn time(value: &Value) -> Option<Time> {
    match value {
        // A float out of range becomes the last time, which prints.
        Value::Number(seconds) => Some(Time::from_micros((seconds.as_f64()? * 1e6) as i64)),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn age(seconds: u64) -> String {
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes, seconds) {
        (0, 0, s) => format!("{s}s"),
        (0, m, 0) => format!("{m}m"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, 0, _) => format!("{h}h"),
        (h, m, _) => format!("{h}h{m}m"),
    }
}

/// A field's text on one line, or a question mark.
fn short(fields: &Fields, name: &str) -> String {
    field(fields, name).map_or_else(|| "?".to_owned(), |text| line(&text))
}

/// A field's text, if it has any.
fn field(fields: &Fields, name: &str) -> Option<String> {
    fields.get(name).and_then(filled)
}

fn filled(value: &Value) -> Option<String> {
    scalar(value).filter(|text| !text.trim().is_empty())
}
