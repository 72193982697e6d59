//! Starts an engine when there is news and nobody to hear it.
//!
//! Decision 11: docs/decisions/keeper.md.

use crate::os::{self, Fork, Kin};
use crate::pair::Pair;
use outlast_core::OsText;
use outlast_store::{dir::Home, lock};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::AtomicI32;

/// An engine that is being started: the lock that keeps others from starting one too, until it is up or has failed.
#[derive(Debug)]
pub(crate) struct Waking {
    /// Readable once the engine is up, ended if it failed.
    pub(crate) ready: OwnedFd,
    _lock: File,
}

/// Starts an engine unless one is there or on its way. Failing is no harm: the next call of anybody starts one, and finds the news in the folder.
pub(crate) fn engine(pair: &Pair) -> Option<Waking> {
    let program = pair.settings.engine.as_ref()?;
    let home = Home { root: pair.settings.home.as_path().to_owned() };
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(home.start_lock()).ok()?;
    if !lock::try_hold(&lock).ok()? || lock::is_held(&home.lock()).ok()? {
        return None;
    }
    let (ready, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
    let nobody = AtomicI32::new(0);
    // Not our child, so that it is never taken for a part of the command's tree.
    match os::fork(&nobody, &Kin::Sibling).ok()? {
        Fork::Parent(_) => Some(Waking { ready, _lock: lock }),
        Fork::Child => {
            execute(pair, program, &home, &lock, told);
            os::exit_now(127);
        }
    }
}

fn execute(pair: &Pair, program: &OsText, home: &Home, lock: &File, told: OwnedFd) {
    let _leads_already = rustix::process::setsid();
    // The lock goes along as its input: should we be killed now, the next one still waits until that engine listens or is gone.
    if os::put_at(lock.as_fd(), 0).is_err() {
        return;
    }
    // Above the standard streams, and the only other descriptor that goes along.
    let Ok(told) = rustix::io::fcntl_dupfd_cloexec(&told, 3) else { return };
    if rustix::io::fcntl_setfd(&told, rustix::io::FdFlags::empty()).is_err() {
        return;
    }
    if let Ok(log) = OpenOptions::new().append(true).create(true).mode(0o600).open(home.engine_log()) {
        // Standard error leads to the log already if an engine started us.
        let _same = os::put_at(log.as_fd(), 2);
    }
    let text = |b: Vec<u8>| CString::new(b).ok();
    let argv = [
        program.as_bytes().to_vec(),
        b"__engine".to_vec(),
        b"--home".to_vec(),
        pair.settings.home.as_bytes().to_vec(),
        b"--ready-fd".to_vec(),
        told.as_raw_fd().to_string().into_bytes(),
    ]
    .map(text);
    // Our own environment is the engine's: it gave it to us.
    let env: Vec<CString> = std::env::vars_os().filter_map(|(k, v)| text([k.into_vec(), b"=".to_vec(), v.into_vec()].concat())).collect();
    let (Some(program), Some(argv)) = (text(program.as_bytes().to_vec()), argv.into_iter().collect::<Option<Vec<_>>>()) else { return };
    os::reset_signals();
    let pointers = |texts: &[CString]| texts.iter().map(|t| t.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    os::exec(&program, &pointers(&argv), &pointers(&env));
}
