//! Keeps the output of a process on the alternate screen that we use.

use super::modes::{ControlSequence, SCREENS, Sequence, sequence};

/// Replaces a switch to the other screen: plain text on an empty screen.
const CLEAR: &[u8] = b"\x1b[0m\x1b[H\x1b[2J";
/// Replaces a reset of the terminal, before the screen is cleared. A full reset would show the user's own screen.
const SOFT_RESET: &[u8] = b"\x1b[!p\x1b[r";

/// Keeps output on the screen that is shown. A program that switches between the two screens of a terminal would otherwise draw on the user's
/// own, or clear what was scrolled off it.
#[derive(Debug)]
pub(crate) struct OneScreen {
    /// The start of a sequence whose end has not arrived.
    held: Vec<u8>,
    /// The first line of the screen, unless a program uses the whole screen.
    banner: String,
}

impl OneScreen {
    pub(crate) fn new(banner: String) -> Self {
        Self { held: Vec::new(), banner }
    }

    /// An empty screen with the banner, to write before any output.
    pub(crate) fn begin(&self) -> Vec<u8> {
        [CLEAR, self.banner.as_bytes(), b"\r\n"].concat()
    }

    /// The output, with sequences that affect the user's own screen replaced.
    pub(crate) fn keep(&mut self, bytes: &[u8]) -> Vec<u8> {
        let all = [std::mem::take(&mut self.held).as_slice(), bytes].concat();
        let mut out = Vec::with_capacity(all.len());
        let mut rest = &all[..];
        while let Some(at) = rest.iter().position(|b| *b == 0x1b) {
            out.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            match sequence(rest) {
                Sequence::Whole { length, what } => {
                    match self.replaced(&what) {
                        Some(other) => out.extend(other),
                        None => out.extend_from_slice(&rest[..length]),
                    }
                    rest = &rest[length..];
                }
                Sequence::Unfinished => {
                    self.held = rest.to_vec();
                    return out;
                }
                Sequence::Other => {
                    out.push(0x1b);
                    rest = &rest[1..];
                }
            }
        }
        out.extend_from_slice(rest);
        out
    }

    /// The replacement of a sequence, if it must not be written as it is.
    fn replaced(&self, what: &ControlSequence<'_>) -> Option<Vec<u8>> {
        match what {
            ControlSequence::Reset => Some([SOFT_RESET, &self.begin()].concat()),
            // Clears what was scrolled off the user's own screen.
            ControlSequence::Control { parameters: b"3", last: b'J' } => Some(Vec::new()),
            ControlSequence::Control { parameters: [b'?', modes @ ..], last: last @ (b'h' | b'l') } => {
                let modes: Vec<&[u8]> = modes.split(|b| *b == b';').collect();
                if !modes.iter().any(is_screen) {
                    return None;
                }
                let mut out = if *last == b'h' { CLEAR.to_vec() } else { self.begin() };
                let others: Vec<&[u8]> = modes.into_iter().filter(|mode| !is_screen(mode)).collect();
                if !others.is_empty() {
                    out.extend([b"\x1b[?", &*others.join(&b';'), &[*last]].concat());
                }
                Some(out)
            }
            ControlSequence::Control { .. } | ControlSequence::Keypad(_) => None,
        }
    }
}

fn is_screen(mode: &&[u8]) -> bool {
    std::str::from_utf8(mode).ok().and_then(|mode| mode.parse().ok()).is_some_and(|mode| SCREENS.contains(&mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_switches_screens_stays_on_the_one_that_is_shown() {
        let mut screen = OneScreen::new("banner".into());
        let begin = screen.begin();
        assert_eq!(begin, [CLEAR, b"banner\r\n"].concat());
        assert_eq!(screen.keep(b"a\x1b[?1049hb"), [b"a", CLEAR, b"b"].concat());
        assert_eq!(screen.keep(b"\x1b[?25;1049;7lx"), [&*begin, b"\x1b[?25;7lx"].concat());
        assert_eq!(screen.keep(b"\x1b[H\x1b[2J\x1b[3J$ "), b"\x1b[H\x1b[2J$ ");
        assert_eq!(screen.keep(b"\x1bcnew"), [SOFT_RESET, &begin, b"new"].concat());
        let kept = b"\x1b[31mred\x1b[0m\x1b[?25l\x1b[J\x1b[3;3H\x1b=\x1b(B\x1b]0;title\x07";
        assert_eq!(screen.keep(kept), kept);
    }

    #[test]
    fn a_switch_in_pieces_is_one_switch() {
        let mut screen = OneScreen::new(String::new());
        let shown: Vec<u8> = b"in\x1b[?1049h out".iter().flat_map(|byte| screen.keep(&[*byte])).collect();
        assert_eq!(shown, [b"in", CLEAR, b" out"].concat());
        assert_eq!(screen.keep(b"\x1b["), b"");
        assert_eq!(screen.keep(b"1m"), b"\x1b[1m", "what was held back is shown");
    }
}
