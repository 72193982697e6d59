//! The words of a shell line, without their quotes, and where each of their characters stands in it.

use super::letters::{Byte, Letter, is_secret_before};

/// A part of a line.
pub(super) enum Part {
    Word(Word),
    /// What ends a command: what follows is not an argument of it.
    Operator,
    /// The text of a comment, as a range of the line.
    Comment(std::ops::Range<usize>),
}

/// A word of a line.
#[derive(Default)]
pub(super) struct Word {
    pub(super) letters: Vec<Letter>,
    /// Its range in the line, with quotes.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The quoted pieces: where the piece begins with its quotes, its inside, and where it ends with them.
    pub(super) quotes: Vec<(usize, std::ops::Range<usize>, usize)>,
    /// Whether quotes or escapes were taken out of it.
    pub(super) is_decoded: bool,
    /// What stands in for a variable without a value (`${X:-this}`): the name and the range of letters.
    pub(super) defaults: Vec<(String, std::ops::Range<usize>)>,
}

/// An expansion that is longer than this is not read as one. It bounds how often text is read again where a brace has no end.
const LONGEST_EXPANSION: usize = 1_024;

/// Reads the parts of a line, one after another.
pub(super) struct Words<'a> {
    line: &'a [Byte],
    at: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [Byte]) -> Self {
        Self { line, at: 0 }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.line.get(at).map(|b| b.byte)
    }

    fn word(&mut self) -> Word {
        let mut word = Word { start: self.at, ..Word::default() };
        // Whether a `?` was seen, and a `=` after it: the query of an address, in which `&` ends no command.
        let (mut asked, mut is_query) = (false, false);
        while let Some(byte) = self.byte(self.at) {
            match byte {
                b'\\' => self.escape(&mut word),
                b'\'' => self.single(&mut word, self.at, false),
                b'"' => self.double(&mut word, self.at),
                b'$' => self.dollar(&mut word),
                // An array, which is one value.
                b'(' if is_assigned(&word) => self.array(&mut word),
                b'&' if is_query && self.byte(self.at + 1) != Some(b'&') => self.push(&mut word, false),
                _ if ends_word(byte) => break,
                _ => {
                    asked |= byte == b'?';
                    is_query |= asked && byte == b'=';
                    self.push(&mut word, false);
                }
            }
        }
        word.end = self.at;
        word
    }

    fn push(&mut self, word: &mut Word, is_quoted: bool) {
        if let Some(of) = self.line.get(self.at) {
            word.letters.push(Letter { of: *of, is_quoted, is_command: false, index: self.at });
        }
        self.at += 1;
    }

    fn push_reference(&mut self, word: &mut Word, until: usize) {
        while self.at < until.min(self.line.len()) {
            self.push(word, true);
            if let Some(last) = word.letters.last_mut() {
                last.of.is_reference = true;
            }
        }
    }

    fn escape(&mut self, word: &mut Word) {
        word.is_decoded = true;
        self.at += 1;
        match self.byte(self.at) {
            // A line that continues.
            Some(b'\n') => self.at += 1,
            _ => self.push(word, true),
        }
        self.at = self.at.min(self.line.len());
    }

    /// `'…'`, or `$'…'`, in which a backslash escapes.
    fn single(&mut self, word: &mut Word, start: usize, has_escapes: bool) {
        word.is_decoded = true;
        self.at += 1;
        let inside = self.at;
        while let Some(byte) = self.byte(self.at) {
            match byte {
                b'\'' => break,
                b'\\' if has_escapes => {
                    self.push(word, true);
                    self.push(word, true);
                }
                _ => self.push(word, true),
            }
        }
        self.close(word, start, inside);
    }

    fn double(&mut self, word: &mut Word, start: usize) {
        word.is_decoded = true;
        self.at += 1;
        let inside = self.at;
        // How many commands whose output is taken are open: `"$(…)"`.
        let mut commands = 0_usize;
        while let Some(byte) = self.byte(self.at) {
            let from = word.letters.len();
            match byte {
                b'"' => break,
                b'\\' if matches!(self.byte(self.at + 1), Some(b'$' | b'`' | b'"' | b'\\')) => {
                    self.at += 1;
                    self.push(word, true);
                }
                b'\\' if self.byte(self.at + 1) == Some(b'\n') => self.at += 2,
                b'$' if self.byte(self.at + 1) == Some(b'(') => {
                    commands += 1;
                    self.push(word, true);
                    self.push(word, true);
                }
                b'$' => self.expansion(word),
                b'(' if commands > 0 => {
                    commands += 1;
                    self.push(word, true);
                }
                b')' if commands > 0 => {
                    self.push(word, true);
                    if let Some(last) = word.letters.last_mut() {
                        last.is_command = true;
                    }
                    commands -= 1;
                }
                _ => self.push(word, true),
            }
            if commands > 0 {
                word.letters.iter_mut().skip(from).for_each(|letter| letter.is_command = true);
            }
        }
        self.close(word, start, inside);
    }

    fn close(&mut self, word: &mut Word, start: usize, inside: usize) {
        let end = self.at.min(self.line.len());
        self.at = (end + 1).min(self.line.len());
        word.quotes.push((start, inside.min(end)..end, self.at));
    }

    fn dollar(&mut self, word: &mut Word) {
        let start = self.at;
        match self.byte(self.at + 1) {
            Some(b'\'') => {
                self.at += 1;
                self.single(word, start, true);
            }
            Some(b'"') => {
                self.at += 1;
                self.double(word, start);
            }
            // The bracket ends the word, and what is in it is read as words.
            Some(b'(') => self.push_reference(word, self.at + 1),
            _ => self.expansion(word),
        }
    }

    /// `$X` or `${X}`, from its `$` on.
    fn expansion(&mut self, word: &mut Word) {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let name_from = |from: usize| from + self.line.iter().skip(from).take_while(|b| is_name(b.byte)).count();
        match self.byte(self.at + 1) {
            Some(b'{') => {
                let Some(end) = self.closing_brace(self.at + 2) else { return self.push(word, true) };
                let (from, name) = (self.at + 2, name_from(self.at + 2).min(end));
                let operator = [b":-".as_slice(), b":=", b":+", b"-", b"=", b"+"]
                    .into_iter()
                    .find(|operator| self.line[name..end].iter().map(|b| b.byte).take(operator.len()).eq(operator.iter().copied()));
                let Some(operator) = operator else { return self.push_reference(word, end + 1) };
                self.push_reference(word, name + operator.len());
                let default = word.letters.len();
                while self.at < end {
                    match self.byte(self.at) {
                        Some(b'$') => self.expansion(word),
                        _ => self.push(word, true),
                    }
                }
                let text: String = self.line[from..name].iter().map(|b| char::from(b.byte)).collect();
                // What is put in place of a value that is there is seldom one itself.
                if !operator.ends_with(b"+") {
                    word.defaults.push((text, default..word.letters.len()));
                }
                self.push_reference(word, end + 1);
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => self.push_reference(word, name_from(self.at + 1)),
            Some(byte) if byte.is_ascii_digit() || b"@*#?-$!".contains(&byte) => self.push_reference(word, self.at + 2),
            _ => self.push(word, true),
        }
    }

    /// Where the brace closes that was opened before `from`. Quotes in it are not looked at: `${x#'}`.
    fn closing_brace(&self, from: usize) -> Option<usize> {
        let mut depth = 0_usize;
        let mut at = from;
        while at < from + LONGEST_EXPANSION {
            match self.byte(at)? {
                b'\n' => return None,
                b'\\' => at += 1,
                b'{' if self.byte(at.wrapping_sub(1)) == Some(b'$') => depth += 1,
                b'}' if depth == 0 => return Some(at),
                b'}' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// From the bracket after a `=` to the one that closes it, or to the end.
    fn array(&mut self, word: &mut Word) {
        let start = self.at;
        self.at += 1;
        let inside = self.at;
        let mut quote = None;
        while let Some(byte) = self.byte(self.at) {
            match (quote, byte) {
                (None, b')') => break,
                (None, b'\'' | b'"') => quote = Some(byte),
                (Some(open), _) if open == byte => quote = None,
                (None | Some(b'"'), b'$') => {
                    self.expansion(word);
                    continue;
                }
                _ => {}
            }
            self.push(word, true);
        }
        self.close(word, start, inside);
    }
}

impl Iterator for Words<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        loop {
            match self.byte(self.at)? {
                b' ' | b'\t' => self.at += 1,
                b'\\' if self.byte(self.at + 1) == Some(b'\n') => self.at += 2,
                b'#' => {
                    let from = self.at + 1;
                    self.at = from + self.line.iter().skip(from).take_while(|b| b.byte != b'\n').count();
                    return Some(Part::Comment(from..self.at));
                }
                byte if ends_word(byte) => {
                    self.at += 1;
                    return Some(Part::Operator);
                }
                _ => return Some(Part::Word(self.word())),
            }
        }
    }
}

fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' | b'`')
}

/// Whether a word ends in the `=` of an assignment to a secret's name.
fn is_assigned(word: &Word) -> bool {
    let Some((last, before)) = word.letters.split_last() else { return false };
    last.of.byte == b'=' && !last.is_quoted && is_secret_before(before)
}
