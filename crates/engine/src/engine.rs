//! The handle on an engine. One task owns all state; others hold this and ask, and are answered when it is so.

use crate::barrier::{self, Barriers};
use crate::clients::{Client, ClientKind};
use crate::closing::{Closing, Shutdown};
use crate::config::Config;
use crate::disk::{AGAIN, Disk, blocking};
use crate::facts::{Facts, Seen};
use crate::handle::TableHandle;
use crate::launch::Launcher;
use crate::left_behind::Leftovers;
use crate::limits::Inherited;
use crate::notices::{self, News, NoticeWriter, Outbox, Waiters};
use crate::orphan::OwnPlaces;
use crate::own_home::{self, OwnHome};
use crate::owner::TableOwner;
use crate::points::point;
use crate::program::KeeperStarter;
use crate::recover::{self, Recovered, Unread};
use crate::run_dir::{NoRunDir, Sockets};
use crate::shared::{self, Shared};
use crate::shell::Snapshots;
use crate::spare_folders::SpareFolders;
use crate::table::ProcessView;
use crate::{cgroup, refuse, run_dir};
use outlast_core::{Owner, ProcessId};
use outlast_store::dir::{Home, HomeError};
use outlast_store::meta::Snapshot;
use outlast_text::Redactor;
use outlast_wire::v1::{Error, LockHolder};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
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
    pub(crate) table: TableHandle,
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
        let Recovered { opened, processes, unread, degraded: damage } =
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
        let waiters = Arc::<Waiters>::default();
        let writer = NoticeWriter {
            rules: config.watch.clone(),
            sinks: config.sinks.clone(),
            boot,
            waiters: Arc::clone(&waiters),
            clock: config.clock.clone(),
        };
        let redactor = Arc::new(Redactor::new(config.redact));
        let shared = Arc::new(Shared {
            leftovers: Leftovers { redactor: Arc::clone(&redactor), own: OwnPlaces { bin: home.bin(), cgroups: place.clone() } },
            redactor,
            snapshots: Snapshots::new(),
            login: Semaphore::new(1),
            outbox: Outbox::new(opened.index.clone(), writer),
            index: opened.index,
            barriers: Barriers::default(),
            views: crate::views::Views::default(),
            gateways: crate::serve::Gateways::default(),
            feeds: crate::feed::Feeds::default(),
            barrier_gone: Notify::new(),
            boot,
            started_at: config.clock.now(),
            recovered: processes.iter().filter(|(_, looked)| *looked).count() as u64,
            disk: Disk::default(),
            waiters,
            unwritten: shared::Unwritten::default(),
            untold: Mutex::default(),
            unsaved_stops: shared::UnsavedStops::default(),
            clients: Arc::default(),
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
            closing: Shutdown::default(),
            namespaces: crate::os::namespaces(),
            listening: Mutex::new(false),
            lock: Mutex::new(Some(lock)),
        });
        let (table, asked) = TableHandle::new();
        let engine = Self { shared, table };
        // Whoever asks is answered when everything that happened meanwhile is on its way to its owner.
        if let Err(error) = engine.shared.outbox.begin(rebuilt, engine.shared.now()).await {
            tracing::error!(%error, "what was being told is told again when its time is over");
        }
        engine.catch_up(unread).await;
        engine.note_all(&processes);
        let owner = TableOwner::new(engine.clone(), opened.writer);
        tokio::spawn(end_with_owner(Arc::clone(&engine.shared), tokio::spawn(owner.run(asked, processes))));
        let Shared { home, own_home, closing, outbox, config, .. } = &*engine.shared;
        tokio::spawn(notices::keep_time(outbox.clone(), config.clock.clone(), closing.clone()));
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
        self.table.begin_stop(Owner::default()).await;
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

    /// Tells what a look into the folder showed, and returns what is known then.
    ///
    /// What its owner is to be told is on disk before anybody hears of it, so that whoever is woken by the end finds the notice there.
    pub(crate) async fn saw(&self, id: ProcessId, seen: Seen) -> Option<Arc<Facts>> {
        let before = self.table.facts(id).await?;
        if !before.phase.is_final() {
            self.tell_owner(&before, &seen).await;
        }
        let noted = seen.meta.as_ref().map(|meta| meta.noted);
        let facts = self.table.apply_look(id, seen).await?;
        self.note(&facts, noted);
        Some(facts)
    }

    /// Says to the keepers of a process what was written down of it: until then they do not rest. `noted`: what they were told last.
    fn note(&self, facts: &Facts, noted: Option<u64>) {
        let is_so = outlast_store::meta::noted(facts.cursor, facts.is_over());
        if facts.kept.spec.tell.is_nothing() || noted.is_none_or(|last| last >= is_so) || self.shared.unwritten.has(facts.id()) {
            return;
        }
        if let Err(error) = Snapshot::note(&self.shared.home.process(facts.id()), is_so) {
            // They go by themselves in the end, and may start an engine once too often.
            tracing::debug!(id = %facts.id(), %error, "keepers are not told that they were heard");
        }
    }

    async fn tell_owner(&self, before: &Arc<Facts>, seen: &Seen) {
        if self.shared.unwritten.more(before.id()) {
            // Whoever tries to write what the disk refused reads the folder again.
            return;
        }
        let after = before.with(seen);
        let news = if after.kept.spec.tell.is_nothing() {
            news_of(&self.shared, before, &after, seen)
        } else {
            let (shared, before, seen) = (Arc::clone(&self.shared), Arc::clone(before), seen.clone());
            self.shared.disk.at(move || news_of(&shared, &before, &after, &seen)).await.ok().flatten()
        };
        match news {
            Some(news) if news.is_for_somebody() => self.write_news(vec![Unsaid { before: Arc::clone(before), news: Some(news) }]).await,
            // The folder says so already, so that nobody has to wait for this.
            Some(news) => self.shared.index.put_later(news.into_facts()).await,
            None => {}
        }
    }

    /// Writes what happened to processes while no engine ran, with the notices for it.
    async fn catch_up(&self, unread: Vec<Unread>) {
        if unread.is_empty() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let news = blocking(move || {
            let of = |u: Unread| {
                let news = news_of(&shared, &u.before, &u.after, &u.seen)?;
                let news = if u.maybe_told { news.maybe_told() } else { news };
                Some(Unsaid { before: Arc::new(u.before), news: Some(news) })
            };
            unread.into_iter().filter_map(of).collect::<Vec<_>>()
        });
        match news.await {
            Ok(news) if news.is_empty() => {}
            Ok(news) => self.write_news(news).await,
            Err(error) => tracing::error!(%error, "what happened meanwhile could not be read"),
        }
    }

    /// Says to the keepers of what is over that it was written down; whoever looks after the others says it to theirs.
    fn note_all(&self, processes: &[(Facts, bool)]) {
        let over = processes.iter().filter(|(facts, looked)| *looked && facts.is_over() && !facts.kept.spec.tell.is_nothing());
        for (facts, _) in over {
            // Without a folder there are no keepers.
            if let Ok(meta) = Snapshot::read(&self.shared.home.process(facts.id())) {
                self.note(facts, Some(meta.noted));
            }
        }
    }

    /// Writes news. Should the disk refuse, it is tried again for as long as it takes; the folders keep the facts meanwhile.
    async fn write_news(&self, mut unsaid: Vec<Unsaid>) {
        point!("news.before_commit");
        let written = self.shared.outbox.advance(all_of(&unsaid), self.shared.now()).await;
        point!("news.after_commit");
        let Err(error) = written else {
            // Whoever waits for it goes first.
            return tokio::task::yield_now().await;
        };
        tracing::error!(%error, "a notice cannot be written yet");
        unsaid.retain(|u| self.shared.unwritten.begin(u.before.id()));
        for one in &unsaid {
            self.note_shown_unsaved(one.before.id(), true);
        }
        let engine = self.clone();
        tokio::spawn(async move {
            let shared = &engine.shared;
            // An engine that owes somebody word has something to do.
            let _busy = Client::new(&shared.clients, ClientKind::Outside);
            while !unsaid.is_empty() && shared.closing.stage() == Closing::Open {
                // Nothing tells when a disk has room again.
                tokio::time::sleep(AGAIN).await;
                unsaid = engine.read_again(unsaid).await;
                if shared.outbox.advance(all_of(&unsaid), shared.now()).await.is_ok() {
                    unsaid.retain_mut(|u| {
                        u.written();
                        let is_done = shared.unwritten.done(u.before.id());
                        if is_done {
                            engine.note_shown_unsaved(u.before.id(), false);
                        }
                        !is_done
                    });
                }
            }
        });
    }

    /// Clients see news that the disk refuses, and may consume it. If this engine then dies, the next one must mark the notice as a repeat.
    fn note_shown_unsaved(&self, id: ProcessId, is_shown: bool) {
        if let Err(error) = Snapshot::note_shown_unsaved(&self.shared.home.process(id), is_shown) {
            // A full file system that copies on write refuses this, too; then the live copy says it for as long as a keeper lives.
            tracing::debug!(%id, %error, "cannot write down that an end was shown");
        }
    }

    /// What the folders say now of what could not be written.
    async fn read_again(&self, unsaid: Vec<Unsaid>) -> Vec<Unsaid> {
        let mut seen_by_owner = HashSet::new();
        for one in &unsaid {
            self.shared.unwritten.reads(one.before.id());
            if self.table.facts(one.before.id()).await.is_some_and(|facts| facts.consumed) {
                seen_by_owner.insert(one.before.id());
            }
        }
        let (shared, same) = (Arc::clone(&self.shared), unsaid.clone());
        let again = blocking(move || {
            let again = |u: Unsaid| {
                let dir = shared.home.process(u.before.id());
                // Removed meanwhile: what was known is all there is.
                if !dir.path.exists() {
                    return u;
                }
                let seen = Seen::look(&dir, u.before.cursor);
                let after = Facts { consumed: seen_by_owner.contains(&u.before.id()), ..u.before.with(&seen) };
                let news = News::of((&shared.redactor, &shared.waiters), &u.before, &after, &seen, &dir)
                    .map(|news| news.instead_of(u.news.as_ref()));
                Unsaid { news: news.or(u.news), before: u.before }
            };
            unsaid.into_iter().map(again).collect()
        });
        again.await.unwrap_or(same)
    }

    /// Forgets a process that is over, and removes its row and folder. Goes on if the caller leaves: what was begun is finished or undone.
    pub(crate) async fn forget(&self, view: &ProcessView) -> Result<(), Error> {
        let (engine, facts) = (self.clone(), Arc::clone(&view.facts));
        let task = tokio::spawn(async move {
            let id = facts.id();
            engine.make_room_for_end(id).await?;
            if !engine.table.take(id).await? {
                return Err(refuse::not_found(&id.to_string(), &[]));
            }
            let removed = engine.remove(id).await;
            if removed.is_err() {
                engine.table.put_back(facts).await;
            }
            removed
        });
        task.await.unwrap_or_else(|panic| Err(refuse::fault(panic)))
    }

    /// Before a process is removed, its end must be recorded: without its folder the next engine would take it for lost. If the disk refuses the record,
    /// the log is removed first, which the client asked for anyway and which may be what fills the disk.
    async fn make_room_for_end(&self, id: ProcessId) -> Result<(), Error> {
        if !self.shared.unwritten.has(id) {
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
            if !self.shared.unwritten.has(id) {
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

/// What happened to a process. A panic about one process must not cost other processes their notices. Its own are left to the next engine,
/// which may be able to read its files.
fn news_of(shared: &Shared, before: &Facts, after: &Facts, seen: &Seen) -> Option<News> {
    let id = after.id();
    let read = catch_unwind(AssertUnwindSafe(|| {
        outlast_store::points::reach(&format!("news.of.{id}"));
        News::of((&shared.redactor, &shared.waiters), before, after, seen, &shared.home.process(id))
    }));
    read.unwrap_or_else(|_| {
        tracing::error!(%id, "reading its files panicked: the next engine that can read them makes its notices");
        // Until then its row must not be ahead of the notices that its owner got.
        shared.unwritten.begin(id);
        shared.untold.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        None
    })
}

/// How often a removal looks whether the end of its process was recorded: for about three seconds.
const RECORD_TRIES: u32 = 12;

/// News that is not written, and what was known when everything before it was.
#[derive(Clone)]
struct Unsaid {
    before: Arc<Facts>,
    /// Nothing once it is written.
    news: Option<News>,
}

impl Unsaid {
    fn written(&mut self) {
        if let Some(news) = self.news.take() {
            self.before = Arc::new(news.into_facts());
        }
    }
}

fn all_of(unsaid: &[Unsaid]) -> Vec<News> {
    unsaid.iter().filter_map(|u| u.news.clone()).collect()
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
    // Only for people who look; the lock is what counts.
    let _told = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    // For callers in other containers, where that pid means nothing. Without this file they time out before they get an error.
    let holder = LockHolder::new(std::process::id(), crate::os::namespaces());
    let _told = serde_json::to_vec(&holder).map_err(io::Error::from).and_then(|text| std::fs::write(home.lock_holder(), text));
    Ok(file)
}

#[cfg(test)]
pub(crate) mod tests;
