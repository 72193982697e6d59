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
    /// The pids of those that serve, one for each connection.
    pids: Mutex<Vec<u32>>,
    /// Sessions that the last gateway disowned at its end.
    disowned: Mutex<BTreeSet<String>>,
}

impl Default for Gateways {
    fn default() -> Self {
        Self { serving: watch::Sender::new(0), pids: Mutex::default(), disowned: Mutex::default() }
    }
}

impl Gateways {
    /// The sessions that are not the gateway's. They count only while no gateway serves.
    fn disowned(&self) -> MutexGuard<'_, BTreeSet<String>> {
        lock(&self.disowned)
    }

    /// Whether the gateway that serves is this process. It registers over a connection of its own, so its requests are recognised by its pid.
    pub(crate) fn is_serving(&self, pid: u32) -> bool {
        lock(&self.pids).contains(&pid)
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
pub(crate) struct Serving<'a> {
    gateways: &'a Gateways,
    pid: Option<u32>,
}

impl<'a> Serving<'a> {
    pub(crate) fn new(gateways: &'a Gateways, pid: Option<u32>) -> Self {
        // The new gateway may create the sessions that the one before disowned.
        gateways.disowned().clear();
        lock(&gateways.pids).extend(pid);
        gateways.serving.send_modify(|n| *n += 1);
        Self { gateways, pid }
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let mut pids = lock(&self.gateways.pids);
        if let Some(at) = pids.iter().position(|pid| Some(*pid) == self.pid) {
            pids.swap_remove(at);
        }
        drop(pids);
        self.gateways.serving.send_modify(|n| *n -= 1);
    }
}
