//! Nothing that others wrote gets out of its notice.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_core::{Body, Completion, Notice, Owner, Reason, Route, Time, WatchMatch};
use outlast_text::{announce, announce_all};
use serde_json::{Map, Value};

fuzz_target!(|input: (u8, bool, &str, &str, &str)| {
    let (kind, repeat, one, two, three) = input;
    let text = |s: &str| s.to_owned();
    let body = match kind % 6 {
        0 => {
            let mut end = Completion::new(one, None, Reason::Killed);
            end.signal = Some(text(two));
            end.termination_source = text(two);
            end.output = text(three);
            end.output_cut = Some(1);
            end.handoff_note = Some(text(two));
            Body::Completion(Box::new(end))
        }
        1 => {
            let mut seen = WatchMatch::new(one, two, three);
            seen.suppressed = u64::from(kind);
            Body::WatchMatch(seen)
        }
        2 => Body::WatchDisabled { command: text(one), message: text(two), suppressed: 0 },
        3 => Body::Until { barrier: text(one), why: text(two), message: text(three) },
        _ => Body::Posted(fields(kind, one, two, three)),
    };
    let mut notice = Notice::new(text(one), Time::from_micros(0), None, &Owner::default(), Route::default(), body);
    notice.session_id = text(two);
    notice.repeat = repeat;
    check(&announce(&notice));
    assert!(announce_all(&[notice.clone(), notice]).starts_with("[IMPORTANT: 2 background notices"));
});

/// Fields as they are written in JSON, or those of a delegation.
fn fields(kind: u8, one: &str, two: &str, three: &str) -> Map<String, Value> {
    let mut fields: Map<String, Value> = serde_json::from_str(three).unwrap_or_default();
    for (name, value) in [("summary", one), ("goal", two), ("error", three), ("delegation_id", two), ("message", one)] {
        fields.entry(name).or_insert_with(|| value.into());
    }
    if kind.is_multiple_of(2) {
        fields.insert("type".into(), "async_delegation".into());
    }
    fields
}

/// One bracket from end to end, or for a delegation one at each end, to whoever counts backslashes and to whoever looks for one.
fn check(text: &str) {
    let bytes = text.as_bytes();
    for careful in [true, false] {
        let (mut depth, mut tops, mut last, mut run) = (0_i64, 0, 0, 0);
        for (at, b) in bytes.iter().enumerate() {
            if matches!(b, b'[' | b']') && !(if careful { run % 2 == 1 } else { run > 0 }) {
                depth += if *b == b'[' { 1 } else { -1 };
                assert!(depth >= 0, "{text:?}");
                if depth == 0 {
                    (tops, last) = (tops + 1, at);
                }
                if *b == b'[' && at > 0 {
                    let rest = text[at + 1..].trim_start().as_bytes();
                    let opens = |word: &str| rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()));
                    assert!(!["IMPORTANT:", "SYSTEM:", "ASYNC DELEGATION"].into_iter().any(opens), "{text:?}");
                }
            }
            run = if *b == b'\\' { run + 1 } else { 0 };
        }
        assert_eq!((depth, bytes[0], last), (0, b'[', bytes.len() - 1), "{text:?}");
        assert!(tops == 1 || text.starts_with("[ASYNC DELEGATION"), "{text:?}");
    }
    assert!(!text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')), "{text:?}");
}
