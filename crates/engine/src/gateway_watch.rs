//! Tells a program that starts gateways when one is needed.

use crate::closing::Closing;
use crate::engine::Engine;
use crate::notices::{OpenSession, moment};
use std::time::Duration;
use tokio::sync::watch;

impl Engine {
    /// Whether a gateway serves this home now.
    pub fn is_gateway_serving(&self) -> bool {
        *self.parts.gateways.serving.borrow() > 0
    }

    /// Whether a notice is open for a session of gateways that the last gateway has not disowned.
    ///
    /// # Errors
    ///
    /// If the index cannot be read.
    pub async fn has_notices_for_gateway(&self) -> Result<bool, std::io::Error> {
        let parts = &self.parts;
        let (open, _) = parts.outbox.open_sessions(moment(parts.now())).await.map_err(std::io::Error::other)?;
        Ok(open.iter().any(|one| parts.gateways.is_ours(&one.session)))
    }

    /// Returns when one of the answers above may have changed. Nothing is missed between two calls that use the same watch.
    pub fn gateway_watch(&self) -> GatewayWatch {
        let (outbox, gateways) = (&self.parts.outbox, &self.parts.gateways);
        let (news, leases, serving) = (outbox.news(), outbox.leases(), gateways.serving.subscribe());
        GatewayWatch { engine: self.clone(), news, leases, serving, known: Vec::new() }
    }
}

/// Reports when a gateway may have to be started.
pub struct GatewayWatch {
    engine: Engine,
    news: watch::Receiver<u64>,
    leases: watch::Receiver<u64>,
    serving: watch::Receiver<usize>,
    /// The open sessions at the last look.
    known: Vec<OpenSession>,
}

impl GatewayWatch {
    /// Waits for a change. `false` if the engine ends.
    pub async fn changed(&mut self) -> bool {
        let parts = &self.engine.parts;
        let mut lapse = None;
        // A gateway that serves gets the notices itself. If the index cannot be read, the next change leads to another try.
        if !self.engine.is_gateway_serving()
            && let Ok((open, next)) = parts.outbox.open_sessions(moment(parts.now())).await
        {
            // A lease may have run out since the caller looked.
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
            () = self.engine.parts.closing.reached(Closing::Stopping) => false,
        }
    }
}
