//! Finds runs of similar lines: one for each compiled file, each passed test, each percent done.

use super::Hole;
use super::severity::{Severity, severity};
use std::collections::HashMap;

/// A part of a log that is kept or left out as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct LogItem {
    /// The index of its first line.
    pub(super) first: usize,
    /// How many lines it has.
    pub(super) lines: usize,
    /// Its severity.
    pub(super) severity: Severity,
    /// A hash of its line without numbers and names.
    pub(super) shape: u64,
    /// Whether these are the inner lines of a run, which are never shown.
    pub(super) folded: bool,
}

/// Splits a log into items: the inner lines of a run are one item, and every other line is its own. No run crosses a hole.
pub(super) fn items(lines: &[&str], holes: &[Hole]) -> Vec<LogItem> {
    let mut items = Vec::new();
    let ends = holes.iter().map(|hole| hole.at.min(lines.len())).chain([lines.len()]);
    ends.fold(0, |start, end| {
        let whole = unbroken(&lines[start..end]).into_iter().map(|item| LogItem { first: start + item.first, ..item });
        items.extend(whole);
        end
    });
    items
}

fn unbroken(lines: &[&str]) -> Vec<LogItem> {
    let mut known = KnownLooks::default();
    let looks: Vec<(Severity, u64)> = lines.iter().map(|line| known.look(line)).collect();
    let mut items = Vec::new();
    let mut at = 0;
    let one = |first: usize| LogItem { first, lines: 1, severity: looks[first].0, shape: looks[first].1, folded: false };
    while at < lines.len() {
        let Some(run) = longest_run(&looks, at) else {
            items.push(one(at));
            at += 1;
            continue;
        };
        let same = run.period == 1 && lines[at..at + run.len].iter().all(|line| *line == lines[at]);
        // For identical lines the first is enough. For a progress the first and the last are shown.
        let (head, tail) = (run.period, if same { 0 } else { run.period });
        let folded = run.len - head - tail;
        if folded < MIN_FOLDED_LINES {
            items.extend((at..at + run.len).map(one));
        } else {
            items.extend((at..at + head).map(one));
            items.push(LogItem { first: at + head, lines: folded, severity: Severity::Plain, shape: 0, folded: true });
            items.extend((at + head + folded..at + run.len).map(one));
        }
        at += run.len;
    }
    items
}

/// Fewer lines cost no more than the marker in their place.
const MIN_FOLDED_LINES: usize = 3;
/// The most lines that may alternate in a run.
const MAX_PERIOD: usize = 4;
/// How often they have to repeat.
const MIN_REPEATS: usize = 3;

struct Run {
    period: usize,
    len: usize,
}

/// The longest run that begins at a line. The lines that this reads are part of the run or among the few after it, so all runs together
/// take linear time.
fn longest_run(looks: &[(Severity, u64)], at: usize) -> Option<Run> {
    let mut best: Option<Run> = None;
    for period in 1..=MAX_PERIOD {
        let ahead = looks[at..].iter().zip(&looks[(at + period).min(looks.len())..]);
        let len = period + ahead.take_while(|(one, other)| one == other).count();
        if len >= period * MIN_REPEATS && best.as_ref().is_none_or(|b| len > b.len + b.period) {
            best = Some(Run { period, len });
        }
    }
    best
}

/// The looks of short lines. A log with millions of lines has many that are the same.
#[derive(Default)]
struct KnownLooks<'a>(HashMap<&'a str, (Severity, u64)>);

/// Longer lines are seldom the same, and there are fewer of them.
const SHORT_LINE_BYTES: usize = 32;
/// The most lines whose looks are remembered.
const MAX_KNOWN_LOOKS: usize = 4_096;

impl<'a> KnownLooks<'a> {
    fn look(&mut self, line: &'a str) -> (Severity, u64) {
        if line.len() > SHORT_LINE_BYTES {
            return look(line);
        }
        if let Some(known) = self.0.get(line) {
            return *known;
        }
        let look = look(line);
        if self.0.len() < MAX_KNOWN_LOOKS {
            self.0.insert(line, look);
        }
        look
    }
}

fn look(line: &str) -> (Severity, u64) {
    let severity = severity(line);
    (severity, shape(line, severity))
}

/// A hash of a line's form: equal for lines that differ only in numbers, and for plain lines about steps of the same kind.
fn shape(line: &str, severity: Severity) -> u64 {
    let mut hash = Fnv::new();
    let mut text = &line[..crate::cut::boundary(line, COMPARED_BYTES)];
    if severity == Severity::Plain
        && let Some(kind) = kind_of_step(text)
    {
        hash.add(b'\x01');
        kind.bytes().for_each(|b| hash.add(b));
        return hash.0;
    }
    text = text.trim();
    let mut last = 0;
    let mut rest = text.as_bytes();
    while let Some(&byte) = rest.first() {
        let word = rest.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
        if word > 0 {
            // A word with a digit: a version, a size, a hash.
            match rest[..word].iter().any(u8::is_ascii_digit) {
                true => hash.add(b'0'),
                false => rest[..word].iter().for_each(|b| hash.add(*b)),
            }
            last = 0;
            rest = &rest[word..];
            continue;
        }
        // A progress bar or a ruler counts as one character.
        let byte = if matches!(byte, b'=' | b'>' | b'#') { b'=' } else { byte };
        if byte != last {
            hash.add(byte);
        }
        last = byte;
        rest = &rest[1..];
    }
    hash.0
}

/// How many bytes of a line are compared.
const COMPARED_BYTES: usize = 512;

/// The kind of step that a line reports, if it is one that tools print for each file, test or package.
fn kind_of_step(line: &str) -> Option<&str> {
    let text = line.trim();
    let end = text.strip_suffix(']').and_then(|t| t.rsplit_once('[')).map_or(text, |(before, _)| before.trim_end());
    if let Some(kind) = ["... ok", " PASSED", " PASS", " UP-TO-DATE", " passed", " SKIPPED"].into_iter().find(|e| end.ends_with(e)) {
        return Some(kind);
    }
    if let Some(kind) = [
        "✓",
        "✔",
        "--- PASS",
        "=== RUN",
        "=== PAUSE",
        "=== CONT",
        "ok: [",
        "changed: [",
        "skipping: [",
        "-- ",
        "[DEBUG]",
        "npm http ",
        "npm verbose ",
        "npm silly ",
        "PASS ",
    ]
    .into_iter()
    .find(|s| text.starts_with(s))
    {
        return Some(kind);
    }
    // The first word after a count, a percentage or a bracket.
    let mut words = text.split_whitespace();
    let first = words.find(|w| w.bytes().any(|b| b.is_ascii_alphabetic()) && !w.starts_with(['[', '(']))?;
    let first = first.trim_end_matches([':', '.']);
    let first = first.split_once(':').filter(|(_, n)| n.bytes().all(|b| b.is_ascii_digit())).map_or(first, |(word, _)| word);
    let first = first.rsplit('/').next().unwrap_or(first);
    if first.len() <= MAX_STEP_BYTES && STEPS.iter().flat_map(|line| line.split('|')).any(|step| step.eq_ignore_ascii_case(first)) {
        return Some(first);
    }
    // A bare path, as `tar`, `rsync` and `unzip` print it.
    (text.contains('/') && !text.contains(char::is_whitespace)).then_some("/")
}

const MAX_STEP_BYTES: usize = 16;

/// The first words of lines about steps, separated by `|`.
const STEPS: &[&str] = &[
    "adding|ar|building|c++|cc|checking|clang|collecting|compiling|copying|creating|cxx|deleting|documenting|downloaded|",
    "downloading|extracting|fetching|g++|gcc|generating|get|hit|inflating|installing|ld|libtool|linking|mkdir|moving|perl|",
    "pre-processing|preparing|processing|ranlib|removing|requirement|resolving|rm|running|selecting|setting|testing|unpacking|",
    "updating|using|writing",
];

struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, byte: u8) {
        self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> Vec<(usize, usize)> {
        let lines: Vec<&str> = text.lines().collect();
        items(&lines, &[]).iter().filter(|i| i.folded).map(|i| (i.first, i.lines)).collect()
    }

    #[test]
    fn a_run_keeps_where_it_began_and_how_far_it_came() {
        let progress: String = (0..=100).map(|n| format!("{n:3}% [{}>]\n", "=".repeat(n / 4))).collect();
        assert_eq!(folded(&format!("begin\n{progress}end\n")), [(2, 99)]);
        assert_eq!(folded(&"same\n".repeat(10)), [(1, 9)]);
        assert_eq!(
            folded("   Compiling a v1.0.0\n   Compiling bc v2.1.0\n   Compiling d-e v0.1.0\n   Compiling f v1.0.0\n   Compiling g v1\n"),
            [(1, 3)]
        );
    }

    #[test]
    fn lines_that_take_turns_are_a_run() {
        let apt: String =
            ["libc6", "gcc", "make", "perl"].iter().map(|p| format!("Preparing to unpack {p}.deb ...\nUnpacking {p} ...\n")).collect();
        assert_eq!(folded(&apt), [(2, 4)]);
    }

    #[test]
    fn different_errors_are_no_run() {
        assert_eq!(folded("error: one\nerror: two\nerror: three\nerror: four\nerror: five\n"), []);
        let again: String = (0..9).map(|n| format!("12:00:0{n} ERROR connection refused, attempt {n}\n")).collect();
        assert_eq!(folded(&again), [(1, 7)]);
    }

    #[test]
    fn few_lines_are_not_worth_a_marker() {
        assert_eq!(folded("a 1\na 2\na 3\na 4\n"), []);
    }
}
