//! The part of a log that is held to be shown: lines around a place, and rows of them on a screen.

use super::lines::{Line, Piece};
use std::collections::VecDeque;
use unicode_width::UnicodeWidthChar as _;

/// More text than this is not held; what is farthest from where it grows is let go.
const MOST: usize = 1 << 20;

/// Lines that touch, from one byte to another.
#[derive(Debug, Default)]
pub(super) struct Window {
    lines: VecDeque<Line>,
    from: u64,
    to: u64,
    /// Nothing came behind it when it was read.
    is_last: bool,
    held: usize,
}

/// A row on the screen: a line by its place, and which of the rows it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Spot {
    pub(super) at: u64,
    pub(super) row: usize,
}

impl Window {
    /// The first byte it has.
    pub(super) fn from(&self) -> u64 {
        self.from
    }

    /// The byte behind its last.
    pub(super) fn to(&self) -> u64 {
        self.to
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Where to go on reading: its last line may have been unfinished.
    pub(super) fn resume(&self) -> u64 {
        self.lines.back().filter(|_| self.is_last).map_or(self.to, |l| l.at)
    }

    /// Holds this instead of what it held.
    pub(super) fn replace(&mut self, piece: Piece) {
        *self = Self { from: piece.from, to: piece.from, ..Self::default() };
        self.put_behind(piece);
    }

    /// Puts a piece behind what it has, in place of what it had from there on.
    pub(super) fn put_behind(&mut self, piece: Piece) {
        let kept = self.lines.partition_point(|l| l.at < piece.from);
        self.held -= self.lines.drain(kept..).map(|l| l.text.len()).sum::<usize>();
        self.held += piece.lines.iter().map(|l| l.text.len()).sum::<usize>();
        self.lines.extend(piece.lines);
        (self.to, self.is_last) = (piece.to, piece.is_last);
        while self.held > MOST
            && self.lines.len() > 1
            && let Some(line) = self.lines.pop_front()
        {
            self.held -= line.text.len();
            self.from = self.lines.front().map_or(self.to, |l| l.at);
        }
    }

    /// Puts a piece before what it has.
    pub(super) fn put_before(&mut self, piece: Piece) {
        for line in piece.lines.into_iter().rev().filter(|l| l.at < self.from) {
            self.held += line.text.len();
            self.lines.push_front(line);
        }
        self.from = self.from.min(piece.from);
        while self.held > MOST
            && self.lines.len() > 1
            && let Some(line) = self.lines.pop_back()
        {
            self.held -= line.text.len();
            (self.to, self.is_last) = (line.at, false);
        }
    }

    /// The rows from a spot on, as many as there are up to `rows`.
    pub(super) fn rows(&self, from: Spot, cols: usize, rows: usize) -> Vec<(&Line, &str)> {
        let first = self.lines.partition_point(|l| l.at < from.at);
        let mut out: Vec<(&Line, &str)> = Vec::new();
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

    /// The spot from which the last `rows` rows are shown.
    pub(super) fn bottom(&self, cols: usize, rows: usize) -> Spot {
        let end = Spot { at: self.lines.back().map_or(0, |l| l.at + 1), row: 0 };
        self.up(end, cols, rows)
    }

    /// The spot `rows` rows above, or the first there is.
    pub(super) fn up(&self, from: Spot, cols: usize, rows: usize) -> Spot {
        let mut left = rows;
        let mut spot = from;
        let first = self.lines.partition_point(|l| l.at < from.at);
        if left <= spot.row {
            return Spot { row: spot.row - left, ..spot };
        }
        left -= spot.row;
        spot.row = 0;
        for line in self.lines.range(..first).rev() {
            let has = wrap(&line.text, cols).len();
            if left <= has {
                return Spot { at: line.at, row: has - left };
            }
            left -= has;
            spot = Spot { at: line.at, row: 0 };
        }
        spot
    }

    /// The spot `rows` rows below, and not below the one from which the last `page` rows are shown.
    pub(super) fn down(&self, from: Spot, cols: usize, rows: usize, page: usize) -> Spot {
        let mut left = rows;
        let mut spot = from;
        let first = self.lines.partition_point(|l| l.at < from.at);
        for line in self.lines.range(first..) {
            let skip = if line.at == from.at { from.row } else { 0 };
            let has = wrap(&line.text, cols).len() - skip.min(wrap(&line.text, cols).len());
            if left < has {
                spot = Spot { at: line.at, row: skip + left };
                break;
            }
            left -= has;
            spot = Spot { at: line.at + 1, row: 0 };
        }
        spot.min(self.bottom(cols, page))
    }

    /// How many rows there are above a spot, counted up to `most`.
    pub(super) fn above(&self, spot: Spot, cols: usize, most: usize) -> usize {
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

/// A line in rows of at most `cols` columns; at least one.
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
            lines.push(Line { at, text: (*text).to_owned(), missing: false });
            at += text.len() as u64 + 1;
        }
        Piece { from, to: at, lines, is_last: true }
    }

    fn texts(window: &Window, from: Spot, cols: usize, rows: usize) -> Vec<String> {
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
        assert_eq!(window.up(up, 5, 100), Spot { at: 0, row: 0 });
        let in_the_middle = window.up(bottom, 5, 0);
        assert_eq!(in_the_middle, bottom);
        assert_eq!(window.down(Spot::default(), 5, 3, 3), bottom.min(Spot { at: 8, row: 1 }));
        assert_eq!(window.down(Spot::default(), 5, 100, 3), bottom);
        assert_eq!(window.above(bottom, 5, 100), 2);
    }

    #[test]
    fn what_is_put_behind_takes_the_place_of_what_was_unfinished() {
        let mut window = Window::default();
        window.replace(piece(0, &["one", "tw"]));
        window.put_behind(piece(4, &["two", "three"]));
        assert_eq!(texts(&window, Spot::default(), 80, 10), ["one", "two", "three"]);
        window.put_before(piece(0, &["one"]));
        assert_eq!(texts(&window, Spot::default(), 80, 10).len(), 3, "nothing comes twice");
        assert_eq!((window.from(), window.to()), (0, 14));
    }

    #[test]
    fn what_is_far_away_is_let_go() {
        let mut window = Window::default();
        let long = "x".repeat(MOST / 4);
        for i in 0..10u64 {
            let at = i * (long.len() as u64 + 1);
            window.put_behind(piece(at, &[&long]));
        }
        assert!(window.held <= MOST && window.from() > 0);
        let (from, to) = (window.from(), window.to());
        window.put_before(piece(from - long.len() as u64 - 1, &[&long]));
        assert!(window.from() < from && window.to() < to && !window.is_last);
    }
}
