//! Terminals: opening, resizing, and answers to their queries.
//!
//! Decisions 10 and 43: docs/decisions/keeper.md.

use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use std::io;

/// Opens a terminal of this size: the keepers' end, which is nonblocking, and the command's.
pub(crate) fn open(rows: u16, cols: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).or_else(|_| {
        let name = rustix::pty::ptsname(&master, Vec::new())?;
        rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, rustix::fs::Mode::empty())
    })?;
    resize(&master, rows, cols)?;
    let flags = rustix::fs::fcntl_getfl(&master)?;
    rustix::fs::fcntl_setfl(&master, flags | OFlags::NONBLOCK)?;
    Ok((master, slave))
}

/// Changes the size; the kernel signals the program.
pub(crate) fn resize(master: &OwnedFd, rows: u16, cols: u16) -> io::Result<()> {
    Ok(rustix::termios::tcsetwinsize(master, Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 })?)
}

/// Whether the program reads whole lines, which the kernel cuts after 4,095 bytes.
pub(crate) fn is_canonical(master: &OwnedFd) -> bool {
    rustix::termios::tcgetattr(master).is_ok_and(|t| t.local_modes.contains(rustix::termios::LocalModes::ICANON))
}

/// The character that ends the input of this terminal.
pub(crate) fn eof_char(master: &OwnedFd) -> u8 {
    let usual = 0x04;
    rustix::termios::tcgetattr(master).map_or(usual, |t| match t.special_codes[rustix::termios::SpecialCodeIndex::VEOF] {
        0 => usual,
        c => c,
    })
}

/// The longest query that is recognised; longer sequences are not queries.
const LONGEST: usize = 24;

/// Finds the queries of a program to its terminal, across the pieces in which they arrive.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    /// The beginning of a sequence whose end has not arrived.
    held: Vec<u8>,
}

impl Questions {
    /// How many bytes at the end may be the beginning of a query.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// The answers to the queries that end in `bytes`, for a terminal of this size.
    pub(crate) fn answers(&mut self, bytes: &[u8], size: (u16, u16)) -> Vec<u8> {
        let mut out = Vec::new();
        if self.held.is_empty() && memchr::memchr(0x1b, bytes).is_none() {
            return out;
        }
        let joined;
        let mut rest = if self.held.is_empty() {
            bytes
        } else {
            joined = [&self.held[..], bytes].concat();
            self.held.clear();
            &joined[..]
        };
        while let Some(at) = memchr::memchr(0x1b, rest) {
            rest = &rest[at..];
            match sequence(rest) {
                Sequence::Whole(len) => {
                    answer(&rest[..len], size, &mut out);
                    rest = &rest[len..];
                }
                Sequence::Other => rest = &rest[1..],
                Sequence::Unfinished => {
                    self.held = rest.to_vec();
                    break;
                }
            }
        }
        out
    }
}

enum Sequence {
    Whole(usize),
    Unfinished,
    Other,
}

/// A control sequence at the start of `b`: `ESC [`, parameters and intermediates, one final byte.
fn sequence(b: &[u8]) -> Sequence {
    match b.get(1) {
        None => return Sequence::Unfinished,
        Some(b'[') => {}
        Some(_) => return Sequence::Other,
    }
    match b.iter().skip(2).position(|c| (0x40..=0x7e).contains(c)) {
        Some(i) if i + 3 <= LONGEST => Sequence::Whole(i + 3),
        None if b.len() < LONGEST && b[2..].iter().all(|c| (0x20..=0x3f).contains(c)) => Sequence::Unfinished,
        Some(_) | None => Sequence::Other,
    }
}

fn answer(sequence: &[u8], (rows, cols): (u16, u16), out: &mut Vec<u8>) {
    let body = &sequence[2..];
    match body {
        b"5n" => out.extend_from_slice(b"\x1b[0n"),
        b"6n" => out.extend_from_slice(b"\x1b[1;1R"),
        b"?6n" => out.extend_from_slice(b"\x1b[?1;1R"),
        b"c" | b"0c" => out.extend_from_slice(b"\x1b[?62;22c"),
        b">c" | b">0c" => out.extend_from_slice(b"\x1b[>0;10;0c"),
        b"14t" => out.extend_from_slice(format!("\x1b[4;{};{}t", u32::from(rows) * 16, u32::from(cols) * 8).as_bytes()),
        b"18t" => out.extend_from_slice(format!("\x1b[8;{rows};{cols}t").as_bytes()),
        b"19t" => out.extend_from_slice(format!("\x1b[9;{rows};{cols}t").as_bytes()),
        b"?u" => out.extend_from_slice(b"\x1b[?0u"),
        _ => {
            // Is this mode set? The answer "unknown mode" lets the program continue.
            if let Some(mode) = body.strip_suffix(b"$p")
                && mode.iter().all(|c| c.is_ascii_digit() || *c == b'?')
            {
                out.extend_from_slice(&[b"\x1b[", mode, b";0$y"].concat());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_024_questions_are_answered_wherever_they_are_split() {
        let asked = b"text\x1b[31mred\x1b[6n more \x1b[18t\x1b[?2026$p\x1b]0;title\x07";
        let want: &[u8] = b"\x1b[1;1R\x1b[8;30;120t\x1b[?2026;0$y";
        for cut in 0..=asked.len() {
            let mut q = Questions::default();
            let got = [q.answers(&asked[..cut], (30, 120)), q.answers(&asked[cut..], (30, 120))].concat();
            assert_eq!(got, want, "split at {cut}");
        }
    }

    #[test]
    fn what_is_no_question_is_not_held() {
        let mut q = Questions::default();
        assert!(q.answers(&[b"\x1b[".to_vec(), vec![b'1'; 4000]].concat(), (30, 120)).is_empty());
        assert!(q.held.is_empty());
    }
}
