//! Line numbers that stay correct after old segments were deleted.
//!
//! The file `lines` holds, for each segment, the number of newlines before it. With that and the remaining bytes, every remaining
//! line can be found by its number. If the file is damaged or missing, numbers are counted from the remaining bytes, and marked as
//! inexact if that leaves a doubt.
//!
//! ```text
//!  0  magic, 8 bytes
//!  8  version, u32
//! 12  zero, u32
//! 16  for segment 1, 2, …: newlines before it, u64 · crc32 of segment number and that count, u32
//! ```

use crate::dir::ProcessDir;
use crate::segments::{self, Chunk, Extent, Gap, Keep, LogReader, PIECE};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const MAGIC: [u8; 8] = *b"OLLINES\n";
const VERSION: u32 = 1;
const HEADER: u64 = 16;
const ENTRY: u64 = 12;

/// How many newlines come before a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineTotal {
    /// The offset of the byte.
    pub at: u64,
    /// The newlines before it.
    pub newlines: u64,
}

impl LineTotal {
    /// Counts `bytes`, which come next in the log. Each time they enter a segment after the head, `entered` gets its number and the
    /// newlines before it: the arguments of [`LineIndex::note`].
    pub fn advance(&mut self, keep: Keep, mut bytes: &[u8], mut entered: impl FnMut(u64, u64)) {
        while !bytes.is_empty() {
            let index = keep.index_of(self.at);
            let (first, len) = keep.segment_at(index);
            if index > 0 && first == self.at {
                entered(index, self.newlines);
            }
            let room = usize::try_from(first.saturating_add(len) - self.at).unwrap_or(usize::MAX);
            let (here, rest) = bytes.split_at(room.min(bytes.len()));
            self.newlines += memchr::memchr_iter(b'\n', here).count() as u64;
            self.at += here.len() as u64;
            bytes = rest;
        }
    }
}

/// Writes the file `lines`. There is one writer at a time: the caller holds the lock of the process.
#[derive(Debug, Clone, Copy)]
pub struct LineIndex;

impl LineIndex {
    /// Records that `count` newlines come before segment `index`. Repeating it changes nothing. The head needs no entry.
    pub fn note(dir: &ProcessDir, index: u64, count: u64) -> io::Result<()> {
        let Some(at) = entry_at(index) else { return Ok(()) };
        let file = segments::open(&dir.lines(), OFlags::CREATE | OFlags::WRONLY)?;
        file.write_all_at(&header(), 0)?;
        let mut entry = [0; ENTRY as usize];
        entry[..8].copy_from_slice(&count.to_le_bytes());
        entry[8..].copy_from_slice(&checksum(index, count).to_le_bytes());
        file.write_all_at(&entry, at)
    }
}

/// What is known about a log: its length, the recorded gaps, and its line count.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// The length of the log.
    pub end: u64,
    /// The recorded gaps.
    pub gaps: &'a [Gap],
    /// The writer's own count, with newlines in gaps. Ignored if it is for a byte after `end`.
    pub total: LineTotal,
}

/// The place of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineAt {
    /// It begins at this offset.
    At(u64),
    /// Its beginning is missing.
    Gone {
        /// The first line after the gap of which something is kept, possibly without its beginning: this line or a later one.
        first_kept_line: u64,
        /// The first kept byte of that line; the end of the log if nothing is kept.
        offset: u64,
    },
    /// The log has fewer lines.
    Past,
}

/// An answer, and whether it is certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told<T> {
    /// The answer.
    pub value: T,
    /// False if missing bytes or a damaged index leave a doubt about line numbers.
    pub exact: bool,
}

/// The last lines of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastLines {
    /// The offset of the first of them.
    pub offset: u64,
    /// The number of the first of them.
    pub line: u64,
    /// How many lines the log has. An unfinished line counts.
    pub total: u64,
    /// Whether fewer lines than asked for were taken because of the byte limit.
    pub cut: bool,
    /// Whether the numbers are certain.
    pub exact: bool,
}

/// Finds lines by number.
#[derive(Debug)]
pub struct LineMap {
    index: Option<File>,
    keep: Keep,
}

impl LineMap {
    /// Opens the line index in `dir`. It may be missing. A damaged one is used as far as it is intact.
    pub fn open(dir: &ProcessDir, keep: Keep) -> io::Result<Self> {
        let index = match segments::open(&dir.lines(), OFlags::RDONLY) {
            Ok(file) => {
                let mut found = [0; HEADER as usize];
                (read_at(&file, &mut found, 0)? && found == header()).then_some(file)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        Ok(Self { index, keep })
    }

    /// The place of line `line`. Lines count from 0.
    pub fn offset_of_line(&self, reader: &LogReader, line: u64, log: Written<'_>) -> io::Result<Told<LineAt>> {
        settled(|| {
            let pieces = self.pieces(reader, log)?;
            // Line 0 begins with the log, every other one after the newline of that number.
            let (begin, exact) = match pieces.iter().find(|p| p.before < line && line <= p.after) {
                Some(p) if p.there => match nth(reader, p.from, p.to, line - p.before, log)? {
                    Some(newline) => (Some(newline + 1), p.exact),
                    // The bytes were changed: there are fewer lines than were counted.
                    None => (Some(p.to), false),
                },
                Some(p) => (Some(p.from), p.exact),
                None if line == 0 => (Some(0), true),
                None => (None, pieces.last().is_none_or(|p| p.exact)),
            };
            let Some(begin) = begin.filter(|&b| b < log.end) else { return Ok(Told { value: LineAt::Past, exact }) };
            Ok(match kept_from(&pieces, begin, log.end) {
                None => Told { value: LineAt::At(begin), exact },
                Some(Told { value: LineTotal { at, newlines }, exact: next }) => {
                    Told { value: LineAt::Gone { first_kept_line: newlines, offset: at }, exact: exact && next }
                }
            })
        })
    }

    /// The number of the line that contains byte `offset`: how many newlines come before it.
    pub fn line_of_offset(&self, reader: &LogReader, offset: u64, log: Written<'_>) -> io::Result<Told<u64>> {
        settled(|| {
            let pieces = self.pieces(reader, log)?;
            Ok(match pieces.iter().find(|p| (p.from..p.to).contains(&offset)) {
                Some(p) if p.there => Told { value: p.before.saturating_add(newlines(reader, p.from, offset, log)?), exact: p.exact },
                Some(p) => Told { value: p.before, exact: p.exact && p.before == p.after },
                None => all(&pieces),
            })
        })
    }

    /// How many lines the log has. An unfinished line counts.
    pub fn lines(&self, reader: &LogReader, log: Written<'_>) -> io::Result<Told<u64>> {
        settled(|| count(reader, &self.pieces(reader, log)?, log))
    }

    /// The last `n` lines within at most `max_bytes` of output, found from the end. If the beginning of a line is missing, its
    /// remaining part is returned.
    pub fn last_lines(&self, reader: &LogReader, n: u64, max_bytes: u64, log: Written<'_>) -> io::Result<LastLines> {
        settled(|| {
            let pieces = self.pieces(reader, log)?;
            let total = count(reader, &pieces, log)?;
            let answer = |offset, line, cut, exact| LastLines { offset, line, total: total.value, cut, exact: exact && total.exact };
            if n == 0 || log.end == 0 {
                return Ok(answer(log.end, total.value, false, true));
            }
            let floor = floor(&pieces, max_bytes, log.end);
            let line = total.value.saturating_sub(n);
            // The newline before the first of them, if it is within reach.
            let (begin, exact) = match pieces.iter().find(|p| p.before < line && line <= p.after) {
                Some(p) if p.there => {
                    let low = p.from.max(floor.saturating_sub(1));
                    match nth_back(reader, low, p.to, p.after - line + 1, log)? {
                        Some(newline) => (Some(newline + 1), p.exact),
                        None => (Some(p.from).filter(|&from| from >= floor), false),
                    }
                }
                Some(p) => (Some(p.to), p.exact),
                None => (Some(0), pieces.first().is_none_or(|p| p.exact)),
            };
            if let Some(begin) = begin {
                let (begin, line, exact) = match kept_from(&pieces, begin, log.end) {
                    None if pieces.iter().any(|p| !p.there && p.to == begin) => (begin, before(&pieces, begin), exact),
                    None => (begin, line, exact),
                    Some(next) => (next.value.at, next.value.newlines, exact && next.exact),
                };
                if begin >= floor {
                    return Ok(answer(begin, line, false, exact));
                }
            }
            let first = first_line_from(reader, &pieces, floor, log)?;
            Ok(answer(first.value.at, first.value.newlines, true, first.exact))
        })
    }

    /// The log in pieces that are present or missing as a whole, with the newlines before and after each.
    fn pieces(&self, reader: &LogReader, log: Written<'_>) -> Result<Vec<Piece>, Trouble> {
        let mut pieces = Vec::new();
        for Extent { from, to, missing } in reader.extents(log.end, log.gaps)? {
            let mut at = from;
            while at < to {
                let segment_end = self.keep.segment_at(self.keep.index_of(at).saturating_add(1)).0;
                let cut = if missing.is_some() { to } else { to.min(segment_end) };
                let cut = if missing.is_none() && (at + 1..cut).contains(&log.total.at) { log.total.at } else { cut };
                pieces.push(Piece { from: at, to: cut, there: missing.is_none(), before: 0, after: 0, exact: false });
                at = cut;
            }
        }
        let edges: Vec<u64> = std::iter::once(0).chain(pieces.iter().map(|p| p.to)).collect();
        let mut known: Vec<Option<u64>> = edges.iter().map(|&at| self.known(at, log)).collect();
        // Counts that the index lacks are derived from the nearest known ones.
        for (i, p) in pieces.iter().enumerate() {
            if let (true, Some(before), None) = (p.there, known[i], known[i + 1]) {
                known[i + 1] = Some(before.saturating_add(newlines(reader, p.from, p.to, log)?));
            }
        }
        for (i, p) in pieces.iter().enumerate().rev() {
            if let (true, None, Some(after)) = (p.there, known[i], known[i + 1]) {
                known[i] = Some(after.saturating_sub(newlines(reader, p.from, p.to, log)?));
            }
        }
        // Nothing may tie the output between two gaps to a line number. Then at least this many lines come before it.
        let mut least = 0;
        for (i, p) in pieces.iter_mut().enumerate() {
            p.before = known[i].unwrap_or(least).max(least);
            p.after = match known[i + 1] {
                Some(after) => after.max(p.before),
                None if p.there => p.before.saturating_add(newlines(reader, p.from, p.to, log)?),
                None => p.before,
            };
            p.exact = known[i].is_some() && known[i + 1].is_some();
            least = p.after;
        }
        Ok(pieces)
    }

    /// The newlines before `at`, if they are recorded.
    fn known(&self, at: u64, log: Written<'_>) -> Option<u64> {
        if at == 0 {
            return Some(0);
        }
        if at == log.total.at {
            return Some(log.total.newlines);
        }
        self.noted(at)
    }

    /// The newlines before `at`, if the line index has an entry for a segment that begins there.
    pub(crate) fn noted(&self, at: u64) -> Option<u64> {
        let index = self.keep.index_of(at);
        let file = self.index.as_ref().filter(|_| self.keep.segment_at(index).0 == at)?;
        let mut entry = [0; ENTRY as usize];
        // An entry that cannot be read counts as absent, and the newlines are counted.
        let whole = read_at(file, &mut entry, entry_at(index)?).unwrap_or(false);
        let [a, b, c, d, e, f, g, h, crc @ ..] = entry;
        let count = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        (whole && u32::from_le_bytes(crc) == checksum(index, count)).then_some(count)
    }
}

/// A part of the log.
#[derive(Debug, Clone, Copy)]
struct Piece {
    from: u64,
    to: u64,
    there: bool,
    before: u64,
    after: u64,
    exact: bool,
}

/// Why an answer was not found at the first try.
enum Trouble {
    /// Bytes were deleted while they were counted.
    Moved,
    Io(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// Repeats the search while the log is being changed.
fn settled<T>(mut ask: impl FnMut() -> Result<T, Trouble>) -> io::Result<T> {
    for _ in 0..16 {
        match ask() {
            Ok(answer) => return Ok(answer),
            Err(Trouble::Moved) => {}
            Err(Trouble::Io(e)) => return Err(e),
        }
    }
    Err(io::Error::other("the log is dropped faster than it can be read: ask for a later part of it"))
}

/// The newlines of the whole log.
fn all(pieces: &[Piece]) -> Told<u64> {
    pieces.last().map_or(Told { value: 0, exact: true }, |p| Told { value: p.after, exact: p.exact })
}

fn count(reader: &LogReader, pieces: &[Piece], log: Written<'_>) -> Result<Told<u64>, Trouble> {
    let newlines = all(pieces);
    Ok(match reader.read(log.end.saturating_sub(1), log.end, 1, log.gaps)? {
        Chunk::Bytes { bytes, .. } if bytes != b"\n" => Told { value: newlines.value.saturating_add(1), exact: newlines.exact },
        Chunk::Bytes { .. } | Chunk::End => newlines,
        Chunk::Gap { .. } => Told { value: newlines.value, exact: false },
    })
}

/// None if byte `at` is kept; else the next kept byte, with the newlines before it.
fn kept_from(pieces: &[Piece], at: u64, end: u64) -> Option<Told<LineTotal>> {
    let here = pieces.iter().position(|p| (p.from..p.to).contains(&at))?;
    if pieces[here].there {
        return None;
    }
    Some(match pieces[here..].iter().find(|p| p.there) {
        Some(p) => Told { value: LineTotal { at: p.from, newlines: p.before }, exact: p.exact },
        // It is unknown whether a line begins there: the last newline may have been the last byte.
        None => Told { value: LineTotal { at: end, newlines: all(pieces).value }, exact: false },
    })
}

/// The newlines before an edge of a piece.
fn before(pieces: &[Piece], edge: u64) -> u64 {
    pieces.iter().find(|p| p.from == edge).map_or(all(pieces).value, |p| p.before)
}

/// The offset from which on there are `max_bytes` of output, without gaps.
fn floor(pieces: &[Piece], max_bytes: u64, end: u64) -> u64 {
    let mut left = max_bytes;
    let mut floor = end;
    for p in pieces.iter().rev() {
        if !p.there {
            floor = p.from;
        } else if left >= p.to - p.from {
            left -= p.to - p.from;
            floor = p.from;
        } else {
            return p.to - left;
        }
    }
    floor
}

/// The first line that begins at `floor` or later; if there is none, the rest of the last line.
fn first_line_from(reader: &LogReader, pieces: &[Piece], floor: u64, log: Written<'_>) -> Result<Told<LineTotal>, Trouble> {
    let mut rest_of_line = None;
    for p in pieces.iter().filter(|p| p.to > floor || (p.there && p.to == floor)) {
        if !p.there {
            if let Some(next) = kept_from(pieces, p.from, log.end).filter(|next| next.value.at < log.end) {
                return Ok(next);
            }
            continue;
        }
        let from = p.from.max(floor.saturating_sub(1));
        let behind = nth(reader, from, p.to, 1, log)?.map(|newline| newline + 1).filter(|&at| at < log.end);
        let begin = behind.unwrap_or(p.from.max(floor));
        let newlines = p.after.saturating_sub(newlines(reader, begin, p.to, log)?);
        let told = Told { value: LineTotal { at: begin, newlines }, exact: p.exact };
        if behind.is_some() {
            return Ok(kept_from(pieces, begin, log.end).unwrap_or(told));
        }
        rest_of_line.get_or_insert(told);
    }
    let end = Told { value: LineTotal { at: log.end, newlines: all(pieces).value }, exact: all(pieces).exact };
    Ok(rest_of_line.unwrap_or(end))
}

/// How many newlines are in `[from, to)`, which is kept entirely.
fn newlines(reader: &LogReader, from: u64, to: u64, log: Written<'_>) -> Result<u64, Trouble> {
    let mut count = 0;
    let mut at = from;
    while at < to {
        let bytes = bytes(reader, at, to, log)?;
        count += memchr::memchr_iter(b'\n', &bytes).count() as u64;
        at += bytes.len() as u64;
    }
    Ok(count)
}

/// Where newline number `n` of `[from, to)` is; the first is number 1.
fn nth(reader: &LogReader, from: u64, to: u64, mut n: u64, log: Written<'_>) -> Result<Option<u64>, Trouble> {
    let mut at = from;
    while at < to {
        let bytes = bytes(reader, at, to, log)?;
        for newline in memchr::memchr_iter(b'\n', &bytes) {
            n -= 1;
            if n == 0 {
                return Ok(Some(at + newline as u64));
            }
        }
        at += bytes.len() as u64;
    }
    Ok(None)
}

/// Where newline number `n` of `[from, to)` is, counted from the end; the last is number 1.
fn nth_back(reader: &LogReader, from: u64, to: u64, mut n: u64, log: Written<'_>) -> Result<Option<u64>, Trouble> {
    let mut end = to;
    while end > from {
        let at = end.saturating_sub(PIECE as u64).max(from);
        let bytes = bytes(reader, at, end, log)?;
        // A piece lies within one segment, so the read is complete unless the segment was truncated.
        if bytes.len() as u64 != end - at {
            return Err(Trouble::Moved);
        }
        let mut rest = &bytes[..];
        while let Some(newline) = memchr::memrchr(b'\n', rest) {
            n -= 1;
            if n == 0 {
                return Ok(Some(at + newline as u64));
            }
            rest = &rest[..newline];
        }
        end = at;
    }
    Ok(None)
}

fn bytes(reader: &LogReader, from: u64, to: u64, log: Written<'_>) -> Result<Vec<u8>, Trouble> {
    match reader.read(from, to, PIECE, log.gaps)? {
        Chunk::Bytes { bytes, .. } => Ok(bytes),
        Chunk::Gap { .. } | Chunk::End => Err(Trouble::Moved),
    }
}

fn header() -> [u8; HEADER as usize] {
    let mut header = [0; HEADER as usize];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header
}

fn entry_at(index: u64) -> Option<u64> {
    index.checked_sub(1)?.checked_mul(ENTRY)?.checked_add(HEADER)
}

fn checksum(index: u64, count: u64) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&index.to_le_bytes());
    crc.update(&count.to_le_bytes());
    crc.finalize()
}

/// Fills `buf` from `at`. Returns false if the file ends before.
fn read_at(file: &File, buf: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(buf, at) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests;
