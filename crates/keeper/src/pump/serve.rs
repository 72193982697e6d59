//! Requests to the pump: input, stops, signals, and waits for new output.

use super::{Pump, append, is_ready};
use crate::control::Came;
use crate::input::{Asker, Finished};
use crate::kill::{StopBegun, Stopped};
use crate::pair::slept;
use crate::{end, os, start};
use outlast_core::Stop;
use outlast_store::meta::flag;
use outlast_wire::code;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use rustix::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;

impl Pump<'_> {
    /// Handles the descriptors that are ready.
    pub(super) fn hear(&mut self, fired: &[bool]) {
        slept(&self.pair.wake_pump);
        if self.news.ready().is_some_and(is_ready) {
            self.news.engine_started();
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
                    Came::KeeperRequest { conn, id, ask } => self.asked(conn, id, ask),
                    Came::Bytes { conn, of, bytes } => self.input.bytes(Asker { conn, ask: of }, &bytes),
                }
            }
        }
        if fired[0] {
            self.control.accept(&self.pair.listen);
        }
    }

    fn asked(&mut self, conn: u64, id: u64, ask: KeeperRequest) {
        let live = self.pair.live();
        let over = live.wait_status().is_some();
        let reply = match ask {
            // The connection has answered it.
            KeeperRequest::Hello { .. } => return,
            KeeperRequest::Stop { stop } => match self.stop(&stop) {
                KeeperReply::Ok => return self.answer_when_stopped(conn, id),
                other => other,
            },
            KeeperRequest::StopLeft { stop } => match self.stop_left(&stop) {
                KeeperReply::Ok => return self.answer_when_stopped(conn, id),
                other => other,
            },
            KeeperRequest::Signal { .. } if over => KeeperReply::AlreadyEnded,
            KeeperRequest::Signal { number } => match self.pair.cmd.as_ref().map(|c| outlast_store::os::send(c.as_fd(), number)) {
                Some(Ok(())) => KeeperReply::Ok,
                Some(Err(e)) if e.raw_os_error() == Some(libc::ESRCH) => KeeperReply::AlreadyEnded,
                Some(Err(e)) => KeeperReply::Refused { code: code::BAD_REQUEST.into(), error: format!("signal {number}: {e}") },
                None => KeeperReply::AlreadyEnded,
            },
            KeeperRequest::Write { at, len } => {
                self.input.announce(Asker { conn, ask: id }, at, len);
                return;
            }
            KeeperRequest::CloseInput if self.pair.in_spool.is_none() => {
                KeeperReply::Refused { code: code::NO_INPUT.into(), error: "the process takes no input, or its input is closed".into() }
            }
            KeeperRequest::CloseInput => {
                live.set(flag::INPUT_CLOSE_ASKED);
                KeeperReply::Ok
            }
            KeeperRequest::Resize { rows, cols } => match (&self.pair.out, self.pair.settings.pty) {
                (Some(tty), true) => match crate::tty::resize(tty, rows, cols) {
                    Ok(()) => {
                        live.size.store(u32::from(rows) << 16 | u32::from(cols), SeqCst);
                        KeeperReply::Ok
                    }
                    Err(e) => KeeperReply::Refused { code: code::FAULT.into(), error: format!("resize: {e}") },
                },
                _ => KeeperReply::Refused { code: code::BAD_REQUEST.into(), error: "the process has no terminal".into() },
            },
            KeeperRequest::AwaitOutput { past } => {
                let (commit, _) = live.commit();
                let closed = live.has(flag::OUTPUT_CLOSED);
                if commit.base > past || closed {
                    KeeperReply::Output { end: commit.base, closed }
                } else {
                    if let Some(c) = self.control.conns.iter_mut().find(|c| c.id == conn) {
                        c.awaits.push((id, past));
                    }
                    return;
                }
            }
            KeeperRequest::Attached { on } => {
                if let Some(c) = self.control.conns.iter_mut().find(|c| c.id == conn) {
                    c.attached = on;
                }
                KeeperReply::Ok
            }
            // The folder is always up to date.
            KeeperRequest::CatchUp => KeeperReply::Ok,
            KeeperRequest::ShareMeta => {
                self.control.pass_meta(conn, id, self.pair.meta.live_copy());
                return;
            }
        };
        self.control.say(conn, Some(id), reply);
    }

    fn answer_when_stopped(&mut self, conn: u64, id: u64) {
        if let Some(c) = self.control.conns.iter_mut().find(|c| c.id == conn) {
            c.stops.push(id);
        }
    }

    pub(super) fn stop(&mut self, stop: &Stop) -> KeeperReply {
        let Self { pair, stopping, journal, .. } = self;
        let begun = stopping.begin(pair, stop, |r| append(journal, pair, r));
        self.begun(begun)
    }

    fn stop_left(&mut self, stop: &Stop) -> KeeperReply {
        let Self { pair, stopping, journal, .. } = self;
        let begun = stopping.begin_left(pair, stop, |r| append(journal, pair, r));
        self.begun(begun)
    }

    fn begun(&mut self, begun: StopBegun) -> KeeperReply {
        match begun {
            StopBegun::UnderWay => {
                self.control.news();
                KeeperReply::Ok
            }
            StopBegun::Signalled { unrecorded } => {
                self.control.news();
                KeeperReply::Stopped { seen_dead: 0, survivors: Vec::new(), unrecorded }
            }
            StopBegun::AlreadyEnded => KeeperReply::AlreadyEnded,
            StopBegun::NotEnded => KeeperReply::Refused { code: code::BAD_REQUEST.into(), error: "the command has not ended".into() },
        }
    }

    pub(super) fn advance_stop(&mut self) {
        let Some(Stopped { seen_dead, survivors, unrecorded }) = self.stopping.advance(self.pair) else { return };
        let say = KeeperReply::Stopped { seen_dead, survivors, unrecorded };
        for conn in &mut self.control.conns {
            for id in std::mem::take(&mut conn.stops) {
                conn.say(Some(id), say.clone());
            }
        }
        self.control.news();
    }

    pub(super) fn move_input(&mut self) {
        if self.control.conns.iter().any(|c| c.attached) {
            // A real terminal is attached and answers by itself.
            self.copier.answers.clear();
        }
        for done in self.input.advance(self.pair, &mut self.copier.answers, self.copier.asked_to) {
            match done {
                Finished::Written { by, taken, next } => {
                    let tty = self.pair.input.as_ref().filter(|_| self.pair.settings.pty);
                    let is_canonical = tty.is_some_and(crate::tty::is_canonical);
                    self.control.say(by.conn, Some(by.ask), KeeperReply::Written { taken, next, is_canonical });
                }
                Finished::Refused { by, code, error } => {
                    self.control.say(by.conn, Some(by.ask), KeeperReply::Refused { code: code.into(), error });
                }
            }
        }
    }

    /// Answers the requests that wait for output past a length.
    pub(super) fn report_output(&mut self) {
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
                conn.say(Some(id), KeeperReply::Output { end: commit.base, closed });
            }
        }
    }

    pub(super) fn forget_gone(&mut self) {
        for conn in self.control.flush() {
            self.input.forget(conn);
        }
    }

    /// The socket was removed with its directory: listens where the home has its sockets now.
    fn listen_again(&mut self) {
        let home = outlast_store::dir::Home { root: self.pair.settings.home.as_path().to_owned() };
        let dir = std::fs::read_link(home.run_link()).unwrap_or_else(|_| self.pair.settings.run_dir.as_path().to_owned());
        if let Ok(listen) = start::listen(&start::socket_path(&dir, self.pair.id)) {
            self.pair.listen = listen;
            self.pair.settings.run_dir = dir.as_path().into();
        }
    }
}
