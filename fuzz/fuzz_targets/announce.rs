//! Nothing that others wrote gets out of its notice.
#![no_main]

#[path = "../../crates/text/src/announce/tests/structure.rs"]
mod structure;

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
            end.name = Some(text(three));
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
        2 => Body::WatchDisabled { command: text(one), name: Some(text(three)), message: text(two), suppressed: 0 },
        3 => Body::Until { barrier: text(one), why: text(two), message: text(three) },
        _ => Body::Posted(fields(kind, one, two, three)),
    };
    let mut notice = Notice::new(text(one), Time::from_micros(0), None, &Owner::default(), Route::default(), body);
    notice.session_id = text(two);
    notice.repeat = repeat;
    structure::check(&announce(&notice));
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
