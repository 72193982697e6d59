//! Terminals that are attached to processes.

use crate::mutex::lock;
use outlast_core::ProcessId;
use std::collections::HashMap;
use std::sync::Mutex;
use tokio::sync::watch;

/// The viewers of all processes.
#[derive(Default)]
pub(crate) struct Views(Mutex<HashMap<ProcessId, watch::Sender<()>>>);

/// A viewer of a process. It counts while this is held.
pub(crate) struct Viewer(Option<watch::Receiver<()>>);

impl Viewer {
    /// A viewer that cannot be detached.
    pub(crate) const NONE: Self = Self(None);

    /// Returns once the viewer is to be detached.
    pub(crate) async fn closed(&mut self) {
        match &mut self.0 {
            // Nothing is ever sent: the sender is dropped.
            Some(open) => while open.changed().await.is_ok() {},
            None => std::future::pending().await,
        }
    }
}

impl Views {
    /// Registers a viewer of this process.
    pub(crate) fn open(&self, id: ProcessId) -> Viewer {
        let mut all = lock(&self.0);
        all.retain(|_, viewers| viewers.receiver_count() > 0);
        Viewer(Some(all.entry(id).or_insert_with(|| watch::channel(()).0).subscribe()))
    }

    /// Detaches the viewers of a process. Returns how many there were.
    pub(crate) fn close(&self, id: ProcessId) -> usize {
        lock(&self.0).remove(&id).map_or(0, |viewers| viewers.receiver_count())
    }
}
