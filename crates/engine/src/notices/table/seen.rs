//! What an owner has seen by itself need not be told.

use super::{Moment, end_key, id_of};
use outlast_core::Time;
use rusqlite::{Connection, params};

/// Whether the owner of a process has seen its end.
pub(crate) fn is_consumed(db: &Connection, process: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM mark WHERE process = ?1 AND consumed_at > 0")?.exists(params![process])
}

/// The owner of a process has seen its end: what is still to be told of it is not told. What somebody is just telling is theirs to settle.
pub(crate) fn consume(db: &Connection, process: &str, how: &str, now: Moment) -> rusqlite::Result<()> {
    mark(db, process, how, now.utc)?;
    let reason = format!("its end was seen by {how}");
    db.prepare_cached(
        "UPDATE notice SET state = 'consumed', reason = ?2, settled_at = ?3, lease = ''
         WHERE id = ?1 AND (state = 'pending' OR (state = 'leased' AND (lease = 'answer' OR lease_up <= ?4)))",
    )?
    .execute(params![end_id(process), reason, now.utc.micros(), now.up])?;
    Ok(())
}

/// The name of the notice of a process's end.
pub(crate) fn end_id(process: &str) -> String {
    id_of(&end_key(process))
}

/// The lease token of a notice that is held or kept for an answer.
pub(super) const FOR_ANSWER: &str = "answer";
/// How long an answer may take to reach its socket. Microseconds.
pub(crate) const ANSWERING: i64 = 60_000_000;
/// How long whoever is to wait for something may take to come, or to come back to the next engine. Microseconds.
pub(crate) const SOON: i64 = 2_000_000;

/// Keeps a notice that was just written for whoever waits for it, or is about to: nobody else is given it meanwhile. It counts as given to nobody, and that is how
/// it is told from one that was held for an answer: should nobody be answered, it is no repeat.
pub(crate) fn keep_for(db: &Connection, key: &str, at_most: i64, now: Moment) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE notice SET state = 'leased', lease = 'answer', lease_up = ?2 + ?4, lease_until = ?3 + ?4
         WHERE id = ?1 AND state = 'pending' AND attempts = 0",
    )?
    .execute(params![id_of(key), now.up, now.utc.micros(), at_most])?;
    Ok(())
}

/// A notice that was kept, and that nobody was answered with.
const KEPT: &str = "state IN ('pending', 'leased') AND state = 'leased' AND lease = 'answer' AND attempts = 0";

/// Undoes [`keep_for`]: whoever waited has left, and was not answered. Whether anything was kept.
pub(crate) fn give_back(db: &Connection, key: &str) -> rusqlite::Result<bool> {
    let freed = db
        .prepare_cached(&format!(
            "UPDATE notice SET state = 'pending', lease = '', lease_up = 0, lease_until = 0 WHERE id = ?1 AND {KEPT}"
        ))?
        .execute(params![id_of(key)])?;
    Ok(freed > 0)
}

/// Undoes a [`hold`] that came with the notice, where nobody was answered and nobody else holds it. Whether it did.
pub(crate) fn take_back(db: &Connection, key: &str) -> rusqlite::Result<bool> {
    let freed = db
        .prepare_cached(
            "UPDATE notice SET state = 'pending', attempts = 0, lease = '', lease_up = 0, lease_until = 0
             WHERE id = ?1 AND state = 'leased' AND lease = 'answer' AND attempts = 1",
        )?
        .execute(params![id_of(key)])?;
    Ok(freed > 0)
}

/// The engine that kept them is dead: whoever waited comes back soon, or not at all.
pub(super) fn keep_over(db: &Connection, now: Moment) -> rusqlite::Result<()> {
    db.prepare_cached(&format!("UPDATE notice SET lease_up = MIN(lease_up, ?1), lease_until = MIN(lease_until, ?2) WHERE {KEPT}"))?
        .execute(params![now.up + SOON, now.utc.micros() + SOON])?;
    Ok(())
}

/// Keeps the end of a process from being told by anybody else while it is answered. What a taker has stays theirs, but should they release it, it was told.
pub(crate) fn hold(db: &Connection, process: &str, now: Moment) -> rusqlite::Result<()> {
    hold_key(db, &end_key(process), now)
}

/// As [`hold`], of a notice by what it is about.
pub(crate) fn hold_key(db: &Connection, key: &str, now: Moment) -> rusqlite::Result<()> {
    let id = id_of(key);
    db.prepare_cached("UPDATE notice SET maybe_told = 1 WHERE id = ?1 AND state = 'leased' AND attempts > 0")?.execute(params![id])?;
    db.prepare_cached(
        "UPDATE notice SET state = 'leased', attempts = attempts + 1, lease = 'answer', lease_up = ?2 + ?4, lease_until = ?3 + ?4
         WHERE id = ?1 AND (state = 'pending' OR (state = 'leased' AND (lease = 'answer' OR lease_up <= ?2)))",
    )?
    .execute(params![id, now.up, now.utc.micros(), ANSWERING])?;
    Ok(())
}

/// Whoever was to be answered has left: it is told after all. Marked as a repeat, since another who waited may just be reading it. What is only kept stays so:
/// somebody else may wait for it.
pub(super) const LET_GO: &str = "UPDATE notice SET state = 'pending', maybe_told = 1, lease = '', lease_up = 0, lease_until = 0
     WHERE state IN ('pending', 'leased') AND state = 'leased' AND lease = 'answer' AND attempts > 0";

/// Undoes [`hold`].
pub(crate) fn let_go(db: &Connection, process: &str) -> rusqlite::Result<()> {
    let_go_key(db, &end_key(process))
}

/// Undoes [`hold_key`].
pub(crate) fn let_go_key(db: &Connection, key: &str) -> rusqlite::Result<()> {
    db.prepare_cached(&format!("{LET_GO} AND id = ?1"))?.execute(params![id_of(key)])?;
    Ok(())
}

/// Whoever waited was answered with what a notice says.
pub(crate) fn consume_key(db: &Connection, key: &str, now: Time) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE notice SET state = 'consumed', reason = 'whoever waited was answered', settled_at = ?2, lease = ''
         WHERE id = ?1 AND state = 'leased' AND lease = 'answer'",
    )?
    .execute(params![id_of(key), now.micros()])?;
    Ok(())
}

pub(super) fn mark(db: &Connection, process: &str, how: &str, now: Time) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO mark (process, consumed_at, by) VALUES (?1, ?2, ?3)")?.execute(params![
        process,
        now.micros(),
        how
    ])?;
    Ok(())
}

/// Somebody in its own conversation looked at a process that is over: a terminal need not tell it, a gateway still does.
pub(crate) fn observe(db: &Connection, process: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE notice SET observed = 1 WHERE id = ?1 AND state IN ('pending', 'leased')")?
        .execute(params![end_id(process)])?;
    Ok(())
}

/// A newer run makes what is to be told of an older one stale. What somebody is just telling is theirs to settle, and is not told again if they do not.
pub(crate) fn supersede(db: &Connection, process: &str, by: &str, now: Moment) -> rusqlite::Result<()> {
    let (id, reason) = (end_id(process), format!("run again as {by}"));
    db.prepare_cached(
        "UPDATE notice SET state = 'superseded', reason = ?2, settled_at = ?3, lease = ''
         WHERE id = ?1 AND (state = 'pending' OR (state = 'leased' AND lease_up <= ?4))",
    )?
    .execute(params![id, reason, now.utc.micros(), now.up])?;
    db.prepare_cached("UPDATE notice SET stale = ?2 WHERE id = ?1 AND state = 'leased'")?.execute(params![id, reason])?;
    Ok(())
}
