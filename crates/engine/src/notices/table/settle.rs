//! What became of a notice that was given out.

use super::seen::{FOR_ANSWER, is_consumed, mark};
use super::{Claim, Entry, by_id, by_seq, settle};
use outlast_core::{ProcessId, Time};
use rusqlite::{Connection, params};

/// What to do with a notice that was given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its owner was told.
    Delivered,
    /// Its owner was not told: it is to be given again.
    Released,
    /// Nobody is to be told.
    Dropped(String),
}

/// What became of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    Done,
    /// It was settled before, in this or another way.
    Already,
    /// There is no such notice, or it is another conversation's.
    Unknown,
    /// Somebody else has it now.
    Lost,
}

/// What became of one notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) id: String,
    pub(crate) settled: Settled,
    /// The process whose end it tells.
    pub(crate) completion_of: Option<ProcessId>,
}

/// Settles a notice by its name. `session`: whose it must be, unless a person asks. `lease`: the word that was given with it, if the caller kept it.
pub(crate) fn judge(
    db: &Connection,
    id: &str,
    session: Option<&str>,
    lease: Option<&str>,
    verdict: &Verdict,
    now: Time,
) -> rusqlite::Result<Judged> {
    let unknown = Judged { id: id.to_owned(), settled: Settled::Unknown, completion_of: None };
    let Some(found) = by_id(db, id)? else { return Ok(unknown) };
    if session.is_some_and(|s| s != found.notice.session_key) {
        return Ok(unknown);
    }
    let completion_of = (found.notice.kind() == "completion").then(|| found.notice.session_id.parse().ok()).flatten();
    let settled = judge_one(db, &found, lease, verdict, now)?;
    Ok(Judged { settled, completion_of, ..unknown })
}

pub(super) fn judge_one(db: &Connection, found: &Entry, lease: Option<&str>, verdict: &Verdict, now: Time) -> rusqlite::Result<Settled> {
    let seq = found.notice.seq;
    let wanted = match verdict {
        Verdict::Delivered => "delivered",
        Verdict::Released => "pending",
        Verdict::Dropped(_) => "dropped",
    };
    match found.state.as_str() {
        state if state == wanted => return Ok(Settled::Already),
        // A notice that is held for an answer belongs to no taker: its token is a fixed string that every client can name.
        "leased" if lease.is_some_and(|l| l != found.lease || l == FOR_ANSWER) => return Ok(Settled::Lost),
        "leased" | "pending" => {}
        // It was settled in another way; what was told was told, and nothing is to be done.
        _ => return Ok(Settled::Already),
    }
    match verdict {
        Verdict::Delivered => {
            settle(db, seq, "delivered", "", now)?;
            if found.notice.kind() == "completion" {
                mark(db, &found.notice.session_id, "delivery", now)?;
            }
        }
        Verdict::Released => {
            let consumed = found.notice.kind() == "completion" && is_consumed(db, &found.notice.session_id)?;
            if consumed {
                settle(db, seq, "consumed", "its end was seen while it was being told", now)?;
            } else if !found.stale.is_empty() {
                settle(db, seq, "superseded", &found.stale, now)?;
            } else {
                // Only who has the word of the lease can know that it was not told.
                db.prepare_cached(
                    "UPDATE notice SET state = 'pending', maybe_told = maybe_told OR ?2, lease = '', lease_up = 0, lease_until = 0 WHERE seq = ?1",
                )?
                .execute(params![seq as i64, lease.is_none()])?;
            }
        }
        Verdict::Dropped(reason) => settle(db, seq, "dropped", reason, now)?,
    }
    Ok(Settled::Done)
}

/// Whoever was given these under a word has gone without settling them: they are given again, as possible repeats.
pub(crate) fn abandon(db: &Connection, ids: &[String], lease: &str, now: Time) -> rusqlite::Result<()> {
    for id in ids {
        if let Some(found) = by_id(db, id)?.filter(|found| found.state == "leased" && found.lease == lease) {
            // By nobody's word: whether they were told is not known.
            judge_one(db, &found, None, &Verdict::Released, now)?;
        }
    }
    Ok(())
}

/// Whoever claimed notices has gone before they were sent: they are given again as if they had not been asked for.
pub(crate) fn unclaim(db: &Connection, claim: &Claim, now: Time) -> rusqlite::Result<()> {
    let claimed: Vec<i64> = db
        .prepare_cached(
            // As far as the claim itself looked: to as many as it may give, or to the last.
            "SELECT seq FROM notice INDEXED BY notice_open WHERE session = ?1 AND state IN ('pending', 'leased') AND lease = ?2
             ORDER BY seq LIMIT ?3",
        )?
        .query_map(params![claim.session, claim.lease, claim.limit as i64], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for seq in claimed {
        if let Some(found) = by_seq(db, seq as u64)? {
            judge_one(db, &found, Some(&claim.lease), &Verdict::Released, now)?;
        }
    }
    Ok(())
}

/// Offers notices again that were given before: those from `from` on that are settled as delivered, of one conversation or of all.
pub(crate) fn replay(db: &Connection, from: u64, session: Option<&str>, now: Time) -> rusqlite::Result<u64> {
    // What is told again is not known to be seen.
    db.prepare_cached(
        "DELETE FROM mark WHERE process IN
             (SELECT process FROM notice WHERE seq >= ?1 AND state = 'delivered' AND kind = 'completion' AND (?2 IS NULL OR session = ?2))",
    )?
    .execute(params![from as i64, session])?;
    let changed = db
        .prepare_cached(
            "UPDATE notice SET state = 'pending', reason = 'replayed', maybe_told = 1, observed = 0, stale = '', lease = '', lease_up = 0,
                 lease_until = 0, settled_at = 0, open_since = ?3
             WHERE seq >= ?1 AND state = 'delivered' AND (?2 IS NULL OR session = ?2)",
        )?
        .execute(params![from as i64, session, now.micros()])?;
    Ok(changed as u64)
}
