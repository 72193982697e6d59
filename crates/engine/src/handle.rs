//! How other tasks ask the owner of the table.

use crate::facts::{EndSeen, Facts};
use crate::instances::Asker;
use crate::link::Link;
use crate::listing::Listing;
use crate::refuse;
use crate::table::{AppliedLook, Counts, ProcessView, Reservation, WhichProcesses};
use outlast_core::{Owner, ProcessId};
use outlast_wire::v1::Error;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};

/// How many requests may wait for the owner.
const REQUESTS: usize = 1_024;

/// A request to the owner of the table.
pub(crate) enum TableRequest {
    Facts {
        id: ProcessId,
        answer: oneshot::Sender<Option<Arc<Facts>>>,
    },
    Resolve {
        name: String,
        owner: Owner,
        asker: Option<Asker>,
        answer: oneshot::Sender<Result<ProcessView, Error>>,
    },
    All {
        owner: Owner,
        which: WhichProcesses,
        answer: oneshot::Sender<Vec<ProcessView>>,
    },
    Listing {
        owner: Owner,
        which: WhichProcesses,
        answer: oneshot::Sender<Vec<Listing>>,
    },
    Reserve {
        id: ProcessId,
        hash: String,
        owner: Owner,
        answer: oneshot::Sender<Result<Reservation, Error>>,
    },
    Accept {
        facts: Box<Facts>,
        keeper: Option<Link>,
        answer: oneshot::Sender<ProcessView>,
    },
    LetGo {
        id: ProcessId,
    },
    ApplyLook {
        look: Box<AppliedLook>,
        answer: oneshot::Sender<Option<Arc<Facts>>>,
    },
    Reachable {
        id: ProcessId,
        reachable: bool,
    },
    Consumed {
        id: ProcessId,
        seen: EndSeen,
    },
    Take {
        id: ProcessId,
        answer: oneshot::Sender<bool>,
    },
    PutBack {
        facts: Arc<Facts>,
    },
    Interrupt {
        session: String,
        answer: oneshot::Sender<usize>,
    },
    Interrupts {
        session: String,
        answer: oneshot::Sender<watch::Receiver<u64>>,
    },
    Counts {
        answer: oneshot::Sender<Counts>,
    },
    /// Ends the engine. Processes with `on_stop: kill` that this owner may touch are stopped; without an owner all keep running.
    Stop {
        by: Option<Owner>,
    },
}

/// Asks the owner of the table. Copies are cheap.
#[derive(Debug, Clone)]
pub(crate) struct TableHandle(mpsc::Sender<TableRequest>);

impl TableHandle {
    /// A handle, and the receiver for the owner of the table.
    pub(crate) fn new() -> (Self, mpsc::Receiver<TableRequest>) {
        let (requests, asked) = mpsc::channel(REQUESTS);
        (Self(requests), asked)
    }

    /// Begins to end the engine. Processes that this owner may not touch are not stopped with it.
    pub(crate) async fn begin_stop(&self, by: Owner) {
        // The engine may have ended already.
        let _gone = self.0.send(TableRequest::Stop { by: Some(by) }).await;
    }

    /// Begins to end the engine and leaves every process running, also those with `on_stop: kill`: another engine follows at once.
    pub(crate) async fn begin_hand_over(&self) {
        // The engine may have ended already.
        let _gone = self.0.send(TableRequest::Stop { by: None }).await;
    }

    pub(crate) async fn facts(&self, id: ProcessId) -> Option<Arc<Facts>> {
        self.ask(|answer| TableRequest::Facts { id, answer }).await.flatten()
    }

    /// The process that `name` means to this owner, in this conversation if its session has several.
    pub(crate) async fn resolve(&self, name: &str, owner: &Owner, asker: Option<&Asker>) -> Result<ProcessView, Error> {
        let (name, owner, asker) = (name.to_owned(), owner.clone(), asker.cloned());
        self.ask(|answer| TableRequest::Resolve { name, owner, asker, answer }).await.unwrap_or_else(|| Err(refuse::stopping()))
    }

    /// The processes of `which` that this owner may touch.
    pub(crate) async fn all(&self, owner: &Owner, which: WhichProcesses) -> Result<Vec<ProcessView>, Error> {
        let owner = owner.clone();
        self.ask(|answer| TableRequest::All { owner, which, answer }).await.ok_or_else(refuse::stopping)
    }

    /// The same processes, with only what a list needs.
    pub(crate) async fn listing(&self, owner: &Owner, which: WhichProcesses) -> Result<Vec<Listing>, Error> {
        let owner = owner.clone();
        self.ask(|answer| TableRequest::Listing { owner, which, answer }).await.ok_or_else(refuse::stopping)
    }

    pub(crate) async fn reserve(&self, id: ProcessId, hash: String, owner: Owner) -> Result<Reservation, Error> {
        self.ask(|answer| TableRequest::Reserve { id, hash, owner, answer }).await.unwrap_or_else(|| Err(refuse::stopping()))
    }

    /// The request with the reserved id is on disk: the process is supervised from now on. `keeper` is the connection of a keeper that was
    /// told to start it.
    pub(crate) async fn accept_process(&self, facts: Facts, keeper: Option<Link>) -> Result<ProcessView, Error> {
        self.ask(|answer| TableRequest::Accept { facts: Box::new(facts), keeper, answer }).await.ok_or_else(refuse::stopping)
    }

    /// The reserved id is not used after all.
    pub(crate) async fn let_go(&self, id: ProcessId) {
        // An engine that has ended has no reservations.
        let _gone = self.0.send(TableRequest::LetGo { id }).await;
    }

    /// The owner of a process has seen its end.
    pub(crate) async fn consumed(&self, id: ProcessId, seen: EndSeen) {
        // It only affects lists for agents and the order of removal.
        let _gone = self.0.send(TableRequest::Consumed { id, seen }).await;
    }

    pub(crate) async fn reachable(&self, id: ProcessId, reachable: bool) {
        // It only affects the answers of a running engine.
        let _gone = self.0.send(TableRequest::Reachable { id, reachable }).await;
    }

    /// Interrupts the waits of a session. Returns how many there were.
    pub(crate) async fn interrupt(&self, session: String) -> Result<usize, Error> {
        self.ask(|answer| TableRequest::Interrupt { session, answer }).await.ok_or_else(refuse::stopping)
    }

    /// Changes when the waits of this session are interrupted.
    pub(crate) async fn interrupts(&self, session: String) -> Option<watch::Receiver<u64>> {
        self.ask(|answer| TableRequest::Interrupts { session, answer }).await
    }

    pub(crate) async fn counts(&self) -> Result<Counts, Error> {
        self.ask(|answer| TableRequest::Counts { answer }).await.ok_or_else(refuse::stopping)
    }

    async fn ask<T>(&self, make: impl FnOnce(oneshot::Sender<T>) -> TableRequest) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.0.send(make(answer)).await.ok()?;
        answered.await.ok()
    }

    /// Applies a look into the folder. Returns the new facts.
    pub(crate) async fn apply_look(&self, look: AppliedLook) -> Option<Arc<Facts>> {
        self.ask(|answer| TableRequest::ApplyLook { look: Box::new(look), answer }).await.flatten()
    }

    /// Removes a process from the table if its facts are final. Returns whether it did.
    pub(crate) async fn take(&self, id: ProcessId) -> Result<bool, Error> {
        self.ask(|answer| TableRequest::Take { id, answer }).await.ok_or_else(refuse::stopping)
    }

    /// Puts a process back that was removed from the table.
    pub(crate) async fn put_back(&self, facts: Arc<Facts>) {
        // An engine that has ended has no table; the next one finds the folder.
        let _gone = self.0.send(TableRequest::PutBack { facts }).await;
    }
}
