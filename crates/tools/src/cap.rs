//! Limits the length of an answer.

use crate::{Answer, answer};
use serde_json::Value;

/// The field of an answer that holds notices. It is never cut.
pub(crate) const NOTICES_FIELD: &str = "notices";
/// Room for the note about what is left out.
const NOTE_CHARS: usize = 120;

/// Cuts the longest fields until the answer has at most `most` characters of JSON. Notices stay: they were fitted in before, and count as
/// delivered.
pub(crate) fn cap(all: &mut Answer, most: usize) {
    let mut over = length(all).saturating_sub(most);
    for _ in 0..all.len() {
        if over == 0 {
            return;
        }
        let longest = all.iter_mut().filter(|(name, _)| *name != NOTICES_FIELD).max_by_key(|(_, value)| width(value));
        let Some((name, value)) = longest else { return };
        let room = width(value).saturating_sub(over + NOTE_CHARS);
        let mut note = None;
        *value = match value {
            Value::String(text) => Value::String(middle_out(text, room)),
            Value::Array(values) => {
                let (whole, fitting) = (values.len(), fitting(std::mem::take(values), room));
                note = Some(left_out(name, whole - fitting.len()));
                Value::Array(fitting)
            }
            _ => Value::Null,
        };
        if let Some(note) = note {
            add_note(all, &note);
        }
        over = length(all).saturating_sub(most);
    }
    if over > 0 {
        let told = all.remove(NOTICES_FIELD);
        *all = answer([("error", format!("the answer would be longer than {most} characters").into())]);
        all.extend(told.map(|told| (NOTICES_FIELD.to_owned(), told)));
    }
}

fn left_out(name: &str, count: usize) -> String {
    let how = if name == "processes" { "; `outlast list` shows all" } else { "" };
    format!("{count} more {name} are not shown: the answer was too long{how}")
}

/// Appends to the note of an answer.
pub(crate) fn add_note(all: &mut Answer, note: &str) {
    let before = all.get("note").and_then(Value::as_str).map(|before| format!("{before}; ")).unwrap_or_default();
    all.insert("note".into(), format!("{before}{note}").into());
}

/// The length of an answer as JSON, in characters.
pub(crate) fn length(all: &Answer) -> usize {
    // The braces, and for each field its quotes, colon and comma.
    2 + all.iter().map(|(name, value)| name.chars().count() + width(value) + 4).sum::<usize>()
}

pub(crate) fn width(value: &Value) -> usize {
    match value {
        Value::String(text) => text_width(text),
        other => other.to_string().chars().count(),
    }
}

/// The length of a text as JSON, in characters.
pub(crate) fn text_width(text: &str) -> usize {
    2 + chars_width(text)
}

/// The same without the quotes.
pub(crate) fn chars_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// The longest beginning of a text that fits into `room` characters of JSON.
pub(crate) fn fitting_head(text: &str, room: usize) -> &str {
    let mut used = 0;
    let mut beyond = |c: char| {
        used += char_width(c);
        used > room
    };
    text.char_indices().find(|(_, c)| beyond(*c)).map_or(text, |(at, _)| &text[..at])
}

/// The longest end of a text that fits into `room` characters of JSON.
pub(crate) fn fitting_tail(text: &str, room: usize) -> &str {
    let mut used = 0;
    let mut beyond = |c: char| {
        used += char_width(c);
        used > room
    };
    text.char_indices().rev().find(|(_, c)| beyond(*c)).map_or(text, |(at, c)| &text[at + c.len_utf8()..])
}

fn char_width(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => 1,
    }
}

/// The beginning and the end of a text, two fifths and three fifths of the room, with a note in between.
fn middle_out(text: &str, room: usize) -> String {
    let head = fitting_head(text, room * 2 / 5);
    let tail = fitting_tail(&text[head.len()..], room - room * 2 / 5);
    let left_out = text[head.len()..text.len() - tail.len()].chars().count();
    match left_out {
        0 => text.to_owned(),
        _ => format!("{head}\n[{left_out} characters left out: the answer was too long]\n{tail}"),
    }
}

/// As many values as fit, from the first on.
fn fitting(values: Vec<Value>, room: usize) -> Vec<Value> {
    let mut used = 2;
    values
        .into_iter()
        .take_while(|value| {
            used += width(value) + 1;
            used <= room
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn what_fits_stays_as_it_is() {
        let whole = answer([("output", "ok".into()), ("exit_code", 0.into())]);
        let mut capped = whole.clone();
        cap(&mut capped, 100);
        assert_eq!(capped, whole);
        assert_eq!(length(&whole), serde_json::to_string(&whole).unwrap().chars().count() + 1);
    }

    #[test]
    fn the_longest_field_gives_way() {
        let mut all = answer([("output", "a\n".repeat(5_000).into()), ("session_id", "proc_ab12000000ff".into())]);
        cap(&mut all, 1_000);
        let text = serde_json::to_string(&all).unwrap();
        assert!(text.len() <= 1_000 && text.len() > 900, "{}", text.len());
        assert!(text.contains("characters left out") && text.contains("proc_ab12000000ff"), "{text}");
    }

    #[test]
    fn a_list_says_how_many_it_leaves_out() {
        let process = |n: usize| json!({"session_id": format!("proc_{n:012x}"), "command": "x".repeat(200)});
        let mut all = answer([("processes", (0..100).map(process).collect()), ("note", "6 older finished processes are not shown".into())]);
        cap(&mut all, 5_000);
        let shown = all["processes"].as_array().unwrap().len();
        assert!(serde_json::to_string(&all).unwrap().len() <= 5_000 && shown > 15, "{shown}");
        let more = format!("{} more processes are not shown: the answer was too long; `outlast list` shows all", 100 - shown);
        assert_eq!(all["note"], format!("6 older finished processes are not shown; {more}"));
    }

    #[test]
    fn notices_are_not_cut() {
        let notices = json!([{"event_id": "evt_1", "text": "x".repeat(500)}]);
        for most in [600, 10] {
            let mut all = answer([("notices", notices.clone()), ("output", "y".repeat(900).into())]);
            cap(&mut all, most);
            assert_eq!(all["notices"], notices, "{most}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_is_longer(output in "[a\\x00\"é\n]{0,300}", error in ".{0,100}", list in proptest::collection::vec(".{0,9}", 0..60), most in 100usize..600) {
            let mut all = answer([("output", output.into()), ("error", error.into()), ("list", json!(list)), ("more", json!({"a": list}))]);
            cap(&mut all, most);
            prop_assert!(serde_json::to_string(&all).unwrap().chars().count() <= most);
        }
    }
}
