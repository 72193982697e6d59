//! Notices inside an answer. Clients show a model the first text of an answer or its structured content, and seldom more. So notices are in
//! both. The text is the structured content as JSON, so that a client that shows both can see that they are the same.
//!
//! Decision 178: docs/decisions/tools-mcp.md.

use crate::Answer;
use crate::cap::{self, NOTICES_FIELD};
use outlast_client::{Body, ProcessId, Time, Told};
use serde_json::{Map, Value, json};

/// Space that the first notice leaves for the rest of the answer.
const REST_CHARS: usize = 4_000;
/// Space for the field's name and the punctuation around each notice.
const PUNCTUATION_CHARS: usize = 40;
/// A line with more characters may be cut inside. A shorter line is kept or left out as a whole.
const LONG_LINE_CHARS: usize = 400;
/// What each line of quoted text begins with, as in the texts of notices.
const MARK: &str = "| ";
/// A notice that was delivered before is left out rather than shortened to less than this.
const MIN_TOLD_CHARS: usize = 1_000;
/// Fields of an event that the text of a notice quotes.
const QUOTED: [&str; 5] = ["output", "command", "handoff_note", "pattern", "message"];
/// The same for what a sub-agent brought back.
const QUOTED_OF_DELEGATION: [&str; 7] = ["goal", "goals", "context", "toolsets", "summary", "error", "results"];
/// If the text quotes all fields of a posted event, the event keeps those with at most this many characters, for programs.
const SHORT_FIELD_CHARS: usize = 200;
/// The field of an event that names the fields left out of it, each with its length.
const NOT_SHOWN: &str = "not_shown";
/// The most fields that it names. If there are more, only the id and the kind of the event are shown.
const MAX_NOT_SHOWN: usize = 16;

/// Adds as many notices to an answer as fit, and shortens the rest so that the answer has at most `most` characters. Returns how many were
/// added. `shown` writes a notice as JSON with at most the given number of characters.
pub(crate) fn put(all: &mut Answer, due: &[Told], shown: impl Fn(&Told, usize) -> Value, most: usize) -> usize {
    let (mut used, mut notices) = (PUNCTUATION_CHARS, Vec::new());
    let room = most - REST_CHARS.min(most / 2);
    for one in due {
        // The first notice is always added: a long one would otherwise stay due for ever.
        let notice = shown(one, if notices.is_empty() { room.saturating_sub(used) } else { usize::MAX });
        let width = cap::width(&notice) + 1;
        if !notices.is_empty() && used + width > most / 2 {
            break;
        }
        used += width;
        notices.push(notice);
    }
    let count = notices.len();
    cap::cap(all, most.saturating_sub(used));
    all.insert(NOTICES_FIELD.into(), notices.into());
    count
}

/// The same with lines about processes behind them, which are always added.
pub(crate) fn put_with_lines(all: &mut Answer, due: &[Told], lines: &[(ProcessId, String)], most: usize) -> usize {
    let lines: Vec<Value> = lines.iter().map(|(process, text)| json!({"process": process, "text": text})).collect();
    if due.is_empty() && lines.is_empty() {
        return 0;
    }
    let before = all.remove(NOTICES_FIELD);
    let used = before.iter().chain(&lines).map(|one| cap::width(one) + 1).sum();
    let count = put(all, due, beside, most.saturating_sub(used));
    if let Some(Value::Array(notices)) = all.get_mut(NOTICES_FIELD) {
        if let Some(Value::Array(before)) = before {
            notices.splice(..0, before);
        }
        notices.extend(lines);
    }
    count
}

/// Whether a notice reports the end of this process.
pub(crate) fn is_end_of(told: &Told, process: ProcessId) -> bool {
    matches!(told.event.body, Body::Completion(_)) && told.event.session_id == process.to_string()
}

/// Adds notices that were delivered before (given newest first) in front of those of an answer. If they do not fit, long ones are shortened
/// first, then the oldest are left out. Returns how many were added.
pub(crate) fn put_told(all: &mut Answer, told: &[(Told, Time)], most: usize) -> usize {
    let shown = |(one, at): &(Told, Time), room: usize| {
        let mut notice = json!({"told_at": at});
        let room = room.saturating_sub(cap::width(&notice));
        if let (Value::Object(notice), Value::Object(fields)) = (&mut notice, asked_for(one, room)) {
            notice.extend(fields);
        }
        notice
    };
    let widths: Vec<usize> = told.iter().map(|one| cap::width(&shown(one, usize::MAX)) + 1).collect();
    let (count, share) = shares(&widths, most.saturating_sub(cap::length(all)));
    if let Some(Value::Array(notices)) = all.get_mut(NOTICES_FIELD) {
        notices.splice(..0, told[..count].iter().rev().map(|one| shown(one, share.saturating_sub(1))));
    }
    count
}

/// How many notices of these widths fit, from the first on, if long ones are shortened, and to how many characters.
fn shares(widths: &[usize], room: usize) -> (usize, usize) {
    for count in (1..=widths.len()).rev() {
        let mut sorted = widths[..count].to_vec();
        sorted.sort_unstable();
        let (mut left, mut share) = (room, usize::MAX);
        for (n, width) in sorted.into_iter().enumerate() {
            if width > left / (count - n) {
                share = left / (count - n);
                break;
            }
            left -= width;
        }
        if share >= MIN_TOLD_CHARS {
            return (count, share);
        }
    }
    (0, 0)
}

/// The beginning and the end of a text, within `room`. Short lines are kept whole. After a cut inside a long line, the rest of the line is
/// marked as a quote: other programs wrote it, so it must not look like a line of the notice.
fn shortened(text: &str, room: usize, whole: &str) -> String {
    if cap::text_width(text) <= room {
        return text.to_owned();
    }
    let note = |count: usize, what: &str| {
        let s = if count == 1 { "" } else { "s" };
        format!("[{count} {what}{s} left out: the answer was too long; {whole}]")
    };
    // Two newlines around the longest note, and the quotes around it all.
    let room = room.saturating_sub(cap::text_width(&note(text.chars().count(), "character")) + 4 + MARK.len());
    let head = fitting(text.split_inclusive('\n'), room * 2 / 5, |line, room| cap::fitting_head(line, room).len());
    let rest = &text[head..];
    let tail = fitting(rest.split_inclusive('\n').rev(), room - room * 2 / 5, |line, room| cap::fitting_tail(line, room).len());
    let (left_out, last) = rest.split_at(rest.len() - tail);
    let first = text[..head].strip_suffix('\n').unwrap_or(&text[..head]);
    let is_line = |before: &str| before.is_empty() || before.ends_with('\n');
    let (begins_line, ends_line) = (is_line(&text[..head]), is_line(left_out));
    let note = match begins_line && ends_line {
        true => note(left_out.lines().count(), "line"),
        false => note(left_out.chars().count(), "character"),
    };
    let mark = if ends_line { "" } else { MARK };
    let newline = if first.is_empty() { "" } else { "\n" };
    format!("{first}{newline}{note}\n{mark}{last}")
}

/// How many bytes of these lines fit into `room`: whole lines, then a piece of the next one if that is long.
fn fitting<'a>(lines: impl Iterator<Item = &'a str>, room: usize, piece: impl Fn(&str, usize) -> usize) -> usize {
    let (mut bytes, mut left) = (0, room);
    for line in lines {
        let width = cap::chars_width(line);
        if width > left {
            return if width > LONG_LINE_CHARS { bytes + piece(line, left) } else { bytes };
        }
        (bytes, left) = (bytes + line.len(), left - width);
    }
    bytes
}

/// How to read the parts of a notice that an answer leaves out.
fn whole(told: &Told) -> String {
    let event = &told.event;
    match &event.body {
        Body::Completion(_) | Body::WatchMatch(_) => format!("`outlast log {}` shows all output", event.session_id),
        _ => format!("`outlast events history --json --after {} --limit 1` shows all", event.seq.saturating_sub(1)),
    }
}

/// A notice that comes with the answer to another call.
pub(crate) fn beside(told: &Told, room: usize) -> Value {
    with_text(json!({"event_id": told.event.event_id, "text": ""}), told, room)
}

/// A notice that the call asked for.
pub(crate) fn asked_for(told: &Told, room: usize) -> Value {
    with_text(json!({"text": "", "event": event(told, room / 2)}), told, room)
}

fn with_text(mut notice: Value, told: &Told, room: usize) -> Value {
    // The two quotes are counted with the text.
    let around = cap::width(&notice) - 2;
    notice["text"] = shortened(&told.text, room.saturating_sub(around), &whole(told)).into();
    notice
}

/// The fields of an event that the text of its notice does not quote. If they exceed `room`, the longest are left out and named.
fn event(told: &Told, room: usize) -> Value {
    let Value::Object(mut fields) = json!(told.event) else { return Value::Null };
    match &told.event.body {
        Body::Posted(_) if told.event.kind() == "async_delegation" => {
            fields.retain(|name, _| !QUOTED_OF_DELEGATION.contains(&name.as_str()))
        }
        Body::Posted(posted) => remove_quoted(&mut fields, posted),
        _ => fields.retain(|name, _| !QUOTED.contains(&name.as_str())),
    }
    let mut not_shown = Map::new();
    while cap::length(&fields) > room {
        let widths = fields.iter().filter(|(name, _)| *name != NOT_SHOWN).map(|(name, value)| (cap::width(value), name));
        let Some((width, name)) = widths.max().map(|(width, name)| (width, name.clone())) else { break };
        if not_shown.len() == MAX_NOT_SHOWN {
            return json!({"event_id": told.event.event_id, "type": told.event.kind()});
        }
        fields.remove(&name);
        not_shown.insert(name, width.into());
        fields.insert(NOT_SHOWN.into(), not_shown.clone().into());
    }
    fields.into()
}

/// Removes the fields that the text of a posted notice quotes: its message, or if it has none, all posted fields.
fn remove_quoted(fields: &mut Map<String, Value>, posted: &Map<String, Value>) {
    let is_text = |name: &&str| posted.get(*name).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty());
    match ["message", "text"].into_iter().find(is_text) {
        Some(name) => _ = fields.remove(name),
        None => fields.retain(|name, value| !posted.contains_key(name) || cap::width(value) <= SHORT_FIELD_CHARS),
    }
}

/// Whether an answer has a notice.
pub(crate) fn are_in(all: &Answer) -> bool {
    all.get(NOTICES_FIELD).and_then(Value::as_array).is_some_and(|notices| !notices.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer;
    use outlast_client::Notice;
    use proptest::prelude::*;

    fn told(n: usize, text: &str) -> Told {
        let event: Notice = serde_json::from_value(json!({
            "type": "greeting", "event_id": format!("evt_{n}"), "seq": n, "created_at": "2026-01-01T00:00:00.000000Z",
        }))
        .unwrap();
        Told::new(event, text, "leased")
    }

    fn length(all: &Answer) -> usize {
        serde_json::to_string(all).unwrap().chars().count()
    }

    #[test]
    fn notices_are_a_field() {
        let mut all = answer([("output", "ok".into())]);
        assert!(!are_in(&all));
        assert_eq!(put(&mut all, &[told(1, "[one]"), told(2, "[two]")], beside, 1_000), 2);
        assert_eq!(all["notices"], json!([{"event_id": "evt_1", "text": "[one]"}, {"event_id": "evt_2", "text": "[two]"}]));
        assert!(are_in(&all));
    }

    #[test]
    fn a_long_answer_gives_way_to_a_notice() {
        let mut all = answer([("output", "x".repeat(50_000).into())]);
        assert_eq!(put(&mut all, &[told(1, &"y".repeat(30_000))], beside, 40_000), 1);
        assert!(all["notices"][0]["text"] == "y".repeat(30_000) && length(&all) <= 40_000, "{}", length(&all));
        assert!(all["output"].as_str().unwrap().contains("characters left out"));
    }

    #[test]
    fn what_does_not_fit_is_left_for_the_next_answer_and_one_is_always_given() {
        let long = |n| told(n, &"a line of quoted output\n".repeat(1_000));
        let mut all = answer([("output", "ok".into())]);
        assert_eq!(put(&mut all, &[long(1), long(2), long(3)], beside, 60_000), 1);
        let mut all = answer([("output", "ok".into())]);
        assert_eq!(put(&mut all, &[long(1), long(2)], beside, 10_000), 1);
        let text = all["notices"][0]["text"].as_str().unwrap();
        assert!(
            text.contains(" lines left out: the answer was too long; `outlast events history --json --after 0 --limit 1` shows all]"),
            "{text}"
        );
        assert!(text.contains("lines left out") && length(&all) <= 10_000, "{}", length(&all));
        assert!(text.lines().all(|line| line == "a line of quoted output" || line.starts_with('[')), "{text}");
    }

    fn posted(fields: Value) -> Told {
        let mut event = json!({"event_id": "evt_1", "seq": 7, "created_at": "2026-01-01T00:00:00.000000Z"});
        event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let event: Notice = serde_json::from_value(event).unwrap();
        let text = outlast_text::announce(&event);
        Told::new(event, text, "leased")
    }

    fn only(all: &Answer) -> (String, Value) {
        let one = &all["notices"].as_array().unwrap()[0];
        (one["text"].as_str().unwrap().to_owned(), one["event"].clone())
    }

    #[test]
    fn a_line_that_is_too_long_is_cut_inside_and_stays_a_quote() {
        let message = format!("START {}END", "[IMPORTANT: x] ".repeat(20_000));
        for shown in [beside, asked_for] {
            let mut all = Answer::new();
            assert_eq!(put(&mut all, &[posted(json!({"type": "greeting", "message": message}))], shown, 100_000), 1);
            let (text, event) = only(&all);
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), 5, "{}", lines.len());
            assert!(lines[1].starts_with("Message: START [IMPORTANT") && lines[3].starts_with("| ") && lines[3].ends_with("END"));
            let left_out: usize = lines[2][1..].split(' ').next().unwrap().parse().unwrap();
            assert_eq!(
                lines[2],
                format!(
                    "[{left_out} characters left out: the answer was too long; `outlast events history --json --after 6 --limit 1` shows all]"
                )
            );
            // The rest is there: between the label and the cut, and after the mark that follows it.
            assert_eq!(lines[1].len() - "Message: ".len() + left_out + lines[3].len() - 2, message.len());
            assert!(length(&all) <= 100_000 && length(&all) > 90_000, "{}", length(&all));
            assert!(event.get("message").is_none(), "{event}");
        }
    }

    #[test]
    fn one_line_left_out_is_one_line() {
        let text = format!("a\n{}\n{}", "b".repeat(300), "c".repeat(250));
        let short = shortened(&text, 520, "");
        assert_eq!(short, format!("a\n[1 line left out: the answer was too long; ]\n{}", "c".repeat(250)));
    }

    #[test]
    fn results_of_sub_agents_are_shortened() {
        let goal = "g".repeat(200_000);
        let results: Vec<Value> =
            (0..5).map(|n| json!({"task_index": 0, "status": "completed", "summary": format!("found {n}")})).collect();
        let told =
            posted(json!({"type": "async_delegation", "delegation_id": "deleg_1", "goals": [goal], "results": results, "api_calls": 3}));
        assert!(told.text.len() > 400_000, "{}", told.text.len());
        let mut all = Answer::new();
        assert_eq!(put(&mut all, &[told], asked_for, 100_000), 1);
        let (text, event) = only(&all);
        assert!(
            text.starts_with("[ASYNC DELEGATION BATCH COMPLETE — deleg_1]\n")
                && text.ends_with("[END OF ASYNC DELEGATION BATCH — deleg_1]")
        );
        assert_eq!((&event["api_calls"], event.get("results"), event.get("goals")), (&json!(3), None, None));
        assert!(length(&all) <= 100_000, "{}", length(&all));
    }

    #[test]
    fn an_event_names_what_it_leaves_out() {
        let told = posted(json!({"type": "deploy", "message": "done", "data": "d".repeat(200_000), "n": 3}));
        let mut all = Answer::new();
        assert_eq!(put(&mut all, &[told], asked_for, 100_000), 1);
        let (text, event) = only(&all);
        assert!(text.contains("Message: done"), "{text}");
        assert_eq!((&event["n"], &event["not_shown"], event.get("data")), (&json!(3), &json!({"data": 200_002}), None));
        // Where the text quotes every field, short ones stay for programs.
        let told = posted(json!({"type": "deploy", "data": "d".repeat(1_000), "n": 3}));
        assert!(told.text.contains("Fields: {"), "{}", told.text);
        let event = asked_for(&told, usize::MAX)["event"].clone();
        assert_eq!((&event["n"], event.get("data"), event.get("not_shown")), (&json!(3), None, None));
        // More fields than can be named.
        let many: Map<String, Value> = (0..2_000).map(|n| (format!("field_{n}"), "x".repeat(100).into())).collect();
        let mut many = json!(many);
        many["type"] = json!("deploy");
        assert_eq!(asked_for(&posted(many), 50_000)["event"], json!({"event_id": "evt_1", "type": "deploy"}));
    }

    #[test]
    fn what_was_told_is_shortened_before_it_is_left_out() {
        let at: Time = "2026-01-01T00:00:00Z".parse().unwrap();
        let newest_first = |texts: &[String]| texts.iter().enumerate().map(|(n, text)| (told(n, text), at)).collect::<Vec<_>>();
        let ids = |all: &Answer| -> Vec<String> {
            all["notices"].as_array().unwrap().iter().map(|one| one["event"]["event_id"].as_str().unwrap().to_owned()).collect()
        };
        let mut all = answer([("notices", json!([]))]);
        let given = newest_first(&["x".repeat(200_000), "small".into(), "y".repeat(200_000)]);
        assert_eq!(put_told(&mut all, &given, 100_000), 3);
        assert_eq!((ids(&all), &all["notices"][1]["text"]), (vec!["evt_2".into(), "evt_1".into(), "evt_0".into()], &json!("small")));
        assert!(length(&all) <= 100_000 && length(&all) > 95_000, "{}", length(&all));
        assert!(all["notices"].as_array().unwrap().iter().all(|one| one["told_at"].is_string()));
        // Too many for the room that is left: the newest are shown.
        let mut all = answer([("notices", json!(["p".repeat(96_000)]))]);
        let given = newest_first(&vec!["line\n".repeat(400); 16]);
        let count = put_told(&mut all, &given, 100_000);
        assert!(count == 3 && all["notices"].as_array().unwrap().len() == 4 && length(&all) <= 100_000, "{count} {}", length(&all));
        assert_eq!(all["notices"][2]["event"]["event_id"], "evt_0");
    }

    proptest! {
        #[test]
        fn a_shortened_text_fits_and_no_quote_leaves_its_mark(text in proptest::collection::vec("(\\| [a-z\"\\[\\]]{0,600}|title)", 1..60), room in 700usize..5_000) {
            let text = text.join("\n");
            let short = shortened(&text, room, "`outlast log proc_000000000000` shows all output");
            prop_assert!(cap::text_width(&short) <= room);
            let is_ours = |line: &str| line == "title" || line.contains(" left out: ") || "title".starts_with(line);
            prop_assert!(short.lines().all(|line| line.starts_with('|') || is_ours(line)), "{}", short);
        }

        #[test]
        fn no_answer_is_longer(texts in proptest::collection::vec("[a\"\n]{0,3000}", 1..6), output in ".{0,300}", most in 6_000usize..9_000) {
            let mut all = answer([("output", output.into())]);
            let due: Vec<Told> = texts.iter().enumerate().map(|(n, text)| told(n, text)).collect();
            let count = put(&mut all, &due, beside, most);
            prop_assert!(count >= 1 && length(&all) <= most);
        }
    }
}
