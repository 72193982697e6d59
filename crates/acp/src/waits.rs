//! The running waits for ends of terminals, and how an agent cancels one.

use crate::message::Message;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The running waits, by the ids of their requests.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<HashMap<String, oneshot::Sender<()>>>);

/// A running wait. Dropping it ends it.
pub(crate) struct Wait {
    waits: Arc<Waits>,
    id: String,
    cancelled: oneshot::Receiver<()>,
}

impl Waits {
    pub(crate) fn begin(self: &Arc<Self>, id: &str) -> Wait {
        let (cancel, cancelled) = oneshot::channel();
        lock(&self.0).insert(id.to_owned(), cancel);
        Wait { waits: self.clone(), id: id.to_owned(), cancelled }
    }

    pub(crate) fn cancel_all(&self) {
        for (_, cancel) in lock(&self.0).drain() {
            // It fails if the wait was answered just now.
            let _over = cancel.send(());
        }
    }

    /// Whether a message cancels one of these waits. If so, the wait ends.
    pub(crate) fn is_cancelled_by(&self, message: &Message<'_>) -> bool {
        let request = || message.params().map(|Cancel { request_id }| request_id);
        message.method.as_deref() == Some("$/cancel_request") && request().is_some_and(|id| self.cancel(id.get()))
    }

    /// Whether there was such a wait.
    fn cancel(&self, id: &str) -> bool {
        lock(&self.0).remove(id).is_some_and(|cancel| cancel.send(()).is_ok())
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.cancelled.close();
        let mut waits = lock(&self.waits.0);
        // Another wait may have begun under the same id; its channel is open.
        if waits.get(&self.id).is_some_and(oneshot::Sender::is_closed) {
            waits.remove(&self.id);
        }
    }
}

/// Returns once the wait is cancelled. Never returns without a wait.
pub(crate) async fn cancelled(wait: Option<Wait>) {
    if let Some(mut wait) = wait
        && (&mut wait.cancelled).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cancel<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves the table consistent: each change is one call.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_is_cancelled_by_its_id_and_once() {
        let waits = Arc::new(Waits::default());
        let (first, other) = (waits.begin("1"), waits.begin("\"1\""));
        assert!(waits.cancel("1") && !waits.cancel("1"));
        cancelled(Some(first)).await;
        drop(other);
        assert!(!waits.cancel("\"1\"") && lock(&waits.0).is_empty());
        let (before, after) = (waits.begin("2"), waits.begin("2"));
        drop(before);
        assert!(waits.cancel("2"));
        cancelled(Some(after)).await;
    }
}
