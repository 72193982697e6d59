//! Collapsing keeps the lines, and once is enough.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_text::{collapse, count_lines};
use std::borrow::Cow;

fuzz_target!(|text: &str| {
    let once = collapse(text);
    assert!(count_lines(&once) <= count_lines(text));
    assert_eq!(once.matches('\n').count(), text.matches('\n').count());
    assert!(matches!(collapse(&once), Cow::Borrowed(_)));
});
