//! One request: its owner, where its answer goes, and what verbs need to answer it.

use super::out::Out;
use super::pending_answer::PendingAnswer;
use super::relay::Relays;
use crate::disk::blocking;
use crate::facts::Facts;
use crate::instances::Asker;
use crate::intake::Current;
use crate::left_behind::may_have_left;
use crate::notices::{NamedBy, end_key};
use crate::parts::Parts;
use crate::refuse;
use crate::table::ProcessView;
use outlast_core::{Belonging, Owner, ProcessId};
use outlast_wire::v1::Error;
use std::io;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// A request, as verbs get it.
#[derive(Clone)]
pub(crate) struct RequestContext {
    pub(crate) parts: Arc<Parts>,
    pub(crate) owner: Owner,
    /// Which of the conversations of the owner's session asks; none if the session is asked for as a whole.
    pub(super) asker: Option<Asker>,
    /// Whether it may change processes of another conversation that is open.
    pub(super) force: bool,
    /// The pid of the client, if it is connected by a socket.
    pub(super) pid: Option<u32>,
    pub(super) relays: Arc<Relays>,
    /// Whether the client forwards the answer, and confirms later that it arrived.
    pub(super) relay: bool,
    /// A warning for clients in other namespaces: where their commands run.
    pub(super) elsewhere: Option<String>,
    pub(super) out: Out,
}

impl RequestContext {
    pub(super) async fn resolve(&self, name: &str) -> Result<ProcessView, Error> {
        self.parts.table.resolve(name, &self.owner, self.asker.as_ref()).await
    }

    /// The process that a name means, for a request that changes it.
    pub(super) async fn resolve_to_change(&self, name: &str) -> Result<ProcessView, Error> {
        let view = self.resolve(name).await?;
        match self.may_change(view.id()) {
            true => Ok(view),
            false => Err(refuse::other_conversation(view.id())),
        }
    }

    /// Whether a process belongs to another conversation of the session that is open, or may be.
    pub(super) fn is_of_another(&self, process: ProcessId) -> bool {
        let belonging = self.asker.as_ref().map(|asker| asker.belonging(process));
        belonging.is_some_and(|belonging| matches!(belonging, Belonging::Other | Belonging::Foreign))
    }

    /// Whether the request may change a process of its session.
    pub(super) fn may_change(&self, process: ProcessId) -> bool {
        self.force || !self.is_of_another(process)
    }

    /// Whether the answer to this request informs the owner of the process, so that no notice is due.
    pub(super) fn informs_owner(&self, of: &Facts) -> bool {
        self.owner.session == of.kept.spec.owner.session && !self.is_of_another(of.id())
    }

    /// Who names the generation that this request is for.
    pub(super) fn named_by(&self) -> NamedBy {
        match self.pid {
            Some(pid) if self.parts.gateways.is_serving(pid) => NamedBy::Gateway,
            Some(_) | None => NamedBy::Client,
        }
    }

    /// The client waits for the end of a process, if its answer informs the owner.
    pub(super) fn awaits_end(&self, of: &Facts) -> Option<PendingAnswer> {
        self.informs_owner(of).then(|| PendingAnswer::begin(&self.parts, end_key(of.id())))
    }

    /// The current content of the folder, which may be newer than the table.
    pub(super) async fn look(&self, view: &ProcessView) -> Result<Current, Error> {
        self.parts.intake.look(view).await
    }
}

/// The bytes of a write, with the room that they take until it is answered.
#[derive(Default)]
pub(super) struct Input {
    pub(super) bytes: Vec<u8>,
    pub(super) _room: Option<OwnedSemaphorePermit>,
}

/// Runs work to completion, also if the client leaves.
pub(super) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(work).await.unwrap_or_else(|panic| Err(refuse::fault(panic)))
}

/// Runs work that reads the end of a file for an answer about a process, and looks for what the process left running. If it may have left
/// something, all processes of the machine are read, so the work runs on a blocking thread.
pub(super) async fn read_small<T: Send + 'static>(
    parts: &Parts,
    facts: &Facts,
    what: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    if may_have_left(&facts.phase) {
        return reading(what).await;
    }
    parts.disk.at(what).await.and_then(|done| done).map_err(|e| refuse::disk("cannot read the output", &e))
}

/// Runs work that reads whole files for an answer.
pub(super) async fn reading<T: Send + 'static>(what: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Error> {
    blocking(what).await.and_then(|done| done).map_err(|e| refuse::disk("cannot read the output", &e))
}

/// An answer, and the process whose end it shows, if it shows one.
pub(crate) struct AnswerWithEnd<T> {
    pub(crate) answer: T,
    pub(crate) of: Option<Arc<Facts>>,
    /// The wait that it answers.
    pub(crate) awaiting: Option<PendingAnswer>,
}
