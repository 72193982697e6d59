//! In any configuration of a client an entry is added once and removed again, or the edit is refused.
#![no_main]

#[allow(dead_code)] // The other formats.
#[path = "../../crates/outlast/src/cli/install/edit/mod.rs"]
mod edit;

use edit::Data;
use edit::json::{JsonEdit, Ours, put, take};
use libfuzzer_sys::fuzz_target;

fn ours(value: &serde_json::Value) -> Ours {
    let is = |v: &serde_json::Value| v["command"] == "outlast";
    let inner = value["hooks"].as_array().map(Vec::as_slice).unwrap_or_default();
    match inner.iter().filter(|h| is(h)).count() {
        0 if is(value) => Ours::Whole,
        0 => Ours::Nothing,
        n if n == inner.len() => Ours::Whole,
        _ => Ours::Within("hooks"),
    }
}

fuzz_target!(|text: &str| {
    let fields = vec![("command".to_owned(), Data::text("outlast")), ("env".to_owned(), Data::map([("A", Data::text("b"))]))];
    let element = Data::map([("hooks", Data::List(vec![Data::map([("command", Data::text("outlast"))])]))]);
    let edits =
        [JsonEdit::Member { path: vec!["m", "o"], fields, defaults: Vec::new() }, JsonEdit::Element { path: vec!["h", "s"], data: element, ours }];
    for edit_made in edits {
        let Ok(made) = put(text, &edit_made) else { continue };
        assert_eq!(put(&made, &edit_made).as_ref(), Ok(&made), "twice is once");
        let Ok(without) = take(text, &edit_made) else { continue };
        if without == text && made != text {
            assert_eq!(take(&made, &edit_made).as_deref(), Ok(text), "and back from {made:?}");
        }
    }
});
