//! Secrets in a command line: `TOKEN=… make`, `export TOKEN=…`, `--env=TOKEN=…`, `--token=…`, `--token …`, `${TOKEN:-…}`.
//!
//! A line is read as words, as a shell reads it. A word with quotes is read again without them, as a line of its own, since it may be one (`sh -c '…'`).
//! Where the quotes were read wrong, because the text is no shell, the assignments in them are found all the same.

use super::Redactor;
use super::fields::is_switch_or_path;
use super::letters::{Byte, Letter, is_name, is_secret_before, is_secret_name, text};
use super::mask::{Edits, HIDDEN, is_masked, mask};
use super::names::secret_name;
use super::words::{Part, Word, Words};
use memchr::memchr2;
use std::borrow::Cow;
use std::ops::Range;

/// How many commands inside of commands are read: `ssh host "sh -c 'TOKEN=… make'"`.
const MAX_DEPTH: usize = 5;

/// Masks the values that a command line gives to variables and options with a secret's name. Values that are filled in later, such as `$TOKEN`, are none.
pub(crate) fn mask_assignments(line: &str, edits: &mut Edits) {
    let bytes: Vec<Byte> = line.bytes().enumerate().map(|(at, byte)| Byte { byte, at, is_reference: false }).collect();
    let mut scan = Scan { line, found: Vec::new() };
    scan.scan(&bytes, 0);
    let mut found = scan.found;
    found.sort_by_key(|range| range.start);
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in found {
        match all.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    for range in all {
        let masked = masked(&line[range.clone()]);
        edits.replace(range, masked);
    }
}

/// Masks the arguments of a command that no shell reads.
pub(super) fn mask_arguments<'a>(redactor: &Redactor, arguments: &'a [Cow<'a, str>]) -> Vec<Cow<'a, str>> {
    // What ssh gets is a command line again.
    let is_remote = arguments.first().is_some_and(|program| program.rsplit('/').next() == Some("ssh"));
    let mut before = "";
    arguments
        .iter()
        .map(|argument| {
            let (argument, before) = (argument.as_ref(), std::mem::replace(&mut before, argument.as_ref()));
            if !redactor.is_on() {
                return Cow::Borrowed(argument);
            }
            let is_script = is_remote || (before.starts_with('-') && before.ends_with('c'));
            let from = if is_secret_flag(before) && !argument.starts_with('-') && !is_selector(argument) {
                Some(0)
            } else {
                argument.find('=').filter(|at| !is_script && is_secret_name(&argument[..*at])).map(|at| at + 1)
            };
            match from {
                Some(from) if is_literal(&argument[from..]) => Cow::Owned(format!("{}{}", &argument[..from], masked(&argument[from..]))),
                _ => redactor.command_line(argument),
            }
        })
        .collect()
}

/// Whether an argument holds a value of its own.
fn is_literal(value: &str) -> bool {
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let is_variable = |name: &str| is_name(name) || name.strip_prefix('{').and_then(|n| n.strip_suffix('}')).is_some_and(is_name);
    !value.is_empty() && !is_masked(value) && !is_switch_or_path(value) && !value.strip_prefix('$').is_some_and(is_variable)
}

/// What a value is replaced by. Its ends are shown only if they cannot be read as a part of the line around them.
fn masked(value: &str) -> String {
    match value.chars().all(|c| c.is_alphanumeric() || "_-./+=:,@%^~".contains(c)) {
        true => mask(value),
        false => HIDDEN.to_owned(),
    }
}

struct Scan<'a> {
    line: &'a str,
    /// What has to be masked.
    found: Vec<Range<usize>>,
}

impl Scan<'_> {
    fn scan(&mut self, bytes: &[Byte], depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        // What the word before says about the next: its value, or an assignment with all that is in the word.
        let (mut is_value, mut is_whole) = (false, false);
        for part in Words::new(bytes) {
            let word = match part {
                Part::Word(word) => word,
                Part::Operator => {
                    (is_value, is_whole) = (false, false);
                    continue;
                }
                Part::Comment(range) => {
                    self.scan(&bytes[range], depth + 1);
                    continue;
                }
            };
            let text = text(&word.letters);
            let is_done = (is_value && self.value(bytes, &word, &text, depth))
                || (is_whole && self.whole(bytes, &word))
                || self.assigned(bytes, &word);
            is_value = is_secret_flag(&text);
            is_whole = GIVES.contains(&text.as_str()) || text.split_once('=').is_some_and(|(name, _)| is_name(name));
            if is_done {
                continue;
            }
            for (name, range) in &word.defaults {
                let letters = &word.letters[range.clone()];
                if let (true, true, Some(first), Some(last)) =
                    (secret_name(name), is_secret_value(letters), letters.first(), letters.last())
                {
                    self.note(first.of.at..last.of.at + 1);
                }
            }
            if word.is_decoded {
                let inner: Vec<Byte> = word.letters.iter().map(|letter| letter.of).collect();
                self.scan(&inner, depth + 1);
            }
        }
    }

    /// Masks a word that is the value of the option before it.
    fn value(&mut self, bytes: &[Byte], word: &Word, text: &str, depth: usize) -> bool {
        // In a text, such as the message of a commit, an option is followed by any word.
        let is_prose = depth > 0 && text.bytes().all(|b| b.is_ascii_lowercase());
        if text.starts_with('-') || is_prose || is_selector(text) || !is_secret_value(&word.letters) {
            return false;
        }
        self.mask(bytes, word, word.start, None);
        true
    }

    /// Masks the value of a quoted word that is an assignment as a whole: `env "TOKEN=a b" make`.
    fn whole(&mut self, bytes: &[Byte], word: &Word) -> bool {
        let [(start, inside, end)] = word.quotes.as_slice() else { return false };
        let Some(at) = word.letters.iter().position(|letter| letter.of.byte == b'=') else { return false };
        if (*start, *end) != (word.start, word.end)
            || !is_secret_name(&text(&word.letters[..at]))
            || !is_secret_value(&word.letters[at + 1..])
        {
            return false;
        }
        self.note_in(bytes, word.letters[at].index + 1..inside.end);
        true
    }

    /// Masks what is assigned to the first name of a secret in a word.
    fn assigned(&mut self, bytes: &[Byte], word: &Word) -> bool {
        let is_sign = |letter: &Letter| letter.of.byte == b'=' && !letter.is_quoted;
        for (at, sign) in word.letters.iter().enumerate().filter(|(_, letter)| is_sign(letter)) {
            if !is_secret_before(&word.letters[..at]) {
                continue;
            }
            if !is_secret_value(&word.letters[at + 1..]) {
                // A command whose output is taken may assign something itself.
                return false;
            }
            self.mask(bytes, word, sign.index + 1, Some(sign.of.at));
            return true;
        }
        false
    }

    /// Masks a word from `from` on: the inside of the quotes, if it is quoted as a whole. `sign` is where the `=` before it stands in the text.
    fn mask(&mut self, bytes: &[Byte], word: &Word, from: usize, sign: Option<usize>) {
        let quoted = word.quotes.iter().find(|(start, _, end)| (*start, *end) == (from, word.end));
        let range = quoted.map_or(from..word.end, |(_, inside, _)| inside.clone());
        let (Some(first), Some(last)) = (bytes.get(range.start), bytes.get(range.end.wrapping_sub(1))) else { return };
        let (start, mut end) = (first.at, last.at + 1);
        // A quote that seems to close after the `=` may open there, if a quote before it was none, such as the apostrophe of a text.
        let quote = sign.and_then(|sign| self.line.as_bytes().get(sign + 1)).filter(|byte| matches!(byte, b'\'' | b'"'));
        if let (Some(quote), Some(sign)) = (quote, sign)
            && start == sign + 2
            && quoted.is_none()
            && let Some(next) = memchr2(*quote, b'\n', &self.line.as_bytes()[start..])
            && self.line.as_bytes()[start + next] == *quote
        {
            end = end.max(start + next);
        }
        self.note(start..end);
    }

    /// Notes a range of a line that was read.
    fn note_in(&mut self, bytes: &[Byte], range: Range<usize>) {
        if let (Some(first), Some(last)) = (bytes.get(range.start), bytes.get(range.end.wrapping_sub(1))) {
            self.note(first.at..last.at + 1);
        }
    }

    fn note(&mut self, range: Range<usize>) {
        if range.start < range.end && !is_masked(&self.line[range.clone()]) {
            self.found.push(range);
        }
    }
}

/// Words after which a word with a `=` is an assignment as a whole.
const GIVES: &[&str] = &[
    "env",
    "export",
    "declare",
    "typeset",
    "readonly",
    "local",
    "-e",
    "-x",
    "-D",
    "--env",
    "--build-arg",
    "--set",
    "--set-string",
    "--from-literal",
];

/// Options that say something about a secret, and take none.
const SAYS: &[&str] = &["no", "with", "without", "use", "has", "skip", "show", "hide", "enable", "disable", "require", "print"];

/// Whether the value of the next word is a secret: `--password`.
fn is_secret_flag(text: &str) -> bool {
    let name = text.trim_start_matches('-');
    text.starts_with('-')
        && is_secret_name(text)
        && !SAYS.iter().any(|said| name.strip_prefix(said).is_some_and(|rest| rest.starts_with('-')))
}

/// Whether a value only names a secret, as those of `docker build --secret` do.
fn is_selector(text: &str) -> bool {
    ["id=", "type=", "src=", "source="].iter().any(|start| text.starts_with(start))
}

/// Whether a value is there, and not filled in later.
fn is_secret_value(letters: &[Letter]) -> bool {
    let Some(first) = letters.first() else { return false };
    let is_later = |letter: &Letter| letter.of.is_reference || letter.is_command;
    if !letters.iter().any(is_later) {
        let text = text(letters);
        return !is_switch_or_path(&text) && (first.is_quoted || !is_template(&text));
    }
    let mut rest = letters.iter().filter(|letter| !is_later(letter)).peekable();
    // A file below a directory that is filled in.
    let is_path = is_later(first) && rest.peek().is_some_and(|letter| letter.of.byte == b'/');
    !is_path && rest.any(|letter| letter.of.byte.is_ascii_alphanumeric() || !letter.of.byte.is_ascii())
}

/// Whether text without quotes stands for what is filled in later, in templates and in other languages.
fn is_template(text: &str) -> bool {
    let is_between = |open: char, close: char| text.len() > 1 && text.starts_with(open) && text.ends_with(close);
    is_between('{', '}')
        || is_between('[', ']')
        || is_between('%', '%')
        || ["os.", "process.env", "getenv"].iter().any(|start| text.starts_with(start))
        || text.bytes().all(|b| matches!(b, b'{' | b'}' | b'[' | b']' | b'%'))
}

#[cfg(test)]
mod tests;
