//! Moves output, takes input, stops the tree, records the end. Here is the loop, with what it waits for; its two jobs are in files of their own.

mod output;
mod save;
mod serve;

use crate::control::Control;
use crate::input::Input;
use crate::kill::Stopping;
use crate::mover::Mover;
use crate::pair::Pair;
use crate::tell::Telling;
use crate::{Next, end, os, start};
use outlast_core::{Cause, Record, Role, Stop, StopWay};
use outlast_store::journal::Journal;
use outlast_store::meta::flag;
use outlast_store::os::{boottime_ns, now};
use outlast_store::points;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// How often in a row a pump may die without getting on before it goes on without scanning.
const STUCK: u32 = 3;
/// How long a command that has closed its output may take to end before it is said to go on without: most close it by ending.
const CLOSING: Duration = Duration::from_millis(5);

pub(crate) fn run(pair: &mut Pair) -> Next {
    match begin(pair) {
        Begun::Yes => {}
        Begun::Never => return Next::Exit,
        Begun::As(role) => return Next::Become(role),
    }
    let mut pump = Pump::new(pair);
    loop {
        pump.pair.live().heartbeat.fetch_add(1, SeqCst);
        pump.pair.catch_up();
        if let Some(next) = pump.keep_holder() {
            return next;
        }
        pump.report();
        let more = pump.move_output();
        pump.tell_matches(false);
        pump.see_end();
        pump.see_closing();
        pump.settle();
        let listened = pump.control.has_listener();
        pump.telling.go_on(pump.pair, listened);
        pump.mind_deadline();
        pump.go_on_stopping();
        pump.move_input();
        pump.tell_output();
        pump.forget_gone();
        pump.save();
        if pump.is_done() {
            pump.leave();
            return Next::Exit;
        }
        pump.wait(more);
    }
}

/// How a pump begins.
enum Begun {
    /// As one with a holder and a command.
    Yes,
    /// Not at all: it was called off.
    Never,
    /// As something else, in the process that was just made.
    As(Role),
}

/// The first pump makes the holder, and waits with it for the word of the engine. Later ones have nothing to wait for.
fn begin(pair: &mut Pair) -> Begun {
    if pair.live().has(flag::GO) {
        return Begun::Yes;
    }
    if pair.partner.is_none()
        && let Ok(Some(role)) = pair.fork(Role::Holder)
    {
        return Begun::As(role);
    }
    if crate::ready::wait(pair, Role::Pump) {
        // It may have looked just before the word came, and finds it taken now.
        pair.wake(Role::Holder);
        return Begun::Yes;
    }
    if let Some(holder) = &pair.partner {
        pair.wake(Role::Holder);
        // It sees the same, and leaves.
        let _left = poll(&mut [PollFd::new(holder, PollFlags::IN)], Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
    }
    let_go(pair);
    clean_home(pair);
    Begun::Never
}

struct Pump<'a> {
    pair: &'a mut Pair,
    mover: Mover,
    input: Input,
    control: Control,
    stopping: Stopping,
    journal: Option<Journal>,
    telling: Telling,
    /// A terminal that nobody has open while the command lives: asked again at this instant.
    ask_terminal_at: Option<Instant>,
    /// The log's length when waiting readers were last told.
    told: u64,
    holder_tried: Option<Instant>,
    /// When the output was found closed, while it is not said yet.
    closing: Option<Instant>,
    /// When those that are left running were first counted.
    left_since: Option<Instant>,
    /// When `meta` is to be on disk for the first time.
    settle_at: Option<Instant>,
    saving: save::Saving,
}

impl<'a> Pump<'a> {
    fn new(pair: &'a mut Pair) -> Self {
        let live = pair.live();
        let deaths = live.pump_deaths.load(SeqCst);
        if deaths > 0 {
            let commits = live.commits();
            // One that had nothing to do was not stuck.
            let owed = pair.spool.filled() > 0;
            let stuck = if live.stuck_at.swap(commits, SeqCst) == commits && owed { live.stuck.fetch_add(1, SeqCst) + 1 } else { 0 };
            live.stuck.store(stuck, SeqCst);
            if stuck >= STUCK {
                live.set(flag::SCAN_OFF);
            }
        }
        Input::recover(pair);
        let mover = Mover::new(pair);
        let mut control = Control::default();
        if let Some(engine) = pair.engine.take()
            && crate::ready::take(&engine).is_ok()
        {
            control.take(engine);
        }
        let mut pump = Self {
            mover,
            pair,
            input: Input::default(),
            control,
            stopping: Stopping::default(),
            journal: None,
            telling: Telling::default(),
            ask_terminal_at: None,
            told: 0,
            holder_tried: None,
            closing: None,
            left_since: None,
            settle_at: None,
            saving: save::Saving::new(),
        };
        if deaths > 0 {
            // The last one may have died between writing and telling.
            if pump.mover.watch.is_some() {
                pump.owe_matches();
            }
            pump.record(&Record::TakenOver { at: now(), role: Role::Pump, times: deaths });
            if pump.pair.live().has(flag::RECORDED) {
                // Whether the end was told is not known.
                pump.telling.owe_end(pump.pair, false);
            }
        }
        pump
    }

    /// Appends to the journal, which is made with its first record. On a full disk the fact is in `meta` alone.
    fn record(&mut self, record: &Record) {
        append(&mut self.journal, self.pair, record);
    }

    /// Makes a holder where there is none: at the start, and whenever one has died.
    fn keep_holder(&mut self) -> Option<Next> {
        if self.pair.live().has(flag::DONE) || !self.pair.partner_is_over() {
            return None;
        }
        let first = self.pair.partner.is_none();
        if !first {
            // Its children are ours from before its handle fired.
            let holder = self.pair.live().holder.load(SeqCst);
            if holder != 0 {
                let _not_ours = os::reap_pid(holder as u32);
                // The number may pass to a stranger now.
                self.pair.live().holder.store(0, SeqCst);
            }
            end::observe(self.pair);
            end::reap_if_recorded(self.pair);
        }
        if self.holder_tried.is_some_and(|t| t.elapsed() < Duration::from_millis(100)) {
            return None;
        }
        if !first && self.holder_tried.is_none() {
            self.pair.note_death(Role::Holder);
        }
        match self.pair.fork(Role::Holder) {
            Ok(Some(role)) => return Some(Next::Become(role)),
            Ok(None) => {
                self.holder_tried = None;
                if !first {
                    // If the disk refuses, readers find this keeper by its command line.
                    let _later = self.pair.meta.save();
                    let times = self.pair.live().holder_deaths.load(SeqCst);
                    self.record(&Record::TakenOver { at: now(), role: Role::Holder, times });
                    self.control.news();
                }
            }
            Err(e) if first => self.never_started(e),
            Err(_) => self.holder_tried = Some(Instant::now()),
        }
        None
    }

    /// Nothing has run: no holder could be made.
    fn never_started(&mut self, error: std::io::Error) {
        let live = self.pair.live();
        live.exec_step.store(5, SeqCst);
        live.exec_errno.store(error.raw_os_error().unwrap_or(libc::EAGAIN), SeqCst);
        live.publish_status(Some(127 << 8), now().micros());
        self.pair.ends = None;
        self.holder_tried = Some(Instant::now());
    }

    fn mind_deadline(&mut self) {
        let live = self.pair.live();
        let deadline = live.deadline.load(SeqCst);
        if deadline == 0 || boottime_ns() < deadline || live.wait_status().is_some() || live.cmd.load(SeqCst) == 0 {
            return;
        }
        if live.stop_step.load(SeqCst) == 0 {
            let _under_way = self.stop(&Stop { cause: Cause::Deadline, way: StopWay::Escalate { grace: self.pair.settings.grace } });
        }
        // Only now that it is under way: a pump killed before leaves it to the next.
        self.pair.live().deadline.store(0, SeqCst);
    }

    /// Writes down the lines that matched, and tells.
    fn tell_matches(&mut self, last: bool) {
        let Self { pair, mover, journal, control, .. } = self;
        let Some(watch) = &mut mover.watch else { return };
        if !watch.write(pair, journal, last) {
            return;
        }
        control.news();
        self.owe_matches();
        let listened = self.control.has_listener();
        self.telling.go_on(self.pair, listened);
        points::reach("matched.told");
        if let Some(watch) = &mut self.mover.watch {
            watch.cleared(self.pair);
        }
    }

    /// An engine has to hear of everything that is in the journal now.
    fn owe_matches(&mut self) {
        let end = self.journal.as_ref().map(Journal::end);
        let end = end.or_else(|| std::fs::metadata(self.pair.dir.journal()).ok().map(|m| m.len()));
        self.telling.owe_matches(end.unwrap_or(0));
    }

    /// Whether nothing is left to do, and the file is complete.
    fn is_done(&mut self) -> bool {
        let live = self.pair.live();
        let stopped = live.stop_step.load(SeqCst) == 0 || live.has(flag::STOP_DONE);
        let over =
            live.has(flag::RECORDED | flag::OUTPUT_CLOSED) && stopped && !self.telling.keeps(self.pair) && self.pair.executed.is_none();
        over && self.hand_over()
    }

    /// The last steps: nothing is left to lose.
    fn leave(&mut self) {
        // Where a full disk has kept them waiting.
        self.tell_matches(true);
        self.pair.live().set(flag::DONE);
        points::reach("pump.done");
        self.control.news();
        clean(self.pair);
        self.pair.wake(Role::Holder);
        if let Some(holder) = &self.pair.partner {
            let mut fds = [PollFd::new(holder, PollFlags::IN)];
            // It has only to wake up; should it be stopped, it finds the same when it goes on.
            let _late = poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
            let _not_ours = os::reap(holder.as_fd());
        }
        end::reap_if_recorded(self.pair);
        end::reap_orphans(self.pair);
        clean_home(self.pair);
    }

    fn wait(&mut self, more: bool) {
        let live = self.pair.live();
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(8 + self.control.conns.len());
        fds.push(PollFd::new(&self.pair.listen, PollFlags::IN));
        fds.push(PollFd::new(&self.pair.wake_pump, PollFlags::IN));
        fds.push(PollFd::new(&self.pair.signals, PollFlags::IN));
        for conn in &self.control.conns {
            let mut events = if self.input.is_full(conn.id) { PollFlags::empty() } else { PollFlags::IN };
            if conn.is_behind() {
                events |= PollFlags::OUT;
            }
            fds.push(PollFd::new(&conn.fd, events));
        }
        let others = fds.len();
        if self.holder_tried.is_none() {
            fds.extend(self.pair.partner.as_ref().map(|p| PollFd::new(p, PollFlags::IN)));
        }
        fds.extend(self.pair.executed.as_ref().filter(|_| live.cmd.load(SeqCst) != 0).map(|e| PollFd::new(e, PollFlags::IN)));
        if self.ask_terminal_at.is_none() {
            fds.extend(self.pair.out.as_ref().map(|o| PollFd::new(o, PollFlags::IN)));
        }
        if self.input.wants_room(self.pair) {
            fds.extend(self.pair.input.as_ref().map(|i| PollFd::new(i, PollFlags::OUT)));
        }
        fds.extend(self.telling.ready().map(|ready| PollFd::new(ready, PollFlags::IN)));
        let is_ours = live.wait_status().is_none() && live.holder_deaths.load(SeqCst) > 0;
        let cmd_over = is_ours && self.pair.cmd.as_ref().is_some_and(|c| os::is_over(c.as_fd()));
        if is_ours && !cmd_over {
            fds.extend(self.pair.cmd.as_ref().map(|c| PollFd::new(c, PollFlags::IN)));
        }

        let timeout = self.next_due(more, cmd_over);
        let timeout = timeout.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: i64::from(d.subsec_nanos()) });
        let ready = poll(&mut fds, timeout.as_ref()).unwrap_or(0);
        let fired: Vec<bool> = fds[..others].iter().map(|f| !f.revents().is_empty()).collect();
        drop(fds);
        if ready > 0 {
            self.hear(&fired);
        }
    }

    /// When something is due that no descriptor tells of.
    fn next_due(&self, more: bool, cmd_over: bool) -> Option<Duration> {
        if more {
            return Some(Duration::ZERO);
        }
        let live = self.pair.live();
        let deadline = match live.deadline.load(SeqCst) {
            0 => None,
            _ if live.wait_status().is_some() || live.cmd.load(SeqCst) == 0 => None,
            at => Some(Duration::from_nanos(at.saturating_sub(boottime_ns()))),
        };
        let terminal = self.ask_terminal_at.map(|t| t.saturating_duration_since(Instant::now()));
        let holder = self.holder_tried.map(|_| Duration::from_millis(100));
        // Dead, and its heir has yet to reap it.
        let heir = cmd_over.then_some(Duration::from_millis(2));
        let matches = self.mover.watch.as_ref().and_then(|w| w.due());
        let telling = self.telling.due(self.control.has_listener());
        let closing = self.closing.map(|since| CLOSING.saturating_sub(since.elapsed()));
        let settle = self.settle_at.map(|at| at.saturating_duration_since(Instant::now()));
        let is_counting = self.left_since.is_some() && live.has(flag::RECORDED) && !live.has(flag::OUTPUT_CLOSED);
        let left = is_counting.then_some(output::LEFT_LOOK);
        let (save, stop) = (self.saving.due(), self.stopping.due(self.pair));
        [deadline, terminal, holder, heir, matches, telling, closing, settle, left, save, stop].into_iter().flatten().min()
    }
}

fn append(journal: &mut Option<Journal>, pair: &Pair, record: &Record) {
    if journal.is_none() {
        *journal = Journal::open_for_append(&pair.dir).ok();
    }
    if let Some(open) = journal
        && open.append(record).is_err()
    {
        // A torn frame is cut off when the journal is opened again.
        *journal = None;
    }
}

/// Removes what is the keepers' own: the socket, and the leaf if nobody is left in it.
pub(crate) fn clean(pair: &Pair) {
    let_go(pair);
    pair.live().set(flag::CLEAN);
    // The file has everything that matters, so a refused write costs nothing.
    let _refused = pair.meta.release();
}

/// Removes what a pair has outside of its folder.
pub(crate) fn let_go(pair: &Pair) {
    // Gone with its directory, or removed by the other keeper.
    let _gone = std::fs::remove_file(start::socket_path(pair.settings.run_dir.as_path(), pair.id));
    if let Some(leaf) = &pair.leaf {
        leaf.remove();
    }
}

/// Where no engine is there to do it, the last keeper to go takes the place of the home along. An engine that is just leaving waits for whoever has said that it leaves, too.
pub(crate) fn clean_home(pair: &Pair) {
    let home = outlast_store::dir::Home { root: pair.settings.home.as_path().to_owned() };
    if outlast_store::lock::is_held(&home.lock()).unwrap_or(true) {
        return;
    }
    if let Some(leaf) = pair.leaf.as_ref().filter(|leaf| leaf.leave_home()) {
        leaf.remove_home();
    }
}

fn is_ready(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
}
