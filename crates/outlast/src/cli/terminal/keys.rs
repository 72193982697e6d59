//! Parses the bytes of a terminal in raw mode as keys.

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Ctrl(char),
    Enter,
    Tab,
    Backspace,
    Escape,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Delete,
    F9,
    /// One word to the left.
    WordLeft,
    /// One word to the right.
    WordRight,
    /// Enter with Alt: another line in the same text.
    AltEnter,
    /// The start of pasted text.
    PasteBegin,
    /// The end of pasted text.
    PasteEnd,
}

/// Parses bytes as they arrive, and holds back what may be the start of a longer key.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    held: Vec<u8>,
}

/// A longer sequence is dropped.
const MAX_KEY_BYTES: usize = 32;

impl Parser {
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.held.extend_from_slice(bytes);
        let mut keys = Vec::new();
        loop {
            match first(&self.held) {
                Some((used, key)) => {
                    self.held.drain(..used);
                    keys.extend(key);
                }
                None if self.held.len() > MAX_KEY_BYTES => self.held.clear(),
                None => return keys,
            }
        }
    }

    /// Whether bytes are held back.
    pub(crate) fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// The held key, after nothing has followed: a lone escape is the Escape key.
    pub(crate) fn finish(&mut self) -> Option<Key> {
        let held = std::mem::take(&mut self.held);
        (held.first() == Some(&0x1b)).then_some(Key::Escape)
    }
}

/// The first key, if it is known, and the number of its bytes. None if more bytes are needed.
fn first(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    match *bytes.first()? {
        0x1b => escape(bytes),
        b'\r' | b'\n' => Some((1, Some(Key::Enter))),
        b'\t' => Some((1, Some(Key::Tab))),
        0x7f | 0x08 => Some((1, Some(Key::Backspace))),
        byte @ 1..=26 => Some((1, Some(Key::Ctrl(char::from(byte - 1 + b'a'))))),
        byte @ 0x1c..=0x1f => Some((1, Some(Key::Ctrl(char::from(byte + b'@'))))),
        0 => Some((1, None)),
        _ => character(bytes),
    }
}

fn escape(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    match bytes.get(1)? {
        b'[' => {
            let end = bytes[2..].iter().position(|b| (0x40..=0x7e).contains(b))? + 2;
            Some((end + 1, control(&bytes[2..end], bytes[end])))
        }
        b'O' => Some((3, control(b"", *bytes.get(2)?))),
        b'\r' | b'\n' => Some((2, Some(Key::AltEnter))),
        b'b' => Some((2, Some(Key::WordLeft))),
        b'f' => Some((2, Some(Key::WordRight))),
        // The Escape key, followed by another key.
        _ => Some((1, Some(Key::Escape))),
    }
}

fn control(parameters: &[u8], last: u8) -> Option<Key> {
    let mut numbers = parameters.split(|b| *b == b';');
    let number = numbers.next().unwrap_or_default();
    // Held with Alt, Ctrl or both.
    let is_word = matches!(numbers.next(), Some(b"3" | b"5" | b"7"));
    Some(match (last, number) {
        (b'C', _) if is_word => Key::WordRight,
        (b'D', _) if is_word => Key::WordLeft,
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', b"1" | b"7") => Key::Home,
        (b'F', _) | (b'~', b"4" | b"8") => Key::End,
        (b'~', b"5") => Key::PageUp,
        (b'~', b"6") => Key::PageDown,
        (b'~', b"3") => Key::Delete,
        (b'~', b"20") => Key::F9,
        (b'~', b"200") => Key::PasteBegin,
        (b'~', b"201") => Key::PasteEnd,
        (b'M', _) => Key::Enter,
        _ => return None,
    })
}

fn character(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let longest = &bytes[..bytes.len().min(4)];
    let text = match std::str::from_utf8(longest) {
        Ok(text) => text,
        Err(e) if e.valid_up_to() > 0 => std::str::from_utf8(&longest[..e.valid_up_to()]).ok()?,
        // Not the start of a character.
        Err(e) if e.error_len().is_some() => return Some((1, None)),
        Err(_) => return None,
    };
    let c = text.chars().next()?;
    Some((c.len_utf8(), Some(Key::Char(c))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        Parser::default().push(bytes)
    }

    #[test]
    fn keys_are_known_in_each_form_terminals_send() {
        for (bytes, want) in [
            (&b"a"[..], Key::Char('a')),
            ("é".as_bytes(), Key::Char('é')),
            (b"\r", Key::Enter),
            (b"\n", Key::Enter),
            (b"\x7f", Key::Backspace),
            (b"\x04", Key::Ctrl('d')),
            (b"\x1c", Key::Ctrl('\\')),
            (b"\x1b[A", Key::Up),
            (b"\x1bOB", Key::Down),
            (b"\x1b[1;5C", Key::WordRight),
            (b"\x1b[1;2D", Key::Left),
            (b"\x1b[3~", Key::Delete),
            (b"\x1b[20~", Key::F9),
            (b"\x1b\r", Key::AltEnter),
            (b"\x1b[200~", Key::PasteBegin),
            (b"\x1b[201~", Key::PasteEnd),
            (b"\x1b[5~", Key::PageUp),
            (b"\x1b[6~", Key::PageDown),
            (b"\x1b[H", Key::Home),
            (b"\x1bOF", Key::End),
            (b"\x1b[1~", Key::Home),
            (b"\x1b[4~", Key::End),
        ] {
            assert_eq!(keys(bytes), [want], "{bytes:?}");
        }
        assert_eq!(keys(b"\x1b[99~\xff\x00q"), [Key::Char('q')], "what is not known is left out");
    }

    #[test]
    fn a_key_in_pieces_is_one_key() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(b"\x1b["), []);
        assert!(parser.waits());
        assert_eq!(parser.push(b"5"), []);
        assert_eq!(parser.push(b"~\xc3"), [Key::PageUp]);
        assert_eq!(parser.push(b"\xa9"), [Key::Char('é')]);
        assert!(!parser.waits());
    }

    #[test]
    fn an_escape_that_nothing_follows_is_the_key() {
        let mut parser = Parser::default();
        assert_eq!(parser.push(b"\x1b"), []);
        assert_eq!(parser.finish(), Some(Key::Escape));
        assert_eq!(parser.finish(), None);
        assert_eq!(parser.push(b"\x1bq"), [Key::Escape, Key::Char('q')]);
        assert_eq!(parser.push(b"\x1b\x1b"), [Key::Escape]);
        assert_eq!(parser.finish(), Some(Key::Escape));
        assert_eq!(parser.push(format!("\x1b[{}q", "1".repeat(MAX_KEY_BYTES)).as_bytes()), [], "no key is so long");
    }
}
