//! What is owed to the sinks that push.

use super::{Entry, Moment, bounded, by_seq, column, json_bytes, until, wake};
use crate::config::Push;
use outlast_core::Time;
use rusqlite::{Connection, params};
use std::time::Duration;

/// Something a sink owes.
#[derive(Debug, Clone)]
pub(crate) struct Owed {
    pub(crate) entry: Entry,
    pub(crate) attempts: u32,
    pub(crate) first_at: Time,
    pub(crate) lease: String,
    pub(crate) reason: String,
}

/// Gives a sink what it owes now, in order. What was handed back untried holds up what is behind it in its conversation; what failed and waits does not.
pub(crate) fn take(db: &Connection, sink: &str, limit: usize, lease: &str, lease_for: i64, now: Moment) -> rusqlite::Result<Vec<Owed>> {
    take_those(db, sink, limit, lease, lease_for, now, "TRUE")
}

/// The same, of those of which this is so.
pub(super) fn take_those(
    db: &Connection,
    sink: &str,
    limit: usize,
    lease: &str,
    lease_for: i64,
    now: Moment,
    so: &str,
) -> rusqlite::Result<Vec<Owed>> {
    let mut due = db.prepare_cached(&format!(
        "WITH put_off AS (
             SELECT session, MIN(seq) AS first FROM delivery INDEXED BY delivery_open
             WHERE sink = ?1 AND state IN ('pending', 'leased') AND due_up > ?2 AND state = 'pending' AND attempts = 0 GROUP BY session
         )
         SELECT d.seq, d.state = 'leased', d.attempts, d.maybe_told, d.first_at
         FROM delivery d INDEXED BY delivery_open LEFT JOIN put_off p ON p.session = d.session
         WHERE d.sink = ?1 AND d.state IN ('pending', 'leased') AND d.due_up <= ?2 AND (p.first IS NULL OR d.seq < p.first) AND {so}
         ORDER BY d.seq LIMIT ?3"
    ))?;
    let mut rows = due.query(params![sink, now.up, limit as i64])?;
    let due = std::iter::from_fn(|| {
        rows.next().transpose().map(|row| {
            let row = row?;
            let (lapsed, maybe, first): (bool, bool, i64) = (row.get(1)?, row.get(3)?, row.get(4)?);
            let Some(mut entry) = by_seq(db, row.get::<_, i64>(0)? as u64)? else { return Ok(None) };
            entry.notice.repeat |= maybe || lapsed;
            let first_at = if first == 0 { now.utc } else { Time::from_micros(first) };
            let owed = Owed { entry, attempts: column::count(row, 2)?, first_at, lease: lease.to_owned(), reason: String::new() };
            Ok(Some((owed, lapsed)))
        })
    });
    // Deliveries of a removed notice are dropped; their rows are cleaned up later. An unreadable notice becomes a dead letter, and does not
    // hold up others.
    let mut unreadable = Vec::new();
    let readable = due.filter_map(Result::transpose).filter(|one| match one {
        Ok((Owed { entry: Entry { unreadable: Some(why), notice, .. }, .. }, _)) => {
            unreadable.push((notice.seq, why.clone()));
            false
        }
        _ => true,
    });
    let taken = bounded(readable, |(owed, _): &(Owed, bool)| owed.entry.answered_bytes())?;
    drop(rows);
    for (seq, why) in &unreadable {
        tracing::error!(sink, seq, why, "a notice is given up");
        db.prepare_cached(
            "UPDATE delivery SET state = 'dead', due_up = 0, died_at = ?3, reason = ?4, lease = '' WHERE sink = ?1 AND seq = ?2",
        )?
        .execute(params![sink, *seq as i64, now.utc.micros(), why])?;
    }
    if taken.is_empty() && !unreadable.is_empty() {
        // There may be more due deliveries than the limit returned.
        return take_those(db, sink, limit, lease, lease_for, now, so);
    }
    for (owed, lapsed) in &taken {
        db.prepare_cached(
            "UPDATE delivery SET state = 'leased', attempts = attempts + 1, maybe_told = maybe_told OR ?3, lease = ?4, due_up = ?5, first_at = ?6
             WHERE sink = ?1 AND seq = ?2",
        )?
        .execute(params![sink, owed.entry.notice.seq as i64, lapsed, lease, now.up + lease_for, owed.first_at.micros()])?;
    }
    Ok(taken.into_iter().map(|(owed, _)| owed).collect())
}

/// How a push went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It was taken.
    Delivered,
    /// It is to be tried again after so long.
    Again { after: Duration, reason: String },
    /// It was not tried: this time does not count.
    Later { after: Duration },
    /// It is given up.
    Dead { reason: String },
}

/// Writes down how a push went. `false`: the lease was lost, and somebody else has it.
pub(crate) fn pushed(db: &Connection, sink: &str, seq: u64, lease: &str, how: &Pushed, now: Moment) -> rusqlite::Result<bool> {
    let due = |after: &Duration| now.up.saturating_add(after.as_micros() as i64);
    let (state, due, died, reason) = match how {
        Pushed::Delivered => ("delivered", 0, 0, ""),
        Pushed::Again { after, reason } => ("pending", due(after), 0, reason.as_str()),
        Pushed::Later { after } => ("pending", due(after), 0, ""),
        Pushed::Dead { reason } => ("dead", 0, now.utc.micros(), reason.as_str()),
    };
    let untried = u32::from(matches!(how, Pushed::Later { .. }));
    let changed = db
        .prepare_cached(
            "UPDATE delivery SET state = ?4, due_up = ?5, died_at = ?6, reason = CASE WHEN ?8 THEN reason ELSE ?7 END, lease = '',
                 attempts = attempts - ?8
             WHERE sink = ?1 AND seq = ?2 AND state = 'leased' AND lease = ?3",
        )?
        .execute(params![sink, seq as i64, lease, state, due, died, reason, untried])?;
    Ok(changed == 1)
}

/// How long until a sink that is given nothing now will be: what is due already waits behind something that is not.
pub(crate) fn next_due(db: &Connection, sink: &str, now: Moment) -> rusqlite::Result<Option<Duration>> {
    let due: Option<i64> = db
        .prepare_cached(
            "SELECT MIN(due_up) FROM delivery INDEXED BY delivery_open WHERE sink = ?1 AND state IN ('pending', 'leased') AND due_up > ?2",
        )?
        .query_row(params![sink, now.up], |r| r.get(0))?;
    Ok(due.map(|due| until(due, now)))
}

/// How many pushes are owed by these sinks.
pub(crate) fn owed(db: &Connection, sinks: &[Push]) -> rusqlite::Result<u64> {
    let mut all = 0;
    for sink in sinks {
        if sink.wakes {
            wake::retire(db, &sink.name)?;
        }
        let n: i64 = db
            .prepare_cached("SELECT COUNT(*) FROM delivery INDEXED BY delivery_open WHERE sink = ?1 AND state IN ('pending', 'leased')")?
            .query_row(params![sink.name], |r| r.get(0))?;
        all += n as u64;
    }
    Ok(all)
}

/// Of these sinks, those whose last tries failed: how many notices wait for another, and what went wrong with the newest.
pub(crate) fn failing(db: &Connection, sinks: &[Push]) -> rusqlite::Result<Vec<(String, u64, String)>> {
    let mut all = Vec::new();
    for sink in sinks {
        if sink.wakes {
            wake::retire(db, &sink.name)?;
        }
        let (waiting, reason): (i64, String) = db
            .prepare_cached(
                // Beside MAX, a plain column is that of the row it was found in.
                "SELECT COUNT(*), MAX(seq), COALESCE(reason, '') FROM delivery INDEXED BY delivery_open
                 WHERE sink = ?1 AND state IN ('pending', 'leased') AND attempts > 0 AND reason <> ''",
            )?
            .query_row(params![sink.name], |r| Ok((r.get(0)?, column::text(r, 2)?)))?;
        if waiting > 0 {
            all.push((sink.name.clone(), waiting as u64, reason));
        }
    }
    Ok(all)
}

/// What sinks gave up on.
pub(crate) fn dead(db: &Connection, session: Option<&str>, limit: usize) -> rusqlite::Result<Vec<(String, Owed)>> {
    let mut found = db.prepare_cached(
        "SELECT seq, sink, attempts, first_at, reason FROM delivery INDEXED BY delivery_dead WHERE state = 'dead' AND (?1 IS NULL OR session = ?1) ORDER BY seq LIMIT ?2",
    )?;
    let rows = found.query_map(params![session, limit as i64], |r| {
        let Some(entry) = by_seq(db, r.get::<_, i64>(0)? as u64)? else { return Ok(None) };
        let first_at = Time::from_micros(r.get(3)?);
        let (sink, attempts, reason) = (column::text(r, 1)?, column::count(r, 2)?, column::text(r, 4)?);
        Ok(Some((sink, Owed { entry, attempts, first_at, lease: String::new(), reason })))
    })?;
    bounded(rows.filter_map(Result::transpose), |(_, owed): &(String, Owed)| owed.entry.answered_bytes() + json_bytes(&owed.reason))
}

/// Has dead letters tried again: one notice's or all, of one sink or of all.
pub(crate) fn revive(db: &Connection, id: Option<&str>, sink: Option<&str>, session: Option<&str>) -> rusqlite::Result<u64> {
    let changed = db
        .prepare_cached(
            "UPDATE delivery SET state = 'pending', attempts = 0, first_at = 0, died_at = 0, due_up = 0, maybe_told = 1, reason = ''
             WHERE state = 'dead' AND (?1 IS NULL OR sink = ?1) AND (?2 IS NULL OR session = ?2)
               AND (?3 IS NULL OR seq = (SELECT seq FROM notice WHERE id = ?3))",
        )?
        .execute(params![sink, session, id])?;
    Ok(changed as u64)
}
