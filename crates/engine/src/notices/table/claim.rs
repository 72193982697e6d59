//! Claims: which notices a taker gets.

use super::rows::NoticeRow;
use super::{AnswerSize, NoticeEntry, by_seq, column, until};
use crate::instances::Asker;
use outlast_core::notice_state::{LeaseHolder, Moment, NoticeEvent, NoticeGeneration, NoticeReply, TakerKind, Uptime, Verdict};
use rusqlite::{Connection, OptionalExtension, params};
use std::time::Duration;

/// A taker that asks for notices of a session.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) session: String,
    pub(crate) generation: String,
    /// Who names the generation.
    pub(crate) named_by: NamedBy,
    pub(crate) taker: TakerKind,
    /// Which of the conversations that share the session asks; none if all notices of the session are asked for.
    pub(crate) asker: Option<Asker>,
    /// Whether its model asks for notices.
    pub(crate) asked: bool,
    pub(crate) limit: usize,
    pub(crate) lease: String,
    /// Microseconds.
    pub(crate) lease_for: Uptime,
    pub(crate) now: Moment,
}

impl Claim {
    /// The event that the claim is for one notice.
    fn event<'a>(&'a self, holder: LeaseHolder, generation: NoticeGeneration<'a>) -> NoticeEvent<'a> {
        let until = self.now.up.saturating_add(self.lease_for);
        NoticeEvent::Claim { taker: self.taker, holder, token: &self.lease, until, generation }
    }

    /// Whether a notice is for the conversation that asks.
    fn takes(&self, row: &NoticeRow) -> bool {
        self.asker.as_ref().is_none_or(|asker| asker.takes(&row.process, self.asked))
    }

    /// The gateway has made all generations that there are, so a name that was never seen is not one to come. It would have a gateway started for ever.
    fn decided<'a>(&self, row: &'a NoticeRow, generation: NoticeGeneration<'a>) -> NoticeGeneration<'a> {
        match (generation, self.named_by) {
            (NoticeGeneration::Future, NamedBy::Gateway) if !self.generation.is_empty() => {
                NoticeGeneration::Ended { name: &row.generation }
            }
            (generation, NamedBy::Gateway | NamedBy::Client) => generation,
        }
    }
}

/// The result of a claim.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    pub(crate) given: Vec<NoticeEntry>,
    /// How many were dropped because they are for a generation of the session that has ended.
    pub(crate) too_late: u64,
}

/// The open notices of a session, in order.
fn open_of_session() -> String {
    format!("SELECT {} FROM notice INDEXED BY notice_open WHERE session = ?1 AND settled_at = 0 ORDER BY seq", NoticeRow::COLUMNS)
}

/// Leases the next notices of a session to one taker. A taker of a generation that has ended gets none.
pub(crate) fn claim(db: &Connection, claim: &Claim) -> rusqlite::Result<Claimed> {
    note_generation(db, &claim.session, &claim.generation, claim.named_by)?;
    let newest = newest_generation(db, &claim.session)?;
    if !claim.generation.is_empty() && newest.as_ref() != Some(&claim.generation) {
        return Ok(Claimed::default());
    }
    let (mut given, mut changed, mut unreadable, mut too_late, mut answered) =
        (Vec::new(), Vec::new(), Vec::new(), 0, AnswerSize::default());
    let mut open = db.prepare_cached(&open_of_session())?;
    let mut rows = open.query(params![claim.session])?;
    while given.len() < claim.limit
        && let Some(row) = rows.next()?
    {
        let row = NoticeRow::read(row)?;
        if !claim.takes(&row) {
            continue;
        }
        let generation = claim.decided(&row, generation_of(db, &row, newest.as_deref())?);
        let step = row.decide(claim.event(LeaseHolder::Taker, generation), claim.now);
        match step.reply {
            NoticeReply::Given => match by_seq(db, row.seq)? {
                None => {}
                Some(NoticeEntry { unreadable: Some(why), .. }) => unreadable.push((row, why)),
                Some(mut entry) => {
                    entry.earlier = claim.asker.as_ref().is_some_and(|asker| asker.is_earlier(&row.process));
                    if !answered.has_room(entry.answered_bytes()) {
                        break;
                    }
                    given.push((row, step, entry));
                }
            },
            NoticeReply::Done => {
                too_late += u64::from(matches!(generation, NoticeGeneration::Ended { .. }));
                changed.push((row, step));
            }
            NoticeReply::None | NoticeReply::Busy | NoticeReply::Skipped | NoticeReply::Already | NoticeReply::Lost => {}
        }
    }
    drop(rows);
    for (mut row, step) in changed {
        row.carry_out(db, step, claim.now)?;
    }
    for (mut row, why) in unreadable {
        drop_unreadable(db, &mut row, &why, claim.now)?;
    }
    let give = |(mut row, step, mut entry): (NoticeRow, _, NoticeEntry)| -> rusqlite::Result<NoticeEntry> {
        row.carry_out(db, step, claim.now)?;
        entry.follow(&row.notice, claim.now);
        Ok(entry)
    };
    Ok(Claimed { given: given.into_iter().map(give).collect::<rusqlite::Result<_>>()?, too_late })
}

/// Drops a notice whose content cannot be read, because it cannot be delivered.
fn drop_unreadable(db: &Connection, row: &mut NoticeRow, why: &str, now: Moment) -> rusqlite::Result<()> {
    row.apply(db, NoticeEvent::Settle { token: None, verdict: Verdict::Dropped(why) }, now)?;
    Ok(())
}

/// The most notices that are counted as waiting.
const MAX_COUNTED: u64 = 1_000;

/// How many notices a claim of a terminal would lease. Counting settles nothing.
pub(crate) fn waiting(db: &Connection, session: &str, asker: Option<Asker>, now: Moment) -> rusqlite::Result<u64> {
    let claim = Claim {
        session: session.to_owned(),
        generation: String::new(),
        named_by: NamedBy::Client,
        taker: TakerKind::Terminal,
        asker,
        asked: false,
        limit: 0,
        lease: String::new(),
        lease_for: 0,
        now,
    };
    let newest = newest_generation(db, session)?;
    let mut open = db.prepare_cached(&open_of_session())?;
    let mut rows = open.query(params![session])?;
    let mut count = 0;
    while count < MAX_COUNTED
        && let Some(row) = rows.next()?
    {
        let row = NoticeRow::read(row)?;
        if !claim.takes(&row) {
            continue;
        }
        let generation = generation_of(db, &row, newest.as_deref())?;
        let reply = row.decide(claim.event(LeaseHolder::Taker, generation), now).reply;
        count += u64::from(reply == NoticeReply::Given);
    }
    Ok(count)
}

/// The result of a sink's claim of one notice by its number.
pub(super) enum SinkClaim {
    Given(Box<NoticeEntry>),
    /// Another client or sink has it.
    Lent,
    /// It is for a generation of the session that has not begun.
    NotYet,
    /// It is settled or was removed.
    Over,
}

/// Leases one notice to a sink, by the rules of [`claim`]. A sink that asks again with the same token gets the same answer, because the
/// first one may not have arrived.
pub(super) fn claim_one(db: &Connection, seq: u64, claim: &Claim) -> rusqlite::Result<SinkClaim> {
    let Some(mut row) = NoticeRow::with_seq(db, seq)? else { return Ok(SinkClaim::Over) };
    let newest = newest_generation(db, &claim.session)?;
    let step = row.decide(claim.event(LeaseHolder::Sink, generation_of(db, &row, newest.as_deref())?), claim.now);
    match step.reply {
        NoticeReply::Given => {
            let Some(mut entry) = by_seq(db, seq)? else { return Ok(SinkClaim::Over) };
            if let Some(why) = &entry.unreadable {
                drop_unreadable(db, &mut row, why, claim.now)?;
                return Ok(SinkClaim::Over);
            }
            row.carry_out(db, step, claim.now)?;
            entry.follow(&row.notice, claim.now);
            Ok(SinkClaim::Given(Box::new(entry)))
        }
        NoticeReply::Busy => Ok(SinkClaim::Lent),
        NoticeReply::Skipped => Ok(SinkClaim::NotYet),
        NoticeReply::Done | NoticeReply::None | NoticeReply::Already | NoticeReply::Lost => {
            row.carry_out(db, step, claim.now)?;
            Ok(SinkClaim::Over)
        }
    }
}

/// How long until the next lease of this session runs out.
pub(crate) fn next_lapse(db: &Connection, session: &str, now: Moment) -> rusqlite::Result<Option<Duration>> {
    let at: Option<i64> = db
        .prepare_cached("SELECT MIN(lease_up) FROM notice INDEXED BY notice_open WHERE session = ?1 AND settled_at = 0 AND lease_up > ?2")?
        .query_row(params![session, now.up], |r| r.get(0))?;
    Ok(at.map(|at| until(at, now)))
}

/// A session of gateways with notices to take. The value changes if it gets newer ones, or if some were leased in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenSession {
    pub(crate) session: String,
    newest: i64,
    attempts: i64,
}

/// The sessions of gateways that have notices to take, and how long until the next lease among them runs out.
pub(crate) fn open_sessions(db: &Connection, now: Moment) -> rusqlite::Result<(Vec<OpenSession>, Option<Duration>)> {
    const OF_GATEWAYS: &str = "settled_at = 0 AND (session GLOB 'agent:main:*' OR session = 'outlast:gateway')";
    let sql = format!(
        "SELECT session, MAX(seq), SUM(attempts) FROM notice INDEXED BY notice_open WHERE {OF_GATEWAYS} AND lease_up <= ?1 GROUP BY session"
    );
    let read = |row: &rusqlite::Row<'_>| Ok(OpenSession { session: row.get(0)?, newest: row.get(1)?, attempts: row.get(2)? });
    let open = db.prepare_cached(&sql)?.query_map(params![now.up], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let sql = format!("SELECT MIN(lease_up) FROM notice INDEXED BY notice_open WHERE {OF_GATEWAYS} AND lease_up > ?1");
    let lapse: Option<i64> = db.prepare_cached(&sql)?.query_row(params![now.up], |row| row.get(0))?;
    Ok((open, lapse.map(|at| until(at, now))))
}

/// Who names a generation of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// The gateway that serves the home. It makes the generations of its sessions, so it knows which one is the newest.
    Gateway,
    /// Any other client. It may be a process that an earlier generation left, or belong to another home.
    Client,
}

/// The generations that a gateway named have places after this one, so that a name which only other clients know is never newer.
const LAST_PLACE_OF_CLIENTS: i64 = 1 << 32;

/// Records that this generation of a session was seen. The one that the gateway named last is the newest. If no gateway named one, the newest
/// is the one whose first request came last.
pub(crate) fn note_generation(db: &Connection, session: &str, generation: &str, by: NamedBy) -> rusqlite::Result<()> {
    if generation.is_empty() {
        return Ok(());
    }
    let sql = match by {
        NamedBy::Client => {
            "INSERT OR IGNORE INTO life (session, generation, nth)
             VALUES (?1, ?2, (SELECT COALESCE(MAX(nth), 0) + 1 FROM life WHERE session = ?1 AND nth <= ?3))"
        }
        // Also if it was seen before: a database of the gateway that was restored from a copy has an earlier generation.
        NamedBy::Gateway => {
            "INSERT INTO life (session, generation, nth)
             VALUES (?1, ?2, (SELECT MAX(COALESCE(MAX(nth), 0), ?3) + 1 FROM life WHERE session = ?1))
             ON CONFLICT (session, generation) DO UPDATE SET nth = excluded.nth WHERE nth + 1 < excluded.nth"
        }
    };
    db.prepare_cached(sql)?.execute(params![session, generation, LAST_PLACE_OF_CLIENTS])?;
    Ok(())
}

/// Whether this generation of a session was seen.
pub(crate) fn is_known_generation(db: &Connection, session: &str, generation: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM life WHERE session = ?1 AND generation = ?2")?.exists(params![session, generation])
}

fn newest_generation(db: &Connection, session: &str) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT generation FROM life WHERE session = ?1 ORDER BY nth DESC LIMIT 1")?
        .query_row(params![session], |r| column::text(r, 0))
        .optional()
}

/// The generation of a notice, compared with the newest of its session.
fn generation_of<'a>(db: &Connection, row: &'a NoticeRow, newest: Option<&str>) -> rusqlite::Result<NoticeGeneration<'a>> {
    let name = row.generation.as_str();
    if name.is_empty() || newest.is_none_or(|newest| newest == name) {
        return Ok(NoticeGeneration::Current);
    }
    Ok(if is_known_generation(db, &row.session, name)? { NoticeGeneration::Ended { name } } else { NoticeGeneration::Future })
}
