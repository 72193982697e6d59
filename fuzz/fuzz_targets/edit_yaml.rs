//! In any configuration of a client an entry is added once and removed again, or the edit is refused.
#![no_main]

#[allow(dead_code)] // The other formats.
#[path = "../../crates/outlast/src/cli/install/edit/mod.rs"]
mod edit;

use edit::Data;
use edit::yaml::{Wish, put, take};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let fields = vec![("command".to_owned(), Data::text("outlast")), ("env".to_owned(), Data::map([("A", Data::text("b"))]))];
    let wish = Wish { map: "m", name: "o", fields, usual: Vec::new() };
    let Ok(made) = put(text, &wish) else { return };
    assert_eq!(put(&made, &wish).as_ref(), Ok(&made), "twice is once");
    let Ok(without) = take(text, &wish) else { return };
    if without == text && made != text {
        assert_eq!(take(&made, &wish).as_deref(), Ok(text), "and back from {made:?}");
    }
});
