//! Moves output from the command to the log so that each byte is always in a pipe or in the log, never only in memory.
//!
//! ```text
//! splice   output → spool          the kernel moves pages; a kill leaves each byte on one side or the other
//! tee      spool → copy → memory   the spool keeps them
//! write    at the committed end    again after a kill: the same bytes at the same place
//! commit   one store in `meta`     from here on they are in the log
//! drop     spool → /dev/null       again after a kill, until only what was not copied is left
//! ```
//!
//! If `splice` or `tee` is refused, bytes are read and written, and in between they are in memory only. Flags in `meta` say that this is
//! so, and that a pump may have died with such bytes.
//!
//! Decisions 6 and 156: docs/decisions/keeper.md.

use crate::pair::Pair;
use crate::tty::Questions;
use crate::watch::Watch;
use outlast_core::{GapWhy, Record};
use outlast_store::lines::LineIndex;
use outlast_store::meta::{Commit, flag};
use outlast_store::os::{boottime_ns, now};
use outlast_store::points;
use outlast_store::segments::LogWriter;
use outlast_store::times::{TimeNote, TimeWriter};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// How much is moved at once: what a pipe holds.
const BATCH: usize = 64 << 10;
/// How many bytes of answers may wait for a program that does not read them.
const MOST_ANSWERS: usize = 4 << 10;

/// The least time between two notes of when output came.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// What one step found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Bytes; there may be more.
    Some,
    /// Nothing to read now.
    Empty,
    /// Nobody can write any more. On a terminal: nobody has it open now.
    Closed,
}

/// The pump's own half of the way.
#[derive(Debug)]
pub(crate) struct Mover {
    log: LogWriter,
    memory: Vec<u8>,
    questions: Questions,
    /// What is looked for in the output, if anything is.
    pub(crate) watch: Option<Watch>,
    /// Answers to the terminal's questions that are not in the input yet.
    pub(crate) answers: Vec<u8>,
    /// Up to which byte of the log questions were looked for.
    pub(crate) asked_to: u64,
    times: TimeWriter,
    /// The last note of when output came, or the start, on the clock that counts sleep of the machine. A pump that takes over does not know it, and begins with a
    /// note.
    noted_ns: Option<u64>,
}

impl Mover {
    /// Goes on where the last pump stopped.
    pub(crate) fn new(pair: &Pair) -> Self {
        if pair.live().has(flag::IN_HAND) {
            // The previous pump was killed while bytes were in its memory, or right before it read some.
            pair.live().set(flag::MAYBE_LOST);
            pair.live().flags.fetch_and(!flag::IN_HAND, SeqCst);
        }
        let mut mover = Self {
            log: LogWriter::open(&pair.dir, pair.settings.keep),
            memory: Vec::new(),
            questions: Questions::default(),
            watch: None,
            answers: Vec::new(),
            asked_to: 0,
            times: TimeWriter::default(),
            noted_ns: None,
        };
        if pair.live().pump_deaths.load(SeqCst) == 0 {
            pair.live().set(flag::TIMED);
            mover.noted_ns = Some(boottime_ns());
        } else {
            mover.times = TimeWriter::open(&pair.dir);
        }
        if let (commit, true) = pair.live().commit() {
            drop_committed(pair, commit);
        }
        // What the last pump had copied for itself is of no use: the spool has it.
        empty(&pair.copy);
        mover.ask_again(pair);
        mover.watch = Watch::resume(pair);
        mover
    }

    /// One batch.
    pub(crate) fn step(&mut self, pair: &Pair, journal: &mut dyn FnMut(&Record)) -> Moved {
        if pair.live().has(flag::BY_HAND) {
            return self.step_by_hand(pair, journal);
        }
        if pair.spool.filled() == 0 {
            let Some(out) = &pair.out else { return Moved::Closed };
            match rustix::pipe::splice(out, None, &pair.spool.w, None, BATCH, SpliceFlags::NONBLOCK | SpliceFlags::MOVE) {
                Ok(0) => return Moved::Closed,
                Ok(_) => {}
                Err(Errno::AGAIN | Errno::INTR) => return Moved::Empty,
                Err(Errno::IO) if pair.settings.pty => return Moved::Closed,
                // `splice` is refused, or this kind of file does not support it. That does not mean that the output has ended.
                Err(_) => return self.step_by_hand(pair, journal),
            }
            points::reach("pump.batch.spliced");
        }
        match self.batch(pair, journal) {
            Ok(()) => Moved::Some,
            Err(_) => self.step_by_hand(pair, journal),
        }
    }

    /// Moves one batch by reading and writing, the rest of the spool first.
    fn step_by_hand(&mut self, pair: &Pair, journal: &mut dyn FnMut(&Record)) -> Moved {
        let live = pair.live();
        live.set(flag::BY_HAND);
        let from = match &pair.out {
            _ if pair.spool.filled() > 0 => &pair.spool.r,
            Some(out) => out,
            None => return Moved::Closed,
        };
        self.memory.resize(BATCH, 0);
        live.set(flag::IN_HAND);
        points::reach("pump.hand.before");
        let read = rustix::io::read(from, &mut self.memory[..]);
        let moved = match read {
            Ok(n) if n > 0 => {
                self.memory.truncate(n);
                points::reach("pump.hand.read");
                self.write(pair, pair.spool.filled(), journal);
                Moved::Some
            }
            Ok(_) => Moved::Closed,
            Err(Errno::AGAIN | Errno::INTR) => Moved::Empty,
            Err(Errno::IO) if pair.settings.pty => Moved::Closed,
            Err(e) => {
                crate::complain(&pair.dir.path, format_args!("{}: cannot read its output: {e}", pair.id));
                live.set(flag::MAYBE_LOST);
                Moved::Closed
            }
        };
        live.flags.fetch_and(!flag::IN_HAND, SeqCst);
        moved
    }

    /// After the end, or where nobody has the terminal open: the kernel may say so while bytes are still on their way to us. Asking again,
    /// at once and twice after a moment, gets them.
    pub(crate) fn ask_terminal_again(&mut self, pair: &Pair, first: Moved, journal: &mut dyn FnMut(&Record)) -> Moved {
        let mut last = first;
        for wait in [Duration::ZERO, Duration::from_micros(500), Duration::from_millis(2)] {
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
            last = self.step(pair, journal);
            if last == Moved::Some {
                return last;
            }
        }
        last
    }

    /// Copies the spool's contents and writes them. On an error nothing was copied, and the spool still has them.
    fn batch(&mut self, pair: &Pair, journal: &mut dyn FnMut(&Record)) -> Result<(), Errno> {
        let spooled = pair.spool.filled() as usize;
        // Short where the copy has fewer slots than the spool (pipes shrink for a user who has many): then the rest stays for the next batch.
        let copied = match rustix::pipe::tee(&pair.spool.r, &pair.copy.w, spooled, SpliceFlags::NONBLOCK) {
            Ok(n) => n,
            Err(Errno::INTR) => return Ok(()),
            Err(e) => return Err(e),
        };
        points::reach("pump.batch.teed");
        self.memory.resize(copied, 0);
        let mut got = 0;
        while got < copied {
            match rustix::io::read(&pair.copy.r, &mut self.memory[got..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(n) => got += n,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if got < copied {
            // Cannot happen with a pipe we alone read; if it does, the spool still has everything.
            empty(&pair.copy);
            return Ok(());
        }
        self.write(pair, (spooled - copied) as u64, journal);
        Ok(())
    }

    /// Writes the bytes in memory, commits them, and drops them from the spool, where `remain` bytes stay.
    fn write(&mut self, pair: &Pair, remain: u64, journal: &mut dyn FnMut(&Record)) {
        let live = pair.live();
        let (was, _) = live.commit();
        // Before the commit, so that a reader that sees the bytes finds their time.
        self.note_time(pair, was.base);
        let written = match pair.meta.saves_gaps() {
            true => self.log.write_at(was.base, &self.memory).map_err(|failure| failure.written),
            false => Err(0),
        };
        if let Err(written) = written {
            let (from, to) = (was.base + written as u64, was.base + self.memory.len() as u64);
            // A full disk stops nobody: what could not be written is counted and told.
            if pair.meta.record_gap(from, to).is_ok() {
                journal(&Record::Gap { at: outlast_store::os::now(), from, to, why: GapWhy::DiskFull });
            }
        }
        points::reach("pump.batch.written");
        let next = self.scan(pair, was, remain);
        live.begin_drop(next);
        points::reach("pump.batch.committed");
        drop_committed(pair, next);
        points::reach("pump.batch.dropped");
        if let Some(watch) = &mut self.watch {
            watch.see(pair, was.base, &self.memory);
        }
        // Old segments that could not be removed are tried again with the next one.
        let _later = self.log.retain(next.base);
    }

    /// Notes when the output that begins at `byte` came, unless the last note was a moment ago.
    fn note_time(&mut self, pair: &Pair, byte: u64) {
        let is_recent = |at: u64| Duration::from_nanos(boottime_ns().saturating_sub(at)) < NOTE_EVERY;
        if self.noted_ns.is_some_and(is_recent) || !pair.live().has(flag::TIMED) {
            return;
        }
        self.noted_ns = Some(boottime_ns());
        if self.times.note(&pair.dir, TimeNote { byte, at: now() }).is_err() {
            // Readers would take these bytes for older than they are. They are told that times are not known.
            pair.live().flags.fetch_and(!flag::TIMED, SeqCst);
        }
    }

    /// The bytes pass through memory once: lines are counted and a terminal's questions found.
    fn scan(&mut self, pair: &Pair, was: Commit, remain: u64) -> Commit {
        let keep = pair.settings.keep;
        let base = was.base + self.memory.len() as u64;
        let (mut at, mut lines) = (was.base, was.lines);
        let mut rest = &self.memory[..];
        loop {
            let (first, len) = keep.segment_of(at);
            let here = rest.len().min(usize::try_from(first + len - at).unwrap_or(usize::MAX));
            lines += memchr::memchr_iter(b'\n', &rest[..here]).count() as u64;
            (at, rest) = (at + here as u64, &rest[here..]);
            if at == first + len {
                // Without the note line numbers become approximate, and readers say so.
                let _full_disk = LineIndex::note(&pair.dir, keep.index_of(at), lines);
            }
            if rest.is_empty() {
                break;
            }
        }
        let mut answered = was.answered;
        if pair.settings.pty {
            // A program that asks and asks and reads no answer is not remembered for ever.
            if !pair.live().has(flag::SCAN_OFF) && self.answers.len() < MOST_ANSWERS {
                self.answers.extend(self.questions.answers(&self.memory, size(pair)));
            }
            self.asked_to = base - self.questions.held() as u64;
            if self.answers.is_empty() {
                answered = self.asked_to;
            }
        }
        Commit { base, lines, answered, remain }
    }

    /// Questions whose answers the last pump had not passed on.
    fn ask_again(&mut self, pair: &Pair) {
        let (commit, _) = pair.live().commit();
        let answered = commit.answered.max(pair.live().answered.load(SeqCst));
        self.asked_to = commit.base;
        if !pair.settings.pty || answered >= commit.base || pair.live().has(flag::SCAN_OFF) {
            return;
        }
        let reader = outlast_store::segments::LogReader::open(&pair.dir, pair.settings.keep);
        // A question is short and recent; what is further back was answered or given up.
        let from = answered.max(commit.base.saturating_sub(BATCH as u64));
        if let Ok(outlast_store::segments::Chunk::Bytes { bytes, .. }) = reader.read(from, commit.base, BATCH, &[]) {
            self.answers = self.questions.answers(&bytes, size(pair));
            self.asked_to = commit.base - self.questions.held() as u64;
        }
    }

    /// Has the log on disk. A power cut after this takes nothing of it.
    pub(crate) fn sync(&self) {
        // The record of the end has its own sync; a log that is shorter than it says is shown as a gap.
        let _gap = self.log.sync();
    }
}

fn size(pair: &Pair) -> (u16, u16) {
    let size = pair.live().size.load(SeqCst);
    ((size >> 16) as u16, size as u16)
}

/// Drops from the spool what the log has.
fn drop_committed(pair: &Pair, commit: Commit) {
    loop {
        let left = pair.spool.filled().saturating_sub(commit.remain) as usize;
        if left == 0 {
            break;
        }
        match rustix::pipe::splice(&pair.spool.r, None, &pair.null, None, left, SpliceFlags::NONBLOCK | SpliceFlags::MOVE) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(_) | Err(Errno::INTR) => {}
            // `splice` is refused here. The bytes are in the log already, so they may pass through memory.
            Err(_) => match rustix::io::read(&pair.spool.r, &mut [0; 4096][..left.min(4096)]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            },
        }
    }
    pair.live().end_drop();
}

fn empty(pipe: &crate::pair::Pipe) {
    let mut rest = [0; 4096];
    while matches!(rustix::io::read(&pipe.r, &mut rest), Ok(n) if n > 0) {}
}
