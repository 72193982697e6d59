//! `engine status`: what an engine reports about itself.

use super::context::RequestContext;
use crate::mutex::lock;
use crate::shell::{self, Shell, SnapshotState};
use outlast_core::Time;
use outlast_wire::v1::{EngineStatus, Error};
use std::time::Duration;

/// How long a sink that gave up is reported.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn engine_status(asked: &RequestContext) -> Result<EngineStatus, Error> {
    let parts = &asked.parts;
    let counts = asked.parts.table.counts().await?;
    // If the index cannot be written, other requests report that. The status is answered all the same.
    let failing = parts.outbox.failing().await.unwrap_or_default();
    let wakes = parts.outbox.failed_wakes().all();
    let late = failing
        .into_iter()
        .filter(|(sink, ..)| !wakes.contains_key(sink))
        .map(|(sink, waiting, why)| format!("the sink {sink} did not take {}, and is tried again: {why}", notices(waiting)));
    let wakes = wakes.iter().map(|(sink, failed)| {
        let times = if failed.calls == 1 { "when it was last called".to_owned() } else { format!("in its last {} calls", failed.calls) };
        format!("the hook {sink} could not wake an agent {times}: {}", failed.reason)
    });
    let yesterday = Time::from_micros(parts.now().micros().saturating_sub(DAY.as_micros() as i64));
    let dead = parts.outbox.dead_of_sinks(None, yesterday).await.unwrap_or_default();
    let gave_up = dead
        .into_iter()
        .map(|(sink, count, why)| format!("the sink {sink} gave up on {} in the last day, the last because: {why}", notices(count)));
    let unreadable = lock(&parts.intake.unreadable).clone();
    let unreadable = unreadable.into_iter().map(|id| {
        format!("the notices of {id} could not be made: reading its files panicked (engine.log says where); an engine that can read them makes them")
    });
    let home = parts.home.root.display().to_string();
    let mut status = EngineStatus::new(std::process::id(), env!("CARGO_PKG_VERSION"), home, parts.at_start.at);
    status.running = counts.running;
    status.known = counts.known;
    status.recovered = parts.at_start.recovered;
    status.degraded = parts.at_start.degraded.iter().cloned().chain(unreadable).chain(late).chain(gave_up).chain(wakes).collect();
    status.keeper = parts.launcher.starter.copy().path.display().to_string();
    status.shell = login(asked);
    status.settings.clone_from(&parts.config.settings);
    Ok(status)
}

fn notices(count: u64) -> String {
    if count == 1 { "1 notice".into() } else { format!("{count} notices") }
}

fn login(asked: &RequestContext) -> String {
    use std::os::unix::ffi::OsStrExt;
    let parts = &asked.parts;
    let config = &parts.config;
    let shell: Shell = shell::find(None, Some(config.user.shell.as_os_str().as_bytes()));
    let dir = parts.home.shell();
    let request =
        shell::SnapshotRequest { shell: &shell, home: &config.user.home, user: &config.user.name, dir: &dir, limit: config.snapshot_limit };
    let path = shell.path.display();
    match parts.snapshots.state(&request) {
        SnapshotState::Ready { exports: 0, functions: 0, aliases: 0, .. } => format!("{path}: nothing was added by your login files"),
        SnapshotState::Ready { exports, functions, aliases, .. } => {
            format!("{path}: your login files added {exports} variables, {functions} functions and {aliases} aliases")
        }
        SnapshotState::Failed { failure, .. } => format!("{path}: login files are left out: {failure}"),
        SnapshotState::NotTaken => format!("{path}: login files are read with the first command"),
        SnapshotState::Unsupported => format!("{path}: login files are not read for this shell"),
    }
}
