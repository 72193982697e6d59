//! How many clients are connected.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use tokio::sync::Notify;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientKind {
    /// A client that uses the engine.
    Outside,
    /// A task of the engine's program that ends with the engine, such as a sink.
    Within,
}

/// The clients of an engine.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) outside: Connected,
    pub(crate) within: Connected,
}

/// How many are connected.
#[derive(Debug, Default)]
pub(crate) struct Connected {
    count: AtomicUsize,
    /// Changes whenever a client connects or leaves.
    pub(crate) changed: Notify,
}

impl Connected {
    pub(crate) fn count(&self) -> usize {
        self.count.load(SeqCst)
    }
}

impl Clients {
    fn of(&self, kind: ClientKind) -> &Connected {
        match kind {
            ClientKind::Outside => &self.outside,
            ClientKind::Within => &self.within,
        }
    }
}

/// Counts a client as connected while this is held.
pub(crate) struct Client(Arc<Clients>, ClientKind);

impl Client {
    pub(crate) fn new(clients: &Arc<Clients>, kind: ClientKind) -> Self {
        let new = Self(Arc::clone(clients), kind);
        new.change(|count| count.fetch_add(1, SeqCst));
        new
    }

    fn change(&self, how: impl FnOnce(&AtomicUsize) -> usize) {
        let connected = self.0.of(self.1);
        how(&connected.count);
        connected.changed.notify_one();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.change(|count| count.fetch_sub(1, SeqCst));
    }
}
