//! On which thread the engine waits for a disk.
//!
//! A look into a folder or a small commit takes less time than a change of threads and back, so it is done on the thread of the task that
//! needs it. If the disk is slow, it is done on a blocking thread, so that other tasks do not wait for it.
//!
//! Decision 76: docs/decisions/engine.md.

use crate::mutex::lock;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// An operation that takes longer than this marks the disk as slow.
const LONG: Duration = Duration::from_millis(20);
/// How long a disk counts as slow after a slow operation.
const SLOW_FOR: Duration = Duration::from_secs(10);

/// Look again after this long where nothing reports a change: a disk that is full, a keeper that hangs.
pub(crate) const AGAIN: Duration = Duration::from_secs(1);

/// Whether a disk was slow lately.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    slow_since: Mutex<Option<Instant>>,
}

impl Disk {
    pub(crate) fn is_quick(&self) -> bool {
        lock(&self.slow_since).is_none_or(|since| since.elapsed() > SLOW_FOR)
    }

    /// Runs an operation on the disk, and records whether it was slow.
    pub(crate) fn timed<T>(&self, what: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = what();
        if began.elapsed() > LONG {
            *lock(&self.slow_since) = Some(Instant::now());
        }
        done
    }

    /// Runs an operation on this thread if the disk is quick, else on a blocking thread.
    pub(crate) async fn at<T: Send + 'static>(&self, what: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        if !self.is_quick() {
            return blocking(what).await;
        }
        // A panic costs the caller its answer, as it does on a blocking thread.
        self.timed(|| catch_unwind(AssertUnwindSafe(what)))
            .map_err(|_| io::Error::other("reading or writing the disk panicked; engine.log says why"))
    }
}

/// Runs an operation that waits for a disk on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(what).await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_disk_is_waited_for_elsewhere() {
        let disk = Disk::default();
        let here = std::thread::current().id();
        let where_done = || std::thread::current().id();
        assert_eq!(disk.at(where_done).await.unwrap(), here);
        // As long as something that is slow takes.
        disk.timed(|| std::thread::sleep(LONG + Duration::from_millis(1)));
        assert!(!disk.is_quick());
        assert_ne!(disk.at(where_done).await.unwrap(), here);
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let disk = Disk::default();
        assert!(disk.at(|| -> () { panic!("on purpose") }).await.is_err());
        assert_eq!(disk.at(|| 1).await.unwrap(), 1);
    }
}
