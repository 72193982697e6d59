//! Leaving the tree of whoever started us.
#![allow(unsafe_code)]

use std::io;

/// Goes on in a process whose parent is gone: the one that was started ends. To be called before there is a second thread.
pub(crate) fn leave_parent() -> io::Result<()> {
    // SAFETY: this is the only thread, so that nothing in the child waits for a lock that somebody held here.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(()),
        _ => {
            // SAFETY: ends the process without running what the child will run at its own end.
            unsafe { libc::_exit(0) }
        }
    }
}
