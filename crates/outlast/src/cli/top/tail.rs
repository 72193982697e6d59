//! Finds line starts in pieces of a log, and keeps the end of a log that grows.

use super::lines::{LineRenderer, LogLine, Piece, missing};
use outlast_client::Chunk;

/// How many bytes are read before or after a position.
pub(super) const PIECE_BYTES: u64 = 64 << 10;
/// How many bytes before a piece are read too, so that a secret that starts there is recognised.
pub(super) const LEAD_BYTES: u64 = 8 << 10;

/// The first line start at or after `wanted`. If the line has no end, `wanted` itself.
pub(super) fn whole_line(at: u64, bytes: &[u8], wanted: u64) -> u64 {
    if wanted == 0 {
        return at;
    }
    let skip = usize::try_from(wanted.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
    // The byte before shows whether a line starts here.
    let from = skip.saturating_sub(1);
    match bytes[from..].iter().position(|b| *b == b'\n') {
        Some(newline) if from + newline + 1 < bytes.len() => at + (from + newline + 1) as u64,
        _ => at + skip as u64,
    }
}

/// The bytes from the first whole line on. Those before `from` are kept only if a line starts at `from`.
pub(super) fn with_lead(at: u64, bytes: &[u8], from: u64) -> (u64, &[u8]) {
    let lead = usize::try_from(from.saturating_sub(at)).unwrap_or(usize::MAX).min(bytes.len());
    if lead == 0 {
        return (at, bytes);
    }
    let first = if at == 0 { Some(0) } else { bytes[..lead].iter().position(|b| *b == b'\n').map(|newline| newline + 1) };
    match first {
        Some(first) if bytes[lead - 1] == b'\n' => (at + first as u64, &bytes[first..]),
        _ => (at + lead as u64, &bytes[lead..]),
    }
}

/// The end of a growing log: the bytes that may still change how the next ones are rendered.
#[derive(Default)]
pub(super) struct Tail {
    at: Option<u64>,
    bytes: Vec<u8>,
    gap: Option<LogLine>,
}

impl Tail {
    /// Adds a chunk. Returns the number of its bytes.
    pub(super) fn take(&mut self, chunk: Chunk) -> usize {
        match chunk {
            Chunk::Bytes { at, bytes } => {
                let came = bytes.len();
                if self.at.is_none() {
                    // The first line is incomplete, unless it is the only one.
                    let begin = whole_line(at, &bytes, if at == 0 { 0 } else { at + 1 });
                    self.at = Some(begin);
                    self.bytes = bytes[(begin - at) as usize..].to_vec();
                } else {
                    self.bytes.extend(bytes);
                }
                came
            }
            Chunk::Gap { from, to, why } => {
                *self = Self { at: Some(to), bytes: Vec::new(), gap: Some(missing(from, to, &why)) };
                0
            }
        }
    }

    pub(super) fn shown(&self, look: &LineRenderer) -> Piece {
        let at = self.at.unwrap_or(0);
        let lines: Vec<LogLine> = self.gap.iter().cloned().chain(look.lines(at, &self.bytes)).collect();
        let from = self.gap.as_ref().map_or(at, |gap| gap.at);
        Piece { from, to: at + self.bytes.len() as u64, lines, is_last: true }
    }

    /// Drops all but the last lines. Of a line without end, it keeps the end.
    pub(super) fn shorten(&mut self) {
        let keep = LEAD_BYTES as usize;
        let Some(cut) = self.bytes.len().checked_sub(keep).filter(|n| *n > 0) else { return };
        let next = self.bytes[cut..].iter().position(|b| *b == b'\n').map(|newline| cut + newline + 1);
        let cut = match next.filter(|n| *n < self.bytes.len()) {
            Some(next) => next,
            None => match self.bytes[..cut].iter().rposition(|b| *b == b'\n') {
                Some(newline) => newline + 1,
                None if self.bytes.len() as u64 > PIECE_BYTES => cut,
                None => return,
            },
        };
        self.bytes.drain(..cut);
        self.at = self.at.map(|at| at + cut as u64);
        self.gap = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_text::Redactor;
    use std::sync::Arc;

    fn look() -> LineRenderer {
        LineRenderer { command: "make".into(), redact: Arc::new(Redactor::new(true)) }
    }

    fn bytes(at: u64, text: &str) -> Chunk {
        Chunk::Bytes { at, bytes: text.into() }
    }

    fn texts(piece: &Piece) -> Vec<(u64, &str)> {
        piece.lines.iter().map(|l| (l.at, l.text.as_str())).collect()
    }

    #[test]
    fn a_piece_begins_where_a_line_does() {
        let log = b"one\ntwo\nthree";
        for (wanted, want) in [(0, 0), (1, 4), (3, 4), (4, 4), (5, 8), (8, 8), (9, 9)] {
            assert_eq!(whole_line(0, log, wanted), want, "{wanted}");
        }
        assert_eq!(whole_line(100, log, 102), 104);
        assert_eq!(whole_line(100, b"no end of a line", 105), 105);
        assert_eq!(whole_line(100, b"its end\n", 101), 101, "nothing is left after it");
    }

    #[test]
    fn what_lies_before_is_read_with_it_where_lines_begin() {
        let log = b"tail\none\ntwo\n";
        assert_eq!(with_lead(100, log, 109), (105, &b"one\ntwo\n"[..]));
        assert_eq!(with_lead(0, b"one\ntwo\n", 4), (0, &b"one\ntwo\n"[..]), "at the beginning nothing is torn");
        assert_eq!(with_lead(100, log, 100), (100, &log[..]));
        assert_eq!(with_lead(100, log, 107), (107, &b"e\ntwo\n"[..]), "in the middle of a line it would be torn");
    }

    #[test]
    fn a_growing_end_is_shown_whole_and_once() {
        let (look, mut tail) = (look(), Tail::default());
        assert_eq!(tail.take(bytes(100, "torn\none\ntw")), 11);
        assert_eq!(texts(&tail.shown(&look)), [(105, "one"), (109, "tw")]);
        tail.shorten();
        tail.take(bytes(111, "o\n"));
        let shown = tail.shown(&look);
        assert_eq!(texts(&shown), [(105, "one"), (109, "two")]);
        assert_eq!((shown.from, shown.to), (105, 113));
        tail.take(Chunk::Gap { from: 113, to: 200, why: "retention".into() });
        tail.take(bytes(200, "on\n"));
        assert_eq!(texts(&tail.shown(&look)), [(113, "[bytes 113 to 200 are missing: retention]"), (200, "on")]);
    }

    #[test]
    fn what_no_longer_matters_is_let_go_and_a_secret_in_two_pieces_is_masked() {
        let (look, mut tail) = (look(), Tail::default());
        for i in 0..100 {
            let at = tail.at.unwrap_or(0) + tail.bytes.len() as u64;
            tail.take(bytes(at, &format!("{i:0>1023}\n")));
            tail.shorten();
            assert!(tail.bytes.len() as u64 <= LEAD_BYTES + 1024, "{}", tail.bytes.len());
        }
        assert_eq!(texts(&tail.shown(&look)).last().unwrap().0, 99 * 1024);
        let at = tail.at.unwrap() + tail.bytes.len() as u64;
        tail.take(bytes(at, "token ghp_0123456789"));
        tail.take(bytes(at + 20, "abcdefghijklmnopqrstuvwxyz\n"));
        assert!(tail.shown(&look).lines.iter().all(|l| !l.text.contains("abcdefghijklmnopqr")));
        // A line without end does not grow for ever.
        for _ in 0..40 {
            let at = tail.at.unwrap() + tail.bytes.len() as u64;
            tail.take(bytes(at, &"x".repeat(4096)));
            tail.shorten();
        }
        assert!(tail.bytes.len() as u64 <= PIECE_BYTES + 4096);
    }
}
