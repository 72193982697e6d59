//! Chooses the lines to keep.

use super::repeats::LogItem;
use super::severity::Severity;
use crate::tokens::count_tokens;
use std::collections::HashSet;

/// The kept lines, chosen until there is no more room.
pub(super) struct Pick<'a> {
    lines: &'a [&'a str],
    items: &'a [LogItem],
    /// The most bytes of a line that are shown.
    width: usize,
    room: usize,
    /// The estimated tokens of the kept lines and the markers between them.
    spent: usize,
    kept: Vec<bool>,
    /// The kept items, the most important first.
    order: Vec<usize>,
}

/// The approximate tokens of a marker.
pub(super) const MARKER: usize = 18;
/// How many lines before and after the first error are kept: the lines that lead to it and that explain it.
const BEFORE: usize = 2;
const AFTER: usize = 14;
/// The same for later errors.
const LATER_BEFORE: usize = 1;
const LATER_AFTER: usize = 7;

impl<'a> Pick<'a> {
    pub(super) fn new(lines: &'a [&'a str], items: &'a [LogItem], width: usize, room: usize, first_marker: usize) -> Self {
        Self { lines, items, width, room, spent: first_marker, kept: vec![false; items.len()], order: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn is_kept(&self, item: usize) -> bool {
        self.kept[item]
    }

    /// The shown part of a line: all of it, or its beginning and its end.
    pub(super) fn shown(&self, line: usize) -> (&'a str, &'a str) {
        let text = self.lines[line];
        if text.len() <= self.width {
            return (text, "");
        }
        let head = crate::cut::boundary(text, self.width * 2 / 3);
        let tail = crate::cut::boundary(text, text.len() - self.width / 3);
        (&text[..head], &text[tail.max(head)..])
    }

    /// Chooses the lines. The most important come first, so that they are kept even if the room is small.
    pub(super) fn fill(&mut self) {
        let items = self.items;
        let all = items.len();
        let of_severity = |severity: Severity| (0..all).filter(move |&i| items[i].severity == severity);
        let mut errors: Vec<usize> = of_severity(Severity::Error).collect();
        let verdicts: Vec<usize> = of_severity(Severity::Verdict).collect();
        if errors.is_empty() {
            errors = of_severity(Severity::Warning).collect();
        }
        let first = errors.first().copied();
        let last = errors.last().copied();
        let spoken: Vec<usize> = (0..all).rev().filter(|&i| !self.blank(i)).take(TAIL).collect();

        // How the command ended, what failed first, how it began.
        self.keep_all(spoken.iter().copied().take(3), self.room);
        self.keep_all(first, self.room);
        self.keep_all(verdicts.iter().rev().copied().take(2), self.room);
        self.keep_all(spoken.iter().copied().take(6), self.room);
        self.keep_all((0..all).take(2), self.room);
        // The first error with the lines around it, and the last error.
        let most = self.share(60);
        if let Some(at) = first {
            self.keep_block(at, BEFORE, AFTER, most);
        }
        self.keep_all(spoken, most);
        if let Some(at) = last {
            self.keep_block(at, LATER_BEFORE, LATER_AFTER, most);
        }
        // Other errors: first one of each kind, then all, in order.
        let mut seen = HashSet::new();
        let most = self.share(80);
        for &at in errors.iter().filter(|&&at| seen.insert(items[at].shape)) {
            if !self.keep_block(at, LATER_BEFORE, LATER_AFTER, most) {
                break;
            }
        }
        for &at in &errors {
            if !self.keep(at, most) {
                break;
            }
        }
        self.keep_all(verdicts.iter().rev().copied(), most);
        // The rest of the room is for lines at the end and at the beginning.
        let (mut head, mut tail) = (Some(0), all.checked_sub(1));
        while head.is_some() || tail.is_some() {
            for _ in 0..2 {
                tail = tail.filter(|&at| self.keep(at, self.room)).and_then(|at| at.checked_sub(1));
            }
            head = head.filter(|&at| at < all && self.keep(at, self.room)).map(|at| at + 1);
        }
        self.close_gaps();
    }

    /// Drops the lines that were chosen last, until about `tokens` are free.
    pub(super) fn give_back(&mut self, tokens: usize) {
        let mut free = 0;
        while free <= tokens
            && let Some(at) = self.order.pop()
        {
            self.kept[at] = false;
            free += self.cost(at);
        }
    }

    fn share(&self, percent: usize) -> usize {
        self.room.saturating_mul(percent) / 100
    }

    fn blank(&self, item: usize) -> bool {
        self.items[item].folded || self.lines[self.items[item].first].trim().is_empty()
    }

    fn keep_all(&mut self, items: impl IntoIterator<Item = usize>, most: usize) {
        for at in items {
            self.keep(at, most);
        }
    }

    /// Keeps a line with the lines before and after it, up to the next blank line. False if the line itself does not fit.
    fn keep_block(&mut self, at: usize, before: usize, after: usize, most: usize) -> bool {
        if !self.keep(at, most) {
            return false;
        }
        let following = (at + 1..self.items.len()).take(after);
        for (nth, next) in following.enumerate() {
            // The message of an error may begin after a blank line.
            if (self.blank(next) && nth > 1) || !self.keep(next, most) {
                break;
            }
        }
        for next in (0..at).rev().take(before) {
            if self.blank(next) || !self.keep(next, most) {
                break;
            }
        }
        true
    }

    fn keep(&mut self, at: usize, most: usize) -> bool {
        if self.kept[at] || self.items[at].folded {
            return true;
        }
        let spent = (self.spent + self.cost(at) + self.gaps_made(at) * MARKER).saturating_sub(MARKER);
        if spent > most {
            return false;
        }
        self.spent = spent;
        self.kept[at] = true;
        self.order.push(at);
        true
    }

    /// How many gaps are beside an item once it is kept. Before, it was inside one gap.
    fn gaps_made(&self, at: usize) -> usize {
        usize::from(at > 0 && !self.kept[at - 1]) + usize::from(at + 1 < self.kept.len() && !self.kept[at + 1])
    }

    fn cost(&self, at: usize) -> usize {
        let (head, tail) = self.shown(self.items[at].first);
        let cut = if tail.is_empty() { 1 } else { MARKER / 2 };
        count_tokens(head) + count_tokens(tail) + cut
    }

    /// Keeps short gaps that cost no more than the marker in their place.
    fn close_gaps(&mut self) {
        let mut at = 0;
        while at < self.items.len() {
            let gap = (at..self.items.len()).take_while(|&i| !self.kept[i]).take(SMALL_GAP + 1);
            let gap: Vec<usize> = gap.collect();
            let small = !gap.is_empty() && gap.len() <= SMALL_GAP && gap.iter().all(|&i| !self.items[i].folded);
            if small && gap.iter().map(|&i| self.cost(i)).sum::<usize>() <= MARKER {
                self.keep_all(gap.iter().copied(), self.room);
            }
            at += gap.len().max(1);
            at += (at..self.items.len()).take_while(|&i| !self.kept[i]).count();
        }
    }
}

/// How many lines at the end are preferred to most others.
const TAIL: usize = 12;
/// More lines always cost more than a marker.
const SMALL_GAP: usize = 6;
