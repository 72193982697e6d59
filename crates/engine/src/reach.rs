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

/// How long a keeper is retried that holds its lock and does not answer. The limit is a time and not a count, because every new socket of
/// any keeper leads to another try, and a keeper that was asked to listen again may wait for a busy machine.
const REACH_LIMIT: Duration = Duration::from_secs(20);
/// How long keepers in another PID namespace are retried.
const ELSEWHERE_LIMIT: Duration = Duration::from_secs(4);
/// The time between two tries, unless the socket appears sooner.
const AGAIN: Duration = Duration::from_millis(500);
/// The same for the link of a process in a sandbox.
const LINK_AGAIN: Duration = Duration::from_millis(50);
/// How long the engine may take to determine the state of a process whose keepers died.
const SETTLING: Duration = Duration::from_secs(10);

/// Why no keeper can be asked.
#[derive(Debug)]
pub(crate) enum NoKeeper {
    /// No keeper is needed any more, or none is left. The view has the state of the process.
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
    pub(crate) async fn keeper(&self, view: &mut ProcessView) -> Result<Link, NoKeeper> {
        let began = Instant::now();
        while began.elapsed() < REACH_LIMIT {
            match Link::connect(&self.sockets.of(view.id()), false).await {
                Ok(link) => return Ok(link),
                Err(error) => tracing::debug!(id = %view.id(), %error, "cannot reach the keeper"),
            }
            if view.facts.local().is_none() {
                // Its supervisor starts another link, which makes the socket; a link is started in much less time than this.
                tokio::time::sleep(LINK_AGAIN).await;
                view.facts = self.intake.look(view).await.map_err(NoKeeper::Refused)?.facts;
                if view.facts.phase.is_final() {
                    return Err(NoKeeper::Over);
                }
                continue;
            }
            let dir = view.dir.clone();
            if !blocking(move || has_keeper(&dir)).await.unwrap_or(true) {
                let settled = |phase: &Phase| !matches!(phase, Phase::Running { .. } | Phase::Stopping { .. });
                let known = tokio::time::timeout(SETTLING, view.until(|f| settled(&f.phase))).await;
                return Err(if known.is_ok() { NoKeeper::Over } else { NoKeeper::Refused(unreachable(view)) });
            }
            let seen = self.intake.look(view).await.map_err(NoKeeper::Refused)?;
            view.facts = seen.facts;
            if view.facts.phase.is_final() {
                return Err(NoKeeper::Over);
            }
            let waited = keepers::wait(&self.sockets, view.id(), &view.dir, AGAIN).await;
            waited.map_err(|e| NoKeeper::Refused(refuse::disk("cannot wait for a keeper", &e)))?;
            if began.elapsed() >= ELSEWHERE_LIMIT && keepers::are_elsewhere(&view.dir) {
                return Err(NoKeeper::Refused(in_another_container(view)));
            }
        }
        Err(NoKeeper::Refused(unreachable(view)))
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
