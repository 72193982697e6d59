//! Notices inside an answer. Clients show a model the first text of an answer or its structured content, and seldom more. So notices are in
//! both. The text is the structured content as JSON, so that a client that shows both can see that they are the same.

use crate::{Answer, cap};
use outlast_client::Told;
use serde_json::{Value, json};

/// The field of an answer that holds notices.
pub(crate) const FIELD: &str = "notices";
/// Space that the first notice leaves for the rest of the answer.
const BESIDE: usize = 4_000;
/// Space for the field's name and the punctuation around each notice.
const AROUND: usize = 40;

/// Adds as many notices to an answer as fit, and shortens the rest so that the whole has at most `most` characters. Returns how many were
/// added.
pub(crate) fn put(all: &mut Answer, due: &[Told], shown: impl Fn(&Told, &str) -> Value, most: usize) -> usize {
    let (mut used, mut notices) = (AROUND, Vec::new());
    let room = most - BESIDE.min(most / 2);
    for one in due {
        let mut notice = shown(one, &one.text);
        let over = (used + cap::width(&notice)).saturating_sub(room);
        if notices.is_empty() && over > 0 {
            // The first notice is added at any length. Otherwise it would stay due forever.
            notice = shown(one, &shortened(&one.text, cap::text_width(&one.text).saturating_sub(over)));
        }
        let width = cap::width(&notice) + 1;
        if !notices.is_empty() && used + width > most / 2 {
            break;
        }
        used += width;
        notices.push(notice);
    }
    let count = notices.len();
    cap::cap(all, most.saturating_sub(used));
    all.insert(FIELD.into(), notices.into());
    count
}

/// The first and last lines of a text, within `room`. Lines are kept whole: each line of quoted output has its own mark.
fn shortened(text: &str, room: usize) -> String {
    let room = room.saturating_sub(AROUND * 2);
    let mut used = 0;
    let mut fits = |line: &&str, most: usize| {
        used += cap::text_width(line);
        used <= most
    };
    let head: Vec<&str> = text.lines().take_while(|line| fits(line, room * 2 / 5)).collect();
    let mut used = 0;
    let mut fits = |line: &&str| {
        used += cap::text_width(line);
        used <= room * 3 / 5
    };
    let rest: Vec<&str> = text.lines().skip(head.len()).collect();
    let tail = rest.iter().rev().take_while(|line| fits(line)).count();
    let (left_out, last) = rest.split_at(rest.len() - tail);
    let note = format!("[{} lines left out: the answer was too long]", left_out.len());
    head.into_iter().chain([note.as_str()]).chain(last.iter().copied()).collect::<Vec<_>>().join("\n")
}

/// A notice in the answer to another call.
pub(crate) fn beside(told: &Told, text: &str) -> Value {
    json!({"event_id": told.event.event_id, "text": text})
}

/// A notice in the answer to `notices`.
pub(crate) fn asked_for(told: &Told, text: &str) -> Value {
    let mut event = json!(told.event);
    if let Value::Object(fields) = &mut event {
        // The text quotes it.
        fields.remove("output");
    }
    json!({"text": text, "event": event})
}

/// Whether an answer has a notice in it.
pub(crate) fn are_in(all: &Answer) -> bool {
    all.get(FIELD).and_then(Value::as_array).is_some_and(|notices| !notices.is_empty())
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
        assert!(text.contains("lines left out") && length(&all) <= 10_000, "{}", length(&all));
        assert!(text.lines().all(|line| line == "a line of quoted output" || line.starts_with('[')), "{text}");
    }

    proptest! {
        #[test]
        fn no_answer_is_longer(texts in proptest::collection::vec("[a\"\n]{0,3000}", 1..6), output in ".{0,300}", most in 6_000usize..9_000) {
            let mut all = answer([("output", output.into())]);
            let due: Vec<Told> = texts.iter().enumerate().map(|(n, text)| told(n, text)).collect();
            let count = put(&mut all, &due, beside, most);
            prop_assert!(count >= 1 && length(&all) <= most);
        }
    }
}
