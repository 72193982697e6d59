//! Barriers: a session waits for an event, and gets a notice when it happens.
//!
//! A barrier is on disk before a client waits for it. While the engine runs, a task waits for its event; the next engine resumes that. When
//! it opens, a notice is written in the same transaction. A client that is waiting then gets it as its answer instead.

use crate::closing::{Closing, Shutdown};
use crate::config::Clock;
use crate::disk::AGAIN;
use crate::facts::Facts;
use crate::handle::TableHandle;
use crate::index::IndexError;
use crate::mutex::lock;
use crate::notices::{self, Barrier, Outbox, ResolvedTarget, barrier as rows};
use crate::os::ProcessHandle;
use crate::points::point;
use outlast_core::{Incarnation, Owner};
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The barriers of an engine, each with a task that waits for its event.
pub(crate) struct Barriers {
    table: TableHandle,
    outbox: Outbox,
    clock: Clock,
    closing: Shutdown,
    open: Mutex<HashMap<String, watch::Sender<String>>>,
    /// Notified when a barrier is removed.
    gone: Notify,
}

impl Barriers {
    pub(crate) fn new(table: TableHandle, outbox: Outbox, clock: Clock, closing: Shutdown) -> Self {
        Self { table, outbox, clock, closing, open: Mutex::default(), gone: Notify::new() }
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.open).len()
    }

    /// Receives why a barrier opened. Closes if the barrier is removed.
    pub(crate) fn opened(&self, id: &str) -> Option<watch::Receiver<String>> {
        lock(&self.open).get(id).map(watch::Sender::subscribe)
    }

    /// These barriers were removed: their tasks end.
    pub(crate) fn removed(&self, ids: &[String]) {
        self.take_away(ids);
        self.gone.notify_waiters();
    }

    fn take_away(&self, ids: &[String]) {
        let mut all = lock(&self.open);
        for id in ids {
            all.remove(id);
        }
    }
}

/// Sets a barrier. A session has one: setting the same again changes nothing, and another replaces the one before.
pub(crate) async fn set(barriers: &Arc<Barriers>, owner: &Owner, target: ResolvedTarget, id: String) -> Result<Barrier, IndexError> {
    let barrier = Barrier { id, owner: owner.clone(), target, created_at: barriers.clock.now(), opened: String::new(), hits: None };
    let work = move |db: &Connection| {
        notices::note_owner(db, &barrier.owner, notices::NamedBy::Client)?;
        // Counted in the same transaction, so that each match is either before or after it.
        let hits = match &barrier.target {
            ResolvedTarget::Process { id, or_match: true, .. } => {
                id.parse().ok().map(|id| notices::watched(db, id)).transpose()?.map(|(hits, _)| hits)
            }
            ResolvedTarget::Process { .. } | ResolvedTarget::Pid { .. } | ResolvedTarget::Time { .. } => None,
        };
        rows::put(db, &Barrier { hits, ..barrier })
    };
    let (found, cleared) = barriers.outbox.with(work).await?;
    barriers.removed(&cleared);
    if found.opened.is_empty() {
        watch_over(barriers, found.clone());
    }
    Ok(found)
}

/// Resumes the barriers of an earlier engine.
pub(crate) async fn resume(barriers: &Arc<Barriers>) {
    match barriers.outbox.with(|db| rows::all(db, None)).await {
        Ok(left) => left.into_iter().filter(|b| b.opened.is_empty()).for_each(|b| watch_over(barriers, b)),
        Err(error) => tracing::error!(%error, "barriers cannot be read"),
    }
}

/// Starts a task for a barrier, unless it has one.
fn watch_over(barriers: &Arc<Barriers>, barrier: Barrier) {
    let tell = {
        let mut all = lock(&barriers.open);
        if all.contains_key(&barrier.id) {
            return;
        }
        let (tell, _) = watch::channel(String::new());
        all.insert(barrier.id.clone(), tell.clone());
        tell
    };
    let barriers = Arc::clone(barriers);
    tokio::spawn(async move {
        // It may have been removed before it was listed.
        if let Ok(found) = barriers.outbox.barrier(barrier.id.clone()).await
            && found.is_none_or(|b| !b.opened.is_empty())
        {
            return barriers.take_away(std::slice::from_ref(&barrier.id));
        }
        let gone = async {
            loop {
                let told = barriers.gone.notified();
                if !lock(&barriers.open).contains_key(&barrier.id) {
                    return;
                }
                told.await;
            }
        };
        let why = tokio::select! {
            why = fact(&barriers, &barrier) => why,
            () = gone => return,
            () = barriers.closing.reached(Closing::Stopping) => return,
        };
        open(&barriers, barrier, why, &tell).await;
    });
}

/// Waits for the event of a barrier.
async fn fact(barriers: &Barriers, barrier: &Barrier) -> &'static str {
    match &barrier.target {
        // The process of another session does not exist for the barrier's owner.
        ResolvedTarget::Process { id, or_match, .. } => match barriers.table.resolve(id, &barrier.owner, None).await {
            Err(error) if error.status == "not_found" => "unknown",
            // The engine ends; the next one resumes the barrier.
            Err(_) => std::future::pending().await,
            Ok(mut view) => {
                let mut news = barriers.outbox.news();
                loop {
                    news.borrow_and_update();
                    if *or_match && has_matched(&barriers.outbox, &view.facts, barrier.hits).await {
                        return "matched";
                    }
                    tokio::select! {
                        biased;
                        facts = view.until(Facts::is_over) => return if facts.is_over() { "exited" } else { std::future::pending().await },
                        changed = news.changed(), if *or_match => if changed.is_err() { std::future::pending::<()>().await },
                    }
                }
            }
        },
        ResolvedTarget::Pid { pid, start_ticks, boot } => {
            let boot = u128::from_str_radix(boot, 16).unwrap_or(0);
            let of = Incarnation { pid: *pid, start_ticks: *start_ticks, boot };
            while let Ok(life) = ProcessHandle::of(&of) {
                if life.exited().await.is_ok() {
                    break;
                }
                // It cannot be waited for right now, so it is checked at intervals.
                tokio::time::sleep(AGAIN).await;
            }
            "pid_gone"
        }
        ResolvedTarget::Time { at_us } => loop {
            let left = at_us - barriers.clock.now().micros();
            if left <= 0 {
                return "time";
            }
            // Nothing reports that the clock was set, so it is read at intervals.
            tokio::time::sleep(Duration::from_micros(left as u64).min(Duration::from_secs(30))).await;
        },
    }
}

/// Whether a match of a process was reported and its output is still watched, or whether more than `before` were reported: the last of them
/// may have ended the watching.
pub(crate) async fn has_matched(outbox: &Outbox, facts: &Facts, before: Option<u32>) -> bool {
    if facts.kept.spec.tell.watch.is_empty() {
        return false;
    }
    let watched = outbox.watched(vec![facts.id()]).await.unwrap_or_default();
    watched.get(&facts.id()).is_some_and(|(hits, disabled)| (*hits > 0 && !disabled) || before.is_some_and(|before| *hits > before))
}

/// Records that a barrier is open, with its notice, and wakes the waiting clients.
async fn open(barriers: &Barriers, barrier: Barrier, why: &'static str, tell: &watch::Sender<String>) {
    loop {
        let (opened, now) = (Barrier { opened: why.into(), ..barrier.clone() }, barriers.clock.now());
        match barriers.outbox.open_barrier(opened, now).await {
            Ok(true) => break,
            // It was removed just before, so no client waits for it.
            Ok(false) => return barriers.take_away(std::slice::from_ref(&barrier.id)),
            Err(IndexError::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "a barrier that is open cannot be written yet");
                // Nothing reports that a disk has space again.
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    point!("barrier.opened");
    tell.send_replace(why.into());
    barriers.take_away(std::slice::from_ref(&barrier.id));
}
