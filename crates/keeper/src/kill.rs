//! Stops the tree: the command first, then the rest, then whatever is left, for good.
//!
//! The leader alone is asked first, so that a program which shuts its own children down gets to do it, and a shell cannot go on to its next
//! command because its current one was killed. Once it is gone, or half the grace is, everybody is asked. At the end of the grace all are
//! killed, and killed again until none is found. How far this has come lies in `meta`: a new pump goes on with it.
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
/// How long after the hard kill a survivor may still be on its way out.
const SETTLE: Duration = Duration::from_millis(900);
/// How often a tree is looked at while it dies: an orphan's end is told to its heir, which may be the other keeper.
const LOOK: Duration = Duration::from_millis(5);
/// The first time: most are gone as soon as they are asked. From then on twice as long each time, up to the usual.
const FIRST_LOOK: Duration = Duration::from_micros(300);

/// How a stop ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stopped {
    pub(crate) seen_dead: u32,
    pub(crate) survivors: Vec<u32>,
    /// Why the disk refused the record of it, if it did.
    pub(crate) unrecorded: Option<String>,
}

/// A stop under way in this pump.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    seen: BTreeSet<u32>,
    /// How often it was looked at.
    looks: u32,
    last_look: u64,
    empty_looks: u32,
    /// Why the disk refused the record of it, if it did. It is carried out all the same.
    unrecorded: Option<String>,
}

/// What became of a request to stop.
pub(crate) enum Begun {
    /// It is under way.
    UnderWay,
    /// The leader was signalled, and that is all that was asked for.
    Signalled {
        /// Why the disk refused the record of it, if it did.
        unrecorded: Option<String>,
    },
    /// It had ended before.
    AlreadyEnded,
    /// What a command leaves running is stopped once its end is recorded, and that is not the case.
    NotEnded,
}

impl Stopping {
    /// Takes a request to stop: on record first, then the first signal.
    pub(crate) fn begin(&mut self, pair: &Pair, stop: &Stop, journal: impl FnOnce(&Record)) -> Begun {
        let live = pair.live();
        let Some(cmd) = &pair.cmd else { return Begun::AlreadyEnded };
        // Dead already, though perhaps nobody has published it: then it ended of its own, and stays so.
        if live.wait_status().is_some() || os::is_over(cmd.as_fd()) {
            return Begun::AlreadyEnded;
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
                return Begun::Signalled { unrecorded: self.unrecorded.take() };
            }
            StopWay::Escalate { grace } => u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX),
        };
        self.set_times(pair, grace);
        if grace > 0 {
            ask(pair);
        }
        Begun::UnderWay
    }

    /// Takes a request to stop what is left of the tree of a command that has ended: on record first, then the first signals. How the command ended stays
    /// as it is recorded, so the place for the stop in `meta` is left alone.
    pub(crate) fn begin_left(&mut self, pair: &Pair, stop: &Stop, journal: impl FnOnce(&Record)) -> Begun {
        let live = pair.live();
        if !live.has(flag::RECORDED) {
            return Begun::NotEnded;
        }
        journal(&Record::StopAsked { at: now(), stop: stop.clone() });
        let grace = match stop.way {
            StopWay::TermOnly => {
                let members = tree::members(pair);
                tree::signal_all(pair, &members, libc::SIGTERM);
                tree::signal_all(pair, &members, libc::SIGCONT);
                return Begun::Signalled { unrecorded: None };
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
        Begun::UnderWay
    }

    /// Sets when all are asked and when they are killed. A repeated request may bring that forward, never put it off.
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
        // Before anybody is asked: who is gone at the first look would not be among those seen to die.
        self.seen.extend(tree::members(pair));
        live.stop_step.fetch_max(LEADER_ASKED, SeqCst);
    }

    /// Does what is due. The result, once there is one.
    pub(crate) fn go_on(&mut self, pair: &Pair) -> Option<Stopped> {
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
        // Without a leaf a single look may miss one that moves: only the second empty one counts.
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
            // Said after it was done: a new pump asks them again rather than not at all.
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

    /// How long after the last look the next one is.
    fn pause(&self) -> Duration {
        FIRST_LOOK.saturating_mul(1 << self.looks.min(8)).min(LOOK)
    }

    /// Kills everybody, also those born while it is done. Who was still there.
    fn kill(&mut self, pair: &Pair, mut members: BTreeSet<u32>) -> Vec<u32> {
        if tree::leaf_of_ours_alone(pair).is_some_and(|leaf| leaf.kill().is_ok()) {
            self.seen.extend(members.iter().copied());
        } else {
            // What is stopped cannot fork: once a look finds nobody new, the set is whole.
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
            // The leader at least, though it may have been gone before the first look.
            live.stop_dead.fetch_max(1, SeqCst);
            live.set(flag::STOP_DONE);
        } else {
            // It goes on, and can be stopped again.
            live.stop_step.store(0, SeqCst);
        }
        Stopped { seen_dead: live.stop_dead.load(SeqCst), survivors, unrecorded: self.unrecorded.take() }
    }
}

/// Asks the leader to end. One that is stopped cannot act on TERM until it is continued.
fn ask(pair: &Pair) {
    if let Some(cmd) = &pair.cmd {
        for number in [libc::SIGTERM, libc::SIGCONT] {
            // Gone meanwhile: that is what was wanted.
            let _gone = os::send(cmd.as_fd(), number);
        }
    }
}
