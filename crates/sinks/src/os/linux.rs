//! Linux: the end of a child, seen through its pidfd.
#![allow(unsafe_code)]

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The life of a child of ours.
pub(crate) struct Life(AsyncFd<OwnedFd>);

impl Life {
    /// That of a child which nobody has reaped yet.
    pub(crate) fn of(child: Pid) -> io::Result<Self> {
        let pidfd = pidfd_open(child, PidfdFlags::NONBLOCK)?;
        // SAFETY: an OwnedFd is the same open descriptor for as long as it lives, and what is made of it here owns it and never gives it out.
        let watched = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
        Ok(Self(watched?))
    }

    /// Waits until it ended. It is not reaped by this, so its number, and that of its group, stay its own.
    pub(crate) async fn ended(&self) {
        // An error would be one of the reactor's, which ends with the runtime.
        if self.0.readable().await.is_err() {
            pending::<()>().await;
        }
    }
}
