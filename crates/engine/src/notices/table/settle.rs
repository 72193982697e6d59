//! Settling of notices, releasing them, and offering them again.

use super::rows::{DeliveryRow, NoticeRow, on_each};
use super::{Claim, column, waker_of};
use crate::config::Push;
use outlast_core::ProcessId;
use outlast_core::notice_state::{self, Delivery, DeliveryEvent, Moment, NoticeEvent, NoticeReply};
use outlast_wire::v1::notice::Verdict;
use rusqlite::{Connection, params};

/// The result of an attempt to settle a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SettleReply {
    Done,
    /// It was settled before, in this or another way.
    Already,
    /// There is no such notice, or it is another session's.
    Unknown,
    /// Another client or sink has it now.
    Lost,
}

/// The result for one notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SettleResult {
    pub(crate) id: String,
    pub(crate) settled: SettleReply,
    /// The process whose end it reports.
    pub(crate) completion_of: Option<ProcessId>,
}

/// Settles a notice by its id. `session`: the session that it must belong to, unless a person asks. `lease`: the token that came with it,
/// if the caller kept it.
pub(crate) fn settle(
    db: &Connection,
    id: &str,
    session: Option<&str>,
    lease: Option<&str>,
    verdict: &Verdict,
    now: Moment,
) -> rusqlite::Result<SettleResult> {
    let unknown = SettleResult { id: id.to_owned(), settled: SettleReply::Unknown, completion_of: None };
    let Some(mut row) = NoticeRow::with_id(db, id)? else { return Ok(unknown) };
    if session.is_some_and(|session| session != row.session) {
        return Ok(unknown);
    }
    let verdict = match verdict {
        Verdict::Delivered => notice_state::Verdict::Delivered,
        Verdict::Released => notice_state::Verdict::Released,
        Verdict::Dropped { reason } => notice_state::Verdict::Dropped(reason),
    };
    let settled = match row.apply(db, NoticeEvent::Settle { token: lease, verdict }, now)? {
        NoticeReply::Lost => SettleReply::Lost,
        NoticeReply::Already => SettleReply::Already,
        NoticeReply::Done | NoticeReply::None | NoticeReply::Given | NoticeReply::Busy | NoticeReply::Skipped => SettleReply::Done,
    };
    Ok(SettleResult { settled, completion_of: row.end_of(), ..unknown })
}

/// The taker that leased these disconnected without a report: they become pending again, as possible repeats.
pub(crate) fn taker_gone(db: &Connection, ids: &[String], lease: &str, now: Moment) -> rusqlite::Result<()> {
    for id in ids {
        if let Some(mut row) = NoticeRow::with_id(db, id)? {
            row.apply(db, NoticeEvent::TakerGone { token: lease }, now)?;
        }
    }
    Ok(())
}

/// The taker disconnected before its claim was answered: the notices become pending again, unmarked. The attempt still counts.
pub(crate) fn claim_cancelled(db: &Connection, claim: &Claim, now: Moment) -> rusqlite::Result<()> {
    let claimed: Vec<i64> = db
        .prepare_cached(
            // The same notices that the claim leased: at most its limit.
            "SELECT seq FROM notice INDEXED BY notice_open WHERE session = ?1 AND settled_at = 0 AND lease = ?2 ORDER BY seq LIMIT ?3",
        )?
        .query_map(params![claim.session, claim.lease, claim.limit as i64], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    on_each(db, &claimed, NoticeEvent::ClaimCancelled { token: &claim.lease }, now)
}

/// How many notices become pending again in one transaction, so that no client waits long for it.
const MAX_REPLAYED_AT_ONCE: usize = 2_000;

/// Makes delivered notices pending again: those from `from` on, of one session or of all, as many as fit into one transaction. The sink that
/// wakes the agent delivers them again, also those that another taker had delivered. Returns how many there were, and where to continue if
/// there may be more.
pub(crate) fn replay(
    db: &Connection,
    from: u64,
    session: Option<&str>,
    sinks: &[Push],
    now: Moment,
) -> rusqlite::Result<(u64, Option<u64>)> {
    let found: Vec<(i64, String, String)> = db
        .prepare_cached(
            "SELECT seq, kind, session FROM notice WHERE seq >= ?1 AND state = 'delivered' AND (?2 IS NULL OR session = ?2)
             ORDER BY seq LIMIT ?3",
        )?
        .query_map(params![from as i64, session, MAX_REPLAYED_AT_ONCE as i64], |row| {
            Ok((row.get(0)?, column::text(row, 1)?, column::text(row, 2)?))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (seq, kind, session) in &found {
        on_each(db, &[*seq], NoticeEvent::Replay, now)?;
        if let Some(sink) = waker_of(sinks, kind, session) {
            deliver_again(db, sink, *seq as u64, session, now)?;
        }
    }
    let last = found.last().map(|(seq, ..)| *seq as u64).filter(|_| found.len() == MAX_REPLAYED_AT_ONCE);
    Ok((found.len() as u64, last.map(|last| last + 1)))
}

/// Has a sink that wakes agents deliver a notice that was replayed. Its delivery was removed if another taker had delivered the notice.
fn deliver_again(db: &Connection, sink: &Push, seq: u64, session: &str, now: Moment) -> rusqlite::Result<()> {
    if let Some(mut row) = DeliveryRow::find(db, &sink.name, seq)? {
        return row.apply(db, DeliveryEvent::Replay, now).map(|_| ());
    }
    let delivery = Delivery::new(true, None);
    DeliveryRow { sink: sink.name.clone(), seq, session: session.to_owned(), delivery }.store(db)
}
