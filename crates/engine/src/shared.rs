//! What all tasks of an engine share, and none changes.

use crate::barrier::Barriers;
use crate::cgroup;
use crate::clients::Clients;
use crate::closing::Shutdown;
use crate::config::Config;
use crate::disk::Disk;
use crate::handle::TableHandle;
use crate::index::Index;
use crate::intake::Intake;
use crate::launch::Launcher;
use crate::left_behind::Leftovers;
use crate::outbox::Outbox;
use crate::own_home::OwnHome;
use crate::run_dir::Sockets;
use crate::settle::UnsavedStops;
use crate::shell::Snapshots;
use crate::spare_folders::SpareFolders;
use crate::views::Views;
use crate::waits::Waits;
use outlast_core::Time;
use outlast_store::dir::Home;
use outlast_text::Redactor;
use outlast_wire::v1::Namespaces;
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
    pub(crate) disk: Arc<Disk>,
    /// Who waits for what.
    pub(crate) waits: Arc<Waits>,
    pub(crate) table: TableHandle,
    pub(crate) intake: Arc<Intake>,
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
