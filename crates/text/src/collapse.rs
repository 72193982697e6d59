//! Shows redrawn lines as they looked last.

use crate::escape::{ESC, Sequence, StringEnds, control_parts, next_introducer, sequence_at};
use crate::width::columns;
use memchr::{memchr, memchr2, memchr3, memrchr};
use std::borrow::Cow;

const BACKSPACE: u8 = 0x08;

/// Shows each line as a terminal would after its last redraw.
///
/// A carriage return goes back to the first column, and the text after it overwrites the text there; the tail of a longer earlier text
/// stays. Backspace, cursor movement within the line and erasing (`ESC [ K`) count, too, so this has to run before
/// [`strip`](crate::strip()). A `\r\n` is a line end and becomes `\n`.
///
/// Lines that were not redrawn keep their escape sequences. Redrawn ones lose them, with the blanks at their end. Movement between lines is
/// ignored: every `\n` ends a line for good, so that line numbers mean the same before and after. After `ESC [ 2 K` the text continues at
/// the first column, and a cursor cannot move past the existing text.
pub fn collapse(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut out = String::new();
    let mut copied = 0;
    let mut from = 0;
    while let Some(found) = memchr3(b'\r', BACKSPACE, ESC, &bytes[from..]) {
        let found = from + found;
        let start = memrchr(b'\n', &bytes[from..found]).map_or(from, |at| from + at + 1);
        let end = memchr(b'\n', &bytes[found..]).map_or(bytes.len(), |at| found + at);
        let line = text[start..end].trim_end_matches('\r');
        if is_redrawn(line) {
            out.push_str(&text[copied..start]);
            redraw(line, &mut out);
            copied = end;
        } else if start + line.len() < end {
            out.push_str(&text[copied..start + line.len()]);
            copied = end;
        }
        if end == bytes.len() {
            break;
        }
        from = end + 1;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Whether the line moves the cursor back.
fn is_redrawn(line: &str) -> bool {
    let bytes = line.as_bytes();
    if memchr2(b'\r', BACKSPACE, bytes).is_some() {
        return true;
    }
    let mut from = 0;
    while let Some(at) = memchr(ESC, &bytes[from..]) {
        let start = from + at;
        from = start + 1;
        if bytes.get(from) != Some(&b'[') {
            continue;
        }
        let parameters = bytes[from + 1..].iter().take_while(|b| matches!(b, 0x30..=0x3F));
        let end = from + 1 + parameters.count();
        match bytes.get(end) {
            Some(b'G' | b'D' | b'`') => return true,
            Some(b'K') if &bytes[from + 1..end] == b"2" => return true,
            _ => from = end,
        }
    }
    false
}

fn redraw(line: &str, out: &mut String) {
    let mut row = Row::default();
    let mut ends = StringEnds::default();
    let bytes = line.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let next = next_introducer(bytes, at).unwrap_or(bytes.len());
        row.write(line, at, next);
        if next == bytes.len() {
            break;
        }
        at = match sequence_at(bytes, next, &mut ends) {
            Sequence::Whole(end) => {
                if let Some((parameters, last)) = control_parts(bytes, next, end) {
                    row.control(parameters, last);
                }
                end
            }
            Sequence::Broken(end) => end,
            Sequence::Open { introducer_end, .. } => introducer_end,
        };
    }
    row.show(line, out);
}

#[derive(Clone, Copy)]
enum Cell {
    Blank,
    /// A character of the line with the marks upon it, as a range of bytes.
    Text(usize, usize),
    /// The right half of the wide character before it.
    RightHalf,
}

#[derive(Default)]
struct Row {
    cells: Vec<Cell>,
    cursor: usize,
}

impl Row {
    fn write(&mut self, line: &str, from: usize, to: usize) {
        for (offset, character) in line[from..to].char_indices() {
            let start = from + offset;
            let end = start + character.len_utf8();
            match character {
                '\r' => self.cursor = 0,
                '\u{8}' => self.cursor = self.cursor.saturating_sub(1),
                // A tab takes one cell here, so that it can stay a tab.
                '\t' => self.put(Cell::Text(start, end), 1),
                _ => match columns(character) {
                    0 => self.add_mark(start, end),
                    width => self.put(Cell::Text(start, end), width),
                },
            }
        }
    }

    fn put(&mut self, cell: Cell, width: usize) {
        self.split_wide(self.cursor);
        self.split_wide(self.cursor + width);
        for offset in 0..width {
            let cell = if offset == 0 { cell } else { Cell::RightHalf };
            match self.cells.get_mut(self.cursor) {
                Some(old) => *old = cell,
                None => self.cells.push(cell),
            }
            self.cursor += 1;
        }
    }

    /// Leaves two blanks where a wide character would be cut in half before this column.
    fn split_wide(&mut self, column: usize) {
        if let Some(Cell::RightHalf) = self.cells.get(column) {
            self.cells[column - 1] = Cell::Blank;
            self.cells[column] = Cell::Blank;
        }
    }

    /// Joins a combining mark to the character before it. A mark without a character is dropped.
    fn add_mark(&mut self, start: usize, end: usize) {
        let Some(mut column) = self.cursor.checked_sub(1) else {
            return;
        };
        if let Some(Cell::RightHalf) = self.cells.get(column) {
            column -= 1;
        }
        if let Some(Cell::Text(_, text_end)) = self.cells.get_mut(column)
            && *text_end == start
        {
            *text_end = end;
        }
    }

    fn control(&mut self, parameters: &[u8], last: u8) {
        let number = || {
            let digits = str::from_utf8(parameters).unwrap_or_default();
            digits.parse::<usize>().unwrap_or(0)
        };
        match last {
            b'G' | b'`' => self.cursor = number().saturating_sub(1).min(self.cells.len()),
            b'C' => {
                let column = self.cursor.saturating_add(number().max(1));
                self.cursor = column.min(self.cells.len());
            }
            b'D' => self.cursor = self.cursor.saturating_sub(number().max(1)),
            b'K' | b'J' if number() == 0 => {
                self.split_wide(self.cursor);
                self.cells.truncate(self.cursor);
            }
            b'K' if number() == 2 => {
                self.cells.clear();
                self.cursor = 0;
            }
            _ => {}
        }
    }

    fn show(&self, line: &str, out: &mut String) {
        let begin = out.len();
        for cell in &self.cells {
            match *cell {
                Cell::Blank => out.push(' '),
                Cell::Text(start, end) => out.push_str(&line[start..end]),
                Cell::RightHalf => {}
            }
        }
        let shown = out[begin..].trim_end_matches(' ').len();
        out.truncate(begin + shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn case_091_a_progress_bar_is_one_line() {
        let bar: String = (0..=100).map(|n| format!("\r{n:3}% done")).collect();
        assert_eq!(collapse(&format!("start\n{bar}\nend\n")), "start\n100% done\nend\n");
    }

    #[test]
    fn shows_the_last_state_of_a_line() {
        let table = [
            ("abcdef\rXY", "XYcdef"),
            ("abc\r", "abc"),
            ("abc\r\r\nd\r\n", "abc\nd\n"),
            ("long text\r\x1b[Kshort", "short"),
            ("long text\x1b[2K\rshort", "short"),
            ("long\x1b[2Kshort\n", "short\n"),
            ("long text\x1b[1G\x1b[0Kshort", "short"),
            ("working\r       \rok", "ok"),
            ("working\r       \r", ""),
            ("abc\x08\x08X", "aXc"),
            ("\x08\x08a", "a"),
            ("ab\x1b[31mcd\x1b[0m\rX", "Xbcd"),
            ("abcd\x1b[2DX", "abXd"),
            ("ab\r\x1b[9CX", "abX"),
            ("ab\r\x1b]0;a\rb\x07X", "Xb"),
            ("你好\rab", "ab好"),
            ("你好\ra", "a 好"),
            ("abc\r你", "你c"),
            ("e\u{301}x\r", "e\u{301}x"),
            ("e\u{301}x\ra", "ax"),
            ("one\ntwo\rTWO\nthree\r\nfour", "one\nTWO\nthree\nfour"),
        ];
        for (raw, shown) in table {
            assert_eq!(collapse(raw), shown, "{raw:?}");
        }
    }

    #[test]
    fn leaves_other_lines_alone() {
        for text in ["", "\n", "plain\ntext", "\x1b[31mred\x1b[m\x1b[K\nx", "\x1b[3"] {
            assert!(matches!(collapse(text), Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn a_long_redrawn_line_takes_linear_time() {
        let text = format!("{}\r", "x".repeat(100_000)) + &"\x1b[2Ky\x1b[99999999Cz\r".repeat(50_000);
        assert_eq!(collapse(&text), "yz");
    }

    proptest! {
        #[test]
        fn once_is_enough(text in "([a-c你\u{301}]|\r|\n|\x08|\x1b\\[[0-9]{0,2}[mKGCDJ]|\x1b|\\]|\x07){0,40}") {
            let once = collapse(&text).into_owned();
            let newlines = |text: &str| text.matches('\n').count();
            prop_assert_eq!(newlines(&once), newlines(&text));
            prop_assert!(matches!(collapse(&once), Cow::Borrowed(_)));
        }

        #[test]
        fn any_text_is_taken(text in any::<String>()) {
            collapse(&text);
        }
    }
}
