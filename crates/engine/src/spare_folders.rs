//! Folders made ahead of need.

use crate::disk::blocking;
use crate::mutex::lock;
use outlast_store::blank::Blank;
use outlast_store::dir::Home;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, TryLockError};

/// How many folders are kept ready.
const AHEAD: usize = 8;

/// The spare folders of an engine.
#[derive(Debug)]
pub(crate) struct SpareFolders {
    home: Home,
    ready: Mutex<Vec<Blank>>,
    made: AtomicU64,
    /// Held while folders are made. True once the engine ends and makes no more.
    making: Mutex<bool>,
}

impl SpareFolders {
    pub(crate) fn new(home: &Home) -> Self {
        Self { home: home.clone(), ready: Mutex::default(), made: AtomicU64::new(0), making: Mutex::default() }
    }

    /// Takes a folder that is ready, if there is one.
    pub(crate) fn take(&self) -> Option<Blank> {
        lock(&self.ready).pop()
    }

    /// Starts a task that makes more folders if there are too few. If none can be made, a start makes its folder itself and reports the
    /// error.
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

    /// Removes the folders that were not needed, and makes no more.
    pub(crate) fn clear(&self) {
        *lock(&self.making) = true;
        let all = std::mem::take(&mut *lock(&self.ready));
        all.into_iter().for_each(Blank::remove);
    }
}
