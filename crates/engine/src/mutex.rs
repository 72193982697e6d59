//! Mutexes whose values stay true after a panic.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic of another task that held it.
///
/// Values behind our mutexes are replaced whole, or changed one entry at a time, so a panic leaves no half of a change behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
