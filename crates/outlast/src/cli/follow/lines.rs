//! Whole lines out of pieces of output.

use super::{LONGEST_WHOLE, Render};
use std::collections::VecDeque;

/// A line, or a part of one that is too long to wait for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// Its first byte in the log.
    pub(crate) from_byte: u64,
    /// Where to go on another time: nothing before it is missing.
    pub(crate) next_byte: u64,
    /// Whether this is where it ends.
    pub(crate) is_ended: bool,
}

/// Makes whole lines out of pieces.
pub(crate) struct Lines {
    render: Render,
    /// Text of a line that has not ended.
    text: String,
    /// The first byte of the line that has not ended.
    begun: u64,
    /// The lines that have ended and are not out yet: their first byte, and the byte behind them.
    ended: VecDeque<(u64, u64)>,
    /// The byte behind everything that came.
    pub(crate) seen: u64,
    /// Where to go on another time: nothing before it is missing.
    pub(crate) next_byte: u64,
}

impl Lines {
    /// `render` has to be one of whole lines.
    pub(crate) fn new(render: Render, at: u64) -> Self {
        Self { render, text: String::new(), begun: at, ended: VecDeque::new(), seen: at, next_byte: at }
    }

    /// The lines that end in these bytes.
    pub(crate) fn push(&mut self, at: u64, bytes: &[u8]) -> Vec<Line> {
        self.seen = at + bytes.len() as u64;
        for newline in bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i as u64) {
            self.ended.push_back((self.begun, at + newline + 1));
            self.begun = at + newline + 1;
        }
        self.text += &self.render.push(bytes);
        let mut lines = self.cut();
        if self.text.len() > LONGEST_WHOLE / 2 {
            let text = std::mem::take(&mut self.text);
            lines.push(Line { text, from_byte: self.begun, next_byte: self.next_byte, is_ended: false });
        }
        lines
    }

    /// What is left when no more comes before the byte `to`.
    pub(crate) fn finish(&mut self, to: u64) -> Vec<Line> {
        self.text += &self.render.finish();
        let mut lines = self.cut();
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            lines.push(Line { text, from_byte: self.begun, next_byte: to, is_ended: false });
        }
        (self.seen, self.next_byte, self.begun) = (to, to, to);
        self.ended.clear();
        lines
    }

    /// Goes on at this byte, where a line begins. What lies before it is not shown.
    pub(crate) fn skip_to(&mut self, at: u64) {
        (self.seen, self.next_byte, self.begun) = (at, at, at);
    }

    /// The lines of the text that have ended.
    fn cut(&mut self) -> Vec<Line> {
        let Some(end) = self.text.rfind('\n') else { return Vec::new() };
        let rest = self.text.split_off(end + 1);
        let text = std::mem::replace(&mut self.text, rest);
        let texts: Vec<&str> = text.split_terminator('\n').collect();
        let came = self.ended.len().saturating_sub(self.render.held_lines());
        let first = self.ended.front().map_or(self.begun, |line| line.0);
        // What was masked may have been several lines and be one now. Which is which is then known at their end only.
        let is_same = came == texts.len();
        let before = self.next_byte;
        let places: Vec<(u64, u64)> = self.ended.drain(..came).collect();
        self.next_byte = places.last().map_or(before, |line| line.1);
        let last = texts.len() - 1;
        let place = |n: usize| match (is_same, n == last) {
            (true, _) => places[n],
            (false, false) => (first, before),
            (false, true) => (first, self.next_byte),
        };
        let line = |(n, text): (usize, &str)| {
            let (from_byte, next_byte) = place(n);
            Line { text: text.to_owned(), from_byte, next_byte, is_ended: true }
        };
        texts.into_iter().enumerate().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sgr;
    use super::*;
    use outlast_text::Redactor;

    fn lines() -> Lines {
        Lines::new(Render::whole_lines("make", Redactor::new(true), Sgr::Removed), 100)
    }

    fn texts(lines: &[Line]) -> Vec<(&str, u64)> {
        lines.iter().map(|l| (l.text.as_str(), l.next_byte)).collect()
    }

    #[test]
    fn lines_come_whole_and_say_where_to_go_on() {
        let mut l = lines();
        assert_eq!(texts(&l.push(100, b"one\ntw")), [("one", 104)]);
        assert_eq!(texts(&l.push(106, b"o\n\nrest")), [("two", 108), ("", 109)]);
        assert_eq!(l.next_byte, 109, "the rest is read again");
        assert_eq!(texts(&l.finish(113)), [("rest", 113)]);
    }

    #[test]
    fn a_bar_is_shown_as_it_stood_at_its_end() {
        let mut l = lines();
        assert!(l.push(100, b"10%\r50%\r").is_empty());
        assert_eq!(texts(&l.push(108, b"100%\r\n")), [("100%", 114)]);
        assert!(l.push(114, "5%\r".repeat(LONGEST_WHOLE).as_bytes()).is_empty());
        assert!(l.text.len() < 10);
    }

    #[test]
    fn a_key_is_masked_and_read_again_by_a_reader_that_comes_back() {
        let mut l = lines();
        let mut all = l.push(100, b"before\n-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0c2VjcmV0\n");
        assert_eq!(l.next_byte, 107);
        all.extend(l.push(157, b"-----END RSA PRIVATE KEY-----\nafter\n"));
        let shown: Vec<&str> = all.iter().map(|l| l.text.as_str()).collect();
        assert!(shown.first() == Some(&"before") && shown.last() == Some(&"after") && !shown.concat().contains("c2Vj"), "{shown:?}");
    }

    #[test]
    fn a_line_without_end_is_shown_in_parts() {
        let mut l = lines();
        let mut parts = l.push(100, &vec![b'x'; 3 * LONGEST_WHOLE]);
        assert!(!parts.is_empty());
        parts.extend(l.push(100 + 3 * LONGEST_WHOLE as u64, b"y\nz"));
        parts.extend(l.finish(103 + 3 * LONGEST_WHOLE as u64));
        let text: String = parts.iter().map(|part| format!("{}{}", part.text, if part.is_ended { "\n" } else { "" })).collect();
        assert_eq!(text, format!("{}y\nz", "x".repeat(3 * LONGEST_WHOLE)));
        assert!(parts.iter().all(|part| part.from_byte == 100 || part.text == "z"));
    }
}
