//! Sinks that wake an agent. What such a sink has told counts as told to the agent, so that it and whoever else tells agree on each notice before it is told.
//!
//! A delivery is lent to the sink as to any other; the notice itself it claims when it is about to tell ([`begin`]), by the rules and under the word by which
//! everybody claims. How the telling went settles both.

use super::claim::{One, claim_one};
use super::delivery::{self, Owed, Pushed, take_those};
use super::settle::judge_one;
use super::{Claim, Moment, Taker, Verdict, by_seq, column, until};
use outlast_core::{ProcessId, Time};
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

/// For how long a notice is left alone that is for a life of its conversation that is yet to come. Nobody tells when it does. Microseconds.
const NOT_YET: i64 = 60_000_000;

/// Of a delivery `d`: nobody is just telling the notice.
const FREE: &str = "NOT EXISTS (SELECT 1 FROM notice n WHERE n.seq = d.seq AND n.state = 'leased' AND n.lease_up > ?2)";

/// Gives the sink what it owes now. What somebody else is just telling has to wait for what becomes of that.
pub(crate) fn take(db: &Connection, sink: &str, limit: usize, lease: &str, lease_for: i64, now: Moment) -> rusqlite::Result<Vec<Owed>> {
    retire(db, sink)?;
    take_those(db, sink, limit, lease, lease_for, now, FREE)
}

/// How long until the sink, which is given nothing now, will be.
pub(crate) fn next_due(db: &Connection, sink: &str, now: Moment) -> rusqlite::Result<Option<Duration>> {
    let due: Option<i64> = db
        .prepare_cached(
            "SELECT MIN(due) FROM (
                 SELECT MAX(d.due_up, CASE n.state WHEN 'leased' THEN n.lease_up ELSE 0 END) AS due
                 FROM delivery d INDEXED BY delivery_open JOIN notice n ON n.seq = d.seq WHERE d.sink = ?1 AND d.state IN ('pending', 'leased'))
             WHERE due > ?2",
        )?
        .query_row(params![sink, now.up], |r| r.get(0))?;
    Ok(due.map(|due| until(due, now)))
}

/// Takes away what the sink owes and the agent needs no more: it was told, or has seen it, or nobody is to be told.
pub(crate) fn retire(db: &Connection, sink: &str) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM delivery WHERE sink = ?1 AND seq IN (
             SELECT d.seq FROM delivery d INDEXED BY delivery_open JOIN notice n ON n.seq = d.seq
             WHERE d.sink = ?1 AND d.state IN ('pending', 'leased') AND d.state = 'pending' AND n.state NOT IN ('pending', 'leased'))",
    )?
    .execute(params![sink])?;
    Ok(())
}

/// The sink is about to tell these, each lent to it under its word. Those that it may tell, in the same order: nobody else is given them until it says how that
/// went, or its lease ends. What it may not tell is its own no more. Whether some of that is still owed, and due once somebody else has settled it.
pub(crate) fn begin(db: &Connection, sink: &str, lent: &[(u64, String)], now: Moment) -> rusqlite::Result<(Vec<Owed>, bool)> {
    let (mut go, mut put_back) = (Vec::new(), false);
    for (seq, lease) in lent {
        let found = db
            .prepare_cached(
                "SELECT session, attempts, maybe_told, first_at, due_up FROM delivery WHERE sink = ?1 AND seq = ?2 AND state = 'leased' AND lease = ?3",
            )?
            .query_row(params![sink, *seq as i64, lease], |r| {
                Ok((column::text(r, 0)?, column::count(r, 1)?, r.get::<_, bool>(2)?, r.get::<_, i64>(3)?, r.get::<_, i64>(4)?))
            })
            .optional()?;
        let Some((session, attempts, maybe_told, first_at, ends)) = found.filter(|found| found.4 > now.up) else { continue };
        // Turns come by themselves, as with a gateway. Both leases end together.
        let (generation, taker) = (String::new(), Taker::Gateway);
        let claim = Claim { session, generation, taker, limit: 1, lease: lease.clone(), lease_for: ends - now.up, now };
        let wait = match claim_one(db, *seq, &claim)? {
            One::Given(mut entry) => {
                entry.notice.repeat |= maybe_told;
                let (lease, first_at, reason) = (lease.clone(), Time::from_micros(first_at), String::new());
                go.push(Owed { entry: *entry, attempts: attempts.saturating_sub(1), first_at, lease, reason });
                continue;
            }
            One::Over => {
                db.prepare_cached("DELETE FROM delivery WHERE sink = ?1 AND seq = ?2")?.execute(params![sink, *seq as i64])?;
                continue;
            }
            One::Lent => 0,
            One::NotYet => NOT_YET,
        };
        let later = Pushed::Later { after: Duration::from_micros(wait as u64) };
        put_back |= delivery::pushed(db, sink, *seq, lease, &later, now)?;
    }
    Ok((go, put_back))
}

/// Writes down how a telling went. `false`: the lease was lost, and somebody else has it. With it the process whose end the agent was told.
pub(crate) fn pushed(
    db: &Connection,
    sink: &str,
    seq: u64,
    lease: &str,
    how: &Pushed,
    now: Moment,
) -> rusqlite::Result<(bool, Option<ProcessId>)> {
    if !delivery::pushed(db, sink, seq, lease, how, now)? {
        return Ok((false, None));
    }
    let Some(found) = by_seq(db, seq)? else { return Ok((true, None)) };
    let told = matches!(how, Pushed::Delivered);
    let is_ours = match found.state.as_str() {
        "leased" => found.lease == lease,
        "pending" => told,
        _ => false,
    };
    // What somebody else has by now, since our time was over, is theirs to settle.
    if !is_ours {
        return Ok((true, None));
    }
    match how {
        Pushed::Delivered => {
            judge_one(db, &found, None, &Verdict::Delivered, now.utc)?;
        }
        // Nobody began to tell it.
        Pushed::Later { .. } => {
            judge_one(db, &found, Some(lease), &Verdict::Released, now.utc)?;
        }
        // What failed may have come through all the same.
        Pushed::Again { .. } | Pushed::Dead { .. } => {
            judge_one(db, &found, None, &Verdict::Released, now.utc)?;
        }
    }
    let end_of = (told && found.notice.kind() == "completion").then(|| found.notice.session_id.parse().ok()).flatten();
    Ok((true, end_of))
}

/// Whoever was telling has died with the engine. Nobody knows how far they came.
pub(super) fn taken_back(db: &Connection) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE notice SET state = 'pending', maybe_told = 1, lease = '', lease_up = 0, lease_until = 0
         WHERE state = 'leased' AND seq IN (
             SELECT d.seq FROM delivery d WHERE d.state = 'leased' AND d.lease = (SELECT lease FROM notice n WHERE n.seq = d.seq))",
    )?
    .execute([])?;
    Ok(())
}

/// Has the sink tell again what is offered to its owner again.
pub(crate) fn replay(db: &Connection, sink: &str, from: u64, session: Option<&str>) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE delivery SET state = 'pending', attempts = 0, first_at = 0, due_up = 0, maybe_told = 1, reason = ''
         WHERE sink = ?1 AND seq >= ?2 AND state = 'delivered' AND (?3 IS NULL OR session = ?3)
             AND seq IN (SELECT seq FROM notice WHERE state = 'pending')",
    )?
    .execute(params![sink, from as i64, session])?;
    Ok(())
}
