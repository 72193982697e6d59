//! Both keepers are there, and the command is not: the engine says when, once the request is on its disk.
//!
//! The holder waits for the word, and wakes the pump when the command is there; without a holder, or once the engine has left, the pump looks by itself. Whoever finds it
//! notes it in `meta` before it is taken off the connection, so that it is never only in the memory of one that may be killed. If the engine leaves without a word, or one of the
//! two dies before it, the other leaves too: nothing was started, and the engine asks for another pair.
//!
//! Decision 80: docs/decisions/keeper.md.

use crate::pair::{Pair, slept};
use outlast_core::Role;
use outlast_store::meta::flag;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Waits for the word. Whether it came; if not, there is nothing to do.
pub(crate) fn wait(pair: &Pair, role: Role) -> bool {
    let wake = match role {
        Role::Pump => &pair.wake_pump,
        Role::Holder => &pair.wake_holder,
    };
    loop {
        if pair.live().has(flag::GO) {
            return true;
        }
        // Without a connection it was noted when the pair was made.
        let Some(engine) = &pair.engine else { return false };
        match word(engine) {
            Word::Go => {
                pair.live().set(flag::GO);
                return true;
            }
            // The other one may have taken it, and noted it before.
            Word::Gone => return pair.live().has(flag::GO),
            Word::None => {}
        }
        if pair.partner.is_some() && pair.partner_is_over() {
            return pair.live().has(flag::GO);
        }
        // A pump with a holder has nothing to do before that has started the command, and is woken then. Whether the engine has left it is told whatever it asks for.
        let word = if role == Role::Pump && pair.partner.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![PollFd::new(engine, word), PollFd::new(wake, PollFlags::IN)];
        fds.extend(pair.partner.as_ref().map(|p| PollFd::new(p, PollFlags::IN)));
        // Interrupted or not, everything is looked at again.
        let _woken = poll(&mut fds, None);
        slept(wake);
    }
}

/// Takes the word off the connection, which serves for other things from now on.
pub(crate) fn take(engine: &OwnedFd) -> std::io::Result<()> {
    rustix::io::ioctl_fionbio(engine, true)?;
    // It is there: it was seen.
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
