//! The gateways of a home.

use crate::mutex::lock;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::watch;

/// The most sessions that are remembered as not the gateway's. For one more, a gateway may be started that has nothing to do.
const MAX_DISOWNED: usize = 10_000;

/// Which gateways serve the home, and which sessions are not theirs.
#[derive(Debug)]
pub(crate) struct Gateways {
    pub(crate) serving: watch::Sender<usize>,
    /// Sessions that the last gateway disowned at its end.
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
        lock(&self.disowned)
    }

    /// Whether a session may be the gateway's.
    pub(crate) fn is_ours(&self, session: &str) -> bool {
        !self.disowned().contains(session)
    }

    /// Remembers sessions that are not the gateway's.
    pub(crate) fn disown(&self, sessions: Vec<String>) {
        let mut disowned = self.disowned();
        let room = MAX_DISOWNED.saturating_sub(disowned.len());
        disowned.extend(sessions.into_iter().take(room));
    }
}

/// Counts a gateway as serving while this is held.
pub(crate) struct Serving<'a>(&'a Gateways);

impl<'a> Serving<'a> {
    pub(crate) fn new(gateways: &'a Gateways) -> Self {
        // The new gateway may create the sessions that the one before disowned.
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
