//! Calls to the system.

#![allow(unsafe_code)]

use std::io;
use std::os::unix::net::UnixStream;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a socket with the runtime, which then waits for `interest`.
pub(crate) fn awaited(stream: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    // SAFETY: a `UnixStream` owns its descriptor, which stays open and the same until it is dropped, and the runtime owns the stream until then.
    unsafe { AsyncFd::register_with_interest(stream, interest) }.map_err(Into::into)
}
