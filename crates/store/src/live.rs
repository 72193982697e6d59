//! The part of `meta` that changes while the process lives.
//!
//! Each field is one atomic. A keeper that dies between two stores leaves a state from which the other continues: what belongs
//! together is in one word, or in a slot that a single store makes current.

use outlast_core::Incarnation;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering::SeqCst};

/// The offset of the live fields in `meta`.
pub(crate) const LIVE_AT: usize = 64;

/// Bits of [`Live::flags`].
pub mod flag {
    /// The command has been executed.
    pub const STARTED: u32 = 1;
    /// The record of the end is on disk.
    pub const RECORDED: u32 = 1 << 1;
    /// Every writer has closed the output, and all of it is in the log.
    pub const OUTPUT_CLOSED: u32 = 1 << 2;
    /// Nothing is left to do: the keepers may exit.
    pub const DONE: u32 = 1 << 3;
    /// The input is to be closed after everything that was written to it.
    pub const INPUT_CLOSE_ASKED: u32 = 1 << 4;
    /// The input is closed.
    pub const INPUT_CLOSED: u32 = 1 << 5;
    /// Scanning is off, because it crashed the pump repeatedly.
    pub const SCAN_OFF: u32 = 1 << 6;
    /// Another keeper failure could lose the exit status, but not the output.
    pub const OUTPUT_ONLY: u32 = 1 << 7;
    /// The command has a cgroup leaf of its own.
    pub const LEAF: u32 = 1 << 8;
    /// The command's time limit ended it.
    pub const DEADLINE: u32 = 1 << 9;
    /// The process has been reaped.
    pub const REAPED: u32 = 1 << 10;
    /// The remains of a stopped tree were searched for, and the stop is over.
    pub const STOP_DONE: u32 = 1 << 11;
    /// A terminal was requested and could not be allocated.
    pub const NO_PTY: u32 = 1 << 12;
    /// The keepers' own files are removed: the socket, and the cgroup leaf if it was empty.
    pub const CLEAN: u32 = 1 << 13;
    /// The request is on the engine's disk, so the command may be started.
    pub const GO: u32 = 1 << 14;
    /// `splice` or `tee` is refused, so a pump reads and writes the bytes, and holds them in its memory in between.
    pub const BY_HAND: u32 = 1 << 15;
    /// A pump holds such bytes in memory, or is about to read some.
    pub const IN_HAND: u32 = 1 << 16;
    /// A pump was killed while it held such bytes in memory, or right before it read some.
    pub const MAYBE_LOST: u32 = 1 << 17;
    /// The times of output are recorded, and no note failed to be written. Not set by keepers of earlier versions.
    pub const TIMED: u32 = 1 << 18;
}

/// How many descendants left running are recorded with their identity. Further ones are only counted, and found by their
/// environment.
pub const MAX_LEFT_RECORDED: usize = 16;

/// How far the log is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Commit {
    /// The length of the log.
    pub base: u64,
    /// The newlines in it.
    pub lines: u64,
    /// The offset up to which a terminal's queries were answered.
    pub answered: u64,
    /// Bytes that stay in the spool when the committed ones are dropped: those after a copy that was shorter than requested.
    pub remain: u64,
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) base: AtomicU64,
    pub(crate) lines: AtomicU64,
    pub(crate) answered: AtomicU64,
    pub(crate) remain: AtomicU64,
}

/// The live fields, in the layout of the file.
#[derive(Debug)]
#[repr(C)]
pub struct Live {
    /// Twice the number of commits, plus one while committed bytes are being dropped from the spool.
    pub(crate) commit: AtomicU64,
    pub(crate) slots: [Slot; 2],
    /// The command's pid, stored by the kernel before the command can run. 0: it was never started.
    pub cmd: AtomicI32,
    /// The holder's pid.
    pub holder: AtomicI32,
    /// The pump's pid.
    pub pump: AtomicI32,
    /// Bits of [`flag`].
    pub flags: AtomicU32,
    /// When the command's pid started, in ticks; 0 until that was read.
    pub cmd_ticks: AtomicU64,
    /// When the command was started, UTC microseconds.
    pub started_at: AtomicI64,
    /// Why it could not be executed: an errno.
    pub exec_errno: AtomicI32,
    /// The step of the start that failed.
    pub exec_step: AtomicU32,
    /// 0, or 2^32 plus the wait status; 2^33 if it ended and its status is unknown.
    pub status: AtomicU64,
    /// When the end was observed, UTC microseconds.
    pub ended_at: AtomicI64,
    /// When the output was found to be closed, UTC microseconds.
    pub closed_at: AtomicI64,
    /// Descendants that were alive when the output was found to be closed.
    pub left_running: AtomicU32,
    /// How often a pump was replaced.
    pub pump_deaths: AtomicU32,
    /// How often a holder was replaced.
    pub holder_deaths: AtomicU32,
    /// How often in a row a pump was replaced before it committed anything.
    pub stuck: AtomicU32,
    /// The commit count at the latest replacement of a pump.
    pub stuck_at: AtomicU64,
    /// Increases while the pump works.
    pub heartbeat: AtomicU64,
    /// Bytes that were moved from the input spool to the command.
    pub in_base: AtomicU64,
    /// Bytes that were ever written to the input spool; above `in_base` while some wait there.
    pub in_target: AtomicU64,
    /// How many bytes of the input, as callers count, were written to the spool.
    pub in_client: AtomicU64,
    /// How many bytes of the keeper's own answers were written to the spool.
    pub in_answers: AtomicU64,
    /// Whether the bytes that are being written to the spool are a caller's (1) or the keeper's answer (2).
    pub in_kind: AtomicU32,
    /// How far a stop has come: 0 not begun, 1 TERM sent to the leader, 2 TERM sent to all, 3 KILL sent.
    pub stop_step: AtomicU32,
    /// When TERM is due for all, nanoseconds since boot.
    pub stop_all: AtomicU64,
    /// When KILL is due for all, nanoseconds since boot.
    pub stop_due: AtomicU64,
    /// How many processes of the tree were observed to die.
    pub stop_dead: AtomicU32,
    /// Rows times 65,536 plus columns.
    pub size: AtomicU32,
    /// When its time limit ends, nanoseconds since boot; 0 for none.
    pub deadline: AtomicU64,
    /// How many entries of the gap table are in use.
    pub gaps: AtomicU32,
    /// How many bytes were dropped.
    pub dropped: AtomicU64,
    /// The offset in the log up to which a terminal's queries are answered by what was written to the spool.
    pub answered: AtomicU64,
    /// The same, once the bytes that are being written to the spool are in it.
    pub answering: AtomicU64,
    /// How often [`Live::set_watched`] was called: the low bit selects the current slot.
    pub(crate) watch: AtomicU64,
    pub(crate) watch_slots: [WatchSlot; 2],
    /// The offset from which on output is being searched, plus one; 0 while none is. After a pump has died, it says where it was.
    pub watch_searching: AtomicU64,
    /// Its value after the latest death of a pump.
    pub watch_stuck_at: AtomicU64,
    /// How often in a row it had that value.
    pub watch_stuck: AtomicU32,
    /// What an engine has stored of this process: see [`noted`]. Only engines write this field.
    pub noted: AtomicU64,
    /// 1 while an engine shows changes of this process that could not be saved to disk. If that engine dies, its clients may have
    /// seen them. Only engines write this field.
    pub shown_unsaved: AtomicU64,
    /// The pids of the descendants left running; 0 for none. Keepers of earlier versions recorded only their number.
    pub(crate) left_pids: [AtomicU32; MAX_LEFT_RECORDED],
    /// When each of them started, in ticks.
    pub(crate) left_ticks: [AtomicU64; MAX_LEFT_RECORDED],
}

/// The value of [`Live::noted`] for an engine that has stored the journal up to `journal`, and the end if `end`. Zero says nothing.
pub fn noted(journal: u64, end: bool) -> u64 {
    journal << 1 | u64::from(end)
}

/// How far the output was searched for watched patterns, and which matches are not in the journal yet. All zero: from the start,
/// and none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watched {
    /// The next pump searches from this offset on.
    pub upto: u64,
    /// Whether this offset is in the middle of a line that was counted already.
    pub counted: bool,
    /// The matches that wait to be recorded.
    pub waiting: Option<Waiting>,
    /// Where in the journal their record was begun. If it holds a record of matches up to `upto`, they are in it.
    pub begun: Option<u64>,
}

/// Matches that are not yet in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// How many lines matched.
    pub count: u64,
    /// The offset of the first of them.
    pub offset: u64,
    /// The index of its pattern in the request.
    pub pattern: u32,
    /// When it was observed, UTC microseconds.
    pub at: i64,
    /// When it was observed, microseconds since boot.
    pub up: u64,
}

#[derive(Debug)]
#[repr(C)]
pub(crate) struct WatchSlot {
    pub(crate) upto: AtomicU64,
    /// 0 for none.
    pub(crate) count: AtomicU64,
    pub(crate) offset: AtomicU64,
    pub(crate) at: AtomicI64,
    pub(crate) up: AtomicU64,
    /// The offset plus one; 0 for none.
    pub(crate) begun: AtomicU64,
    pub(crate) pattern: AtomicU32,
    pub(crate) counted: AtomicU32,
}

impl Live {
    /// The state of the log, and whether committed bytes may still be in the spool.
    pub fn commit(&self) -> (Commit, bool) {
        let word = self.commit.load(SeqCst);
        (self.slots[(word >> 1 & 1) as usize].get(), word & 1 == 1)
    }

    /// Commits: from the single store inside on, the log has that length, and the committed bytes in the spool are to be dropped.
    pub fn begin_drop(&self, next: Commit) {
        let number = (self.commit.load(SeqCst) >> 1) + 1;
        self.slots[(number & 1) as usize].set(next);
        self.commit.store(number << 1 | 1, SeqCst);
    }

    /// The spool is empty again.
    pub fn end_drop(&self) {
        self.commit.fetch_and(!1, SeqCst);
    }

    /// How far the output was searched.
    pub fn watched(&self) -> Watched {
        self.watch_slots[(self.watch.load(SeqCst) & 1) as usize].get()
    }

    /// Stores atomically how far the output was searched, and which matches wait.
    pub fn set_watched(&self, watched: &Watched) {
        let number = self.watch.load(SeqCst).wrapping_add(1);
        self.watch_slots[(number & 1) as usize].set(watched);
        self.watch.store(number, SeqCst);
    }

    /// Whether an engine has stored the journal up to `journal`, and the end if `end`.
    pub fn is_noted(&self, journal: u64, end: bool) -> bool {
        let noted = self.noted.load(SeqCst);
        noted >> 1 >= journal && (!end || noted & 1 == 1)
    }

    /// How many commits there were.
    pub fn commits(&self) -> u64 {
        self.commit.load(SeqCst) >> 1
    }

    /// Whether all `bits` are set.
    pub fn has(&self, bits: u32) -> bool {
        self.flags.load(SeqCst) & bits == bits
    }

    /// Sets `bits`. Returns whether this call was the first to set one of them.
    pub fn set(&self, bits: u32) -> bool {
        self.flags.fetch_or(bits, SeqCst) & bits != bits
    }

    /// Stores which descendants are left running, and how many there are.
    pub fn set_left(&self, left: &[Incarnation]) {
        for n in 0..MAX_LEFT_RECORDED {
            let (pid, ticks) = left.get(n).map_or((0, 0), |of| (of.pid, of.start_ticks));
            // While the pid is 0, no reader combines it with the start time of another.
            self.left_pids[n].store(0, SeqCst);
            self.left_ticks[n].store(ticks, SeqCst);
            self.left_pids[n].store(pid, SeqCst);
        }
        self.left_running.store(u32::try_from(left.len()).unwrap_or(u32::MAX), SeqCst);
    }

    /// The wait status, once the end was observed. `Some(None)`: it is unknown.
    pub fn wait_status(&self) -> Option<Option<i32>> {
        match self.status.load(SeqCst) {
            0 => None,
            s if s >> 33 != 0 => Some(None),
            s => Some(Some(s as u32 as i32)),
        }
    }

    /// Publishes how the command ended. The first published status stands. The time is stored before it, so a reader of the status
    /// finds a time.
    pub fn publish_status(&self, status: Option<i32>, at_micros: i64) {
        let _first = self.ended_at.compare_exchange(0, at_micros, SeqCst, SeqCst);
        let word = status.map_or(1 << 33, |s| 1 << 32 | u64::from(s as u32));
        let _first = self.status.compare_exchange(0, word, SeqCst, SeqCst);
    }
}

impl Slot {
    fn get(&self) -> Commit {
        Commit {
            base: self.base.load(SeqCst),
            lines: self.lines.load(SeqCst),
            answered: self.answered.load(SeqCst),
            remain: self.remain.load(SeqCst),
        }
    }
    fn set(&self, c: Commit) {
        self.base.store(c.base, SeqCst);
        self.lines.store(c.lines, SeqCst);
        self.answered.store(c.answered, SeqCst);
        self.remain.store(c.remain, SeqCst);
    }
}

impl WatchSlot {
    fn get(&self) -> Watched {
        let waiting = Waiting {
            count: self.count.load(SeqCst),
            offset: self.offset.load(SeqCst),
            pattern: self.pattern.load(SeqCst),
            at: self.at.load(SeqCst),
            up: self.up.load(SeqCst),
        };
        Watched {
            upto: self.upto.load(SeqCst),
            counted: self.counted.load(SeqCst) != 0,
            waiting: (waiting.count > 0).then_some(waiting),
            begun: self.begun.load(SeqCst).checked_sub(1),
        }
    }

    fn set(&self, w: &Watched) {
        let waiting = w.waiting.unwrap_or(Waiting { count: 0, offset: 0, pattern: 0, at: 0, up: 0 });
        self.upto.store(w.upto, SeqCst);
        self.counted.store(w.counted.into(), SeqCst);
        self.count.store(waiting.count, SeqCst);
        self.offset.store(waiting.offset, SeqCst);
        self.pattern.store(waiting.pattern, SeqCst);
        self.at.store(waiting.at, SeqCst);
        self.up.store(waiting.up, SeqCst);
        self.begun.store(w.begun.map_or(0, |b| b + 1), SeqCst);
    }
}
