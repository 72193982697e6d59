//! In any configuration of a client an entry is added once and removed again, or the edit is refused.
#![no_main]

#[allow(dead_code)] // The other formats.
#[path = "../../crates/outlast/src/cli/install/edit/mod.rs"]
mod edit;

use edit::Data;
use edit::json::{Ours, Wish, put, take};
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
    let wishes =
        [Wish::Member { path: vec!["m", "o"], fields, usual: Vec::new() }, Wish::Element { path: vec!["h", "s"], data: element, ours }];
    for wish in wishes {
        let Ok(made) = put(text, &wish) else { continue };
        assert_eq!(put(&made, &wish).as_ref(), Ok(&made), "twice is once");
        let Ok(without) = take(text, &wish) else { continue };
        if without == text && made != text {
            assert_eq!(take(&made, &wish).as_deref(), Ok(text), "and back from {made:?}");
        }
    }
});
