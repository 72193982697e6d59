//! Sinks that wake an agent. What such a sink delivers counts as delivered to the agent, so it claims the notice like any taker before
//! that.
//!
//! A delivery is leased to the sink as to any other sink. It claims the notice itself when it is about to deliver it ([`begin`]), by the
//! rules for every taker. How the call went settles both.

use super::claim::{NamedBy, SinkClaim, claim_one};
use super::delivery::{OwedDelivery, PushResult, SinkKind, pushed as delivery_pushed, remove_settled, take_for};
use super::rows::{DeliveryRow, NoticeRow};
use super::{Claim, until};
use outlast_core::ProcessId;
use outlast_core::notice_state::{
    DeliveryEvent, DeliveryOutcome, DeliveryState, Micros, Moment, NoticeEvent, NoticeReply, SinkCall, TakerKind,
};
use rusqlite::{Connection, params};
use std::time::Duration;

/// How long a delivery is put off if its notice is for a generation of its session that has not begun. No event reports that a generation
/// began, so it is checked at this interval.
const NOT_YET: Micros = 60_000_000;

/// Leases due deliveries to the sink, except those whose notice another taker has.
pub(crate) fn take(
    db: &Connection,
    sink: &str,
    limit: usize,
    lease: &str,
    lease_for: Micros,
    now: Moment,
) -> rusqlite::Result<Vec<OwedDelivery>> {
    remove_settled(db, sink, now)?;
    take_for(SinkKind::Waking, db, sink, limit, lease, lease_for, now)
}

/// How long until the next delivery for the sink is due, if none is now.
pub(crate) fn next_due(db: &Connection, sink: &str, now: Moment) -> rusqlite::Result<Option<Duration>> {
    let due: Option<i64> = db
        .prepare_cached(
            "SELECT MIN(due) FROM (
                 SELECT MAX(d.due_up, CASE n.settled_at WHEN 0 THEN n.lease_up ELSE 0 END) AS due
                 FROM delivery d INDEXED BY delivery_open JOIN notice n ON n.seq = d.seq WHERE d.sink = ?1 AND d.state IN ('pending', 'leased'))
             WHERE due > ?2",
        )?
        .query_row(params![sink, now.up], |r| r.get(0))?;
    Ok(due.map(|due| until(due, now)))
}

/// The sink is about to deliver these, each leased to it with its token. Returns those that it may deliver, in the same order: no other
/// taker gets them until it reports or its lease runs out. It loses the lease of the others. Also returns whether a delivery was put off
/// because another taker has its notice or its generation has not begun.
pub(crate) fn begin(db: &Connection, sink: &str, lent: &[(u64, String)], now: Moment) -> rusqlite::Result<(Vec<OwedDelivery>, bool)> {
    let (mut go, mut put_back) = (Vec::new(), false);
    for (seq, lease) in lent {
        let Some(mut row) = DeliveryRow::find(db, sink, *seq)? else { continue };
        let ends = match &row.delivery.state {
            DeliveryState::Leased { token, until } if token == lease && *until > now.up => *until,
            DeliveryState::Due { .. } | DeliveryState::Leased { .. } | DeliveryState::Delivered | DeliveryState::Dead { .. } => continue,
        };
        // The sink starts turns, as a gateway does. Both leases end together.
        let claim = Claim {
            session: row.session.clone(),
            generation: String::new(),
            named_by: NamedBy::Client,
            taker: TakerKind::Gateway,
            asker: None,
            asked: false,
            limit: 1,
            lease: lease.clone(),
            lease_for: ends - now.up,
            now,
        };
        let at = match claim_one(db, *seq, &claim)? {
            SinkClaim::Given(mut entry) => {
                entry.notice.repeat |= row.delivery.maybe_told;
                let (attempts, first_at) = (row.delivery.tries.saturating_sub(1), row.delivery.first_try.unwrap_or(now.utc));
                go.push(OwedDelivery { entry: *entry, attempts, first_at, lease: lease.clone(), reason: String::new() });
                continue;
            }
            SinkClaim::Over => {
                row.remove(db)?;
                continue;
            }
            SinkClaim::Lent => now.up,
            SinkClaim::NotYet => now.up + NOT_YET,
        };
        put_back |= row.apply(db, DeliveryEvent::Report { token: lease, outcome: DeliveryOutcome::NotTried { at } }, now)?;
    }
    Ok((go, put_back))
}

/// Records how a call went. `false` if it is no longer leased under this token. Also returns the process whose end was delivered.
pub(crate) fn pushed(
    db: &Connection,
    sink: &str,
    seq: u64,
    lease: &str,
    how: &PushResult,
    now: Moment,
) -> rusqlite::Result<(bool, Option<ProcessId>)> {
    if !delivery_pushed(db, sink, seq, lease, how, now)? {
        return Ok((false, None));
    }
    let Some(mut row) = NoticeRow::with_seq(db, seq)? else { return Ok((true, None)) };
    let call = match how {
        PushResult::Delivered => SinkCall::Told,
        PushResult::Later { .. } => SinkCall::NotTried,
        // A failed call may have been received all the same.
        PushResult::Again { .. } | PushResult::Dead { .. } => SinkCall::Failed,
    };
    let reply = row.apply(db, NoticeEvent::SinkReport { token: lease, call }, now)?;
    Ok((true, row.end_of().filter(|_| call == SinkCall::Told && reply == NoticeReply::Done)))
}
