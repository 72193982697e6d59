//! The lower end of the terminal: unfinished lines and the prompt. Everything above is written once and then left to the terminal.

use super::editor::Editor;
use super::markdown::{ChatPaint, Span, StyledLine, TextStyle};
use super::wrap::{finished_rows, live_rows};
use std::io::{self, Write};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The prompt before the typed text.
const PROMPT: &str = "› ";
/// The most rows below the finished lines. Of a longer text, the start is left out.
const MAX_LIVE_ROWS: usize = 12;

/// The rows on the terminal that are drawn again and again.
#[derive(Debug, Default)]
pub(super) struct LiveArea {
    /// The width of each row.
    widths: Vec<usize>,
    /// The row of the cursor.
    cursor_row: usize,
}

/// The rows to draw.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) rows: Vec<StyledLine>,
    /// The row and column of the cursor.
    pub(super) cursor: (usize, usize),
}

impl Frame {
    /// The rows for a terminal of this width: unfinished lines, a status, and the prompt with the typed text.
    pub(super) fn new(above: &[StyledLine], editor: &Editor, columns: usize) -> Self {
        let room = room(columns);
        let mut rows: Vec<StyledLine> = above.iter().flat_map(|line| live_rows(line, room)).collect();
        let (typed, (row, column)) = prompt(editor, room);
        // Of a long text, the rows around the cursor are kept.
        let first = (row + 1).saturating_sub(MAX_LIVE_ROWS);
        let typed: Vec<_> = typed.into_iter().skip(first).take(MAX_LIVE_ROWS).collect();
        rows.drain(..rows.len().saturating_sub(MAX_LIVE_ROWS));
        let cursor = (rows.len() + row - first, column);
        rows.extend(typed);
        Self { rows, cursor }
    }
}

impl LiveArea {
    /// Writes finished lines, and draws the frame below them.
    pub(super) fn draw(
        &mut self,
        out: &mut impl Write,
        finished: &[StyledLine],
        frame: &Frame,
        paint: ChatPaint,
        columns: usize,
    ) -> io::Result<()> {
        // One write, so that the terminal never shows a part of it.
        let mut text = self.erasure(columns);
        text += &lines_above(finished, paint, columns);
        for (n, row) in frame.rows.iter().enumerate() {
            text += if n == 0 { "" } else { "\r\n" };
            text += &row.paint(paint);
        }
        let up = frame.rows.len().saturating_sub(1) - frame.cursor.0;
        if up > 0 {
            text += &format!("\x1b[{up}A");
        }
        text += "\r";
        if frame.cursor.1 > 0 {
            text += &format!("\x1b[{}C", frame.cursor.1);
        }
        self.widths = frame.rows.iter().map(width).collect();
        self.cursor_row = frame.cursor.0;
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// Removes the drawn rows, so that the terminal can be restored.
    pub(super) fn remove(&mut self, out: &mut impl Write, columns: usize) -> io::Result<()> {
        let text = self.erasure(columns);
        *self = Self::default();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// The sequence that moves to the first row and clears everything from there on. A terminal that became narrower has wrapped rows.
    fn erasure(&self, columns: usize) -> String {
        let rows_of = |width: &usize| width.saturating_sub(1) / columns.max(1) + 1;
        let up: usize = self.widths.iter().take(self.cursor_row).map(rows_of).sum();
        match up {
            _ if self.widths.is_empty() => String::new(),
            0 => "\r\x1b[J".into(),
            1 => "\r\x1b[J\x1b[1A\x1b[2K".into(),
            // The first row is cleared by itself: tmux saves a screen that is cleared from its first row on, so each drawing would stay in
            // its history.
            _ => format!("\x1b[{}A\r\x1b[J\x1b[1A\x1b[2K", up - 1),
        }
    }
}

fn width(line: &StyledLine) -> usize {
    line.spans.iter().map(|span| span.text.width()).sum()
}

/// The columns that are used: on some terminals, text in the last column starts another row.
pub(super) fn room(columns: usize) -> usize {
    columns.saturating_sub(1).max(PROMPT.width() + 2)
}

/// Finished lines, as they are written above the frame.
pub(super) fn lines_above(finished: &[StyledLine], paint: ChatPaint, columns: usize) -> String {
    finished.iter().flat_map(|line| finished_rows(line, room(columns))).map(|row| row.paint(paint) + "\r\n").collect()
}

fn push(rows: &mut [StyledLine], style: TextStyle, text: String) {
    if let Some(row) = rows.last_mut().filter(|_| !text.is_empty()) {
        row.spans.push(Span { style, text });
    }
}

/// The prompt with the typed text, and the position of the cursor in it.
fn prompt(editor: &Editor, room: usize) -> (Vec<StyledLine>, (usize, usize)) {
    let begin = PROMPT.width();
    let mut rows = vec![StyledLine::of(TextStyle::Person, PROMPT)];
    let (mut used, mut cursor) = (begin, None);
    let mut piece = String::new();
    for (at, c) in editor.text().char_indices() {
        let wide = if c == '\t' { 1 } else { c.width().unwrap_or(1) };
        if c == '\n' || used + wide > room {
            if at == editor.cursor() && c == '\n' {
                cursor = Some((rows.len() - 1, used));
            }
            push(&mut rows, TextStyle::Plain, std::mem::take(&mut piece));
            rows.push(StyledLine::of(TextStyle::Plain, "  "));
            used = begin;
            if c == '\n' {
                continue;
            }
        }
        if at == editor.cursor() {
            cursor = Some((rows.len() - 1, used));
        }
        piece.push(match c {
            '\t' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        });
        used += wide;
    }
    push(&mut rows, TextStyle::Plain, piece);
    let end = (rows.len() - 1, used);
    (rows, cursor.unwrap_or(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::terminal::Key;
    use proptest::prelude::*;

    fn typed(text: &str, keys: &[Key]) -> Editor {
        let mut editor = Editor::default();
        text.chars().for_each(|c| _ = editor.key(if c == '\n' { Key::AltEnter } else { Key::Char(c) }));
        keys.iter().for_each(|key| _ = editor.key(*key));
        editor
    }

    fn shown(frame: &Frame) -> Vec<String> {
        frame.rows.iter().map(|row| row.paint(ChatPaint::Plain)).collect()
    }

    #[test]
    fn a_long_text_takes_several_rows() {
        let frame = Frame::new(&[StyledLine::of(TextStyle::Bold, "abcdefghijkl")], &typed("one two three", &[Key::Left]), 11);
        assert_eq!(shown(&frame), ["abcdefghij", "kl", "› one two ", "  three"]);
        assert_eq!(frame.cursor, (3, 6));
        let frame = Frame::new(&[], &typed("a\n日本", &[Key::Left]), 40);
        assert_eq!((shown(&frame), frame.cursor), (vec!["› a".to_owned(), "  日本".into()], (1, 4)));
        let frame = Frame::new(&[], &typed("a\nb", &[Key::Up]), 40);
        assert_eq!(frame.cursor, (0, 3));
    }

    #[test]
    fn what_is_drawn_again_begins_where_it_was_drawn() {
        let mut area = LiveArea::default();
        let frame = Frame::new(&[StyledLine::of(TextStyle::Plain, "work")], &typed("hello", &[]), 40);
        let mut out = Vec::new();
        area.draw(&mut out, &[StyledLine::of(TextStyle::Bold, "done")], &frame, ChatPaint::Plain, 40).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "done\r\nwork\r\n› hello\r\x1b[7C");
        let mut out = Vec::new();
        area.draw(&mut out, &[], &Frame::new(&[], &Editor::default(), 40), ChatPaint::Colours, 40).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\r\x1b[J\x1b[1A\x1b[2K\x1b[1;35m› \x1b[0m\r\x1b[2C");
        let mut out = Vec::new();
        area.remove(&mut out, 40).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\r\x1b[J");
    }

    /// In tmux, each drawing of a reply stayed in the history if it began in the first row of the screen.
    #[test]
    fn a_screen_is_never_cleared_from_the_first_of_several_rows_on() {
        let mut area = LiveArea::default();
        let above = ["one", "two", "three"].map(|text| StyledLine::of(TextStyle::Plain, text));
        area.draw(&mut Vec::new(), &[], &Frame::new(&above, &Editor::default(), 40), ChatPaint::Plain, 40).unwrap();
        let mut out = Vec::new();
        area.remove(&mut out, 40).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\x1b[2A\r\x1b[J\x1b[1A\x1b[2K");
    }

    proptest! {
        /// Whatever is typed, no row is wider than the terminal, and the cursor is in one of them.
        #[test]
        fn rows_fit(text in "[a日\n\t]{0,300}", columns in 1_usize..60, left in 0_usize..40) {
            let editor = typed(&text, &vec![Key::Left; left]);
            let frame = Frame::new(&[StyledLine::of(TextStyle::Plain, &text.replace('\n', " "))], &editor, columns);
            let room = columns.max(PROMPT.width() + 3);
            for row in &frame.rows {
                prop_assert!(width(row) <= room, "{row:?}");
            }
            prop_assert!(frame.cursor.0 < frame.rows.len() && frame.cursor.1 <= room);
            prop_assert!(frame.rows.len() <= 2 * MAX_LIVE_ROWS);
        }
    }
}
