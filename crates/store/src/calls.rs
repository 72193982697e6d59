//! The system calls that a container's profile or an old kernel may refuse, and the fallback for each.
//!
//! The list was found by tracing keepers, fork server and engine. `tests/it/calls.rs` refuses every row with ENOSYS, EPERM and EINVAL.
//!
//! Decision 155: docs/decisions/keeper.md.

use std::io;

/// A system call that may be refused.
#[derive(Debug)]
#[non_exhaustive]
pub struct Call {
    /// Its name, with the operation if only that is refused.
    pub name: &'static str,
    /// Its number on this machine.
    pub number: i64,
    /// The argument and its value, if the call is refused for that value only.
    pub argument: Option<(u8, u32)>,
    /// The fallback.
    pub without: Without,
}

/// The fallback for a refused call.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Without {
    /// Another way, which keeps every promise.
    SamePromises(&'static str),
    /// Another way, which weakens a promise; `poll` or `doctor` says so.
    WeakerPromise(&'static str),
    /// No fallback: nothing is started, and `run` says so at once.
    NoStart(&'static str),
}

use Without::{NoStart, SamePromises, WeakerPromise};

const fn call(name: &'static str, number: i64, without: Without) -> Call {
    Call { name, number, argument: None, without }
}

const fn operation(name: &'static str, number: i64, argument: (u8, u32), without: Without) -> Call {
    Call { name, number, argument: Some(argument), without }
}

/// `_IOWR(0xFF, 11, struct pidfd_info)`.
pub const PIDFD_GET_INFO: u32 = (3 << 30) | (64 << 16) | (0xFF << 8) | 11;

/// Every call that may be refused.
pub const CALLS: &[Call] = &[
    call("clone3", libc::SYS_clone3, SamePromises("clone; the child enters its cgroup leaf itself")),
    call("close_range", libc::SYS_close_range, SamePromises("the numbers in /proc/self/fd, closed one by one")),
    call("pidfd_open", libc::SYS_pidfd_open, NoStart("a pid alone may come to mean another process")),
    call("pidfd_send_signal", libc::SYS_pidfd_send_signal, NoStart("a signal to a pid may reach another process")),
    operation("waitid(P_PIDFD)", libc::SYS_waitid, (0, libc::P_PIDFD), SamePromises("waitid(P_PID): the child is not reaped yet")),
    operation(
        "ioctl(PIDFD_GET_INFO)",
        libc::SYS_ioctl,
        (1, PIDFD_GET_INFO),
        WeakerPromise("P3: after one keeper was lost, the death of the second loses the exit code (`protection: output-only`)"),
    ),
    operation("ioctl(TIOCGPTPEER)", libc::SYS_ioctl, (1, libc::TIOCGPTPEER as u32), SamePromises("the terminal is opened by its name")),
    call(
        "splice",
        libc::SYS_splice,
        WeakerPromise(
            "P5: output is in a keeper's memory between read and write; a kill right then loses up to 64 KiB, and `poll` says so",
        ),
    ),
    call("tee", libc::SYS_tee, WeakerPromise("P5: as with splice")),
    call("fallocate", libc::SYS_fallocate, SamePromises("zeros are written")),
    call("renameat2", libc::SYS_renameat2, SamePromises("the folder is made from scratch")),
    call(
        "memfd_create",
        libc::SYS_memfd_create,
        WeakerPromise("login files are not read for their variables; live state is in a file on a tmpfs, without which nothing starts"),
    ),
    call("inotify_init1", libc::SYS_inotify_init1, SamePromises("what was to be watched is looked at again after a while")),
    call("copy_file_range", libc::SYS_copy_file_range, SamePromises("the standard library reads and writes")),
    call("statx", libc::SYS_statx, SamePromises("the standard library calls stat")),
    call("signalfd4", libc::SYS_signalfd4, NoStart("the end of a child would not be noticed")),
    call("eventfd2", libc::SYS_eventfd2, NoStart("the engine cannot be woken")),
    operation(
        "prctl(PR_SET_CHILD_SUBREAPER)",
        libc::SYS_prctl,
        (0, libc::PR_SET_CHILD_SUBREAPER as u32),
        NoStart("what a command leaves behind could not be found again"),
    ),
];

/// Tries the calls without which nothing can be started. Returns the first refused one, and its error.
pub fn refused() -> Option<(&'static Call, io::Error)> {
    let needed = CALLS.iter().filter(|call| matches!(call.without, NoStart(_)));
    needed.into_iter().find_map(|call| crate::os::try_call(call.name).err().map(|error| (call, error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_that_is_needed_is_tried_and_here_none_is_refused() {
        assert!(refused().is_none(), "{:?}", refused());
        assert!(crate::os::try_call("made up").is_err(), "a call that cannot be tried is not taken for allowed");
    }
}
