//! Rows of notices and deliveries: loaded, changed by the functions of `outlast_core::notice_state`, and stored.

use super::{column, id_of};
use outlast_core::notice_state::{
    Delivery, DeliveryEvent, DeliveryState, DeliveryStep, LeaseHolder, Moment, NoticeEffect, NoticeEvent, NoticeReply, NoticeState,
    NoticeStep, NoticeSubject, Settlement, TrackedNotice, Uptime, deliver, transition,
};
use outlast_core::{ProcessId, Time};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

/// A notice without its content.
pub(super) struct NoticeRow {
    pub(super) seq: u64,
    pub(super) notice: TrackedNotice,
    pub(super) subject: NoticeSubject,
    pub(super) session: String,
    pub(super) generation: String,
    /// Empty: it is about none.
    pub(super) process: String,
}

impl NoticeRow {
    /// The columns of `notice` that [`NoticeRow::read`] reads.
    pub(super) const COLUMNS: &str = "seq, state, reason, attempts, maybe_told, observed, stale, lease, lease_up, settled_at, open_since,
        kind, process, session, generation, EXISTS (SELECT 1 FROM mark WHERE mark.process = notice.process AND consumed_at > 0)";

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get::<_, i64>(0)? as u64,
            notice: TrackedNotice {
                state: notice_state(row)?,
                given: column::count(row, 3)?,
                maybe_told: row.get(4)?,
                observed: row.get(5)?,
                superseded_reason: Some(column::text(row, 6)?).filter(|reason| !reason.is_empty()),
                open_since: Time::from_micros(row.get(10)?),
            },
            subject: subject(column::bytes(row, 11)?, row.get(15)?),
            process: column::text(row, 12)?,
            session: column::text(row, 13)?,
            generation: column::text(row, 14)?,
        })
    }

    fn find(db: &Connection, which: &str, value: impl ToSql) -> rusqlite::Result<Option<Self>> {
        let sql = format!("SELECT {} FROM notice WHERE {which} = ?1", Self::COLUMNS);
        db.prepare_cached(&sql)?.query_row(params![value], Self::read).optional()
    }

    pub(super) fn with_seq(db: &Connection, seq: u64) -> rusqlite::Result<Option<Self>> {
        Self::find(db, "seq", seq as i64)
    }

    pub(super) fn with_id(db: &Connection, id: &str) -> rusqlite::Result<Option<Self>> {
        Self::find(db, "id", id)
    }

    /// The notice with this key.
    pub(super) fn with_key(db: &Connection, key: &str) -> rusqlite::Result<Option<Self>> {
        Self::with_id(db, &id_of(key))
    }

    /// The process whose end it reports.
    pub(super) fn end_of(&self) -> Option<ProcessId> {
        matches!(self.subject, NoticeSubject::End { .. }).then(|| self.process.parse().ok()).flatten()
    }

    /// Decides what an event does, without storing it.
    pub(super) fn decide(&self, event: NoticeEvent<'_>, now: Moment) -> NoticeStep {
        transition(&self.notice, event, self.subject, now)
    }

    /// Stores the result of an event, and carries out its effects.
    pub(super) fn carry_out(&mut self, db: &Connection, step: NoticeStep, now: Moment) -> rusqlite::Result<()> {
        if let Some(next) = step.next {
            store(db, self.seq, &self.notice, &next, now)?;
            self.notice = next;
        }
        step.effects.iter().try_for_each(|effect| self.perform(db, effect, now))
    }

    /// Applies an event.
    pub(super) fn apply(&mut self, db: &Connection, event: NoticeEvent<'_>, now: Moment) -> rusqlite::Result<NoticeReply> {
        let step = self.decide(event, now);
        let reply = step.reply;
        self.carry_out(db, step, now)?;
        Ok(reply)
    }

    fn perform(&self, db: &Connection, effect: &NoticeEffect, now: Moment) -> rusqlite::Result<()> {
        match effect {
            NoticeEffect::MarkEndSeen(by) => mark_end_seen(db, &self.process, by, now),
            NoticeEffect::ForgetEndSeen => {
                db.prepare_cached("DELETE FROM mark WHERE process = ?1")?.execute(params![self.process])?;
                Ok(())
            }
            NoticeEffect::CancelQuietDeliveries => on_quiet_deliveries(db, self.seq, DeliveryEvent::Answered, now),
            NoticeEffect::FreeQuietDeliveries => on_quiet_deliveries(db, self.seq, DeliveryEvent::NotAnswered, now),
        }
    }
}

/// Applies an event to the notice with this key, if there is one.
pub(super) fn on_key(db: &Connection, key: &str, event: NoticeEvent<'_>, now: Moment) -> rusqlite::Result<NoticeReply> {
    match NoticeRow::with_key(db, key)? {
        Some(mut row) => row.apply(db, event, now),
        None => Ok(NoticeReply::None),
    }
}

/// Applies an event to notices by their numbers.
pub(in crate::notices) fn on_each(db: &Connection, seqs: &[i64], event: NoticeEvent<'_>, now: Moment) -> rusqlite::Result<()> {
    for seq in seqs {
        if let Some(mut row) = NoticeRow::with_seq(db, *seq as u64)? {
            row.apply(db, event, now)?;
        }
    }
    Ok(())
}

/// Records that the owner of a process has seen its end. A first record is not replaced.
pub(super) fn mark_end_seen(db: &Connection, process: &str, by: &str, now: Moment) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO mark (process, consumed_at, by) VALUES (?1, ?2, ?3)")?.execute(params![
        process,
        now.utc.micros(),
        by
    ])?;
    Ok(())
}

/// What a notice of this kind is about. `seen`: the owner has seen the end of its process.
pub(super) fn subject(kind: &[u8], seen: bool) -> NoticeSubject {
    match kind {
        b"completion" => NoticeSubject::End { seen },
        b"watch_match" | b"watch_disabled" => NoticeSubject::Output { end_seen: seen },
        _ => NoticeSubject::Other,
    }
}

fn notice_state(row: &Row<'_>) -> rusqlite::Result<NoticeState> {
    let until: Uptime = row.get(8)?;
    let leased = |holder| Ok(NoticeState::Leased { holder, token: column::text(row, 7)?, until });
    let how = match column::bytes(row, 1)? {
        b"pending" => return Ok(NoticeState::Pending),
        b"reserved" => return Ok(NoticeState::Reserved { until }),
        b"answering" => return Ok(NoticeState::Answering { until }),
        b"leased" => return leased(LeaseHolder::Taker),
        b"waking" => return leased(LeaseHolder::Sink),
        b"delivered" => Settlement::Delivered,
        b"consumed" => Settlement::Consumed,
        b"superseded" => Settlement::Superseded,
        // A notice with a damaged state is never delivered.
        _ => Settlement::Dropped,
    };
    Ok(NoticeState::Settled { how, reason: column::text(row, 2)?, at: Time::from_micros(row.get(9)?) })
}

/// A state as it is stored.
///
/// The same things have other names in each layer. A column keeps its name, because older engines read it:
///
/// | `outlast_core::notice_state` | tables | clients |
/// |---|---|---|
/// | `given` of a notice, `tries` of a delivery | `attempts` | `attempts` |
/// | `DeliveryState::Due` | `pending` | |
/// | `NoticeState::Leased` by a `Sink` | `waking` | `leased` |
/// | `NoticeState::Reserved`, `Answering` | `reserved`, `answering` | `leased` |
/// | `until` | `lease_up` by uptime; `lease_until` in UTC, to be shown; `due_up` of a delivery | `lease_until` |
/// | `superseded_reason` | `stale` | |
/// | `EndSeen`, `NoticeSubject::End { seen }` | `mark.consumed_at` | `consumed` |
/// | `NoticeGeneration` | `generation`; `life`: all that were seen | `generation` |
/// | `SinkCall::Told`, `Verdict::Delivered`, `DeliveryState::Delivered` | `delivered` | `delivered` |
pub(super) struct StateColumns<'a> {
    pub(super) state: &'static str,
    pub(super) reason: &'a str,
    pub(super) lease: &'a str,
    pub(super) lease_up: Uptime,
    /// The end of the lease by the clock of `now`. It is only shown.
    pub(super) lease_until: i64,
    pub(super) settled_at: i64,
}

impl<'a> StateColumns<'a> {
    pub(super) fn of(state: &'a NoticeState, now: Moment) -> Self {
        let (word, lease, until) = match state {
            NoticeState::Pending => ("pending", "", None),
            NoticeState::Reserved { until } => ("reserved", "", Some(*until)),
            NoticeState::Answering { until } => ("answering", "", Some(*until)),
            NoticeState::Leased { holder: LeaseHolder::Taker, token, until } => ("leased", token.as_str(), Some(*until)),
            NoticeState::Leased { holder: LeaseHolder::Sink, token, until } => ("waking", token.as_str(), Some(*until)),
            NoticeState::Settled { how: Settlement::Delivered, .. } => ("delivered", "", None),
            NoticeState::Settled { how: Settlement::Consumed, .. } => ("consumed", "", None),
            NoticeState::Settled { how: Settlement::Superseded, .. } => ("superseded", "", None),
            NoticeState::Settled { how: Settlement::Dropped, .. } => ("dropped", "", None),
        };
        let (reason, settled_at) = match state {
            // An open notice has 0.
            NoticeState::Settled { reason, at, .. } => (reason.as_str(), at.micros().max(1)),
            NoticeState::Pending | NoticeState::Reserved { .. } | NoticeState::Answering { .. } | NoticeState::Leased { .. } => ("", 0),
        };
        let lease_until = until.map_or(0, |until| now.utc.micros().saturating_add(until.saturating_sub(now.up)));
        Self { state: word, reason, lease, lease_up: until.unwrap_or(0), lease_until, settled_at }
    }
}

/// The state as clients see it. They need not know what a notice is held for.
pub(super) fn shown_state(stored: String) -> String {
    match stored.as_str() {
        "reserved" | "answering" | "waking" => "leased".into(),
        _ => stored,
    }
}

/// Stores a new state. Indexed columns are written only if the notice is settled or opened again, because each such index is one more page
/// to be synced.
fn store(db: &Connection, seq: u64, before: &TrackedNotice, after: &TrackedNotice, now: Moment) -> rusqlite::Result<()> {
    let stale = after.superseded_reason.as_deref().unwrap_or_default();
    if before.state == after.state {
        db.prepare_cached("UPDATE notice SET attempts = ?2, maybe_told = ?3, observed = ?4, stale = ?5 WHERE seq = ?1")?
            .execute(params![seq as i64, after.given, after.maybe_told, after.observed, stale])?;
        return Ok(());
    }
    let state = StateColumns::of(&after.state, now);
    let open = "attempts = ?2, maybe_told = ?3, observed = ?4, stale = ?5, state = ?6, lease = ?7, lease_up = ?8, lease_until = ?9";
    let seq = seq as i64;
    if before.is_settled() == after.is_settled() {
        db.prepare_cached(&format!("UPDATE notice SET {open} WHERE seq = ?1"))?.execute(params![
            seq,
            after.given,
            after.maybe_told,
            after.observed,
            stale,
            state.state,
            state.lease,
            state.lease_up,
            state.lease_until,
        ])?;
        return Ok(());
    }
    let reason = if after.is_settled() { state.reason } else { "replayed" };
    db.prepare_cached(&format!("UPDATE notice SET {open}, reason = ?10, settled_at = ?11, open_since = ?12 WHERE seq = ?1"))?.execute(
        params![
            seq,
            after.given,
            after.maybe_told,
            after.observed,
            stale,
            state.state,
            state.lease,
            state.lease_up,
            state.lease_until,
            reason,
            state.settled_at,
            after.open_since.micros(),
        ],
    )?;
    Ok(())
}

/// A delivery of a notice to a sink.
pub(super) struct DeliveryRow {
    pub(super) sink: String,
    pub(super) seq: u64,
    pub(super) session: String,
    pub(super) delivery: Delivery,
}

impl DeliveryRow {
    /// The columns of `delivery`, as `d`, that [`DeliveryRow::read`] reads.
    pub(super) const COLUMNS: &str =
        "d.sink, d.seq, d.session, d.state, d.attempts, d.maybe_told, d.lease, d.due_up, d.first_at, d.died_at, d.reason, d.quiet";

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let at: Uptime = row.get(7)?;
        let state = match column::bytes(row, 3)? {
            b"pending" => DeliveryState::Due { at },
            b"leased" => DeliveryState::Leased { token: column::text(row, 6)?, until: at },
            b"delivered" => DeliveryState::Delivered,
            _ => DeliveryState::Dead { at: Time::from_micros(row.get(9)?) },
        };
        Ok(Self {
            sink: column::text(row, 0)?,
            seq: row.get::<_, i64>(1)? as u64,
            session: column::text(row, 2)?,
            delivery: Delivery {
                state,
                tries: column::count(row, 4)?,
                maybe_told: row.get(5)?,
                first_try: Some(row.get(8)?).filter(|at| *at != 0).map(Time::from_micros),
                last_error: column::text(row, 10)?,
                quiet: row.get(11)?,
            },
        })
    }

    pub(super) fn find(db: &Connection, sink: &str, seq: u64) -> rusqlite::Result<Option<Self>> {
        let sql = format!("SELECT {} FROM delivery d WHERE d.sink = ?1 AND d.seq = ?2", Self::COLUMNS);
        db.prepare_cached(&sql)?.query_row(params![sink, seq as i64], Self::read).optional()
    }

    /// The deliveries that a query finds.
    pub(super) fn select(db: &Connection, question: &str, values: &[&dyn ToSql]) -> rusqlite::Result<Vec<Self>> {
        let sql = format!("SELECT {} FROM {question}", Self::COLUMNS);
        db.prepare_cached(&sql)?.query_map(values, Self::read)?.collect()
    }

    /// Writes it, new or in place of the existing one.
    pub(super) fn store(&self, db: &Connection) -> rusqlite::Result<()> {
        let (state, lease, due_up, died_at) = match &self.delivery.state {
            DeliveryState::Due { at } => ("pending", "", *at, 0),
            DeliveryState::Leased { token, until } => ("leased", token.as_str(), *until, 0),
            DeliveryState::Delivered => ("delivered", "", 0, 0),
            DeliveryState::Dead { at } => ("dead", "", 0, at.micros()),
        };
        db.prepare_cached(
            "INSERT INTO delivery (sink, seq, session, state, attempts, maybe_told, lease, due_up, first_at, died_at, reason, quiet)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
             ON CONFLICT (sink, seq) DO UPDATE SET state = excluded.state, attempts = excluded.attempts, maybe_told = excluded.maybe_told,
                 lease = excluded.lease, due_up = excluded.due_up, first_at = excluded.first_at, died_at = excluded.died_at,
                 reason = excluded.reason, quiet = excluded.quiet",
        )?
        .execute(params![
            self.sink,
            self.seq as i64,
            self.session,
            state,
            self.delivery.tries,
            self.delivery.maybe_told,
            lease,
            due_up,
            self.delivery.first_try.map_or(0, Time::micros),
            died_at,
            self.delivery.last_error,
            self.delivery.quiet,
        ])?;
        Ok(())
    }

    pub(super) fn remove(&self, db: &Connection) -> rusqlite::Result<()> {
        db.prepare_cached("DELETE FROM delivery WHERE sink = ?1 AND seq = ?2")?.execute(params![self.sink, self.seq as i64])?;
        Ok(())
    }

    /// Applies an event, and stores the result. `false` if it is no longer leased under the token of the event.
    pub(super) fn apply(&mut self, db: &Connection, event: DeliveryEvent<'_>, now: Moment) -> rusqlite::Result<bool> {
        match deliver(&self.delivery, event, now) {
            DeliveryStep::Same => {}
            DeliveryStep::Next(next) => {
                self.delivery = next;
                self.store(db)?;
            }
            DeliveryStep::Removed => self.remove(db)?,
            DeliveryStep::Lost => return Ok(false),
        }
        Ok(true)
    }
}

/// Applies an event to the deliveries that a query finds. Returns how many there were.
pub(super) fn on_deliveries(
    db: &Connection,
    question: &str,
    values: &[&dyn ToSql],
    event: DeliveryEvent<'_>,
    now: Moment,
) -> rusqlite::Result<u64> {
    let found = DeliveryRow::select(db, question, values)?;
    let count = found.len() as u64;
    for mut row in found {
        row.apply(db, event, now)?;
    }
    Ok(count)
}

fn on_quiet_deliveries(db: &Connection, seq: u64, event: DeliveryEvent<'_>, now: Moment) -> rusqlite::Result<()> {
    on_deliveries(db, "delivery d INDEXED BY delivery_quiet WHERE d.quiet = 1 AND d.seq = ?1", &[&(seq as i64)], event, now)?;
    Ok(())
}
