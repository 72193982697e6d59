//! What lies over the screen until it is answered.

use super::{Paint, put};
use crate::cli::out::Tone;
use crate::cli::top::app::Over;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear, Widget as _};
use unicode_width::UnicodeWidthStr as _;

const LIST_HELP: [&str; 15] = [
    "↑ ↓ PgUp PgDn    choose a process",
    "Home End         the first, the last",
    "Enter            open it",
    "/                show those with a text in id, name, command or owner",
    "a                finished ones too, or running ones only",
    "s                only the session of the chosen one, or all",
    "o  O             order by the next column, the other way round",
    "P  M  T          order by cpu, by memory, by age",
    "k                stop the chosen process; asks first",
    "Esc              take a filter away, or quit",
    "q  Ctrl-C        quit; processes go on",
    "",
    "CPU% is of one core, for the whole tree of a process.",
    "Looking here tells nobody that an end was seen:",
    "agents still get their notices.",
];

const DETAIL_HELP: [&str; 14] = [
    "↑ ↓ PgUp PgDn    go through the log; the bottom follows it",
    "Home             the beginning of what is kept",
    "End  f           follow the end",
    "/                search, from the top of the screen on, then above",
    "n  N             the next one down, the next one up",
    "i                type: with a terminal every key goes to the process,",
    "                 and Ctrl-\\ comes back here; with a pipe a line at a time",
    "k                stop the process; asks first",
    "Esc              stop a search, or go back",
    "q                go back",
    "Ctrl-C           quit; processes go on",
    "",
    "Looking here tells nobody that an end was seen:",
    "agents still get their notices.",
];

pub(super) fn draw(buffer: &mut Buffer, over: &Over, is_detail: bool, paint: Paint) {
    match over {
        Over::Help => {
            let lines: Vec<String> = if is_detail { DETAIL_HELP.as_slice() } else { &LIST_HELP }.iter().map(|l| (*l).to_owned()).collect();
            frame(buffer, " Keys ", &lines, "any key closes this", paint.tone(Tone::Plain), paint);
        }
        Over::Confirm(_, lines) => {
            frame(buffer, " Stop ", lines, "y stops it and everything it started   n or Esc leaves it", paint.tone(Tone::Bad), paint)
        }
    }
}

/// A frame in the middle, as large as its text and never larger than the screen.
fn frame(buffer: &mut Buffer, title: &str, lines: &[String], last: &str, border: Style, paint: Paint) {
    let area = buffer.area;
    let widest = lines.iter().map(|l| l.width()).chain([last.width(), title.width()]).max().unwrap_or(0);
    let width = u16::try_from(widest + 4).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 4).unwrap_or(u16::MAX).min(area.height);
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    Clear.render(place, buffer);
    Block::bordered().title(title).border_style(border).render(place, buffer);
    let room = usize::from(width).saturating_sub(4);
    for (i, line) in lines.iter().take(usize::from(height).saturating_sub(4)).enumerate() {
        put(buffer, place.x + 2, place.y + 1 + i as u16, room, line, Style::new());
    }
    put(buffer, place.x + 2, place.y + height.saturating_sub(2), room, last, paint.head());
}
