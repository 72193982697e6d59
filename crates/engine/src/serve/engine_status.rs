//! `engine status`.

use super::Asked;
use crate::shell::{self, Shell, SnapshotState};
use outlast_wire::v1::{EngineStatus, Error};
use std::sync::PoisonError;

pub(super) async fn engine_status(asked: &Asked) -> Result<EngineStatus, Error> {
    let shared = asked.shared();
    let counts = asked.engine.shared().table.counts().await?;
    // An index that cannot be written has more to say elsewhere, and the engine is as it is all the same.
    let failing = shared.outbox.failing().await.unwrap_or_default();
    let late = failing
        .into_iter()
        .map(|(sink, waiting, why)| format!("the sink {sink} did not take {waiting} notices, and is tried again: {why}"));
    let unreadable = shared.intake.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let unreadable = unreadable.into_iter().map(|id| {
        format!("the notices of {id} could not be made: reading its files panicked (engine.log says where); an engine that can read them makes them")
    });
    let home = shared.home.root.display().to_string();
    let mut status = EngineStatus::new(std::process::id(), env!("CARGO_PKG_VERSION"), home, shared.started_at);
    status.running = counts.running;
    status.known = counts.known;
    status.recovered = shared.recovered;
    status.degraded = shared.degraded.iter().cloned().chain(unreadable).chain(late).collect();
    status.keeper = shared.launcher.starter.copy().path.display().to_string();
    status.shell = login(asked);
    status.settings.clone_from(&shared.config.settings);
    Ok(status)
}

fn login(asked: &Asked) -> String {
    use std::os::unix::ffi::OsStrExt;
    let shared = asked.shared();
    let config = &shared.config;
    let shell: Shell = shell::find(None, Some(config.user.shell.as_os_str().as_bytes()));
    let dir = shared.home.shell();
    let request =
        shell::Request { shell: &shell, home: &config.user.home, user: &config.user.name, dir: &dir, limit: config.snapshot_limit };
    let path = shell.path.display();
    match shared.snapshots.state(&request) {
        SnapshotState::Ready { exports, functions, aliases, .. } => {
            format!("{path}: login files give {exports} variables, {functions} functions and {aliases} aliases")
        }
        SnapshotState::Failed { failure, .. } => format!("{path}: login files are left out: {failure}"),
        SnapshotState::NotTaken => format!("{path}: login files are read with the first command"),
        SnapshotState::Unsupported => format!("{path}: login files are not read for this shell"),
    }
}
