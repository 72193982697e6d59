//! Keepers that hold their lock and cannot be reached: which processes they are, and what to wait for.

use crate::disk::blocking;
use crate::facts::has_keeper;
use crate::os::{ProcessHandle, Watch};
use crate::run_dir::Sockets;
use outlast_core::{Incarnation, ProcessId, Role};
use outlast_store::dir::{FileId, ProcessDir};
use outlast_store::meta::Snapshot;
use outlast_store::os::{incarnation_of, is_alive, parent_of};
use outlast_store::programs::{Program, holds_lock, program_of};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

/// Asks the keepers to listen again, and returns when a retry may help: the socket exists, a keeper has ended, or `longest` has passed.
pub(crate) async fn wait(sockets: &Sockets, id: ProcessId, dir: &ProcessDir, longest: Duration) -> io::Result<()> {
    // Set up before the look, so that a socket made in between is not missed.
    let made = Watch::for_new(&sockets.dir());
    let socket = sockets.of(id);
    let found = find(dir, id);
    if tokio::net::UnixStream::connect(&socket).await.is_err() {
        nudge(&found);
    }
    let folder = dir.clone();
    // The keeper that holds the lock now is among those found, or will make a socket.
    if !blocking(move || has_keeper(&folder)).await? {
        return Ok(());
    }
    tokio::select! {
        _ = changed(made.ok()) => {}
        () = any_over(found) => {}
        () = tokio::time::sleep(longest) => {}
    }
    Ok(())
}

/// Whether the keepers that hold the lock are in another PID namespace, so that no process visible here is one of them.
pub(crate) fn are_elsewhere(dir: &ProcessDir) -> bool {
    let is_here = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.is_empty() || names(&line, dir));
    Snapshot::read(dir).is_ok_and(|meta| !is_here(meta.pump) && !is_here(meta.holder))
}

/// The living keepers of a process.
pub(crate) fn lives(dir: &ProcessDir) -> Vec<Incarnation> {
    let Ok(meta) = Snapshot::read(dir) else { return Vec::new() };
    // The incarnation is read first. If it is still alive afterwards, everything read of its pid is true of it.
    let is_keeper = |life: &Incarnation| holds_lock(life.pid, meta.id) && has_open(life.pid, dir) && is_alive(life);
    [meta.pump, meta.holder].into_iter().filter_map(|pid| incarnation_of(pid).ok()).filter(is_keeper).collect()
}

/// Whether a process descends from keepers of the same process in another folder. Then this home is a copy of theirs, and it belongs to
/// them.
pub(crate) fn is_of_others(pid: u32, id: ProcessId, dir: &ProcessDir) -> bool {
    let above = std::iter::successors(parent_of(pid), |pid| parent_of(*pid)).take_while(|pid| *pid > 1);
    // A longer chain of parents is a loop: pids were reused while it was read.
    let mut keepers = above.take(10_000).filter(|pid| program_of(*pid) == Some(Program::Keeper) && holds_lock(*pid, id));
    keepers.next().is_some_and(|keeper| !has_open(keeper, dir))
}

/// Whether a process has the `meta` of this very folder open, wherever the folder was moved.
fn has_open(pid: u32, dir: &ProcessDir) -> bool {
    let Ok(meta) = FileId::at(&dir.meta()) else { return false };
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    open.map(|fd| fd.path()).any(|fd| std::fs::metadata(fd).is_ok_and(|file| FileId::of(&file) == meta))
}

/// Whether a command line has the folder among its arguments.
fn names(line: &[u8], dir: &ProcessDir) -> bool {
    line.split(|&b| b == 0).any(|argument| argument == dir.path.as_os_str().as_bytes())
}

async fn changed(made: Option<Watch>) {
    match made {
        // If the directory cannot be watched, the time limit ends the wait.
        Some(made) if made.changed().await.is_ok() => {}
        Some(_) | None => std::future::pending().await,
    }
}

struct KeeperProcess {
    role: Role,
    handle: OwnedFd,
    /// Whether it is certainly a keeper of ours, and may be signalled.
    is_ours: bool,
}

/// The keepers of a process that live or are about to exit.
fn find(dir: &ProcessDir, id: ProcessId) -> Vec<KeeperProcess> {
    let Ok(meta) = Snapshot::read(dir) else { return Vec::new() };
    let find = |pid: u32, role: Role| {
        let handle = rustix::process::pidfd_open(i32::try_from(pid).ok().and_then(Pid::from_raw)?, PidfdFlags::empty()).ok()?;
        // The pidfd is opened before the process is examined, so it cannot refer to another process.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        // Any program may have the folder among its arguments, and the signal would kill one that does not expect it. Only a keeper holds
        // the lock.
        let is_ours = names(&line, dir) && holds_lock(pid, id);
        // A keeper that is being killed loses its command line first and its lock last. A zombie has no lock: if the lock is held, another
        // keeper has it.
        let is_leaving = line.is_empty() && !outlast_store::os::is_over(handle.as_fd());
        (is_ours || is_leaving).then_some(KeeperProcess { role, handle, is_ours })
    };
    [(meta.pump, Role::Pump), (meta.holder, Role::Holder)].into_iter().filter_map(|(pid, role)| find(pid, role)).collect()
}

/// Asks the pump to listen again, where the home's link now leads.
fn nudge(keepers: &[KeeperProcess]) {
    for pump in keepers.iter().filter(|k| k.role == Role::Pump && k.is_ours) {
        if let Err(error) = rustix::process::pidfd_send_signal(&pump.handle, Signal::USR1) {
            tracing::debug!(%error, "cannot signal a pump");
        }
    }
}

/// Returns once one of them has ended; never if there is none.
async fn any_over(keepers: Vec<KeeperProcess>) {
    let mut lives: tokio::task::JoinSet<()> = tokio::task::JoinSet::new();
    for life in keepers.into_iter().filter_map(|k| ProcessHandle::at(k.handle).ok()) {
        lives.spawn(async move {
            // If this one cannot be waited for, the caller's time limit leads to a retry.
            let _over = life.exited().await;
        });
    }
    if lives.join_next().await.is_none() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_store::dir::Home;
    use outlast_store::meta::Meta;
    use std::process::{Command, Stdio};
    use std::sync::atomic::Ordering::SeqCst;

    #[test]
    fn a_stranger_that_names_the_folder_is_not_taken_for_a_keeper() {
        let tmp = tempfile::tempdir().unwrap();
        let home = Home::new(std::fs::canonicalize(tmp.path()).unwrap().join("home"));
        home.create().unwrap();
        let id = ProcessId::from_bytes([1; 6]);
        let dir = home.process(id);
        dir.create().unwrap();
        let mut stranger =
            Command::new("bash").args(["-c", "echo; read x"]).arg(&dir.path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Its output shows that it has executed its program.
        std::io::Read::read_exact(stranger.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let meta = Meta::hold(&dir, id, outlast_store::os::now()).unwrap().unwrap();
        meta.live().pump.store(stranger.id() as i32, SeqCst);
        assert!(!find(&dir, id).iter().any(|k| k.is_ours), "it holds no lock");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
