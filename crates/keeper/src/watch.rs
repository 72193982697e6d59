//! What the process is watched for: found as its output passes, and written into the journal once.
//!
//! ```text
//! search   what was just committed   in the memory through which it passes
//! store    one store in `meta`       how far it was searched, and what was found: a kill from here on loses nothing
//! begin    one store in `meta`       where in the journal the record will be
//! append   to the journal            whoever comes after a kill looks there whether it is whole
//! tell     listeners, or an engine
//! clear    one store in `meta`       nothing waits any more
//! ```

use crate::pair::Pair;
use outlast_core::{Matched, Record, Time};
use outlast_store::journal::{self, Journal};
use outlast_store::meta::{Snapshot, Waiting, Watched, flag};
use outlast_store::os::{boottime_ns, now};
use outlast_store::points;
use outlast_store::segments::{Chunk, LogReader};
use outlast_text::watch::{Cursor, Found, Scanner};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// What is found within this time after a record waits for the next one.
const MERGED: Duration = Duration::from_secs(1);
/// A line that stays unfinished for so long is looked at as it is: it may be a prompt.
const STAYS: Duration = Duration::from_millis(200);
/// How often a pump may die at the same place before its heirs search no more.
const STUCK: u32 = 3;
/// How much of the log is searched again at once.
const PIECE: usize = 64 << 10;

/// The pump's search.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Made with the first output: a process that says nothing costs nothing.
    scanner: Option<Scanner>,
    /// When the first match that waits was seen.
    seen: Option<Waiting>,
    /// When a record was last written, or tried.
    tried: Option<Instant>,
    /// Where the unfinished line begins, and when it is looked at.
    look: Option<(u64, Instant)>,
    /// Nothing more is searched; what waits is still written.
    over: bool,
}

impl Watch {
    /// Goes on where the last pump stopped. `None` if there is nothing to look for.
    pub(crate) fn resume(pair: &Pair) -> Option<Self> {
        if pair.settings.watch.is_empty() {
            return None;
        }
        let mut watch = Self { scanner: None, seen: None, tried: None, look: None, over: false };
        let live = pair.live();
        if live.pump_deaths.load(SeqCst) > 0 {
            give_up_if_stuck(pair);
            watch.over = live.has(flag::RECORDED) || live.has(flag::SCAN_OFF);
            watch.inherit(pair);
        }
        Some(watch)
    }

    /// What the last pump found and did not write, and what it did not get to.
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
            // Not even for its text: that may be what made the others die.
            let waiting = watched.waiting.map(|w| Found::unquoted(w.offset, w.pattern as usize, w.count));
            let mut idle = Scanner::new(&[], cursor);
            idle.put_back(waiting);
            self.scanner = Some(idle);
            return;
        }
        if commit.base == 0 {
            return;
        }
        let gaps = Snapshot::read(&pair.dir).map(|s| s.gaps).unwrap_or_default();
        let log = LogReader::open(&pair.dir, pair.settings.keep);
        let next = |scanner: &mut Scanner, to: u64| match log.read(scanner.at(), to, PIECE, &gaps) {
            Ok(Chunk::Bytes { bytes, .. }) => search(pair, scanner, &bytes),
            // What is not there any more cannot be searched; that it is missing is on record.
            Ok(Chunk::Gap { to, .. }) => scanner.skip_to(to),
            Ok(Chunk::End) | Err(_) => scanner.skip_to(to),
        };
        let mut scanner = Scanner::new(&pair.settings.watch, cursor);
        if let Some(w) = watched.waiting {
            // How many is known; which lines they were is read again.
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

    /// What was just committed at `at`.
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

    /// When something is to be done that no descriptor tells of.
    pub(crate) fn due(&self) -> Option<Duration> {
        let write = self
            .scanner
            .as_ref()
            .and_then(Scanner::found)
            .map(|_| self.tried.map_or(Duration::ZERO, |t| MERGED.saturating_sub(t.elapsed())));
        let look = self.look.filter(|_| !self.over).map(|(_, at)| at.saturating_duration_since(Instant::now()));
        write.into_iter().chain(look).min()
    }

    /// Nothing that comes from now on counts.
    pub(crate) fn end(&mut self) {
        self.over = true;
    }

    /// Writes down what was found, if it is time for that, or if this is the `last` chance before the end is recorded. Whether a record was written;
    /// it is told next, and [`Watch::cleared`] after that.
    pub(crate) fn write(&mut self, pair: &Pair, journal: &mut Option<Journal>, last: bool) -> bool {
        let Some(mut scanner) = self.scanner.take() else { return false };
        if !self.over && (last || self.look.is_some_and(|(_, at)| at <= Instant::now())) {
            self.look = None;
            scanner.settle();
            self.store(pair, &scanner, None);
        }
        let due = last || self.tried.is_none_or(|t| t.elapsed() >= MERGED);
        let written = due && scanner.found().is_some() && self.append(pair, &scanner, journal);
        self.scanner = Some(scanner);
        written
    }

    /// The record was told.
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
            // A full disk: it waits in `meta`, grows there, and is tried again.
            *journal = None;
            return false;
        }
        points::reach("matched.after-append");
        true
    }

    /// An unfinished line is looked at when it has stayed so; what was added to it does not put that off.
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

/// Whether what waits is in the journal: a record of it was begun there, and is whole.
fn is_written(pair: &Pair, watched: &Watched) -> bool {
    let (Some(waiting), Some(begun)) = (watched.waiting, watched.begun) else { return false };
    let Ok(read) = journal::read_from(&pair.dir.journal(), begun) else { return false };
    let first = read.records.first().map(|(_, record)| record);
    matches!(first, Some(Record::Matched(m)) if m.upto == watched.upto && m.offset == waiting.offset)
}

/// Output that makes every pump die that searches it is moved, and searched no more. `poll` says so. A pump that died elsewhere has nothing to do with it.
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

/// Searches, and leaves word where, should it be the last thing it does.
fn search(pair: &Pair, scanner: &mut Scanner, bytes: &[u8]) {
    let searching = &pair.live().watch_searching;
    searching.store(scanner.at() + 1, SeqCst);
    points::reach("matched.search");
    scanner.push(bytes);
    searching.store(0, SeqCst);
}
