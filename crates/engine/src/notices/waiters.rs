//! Clients that wait for what their session is told otherwise, counted by the key of its notice.

use crate::mutex::lock;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// Clients that wait, by the key of the notice.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Keys>);

#[derive(Debug, Default)]
struct Keys {
    /// How many clients wait for each.
    waiting: HashMap<String, usize>,
    /// Notices that were written with the answer prepared. One client takes the permit to send it without another write.
    permits: HashSet<String>,
}

impl Waiters {
    /// Whether a client waits for it.
    pub(crate) fn any(&self, key: &str) -> bool {
        lock(&self.0).waiting.contains_key(key)
    }

    /// One more client waits for it, for as long as this is held.
    pub(crate) fn begin(self: &Arc<Self>, key: String) -> Waiting {
        *lock(&self.0).waiting.entry(key.clone()).or_default() += 1;
        Waiting(Arc::clone(self), key)
    }

    /// Its notice was written with the answer prepared. A client that waits takes the permit, or the last one to leave gives it back.
    pub(crate) fn keep_permit(&self, key: &str) {
        lock(&self.0).permits.insert(key.to_owned());
    }

    /// Whether there was a permit. There is none now.
    pub(crate) fn take_permit(&self, key: &str) -> bool {
        lock(&self.0).permits.remove(key)
    }
}

/// One client that waits.
pub(crate) struct Waiting(Arc<Waiters>, String);

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = lock(&self.0.0);
        if let Some(n) = all.waiting.get_mut(&self.1) {
            *n -= 1;
            if *n == 0 {
                all.waiting.remove(&self.1);
            }
        }
    }
}
