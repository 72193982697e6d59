//! Leaving the process tree of the caller.
#![allow(unsafe_code)]

use std::io;

/// Forks: the child continues, and this process ends, so that the child has no parent in the tree of the caller. Must be called before there is a second thread.
pub(crate) fn leave_parent() -> io::Result<()> {
    // SAFETY: this is the only thread, so no other thread holds a lock that the child would wait for.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(()),
        _ => {
            // SAFETY: ends the process without exit handlers, which the child runs at its own end.
            unsafe { libc::_exit(0) }
        }
    }
}
