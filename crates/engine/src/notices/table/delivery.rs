//! Deliveries of notices to sinks.

use super::rows::{DeliveryRow, on_deliveries};
use super::{NoticeEntry, bounded, by_seq, column, json_bytes, until};
use crate::config::Push;
use outlast_core::Time;
use outlast_core::notice_state::{DeliveryEvent, DeliveryOutcome, Micros, Moment};
use rusqlite::{Connection, params};
use std::time::Duration;

/// A delivery of a notice to a sink: a leased one, or a dead letter.
#[derive(Debug, Clone)]
pub(crate) struct OwedDelivery {
    pub(crate) entry: NoticeEntry,
    pub(crate) attempts: u32,
    pub(crate) first_at: Time,
    pub(crate) lease: String,
    pub(crate) reason: String,
}

/// What a sink is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SinkKind {
    /// It observes: a taker gets the same notice.
    Observing,
    /// It wakes an agent, and claims the notice for that.
    Waking,
}

impl SinkKind {
    /// Condition on a due delivery `d`: the sink may lease it at the uptime `?2`.
    const fn may_lease(self) -> &'static str {
        match self {
            Self::Observing => "TRUE",
            // No client and no other sink has the notice.
            Self::Waking => "NOT EXISTS (SELECT 1 FROM notice n WHERE n.seq = d.seq AND n.settled_at = 0 AND n.lease_up > ?2)",
        }
    }

    /// Condition on a delivery `d` that was put off: later ones of its session wait for it.
    const fn holds_up(self) -> &'static str {
        match self {
            Self::Observing => "TRUE",
            // Its generation is the newest. Another one may never begin.
            Self::Waking => {
                "NOT EXISTS (SELECT 1 FROM notice n WHERE n.seq = d.seq AND n.generation NOT IN
                     ('', (SELECT generation FROM life WHERE life.session = n.session ORDER BY nth DESC LIMIT 1)))"
            }
        }
    }
}

/// Leases due deliveries to a sink, in order. A delivery that the sink put off untried holds up later ones of its session. One that failed
/// and is retried does not, nor does one that is held back until a client is answered: the answer may take long, and removes it.
pub(crate) fn take(
    db: &Connection,
    sink: &str,
    limit: usize,
    lease: &str,
    lease_for: Micros,
    now: Moment,
) -> rusqlite::Result<Vec<OwedDelivery>> {
    take_for(SinkKind::Observing, db, sink, limit, lease, lease_for, now)
}

/// The same, by the rules for this kind of sink.
pub(super) fn take_for(
    kind: SinkKind,
    db: &Connection,
    sink: &str,
    limit: usize,
    lease: &str,
    lease_for: Micros,
    now: Moment,
) -> rusqlite::Result<Vec<OwedDelivery>> {
    let (holds_up, may_lease, columns) = (kind.holds_up(), kind.may_lease(), DeliveryRow::COLUMNS);
    let mut due = db.prepare_cached(&format!(
        "WITH put_off AS (
             SELECT session, MIN(seq) AS first FROM delivery d INDEXED BY delivery_open
             WHERE sink = ?1 AND state IN ('pending', 'leased') AND due_up > ?2 AND state = 'pending' AND attempts = 0
                 AND NOT (quiet = 1 AND first_at = 0) AND {holds_up} GROUP BY session
         )
         SELECT {columns}
         FROM delivery d INDEXED BY delivery_open LEFT JOIN put_off p ON p.session = d.session
         WHERE d.sink = ?1 AND d.state IN ('pending', 'leased') AND d.due_up <= ?2 AND (p.first IS NULL OR d.seq < p.first) AND {may_lease}
         ORDER BY d.seq LIMIT ?3"
    ))?;
    let mut rows = due.query(params![sink, now.up, limit as i64])?;
    let due = std::iter::from_fn(|| {
        rows.next().transpose().map(|row| {
            let row = DeliveryRow::read(row?)?;
            Ok(by_seq(db, row.seq)?.map(|entry| (row, entry)))
        })
    });
    // Deliveries of a removed notice are dropped; their rows are cleaned up later. An unreadable notice becomes a dead letter, and does not
    // hold up others.
    let mut unreadable = Vec::new();
    let readable = due.filter_map(Result::transpose).filter_map(|one| match one {
        Ok((row, NoticeEntry { unreadable: Some(why), .. })) => {
            unreadable.push((row, why));
            None
        }
        one => Some(one),
    });
    let lent = bounded(readable, |(_, entry): &(DeliveryRow, NoticeEntry)| entry.answered_bytes())?;
    drop(rows);
    for (row, why) in &mut unreadable {
        tracing::error!(sink, seq = row.seq, why, "a notice is given up");
        row.apply(db, DeliveryEvent::Unreadable { reason: why }, now)?;
    }
    if lent.is_empty() && !unreadable.is_empty() {
        // There may be more due deliveries than the limit returned.
        return take_for(kind, db, sink, limit, lease, lease_for, now);
    }
    let lend = |(mut row, mut entry): (DeliveryRow, NoticeEntry)| -> rusqlite::Result<OwedDelivery> {
        let attempts = row.delivery.tries;
        row.apply(db, DeliveryEvent::Take { token: lease, until: now.up.saturating_add(lease_for) }, now)?;
        entry.notice.repeat |= row.delivery.maybe_told;
        let first_at = row.delivery.first_try.unwrap_or(now.utc);
        Ok(OwedDelivery { entry, attempts, first_at, lease: lease.to_owned(), reason: String::new() })
    };
    lent.into_iter().map(lend).collect()
}

/// How a delivery went, as its sink reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PushResult {
    /// The receiver accepted it.
    Delivered,
    /// It failed, and is to be retried after this time.
    Again { after: Duration, reason: String },
    /// It was not tried. This does not count as an attempt.
    Later { after: Duration },
    /// It failed for good.
    Dead { reason: String },
}

impl PushResult {
    fn outcome(&self, now: Moment) -> DeliveryOutcome<'_> {
        let at = |after: &Duration| now.up.saturating_add(i64::try_from(after.as_micros()).unwrap_or(i64::MAX));
        match self {
            Self::Delivered => DeliveryOutcome::Delivered,
            Self::Again { after, reason } => DeliveryOutcome::Retry { at: at(after), error: reason },
            Self::Later { after } => DeliveryOutcome::NotTried { at: at(after) },
            Self::Dead { reason } => DeliveryOutcome::Dead { error: reason },
        }
    }
}

/// Records how a delivery went. `false` if it is no longer leased under this token.
pub(crate) fn pushed(db: &Connection, sink: &str, seq: u64, lease: &str, how: &PushResult, now: Moment) -> rusqlite::Result<bool> {
    match DeliveryRow::find(db, sink, seq)? {
        Some(mut row) => row.apply(db, DeliveryEvent::Report { token: lease, outcome: how.outcome(now) }, now),
        None => Ok(false),
    }
}

/// How long until the next delivery of a sink is due. Due ones that are held up by an earlier one do not count.
pub(crate) fn next_due(db: &Connection, sink: &str, now: Moment) -> rusqlite::Result<Option<Duration>> {
    let due: Option<i64> = db
        .prepare_cached(
            "SELECT MIN(due_up) FROM delivery INDEXED BY delivery_open WHERE sink = ?1 AND state IN ('pending', 'leased') AND due_up > ?2",
        )?
        .query_row(params![sink, now.up], |r| r.get(0))?;
    Ok(due.map(|due| until(due, now)))
}

/// Removes the deliveries of settled notices to a sink that wakes agents.
pub(super) fn remove_settled(db: &Connection, sink: &str, now: Moment) -> rusqlite::Result<()> {
    let settled = "delivery d INDEXED BY delivery_open JOIN notice n ON n.seq = d.seq
        WHERE d.sink = ?1 AND d.state IN ('pending', 'leased') AND n.settled_at > 0";
    on_deliveries(db, settled, &[&sink], DeliveryEvent::NoticeSettled, now)?;
    Ok(())
}

/// How many deliveries to these sinks are open.
pub(crate) fn owed(db: &Connection, sinks: &[Push], now: Moment) -> rusqlite::Result<u64> {
    let mut all = 0;
    for sink in sinks {
        if sink.wakes {
            remove_settled(db, &sink.name, now)?;
        }
        let n: i64 = db
            .prepare_cached("SELECT COUNT(*) FROM delivery INDEXED BY delivery_open WHERE sink = ?1 AND state IN ('pending', 'leased')")?
            .query_row(params![sink.name], |r| r.get(0))?;
        all += n as u64;
    }
    Ok(all)
}

/// The sinks whose last attempts failed, each with the number of notices that wait for a retry and the newest error.
pub(crate) fn failing(db: &Connection, sinks: &[Push], now: Moment) -> rusqlite::Result<Vec<(String, u64, String)>> {
    let mut all = Vec::new();
    for sink in sinks {
        if sink.wakes {
            remove_settled(db, &sink.name, now)?;
        }
        let (waiting, reason): (i64, String) = db
            .prepare_cached(
                // With MAX, SQLite takes the other columns from the row of the maximum.
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

/// The dead letters: deliveries that sinks gave up.
pub(crate) fn dead(db: &Connection, session: Option<&str>, limit: usize) -> rusqlite::Result<Vec<(String, OwedDelivery)>> {
    let mut found = db.prepare_cached(
        "SELECT seq, sink, attempts, first_at, reason FROM delivery INDEXED BY delivery_dead WHERE state = 'dead' AND (?1 IS NULL OR session = ?1) ORDER BY seq LIMIT ?2",
    )?;
    let rows = found.query_map(params![session, limit as i64], |r| {
        let Some(entry) = by_seq(db, r.get::<_, i64>(0)? as u64)? else { return Ok(None) };
        let first_at = Time::from_micros(r.get(3)?);
        let (sink, attempts, reason) = (column::text(r, 1)?, column::count(r, 2)?, column::text(r, 4)?);
        Ok(Some((sink, OwedDelivery { entry, attempts, first_at, lease: String::new(), reason })))
    })?;
    bounded(rows.filter_map(Result::transpose), |(_, owed): &(String, OwedDelivery)| owed.entry.answered_bytes() + json_bytes(&owed.reason))
}

/// How many dead letters each sink has that it gave up at this time or later, and why it gave up on the newest.
pub(crate) fn dead_of_sinks(db: &Connection, session: Option<&str>, since: Time) -> rusqlite::Result<Vec<(String, u64, String)>> {
    let mut found = db.prepare_cached(
        // With MAX, SQLite takes the other columns from the row of the maximum.
        "SELECT sink, COUNT(*), MAX(d.seq), d.reason FROM delivery d INDEXED BY delivery_dead JOIN notice n ON n.seq = d.seq
         WHERE d.state = 'dead' AND (?1 IS NULL OR d.session = ?1) AND died_at >= ?2 GROUP BY sink ORDER BY sink",
    )?;
    let rows = found
        .query_map(params![session, since.micros()], |r| Ok((column::text(r, 0)?, r.get::<_, i64>(1)? as u64, column::text(r, 3)?)))?;
    rows.collect()
}

/// A delivery that failed and is not done: its notice, its sink, whether the sink gave up, how often it was tried, and the last error.
pub(crate) type TroubledDelivery = (u64, String, bool, u32, String);

/// The deliveries of these notices that failed and are not done.
pub(crate) fn troubled(db: &Connection, first: u64, last: u64) -> rusqlite::Result<Vec<TroubledDelivery>> {
    let mut found = db.prepare_cached(
        "SELECT seq, sink, FALSE, attempts, reason FROM delivery INDEXED BY delivery_open
         WHERE state IN ('pending', 'leased') AND attempts > 0 AND reason <> '' AND seq BETWEEN ?1 AND ?2
         UNION ALL
         SELECT seq, sink, TRUE, attempts, reason FROM delivery INDEXED BY delivery_dead WHERE state = 'dead' AND seq BETWEEN ?1 AND ?2",
    )?;
    let rows = found.query_map(params![first as i64, last as i64], |r| {
        Ok((r.get::<_, i64>(0)? as u64, column::text(r, 1)?, r.get(2)?, column::count(r, 3)?, column::text(r, 4)?))
    })?;
    rows.collect()
}

/// Retries dead letters: of one notice or all, of one sink or all.
pub(crate) fn revive(db: &Connection, id: Option<&str>, sink: Option<&str>, session: Option<&str>, now: Moment) -> rusqlite::Result<u64> {
    let dead =
        "delivery d INDEXED BY delivery_dead WHERE d.state = 'dead' AND (?1 IS NULL OR d.sink = ?1) AND (?2 IS NULL OR d.session = ?2)
        AND (?3 IS NULL OR d.seq = (SELECT seq FROM notice WHERE id = ?3))";
    on_deliveries(db, dead, &[&sink, &session, &id], DeliveryEvent::Revive, now)
}

/// Releases the leases of sinks, which ended with the engine. After a reboot, times of the boot before put nothing off.
pub(super) fn engine_started(db: &Connection, rebooted: bool, now: Moment) -> rusqlite::Result<()> {
    let open = match rebooted {
        true => "delivery d INDEXED BY delivery_open WHERE d.state IN ('pending', 'leased')",
        false => "delivery d INDEXED BY delivery_open WHERE d.state IN ('pending', 'leased') AND d.state = 'leased'",
    };
    on_deliveries(db, open, &[], DeliveryEvent::EngineStarted { rebooted }, now)?;
    Ok(())
}
