//! The gateway of the home: it says that it serves, and hears which sessions have notices.

use super::Asked;
use crate::closing::Closing;
use crate::engine::Engine;
use crate::outbox::{Moment, OpenSession};
use crate::refuse;
use outlast_wire::v1::{Done, Error, Event};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// The most sessions that are remembered as not the gateway's. For one more, a gateway may be started that has nothing to do.
const MAX_DISOWNED: usize = 10_000;

/// Which gateways serve the home, and which sessions are not theirs.
#[derive(Debug)]
pub(crate) struct Gateways {
    serving: watch::Sender<usize>,
    /// What the last gateway said at its end.
    disowned: Mutex<BTreeSet<String>>,
}

impl Default for Gateways {
    fn default() -> Self {
        Self { serving: watch::Sender::new(0), disowned: Mutex::default() }
    }
}

impl Gateways {
    /// The sessions that are not the gateway's. They count only while no gateway serves.
    fn disowned(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.disowned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_ours(&self, session: &str) -> bool {
        !self.disowned().contains(session)
    }
}

/// A gateway that serves, for as long as this is held.
struct Serving<'a>(&'a Gateways);

impl<'a> Serving<'a> {
    fn new(gateways: &'a Gateways) -> Self {
        // It may create the conversations that the one before had not.
        gateways.disowned().clear();
        gateways.serving.send_modify(|n| *n += 1);
        Self(gateways)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.serving.send_modify(|n| *n -= 1);
    }
}

/// Tells a gateway which sessions have notices. Ends with the connection, or with the engine.
pub(super) async fn serve(asked: &Asked) -> Result<Done, Error> {
    let shared = asked.shared();
    let _serving = Serving::new(&shared.gateways);
    let (mut news, mut leases) = (shared.outbox.news(), shared.outbox.leases());
    let mut known: Vec<OpenSession> = Vec::new();
    let mut is_first = true;
    loop {
        news.borrow_and_update();
        leases.borrow_and_update();
        let (open, lapse) = shared.outbox.open_sessions(Moment::now(shared.now())).await.map_err(|e| refuse::index(&e))?;
        let sessions: Vec<String> = open.iter().filter(|one| !known.contains(one)).map(|one| one.session.clone()).collect();
        if is_first || !sessions.is_empty() {
            asked.out.event(Event::Sessions { sessions }).await;
        }
        (known, is_first) = (open, false);
        // A lease may end without a word.
        let lapse = lapse.map(|after| after.max(Duration::from_millis(1)));
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return Err(refuse::stopping()) },
            // Another taker has something now, and may die with it.
            changed = leases.changed() => if changed.is_err() { return Err(refuse::stopping()) },
            () = shared.closing.reached(Closing::Stopping) => return Err(refuse::stopping()),
            () = tokio::time::sleep(lapse.unwrap_or_default()), if lapse.is_some() => {}
        }
    }
}

pub(super) fn disown(asked: &Asked, sessions: Vec<String>) -> Done {
    let mut disowned = asked.shared().gateways.disowned();
    let room = MAX_DISOWNED.saturating_sub(disowned.len());
    disowned.extend(sessions.into_iter().take(room));
    Done::ok()
}

impl Engine {
    /// Whether a gateway serves this home now.
    pub fn is_gateway_serving(&self) -> bool {
        *self.shared().gateways.serving.borrow() > 0
    }

    /// Whether a notice is open for a session of gateways that the last of them has not disowned.
    ///
    /// # Errors
    ///
    /// If the index cannot be read.
    pub async fn has_notices_for_gateway(&self) -> Result<bool, std::io::Error> {
        let shared = self.shared();
        let (open, _) = shared.outbox.open_sessions(Moment::now(shared.now())).await.map_err(std::io::Error::other)?;
        Ok(open.iter().any(|one| shared.gateways.is_ours(&one.session)))
    }

    /// Returns when one of the answers above may have changed. Nothing is missed between two calls that use the same watch.
    pub fn gateway_watch(&self) -> GatewayWatch {
        let (outbox, gateways) = (&self.shared().outbox, &self.shared().gateways);
        let (news, leases, serving) = (outbox.news(), outbox.leases(), gateways.serving.subscribe());
        GatewayWatch { engine: self.clone(), news, leases, serving, known: Vec::new() }
    }
}

/// Tells when a gateway may have to be started.
pub struct GatewayWatch {
    engine: Engine,
    news: watch::Receiver<u64>,
    leases: watch::Receiver<u64>,
    serving: watch::Receiver<usize>,
    /// What was open at the last look.
    known: Vec<OpenSession>,
}

impl GatewayWatch {
    /// Waits for a change. False: the engine ends.
    pub async fn changed(&mut self) -> bool {
        let shared = self.engine.shared();
        let mut lapse = None;
        // A gateway that serves is told itself. An index that cannot be read is asked again with the next change.
        if !self.engine.is_gateway_serving()
            && let Ok((open, next)) = shared.outbox.open_sessions(Moment::now(shared.now())).await
        {
            // A lease may have ended since the caller looked.
            if open != self.known {
                self.known = open;
                return true;
            }
            lapse = next.map(|after| after.max(Duration::from_millis(1)));
        }
        tokio::select! {
            changed = self.news.changed() => changed.is_ok(),
            changed = self.leases.changed() => changed.is_ok(),
            () = tokio::time::sleep(lapse.unwrap_or_default()), if lapse.is_some() => true,
            changed = self.serving.changed() => changed.is_ok(),
            () = self.engine.shared().closing.reached(Closing::Stopping) => false,
        }
    }
}
