//! The loop of the pump, which moves output, writes input, stops the tree, and records the end. The handling of output and of
//! requests is in submodules.

mod output;
mod save;
mod serve;

use crate::control::Control;
use crate::copy_output::OutputCopier;
use crate::input::Input;
use crate::kill::Stopping;
use crate::notify_engine::PendingNews;
use crate::pair::Pair;
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

/// After this many deaths in a row without progress, the next pump does not scan the output.
const STUCK: u32 = 3;
/// How long a command that has closed its output may take to end before it is reported as running without output: most commands
/// close it by ending.
const CLOSING: Duration = Duration::from_millis(5);

pub(crate) fn run(pair: &mut Pair) -> Next {
    match begin(pair) {
        PumpStart::Ready => {}
        PumpStart::Cancelled => return Next::Exit,
        PumpStart::Forked(role) => return Next::Become(role),
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
        pump.report_matches(false);
        pump.see_end();
        pump.see_closing();
        pump.settle();
        let listened = pump.control.has_listener();
        pump.news.advance(pump.pair, listened);
        pump.check_deadline();
        pump.advance_stop();
        pump.move_input();
        pump.report_output();
        pump.forget_gone();
        pump.save();
        if pump.is_done() {
            pump.leave();
            return Next::Exit;
        }
        pump.wait(more);
    }
}

/// How the first steps of a pump went.
enum PumpStart {
    /// It has a holder and a command.
    Ready,
    /// The start was cancelled.
    Cancelled,
    /// This is a new process with this role.
    Forked(Role),
}

/// The first pump forks the holder, and both wait for the engine's go-ahead. Later pumps do not wait.
fn begin(pair: &mut Pair) -> PumpStart {
    if pair.live().has(flag::GO) {
        return PumpStart::Ready;
    }
    if pair.partner.is_none()
        && let Ok(Some(role)) = pair.fork(Role::Holder)
    {
        return PumpStart::Forked(role);
    }
    if crate::wait_for_go::wait(pair, Role::Pump) {
        // The holder may have looked just before the go-ahead came. It finds it in `meta` now.
        pair.wake(Role::Holder);
        return PumpStart::Ready;
    }
    if let Some(holder) = &pair.partner {
        pair.wake(Role::Holder);
        // The holder sees the same, and exits.
        let _left = poll(&mut [PollFd::new(holder, PollFlags::IN)], Some(&Timespec { tv_sec: 1, tv_nsec: 0 }));
    }
    let_go(pair);
    clean_home(pair);
    PumpStart::Cancelled
}

struct Pump<'a> {
    pair: &'a mut Pair,
    copier: OutputCopier,
    input: Input,
    control: Control,
    stopping: Stopping,
    journal: Option<Journal>,
    news: PendingNews,
    /// When to read a terminal again that no process has open while the command lives.
    ask_terminal_at: Option<Instant>,
    /// The log's length that was last reported to waiting readers.
    told: u64,
    holder_tried: Option<Instant>,
    /// When the output was found to be closed, while that is not reported yet.
    closing: Option<Instant>,
    /// When the descendants left running were first counted.
    left_since: Option<Instant>,
    /// When `meta` is to be written to disk for the first time.
    settle_at: Option<Instant>,
    saving: save::Saving,
}

impl<'a> Pump<'a> {
    fn new(pair: &'a mut Pair) -> Self {
        let live = pair.live();
        let deaths = live.pump_deaths.load(SeqCst);
        if deaths > 0 {
            let commits = live.commits();
            // A pump without work to do was not stuck.
            let owed = pair.spool.filled() > 0;
            let stuck = if live.stuck_at.swap(commits, SeqCst) == commits && owed { live.stuck.fetch_add(1, SeqCst) + 1 } else { 0 };
            live.stuck.store(stuck, SeqCst);
            if stuck >= STUCK {
                live.set(flag::SCAN_OFF);
            }
        }
        Input::recover(pair);
        let copier = OutputCopier::new(pair);
        let mut control = Control::default();
        if let Some(engine) = pair.engine.take()
            && crate::wait_for_go::take(&engine).is_ok()
        {
            control.take(engine);
        }
        let mut pump = Self {
            copier,
            pair,
            input: Input::default(),
            control,
            stopping: Stopping::default(),
            journal: None,
            news: PendingNews::default(),
            ask_terminal_at: None,
            told: 0,
            holder_tried: None,
            closing: None,
            left_since: None,
            settle_at: None,
            saving: save::Saving::new(),
        };
        if deaths > 0 {
            // The last pump may have died between the record and the report.
            if pump.copier.watch.is_some() {
                pump.owe_matches();
            }
            pump.record(&Record::TakenOver { at: now(), role: Role::Pump, times: deaths });
            if pump.pair.live().has(flag::RECORDED) {
                // It is unknown whether the end was reported.
                pump.news.owe_end(pump.pair, false);
            }
        }
        pump
    }

    /// Appends to the journal, which is created with its first record. On a full disk the fact is in `meta` only.
    fn record(&mut self, record: &Record) {
        append(&mut self.journal, self.pair, record);
    }

    /// Forks a holder if there is none: at the start, and after one has died.
    fn keep_holder(&mut self) -> Option<Next> {
        if self.pair.live().has(flag::DONE) || !self.pair.partner_is_over() {
            return None;
        }
        let first = self.pair.partner.is_none();
        if !first {
            // Its children have passed to this process before its handle reported its death.
            let holder = self.pair.live().holder.load(SeqCst);
            if holder != 0 {
                let _not_ours = os::reap_pid(holder as u32);
                // The pid may be reused now.
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
                    // If the write is refused, readers find this keeper by its command line.
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

    /// The command was not started, because no holder could be forked.
    fn never_started(&mut self, error: std::io::Error) {
        let live = self.pair.live();
        live.exec_step.store(5, SeqCst);
        live.exec_errno.store(error.raw_os_error().unwrap_or(libc::EAGAIN), SeqCst);
        live.publish_status(Some(127 << 8), now().micros());
        self.pair.ends = None;
        self.holder_tried = Some(Instant::now());
    }

    fn check_deadline(&mut self) {
        let live = self.pair.live();
        let deadline = live.deadline.load(SeqCst);
        if deadline == 0 || boottime_ns() < deadline || live.wait_status().is_some() || live.cmd.load(SeqCst) == 0 {
            return;
        }
        if live.stop_step.load(SeqCst) == 0 {
            let _under_way = self.stop(&Stop { cause: Cause::Deadline, way: StopWay::Escalate { grace: self.pair.settings.grace } });
        }
        // Only once the stop is in progress: if this pump is killed before, the next one begins it.
        self.pair.live().deadline.store(0, SeqCst);
    }

    /// Records the lines that matched, and reports them.
    fn report_matches(&mut self, last: bool) {
        let Self { pair, copier, journal, control, .. } = self;
        let Some(watch) = &mut copier.watch else { return };
        if !watch.write(pair, journal, last) {
            return;
        }
        control.news();
        self.owe_matches();
        let listened = self.control.has_listener();
        self.news.advance(self.pair, listened);
        points::reach("matched.told");
        if let Some(watch) = &mut self.copier.watch {
            watch.cleared(self.pair);
        }
    }

    /// An engine has to store everything that is in the journal now.
    fn owe_matches(&mut self) {
        let end = self.journal.as_ref().map(Journal::end);
        let end = end.or_else(|| std::fs::metadata(self.pair.dir.journal()).ok().map(|m| m.len()));
        self.news.owe_matches(end.unwrap_or(0));
    }

    /// Whether all work is done and the file is complete.
    fn is_done(&mut self) -> bool {
        let live = self.pair.live();
        let stopped = live.stop_step.load(SeqCst) == 0 || live.has(flag::STOP_DONE);
        let over = live.has(flag::RECORDED | flag::OUTPUT_CLOSED) && stopped && !self.news.keeps(self.pair) && self.pair.executed.is_none();
        over && self.hand_over()
    }

    /// The last steps, after which no data can be lost.
    fn leave(&mut self) {
        // A full disk may have kept them waiting.
        self.report_matches(true);
        self.pair.live().set(flag::DONE);
        points::reach("pump.done");
        self.control.news();
        clean(self.pair);
        self.pair.wake(Role::Holder);
        if let Some(holder) = &self.pair.partner {
            let mut fds = [PollFd::new(holder, PollFlags::IN)];
            // The holder only has to wake up. If it is suspended, it finds the same when it is continued.
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
        fds.extend(self.news.ready().map(|ready| PollFd::new(ready, PollFlags::IN)));
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

    /// The next moment at which something is due that no descriptor reports.
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
        // Dead, and its new parent has not reaped it yet.
        let heir = cmd_over.then_some(Duration::from_millis(2));
        let matches = self.copier.watch.as_ref().and_then(|w| w.due());
        let news = self.news.due(self.control.has_listener());
        let closing = self.closing.map(|since| CLOSING.saturating_sub(since.elapsed()));
        let settle = self.settle_at.map(|at| at.saturating_duration_since(Instant::now()));
        let is_counting = self.left_since.is_some() && live.has(flag::RECORDED) && !live.has(flag::OUTPUT_CLOSED);
        let left = is_counting.then_some(output::LEFT_LOOK);
        let (save, stop) = (self.saving.due(), self.stopping.due(self.pair));
        [deadline, terminal, holder, heir, matches, news, closing, settle, left, save, stop].into_iter().flatten().min()
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

/// Removes the keepers' own files: the socket, and the leaf if it is empty.
pub(crate) fn clean(pair: &Pair) {
    let_go(pair);
    pair.live().set(flag::CLEAN);
    // The file has everything that matters, so a refused write costs nothing.
    let _refused = pair.meta.release();
}

/// Removes what a pair has outside its folder.
pub(crate) fn let_go(pair: &Pair) {
    // It is gone with its directory, or the other keeper removed it.
    let _gone = std::fs::remove_file(start::socket_path(pair.settings.run_dir.as_path(), pair.id));
    if let Some(leaf) = &pair.leaf {
        leaf.remove();
    }
}

/// If no engine is there to do it, the last keeper removes the home's cgroup. An engine that is shutting down waits for the keepers
/// that have announced their exit.
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
