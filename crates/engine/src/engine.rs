//! An engine: how it starts, and the handle on it.

use crate::barrier::{self, Barriers};
use crate::clients::{ClientKind, Clients};
use crate::closing::{Closing, Shutdown};
use crate::config::Config;
use crate::disk::{Disk, blocking};
use crate::feed::Feeds;
use crate::final_record::UnsavedStops;
use crate::gateways::Gateways;
use crate::handle::TableHandle;
use crate::instances::Instances;
use crate::intake::{Intake, UnsavedProcesses};
use crate::launch::Launcher;
use crate::left_behind::Leftovers;
use crate::limits::Inherited;
use crate::links::Links;
use crate::notices::{NoticeWriter, Outbox, Waiters, keep_time};
use crate::orphan::OwnPlaces;
use crate::own_home::{self, OwnHome};
use crate::owner::TableOwner;
use crate::parts::{AtStart, Parts};
use crate::program::KeeperStarter;
use crate::reach::Reach;
use crate::recover::{self, Recovered};
use crate::run_dir::{NoRunDir, Sockets};
use crate::serve::connection;
use crate::shell::Snapshots;
use crate::spare_folders::SpareFolders;
use crate::views::Views;
use crate::{cgroup, run_dir};
use outlast_core::{Owner, ProcessId};
use outlast_store::dir::{Home, HomeError};
use outlast_text::Redactor;
use outlast_wire::v1::LockHolder;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::Semaphore;

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another engine serves the home. Nothing was changed.
    #[error("another engine serves {home}")]
    Taken {
        /// The home.
        home: PathBuf,
    },
    /// The directory cannot be a home.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// There is no place for sockets.
    #[error(transparent)]
    RunDir(#[from] NoRunDir),
    /// The home was removed or replaced while the engine served it.
    #[error(
        "the state directory {home} was removed or replaced: nothing more is accepted for it, and its processes keep running without an engine"
    )]
    HomeGone {
        /// The home.
        home: PathBuf,
    },
    /// The index cannot be used.
    #[error("{0}")]
    Index(String),
    /// The system refused.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What the engine tried to do.
        doing: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl ServeError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

/// A handle on an engine. Copies are cheap.
#[derive(Clone)]
pub struct Engine {
    pub(crate) parts: Arc<Parts>,
    /// Whether a task accepts connections at the socket. Two such tasks would replace each other's socket.
    pub(crate) listening: Arc<Mutex<bool>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.parts.home.root.display())
    }
}

impl Engine {
    /// Locks the home, finds out the state of its processes, and begins to supervise them. Returns once every answer about them would be
    /// true. If another engine has the home, the error is [`ServeError::Taken`], and nothing was changed.
    ///
    /// Must be called inside a tokio runtime. The engine runs there.
    pub async fn start(mut config: Config) -> Result<Self, ServeError> {
        let home = Home::new(&config.home);
        home.create()?;
        let root = std::fs::canonicalize(&home.root).map_err(ServeError::io(format!("find {}", home.root.display())))?;
        config.home.clone_from(&root);
        let home = Home::new(root);
        let lock = lock_home(&home)?;
        let own_home = Arc::new(OwnHome::new(&home, lock).map_err(ServeError::io("look at the lock"))?);
        let sockets = Arc::new(Sockets::new(&home, &config.run_candidates)?);
        let keeper = KeeperStarter::new(&home, &config).map_err(ServeError::io("get the keeper's program ready"))?;
        let mut degraded = Vec::new();
        let left = match (config.detach, config.cgroup) {
            (true, true) => cgroup::leave(&run_dir::tag(&home.root), &config.user.name).await,
            (true, false) => cgroup::CgroupAtStart { degraded: Some(cgroup::SWITCHED_OFF.into()), ..cgroup::CgroupAtStart::default() },
            (false, _) => cgroup::CgroupAtStart::default(),
        };
        let cgroup::CgroupAtStart { place, degraded: left, stays_in_session, logout } = left;
        degraded.extend(left.into_iter().chain(logout.clone()));
        let refused_call =
            outlast_store::calls::refused().map(|(call, error)| format!("the system call {} is refused here ({error})", call.name));
        degraded.extend(refused_call.iter().map(|what| format!("{what}: nothing can be started")));
        let (found, clock) = (home.clone(), config.clock.clone());
        let Recovered { opened, processes, missed, degraded: damage } =
            blocking(move || recover::recover(&found, &clock)).await.map_err(ServeError::io("recover"))?.map_err(ServeError::Index)?;
        degraded.extend(damage);
        degraded.extend(config.inherited.iter().flat_map(Inherited::dangers));
        own_home.index_opened().map_err(ServeError::io("look at the index"))?;
        if own_home.is_lost() {
            return Err(ServeError::HomeGone { home: home.root });
        }
        opened.index.belongs_to(&own_home);
        let live: HashSet<ProcessId> = processes.iter().filter(|(f, _)| !f.phase.is_final()).map(|(f, _)| f.id()).collect();
        run_dir::sweep(&sockets.dir(), |id| live.contains(&id));
        if let Some(place) = place.clone() {
            // Listed now, while nothing is being started; removed in the background.
            let leaves: Vec<ProcessId> = place.leaves().into_iter().filter(|id| !live.contains(id)).collect();
            tokio::task::spawn_blocking(move || leaves.into_iter().for_each(|id| place.remove_leaf(id)));
        }
        // A new index in an old home: the content of the old index is lost.
        let rebuilt = opened.fresh && (opened.set_aside.is_some() || !processes.is_empty());
        let boot = outlast_store::os::boot_id().map_err(ServeError::io("read the boot id"))?;
        let waiters = Arc::<Waiters>::default();
        let writer = NoticeWriter {
            rules: config.watch.clone(),
            sinks: config.sinks.clone(),
            boot,
            waiters: Arc::clone(&waiters),
            clock: config.clock.clone(),
        };
        let redactor = Arc::new(Redactor::new(config.redact));
        let (table, asked) = TableHandle::new();
        let (clients, closing, disk) = (Arc::<Clients>::default(), Shutdown::default(), Arc::<Disk>::default());
        let outbox = Outbox::new(opened.index.clone(), writer);
        let intake = Arc::new(Intake {
            table: table.clone(),
            outbox: outbox.clone(),
            index: opened.index.clone(),
            disk: Arc::clone(&disk),
            home: home.clone(),
            clock: config.clock.clone(),
            redactor: Arc::clone(&redactor),
            waiters: Arc::clone(&waiters),
            clients: Arc::clone(&clients),
            closing: closing.clone(),
            unsaved: UnsavedProcesses::default(),
            unreadable: Mutex::default(),
        });
        let reach = Reach { sockets: Arc::clone(&sockets), intake: Arc::clone(&intake) };
        let at_start = AtStart {
            at: config.clock.now(),
            boot,
            namespaces: crate::os::namespaces(),
            recovered: processes.iter().filter(|(_, looked)| *looked).count() as u64,
            refused_call,
            stays_in_session,
            logout,
            degraded,
        };
        let parts = Arc::new(Parts {
            leftovers: Leftovers { redactor: Arc::clone(&redactor), own: OwnPlaces { bin: home.bin(), cgroups: place.clone() } },
            snapshots: Snapshots::new(),
            login: Semaphore::new(1),
            barriers: Arc::new(Barriers::new(table.clone(), outbox.clone(), config.clock.clone(), closing.clone())),
            views: Views::default(),
            gateways: Gateways::default(),
            feeds: Feeds::new(reach.clone()),
            unsaved_stops: UnsavedStops::default(),
            spare_folders: Arc::new(SpareFolders::new(&home)),
            links: Links::new(&home, config.link.clone(), config.keeper.path().to_owned(), &sockets),
            launcher: Launcher::new(&home, keeper),
            instances: Instances::load(opened.index.clone(), boot, closing.clone(), |id| crate::facts::has_keeper(&home.process(id))).await,
            index: opened.index,
            at_start,
            redactor,
            outbox,
            waiters,
            table,
            intake,
            reach,
            disk,
            clients,
            closing,
            sockets,
            place,
            own_home,
            home,
            config,
        });
        let engine = Self { parts: Arc::clone(&parts), listening: Arc::default() };
        // Clients are answered once everything that happened while no engine ran is written with its notices.
        if let Err(error) = parts.outbox.begin(rebuilt, parts.now()).await {
            tracing::error!(%error, "cannot release what the last engine had leased: it is delivered again when the leases run out");
        }
        parts.intake.catch_up(missed).await;
        parts.intake.acknowledge_all(&processes);
        let owner = TableOwner::new(Arc::clone(&parts), opened.writer);
        tokio::spawn(end_with_owner(Arc::clone(&parts), tokio::spawn(owner.run(asked, processes))));
        let (clock, closing) = (parts.config.clock.clone(), parts.closing.clone());
        tokio::spawn(keep_time(parts.outbox.clone(), clock, closing.clone()));
        tokio::spawn(own_home::watch(parts.home.clone(), Arc::clone(&parts.own_home), closing));
        barrier::resume(&parts.barriers).await;
        Ok(engine)
    }

    /// Serves one client on a connected stream, until either side ends it.
    pub async fn accept(&self, stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static) {
        connection(Arc::clone(&self.parts), tokio::io::split(stream), ClientKind::Outside, None).await;
    }

    /// A connection to this engine inside the same program, for a client.
    pub fn connect(&self) -> tokio::io::DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let engine = self.clone();
        tokio::spawn(async move { engine.accept(ours).await });
        theirs
    }

    /// A connection for a task that runs beside the engine, such as a sink. It does not keep an idle engine running.
    pub fn connect_within(&self) -> tokio::io::DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(connection(Arc::clone(&self.parts), tokio::io::split(ours), ClientKind::Within, None));
        theirs
    }

    /// Ends the engine: nothing new is started, processes with `on_stop: kill` are stopped, the others keep running. Returns once
    /// everything is written.
    pub async fn stop(&self) {
        self.parts.table.begin_stop(Owner::default()).await;
        self.stopped().await;
    }

    /// Returns once the engine has ended: on request, because it was idle, or because its home was removed or replaced.
    pub async fn stopped(&self) {
        self.parts.closing.reached(Closing::Closed).await;
    }

    /// Whether the engine has ended.
    pub fn has_stopped(&self) -> bool {
        self.parts.closing.stage() == Closing::Closed
    }

    /// The home that the engine serves.
    pub fn home(&self) -> &std::path::Path {
        &self.parts.home.root
    }

    /// The directory of the sockets.
    pub fn run_dir(&self) -> PathBuf {
        self.parts.sockets.dir()
    }
}

/// Ends the engine if the owner of the table panicked, because no request would be answered any more. Processes keep running. The next call
/// starts an engine that finds everything on disk, as after a kill.
async fn end_with_owner(parts: Arc<Parts>, owner: tokio::task::JoinHandle<()>) {
    if owner.await.is_ok() {
        return;
    }
    tracing::error!("the owner of the table panicked: leaving");
    parts.closing.set(Closing::Stopping);
    parts.index.close().await;
    parts.links.leave().await;
    parts.launcher.fork_server.leave().await;
    parts.own_home.release();
    parts.closing.set(Closing::Closed);
}

fn lock_home(home: &Home) -> Result<File, ServeError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let path = home.lock();
    let doing = || format!("lock {}", path.display());
    let mut file =
        File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(ServeError::io(doing()))?;
    if !outlast_store::lock::try_hold(&file).map_err(ServeError::io(doing()))? {
        return Err(ServeError::Taken { home: home.root.clone() });
    }
    // Only for people who look. The lock decides who serves the home.
    let _told = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    // For callers in other containers, where that pid means nothing. Without this file they time out before they get an error.
    let holder = LockHolder::new(std::process::id(), crate::os::namespaces());
    let _told = serde_json::to_vec(&holder).map_err(io::Error::from).and_then(|text| std::fs::write(home.lock_holder(), text));
    Ok(file)
}

#[cfg(test)]
pub(crate) mod tests;
