//! Secrets that are known by the name they go under.

use super::mask::{Edits, is_masked, is_reference, mask};
use super::names::secret_name;
use memchr::memchr2;
use std::ops::Range;

/// Masks values with a secret's name: `KEY=value`, dotted keys, JSON and YAML fields.
pub(crate) fn mask_fields(text: &str, edits: &mut Edits) {
    let mut start = 0;
    // The environment of a process, as the kernel shows it, has NUL where others have line ends.
    while start < text.len() {
        let end = memchr2(b'\n', 0, &text.as_bytes()[start..]).map_or(text.len(), |at| start + at);
        mask_line(text, start..end, edits);
        start = end + 1;
    }
}

/// Longer than any name.
const LONGEST_NAME: usize = 128;

fn mask_line(text: &str, line: Range<usize>, edits: &mut Edits) {
    let bytes = text.as_bytes();
    let mut from = line.start;
    while let Some(at) = memchr2(b'=', b':', &bytes[from..line.end]) {
        let separator = from + at;
        from = separator + 1;
        let Some(name) = Name::before(text, line.start, separator) else {
            continue;
        };
        if !secret_name(name.text) {
            continue;
        }
        let Some(value) = name.value(text, separator, line.end) else {
            continue;
        };
        let secret = &text[value.clone()];
        // What is skipped is skipped whole, so that no value is looked at twice.
        from = value.end.max(from);
        if !secret.is_empty() && !is_masked(secret) && !is_plain(secret) {
            edits.replace(value, mask_value(secret));
        }
    }
}

/// What stands before a `=` or `:`.
struct Name<'a> {
    text: &'a str,
    quoted: bool,
    /// Whether the line begins with it, but for what declares it.
    first: bool,
}

impl<'a> Name<'a> {
    fn before(text: &'a str, line_start: usize, separator: usize) -> Option<Self> {
        let bytes = text.as_bytes();
        let lowest = line_start.max(separator.saturating_sub(LONGEST_NAME));
        let mut end = separator;
        let back = |end: usize, wanted: fn(&u8) -> bool| {
            let run = bytes[lowest..end].iter().rev().take_while(|byte| wanted(byte));
            end - run.count()
        };
        end = back(end, |b| matches!(b, b' ' | b'\t'));
        let quoted = end > lowest && matches!(bytes[end - 1], b'"' | b'\'');
        if quoted {
            end -= 1;
            // JSON inside a JSON string has its quotes escaped.
            end = back(end, |b| *b == b'\\');
        }
        let start = back(end, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
        if start == end {
            return None;
        }
        let farthest = floor(text, start);
        let before = &text[line_start.max(farthest)..start];
        // The names in the query of an address are left alone.
        if before.ends_with(['?', '&']) {
            return None;
        }
        Some(Self { text: &text[start..end], quoted, first: farthest <= line_start && is_declaration(before) })
    }

    /// Where its value is, if what follows the separator has the form of one.
    fn value(&self, text: &str, separator: usize, line_end: usize) -> Option<Range<usize>> {
        let bytes = text.as_bytes();
        let is_colon = bytes[separator] == b':';
        let mut at = separator + 1;
        if !is_colon && bytes.get(at) == Some(&b'>') {
            at += 1;
        }
        let next = bytes.get(at).copied();
        if matches!(next, Some(b'=' | b':')) {
            return None;
        }
        // `name:value` is an address or a time more often than a field.
        let is_yaml = is_colon && self.first && !self.quoted && matches!(next, Some(b' ' | b'\t'));
        at += text[at..line_end].len() - text[at..line_end].trim_start().len();
        if bytes.get(at) == Some(&b'$') && matches!(bytes.get(at + 1), Some(b'\'' | b'"')) {
            at += 1;
        }
        let rest = &text[at..line_end];
        if let Some(value) = quoted_value(rest) {
            return Some(at + value.start..at + value.end);
        }
        if is_colon && !is_yaml {
            return None;
        }
        let length = if is_yaml {
            rest.split(" #").next().unwrap_or(rest).trim_end().len()
        } else if self.first {
            rest.trim_end().len()
        } else {
            let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '&' | ')');
            rest.find(ends).unwrap_or(rest.len())
        };
        Some(at..at + length)
    }
}

/// How far back to look from here, at the start of a character.
fn floor(text: &str, from: usize) -> usize {
    let mut at = from.saturating_sub(LONGEST_NAME);
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

/// Whether only what declares a name stands before it.
fn is_declaration(before: &str) -> bool {
    let words = before.split_whitespace();
    let declares = |word: &str| {
        matches!(word, "export" | "declare" | "typeset" | "readonly" | "local" | "set" | "-") || (word.len() <= 4 && word.starts_with('-'))
    };
    words.into_iter().all(declares)
}

/// The inside of a quoted value, up to its closing quote or the end.
fn quoted_value(rest: &str) -> Option<Range<usize>> {
    let bytes = rest.as_bytes();
    let escaped = bytes.first() == Some(&b'\\');
    let start = if escaped { 2 } else { 1 };
    let quote = *bytes.get(start - 1).filter(|b| matches!(b, b'"' | b'\''))?;
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if escaped && bytes.get(at + 1) == Some(&quote) => return Some(start..at),
            b'\\' if quote == b'"' && !escaped => at += 2,
            byte if byte == quote && !escaped => return Some(start..at),
            _ => at += 1,
        }
    }
    Some(start..rest.len())
}

/// Whether a value says nothing: a switch, a reference, a path.
fn is_plain(value: &str) -> bool {
    is_switch_or_path(value) || is_reference(value) || value.starts_with(['|', '>', '&'])
}

pub(super) fn is_switch_or_path(value: &str) -> bool {
    const SWITCHES: &[&str] = &["true", "false", "yes", "no", "on", "off", "null", "none", "nil", "0", "1", "undefined"];
    const ROOTS: &[&str] = &["/home/", "/usr/", "/tmp/", "/var/", "/etc/", "/run/", "/opt/", "/root/", "/mnt/", "/dev/", "~/", "./", "../"];
    SWITCHES.iter().any(|switch| switch.eq_ignore_ascii_case(value)) || ROOTS.iter().any(|root| value.starts_with(root))
}

fn mask_value(value: &str) -> String {
    // Both ends of a value with escapes could be half of one.
    match value.contains('\\') {
        true => super::mask::HIDDEN.to_owned(),
        false => mask(value),
    }
}
