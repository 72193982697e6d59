//! Pieces decode like the whole, wherever they are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_text::Decoder;

fuzz_target!(|input: (usize, &[u8])| {
    let (size, bytes) = input;
    let mut decoder = Decoder::new();
    let mut out = String::new();
    for piece in bytes.chunks(size % 7 + 1) {
        out.push_str(&decoder.push(piece));
        assert!(decoder.held() <= 3);
    }
    out.push_str(decoder.finish());
    assert_eq!(out, String::from_utf8_lossy(bytes));
});
