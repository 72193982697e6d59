//! The lower end of the terminal: what is not finished, and the prompt. Everything above it is written once and belongs to the terminal.

use super::editor::Editor;
use super::markdown::{Paint, Span, Style, StyledLine};
use super::wrap::{finished_rows, live_rows};
use std::io::{self, Write};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// What stands before the text that is typed.
const PROMPT: &str = "› ";
/// At most this many rows are drawn below what is finished; the rest of a long text is left out at its beginning.
const MAX_LIVE_ROWS: usize = 12;

/// The rows that are drawn now.
#[derive(Debug, Default)]
pub(super) struct LiveArea {
    /// Of each row, how wide it is.
    widths: Vec<usize>,
    /// In which row the cursor stands.
    cursor_row: usize,
}

/// What is to be drawn.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) rows: Vec<StyledLine>,
    /// Row and column.
    pub(super) cursor: (usize, usize),
}

impl Frame {
    /// The rows for a terminal of this width: unfinished lines, a status, and the prompt with what is typed.
    pub(super) fn new(above: &[StyledLine], editor: &Editor, columns: usize) -> Self {
        let room = room(columns);
        let mut rows: Vec<StyledLine> = above.iter().flat_map(|line| live_rows(line, room)).collect();
        let (typed, (row, column)) = prompt(editor, room);
        // Of a long text those rows are left in which the cursor is.
        let first = (row + 1).saturating_sub(MAX_LIVE_ROWS);
        let typed: Vec<_> = typed.into_iter().skip(first).take(MAX_LIVE_ROWS).collect();
        rows.drain(..rows.len().saturating_sub(MAX_LIVE_ROWS));
        let cursor = (rows.len() + row - first, column);
        rows.extend(typed);
        Self { rows, cursor }
    }
}

impl LiveArea {
    /// Writes finished lines, and draws the rest anew below them.
    pub(super) fn draw(
        &mut self,
        out: &mut impl Write,
        finished: &[StyledLine],
        frame: &Frame,
        paint: Paint,
        columns: usize,
    ) -> io::Result<()> {
        // One write, so that the terminal never shows half of it.
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

    /// Removes what is drawn, so that the terminal can be given back.
    pub(super) fn remove(&mut self, out: &mut impl Write, columns: usize) -> io::Result<()> {
        let text = self.erasure(columns);
        *self = Self::default();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// What moves to the first row and clears everything from there on. A terminal that became narrower has broken rows into several.
    fn erasure(&self, columns: usize) -> String {
        let rows_of = |width: &usize| width.saturating_sub(1) / columns.max(1) + 1;
        let up: usize = self.widths.iter().take(self.cursor_row).map(rows_of).sum();
        match up {
            _ if self.widths.is_empty() => String::new(),
            0 => "\r\x1b[J".into(),
            1 => "\r\x1b[J\x1b[1A\x1b[2K".into(),
            // The first row is cleared by itself: tmux keeps a screen that is cleared from its first row on, so each drawing would stay in its history.
            _ => format!("\x1b[{}A\r\x1b[J\x1b[1A\x1b[2K", up - 1),
        }
    }
}

fn width(line: &StyledLine) -> usize {
    line.spans.iter().map(|span| span.text.width()).sum()
}

/// How many columns of a terminal are used: a full last column would begin another row on some terminals.
pub(super) fn room(columns: usize) -> usize {
    columns.saturating_sub(1).max(PROMPT.width() + 2)
}

/// Finished lines as they are written above the rest.
pub(super) fn lines_above(finished: &[StyledLine], paint: Paint, columns: usize) -> String {
    finished.iter().flat_map(|line| finished_rows(line, room(columns))).map(|row| row.paint(paint) + "\r\n").collect()
}

fn push(rows: &mut [StyledLine], style: Style, text: String) {
    if let Some(row) = rows.last_mut().filter(|_| !text.is_empty()) {
        row.spans.push(Span { style, text });
    }
}

/// The prompt with what is typed, and where the cursor is in it.
fn prompt(editor: &Editor, room: usize) -> (Vec<StyledLine>, (usize, usize)) {
    let begin = PROMPT.width();
    let mut rows = vec![StyledLine::of(Style::Person, PROMPT)];
    let (mut used, mut cursor) = (begin, None);
    let mut piece = String::new();
    for (at, c) in editor.text().char_indices() {
        let wide = if c == '\t' { 1 } else { c.width().unwrap_or(1) };
        if c == '\n' || used + wide > room {
            if at == editor.cursor() && c == '\n' {
                cursor = Some((rows.len() - 1, used));
            }
            push(&mut rows, Style::Plain, std::mem::take(&mut piece));
            rows.push(StyledLine::of(Style::Plain, "  "));
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
    push(&mut rows, Style::Plain, piece);
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
        frame.rows.iter().map(|row| row.paint(Paint::Plain)).collect()
    }

    #[test]
    fn a_long_text_takes_several_rows() {
        let frame = Frame::new(&[StyledLine::of(Style::Bold, "abcdefghijkl")], &typed("one two three", &[Key::Left]), 11);
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
        let frame = Frame::new(&[StyledLine::of(Style::Plain, "work")], &typed("hello", &[]), 40);
        let mut out = Vec::new();
        area.draw(&mut out, &[StyledLine::of(Style::Bold, "done")], &frame, Paint::Plain, 40).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "done\r\nwork\r\n› hello\r\x1b[7C");
        let mut out = Vec::new();
        area.draw(&mut out, &[], &Frame::new(&[], &Editor::default(), 40), Paint::Colours, 40).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\r\x1b[J\x1b[1A\x1b[2K\x1b[1;35m› \x1b[0m\r\x1b[2C");
        let mut out = Vec::new();
        area.remove(&mut out, 40).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\r\x1b[J");
    }

    /// In tmux, each drawing of a reply stayed in the history if it began in the first row of the screen.
    #[test]
    fn a_screen_is_never_cleared_from_the_first_of_several_rows_on() {
        let mut area = LiveArea::default();
        let above = ["one", "two", "three"].map(|text| StyledLine::of(Style::Plain, text));
        area.draw(&mut Vec::new(), &[], &Frame::new(&above, &Editor::default(), 40), Paint::Plain, 40).unwrap();
        let mut out = Vec::new();
        area.remove(&mut out, 40).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\x1b[2A\r\x1b[J\x1b[1A\x1b[2K");
    }

    proptest! {
        /// Whatever is typed, no row is wider than the terminal, and the cursor is in one of them.
        #[test]
        fn rows_fit(text in "[a日\n\t]{0,300}", columns in 1_usize..60, left in 0_usize..40) {
            let editor = typed(&text, &vec![Key::Left; left]);
            let frame = Frame::new(&[StyledLine::of(Style::Plain, &text.replace('\n', " "))], &editor, columns);
            let room = columns.max(PROMPT.width() + 3);
            for row in &frame.rows {
                prop_assert!(width(row) <= room, "{row:?}");
            }
            prop_assert!(frame.cursor.0 < frame.rows.len() && frame.cursor.1 <= room);
            prop_assert!(frame.rows.len() <= 2 * MAX_LIVE_ROWS);
        }
    }
}
