//! The start of a new engine on existing tables, and how long notices are kept.

use super::rows::on_each;
use super::{delivery, last_seq, one, set_floor, set_one};
use crate::config::Push;
use outlast_core::Time;
use outlast_core::notice_state::{Moment, NoticeEvent};
use rusqlite::{Connection, params};

/// How many notices are removed, or expire, in one transaction, so that no client waits long for it.
pub(crate) const MAX_REMOVED_AT_ONCE: usize = 2_000;

/// A new engine has started. What the old one was sending becomes pending again. After a reboot all leases have run out.
pub(crate) fn engine_started(db: &Connection, boot: &str, rebuilt: bool, now: Moment) -> rusqlite::Result<()> {
    if rebuilt {
        // A client that continues after the last notice it saw must not miss new ones because their numbers start again. There were never a
        // thousand notices a second, so the time in milliseconds is above every number used before.
        set_floor(db, last_seq(db)?.max(now.utc.micros() as u64 / 1_000))?;
    }
    let rebooted = one(db, "boot")?.as_deref() != Some(boot);
    delivery::engine_started(db, rebooted, now)?;
    let held: Vec<i64> = db
        .prepare_cached(
            "SELECT seq FROM notice INDEXED BY notice_open WHERE settled_at = 0 AND state <> 'pending' AND (?1 OR state <> 'leased')",
        )?
        .query_map(params![rebooted], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    on_each(db, &held, NoticeEvent::EngineStarted { rebooted }, now)?;
    if rebooted {
        set_one(db, "boot", boot)?;
    }
    Ok(())
}

/// Drops notices that have been open since before `before`: no taker will ask for them any more. Returns how many; if that is the maximum,
/// there may be more.
pub(crate) fn expire(db: &Connection, before: Time, now: Moment) -> rusqlite::Result<u64> {
    let days = (now.utc.micros() - before.micros()) / 86_400_000_000;
    let old: Vec<i64> = db
        .prepare_cached(
            "SELECT seq FROM notice INDEXED BY notice_open WHERE settled_at = 0 AND open_since < ?1 AND lease_up <= ?2 LIMIT ?3",
        )?
        .query_map(params![before.micros(), now.up, MAX_REMOVED_AT_ONCE as i64], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    on_each(db, &old, NoticeEvent::Expire { before, reason: &format!("expired: not taken within {days} days") }, now)?;
    Ok(old.len() as u64)
}

/// Removes notices that were settled before `before`, a bounded number at a time. A notice with an open delivery, or one that a sink gave
/// up on later than that, is kept. Returns whether there may be more.
pub(crate) fn prune(db: &Connection, before: Time, sinks: &[Push]) -> rusqlite::Result<bool> {
    let names: Vec<&str> = sinks.iter().map(|s| s.name.as_str()).collect();
    // Deliveries to a sink that is not configured any more do not count.
    let names = serde_json::to_string(&names).expect("strings serialise");
    // The notice with the highest number may be among them.
    set_floor(db, last_seq(db)?)?;
    let gone = db
        .prepare_cached(
            "DELETE FROM notice WHERE seq IN (SELECT seq FROM notice n WHERE settled_at > 0 AND settled_at < ?1 AND NOT EXISTS
                 (SELECT 1 FROM delivery d WHERE d.sink IN (SELECT value FROM json_each(?2)) AND d.seq = n.seq
                    AND (d.state IN ('pending', 'leased') OR (d.state = 'dead' AND d.died_at >= ?1)))
                 LIMIT ?3)",
        )?
        .execute(params![before.micros(), names, MAX_REMOVED_AT_ONCE as i64])?;
    Ok(gone == MAX_REMOVED_AT_ONCE)
}

/// Removes what belonged to notices and processes that were removed. The mark that an end was seen is kept while there is a notice that may
/// be delivered, or delivered again.
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
         WHERE NOT EXISTS (SELECT 1 FROM notice INDEXED BY notice_open WHERE notice.session = life.session AND settled_at = 0)
             AND NOT EXISTS (SELECT 1 FROM notice INDEXED BY notice_closed WHERE notice.session = life.session AND settled_at > 0)
             AND session NOT IN (SELECT session FROM barrier)
             AND session NOT IN (SELECT session FROM process WHERE session IS NOT NULL)",
    )?
    .execute([])?;
    Ok(())
}
