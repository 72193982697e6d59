//! The loaded part of a log: lines around a position, and their rows on a screen.

use super::lines::{LogLine, Piece};
use std::collections::VecDeque;
use unicode_width::UnicodeWidthChar as _;

/// The most text that is loaded. The lines farthest from the growing side are dropped.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Consecutive lines, from one byte to another.
#[derive(Debug, Default)]
pub(super) struct Window {
    lines: VecDeque<LogLine>,
    from: u64,
    to: u64,
    /// Nothing followed it when it was read.
    is_last: bool,
    held: usize,
}

/// A row on the screen: the position of its line, and the number of the row within the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct RowPosition {
    pub(super) at: u64,
    pub(super) row: usize,
}

impl Window {
    /// Its first byte.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// The byte after its last.
    pub(super) fn to(&self) -> u64 {
        self.to
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Where to continue reading: its last line may be unfinished.
    pub(super) fn resume(&self) -> u64 {
        self.lines.back().filter(|_| self.is_last).map_or(self.to, |l| l.at)
    }

    /// Replaces its content.
    pub(super) fn replace(&mut self, piece: Piece) {
        *self = Self { from: piece.from, to: piece.from, ..Self::default() };
        self.append(piece);
    }

    /// Appends a piece. It replaces lines from its start on.
    pub(super) fn append(&mut self, piece: Piece) {
        let kept = self.lines.partition_point(|l| l.at < piece.from);
        self.held -= self.lines.drain(kept..).map(|l| l.text.len()).sum::<usize>();
        self.held += piece.lines.iter().map(|l| l.text.len()).sum::<usize>();
        self.lines.extend(piece.lines);
        (self.to, self.is_last) = (piece.to, piece.is_last);
        while self.held > MAX_HELD_BYTES
            && self.lines.len() > 1
            && let Some(line) = self.lines.pop_front()
        {
            self.held -= line.text.len();
            self.from = self.lines.front().map_or(self.to, |l| l.at);
        }
    }

    /// Adds a piece at the start.
    pub(super) fn prepend(&mut self, piece: Piece) {
        for line in piece.lines.into_iter().rev().filter(|l| l.at < self.from) {
            self.held += line.text.len();
            self.lines.push_front(line);
        }
        self.from = self.from.min(piece.from);
        while self.held > MAX_HELD_BYTES
            && self.lines.len() > 1
            && let Some(line) = self.lines.pop_back()
        {
            self.held -= line.text.len();
            (self.to, self.is_last) = (line.at, false);
        }
    }

    /// Up to `rows` rows from a position on.
    pub(super) fn rows(&self, from: RowPosition, cols: usize, rows: usize) -> Vec<(&LogLine, &str)> {
        let first = self.lines.partition_point(|l| l.at < from.at);
        let mut out: Vec<(&LogLine, &str)> = Vec::new();
        for line in self.lines.range(first..) {
            let skip = if line.at == from.at { from.row } else { 0 };
            out.extend(wrap(&line.text, cols).into_iter().skip(skip).map(|text| (line, text)));
            if out.len() >= rows {
                break;
            }
        }
        out.truncate(rows);
        out
    }

    /// The position from which the last `rows` rows are shown.
    pub(super) fn bottom(&self, cols: usize, rows: usize) -> RowPosition {
        let end = RowPosition { at: self.lines.back().map_or(0, |l| l.at + 1), row: 0 };
        self.up(end, cols, rows)
    }

    /// The position `rows` rows above, or the first one.
    pub(super) fn up(&self, from: RowPosition, cols: usize, rows: usize) -> RowPosition {
        let mut left = rows;
        let mut spot = from;
        let first = self.lines.partition_point(|l| l.at < from.at);
        if left <= spot.row {
            return RowPosition { row: spot.row - left, ..spot };
        }
        left -= spot.row;
        spot.row = 0;
        for line in self.lines.range(..first).rev() {
            let has = wrap(&line.text, cols).len();
            if left <= has {
                return RowPosition { at: line.at, row: has - left };
            }
            left -= has;
            spot = RowPosition { at: line.at, row: 0 };
        }
        spot
    }

    /// The position `rows` rows below, but not below the one from which the last `page` rows are shown.
    pub(super) fn down(&self, from: RowPosition, cols: usize, rows: usize, page: usize) -> RowPosition {
        let mut left = rows;
        let mut spot = from;
        let first = self.lines.partition_point(|l| l.at < from.at);
        for line in self.lines.range(first..) {
            let skip = if line.at == from.at { from.row } else { 0 };
            let has = wrap(&line.text, cols).len() - skip.min(wrap(&line.text, cols).len());
            if left < has {
                spot = RowPosition { at: line.at, row: skip + left };
                break;
            }
            left -= has;
            spot = RowPosition { at: line.at + 1, row: 0 };
        }
        spot.min(self.bottom(cols, page))
    }

    /// The number of rows above a position, counted up to `most`.
    pub(super) fn above(&self, spot: RowPosition, cols: usize, most: usize) -> usize {
        let first = self.lines.partition_point(|l| l.at < spot.at);
        let mut rows = spot.row;
        for line in self.lines.range(..first).rev() {
            if rows >= most {
                break;
            }
            rows += wrap(&line.text, cols).len();
        }
        rows
    }
}

/// A line as one or more rows of at most `cols` columns.
pub(super) fn wrap(text: &str, cols: usize) -> Vec<&str> {
    let mut rows = Vec::new();
    let (mut begin, mut used) = (0, 0);
    for (at, c) in text.char_indices() {
        let width = c.width().unwrap_or(0);
        if used + width > cols && at > begin {
            rows.push(&text[begin..at]);
            (begin, used) = (at, 0);
        }
        used += width;
    }
    rows.push(&text[begin..]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from: u64, texts: &[&str]) -> Piece {
        let mut at = from;
        let mut lines = Vec::new();
        for text in texts {
            lines.push(LogLine { at, text: (*text).to_owned(), missing: false });
            at += text.len() as u64 + 1;
        }
        Piece { from, to: at, lines, is_last: true }
    }

    fn texts(window: &Window, from: RowPosition, cols: usize, rows: usize) -> Vec<String> {
        window.rows(from, cols, rows).into_iter().map(|(_, text)| text.to_owned()).collect()
    }

    #[test]
    fn long_lines_take_several_rows() {
        assert_eq!(wrap("abcdef", 4), ["abcd", "ef"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        assert_eq!(wrap("日", 1), ["日"]);
    }

    #[test]
    fn the_last_rows_are_shown_and_what_lies_above_them() {
        let mut window = Window::default();
        window.replace(piece(0, &["one", "two", "three four", "five"]));
        let bottom = window.bottom(5, 3);
        assert_eq!(texts(&window, bottom, 5, 3), ["three", " four", "five"]);
        let up = window.up(bottom, 5, 1);
        assert_eq!(texts(&window, up, 5, 3), ["two", "three", " four"]);
        assert_eq!(window.up(up, 5, 100), RowPosition { at: 0, row: 0 });
        let in_the_middle = window.up(bottom, 5, 0);
        assert_eq!(in_the_middle, bottom);
        assert_eq!(window.down(RowPosition::default(), 5, 3, 3), bottom.min(RowPosition { at: 8, row: 1 }));
        assert_eq!(window.down(RowPosition::default(), 5, 100, 3), bottom);
        assert_eq!(window.above(bottom, 5, 100), 2);
    }

    #[test]
    fn what_is_appended_replaces_an_unfinished_line() {
        let mut window = Window::default();
        window.replace(piece(0, &["one", "tw"]));
        window.append(piece(4, &["two", "three"]));
        assert_eq!(texts(&window, RowPosition::default(), 80, 10), ["one", "two", "three"]);
        window.prepend(piece(0, &["one"]));
        assert_eq!(texts(&window, RowPosition::default(), 80, 10).len(), 3, "nothing comes twice");
        assert_eq!((window.from(), window.to()), (0, 14));
    }

    #[test]
    fn lines_that_are_far_away_are_dropped() {
        let mut window = Window::default();
        let long = "x".repeat(MAX_HELD_BYTES / 4);
        for i in 0..10u64 {
            let at = i * (long.len() as u64 + 1);
            window.append(piece(at, &[&long]));
        }
        assert!(window.held <= MAX_HELD_BYTES && window.from() > 0);
        let (from, to) = (window.from(), window.to());
        window.prepend(piece(from - long.len() as u64 - 1, &[&long]));
        assert!(window.from() < from && window.to() < to && !window.is_last);
    }
}
