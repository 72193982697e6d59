//! The conversations that share a session: which of them are open, and to which of them a process belongs.
//!
//! A process belongs to the instance whose request started it. When an instance has ended, everything that belongs to it passes to the
//! first one that begins afterwards. Rules are in `outlast_core::KnownInstance`; here they are applied, written down, and the ends of
//! clients are watched for. What is in memory follows the index: it changes once the change is on disk.
//!
//! Decisions 340 to 342: docs/decisions/notices.md.

use crate::closing::{Closing, Shutdown};
use crate::disk::AGAIN;
use crate::index::{self, Index, IndexError};
use crate::mutex::lock;
use crate::os::ProcessHandle;
use outlast_core::notice_state::Uptime;
use outlast_core::{Belonging, Incarnation, Instance, InstanceKind, KnownInstance, ProcessId};
use outlast_store::os::{boottime_ns, is_alive};
use rusqlite::{Connection, params};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use tokio::sync::{RwLock, RwLockReadGuard};

/// The most instances that are known. With this many, a new one is not told apart from others of its session.
const MAX_INSTANCES: usize = 1_000;

/// All instances of a home.
pub(crate) struct Instances {
    index: Index,
    closing: Shutdown,
    book: Mutex<Book>,
    /// Locked by one registration at a time, so that what has ended passes to one instance only; shared by starts that are being written.
    registering: RwLock<()>,
}

/// What is known of instances.
#[derive(Debug, Default)]
struct Book {
    /// By session and key.
    known: HashMap<String, HashMap<String, KnownInstance>>,
    held: HashMap<ProcessId, Holder>,
    watched: HashSet<Incarnation>,
}

/// The instance to which a process belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    session: String,
    key: String,
    /// Whether the process has passed to it from an earlier conversation.
    earlier: bool,
}

/// A request of an instance.
#[derive(Clone)]
pub(crate) struct Asker {
    instance: Arc<Instance>,
    session: String,
    all: Arc<Instances>,
}

/// The changes that the first request of an instance makes.
#[derive(Debug, Clone)]
struct Registration {
    session: String,
    new: KnownInstance,
    /// Instances that are alive beside it.
    alive: Vec<KnownInstance>,
    /// The keys of instances whose processes pass to it, each with whether they are marked.
    passed: Vec<(String, bool)>,
    /// Sessions and keys of instances that are not needed any more.
    forgotten: HashSet<(String, String)>,
}

fn uptime() -> Uptime {
    (boottime_ns() / 1_000) as Uptime
}

impl Asker {
    pub(crate) fn new(all: &Arc<Instances>, session: &str, instance: Instance) -> Self {
        Self { instance: Arc::new(instance), session: session.to_owned(), all: Arc::clone(all) }
    }

    /// Registers its instance if this is its first request.
    pub(crate) async fn register(&self) {
        self.all.register(&self.session, &self.instance).await;
    }

    /// What a process that it starts belongs to. None if the instance could not be registered: it would count as ended.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let is_known = lock(&self.all.book).find(&self.session, &self.instance.key).is_some();
        is_known.then(|| Holder { session: self.session.clone(), key: self.instance.key.clone(), earlier: false })
    }

    /// To whom a process of its session belongs.
    pub(crate) fn belonging(&self, process: ProcessId) -> Belonging {
        lock(&self.all.book).belonging(&self.instance, process, uptime())
    }

    /// Whether it is given a notice about this process. `asked`: its model asks for notices.
    pub(crate) fn takes(&self, process: &str, asked: bool) -> bool {
        let Ok(process) = process.parse() else { return true };
        match self.belonging(process) {
            Belonging::Own => true,
            Belonging::Ended => asked || self.instance.kind == InstanceKind::Unknown,
            Belonging::Other => false,
        }
    }

    /// Whether a process is from an earlier conversation: it has passed to this one, or belongs to one that has ended.
    pub(crate) fn is_earlier(&self, process: &str) -> bool {
        let Ok(process) = process.parse() else { return false };
        let has_passed = lock(&self.all.book).held.get(&process).is_some_and(|held| held.earlier);
        has_passed || self.belonging(process) == Belonging::Ended
    }
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asker({:?})", self.instance)
    }
}

impl Instances {
    /// What an earlier engine knew. Instances that ended while no engine ran have ended when they were last seen, which is the earliest
    /// that is possible. Those of another boot have ended before everything of this one.
    pub(crate) async fn load(index: Index, boot: u128, closing: Shutdown) -> Arc<Self> {
        let (rows, held) = index.work(|db| Ok((read_known(db)?, read_held(db)?))).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the conversations of sessions cannot be read, so they are not told apart");
            Default::default()
        });
        let mut book = Book { held, ..Book::default() };
        for (session, known) in rows {
            let known = found_by_new_engine(known, boot);
            book.known.entry(session).or_default().insert(known.about.key.clone(), known);
        }
        let lives = book.all().flat_map(|(_, known)| lives(&known.about)).collect::<Vec<_>>();
        let all = Arc::new(Self { index, closing, book: Mutex::new(book), registering: RwLock::default() });
        lives.into_iter().filter(is_alive).for_each(|life| all.watch(life));
        all
    }

    /// Registers an instance with its first request. What belonged to instances that ended before it began is its own from then on.
    async fn register(self: &Arc<Self>, session: &str, instance: &Instance) {
        if instance.kind == InstanceKind::Unknown || lock(&self.book).is_known(session, instance, uptime()) {
            return;
        }
        let _turn = self.registering.write().await;
        if lock(&self.book).is_known(session, instance, uptime()) {
            return;
        }
        self.note_ends(session).await;
        let instance = with_live_client(instance);
        let Some(step) = lock(&self.book).registration(session, &instance, uptime()) else {
            return tracing::warn!(session, "too many conversations are open to tell this one apart");
        };
        let write = step.clone();
        if let Err(error) = self.index.work(move |db| write.write(db)).await {
            // Its next request tries it again.
            return tracing::warn!(%error, session, "a conversation cannot be registered");
        }
        lock(&self.book).carry_out(step);
        lives(&instance).into_iter().for_each(|life| self.watch(life));
    }

    /// Nothing passes from one instance to another while this is held.
    pub(crate) async fn while_none_passes(&self) -> RwLockReadGuard<'_, ()> {
        self.registering.read().await
    }

    /// To which instance a process belongs.
    pub(crate) fn holder_of(&self, process: ProcessId) -> Option<Holder> {
        lock(&self.book).held.get(&process).cloned()
    }

    /// A process that is being started belongs to this instance.
    pub(crate) fn hold(&self, process: ProcessId, holder: Holder) {
        lock(&self.book).held.insert(process, holder);
    }

    /// The process is not started after all.
    pub(crate) fn let_go(&self, process: ProcessId) {
        lock(&self.book).held.remove(&process);
    }

    /// Writes when instances that are alive were last seen, before the engine ends.
    pub(crate) async fn save(&self) {
        let now = uptime();
        let rows: Vec<(String, KnownInstance)> =
            lock(&self.book).all().map(|(session, known)| (session.clone(), seen_alive(known, now))).collect();
        // If this is lost, an instance that ends before the next engine starts has ended earlier than it did.
        let _lost = self.index.work(move |db| rows.iter().try_for_each(|(session, known)| write_known(db, session, known))).await;
    }

    /// Forgets a removed process, and to which instance it belonged, unless a notice about it may be given or shown.
    pub(crate) async fn forget(&self, process: ProcessId) -> Result<(), IndexError> {
        let sql = "DELETE FROM held_by WHERE process = ?1 AND NOT EXISTS (SELECT 1 FROM notice INDEXED BY notice_of_process
            WHERE notice.process = ?1 AND notice.process <> '' AND state NOT IN ('consumed', 'superseded', 'dropped'))";
        let is_held = lock(&self.book).held.contains_key(&process);
        let forget = move |db: &Connection| {
            index::forget(db, process)?;
            Ok(is_held && db.prepare_cached(sql)?.execute(params![process.to_string()])? > 0)
        };
        if self.index.work(forget).await? {
            self.let_go(process);
        }
        Ok(())
    }

    /// Forgets to which instance a process belonged, once the process and its notices are removed.
    pub(crate) async fn sweep(&self) -> Result<(), IndexError> {
        let sweep = |db: &Connection| {
            db.prepare_cached(
                "DELETE FROM held_by WHERE process NOT IN (SELECT id FROM process)
                     AND NOT EXISTS (SELECT 1 FROM notice INDEXED BY notice_of_process WHERE notice.process = held_by.process AND notice.process <> '')
                 RETURNING process",
            )?
            .query_map([], |row| row.get::<_, String>(0))?
            .collect::<rusqlite::Result<Vec<_>>>()
        };
        let gone = self.index.work(sweep).await?;
        let mut book = lock(&self.book);
        gone.iter().filter_map(|id| id.parse().ok()).for_each(|id: ProcessId| drop(book.held.remove(&id)));
        Ok(())
    }

    /// Records when this process ends.
    fn watch(self: &Arc<Self>, life: Incarnation) {
        if !lock(&self.book).watched.insert(life) {
            return;
        }
        let all = Arc::clone(self);
        tokio::spawn(async move {
            tokio::select! {
                () = ended(&life) => all.note_end(life).await,
                () = all.closing.reached(Closing::Stopping) => {}
            }
        });
    }

    /// Looks whether instances of a session have just ended.
    async fn note_ends(&self, session: &str) {
        let of: HashSet<Incarnation> =
            lock(&self.book).all().filter(|(of, _)| *of == session).flat_map(|(_, known)| lives(&known.about)).collect();
        for life in of.into_iter().filter(|life| !is_alive(life)) {
            self.note_end(life).await;
        }
    }

    async fn note_end(&self, life: Incarnation) {
        let rows = lock(&self.book).note_end(life, uptime());
        // If this is lost, the next engine finds that it has ended.
        self.index.work_later(move |db| rows.iter().try_for_each(|(session, known)| write_known(db, session, known))).await;
    }
}

/// Returns once a process has ended.
async fn ended(life: &Incarnation) {
    while is_alive(life) {
        match ProcessHandle::of(life) {
            Ok(handle) if handle.exited().await.is_ok() => return,
            // It has just ended, or cannot be waited for right now, so it is checked at intervals.
            Ok(_) | Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// The processes on which an instance depends.
fn lives(of: &Instance) -> Vec<Incarnation> {
    match of.kind {
        InstanceKind::Server { server } if server != of.client => vec![server, of.client],
        InstanceKind::Server { .. } | InstanceKind::Client | InstanceKind::Session { .. } | InstanceKind::Unknown => vec![of.client],
    }
}

/// A server outlives the process that started it if that was only a launcher. Then the server itself stands for the client.
fn with_live_client(instance: &Instance) -> Instance {
    match instance.kind {
        InstanceKind::Server { server } if !is_alive(&instance.client) => Instance { client: server, ..instance.clone() },
        _ => instance.clone(),
    }
}

fn is_session(known: &KnownInstance) -> bool {
    matches!(known.about.kind, InstanceKind::Session { .. })
}

/// An instance as a new engine finds it.
fn found_by_new_engine(mut known: KnownInstance, boot: u128) -> KnownInstance {
    if known.about.client.boot != boot {
        return KnownInstance { seen: 0, server_gone: Some(0), client_gone: Some(0), ..known };
    }
    if let InstanceKind::Server { server } = known.about.kind
        && !is_alive(&server)
    {
        known.server_gone.get_or_insert(known.seen);
    }
    match is_alive(&known.about.client) {
        false => _ = known.client_gone.get_or_insert(known.seen),
        // It may have been used until the last engine ended.
        true if is_session(&known) => known.seen = uptime(),
        true => {}
    }
    known
}

/// The same instance, seen alive now. A session over HTTP is seen only when it is used.
fn seen_alive(known: &KnownInstance, now: Uptime) -> KnownInstance {
    let is_seen = known.client_gone.is_none() && !is_session(known);
    KnownInstance { seen: if is_seen { now } else { known.seen }, ..known.clone() }
}

impl Book {
    fn all(&self) -> impl Iterator<Item = (&String, &KnownInstance)> {
        self.known.iter().flat_map(|(session, of)| of.values().map(move |known| (session, known)))
    }

    fn find(&self, session: &str, key: &str) -> Option<&KnownInstance> {
        self.known.get(session)?.get(key)
    }

    /// Whether the instance is registered and has not ended. Notes that it was used.
    fn is_known(&mut self, session: &str, instance: &Instance, now: Uptime) -> bool {
        let known =
            self.known.get_mut(session).and_then(|of| of.get_mut(&instance.key)).filter(|known| known.ended(instance, now).is_none());
        if let Some(known) = known {
            known.seen = now;
            return true;
        }
        false
    }

    fn belonging(&self, asker: &Instance, process: ProcessId, now: Uptime) -> Belonging {
        match self.held.get(&process) {
            None => Belonging::Own,
            Some(holder) if holder.key == asker.key => Belonging::Own,
            Some(holder) => match self.known.get(&holder.session).and_then(|of| of.get(&holder.key)) {
                Some(known) => known.belonging(asker, now),
                // It was forgotten, since it has ended.
                None => Belonging::Ended,
            },
        }
    }

    /// What the first request of an instance changes; none if there are too many.
    fn registration(&self, session: &str, instance: &Instance, now: Uptime) -> Option<Registration> {
        let none = HashMap::new();
        let of = self.known.get(session).unwrap_or(&none);
        let (mut alive, mut passed) = (Vec::new(), Vec::new());
        let others = || of.values().filter(|known| known.about.key != instance.key);
        let is_client_new = others().all(|known| known.about.client != instance.client);
        for known in others() {
            match known.passes_to(instance, is_client_new, now) {
                Some(marked) => passed.push((known.about.key.clone(), marked)),
                None => alive.push(seen_alive(known, now)),
            }
        }
        let mut forgotten: HashSet<_> = passed.iter().map(|(key, _)| (session.to_owned(), key.clone())).collect();
        let holding: HashSet<(&str, &str)> = self.held.values().map(|held| (held.session.as_str(), held.key.as_str())).collect();
        for (session, known) in self.all() {
            let key = known.about.key.clone();
            if known.is_over(now) && !holding.contains(&(session, &key)) && key != instance.key {
                forgotten.insert((session.clone(), key));
            }
        }
        // Holders that were forgotten have ended.
        let unknown = self.held.values().filter(|held| held.session == session && held.key != instance.key && !of.contains_key(&held.key));
        passed.extend(unknown.map(|held| held.key.clone()).collect::<HashSet<_>>().into_iter().map(|key| (key, true)));
        let new = KnownInstance::new(instance.clone(), now);
        alive.retain(|known: &KnownInstance| !forgotten.contains(&(session.to_owned(), known.about.key.clone())));
        let count = self.all().count() - forgotten.len();
        (count < MAX_INSTANCES).then(|| Registration { session: session.to_owned(), new, alive, passed, forgotten })
    }

    fn carry_out(&mut self, step: Registration) {
        let key = step.new.about.key.clone();
        for (from, marked) in &step.passed {
            for held in self.held.values_mut().filter(|held| held.session == step.session && held.key == *from) {
                held.earlier |= marked;
                held.key.clone_from(&key);
            }
        }
        for (session, key) in &step.forgotten {
            if let Some(of) = self.known.get_mut(session) {
                of.remove(key);
            }
        }
        self.known.retain(|_, of| !of.is_empty());
        let of = self.known.entry(step.session).or_default();
        for known in step.alive.into_iter().chain([step.new]) {
            of.insert(known.about.key.clone(), known);
        }
    }

    /// A process has ended. Returns the instances that this changes.
    fn note_end(&mut self, life: Incarnation, now: Uptime) -> Vec<(String, KnownInstance)> {
        self.watched.remove(&life);
        let mut changed = Vec::new();
        for (session, known) in self.known.iter_mut().flat_map(|(session, of)| of.values_mut().map(move |known| (session, known))) {
            let is_server = matches!(known.about.kind, InstanceKind::Server { server } if server == life);
            let is_client = known.about.client == life;
            let before = (known.server_gone, known.client_gone);
            if is_server {
                known.server_gone.get_or_insert(now);
            }
            if is_client {
                known.client_gone.get_or_insert(now);
            }
            if before != (known.server_gone, known.client_gone) {
                changed.push((session.clone(), known.clone()));
            }
        }
        changed
    }
}

impl Registration {
    fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        for (session, key) in &self.forgotten {
            db.prepare_cached("DELETE FROM instance WHERE session = ?1 AND key = ?2")?.execute(params![session, key])?;
        }
        for known in self.alive.iter().chain([&self.new]) {
            write_known(db, &self.session, known)?;
        }
        let key = &self.new.about.key;
        for (from, marked) in &self.passed {
            db.prepare_cached("UPDATE held_by SET instance = ?1, earlier = MAX(earlier, ?2) WHERE session = ?3 AND instance = ?4")?
                .execute(params![key, marked, self.session, from])?;
        }
        Ok(())
    }
}

/// Writes to which instance a process belongs.
pub(crate) fn write_holder(db: &Connection, process: ProcessId, holder: &Holder) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO held_by (process, session, instance, earlier) VALUES (?1, ?2, ?3, ?4)")?.execute(params![
        process.to_string(),
        holder.session,
        holder.key,
        holder.earlier
    ])?;
    Ok(())
}

fn write_known(db: &Connection, session: &str, known: &KnownInstance) -> rusqlite::Result<()> {
    // It holds strings and numbers only, which always serialise.
    let about = serde_json::to_string(&known.about).expect("an instance serialises");
    db.prepare_cached(
        "INSERT OR REPLACE INTO instance (session, key, about, seen, server_gone, client_gone) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![session, known.about.key, about, known.seen, known.server_gone, known.client_gone])?;
    Ok(())
}

fn read_known(db: &Connection) -> rusqlite::Result<Vec<(String, KnownInstance)>> {
    let mut rows = db.prepare("SELECT session, about, seen, server_gone, client_gone FROM instance")?;
    let rows = rows.query_map([], |row| {
        let about = row.get::<_, String>(1)?;
        // One that cannot be read counts as forgotten.
        let known = serde_json::from_str(&about).ok().map(|about| (about, row.get(2), row.get(3), row.get(4)));
        let Some((about, seen, server_gone, client_gone)) = known else { return Ok(None) };
        let known = KnownInstance { about, seen: seen?, server_gone: server_gone?, client_gone: client_gone? };
        Ok(Some((row.get(0)?, known)))
    })?;
    rows.filter_map(Result::transpose).collect()
}

fn read_held(db: &Connection) -> rusqlite::Result<HashMap<ProcessId, Holder>> {
    let mut rows = db.prepare("SELECT process, session, instance, earlier FROM held_by")?;
    let rows = rows.query_map([], |row| {
        let process: Option<ProcessId> = row.get::<_, String>(0)?.parse().ok();
        let holder = Holder { session: row.get(1)?, key: row.get(2)?, earlier: row.get(3)? };
        Ok(process.map(|process| (process, holder)))
    })?;
    rows.filter_map(Result::transpose).collect()
}

#[cfg(test)]
mod tests;
