//! `engine status`.

use super::Asked;
use crate::shell::{self, Shell, SnapshotState};
use outlast_wire::v1::{EngineStatus, Error};

pub(super) async fn engine_status(asked: &Asked) -> Result<EngineStatus, Error> {
    let shared = asked.shared();
    let counts = asked.engine.counts().await?;
    // An index that cannot be written has more to say elsewhere, and the engine is as it is all the same.
    let failing = shared.outbox.failing().await.unwrap_or_default();
    let late = failing
        .into_iter()
        .map(|(sink, waiting, why)| format!("the sink {sink} did not take {waiting} notices, and is tried again: {why}"));
    Ok(EngineStatus {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").into(),
        home: shared.home.root.display().to_string(),
        started_at: shared.started_at,
        running: counts.running,
        known: counts.known,
        recovered: shared.recovered,
        degraded: shared.degraded.iter().cloned().chain(late).collect(),
        keeper: shared.keeper().path.display().to_string(),
        shell: login(asked),
    })
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
