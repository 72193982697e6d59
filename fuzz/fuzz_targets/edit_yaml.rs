//! In any configuration of a client an entry is added once and removed again, or the edit is refused.
#![no_main]

#[allow(dead_code)] // The other formats.
#[path = "../../crates/outlast/src/cli/install/edit/mod.rs"]
mod edit;

use edit::Data;
use edit::yaml::{YamlEdit, put, take};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let fields = vec![("command".to_owned(), Data::text("outlast")), ("env".to_owned(), Data::map([("A", Data::text("b"))]))];
    let edit_made = YamlEdit { map: "m", name: "o", fields, defaults: Vec::new() };
    let Ok(made) = put(text, &edit_made) else { return };
    assert_eq!(put(&made, &edit_made).as_ref(), Ok(&made), "twice is once");
    let Ok(without) = take(text, &edit_made) else { return };
    if without == text && made != text {
        assert_eq!(take(&made, &edit_made).as_deref(), Ok(text), "and back from {made:?}");
    }
});
