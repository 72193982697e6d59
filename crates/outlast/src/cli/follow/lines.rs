//! Joins pieces of output to whole lines.

use super::{LONGEST_WHOLE, Render};
use std::collections::VecDeque;

/// A line, or a part of one that is too long to wait for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutputLine {
    pub(crate) text: String,
    /// Its first byte in the log.
    pub(crate) from_byte: u64,
    /// Where a later reader continues: nothing before it is missing.
    pub(crate) next_byte: u64,
    /// Whether the line ends here.
    pub(crate) is_ended: bool,
}

/// Joins pieces of output to whole lines.
pub(crate) struct Lines {
    render: Render,
    /// The text of the unfinished line.
    text: String,
    /// The first byte of the unfinished line.
    begun: u64,
    /// The finished lines that are not returned yet: the first byte of each, and the byte after it.
    ended: VecDeque<(u64, u64)>,
    /// The byte after everything that was pushed.
    pub(crate) seen: u64,
    /// Where a later reader continues: nothing before it is missing.
    pub(crate) next_byte: u64,
}

impl Lines {
    /// `render` must be one made by `whole_lines`.
    pub(crate) fn new(render: Render, at: u64) -> Self {
        Self { render, text: String::new(), begun: at, ended: VecDeque::new(), seen: at, next_byte: at }
    }

    /// The lines that end in these bytes.
    pub(crate) fn push(&mut self, at: u64, bytes: &[u8]) -> Vec<OutputLine> {
        self.seen = at + bytes.len() as u64;
        for newline in bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i as u64) {
            self.ended.push_back((self.begun, at + newline + 1));
            self.begun = at + newline + 1;
        }
        self.text += &self.render.push(bytes);
        let mut lines = self.cut();
        if self.text.len() > LONGEST_WHOLE / 2 {
            let text = std::mem::take(&mut self.text);
            lines.push(OutputLine { text, from_byte: self.begun, next_byte: self.next_byte, is_ended: false });
        }
        lines
    }

    /// The rest, if nothing more comes before the byte `to`.
    pub(crate) fn finish(&mut self, to: u64) -> Vec<OutputLine> {
        self.text += &self.render.finish();
        let mut lines = self.cut();
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            lines.push(OutputLine { text, from_byte: self.begun, next_byte: to, is_ended: false });
        }
        (self.seen, self.next_byte, self.begun) = (to, to, to);
        self.ended.clear();
        lines
    }

    /// Continues at this byte, where a line starts. What is before it is not shown.
    pub(crate) fn skip_to(&mut self, at: u64) {
        (self.seen, self.next_byte, self.begun) = (at, at, at);
    }

    /// The finished lines of the text.
    fn cut(&mut self) -> Vec<OutputLine> {
        let Some(end) = self.text.rfind('\n') else { return Vec::new() };
        let rest = self.text.split_off(end + 1);
        let text = std::mem::replace(&mut self.text, rest);
        let texts: Vec<&str> = text.split_terminator('\n').collect();
        let came = self.ended.len().saturating_sub(self.render.held_lines());
        let first = self.ended.front().map_or(self.begun, |line| line.0);
        // A mask may have joined several lines. Then only the position after the last one is known.
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
            OutputLine { text: text.to_owned(), from_byte, next_byte, is_ended: true }
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

    fn texts(lines: &[OutputLine]) -> Vec<(&str, u64)> {
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
