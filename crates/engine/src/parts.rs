//! The parts of an engine that its tasks share.

use crate::barrier::Barriers;
use crate::cgroup;
use crate::clients::Clients;
use crate::closing::Shutdown;
use crate::config::Config;
use crate::disk::Disk;
use crate::feed::Feeds;
use crate::final_record::UnsavedStops;
use crate::gateways::Gateways;
use crate::handle::TableHandle;
use crate::index::Index;
use crate::instances::Instances;
use crate::intake::Intake;
use crate::launch::Launcher;
use crate::left_behind::Leftovers;
use crate::links::Links;
use crate::notices::{Outbox, Waiters};
use crate::own_home::OwnHome;
use crate::reach::Reach;
use crate::run_dir::Sockets;
use crate::shell::Snapshots;
use crate::spare_folders::SpareFolders;
use crate::views::Views;
use outlast_core::Time;
use outlast_store::dir::Home;
use outlast_text::Redactor;
use outlast_wire::v1::Namespaces;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Handles that all tasks of an engine share.
pub(crate) struct Parts {
    pub(crate) config: Config,
    pub(crate) at_start: AtStart,
    pub(crate) home: Home,
    /// Checks whether the home is still the directory that the engine locked.
    pub(crate) own_home: Arc<OwnHome>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) closing: Shutdown,
    pub(crate) clients: Arc<Clients>,
    pub(crate) views: Views,
    pub(crate) gateways: Gateways,
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) place: Option<cgroup::CgroupDir>,
    pub(crate) redactor: Arc<Redactor>,
    /// Finds what processes that are over have left running.
    pub(crate) leftovers: Leftovers,
    pub(crate) snapshots: Snapshots,
    /// One login shell at a time: they are slow, and threads are few.
    pub(crate) login: Semaphore,
    /// Folders made ahead of need.
    pub(crate) spare_folders: Arc<SpareFolders>,
    pub(crate) launcher: Launcher,
    /// The links to environments.
    pub(crate) links: Links,
    pub(crate) index: Index,
    pub(crate) outbox: Outbox,
    /// The conversations that share a session.
    pub(crate) instances: Arc<Instances>,
    /// Clients that wait for notices.
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) barriers: Arc<Barriers>,
    pub(crate) table: TableHandle,
    pub(crate) intake: Arc<Intake>,
    pub(crate) reach: Reach,
    /// Reports new output of processes to their followers.
    pub(crate) feeds: Feeds,
    /// Stops that were carried out although the disk refused their record.
    pub(crate) unsaved_stops: UnsavedStops,
}

/// What an engine found when it started.
pub(crate) struct AtStart {
    pub(crate) at: Time,
    /// The boot id of the machine.
    pub(crate) boot: u128,
    /// The namespaces of the engine and of every command.
    pub(crate) namespaces: Namespaces,
    /// How many running processes it took over.
    pub(crate) recovered: u64,
    /// A system call that every start needs and that is refused here, and how.
    pub(crate) refused_call: Option<String>,
    /// Whether the engine stays in the login session on purpose, because processes are likelier to survive there.
    pub(crate) stays_in_session: bool,
    /// What a logout ends, in a sentence.
    pub(crate) logout: Option<String>,
    /// What limits this engine, each in a sentence.
    pub(crate) degraded: Vec<String>,
}

impl Parts {
    pub(crate) fn now(&self) -> Time {
        self.config.clock.now()
    }
}
