//! Splits a stream into lines, and skips lines that are too long.

use crate::oversized::{OversizedMessage, OversizedReader};

/// The longest line that is forwarded, with its line end. Messages carry files and pictures, so it is large; it only keeps a stream without
/// line ends from taking all memory.
pub const MOST_BYTES: usize = 64 << 20;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// The line as it came, with its `\n`. The last line of a stream may lack it.
    Whole(Vec<u8>),
    /// The line was too long and was skipped.
    Long(OversizedMessage),
}

/// Makes lines from pieces.
#[derive(Debug)]
pub struct Splitter {
    most: usize,
    held: Vec<u8>,
    /// How many held bytes were returned already.
    given: usize,
    /// Up to here the held bytes have no further line end.
    searched: usize,
    /// The line that is being skipped.
    skipped: Option<OversizedReader>,
}

impl Splitter {
    /// A splitter that skips lines over `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { most, held: Vec::new(), given: 0, searched: 0, skipped: None }
    }

    /// Takes a piece of the stream. Call [`Splitter::next_line`] until it returns `None` before the next piece.
    pub fn push(&mut self, bytes: &[u8]) {
        self.held.drain(..self.given);
        self.searched -= self.given;
        self.given = 0;
        if self.held.is_empty() {
            // The memory of a long line is not kept for the next one.
            self.held.shrink_to(KEPT_BYTES);
        }
        self.held.extend_from_slice(bytes);
    }

    /// The next complete line.
    pub fn next_line(&mut self) -> Option<Line> {
        let found = memchr::memchr(b'\n', &self.held[self.searched..]).map(|at| self.searched + at + 1);
        let end = found.unwrap_or(self.held.len());
        self.searched = end;
        if self.skipped.is_some() || end - self.given > self.most {
            self.skipped.get_or_insert_default().push(&self.held[self.given..end]);
            self.given = end;
            found?;
            return self.skipped.take().map(|reader| Line::Long(reader.finish()));
        }
        found?;
        let line = self.held[self.given..end].to_vec();
        self.given = end;
        Some(Line::Whole(line))
    }

    /// The rest, at the end of the stream.
    pub fn finish(mut self) -> Option<Line> {
        match self.skipped.take() {
            Some(reader) => Some(Line::Long(reader.finish())),
            None => (self.given < self.held.len()).then(|| Line::Whole(self.held.split_off(self.given))),
        }
    }
}

/// How much memory is kept between lines.
const KEPT_BYTES: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(most: usize, pieces: &[&[u8]]) -> Vec<Line> {
        let mut splitter = Splitter::new(most);
        let mut all = Vec::new();
        for piece in pieces {
            splitter.push(piece);
            while let Some(line) = splitter.next_line() {
                all.push(line);
            }
        }
        all.extend(splitter.finish());
        all
    }

    #[test]
    fn a_line_is_given_as_it_came() {
        let whole = |text: &str| Line::Whole(text.into());
        assert_eq!(lines(9, &[b"a\r\n\nb", b"c\nd"]), [whole("a\r\n"), whole("\n"), whole("bc\n"), whole("d")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_told_and_the_next_is_read() {
        let long = br#"{"id":7,"method":"x","params":"aaaaaaaaaaaaaaaaaaaaaaa"}"#;
        for size in 1..long.len() {
            let text = [&long[..], b"\n{}\n"].concat();
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            let [Line::Long(known), Line::Whole(next)] = &lines(20, &pieces)[..] else { panic!("{size}") };
            assert_eq!((known.id.as_deref().map(|id| id.get()), known.method.as_deref()), (Some("7"), Some("x")));
            assert_eq!((known.bytes, &next[..]), (long.len() as u64 + 1, &b"{}\n"[..]));
        }
    }

    #[test]
    fn exactly_as_long_as_may_be_is_passed_on() {
        assert_eq!(lines(4, &[b"abc\n"]), [Line::Whole(b"abc\n".to_vec())]);
        assert!(matches!(lines(4, &[b"abcd\n"])[..], [Line::Long(_)]));
        assert!(matches!(lines(4, &[b"abcde"])[..], [Line::Long(_)]));
    }

    proptest! {
        #[test]
        fn wherever_it_is_cut_the_lines_are_the_same(text: Vec<u8>, size in 1..9_usize, most in 1..40_usize) {
            let pieces: Vec<&[u8]> = text.chunks(size).collect();
            prop_assert_eq!(lines(most, &pieces), lines(most, &[&text]));
            let whole = lines(usize::MAX, &pieces);
            let again: Vec<u8> = whole.into_iter().flat_map(|l| match l { Line::Whole(bytes) => bytes, Line::Long(_) => Vec::new() }).collect();
            prop_assert_eq!(again, text);
        }
    }
}
