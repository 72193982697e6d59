//! Finds the detach key in typed bytes.

use crate::config::DetachKey;

/// Looks for the keys that detach, and holds back bytes that may be their start.
#[derive(Debug)]
pub(crate) struct Leaving {
    keys: Vec<u8>,
    /// How many of them were typed.
    typed: usize,
    /// The encodings of the key that terminals use after such a request.
    other: Vec<Vec<u8>>,
}

impl Leaving {
    pub(crate) fn new(key: &DetachKey) -> Self {
        let keys = key.bytes().to_vec();
        let other = match keys[..] {
            // These encodings have the lower-case letter of the control key.
            [c @ 0..0x20] => {
                let code = (c | 0x40).to_ascii_lowercase();
                [format!("\x1b[{code};5u"), format!("\x1b[{code};5:1u"), format!("\x1b[27;5;{code}~")].map(String::into_bytes).to_vec()
            }
            _ => Vec::new(),
        };
        Self { keys, typed: 0, other }
    }

    /// No key detaches.
    pub(crate) fn never() -> Self {
        Self { keys: Vec::new(), typed: 0, other: Vec::new() }
    }

    /// The bytes for the process, and whether the user detaches after them.
    pub(crate) fn see(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        let mut through = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            if self.typed < self.keys.len() && *byte == self.keys[self.typed] {
                self.typed += 1;
                if self.typed == self.keys.len() {
                    self.typed = 0;
                    return (through, true);
                }
                continue;
            }
            // It was not the start of the detach keys.
            through.extend_from_slice(&self.keys[..self.typed]);
            self.typed = 0;
            if self.keys.first() == Some(byte) {
                self.typed = 1;
                continue;
            }
            if *byte == 0x1b && self.other.iter().any(|o| bytes[at..].starts_with(o)) {
                return (through, true);
            }
            through.push(*byte);
        }
        (through, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaving(key: &str) -> Leaving {
        Leaving::new(&key.parse().unwrap())
    }

    #[test]
    fn the_leaving_key_is_not_typed() {
        let mut one = leaving("ctrl-\\");
        assert_eq!(one.see(b"ls\x03"), (b"ls\x03".to_vec(), false));
        assert_eq!(one.see(b"a\x1cb"), (b"a".to_vec(), true));
        for written in ["x\x1b[92;5u", "x\x1b[92;5:1u", "x\x1b[27;5;92~"] {
            assert_eq!(one.see(written.as_bytes()), (b"x".to_vec(), true), "{written:?}");
        }
        assert_eq!(one.see(b"\x1b[92;3u"), (b"\x1b[92;3u".to_vec(), false));
    }

    #[test]
    fn of_several_keys_the_first_waits_for_the_next() {
        let mut two = leaving("ctrl-p,ctrl-q");
        assert_eq!(two.see(b"a\x10"), (b"a".to_vec(), false));
        assert_eq!(two.see(b"b"), (b"\x10b".to_vec(), false), "it was meant for the process");
        assert_eq!(two.see(b"\x10\x10\x11"), (b"\x10".to_vec(), true));
        assert_eq!(leaving("none").see(b"\x1c\x10"), (b"\x1c\x10".to_vec(), false));
    }
}
