//! What is taken over from the engine before, and what is kept for how long.

use super::seen::{LET_GO, keep_over};
use super::{Moment, last_seq, one, set_floor, set_one, wake};
use crate::config::Push;
use outlast_core::Time;
use rusqlite::{Connection, params};

/// How many notices are removed in one transaction, so that nobody waits long for it.
const REMOVED_AT_ONCE: usize = 2_000;

/// A new engine begins, and takes back what the old one had in its own hands: pushes under way, and answers that were not sent for sure. After a reboot nobody has
/// anything any more.
pub(crate) fn begun(db: &Connection, boot: &str, rebuilt: bool, now: Moment) -> rusqlite::Result<()> {
    if rebuilt {
        // Whoever goes on behind the last notice they saw must not wait for numbers that were given before. There were never a thousand notices a second.
        set_floor(db, last_seq(db)?.max(now.utc.micros() as u64 / 1_000))?;
    }
    // Pushes are made by the engine's own program, and died with it.
    wake::taken_back(db)?;
    db.prepare_cached("UPDATE delivery SET state = 'pending', maybe_told = 1, lease = '', due_up = 0 WHERE state = 'leased'")?
        .execute([])?;
    db.prepare_cached(LET_GO)?.execute([])?;
    keep_over(db, now)?;
    if one(db, "boot")?.as_deref() != Some(boot) {
        db.prepare_cached(
            "UPDATE notice INDEXED BY notice_open SET lease_up = 0 WHERE state IN ('pending', 'leased') AND state = 'leased'",
        )?
        .execute([])?;
        db.prepare_cached("UPDATE delivery SET due_up = 0 WHERE state IN ('pending', 'leased')")?.execute([])?;
        set_one(db, "boot", boot)?;
    }
    Ok(())
}

/// Drops what has been open since before `before`: nobody will ask for it any more.
pub(crate) fn expire(db: &Connection, before: Time, now: Moment) -> rusqlite::Result<u64> {
    let days = (now.utc.micros() - before.micros()) / 86_400_000_000;
    let gone = db
        .prepare_cached(
            "UPDATE notice INDEXED BY notice_open SET state = 'dropped', reason = ?1, settled_at = ?2, lease = ''
             WHERE state IN ('pending', 'leased') AND open_since < ?3 AND (state = 'pending' OR lease_up <= ?4)",
        )?
        .execute(params![format!("expired: not taken within {days} days"), now.utc.micros(), before.micros(), now.up])?;
    Ok(gone as u64)
}

/// Removes notices that were settled before `before`, so many at a time. A notice that a sink still owes, or gave up on later than that, is kept for it. Whether there may be more.
pub(crate) fn prune(db: &Connection, before: Time, sinks: &[Push]) -> rusqlite::Result<bool> {
    let names: Vec<&str> = sinks.iter().map(|s| s.name.as_str()).collect();
    // What a sink owes that is not configured any more nobody will ever push.
    let names = serde_json::to_string(&names).expect("strings serialise");
    // The newest may be among them.
    set_floor(db, last_seq(db)?)?;
    let gone = db
        .prepare_cached(
            "DELETE FROM notice WHERE seq IN (SELECT seq FROM notice n WHERE settled_at > 0 AND settled_at < ?1 AND NOT EXISTS
                 (SELECT 1 FROM delivery d WHERE d.sink IN (SELECT value FROM json_each(?2)) AND d.seq = n.seq
                    AND (d.state IN ('pending', 'leased') OR (d.state = 'dead' AND d.died_at >= ?1)))
                 LIMIT ?3)",
        )?
        .execute(params![before.micros(), names, REMOVED_AT_ONCE as i64])?;
    Ok(gone == REMOVED_AT_ONCE)
}

/// Removes what belonged to notices and processes that are gone. Marks outlive their processes for as long as there is a notice that may be told, or told again.
pub(crate) fn sweep(db: &Connection, before: Time) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM delivery WHERE seq NOT IN (SELECT seq FROM notice)")?.execute([])?;
    db.prepare_cached(
        "DELETE FROM mark WHERE consumed_at < ?1 AND process NOT IN (SELECT id FROM process)
             AND NOT EXISTS (SELECT 1 FROM notice INDEXED BY notice_of_process WHERE notice.process = mark.process AND notice.process <> '')",
    )?
    .execute(params![before.micros()])?;
    db.prepare_cached("DELETE FROM watching WHERE process NOT IN (SELECT id FROM process)")?.execute([])?;
    db.prepare_cached("DELETE FROM barrier WHERE opened_at > 0 AND opened_at < ?1")?.execute(params![before.micros()])?;
    db.prepare_cached(
        "DELETE FROM life
         WHERE NOT EXISTS (SELECT 1 FROM notice INDEXED BY notice_open WHERE notice.session = life.session AND state IN ('pending', 'leased'))
             AND NOT EXISTS (SELECT 1 FROM notice INDEXED BY notice_closed WHERE notice.session = life.session AND state NOT IN ('pending', 'leased'))
             AND session NOT IN (SELECT session FROM barrier)
             AND session NOT IN (SELECT session FROM process WHERE session IS NOT NULL)",
    )?
    .execute([])?;
    Ok(())
}
