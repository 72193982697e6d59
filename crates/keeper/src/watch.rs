//! Watched patterns: matches are found as output passes through memory, and are recorded in the journal once.
//!
//! ```text
//! search   the committed bytes       in the memory through which they pass
//! store    one store in `meta`       how far the search got and what it found: a kill from here on loses nothing
//! begin    one store in `meta`       where in the journal the record will be
//! append   to the journal            after a kill, the next pump looks there whether the record is complete
//! report   to listeners, or to a new engine
//! clear    one store in `meta`       no match waits any more
//! ```
//!
//! Decisions 67 and 170: docs/decisions/watch.md.

use crate::pair::Pair;
use outlast_core::{Matched, Record, Time};
use outlast_store::journal::{self, Journal};
use outlast_store::meta::{Waiting, Watched, flag};
use outlast_store::os::{boottime_ns, now};
use outlast_store::points;
use outlast_store::segments::{Chunk, LogReader};
use outlast_text::watch::{Cursor, Found, Scanner};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Matches within this time after a record are merged into the next record, while the journal is short.
const MERGED: Duration = Duration::from_secs(1);
/// From this length of the journal on, that time doubles with each [`DOUBLED_EVERY`] bytes. So a process that matches for days has a
/// journal of about 1 MiB. With the default limits, matches are no longer reported long before the journal has this length.
const MERGED_LONGER_FROM: u64 = 640 << 10;
const DOUBLED_EVERY: u64 = 16 << 10;
/// The longest time a match waits for its record.
const MERGED_AT_MOST: Duration = Duration::from_secs(60 * 60);
/// A line that stays unfinished for this long is searched as it is: it may be a prompt.
const STAYS: Duration = Duration::from_millis(200);
/// After this many deaths of pumps at the same place, their successors do not search any more.
const STUCK: u32 = 3;
/// How many bytes of the log are searched again at once.
const PIECE: usize = 64 << 10;

/// The pump's search.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Made with the first output: a process without output needs none.
    scanner: Option<Scanner>,
    /// When the first waiting match was observed.
    seen: Option<Waiting>,
    /// When a record was last written, or attempted.
    tried: Option<Instant>,
    /// How long a match waits after that.
    merged: Duration,
    /// Where the unfinished line begins, and when it will be searched.
    look: Option<(u64, Instant)>,
    /// Nothing more is searched; waiting matches are still recorded.
    over: bool,
}

impl Watch {
    /// Continues where the last pump stopped. `None` if there are no patterns.
    pub(crate) fn resume(pair: &Pair) -> Option<Self> {
        if pair.settings.watch.is_empty() {
            return None;
        }
        let mut watch = Self { scanner: None, seen: None, tried: None, merged: MERGED, look: None, over: false };
        let live = pair.live();
        if live.pump_deaths.load(SeqCst) > 0 {
            give_up_if_stuck(pair);
            watch.over = live.has(flag::RECORDED) || live.has(flag::SCAN_OFF);
            // A journal whose length cannot be read counts as short.
            watch.merged = merged_for(std::fs::metadata(pair.dir.journal()).map_or(0, |m| m.len()));
            watch.inherit(pair);
        }
        Some(watch)
    }

    /// Takes over the matches that the last pump found and did not record, and searches what it did not get to.
    fn inherit(&mut self, pair: &Pair) {
        let live = pair.live();
        let mut watched = live.watched();
        if is_written(pair, &watched) {
            watched = Watched { waiting: None, begun: None, ..watched };
            live.set_watched(&watched);
        }
        self.seen = watched.waiting;
        let (commit, _) = live.commit();
        let cursor = Cursor { upto: watched.upto, counted: watched.counted };
        if self.over {
            // The text is not read again: it may be the cause of the earlier deaths.
            let waiting = watched.waiting.map(|w| Found::unquoted(w.offset, w.pattern as usize, w.count));
            let mut idle = Scanner::new(&[], cursor);
            idle.put_back(waiting);
            self.scanner = Some(idle);
            return;
        }
        if commit.base == 0 {
            return;
        }
        let gaps = pair.meta.snapshot().map(|s| s.gaps).unwrap_or_default();
        let log = LogReader::open(&pair.dir, pair.settings.keep);
        let next = |scanner: &mut Scanner, to: u64| match log.read(scanner.at(), to, PIECE, &gaps) {
            Ok(Chunk::Bytes { bytes, .. }) => search(pair, scanner, &bytes),
            // Missing bytes cannot be searched. The gap is recorded.
            Ok(Chunk::Gap { to, .. }) => scanner.skip_to(to),
            Ok(Chunk::End) | Err(_) => scanner.skip_to(to),
        };
        let mut scanner = Scanner::new(&pair.settings.watch, cursor);
        if let Some(w) = watched.waiting {
            // Their number is known; the lines are read again.
            scanner.restart(Cursor { upto: w.offset, counted: false });
            while scanner.at() < watched.upto && !scanner.found().is_some_and(Found::is_full) {
                next(&mut scanner, watched.upto);
            }
            if watched.counted {
                scanner.settle();
            }
            let again = scanner.take().filter(|f| f.offset == w.offset);
            let found =
                again.map_or_else(|| Found::unquoted(w.offset, w.pattern as usize, w.count), |f| f.counted(w.pattern as usize, w.count));
            scanner.restart(cursor);
            scanner.put_back(Some(found));
        }
        while scanner.at() < commit.base {
            next(&mut scanner, commit.base);
            self.store(pair, &scanner, None);
        }
        self.look(&scanner);
        self.scanner = Some(scanner);
    }

    /// Searches the bytes that were just committed at `at`.
    pub(crate) fn see(&mut self, pair: &Pair, at: u64, bytes: &[u8]) {
        if self.over {
            return;
        }
        let mut scanner = self.scanner.take().unwrap_or_else(|| Scanner::new(&pair.settings.watch, Cursor { upto: at, counted: false }));
        debug_assert_eq!(scanner.at(), at);
        search(pair, &mut scanner, bytes);
        self.look(&scanner);
        self.store(pair, &scanner, None);
        self.scanner = Some(scanner);
        points::reach("matched.stored");
    }

    /// When something is due that no descriptor reports.
    pub(crate) fn due(&self) -> Option<Duration> {
        let write = self
            .scanner
            .as_ref()
            .and_then(Scanner::found)
            .map(|_| self.tried.map_or(Duration::ZERO, |t| self.merged.saturating_sub(t.elapsed())));
        let look = self.look.filter(|_| !self.over).map(|(_, at)| at.saturating_duration_since(Instant::now()));
        write.into_iter().chain(look).min()
    }

    /// Ignores everything from now on.
    pub(crate) fn end(&mut self) {
        self.over = true;
    }

    /// Records what was found, if it is time for that, or if this is the `last` chance before the end is recorded. Returns whether
    /// a record was written. It is reported next, and [`Watch::cleared`] comes after that.
    pub(crate) fn write(&mut self, pair: &Pair, journal: &mut Option<Journal>, last: bool) -> bool {
        let Some(mut scanner) = self.scanner.take() else { return false };
        if !self.over && (last || self.look.is_some_and(|(_, at)| at <= Instant::now())) {
            self.look = None;
            scanner.settle();
            self.store(pair, &scanner, None);
        }
        let due = last || self.tried.is_none_or(|t| t.elapsed() >= self.merged);
        let written = due && scanner.found().is_some() && self.append(pair, &scanner, journal);
        self.scanner = Some(scanner);
        written
    }

    /// The record was reported.
    pub(crate) fn cleared(&mut self, pair: &Pair) {
        let Some(mut scanner) = self.scanner.take() else { return };
        let _written = scanner.take();
        self.seen = None;
        self.store(pair, &scanner, None);
        self.scanner = Some(scanner);
        points::reach("matched.cleared");
    }

    fn append(&mut self, pair: &Pair, scanner: &Scanner, journal: &mut Option<Journal>) -> bool {
        self.tried = Some(Instant::now());
        let (Some(found), Some(seen)) = (scanner.found(), self.seen) else { return false };
        let record = Record::Matched(Matched {
            at: Time::from_micros(seen.at),
            up: seen.up,
            offset: found.offset,
            upto: scanner.cursor().upto,
            pattern: pair.settings.watch.get(found.pattern).cloned().unwrap_or_default(),
            count: found.count,
            lines: found.lines.clone(),
            cut: found.cut,
        });
        if journal.is_none() {
            *journal = Journal::open_for_append(&pair.dir).ok();
        }
        let Some(open) = journal else { return false };
        self.store(pair, scanner, Some(open.end()));
        points::reach("matched.before-append");
        if open.append(&record).is_err() {
            // The disk is full: the match waits in `meta`, more are added to it, and the record is tried again.
            *journal = None;
            return false;
        }
        self.merged = merged_for(open.end());
        points::reach("matched.after-append");
        true
    }

    /// Searches an unfinished line that did not change for a while. Bytes that are added to it do not delay that.
    fn look(&mut self, scanner: &Scanner) {
        let line = scanner.cursor().upto;
        self.look = match self.look {
            Some((same, at)) if same == line && scanner.is_open() => Some((same, at)),
            _ => scanner.is_open().then(|| (line, Instant::now() + STAYS)),
        };
    }

    fn store(&mut self, pair: &Pair, scanner: &Scanner, begun: Option<u64>) {
        let Cursor { upto, counted } = scanner.cursor();
        self.seen = scanner.found().map(|f| {
            let (at, up) = self.seen.map_or_else(|| (now().micros(), boottime_ns() / 1_000), |w| (w.at, w.up));
            Waiting { count: f.count, offset: f.offset, pattern: f.pattern as u32, at, up }
        });
        pair.live().set_watched(&Watched { upto, counted, waiting: self.seen, begun });
    }
}

/// How long matches are merged into one record, for a journal of this length.
fn merged_for(journal: u64) -> Duration {
    let doublings = journal.saturating_sub(MERGED_LONGER_FROM).div_ceil(DOUBLED_EVERY);
    MERGED.saturating_mul(1 << doublings.min(12)).min(MERGED_AT_MOST)
}

/// Whether the waiting match is in the journal: its record was begun there, and is complete.
fn is_written(pair: &Pair, watched: &Watched) -> bool {
    let (Some(waiting), Some(begun)) = (watched.waiting, watched.begun) else { return false };
    let Ok(read) = journal::read_from(&pair.dir.journal(), begun) else { return false };
    let first = read.records.first().map(|(_, record)| record);
    matches!(first, Some(Record::Matched(m)) if m.upto == watched.upto && m.offset == waiting.offset)
}

/// Skips output that crashes every pump that searches it; `poll` warns about that. The death of a pump elsewhere does not count.
fn give_up_if_stuck(pair: &Pair) {
    let live = pair.live();
    let at = live.watch_searching.swap(0, SeqCst);
    let again = live.watch_stuck_at.swap(at, SeqCst) == at;
    let stuck = match (at, again) {
        (0, _) => 0,
        (_, false) => 1,
        (_, true) => live.watch_stuck.load(SeqCst) + 1,
    };
    live.watch_stuck.store(stuck, SeqCst);
    if stuck >= STUCK {
        live.set(flag::SCAN_OFF);
    }
}

/// Searches, and stores beforehand where it searches, in case that crashes the pump.
fn search(pair: &Pair, scanner: &mut Scanner, bytes: &[u8]) {
    let searching = &pair.live().watch_searching;
    searching.store(scanner.at() + 1, SeqCst);
    points::reach("matched.search");
    scanner.push(bytes);
    searching.store(0, SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::{Breaker, Limiter, MatchSeen, ProcessId, Rules, WatchDecision, watch};
    use outlast_store::dir::ProcessDir;

    const DAY: u64 = 86_400;

    /// Whether there is a match in a given tenth of a second of the day.
    type InTenth = fn(u64) -> bool;

    /// The records of matches at these times, in microseconds, each with a line of `chars` characters. `write` takes each record and
    /// returns the journal's length.
    fn merge(matches: impl Iterator<Item = u64>, chars: usize, merged: fn(u64) -> Duration, mut write: impl FnMut(Matched) -> u64) {
        let (mut tried, mut waiting, mut end) = (None::<u64>, None::<Matched>, 0);
        for up in matches {
            // A waiting record is written when its time has come, not only when the next match comes.
            let due = tried.map(|at| at + merged(end).as_micros() as u64);
            if let (Some(due), Some(found)) = (due.filter(|due| *due <= up), waiting.take_if(|_| due.is_some_and(|due| due <= up))) {
                (end, tried) = (write(found), Some(due));
            }
            let found = waiting.get_or_insert_with(|| Matched {
                at: Time::from_micros(up as i64),
                up,
                offset: up,
                upto: up,
                pattern: "ERROR".into(),
                count: 0,
                lines: vec!["x".repeat(chars)],
                cut: false,
            });
            found.count += 1;
            if tried.is_none_or(|at| at + merged(end).as_micros() as u64 <= up) {
                (end, tried) = (waiting.take().map_or(end, &mut write), Some(up));
            }
        }
        waiting.map(write);
    }

    /// The records of a day in a real journal, and its length.
    fn journal(matches: impl Iterator<Item = u64>, chars: usize) -> (Vec<Matched>, u64) {
        let tmp = tempfile::tempdir().unwrap();
        let mut journal = Journal::open_for_append(&ProcessDir { path: tmp.path().to_owned() }).unwrap();
        merge(matches, chars, merged_for, |matched| journal.append(&Record::Matched(matched)).unwrap());
        let read = journal::read_from(&tmp.path().join("journal"), 0).unwrap();
        assert!(!read.more && read.cursor == journal.end());
        let matched = |(_, record)| if let Record::Matched(matched) = record { Some(matched) } else { None };
        (read.records.into_iter().filter_map(matched).collect(), journal.end())
    }

    fn told(records: &[Matched]) -> Vec<(u64, WatchDecision)> {
        let (rules, mut limiter, mut breaker) = (Rules::default(), Limiter::default(), Breaker::default());
        let process = ProcessId::from_bytes([1; 6]);
        let judge = |m: &Matched| {
            let seen = MatchSeen { up: m.up, here: Some(m.up), process, session: "s", count: m.count };
            watch(&rules, &mut limiter, &mut breaker, &seen).into_iter().map(|verdict| (m.up, verdict)).collect::<Vec<_>>()
        };
        records.iter().flat_map(judge).collect()
    }

    #[test]
    fn a_day_of_matches_is_a_mebibyte_and_tells_the_same() {
        let cases: [(&str, InTenth); 4] = [
            ("ten a second", |_| true),
            ("one a second", |tenth| tenth % 10 == 0),
            ("one in 20 seconds", |tenth| tenth % 200 == 0),
            // Two full windows and one with a single match, again and again: the most records there can be before the limits stop the
            // reports.
            ("in turns", |tenth| tenth % 10 == 0 && tenth / 10 % 46 <= 30),
        ];
        for (name, is_match) in cases {
            let matches = || (0..DAY * 10).filter(|tenth| is_match(*tenth)).map(|tenth| tenth * 100_000);
            for chars in [10, 2_000] {
                let (bounded, length) = journal(matches(), chars);
                assert!(length <= 1 << 20, "{name}, {chars} characters: {length} bytes");
                let mut all = Vec::new();
                merge(
                    matches(),
                    0,
                    |_| MERGED,
                    |matched| {
                        all.push(matched);
                        0
                    },
                );
                let count = |records: &[Matched]| records.iter().map(|m| m.count).sum::<u64>();
                assert_eq!([count(&bounded), count(&all)], [matches().count() as u64; 2], "{name}");
                assert_eq!(told(&bounded), told(&all), "{name}");
                println!("{name}, {chars} characters: {length} bytes in {} records instead of {}", bounded.len(), all.len());
            }
        }
    }

    #[test]
    fn what_is_found_waits_for_an_hour_at_most() {
        assert_eq!([0, 640 << 10].map(merged_for), [MERGED; 2]);
        assert_eq!(merged_for((640 << 10) + 1), Duration::from_secs(2));
        assert_eq!(merged_for(656 << 10), Duration::from_secs(2));
        assert_eq!([1 << 20, 190 << 20, u64::MAX].map(merged_for), [MERGED_AT_MOST; 3]);
    }
}
