//! A client that waits for a notice of its session.

use crate::notices::Waiting;
use crate::parts::Parts;
use std::sync::Arc;

/// A client that waits. The notice is reserved for it; if the client leaves without an answer, the notice is delivered at once.
pub(crate) struct PendingAnswer {
    parts: Arc<Parts>,
    key: String,
    /// None once the answer itself holds the notice.
    waiting: Option<Waiting>,
}

impl PendingAnswer {
    /// The client waits for the notice with this key.
    pub(crate) fn begin(parts: &Arc<Parts>, key: String) -> Self {
        let waiting = Some(parts.waiters.begin(key.clone()));
        Self { parts: Arc::clone(parts), key, waiting }
    }

    /// From here on the answer holds the notice, and reports whether it was sent.
    pub(crate) fn held(mut self) {
        self.waiting = None;
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        let Some(waiting) = self.waiting.take() else { return };
        // First, so that no notice is reserved for this client any more.
        drop(waiting);
        let (parts, key) = (Arc::clone(&self.parts), std::mem::take(&mut self.key));
        // Without a runtime there is no engine left to deliver it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { parts.outbox.waiters_left(key).await });
        }
    }
}
