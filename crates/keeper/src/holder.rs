//! The parent of the command. Starts it, waits for its end, publishes the end, reaps it. Does as little else as possible.
//!
//! Decision 9: docs/decisions/keeper.md.

use crate::pair::{Pair, slept};
use crate::{Next, end, os, spawn};
use outlast_core::Role;
use outlast_store::meta::flag;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;

/// How often the pump's heartbeat is checked, in seconds. A pump counts as hung after two checks without progress while work waits
/// for it.
const PULSE: i64 = 5;
/// How long a pump has after a CONT before it is replaced, in seconds.
const SECOND_CHANCE: i64 = 2;

pub(crate) fn run(pair: &mut Pair) -> Next {
    if !crate::wait_for_go::wait(pair, Role::Holder) {
        // Nothing was started. The pump cleans up; if it is dead, this keeper does.
        if pair.partner_is_over() {
            crate::pump::let_go(pair);
            crate::pump::clean_home(pair);
        }
        return Next::Exit;
    }
    outlast_store::points::reach("holder.go");
    spawn::start(pair);
    // From here on the connection is between the engine and the pump.
    pair.engine = None;
    let mut pulse = Pulse { beat: u64::MAX, still: 0 };
    let mut noted = false;
    let mut orphans = false;
    loop {
        pair.catch_up();
        if end::observe(pair) && !pair.live().has(flag::RECORDED) {
            pair.wake(Role::Pump);
        }
        if std::mem::take(&mut orphans) {
            end::reap_orphans(pair);
        }
        end::reap_if_recorded(pair);
        if pair.live().has(flag::DONE) {
            if pair.live().has(flag::CLEAN) {
                return Next::Exit;
            }
            if pair.partner_is_over() {
                crate::pump::clean(pair);
                crate::pump::clean_home(pair);
                return Next::Exit;
            }
            // The pump is about to clean up. If it dies first, this keeper cleans up.
            orphans = wait(pair, &mut pulse);
            continue;
        }
        if pair.partner_is_over() {
            if !std::mem::replace(&mut noted, true) {
                pair.note_death(Role::Pump);
            }
            match pair.fork(Role::Pump) {
                Ok(Some(role)) => return Next::Become(role),
                Ok(None) => {
                    (pulse, noted) = (Pulse { beat: u64::MAX, still: 0 }, false);
                    // If the write is refused, readers find this keeper by its command line.
                    let _later = pair.meta.save();
                }
                // No process can be created now. Until one can, output waits in its pipe.
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(100)),
            }
            continue;
        }
        orphans = wait(pair, &mut pulse);
    }
}

struct Pulse {
    beat: u64,
    still: u32,
}

/// Sleeps until an event, or until the next check of the heartbeat. Returns whether a child has ended.
fn wait(pair: &Pair, pulse: &mut Pulse) -> bool {
    let watch_cmd = pair.live().wait_status().is_none();
    let mut fds = vec![PollFd::new(&pair.wake_holder, PollFlags::IN), PollFd::new(&pair.signals, PollFlags::IN)];
    fds.extend(pair.partner.as_ref().map(|p| PollFd::new(p, PollFlags::IN)));
    fds.extend(pair.cmd.as_ref().filter(|_| watch_cmd).map(|c| PollFd::new(c, PollFlags::IN)));
    // Dead, and not a child of this keeper: its new parent reaps it soon, and no descriptor reports that.
    let waiting_for_heir = watch_cmd && pair.cmd.as_ref().is_some_and(|c| os::is_over(c.as_fd()));
    let timeout = if waiting_for_heir {
        fds.pop();
        Timespec { tv_sec: 0, tv_nsec: 2_000_000 }
    } else {
        Timespec { tv_sec: if pulse.still >= 2 { SECOND_CHANCE } else { PULSE }, tv_nsec: 0 }
    };
    match poll(&mut fds, Some(&timeout)) {
        Ok(0) if !waiting_for_heir => feel(pair, pulse),
        Ok(_) | Err(_) => {}
    }
    slept(&pair.wake_holder);
    os::read_signals(pair.signals.as_fd()).contains(&(libc::SIGCHLD as u32))
}

/// Continues a pump that does nothing while output or the end waits for it, and kills it later. Its death makes this keeper replace
/// it.
fn feel(pair: &Pair, pulse: &mut Pulse) {
    let beat = pair.live().heartbeat.load(SeqCst);
    let live = pair.live();
    let unwritten = pair.spool.filled() > 0 || pair.out.as_ref().is_some_and(|o| rustix::io::ioctl_fionread(o).unwrap_or(0) > 0);
    let unrecorded = live.wait_status().is_some() && !live.has(flag::RECORDED);
    if beat != pulse.beat || !(unwritten || unrecorded) {
        *pulse = Pulse { beat, still: 0 };
        return;
    }
    pulse.still += 1;
    if let Some(pump) = &pair.partner {
        let number = match pulse.still {
            0 | 1 => return,
            2 => libc::SIGCONT,
            _ => libc::SIGKILL,
        };
        // If it is gone, its handle reports that.
        let _gone = outlast_store::os::send(pump.as_fd(), number);
    }
}
