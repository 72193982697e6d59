//! Whole lines out of pieces of output.

use super::super::follow::{LONGEST, Render};
use outlast_text::collapse;

/// A line, and the byte behind it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) next_byte: u64,
}

/// Makes whole lines out of pieces.
pub(super) struct Lines {
    render: Render,
    /// A line that has not ended.
    text: String,
    /// The byte behind everything that came.
    pub(super) seen: u64,
    /// Where to go on another time: nothing before it is missing.
    pub(super) next_byte: u64,
}

impl Lines {
    pub(super) fn new(render: Render, at: u64) -> Self {
        Self { render, text: String::new(), seen: at, next_byte: at }
    }

    /// The lines that end in these bytes.
    pub(super) fn push(&mut self, at: u64, bytes: &[u8]) -> Vec<Line> {
        self.seen = at;
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.seen += piece.len() as u64;
            self.text += &self.render.push(piece);
            if piece.ends_with(b"\n") && !self.render.holds_a_line() {
                self.next_byte = self.seen;
            }
            self.cut(&mut lines);
        }
        lines
    }

    /// What is left when no more comes before the byte `to`.
    pub(super) fn finish(&mut self, to: u64) -> Vec<Line> {
        self.text += &self.render.finish();
        (self.seen, self.next_byte) = (to, to);
        let mut lines = Vec::new();
        self.cut(&mut lines);
        if !self.text.is_empty() {
            lines.push(self.line(self.text.clone()));
            self.text.clear();
        }
        lines
    }

    fn cut(&mut self, lines: &mut Vec<Line>) {
        while let Some(end) = self.text.find('\n') {
            let rest = self.text.split_off(end + 1);
            self.text.pop();
            let text = std::mem::replace(&mut self.text, rest);
            lines.push(self.line(text));
        }
        if self.text.len() > LONGEST {
            // A bar that is drawn over and over is no longer for it. What is long all the same is shown in parts.
            self.text = collapse(&self.text).into_owned();
            if self.text.len() > LONGEST {
                let text = std::mem::take(&mut self.text);
                lines.push(self.line(text));
            }
        }
    }

    fn line(&self, text: String) -> Line {
        // The redraws of a line end in what a terminal would show.
        let text = collapse(text.trim_end_matches('\r')).into_owned();
        Line { text, next_byte: self.next_byte }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_text::Redactor;

    fn lines() -> Lines {
        Lines::new(Render::new("make", Redactor::new(true)), 100)
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
        assert!(l.push(114, "5%\r".repeat(LONGEST).as_bytes()).is_empty());
        assert!(l.text.len() <= LONGEST);
    }

    #[test]
    fn a_key_is_masked_and_read_again_by_whoever_comes_back() {
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
        let parts = l.push(100, &vec![b'x'; 3 * LONGEST]);
        assert!(!parts.is_empty());
        let shown: usize = parts.iter().chain(&l.finish(100 + 3 * LONGEST as u64)).map(|l| l.text.len()).sum();
        assert_eq!(shown, 3 * LONGEST);
    }
}
