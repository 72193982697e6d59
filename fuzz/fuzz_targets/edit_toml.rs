//! In any configuration of a client an entry is added once and removed again, or the edit is refused.
#![no_main]

#[allow(dead_code)] // The other formats.
#[path = "../../crates/outlast/src/cli/install/edit/mod.rs"]
mod edit;

use edit::Data;
use edit::toml::{TomlEdit, put, take};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let fields = vec![("command".to_owned(), Data::text("outlast")), ("env".to_owned(), Data::map([("A", Data::text("b"))]))];
    let edits = [
        TomlEdit::Table { path: vec!["m", "o"], fields: fields.clone(), defaults: Vec::new() },
        TomlEdit::Row { list: "h", name: "o", fields, defaults: Vec::new() },
    ];
    for edit_made in edits {
        let Ok(made) = put(text, &edit_made) else { continue };
        assert_eq!(put(&made, &edit_made).as_ref(), Ok(&made), "twice is once");
        let Ok(without) = take(text, &edit_made) else { continue };
        if without == text && made != text {
            assert_eq!(take(&made, &edit_made).as_deref(), Ok(text), "and back from {made:?}");
        }
    }
});
