//! Answers that a proxy forwards. An end that one of them shows counts as seen when the proxy confirms it; without that, its notice is
//! delivered.

use crate::facts::EndSeen;
use crate::mutex::lock;
use crate::parts::Parts;
use crate::remove;
use crate::table::ProcessView;
use outlast_core::{ProcessId, Time};
use outlast_wire::v1::{Done, Error};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Answers that one connection forwards, by the number of the request.
pub(crate) struct Relays {
    parts: Arc<Parts>,
    under_way: Mutex<HashMap<u64, Relay>>,
}

/// What the confirmation of a forwarded answer leads to.
pub(crate) enum Relay {
    /// It shows the end of a process.
    End { process: ProcessId, how: &'static str, since: Time },
    /// It shows that a process is over, without being an answer to its end.
    Look(ProcessId),
    /// It says that a process is forgotten.
    Removal(Box<ProcessView>),
    /// It has the end and all output of a process that it does not name.
    SetAside(ProcessId),
    /// It gives notices under this lease. The taker settles them.
    Notices { ids: Vec<String>, lease: String },
}

/// How many forwarded answers of one connection may be unconfirmed. An end that one more answer shows is delivered again, marked as a
/// repeat.
const MOST: usize = 4_096;

impl Relays {
    pub(crate) fn new(parts: Arc<Parts>) -> Self {
        Self { parts, under_way: Mutex::default() }
    }

    /// The answer to this request is about to be sent.
    pub(crate) fn begin(&self, of: u64, relay: Relay) {
        let mut under_way = lock(&self.under_way);
        if under_way.len() < MOST {
            under_way.insert(of, relay);
        }
    }

    /// Whether an answer that is about to be sent may still be confirmed. It is not if it was cancelled meanwhile, or if too many are
    /// unconfirmed.
    pub(crate) fn is_under_way(&self, of: u64) -> bool {
        lock(&self.under_way).contains_key(&of)
    }

    /// The proxy confirms these answers. Returns how many of them were waiting for that.
    pub(crate) async fn confirm(&self, of: &[u64]) -> Result<Done, Error> {
        let arrived: Vec<Relay> = {
            let mut under_way = lock(&self.under_way);
            of.iter().filter_map(|of| under_way.remove(of)).collect()
        };
        let count = arrived.len() as u64;
        for relay in arrived {
            match relay {
                Relay::End { process, how, since } => self.parts.intake.end_seen(process, how, since).await,
                Relay::Look(process) => self.parts.outbox.observe(process).await,
                Relay::Removal(view) => {
                    // An earlier removal did the same.
                    let _gone = remove::forget(&self.parts, &view).await;
                }
                Relay::SetAside(process) => self.parts.table.consumed(process, EndSeen::SetAside).await,
                Relay::Notices { .. } => {}
            }
        }
        Ok(Done::many(count))
    }

    /// The answer will not be confirmed.
    pub(crate) async fn let_go(&self, of: u64) {
        let relay = lock(&self.under_way).remove(&of);
        if let Some(relay) = relay {
            relay.let_go(&self.parts).await;
        }
    }
}

impl Relay {
    /// Releases the notice to the next taker. A process that was to be removed stays.
    async fn let_go(self, parts: &Parts) {
        match self {
            Self::End { process, .. } => parts.outbox.answer_failed(process).await,
            Self::Look(_) | Self::Removal(_) | Self::SetAside(_) => {}
            Self::Notices { ids, lease } => parts.outbox.taker_gone(ids, lease, parts.now()).await,
        }
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        let rest = std::mem::take(&mut *lock(&self.under_way));
        // Without a runtime there is no engine left to deliver them.
        let (false, Ok(runtime)) = (rest.is_empty(), tokio::runtime::Handle::try_current()) else { return };
        let parts = Arc::clone(&self.parts);
        runtime.spawn(async move {
            for relay in rest.into_values() {
                relay.let_go(&parts).await;
            }
        });
    }
}
