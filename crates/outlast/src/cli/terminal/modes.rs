//! Tracks what a program sets on a terminal, to set it again for a user who attaches and to undo it for one who detaches.

use std::collections::BTreeSet;

/// Private modes that are off on a fresh terminal and affect its user: keys, mouse, focus, paste.
const OFF_BY_DEFAULT: [u16; 11] = [1, 9, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 2004];
/// Private modes that are on by default: lines wrap, the cursor is visible.
const ON_BY_DEFAULT: [u16; 2] = [7, 25];
/// The modes that switch to the other screen.
pub(super) const SCREENS: [u16; 3] = [47, 1047, 1049];
/// A longer sequence is not one that is tracked.
const MAX_SEQUENCE_BYTES: usize = 64;

/// The state in which output left a terminal.
#[derive(Debug, Default)]
pub(crate) struct Modes {
    /// The start of a sequence whose end has not arrived.
    held: Vec<u8>,
    /// The modes of [`OFF_BY_DEFAULT`] that are on, and of [`ON_BY_DEFAULT`] that are off.
    changed: BTreeSet<u16>,
    /// The mode that switched to the other screen.
    screen: Option<u16>,
    keypad: bool,
    /// Whether only some of its lines scroll.
    region: bool,
    /// Whether the cursor has another shape.
    shape: bool,
    /// How often another encoding of keys was requested.
    keys: usize,
}

impl Modes {
    /// Tracks output. Returns where it switched to the other screen, if it has not switched back.
    pub(crate) fn see(&mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.held.len();
        let all = [std::mem::take(&mut self.held).as_slice(), bytes].concat();
        let mut entered = None;
        let mut from = 0;
        while let Some(at) = all[from..].iter().position(|b| *b == 0x1b).map(|at| from + at) {
            from = at + 1;
            match sequence(&all[at..]) {
                Sequence::Whole { length, what } => {
                    from = at + length;
                    match self.apply(&what) {
                        Some(true) => entered = Some(at.saturating_sub(before)),
                        Some(false) => entered = None,
                        None => {}
                    }
                }
                Sequence::Unfinished => {
                    self.held = all[at..].to_vec();
                    break;
                }
                Sequence::Other => {}
            }
        }
        entered
    }

    /// Whether a program uses the other screen.
    pub(crate) fn is_full_screen(&self) -> bool {
        self.screen.is_some()
    }

    /// The sequence that switches to the other screen, if the program uses it.
    pub(crate) fn enter(&self) -> String {
        self.screen.map(|screen| format!("\x1b[?{screen}h\x1b[H\x1b[2J")).unwrap_or_default()
    }

    /// The sequence that sets cursor, keys and mouse of a fresh terminal as the program has set them.
    pub(crate) fn redo(&self) -> String {
        let mut out = String::new();
        for mode in &self.changed {
            out += &format!("\x1b[?{mode}{}", if ON_BY_DEFAULT.contains(mode) { 'l' } else { 'h' });
        }
        out + if self.keypad { "\x1b=" } else { "" }
    }

    /// The sequence that restores the terminal: its first screen, cursor, colours, keys, and no reports of mouse, focus or paste.
    pub(crate) fn undo(&self) -> String {
        self.undo_with(self.screen)
    }

    /// The same for a terminal whose screen was not switched ([`super::OneScreen`]).
    pub(crate) fn undo_on_one_screen(&self) -> String {
        self.undo_with(None)
    }

    fn undo_with(&self, screen: Option<u16>) -> String {
        let mut out = String::new();
        if self.keys > 0 {
            out += &format!("\x1b[<{}u", self.keys);
        }
        if self.region {
            // This moves the cursor, so its position is saved and restored.
            out += "\x1b7\x1b[r\x1b8";
        }
        if let Some(screen) = screen {
            out += &format!("\x1b[?{screen}l");
        }
        if self.shape {
            out += "\x1b[0 q";
        }
        // Output from before the tracking may have changed any of them.
        OFF_BY_DEFAULT.iter().for_each(|mode| out += &format!("\x1b[?{mode}l"));
        ON_BY_DEFAULT.iter().for_each(|mode| out += &format!("\x1b[?{mode}h"));
        out + "\x1b>\x1b(B\x1b[0m"
    }

    /// Whether the sequence switched to the other screen (true) or back (false).
    fn apply(&mut self, what: &ControlSequence<'_>) -> Option<bool> {
        match what {
            ControlSequence::Control { parameters, last } => match (*parameters, *last) {
                ([b'?', modes @ ..], b'h' | b'l') => {
                    let numbers = modes.split(|b| *b == b';').filter_map(|m| std::str::from_utf8(m).ok()?.parse().ok());
                    return numbers.filter_map(|mode| self.set(mode, *last == b'h')).last();
                }
                ([], b'r') => self.region = false,
                ([b'0'..=b'9', ..], b'r') => self.region = true,
                (p, b'q') if p.ends_with(b" ") => self.shape = !matches!(p, b" " | b"0 "),
                ([b'>', ..], b'u') => self.keys += 1,
                ([b'<', n @ ..], b'u') => {
                    let n = std::str::from_utf8(n).ok().and_then(|n| n.parse().ok()).unwrap_or(1);
                    self.keys = self.keys.saturating_sub(n);
                }
                // A soft reset.
                (b"!", b'p') => *self = Self { screen: self.screen, ..Self::default() },
                _ => {}
            },
            ControlSequence::Keypad(on) => self.keypad = *on,
            ControlSequence::Reset => {
                let was = self.screen.is_some();
                *self = Self::default();
                return was.then_some(false);
            }
        }
        None
    }

    fn set(&mut self, mode: u16, on: bool) -> Option<bool> {
        if SCREENS.contains(&mode) {
            self.screen = on.then_some(mode);
            return Some(on);
        }
        if OFF_BY_DEFAULT.contains(&mode) && on || ON_BY_DEFAULT.contains(&mode) && !on {
            self.changed.insert(mode);
        } else {
            self.changed.remove(&mode);
        }
        None
    }
}

/// A sequence that changes the state of a terminal.
pub(super) enum ControlSequence<'a> {
    /// `ESC [`, parameters and one last byte.
    Control {
        parameters: &'a [u8],
        last: u8,
    },
    Keypad(bool),
    Reset,
}

/// What follows an escape.
pub(super) enum Sequence<'a> {
    Whole { length: usize, what: ControlSequence<'a> },
    Unfinished,
    Other,
}

/// Parses the sequence of the escape at the start of `bytes`.
pub(super) fn sequence(bytes: &[u8]) -> Sequence<'_> {
    match bytes.get(1) {
        None => Sequence::Unfinished,
        Some(b'=') => Sequence::Whole { length: 2, what: ControlSequence::Keypad(true) },
        Some(b'>') => Sequence::Whole { length: 2, what: ControlSequence::Keypad(false) },
        Some(b'c') => Sequence::Whole { length: 2, what: ControlSequence::Reset },
        Some(b'[') => match bytes[2..].iter().position(|b| !(0x20..=0x3f).contains(b)) {
            Some(end) if (0x40..=0x7e).contains(&bytes[2 + end]) && end <= MAX_SEQUENCE_BYTES => {
                Sequence::Whole { length: end + 3, what: ControlSequence::Control { parameters: &bytes[2..2 + end], last: bytes[2 + end] } }
            }
            None if bytes.len() <= MAX_SEQUENCE_BYTES => Sequence::Unfinished,
            Some(_) | None => Sequence::Other,
        },
        Some(_) => Sequence::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_left_in_the_middle_is_brought_back() {
        let mut modes = Modes::default();
        modes.see(b"plain\x1b[31m");
        assert!(!modes.undo().contains("1049l") && modes.redo().is_empty());
        for piece in [&b"x\x1b[?1"[..], b"049", b"hy"] {
            modes.see(piece);
        }
        assert!(modes.undo().contains("\x1b[?1049l") && modes.enter().starts_with("\x1b[?1049h"));
        modes.see(b"\x1b[?1049l\x1b[?1049h\x1b[?1049l");
        assert!(!modes.undo().contains("1049l"));
    }

    #[test]
    fn what_a_program_set_is_set_for_who_comes_and_taken_back_for_who_leaves() {
        let mut modes = Modes::default();
        modes.see(b"\x1b[?1;25l\x1b[?1002;1006h\x1b=\x1b[2;10r\x1b[4 q\x1b[>1u\x1b[?2004h\x1b[?2004l");
        assert_eq!(modes.redo(), "\x1b[?25l\x1b[?1002h\x1b[?1006h\x1b=");
        let undo = modes.undo();
        for want in ["\x1b[<1u", "\x1b[r", "\x1b[0 q", "\x1b[?1002l", "\x1b[?25h", "\x1b[0m"] {
            assert!(undo.contains(want), "{want:?} in {undo:?}");
        }
        modes.see(b"\x1bc");
        assert!(modes.redo().is_empty() && !modes.undo().contains("\x1b[r"));
    }

    #[test]
    fn where_the_screen_was_entered_is_told() {
        let mut modes = Modes::default();
        assert_eq!(modes.see(b"ab\x1b[?1049hcd"), Some(2));
        assert_eq!(modes.see(b"ab\x1b[?1049l\x1b[?47hcd"), Some(10));
        assert_eq!(modes.see(b"more"), None);
        assert!(modes.is_full_screen());
        assert_eq!(modes.see(b"\x1b[?47h\x1b[?47l"), None);
    }

    #[test]
    fn nonsense_is_not_held_for_ever() {
        let mut modes = Modes::default();
        modes.see(&[b"\x1b[".to_vec(), vec![b'1'; 4000]].concat());
        assert!(modes.held.is_empty());
        modes.see(b"\x1b[99999;?x\x1b\x1b[?1049h");
        assert!(modes.is_full_screen());
    }
}
