//! Finds the lines of an output that match the watch patterns of a process.
//!
//! Only `\n` ends a line. The text of a line is searched: decoded and without escape sequences. If the line has carriage returns, all text
//! that was drawn counts. The result does not depend on how the bytes are cut into pieces: a pattern, a character or an escape sequence may
//! lie across two reads.
//!
//! Most output matches nothing and has no escapes, so whole pieces are searched as they come, and only the lines with hits are decoded.
//!
//! Decision 66: docs/decisions/watch.md.

mod search;

use crate::collapse::collapse;
use crate::decode::Decoder;
use crate::escape::next_introducer;
use crate::strip::{Stripper, strip_into, strip_lines_into};
use memchr::{memchr, memchr_iter, memrchr};
use search::{Hits, Search};

/// The most lines that are quoted.
pub const MOST_LINES: usize = 20;
/// The most characters that are quoted, with the line ends between lines.
pub const MOST_CHARS: usize = 2_000;
/// How many bytes of a line are held until it ends. A longer line is searched as it comes, and its first bytes are quoted.
pub const LONGEST_HELD: usize = 64 << 10;
/// A line that comes more often than this in a row is searched once.
const MAX_SINGLE_SEARCHES: usize = 4;

/// The lines that matched since the last [`Scanner::take`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The byte at which the first line begins.
    pub offset: u64,
    /// The index of the pattern that the first line matches; the lowest if it matches several.
    pub pattern: usize,
    /// How many lines matched.
    pub count: u64,
    /// The first of them, as a reader sees them, without blanks at their ends.
    pub lines: Vec<String>,
    /// Whether the last of `lines` was cut, or more lines would have followed.
    pub cut: bool,
    /// Characters in `lines`, with those between them.
    chars: usize,
}

impl Found {
    /// Matched lines without quotes.
    pub fn unquoted(offset: u64, pattern: usize, count: u64) -> Self {
        Self { offset, pattern, count, lines: Vec::new(), cut: count > 0, chars: 0 }
    }

    /// The same lines with a known count and first pattern.
    pub fn counted(self, pattern: usize, count: u64) -> Self {
        Self { pattern, count, cut: self.cut || count > self.count, ..self }
    }

    /// Whether no more lines are quoted.
    pub fn is_full(&self) -> bool {
        self.lines.len() == MOST_LINES || self.chars >= MOST_CHARS
    }

    /// Quotes a line. `hit` is where its match begins and ends; a line that is too long is quoted around it.
    fn quote(&mut self, text: &str, hit: (usize, usize), cut: bool) {
        if self.is_full() {
            self.cut = true;
            return;
        }
        let between = usize::from(!self.lines.is_empty());
        let room = MOST_CHARS - self.chars - between;
        let text = text.trim_end();
        let (kept, cut_here) = match text.char_indices().nth(room) {
            Some((at, _)) if hit.1 > at && room > CUT.len() => (around(text, hit.0, room), true),
            Some((at, _)) => (text[..at].to_owned(), true),
            None => (text.to_owned(), false),
        };
        self.chars += between + kept.chars().count();
        self.lines.push(kept);
        self.cut |= cut || cut_here;
    }
}

/// Stands for the beginning of a line.
const CUT: &str = "…";
/// How many characters before its match are quoted of a line that is quoted around it.
const CHARS_BEFORE_MATCH: usize = 200;

/// A part of a line, `room` characters long, with what comes at `at` and at least a few characters before it.
fn around(text: &str, at: usize, room: usize) -> String {
    let (head, rest) = text.split_at(at);
    let after = rest.chars().take(room).count();
    let before = (room - CUT.chars().count()).saturating_sub(after).max(CHARS_BEFORE_MATCH.min(room / 2));
    let from = head.char_indices().rev().take(before).last().map_or(at, |(from, _)| from);
    CUT.chars().chain(text[from..].chars()).take(room).collect()
}

/// Where the first match of a text begins and ends.
fn hit(patterns: &[String], text: &str) -> Option<(usize, usize)> {
    patterns.iter().filter(|p| !p.is_empty()).filter_map(|p| text.find(p.as_str()).map(|at| (at, at + p.len()))).min()
}

/// The text to quote of a line, and where its match is. Of a line that is not held only the beginning is there; if the match comes later, its
/// pattern is added.
fn located(patterns: &[String], mut shown: String, is_long: bool, which: impl FnOnce() -> usize) -> (String, (usize, usize)) {
    let hit = hit(patterns, &shown).unwrap_or_else(|| {
        if !is_long {
            // What matched was overwritten on the same line.
            return (0, 0);
        }
        let pattern = patterns.get(which()).map_or("", String::as_str);
        shown.push_str(CUT);
        let at = shown.len();
        shown.push_str(pattern);
        (at, shown.len())
    });
    (shown, hit)
}

/// Where another scanner can continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// The byte from which it has to read all output again.
    pub upto: u64,
    /// Whether that byte is inside a line that was counted already.
    pub counted: bool,
}

/// Finds matching lines in output that comes in pieces.
#[derive(Debug)]
pub struct Scanner {
    patterns: Vec<String>,
    search: Search,
    /// How many bytes of a line are held.
    most_held: usize,
    /// How many bytes it has read, from the beginning of the output.
    at: u64,
    /// The unfinished line.
    open: Open,
    found: Option<Found>,
    /// A buffer for the text of one line, kept between lines.
    text: String,
    /// A buffer for the lines of a piece without escape sequences.
    bare: Vec<u8>,
}

/// The unfinished line.
#[derive(Debug)]
enum Open {
    /// All its bytes; empty at the start of a line.
    Held(Vec<u8>),
    /// It is too long to be held.
    Long(Box<Long>),
    /// It was counted already. Its rest is skipped.
    Counted,
}

#[derive(Debug)]
struct Long {
    /// Its first bytes, for the quote.
    head: Vec<u8>,
    /// The number of its bytes so far.
    len: u64,
    decoder: Decoder,
    stripper: Stripper,
    /// The end of its text so far, in which a pattern can begin that continues in the next piece.
    tail: String,
}

impl Scanner {
    /// A scanner for these patterns that continues at `from`. An empty pattern, or one with a line end, is never found.
    pub fn new(patterns: &[String], from: Cursor) -> Self {
        Self {
            search: Search::new(patterns),
            patterns: patterns.to_vec(),
            most_held: LONGEST_HELD,
            at: from.upto,
            open: if from.counted { Open::Counted } else { Open::Held(Vec::new()) },
            found: None,
            text: String::new(),
            bare: Vec::new(),
        }
    }

    /// How many bytes it has read, from the beginning of the output.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Where another scanner has to begin to find the same lines from here on.
    pub fn cursor(&self) -> Cursor {
        let open = match &self.open {
            Open::Held(held) => held.len() as u64,
            Open::Long(long) => long.len,
            Open::Counted => return Cursor { upto: self.at, counted: true },
        };
        Cursor { upto: self.at - open, counted: false }
    }

    /// Begins again at `from`, and forgets all matches.
    pub fn restart(&mut self, from: Cursor) {
        self.open = if from.counted { Open::Counted } else { Open::Held(Vec::new()) };
        self.at = from.upto;
        self.found = None;
    }

    /// Whether there is an unfinished line that [`Scanner::settle`] would search.
    pub fn is_open(&self) -> bool {
        match &self.open {
            Open::Held(held) => !held.is_empty(),
            // It is searched whenever it grows.
            Open::Long(_) | Open::Counted => false,
        }
    }

    /// The matches that were not taken yet.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// Takes the matches.
    pub fn take(&mut self) -> Option<Found> {
        self.found.take()
    }

    /// Puts back matches that could not be used, or those of another scanner. Later matches are added to them.
    pub fn put_back(&mut self, found: Option<Found>) {
        self.found = found;
    }

    /// Reads the next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        let within_line = match &self.open {
            Open::Held(held) => !held.is_empty(),
            Open::Long(_) | Open::Counted => true,
        };
        if within_line {
            let end = memchr(b'\n', bytes);
            let (first, rest) = bytes.split_at(end.map_or(bytes.len(), |at| at + 1));
            self.continue_line(first, end.is_some());
            bytes = rest;
        }
        let whole = memrchr(b'\n', bytes).map_or(0, |last| last + 1);
        let (lines, rest) = bytes.split_at(whole);
        self.lines(lines, self.at);
        self.at += lines.len() as u64;
        if !rest.is_empty() {
            self.continue_line(rest, false);
        }
    }

    /// Counts the unfinished line if it matches, because it did not grow for a while. Later additions to it are ignored.
    pub fn settle(&mut self) {
        let Open::Held(held) = &mut self.open else { return };
        let held = std::mem::take(held);
        let text = so_far(&held, false);
        self.open = match self.search.find(text.as_bytes()) {
            Some(_) => {
                let start = self.at - held.len() as u64;
                self.count(start, 1, held.len(), text.as_bytes(), || so_far(&held, true));
                Open::Counted
            }
            None => Open::Held(held),
        };
    }

    /// Skips unknown bytes up to `to`. The next bytes count as a new line.
    pub fn skip_to(&mut self, to: u64) {
        self.open = Open::Held(Vec::new());
        self.at = to;
    }

    /// Reads more of the unfinished line: up to its end, or all bytes.
    fn continue_line(&mut self, bytes: &[u8], ends: bool) {
        match &mut self.open {
            Open::Counted => self.at += bytes.len() as u64,
            Open::Held(held) => {
                held.extend_from_slice(bytes);
                self.at += bytes.len() as u64;
                if ends {
                    let line = std::mem::take(held);
                    self.lines(&line, self.at - line.len() as u64);
                    self.open = Open::Held(reuse(line));
                    return;
                }
                if held.len() > self.most_held {
                    let line = std::mem::take(held);
                    self.at -= line.len() as u64;
                    let head = line[..self.most_held].to_vec();
                    let (decoder, stripper) = (Decoder::new(), Stripper::new());
                    self.open = Open::Long(Box::new(Long { head, len: 0, decoder, stripper, tail: String::new() }));
                    self.continue_long_line(&line, false);
                }
            }
            Open::Long(_) => self.continue_long_line(bytes, ends),
        }
        if ends {
            self.open = Open::Held(Vec::new());
        }
    }

    fn continue_long_line(&mut self, bytes: &[u8], ends: bool) {
        let Open::Long(long) = &mut self.open else { return };
        let start = self.at - long.len;
        self.at += bytes.len() as u64;
        long.len += bytes.len() as u64;
        let mut text = std::mem::take(&mut long.tail);
        let decoded = long.decoder.push(bytes.strip_suffix(b"\n").unwrap_or(bytes));
        text.push_str(&long.stripper.push(&decoded));
        if ends {
            text.push_str(&long.stripper.push(long.decoder.finish()));
            text.push_str(&long.stripper.finish());
        }
        if self.search.find(text.as_bytes()).is_some() {
            let (len, head) = (self.most_held + 1, std::mem::take(&mut long.head));
            self.count(start, 1, len, text.as_bytes(), || shown(&head));
            self.open = Open::Counted;
            return;
        }
        let mut from = text.len().saturating_sub(self.search.longest().saturating_sub(1));
        while !text.is_char_boundary(from) {
            from -= 1;
        }
        text.drain(..from);
        long.tail = text;
    }

    /// Searches whole lines, the first of which begins at `offset`.
    fn lines(&mut self, lines: &[u8], offset: u64) {
        let mut from = 0;
        while from < lines.len() {
            let start = match self.search.is_literal() {
                true => next_introducer(lines, from).map(|found| memrchr(b'\n', &lines[from..found]).map_or(from, |at| from + at + 1)),
                false => Some(from),
            };
            let plain = start.unwrap_or(lines.len());
            self.plain_lines(&lines[from..plain], offset + from as u64);
            from = plain;
            if start.is_some() {
                let end = memchr(b'\n', &lines[from..]).expect("whole lines have an end");
                let times = 1 + repeats(&lines[from..], end + 1);
                if self.search.is_literal() && times <= MAX_SINGLE_SEARCHES {
                    self.escaped_lines(&lines[from..], offset + from as u64);
                    break;
                }
                self.escaped_line(&lines[from..from + end], offset + from as u64, times);
                from += times * (end + 1);
            }
        }
        self.search.learn(lines);
    }

    /// Searches whole lines without escape sequences, as they came.
    fn plain_lines(&mut self, lines: &[u8], offset: u64) {
        let Some(end) = memchr(b'\n', lines) else { return };
        let mut from = 0;
        let times = 1 + repeats(lines, end + 1);
        if times > MAX_SINGLE_SEARCHES {
            if self.search.find(&lines[..end]).is_some() {
                self.count_line(&lines[..end], &lines[..end], offset, times);
            }
            from = times * (end + 1);
        }
        let mut hits = Hits::default();
        while let Some(hit) = hits.next(&mut self.search, lines, from) {
            let start = memrchr(b'\n', &lines[from..hit]).map_or(from, |at| from + at + 1);
            let end = hit + memchr(b'\n', &lines[hit..]).expect("whole lines have an end");
            let times = 1 + repeats(&lines[start..], end + 1 - start);
            self.count_line(&lines[start..end], &lines[start..end], offset + start as u64, times);
            from = start + times * (end + 1 - start);
        }
    }

    /// Counts a line that matches, and the identical lines after it.
    fn count_line(&mut self, line: &[u8], text: &[u8], offset: u64, times: usize) {
        let most = self.most_held;
        self.count(offset, times, line.len(), text, || shown(&line[..line.len().min(most)]));
    }

    /// Searches whole lines of which some have escape sequences. All are stripped at once, and lines that seem to match are checked again.
    fn escaped_lines(&mut self, lines: &[u8], offset: u64) {
        let mut bare = std::mem::take(&mut self.bare);
        bare.clear();
        strip_lines_into(lines, &mut bare);
        // The start of the same line, in the stripped and in the original bytes.
        let (mut at, mut raw) = (0, 0);
        let mut hits = Hits::default();
        while let Some(hit) = hits.next(&mut self.search, &bare, at) {
            let start = memrchr(b'\n', &bare[at..hit]).map_or(at, |end| at + end + 1);
            if let Some(before) = memchr_iter(b'\n', &bare[at..start]).count().checked_sub(1) {
                raw += memchr_iter(b'\n', &lines[raw..]).nth(before).expect("a line for each") + 1;
            }
            let len = memchr(b'\n', &bare[start..]).expect("whole lines have an end") + 1;
            let raw_len = memchr(b'\n', &lines[raw..]).expect("whole lines have an end") + 1;
            let times = 1 + repeats(&lines[raw..], raw_len);
            let (text, line) = (&bare[start..start + len - 1], &lines[raw..raw + raw_len - 1]);
            match text.is_ascii() {
                true => self.count_line(line, text, offset + raw as u64, times),
                // Two halves of a character around a sequence do not make a character in the text.
                false => self.escaped_line(line, offset + raw as u64, times),
            }
            (at, raw) = (start + times * len, raw + times * raw_len);
        }
        self.bare = bare;
    }

    /// Searches a line with escape sequences.
    fn escaped_line(&mut self, line: &[u8], offset: u64, times: usize) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        strip_into(&String::from_utf8_lossy(line), &mut text);
        if self.search.find(text.as_bytes()).is_some() {
            self.count_line(line, text.as_bytes(), offset, times);
        }
        self.text = text;
    }

    /// Counts a line of `len` bytes at `offset`, and the identical lines after it. `text` has the pattern; `shown` gives the quote.
    fn count(&mut self, offset: u64, times: usize, len: usize, text: &[u8], shown: impl FnOnce() -> String) {
        let is_long = len > self.most_held;
        let found =
            self.found.get_or_insert_with(|| Found { cut: false, ..Found::unquoted(offset, which(&self.patterns, text, is_long), 0) });
        found.count += times as u64;
        if found.is_full() {
            found.cut = true;
            return;
        }
        let (shown, hit) = located(&self.patterns, shown(), is_long, || which(&self.patterns, text, is_long));
        for _ in 0..times.min(MOST_LINES + 1) {
            found.quote(&shown, hit, is_long);
        }
    }
}

/// The first pattern in the list that is in the text. For a line that is not held: the pattern that ends first.
fn which(patterns: &[String], text: &[u8], is_long: bool) -> usize {
    let ends = patterns.iter().enumerate().filter(|(_, p)| !p.is_empty()).filter_map(|(n, p)| {
        let at = memchr::memmem::find(text, p.as_bytes())?;
        Some((if is_long { at + p.len() } else { 0 }, n))
    });
    ends.min().map_or(0, |(_, n)| n)
}

/// How often the first `len` bytes are repeated directly after themselves.
fn repeats(lines: &[u8], len: usize) -> usize {
    /// How many bytes are compared at once.
    const BLOCK: usize = 256;
    if lines.get(len..2 * len) != Some(&lines[..len]) {
        return 0;
    }
    let mut same = 2 * len;
    while same + BLOCK <= lines.len() && lines[same..same + BLOCK] == lines[same - len..same - len + BLOCK] {
        same += BLOCK;
    }
    while same < lines.len() && lines[same] == lines[same - len] {
        same += 1;
    }
    same / len - 1
}

/// A line as a reader sees it.
fn shown(line: &[u8]) -> String {
    let decoded = String::from_utf8_lossy(line);
    let mut out = String::new();
    strip_into(&collapse(&decoded), &mut out);
    out
}

/// The text of an unfinished line, without an unfinished character or sequence at its end.
fn so_far(line: &[u8], collapsed: bool) -> String {
    let decoded = Decoder::new().push(line).into_owned();
    let text = if collapsed { collapse(&decoded) } else { decoded.as_str().into() };
    Stripper::new().push(&text).into_owned()
}

/// Keeps a line's buffer for the next line, unless it is large.
fn reuse(mut line: Vec<u8>) -> Vec<u8> {
    line.clear();
    line.shrink_to(4 << 10);
    line
}

#[cfg(test)]
mod tests;
