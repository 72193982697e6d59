//! Stops the tree: first the command, then the rest, then KILL for all that is left.
//!
//! TERM goes to the leader alone at first. A program that shuts its own children down can do so, and a shell cannot start its next
//! command because its current one was killed. Once the leader has ended, or half the grace has passed, all processes get TERM. At
//! the end of the grace all get KILL, repeatedly until none is found. `meta` records how far a stop has come, so a new pump
//! continues it.
//!
//! Decision 30: docs/decisions/stop.md.

use crate::os;
use crate::pair::Pair;
use crate::tree;
use outlast_core::{Cause, Record, Stop, StopWay};
use outlast_store::meta::flag;
use outlast_store::os::{boottime_ns, now};
use outlast_store::points;
use rustix::fd::AsFd;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

const LEADER_ASKED: u32 = 1;
const ALL_ASKED: u32 = 2;
const KILLED: u32 = 3;
/// How long after KILL a survivor may still be exiting.
const SETTLE: Duration = Duration::from_millis(900);
/// The longest pause between two looks at a tree that is dying: an orphan's end is reported to its new parent, which may be the
/// other keeper.
const LOOK: Duration = Duration::from_millis(5);
/// The first pause: most processes end as soon as they get TERM. Each pause is twice as long as the one before, up to [`LOOK`].
const FIRST_LOOK: Duration = Duration::from_micros(300);

/// How a stop ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stopped {
    pub(crate) seen_dead: u32,
    pub(crate) survivors: Vec<u32>,
    /// Why the record of the stop could not be written, if it could not.
    pub(crate) unrecorded: Option<String>,
}

/// A stop that this pump carries out.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    seen: BTreeSet<u32>,
    /// How many looks there were.
    looks: u32,
    last_look: u64,
    empty_looks: u32,
    /// Why the record of the stop could not be written, if it could not. The stop is carried out all the same.
    unrecorded: Option<String>,
}

/// The result of a request to stop.
pub(crate) enum StopBegun {
    /// The stop is in progress.
    UnderWay,
    /// The leader got TERM, and the request wants no more than that.
    Signalled {
        /// Why the record of the stop could not be written, if it could not.
        unrecorded: Option<String>,
    },
    /// The command had ended before.
    AlreadyEnded,
    /// The descendants of an ended command can be stopped only once its end is recorded, and it is not.
    NotEnded,
}

impl Stopping {
    /// Accepts a request to stop: first records it, then sends the first signal.
    pub(crate) fn begin(&mut self, pair: &Pair, stop: &Stop, journal: impl FnOnce(&Record)) -> StopBegun {
        let live = pair.live();
        let Some(cmd) = &pair.cmd else { return StopBegun::AlreadyEnded };
        // It is dead already, although its status may not be published yet: it ended on its own.
        if live.wait_status().is_some() || os::is_over(cmd.as_fd()) {
            return StopBegun::AlreadyEnded;
        }
        let at = now();
        if live.stop_step.load(SeqCst) == 0 {
            self.unrecorded = pair.meta.record_stop(stop, at).err().map(|e| e.to_string());
            if matches!(stop.cause, Cause::Deadline) {
                live.set(flag::DEADLINE);
            }
        }
        journal(&Record::StopAsked { at, stop: stop.clone() });
        let grace = match stop.way {
            StopWay::TermOnly => {
                ask(pair);
                return StopBegun::Signalled { unrecorded: self.unrecorded.take() };
            }
            StopWay::Escalate { grace } => u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX),
        };
        self.set_times(pair, grace);
        if grace > 0 {
            ask(pair);
        }
        StopBegun::UnderWay
    }

    /// Accepts a request to stop the descendants of an ended command: first records it, then sends the first signals. The recorded
    /// end of the command must not change, so the stop is not written to `meta`.
    pub(crate) fn begin_left(&mut self, pair: &Pair, stop: &Stop, journal: impl FnOnce(&Record)) -> StopBegun {
        let live = pair.live();
        if !live.has(flag::RECORDED) {
            return StopBegun::NotEnded;
        }
        journal(&Record::StopAsked { at: now(), stop: stop.clone() });
        let grace = match stop.way {
            StopWay::TermOnly => {
                let members = tree::members(pair);
                tree::signal_all(pair, &members, libc::SIGTERM);
                tree::signal_all(pair, &members, libc::SIGCONT);
                return StopBegun::Signalled { unrecorded: None };
            }
            StopWay::Escalate { grace } => u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX),
        };
        if live.stop_step.load(SeqCst) == 0 || live.has(flag::STOP_DONE) {
            live.stop_dead.store(0, SeqCst);
            live.stop_step.store(0, SeqCst);
            live.flags.fetch_and(!flag::STOP_DONE, SeqCst);
        }
        self.set_times(pair, grace);
        self.unrecorded = pair.meta.save().err().map(|e| e.to_string());
        points::reach("pump.left.asked");
        StopBegun::UnderWay
    }

    /// Sets the times for TERM and KILL to all. A repeated request may move them forward, never back.
    fn set_times(&mut self, pair: &Pair, grace: u64) {
        let live = pair.live();
        let (time, under_way) = (boottime_ns(), live.stop_step.load(SeqCst) != 0);
        for (at, when) in [(&live.stop_all, time.saturating_add(grace / 2)), (&live.stop_due, time.saturating_add(grace))] {
            if under_way {
                at.fetch_min(when, SeqCst);
            } else {
                at.store(when, SeqCst);
            }
        }
        live.flags.fetch_and(!flag::STOP_DONE, SeqCst);
        (self.last_look, self.looks, self.empty_looks) = (0, 0, 0);
        // Before any signal: a process that is gone at the first look would not be counted as observed to die.
        self.seen.extend(tree::members(pair));
        live.stop_step.fetch_max(LEADER_ASKED, SeqCst);
    }

    /// Does what is due. Returns the result once the stop is over.
    pub(crate) fn advance(&mut self, pair: &Pair) -> Option<Stopped> {
        let live = pair.live();
        let step = live.stop_step.load(SeqCst);
        if step == 0 || live.has(flag::STOP_DONE) {
            return None;
        }
        let time = boottime_ns();
        if time.saturating_sub(self.last_look) < self.pause().as_nanos() as u64 {
            return None;
        }
        self.last_look = time;
        self.looks = self.looks.saturating_add(1);
        let (all, due) = (live.stop_all.load(SeqCst), live.stop_due.load(SeqCst));
        let leader_gone = live.wait_status().is_some();
        let members = tree::members(pair);
        self.count_dead(pair, &members);
        // Without a leaf, a single look may miss a process that moves. Only the second empty look counts.
        self.empty_looks = if members.is_empty() && leader_gone { self.empty_looks + 1 } else { 0 };
        if self.empty_looks >= if pair.leaf().is_some() { 1 } else { 2 } {
            return Some(self.finish(pair, Vec::new()));
        }
        if time >= due {
            if step != KILLED {
                self.looks = 0;
            }
            live.stop_step.store(KILLED, SeqCst);
            let survivors = self.kill(pair, members);
            if time >= due.saturating_add(SETTLE.as_nanos() as u64) {
                return Some(self.finish(pair, survivors));
            }
        } else if step == LEADER_ASKED && (leader_gone || time >= all) {
            tree::signal_all(pair, &members, libc::SIGTERM);
            tree::signal_all(pair, &members, libc::SIGCONT);
            points::reach("pump.stop.asked");
            // Recorded after the signals: a new pump sends them again rather than not at all.
            live.stop_step.store(ALL_ASKED, SeqCst);
            self.looks = 0;
        }
        None
    }

    /// When to look again.
    pub(crate) fn due(&self, pair: &Pair) -> Option<Duration> {
        let live = pair.live();
        (live.stop_step.load(SeqCst) != 0 && !live.has(flag::STOP_DONE)).then(|| self.pause())
    }

    /// The pause between the last look and the next one.
    fn pause(&self) -> Duration {
        FIRST_LOOK.saturating_mul(1 << self.looks.min(8)).min(LOOK)
    }

    /// Kills all members, also those that are forked meanwhile. Returns those that were still there.
    fn kill(&mut self, pair: &Pair, mut members: BTreeSet<u32>) -> Vec<u32> {
        if tree::leaf_of_ours_alone(pair).is_some_and(|leaf| leaf.kill().is_ok()) {
            self.seen.extend(members.iter().copied());
        } else {
            // A suspended process cannot fork: once a look finds no new process, the set is complete.
            for _ in 0..64 {
                tree::signal_all(pair, &members, libc::SIGSTOP);
                let again = tree::members(pair);
                let grew = again.iter().any(|p| !members.contains(p));
                members.extend(again);
                if !grew {
                    break;
                }
            }
        }
        self.seen.extend(members.iter().copied());
        tree::signal_all(pair, &members, libc::SIGKILL);
        members.into_iter().filter(|p| tree::handle(pair, *p).is_some()).collect()
    }

    fn count_dead(&mut self, pair: &Pair, members: &BTreeSet<u32>) {
        self.seen.extend(members.iter().copied());
        let dead = self.seen.iter().filter(|p| !members.contains(p)).count();
        pair.live().stop_dead.fetch_max(dead as u32, SeqCst);
    }

    fn finish(&mut self, pair: &Pair, survivors: Vec<u32>) -> Stopped {
        let live = pair.live();
        if survivors.is_empty() {
            // At least the leader, even if it was gone before the first look.
            live.stop_dead.fetch_max(1, SeqCst);
            live.set(flag::STOP_DONE);
        } else {
            // The stop has failed: the process keeps running, and can be stopped again.
            live.stop_step.store(0, SeqCst);
        }
        Stopped { seen_dead: live.stop_dead.load(SeqCst), survivors, unrecorded: self.unrecorded.take() }
    }
}

/// Sends TERM to the leader. A suspended leader cannot act on TERM until it is continued.
fn ask(pair: &Pair) {
    if let Some(cmd) = &pair.cmd {
        for number in [libc::SIGTERM, libc::SIGCONT] {
            // It may be gone already.
            let _gone = outlast_store::os::send(cmd.as_fd(), number);
        }
    }
}
