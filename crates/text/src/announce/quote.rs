//! Text from other programs and users, quoted so that its place makes it harmless.
//!
//! A quoted line begins with [`MARK`], or follows a label of ours on the same line. So no line of a quote begins with text that the quoted
//! program chose: it can neither close the notice, nor open another, nor pass for a label, whichever characters it has.

use crate::strip;

/// The beginning of every quoted line.
const MARK: &str = "| ";

/// Quotes text of several lines, each marked. A final newline begins no further line, and empty text has no line.
pub(super) fn block(text: &str) -> Option<String> {
    let clean = clean(text);
    (!clean.is_empty()).then(|| format!("{MARK}{}", marked(clean.strip_suffix('\n').unwrap_or(&clean))))
}

/// Quotes text on one line.
pub(super) fn line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

/// Quotes text after a label: its first line beside the label, further lines marked.
pub(super) fn label(name: &str, text: &str) -> String {
    format!("{name} {}", marked(&clean(text)))
}

/// Marks each line but the first.
fn marked(clean: &str) -> String {
    clean.replace('\n', &format!("\n{MARK}"))
}

/// Removes escape sequences and control characters, and makes `
/// ` the only line end.
fn clean(text: &str) -> String {
    let plain = |c: char| match c {
        '\u{2028}' | '\u{2029}' => Some('\n'),
        '\n' | '\t' => Some(c),
        c if c.is_control() => None,
        c => Some(c),
    };
    strip(text).chars().filter_map(plain).collect()
}
