//! A cut tells what it took, and a view of any window fits its limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_text::{Options, Redactor, head_chars, render, tail_chars};
use std::sync::LazyLock;

static REDACTOR: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(true));

fuzz_target!(|input: (u16, bool, bool, bool, &[u8])| {
    let (n, starts_mid_stream, ends_mid_stream, drop_shell_noise, bytes) = input;
    let n = usize::from(n);
    let text = String::from_utf8_lossy(bytes);
    for piece in [tail_chars(&text, n), head_chars(&text, n)] {
        let removed = piece.cut.map_or(0, |cut| cut.removed_chars);
        assert_eq!(piece.text.chars().count() + removed, text.chars().count());
        assert!(piece.cut.is_none() || piece.text.chars().count() <= n);
    }
    let options = Options { starts_mid_stream, ends_mid_stream, drop_shell_noise, ..Options::new(&REDACTOR) };
    let view = render(bytes, "printenv", &options.tail(n));
    assert!(view.text.chars().count() <= n);
    assert!(!view.text.contains('\x1b'));
});
