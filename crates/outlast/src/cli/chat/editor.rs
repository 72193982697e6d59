//! The text at the prompt: keys in, text and cursor out.

use super::commands;
use crate::cli::terminal::Key;
use unicode_width::UnicodeWidthChar as _;

/// How many texts the history has.
const MAX_HISTORY: usize = 200;
/// The longest text. Pasted text beyond that is dropped, with a bell.
const MAX_TEXT_BYTES: usize = outlast_client::MAX_WORDS_BYTES;

/// The effect of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edited {
    /// The text or the cursor may have changed.
    Changed,
    /// The text was entered, and the prompt is empty again.
    Entered(String),
    /// The key has no effect.
    Refused,
    /// Several completions are possible.
    Choices(Vec<&'static str>),
}

/// A text of one or more lines with a cursor, and the history.
#[derive(Debug, Default)]
pub(super) struct Editor {
    text: String,
    /// The cursor is before this byte.
    cursor: usize,
    history: Vec<String>,
    /// The index of the shown text in the history, and the text that was typed before.
    recalled: Option<(usize, String)>,
    /// The text that was cut last.
    cut: String,
    is_pasting: bool,
}

impl Editor {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Clears the text and returns to the end of the history.
    pub(super) fn clear(&mut self) {
        self.set(String::new());
        self.recalled = None;
    }

    /// Adds a text to the history.
    pub(super) fn remember(&mut self, text: &str) {
        if text.trim().is_empty() || self.history.last().is_some_and(|last| last == text) {
            return;
        }
        if self.history.len() == MAX_HISTORY {
            self.history.remove(0);
        }
        self.history.push(text.to_owned());
    }

    pub(super) fn key(&mut self, key: Key) -> Edited {
        if self.is_pasting {
            return self.pasted(key);
        }
        match key {
            Key::Char(c) => return self.insert(c),
            Key::AltEnter => return self.insert('\n'),
            Key::Enter if self.text[..self.cursor].ends_with('\\') && self.cursor == self.text.len() => {
                // A line that ends in a backslash continues, as in a shell.
                self.back();
                return self.insert('\n');
            }
            Key::Enter => return self.enter(),
            Key::Tab => return self.complete(),
            Key::PasteBegin => self.is_pasting = true,
            Key::Backspace => self.back(),
            Key::Delete | Key::Ctrl('d') => self.forward_delete(),
            Key::Left | Key::Ctrl('b') => self.cursor = self.before(self.cursor),
            Key::Right | Key::Ctrl('f') => self.cursor = self.after(self.cursor),
            Key::WordLeft => self.cursor = self.word_before(),
            Key::WordRight => self.cursor = self.word_after(),
            Key::Home | Key::Ctrl('a') => self.cursor = self.line_begin(),
            Key::End | Key::Ctrl('e') => self.cursor = self.line_end(),
            Key::Ctrl('u') => self.cut_range(self.line_begin(), self.cursor),
            Key::Ctrl('k') => self.cut_range(self.cursor, self.line_end()),
            Key::Ctrl('w') => self.cut_range(self.word_before(), self.cursor),
            Key::Ctrl('y') => {
                let cut = self.cut.clone();
                self.text.insert_str(self.cursor, &cut);
                self.cursor += cut.len();
            }
            Key::Up | Key::Ctrl('p') => return self.up(),
            Key::Down | Key::Ctrl('n') => return self.down(),
            Key::PasteEnd | Key::Escape | Key::PageUp | Key::PageDown | Key::F9 | Key::Ctrl(_) => return Edited::Refused,
        }
        Edited::Changed
    }

    /// Pasted keys are text, also those that have an effect when they are typed.
    fn pasted(&mut self, key: Key) -> Edited {
        match key {
            Key::PasteEnd => self.is_pasting = false,
            Key::Char(c) => return self.insert(c),
            Key::Enter | Key::AltEnter => return self.insert('\n'),
            Key::Tab => return self.insert('\t'),
            _ => {}
        }
        Edited::Changed
    }

    fn insert(&mut self, c: char) -> Edited {
        if self.text.len() + c.len_utf8() > MAX_TEXT_BYTES {
            return Edited::Refused;
        }
        self.text.insert(self.cursor, c);
        self.cursor += c.len_utf8();
        Edited::Changed
    }

    fn enter(&mut self) -> Edited {
        let text = std::mem::take(&mut self.text);
        self.cursor = 0;
        self.recalled = None;
        self.remember(&text);
        Edited::Entered(text)
    }

    fn complete(&mut self) -> Edited {
        let choices = commands::complete(&self.text);
        match choices[..] {
            [] => Edited::Refused,
            [only] => {
                self.set(only.to_owned());
                Edited::Changed
            }
            [first, ..] => {
                let is_common = |len: &usize| choices.iter().all(|c| c.as_bytes().get(..*len) == first.as_bytes().get(..*len));
                let common = (self.text.len()..=first.len()).take_while(is_common).last().unwrap_or(self.text.len());
                if common > self.text.len() {
                    self.set(first[..common].to_owned());
                    Edited::Changed
                } else {
                    Edited::Choices(choices)
                }
            }
        }
    }

    fn up(&mut self) -> Edited {
        if let Some(cursor) = self.line_above() {
            self.cursor = cursor;
            return Edited::Changed;
        }
        let before = self.recalled.as_ref().map_or(self.history.len(), |(at, _)| *at);
        let Some(at) = before.checked_sub(1) else { return Edited::Refused };
        let typed = self.recalled.take().map_or_else(|| self.text.clone(), |(_, typed)| typed);
        self.set(self.history[at].clone());
        self.recalled = Some((at, typed));
        Edited::Changed
    }

    fn down(&mut self) -> Edited {
        if let Some(cursor) = self.line_below() {
            self.cursor = cursor;
            return Edited::Changed;
        }
        let Some((at, typed)) = self.recalled.take() else { return Edited::Refused };
        match self.history.get(at + 1) {
            Some(next) => {
                self.set(next.clone());
                self.recalled = Some((at + 1, typed));
            }
            None => self.set(typed),
        }
        Edited::Changed
    }

    fn set(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    fn back(&mut self) {
        let from = self.before(self.cursor);
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }

    fn forward_delete(&mut self) {
        let to = self.after(self.cursor);
        self.text.replace_range(self.cursor..to, "");
    }

    fn cut_range(&mut self, from: usize, to: usize) {
        if from < to {
            self.cut = self.text[from..to].to_owned();
            self.text.replace_range(from..to, "");
            self.cursor = from;
        }
    }

    /// The start of the letter before a position, with its combining marks.
    fn before(&self, at: usize) -> usize {
        let mut letters = self.text[..at].char_indices().rev();
        letters.find(|(_, c)| c.width() != Some(0)).map_or(0, |(begin, _)| begin)
    }

    fn after(&self, at: usize) -> usize {
        let mut letters = self.text[at..].char_indices().skip(1);
        letters.find(|(_, c)| c.width() != Some(0)).map_or(self.text.len(), |(end, _)| at + end)
    }

    fn word_before(&self) -> usize {
        let before = self.text[..self.cursor].trim_end_matches(|c: char| !c.is_alphanumeric());
        before.trim_end_matches(char::is_alphanumeric).len()
    }

    fn word_after(&self) -> usize {
        let rest = &self.text[self.cursor..];
        let behind = rest.trim_start_matches(|c: char| !c.is_alphanumeric()).trim_start_matches(char::is_alphanumeric);
        self.text.len() - behind.len()
    }

    fn line_begin(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    /// The same column one line up, counted in letters.
    fn line_above(&self) -> Option<usize> {
        let begin = self.line_begin();
        let above_end = begin.checked_sub(1)?;
        let above = self.text[..above_end].rfind('\n').map_or(0, |at| at + 1);
        Some(above + column(&self.text[above..above_end], self.text[begin..self.cursor].chars().count()))
    }

    fn line_below(&self) -> Option<usize> {
        let end = self.line_end();
        let below = (end < self.text.len()).then_some(end + 1)?;
        let below_end = self.text[below..].find('\n').map_or(self.text.len(), |at| below + at);
        Some(below + column(&self.text[below..below_end], self.text[self.line_begin()..self.cursor].chars().count()))
    }
}

/// The byte at which the given letter of a line starts, or the end of the line.
fn column(line: &str, letters: usize) -> usize {
    line.char_indices().nth(letters).map_or(line.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn typed(editor: &mut Editor, text: &str) {
        text.chars().for_each(|c| _ = editor.key(if c == '\n' { Key::AltEnter } else { Key::Char(c) }));
    }

    /// The text with a bar where the cursor is.
    fn seen(editor: &Editor) -> String {
        format!("{}|{}", &editor.text[..editor.cursor], &editor.text[editor.cursor..])
    }

    fn pressed(text: &str, keys: &[Key]) -> String {
        let mut editor = Editor::default();
        typed(&mut editor, text);
        keys.iter().for_each(|key| _ = editor.key(*key));
        seen(&editor)
    }

    #[test]
    fn keys_do_what_they_do_in_a_shell() {
        assert_eq!(pressed("one two", &[Key::Ctrl('w')]), "one |");
        assert_eq!(pressed("one two", &[Key::Ctrl('a'), Key::Delete]), "|ne two");
        assert_eq!(pressed("one two", &[Key::WordLeft, Key::Ctrl('k')]), "one |");
        assert_eq!(pressed("one two", &[Key::WordLeft, Key::Ctrl('u'), Key::End, Key::Ctrl('y')]), "twoone |");
        assert_eq!(pressed("one two", &[Key::Home, Key::WordRight]), "one| two");
        assert_eq!(pressed("a日b", &[Key::Left, Key::Left, Key::Backspace]), "|日b");
        assert_eq!(pressed("e\u{301}x", &[Key::Left, Key::Backspace]), "|x", "a mark goes with its letter");
        assert_eq!(pressed("ab", &[Key::Home, Key::Left, Key::Backspace]), "|ab");
        assert_eq!(pressed("ab", &[Key::Right, Key::Delete]), "ab|");
    }

    #[test]
    fn a_text_has_as_many_lines_as_it_needs() {
        assert_eq!(pressed("one\ntwo three\nx", &[Key::Up, Key::Up]), "o|ne\ntwo three\nx");
        assert_eq!(pressed("one\ntwo three", &[Key::Up, Key::Down, Key::End]), "one\ntwo three|");
        assert_eq!(pressed("one\ntwo", &[Key::Home, Key::Backspace]), "one|two");
        let mut editor = Editor::default();
        typed(&mut editor, "one\\");
        assert_eq!(editor.key(Key::Enter), Edited::Changed);
        typed(&mut editor, "two");
        assert_eq!(editor.key(Key::Enter), Edited::Entered("one\ntwo".into()));
    }

    #[test]
    fn what_was_said_is_recalled_and_what_was_typed_comes_back() {
        let mut editor = Editor::default();
        editor.remember("first");
        typed(&mut editor, "second");
        assert_eq!(editor.key(Key::Enter), Edited::Entered("second".into()));
        typed(&mut editor, "thi");
        editor.key(Key::Up);
        assert_eq!(seen(&editor), "second|");
        editor.key(Key::Up);
        assert_eq!(seen(&editor), "first|");
        assert_eq!(editor.key(Key::Up), Edited::Refused);
        editor.key(Key::Down);
        editor.key(Key::Down);
        assert_eq!(seen(&editor), "thi|");
        assert_eq!(editor.key(Key::Down), Edited::Refused);
    }

    #[test]
    fn what_is_pasted_is_not_entered() {
        let mut editor = Editor::default();
        editor.key(Key::PasteBegin);
        typed(&mut editor, "/qu");
        assert_eq!(editor.key(Key::Tab), Edited::Changed);
        assert_eq!(editor.key(Key::Enter), Edited::Changed);
        assert_eq!(editor.key(Key::Ctrl('c')), Edited::Changed);
        editor.key(Key::PasteEnd);
        assert_eq!(editor.key(Key::Enter), Edited::Entered("/qu\t\n".into()));
    }

    #[test]
    fn commands_are_completed_as_far_as_they_agree() {
        let mut editor = Editor::default();
        typed(&mut editor, "/r");
        assert_eq!(editor.key(Key::Tab), Edited::Changed);
        assert_eq!(seen(&editor), "/res|");
        assert_eq!(editor.key(Key::Tab), Edited::Choices(vec!["/resume", "/restart"]));
        typed(&mut editor, "u");
        editor.key(Key::Tab);
        assert_eq!(seen(&editor), "/resume|");
        editor.clear();
        typed(&mut editor, "words");
        assert_eq!(editor.key(Key::Tab), Edited::Refused);
    }

    proptest! {
        /// The cursor is always between letters, and nothing panics.
        #[test]
        fn any_keys_leave_a_whole_text(keys in proptest::collection::vec(0_u8..24, 0..200)) {
            let mut editor = Editor::default();
            for key in keys {
                editor.key(match key {
                    0..6 => Key::Char(['a', ' ', '日', '\u{301}', '/', '\\'][usize::from(key)]),
                    6 => Key::Enter,
                    7 => Key::AltEnter,
                    8 => Key::Tab,
                    9 => Key::Backspace,
                    10 => Key::Delete,
                    11 => Key::Left,
                    12 => Key::Right,
                    13 => Key::WordLeft,
                    14 => Key::WordRight,
                    15 => Key::Up,
                    16 => Key::Down,
                    17 => Key::Home,
                    18 => Key::End,
                    19 => Key::Ctrl('k'),
                    20 => Key::Ctrl('u'),
                    21 => Key::Ctrl('y'),
                    22 => Key::PasteBegin,
                    _ => Key::PasteEnd,
                });
                prop_assert!(editor.text().is_char_boundary(editor.cursor()));
            }
        }
    }
}
