//! Removes escape sequences from text.

use crate::colours::is_colour;
use crate::escape::{Sequence, StringEnds, introducers, next_introducer, sequence_at};
use memchr::memchr;
use std::borrow::Cow;

/// Removes ANSI escape sequences and 8-bit control characters.
///
/// This removes control sequences, OSC strings (up to BEL or ESC \\), DCS, SOS, PM and APC strings (up to ESC \\), nF and two-character
/// escapes, their 8-bit forms and every other U+0080 to U+009F. Carriage return, BEL, backspace, NUL and tab stay. A sequence that never
/// ends loses only its introducer, so that a stray `ESC ]` does not swallow the text after it. A lone ESC is removed as well: it could form
/// a new sequence with the text that then follows it.
///
/// Text without any of these is returned as it is.
pub fn strip(text: &str) -> Cow<'_, str> {
    if next_introducer(text.as_bytes(), 0).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    scan(text, &mut out, &mut StringEnds::default(), AtEnd::Finished, Keep::Text);
    Cow::Owned(out)
}

/// Like [`strip`], and appends to `out`.
pub(crate) fn strip_into(text: &str, out: &mut String) {
    scan(text, out, &mut StringEnds::default(), AtEnd::Finished, Keep::Text);
}

/// Like [`strip`] for many whole lines of any bytes, and appends to `out`. A sequence ends with its line.
pub(crate) fn strip_lines_into(lines: &[u8], out: &mut Vec<u8>) {
    let mut ends = StringEnds::default();
    let (mut done, mut line_end) = (0, 0);
    for at in introducers(lines) {
        if at < done {
            continue;
        }
        if at >= line_end {
            line_end = memchr(b'\n', &lines[at..]).map_or(lines.len(), |len| at + len);
            ends = StringEnds::default();
        }
        out.extend_from_slice(&lines[done..at]);
        done = match sequence_at(&lines[..line_end], at, &mut ends) {
            Sequence::Whole(end) | Sequence::Broken(end) | Sequence::Open { introducer_end: end, .. } => end,
        };
    }
    out.extend_from_slice(&lines[done..]);
}

/// [`strip`] for text that comes in pieces.
///
/// The result does not depend on the pieces, with one exception, since the held text is limited: an unfinished string longer than the limit,
/// or another unfinished sequence longer than 256 bytes, counts as one that never ends.
#[derive(Debug, Clone)]
pub struct Stripper {
    held: String,
    ends: StringEnds,
    limit: usize,
    keep: Keep,
}

impl Stripper {
    /// The bytes held back unless [`Stripper::with_limit`] says otherwise.
    pub const LIMIT: usize = 64 * 1024;

    /// A stripper at the start of a text, with the default limit.
    pub fn new() -> Self {
        Self::with_limit(Self::LIMIT)
    }

    /// A stripper that holds back at most this many bytes between two pieces.
    pub fn with_limit(limit: usize) -> Self {
        Self { held: String::new(), ends: StringEnds::default(), limit, keep: Keep::Text }
    }

    /// A stripper that leaves colours in the text, for [`Coloured`](crate::Coloured).
    pub fn keeping_colours() -> Self {
        Self { keep: Keep::Colours, ..Self::new() }
    }

    /// Strips the next piece, and holds back a sequence that it leaves open.
    pub fn push<'a>(&mut self, piece: &'a str) -> Cow<'a, str> {
        if self.held.is_empty() {
            if next_introducer(piece.as_bytes(), 0).is_none() {
                return Cow::Borrowed(piece);
            }
            self.ends = StringEnds::default();
        }
        self.held.push_str(piece);
        let mut out = String::with_capacity(piece.len());
        self.advance(&mut out, AtEnd::MoreComes);
        if self.held.len() > self.limit {
            self.advance(&mut out, AtEnd::StringsGivenUp);
        }
        if self.held.len() > self.limit {
            self.advance(&mut out, AtEnd::Finished);
        }
        Cow::Owned(out)
    }

    /// Ends the text, and returns what was held back, as [`strip`] would show it.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        self.advance(&mut out, AtEnd::Finished);
        out
    }

    fn advance(&mut self, out: &mut String, at_end: AtEnd) {
        let done = scan(&self.held, out, &mut self.ends, at_end, self.keep);
        if done > 0 {
            self.held.drain(..done);
            self.ends.shift(done);
        }
    }
}

impl Default for Stripper {
    fn default() -> Self {
        Self::new()
    }
}

/// A longer sequence that is not a string counts as one that never ends.
const MAX_PLAIN_BYTES: usize = 256;

/// How the end of the text affects an unfinished sequence.
#[derive(Clone, Copy, PartialEq)]
enum AtEnd {
    Finished,
    MoreComes,
    StringsGivenUp,
}

/// What is kept of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Keep {
    Text,
    Colours,
}

/// Copies the visible text to `out`, and returns how many bytes of the text were handled.
fn scan(text: &str, out: &mut String, ends: &mut StringEnds, at_end: AtEnd, keep: Keep) -> usize {
    let bytes = text.as_bytes();
    let mut done = 0;
    while let Some(at) = next_introducer(bytes, done) {
        out.push_str(&text[done..at]);
        done = match sequence_at(bytes, at, ends) {
            Sequence::Whole(end) => {
                if keep == Keep::Colours && is_colour(bytes, at, end) {
                    out.push_str(&text[at..end]);
                }
                end
            }
            Sequence::Broken(end) => end,
            Sequence::Open { introducer_end, string } => {
                let give_up = match at_end {
                    AtEnd::Finished => true,
                    AtEnd::MoreComes => !string && bytes.len() - at > MAX_PLAIN_BYTES,
                    AtEnd::StringsGivenUp => string || bytes.len() - at > MAX_PLAIN_BYTES,
                };
                if !give_up {
                    return at;
                }
                introducer_end
            }
        };
    }
    out.push_str(&text[done..]);
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn removes_what_a_terminal_would_not_show() {
        let table = [
            ("\x1b[31mred\x1b[0m", "red"),
            ("\x1b[38;2;1;2;3mx\x1b[?25l", "x"),
            ("\x1b[0 qx", "x"),
            ("\x1b]0;title\x07text", "text"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1bPq#0;2\x1b\\x", "x"),
            ("\x1bXsos\x1b\\a\x1b^pm\x1b\\b\x1b_apc\x1b\\c", "abc"),
            ("\x1b(Bx\x1b#8y", "xy"),
            ("\x1b7a\x1b8b\x1bMc\x1b=d", "abcd"),
            ("\u{9b}31mred\u{9b}m", "red"),
            ("\u{9d}0;title\x07a\u{9d}t\u{9c}b", "ab"),
            ("a\u{85}b\u{90}c", "abc"),
            ("a\u{a0}b©", "a\u{a0}b©"),
        ];
        for (raw, shown) in table {
            assert_eq!(strip(raw), shown, "{raw:?}");
        }
    }

    #[test]
    fn keeps_bare_controls_and_borrows_plain_text() {
        let plain = "a\rb\x07c\x08d\0e\tf\ng é 🦀";
        assert!(matches!(strip(plain), Cow::Borrowed(text) if text == plain));
        assert!(matches!(Stripper::new().push(plain), Cow::Borrowed(_)));
        assert_eq!(strip("\x1b[1m\r\x07\x08\0\t"), "\r\x07\x08\0\t");
    }

    #[test]
    fn an_unterminated_sequence_loses_only_its_introducer() {
        assert_eq!(strip("a\x1b]0;title\nnext"), "a0;title\nnext");
        assert_eq!(strip("a\x1bPdata \x1b[31mred"), "adata red");
        assert_eq!(strip("a\u{9d}title"), "atitle");
        assert_eq!(strip("a\x1b[31"), "a31");
        assert_eq!(strip("a\x1b[31é"), "a31é");
        assert_eq!(strip("a\x1b"), "a");
        assert_eq!(strip("a\x1b\nb"), "a\nb");
        // A DCS does not end at BEL, but the OSC inside it does.
        assert_eq!(strip("\x1bPa\x1b]0;b\x07c"), "ac");
    }

    #[test]
    fn a_lone_escape_cannot_make_a_new_sequence() {
        assert_eq!(strip("\x1b\x1b[m]0;owned\x07"), "]0;owned\x07");
    }

    #[test]
    fn an_over_long_string_is_given_up() {
        let mut stripper = Stripper::with_limit(8);
        let mut out = stripper.push("a\x1b]0;1234").into_owned();
        out.push_str(&stripper.push("56789"));
        out.push_str(&stripper.push("\x07b"));
        assert_eq!(out, "a0;123456789\x07b");
        assert!(stripper.held.is_empty());
    }

    #[test]
    fn many_open_strings_take_linear_time() {
        let text = "\x1b]\x1bP\u{9d}".repeat(100_000);
        assert_eq!(strip(&text), "");
        let mut stripper = Stripper::new();
        for piece in ["\x1b]", "\x1bP", "x"].repeat(20_000) {
            stripper.push(piece);
            assert!(stripper.held.len() <= Stripper::LIMIT);
        }
    }

    fn pieces() -> impl Strategy<Value = Vec<String>> {
        let atom = prop_oneof![
            "[a-z ]{0,3}",
            Just("\x1b".to_owned()),
            Just("[".to_owned()),
            Just("]".to_owned()),
            Just("P".to_owned()),
            Just("\\".to_owned()),
            Just("\x07".to_owned()),
            Just("31;m".to_owned()),
            Just("(B".to_owned()),
            Just("\u{9b}".to_owned()),
            Just("\u{9d}".to_owned()),
            Just("\u{9c}".to_owned()),
            Just("\u{85}é🦀\n".to_owned()),
        ];
        proptest::collection::vec(atom, 0..24)
    }

    proptest! {
        #[test]
        fn pieces_strip_like_the_whole(pieces in pieces()) {
            let mut stripper = Stripper::new();
            let mut out = String::new();
            for piece in &pieces {
                out.push_str(&stripper.push(piece));
            }
            out.push_str(&stripper.finish());
            let whole = pieces.concat();
            prop_assert_eq!(out, strip(&whole));
        }

        #[test]
        fn lines_at_once_strip_like_each_alone(pieces in pieces()) {
            let text = pieces.concat();
            let mut out = Vec::new();
            strip_lines_into(text.as_bytes(), &mut out);
            let each: Vec<_> = text.split('\n').map(strip).collect();
            prop_assert_eq!(String::from_utf8_lossy(&out), each.join("\n"));
        }

        #[test]
        fn nothing_is_left_to_strip(text in prop_oneof![pieces().prop_map(|p| p.concat()), any::<String>()]) {
            let once = strip(&text).into_owned();
            prop_assert!(!once.contains('\x1b'));
            let has_c1 = once.contains(|c| matches!(c, '\u{80}'..='\u{9f}'));
            prop_assert!(!has_c1);
        }
    }
}
