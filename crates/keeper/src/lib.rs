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
mod limits;
mod mover;
mod nest;
mod os;
mod pair;
mod pump;
mod ready;
mod spawn;
mod start;
mod tell;
mod tree;
mod tty;
mod wake;
mod watch;

use outlast_core::Role;
use outlast_store::dir::Home;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// What a role does next.
pub(crate) enum Next {
    /// This is the new process: it has this role.
    Become(Role),
    /// Nothing is left to do.
    Exit,
}

pub use os::close_inherited;

/// Into the log of the engine of this process's home. Our standard error leads to the one there was when the nest was made, and may have been set aside since.
/// On a full disk nobody hears it, and that must harm nobody.
pub(crate) fn complain(folder: &Path, what: std::fmt::Arguments<'_>) {
    let line = format!("outlast-keeper: {what}\n");
    let log = folder.ancestors().nth(2).map(|root| Home::new(root).engine_log());
    let log = log.and_then(|log| std::fs::OpenOptions::new().append(true).open(log).ok());
    let _unheard = log.map_or_else(|| std::io::stderr().write_all(line.as_bytes()), |mut log| log.write_all(line.as_bytes()));
}

/// Runs as the keepers of one process; `args` name its folder. The result is for `exit`.
pub fn main(args: impl IntoIterator<Item = OsString>) -> i32 {
    let mut args = args.into_iter();
    let (Some(dir), None) = (args.next(), args.next()) else {
        eprintln!("usage: outlast-keeper PROCESS-FOLDER (started by the engine, not by hand)");
        return 64;
    };
    let dir = PathBuf::from(dir);
    let mut pair = match ready(&dir) {
        Ok(Some(pair)) => pair,
        // Somebody else looks after it, or it was started before.
        Ok(None) => return 0,
        Err(e) => {
            complain(&dir, format_args!("{e}"));
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

/// A pair that has everything but its command; from a nest, once it is asked for.
fn ready(folder: &Path) -> Result<Option<pair::Pair>, start::StartError> {
    if nest::is_unnamed(folder) {
        let asked = nest::run(folder)?;
        return start::prepare(asked.folder, Some(asked.engine), Some(asked.image), asked.ground);
    }
    let engine = start::engine_at_stdin()?;
    // What the engine's first caller had open must reach neither us nor the command: a lock there would be held for ever.
    os::close_inherited(engine.as_ref().map(AsRawFd::as_raw_fd));
    let image = engine.as_ref().and_then(|_| start::image_at_stdout());
    start::prepare(folder.to_owned(), engine, image, start::Ground::lay()?)
}
