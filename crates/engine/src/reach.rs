//! Connects to the keeper of a process, also while the keeper is replaced.

use crate::disk::blocking;
use crate::facts::has_keeper;
use crate::intake::Intake;
use crate::link::Link;
use crate::run_dir::Sockets;
use crate::table::ProcessView;
use crate::{keepers, refuse};
use outlast_core::Phase;
use outlast_wire::code;
use outlast_wire::v1::Error;
use outlast_wire::v1::keeper::KeeperReply;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a keeper is tried that holds its lock and does not answer. The limit is a time, because every new socket of any keeper leads to another try, and
/// because a keeper that was asked to listen again may wait for a busy machine.
const REACH_LIMIT: Duration = Duration::from_secs(20);
/// How long keepers are tried that cannot be seen from here.
const ELSEWHERE_LIMIT: Duration = Duration::from_secs(4);
/// How long between two tries, unless its socket appears sooner.
const AGAIN: Duration = Duration::from_millis(500);
/// How long the engine may take to find out what became of a process whose keepers died.
const SETTLING: Duration = Duration::from_secs(10);

/// Why there is no keeper to ask.
#[derive(Debug)]
pub(crate) enum Away {
    /// No keeper is needed any more, or none is left: the view says what became of the process.
    Over,
    /// The error for the caller.
    Refused(Error),
}

/// Connects to keepers. Copies are cheap.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) intake: Arc<Intake>,
}

impl Reach {
    /// Connects to the keeper of a process that was seen to run.
    pub(crate) async fn keeper(&self, view: &mut ProcessView) -> Result<Link, Away> {
        let began = Instant::now();
        while began.elapsed() < REACH_LIMIT {
            match Link::connect(&self.sockets.of(view.id()), false).await {
                Ok(link) => return Ok(link),
                Err(error) => tracing::debug!(id = %view.id(), %error, "cannot reach the keeper"),
            }
            let dir = view.dir.clone();
            if !blocking(move || has_keeper(&dir)).await.unwrap_or(true) {
                let settled = |phase: &Phase| !matches!(phase, Phase::Running { .. } | Phase::Stopping { .. });
                let known = tokio::time::timeout(SETTLING, view.until(|f| settled(&f.phase))).await;
                return Err(if known.is_ok() { Away::Over } else { Away::Refused(unreachable(view)) });
            }
            let seen = self.intake.look(view).await.map_err(Away::Refused)?;
            view.facts = seen.facts;
            if view.facts.phase.is_final() {
                return Err(Away::Over);
            }
            let waited = keepers::wait(&self.sockets, view.id(), &view.dir, AGAIN).await;
            waited.map_err(|e| Away::Refused(refuse::disk("cannot wait for a keeper", &e)))?;
            if began.elapsed() >= ELSEWHERE_LIMIT && keepers::are_elsewhere(&view.dir) {
                return Err(Away::Refused(in_another_container(view)));
            }
        }
        Err(Away::Refused(unreachable(view)))
    }
}

fn in_another_container(view: &ProcessView) -> Error {
    refuse::unavailable(
        format!("the keepers of {} run in another container or on another machine that shares this state directory", view.id()),
        "ask there: they cannot be reached from here; the process keeps running",
    )
}

pub(crate) fn unreachable(view: &ProcessView) -> Error {
    refuse::unavailable(format!("the keeper of {} does not answer", view.id()), "ask again; the process itself keeps running")
}

/// The error for an unexpected answer of a keeper.
pub(crate) fn unexpected(say: KeeperReply) -> Error {
    match say {
        KeeperReply::Refused { code: name, error } => {
            let hint = match name.as_str() {
                code::INPUT_FULL => "the process does not read its input: try again later, or `outlast kill` it",
                code::BAD_OFFSET => "`outlast poll` shows how many bytes were taken",
                code::NO_INPUT => "start it with --stdin or --pty to be able to write to it",
                _ => "",
            };
            refuse::refusal(&name, error, hint)
        }
        other => refuse::fault(format!("a keeper said {other:?}")),
    }
}
