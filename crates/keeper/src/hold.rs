//! `outlast-keeper hold`: the first program of a sandbox on this machine that has processes of its own, such as one of bubblewrap.
//!
//! When the first program of such a sandbox ends, the kernel kills the others. So it must not be `connect`, which ends with its stream. This
//! one listens on a socket in the sandbox's directory, and starts a `connect` for each connection. It ends when nothing runs any more.
//!
//! Decision 407: docs/decisions/anywhere.md.

use crate::{os, start};
use outlast_store::dir::Home;
use outlast_store::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::SocketFlags;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long it stays without a stream and without a process.
const IDLE: Duration = Duration::from_secs(2);
/// How often it looks whether a process runs while there is no stream. Locks report nothing when they become free.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Serves a sandbox in this directory. Returns the exit code.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> i32 {
    let (Some(option), Some(dir), None) = (args.next(), args.next(), args.next()) else { return usage() };
    if option != "--dir" {
        return usage();
    }
    match serve(&PathBuf::from(dir)) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("outlast-keeper: cannot hold the sandbox: {e}");
            1
        }
    }
}

fn usage() -> i32 {
    eprintln!("usage: outlast-keeper hold --dir DIR (started by a link, not by hand)");
    64
}

fn serve(dir: &Path) -> io::Result<()> {
    os::close_inherited(None);
    let _already_leader = rustix::process::setsid();
    let signals = os::take_signals()?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let held = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(dir.join("door.lock"))?;
    if !lock::try_hold(&held)? {
        return Ok(());
    }
    // A relative path is short enough for a socket, however long that of the directory is.
    std::env::set_current_dir(dir)?;
    let door = start::listen(Path::new("door"))?;
    io::stdout().write_all(b"r")?;
    io::stdout().flush()?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
    os::put_at(null.as_fd(), 0)?;
    os::put_at(null.as_fd(), 1)?;
    let program = std::env::current_exe()?;
    let home = Home::new(dir.join("home"));
    let (mut streams, mut idle_since) = (BTreeSet::new(), Some(Instant::now()));
    loop {
        let mut fds = [PollFd::new(&door, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        // With a stream there is nothing to look for.
        let _woken = poll(&mut fds, streams.is_empty().then_some(&LOOK));
        os::read_signals(signals.as_fd());
        while let Some(pid) = os::reap_any() {
            streams.remove(&pid);
        }
        while let Ok(stream) = rustix::net::accept_with(&door, SocketFlags::CLOEXEC) {
            // The directory is closed to other users. The link is in another pid namespace, so the kernel names no pid of it, and nothing
            // more is to be learned about it.
            if let Ok(pid) = connect(&program, &home, stream) {
                streams.insert(pid);
            }
        }
        if !streams.is_empty() || runs_something(&home) {
            idle_since = None;
        } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= IDLE {
            return Ok(());
        }
    }
}

fn connect(program: &Path, home: &Home, stream: OwnedFd) -> io::Result<u32> {
    let output = stream.try_clone()?;
    let mut command = Command::new(program);
    command.arg("connect").arg("--home").arg(&home.root).stdin(Stdio::from(stream)).stdout(Stdio::from(output));
    Ok(command.spawn()?.id())
}

/// Whether keepers look after a process.
fn runs_something(home: &Home) -> bool {
    home.ids().unwrap_or_default().into_iter().any(|id| lock::is_held(&home.process(id).meta()).unwrap_or(true))
}
