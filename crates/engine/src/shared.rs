//! What all tasks of an engine share, and none changes.

use crate::barrier::Barriers;
use crate::cgroup;
use crate::clients::Clients;
use crate::closing::Shutdown;
use crate::config::Config;
use crate::disk::Disk;
use crate::index::Index;
use crate::launch::Launcher;
use crate::left_behind::Leftovers;
use crate::notices::{Outbox, Waiters};
use crate::own_home::OwnHome;
use crate::run_dir::Sockets;
use crate::shell::Snapshots;
use crate::spare_folders::SpareFolders;
use crate::views::Views;
use outlast_core::{ProcessId, Stop, Time};
use outlast_store::dir::Home;
use outlast_text::Redactor;
use outlast_wire::v1::Namespaces;
use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, Semaphore};

/// What everybody may read and nobody changes.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) home: Home,
    /// Checks whether that is still the directory that was locked.
    pub(crate) own_home: Arc<OwnHome>,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) redactor: Arc<Redactor>,
    /// Finds what processes that are over have left running.
    pub(crate) leftovers: Leftovers,
    pub(crate) snapshots: Snapshots,
    /// One login shell at a time: they are slow, and threads are few.
    pub(crate) login: Semaphore,
    pub(crate) index: Index,
    pub(crate) outbox: Outbox,
    pub(crate) barriers: Barriers,
    /// Told when a barrier is taken away.
    pub(crate) barrier_gone: Notify,
    pub(crate) views: Views,
    /// The gateways that serve this home: one at most, and another while the first is noticed to be gone.
    pub(crate) gateways: crate::serve::Gateways,
    /// Reports new output of processes to their followers.
    pub(crate) feeds: crate::feed::Feeds,
    pub(crate) place: Option<cgroup::Place>,
    /// Whether the engine stays in the login session on purpose, because processes are likelier to survive there.
    pub(crate) stays_in_session: bool,
    /// What a logout ends, in a sentence.
    pub(crate) logout: Option<String>,
    pub(crate) degraded: Vec<String>,
    /// The boot id of the machine.
    pub(crate) boot: u128,
    /// A system call that every start needs and that is refused here, and how.
    pub(crate) refused_call: Option<String>,
    pub(crate) started_at: Time,
    pub(crate) recovered: u64,
    pub(crate) disk: Disk,
    pub(crate) waiters: Arc<Waiters>,
    /// Of whom the disk refused news.
    pub(crate) unwritten: Unwritten,
    /// Processes whose files this engine could not read when it started.
    pub(crate) untold: Mutex<Vec<ProcessId>>,
    /// Stops that were carried out although the disk refused their record.
    pub(crate) unsaved_stops: UnsavedStops,
    pub(crate) clients: Arc<Clients>,
    pub(crate) launcher: Launcher,
    /// Folders made ahead of need.
    pub(crate) spare_folders: Arc<SpareFolders>,
    /// The namespaces of the engine and of every command.
    pub(crate) namespaces: Namespaces,
    pub(crate) closing: Shutdown,
    /// Whether somebody attends to the socket: two would take it from each other.
    pub(crate) listening: Mutex<bool>,
    /// The home's lock, let go when everything is written.
    pub(crate) lock: Mutex<Option<File>>,
}

/// Stops of orphans whose record the disk refused, by process, while the engine runs.
#[derive(Debug, Default)]
pub(crate) struct UnsavedStops(Mutex<HashMap<ProcessId, (Time, Stop)>>);

impl UnsavedStops {
    /// The latest stop of a process.
    pub(crate) fn of(&self, id: ProcessId) -> Option<(Time, Stop)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    pub(crate) fn keep(&self, id: ProcessId, at: Time, stop: Stop) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, (at, stop));
    }
}

impl Shared {
    pub(crate) fn now(&self) -> Time {
        self.config.clock.now()
    }

    /// Everything is written: the home is free for the next engine.
    pub(crate) fn let_go_of_home(&self) {
        if let Some(lock) = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A program that is being started right now may hold a copy until it has begun; that must not keep the home.
            let _free = rustix::fs::flock(&lock, rustix::fs::FlockOperation::Unlock);
        }
    }
}

/// The processes whose news the disk refused. Somebody tries again to write it; until then nothing else is written of them, or an index that knows more than
/// was told would be believed by the next engine.
#[derive(Debug, Default)]
pub(crate) struct Unwritten(Mutex<HashMap<ProcessId, bool>>);

impl Unwritten {
    /// Takes on what is to be written of a process. `false` if somebody has; they hear that there is more.
    pub(crate) fn begin(&self, id: ProcessId) -> bool {
        !self.more(id) && self.lock().insert(id, false).is_none()
    }

    /// Tells whoever tries to write news of a process that there is more. Whether anybody does.
    pub(crate) fn more(&self, id: ProcessId) -> bool {
        self.lock().get_mut(&id).map(|more| *more = true).is_some()
    }

    /// Whether there is news of it that is not written.
    pub(crate) fn has(&self, id: ProcessId) -> bool {
        self.lock().contains_key(&id)
    }

    /// Said before the folder is read again: what comes later is more.
    pub(crate) fn reads(&self, id: ProcessId) {
        self.lock().entry(id).and_modify(|more| *more = false);
    }

    /// Everything is written that was read. `false` if there is more by now.
    pub(crate) fn done(&self, id: ProcessId) -> bool {
        let mut all = self.lock();
        let done = all.get(&id).is_none_or(|more| !more);
        if done {
            all.remove(&id);
        }
        done
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ProcessId, bool>> {
        // Entries are changed whole, so a panic elsewhere spoils nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
