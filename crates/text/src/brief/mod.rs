//! Shortens a log to the lines that matter to a model.
//!
//! A model pays for each token, so it should get the lines that a person would look at: how the command began, what failed first, how it
//! ended. [`brief`] keeps those lines, puts markers where lines are missing, and never exceeds the given number of tokens.
//!
//! ```text
//! lines ─ severity (of each line) ─ repeats (runs become one item) ─ pick (what to keep) ─ show (lines and markers) ─► Brief
//! ```

mod pick;
mod repeats;
mod severity;
mod show;
#[cfg(test)]
mod tests;

use crate::tokens::{LONGEST_STRETCH, count_tokens, is_cheap_to_count};
use pick::Pick;
use show::Shown;
use std::ops::Range;

/// The most tokens of a brief, unless the caller gives a number.
pub const DEFAULT_TOKENS: usize = 2_500;
/// A log that fits into this many tokens is shown whole, unless the caller gives a number.
pub const SMALL_TOKENS: usize = 500;

/// A log, or the end of one, as a reader sees it: decoded, stripped and redacted.
#[derive(Debug, Clone, Copy)]
pub struct Log<'a> {
    /// The text.
    pub text: &'a str,
    /// The number of its first line, from 0. The lines before it belong to the log and are not in the text.
    pub first_line: u64,
    /// Whether the reader has the lines before it, so that no marker is needed for them.
    pub continues: bool,
    /// How many of the lines before the text are no longer kept.
    pub dropped_lines: u64,
    /// How many bytes those lines had.
    pub dropped_bytes: u64,
    /// Where lines are missing within the text, in order.
    pub holes: &'a [Hole],
}

/// Lines that are missing between two lines of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// How many lines of the text come before the hole.
    pub at: usize,
    /// How many lines are missing.
    pub lines: u64,
}

impl<'a> Log<'a> {
    /// A log from its first line on.
    pub fn whole(text: &'a str) -> Self {
        Self { text, first_line: 0, continues: false, dropped_lines: 0, dropped_bytes: 0, holes: &[] }
    }

    /// Whether lines before the text are missing.
    fn has_lines_before(&self) -> bool {
        self.first_line > 0 && !self.continues
    }

    /// The number of a line of the text.
    fn number(&self, line: usize) -> u64 {
        let missing: u64 = self.holes.iter().take_while(|hole| hole.at <= line).map(|hole| hole.lines).sum();
        self.first_line + line as u64 + missing
    }

    /// The numbers of the lines of the text, with those in its holes.
    fn numbers(&self, lines: usize) -> Range<u64> {
        self.first_line..lines.checked_sub(1).map_or(self.first_line, |last| self.number(last) + 1)
    }
}

/// A shortened log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    /// Lines of the log in order, and markers in brackets where lines are missing.
    pub text: String,
    /// The tokens of the text.
    pub tokens: usize,
    /// The lines that are not in the text, in order.
    pub left_out: Vec<LeftOut>,
    /// The numbers of long lines of which only a part is in the text.
    pub shortened: Vec<u64>,
}

/// Lines that a brief does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Their numbers.
    pub lines: Range<u64>,
    /// Why they are left out.
    pub why: Why,
}

/// Why lines are not in a brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// They come before the text.
    Before,
    /// They differ from their neighbours only in numbers or names.
    Alike,
    /// They did not fit.
    Room,
}

/// Shortens a log to at most `max_tokens`.
///
/// Without a number the limit is half of the log's tokens, but at least [`SMALL_TOKENS`] and at most [`DEFAULT_TOKENS`]. A log that fits is
/// returned unchanged. `read` says how to read a range of lines; the first marker quotes it, if there is room.
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
    let items = repeats::items(&lines, log.holes);
    // Long lines are shortened until the end of the log fits, with at least one other line.
    let fair = room.saturating_mul(3) / items.len().max(1);
    let mut width = fair.clamp(USUAL_LINE_BYTES, MAX_LINE_BYTES);
    while width >= MIN_LINE_BYTES {
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

/// A token has hardly ever more bytes than this: only blanks and rulers have. So a text with more bytes for its room is not counted.
const MOST_BYTES_PER_TOKEN: usize = 16;
/// The least bytes to begin with for each line, unless the room is very small.
const USUAL_LINE_BYTES: usize = 320;
/// The most bytes of a line that are shown.
const MAX_LINE_BYTES: usize = LONGEST_STRETCH;
/// If lines of this length still do not fit, only the end of the log is shown, as far as it fits.
const MIN_LINE_BYTES: usize = 40;

fn default_room(text: &str) -> usize {
    if text.len() > 2 * DEFAULT_TOKENS * MOST_BYTES_PER_TOKEN || !is_cheap_to_count(text) {
        return DEFAULT_TOKENS;
    }
    (count_tokens(text) / 2).clamp(SMALL_TOKENS, DEFAULT_TOKENS)
}

/// The result if there is no room for a line and a marker: the end of the last line that is not blank.
fn scrap(log: &Log<'_>, lines: &[&str], room: usize) -> Brief {
    let Some(at) = lines.iter().rposition(|line| !line.trim().is_empty()) else {
        return Shown::nothing(log, lines).finish(0);
    };
    let line = lines[at].trim_end();
    // A token has at most about this many bytes, so a longer end cannot fit.
    let mut text = &line[crate::cut::boundary(line, line.len().saturating_sub(room.saturating_mul(MOST_BYTES_PER_TOKEN)))..];
    let mut tokens = count_tokens(text);
    while tokens > room {
        // A character has at most four bytes, and so at most four tokens.
        let skip = (tokens - room).div_ceil(4);
        text = text.char_indices().nth(skip).map_or("", |(start, _)| &text[start..]);
        tokens = count_tokens(text);
    }
    Shown::scrap(log, lines, at, text).finish(tokens)
}
