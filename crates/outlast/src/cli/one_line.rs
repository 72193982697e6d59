//! Text from outside, for one line of a terminal.

/// The text without line breaks, and without what moves the cursor or changes the direction of writing.
pub(crate) fn tame(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_control_a_terminal_are_replaced() {
        assert_eq!(tame("a\tb\r\nc\x1b[2J\u{202e}d"), "a b  c\u{fffd}[2J\u{fffd}d");
        assert_eq!(tame("日本 é 🦀"), "日本 é 🦀");
    }
}
