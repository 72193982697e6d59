//! Colours beside text, so that secrets are found in the text alone.
//!
//! Decision 271: docs/decisions/text.md.

use crate::escape::{ESC, control_parts};
use memchr::memchr;

/// A longer one is none that a program meant.
const LONGEST: usize = 64;
/// What ends every colour.
pub const RESET: &str = "\x1b[0m";

/// Text with the colours that belong to it. They are the SGR sequences (`ESC [ … m`): colours, bold, underlined and the like.
///
/// The text is masked without them, so that a secret that a program prints in two colours is found. [`Coloured::paint`] puts them back into
/// what the mask has left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coloured {
    text: String,
    marks: Vec<Mark>,
}

/// A sequence, and the byte of the text that it stands before.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    at: usize,
    sequence: Box<str>,
}

impl Coloured {
    /// Adds what a [`Stripper`](crate::Stripper) that keeps colours has left.
    pub fn push(&mut self, mut piece: &str) {
        while let Some(at) = memchr(ESC, piece.as_bytes()) {
            let end = memchr(b'm', &piece.as_bytes()[at..]).map_or(piece.len(), |len| at + len + 1);
            self.text.push_str(&piece[..at]);
            if is_colour(piece.as_bytes(), at, end) {
                self.marks.push(Mark { at: self.text.len(), sequence: piece[at..end].into() });
                piece = &piece[end..];
            } else {
                // A stripper leaves no other; were it here, a terminal must not get it.
                piece = &piece[at + 1..];
            }
        }
        self.text.push_str(piece);
    }

    /// The text without its colours.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is neither text nor colour.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.marks.is_empty()
    }

    /// How many colours there are.
    pub fn marks(&self) -> usize {
        self.marks.len()
    }

    /// Splits behind the first `at` bytes of the text. A colour that stands there goes with what follows.
    pub fn split_off(&mut self, at: usize) -> Self {
        let rest = self.text.split_off(at);
        let first = self.marks.partition_point(|mark| mark.at < at);
        let marks = self.marks.split_off(first).into_iter().map(|mark| Mark { at: mark.at - at, ..mark }).collect();
        Self { text: rest, marks }
    }

    /// What was made of the text by masking it, with the colours in their places; without its first `bytes` and the first `marks` colours, which
    /// were shown before.
    pub fn paint(&self, masked: &str, bytes: usize, marks: usize) -> String {
        let marks = self.marks.get(marks..).unwrap_or_default();
        if marks.is_empty() {
            return masked[bytes..].to_owned();
        }
        let mut out = String::with_capacity(masked.len() + 8 * marks.len());
        let mut done = bytes;
        let mut places = Places::new(&self.text, masked);
        for mark in marks {
            let at = places.of(mark.at).max(done);
            out.push_str(&masked[done..at]);
            out.push_str(&mark.sequence);
            done = at;
        }
        out.push_str(&masked[done..]);
        out
    }
}

/// Whether the bytes from `at` to `end` are a colour and nothing else that a terminal would act on.
pub(crate) fn is_colour(bytes: &[u8], at: usize, end: usize) -> bool {
    let parameters = |all: &[u8]| all.iter().all(|b| matches!(b, b'0'..=b'9' | b';' | b':'));
    bytes[at] == ESC && end - at <= LONGEST && matches!(control_parts(bytes, at, end), Some((p, b'm')) if parameters(p))
}

/// Where the bytes of a text are in what masking made of it, from left to right.
struct Places<'a> {
    /// What is left of both, from the line that was looked at last.
    text: &'a str,
    masked: &'a str,
    text_at: usize,
    masked_at: usize,
    /// Whether both have the same number of lines, so that they are compared line by line.
    by_line: bool,
    /// How the two differ here, once they were compared.
    change: Option<Change>,
}

/// The part that masking changed: where it begins, and where it ends in the text and in the masked text.
#[derive(Clone, Copy)]
struct Change {
    from: usize,
    text_end: usize,
    masked_end: usize,
}

impl<'a> Places<'a> {
    fn new(text: &'a str, masked: &'a str) -> Self {
        let lines = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let by_line = text != masked && lines(text) == lines(masked);
        Self { text, masked, text_at: 0, masked_at: 0, by_line, change: None }
    }

    /// The place of byte `at`, which never goes back. What was masked has one place: where it begins.
    fn of(&mut self, at: usize) -> usize {
        while self.by_line
            && let (Some(text), Some(masked)) = (line_end(self.text), line_end(self.masked))
            && self.text_at + text <= at
        {
            (self.text, self.masked) = (&self.text[text..], &self.masked[masked..]);
            (self.text_at, self.masked_at) = (self.text_at + text, self.masked_at + masked);
            self.change = None;
        }
        let cut = |all: &'a str| if self.by_line { &all[..line_end(all).unwrap_or(all.len())] } else { all };
        let change = *self.change.get_or_insert_with(|| Change::between(cut(self.text), cut(self.masked)));
        let within = at - self.text_at;
        self.masked_at
            + match within {
                _ if within <= change.from => within,
                _ if within >= change.text_end => change.masked_end + (within - change.text_end),
                _ => change.from,
            }
    }
}

impl Change {
    fn between(text: &str, masked: &str) -> Self {
        let same = |(a, b): &(char, char)| a == b;
        let from: usize = text.chars().zip(masked.chars()).take_while(same).map(|(a, _)| a.len_utf8()).sum();
        let rest = text[from..].chars().rev().zip(masked[from..].chars().rev());
        let end: usize = rest.take_while(same).map(|(a, _)| a.len_utf8()).sum();
        Self { from, text_end: text.len() - end, masked_end: masked.len() - end }
    }
}

fn line_end(text: &str) -> Option<usize> {
    memchr(b'\n', text.as_bytes()).map(|end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Redactor, Stripper};
    use proptest::prelude::*;

    const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

    fn coloured(raw: &str) -> Coloured {
        let mut stripper = Stripper::keeping_colours();
        let mut all = Coloured::default();
        all.push(&stripper.push(raw));
        all.push(&stripper.finish());
        all
    }

    fn shown(raw: &str) -> String {
        let all = coloured(raw);
        let masked = Redactor::new(true).output("make", all.text()).into_owned();
        all.paint(&masked, 0, 0)
    }

    #[test]
    fn colours_pass_and_what_steers_a_terminal_does_not() {
        let table = [
            ("\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n"),
            ("\x1b[38;2;1;2;3mx\x1b[4:3my\x1b[m", "\x1b[38;2;1;2;3mx\x1b[4:3my\x1b[m"),
            ("\x1b[2J\x1b[H\x1b[31mx\x1b]0;title\x07y\x1b[K", "\x1b[31mxy"),
            ("\x1b[>4;2mx\x1b[?4my\x1b[1 mz", "xyz"),
            ("\u{9b}31mred", "red"),
            ("a\x1b]0;\x1b[31m\x07b\x1bPq\x1b[1m\x1b\\c", "abc"),
            ("\x1b[\x1b[31mx", "\x1b[31mx"),
        ];
        for (raw, text) in table {
            assert_eq!(shown(raw), text, "{raw:?}");
        }
        assert_eq!(shown(&format!("\x1b[{}mx", "1;".repeat(40))), "x");
    }

    #[test]
    fn a_secret_in_two_colours_is_masked() {
        let (a, b) = TOKEN.split_at(12);
        let text = shown(&format!("use \x1b[32m{a}\x1b[1;31m{b}\x1b[0m \x1b[33mnow\x1b[0m\nnext \x1b[34mline\x1b[0m\n"));
        assert!(!text.contains(&TOKEN[8..14]) && !text.contains("abcdef"), "{text:?}");
        assert!(text.starts_with("use \x1b[32m") && text.contains("\x1b[0m \x1b[33mnow\x1b[0m\nnext \x1b[34mline\x1b[0m\n"), "{text:?}");
    }

    #[test]
    fn what_is_split_keeps_its_colours() {
        let mut all = coloured("\x1b[1ma\nb\x1b[0m\n\x1b[31mc");
        let rest = all.split_off(4);
        assert_eq!((all.paint("a\nb\n", 0, 0), rest.paint("c", 0, 0)), ("\x1b[1ma\nb\x1b[0m\n".into(), "\x1b[31mc".into()));
        assert_eq!(coloured("\x1b[1mab\x1b[0mc").paint("abc", 1, 1), "b\x1b[0mc");
    }

    proptest! {
        #[test]
        fn the_text_is_that_without_colours(raw in "([ab你\n]|ghp_0123456789abcdefghijklmnopqrstuvwxyz|\x1b\\[[0-9;]{0,3}[mK]|\x1b|\x1b\\]|\x07){0,30}") {
            let all = coloured(&raw);
            prop_assert_eq!(all.text(), &*crate::strip(&raw).into_owned());
            let masked = Redactor::new(true).output("make", all.text()).into_owned();
            let painted = all.paint(&masked, 0, 0);
            prop_assert_eq!(crate::strip(&painted).into_owned(), masked);
        }
    }
}
