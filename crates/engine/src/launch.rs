//! Starts keepers.

use crate::points::point;
use crate::program;
use crate::shared::Shared;
use outlast_core::ProcessId;
use outlast_store::dir::ProcessDir;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;
use tokio::io::AsyncReadExt;

/// What a keeper says once the command was executed, or could not be.
const EXECUTED: &[u8] = b"exec";

/// Starts a keeper for the process in `dir` and returns once it has executed the command, or has left without. Which of the two it was, the folder says.
pub(crate) async fn keeper(shared: &Shared, id: ProcessId, dir: &ProcessDir) -> io::Result<()> {
    point!("run.before_spawn");
    let mut child = match spawn(shared, dir) {
        // It is being written, or somebody removed it.
        Err(e) if matches!(e.raw_os_error(), Some(libc::ETXTBSY | libc::ENOENT | libc::EACCES)) => {
            shared.copy_keeper_again().await?;
            spawn(shared, dir)
        }
        spawned => spawned,
    }?;
    point!("run.after_spawn");
    let mut report = child.stdout.take().ok_or_else(|| io::Error::other("the keeper has no report pipe"))?;
    tokio::spawn(async move {
        // Only so that no zombie stays: how a keeper ended is in the folder.
        match child.wait().await {
            Ok(status) if status.success() => {}
            Ok(status) => tracing::warn!(%id, %status, "a keeper failed"),
            Err(error) => tracing::warn!(%id, %error, "cannot wait for a keeper"),
        }
    });
    let mut said = Vec::new();
    // Its line is enough: the other of the pair may hold the pipe a little longer.
    while !said.contains(&b'\n') && report.read_buf(&mut said).await? > 0 {}
    if !said.starts_with(EXECUTED) {
        tracing::warn!(%id, "a keeper left before it had started anything");
    }
    Ok(())
}

fn spawn(shared: &Shared, dir: &ProcessDir) -> io::Result<tokio::process::Child> {
    let program::Copy { path, first_argument } = shared.keeper();
    let mut command = tokio::process::Command::new(path);
    // Nothing runs between fork and exec, so that the child is made without copying our memory map.
    command.args(first_argument).arg(&dir.path).env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints(shared));
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
