//! Folders made ahead of need.

use crate::disk::blocking;
use crate::shared::Shared;
use outlast_store::blank::Blank;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

/// How many there are at rest.
const AHEAD: usize = 8;

/// The blanks of an engine.
#[derive(Debug, Default)]
pub(crate) struct Blanks {
    ready: Mutex<Vec<Blank>>,
    made: AtomicU64,
    /// Held by whoever makes more. Whether none are made any more.
    making: Mutex<bool>,
}

impl Blanks {
    /// One, if there is one.
    pub(crate) fn take(&self) -> Option<Blank> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Has more made, where there are too few, and does not wait for them. Where none can be made, folders are made when they are needed, and say what is wrong.
    pub(crate) fn refill(shared: &Arc<Shared>) {
        if shared.blanks.missing() < AHEAD / 2 {
            return;
        }
        let shared = Arc::clone(shared);
        tokio::spawn(blocking(move || shared.blanks.make(&shared)));
    }

    fn missing(&self) -> usize {
        AHEAD.saturating_sub(self.ready.lock().unwrap_or_else(PoisonError::into_inner).len())
    }

    fn make(&self, shared: &Shared) {
        let over = match self.making.try_lock() {
            Ok(over) => over,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        while !*over && self.missing() > 0 {
            match Blank::make(&shared.home, self.made.fetch_add(1, SeqCst)) {
                Ok(blank) => self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(blank),
                Err(error) => return tracing::debug!(%error, "no folder can be made ahead"),
            }
        }
    }

    /// Removes those that nobody needed, for good.
    pub(crate) fn clear(&self) {
        *self.making.lock().unwrap_or_else(PoisonError::into_inner) = true;
        let all = std::mem::take(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner));
        all.into_iter().for_each(Blank::remove);
    }
}
