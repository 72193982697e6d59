//! Who may write: a lock that belongs to the open file description.
//!
//! Both keepers share the description on which `meta` was locked, so the lock is free exactly when both are dead.

use rustix::fs::FlockOperation;
use std::fs::File;
use std::io;
use std::path::Path;

/// Takes the lock on `file` for as long as any copy of its description is open. `false` if somebody else has it.
pub fn try_hold(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Takes the lock, waiting for whoever has it.
pub fn hold(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::LockExclusive)?)
}

/// Whether somebody holds the lock on the file at `path`. A file that is not there is held by nobody.
pub fn is_held(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(f) => f,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
        Err(e) => Err(e.into()),
    }
}
