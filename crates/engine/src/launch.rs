//! Starts keepers.

use crate::link::Link;
use crate::points::point;
use crate::program;
use crate::shared::Shared;
use outlast_core::ProcessId;
use outlast_store::dir::ProcessDir;
use outlast_store::meta::Image;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// How long a keeper that was called off has to leave the folder.
const LEAVING: Duration = Duration::from_secs(1);

/// How a keeper comes to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// Forked from one that is there.
    Nest,
    /// Executed for this process alone.
    Program,
}

/// A keeper that makes itself ready to start a command, and waits for our word. What becomes of it, the folder says.
#[derive(Debug)]
pub(crate) struct Keeper {
    link: Link,
    dir: ProcessDir,
}

impl Keeper {
    /// Asks for a keeper of the process.
    pub(crate) async fn ask(shared: &Arc<Shared>, id: ProcessId, from: From) -> io::Result<Self> {
        let (ours, theirs) = pair(SocketType::STREAM)?;
        // The engine holds the live copy from before the keeper can start a command. So it knows the result, whichever keeper is killed.
        let (dir, image) = (shared.home.process(id), Arc::new(Image::new()?));
        image.hold(&dir);
        match from {
            From::Nest => shared.nest.ask(shared, id, &theirs, &image).await?,
            From::Program => {
                let mut child = spawn(shared, &dir.path, theirs, Some(&image)).await?;
                tokio::spawn(async move {
                    // Only so that no zombie stays: how a keeper ended is in the folder.
                    match child.wait().await {
                        Ok(status) if status.success() => {}
                        Ok(status) => tracing::warn!(%id, %status, "a keeper failed"),
                        Err(error) => tracing::warn!(%id, %error, "cannot wait for a keeper"),
                    }
                });
            }
        }
        Ok(Self { link: Link::given(ours.into())?, dir })
    }

    /// Has it start the command. It tells the news of it on this connection, or leaves.
    pub(crate) async fn go(mut self) -> io::Result<Link> {
        point!("run.before_spawn");
        self.link.go().await?;
        point!("run.after_spawn");
        Ok(self.link)
    }

    /// Has it leave without having started anything, and returns when it has.
    pub(crate) async fn call_off(mut self) {
        if tokio::time::timeout(LEAVING, self.link.call_off()).await.is_err() {
            tracing::warn!("a keeper that was called off does not leave; it will find nothing to start");
        }
        Image::forget(&self.dir);
    }
}

/// Two ends of a connection, ours first. Ours does not block.
pub(crate) fn pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Starts the keeper's program for this folder, with `stdin` as its standard input and the live copy of `meta` as its standard output.
pub(crate) async fn spawn(shared: &Shared, folder: &Path, stdin: OwnedFd, image: Option<&Image>) -> io::Result<tokio::process::Child> {
    match spawn_now(shared, folder, stdin.try_clone()?, image) {
        // It is being written, or it was removed.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ETXTBSY | libc::ENOENT | libc::EACCES)) => {
            shared.copy_keeper_again().await?;
            match spawn_now(shared, folder, stdin.try_clone()?, image) {
                // Execution is forbidden, not only by the mode. The home may be on a noexec mount by now, or a policy trusts installed
                // programs only.
                Err(e) if e.raw_os_error() == Some(libc::EACCES) => {
                    shared.use_installed_keeper();
                    spawn_now(shared, folder, stdin, image)
                }
                spawned => spawned,
            }
        }
        spawned => spawned,
    }
}

fn spawn_now(shared: &Shared, folder: &Path, stdin: OwnedFd, image: Option<&Image>) -> io::Result<tokio::process::Child> {
    let stdout = image.map_or_else(|| Ok(Stdio::null()), |image| image.try_clone().map(Stdio::from))?;
    let program::Copy { path, first_argument } = shared.keeper();
    let mut command = tokio::process::Command::new(path);
    // Nothing runs between fork and exec, so that the child is made without copying our memory map.
    command.args(first_argument).arg(folder).env_clear().stdin(stdin).stdout(stdout).stderr(complaints(shared));
    command.current_dir("/").envs(shared.config.keeper_env.iter().map(|(name, value)| (name, value)));
    if let Some(points) = &shared.config.test_points {
        command.env("OUTLAST_TEST_POINTS", points);
    }
    command.spawn()
}

/// Where a keeper complains. Standard error is the log of an engine that is a program; whoever embeds one has another use for theirs, and may wait for its end.
fn complaints(shared: &Shared) -> Stdio {
    if shared.config.detach {
        return Stdio::inherit();
    }
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(shared.home.engine_log());
    log.map_or_else(|_| Stdio::null(), Stdio::from)
}
