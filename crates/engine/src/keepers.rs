//! The keepers of a process that hold its lock and cannot be reached: who they are, and what to wait for.

use crate::facts::is_kept;
use crate::mind::blocking;
use crate::os::{Lives, Watch};
use crate::shared::Shared;
use outlast_core::{ProcessId, Role};
use outlast_store::dir::ProcessDir;
use outlast_store::meta::Snapshot;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

/// Asks them to listen again, and returns when trying again may help: the socket is there, one of them is gone, or `longest` has passed.
pub(crate) async fn wait(shared: &Shared, id: ProcessId, dir: &ProcessDir, longest: Duration) -> io::Result<()> {
    // Set up before the look, so that a socket made in between is not missed.
    let made = Watch::for_new(&shared.run_dir());
    let socket = shared.socket(id);
    let found = find(dir);
    if tokio::net::UnixStream::connect(&socket).await.is_err() {
        nudge(&found);
    }
    let folder = dir.clone();
    // Whoever holds the lock now is among those found, or will make a socket.
    if !blocking(move || is_kept(&folder)).await? {
        return Ok(());
    }
    tokio::select! {
        _ = changed(made.ok()) => {}
        () = any_over(found) => {}
        () = tokio::time::sleep(longest) => {}
    }
    Ok(())
}

async fn changed(made: Option<Watch>) {
    match made {
        // That it cannot be watched leaves the time.
        Some(made) if made.changed().await.is_ok() => {}
        Some(_) | None => std::future::pending().await,
    }
}

struct Keeper {
    role: Role,
    handle: OwnedFd,
    /// Whether it is certain to be one, and may be signalled.
    is_ours: bool,
}

/// The keepers that there are, or that are on their way out.
fn find(dir: &ProcessDir) -> Vec<Keeper> {
    let Ok(meta) = Snapshot::read(dir) else { return Vec::new() };
    let find = |pid: u32, role: Role| {
        let handle = rustix::process::pidfd_open(i32::try_from(pid).ok().and_then(Pid::from_raw)?, PidfdFlags::empty()).ok()?;
        // Opened first, looked at second: from here on the handle cannot come to mean another.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let is_ours = line.split(|&b| b == 0).any(|argument| argument == dir.path.as_os_str().as_bytes());
        // Who is about to be gone has no command line any more; its lock goes last.
        (is_ours || line.is_empty()).then_some(Keeper { role, handle, is_ours })
    };
    [(meta.pump, Role::Pump), (meta.holder, Role::Holder)].into_iter().filter_map(|(pid, role)| find(pid, role)).collect()
}

/// Asks the pump to listen again, where the home's link now leads.
fn nudge(keepers: &[Keeper]) {
    for pump in keepers.iter().filter(|k| k.role == Role::Pump && k.is_ours) {
        if let Err(error) = rustix::process::pidfd_send_signal(&pump.handle, Signal::USR1) {
            tracing::debug!(%error, "cannot signal a pump");
        }
    }
}

/// Returns once one of them is over; never where there is none.
async fn any_over(keepers: Vec<Keeper>) {
    let mut lives: tokio::task::JoinSet<()> = tokio::task::JoinSet::new();
    for life in keepers.into_iter().filter_map(|k| Lives::at(k.handle).ok()) {
        lives.spawn(async move {
            // What cannot be waited for is asked again.
            let _over = life.over().await;
        });
    }
    if lives.join_next().await.is_none() {
        std::future::pending().await
    }
}
