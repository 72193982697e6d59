//! Frames over the screen: the help and questions.

use super::{TopPaint, put};
use crate::cli::out::Tone;
use crate::cli::top::act::{Act, SIGNALS};
use crate::cli::top::app::Overlay;
use crate::cli::top::help::{FRAME_SIZE, help_height, help_lines};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear, Widget as _};
use unicode_width::UnicodeWidthStr as _;

pub(super) fn draw(buffer: &mut Buffer, over: &Overlay, is_detail: bool, paint: TopPaint) {
    let (cols, rows) = (usize::from(buffer.area.width), usize::from(buffer.area.height));
    match over {
        Overlay::Help(from) => {
            let lines = help_lines(is_detail, cols);
            let is_whole = lines.len() <= help_height(rows);
            let last = if is_whole { "any key closes this" } else { "j k scroll   q closes this" };
            frame(buffer, " Keys ", &lines[(*from).min(lines.len())..], last, paint.tone(Tone::Plain), paint);
        }
        Overlay::Confirm(act, ids, lines) => {
            let tone = if *act == Act::Rerun { Tone::Busy } else { Tone::Bad };
            frame(buffer, &format!(" {} ", act.verb()), lines, &act.answers(ids.len()), paint.tone(tone), paint);
        }
        Overlay::Signals(ids, lines, at) => {
            let act = Act::Signal(SIGNALS[*at]);
            let signals = SIGNALS.iter().map(|signal| format!("  {:<5} {}", signal.name, signal.usual));
            // On a low screen the signals are more important than the facts about the process.
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

/// Draws a frame in the middle, as large as its text but not larger than the screen. Returns its area.
fn frame(buffer: &mut Buffer, title: &str, lines: &[String], last: &str, border: Style, paint: TopPaint) -> Rect {
    let area = buffer.area;
    let widest = lines.iter().map(|l| l.width()).chain([last.width(), title.width()]).max().unwrap_or(0);
    let width = u16::try_from(widest + FRAME_SIZE.0).unwrap_or(u16::MAX).min(area.width);
    let room = usize::from(width).saturating_sub(FRAME_SIZE.0);
    let height = u16::try_from(lines.len() + FRAME_SIZE.1).unwrap_or(u16::MAX).min(area.height);
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    Clear.render(place, buffer);
    Block::bordered().title(title).border_style(border).render(place, buffer);
    for (i, line) in lines.iter().take(usize::from(height).saturating_sub(FRAME_SIZE.1)).enumerate() {
        put(buffer, place.x + 2, place.y + 1 + i as u16, room, line, Style::new());
    }
    put(buffer, place.x + 2, place.y + height.saturating_sub(2), room, last, paint.head());
    place
}
