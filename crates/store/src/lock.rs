//! Locks that belong to an open file description.
//!
//! Both keepers share the description on which `meta` was locked. So the lock is free exactly when both are dead.

use rustix::fs::FlockOperation;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The pauses between the attempts to take a lock: a program that calls [`is_held`] holds it for an instant.
const TRIES: [Duration; 3] = [Duration::from_micros(100), Duration::from_millis(1), Duration::from_millis(4)];

/// Takes the lock on `file` for as long as any copy of its description is open. False if another program holds it.
pub fn try_hold(file: &File) -> io::Result<bool> {
    let mut tries = TRIES.iter();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => match tries.next() {
                Some(apart) => std::thread::sleep(*apart),
                None => return Ok(false),
            },
            Err(e) => return Err(e.into()),
        }
    }
}

/// Takes the lock, and waits for the program that holds it.
pub fn hold(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::LockExclusive)?)
}

/// Whether a program holds the lock on the file at `path`. A missing file is not locked.
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
