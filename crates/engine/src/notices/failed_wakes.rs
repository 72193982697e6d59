//! Hooks that could not wake an agent when they were last called, for users who look.
//!
//! In memory only: after a failed wake the notice usually reaches the agent with an answer of the tools, and no row is left that could say so. The
//! next engine calls the hooks again.

use super::table::PushResult;
use crate::mutex::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What the last calls of a hook came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedWake {
    /// How many calls failed since one succeeded.
    pub(crate) calls: u64,
    /// Why the last one failed.
    pub(crate) reason: String,
}

/// The hooks whose last call failed, by name. There are at most as many as are configured.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailedWakes(Arc<Mutex<BTreeMap<String, FailedWake>>>);

impl FailedWakes {
    pub(super) fn note(&self, sink: &str, how: &PushResult) {
        let mut all = lock(&self.0);
        match how {
            PushResult::Delivered => drop(all.remove(sink)),
            PushResult::Again { reason, .. } | PushResult::Dead { reason } => {
                let calls = all.get(sink).map_or(0, |before| before.calls) + 1;
                all.insert(sink.to_owned(), FailedWake { calls, reason: reason.clone() });
            }
            // It was not called.
            PushResult::Later { .. } => {}
        }
    }

    pub(crate) fn all(&self) -> BTreeMap<String, FailedWake> {
        lock(&self.0).clone()
    }

    pub(crate) fn count(&self) -> u64 {
        lock(&self.0).len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_hook_is_named_until_a_call_succeeds() {
        let wakes = FailedWakes::default();
        let again = |reason: &str| PushResult::Again { after: Duration::ZERO, reason: reason.into() };
        wakes.note("a", &again("one"));
        wakes.note("a", &PushResult::Later { after: Duration::ZERO });
        wakes.note("a", &PushResult::Dead { reason: "two".into() });
        wakes.note("b", &again("other"));
        assert_eq!(wakes.all()["a"], FailedWake { calls: 2, reason: "two".into() });
        wakes.note("a", &PushResult::Delivered);
        wakes.note("a", &PushResult::Delivered);
        assert_eq!((wakes.count(), wakes.all().contains_key("b")), (1, true));
    }
}
