//! Linux: waits for the exit of a child through its pidfd.
#![allow(unsafe_code)]

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A child of this program, held by its pidfd.
pub(crate) struct ChildHandle(AsyncFd<OwnedFd>);

impl ChildHandle {
    /// Holds a child that was not reaped yet.
    pub(crate) fn of(child: Pid) -> io::Result<Self> {
        let pidfd = pidfd_open(child, PidfdFlags::NONBLOCK)?;
        // SAFETY: the AsyncFd owns the OwnedFd and never gives it out, so it refers to the same open descriptor for as long as it lives.
        let watched = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
        Ok(Self(watched?))
    }

    /// Waits until the child exited. It is not reaped by this, so its pid and its group stay its own.
    pub(crate) async fn exited(&self) {
        // Only the reactor fails here, when the runtime ends.
        if self.0.readable().await.is_err() {
            pending::<()>().await;
        }
    }
}
