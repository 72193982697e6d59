//! Clients that wait for a notice of their session, counted by the key of the notice.

use crate::mutex::lock;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// Clients that wait, by the key of the notice.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<Keys>);

#[derive(Debug, Default)]
struct Keys {
    /// How many clients wait for each notice.
    waiting: HashMap<String, usize>,
    /// Notices that were written with the answer prepared. One client takes the permit to send it without another write.
    permits: HashSet<String>,
}

impl Waiters {
    /// Whether a client waits for this notice.
    pub(crate) fn any(&self, key: &str) -> bool {
        lock(&self.0).waiting.contains_key(key)
    }

    /// Counts one more client that waits, while the result is held.
    pub(crate) fn begin(self: &Arc<Self>, key: String) -> Waiting {
        *lock(&self.0).waiting.entry(key.clone()).or_default() += 1;
        Waiting(Arc::clone(self), key)
    }

    /// The notice is on disk with the answer prepared. A waiting client takes the permit, or the last one to leave gives it back. `false` if
    /// all have left before: there is no permit then.
    pub(crate) fn keep_permit(&self, key: &str) -> bool {
        let mut keys = lock(&self.0);
        keys.waiting.contains_key(key) && {
            keys.permits.insert(key.to_owned());
            true
        }
    }

    /// Takes the permit, if there is one.
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
