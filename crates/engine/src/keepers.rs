//! The keepers of a process that hold its lock and cannot be reached: who they are, and what to wait for.

use crate::config::KeeperProgram;
use crate::disk::blocking;
use crate::facts::is_kept;
use crate::os::{Lives, Watch};
use crate::shared::Shared;
use outlast_core::{ProcessId, Role};
use outlast_store::dir::ProcessDir;
use outlast_store::meta::Snapshot;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

/// Asks them to listen again, and returns when trying again may help: the socket is there, one of them is gone, or `longest` has passed.
pub(crate) async fn wait(shared: &Shared, id: ProcessId, dir: &ProcessDir, longest: Duration) -> io::Result<()> {
    // Set up before the look, so that a socket made in between is not missed.
    let made = Watch::for_new(&shared.run_dir());
    let socket = shared.socket(id);
    let found = find(dir, &shared.home.bin(), &shared.config.keeper);
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
fn find(dir: &ProcessDir, bin: &Path, program: &KeeperProgram) -> Vec<Keeper> {
    let Ok(meta) = Snapshot::read(dir) else { return Vec::new() };
    let find = |pid: u32, role: Role| {
        let handle = rustix::process::pidfd_open(i32::try_from(pid).ok().and_then(Pid::from_raw)?, PidfdFlags::empty()).ok()?;
        // Opened first, looked at second: from here on the handle cannot come to mean another.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let names_it = line.split(|&b| b == 0).any(|argument| argument == dir.path.as_os_str().as_bytes());
        // Anybody may name the folder, and whoever does not expect the signal dies of it.
        let is_ours = names_it && runs_keeper(pid, bin, program);
        // Who is about to be gone has no command line any more; its lock goes last.
        (is_ours || line.is_empty()).then_some(Keeper { role, handle, is_ours })
    };
    [(meta.pump, Role::Pump), (meta.holder, Role::Holder)].into_iter().filter_map(|(pid, role)| find(pid, role)).collect()
}

fn runs_keeper(pid: u32, bin: &Path, program: &KeeperProgram) -> bool {
    let Ok(exe) = std::fs::read_link(format!("/proc/{pid}/exe")) else { return false };
    let is_the_engines = match program {
        KeeperProgram::SelfAsKeeper(path) => std::fs::canonicalize(path).is_ok_and(|path| path == exe),
        KeeperProgram::Binary(_) => false,
    };
    exe.starts_with(bin) || is_the_engines
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
        // Once it has said something it is what it will be.
        std::io::Read::read_exact(stranger.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let meta = Meta::hold(&dir, id, outlast_store::os::now()).unwrap().unwrap();
        meta.live().pump.store(stranger.id() as i32, SeqCst);
        let exe = std::fs::read_link(format!("/proc/{}/exe", stranger.id())).unwrap();
        let other = KeeperProgram::SelfAsKeeper("/bin/false".into());
        let found = |bin: &Path, program: &KeeperProgram| find(&dir, bin, program).iter().filter(|k| k.is_ours).count();
        assert_eq!(found(&home.bin(), &other), 0);
        assert_eq!(found(&home.bin(), &KeeperProgram::Binary(exe.clone())), 0, "of that, only copies are started");
        assert_eq!(found(exe.parent().unwrap(), &other), 1, "it runs from where our programs lie");
        assert_eq!(found(&home.bin(), &KeeperProgram::SelfAsKeeper(exe)), 1, "it runs our own program");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
