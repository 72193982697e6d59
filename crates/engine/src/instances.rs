//! The conversations that share a session: which of them are open, and to which of them a process belongs.
//!
//! A process belongs to the instance whose request started it. When an instance has ended, everything that belongs to it passes to the
//! first one that begins afterwards. Rules are in `outlast_core::KnownInstance`; here they are applied, written down, and the ends of
//! clients are watched for. What is in memory follows the index: it changes once the change is on disk.
//!
//! Decisions 340 to 342: docs/decisions/notices.md.

mod rows;

pub(crate) use rows::write_holder;

use crate::closing::{Closing, Shutdown};
use crate::disk::AGAIN;
use crate::index::{self, Index, IndexError};
use crate::mutex::lock;
use crate::os::ProcessHandle;
use outlast_core::notice_state::Uptime;
use outlast_core::{Belonging, Incarnation, Instance, InstanceKind, KnownInstance, ProcessId};
use outlast_store::os::{boottime_ns, is_alive};
use rows::{read_held, read_known, write_known, write_seen};
use rusqlite::{Connection, params};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{RwLock, RwLockReadGuard};

/// The most instances that are known. With this many, a new one is not told apart from others of its session.
const MAX_INSTANCES: usize = 1_000;
/// How often the last uses of sessions over HTTP are written, for an engine that is killed.
const SEEN_WRITE_INTERVAL: Duration = Duration::from_secs(60);

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
    /// By session: the keys of sessions over HTTP of which a use after the newest registration is on disk. So each that lived beside a newer
    /// instance is known to have.
    used: HashMap<String, HashSet<String>>,
}

/// A request of a registered instance was noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UseNoted {
    Noted,
    /// The use has to be written before the request is answered.
    ToWrite(Uptime),
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

/// A request of a session over HTTP. The session is in use while this is held.
pub(crate) struct RequestUnderWay {
    asker: Asker,
}

/// The changes that the first request of an instance makes, or one that finds that others have ended before it began.
#[derive(Debug, Clone)]
struct Registration {
    session: String,
    new: KnownInstance,
    /// The keys of instances that are alive beside it, each with when it was last seen.
    alive: Vec<(String, Uptime)>,
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
    pub(crate) async fn register(&self) -> Option<RequestUnderWay> {
        self.all.register(&self.session, &self.instance).await;
        let is_counted = lock(&self.all.book).find_session(&self.session, &self.instance).map(|known| known.under_way += 1).is_some();
        is_counted.then(|| RequestUnderWay { asker: self.clone() })
    }

    /// Records that its instance has ended.
    pub(crate) async fn end(&self) -> Result<(), IndexError> {
        self.all.end(&self.session, &self.instance).await
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
            Belonging::Foreign => asked,
            Belonging::Other => false,
        }
    }

    /// Whether a process is from an earlier conversation: it has passed to this one, or belongs to one that has ended.
    pub(crate) fn is_earlier(&self, process: &str) -> bool {
        let Ok(process) = process.parse() else { return false };
        let has_passed = lock(&self.all.book).held.get(&process).is_some_and(|held| held.earlier);
        has_passed || matches!(self.belonging(process), Belonging::Ended | Belonging::Foreign)
    }
}

impl std::fmt::Debug for Asker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asker({:?})", self.instance)
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        let Asker { instance, session, all } = &self.asker;
        if let Some(known) = lock(&all.book).find_session(session, instance) {
            known.under_way = known.under_way.saturating_sub(1);
            known.seen = known.seen.max(uptime());
        }
    }
}

impl Instances {
    /// What an earlier engine knew. Instances that ended while no engine ran have ended when they were last seen, which is the earliest
    /// that is possible. Those of another boot have ended before everything of this one.
    /// `has_keeper`: whether a keeper supervises a process.
    pub(crate) async fn load(index: Index, boot: u128, closing: Shutdown, has_keeper: impl Fn(ProcessId) -> bool) -> Arc<Self> {
        let (rows, held) = index.work(|db| Ok((read_known(db)?, read_held(db)?))).await.unwrap_or_else(|error| {
            tracing::error!(%error, "the conversations of sessions cannot be read, so they are not told apart");
            Default::default()
        });
        let mut book = Book { held, ..Book::default() };
        for (session, known) in rows {
            let mut of_its_own = book.held.iter().filter(|(_, held)| held.session == session && held.key == known.about.key);
            let is_at_work = known.is_foreign && of_its_own.any(|(id, _)| has_keeper(*id));
            let known = found_by_new_engine(known, boot, is_at_work);
            book.known.entry(session).or_default().insert(known.about.key.clone(), known);
        }
        let lives = book.all().flat_map(|(_, known)| lives(known)).collect::<Vec<_>>();
        let all = Arc::new(Self { index, closing, book: Mutex::new(book), registering: RwLock::default() });
        lives.into_iter().filter(is_alive).for_each(|life| all.watch(life));
        tokio::spawn(Arc::clone(&all).keep_seen());
        all
    }

    /// Registers an instance with its first request. What belonged to instances that ended before it began is its own from then on. A later
    /// request does the same for sessions over HTTP, whose end is known only when they were not used for a while.
    async fn register(self: &Arc<Self>, session: &str, instance: &Instance) {
        if instance.kind == InstanceKind::Unknown || self.is_settled(session, instance).await {
            return;
        }
        let _turn = self.registering.write().await;
        if self.is_settled(session, instance).await {
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
        let lives = lives(&step.new);
        lock(&self.book).carry_out(step);
        // Also those that were watched before: one may have ended while this was written.
        lives.into_iter().for_each(|life| self.watch(life));
    }

    /// Whether a request needs no registration. Notes its use.
    async fn is_settled(&self, session: &str, instance: &Instance) -> bool {
        self.note_use(session, instance).await || lock(&self.book).was_ended(session, instance)
    }

    /// Notes that an instance was used. Returns false if it has to be registered.
    async fn note_use(&self, session: &str, instance: &Instance) -> bool {
        let noted = lock(&self.book).note_use(session, instance, uptime());
        if let Some(UseNoted::ToWrite(seen)) = noted {
            let (of, key) = (session.to_owned(), instance.key.clone());
            if let Err(error) = self.index.work(move |db| write_seen(db, &of, &key, seen)).await {
                tracing::warn!(%error, session, "the use of a conversation cannot be written");
                lock(&self.book).used.remove(session);
            }
        }
        noted.is_some()
    }

    /// Nothing passes from one instance to another while this is held.
    pub(crate) async fn while_none_passes(&self) -> RwLockReadGuard<'_, ()> {
        self.registering.read().await
    }

    /// To which instance a process belongs.
    pub(crate) fn holder_of(&self, process: ProcessId) -> Option<Holder> {
        lock(&self.book).held.get(&process).cloned()
    }

    /// A session over HTTP has ended, as its server reports. Other instances end with their processes.
    async fn end(&self, session: &str, instance: &Instance) -> Result<(), IndexError> {
        let _turn = self.registering.write().await;
        let known = lock(&self.book).find_session(session, instance).cloned();
        let Some(mut known) = known else { return Ok(()) };
        known.client_gone.get_or_insert(uptime());
        let (of, row) = (session.to_owned(), known.clone());
        self.index.work(move |db| write_known(db, &of, &row)).await?;
        if let Some(kept) = lock(&self.book).find_session(session, instance) {
            kept.client_gone = known.client_gone;
        }
        Ok(())
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
        let rows = lock(&self.book).all().map(|(session, known)| seen_row(session, known, now)).collect();
        self.write_seen(rows).await;
    }

    /// Writes the last uses of sessions over HTTP at intervals: no end of a process shows when such a session was left.
    async fn keep_seen(self: Arc<Self>) {
        let mut written = uptime();
        loop {
            tokio::select! {
                () = tokio::time::sleep(SEEN_WRITE_INTERVAL) => {}
                () = self.closing.reached(Closing::Stopping) => return,
            }
            let (since, now) = (written, uptime());
            let is_used = |known: &KnownInstance| known.is_session() && (known.under_way > 0 || known.seen >= since);
            let used =
                lock(&self.book).all().filter(|(_, known)| is_used(known)).map(|(session, known)| seen_row(session, known, now)).collect();
            written = now;
            self.write_seen(used).await;
        }
    }

    async fn write_seen(&self, rows: Vec<(String, String, Uptime)>) {
        if rows.is_empty() {
            return;
        }
        let write = move |db: &Connection| rows.iter().try_for_each(|(session, key, seen)| write_seen(db, session, key, *seen));
        // If this is lost, an instance that ends before the next engine starts has ended earlier than it did.
        let _lost = self.index.work(write).await;
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
                () = ended(&life) => {
                    // Not while a registration writes what it has read.
                    let _turn = all.registering.write().await;
                    all.note_end(life).await;
                }
                () = all.closing.reached(Closing::Stopping) => {}
            }
        });
    }

    /// Looks whether instances of a session have just ended.
    async fn note_ends(&self, session: &str) {
        let of: HashSet<Incarnation> =
            lock(&self.book).all().filter(|(of, _)| *of == session).flat_map(|(_, known)| lives(known)).collect();
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

/// The processes on which an instance depends and that this engine can see.
fn lives(known: &KnownInstance) -> Vec<Incarnation> {
    if known.is_foreign { Vec::new() } else { known.serving().flat_map(Instance::lives).collect() }
}

/// A server outlives the process that started it if that was only a launcher. Then the server itself stands for the client.
fn with_live_client(instance: &Instance) -> Instance {
    match instance.kind {
        InstanceKind::Server { server } if !is_alive(&instance.client) => Instance { client: server, ..instance.clone() },
        _ => instance.clone(),
    }
}

/// An instance as a new engine finds it. `is_at_work`: a process that it started has a keeper.
fn found_by_new_engine(mut known: KnownInstance, boot: u128, is_at_work: bool) -> KnownInstance {
    let (others, is_foreign) = (Vec::new(), false);
    if known.about.client.boot != boot {
        return KnownInstance { others, seen: 0, server_gone: Some(0), client_gone: Some(0), is_foreign, ..known };
    }
    // A restarted container has a new PID namespace, and nothing of the old one is left. Locks are seen across namespaces.
    if known.is_foreign && !is_at_work {
        let gone = Some(known.seen);
        return KnownInstance { others, server_gone: gone, client_gone: gone, is_foreign, ..known };
    }
    let seen = known.seen;
    for life in lives(&known).into_iter().filter(|life| !is_alive(life)) {
        known.process_ended(life, seen);
    }
    known
}

/// When an instance was last seen alive, if it is now. A session over HTTP is seen only when it is used.
fn last_seen(known: &KnownInstance, now: Uptime) -> Uptime {
    let is_seen = known.client_gone.is_none() && !known.is_foreign && (!known.is_session() || known.under_way > 0);
    if is_seen { now } else { known.seen }
}

fn seen_row(session: &str, known: &KnownInstance, now: Uptime) -> (String, String, Uptime) {
    (session.to_owned(), known.about.key.clone(), last_seen(known, now))
}

impl Book {
    fn all(&self) -> impl Iterator<Item = (&String, &KnownInstance)> {
        self.known.iter().flat_map(|(session, of)| of.values().map(move |known| (session, known)))
    }

    fn find(&self, session: &str, key: &str) -> Option<&KnownInstance> {
        self.known.get(session)?.get(key)
    }

    fn find_session(&mut self, session: &str, instance: &Instance) -> Option<&mut KnownInstance> {
        self.known.get_mut(session)?.get_mut(&instance.key).filter(|known| known.is_session())
    }

    /// The instance, if it is registered with the process that sends its request, and has not ended.
    fn find_alive(&self, session: &str, instance: &Instance, now: Uptime) -> Option<&KnownInstance> {
        let known = self.find(session, &instance.key)?;
        (!known.is_foreign && known.is_served_by(instance) && known.ended(instance, now).is_none()).then_some(known)
    }

    /// Notes that an instance was used. None if it has to be registered: it is not known, or inherits from another one.
    fn note_use(&mut self, session: &str, instance: &Instance, now: Uptime) -> Option<UseNoted> {
        self.find_alive(session, instance, now)?;
        let of = self.known.get_mut(session)?;
        if passing_to(of, instance, false, now).next().is_some() {
            return None;
        }
        let known = of.get_mut(&instance.key)?;
        known.seen = now;
        let has_to_be_written = known.is_session() && self.used.entry(session.to_owned()).or_default().insert(instance.key.clone());
        Some(if has_to_be_written { UseNoted::ToWrite(now) } else { UseNoted::Noted })
    }

    /// Whether the instance is a session over HTTP that has been ended. A call that its client did not wait for must not begin it again.
    fn was_ended(&self, session: &str, instance: &Instance) -> bool {
        self.find(session, &instance.key).is_some_and(|known| known.is_session() && known.client_gone.is_some())
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

    /// What a request changes that is the first of an instance, or makes it inherit; none if there are too many instances.
    fn registration(&self, session: &str, instance: &Instance, now: Uptime) -> Option<Registration> {
        let none = HashMap::new();
        let of = self.known.get(session).unwrap_or(&none);
        let (before, alive) = (of.get(&instance.key), self.find_alive(session, instance, now));
        let mut passed: Vec<_> = passing_to(of, instance, alive.is_none(), now).map(|(key, marked)| (key.to_owned(), marked)).collect();
        let mut forgotten: HashSet<_> = passed.iter().map(|(key, _)| (session.to_owned(), key.clone())).collect();
        let holding: HashSet<(&str, &str)> = self.held.values().map(|held| (held.session.as_str(), held.key.as_str())).collect();
        for (session, known) in self.all() {
            let key = known.about.key.clone();
            if (known.is_over(now) || known.is_foreign) && !holding.contains(&(session, &key)) && key != instance.key {
                forgotten.insert((session.clone(), key));
            }
        }
        if alive.is_none() {
            // Holders that were forgotten have ended.
            let unknown =
                self.held.values().filter(|held| held.session == session && held.key != instance.key && !of.contains_key(&held.key));
            passed.extend(unknown.map(|held| held.key.clone()).collect::<HashSet<_>>().into_iter().map(|key| (key, true)));
        }
        let new = match (alive, before) {
            (Some(alive), _) => KnownInstance { seen: now, ..alive.clone() },
            (None, Some(before)) => before.resumed(instance.clone(), now),
            (None, None) => KnownInstance::new(instance.clone(), now),
        };
        let is_beside = |key: &String| *key != instance.key && !forgotten.contains(&(session.to_owned(), key.clone()));
        let alive = of.values().filter(|known| is_beside(&known.about.key));
        let alive = alive.map(|known| (known.about.key.clone(), last_seen(known, now))).collect();
        let count = self.all().count() - forgotten.len();
        (before.is_some() || count < MAX_INSTANCES).then(|| Registration { session: session.to_owned(), new, alive, passed, forgotten })
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
        // A later use of another session is one beside this instance.
        self.used.retain(|session, _| *session != step.session && self.known.contains_key(session));
        self.used.insert(step.session.clone(), HashSet::from([key.clone()]));
        let of = self.known.entry(step.session).or_default();
        for (key, seen) in step.alive {
            // Whatever else has become of it meanwhile stands.
            if let Some(known) = of.get_mut(&key) {
                known.seen = known.seen.max(seen);
            }
        }
        let under_way = of.get(&key).map_or(0, |known| known.under_way);
        of.insert(key, KnownInstance { under_way, ..step.new });
    }

    /// A process has ended. Returns the instances that this changes.
    fn note_end(&mut self, life: Incarnation, now: Uptime) -> Vec<(String, KnownInstance)> {
        self.watched.remove(&life);
        let all = self.known.iter_mut().flat_map(|(session, of)| of.values_mut().map(move |known| (session, known)));
        let mut changed = Vec::new();
        for (session, known) in all.filter(|(_, known)| !known.is_foreign) {
            if known.process_ended(life, now) {
                changed.push((session.clone(), known.clone()));
            }
        }
        changed
    }
}

/// The instances of a session from which everything passes to this one, each with whether that is marked. `is_first`: the instance makes its
/// first request.
fn passing_to<'a>(
    of: &'a HashMap<String, KnownInstance>,
    instance: &'a Instance,
    is_first: bool,
    now: Uptime,
) -> impl Iterator<Item = (&'a str, bool)> {
    let others = move || of.values().filter(|known| known.about.key != instance.key);
    let is_client_new = others().all(|known| !known.has_client(&instance.client));
    others().filter_map(move |known| {
        let marked = match is_first {
            true => known.passes_to(instance, is_client_new, now),
            false => known.passes_later_to(instance, is_client_new, now),
        };
        marked.map(|marked| (known.about.key.as_str(), marked))
    })
}

impl Registration {
    fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        for (session, key) in &self.forgotten {
            db.prepare_cached("DELETE FROM instance WHERE session = ?1 AND key = ?2")?.execute(params![session, key])?;
        }
        for (key, seen) in &self.alive {
            write_seen(db, &self.session, key, *seen)?;
        }
        write_known(db, &self.session, &self.new)?;
        let key = &self.new.about.key;
        for (from, marked) in &self.passed {
            db.prepare_cached("UPDATE held_by SET instance = ?1, earlier = MAX(earlier, ?2) WHERE session = ?3 AND instance = ?4")?
                .execute(params![key, marked, self.session, from])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
