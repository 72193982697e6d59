//! Columns that line up and fit.

use super::out::{Out, Tone, tame};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// One cell.
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// Text from anywhere; what would disturb the terminal is taken out.
    pub(crate) fn new(text: &str) -> Self {
        Self { text: tame(text), tone: Tone::Plain }
    }

    /// The same in a tone.
    pub(crate) fn tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

const GAP: usize = 2;
/// A last column is not cut shorter than this, however narrow the terminal.
const LEAST: usize = 12;

/// The lines of a table. The last column gives way if the terminal is narrow; columns that are empty all the way down are left out.
pub(crate) fn lay_out<const N: usize>(heads: [&str; N], rows: &[[Cell; N]], out: &Out) -> Vec<String> {
    let used: Vec<usize> = (0..N).filter(|c| rows.iter().any(|r| !r[*c].text.is_empty())).collect();
    let widths: Vec<usize> = (0..N).map(|c| rows.iter().map(|r| r[c].text.width()).chain([heads[c].width()]).max().unwrap_or(0)).collect();
    let Some((&last, fixed)) = used.split_last() else { return Vec::new() };
    let before: usize = fixed.iter().map(|c| widths[*c] + GAP).sum();
    let room = out.width.map(|w| w.saturating_sub(before).max(LEAST));
    let line = |cells: &dyn Fn(usize) -> (String, Tone)| {
        let mut line = String::new();
        for &c in fixed {
            let (text, tone) = cells(c);
            line += &out.paint(tone, &text);
            line += &" ".repeat(widths[c] + GAP - text.width());
        }
        let (text, tone) = cells(last);
        line += &out.paint(tone, &room.map_or(text.clone(), |room| cut(&text, room)));
        line.trim_end().to_owned()
    };
    let head = line(&|c| (heads[c].to_owned(), Tone::Quiet));
    let body = rows.iter().map(|r| line(&|c| (r[c].text.clone(), r[c].tone)));
    std::iter::once(head).chain(body).collect()
}

/// The text in at most `room` columns, with a mark where it was cut.
pub(crate) fn cut(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let mut used = 0;
    let mut short = String::new();
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > room - 1 {
            break;
        }
        short.push(c);
    }
    short + "…"
}
