//! Writes input through a spool that both keepers hold, so that no byte is written twice and none is lost.
//!
//! Bytes are put into the spool only while it is empty, and count as written from then on. The kernel moves them from there to the
//! command. If a keeper dies in between, they are in the spool or past it, and the number of bytes in the spool tells which.

use crate::pair::{Pair, Pipe};
use outlast_core::Role;
use outlast_store::meta::{Live, flag};
use outlast_store::points;
use outlast_wire::code;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::SeqCst;

const CALLER: u32 = 1;
const ANSWER: u32 = 2;
const END: u32 = 3;
/// How many bytes are put into the spool at once: a pipe of ordinary size takes them whole.
const FILL: usize = 32 << 10;

/// The request to which a write belongs: a connection, and its number for the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) conn: u64,
    pub(crate) ask: u64,
}

/// A write in progress.
#[derive(Debug)]
struct Write {
    by: Asker,
    at: Option<u64>,
    len: u64,
    /// Its bytes that have arrived, with those already written.
    received: u64,
    /// Its bytes that need no more work: they were written, now or earlier.
    done: u64,
    /// Where it begins; set when its turn comes.
    start: Option<u64>,
    held: VecDeque<u8>,
}

/// The result of a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// All of it is in the input.
    Written { by: Asker, taken: u64, next: u64 },
    /// It is not in the input; `error` says why.
    Refused { by: Asker, code: &'static str, error: String },
}

/// The writes of this pump, in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Input {
    writes: VecDeque<Write>,
    /// Those that were refused while their bytes were still arriving.
    refused: Vec<(Asker, u64)>,
}

impl Input {
    /// Finds out from the contents of the spool how far the last pump got.
    pub(crate) fn recover(pair: &Pair) {
        let Some(spool) = &pair.in_spool else { return };
        let live = pair.live();
        let (base, target, filled) = (live.in_base.load(SeqCst), live.in_target.load(SeqCst), spool.filled());
        if target == base && filled > 0 {
            commit(live, base + filled);
        } else {
            live.in_base.store(target - filled.min(target), SeqCst);
        }
    }

    /// Begins a write whose bytes will follow.
    pub(crate) fn announce(&mut self, by: Asker, at: Option<u64>, len: u64) {
        self.writes.push_back(Write { by, at, len, received: 0, done: 0, start: None, held: VecDeque::new() });
    }

    /// Bytes of an announced write.
    pub(crate) fn bytes(&mut self, by: Asker, bytes: &[u8]) {
        if let Some(w) = self.writes.iter_mut().find(|w| w.by == by) {
            let room = (w.len - w.received).min(bytes.len() as u64) as usize;
            w.received += room as u64;
            w.held.extend(&bytes[..room]);
        } else if let Some(i) = self.refused.iter().position(|(r, _)| *r == by) {
            self.refused[i].1 = self.refused[i].1.saturating_sub(bytes.len() as u64);
            if self.refused[i].1 == 0 {
                self.refused.swap_remove(i);
            }
        }
    }

    /// Whether a connection should send no more for now.
    pub(crate) fn is_full(&self, conn: u64) -> bool {
        self.writes.iter().any(|w| w.by.conn == conn && w.held.len() > 2 * FILL)
    }

    /// Forgets a closed connection. What it has written stays written.
    pub(crate) fn forget(&mut self, conn: u64) {
        self.writes.retain(|w| w.by.conn != conn);
        self.refused.retain(|(r, _)| r.conn != conn);
    }

    /// Whether bytes wait for space in the command's input.
    pub(crate) fn wants_room(&self, pair: &Pair) -> bool {
        pair.in_spool.as_ref().is_some_and(|s| s.filled() > 0)
    }

    /// Moves as many bytes as possible. `answers` go first, because the program waits for them. They answer the queries in the log
    /// up to `asked_to`.
    pub(crate) fn advance(&mut self, pair: &mut Pair, answers: &mut Vec<u8>, asked_to: u64) -> Vec<Finished> {
        let mut finished = Vec::new();
        loop {
            let ended = if self.writes.is_empty() { self.end_pipe_if_asked(pair) } else { false };
            if ended || pair.in_spool.is_none() {
                break;
            }
            if !drain(pair) {
                break;
            }
            if pair.in_spool.is_none() {
                break;
            }
            if !answers.is_empty() {
                // Limited so that the spool takes them whole: then all queries up to here are answered.
                pair.live().answering.store(asked_to, SeqCst);
                let n = fill(pair, answers, ANSWER);
                answers.drain(..n);
                if n > 0 {
                    continue;
                }
            }
            if self.writes.is_empty() && self.end_terminal_if_asked(pair) {
                continue;
            }
            if !self.fill_next(pair, &mut finished) {
                break;
            }
        }
        if pair.in_spool.is_none() {
            self.refuse_all(pair, &mut finished);
        }
        finished
    }

    /// Puts the next part of the first write into the spool. Returns whether anything changed.
    fn fill_next(&mut self, pair: &Pair, finished: &mut Vec<Finished>) -> bool {
        let taken = pair.live().in_client.load(SeqCst);
        let Some(w) = self.writes.front_mut() else { return false };
        let start = *w.start.get_or_insert(w.at.unwrap_or(taken));
        if start > taken && w.done == 0 {
            let w = self.writes.pop_front().expect("there is a first");
            self.note_refused(&w);
            let error = format!("input at offset {start} would leave a hole: {taken} bytes were taken so far; write from there");
            finished.push(Finished::Refused { by: w.by, code: code::BAD_OFFSET, error });
            return true;
        }
        // Bytes that an interrupted attempt has put into the input are not written again.
        let known = taken.saturating_sub(start.saturating_add(w.done)).min(w.held.len() as u64) as usize;
        w.held.drain(..known);
        w.done += known as u64;
        if w.done == w.len {
            let w = self.writes.pop_front().expect("there is a first");
            finished.push(Finished::Written { by: w.by, taken: w.len, next: taken });
            return true;
        }
        if w.held.is_empty() {
            return known > 0;
        }
        let (front, _) = w.held.as_slices();
        let chunk = front[..front.len().min(FILL)].to_vec();
        let n = fill(pair, &chunk, CALLER);
        w.held.drain(..n);
        w.done += n as u64;
        n > 0
    }

    /// A character ends the input of a terminal, which can continue after it. Returns whether the character was put into the spool.
    fn end_terminal_if_asked(&self, pair: &Pair) -> bool {
        match &pair.input {
            Some(tty) if pair.settings.pty && pair.live().has(flag::INPUT_CLOSE_ASKED) => fill(pair, &[crate::tty::eof_char(tty)], END) > 0,
            Some(_) | None => false,
        }
    }

    /// Closes the input if that was requested and everything before it was moved. Returns whether it is closed.
    fn end_pipe_if_asked(&mut self, pair: &mut Pair) -> bool {
        let live = pair.live();
        if pair.settings.pty || !live.has(flag::INPUT_CLOSE_ASKED) || live.has(flag::INPUT_CLOSED) {
            return false;
        }
        if pair.in_spool.as_ref().is_some_and(|s| s.filled() > 0) {
            return false;
        }
        close(pair);
        true
    }

    fn refuse_all(&mut self, pair: &Pair, finished: &mut Vec<Finished>) {
        let taken = pair.live().in_client.load(SeqCst);
        while let Some(w) = self.writes.pop_front() {
            self.note_refused(&w);
            // A repeated write of bytes that were written before the input was closed gets that answer.
            match w.at {
                Some(at) if at.checked_add(w.len).is_some_and(|end| end <= taken) => {
                    finished.push(Finished::Written { by: w.by, taken: w.len, next: taken })
                }
                _ => {
                    let error = format!("the process has closed its input; {taken} bytes were taken");
                    finished.push(Finished::Refused { by: w.by, code: code::NO_INPUT, error });
                }
            }
        }
    }

    fn note_refused(&mut self, w: &Write) {
        if w.received < w.len {
            self.refused.push((w.by, w.len - w.received));
        }
    }
}

/// Puts bytes into the empty spool and counts them as written.
fn fill(pair: &Pair, bytes: &[u8], kind: u32) -> usize {
    let Some(spool) = &pair.in_spool else { return 0 };
    let live = pair.live();
    live.in_kind.store(kind, SeqCst);
    let n = rustix::io::write(&spool.w, bytes).unwrap_or(0);
    points::reach("pump.input.filled");
    if n > 0 {
        commit(live, live.in_base.load(SeqCst) + n as u64);
    }
    n
}

/// Counts the bytes in the spool as written, by their kind. Repeating it after a kill has the same result.
fn commit(live: &Live, target: u64) {
    let kind = live.in_kind.load(SeqCst);
    match kind {
        ANSWER => live.answered.store(live.answering.load(SeqCst), SeqCst),
        END => {
            live.flags.fetch_and(!flag::INPUT_CLOSE_ASKED, SeqCst);
        }
        _ => {}
    }
    match kind {
        ANSWER | END => live.in_answers.store(target - live.in_client.load(SeqCst).min(target), SeqCst),
        _ => live.in_client.store(target - live.in_answers.load(SeqCst).min(target), SeqCst),
    }
    live.in_target.store(target, SeqCst);
}

/// Moves the contents of the spool to the command. Returns whether the spool is empty now.
fn drain(pair: &mut Pair) -> bool {
    let (Some(spool), Some(input)) = (&pair.in_spool, &pair.input) else { return false };
    let live = pair.live();
    loop {
        let filled = spool.filled();
        if filled == 0 {
            live.in_base.store(live.in_target.load(SeqCst), SeqCst);
            return true;
        }
        match rustix::pipe::splice(&spool.r, None, input, None, filled as usize, SpliceFlags::NONBLOCK) {
            Ok(n) if n > 0 => {
                points::reach("pump.input.moved");
            }
            Err(Errno::INTR) => {}
            Ok(_) | Err(Errno::AGAIN) => return false,
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) if move_by_hand(live, spool, input) == Ok(true) => {}
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) if spool.filled() > 0 => return false,
            // No process can read it any more.
            Err(_) => {
                discard(spool);
                close(pair);
                return false;
            }
        }
    }
}

/// Moves the contents of the spool to the command if `splice` is refused. In between, the bytes are in memory only. Bytes that do
/// not fit go back to the spool. Returns whether any bytes were moved.
fn move_by_hand(live: &Live, spool: &Pipe, input: &OwnedFd) -> Result<bool, Errno> {
    live.set(flag::BY_HAND | flag::IN_HAND);
    let mut bytes = vec![0; FILL];
    // The spool is filled only while it is empty, and with at most this many bytes.
    let read = rustix::io::read(&spool.r, &mut bytes).unwrap_or(0);
    let moved = match rustix::io::write(input, &bytes[..read]) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        moved => moved,
    };
    // The spool was just emptied, so the rest fits.
    let _whole = rustix::io::write(&spool.w, &bytes[moved.unwrap_or(read)..read]);
    live.flags.fetch_and(!flag::IN_HAND, SeqCst);
    moved.map(|n| n > 0)
}

fn discard(spool: &Pipe) {
    let mut rest = [0; 4096];
    while matches!(rustix::io::read(&spool.r, &mut rest), Ok(n) if n > 0) {}
}

/// Closes the input here, and wakes the other keeper to close it, too: the command sees the end of its input only when both have.
fn close(pair: &mut Pair) {
    pair.live().set(flag::INPUT_CLOSED);
    pair.catch_up();
    pair.wake(Role::Holder);
}
