//! The facts about every process of a home, in memory. Nothing here waits or reads a disk; the owner of the table does.

use crate::facts::{EndSeen, Facts, FolderLook};
use crate::instances::Asker;
use crate::listing::{LastEntry, Listing};
use crate::near::{self, Near};
use crate::refuse;
use crate::retain::Finished;
use outlast_core::{Belonging, IdRef, OnStop, Owner, Phase, ProcessId};
use outlast_store::dir::{Home, ProcessDir};
use outlast_wire::code;
use outlast_wire::v1::Error;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::watch;

/// The longest session, task, generation or name, in bytes.
pub(crate) const LONGEST_NAME: usize = 256;
/// A process, as a request about it sees it.
#[derive(Debug, Clone)]
pub(crate) struct ProcessView {
    pub(crate) facts: Arc<Facts>,
    pub(crate) dir: ProcessDir,
    /// Receives its changes, until its facts are final.
    pub(crate) changes: Option<watch::Receiver<Arc<Facts>>>,
    /// Locked while its input is written, so that writes do not mix.
    pub(crate) input: Arc<tokio::sync::Mutex<()>>,
    /// The processes of its name, if it was looked up by name.
    pub(crate) namesakes: Namesakes,
}

/// Counts of the processes with one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Namesakes {
    pub(crate) all: u64,
    pub(crate) running: u64,
    /// Those that were accepted after the one that the name means.
    pub(crate) newer: u64,
}

impl Namesakes {
    fn of(meant: &TableEntry, called: &[&TableEntry]) -> Self {
        let age = |e: &TableEntry| (e.facts.kept.accepted_at, e.facts.id());
        let count = |is: &dyn Fn(&TableEntry) -> bool| called.iter().filter(|e| is(e)).count() as u64;
        Self { all: called.len() as u64, running: count(&|e| !e.facts.is_over()), newer: count(&|e| age(e) > age(meant)) }
    }
}

impl ProcessView {
    pub(crate) fn id(&self) -> ProcessId {
        self.facts.id()
    }

    /// Waits until `so` is true of the facts, and returns them. Also returns if they become final first.
    pub(crate) async fn until(&mut self, so: impl Fn(&Facts) -> bool) -> Arc<Facts> {
        if let Some(changes) = &mut self.changes {
            // A sender that is gone means that the facts are final.
            let _last = changes.wait_for(|facts| so(facts)).await.map(|_| ());
            self.facts = Arc::clone(&changes.borrow());
        }
        Arc::clone(&self.facts)
    }
}

/// The answer to a reservation.
pub(crate) enum Reservation {
    /// The id is reserved: accept it or let it go.
    New,
    /// The same request was made before.
    Same(ProcessView),
    /// The same id is being started right now: ask again when this ends.
    Pending(watch::Receiver<()>),
}

/// A choice of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhichProcesses {
    /// All processes.
    All,
    /// Processes whose facts are not final.
    Live,
}

/// Counts of the table.
pub(crate) struct Counts {
    pub(crate) running: u64,
    pub(crate) known: u64,
}

/// A look into a folder, applied to the facts.
pub(crate) struct AppliedLook {
    pub(crate) before: Arc<Facts>,
    pub(crate) after: Arc<Facts>,
    pub(crate) seen: FolderLook,
}

/// One process in the table.
enum Slot {
    /// A request that is not on disk yet.
    Reservation {
        hash: String,
        owner: Owner,
        _pending: watch::Sender<()>,
        pending: watch::Receiver<()>,
    },
    Known(TableEntry),
}

struct TableEntry {
    facts: Arc<Facts>,
    /// Told of every change; none once the facts are final.
    tell: Option<watch::Sender<Arc<Facts>>>,
    input: Arc<tokio::sync::Mutex<()>>,
    listed: Arc<LastEntry>,
}

/// All processes.
pub(crate) struct Table {
    home: Home,
    /// How many may run at a time.
    max_running: usize,
    slots: HashMap<ProcessId, Slot>,
    /// Reserved ids, and processes whose facts are not final.
    live: HashSet<ProcessId>,
    /// The disk use of finished processes, in bytes.
    finished_bytes: u64,
    /// By session: changed to interrupt its waits.
    interrupts: HashMap<String, watch::Sender<u64>>,
}

impl Table {
    pub(crate) fn new(home: &Home, max_running: usize) -> Self {
        Self { home: home.clone(), max_running, slots: HashMap::new(), live: HashSet::new(), finished_bytes: 0, interrupts: HashMap::new() }
    }

    /// Reserved ids, and processes whose facts are not final.
    pub(crate) fn live(&self) -> &HashSet<ProcessId> {
        &self.live
    }

    pub(crate) fn finished_bytes(&self) -> u64 {
        self.finished_bytes
    }

    pub(crate) fn facts(&self, id: ProcessId) -> Option<&Arc<Facts>> {
        self.entry(id).map(|entry| &entry.facts)
    }

    fn entry(&self, id: ProcessId) -> Option<&TableEntry> {
        match self.slots.get(&id) {
            Some(Slot::Known(entry)) => Some(entry),
            Some(Slot::Reservation { .. }) | None => None,
        }
    }

    pub(crate) fn view(&self, id: ProcessId) -> Option<ProcessView> {
        let entry = self.entry(id)?;
        Some(ProcessView {
            facts: Arc::clone(&entry.facts),
            dir: self.home.process(id),
            changes: entry.tell.as_ref().map(watch::Sender::subscribe),
            input: Arc::clone(&entry.input),
            namesakes: Namesakes::default(),
        })
    }

    /// The process that `given` means for this owner: a whole id, the beginning of one, or a name. Of several with the name, one of the
    /// asker's own conversation comes first.
    pub(crate) fn resolve(&self, given: &str, owner: &Owner, asker: Option<&Asker>) -> Result<ProcessView, Error> {
        let may = |e: &TableEntry| owner.may_touch(&e.facts.kept.spec.owner);
        let parsed = given.parse::<IdRef>();
        if let Ok(IdRef::Exact(id)) = parsed
            && self.entry(id).is_some_and(may)
        {
            return self.view(id).ok_or_else(|| refuse::not_found(given, &[]));
        }
        let mut ids: Vec<ProcessId> = match &parsed {
            Ok(beginning @ IdRef::Prefix(_)) => {
                let ids = self.slots.keys().filter(|id| beginning.matches(**id));
                ids.filter(|id| self.entry(**id).is_some_and(may)).copied().collect()
            }
            Ok(IdRef::Exact(_)) | Err(_) => Vec::new(),
        };
        let called: Vec<&TableEntry> = self.known_to(owner).filter(|e| e.facts.kept.spec.name.as_deref() == Some(given)).collect();
        let is_own = |e: &TableEntry| asker.is_none_or(|asker| asker.belonging(e.facts.id()) == Belonging::Own);
        let newest = called.iter().max_by_key(|e| (is_own(e), !e.facts.is_over(), e.facts.kept.accepted_at, e.facts.id()));
        // A name can look like the beginning of an id. Neither is preferred, because the wrong process could be stopped.
        ids.extend(newest.map(|e| e.facts.id()));
        ids.sort_unstable();
        ids.dedup();
        match ids[..] {
            [id] => {
                let namesakes = newest.map(|newest| Namesakes::of(newest, &called)).unwrap_or_default();
                self.view(id).map(|view| ProcessView { namesakes, ..view }).ok_or_else(|| refuse::not_found(given, &[]))
            }
            [] if given.is_empty() || given.len() > LONGEST_NAME || given.contains(char::is_control) => Err(refuse::bad_id(given)),
            [] => Err(refuse::not_found(given, &self.near(given, owner))),
            _ => Err(refuse::ambiguous(given, &ids)),
        }
    }

    /// The processes that the owner may touch.
    fn known_to(&self, owner: &Owner) -> impl Iterator<Item = &TableEntry> {
        self.slots.keys().filter_map(|id| self.entry(*id)).filter(|e| owner.may_touch(&e.facts.kept.spec.owner))
    }

    /// The processes that a mistyped name may mean.
    fn near(&self, name: &str, owner: &Owner) -> Vec<Near> {
        let known: Vec<_> = self.known_to(owner).map(|e| (e.facts.id(), e.facts.kept.spec.name.as_deref().unwrap_or_default())).collect();
        near::near(name, &known)
    }

    pub(crate) fn all(&self, owner: &Owner, which: WhichProcesses) -> Vec<ProcessView> {
        let may = |id: &&ProcessId| self.entry(**id).is_some_and(|e| owner.may_touch(&e.facts.kept.spec.owner));
        match which {
            WhichProcesses::All => self.slots.keys().filter(may).filter_map(|id| self.view(*id)).collect(),
            WhichProcesses::Live => self.live.iter().filter(may).filter_map(|id| self.view(*id)).collect(),
        }
    }

    pub(crate) fn listing(&self, owner: &Owner, which: WhichProcesses) -> Vec<Listing> {
        let listing = |e: &TableEntry| Listing { facts: Arc::clone(&e.facts), listed: Arc::clone(&e.listed) };
        let may = |e: &&TableEntry| owner.may_touch(&e.facts.kept.spec.owner);
        match which {
            WhichProcesses::All => self.slots.keys().filter_map(|id| self.entry(*id)).filter(may).map(listing).collect(),
            WhichProcesses::Live => self.live.iter().filter_map(|id| self.entry(*id)).filter(may).map(listing).collect(),
        }
    }

    pub(crate) fn reserve(&mut self, id: ProcessId, hash: String, owner: Owner) -> Result<Reservation, Error> {
        match self.slots.get(&id) {
            Some(Slot::Known(entry)) if entry.facts.kept.hash == hash && entry.facts.kept.spec.owner == owner => {
                return self.view(id).map(Reservation::Same).ok_or_else(|| refuse::not_found(&id.to_string(), &[]));
            }
            Some(Slot::Reservation { hash: same, owner: for_whom, pending, .. }) if *same == hash && *for_whom == owner => {
                return Ok(Reservation::Pending(pending.clone()));
            }
            Some(_) => {
                let what = format!("{id} is the name of another process, with another command, directory, environment, flag or owner");
                return Err(refuse::refusal(code::ID_TAKEN, what, "give another id, or none"));
            }
            None => {}
        }
        let most = self.max_running;
        let running = self.live.iter().filter(|id| self.entry(**id).is_none_or(|e| !e.facts.is_over())).count();
        if running >= most {
            let what = format!("{running} processes are running, and {most} is the most");
            let hint = "stop some (`outlast list`, `outlast kill`), or raise max_running in the configuration";
            return Err(refuse::refusal(code::TOO_MANY, what, hint));
        }
        let (tell, pending) = watch::channel(());
        self.slots.insert(id, Slot::Reservation { hash, owner, _pending: tell, pending });
        self.live.insert(id);
        Ok(Reservation::New)
    }

    pub(crate) fn let_go(&mut self, id: ProcessId) {
        if let Some(Slot::Reservation { .. }) = self.slots.get(&id) {
            self.slots.remove(&id);
            self.live.remove(&id);
        }
    }

    /// Puts a process into the table, also in place of its reservation.
    pub(crate) fn insert(&mut self, facts: Arc<Facts>) {
        let (id, is_final) = (facts.id(), facts.phase.is_final());
        if is_final {
            self.live.remove(&id);
            self.finished_bytes += facts.bytes;
        } else {
            self.live.insert(id);
        }
        let tell = (!is_final).then(|| watch::channel(Arc::clone(&facts)).0);
        self.slots.insert(id, Slot::Known(TableEntry { facts, tell, input: Arc::default(), listed: Arc::default() }));
    }

    /// Replaces the facts of a process and notifies the calls that wait for a change.
    pub(crate) fn change(&mut self, id: ProcessId, how: impl FnOnce(&Arc<Facts>) -> Arc<Facts>) -> Option<(Arc<Facts>, Arc<Facts>)> {
        let Some(Slot::Known(entry)) = self.slots.get_mut(&id) else { return None };
        let before = Arc::clone(&entry.facts);
        if before.phase.is_final() {
            return Some((Arc::clone(&before), before));
        }
        let after = how(&before);
        entry.facts = Arc::clone(&after);
        if let Some(tell) = &entry.tell {
            tell.send_replace(Arc::clone(&after));
        }
        if after.phase.is_final() {
            entry.tell = None;
            // Its last list entry holds a file open.
            entry.listed = Arc::default();
            self.live.remove(&id);
            self.finished_bytes += after.bytes;
        }
        Some((before, after))
    }

    /// Applies a look. Returns the facts before and after.
    pub(crate) fn apply_look(&mut self, look: &AppliedLook) -> Option<(Arc<Facts>, Arc<Facts>)> {
        // The look is applied to the current facts, so that later changes are not lost.
        let after = |known: &Arc<Facts>| match Arc::ptr_eq(known, &look.before) {
            true => Arc::clone(&look.after),
            false => Arc::new(known.with(&look.seen)),
        };
        self.change(look.before.id(), after)
    }

    /// Records that the owner of a process has seen its end. Returns the new facts if that changed them.
    pub(crate) fn consumed(&mut self, id: ProcessId, seen: EndSeen) -> Option<Arc<Facts>> {
        let Some(Slot::Known(entry)) = self.slots.get_mut(&id) else { return None };
        if entry.facts.consumed >= seen {
            return None;
        }
        entry.facts = Arc::new(Facts { consumed: seen, ..Facts::clone(&entry.facts) });
        if let Some(tell) = &entry.tell {
            tell.send_replace(Arc::clone(&entry.facts));
        }
        Some(Arc::clone(&entry.facts))
    }

    /// Removes a process from the table if its facts are final. Returns whether it did.
    pub(crate) fn take(&mut self, id: ProcessId) -> bool {
        let is_final = self.entry(id).is_some_and(|e| e.facts.phase.is_final());
        if is_final {
            self.drop_entry(id);
        }
        is_final
    }

    /// Removes a process from the table.
    pub(crate) fn drop_entry(&mut self, id: ProcessId) {
        if let Some(Slot::Known(entry)) = self.slots.remove(&id) {
            self.finished_bytes = self.finished_bytes.saturating_sub(entry.facts.bytes);
        }
    }

    /// The finished processes that retention may remove.
    pub(crate) fn finished(&self, may_go: impl Fn(ProcessId) -> bool) -> Vec<Finished> {
        let finished = self.slots.values().filter_map(|slot| match slot {
            Slot::Known(TableEntry { facts, .. }) if facts.phase.is_final() && may_go(facts.id()) => {
                Some(Finished { id: facts.id(), ended_at: facts.ended_at()?, bytes: facts.bytes, consumed: facts.consumed })
            }
            Slot::Known(_) | Slot::Reservation { .. } => None,
        });
        finished.collect()
    }

    /// Interrupts the waits of a session. Returns how many there were.
    pub(crate) fn interrupt(&self, session: &str) -> usize {
        self.interrupts.get(session).map_or(0, |tell| {
            // Counted first: a wait may end before the next line.
            let waiting = tell.receiver_count();
            tell.send_modify(|n| *n += 1);
            waiting
        })
    }

    /// Changes when the waits of this session are interrupted.
    pub(crate) fn interrupts(&mut self, session: String) -> watch::Receiver<u64> {
        self.interrupts.retain(|_, tell| tell.receiver_count() > 0);
        self.interrupts.entry(session).or_insert_with(|| watch::channel(0).0).subscribe()
    }

    pub(crate) fn counts(&self) -> Counts {
        let running = self.live.iter().filter(|id| self.entry(**id).is_some_and(|e| !e.facts.is_over())).count();
        let known = self.slots.values().filter(|s| matches!(s, Slot::Known(_))).count();
        Counts { running: running as u64, known: known as u64 }
    }

    /// Whether a command is about to be started.
    pub(crate) fn is_starting(&self) -> bool {
        self.live.iter().any(|id| self.entry(*id).is_none_or(|e| e.facts.phase == Phase::Accepted))
    }

    /// The processes that end with an engine that this owner stops. A process of another owner that was started after the stop was allowed
    /// keeps running.
    pub(crate) fn doomed(&self, by: &Owner) -> Vec<ProcessView> {
        let is_doomed = |id: &&ProcessId| {
            self.entry(**id).is_some_and(|e| {
                let spec = &e.facts.kept.spec;
                spec.on_stop == OnStop::Kill && !e.facts.is_over() && by.may_touch(&spec.owner)
            })
        };
        self.live.iter().filter(is_doomed).filter_map(|id| self.view(*id)).collect()
    }
}
