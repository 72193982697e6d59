//! Moves output, takes input, stops the tree, records the end.

use crate::control::{Came, Control};
use crate::input::{Asker, Finished, Input};
use crate::kill::{Begun, Stopped, Stopping};
use crate::mover::{Moved, Mover};
use crate::pair::{Pair, slept};
use crate::wake::{self, Waking};
use crate::{Next, end, os, start, tree};
use outlast_core::{Cause, Record, Role, Stop, StopWay};
use outlast_store::journal::Journal;
use outlast_store::meta::flag;
use outlast_store::os::{boottime_ns, now};
use outlast_store::points;
use outlast_store::spec::SpecFile;
use outlast_wire::code;
use outlast_wire::v1::keeper::{Ask, Say};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// How many batches are moved before anybody else is heard.
const TURN: usize = 32;
/// How long a stream that never runs empty may keep the record of the end waiting.
const DRAIN: Duration = Duration::from_millis(250);
/// How often in a row a pump may die without getting on before it goes on without scanning.
const STUCK: u32 = 3;

pub(crate) fn run(pair: &mut Pair) -> Next {
    let mut pump = Pump::new(pair);
    loop {
        pump.pair.live().heartbeat.fetch_add(1, SeqCst);
        pump.pair.catch_up();
        if let Some(next) = pump.keep_holder() {
            return next;
        }
        pump.report();
        let more = pump.move_output();
        pump.see_end();
        pump.mind_deadline();
        pump.go_on_stopping();
        pump.move_input();
        pump.tell_output();
        pump.forget_gone();
        if pump.is_done() {
            pump.leave();
            return Next::Exit;
        }
        pump.wait(more);
    }
}

struct Pump<'a> {
    pair: &'a mut Pair,
    mover: Mover,
    input: Input,
    control: Control,
    stopping: Stopping,
    journal: Option<Journal>,
    waking: Option<Waking>,
    /// A terminal that nobody has open while the command lives: asked again at this instant.
    ask_terminal_at: Option<Instant>,
    /// The log's length when waiting readers were last told.
    told: u64,
    holder_tried: Option<Instant>,
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
        let mut pump = Self {
            mover,
            pair,
            input: Input::default(),
            control: Control::default(),
            stopping: Stopping::default(),
            journal: None,
            waking: None,
            ask_terminal_at: None,
            told: 0,
            holder_tried: None,
        };
        if deaths > 0 {
            pump.record(&Record::TakenOver { at: now(), role: Role::Pump, times: deaths });
            if pump.pair.live().has(flag::RECORDED) {
                // Whether the end was told is not known.
                pump.waking = wake::engine(pump.pair);
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
                    let times = self.pair.live().holder_deaths.load(SeqCst);
                    self.record(&Record::TakenOver { at: now(), role: Role::Holder, times });
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

    /// Once the command was executed, or could not be: says so to the engine that waits, and removes the secrets from the request.
    fn report(&mut self) {
        let Some(executed) = &self.pair.executed else { return };
        let live = self.pair.live();
        let never_forked = live.cmd.load(SeqCst) == 0 && live.wait_status().is_some();
        if live.cmd.load(SeqCst) == 0 && !never_forked {
            return;
        }
        // Our own copy of the other end is closed by now; the holder's is too, or soon.
        if !never_forked && !is_ready(executed) {
            return;
        }
        if live.exec_errno.load(SeqCst) == 0 {
            live.set(flag::STARTED);
        }
        points::reach("pump.started");
        self.pair.executed = None;
        // A damaged request has nothing to scrub, and the engine says so when it reads it.
        let _damaged = SpecFile::scrub(&self.pair.dir);
        if let Some(report) = self.pair.report.take() {
            // The engine may be gone; whoever comes finds the state in meta.
            let _gone = rustix::io::write(&report, b"exec\n");
        }
        self.pair.wake(Role::Holder);
        self.control.news();
    }

    /// Moves what is there, for a turn. Whether there may be more at once.
    fn move_output(&mut self) -> bool {
        let Self { pair, mover, journal, .. } = self;
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
            last = mover.step(pair, &mut record);
            if last == Moved::Closed && pair.settings.pty {
                last = mover.ask_terminal_again(pair, last, &mut record);
            }
            if last != Moved::Some {
                break;
            }
        }
        match last {
            Moved::Some => return true,
            Moved::Empty => {}
            Moved::Closed if pair.settings.pty && pair.live().wait_status().is_none() => {
                // The command lives and may open its terminal again; no descriptor says when.
                self.ask_terminal_at = Some(Instant::now() + Duration::from_millis(100));
            }
            Moved::Closed => self.output_closed(),
        }
        false
    }

    fn output_closed(&mut self) {
        self.pair.out = None;
        if self.pair.live().wait_status().is_none() {
            self.close_output();
        }
    }

    /// Says that nothing more will come. Descendants still alive are counted, and left running.
    fn close_output(&mut self) {
        let live = self.pair.live();
        let ended = live.has(flag::RECORDED);
        if self.pair.out.is_some() || (live.has(flag::OUTPUT_CLOSED) && !ended) {
            return;
        }
        if ended {
            self.count_left_running();
        }
        let live = self.pair.live();
        let _first = live.closed_at.compare_exchange(0, now().micros(), SeqCst, SeqCst);
        if live.set(flag::OUTPUT_CLOSED) {
            self.control.news();
        }
    }

    fn count_left_running(&self) {
        self.pair.live().left_running.store(tree::members(self.pair).len() as u32, SeqCst);
    }

    /// Records the end, once it was seen: drain, write, sync, tell, and only then let the pid go.
    fn see_end(&mut self) {
        if !end::observe(self.pair) {
            return;
        }
        if !self.pair.live().has(flag::RECORDED) {
            self.pair.catch_up();
            self.report();
            if self.pair.executed.is_some() {
                // That it was executed is told before that it ended; the other keeper is about to let go of the pipe.
                return;
            }
            self.drain();
            if self.pair.out.is_none() {
                // Before the record: whoever reads it may never look again.
                self.count_left_running();
            }
            if let Some(ending) = end::ending(self.pair) {
                let (commit, _) = self.pair.live().commit();
                if let Err(e) = self.pair.meta.record_ended(&ending, commit.base, commit.lines) {
                    // The disk refuses a write into allocated room. The status stays in the shared mapping, where readers find it too.
                    crate::complain(format_args!("{}: cannot record the end: {e}", self.pair.id));
                }
            }
            points::reach("pump.recorded");
            self.pair.live().set(flag::RECORDED);
            points::reach("pump.marked");
            self.pair.wake(Role::Holder);
            self.control.news();
            if !self.control.has_listener() {
                self.waking = wake::engine(self.pair);
            }
            points::reach("pump.told");
            self.mover.sync();
        }
        end::reap_if_recorded(self.pair);
        if self.pair.out.is_none() && self.pair.spool.filled() == 0 && !self.pair.live().has(flag::OUTPUT_CLOSED) {
            self.close_output();
        }
    }

    /// Until the output is closed, or found empty once after the end.
    fn drain(&mut self) {
        let Self { pair, mover, journal, .. } = self;
        let mut record = |r: &Record| append(journal, pair, r);
        let began = Instant::now();
        loop {
            let mut found = mover.step(pair, &mut record);
            if found != Moved::Some && pair.settings.pty {
                found = mover.ask_terminal_again(pair, found, &mut record);
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

    fn mind_deadline(&mut self) {
        let live = self.pair.live();
        let deadline = live.deadline.load(SeqCst);
        if deadline == 0 || boottime_ns() < deadline || live.wait_status().is_some() || live.cmd.load(SeqCst) == 0 {
            return;
        }
        if live.stop_step.load(SeqCst) == 0 {
            let stop = Stop { cause: Cause::Deadline, way: StopWay::Escalate { grace: self.pair.settings.grace } };
            if let Say::Refused { .. } = self.stop(&stop) {
                // The disk refuses to have it written down: later, then.
                self.pair.live().deadline.store(boottime_ns() + 1_000_000_000, SeqCst);
                return;
            }
        }
        // Only now that it is under way: a pump killed before leaves it to the next.
        self.pair.live().deadline.store(0, SeqCst);
    }

    fn stop(&mut self, stop: &Stop) -> Say {
        let Self { pair, stopping, journal, control, .. } = self;
        match stopping.begin(pair, stop, |r| append(journal, pair, r)) {
            Ok(Begun::UnderWay) => {
                control.news();
                Say::Ok
            }
            Ok(Begun::Signalled) => {
                control.news();
                Say::Stopped { seen_dead: 0, survivors: Vec::new() }
            }
            Ok(Begun::AlreadyEnded) => Say::AlreadyEnded,
            Err(e) => Say::Refused { code: code::FAULT.into(), error: format!("cannot write down the stop: {e}") },
        }
    }

    fn go_on_stopping(&mut self) {
        let Some(Stopped { seen_dead, survivors }) = self.stopping.go_on(self.pair) else { return };
        let say = Say::Stopped { seen_dead, survivors };
        for conn in &mut self.control.conns {
            for id in std::mem::take(&mut conn.stops) {
                conn.say(Some(id), say.clone());
            }
        }
        self.control.news();
    }

    fn move_input(&mut self) {
        if self.control.conns.iter().any(|c| c.attached) {
            // A real terminal looks on and answers for itself.
            self.mover.answers.clear();
        }
        for done in self.input.go_on(self.pair, &mut self.mover.answers, self.mover.asked_to) {
            match done {
                Finished::Written { by, taken, next } => self.control.say(by.conn, Some(by.ask), Say::Written { taken, next }),
                Finished::Refused { by, code, error } => {
                    self.control.say(by.conn, Some(by.ask), Say::Refused { code: code.into(), error });
                }
            }
        }
    }

    /// Answers those who wait for output past a length.
    fn tell_output(&mut self) {
        let live = self.pair.live();
        let (commit, _) = live.commit();
        let closed = live.has(flag::OUTPUT_CLOSED);
        if commit.base == self.told && !closed {
            return;
        }
        self.told = commit.base;
        for conn in &mut self.control.conns {
            let due: Vec<u64> = conn.awaits.iter().filter(|(_, past)| closed || commit.base > *past).map(|(id, _)| *id).collect();
            conn.awaits.retain(|(id, _)| !due.contains(id));
            for id in due {
                conn.say(Some(id), Say::Output { end: commit.base, closed });
            }
        }
    }

    fn forget_gone(&mut self) {
        for conn in self.control.flush() {
            self.input.forget(conn);
        }
    }

    fn is_done(&self) -> bool {
        let live = self.pair.live();
        let stopped = live.stop_step.load(SeqCst) == 0 || live.has(flag::STOP_DONE);
        live.has(flag::RECORDED | flag::OUTPUT_CLOSED) && stopped && self.waking.is_none() && self.pair.executed.is_none()
    }

    /// The last steps: nothing is left to lose.
    fn leave(&mut self) {
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
        fds.extend(self.waking.as_ref().map(|w| PollFd::new(&w.ready, PollFlags::IN)));
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
        [deadline, terminal, holder, heir, self.stopping.due(self.pair)].into_iter().flatten().min()
    }

    /// Hears who has something to say.
    fn hear(&mut self, fired: &[bool]) {
        slept(&self.pair.wake_pump);
        if self.waking.as_ref().is_some_and(|w| is_ready(&w.ready)) {
            self.waking = None;
        }
        for number in os::read_signals(self.pair.signals.as_fd()) {
            if number == libc::SIGCHLD as u32 {
                end::reap_orphans(self.pair);
            } else if number == libc::SIGUSR1 as u32 {
                self.listen_again();
            }
        }
        let ready: Vec<u64> = self.control.conns.iter().zip(&fired[3..]).filter(|(_, f)| **f).map(|(c, _)| c.id).collect();
        for conn in ready {
            for came in self.control.read(conn) {
                match came {
                    Came::Ask { conn, id, ask } => self.asked(conn, id, ask),
                    Came::Bytes { conn, of, bytes } => self.input.bytes(Asker { conn, ask: of }, &bytes),
                }
            }
        }
        if fired[0] {
            self.control.accept(&self.pair.listen);
        }
    }

    fn asked(&mut self, conn: u64, id: u64, ask: Ask) {
        let live = self.pair.live();
        let over = live.wait_status().is_some();
        let reply = match ask {
            // Answered by the connection itself.
            Ask::Hello { .. } => return,
            Ask::Stop { stop } => match self.stop(&stop) {
                Say::Ok => {
                    if let Some(c) = self.control.conns.iter_mut().find(|c| c.id == conn) {
                        c.stops.push(id);
                    }
                    return;
                }
                other => other,
            },
            Ask::Signal { .. } if over => Say::AlreadyEnded,
            Ask::Signal { number } => match self.pair.cmd.as_ref().map(|c| os::send(c.as_fd(), number)) {
                Some(Ok(())) => Say::Ok,
                Some(Err(e)) if e.raw_os_error() == Some(libc::ESRCH) => Say::AlreadyEnded,
                Some(Err(e)) => Say::Refused { code: code::BAD_REQUEST.into(), error: format!("signal {number}: {e}") },
                None => Say::AlreadyEnded,
            },
            Ask::Write { at, len } => {
                self.input.announce(Asker { conn, ask: id }, at, len);
                return;
            }
            Ask::CloseInput if self.pair.in_spool.is_none() => {
                Say::Refused { code: code::NO_INPUT.into(), error: "the process takes no input, or its input is closed".into() }
            }
            Ask::CloseInput => {
                live.set(flag::INPUT_CLOSE_ASKED);
                Say::Ok
            }
            Ask::Resize { rows, cols } => match (&self.pair.out, self.pair.settings.pty) {
                (Some(tty), true) => match crate::tty::resize(tty, rows, cols) {
                    Ok(()) => {
                        live.size.store(u32::from(rows) << 16 | u32::from(cols), SeqCst);
                        Say::Ok
                    }
                    Err(e) => Say::Refused { code: code::FAULT.into(), error: format!("resize: {e}") },
                },
                _ => Say::Refused { code: code::BAD_REQUEST.into(), error: "the process has no terminal".into() },
            },
            Ask::AwaitOutput { past } => {
                let (commit, _) = live.commit();
                let closed = live.has(flag::OUTPUT_CLOSED);
                if commit.base > past || closed {
                    Say::Output { end: commit.base, closed }
                } else {
                    if let Some(c) = self.control.conns.iter_mut().find(|c| c.id == conn) {
                        c.awaits.push((id, past));
                    }
                    return;
                }
            }
            Ask::Attached { on } => {
                if let Some(c) = self.control.conns.iter_mut().find(|c| c.id == conn) {
                    c.attached = on;
                }
                Say::Ok
            }
        };
        self.control.say(conn, Some(id), reply);
    }

    /// Our socket was removed with its directory: listens where the home says sockets are now.
    fn listen_again(&mut self) {
        let home = outlast_store::dir::Home { root: self.pair.settings.home.as_path().to_owned() };
        let dir = std::fs::read_link(home.run_link()).unwrap_or_else(|_| self.pair.settings.run_dir.as_path().to_owned());
        if let Ok(listen) = start::listen(&start::socket_path(&dir, self.pair.id)) {
            self.pair.listen = listen;
            self.pair.settings.run_dir = dir.as_path().into();
        }
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
    // Gone with its directory, or removed by the other keeper.
    let _gone = std::fs::remove_file(start::socket_path(pair.settings.run_dir.as_path(), pair.id));
    if let Some(leaf) = &pair.leaf {
        leaf.remove();
    }
    pair.live().set(flag::CLEAN);
}

/// Where no engine is there to do it, the last keeper to go takes the place of the home along.
pub(crate) fn clean_home(pair: &Pair) {
    let home = outlast_store::dir::Home { root: pair.settings.home.as_path().to_owned() };
    if let Some(leaf) = pair.leaf.as_ref().filter(|_| !outlast_store::lock::is_held(&home.lock()).unwrap_or(true)) {
        leaf.remove_home();
    }
}

fn is_ready(fd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
}
