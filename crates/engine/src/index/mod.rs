//! The facts about every process, in one file that can be rebuilt from the folders.
//!
//! The folder of a process is the truth about it. The index makes the start of an engine quick, and holds each request durably before its
//! command may run. If nothing else is being written, the calling task writes its change itself. Otherwise a thread takes all changes that
//! wait, writes them in one transaction, and then answers.

mod schema;
mod sqlite;
mod v1;

pub(crate) use sqlite::{forget, put};
#[cfg(test)]
pub(crate) use {schema::ALL, sqlite::keep_questions_ready};

use crate::disk::Disk;
use crate::facts::Facts;
use crate::mutex::lock;
use crate::own_home::OwnHome;
use outlast_core::ProcessId;
use rusqlite::Connection;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, TryLockError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Why the index refused a change or a read.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum IndexError {
    /// The disk is full, or may not be written.
    #[error("cannot write {path}: {what}")]
    NoRoom { path: PathBuf, what: String },
    /// Anything else.
    #[error("cannot use {path}: {what}")]
    Other { path: PathBuf, what: String },
    /// The home was lost, so the path of the index leads to another file. The next engine would not find what was written.
    #[error("the state directory of {path} was removed or replaced")]
    HomeGone { path: PathBuf },
    #[error("the index is closed")]
    Closed,
}

/// One change to be written.
enum IndexChange {
    /// The facts about a process, in a new row or as its progress.
    Put(Box<Facts>),
    Forget(ProcessId),
    /// Work on the tables, in the same transaction.
    Work(Work),
    /// No change of its own; only writes the deferred changes.
    Nothing,
    /// Ends the writer after the changes that were queued before.
    Close,
}

/// Work on the tables, done in the writer's transaction. The transaction may still fail, so nothing of it counts before it is answered.
pub(crate) type Work = Box<dyn FnOnce(&Connection) -> rusqlite::Result<()> + Send>;

struct Job {
    change: IndexChange,
    done: oneshot::Sender<Result<(), IndexError>>,
}

/// A handle on the index. Copies are cheap.
#[derive(Clone)]
pub(crate) struct Index {
    jobs: mpsc::Sender<Job>,
    /// How many queued changes are not written yet.
    waiting: Arc<AtomicUsize>,
    tables: Arc<Tables>,
}

/// How long deferred changes wait for the commit of another change.
const LATER: Duration = Duration::from_millis(50);

/// The file and its deferred changes. The connections are none once it is closed.
struct Tables {
    /// The connection for writing.
    database: Mutex<Option<sqlite::Database>>,
    /// The connection for reading, also during a write.
    reader: Mutex<Option<Connection>>,
    /// Changes that no task waits for. They are written before the next change.
    later: Mutex<DeferredChanges>,
    path: PathBuf,
    disk: Disk,
    /// The home. A commit counts only if the file is still in it. Not set in tests of the index alone.
    own_home: OnceLock<Arc<OwnHome>>,
}

#[derive(Default)]
struct DeferredChanges {
    changes: Vec<IndexChange>,
    /// Whether a task will write them if no other change does.
    is_seen_to: bool,
}

impl Tables {
    /// Writes changes. If no path leads to the file any more, the commit does not count: the next engine would not find it.
    fn write(&self, database: &mut sqlite::Database, changes: Vec<IndexChange>) -> Result<Vec<Result<(), IndexError>>, IndexError> {
        let written = self.disk.timed(|| database.write(changes))?;
        match self.own_home.get() {
            Some(own_home) if own_home.is_lost() => Err(IndexError::HomeGone { path: self.path.clone() }),
            Some(_) | None => Ok(written),
        }
    }

    fn later(&self) -> MutexGuard<'_, DeferredChanges> {
        lock(&self.later)
    }

    fn take_later(&self) -> Vec<IndexChange> {
        std::mem::take(&mut self.later().changes)
    }
}

/// An index that was opened.
pub(crate) struct Opened {
    pub(crate) index: Index,
    /// Its content, one for each row.
    pub(crate) rows: Vec<Facts>,
    /// Where the old file was moved if it was damaged. Then the rows have to come from the folders.
    pub(crate) set_aside: Option<PathBuf>,
    /// Whether there was no index. Then all rows have to come from the folders.
    pub(crate) fresh: bool,
    pub(crate) writer: Writer,
}

/// The writer's thread.
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

/// How many changes may wait. A task with more waits for room.
const WAITING: usize = 4_096;

impl Index {
    /// Opens or creates the index at `path`. A damaged one is moved aside.
    pub(crate) fn open(path: &Path) -> Result<Opened, IndexError> {
        let (database, rows, set_aside, fresh) = sqlite::open(path)?;
        let reader = database.reader()?;
        let (jobs, asked) = mpsc::channel(WAITING);
        let tables = Tables {
            database: Mutex::new(Some(database)),
            reader: Mutex::new(Some(reader)),
            later: Mutex::default(),
            path: path.to_owned(),
            disk: Disk::default(),
            own_home: OnceLock::new(),
        };
        let index = Self { jobs, waiting: Arc::default(), tables: Arc::new(tables) };
        let (tables, waiting) = (Arc::clone(&index.tables), Arc::clone(&index.waiting));
        let thread = std::thread::Builder::new()
            .name("index".into())
            .spawn(move || write_all(&tables, &waiting, asked))
            .map_err(|e| IndexError::Other { path: path.to_owned(), what: e.to_string() })?;
        Ok(Opened { index, rows, set_aside, fresh, writer: Writer(Some(thread)) })
    }

    /// Writes the facts about a process, and returns once they are on disk.
    pub(crate) async fn put(&self, facts: Facts) -> Result<(), IndexError> {
        self.write(IndexChange::Put(Box::new(facts))).await
    }

    /// Writes the facts about a process with the next change, without waiting for it.
    pub(crate) async fn put_later(&self, facts: Facts) {
        // The folder is the truth; if this is lost, the next start reads it again.
        self.later(IndexChange::Put(Box::new(facts))).await;
    }

    /// A newer row of this process is about to be written, so deferred ones are dropped.
    pub(crate) fn outdate(&self, id: ProcessId) {
        self.tables.later().changes.retain(|change| !matches!(change, IndexChange::Put(facts) if facts.id() == id));
    }

    /// Does `work` in a transaction of the writer, and returns its result once that is on disk.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, IndexError> {
        let slot = Arc::new(Mutex::new(None));
        let result = Arc::clone(&slot);
        let change = IndexChange::Work(Box::new(move |tables| {
            *lock(&result) = Some(work(tables)?);
            Ok(())
        }));
        self.write(change).await?;
        let done = lock(&slot).take();
        done.ok_or(IndexError::Closed)
    }

    /// Reads what is on disk. Changes that wait are not seen.
    pub(crate) async fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, IndexError> {
        let reader = lock(&self.tables.reader);
        let reader = reader.as_ref().ok_or(IndexError::Closed)?;
        read(reader).map_err(|e| sqlite::error(&self.tables.path, &e))
    }

    /// Whether all changes so far are on disk, so that a reader sees them.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.waiting.load(SeqCst) == 0 && self.tables.later().changes.is_empty()
    }

    /// Does `work` with the next change, without waiting for it.
    pub(crate) async fn work_later(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<()> + Send + 'static) {
        // Such a change may be lost. Each caller says why that is fine.
        self.later(IndexChange::Work(Box::new(work))).await;
    }

    /// Defers a change. Usually another change follows soon and one commit writes both, in the order of the calls.
    async fn later(&self, change: IndexChange) {
        if self.waiting.load(SeqCst) > 0 {
            // The writer logs its errors.
            let _unanswered = self.queue(change).await;
            return;
        }
        let mut later = self.tables.later();
        later.changes.push(change);
        // One task for all deferred changes: each commit of its own would delay changes that a task waits for.
        if !std::mem::replace(&mut later.is_seen_to, true) {
            let index = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(LATER).await;
                let is_left = {
                    let mut later = index.tables.later();
                    later.is_seen_to = false;
                    !later.changes.is_empty()
                };
                if is_left {
                    // The writer logs its errors.
                    let _unanswered = index.queue(IndexChange::Nothing).await;
                }
            });
        }
    }

    /// Queues rows to write and to remove, without waiting for the writes. Only at the start of an engine: it blocks until there is room.
    pub(crate) fn follow(&self, put: Vec<Facts>, forget: Vec<ProcessId>) {
        let changes = put.into_iter().map(|facts| IndexChange::Put(Box::new(facts))).chain(forget.into_iter().map(IndexChange::Forget));
        for change in changes {
            let (done, _unanswered) = oneshot::channel();
            self.waiting.fetch_add(1, SeqCst);
            if self.jobs.blocking_send(Job { change, done }).is_err() {
                return;
            }
        }
    }

    /// Ends the writer once everything queued before is on disk.
    pub(crate) async fn close(&self) {
        // The index may have been closed before.
        let _closed = written(self.queue(IndexChange::Close).await).await;
    }

    /// From now on a commit counts only while the file is in this home.
    pub(crate) fn belongs_to(&self, own_home: &Arc<OwnHome>) {
        // Set once, by the engine that opened the index.
        let _first = self.tables.own_home.set(Arc::clone(own_home));
    }

    /// Gives up a file that is no longer in the home. It is closed only if nothing is at the home's path. SQLite removes the log of a
    /// closed file by its path, where another engine's log may be.
    pub(crate) fn abandon(&self, own_home: &OwnHome) {
        let reader = lock(&self.tables.reader).take();
        let database = lock(&self.tables.database).take();
        if !own_home.is_removed() {
            std::mem::forget((reader, database));
        }
    }

    /// Writes a change in this task if nothing else is being written or waits: a commit is quicker than a change of threads and back.
    /// Otherwise the writer does it, together with all that waits.
    async fn write(&self, change: IndexChange) -> Result<(), IndexError> {
        match self.write_here(change) {
            Ok(done) => done,
            Err(change) => written(self.queue(change).await).await,
        }
    }

    fn write_here(&self, change: IndexChange) -> Result<Result<(), IndexError>, IndexChange> {
        // No queued change is overtaken, because each is counted before it is queued.
        let is_free = || self.waiting.load(SeqCst) == 0;
        if !is_free() || !self.tables.disk.is_quick() {
            return Err(change);
        }
        let mut database = match self.tables.database.try_lock() {
            Ok(database) => database,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(change),
        };
        let Some(database) = database.as_mut().filter(|_| is_free()) else { return Err(change) };
        let mut changes = self.tables.take_later();
        changes.push(change);
        let written = self.tables.write(database, changes);
        let mut all = written.unwrap_or_else(|error| vec![Err(error)]);
        for error in all.iter().filter_map(|done| done.as_ref().err()) {
            tracing::warn!(%error, "index");
        }
        Ok(all.pop().unwrap_or(Err(IndexError::Closed)))
    }

    async fn queue(&self, change: IndexChange) -> oneshot::Receiver<Result<(), IndexError>> {
        let (done, answer) = oneshot::channel();
        match self.jobs.reserve().await {
            Ok(room) => {
                self.waiting.fetch_add(1, SeqCst);
                room.send(Job { change, done });
            }
            // The receiver is what this function returns, so it exists.
            Err(_) => _ = done.send(Err(IndexError::Closed)),
        }
        answer
    }
}

async fn written(answer: oneshot::Receiver<Result<(), IndexError>>) -> Result<(), IndexError> {
    answer.await.unwrap_or(Err(IndexError::Closed))
}

fn write_all(tables: &Tables, waiting: &AtomicUsize, mut asked: mpsc::Receiver<Job>) {
    let mut is_long = false;
    while let Some(first) = asked.blocking_recv() {
        let mut database = lock(&tables.database);
        let Some(open) = database.as_mut() else { return };
        let jobs: Vec<Job> = std::iter::once(first).chain(std::iter::from_fn(|| asked.try_recv().ok())).collect();
        let later = tables.take_later().into_iter().map(|change| Job { change, done: oneshot::channel().0 });
        let many = jobs.len();
        let (changes, asked): (Vec<_>, Vec<_>) = later.chain(jobs).map(|j| (j.change, j.done)).unzip();
        let (all, closes) = (changes.len(), changes.iter().any(|c| matches!(c, IndexChange::Close)));
        let results = tables.write(open, changes).unwrap_or_else(|error| {
            tracing::error!(%error, changes = all, "index");
            vec![Err(error); all]
        });
        if closes {
            // The reader first: the last connection to close cleans up the log.
            *lock(&tables.reader) = None;
            *database = None;
        }
        drop(database);
        waiting.fetch_sub(many, SeqCst);
        for (done, result) in asked.into_iter().zip(results) {
            if let Err(error) = &result {
                tracing::warn!(%error, "index");
            }
            // The task that asked may have left. The change stays written.
            let _gone = done.send(result);
        }
        if closes {
            return;
        }
        if !is_long && waiting.load(SeqCst) == 0 {
            is_long = true;
            lengthen_log(tables);
        }
    }
}

/// Lengthens the log once, while no change waits. Under the lock, so that no other thread writes to it.
fn lengthen_log(tables: &Tables) {
    if let Some(database) = lock(&tables.database).as_ref()
        && let Err(error) = database.lengthen_log()
    {
        tracing::debug!(%error, "commits wait for the file system's journal, too");
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
