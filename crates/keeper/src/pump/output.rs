//! The output and the end of the command: its output is moved to the log, and then its end is recorded.

use super::{CLOSING, Pump, append, is_ready};
use crate::copy_output::Moved;
use crate::{end, spawn, tree};
use outlast_core::{Record, Role};
use outlast_store::meta::flag;
use outlast_store::os::{is_busy, now};
use outlast_store::points;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// If a command ends sooner than this, its end is recorded without delay.
const SETTLE: Duration = Duration::from_millis(5);
/// How long an engine may take to store its notice of an end before the pump continues without it.
const ENGINE_FIRST: Duration = Duration::from_millis(2);
/// How many batches are moved before other events are handled.
const TURN: usize = 32;
/// How long a descendant may be busy after the output was closed before it counts as left running: most programs close their
/// output, then exit.
const LEFT_BUSY: Duration = Duration::from_millis(250);
/// The pause between two looks at a busy descendant. A descriptor reports its end, but none reports that it rests.
pub(super) const LEFT_LOOK: Duration = Duration::from_millis(1);
/// How long a stream that never runs empty may delay the record of the end.
const DRAIN: Duration = Duration::from_millis(250);

impl Pump<'_> {
    /// Once the command was executed, or could not be: reports that to the waiting engine, and removes the secrets from the
    /// request.
    pub(super) fn report(&mut self) {
        let Some(executed) = &self.pair.executed else { return };
        let live = self.pair.live();
        let never_forked = live.cmd.load(SeqCst) == 0 && live.wait_status().is_some();
        if live.cmd.load(SeqCst) == 0 && !never_forked {
            return;
        }
        // This keeper has closed its copy of the other end; the holder has closed its copy, too, or soon will.
        if !never_forked && !is_ready(executed) {
            return;
        }
        // If the holder was there, it has reported the start. If it died on the way, its death is news, too.
        let told = live.has(flag::STARTED);
        points::reach("pump.started");
        spawn::scrub(self.pair);
        points::reach("pump.scrubbed");
        if live.exec_errno.load(SeqCst) == 0 {
            live.set(flag::STARTED);
        }
        self.pair.executed = None;
        if let Some(report) = self.pair.report.take() {
            // The engine may be gone. The next one finds the state in `meta`.
            let _gone = rustix::io::write(&report, b"exec\n");
        }
        self.pair.wake(Role::Holder);
        if !told {
            self.control.news();
        }
        self.settle_at = Some(Instant::now() + SETTLE);
    }

    /// Writes `meta` to disk once after the start. Its blocks are then allocated, and the record of the end is a single write.
    pub(super) fn settle(&mut self) {
        if self.settle_at.is_some_and(|at| at <= Instant::now()) {
            self.settle_at = None;
            if self.pair.live().wait_status().is_none() {
                // The record of the end has its own sync.
                let _later = self.pair.meta.save().and_then(|()| self.pair.meta.sync());
            }
        }
    }

    /// Moves output for one turn. Returns whether there may be more now.
    pub(super) fn move_output(&mut self) -> bool {
        let Self { pair, copier, journal, .. } = self;
        if pair.out.is_none() && pair.spool.filled() == 0 {
            return false;
        }
        if self.ask_terminal_at.is_some_and(|t| Instant::now() < t) {
            return false;
        }
        self.ask_terminal_at = None;
        let mut record = |r: &Record| append(journal, pair, r);
        let mut last = Moved::Empty;
        for _ in 0..TURN {
            last = copier.step(pair, &mut record);
            if last == Moved::Closed && pair.settings.pty {
                last = copier.ask_terminal_again(pair, last, &mut record);
            }
            if last != Moved::Some {
                break;
            }
        }
        match last {
            Moved::Some => return true,
            Moved::Empty => {}
            Moved::Closed if pair.settings.pty && pair.live().wait_status().is_none() => {
                // The command lives and may open its terminal again; no descriptor reports when.
                self.ask_terminal_at = Some(Instant::now() + Duration::from_millis(100));
            }
            Moved::Closed => self.output_closed(),
        }
        false
    }

    fn output_closed(&mut self) {
        self.pair.out = None;
        self.closing = Some(Instant::now());
    }

    /// Reports that a command has closed its output and runs on. If the command is about to end, its end implies that.
    pub(super) fn see_closing(&mut self) {
        if self.closing.is_none_or(|since| since.elapsed() < CLOSING) {
            return;
        }
        self.closing = None;
        if self.pair.live().wait_status().is_none() {
            self.close_output();
        }
    }

    /// Reports that no more output will come. Descendants that are alive are counted, and left running.
    fn close_output(&mut self) {
        let live = self.pair.live();
        let ended = live.has(flag::RECORDED);
        if self.pair.out.is_some() || (live.has(flag::OUTPUT_CLOSED) && !ended) {
            return;
        }
        if ended && !self.count_left_running() {
            // Checked again in a moment.
            return;
        }
        if self.mark_closed() {
            self.control.news();
        }
    }

    /// Returns whether this call was the first to report it.
    fn mark_closed(&self) -> bool {
        let live = self.pair.live();
        let _first = live.closed_at.compare_exchange(0, now().micros(), SeqCst, SeqCst);
        live.set(flag::OUTPUT_CLOSED)
    }

    /// Counts the descendants left running. Returns whether the number is final: a process that has closed the output may be about
    /// to exit. It does that at once, so a process that was observed to rest counts as left running.
    fn count_left_running(&mut self) -> bool {
        let left = tree::left(self.pair);
        self.pair.live().set_left(&left);
        let since = self.left_since.get_or_insert_with(Instant::now);
        !left.iter().any(|of| is_busy(of.pid)) || since.elapsed() >= LEFT_BUSY
    }

    /// Records the end once it was observed: drain, write, sync, report, and only then release the pid.
    pub(super) fn see_end(&mut self) {
        if !end::observe(self.pair) {
            return;
        }
        if !self.pair.live().has(flag::RECORDED) {
            self.pair.catch_up();
            self.report();
            if self.pair.executed.is_some() {
                // The start is reported before the end; the other keeper is about to close the pipe.
                return;
            }
            self.drain();
            // A client that reads the end also gets all matches before it.
            self.report_matches(true);
            // Before the record: a client that reads the record may never look again.
            let is_closed = self.pair.out.is_none() && self.count_left_running() && self.pair.spool.filled() == 0;
            self.record_end(is_closed);
            points::reach("pump.recorded");
            self.pair.live().set(flag::RECORDED);
            if let Some(watch) = &mut self.copier.watch {
                watch.end();
            }
            points::reach("pump.marked");
            if is_closed {
                self.mark_closed();
            }
            self.control.news();
            self.pair.wake(Role::Holder);
            let listened = self.control.has_listener();
            self.news.owe_end(self.pair, listened);
            self.news.advance(self.pair, listened);
            points::reach("pump.told");
            self.copier.sync();
        }
        end::reap_if_recorded(self.pair);
        if self.pair.out.is_none() && self.pair.spool.filled() == 0 && !self.pair.live().has(flag::OUTPUT_CLOSED) {
            self.close_output();
        }
    }

    /// Writes the record and waits until it is on disk. If the owner is to be notified, the engine hears of the end first: it
    /// stores the notice on the same disk before it tells any client, and the takers of notices wait for that alone.
    fn record_end(&mut self, is_closed: bool) {
        let Some(ending) = end::ending(self.pair) else { return };
        let (commit, _) = self.pair.live().commit();
        let written = self.pair.meta.write_ended(&ending, commit.base, commit.lines);
        points::reach("pump.written");
        if self.pair.settings.tells {
            if is_closed {
                // One message to the engine is enough for the end and the closed output.
                self.mark_closed();
            }
            self.control.news();
            self.control.wait_for_listener(ENGINE_FIRST);
        }
        match written.and_then(|()| self.pair.meta.sync()) {
            Ok(()) => self.saving.end_is_synced = true,
            // Readers find it in the live copy. The keepers stay until the file has it.
            Err(e) => self.refused(&e),
        }
    }

    /// Until the output is closed, or found empty once after the end.
    fn drain(&mut self) {
        let Self { pair, copier, journal, .. } = self;
        let mut record = |r: &Record| append(journal, pair, r);
        let began = Instant::now();
        loop {
            let mut found = copier.step(pair, &mut record);
            if found != Moved::Some && pair.settings.pty {
                found = copier.ask_terminal_again(pair, found, &mut record);
            }
            match found {
                Moved::Some if began.elapsed() < DRAIN => {}
                Moved::Some | Moved::Empty => break,
                Moved::Closed => {
                    pair.out = None;
                    break;
                }
            }
        }
        self.ask_terminal_at = None;
    }
}
