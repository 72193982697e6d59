//! Clients that wait for notices.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// What clients wait for in the session that would be notified otherwise, by the key of the notice.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Waited>);

#[derive(Debug, Default)]
struct Waited {
    /// How many clients wait for each.
    by: HashMap<String, usize>,
    /// Notices that were held as they were written, for the first waiter that is answered.
    ahead: HashSet<String>,
}

impl Waits {
    /// Whether a client waits for it.
    pub(crate) fn any(&self, key: &str) -> bool {
        self.lock().by.contains_key(key)
    }

    /// One more client waits for it, for as long as this is held.
    pub(crate) fn begin(self: &Arc<Self>, key: String) -> Waiting {
        *self.lock().by.entry(key.clone()).or_default() += 1;
        Waiting(Arc::clone(self), key)
    }

    /// It is held for the waiters. One of them takes it, or the last to leave gives it back.
    pub(crate) fn held_ahead(&self, key: &str) {
        self.lock().ahead.insert(key.to_owned());
    }

    /// Whether it was held and no waiter has taken it yet.
    pub(crate) fn take_ahead(&self, key: &str) -> bool {
        self.lock().ahead.remove(key)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waited> {
        // Counts are changed whole, so a panic elsewhere leaves them as they should be.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that waits.
pub(crate) struct Waiting(Arc<Waits>, String);

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut all = self.0.lock();
        if let Some(n) = all.by.get_mut(&self.1) {
            *n -= 1;
            if *n == 0 {
                all.by.remove(&self.1);
            }
        }
    }
}
