//! Pieces strip like the whole, and nothing is left to strip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_text::{Stripper, strip};

fuzz_target!(|pieces: Vec<&str>| {
    let whole = pieces.concat();
    let stripped = strip(&whole);
    assert!(!stripped.contains(|c| matches!(c, '\x1b' | '\u{80}'..='\u{9f}')));
    // A sequence that is longer than this is given up when it comes in pieces.
    if whole.len() > 256 {
        return;
    }
    let mut stripper = Stripper::new();
    let mut out = String::new();
    for piece in pieces {
        out.push_str(&stripper.push(piece));
    }
    out.push_str(&stripper.finish());
    assert_eq!(out, stripped);
});
