//! The owner of the table, and what it does when asked.

use crate::clock_jumps::{ClockJumps, Moment};
use crate::closing::Closing;
use crate::disk::blocking;
use crate::engine::Engine;
use crate::facts::{Facts, Seen};
use crate::index::Writer;
use crate::link::Link;
use crate::mind::{Look, mind};
use crate::near::{self, Near};
use crate::refuse;
use crate::retain::{self, Finished};
use crate::serve::Listed;
use crate::shared::Shared;
use outlast_core::{IdRef, OnStop, Owner, Phase, ProcessId};
use outlast_store::dir::ProcessDir;
use outlast_store::meta::{Snapshot, flag};
use outlast_wire::code;
use outlast_wire::v1::Error;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The longest session, task, generation or name.
pub(crate) const LONGEST_NAME: usize = 256;
/// How long the end of the engine waits for what is being started.
const STARTING: Duration = Duration::from_secs(10);
/// How long the end of the engine waits for what goes along with it.
const WITHIN: Duration = Duration::from_secs(5);
const DAY: Duration = Duration::from_secs(86_400);

/// A process, as somebody sees it who may touch it.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) facts: Arc<Facts>,
    pub(crate) dir: ProcessDir,
    /// What becomes of it, while it is not over.
    pub(crate) changes: Option<watch::Receiver<Arc<Facts>>>,
    /// Held by whoever writes to its input.
    pub(crate) input: Arc<tokio::sync::Mutex<()>>,
    /// How many processes have its name, if it was found by the name.
    pub(crate) namesakes: u64,
}

impl View {
    pub(crate) fn id(&self) -> ProcessId {
        self.facts.id()
    }

    /// Waits until `so` holds of what is known, and returns that. If nothing more becomes of the process, what it came to.
    pub(crate) async fn until(&mut self, so: impl Fn(&Facts) -> bool) -> Arc<Facts> {
        if let Some(changes) = &mut self.changes {
            // That nobody tells any more means that the last word was said.
            let _last = changes.wait_for(|facts| so(facts)).await.map(|_| ());
            self.facts = Arc::clone(&changes.borrow());
        }
        Arc::clone(&self.facts)
    }
}

/// A process to be listed.
pub(crate) struct Listing {
    pub(crate) facts: Arc<Facts>,
    pub(crate) listed: Arc<Listed>,
}

/// What became of a reservation.
pub(crate) enum Reserved {
    /// It is yours: accept it or let it go.
    New,
    /// The same request was made before.
    Same(View),
    /// The same id is being started right now: ask again when this ends.
    Pending(watch::Receiver<()>),
}

/// Which processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// All there are.
    All,
    /// Those of which something may still become.
    Live,
}

/// How many there are.
pub(crate) struct Counts {
    pub(crate) running: u64,
    pub(crate) known: u64,
}

/// What the owner may be asked.
pub(crate) enum Ask {
    Facts {
        id: ProcessId,
        answer: oneshot::Sender<Option<Arc<Facts>>>,
    },
    Resolve {
        name: String,
        owner: Owner,
        answer: oneshot::Sender<Result<View, Error>>,
    },
    All {
        owner: Owner,
        which: Which,
        answer: oneshot::Sender<Vec<View>>,
    },
    Listing {
        owner: Owner,
        which: Which,
        answer: oneshot::Sender<Vec<Listing>>,
    },
    Reserve {
        id: ProcessId,
        hash: String,
        owner: Owner,
        answer: oneshot::Sender<Result<Reserved, Error>>,
    },
    Accept {
        facts: Box<Facts>,
        keeper: Option<Link>,
        answer: oneshot::Sender<View>,
    },
    LetGo {
        id: ProcessId,
    },
    Saw {
        id: ProcessId,
        seen: Box<Seen>,
        answer: oneshot::Sender<Option<Arc<Facts>>>,
    },
    Reachable {
        id: ProcessId,
        reachable: bool,
    },
    Consumed {
        id: ProcessId,
    },
    Take {
        id: ProcessId,
        answer: oneshot::Sender<bool>,
    },
    PutBack {
        facts: Arc<Facts>,
    },
    Interrupt {
        session: String,
        answer: oneshot::Sender<usize>,
    },
    Interrupts {
        session: String,
        answer: oneshot::Sender<watch::Receiver<u64>>,
    },
    Counts {
        answer: oneshot::Sender<Counts>,
    },
    /// End. Processes with `on_stop: kill` that this owner may touch are stopped; without an owner all keep running.
    Stop {
        by: Option<Owner>,
    },
}

/// One process in the table.
enum Slot {
    /// Being written down.
    Reserved {
        hash: String,
        owner: Owner,
        _pending: watch::Sender<()>,
        pending: watch::Receiver<()>,
    },
    Known(Entry),
}

struct Entry {
    facts: Arc<Facts>,
    /// Told of every change; none once it is over.
    tell: Option<watch::Sender<Arc<Facts>>>,
    input: Arc<tokio::sync::Mutex<()>>,
    listed: Arc<Listed>,
}

/// Everything that is known. One task has it.
pub(crate) struct State {
    engine: Engine,
    shared: Arc<Shared>,
    table: HashMap<ProcessId, Slot>,
    /// Those that are reserved or not over for good.
    live: HashSet<ProcessId>,
    /// What those take on disk that are over.
    finished_bytes: u64,
    interrupts: HashMap<String, watch::Sender<u64>>,
    minders: JoinSet<()>,
    removing: JoinSet<()>,
    writer: Option<Writer>,
    idle_since: Option<Instant>,
    jumps: ClockJumps,
}

impl State {
    pub(crate) fn new(engine: Engine, writer: Writer) -> Self {
        Self {
            jumps: ClockJumps::load(&engine.shared.home),
            shared: Arc::clone(&engine.shared),
            engine,
            table: HashMap::new(),
            live: HashSet::new(),
            finished_bytes: 0,
            interrupts: HashMap::new(),
            minders: JoinSet::new(),
            removing: JoinSet::new(),
            writer: Some(writer),
            idle_since: None,
        }
    }

    /// Answers until it is told to stop, or has had nothing to do for long enough.
    pub(crate) async fn run(mut self, mut asks: mpsc::Receiver<Ask>, processes: Vec<(Facts, bool)>) {
        for (facts, looked) in processes {
            self.insert(facts, if looked { Look::Done } else { Look::Do });
        }
        // From here on this engine is asked. A number that cannot be removed is replaced at the end.
        let _none = std::fs::remove_file(self.shared.home.waiting());
        self.look_at_clock();
        self.prune();
        self.prune_notices();
        let mut daily = tokio::time::interval_at(Instant::now() + DAY, DAY);
        let mut lost = std::pin::pin!(self.shared.own_home.lost());
        let by = loop {
            let leave_at = self.idle_deadline();
            tokio::select! {
                () = &mut lost => return self.abandon().await,
                ask = asks.recv() => match ask {
                    Some(Ask::Stop { by }) => break by,
                    None => break Some(Owner::default()),
                    Some(ask) => self.on(ask).await,
                },
                Some(_) = self.minders.join_next(), if !self.minders.is_empty() => {}
                Some(_) = self.removing.join_next(), if !self.removing.is_empty() => {}
                () = self.shared.clients.outside.changed.notified() => {}
                () = tokio::time::sleep_until(leave_at.unwrap_or_else(Instant::now)), if leave_at.is_some() => {
                    if self.owes_nothing().await {
                        tracing::info!("nothing to do: leaving");
                        break Some(Owner::default());
                    }
                    self.idle_since = None;
                }
                _ = daily.tick() => {
                    self.look_at_clock();
                    self.prune();
                    self.prune_notices();
                }
            }
        };
        self.close(asks, by.as_ref()).await;
    }

    /// When to leave, if nothing happens until then.
    fn idle_deadline(&mut self) -> Option<Instant> {
        let limit = self.shared.config.idle_exit;
        let idle = self.live.is_empty()
            && self.removing.is_empty()
            && self.shared.clients.outside.count() == 0
            && self.shared.barriers.count() == 0;
        if !idle || limit.is_zero() {
            self.idle_since = None;
            return None;
        }
        Some(*self.idle_since.get_or_insert_with(Instant::now) + limit)
    }

    async fn on(&mut self, ask: Ask) {
        // Whoever does not wait for the answer any more misses nothing.
        match ask {
            Ask::Facts { id, answer } => _ = answer.send(self.entry(id).map(|e| Arc::clone(&e.facts))),
            Ask::Resolve { name, owner, answer } => _ = answer.send(self.resolve(&name, &owner)),
            Ask::All { owner, which, answer } => _ = answer.send(self.all(&owner, which)),
            Ask::Listing { owner, which, answer } => _ = answer.send(self.listing(&owner, which)),
            Ask::Reserve { id, hash, owner, answer } => _ = answer.send(self.reserve(id, hash, owner)),
            Ask::Accept { facts, keeper, answer } => {
                let id = facts.id();
                self.table.remove(&id);
                self.insert(*facts, keeper.map_or(Look::Do, Look::Told));
                if let Some(view) = self.view(id) {
                    _ = answer.send(view);
                }
            }
            Ask::LetGo { id } => self.let_go(id),
            Ask::Saw { id, seen, answer } => _ = answer.send(self.saw(id, &seen)),
            Ask::Reachable { id, reachable } => {
                self.change(id, |facts| Facts { unreachable: !reachable, ..facts.clone() });
            }
            Ask::Consumed { id } => self.consumed(id).await,
            Ask::Take { id, answer } => {
                let is_final = self.entry(id).is_some_and(|e| e.facts.phase.is_final());
                if is_final {
                    self.drop_entry(id);
                }
                _ = answer.send(is_final);
            }
            Ask::PutBack { facts } => self.insert(Facts::clone(&facts), Look::Done),
            Ask::Interrupt { session, answer } => {
                let waiting = self.interrupts.get(&session).map_or(0, |tell| {
                    // Counted first: whoever is told may be gone by the next line.
                    let waiting = tell.receiver_count();
                    tell.send_modify(|n| *n += 1);
                    waiting
                });
                _ = answer.send(waiting);
            }
            Ask::Interrupts { session, answer } => {
                self.interrupts.retain(|_, tell| tell.receiver_count() > 0);
                let tell = self.interrupts.entry(session).or_insert_with(|| watch::channel(0).0);
                _ = answer.send(tell.subscribe());
            }
            Ask::Counts { answer } => {
                let running = self.live.iter().filter(|id| self.entry(**id).is_some_and(|e| !e.facts.is_over())).count();
                let known = self.table.values().filter(|s| matches!(s, Slot::Known(_))).count();
                _ = answer.send(Counts { running: running as u64, known: known as u64 });
            }
            // The loop that called has dealt with it.
            Ask::Stop { .. } => {}
        }
    }

    fn entry(&self, id: ProcessId) -> Option<&Entry> {
        match self.table.get(&id) {
            Some(Slot::Known(entry)) => Some(entry),
            Some(Slot::Reserved { .. }) | None => None,
        }
    }

    fn view(&self, id: ProcessId) -> Option<View> {
        let entry = self.entry(id)?;
        Some(View {
            facts: Arc::clone(&entry.facts),
            dir: self.shared.home.process(id),
            changes: entry.tell.as_ref().map(watch::Sender::subscribe),
            input: Arc::clone(&entry.input),
            namesakes: 0,
        })
    }

    /// The process that `given` means to this owner: a whole id, the beginning of one, or a name.
    fn resolve(&self, given: &str, owner: &Owner) -> Result<View, Error> {
        let may = |e: &Entry| owner.may_touch(&e.facts.kept.spec.owner);
        let parsed = given.parse::<IdRef>();
        if let Ok(IdRef::Exact(id)) = parsed
            && self.entry(id).is_some_and(may)
        {
            return self.view(id).ok_or_else(|| refuse::not_found(given, &[]));
        }
        let mut ids: Vec<ProcessId> = match &parsed {
            Ok(beginning @ IdRef::Prefix(_)) => {
                let ids = self.table.keys().filter(|id| beginning.matches(**id));
                ids.filter(|id| self.entry(**id).is_some_and(may)).copied().collect()
            }
            Ok(IdRef::Exact(_)) | Err(_) => Vec::new(),
        };
        let called: Vec<&Entry> = self.known_to(owner).filter(|e| e.facts.kept.spec.name.as_deref() == Some(given)).collect();
        let newest = called.iter().max_by_key(|e| (!e.facts.is_over(), e.facts.kept.accepted_at, e.facts.id()));
        // A name can look like the beginning of an id. Neither is preferred: the wrong process could be stopped.
        ids.extend(newest.map(|e| e.facts.id()));
        ids.sort_unstable();
        ids.dedup();
        match ids[..] {
            [id] => {
                let namesakes = called.len() as u64;
                self.view(id).map(|view| View { namesakes, ..view }).ok_or_else(|| refuse::not_found(given, &[]))
            }
            [] if given.is_empty() || given.len() > LONGEST_NAME || given.contains(char::is_control) => Err(refuse::bad_id(given)),
            [] => Err(refuse::not_found(given, &self.near(given, owner))),
            _ => Err(refuse::ambiguous(given, &ids)),
        }
    }

    /// Those that the owner may touch.
    fn known_to(&self, owner: &Owner) -> impl Iterator<Item = &Entry> {
        self.table.keys().filter_map(|id| self.entry(*id)).filter(|e| owner.may_touch(&e.facts.kept.spec.owner))
    }

    /// Which of those that the owner may touch could be meant.
    fn near(&self, name: &str, owner: &Owner) -> Vec<Near> {
        let known: Vec<_> = self.known_to(owner).map(|e| (e.facts.id(), e.facts.kept.spec.name.as_deref().unwrap_or_default())).collect();
        near::near(name, &known)
    }

    fn all(&self, owner: &Owner, which: Which) -> Vec<View> {
        let may = |id: &&ProcessId| self.entry(**id).is_some_and(|e| owner.may_touch(&e.facts.kept.spec.owner));
        match which {
            Which::All => self.table.keys().filter(may).filter_map(|id| self.view(*id)).collect(),
            Which::Live => self.live.iter().filter(may).filter_map(|id| self.view(*id)).collect(),
        }
    }

    fn listing(&self, owner: &Owner, which: Which) -> Vec<Listing> {
        let listing = |e: &Entry| Listing { facts: Arc::clone(&e.facts), listed: Arc::clone(&e.listed) };
        let may = |e: &&Entry| owner.may_touch(&e.facts.kept.spec.owner);
        match which {
            Which::All => self.table.keys().filter_map(|id| self.entry(*id)).filter(may).map(listing).collect(),
            Which::Live => self.live.iter().filter_map(|id| self.entry(*id)).filter(may).map(listing).collect(),
        }
    }

    fn reserve(&mut self, id: ProcessId, hash: String, owner: Owner) -> Result<Reserved, Error> {
        if self.shared.closing.stage() != Closing::Open {
            return Err(refuse::stopping());
        }
        match self.table.get(&id) {
            Some(Slot::Known(entry)) if entry.facts.kept.hash == hash && entry.facts.kept.spec.owner == owner => {
                return self.view(id).map(Reserved::Same).ok_or_else(|| refuse::not_found(&id.to_string(), &[]));
            }
            Some(Slot::Reserved { hash: same, owner: for_whom, pending, .. }) if *same == hash && *for_whom == owner => {
                return Ok(Reserved::Pending(pending.clone()));
            }
            Some(_) => {
                let what = format!("{id} is the name of another process, with another command, directory, environment, flag or owner");
                return Err(refuse::refusal(code::ID_TAKEN, what, "give another id, or none"));
            }
            None => {}
        }
        let most = self.shared.config.max_running;
        let running = self.live.iter().filter(|id| self.entry(**id).is_none_or(|e| !e.facts.is_over())).count();
        if running >= most {
            let what = format!("{running} processes are running, and {most} is the most");
            let hint = "stop some (`outlast list`, `outlast kill`), or raise max_running in the configuration";
            return Err(refuse::refusal(code::TOO_MANY, what, hint));
        }
        let (tell, pending) = watch::channel(());
        self.table.insert(id, Slot::Reserved { hash, owner, _pending: tell, pending });
        self.live.insert(id);
        Ok(Reserved::New)
    }

    fn let_go(&mut self, id: ProcessId) {
        if let Some(Slot::Reserved { .. }) = self.table.get(&id) {
            self.table.remove(&id);
            self.live.remove(&id);
        }
    }

    fn insert(&mut self, facts: Facts, look: Look) {
        let (id, is_final, bytes) = (facts.id(), facts.phase.is_final(), facts.bytes);
        let facts = Arc::new(facts);
        let tell = (!is_final).then(|| watch::channel(Arc::clone(&facts)).0);
        self.table.insert(id, Slot::Known(Entry { facts, tell, input: Arc::default(), listed: Arc::default() }));
        if is_final {
            self.live.remove(&id);
            self.finished_bytes += bytes;
            if matches!(look, Look::Done) {
                // The disk may have refused its end: then only the live copy has it, which must not go with the keepers.
                self.minders.spawn(mind(self.engine.clone(), id, look));
            }
        } else {
            self.live.insert(id);
            self.minders.spawn(mind(self.engine.clone(), id, look));
        }
    }

    fn saw(&mut self, id: ProcessId, seen: &Seen) -> Option<Arc<Facts>> {
        let (before, after) = self.change(id, |facts| facts.with(seen))?;
        if before.phase != after.phase {
            tracing::debug!(%id, from = before.phase.word(), to = after.phase.word(), "moved on");
        }
        if self.finished_bytes > self.shared.config.keep_bytes {
            self.look_at_clock();
            self.prune();
        }
        Some(after)
    }

    /// Changes what is known of a process and tells whoever waits for that.
    fn change(&mut self, id: ProcessId, how: impl FnOnce(&Facts) -> Facts) -> Option<(Arc<Facts>, Arc<Facts>)> {
        let Some(Slot::Known(entry)) = self.table.get_mut(&id) else { return None };
        let before = Arc::clone(&entry.facts);
        if before.phase.is_final() {
            return Some((Arc::clone(&before), before));
        }
        let after = Arc::new(how(&before));
        entry.facts = Arc::clone(&after);
        if let Some(tell) = &entry.tell {
            tell.send_replace(Arc::clone(&after));
        }
        if after.phase.is_final() {
            entry.tell = None;
            // How it was listed while it lived holds a file open.
            entry.listed = Arc::default();
            self.live.remove(&id);
            self.finished_bytes += after.bytes;
        }
        Some((before, after))
    }

    /// Its owner has seen its end: of what is to be removed, it goes first.
    async fn consumed(&mut self, id: ProcessId) {
        let Some(Slot::Known(entry)) = self.table.get_mut(&id) else { return };
        if entry.facts.consumed {
            return;
        }
        entry.facts = Arc::new(Facts { consumed: true, ..Facts::clone(&entry.facts) });
        if let Some(tell) = &entry.tell {
            tell.send_replace(Arc::clone(&entry.facts));
        }
        if self.shared.unwritten.has(id) {
            // Written with its news.
            return;
        }
        // The mark that counts is in the outbox; this is about the order of removal.
        self.shared.index.put_later(Facts::clone(&entry.facts)).await;
    }

    fn drop_entry(&mut self, id: ProcessId) {
        if let Some(Slot::Known(entry)) = self.table.remove(&id) {
            self.finished_bytes = self.finished_bytes.saturating_sub(entry.facts.bytes);
        }
    }

    /// Checks whether the clock was set since the last check: ages are measured without that.
    fn look_at_clock(&mut self) {
        let (config, shared) = (&self.shared.config, &self.shared);
        let boot_us = i64::try_from(config.clock.elapsed().as_micros()).unwrap_or(i64::MAX);
        let now = Moment { wall_us: shared.now().micros(), boot_us, boot: shared.boot };
        self.jumps.look(now, config.keep_for.max(config.keep_notices));
        if let Err(error) = self.jumps.save(&shared.home) {
            // The next engine then believes the clock, unless an earlier check was saved.
            tracing::debug!(%error, "cannot write down what the clock says");
        }
    }

    /// Removes what is over and too old, or too much.
    fn prune(&mut self) {
        let finished = self.table.values().filter_map(|slot| match slot {
            // Without its folder, the next engine would take one whose end is not recorded for lost.
            Slot::Known(Entry { facts, .. }) if facts.phase.is_final() && !self.shared.unwritten.has(facts.id()) => {
                Some(Finished { id: facts.id(), ended_at: facts.ended_at()?, bytes: facts.bytes, consumed: facts.consumed })
            }
            Slot::Known(_) | Slot::Reserved { .. } => None,
        });
        let config = &self.shared.config;
        for id in retain::too_much(finished.collect(), self.shared.now(), &self.jumps, config.keep_for, config.keep_bytes) {
            self.drop_entry(id);
            let engine = self.engine.clone();
            self.removing.spawn(async move {
                if let Err(error) = engine.remove(id).await {
                    // Its folder is there, so the next start finds it again.
                    tracing::warn!(%id, error = error.error, "cannot remove");
                }
            });
        }
    }

    /// Removes notices that were settled long ago.
    fn prune_notices(&mut self) {
        let shared = Arc::clone(&self.shared);
        // The sum of all jumps is added, so notices that were settled after a jump are kept a little longer.
        let keep = shared.config.keep_notices + self.jumps.forward();
        self.removing.spawn(async move {
            if let Err(error) = shared.outbox.prune(keep, shared.now()).await {
                // They are found again tomorrow.
                tracing::warn!(%error, "old notices cannot be removed");
            }
        });
    }

    /// Whether no sink has anything left to push.
    async fn owes_nothing(&self) -> bool {
        // Who cannot tell must not leave.
        self.shared.outbox.owed().await.is_ok_and(|owed| owed == 0)
    }

    /// Leaves the number of notices that wait for the user, for prompts that start no engine to find out.
    async fn leave_count_of_waiting(&self) {
        let file = self.shared.home.waiting();
        // Without the file nothing is shown in a prompt; the notices themselves are in the index.
        if let Ok(count @ 1..) = self.shared.outbox.waiting("", self.shared.now()).await {
            _ = blocking(move || std::fs::write(file, count.to_string())).await;
        }
    }

    /// Stops what is to stop with us, and writes what is left to write. Questions are answered until the end.
    async fn close(&mut self, mut asks: mpsc::Receiver<Ask>, by: Option<&Owner>) {
        self.shared.closing.set(Closing::Stopping);
        self.finish_starting(&mut asks).await;
        let doomed: Vec<View> = self.live.iter().filter(|id| self.dies_with_us(**id, by)).filter_map(|id| self.view(*id)).collect();
        let engine = self.engine.clone();
        let mut stops = tokio::spawn(async move { crate::serve::stop_with_the_engine(&engine, doomed).await });
        loop {
            tokio::select! {
                _ = &mut stops => break,
                Some(ask) = asks.recv() => self.on(ask).await,
                Some(_) = self.minders.join_next(), if !self.minders.is_empty() => {}
            }
        }
        self.let_within_end(&mut asks).await;
        asks.close();
        self.minders.shutdown().await;
        while self.removing.join_next().await.is_some() {}
        self.leave_count_of_waiting().await;
        self.shared.index.close().await;
        if let Some(writer) = self.writer.take() {
            // It has nothing left to write, so this is short.
            let _joined = blocking(move || writer.join()).await;
        }
        let shared = Arc::clone(&self.shared);
        // What it leaves behind the next engine removes.
        let _cleared = blocking(move || shared.spare_folders.clear()).await;
        self.shared.launcher.fork_server.leave().await;
        if let Some(place) = self.shared.place.clone() {
            let (nothing_runs, home) = (self.live.is_empty(), self.shared.home.clone());
            // Whatever is not removed now the next engine uses again.
            let _left = blocking(move || place.leave_behind(&home, nothing_runs)).await;
        }
        // Keepers take their sockets along, unless both were killed at the very end.
        crate::run_dir::sweep(&self.shared.sockets.dir(), |id| self.live.contains(&id));
        crate::run_dir::leave_behind(&self.shared.sockets.dir());
        self.shared.let_go_of_home();
        if let Some(place) = self.shared.place.clone() {
            // A keeper that leaves while we have the lock leaves this to us. It says so first and looks at the lock second; we let go first and look at what it said second.
            let leaves = |id: &ProcessId| Snapshot::read(&self.shared.home.process(*id)).is_ok_and(|meta| meta.has(flag::CLEAN));
            let all_leave = self.live.iter().all(leaves);
            let home = self.shared.home.clone();
            let _left = blocking(move || place.remove_if_empty(&home, all_leave)).await;
        }
        self.shared.closing.set(Closing::Closed);
    }

    /// The home is not ours any more: nothing is written, removed or stopped. Its processes keep running. An engine that finds the
    /// directory again finds them.
    async fn abandon(mut self) {
        tracing::error!(home = %self.shared.home.root.display(), "the state directory was removed or replaced: leaving");
        self.shared.closing.set(Closing::Stopping);
        self.minders.shutdown().await;
        self.removing.shutdown().await;
        self.shared.index.abandon(&self.shared.own_home);
        self.shared.launcher.fork_server.leave().await;
        if self.shared.own_home.is_removed() {
            // Otherwise the directory of the sockets may be another engine's by now: its name is made from the home's path.
            crate::run_dir::leave_behind(&self.shared.sockets.dir());
        }
        self.shared.let_go_of_home();
        self.shared.closing.set(Closing::Closed);
    }

    /// What goes along with us has something to put down: a call that is under way is ended, and how it went is written.
    async fn let_within_end(&mut self, asks: &mut mpsc::Receiver<Ask>) {
        let until = Instant::now() + WITHIN;
        let shared = Arc::clone(&self.shared);
        while shared.clients.within.count() > 0 {
            tokio::select! {
                () = shared.clients.within.changed.notified() => {}
                Some(ask) = asks.recv() => self.on(ask).await,
                () = tokio::time::sleep_until(until) => return tracing::warn!("a sink does not end; what it has is told again"),
            }
        }
    }

    /// What was taken is started: its caller waits for that, and nobody would come to do it later.
    async fn finish_starting(&mut self, asks: &mut mpsc::Receiver<Ask>) {
        let until = Instant::now() + STARTING;
        let starts = |id: &ProcessId, state: &Self| state.entry(*id).is_none_or(|e| e.facts.phase == Phase::Accepted);
        while self.live.iter().any(|id| starts(id, self)) {
            tokio::select! {
                Some(ask) = asks.recv() => self.on(ask).await,
                () = tokio::time::sleep_until(until) => return tracing::warn!("something is still starting; the next engine goes on with it"),
            }
        }
    }

    /// Whether it is to end with the engine. One that came after its stopper had been allowed to stop the engine, and is not theirs, goes on.
    fn dies_with_us(&self, id: ProcessId, by: Option<&Owner>) -> bool {
        let Some(by) = by else { return false };
        self.entry(id).is_some_and(|e| {
            let spec = &e.facts.kept.spec;
            spec.on_stop == OnStop::Kill && !e.facts.is_over() && by.may_touch(&spec.owner)
        })
    }
}
