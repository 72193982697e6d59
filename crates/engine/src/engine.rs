//! The handle on an engine. One task owns all state; others hold this and ask, and are answered when it is so.

use crate::barrier::{self, Barriers};
use crate::clients::{ClientKind, Clients};
use crate::closing::{Closing, Shutdown};
use crate::config::Config;
use crate::disk::{AGAIN, Disk, blocking};
use crate::handle::TableHandle;
use crate::intake::{Intake, UnsavedProcesses};
use crate::launch::Launcher;
use crate::left_behind::Leftovers;
use crate::limits::Inherited;
use crate::orphan::OwnPlaces;
use crate::outbox::{Judge, Outbox};
use crate::own_home::{self, OwnHome};
use crate::owner::TableOwner;
use crate::program::KeeperStarter;
use crate::recover::{self, Recovered};
use crate::run_dir::{NoRunDir, Sockets};
use crate::settle::UnsavedStops;
use crate::shared::Shared;
use crate::shell::Snapshots;
use crate::spare_folders::SpareFolders;
use crate::table::ProcessView;
use crate::waits::Waits;
use crate::{cgroup, refuse, run_dir};
use outlast_core::{Owner, ProcessId};
use outlast_store::dir::{Home, HomeError};
use outlast_text::Redactor;
use outlast_wire::v1::{Error, LockHolder};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::{Notify, Semaphore};

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another one serves the home. Nothing is wrong.
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
        /// What was tried.
        doing: String,
        /// What the system said.
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
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.shared.home.root.display())
    }
}

impl Engine {
    /// Takes the home, finds out how its processes are, and begins to look after them. Returns once every answer about them would be true. That another engine has
    /// the home is [`ServeError::Taken`], and nothing was touched.
    ///
    /// Must be called inside a tokio runtime, and lives in it.
    pub async fn start(mut config: Config) -> Result<Self, ServeError> {
        let home = Home::new(&config.home);
        home.create()?;
        let root = std::fs::canonicalize(&home.root).map_err(ServeError::io(format!("find {}", home.root.display())))?;
        config.home.clone_from(&root);
        let home = Home::new(root);
        let lock = lock_home(&home)?;
        let own_home = Arc::new(OwnHome::new(&home, &lock).map_err(ServeError::io("look at the lock"))?);
        let sockets = Sockets::new(&home, &config.run_candidates)?;
        let keeper = KeeperStarter::new(&home, &config).map_err(ServeError::io("get the keeper's program ready"))?;
        let mut degraded = Vec::new();
        let left = match (config.detach, config.cgroup) {
            (true, true) => cgroup::leave(&run_dir::tag(&home.root), &config.user.name).await,
            (true, false) => cgroup::Left { degraded: Some(cgroup::SWITCHED_OFF.into()), ..cgroup::Left::default() },
            (false, _) => cgroup::Left::default(),
        };
        let cgroup::Left { place, degraded: left, stays_in_session, logout } = left;
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
            // Listed now, when nothing is being started; removed while we go on.
            let leaves: Vec<ProcessId> = place.leaves().into_iter().filter(|id| !live.contains(id)).collect();
            tokio::task::spawn_blocking(move || leaves.into_iter().for_each(|id| place.remove_leaf(id)));
        }
        // An index that is new in a home that is not: what was in it is gone.
        let rebuilt = opened.fresh && (opened.set_aside.is_some() || !processes.is_empty());
        let boot = outlast_store::os::boot_id().map_err(ServeError::io("read the boot id"))?;
        let waits = Arc::<Waits>::default();
        let judge = Judge { rules: config.watch.clone(), sinks: config.sinks.clone(), boot, waits: Arc::clone(&waits) };
        let redactor = Arc::new(Redactor::new(config.redact));
        let (table, asked) = TableHandle::new();
        let (clients, closing, disk) = (Arc::<Clients>::default(), Shutdown::default(), Arc::<Disk>::default());
        let outbox = Outbox::new(opened.index.clone(), judge);
        let intake = Arc::new(Intake {
            table: table.clone(),
            outbox: outbox.clone(),
            index: opened.index.clone(),
            disk: Arc::clone(&disk),
            home: home.clone(),
            clock: config.clock.clone(),
            redactor: Arc::clone(&redactor),
            waits: Arc::clone(&waits),
            clients: Arc::clone(&clients),
            closing: closing.clone(),
            unsaved: UnsavedProcesses::default(),
            unreadable: Mutex::default(),
        });
        let shared = Arc::new(Shared {
            leftovers: Leftovers { redactor: Arc::clone(&redactor), own: OwnPlaces { bin: home.bin(), cgroups: place.clone() } },
            redactor,
            snapshots: Snapshots::new(),
            login: Semaphore::new(1),
            outbox,
            index: opened.index,
            barriers: Barriers::default(),
            views: crate::views::Views::default(),
            gateways: crate::serve::Gateways::default(),
            feeds: crate::feed::Feeds::default(),
            barrier_gone: Notify::new(),
            boot,
            started_at: config.clock.now(),
            recovered: processes.iter().filter(|(_, looked)| *looked).count() as u64,
            disk,
            waits,
            table,
            intake,
            unsaved_stops: UnsavedStops::default(),
            clients,
            spare_folders: Arc::new(SpareFolders::new(&home)),
            launcher: Launcher::new(&home, keeper),
            config,
            home,
            own_home,
            sockets: Arc::new(sockets),
            place,
            logout,
            stays_in_session,
            degraded,
            refused_call,
            closing,
            namespaces: crate::os::namespaces(),
            listening: Mutex::new(false),
            lock: Mutex::new(Some(lock)),
        });
        let engine = Self { shared };
        // Whoever asks is answered when everything that happened meanwhile is on its way to its owner.
        if let Err(error) = engine.shared.outbox.begin(rebuilt, engine.shared.now()).await {
            tracing::error!(%error, "what was being told is told again when its time is over");
        }
        engine.shared.intake.catch_up(missed).await;
        engine.shared.intake.acknowledge_all(&processes);
        let owner = TableOwner::new(engine.clone(), opened.writer);
        tokio::spawn(end_with_owner(Arc::clone(&engine.shared), tokio::spawn(owner.run(asked, processes))));
        tokio::spawn(crate::outbox::keep_time(engine.clone()));
        let Shared { home, own_home, closing, .. } = &*engine.shared;
        tokio::spawn(own_home::watch(home.clone(), Arc::clone(own_home), closing.clone()));
        barrier::resume(&engine).await;
        Ok(engine)
    }

    /// Serves one client on a connected stream, until either side ends it.
    pub async fn accept(&self, stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static) {
        crate::serve::connection(self.clone(), tokio::io::split(stream), ClientKind::Outside).await;
    }

    /// A connection to this engine inside the same program: what a client is made over.
    pub fn connect(&self) -> tokio::io::DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let engine = self.clone();
        tokio::spawn(async move { engine.accept(ours).await });
        theirs
    }

    /// The same for what goes along with the engine, and does not keep one that has nothing else to do.
    pub fn connect_within(&self) -> tokio::io::DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(crate::serve::connection(self.clone(), tokio::io::split(ours), ClientKind::Within));
        theirs
    }

    /// Ends the engine: nothing new is begun, processes with `on_stop: kill` are stopped, the others go on. Returns once everything is written.
    pub async fn stop(&self) {
        self.shared.table.begin_stop(Owner::default()).await;
        self.stopped().await;
    }

    /// Returns once the engine has ended: on request, because it was idle, or because its home was removed or replaced.
    pub async fn stopped(&self) {
        self.shared.closing.reached(Closing::Closed).await;
    }

    /// Whether it has ended.
    pub fn has_stopped(&self) -> bool {
        self.shared.closing.stage() == Closing::Closed
    }

    /// The home that is served.
    pub fn home(&self) -> &std::path::Path {
        &self.shared.home.root
    }

    /// Where the sockets are.
    pub fn run_dir(&self) -> PathBuf {
        self.shared.sockets.dir()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Forgets a process that is over, and removes its row and folder. Goes on if the caller leaves: what was begun is finished or undone.
    pub(crate) async fn forget(&self, view: &ProcessView) -> Result<(), Error> {
        let (engine, facts) = (self.clone(), Arc::clone(&view.facts));
        let task = tokio::spawn(async move {
            let id = facts.id();
            engine.make_room_for_end(id).await?;
            if !engine.shared.table.take(id).await? {
                return Err(refuse::not_found(&id.to_string(), &[]));
            }
            let removed = engine.remove(id).await;
            if removed.is_err() {
                engine.shared.table.put_back(facts).await;
            }
            removed
        });
        task.await.unwrap_or_else(|panic| Err(refuse::fault(panic)))
    }

    /// Before a process is removed, its end must be recorded: without its folder the next engine would take it for lost. If the disk refuses the record,
    /// the log is removed first, which the client asked for anyway and which may be what fills the disk.
    async fn make_room_for_end(&self, id: ProcessId) -> Result<(), Error> {
        if !self.shared.intake.unsaved.has(id) {
            return Ok(());
        }
        let dir = self.shared.home.process(id);
        let removed = blocking(move || {
            for first in dir.segments()? {
                std::fs::remove_file(dir.segment(first))?;
            }
            io::Result::Ok(())
        });
        removed.await.and_then(|removed| removed).map_err(|e| refuse::disk(format!("cannot remove the output of {id}"), &e))?;
        for _ in 0..RECORD_TRIES {
            // The engine tries to write what the disk refused once a second; nothing reports that it succeeded.
            tokio::time::sleep(AGAIN / 4).await;
            if !self.shared.intake.unsaved.has(id) {
                return Ok(());
            }
        }
        Err(refuse::unavailable(
            format!("the output of {id} was removed, but the disk still refuses the record of its end"),
            "make room on the disk; the end is recorded a second later, and the process can be removed then",
        ))
    }

    /// Removes folder and row, in this order. The folder is renamed first, at once and for good: should we die then, the next start finds the row of an ended
    /// process without a folder and drops it. The other way round it would find a folder without a row, and take the process for a forgotten one. So what fails after the rename
    /// is no error: the process is gone, and the next start removes the rest. An error means that the folder is there as it was.
    pub(crate) async fn remove(&self, id: ProcessId) -> Result<(), Error> {
        let (dir, place, socket) = (self.shared.home.process(id), self.shared.place.clone(), self.shared.sockets.of(id));
        blocking(move || {
            // Its keepers removed it themselves, unless they were killed.
            let _gone = std::fs::remove_file(socket);
            if let Some(place) = place {
                place.remove_leaf(id);
            }
            match dir.remove() {
                Err(error) if dir.is_removed() => {
                    tracing::warn!(%id, %error, "removed, but some of its files are left");
                    Ok(())
                }
                removed => removed,
            }
        })
        .await
        .and_then(|removed| removed)
        .map_err(|e| refuse::disk(format!("cannot remove {id}"), &e))?;
        if let Err(error) = self.shared.index.forget(id).await {
            tracing::warn!(%id, %error, "removed, but its row is left");
        }
        Ok(())
    }
}

/// Ends the engine if the owner of the table panicked: nothing would be answered any more. Its processes go on, and the next call starts an engine that finds
/// everything on disk, as after a kill.
async fn end_with_owner(shared: Arc<Shared>, owner: tokio::task::JoinHandle<()>) {
    if owner.await.is_ok() {
        return;
    }
    tracing::error!("the owner of the table panicked: leaving");
    shared.closing.set(Closing::Stopping);
    shared.index.close().await;
    shared.launcher.fork_server.leave().await;
    shared.let_go_of_home();
    shared.closing.set(Closing::Closed);
}

/// How often a removal looks whether the end of its process was recorded: for about three seconds.
const RECORD_TRIES: u32 = 12;

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
    // Only for people who look; the lock is what counts.
    let _told = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    // For callers in other containers, where that pid means nothing. Without this file they time out before they get an error.
    let holder = LockHolder::new(std::process::id(), crate::os::namespaces());
    let _told = serde_json::to_vec(&holder).map_err(io::Error::from).and_then(|text| std::fs::write(home.lock_holder(), text));
    Ok(file)
}

#[cfg(test)]
pub(crate) mod tests;
