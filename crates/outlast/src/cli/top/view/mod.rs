//! Draws the state in rows and columns.

mod detail;
mod list;
mod over;

use super::app::App;
use crate::cli::out::Tone;
use crate::cli::table::cut;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr as _;

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopPaint {
    Colours,
    Plain,
}

impl TopPaint {
    fn tone(self, tone: Tone) -> Style {
        let style = Style::new();
        match (self, tone) {
            (_, Tone::Plain | Tone::Of(_)) | (Self::Plain, Tone::Good) => style,
            (_, Tone::Quiet) => style.add_modifier(Modifier::DIM),
            (Self::Plain, Tone::Bad | Tone::Busy) => style.add_modifier(Modifier::BOLD),
            (Self::Colours, Tone::Good) => style.fg(Color::Green),
            (Self::Colours, Tone::Bad) => style.fg(Color::Red),
            (Self::Colours, Tone::Busy) => style.fg(Color::Yellow),
        }
    }

    fn head(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn marked(self) -> Style {
        match self {
            Self::Colours => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
            Self::Plain => Style::new().add_modifier(Modifier::BOLD),
        }
    }

    fn found(self) -> Style {
        match self {
            Self::Colours => Style::new().fg(Color::Black).bg(Color::Yellow),
            Self::Plain => Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}

/// Draws the list or the open process, and a frame over it if there is one.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, paint: TopPaint) {
    let area = frame.area();
    if area.width < 20 || area.height < 6 {
        put(frame.buffer_mut(), 0, 0, usize::from(area.width), "too small", Style::new());
        return;
    }
    let cursor = match &app.detail {
        Some(detail) => detail::draw(frame.buffer_mut(), app, detail, paint),
        None => list::draw(frame.buffer_mut(), app, paint),
    };
    if let Some(over) = &app.over {
        over::draw(frame.buffer_mut(), over, app.detail.is_some(), paint);
    } else if let Some(column) = cursor {
        frame.set_cursor_position((column.min(area.width - 1), area.height - 1));
    }
}

/// Writes text in at most `room` columns. Returns how many it took.
fn put(buffer: &mut Buffer, x: u16, y: u16, room: usize, text: &str, style: Style) -> usize {
    let room = room.min(usize::from(buffer.area.width.saturating_sub(x)));
    if room == 0 || y >= buffer.area.height {
        return 0;
    }
    let text = cut(text, room);
    buffer.set_stringn(x, y, &text, room, style);
    text.width()
}

/// Writes text at the right end of a row. Returns how many columns it took.
fn put_right(buffer: &mut Buffer, y: u16, text: &str, style: Style) -> usize {
    let width = text.width().min(usize::from(buffer.area.width));
    put(buffer, buffer.area.width - width as u16, y, width, text, style)
}

/// As many of the first parts as fit beside `last`, which is always shown.
fn fitting(parts: &[&str], last: &[&str], width: usize) -> String {
    const GAP: &str = "  ";
    let joined = |count: usize| parts.iter().take(count).chain(last).copied().collect::<Vec<_>>().join(GAP);
    (0..=parts.len()).rev().map(joined).find(|text| text.width() <= width).unwrap_or_else(|| joined(0))
}

/// The last row: the typed text, else the message, else the keys. Returns the column of the cursor if the user is typing.
fn last_row(buffer: &mut Buffer, app: &App, typed: Option<(&str, &str)>, keys: &str, paint: TopPaint) -> Option<u16> {
    let (y, width) = (buffer.area.height - 1, usize::from(buffer.area.width));
    if let Some((what, text)) = typed {
        let used = put(buffer, 0, y, width, what, paint.head());
        let text = crate::cli::out::tame(text);
        // If the text is too long, its end is shown.
        let room = width.saturating_sub(used + 1);
        let from = text.char_indices().map(|(i, _)| i).find(|i| text[*i..].width() <= room).unwrap_or(text.len());
        let shown = put(buffer, used as u16, y, room, &text[from..], Style::new());
        return Some((used + shown) as u16);
    }
    match &app.message {
        Some((text, tone)) => put(buffer, 0, y, width, &crate::cli::out::tame(text), paint.tone(*tone)),
        None => put(buffer, 0, y, width, keys, paint.tone(Tone::Quiet)),
    };
    None
}

/// Why the engine cannot be reached, in a few words.
fn trouble(app: &App) -> Option<String> {
    app.trouble.as_ref().map(|why| format!("reconnecting: {}", crate::cli::out::tame(why)))
}
