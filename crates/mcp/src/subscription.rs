//! Notifies subscribers of changed resources.

use crate::resource::Part;
use outlast_client::{Chunk, Client, From, ProcessInfo};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::task::AbortHandle;

/// The most subscriptions of one connection.
pub(crate) const MAX_PER_CONNECTION: usize = 64;
/// The most subscriptions of all connections: each has a connection to the engine.
pub(crate) const MAX_PER_SERVER: usize = 256;
/// The shortest time between two notifications about a growing log. A reader fetches all new output at once.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Calls `notify` after each change of a resource. Returns when the resource cannot change any more, or when `notify` reports that its subscriber has
/// gone.
pub(crate) async fn watch<F>(client: &Client, (info, part): (ProcessInfo, Part), mut notify: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let mut chunks = client.follow_to_exit(&info.session_id.to_string(), From::Byte(info.output_bytes));
    loop {
        match chunks.next().await {
            Ok(Some(Chunk::Bytes { .. } | Chunk::Gap { .. })) => {
                if part == Part::Log {
                    if !notify().await {
                        return;
                    }
                    // Changes during the pause are notified together.
                    tokio::time::sleep(MIN_INTERVAL).await;
                }
            }
            Ok(None) => {
                notify().await;
                return;
            }
            // The process was removed, or no engine answers. A client that reads the resource gets the error.
            Err(_) => return,
        }
    }
}

/// The subscriptions of one connection of the old era.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<String, AbortHandle>>);

impl Subscriptions {
    /// Adds a subscription, and replaces an older one for the same resource. False if there are too many.
    pub(crate) fn add(&self, uri: &str, watching: AbortHandle) -> bool {
        let mut all = self.lock();
        all.retain(|_, watching| !watching.is_finished());
        if all.len() >= MAX_PER_CONNECTION && !all.contains_key(uri) {
            watching.abort();
            return false;
        }
        if let Some(before) = all.insert(uri.to_owned(), watching) {
            before.abort();
        }
        true
    }

    pub(crate) fn remove(&self, uri: &str) {
        if let Some(watching) = self.lock().remove(uri) {
            watching.abort();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, AbortHandle>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        for watching in self.lock().drain() {
            watching.1.abort();
        }
    }
}
