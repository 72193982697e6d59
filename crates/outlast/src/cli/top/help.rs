//! The help text: keys and what they do.

use crate::cli::table::wrap;
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
    ("/", "filter by id, name, label, command, state, owner, last line"),
    ("a", "show finished processes too, or running ones only"),
    ("s", "show only the session of this process, or all"),
    ("o  O", "sort by the next column; reverse"),
    ("P  M  T", "sort by CPU, memory or run time"),
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

/// Columns for the keys.
const KEY_COLUMNS: usize = 13;
/// The least width of a description.
const MIN_TEXT_COLUMNS: usize = 12;
/// What a frame adds to its text: borders and a column beside each, and borders with the line that names the keys.
pub(super) const FRAME_SIZE: (usize, usize) = (4, 4);

/// The help, wrapped so that it fits a screen of this width.
pub(super) fn help_lines(is_detail: bool, cols: usize) -> Vec<String> {
    let room = cols.saturating_sub(FRAME_SIZE.0).max(MIN_TEXT_COLUMNS);
    let help = if is_detail { DETAIL_HELP } else { LIST_HELP };
    help.iter().flat_map(|(keys, text)| with_keys(keys, text, room)).collect()
}

fn with_keys(keys: &str, text: &str, room: usize) -> Vec<String> {
    if keys.is_empty() {
        return wrap(text, room);
    }
    let column = KEY_COLUMNS.min(room.saturating_sub(MIN_TEXT_COLUMNS));
    let lines = wrap(text, room - column);
    let line = |(i, line): (usize, String)| {
        let keys = if i == 0 { keys } else { "" };
        let gap = " ".repeat(column.saturating_sub(keys.width()).max(1));
        format!("{keys}{gap}{line}")
    };
    lines.into_iter().enumerate().map(line).collect()
}

/// How many lines of help fit on a screen of this height.
pub(super) fn help_height(rows: usize) -> usize {
    rows.saturating_sub(FRAME_SIZE.1)
}
