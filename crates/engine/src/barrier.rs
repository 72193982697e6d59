//! Barriers: a conversation that has parked itself until something happens, and is told when it has.
//!
//! A barrier is on disk before anybody waits for it, has a task of its own while the engine runs, and is taken up again by the next one. That it opens is a
//! notice, made in the same transaction; whoever waits right then is answered with it instead.

use crate::closing::{Closing, Shutdown};
use crate::config::Clock;
use crate::disk::AGAIN;
use crate::facts::Facts;
use crate::handle::TableHandle;
use crate::index::IndexError;
use crate::os::Lives;
use crate::outbox::{self, Draft, Outbox, column};
use crate::points::point;
use outlast_core::{Body, Incarnation, Owner, ProcessId, Route, Time};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// What a barrier waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "until", rename_all = "snake_case")]
pub(crate) enum Target {
    Process {
        id: String,
        or_match: bool,
        /// The name of the process, for messages.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
    },
    Pid {
        pid: u32,
        start_ticks: u64,
        boot: String,
    },
    Time {
        at_us: i64,
    },
}

impl Target {
    pub(crate) fn pid(of: &Incarnation) -> Self {
        Self::Pid { pid: of.pid, start_ticks: of.start_ticks, boot: format!("{:032x}", of.boot) }
    }

    /// In a sentence.
    fn message(&self, why: Option<&str>) -> String {
        let what = match self {
            Self::Process { id, or_match, name } => {
                let what = if *or_match { "a match or the end" } else { "the end" };
                let process = name.as_ref().map_or_else(|| id.clone(), |name| format!("{name} ({id})"));
                format!("{what} of {process}")
            }
            Self::Pid { pid, .. } => format!("the end of pid {pid}"),
            Self::Time { at_us } => format!("{}", Time::from_micros(*at_us)),
        };
        match why {
            None => format!("Waiting for {what}."),
            Some(why) => {
                let why = match why {
                    "exited" => "it has ended",
                    "matched" => "its output matched",
                    "unknown" => "there is no such process",
                    "pid_gone" => "it is gone",
                    _ => "the time has come",
                };
                format!("You were waiting for {what}: {why}.")
            }
        }
    }
}

/// One barrier.
#[derive(Debug, Clone)]
pub(crate) struct Barrier {
    pub(crate) id: String,
    pub(crate) owner: Owner,
    pub(crate) target: Target,
    pub(crate) created_at: Time,
    /// Why it is open; empty while it is not.
    pub(crate) opened: String,
    /// How many matches of the process were told before it was set, if that is known.
    pub(crate) hits: Option<u32>,
}

/// What a barrier waits for, as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    target: Target,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hits: Option<u32>,
}

impl Barrier {
    pub(crate) fn message(&self) -> String {
        self.target.message(Some(self.opened.as_str()).filter(|why| !why.is_empty()))
    }

    /// What its notice is about.
    pub(crate) fn key(&self) -> String {
        key(&self.id)
    }
}

/// What the notice of a barrier is about.
pub(crate) fn key(id: &str) -> String {
    format!("barrier/{id}")
}

/// The barriers of an engine, each with a task that waits for its fact.
pub(crate) struct Barriers {
    table: TableHandle,
    outbox: Outbox,
    clock: Clock,
    closing: Shutdown,
    open: Mutex<HashMap<String, watch::Sender<String>>>,
    /// Told when a barrier is taken away.
    gone: Notify,
}

impl Barriers {
    pub(crate) fn new(table: TableHandle, outbox: Outbox, clock: Clock, closing: Shutdown) -> Self {
        Self { table, outbox, clock, closing, open: Mutex::default(), gone: Notify::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Told why a barrier is open, once it is; ends without a word if it is taken away.
    pub(crate) fn opened(&self, id: &str) -> Option<watch::Receiver<String>> {
        self.lock().get(id).map(watch::Sender::subscribe)
    }

    /// These were removed: their tasks end.
    pub(crate) fn removed(&self, ids: &[String]) {
        self.take_away(ids);
        self.gone.notify_waiters();
    }

    fn take_away(&self, ids: &[String]) {
        let mut all = self.lock();
        for id in ids {
            all.remove(id);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, watch::Sender<String>>> {
        // Entries are put and removed whole, so a panic elsewhere spoils nothing.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets a barrier. A conversation has one: the same again is the same, and another takes the place of the one there was.
pub(crate) async fn set(barriers: &Arc<Barriers>, owner: &Owner, target: Target, id: String) -> Result<Barrier, IndexError> {
    let barrier = Barrier { id, owner: owner.clone(), target, created_at: barriers.clock.now(), opened: String::new(), hits: None };
    let work = move |db: &Connection| {
        outbox::speaks(db, &barrier.owner)?;
        // Counted with the same write, so that each match is told before it or after it.
        let hits = match &barrier.target {
            Target::Process { id, or_match: true, .. } => {
                id.parse().ok().map(|id| outbox::watched(db, id)).transpose()?.map(|(hits, _)| hits)
            }
            Target::Process { .. } | Target::Pid { .. } | Target::Time { .. } => None,
        };
        put(db, &Barrier { hits, ..barrier })
    };
    let (found, cleared) = barriers.outbox.with(work).await?;
    barriers.removed(&cleared);
    if found.opened.is_empty() {
        watch_over(barriers, found.clone());
    }
    Ok(found)
}

/// Takes up the barriers that an earlier engine left.
pub(crate) async fn resume(barriers: &Arc<Barriers>) {
    match barriers.outbox.with(|db| all(db, None)).await {
        Ok(left) => left.into_iter().filter(|b| b.opened.is_empty()).for_each(|b| watch_over(barriers, b)),
        Err(error) => tracing::error!(%error, "barriers cannot be read"),
    }
}

/// Has a task look after a barrier, unless one does.
fn watch_over(barriers: &Arc<Barriers>, barrier: Barrier) {
    let tell = {
        let mut all = barriers.lock();
        if all.contains_key(&barrier.id) {
            return;
        }
        let (tell, _) = watch::channel(String::new());
        all.insert(barrier.id.clone(), tell.clone());
        tell
    };
    let barriers = Arc::clone(barriers);
    tokio::spawn(async move {
        // Whoever took it away before it was in the list has not found it there.
        if let Ok(found) = barriers.outbox.barrier(barrier.id.clone()).await
            && found.is_none_or(|b| !b.opened.is_empty())
        {
            return barriers.take_away(std::slice::from_ref(&barrier.id));
        }
        let gone = async {
            loop {
                let told = barriers.gone.notified();
                if !barriers.lock().contains_key(&barrier.id) {
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

/// Waits for what a barrier waits for.
async fn fact(barriers: &Barriers, barrier: &Barrier) -> &'static str {
    match &barrier.target {
        // Somebody else's is none to its owner, and must not be one to us either.
        Target::Process { id, or_match, .. } => match barriers.table.resolve(id, &barrier.owner).await {
            Err(error) if error.status == "not_found" => "unknown",
            // The engine ends; the next one takes it up.
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
        Target::Pid { pid, start_ticks, boot } => {
            let boot = u128::from_str_radix(boot, 16).unwrap_or(0);
            let of = Incarnation { pid: *pid, start_ticks: *start_ticks, boot };
            while let Ok(life) = Lives::of(&of) {
                if life.over().await.is_ok() {
                    break;
                }
                // It cannot be watched right now; whether it lives can still be asked.
                tokio::time::sleep(AGAIN).await;
            }
            "pid_gone"
        }
        Target::Time { at_us } => loop {
            let left = at_us - barriers.clock.now().micros();
            if left <= 0 {
                return "time";
            }
            // A clock that is set says nothing to us, so it is asked now and then.
            tokio::time::sleep(Duration::from_micros(left as u64).min(Duration::from_secs(30))).await;
        },
    }
}

/// Whether a match of a process was told, and it is still watched, or one more than `before`: the last of them may be what ends the watching.
pub(crate) async fn has_matched(outbox: &Outbox, facts: &Facts, before: Option<u32>) -> bool {
    if facts.kept.spec.tell.watch.is_empty() {
        return false;
    }
    let watched = outbox.watched(vec![facts.id()]).await.unwrap_or_default();
    watched.get(&facts.id()).is_some_and(|(hits, disabled)| (*hits > 0 && !disabled) || before.is_some_and(|before| *hits > before))
}

/// Writes that a barrier is open, with the notice of it, and tells whoever waits.
async fn open(barriers: &Barriers, barrier: Barrier, why: &'static str, tell: &watch::Sender<String>) {
    loop {
        let (opened, now) = (Barrier { opened: why.into(), ..barrier.clone() }, barriers.clock.now());
        match barriers.outbox.open_barrier(opened, now).await {
            Ok(true) => break,
            // Somebody took it away just before: nobody waits for it, and nobody is told.
            Ok(false) => return barriers.take_away(std::slice::from_ref(&barrier.id)),
            Err(IndexError::Closed) => return,
            Err(error) => {
                tracing::error!(%error, "a barrier that is open cannot be written yet");
                // Nothing tells when a disk has room again.
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
    point!("barrier.opened");
    tell.send_replace(why.into());
    barriers.take_away(std::slice::from_ref(&barrier.id));
}

/// The notice that a barrier is open.
pub(crate) fn notice(barrier: &Barrier, route: Route, now: Time) -> Draft {
    let process = match &barrier.target {
        Target::Process { id, .. } => id.parse::<ProcessId>().ok(),
        Target::Pid { .. } | Target::Time { .. } => None,
    };
    let body = Body::Until { barrier: barrier.id.clone(), why: barrier.opened.clone(), message: barrier.message() };
    Draft { key: barrier.key(), at: now, process, owner: barrier.owner.clone(), route, body, repeat: false }
}

fn put(db: &Connection, barrier: &Barrier) -> rusqlite::Result<(Barrier, Vec<String>)> {
    let session = barrier.owner.session.clone().unwrap_or_default();
    let mut cleared = Vec::new();
    for other in all(db, Some(&session))? {
        // Asked again, or asked for by two: one barrier serves both.
        if other.id == barrier.id || (other.opened.is_empty() && other.target == barrier.target && other.owner == barrier.owner) {
            return Ok((other, Vec::new()));
        }
        if !session.is_empty() && other.opened.is_empty() {
            db.prepare_cached("DELETE FROM barrier WHERE id = ?1")?.execute(params![other.id])?;
            cleared.push(other.id);
        }
    }
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    // In place of one that cannot be read.
    db.prepare_cached("INSERT OR REPLACE INTO barrier (id, session, task, generation, until, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![
            barrier.id,
            session,
            text(&barrier.owner.task),
            text(&barrier.owner.generation),
            serde_json::to_string(&Kept { target: barrier.target.clone(), hits: barrier.hits }).expect("a target serialises"),
            barrier.created_at.micros(),
        ])?;
    Ok((barrier.clone(), cleared))
}

/// All barriers there are, of one conversation or of all.
pub(crate) fn all(db: &Connection, session: Option<&str>) -> rusqlite::Result<Vec<Barrier>> {
    let mut found = db.prepare_cached(
        "SELECT id, session, task, generation, until, created_at, opened FROM barrier WHERE ?1 IS NULL OR session = ?1 ORDER BY created_at, id",
    )?;
    let part = |text: String| Some(text).filter(|t| !t.is_empty());
    let rows = found.query_map(params![session], |r| {
        let id = column::text(r, 0)?;
        let Kept { target, hits } = match serde_json::from_slice(column::bytes(r, 4)?) {
            Ok(kept) => kept,
            Err(error) => {
                // One that cannot be read must not keep the others from opening.
                tracing::error!(barrier = id, %error, "a barrier cannot be read");
                return Ok(None);
            }
        };
        let text = |column| column::text(r, column).map(part);
        let owner = Owner { session: text(1)?, task: text(2)?, generation: text(3)? };
        Ok(Some(Barrier { id, owner, target, created_at: Time::from_micros(r.get(5)?), opened: column::text(r, 6)?, hits }))
    })?;
    rows.filter_map(Result::transpose).collect()
}

/// Marks a barrier as open. Whether there is one that was not.
pub(crate) fn mark_open(db: &Connection, barrier: &Barrier, now: Time) -> rusqlite::Result<bool> {
    let changed = db.prepare_cached("UPDATE barrier SET opened = ?2, opened_at = ?3 WHERE id = ?1 AND opened = ''")?.execute(params![
        barrier.id,
        barrier.opened,
        now.micros()
    ])?;
    Ok(changed == 1)
}

/// Takes the barriers of a conversation away.
pub(crate) fn clear(db: &Connection, session: &str) -> rusqlite::Result<Vec<String>> {
    let open: Vec<String> = all(db, Some(session))?.into_iter().filter(|b| b.opened.is_empty()).map(|b| b.id).collect();
    for id in &open {
        db.prepare_cached("DELETE FROM barrier WHERE id = ?1")?.execute(params![id])?;
    }
    Ok(open)
}
