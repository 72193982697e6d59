//! Writes the kept lines and the markers as one text.

use super::pick::{MARKER, Pick};
use super::repeats::LogItem;
use super::{Brief, LeftOut, Log, Why};
use crate::tokens::count_tokens;
use std::ops::Range;

/// A brief whose tokens are not counted yet.
pub(super) struct Shown<'a> {
    pub(super) text: String,
    left_out: Vec<LeftOut>,
    shortened: Vec<u64>,
    hint: Hint<'a>,
}

/// How to read missing lines. Shown once, or never if it would take too much of the room.
type Hint<'a> = Option<&'a dyn Fn(Range<u64>) -> String>;

/// A hint may take up to one part in this many of the room.
const HINT_SHARE: usize = 4;

/// The tokens of the first marker, with its hint.
pub(super) fn cost_of_first_marker(log: &Log<'_>, lines: usize, read: &dyn Fn(Range<u64>) -> String, room: usize) -> usize {
    let before = if log.has_lines_before() { 2 * MARKER } else { 0 };
    let all = log.numbers(lines);
    let hint = count_tokens(&read(all));
    MARKER + before + if hint * HINT_SHARE <= room { hint + 2 } else { 0 }
}

impl<'a> Shown<'a> {
    /// The whole text.
    pub(super) fn everything(log: &Log<'_>, lines: &[&str], read: &'a dyn Fn(Range<u64>) -> String, room: usize) -> Self {
        let mut shown = Self::begin(log, lines, read, room);
        shown.text.push_str(log.text);
        shown
    }

    /// The picked lines.
    pub(super) fn picked(
        log: &Log<'_>,
        lines: &[&str],
        items: &[LogItem],
        pick: &Pick<'_>,
        read: &'a dyn Fn(Range<u64>) -> String,
        room: usize,
    ) -> Self {
        let mut shown = Self::begin(log, lines, read, room);
        let mut gap = Gap::default();
        let mut holes = log.holes.iter().peekable();
        for (at, item) in items.iter().enumerate() {
            let numbers = log.number(item.first)..log.number(item.first) + item.lines as u64;
            if let Some(hole) = holes.next_if(|hole| hole.at == item.first) {
                gap.add(numbers.start - hole.lines..numbers.start, false);
            }
            if !pick.is_kept(at) {
                gap.add(numbers, item.folded);
                continue;
            }
            shown.mark(&gap);
            gap = Gap::default();
            let (head, tail) = pick.shown(item.first);
            shown.text.push_str(head);
            let missing = &lines[item.first][head.len()..lines[item.first].len() - tail.len()];
            if !missing.is_empty() {
                let note = format!("[… {} characters …]", thousands(missing.chars().count() as u64));
                shown.text.push_str(&note);
                shown.shortened.push(log.number(item.first));
            }
            shown.text.push_str(tail);
            shown.text.push('\n');
        }
        shown.mark(&gap);
        if !log.text.ends_with('\n') && shown.text.ends_with('\n') {
            shown.text.pop();
        }
        shown
    }

    /// A piece of a single line.
    pub(super) fn scrap(log: &Log<'_>, lines: &[&str], at: usize, piece: &str) -> Self {
        let mut shown = Self::nothing(log, lines);
        if piece.is_empty() {
            return shown;
        }
        let all = log.numbers(lines.len());
        let line = log.number(at);
        shown.left_out.retain(|left| left.why == Why::Before);
        let sides = [all.start..line, line + 1..all.end].into_iter().filter(|lines| !lines.is_empty());
        shown.left_out.extend(sides.map(|lines| LeftOut { lines, why: Why::Room }));
        if piece != lines[at] {
            shown.shortened.push(line);
        }
        shown.text.push_str(piece);
        shown
    }

    /// No text.
    pub(super) fn nothing(log: &Log<'_>, lines: &[&str]) -> Self {
        let all = log.numbers(lines.len());
        let before = if log.has_lines_before() { log.first_line } else { 0 };
        let parts = [(0..before, Why::Before), (all, Why::Room)];
        let left_out = parts.into_iter().filter(|(lines, _)| !lines.is_empty()).map(|(lines, why)| LeftOut { lines, why }).collect();
        Self { text: String::new(), left_out, shortened: Vec::new(), hint: None }
    }

    pub(super) fn finish(self, tokens: usize) -> Brief {
        Brief { text: self.text, tokens, left_out: self.left_out, shortened: self.shortened }
    }

    fn begin(log: &Log<'_>, lines: &[&str], read: &'a dyn Fn(Range<u64>) -> String, room: usize) -> Self {
        let all = log.numbers(lines.len());
        let affordable = count_tokens(&read(all)) * HINT_SHARE <= room;
        let hint: Hint<'a> = affordable.then_some(read);
        let mut shown = Self { text: String::new(), left_out: Vec::new(), shortened: Vec::new(), hint };
        if log.has_lines_before() {
            let gone = match log.dropped_lines {
                0 => String::new(),
                n => format!(", {} of them ({} bytes) no longer kept", thousands(n), thousands(log.dropped_bytes)),
            };
            shown.note(0..log.first_line, Why::Before, &format!("before this{gone}"));
        }
        shown
    }

    fn mark(&mut self, gap: &Gap) {
        match gap {
            Gap { lines, .. } if lines.is_empty() => {}
            Gap { lines, folded: true } => self.note(lines.clone(), Why::Alike, "like these"),
            Gap { lines, folded: false } => self.note(lines.clone(), Why::Room, "left out"),
        }
    }

    fn note(&mut self, lines: Range<u64>, why: Why, what: &str) {
        let count = lines.end - lines.start;
        let noun = if count == 1 { "line" } else { "lines" };
        let span = if count == 1 { lines.start.to_string() } else { format!("{}–{}", lines.start, lines.end - 1) };
        let how = self.hint.take().map(|read| format!(": {}", read(lines.clone()))).unwrap_or_default();
        self.text.push_str(&format!("[… {} {noun} {what} ({span}){how}]\n", thousands(count)));
        self.left_out.push(LeftOut { lines, why });
    }
}

/// Consecutive lines that are not shown.
#[derive(Default)]
struct Gap {
    lines: Range<u64>,
    /// Whether they are the inner lines of one run.
    folded: bool,
}

impl Gap {
    fn add(&mut self, lines: Range<u64>, folded: bool) {
        *self = match self.lines.is_empty() {
            true => Self { lines, folded },
            false => Self { lines: self.lines.start..lines.end, folded: false },
        };
    }
}

fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
