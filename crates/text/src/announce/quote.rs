//! Text that others wrote, quoted so that its structure makes it harmless.
//!
//! A quoted line begins with [`MARK`], or stands after a label of ours on the same line. No line of a quote therefore begins with anything
//! that the quoted program chose: it can neither close the notice, nor open another, nor pass for a label, whatever signs it is made of.

use crate::strip;

/// What every line of a quote begins with.
const MARK: &str = "| ";

/// Text of any number of lines, each marked. A newline at the end begins no further line, and no text is no line.
pub(super) fn block(text: &str) -> Option<String> {
    let clean = clean(text);
    (!clean.is_empty()).then(|| format!("{MARK}{}", marked(clean.strip_suffix('\n').unwrap_or(&clean))))
}

/// Text on one line of ours.
pub(super) fn line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// Text after a label of ours: its first line beside the label, further ones marked.
pub(super) fn label(name: &str, text: &str) -> String {
    format!("{name} {}", marked(&clean(text)))
}

/// Marks each line but the first.
fn marked(clean: &str) -> String {
    clean.replace('\n', &format!("\n{MARK}"))
}

/// Without escape sequences and control characters, and with `\n` as the only sign that ends a line.
fn clean(text: &str) -> String {
    let plain = |c: char| match c {
        '\u{2028}' | '\u{2029}' => Some('\n'),
        '\n' | '\t' => Some(c),
        c if c.is_control() => None,
        c => Some(c),
    };
    strip(text).chars().filter_map(plain).collect()
}
