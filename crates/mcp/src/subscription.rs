//! Telling that a resource has changed.

use crate::resource::Part;
use outlast_client::{Chunk, Client, From, ProcessInfo};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::task::AbortHandle;

/// How many resources one connection may be told of.
pub(crate) const MOST: usize = 64;
/// How many all connections of a server may be told of: for each there is a connection to the engine.
pub(crate) const MOST_TOGETHER: usize = 256;
/// A log that grows is told of this often at most: a reader fetches all that is new at once.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);

/// Returns when there is nothing more to tell of a resource that was found. `tell` is called after each change since then, and says whether anybody still listens.
pub(crate) async fn watch<F>(client: &Client, (info, part): (ProcessInfo, Part), mut tell: impl FnMut() -> F)
where
    F: Future<Output = bool>,
{
    let mut chunks = client.follow_to_exit(&info.session_id.to_string(), From::Byte(info.output_bytes));
    loop {
        match chunks.next().await {
            Ok(Some(Chunk::Bytes { .. } | Chunk::Gap { .. })) => {
                if part == Part::Log {
                    if !tell().await {
                        return;
                    }
                    // What comes meanwhile is told together.
                    tokio::time::sleep(AT_MOST_EVERY).await;
                }
            }
            Ok(None) => {
                tell().await;
                return;
            }
            // It was removed, or no engine answers: whoever asks for it now is told so.
            Err(_) => return,
        }
    }
}

/// The subscriptions of one connection of the old era.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<String, AbortHandle>>);

impl Subscriptions {
    /// Adds one, in place of an older one for the same. Whether there was room.
    pub(crate) fn add(&self, uri: &str, watching: AbortHandle) -> bool {
        let mut all = self.lock();
        all.retain(|_, watching| !watching.is_finished());
        if all.len() >= MOST && !all.contains_key(uri) {
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
