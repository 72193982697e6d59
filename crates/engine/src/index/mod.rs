//! What the engine knows of every process, in one file that can be rebuilt from the folders.
//!
//! The folder of a process is the truth about it. The index makes a start quick, and is where a request is on disk for good before its command may run. It has
//! one writer, a thread that takes everything that waits, writes it in one transaction, and only then answers.

mod row;
mod sqlite;

pub(crate) use row::Row;
pub(crate) use sqlite::put;
#[cfg(test)]
pub(crate) use sqlite::{CREATE, keep_questions_ready};

use outlast_core::ProcessId;
use rusqlite::Connection;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

/// Why the index could not take something.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum IndexError {
    /// The disk is full, or may not be written.
    #[error("cannot write {path}: {what}")]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// What the system said.
        what: String,
    },
    /// Anything else.
    #[error("cannot use {path}: {what}")]
    Other {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        what: String,
    },
    /// The writer is gone.
    #[error("the index is closed")]
    Closed,
}

/// One thing to be written.
enum Change {
    /// A row, new or instead of the one there is.
    Put(Box<Row>),
    /// No row any more.
    Forget(ProcessId),
    /// Whatever this does, in the same transaction.
    Work(Work),
    /// Nothing: the writer ends behind what is queued before.
    Close,
}

/// A piece of work on the tables, done in the writer's transaction. May be done in vain: nothing of it is so before it is answered.
pub(crate) type Work = Box<dyn FnOnce(&Connection) -> rusqlite::Result<()> + Send>;

struct Job {
    change: Change,
    done: oneshot::Sender<Result<(), IndexError>>,
}

/// A handle on the writer.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    jobs: mpsc::Sender<Job>,
}

/// An index that was opened.
pub(crate) struct Opened {
    pub(crate) index: Index,
    /// What was in it.
    pub(crate) rows: Vec<Row>,
    /// Where the damaged one lies, if it was damaged. The rows then have to come from the folders.
    pub(crate) set_aside: Option<PathBuf>,
    /// Whether there was none: all rows have to come from the folders.
    pub(crate) fresh: bool,
    pub(crate) writer: Writer,
}

/// The writer's thread, to be waited for.
pub(crate) struct Writer(Option<std::thread::JoinHandle<()>>);

impl Writer {
    /// Waits until everything is written. Only after [`Index::close`].
    pub(crate) fn join(mut self) {
        if let Some(thread) = self.0.take()
            && thread.join().is_err()
        {
            tracing::error!("the index's writer panicked");
        }
    }
}

/// How many changes may wait. Who comes later waits for room.
const WAITING: usize = 4_096;

impl Index {
    /// Opens the index at `path`, or makes it. A damaged one is set aside.
    pub(crate) fn open(path: &Path) -> Result<Opened, IndexError> {
        let (database, rows, set_aside, fresh) = sqlite::open(path)?;
        let (jobs, waiting) = mpsc::channel(WAITING);
        let thread = std::thread::Builder::new()
            .name("index".into())
            .spawn(move || write_all(database, waiting))
            .map_err(|e| IndexError::Other { path: path.to_owned(), what: e.to_string() })?;
        Ok(Opened { index: Self { jobs }, rows, set_aside, fresh, writer: Writer(Some(thread)) })
    }

    /// Writes a row, and answers once it is on disk.
    pub(crate) async fn put(&self, row: Row) -> Result<(), IndexError> {
        written(self.queue(Change::Put(Box::new(row))).await).await
    }

    /// Has a row written behind everything queued before, and does not wait for it.
    pub(crate) async fn put_later(&self, row: Row) {
        // The folder is the truth; if this is lost, the next start reads it again.
        let _unanswered = self.queue(Change::Put(Box::new(row))).await;
    }

    /// Removes a row, and answers once that is on disk.
    pub(crate) async fn forget(&self, id: ProcessId) -> Result<(), IndexError> {
        written(self.queue(Change::Forget(id)).await).await
    }

    /// Does `work` in a transaction of the writer's, and answers with what it returned once that is on disk.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, IndexError> {
        let slot = Arc::new(Mutex::new(None));
        let result = Arc::clone(&slot);
        let change = Change::Work(Box::new(move |tables| {
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(work(tables)?);
            Ok(())
        }));
        written(self.queue(change).await).await?;
        let done = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        done.ok_or(IndexError::Closed)
    }

    /// Has work done behind everything queued before, and does not wait for it.
    pub(crate) async fn work_later(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static) {
        // Only for what may be lost: whoever calls says why.
        let _unanswered = self.queue(Change::Work(Box::new(work))).await;
    }

    /// Has all of this written, and does not wait for it. Only before anything else is asked: it may wait for room.
    pub(crate) fn follow(&self, put: Vec<Row>, forget: Vec<ProcessId>) {
        let changes = put.into_iter().map(|row| Change::Put(Box::new(row))).chain(forget.into_iter().map(Change::Forget));
        for change in changes {
            let (done, _unanswered) = oneshot::channel();
            if self.jobs.blocking_send(Job { change, done }).is_err() {
                return;
            }
        }
    }

    /// Ends the writer once everything queued before is on disk.
    pub(crate) async fn close(&self) {
        // Whether it was open or closed before, it is closed now.
        let _closed = written(self.queue(Change::Close).await).await;
    }

    async fn queue(&self, change: Change) -> oneshot::Receiver<Result<(), IndexError>> {
        let (done, answer) = oneshot::channel();
        if let Err(mpsc::error::SendError(job)) = self.jobs.send(Job { change, done }).await {
            // We hold the other end of it, which is what is returned.
            let _gone = job.done.send(Err(IndexError::Closed));
        }
        answer
    }
}

async fn written(answer: oneshot::Receiver<Result<(), IndexError>>) -> Result<(), IndexError> {
    answer.await.unwrap_or(Err(IndexError::Closed))
}

fn write_all(mut database: sqlite::Database, mut waiting: mpsc::Receiver<Job>) {
    while let Some(first) = waiting.blocking_recv() {
        let jobs: Vec<Job> = std::iter::once(first).chain(std::iter::from_fn(|| waiting.try_recv().ok())).collect();
        let (changes, asked): (Vec<_>, Vec<_>) = jobs.into_iter().map(|j| (j.change, j.done)).unzip();
        let (many, closes) = (changes.len(), changes.iter().any(|c| matches!(c, Change::Close)));
        let results = database.write(changes).unwrap_or_else(|error| {
            tracing::error!(%error, changes = many, "index");
            vec![Err(error); many]
        });
        for (done, result) in asked.into_iter().zip(results) {
            if let Err(error) = &result {
                tracing::warn!(%error, "index");
            }
            // Who asked may have left; what was written stays written.
            let _gone = done.send(result);
        }
        if closes {
            return;
        }
    }
}

fn io_error(path: &Path, error: &io::Error) -> IndexError {
    let (path, what) = (path.to_owned(), error.to_string());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied | io::ErrorKind::QuotaExceeded => {
            IndexError::NoRoom { path, what }
        }
        _ => IndexError::Other { path, what },
    }
}

#[cfg(test)]
mod tests;
