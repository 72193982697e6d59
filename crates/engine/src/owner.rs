//! The owner of the table: one task answers all requests, in order, and ends the engine.

use crate::clock_jumps::{ClockJumps, Moment};
use crate::closing::Closing;
use crate::disk::blocking;
use crate::facts::{EndSeen, Facts};
use crate::handle::TableRequest;
use crate::index::Writer;
use crate::left_behind::may_have_left;
use crate::parts::Parts;
use crate::stop::stop_with_the_engine;
use crate::supervise::{Known, supervise};
use crate::table::{AppliedLook, ProcessView, Reservation, Table};
use crate::{refuse, remove, retain};
use outlast_core::{Owner, ProcessId};
use outlast_store::meta::{Snapshot, flag};
use outlast_wire::v1::Error;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// How long the end of the engine waits for starts in progress.
const STARTING: Duration = Duration::from_secs(10);
/// How long the end of the engine waits for the tasks beside it, such as sinks.
const WITHIN: Duration = Duration::from_secs(5);
const DAY: Duration = Duration::from_secs(86_400);

/// The task that owns the table.
pub(crate) struct TableOwner {
    parts: Arc<Parts>,
    table: Table,
    supervisors: JoinSet<()>,
    removing: JoinSet<()>,
    /// Searches for what old processes have left running, before they are removed.
    look_at_left: Option<JoinHandle<()>>,
    writer: Option<Writer>,
    idle_since: Option<Instant>,
    jumps: ClockJumps,
}

impl TableOwner {
    pub(crate) fn new(parts: Arc<Parts>, writer: Writer) -> Self {
        Self {
            jumps: ClockJumps::load(&parts.home),
            table: Table::new(&parts.home, parts.config.max_running),
            supervisors: JoinSet::new(),
            removing: JoinSet::new(),
            look_at_left: None,
            writer: Some(writer),
            idle_since: None,
            parts,
        }
    }

    /// Answers requests until the engine is stopped, or has been idle for long enough.
    pub(crate) async fn run(mut self, mut asks: mpsc::Receiver<TableRequest>, processes: Vec<(Facts, bool)>) {
        for (facts, looked) in processes {
            self.insert(facts, if looked { Known::FromRecovery } else { Known::ReadFolder });
        }
        // From here on prompts ask this engine. If the file cannot be removed, it is replaced at the end.
        let _none = std::fs::remove_file(self.parts.home.waiting());
        self.look_at_clock();
        self.prune();
        self.prune_notices();
        let mut daily = tokio::time::interval_at(Instant::now() + DAY, DAY);
        let mut lost = std::pin::pin!(self.parts.own_home.lost());
        let by = loop {
            let leave_at = self.idle_deadline();
            tokio::select! {
                () = &mut lost => return self.abandon().await,
                ask = asks.recv() => match ask {
                    Some(TableRequest::Stop { by }) => break by,
                    None => break Some(Owner::default()),
                    Some(ask) => self.on(ask).await,
                },
                Some(_) = self.supervisors.join_next(), if !self.supervisors.is_empty() => {}
                Some(_) = self.removing.join_next(), if !self.removing.is_empty() => {}
                () = self.parts.clients.outside.changed.notified() => {}
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

    /// When the engine ends if nothing happens until then.
    fn idle_deadline(&mut self) -> Option<Instant> {
        let limit = self.parts.config.idle_exit;
        let idle = self.table.live().is_empty()
            && self.removing.is_empty()
            && self.parts.clients.outside.count() == 0
            && self.parts.barriers.count() == 0;
        if !idle || limit.is_zero() {
            self.idle_since = None;
            return None;
        }
        Some(*self.idle_since.get_or_insert_with(Instant::now) + limit)
    }

    async fn on(&mut self, ask: TableRequest) {
        // A task that does not wait for the answer any more misses nothing.
        match ask {
            TableRequest::Facts { id, answer } => _ = answer.send(self.table.facts(id).cloned()),
            TableRequest::Resolve { name, owner, asker, answer } => _ = answer.send(self.table.resolve(&name, &owner, asker.as_ref())),
            TableRequest::All { owner, which, answer } => _ = answer.send(self.table.all(&owner, which)),
            TableRequest::Listing { owner, which, answer } => _ = answer.send(self.table.listing(&owner, which)),
            TableRequest::Reserve { id, hash, owner, answer } => _ = answer.send(self.reserve(id, hash, owner)),
            TableRequest::Accept { facts, keeper, answer } => {
                let id = facts.id();
                self.insert(*facts, keeper.map_or(Known::ReadFolder, Known::StartedBy));
                if let Some(view) = self.table.view(id) {
                    _ = answer.send(view);
                }
            }
            TableRequest::LetGo { id } => self.table.let_go(id),
            TableRequest::ApplyLook { look, answer } => _ = answer.send(self.apply_look(&look)),
            TableRequest::Reachable { id, reachable } => {
                self.table.change(id, |facts| Arc::new(Facts { unreachable: !reachable, ..Facts::clone(facts) }));
            }
            TableRequest::Consumed { id, seen } => self.consumed(id, seen).await,
            TableRequest::Take { id, answer } => _ = answer.send(self.table.take(id)),
            TableRequest::PutBack { facts } => self.insert(Facts::clone(&facts), Known::FromRecovery),
            TableRequest::Interrupt { session, answer } => _ = answer.send(self.table.interrupt(&session)),
            TableRequest::Interrupts { session, answer } => _ = answer.send(self.table.interrupts(session)),
            TableRequest::Counts { answer } => _ = answer.send(self.table.counts()),
            // The calling loop handles it.
            TableRequest::Stop { .. } => {}
        }
    }

    fn reserve(&mut self, id: ProcessId, hash: String, owner: Owner) -> Result<Reservation, Error> {
        if self.parts.closing.stage() != Closing::Open {
            return Err(refuse::stopping());
        }
        self.table.reserve(id, hash, owner)
    }

    /// Puts a process into the table and has it supervised, if that is needed.
    fn insert(&mut self, facts: Facts, known: Known) {
        let id = facts.id();
        // The disk may have refused the end of a process that was just read. Then only the live copy has it, which must outlive the
        // keepers.
        let is_supervised = !facts.phase.is_final() || matches!(known, Known::FromRecovery);
        self.table.insert(Arc::new(facts));
        if is_supervised {
            self.supervisors.spawn(supervise(Arc::clone(&self.parts), id, known));
        }
    }

    fn apply_look(&mut self, look: &AppliedLook) -> Option<Arc<Facts>> {
        let (before, after) = self.table.apply_look(look)?;
        let id = after.id();
        if before.phase != after.phase {
            tracing::debug!(%id, from = before.phase.word(), to = after.phase.word(), "moved on");
        }
        if self.table.finished_bytes() > self.parts.config.keep_bytes {
            self.look_at_clock();
            self.prune();
        }
        Some(after)
    }

    /// Records that the owner of a process has seen its end. Such processes are removed first.
    async fn consumed(&mut self, id: ProcessId, seen: EndSeen) {
        let Some(facts) = self.table.consumed(id, seen) else { return };
        if self.parts.intake.unsaved.has(id) {
            // It is written with its other changes.
            return;
        }
        // The outbox has the mark that counts. This one only affects lists for agents and the order of removal.
        self.parts.index.put_later(Facts::clone(&facts)).await;
    }

    /// Checks whether the clock was set since the last check, so that ages can be corrected.
    fn look_at_clock(&mut self) {
        let (config, parts) = (&self.parts.config, &self.parts);
        let boot_us = i64::try_from(config.clock.elapsed().as_micros()).unwrap_or(i64::MAX);
        let now = Moment { wall_us: parts.now().micros(), boot_us, boot: parts.at_start.boot };
        self.jumps.look(now, config.keep_for.max(config.keep_notices));
        if let Err(error) = self.jumps.save(&parts.home) {
            // The next engine then believes the clock, unless an earlier check was saved.
            tracing::debug!(%error, "cannot save the comparison of the clocks");
        }
    }

    /// Removes finished processes that are too old, or that take too much disk.
    fn prune(&mut self) {
        // If the end of a process is not recorded and its folder is removed, the next engine would take it for lost.
        let finished = self.table.finished(|id| !self.parts.intake.unsaved.has(id));
        let config = &self.parts.config;
        let mut may_leave = Vec::new();
        for id in retain::too_much(finished, self.parts.now(), &self.jumps, config.keep_for, config.keep_bytes) {
            let view = self.table.view(id);
            if view.as_ref().is_some_and(|view| may_have_left(&view.facts.phase)) {
                may_leave.extend(view);
                continue;
            }
            self.table.drop_entry(id);
            let parts = Arc::clone(&self.parts);
            self.removing.spawn(async move {
                if let Err(error) = remove::remove(&parts, id).await {
                    // Its folder is there, so the next start finds it again.
                    tracing::warn!(%id, error = error.error, "cannot remove");
                }
            });
        }
        self.prune_without_left(may_leave);
    }

    /// Removes the processes that have left nothing running. Without the record of a process, no verb would find what it left running.
    fn prune_without_left(&mut self, views: Vec<ProcessView>) {
        if views.is_empty() || self.look_at_left.as_ref().is_some_and(|look| !look.is_finished()) {
            return;
        }
        let parts = Arc::clone(&self.parts);
        // Not among `removing`: the end of the engine waits for those, and this task asks the owner of the table.
        self.look_at_left = Some(tokio::spawn(async move {
            let look = parts.leftovers.look();
            let without_left = move || {
                let is_over = |v: &ProcessView| look.at(&v.dir, &v.facts, Snapshot::read(&v.dir).ok().as_ref()).is_empty();
                views.into_iter().filter(is_over).collect::<Vec<ProcessView>>()
            };
            // A panic there removes nothing.
            for view in blocking(without_left).await.unwrap_or_default() {
                if let Err(error) = remove::forget(&parts, &view).await {
                    tracing::warn!(id = %view.id(), error = error.error, "cannot remove");
                }
            }
        }));
    }

    /// Removes notices that were settled long ago.
    fn prune_notices(&mut self) {
        let parts = Arc::clone(&self.parts);
        // The sum of all clock jumps is added, so notices that were settled after a jump are kept a little longer.
        let keep = parts.config.keep_notices + self.jumps.forward();
        self.removing.spawn(async move {
            let mut pruned = parts.outbox.prune(keep, parts.now()).await;
            if pruned.is_ok() {
                pruned = parts.instances.sweep().await;
            }
            if let Err(error) = pruned {
                // The next day's check finds them again.
                tracing::warn!(%error, "old notices cannot be removed");
            }
        });
    }

    /// Whether no delivery to a sink is open.
    async fn owes_nothing(&self) -> bool {
        // If the index cannot be read, the engine stays.
        self.parts.outbox.owed().await.is_ok_and(|owed| owed == 0)
    }

    /// Writes how many notices wait for the user, for prompts that do not start an engine.
    async fn leave_count_of_waiting(&self) {
        let file = self.parts.home.waiting();
        // Without the file nothing is shown in a prompt; the notices themselves are in the index.
        if let Ok(count @ 1..) = self.parts.outbox.waiting("", None, self.parts.now()).await {
            _ = blocking(move || std::fs::write(file, count.to_string())).await;
        }
    }

    /// Stops the processes that end with the engine, and writes what is left to write. Requests are answered until the end.
    async fn close(&mut self, mut asks: mpsc::Receiver<TableRequest>, by: Option<&Owner>) {
        self.parts.closing.set(Closing::Stopping);
        self.finish_starting(&mut asks).await;
        let doomed = by.map_or_else(Vec::new, |by| self.table.doomed(by));
        let parts = Arc::clone(&self.parts);
        let mut stops = tokio::spawn(async move { stop_with_the_engine(&parts, doomed).await });
        loop {
            tokio::select! {
                _ = &mut stops => break,
                Some(ask) = asks.recv() => self.on(ask).await,
                Some(_) = self.supervisors.join_next(), if !self.supervisors.is_empty() => {}
            }
        }
        self.let_within_end(&mut asks).await;
        asks.close();
        self.supervisors.shutdown().await;
        while self.removing.join_next().await.is_some() {}
        self.leave_count_of_waiting().await;
        self.parts.instances.save().await;
        self.parts.index.close().await;
        if let Some(writer) = self.writer.take() {
            // It has nothing left to write, so this is short.
            let _joined = blocking(move || writer.join()).await;
        }
        let parts = Arc::clone(&self.parts);
        // The next engine removes what this one cannot.
        let _cleared = blocking(move || parts.spare_folders.clear()).await;
        self.parts.links.leave().await;
        self.parts.launcher.fork_server.leave().await;
        if let Some(place) = self.parts.place.clone() {
            let (nothing_runs, home) = (self.table.live().is_empty(), self.parts.home.clone());
            // The next engine uses again what is not removed now.
            let _left = blocking(move || place.leave_behind(&home, nothing_runs)).await;
        }
        // Keepers remove their sockets, unless both were killed at the very end.
        crate::run_dir::sweep(&self.parts.sockets.dir(), |id| self.table.live().contains(&id));
        crate::run_dir::leave_behind(&self.parts.sockets.dir());
        self.parts.own_home.release();
        if let Some(place) = self.parts.place.clone() {
            // A keeper that leaves while the engine holds the lock leaves the cleanup to the engine. The keeper first writes that it leaves
            // and then checks the lock. The engine first releases the lock and then checks what was written. So one of them always does it.
            let leaves = |id: &ProcessId| Snapshot::read(&self.parts.home.process(*id)).is_ok_and(|meta| meta.has(flag::CLEAN));
            let all_leave = self.table.live().iter().all(leaves);
            let home = self.parts.home.clone();
            let _left = blocking(move || place.remove_if_empty(&home, all_leave)).await;
        }
        self.parts.closing.set(Closing::Closed);
    }

    /// The home was lost: nothing is written, removed or stopped. Its processes keep running. An engine that serves the directory later
    /// finds them.
    async fn abandon(mut self) {
        tracing::error!(home = %self.parts.home.root.display(), "the state directory was removed or replaced: leaving");
        self.parts.closing.set(Closing::Stopping);
        self.supervisors.shutdown().await;
        self.removing.shutdown().await;
        self.parts.index.abandon(&self.parts.own_home);
        self.parts.links.leave().await;
        self.parts.launcher.fork_server.leave().await;
        if self.parts.own_home.is_removed() {
            // Otherwise the directory of the sockets may be another engine's by now: its name is made from the home's path.
            crate::run_dir::leave_behind(&self.parts.sockets.dir());
        }
        self.parts.own_home.release();
        self.parts.closing.set(Closing::Closed);
    }

    /// Waits for the tasks beside the engine: a call of a sink is ended, and how it went is written.
    async fn let_within_end(&mut self, asks: &mut mpsc::Receiver<TableRequest>) {
        let until = Instant::now() + WITHIN;
        let parts = Arc::clone(&self.parts);
        while parts.clients.within.count() > 0 {
            tokio::select! {
                () = parts.clients.within.changed.notified() => {}
                Some(ask) = asks.recv() => self.on(ask).await,
                () = tokio::time::sleep_until(until) => return tracing::warn!("a sink does not end in time; its deliveries are made again"),
            }
        }
    }

    /// Waits until every accepted process is started. Its client waits for that, and no task would start it later.
    async fn finish_starting(&mut self, asks: &mut mpsc::Receiver<TableRequest>) {
        let until = Instant::now() + STARTING;
        while self.table.is_starting() {
            tokio::select! {
                Some(ask) = asks.recv() => self.on(ask).await,
                () = tokio::time::sleep_until(until) => return tracing::warn!("a process is still starting; the next engine continues with it"),
            }
        }
    }
}
