//! Splits a text into numbered lines.

use memchr::{memchr, memchr_iter};

/// A line with its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its number in the log, from 0.
    pub number: u64,
    /// Its text, without the line end.
    pub text: &'a str,
    /// Whether its line end was written; only the last line can lack it.
    pub finished: bool,
}

/// The lines of a text, numbered from 0.
///
/// Only `\n` ends a line, so a progress bar made of carriage returns is one line. Text after the last `\n` is a line, too.
pub fn lines(text: &str) -> Lines<'_> {
    lines_from(0, text)
}

/// The lines of a text whose first line has the number `first`.
pub fn lines_from(first: u64, text: &str) -> Lines<'_> {
    Lines { rest: text, number: first }
}

/// How many lines a text has; the number of items in [`lines`].
pub fn count_lines(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let finished = memchr_iter(b'\n', bytes).count() as u64;
    let unfinished = bytes.last().is_some_and(|&byte| byte != b'\n');
    finished + u64::from(unfinished)
}

/// The iterator of [`lines`].
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    rest: &'a str,
    number: u64,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr(b'\n', self.rest.as_bytes());
        let (text, rest) = match end {
            Some(at) => (&self.rest[..at], &self.rest[at + 1..]),
            None => (self.rest, ""),
        };
        let line = Line { number: self.number, text, finished: end.is_some() };
        self.rest = rest;
        self.number += 1;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_at_newline_only() {
        let texts: Vec<&str> = lines("a\rb\u{2028}c\x0bd\u{85}e\n\nf").map(|l| l.text).collect();
        assert_eq!(texts, ["a\rb\u{2028}c\x0bd\u{85}e", "", "f"]);
    }

    #[test]
    fn an_unfinished_line_counts_when_it_has_text() {
        for (text, count) in [("", 0), ("\n", 1), ("a", 1), ("a\n", 1), ("a\nb", 2)] {
            assert_eq!(count_lines(text), count);
            assert_eq!(lines(text).count() as u64, count);
        }
        let last = lines_from(7, "a\nb").last();
        let expected = Line { number: 8, text: "b", finished: false };
        assert_eq!(last, Some(expected));
    }

    #[test]
    fn case_085_fifty_lines() {
        assert_eq!(count_lines(&"line\n".repeat(50)), 50);
    }
}
