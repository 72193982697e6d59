//! One process, from its start to its last record.
//!
//! Two processes look after each command. The **holder** is its parent: it starts it, waits for its end, and does as little else as can be.
//! The **pump** moves its output into the log, takes its input, stops its tree, and writes the record of its end. Each holds every descriptor
//! the other needs, so that whichever dies, the other makes a new one by forking, at any instant and any number of times. What they know lies
//! in `meta`, in a mapping they share.
//!
//! No threads, no async runtime, no database: a thread could still write after the pump's pidfd has fired, and memory counts a thousandfold.

mod control;
mod end;
mod holder;
mod input;
mod kill;
mod mover;
mod os;
mod pair;
mod pump;
mod spawn;
mod start;
mod tell;
mod tree;
mod tty;
mod wake;
mod watch;

use outlast_core::Role;
use std::ffi::OsString;

/// What a role does next.
pub(crate) enum Next {
    /// This is the new process: it has this role.
    Become(Role),
    /// Nothing is left to do.
    Exit,
}

pub use os::close_inherited;

/// Into the engine's log. On a full disk nobody hears it, and that must harm nobody.
pub(crate) fn complain(what: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _unheard = writeln!(std::io::stderr(), "outlast-keeper: {what}");
}

/// Runs as the keepers of one process; `args` name its folder. The result is for `exit`.
pub fn main(args: impl IntoIterator<Item = OsString>) -> i32 {
    let mut args = args.into_iter();
    let (Some(dir), None) = (args.next(), args.next()) else {
        eprintln!("usage: outlast-keeper PROCESS-FOLDER (started by the engine, not by hand)");
        return 64;
    };
    let mut pair = match start::prepare(dir.into()) {
        Ok(Some(pair)) => pair,
        // Somebody else looks after it, or it was started before.
        Ok(None) => return 0,
        Err(e) => {
            complain(format_args!("{e}"));
            return 1;
        }
    };
    let mut role = Role::Pump;
    loop {
        let next = match role {
            Role::Pump => pump::run(&mut pair),
            Role::Holder => holder::run(&mut pair),
        };
        match next {
            Next::Become(new) => role = new,
            // No destructors: what is ours to remove was removed, and the rest is the kernel's to close.
            Next::Exit => os::exit_now(0),
        }
    }
}
