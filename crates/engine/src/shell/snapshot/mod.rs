//! Login snapshots: what login files add to an environment, found out once and kept.
//!
//! One login-interactive bash runs in a fixed, minimal environment. Its exports, functions and aliases afterwards are the snapshot. It is
//! kept on disk by user, home and shell, with a stamp of every file that can change it, and is taken again when a stamp differs. A failed
//! attempt is kept the same way, so that a login file that hangs costs its time limit once, and not for each command.
//!
//! Only bash has snapshots. Other shells print their state in other ways, and a wrong guess would run text as code. Their commands get the
//! caller's environment as it is.

mod dump;
mod run;
mod store;
mod trace;

use crate::mutex::lock;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use thiserror::Error;

use super::{Shell, ShellKind, Variable};
use store::{LoginOutcome, SnapshotEntry};

/// The default time limit of login files.
pub(crate) const DEFAULT_LIMIT: Duration = Duration::from_secs(10);

/// How long a failed attempt counts, even if no file changes: some login files hang only while a network is down.
const FAILURE_KEPT: Duration = Duration::from_secs(3600);

/// Identifies a snapshot: whose login files, for which shell, and where it is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SnapshotRequest<'a> {
    pub(crate) shell: &'a Shell,
    pub(crate) home: &'a Path,
    pub(crate) user: &'a str,
    /// A directory for snapshots, made if it is absent, of mode 0700.
    pub(crate) dir: &'a Path,
    /// How long login files may take.
    pub(crate) limit: Duration,
}

/// What login files add. Clones are cheap.
#[derive(Clone)]
pub(crate) struct Snapshot(Arc<Taken>);

pub(super) struct Taken {
    pub(super) exports: Vec<Variable>,
    pub(super) path: Option<Vec<u8>>,
    pub(super) functions: usize,
    pub(super) aliases: usize,
    /// The file that defines them.
    pub(super) file: PathBuf,
}

impl Snapshot {
    /// The variables that login files set or changed, except PATH and blocked names.
    pub(crate) fn exports(&self) -> &[Variable] {
        &self.0.exports
    }

    /// PATH as login files left it.
    pub(crate) fn path(&self) -> Option<&[u8]> {
        self.0.path.as_deref()
    }

    /// A file that defines the functions and aliases for bash, if there are any.
    pub(crate) fn file(&self) -> Option<&Path> {
        (self.0.functions + self.0.aliases > 0).then_some(self.0.file.as_path())
    }

    #[cfg(test)]
    pub(super) fn of(exports: Vec<Variable>, path: &str, file: Option<&Path>) -> Snapshot {
        Snapshot(Arc::new(Taken {
            exports,
            path: Some(path.into()),
            functions: usize::from(file.is_some()),
            aliases: 0,
            file: file.unwrap_or(Path::new("")).into(),
        }))
    }
}

impl fmt::Debug for Snapshot {
    // Values stay out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("exports", &self.0.exports.len())
            .field("functions", &self.0.functions)
            .field("aliases", &self.0.aliases)
            .field("file", &self.0.file)
            .finish()
    }
}

/// Why there is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TakeFailure {
    /// Login files did not finish in time. Everything that they had started was killed.
    #[error("login files took longer than {limit:?}; find the line that waits with `bash -lixc true`")]
    TimedOut { limit: Duration },
    /// The shell ended inside its login files, by `exit` or by becoming another program.
    #[error(
        "a login file ended the shell ({status}); guard that line with \
         `[ -z \"$OUTLAST_LOGIN_SNAPSHOT\" ]`"
    )]
    Ended { status: String },
    /// The shell's answer is not a valid snapshot.
    #[error("the login shell's answer cannot be read: {detail}")]
    Unreadable {
        /// What is wrong with it.
        detail: String,
    },
    /// The shell could not be run.
    #[error("cannot run the login shell {shell}: {detail}")]
    NotRun {
        shell: PathBuf,
        /// The error of the system.
        detail: String,
    },
    /// The snapshot could not be written.
    #[error("cannot keep the login snapshot at {path}: {detail}")]
    NotKept {
        path: PathBuf,
        /// The error of the system.
        detail: String,
    },
}

/// The state of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SnapshotState {
    /// There is none, or a file has changed since. The next command takes one.
    NotTaken,
    /// There is a current one.
    Ready {
        taken_at: SystemTime,
        /// How many variables it sets.
        exports: usize,
        /// How many functions it defines.
        functions: usize,
        /// How many aliases it defines.
        aliases: usize,
        /// The files whose change makes it stale, including those that do not exist.
        files: Vec<PathBuf>,
    },
    /// The attempt failed. It is not repeated before a file changes or an hour has passed.
    Failed {
        tried_at: SystemTime,
        failure: TakeFailure,
        /// The files whose change leads to another attempt.
        files: Vec<PathBuf>,
    },
    /// This shell has no snapshots.
    Unsupported,
}

/// All snapshots of one engine. Concurrent callers wait for one attempt.
#[derive(Default)]
pub(crate) struct Snapshots {
    entries: Mutex<HashMap<String, Arc<SnapshotEntry>>>,
}

impl Snapshots {
    /// Starts empty. Snapshots on disk are loaded when they are needed.
    pub(crate) fn new() -> Snapshots {
        Snapshots::default()
    }

    /// The snapshot for a request: the kept one if no file has changed, else a new one.
    ///
    /// Blocks for as long as login files take, at most `limit` and the time to kill them. None if there cannot be one; [`Snapshots::state`]
    /// says why.
    pub(crate) fn get(&self, request: &SnapshotRequest<'_>) -> Option<Snapshot> {
        if request.shell.kind != ShellKind::Bash {
            return None;
        }
        let mut entries = lock(&self.entries);
        let key = store::key(request);
        let kept = entries.get(&key).cloned().or_else(|| store::load(request).map(Arc::new));
        let entry = match kept.filter(|entry| holds(entry, request, SystemTime::now())) {
            Some(entry) => entry,
            None => Arc::new(take(request)),
        };
        entries.insert(key, Arc::clone(&entry));
        match &entry.outcome {
            LoginOutcome::Ready(taken) => Some(Snapshot(Arc::clone(taken))),
            LoginOutcome::Failed(_) => None,
        }
    }

    /// The same without taking a new one. The outer option is none if a new one is needed, or another task is taking one right now.
    pub(crate) fn kept(&self, request: &SnapshotRequest<'_>) -> Option<Option<Snapshot>> {
        if request.shell.kind != ShellKind::Bash {
            return Some(None);
        }
        let entries = match self.entries.try_lock() {
            Ok(entries) => entries,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let entry = entries.get(&store::key(request)).filter(|entry| holds(entry, request, SystemTime::now()))?;
        Some(match &entry.outcome {
            LoginOutcome::Ready(taken) => Some(Snapshot(Arc::clone(taken))),
            LoginOutcome::Failed(_) => None,
        })
    }

    /// The state of a snapshot, without taking one.
    pub(crate) fn state(&self, request: &SnapshotRequest<'_>) -> SnapshotState {
        if request.shell.kind != ShellKind::Bash {
            return SnapshotState::Unsupported;
        }
        let entries = lock(&self.entries);
        let kept = entries
            .get(&store::key(request))
            .cloned()
            .or_else(|| store::load(request).map(Arc::new))
            .filter(|entry| holds(entry, request, SystemTime::now()));
        let Some(entry) = kept else {
            return SnapshotState::NotTaken;
        };
        let at = UNIX_EPOCH + Duration::from_secs(entry.tried_at);
        let files = entry.files.keys().cloned().collect();
        match &entry.outcome {
            LoginOutcome::Ready(taken) => SnapshotState::Ready {
                taken_at: at,
                exports: taken.exports.len(),
                functions: taken.functions,
                aliases: taken.aliases,
                files,
            },
            LoginOutcome::Failed(failure) => SnapshotState::Failed { tried_at: at, failure: failure.clone(), files },
        }
    }
}

/// Whether an entry is current: no file has changed since, and a failure is not too old.
fn holds(entry: &SnapshotEntry, request: &SnapshotRequest<'_>, now: SystemTime) -> bool {
    let unchanged = entry.files.iter().all(|(path, stamp)| store::stamp(path) == *stamp);
    unchanged
        && match &entry.outcome {
            LoginOutcome::Ready(taken) => store::stamp(&taken.file) == entry.file_stamp,
            LoginOutcome::Failed(failure) => {
                let tried_at = UNIX_EPOCH + Duration::from_secs(entry.tried_at);
                // If the clock was set back, the attempt counts as old, which costs one more.
                let recent = now.duration_since(tried_at).is_ok_and(|age| age < FAILURE_KEPT);
                let more_time = matches!(failure, TakeFailure::TimedOut { limit }
                    if request.limit > *limit);
                recent && !more_time
            }
        }
}

fn take(request: &SnapshotRequest<'_>) -> SnapshotEntry {
    let tried_at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    // The usual files are stamped before the run. If one changes while it is read, the next command finds another stamp and takes the
    // snapshot again. Files that the run itself finds can only be stamped after it.
    let mut files = store::usual_files(request.home);
    let ran = run::login(request);
    for path in ran.files {
        files.entry(path).or_insert_with_key(|path| store::stamp(path));
    }
    let kept = ran.answer.and_then(|answer| store::keep(request, answer, &files, tried_at));
    kept.unwrap_or_else(|failure| {
        tracing::warn!(user = request.user, %failure, "no login snapshot");
        store::keep_failure(request, failure, &files, tried_at)
    })
}
