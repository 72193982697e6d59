//! What a campaign counted.

use std::collections::BTreeMap;
use std::sync::Mutex;

/// Counts by name, from all homes.
#[derive(Debug, Default)]
pub(crate) struct Report {
    counts: Mutex<BTreeMap<String, u64>>,
    bad: Mutex<Vec<String>>,
}

impl Report {
    /// Counts `n` more of `what`.
    pub(crate) fn add(&self, what: impl Into<String>, n: u64) {
        *self.counts.lock().unwrap_or_else(|e| e.into_inner()).entry(what.into()).or_default() += n;
    }

    /// Something that must not happen did.
    pub(crate) fn bad(&self, what: String) {
        eprintln!("BAD {what}");
        self.bad.lock().unwrap_or_else(|e| e.into_inner()).push(what);
    }

    /// How many things went wrong.
    pub(crate) fn failures(&self) -> usize {
        self.bad.lock().unwrap_or_else(|e| e.into_inner()).len()
    }

    /// How many of `what` were counted.
    pub(crate) fn count(&self, what: &str) -> u64 {
        self.counts.lock().unwrap_or_else(|e| e.into_inner()).get(what).copied().unwrap_or_default()
    }

    /// All counts, a line each.
    pub(crate) fn print(&self) {
        for (what, n) in self.counts.lock().unwrap_or_else(|e| e.into_inner()).iter() {
            println!("{n:>9}  {what}");
        }
        for what in self.bad.lock().unwrap_or_else(|e| e.into_inner()).iter() {
            println!("      BAD  {what}");
        }
    }
}
