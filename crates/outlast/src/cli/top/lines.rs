//! Renders bytes of a log as lines, each with its position in the log.

use outlast_text::{Options, Redactor, render};
use std::borrow::Cow;
use std::sync::Arc;
use unicode_width::UnicodeWidthChar as _;

/// A line, or a part of a very long one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogLine {
    /// Its first byte in the log. It differs for each line.
    pub(super) at: u64,
    pub(super) text: String,
    /// It reports missing bytes.
    pub(super) missing: bool,
}

/// Consecutive lines: those of the bytes from `from` to `to`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) lines: Vec<LogLine>,
    /// Nothing follows it yet.
    pub(super) is_last: bool,
}

/// Renders the output of one command.
#[derive(Debug)]
pub(super) struct LineRenderer {
    /// The whole command. It decides how much is masked.
    pub(super) command: String,
    pub(super) redact: Arc<Redactor>,
}

/// A longer line is shown in parts.
const MAX_LINE_BYTES: usize = 8 << 10;

impl LineRenderer {
    /// The lines of these bytes, which start at `at`, at the start of a line.
    pub(super) fn lines(&self, at: u64, bytes: &[u8]) -> Vec<LogLine> {
        let mut starts = vec![0];
        starts.extend(bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1));
        starts.retain(|s| *s < bytes.len());
        let text = self.show(bytes);
        let shown: Vec<&str> = text.strip_suffix('\n').unwrap_or(&text).split('\n').collect();
        let mut lines = Vec::new();
        if shown.len() == starts.len() {
            let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
            for ((start, end), text) in starts.iter().copied().zip(ends).zip(shown) {
                put(at + start as u64, end - start, text, &mut lines);
            }
        } else {
            // A mask or an escape sequence has joined lines, so each block is rendered by itself.
            for (start, end) in blocks(bytes, &starts) {
                let text = self.show(&bytes[start..end]);
                put(at + start as u64, end - start, &text.trim_end_matches('\n').replace('\n', " "), &mut lines);
            }
        }
        lines
    }

    fn show(&self, bytes: &[u8]) -> String {
        let options = Options { ends_mid_stream: bytes.last() != Some(&b'\n'), ..Options::new(&self.redact) };
        render(bytes, &self.command, &options).text
    }
}

/// Adds a line of `bytes` bytes, in parts if it is long. The position of a part is counted in the text, which is close to that in the log.
/// The text may be longer than the bytes, but no part gets the position of the next line.
fn put(at: u64, bytes: usize, text: &str, lines: &mut Vec<LogLine>) {
    let text = &*without_tabs(text);
    let mut begins = vec![0];
    while let Some(begin) = begins.last().copied().filter(|begin| text.len() - begin > MAX_LINE_BYTES) {
        begins.push((0..=begin + MAX_LINE_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(text.len()));
    }
    for (n, begin) in begins.iter().enumerate() {
        let end = begins.get(n + 1).copied().unwrap_or(text.len());
        let last_place = bytes.saturating_sub(begins.len() - n);
        lines.push(LogLine { at: at + last_place.min(*begin) as u64, text: text[*begin..end].to_owned(), missing: false });
    }
}

/// The text with each tab replaced by spaces up to the next multiple of 8 columns.
fn without_tabs(text: &str) -> Cow<'_, str> {
    if !text.contains('\t') {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut column = 0;
    for c in text.chars() {
        let width = if c == '\t' { 8 - column % 8 } else { c.width().unwrap_or(0) };
        column += width;
        if c == '\t' { out.extend(std::iter::repeat_n(' ', width)) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// The ranges of lines. The lines of a private key are one range.
fn blocks(bytes: &[u8], starts: &[usize]) -> Vec<(usize, usize)> {
    let has = |range: &(usize, usize), mark: &[u8]| bytes[range.0..range.1].windows(mark.len()).any(|w| w == mark);
    let mut blocks: Vec<(usize, usize)> = Vec::new();
    let mut key = None;
    for (i, start) in starts.iter().enumerate() {
        let line = (*start, starts.get(i + 1).copied().unwrap_or(bytes.len()));
        if key.is_none() && has(&line, b"-----BEGIN ") {
            key = Some(*start);
        }
        match key {
            Some(begin) if has(&line, b"-----END ") => {
                blocks.push((begin, line.1));
                key = None;
            }
            Some(_) => {}
            // The start of the key is not here: all lines before may be part of it.
            None if has(&line, b"-----END ") => blocks = vec![(0, line.1)],
            None => blocks.push(line),
        }
    }
    blocks.extend(key.map(|begin| (begin, bytes.len())));
    blocks
}

/// A line that reports missing bytes.
pub(super) fn missing(from: u64, to: u64, why: &str) -> LogLine {
    LogLine { at: from, text: crate::cli::follow::gap(from, to, why), missing: true }
}

/// The words of a search. Case matters only if they have a capital letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words(String);

impl Words {
    pub(super) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// The matches in a text, as byte ranges.
    pub(super) fn in_text(&self, text: &str) -> Vec<(usize, usize)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        if self.0.chars().any(char::is_uppercase) {
            return text.match_indices(&self.0).map(|(at, found)| (at, at + found.len())).collect();
        }
        let mut found: Vec<(usize, usize)> = Vec::new();
        for (at, _) in text.char_indices() {
            let is_free = found.last().is_none_or(|(_, end)| at >= *end);
            if let Some(len) = self.begin(&text[at..]).filter(|_| is_free) {
                found.push((at, at + len));
            }
        }
        found
    }

    /// The length of a match at the start of the text. Compared letter by letter, because some letters change their length in lower case.
    fn begin(&self, text: &str) -> Option<usize> {
        let mut wanted = self.0.chars();
        for (at, c) in text.char_indices() {
            if wanted.as_str().is_empty() {
                return Some(at);
            }
            if !c.to_lowercase().all(|small| wanted.next() == Some(small)) {
                return None;
            }
        }
        wanted.as_str().is_empty().then_some(text.len())
    }

    pub(super) fn are_in(&self, text: &str) -> bool {
        !self.in_text(text).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look() -> LineRenderer {
        LineRenderer { command: "make".into(), redact: Arc::new(Redactor::new(true)) }
    }

    fn shown(at: u64, bytes: &[u8]) -> Vec<(u64, String)> {
        look().lines(at, bytes).into_iter().map(|l| (l.at, l.text)).collect()
    }

    #[test]
    fn lines_have_their_places_and_no_escapes() {
        let got = shown(100, b"one\n\x1b[31mtwo\x1b[0m\n\n10%\r20%\rdone\nopen");
        let want = [(100, "one"), (104, "two"), (117, ""), (118, "done"), (131, "open")];
        assert_eq!(got, want.map(|(at, text)| (at, text.to_owned())));
        assert_eq!(shown(0, b"a\tb\n\tc"), [(0, "a       b".into()), (4, "        c".into())]);
        assert_eq!(shown(0, b""), []);
        assert_eq!(shown(5, b"\n"), [(5, String::new())]);
    }

    #[test]
    fn a_private_key_is_one_line_and_those_behind_it_keep_their_places() {
        let log = b"before\n-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0c2VjcmV0c2VjcmV0\n-----END RSA PRIVATE KEY-----\nafter\n";
        let got = shown(0, log);
        assert!(got.iter().all(|(_, text)| !text.contains("c2Vj")), "{got:?}");
        assert_eq!(got.first().unwrap(), &(0, "before".into()));
        assert_eq!(got.last().unwrap(), &(log.len() as u64 - 6, "after".into()));
    }

    #[test]
    fn the_rest_of_a_key_is_not_shown_by_its_lines() {
        let log = b"c2VjcmV0c2VjcmV0c2VjcmV0\nc2VjcmV0c2VjcmV0c2VjcmV0\n-----END RSA PRIVATE KEY-----\nafter\n";
        let got = shown(0, log);
        assert!(got.iter().all(|(_, text)| !text.contains("c2Vj")), "{got:?}");
        assert_eq!(got.last().unwrap().1, "after");
    }

    #[test]
    fn a_very_long_line_comes_in_parts() {
        let long = format!("{}\nnext\n", "é".repeat(10_000));
        let got = shown(10, long.as_bytes());
        assert_eq!(got.len(), 4);
        assert_eq!(got.iter().map(|(_, t)| t.len()).sum::<usize>(), 20_004);
        assert!(got.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(got[3], (20_011, "next".into()));
    }

    #[test]
    fn a_long_line_that_is_shown_longer_than_it_is_ends_before_the_next() {
        for long in [vec![0xff; 20_000], vec![b'\t'; 20_000], [&[0xff; 9_000][..], &[b'a'; 9_000]].concat()] {
            let next = long.len() as u64 + 11;
            let got = shown(10, &[&long[..], b"\nnext\n"].concat());
            assert!(got.len() > 3 && got.windows(2).all(|w| w[0].0 < w[1].0), "{:?}", got.iter().map(|(at, _)| at).collect::<Vec<_>>());
            assert_eq!((got[0].0, got.last().unwrap()), (10, &(next, "next".into())));
        }
    }

    #[test]
    fn capitals_count_only_where_there_are_some() {
        assert!(Words::new("error").are_in("an ERROR"));
        assert!(!Words::new("Error").are_in("an ERROR"));
        assert_eq!(Words::new("a").in_text("aba"), [(0, 1), (2, 3)]);
        assert_eq!(Words::new("aa").in_text("aaAaa"), [(0, 2), (2, 4)]);
        assert!(!Words::new("").are_in("anything"));
    }

    #[test]
    fn letters_whose_length_changes_with_their_case_move_nothing() {
        assert_eq!(Words::new("ello").in_text("İẞ hello"), [(7, 11)]);
        assert_eq!(Words::new("i").in_text("İẞ hİi"), [(9, 10)]);
        assert_eq!(Words::new("ß h").in_text("İẞ Hello"), [(2, 7)]);
    }
}
