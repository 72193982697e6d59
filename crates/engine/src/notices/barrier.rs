//! Barriers as rows: the event that a paused session waits for, and why the barrier opened.

use super::table::{NoticeDraft, column};
use outlast_core::{Body, Incarnation, Owner, ProcessId, Route, Time};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

/// What a barrier waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "until", rename_all = "snake_case")]
pub(crate) enum ResolvedTarget {
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

impl ResolvedTarget {
    pub(crate) fn pid(of: &Incarnation) -> Self {
        Self::Pid { pid: of.pid, start_ticks: of.start_ticks, boot: format!("{:032x}", of.boot) }
    }

    /// The event in a sentence.
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
                    _ => "that time has been reached",
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
    pub(crate) target: ResolvedTarget,
    pub(crate) created_at: Time,
    /// Why it is open; empty while it is closed.
    pub(crate) opened: String,
    /// How many matches of the process were reported before it was set, if known.
    pub(crate) hits: Option<u32>,
}

/// The `target` column of a barrier, as it is on disk.
#[derive(Serialize, Deserialize)]
struct StoredTarget {
    #[serde(flatten)]
    target: ResolvedTarget,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hits: Option<u32>,
}

impl Barrier {
    pub(crate) fn message(&self) -> String {
        self.target.message(Some(self.opened.as_str()).filter(|why| !why.is_empty()))
    }

    /// The key of its notice.
    pub(crate) fn key(&self) -> String {
        key(&self.id)
    }
}

/// The key of a barrier's notice.
pub(crate) fn key(id: &str) -> String {
    format!("barrier/{id}")
}

/// The notice that a barrier is open.
pub(crate) fn notice(barrier: &Barrier, route: Route, now: Time) -> NoticeDraft {
    let process = match &barrier.target {
        ResolvedTarget::Process { id, .. } => id.parse::<ProcessId>().ok(),
        ResolvedTarget::Pid { .. } | ResolvedTarget::Time { .. } => None,
    };
    let body = Body::Until { barrier: barrier.id.clone(), why: barrier.opened.clone(), message: barrier.message() };
    NoticeDraft { key: barrier.key(), at: now, process, owner: barrier.owner.clone(), route, body, repeat: false }
}

/// Sets a barrier. Returns it, or the one of its session that serves as well, and the ids of those that it replaces.
pub(crate) fn put(db: &Connection, barrier: &Barrier) -> rusqlite::Result<(Barrier, Vec<String>)> {
    let session = barrier.owner.session.clone().unwrap_or_default();
    let mut others = all(db, Some(&session))?;
    // The same barrier was set again, or by two clients: it serves both.
    let is_same = |b: &Barrier| b.id == barrier.id || (b.opened.is_empty() && b.target == barrier.target && b.owner == barrier.owner);
    if let Some(at) = others.iter().position(is_same) {
        return Ok((others.swap_remove(at), Vec::new()));
    }
    let is_replaced = |b: &Barrier| !session.is_empty() && b.opened.is_empty();
    let replaced: Vec<String> = others.into_iter().filter(is_replaced).map(|b| b.id).collect();
    for id in &replaced {
        db.prepare_cached("DELETE FROM barrier WHERE id = ?1")?.execute(params![id])?;
    }
    let text = |part: &Option<String>| part.clone().unwrap_or_default();
    // It replaces one that cannot be read.
    db.prepare_cached("INSERT OR REPLACE INTO barrier (id, session, task, generation, until, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute(params![
            barrier.id,
            session,
            text(&barrier.owner.task),
            text(&barrier.owner.generation),
            serde_json::to_string(&StoredTarget { target: barrier.target.clone(), hits: barrier.hits }).expect("a target serialises"),
            barrier.created_at.micros(),
        ])?;
    Ok((barrier.clone(), replaced))
}

/// All barriers, of one session or of all.
pub(crate) fn all(db: &Connection, session: Option<&str>) -> rusqlite::Result<Vec<Barrier>> {
    let mut found = db.prepare_cached(
        "SELECT id, session, task, generation, until, created_at, opened FROM barrier WHERE ?1 IS NULL OR session = ?1 ORDER BY created_at, id",
    )?;
    let part = |text: String| Some(text).filter(|t| !t.is_empty());
    let rows = found.query_map(params![session], |r| {
        let id = column::text(r, 0)?;
        let StoredTarget { target, hits } = match serde_json::from_slice(column::bytes(r, 4)?) {
            Ok(kept) => kept,
            Err(error) => {
                // A barrier that cannot be read must not keep others from opening.
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

/// Marks a barrier as open. Returns whether it exists and was closed.
pub(crate) fn mark_open(db: &Connection, barrier: &Barrier, now: Time) -> rusqlite::Result<bool> {
    let changed = db.prepare_cached("UPDATE barrier SET opened = ?2, opened_at = ?3 WHERE id = ?1 AND opened = ''")?.execute(params![
        barrier.id,
        barrier.opened,
        now.micros()
    ])?;
    Ok(changed == 1)
}

/// Removes the barriers of a session.
pub(crate) fn clear(db: &Connection, session: &str) -> rusqlite::Result<Vec<String>> {
    let open: Vec<String> = all(db, Some(session))?.into_iter().filter(|b| b.opened.is_empty()).map(|b| b.id).collect();
    for id in &open {
        db.prepare_cached("DELETE FROM barrier WHERE id = ?1")?.execute(params![id])?;
    }
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index;

    fn barrier(id: &str, pid: u32, at: i64) -> Barrier {
        let owner = Owner { session: Some("a".into()), ..Owner::default() };
        let target = ResolvedTarget::Pid { pid, start_ticks: 1, boot: "b".into() };
        Barrier { id: id.into(), owner, target, created_at: Time::from_micros(at), opened: String::new(), hits: None }
    }

    #[test]
    fn a_barrier_that_is_set_again_replaces_none() {
        let db = Connection::open_in_memory().unwrap();
        index::ALL.iter().for_each(|tables| db.execute_batch(tables).unwrap());
        let ids = || all(&db, None).unwrap().into_iter().map(|b| b.id).collect::<Vec<_>>();
        let (first, _) = put(&db, &barrier("bar_1", 1, 20)).unwrap();
        assert!(mark_open(&db, &Barrier { opened: "it ended".into(), ..first }, Time::from_micros(30)).unwrap());
        // The clock was set back: this one comes first in the list.
        assert_eq!(put(&db, &barrier("bar_2", 2, 10)).unwrap().1, [""; 0]);
        let (again, replaced) = put(&db, &barrier("bar_1", 1, 40)).unwrap();
        assert_eq!((again.id.as_str(), replaced, ids()), ("bar_1", vec![], vec!["bar_2".to_owned(), "bar_1".to_owned()]));
        let (new, replaced) = put(&db, &barrier("bar_3", 3, 50)).unwrap();
        assert_eq!((new.id.as_str(), replaced, ids()), ("bar_3", vec!["bar_2".to_owned()], vec!["bar_1".to_owned(), "bar_3".to_owned()]));
    }
}
