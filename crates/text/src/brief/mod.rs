//! As much of a log as a model should pay for.
//!
//! A model reads the whole of what it is given and pays for each token, so what it is given should be what a person would look at: how it began, what went wrong
//! first, how it ended. [`brief`] keeps those lines, puts markers where something is missing, and never costs more than it may.
//!
//! ```text
//! lines ─ signs (what a line says) ─ alike (runs become one) ─ pick (what to keep) ─ show (lines and markers) ─► Brief
//! ```

mod alike;
mod pick;
mod show;
mod signs;
#[cfg(test)]
mod tests;

use crate::tokens::{LONGEST_STRETCH, count_tokens, is_cheap_to_count};
use pick::Pick;
use show::Shown;
use std::ops::Range;

/// The most that a brief costs unless a caller says otherwise.
pub const DEFAULT_TOKENS: usize = 2_500;
/// What a brief may always cost unless a caller says otherwise: a log that fits is shown whole.
pub const SMALL_TOKENS: usize = 500;

/// A log, or the end of one, as a reader sees it: decoded, stripped and redacted.
#[derive(Debug, Clone, Copy)]
pub struct Log<'a> {
    /// The text.
    pub text: &'a str,
    /// The number of its first line, from 0. The lines before it belong to the log and are not in the text.
    pub first_line: u64,
    /// How many of the lines before the text nobody can read any more.
    pub dropped_lines: u64,
    /// How many bytes those lines had.
    pub dropped_bytes: u64,
    /// Where lines within it are not in the text, in order.
    pub holes: &'a [Hole],
}

/// Lines that are not in a text between others that are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// How many lines of the text come before them.
    pub at: usize,
    /// How many they are.
    pub lines: u64,
}

impl<'a> Log<'a> {
    /// A log that is there from its first line on.
    pub fn whole(text: &'a str) -> Self {
        Self { text, first_line: 0, dropped_lines: 0, dropped_bytes: 0, holes: &[] }
    }

    /// The number of a line of the text.
    fn number(&self, line: usize) -> u64 {
        let missing: u64 = self.holes.iter().take_while(|hole| hole.at <= line).map(|hole| hole.lines).sum();
        self.first_line + line as u64 + missing
    }

    /// The numbers of the lines of the text, and of those in its holes.
    fn numbers(&self, lines: usize) -> Range<u64> {
        self.first_line..lines.checked_sub(1).map_or(self.first_line, |last| self.number(last) + 1)
    }
}

/// A log made short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// Lines of the log in their order, and markers in brackets where lines are missing.
    pub text: String,
    /// What the text costs.
    pub tokens: usize,
    /// Which lines are not in the text, in order.
    pub left_out: Vec<LeftOut>,
    /// The numbers of the lines that are in the text in part only, because they are long.
    pub shortened: Vec<u64>,
}

/// Lines that a brief does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Their numbers.
    pub lines: Range<u64>,
    /// Why they are not there.
    pub why: Why,
}

/// Why lines are not in a brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// They were not in the text to begin with.
    Before,
    /// They say the same as those beside them, but for numbers or names.
    Alike,
    /// There was no room for them.
    Room,
}

/// Makes a log short enough to cost at most `max_tokens`.
///
/// Without a number it is half of what the log costs, but at least [`SMALL_TOKENS`] and at most [`DEFAULT_TOKENS`]. What fits is given back as it is. `read` says how
/// to read a range of lines; the first marker has it, if it is not too long for the room there is.
pub fn brief(log: &Log<'_>, max_tokens: Option<usize>, read: &dyn Fn(Range<u64>) -> String) -> Brief {
    let room = max_tokens.unwrap_or_else(|| default_room(log.text));
    let lines: Vec<&str> = crate::lines(log.text).map(|line| line.text).collect();
    if log.holes.is_empty() && log.text.len() / MOST_BYTES_PER_TOKEN <= room && is_cheap_to_count(log.text) {
        let shown = Shown::everything(log, &lines, read, room);
        let tokens = count_tokens(&shown.text);
        if tokens <= room {
            return shown.finish(tokens);
        }
    }
    let items = alike::items(&lines, log.holes);
    // Long lines are shortened until the end of the log fits, and with it something else.
    let fair = room.saturating_mul(3) / items.len().max(1);
    let mut width = fair.clamp(LINE, LONGEST_LINE);
    while width >= SHORTEST_LINE {
        let mut pick = Pick::new(&lines, &items, width, room, show::cost_of_first_marker(log, lines.len(), read, room));
        pick.fill();
        while !pick.is_empty() {
            let shown = Shown::picked(log, &lines, &items, &pick, read, room);
            let tokens = count_tokens(&shown.text);
            if tokens <= room {
                return shown.finish(tokens);
            }
            pick.give_back(tokens - room);
        }
        width /= 2;
    }
    scrap(log, &lines, room)
}

/// Text with fewer tokens than its length by this is blanks and rulers only. Whether such a text fits is not worth counting.
const MOST_BYTES_PER_TOKEN: usize = 16;
/// The bytes of a line that are shown of every line, if the room is not for few lines only.
const LINE: usize = 320;
/// No line is shown in more bytes than this.
const LONGEST_LINE: usize = LONGEST_STRETCH;
/// Where even this is too much, only the end of the log is shown, as far as it fits.
const SHORTEST_LINE: usize = 40;

fn default_room(text: &str) -> usize {
    if text.len() > 2 * DEFAULT_TOKENS * MOST_BYTES_PER_TOKEN || !is_cheap_to_count(text) {
        return DEFAULT_TOKENS;
    }
    (count_tokens(text) / 2).clamp(SMALL_TOKENS, DEFAULT_TOKENS)
}

/// What is left of a log where there is no room for a line and a marker: the end of its last line that says something.
fn scrap(log: &Log<'_>, lines: &[&str], room: usize) -> Brief {
    let Some(at) = lines.iter().rposition(|line| !line.trim().is_empty()) else {
        return Shown::nothing(log, lines).finish(0);
    };
    let line = lines[at].trim_end();
    // No character costs more than its bytes, so this is enough to choose from.
    let mut text = &line[crate::cut::boundary(line, line.len().saturating_sub(room.saturating_mul(MOST_BYTES_PER_TOKEN)))..];
    let mut tokens = count_tokens(text);
    while tokens > room {
        // A character has four bytes at most, and so four tokens.
        let skip = (tokens - room).div_ceil(4);
        text = text.char_indices().nth(skip).map_or("", |(start, _)| &text[start..]);
        tokens = count_tokens(text);
    }
    Shown::scrap(log, lines, at, text).finish(tokens)
}
