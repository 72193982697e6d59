//! Lines in the width of a terminal: text is wrapped at words, code is not.

use super::markdown::{Flow, Span, StyledLine, TextStyle};
use unicode_width::UnicodeWidthChar as _;

/// Asks for the emoji form of the character before it, which is two columns wide.
const PICTURE: char = '\u{fe0f}';
/// Joins the characters before and after it.
const JOINER: char = '\u{200d}';

/// The rows of a line that is written once. A line of code is one row, however long it is.
pub(super) fn finished_rows(line: &StyledLine, room: usize) -> Vec<StyledLine> {
    match line.flow {
        Flow::Words { hang } => rows(line, room, hang, is_word_break),
        Flow::Whole => vec![line.clone()],
    }
}

/// The rows of a line that will be drawn again. None is wider than the room, so that their number is known.
pub(super) fn live_rows(line: &StyledLine, room: usize) -> Vec<StyledLine> {
    match line.flow {
        Flow::Words { hang } => rows(line, room, hang, is_word_break),
        Flow::Whole => rows(line, room, 0, |_, _| false),
    }
}

/// A character, its style, and how many columns it takes.
type StyledCell = (char, TextStyle, usize);

fn rows(line: &StyledLine, room: usize, hang: usize, is_break: fn(StyledCell, StyledCell) -> bool) -> Vec<StyledLine> {
    // An indent that leaves no room for words is cut.
    let hang = hang.min(room / 2);
    let cells = cells(line);
    let (mut rows, mut rest) = (Vec::new(), &cells[..]);
    loop {
        let indent = if rows.is_empty() { 0 } else { hang };
        // The mark of an item is not left alone on the first row.
        let mark = if rows.is_empty() { cells_within(rest, hang) } else { 0 };
        let (row, after) = rest.split_at(row_len(rest, room - indent, mark, is_break));
        let is_whole = after.is_empty() && row.iter().map(|(.., width)| width).sum::<usize>() <= room - indent;
        let keep = if is_whole { row.len() } else { row.iter().rposition(|(c, ..)| *c != ' ').map_or(0, |at| at + 1) };
        rows.push(row_of(indent, &row[..keep]));
        rest = &after[after.iter().position(|(c, ..)| *c != ' ').unwrap_or(after.len())..];
        if rest.is_empty() {
            return rows;
        }
    }
}

fn cells(line: &StyledLine) -> Vec<StyledCell> {
    let mut cells: Vec<StyledCell> = Vec::new();
    for span in &line.spans {
        for c in span.text.chars() {
            if c == PICTURE
                && let Some((_, _, width)) = cells.last_mut().filter(|(_, _, width)| *width == 1)
            {
                *width = 2;
            }
            cells.push((c, span.style, c.width().unwrap_or(0)));
        }
    }
    cells
}

/// How many of the first cells fit into this many columns.
fn cells_within(cells: &[StyledCell], columns: usize) -> usize {
    let mut used = 0;
    let fits = |cell: &&StyledCell| {
        used += cell.2;
        used <= columns
    };
    cells.iter().take_while(fits).count()
}

/// How many cells the next row has, at least one. It ends at the last possible break after its mark, else where the room ends.
fn row_len(cells: &[StyledCell], room: usize, mark: usize, is_break: fn(StyledCell, StyledCell) -> bool) -> usize {
    let (mut used, mut last_break) = (0, None);
    // There is no break right after an indent, which would leave an empty row.
    let indent = cells.iter().take_while(|(c, ..)| *c == ' ').count().max(mark);
    for (at, cell) in cells.iter().enumerate() {
        if at > indent && is_break(cells[at - 1], *cell) {
            last_break = Some(at);
        }
        used += cell.2;
        // Spaces at the end of a row are not shown, so they need no room.
        if used > room && cell.0 != ' ' {
            return last_break.unwrap_or(at).max(1);
        }
    }
    cells.len()
}

/// Whether a row may end between two characters: after spaces, and beside a character of a script without spaces.
fn is_word_break((before, _, before_width): StyledCell, (after, _, width): StyledCell) -> bool {
    match (before, after) {
        (_, ' ') | (JOINER, _) => false,
        (' ', _) => true,
        (_, after) => width > 0 && (before_width == 2 || width == 2) && !is_tied(after),
    }
}

/// Whether a character stays with the one before it: closing punctuation, and skin tones of emoji.
fn is_tied(c: char) -> bool {
    matches!(
        c,
        '、' | '。' | '，' | '．' | '！' | '？' | '：' | '；' | '）' | '」' | '』' | '】' | '》' | '〉' | '”' | '’' | '\u{1f3fb}'
            ..='\u{1f3ff}'
    ) || c.is_ascii_punctuation()
}

fn row_of(indent: usize, cells: &[StyledCell]) -> StyledLine {
    let mut row = StyledLine::of(TextStyle::Plain, &" ".repeat(indent));
    for (c, style, _) in cells {
        match row.spans.last_mut().filter(|span| span.style == *style) {
            Some(span) => span.text.push(*c),
            None => row.spans.push(Span { style: *style, text: c.to_string() }),
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::super::markdown::{ChatPaint, Markdown};
    use super::*;
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr as _;

    fn wrapped(text: &str, room: usize) -> Vec<String> {
        let mut markdown = Markdown::default();
        text.lines().flat_map(|line| finished_rows(&markdown.line(line), room)).map(|row| row.paint(ChatPaint::Plain)).collect()
    }

    #[test]
    fn a_reply_is_not_broken_in_the_middle_of_a_word() {
        assert_eq!(wrapped("one two three", 9), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one  **two** three ", 8), ["one  two", "three "]);
        assert_eq!(wrapped("\n", 8), [""]);
        assert_eq!(wrapped("a averyverylongword b", 8), ["a", "averyver", "ylongwor", "d b"], "what is longer than a row is broken");
        assert_eq!(wrapped("see **bold**, then", 9), ["see bold,", "then"], "a comma stays where it is");
    }

    #[test]
    fn later_rows_of_an_item_stand_below_its_words() {
        assert_eq!(wrapped("- one two three", 9), ["• one two", "  three"]);
        assert_eq!(wrapped("  12. one two three", 13), ["  12. one two", "      three"]);
        assert_eq!(wrapped("> one two three", 9), ["│ one two", "  three"]);
        assert_eq!(wrapped("- averyverylongword b", 9), ["• averyve", "  rylongw", "  ord b"], "no mark stands alone");
        assert_eq!(wrapped("12. averylongword", 9), ["12. avery", "    longw", "    ord"]);
    }

    #[test]
    fn scripts_without_spaces_and_pictures_are_measured() {
        assert_eq!(wrapped("日本語です。はい", 10), ["日本語で", "す。はい"], "a full stop begins no row");
        assert_eq!(wrapped("ab 日本 cd", 6), ["ab 日", "本 cd"]);
        assert_eq!(wrapped("☀️☀️☀️ x", 6), ["☀️☀️☀️", "x"]);
        assert_eq!(wrapped("aaa 👍🏽 👨‍👩‍👧", 6), ["aaa", "👍🏽", "👨‍👩‍👧"]);
    }

    #[test]
    fn code_is_left_as_it_is() {
        assert_eq!(wrapped("```\nlet a = one + two;\n```\nlet a = one", 7), ["```", "let a = one + two;", "```", "let a =", "one"]);
        let code = StyledLine { flow: Flow::Whole, ..StyledLine::of(TextStyle::Code, "let  a = b;") };
        let live: Vec<_> = live_rows(&code, 5).iter().map(|row| row.paint(ChatPaint::Plain)).collect();
        assert_eq!(live, ["let", "a = b", ";"], "until it is finished, rows of it are counted");
    }

    proptest! {
        /// No row is too wide, and only spaces are lost.
        #[test]
        fn any_text_fits(text in "[a-c 日。é\u{301}👍\u{1f3fd}-]{0,80}", room in 4_usize..30) {
            let rows = wrapped(&text, room);
            for row in &rows {
                prop_assert!(row.trim_end().width() <= room, "{row:?}");
            }
            let letters = |s: &str| s.chars().filter(|c| *c != ' ' && *c != '•' && *c != '-').collect::<String>();
            prop_assert_eq!(letters(&rows.concat()), letters(&text));
        }
    }
}
