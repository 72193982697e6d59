//! Waits for the engine's go-ahead: both keepers exist, and the engine sends it once the request is on its disk.
//!
//! The holder waits for it, and wakes the pump when the command runs. Without a holder, or once the engine has left, the pump
//! checks by itself. The keeper that finds the go-ahead records it in `meta` before it takes it off the connection. So it is never
//! only in the memory of a process that may be killed. If the engine leaves without it, or one keeper dies before it, the other
//! exits, too: nothing was started, and the engine requests another pair.
//!
//! Decision 80: docs/decisions/keeper.md.

use crate::pair::{Pair, slept};
use outlast_core::Role;
use outlast_store::meta::flag;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Waits for the go-ahead. Returns whether it came; if not, nothing is to be done.
pub(crate) fn wait(pair: &Pair, role: Role) -> bool {
    let wake = match role {
        Role::Pump => &pair.wake_pump,
        Role::Holder => &pair.wake_holder,
    };
    loop {
        if pair.live().has(flag::GO) {
            return true;
        }
        // Without a connection it was recorded when the pair was made.
        let Some(engine) = &pair.engine else { return false };
        match word(engine) {
            Word::Go => {
                pair.live().set(flag::GO);
                return true;
            }
            // The other keeper may have taken and recorded it.
            Word::Gone => return pair.live().has(flag::GO),
            Word::None => {}
        }
        if pair.partner.is_some() && pair.partner_is_over() {
            return pair.live().has(flag::GO);
        }
        // A pump with a holder has nothing to do before the holder has started the command and wakes it. Poll reports a closed
        // connection in any case.
        let word = if role == Role::Pump && pair.partner.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(engine, word), PollFd::new(wake, PollFlags::IN)];
        fds.extend(pair.partner.as_ref().map(|p| PollFd::new(p, PollFlags::IN)));
        // Interrupted or not, everything is checked again.
        let _woken = poll(&mut fds, None);
        slept(wake);
    }
}

/// Takes the go-ahead off the connection, which has other uses from now on.
pub(crate) fn take(engine: &OwnedFd) -> std::io::Result<()> {
    rustix::io::ioctl_fionbio(engine, true)?;
    // It was seen, so it is there.
    let _word = recv(engine, &mut [0][..], RecvFlags::DONTWAIT);
    Ok(())
}

enum Word {
    Go,
    None,
    Gone,
}

fn word(engine: &OwnedFd) -> Word {
    match recv(engine, &mut [0][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((1.., _)) => Word::Go,
        Err(Errno::AGAIN | Errno::INTR) => Word::None,
        Ok(_) | Err(_) => Word::Gone,
    }
}
