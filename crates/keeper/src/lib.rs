//! The keepers of one process, from its start to its last record.
//!
//! Two processes supervise each command. The **holder** is its parent. It starts the command, waits for its end, and does as little
//! else as possible. The **pump** copies its output to the log, writes its input, stops its tree, and records its end. Each has all
//! descriptors that the other needs. If one dies, the other forks a new one, at any moment and any number of times. Their shared
//! state is in `meta`, in a mapping that both share.
//!
//! There are no threads, no async runtime and no database. A thread could still write after the pump's pidfd has reported its
//! death, and there may be a thousand keepers, so their memory counts.

mod connect;
mod control;
mod copy_output;
mod end;
mod fork_server;
mod hold;
mod holder;
mod input;
mod kill;
mod limits;
mod notify_engine;
mod os;
mod pair;
mod prepared;
mod pump;
mod spawn;
mod start;
mod start_engine;
mod tree;
mod tty;
mod wait_for_go;
mod watch;

use outlast_core::Role;
use outlast_store::dir::Home;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// What a keeper does next.
pub(crate) enum Next {
    /// This is the new process, with this role.
    Become(Role),
    /// All work is done.
    Exit,
}

pub use os::close_inherited;

/// Writes to the log of the engine of this process's home. Standard error leads to the log file of the time at which the fork
/// server was started, which may have been rotated since. On a full disk the message is lost, which must not cause another failure.
pub(crate) fn complain(folder: &Path, what: std::fmt::Arguments<'_>) {
    let line = format!("outlast-keeper: {what}\n");
    let log = folder.ancestors().nth(2).map(|root| Home::new(root).engine_log());
    let log = log.and_then(|log| std::fs::OpenOptions::new().append(true).open(log).ok());
    let _unheard = log.map_or_else(|| std::io::stderr().write_all(line.as_bytes()), |mut log| log.write_all(line.as_bytes()));
}

/// Runs as the keepers of one process; `args` name its folder. Returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>) -> i32 {
    let mut args = args.into_iter().peekable();
    if args.next_if(|first| first == "connect").is_some() {
        return connect::main(args);
    }
    if args.next_if(|first| first == "hold").is_some() {
        return hold::main(args);
    }
    let (Some(dir), None) = (args.next(), args.next()) else {
        eprintln!("usage: outlast-keeper PROCESS-FOLDER (started by the engine, not by hand)");
        return 64;
    };
    let dir = PathBuf::from(dir);
    let mut pair = match prepare_pair(&dir) {
        Ok(Some(pair)) => pair,
        // Other keepers have it, or it was started before.
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
            // No destructors: the keepers' own files were removed, and the kernel closes the rest.
            Next::Exit => os::exit_now(0),
        }
    }
}

/// A pair with everything except its command. In the fork server, returns once a keeper is requested.
fn prepare_pair(folder: &Path) -> Result<Option<pair::Pair>, start::StartError> {
    if fork_server::is_unnamed(folder) {
        let keeper = fork_server::run(folder)?;
        return start::prepare(keeper.folder, Some(keeper.engine), Some(keeper.image), keeper.base);
    }
    let engine = start::engine_at_stdin()?;
    if let Some(root) = folder.ancestors().nth(2) {
        connect::name_pids_after(&Home::new(root));
    }
    // Descriptors of the program that started the engine must reach neither the keepers nor the command: a lock held through one
    // would never be released.
    os::close_inherited(engine.as_ref().map(AsRawFd::as_raw_fd));
    let image = engine.as_ref().and_then(|_| start::image_at_stdout());
    start::prepare(folder.to_owned(), engine, image, start::KeeperBase::open()?)
}
