//! From looks into folders to facts and notices.
//!
//! What a look shows is written with the notices that follow from it, before any client hears of it. If the disk refuses that, the folder
//! is read again until the write succeeds.

use crate::clients::{Client, ClientKind, Clients};
use crate::closing::{Closing, Shutdown};
use crate::config::Clock;
use crate::disk::{AGAIN, Disk, blocking};
use crate::facts::{EndSeen, Facts, FolderLook};
use crate::handle::TableHandle;
use crate::index::{Index, IndexError};
use crate::mutex::lock;
use crate::notices::{Outbox, ProcessChange, Waiters};
use crate::points::point;
use crate::refuse;
use crate::table::{AppliedLook, ProcessView};
use outlast_core::{ProcessId, Time};
use outlast_store::dir::Home;
use outlast_store::meta::Snapshot;
use outlast_text::Redactor;
use outlast_wire::v1::Error;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Turns looks into folders into facts and notices.
pub(crate) struct Intake {
    pub(crate) table: TableHandle,
    pub(crate) outbox: Outbox,
    pub(crate) index: Index,
    pub(crate) disk: Arc<Disk>,
    pub(crate) home: Home,
    pub(crate) clock: Clock,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) closing: Shutdown,
    pub(crate) unsaved: UnsavedProcesses,
    /// Processes whose files this engine could not read. The next engine makes their notices.
    pub(crate) unreadable: Mutex<Vec<ProcessId>>,
}

/// A change of a process while no engine ran.
pub(crate) struct MissedChange {
    pub(crate) before: Facts,
    pub(crate) after: Facts,
    pub(crate) seen: FolderLook,
    /// Whether its notices may have been delivered: the record of that is lost.
    pub(crate) maybe_told: bool,
}

/// A look into a folder, and the facts that it leads to.
#[derive(Debug, Clone)]
pub(crate) struct Current {
    pub(crate) facts: Arc<Facts>,
    pub(crate) seen: FolderLook,
}

impl Intake {
    /// The current content of the folder, which may be newer than the table.
    pub(crate) async fn look(self: &Arc<Self>, view: &ProcessView) -> Result<Current, Error> {
        let (dir, cursor, id) = (view.dir.clone(), view.facts.cursor, view.id());
        let look = self.disk.at(move || FolderLook::look(&dir, cursor)).await;
        let seen = look.map_err(|e| refuse::disk(format!("cannot look at {id}"), &e))?;
        let facts = view.facts.with(&seen);
        if facts.phase == view.facts.phase {
            return Ok(Current { facts: Arc::new(facts), seen });
        }
        // The notice is written before the caller is answered.
        let known = self.apply_look(id, seen.clone()).await;
        Ok(Current { facts: known.unwrap_or_else(|| Arc::new(facts)), seen })
    }

    /// Applies a look into the folder, and returns the new facts.
    ///
    /// The notices that follow from it are on disk before the table has it, so that a waiter that is woken by an end finds its notice.
    pub(crate) async fn apply_look(self: &Arc<Self>, id: ProcessId, seen: FolderLook) -> Option<Arc<Facts>> {
        let before = self.table.facts(id).await?;
        let is_final = before.phase.is_final();
        let after = if is_final { Arc::clone(&before) } else { Arc::new(before.with(&seen)) };
        if !is_final {
            self.write_notices(&before, &after, &seen).await;
        }
        let noted = seen.meta.as_ref().map(|meta| meta.noted);
        let facts = self.table.apply_look(AppliedLook { before, after, seen }).await?;
        self.acknowledge(&facts, noted);
        Some(facts)
    }

    /// The end of a process is about to be sent in an answer, so no other taker gets its notice. If the disk refuses that notice for now, it
    /// is written as a possible repeat: there is no row yet that could hold the answer.
    pub(crate) async fn answer_begins(&self, id: ProcessId, now: Time) -> Result<(), IndexError> {
        // First: work of the index is done in its order.
        self.unsaved.answer_begins(id);
        self.outbox.answer_begins(id, now).await
    }

    /// The owner of a process has seen its end.
    pub(crate) async fn end_seen(&self, id: ProcessId, how: &'static str, now: Time) {
        self.outbox.end_seen_later(id, how, now).await;
        self.table.consumed(id, EndSeen::Seen).await;
    }

    /// Acknowledges to the keepers of a process what was written of it, which they wait for. `noted`: the last acknowledgement.
    fn acknowledge(&self, facts: &Facts, noted: Option<u64>) {
        let is_so = outlast_store::meta::noted(facts.cursor, facts.is_over());
        if facts.kept.spec.tell.is_nothing() || noted.is_none_or(|last| last >= is_so) || self.unsaved.has(facts.id()) {
            return;
        }
        if let Err(error) = Snapshot::note(&self.home.process(facts.id()), is_so) {
            // Without the acknowledgement they leave after a time limit, and may start an engine once too often.
            tracing::debug!(id = %facts.id(), %error, "cannot acknowledge a record to its keepers");
        }
    }

    async fn write_notices(self: &Arc<Self>, before: &Arc<Facts>, after: &Arc<Facts>, seen: &FolderLook) {
        if self.unsaved.more(before.id()) {
            // The task that tries to write what the disk refused reads the folder again.
            return;
        }
        let news = if after.kept.spec.tell.is_nothing() {
            self.news_of(before, after, seen)
        } else {
            let (intake, before, after, seen) = (Arc::clone(self), Arc::clone(before), Arc::clone(after), seen.clone());
            self.disk.at(move || intake.news_of(&before, &after, &seen)).await.ok().flatten()
        };
        match news {
            Some(news) if news.may_give_a_notice() => {
                self.write(vec![UnsavedChange { before: Arc::clone(before), news: Some(news) }]).await;
            }
            // The folder says so already, so no caller has to wait for this.
            Some(news) => self.index.put_later(news.into_facts()).await,
            None => {}
        }
    }

    /// Writes what happened to processes while no engine ran, with its notices.
    pub(crate) async fn catch_up(self: &Arc<Self>, missed: Vec<MissedChange>) {
        if missed.is_empty() {
            return;
        }
        let intake = Arc::clone(self);
        let changes = blocking(move || {
            let of = |m: MissedChange| {
                let news = intake.news_of(&m.before, &m.after, &m.seen)?;
                let news = if m.maybe_told { news.maybe_told() } else { news };
                Some(UnsavedChange { before: Arc::new(m.before), news: Some(news) })
            };
            missed.into_iter().filter_map(of).collect::<Vec<_>>()
        });
        match changes.await {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => self.write(changes).await,
            Err(error) => tracing::error!(%error, "cannot read what happened while no engine ran"),
        }
    }

    /// Acknowledges the ends of finished processes to their keepers. The supervisors do that for the other processes.
    pub(crate) fn acknowledge_all(&self, processes: &[(Facts, bool)]) {
        let over = processes.iter().filter(|(facts, looked)| *looked && facts.is_over() && !facts.kept.spec.tell.is_nothing());
        for (facts, _) in over {
            // Without a folder there are no keepers.
            if let Ok(meta) = Snapshot::read(&self.home.process(facts.id())) {
                self.acknowledge(facts, Some(meta.noted));
            }
        }
    }

    /// Writes changes. If the disk refuses, this is tried again for as long as it takes; the folders keep the facts meanwhile.
    async fn write(self: &Arc<Self>, mut changes: Vec<UnsavedChange>) {
        point!("news.before_commit");
        let written = self.outbox.advance(self.all_of(&changes), self.clock.now()).await;
        point!("news.after_commit");
        let Err(error) = written else {
            // Clients that wait for this change are answered first.
            return tokio::task::yield_now().await;
        };
        tracing::error!(%error, "a notice cannot be written yet");
        changes.retain(|c| self.unsaved.begin(c.before.id()));
        for one in &changes {
            self.note_shown_unsaved(one.before.id(), true);
        }
        let intake = Arc::clone(self);
        tokio::spawn(async move {
            // An engine with a notice to write is not idle.
            let _busy = Client::new(&intake.clients, ClientKind::Outside);
            while !changes.is_empty() && intake.closing.stage() == Closing::Open {
                // No descriptor reports that a disk has space again.
                tokio::time::sleep(AGAIN).await;
                changes = intake.read_again(changes).await;
                if intake.outbox.advance(intake.all_of(&changes), intake.clock.now()).await.is_ok() {
                    changes.retain_mut(|c| {
                        c.written();
                        let is_done = intake.unsaved.done(c.before.id());
                        if is_done {
                            intake.note_shown_unsaved(c.before.id(), false);
                        }
                        !is_done
                    });
                }
            }
        });
    }

    /// The changes as they are written.
    fn all_of(&self, changes: &[UnsavedChange]) -> Vec<ProcessChange> {
        let written = |c: &UnsavedChange| Some(c.news.clone()?.unless_answered(self.unsaved.answered(c.before.id())));
        changes.iter().filter_map(written).collect()
    }

    /// Clients see changes that the disk refuses, and may consume them. If this engine then dies, the next one must mark the notice as a
    /// repeat.
    fn note_shown_unsaved(&self, id: ProcessId, is_shown: bool) {
        if let Err(error) = Snapshot::note_shown_unsaved(&self.home.process(id), is_shown) {
            // A full file system that copies on write refuses this, too; then the live copy says it for as long as a keeper lives.
            tracing::debug!(%id, %error, "cannot write down that an end was shown");
        }
    }

    /// Reads the folders again for the changes that could not be written.
    async fn read_again(self: &Arc<Self>, changes: Vec<UnsavedChange>) -> Vec<UnsavedChange> {
        let mut seen_by_owner = HashMap::new();
        for one in &changes {
            self.unsaved.reads(one.before.id());
            if let Some(facts) = self.table.facts(one.before.id()).await {
                seen_by_owner.insert(one.before.id(), facts.consumed);
            }
        }
        let (intake, same) = (Arc::clone(self), changes.clone());
        let again = blocking(move || {
            let again = |c: UnsavedChange| {
                let dir = intake.home.process(c.before.id());
                // The folder was removed meanwhile, so there is nothing newer.
                if !dir.path.exists() {
                    return c;
                }
                let seen = FolderLook::look(&dir, c.before.cursor);
                let after = Facts { consumed: seen_by_owner.get(&c.before.id()).copied().unwrap_or(EndSeen::Not), ..c.before.with(&seen) };
                let news = ProcessChange::of((&intake.redactor, &intake.waiters), &c.before, &after, &seen, &dir);
                let news = news.map(|news| news.instead_of(c.news.as_ref()));
                UnsavedChange { news: news.or(c.news), before: c.before }
            };
            changes.into_iter().map(again).collect()
        });
        again.await.unwrap_or(same)
    }

    /// What happened to a process. A panic about one process must not cost other processes their notices. Its own are left to the next
    /// engine, which may be able to read its files.
    fn news_of(&self, before: &Facts, after: &Facts, seen: &FolderLook) -> Option<ProcessChange> {
        let id = after.id();
        let read = catch_unwind(AssertUnwindSafe(|| {
            outlast_store::points::reach(&format!("news.of.{id}"));
            ProcessChange::of((&self.redactor, &self.waiters), before, after, seen, &self.home.process(id))
        }));
        read.unwrap_or_else(|_| {
            tracing::error!(%id, "reading its files panicked: the next engine that can read them makes its notices");
            // Until its notices are written, its row must not be ahead of them.
            self.unsaved.begin(id);
            lock(&self.unreadable).push(id);
            None
        })
    }
}

/// A change that is not on disk yet, and the facts before it.
#[derive(Clone)]
struct UnsavedChange {
    before: Arc<Facts>,
    /// Nothing once it is written.
    news: Option<ProcessChange>,
}

impl UnsavedChange {
    fn written(&mut self) {
        if let Some(news) = self.news.take() {
            self.before = Arc::new(news.into_facts());
        }
    }
}

/// The processes whose changes the disk refused. One task tries again to write them. Until then nothing else is written of these processes:
/// the next engine would believe an index that is ahead of the notices.
#[derive(Debug, Default)]
pub(crate) struct UnsavedProcesses(Mutex<HashMap<ProcessId, UnsavedProcess>>);

#[derive(Debug, Default)]
struct UnsavedProcess {
    /// There is more than the task has read.
    more: bool,
    /// An answer with the end was begun.
    answered: Arc<AtomicBool>,
}

impl UnsavedProcesses {
    /// Registers the caller as the task that writes this process. `false` if another task does already; that task is told that there is
    /// more.
    fn begin(&self, id: ProcessId) -> bool {
        !self.more(id) && lock(&self.0).insert(id, UnsavedProcess::default()).is_none()
    }

    /// Tells the task that writes the changes of a process that there is more. Returns whether there is such a task.
    fn more(&self, id: ProcessId) -> bool {
        lock(&self.0).get_mut(&id).map(|process| process.more = true).is_some()
    }

    /// Whether a change of this process is not written yet.
    pub(crate) fn has(&self, id: ProcessId) -> bool {
        lock(&self.0).contains_key(&id)
    }

    /// An answer with the end of this process is about to be sent.
    fn answer_begins(&self, id: ProcessId) {
        if let Some(process) = lock(&self.0).get(&id) {
            process.answered.store(true, Ordering::SeqCst);
        }
    }

    /// Whether such an answer was begun, if the disk refused a change of this process.
    fn answered(&self, id: ProcessId) -> Option<Arc<AtomicBool>> {
        lock(&self.0).get(&id).map(|process| Arc::clone(&process.answered))
    }

    /// Called before the folder is read again. What comes later needs another read.
    fn reads(&self, id: ProcessId) {
        lock(&self.0).entry(id).and_modify(|process| process.more = false);
    }

    /// Everything that was read is written. `false` if there is more by now.
    fn done(&self, id: ProcessId) -> bool {
        let mut all = lock(&self.0);
        let done = all.get(&id).is_none_or(|process| !process.more);
        if done {
            all.remove(&id);
        }
        done
    }
}
