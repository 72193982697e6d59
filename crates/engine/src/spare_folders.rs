//! Folders made ahead of need.

use crate::disk::blocking;
use crate::mutex::lock;
use outlast_store::blank::Blank;
use outlast_store::dir::Home;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, TryLockError};

/// How many there are at rest.
const AHEAD: usize = 8;

/// The spare folders of an engine.
#[derive(Debug)]
pub(crate) struct SpareFolders {
    home: Home,
    ready: Mutex<Vec<Blank>>,
    made: AtomicU64,
    /// Held while more are made. Whether none are made any more.
    making: Mutex<bool>,
}

impl SpareFolders {
    pub(crate) fn new(home: &Home) -> Self {
        Self { home: home.clone(), ready: Mutex::default(), made: AtomicU64::new(0), making: Mutex::default() }
    }

    /// One, if there is one.
    pub(crate) fn take(&self) -> Option<Blank> {
        lock(&self.ready).pop()
    }

    /// Has more made if there are too few, and does not wait for them. If none can be made, folders are made when they are needed, and that
    /// reports what is wrong.
    pub(crate) fn refill(self: &Arc<Self>) {
        if self.missing() < AHEAD / 2 {
            return;
        }
        let folders = Arc::clone(self);
        tokio::spawn(blocking(move || folders.make()));
    }

    fn missing(&self) -> usize {
        AHEAD.saturating_sub(lock(&self.ready).len())
    }

    fn make(&self) {
        let over = match self.making.try_lock() {
            Ok(over) => over,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        while !*over && self.missing() > 0 {
            match Blank::make(&self.home, self.made.fetch_add(1, SeqCst)) {
                Ok(blank) => lock(&self.ready).push(blank),
                Err(error) => return tracing::debug!(%error, "no folder can be made ahead"),
            }
        }
    }

    /// Removes those that were not needed, and makes no more.
    pub(crate) fn clear(&self) {
        *lock(&self.making) = true;
        let all = std::mem::take(&mut *lock(&self.ready));
        all.into_iter().for_each(Blank::remove);
    }
}
