//! What lies over the screen until it is answered.

use super::{Paint, put};
use crate::cli::out::Tone;
use crate::cli::table::wrap;
use crate::cli::top::act::{Act, SIGNALS};
use crate::cli::top::app::Over;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear, Widget as _};
use unicode_width::UnicodeWidthStr as _;

/// Keys and what they do. A line without a key goes over the whole width.
type Help = [(&'static str, &'static str)];

const LIST_HELP: &Help = &[
    ("↑ ↓ j k", "move; PgUp PgDn by a screen; Home g, End G: first, last"),
    ("Enter", "open the process: its log, its facts"),
    ("i", "type into the process; Ctrl-\\ comes back"),
    ("Space  U", "mark or unmark it and go to the next; unmark all"),
    ("Ctrl-K", "stop it, or those marked, with all they started; asks"),
    ("S  F9", "send a signal to it, or to those marked; asks which"),
    ("Ctrl-D  Del", "remove it, or those marked that have finished; asks"),
    ("r", "run its command again; asks"),
    ("c", "copy its id, or those of all marked (OSC 52)"),
    ("/", "filter by id, name, command, state, owner, last line"),
    ("a", "show finished processes too, or running ones only"),
    ("s", "show only the session of this process, or all"),
    ("o  O", "sort by the next column; reverse"),
    ("P  M  T", "sort by CPU, by memory, by age"),
    ("Esc", "remove filter, session or marks; then quit"),
    ("q  Ctrl-C", "quit; processes keep running"),
    ("", ""),
    ("", "CPU% is of one core, for the whole tree of a process."),
    ("", "Viewing does not mark an end as seen; notices still come."),
];

const DETAIL_HELP: &Help = &[
    ("↑ ↓ j k", "scroll; PgUp, PgDn and Space by a screen"),
    ("Home g", "the beginning of what is kept of the log"),
    ("End G f", "follow the end"),
    ("/", "search from the top of the screen on, then above"),
    ("n  N", "the next match down, the next one up"),
    ("i", "type into it: on a terminal it gets every key, and Ctrl-\\ comes back; on a pipe it gets a line at a time"),
    ("Ctrl-K", "stop it with all it started; asks"),
    ("S  F9", "send it a signal; asks which"),
    ("Ctrl-D  Del", "remove it, if it has finished; asks"),
    ("r", "run its command again; asks"),
    ("c", "copy its id (OSC 52)"),
    ("Esc", "end a search, or go back"),
    ("q", "go back"),
    ("Ctrl-C", "quit; processes keep running"),
    ("", ""),
    ("", "Viewing does not mark an end as seen; notices still come."),
];

/// Columns for the keys in the help.
const KEYS: usize = 13;
/// The descriptions are not made narrower than this.
const NARROWEST: usize = 12;
/// What a frame adds to its text: borders and a column beside each, and borders with the line that names the keys.
const FRAME: (usize, usize) = (4, 4);

/// The help, wrapped so that it fits a screen of this width.
pub(in crate::cli::top) fn help_lines(is_detail: bool, cols: usize) -> Vec<String> {
    let room = cols.saturating_sub(FRAME.0).max(NARROWEST);
    let help = if is_detail { DETAIL_HELP } else { LIST_HELP };
    help.iter().flat_map(|(keys, text)| with_keys(keys, text, room)).collect()
}

fn with_keys(keys: &str, text: &str, room: usize) -> Vec<String> {
    if keys.is_empty() {
        return wrap(text, room);
    }
    let column = KEYS.min(room.saturating_sub(NARROWEST));
    let lines = wrap(text, room - column);
    let line = |(i, line): (usize, String)| {
        let keys = if i == 0 { keys } else { "" };
        let gap = " ".repeat(column.saturating_sub(keys.width()).max(1));
        format!("{keys}{gap}{line}")
    };
    lines.into_iter().enumerate().map(line).collect()
}

/// How many lines of help fit on a screen of this height.
pub(in crate::cli::top) fn help_height(rows: usize) -> usize {
    rows.saturating_sub(FRAME.1)
}

pub(super) fn draw(buffer: &mut Buffer, over: &Over, is_detail: bool, paint: Paint) {
    let (cols, rows) = (usize::from(buffer.area.width), usize::from(buffer.area.height));
    match over {
        Over::Help(from) => {
            let lines = help_lines(is_detail, cols);
            let is_whole = lines.len() <= help_height(rows);
            let last = if is_whole { "any key closes this" } else { "j k scroll   q closes this" };
            frame(buffer, " Keys ", &lines[(*from).min(lines.len())..], last, paint.tone(Tone::Plain), paint);
        }
        Over::Confirm(act, ids, lines) => {
            let tone = if *act == Act::Rerun { Tone::Busy } else { Tone::Bad };
            frame(buffer, &format!(" {} ", act.verb()), lines, &act.answers(ids.len()), paint.tone(tone), paint);
        }
        Over::Signals(ids, lines, at) => {
            let act = Act::Signal(SIGNALS[*at]);
            let signals = SIGNALS.iter().map(|signal| format!("  {:<5} {}", signal.name, signal.usual));
            // On a low screen the signals matter more than what is known of the process.
            let known = lines.len().min(help_height(rows).saturating_sub(SIGNALS.len()).max(1));
            let all: Vec<String> = lines.iter().take(known).cloned().chain(signals).collect();
            let skipped = (known + at + 1).saturating_sub(help_height(rows));
            let place =
                frame(buffer, &format!(" {} ", act.verb()), &all[skipped..], &act.answers(ids.len()), paint.tone(Tone::Busy), paint);
            let chosen = Rect::new(place.x + 1, place.y + 1 + (known + at - skipped) as u16, place.width.saturating_sub(2), 1);
            buffer.set_style(chosen.intersection(buffer.area), paint.chosen());
        }
    }
}

/// A frame in the middle, as large as its text and never larger than the screen. Where it is.
fn frame(buffer: &mut Buffer, title: &str, lines: &[String], last: &str, border: Style, paint: Paint) -> Rect {
    let area = buffer.area;
    let widest = lines.iter().map(|l| l.width()).chain([last.width(), title.width()]).max().unwrap_or(0);
    let width = u16::try_from(widest + FRAME.0).unwrap_or(u16::MAX).min(area.width);
    let room = usize::from(width).saturating_sub(FRAME.0);
    let height = u16::try_from(lines.len() + FRAME.1).unwrap_or(u16::MAX).min(area.height);
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    Clear.render(place, buffer);
    Block::bordered().title(title).border_style(border).render(place, buffer);
    for (i, line) in lines.iter().take(usize::from(height).saturating_sub(FRAME.1)).enumerate() {
        put(buffer, place.x + 2, place.y + 1 + i as u16, room, line, Style::new());
    }
    put(buffer, place.x + 2, place.y + height.saturating_sub(2), room, last, paint.head());
    place
}
