//! Lines that hold what a process is watched for.
//!
//! A line ends at `\n` and at nothing else. What is searched is its text, decoded and without escape sequences; with carriage returns in it, everything that
//! was drawn counts. How the bytes were cut into pieces changes nothing: a pattern, a character or an escape sequence may lie across two reads.
//!
//! Most output matches nothing and most of it has no escapes, so whole pieces are searched as they came, and only the lines of hits are looked at.
//!
//! Decision 66: docs/decisions/watch.md.

mod search;

use crate::collapse::collapse;
use crate::decode::Decoder;
use crate::escape::next_introducer;
use crate::strip::{Stripper, strip_into, strip_lines_into};
use memchr::{memchr, memchr_iter, memrchr};
use search::{Hits, Search};

/// How many lines are quoted at most.
pub const MOST_LINES: usize = 20;
/// How many characters are quoted at most, line ends between them included.
pub const MOST_CHARS: usize = 2_000;
/// How much of a line is held until it ends. A longer one is searched as it comes, and quoted from its first bytes.
pub const LONGEST_HELD: usize = 64 << 10;
/// A line that comes more often than this in a row is looked at once.
const ONE_LOOK: usize = 4;

/// Lines that matched since they were last taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The byte at which the first of them begins.
    pub offset: u64,
    /// The pattern that the first of them holds, by its place in the list; the first in the list if there are several.
    pub pattern: usize,
    /// How many lines.
    pub count: u64,
    /// The first of them, as a reader would see them, without blanks at their ends.
    pub lines: Vec<String>,
    /// Whether the last of `lines` was cut, or more lines would have followed.
    pub cut: bool,
    /// Characters in `lines`, with those between them.
    chars: usize,
}

impl Found {
    /// Lines of which nothing can be quoted.
    pub fn unquoted(offset: u64, pattern: usize, count: u64) -> Self {
        Self { offset, pattern, count, lines: Vec::new(), cut: count > 0, chars: 0 }
    }

    /// The same lines, known to be so many and to begin with this pattern.
    pub fn counted(self, pattern: usize, count: u64) -> Self {
        Self { pattern, count, cut: self.cut || count > self.count, ..self }
    }

    /// Whether nothing more would be quoted.
    pub fn is_full(&self) -> bool {
        self.lines.len() == MOST_LINES || self.chars >= MOST_CHARS
    }

    fn quote(&mut self, text: &str, cut: bool) {
        if self.is_full() {
            self.cut = true;
            return;
        }
        let between = usize::from(!self.lines.is_empty());
        let room = MOST_CHARS - self.chars - between;
        let text = text.trim_end();
        let (kept, cut_here) = match text.char_indices().nth(room) {
            Some((at, _)) => (&text[..at], true),
            None => (text, false),
        };
        self.chars += between + kept.chars().count();
        self.lines.push(kept.to_owned());
        self.cut |= cut || cut_here;
    }
}

/// Where another scanner can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    /// The byte from which on it has to see everything again.
    pub upto: u64,
    /// Whether that byte is in the middle of a line that counts already.
    pub counted: bool,
}

/// Finds lines in output that comes in pieces.
#[derive(Debug)]
pub struct Scanner {
    patterns: Vec<String>,
    search: Search,
    /// How much of a line is held.
    most_held: usize,
    /// How many bytes it has seen, from the beginning of the output.
    at: u64,
    /// The unfinished line.
    open: Open,
    found: Option<Found>,
    /// Room for one line's text, kept between lines.
    text: String,
    /// Room for the lines of a piece without their escape sequences.
    bare: Vec<u8>,
}

/// The line whose end has not come yet.
#[derive(Debug)]
enum Open {
    /// Held whole; empty at the start of a line.
    Held(Vec<u8>),
    /// Too long for that.
    Long(Box<Long>),
    /// Counts already. The rest of it is passed over.
    Counted,
}

#[derive(Debug)]
struct Long {
    /// Its first bytes, for the quote.
    head: Vec<u8>,
    /// All of its bytes so far.
    len: u64,
    decoder: Decoder,
    stripper: Stripper,
    /// The end of its text so far, as long as a pattern can reach into what comes next.
    tail: String,
}

impl Scanner {
    /// A scanner for these patterns that goes on at `from`. A pattern that is empty or has a line end in it is never found.
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

    /// How many bytes it has seen, from the beginning of the output.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Where another scanner would have to begin to find what this one will find.
    pub fn cursor(&self) -> Cursor {
        let open = match &self.open {
            Open::Held(held) => held.len() as u64,
            Open::Long(long) => long.len,
            Open::Counted => return Cursor { upto: self.at, counted: true },
        };
        Cursor { upto: self.at - open, counted: false }
    }

    /// Begins anew at `from`, with nothing found.
    pub fn restart(&mut self, from: Cursor) {
        self.open = if from.counted { Open::Counted } else { Open::Held(Vec::new()) };
        self.at = from.upto;
        self.found = None;
    }

    /// Whether there is an unfinished line that [`Scanner::settle`] would look at.
    pub fn is_open(&self) -> bool {
        match &self.open {
            Open::Held(held) => !held.is_empty(),
            // Looked at whenever it grows.
            Open::Long(_) | Open::Counted => false,
        }
    }

    /// What was found and not taken yet.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// Takes what was found.
    pub fn take(&mut self) -> Option<Found> {
        self.found.take()
    }

    /// Puts back what could not be used now, or what another scanner had found. What is found next is added to it.
    pub fn put_back(&mut self, found: Option<Found>) {
        self.found = found;
    }

    /// The next bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        let within_line = match &self.open {
            Open::Held(held) => !held.is_empty(),
            Open::Long(_) | Open::Counted => true,
        };
        if within_line {
            let end = memchr(b'\n', bytes);
            let (first, rest) = bytes.split_at(end.map_or(bytes.len(), |at| at + 1));
            self.go_on(first, end.is_some());
            bytes = rest;
        }
        let whole = memrchr(b'\n', bytes).map_or(0, |last| last + 1);
        let (lines, rest) = bytes.split_at(whole);
        self.lines(lines, self.at);
        self.at += lines.len() as u64;
        if !rest.is_empty() {
            self.go_on(rest, false);
        }
    }

    /// The unfinished line has stayed so: counts it if it matches. What is added to it later changes nothing then.
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

    /// Nothing is known of the bytes up to `to`. What comes then is taken for a new line.
    pub fn skip_to(&mut self, to: u64) {
        self.open = Open::Held(Vec::new());
        self.at = to;
    }

    /// More of the unfinished line: up to its end, or all there is.
    fn go_on(&mut self, bytes: &[u8], ends: bool) {
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
                    self.go_on_long(&line, false);
                }
            }
            Open::Long(_) => self.go_on_long(bytes, ends),
        }
        if ends {
            self.open = Open::Held(Vec::new());
        }
    }

    fn go_on_long(&mut self, bytes: &[u8], ends: bool) {
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

    /// Whole lines, the first of which begins at `offset`.
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
                if self.search.is_literal() && times <= ONE_LOOK {
                    self.dressed_lines(&lines[from..], offset + from as u64);
                    break;
                }
                self.dressed_line(&lines[from..from + end], offset + from as u64, times);
                from += times * (end + 1);
            }
        }
        self.search.learn(lines);
    }

    /// Whole lines without escape sequences: searched as they came.
    fn plain_lines(&mut self, lines: &[u8], offset: u64) {
        let Some(end) = memchr(b'\n', lines) else { return };
        let mut from = 0;
        let times = 1 + repeats(lines, end + 1);
        if times > ONE_LOOK {
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

    /// Counts a line that has a pattern in its text, and the lines like it behind it.
    fn count_line(&mut self, line: &[u8], text: &[u8], offset: u64, times: usize) {
        let most = self.most_held;
        self.count(offset, times, line.len(), text, || shown(&line[..line.len().min(most)]));
    }

    /// Whole lines of which some have escape sequences: all are stripped at once, and those that seem to match are looked at again.
    fn dressed_lines(&mut self, lines: &[u8], offset: u64) {
        let mut bare = std::mem::take(&mut self.bare);
        bare.clear();
        strip_lines_into(lines, &mut bare);
        // The starts of the same line, in what is searched and as it came.
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
                // Halves of a character to the left and right of a sequence are none in its text.
                false => self.dressed_line(line, offset + raw as u64, times),
            }
            (at, raw) = (start + times * len, raw + times * raw_len);
        }
        self.bare = bare;
    }

    /// A line with escape sequences in it.
    fn dressed_line(&mut self, line: &[u8], offset: u64, times: usize) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        strip_into(&String::from_utf8_lossy(line), &mut text);
        if self.search.find(text.as_bytes()).is_some() {
            self.count_line(line, text.as_bytes(), offset, times);
        }
        self.text = text;
    }

    /// Counts a line of `len` bytes at `offset`, and the lines like it behind it. `text` has the pattern in it; `shown` is what is quoted.
    fn count(&mut self, offset: u64, times: usize, len: usize, text: &[u8], shown: impl FnOnce() -> String) {
        let is_long = len > self.most_held;
        let found =
            self.found.get_or_insert_with(|| Found { cut: false, ..Found::unquoted(offset, which(&self.patterns, text, is_long), 0) });
        found.count += times as u64;
        if found.is_full() {
            found.cut = true;
            return;
        }
        let shown = shown();
        for _ in 0..times.min(MOST_LINES + 1) {
            found.quote(&shown, is_long);
        }
    }
}

/// The first pattern in the list that is in the text. Of a line that is not held whole: the one that was whole first.
fn which(patterns: &[String], text: &[u8], is_long: bool) -> usize {
    let ends = patterns.iter().enumerate().filter(|(_, p)| !p.is_empty()).filter_map(|(n, p)| {
        let at = memchr::memmem::find(text, p.as_bytes())?;
        Some((if is_long { at + p.len() } else { 0 }, n))
    });
    ends.min().map_or(0, |(_, n)| n)
}

/// How often the first `len` bytes come again right behind themselves.
fn repeats(lines: &[u8], len: usize) -> usize {
    /// Compared at once.
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

/// The text of an unfinished line. What is not whole at its end is left out: it may turn out to be none of the text.
fn so_far(line: &[u8], collapsed: bool) -> String {
    let decoded = Decoder::new().push(line).into_owned();
    let text = if collapsed { collapse(&decoded) } else { decoded.as_str().into() };
    Stripper::new().push(&text).into_owned()
}

/// The room of a line for the next, unless it is much.
fn reuse(mut line: Vec<u8>) -> Vec<u8> {
    line.clear();
    line.shrink_to(4 << 10);
    line
}

#[cfg(test)]
mod tests;
