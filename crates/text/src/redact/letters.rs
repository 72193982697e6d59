//! The bytes of a shell line and of its words, and the names of secrets in them.

use super::names::secret_name;
use std::ops::Range;

/// Longer than any name.
const LONGEST_NAME: usize = 128;

/// One byte of a line, or of a word that is read as a line of its own: `sh -c '…'`.
#[derive(Clone, Copy)]
pub(super) struct Byte {
    pub(super) byte: u8,
    /// Where it stands in the whole text.
    pub(super) at: usize,
    /// Whether it is part of an expansion (`$X`, `${X}`, `$(…)`), whose value is filled in later.
    pub(super) is_reference: bool,
}

/// A byte of a word.
#[derive(Clone, Copy)]
pub(super) struct Letter {
    pub(super) of: Byte,
    pub(super) is_quoted: bool,
    /// Whether it is part of a command whose output is taken: `"$(…)"`. It may assign secrets of its own.
    pub(super) is_command: bool,
    /// Where it stands in the line that the word is from.
    pub(super) index: usize,
}

/// The text of these letters.
pub(super) fn text(letters: &[Letter]) -> String {
    let bytes: Vec<u8> = letters.iter().map(|letter| letter.of.byte).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(is_name_byte)
}

pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name) && secret_name(name)
}

/// Whether the letters before a `=` end in a name that holds a secret: `TOKEN`, `TOKEN+`, `TOKEN[0]`, `--db-token`, `--env=TOKEN`.
pub(super) fn is_secret_before(letters: &[Letter]) -> bool {
    let byte = |at: usize| letters.get(at).map(|letter| letter.of.byte);
    let back = |end: usize| end - letters[..end].iter().rev().take(LONGEST_NAME + 1).take_while(|l| is_name_byte(l.of.byte)).count();
    let is_secret = |range: Range<usize>| is_secret_name(&text(&letters[range]));
    let mut end = letters.len();
    if matches!(byte(end.wrapping_sub(1)), Some(b'+' | b':' | b'?')) {
        end -= 1;
    }
    if byte(end.wrapping_sub(1)) == Some(b']') {
        let inside = letters[..end - 1].iter().rev().take(LONGEST_NAME).take_while(|l| l.of.byte != b'[').count();
        if byte((end - 1 - inside).wrapping_sub(1)) == Some(b'[') {
            if is_secret(end - 1 - inside..end - 1) {
                return true;
            }
            end = end - 1 - inside - 1;
        }
    }
    let start = back(end);
    // The names in the query of an address are left alone, and so are paths.
    let is_address = start > 0 && matches!(byte(start - 1), Some(b'?' | b'&' | b'/'));
    !is_address && is_secret(start..end)
}
