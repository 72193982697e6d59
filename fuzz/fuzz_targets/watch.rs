//! Scanning pieces gives the same result as scanning the whole, and a scanner that continues half-way finds the rest.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_text::watch::{Cursor, MOST_CHARS, MOST_LINES, Scanner};

fuzz_target!(|input: (usize, Vec<String>, &[u8])| {
    let (size, patterns, bytes) = input;
    let mut whole = Scanner::new(&patterns, Cursor::default());
    whole.push(bytes);
    let mut pieces = Scanner::new(&patterns, Cursor::default());
    let mut before = 0;
    for piece in bytes.chunks(size % 61 + 1) {
        pieces.push(piece);
        if size % 5 == 0 {
            before += pieces.found().map_or(0, |f| f.count);
            pieces.restart(pieces.cursor());
            pieces.push(&bytes[pieces.at() as usize..piece.as_ptr() as usize - bytes.as_ptr() as usize + piece.len()]);
        }
    }
    assert_eq!(pieces.at(), bytes.len() as u64);
    pieces.settle();
    whole.settle();
    let count = before + pieces.found().map_or(0, |f| f.count);
    let found = whole.take();
    assert_eq!(count, found.as_ref().map_or(0, |f| f.count));
    if size % 5 != 0 {
        assert_eq!(pieces.take(), found);
    }
    if let Some(found) = found {
        assert!(found.lines.len() <= MOST_LINES && found.lines.join("\n").chars().count() <= MOST_CHARS);
    }
});
