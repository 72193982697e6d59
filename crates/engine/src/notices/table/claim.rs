//! Who is given which notice.

use super::{Answered, Entry, Moment, by_seq, column, settle, until};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;

/// How notices are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taker {
    /// Between two turns at a terminal: what was observed is known already.
    Terminal,
    /// Turns come by themselves: what was only observed is told, and lines of a process whose end was told are not.
    Gateway,
}

/// Who asks for notices, and for how long.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) session: String,
    pub(crate) generation: String,
    pub(crate) taker: Taker,
    pub(crate) limit: usize,
    pub(crate) lease: String,
    /// Microseconds.
    pub(crate) lease_for: i64,
    pub(crate) now: Moment,
}

/// What a claim has to know of a notice before it reads it.
struct Open {
    seq: u64,
    state: String,
    kind: String,
    generation: String,
    observed: bool,
    stale: String,
    lease: String,
    lease_up: i64,
    /// Whether the end of its process was seen.
    consumed: bool,
    /// Whether the life it is for was seen.
    lived: bool,
}

const OPEN: &str = "seq, state, kind, generation, observed, stale, lease, lease_up,
    EXISTS (SELECT 1 FROM mark WHERE mark.process = notice.process AND consumed_at > 0),
    EXISTS (SELECT 1 FROM life WHERE life.session = notice.session AND life.generation = notice.generation)";

/// What a claim does with a notice.
enum Fate {
    Given,
    /// Somebody has it, or it is for another kind of taker.
    Left,
    Settled(&'static str, String),
    /// The life that it is for has ended.
    TooLate,
}

impl Open {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get::<_, i64>(0)? as u64,
            state: column::text(row, 1)?,
            kind: column::text(row, 2)?,
            generation: column::text(row, 3)?,
            observed: row.get(4)?,
            stale: column::text(row, 5)?,
            lease: column::text(row, 6)?,
            lease_up: row.get(7)?,
            consumed: row.get(8)?,
            lived: row.get(9)?,
        })
    }

    fn fate(&self, claim: &Claim, life: Option<&str>) -> Fate {
        let completion = self.kind == "completion";
        if self.state == "leased" && self.lease_up > claim.now.up {
            return Fate::Left;
        }
        if life.is_some_and(|life| !self.generation.is_empty() && self.generation != life) {
            if !self.lived {
                // It is for one that is yet to come.
                return Fate::Left;
            }
            return Fate::TooLate;
        }
        if completion && self.consumed {
            return Fate::Settled("consumed", "its end was seen before it was told".into());
        }
        if !self.stale.is_empty() {
            return Fate::Settled("superseded", self.stale.clone());
        }
        match claim.taker {
            Taker::Terminal if completion && self.observed => Fate::Left,
            Taker::Gateway if self.consumed && is_watch(&self.kind) => {
                Fate::Settled("dropped", "the end of the process was told already".into())
            }
            Taker::Terminal | Taker::Gateway => Fate::Given,
        }
    }

    fn too_late(&self) -> String {
        format!("generation {} of the conversation has ended", self.generation)
    }
}

/// Whether a notice of this kind is about lines of a process.
fn is_watch(kind: &str) -> bool {
    kind == "watch_match" || kind == "watch_disabled"
}

/// What came of a claim.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    pub(crate) given: Vec<Entry>,
    /// How many were dropped, because they are for a life of the conversation that has ended.
    pub(crate) too_late: u64,
}

/// Gives out the next notices of a conversation, each to one taker until its lease ends. To one of a life that has ended nothing is given.
pub(crate) fn claim(db: &Connection, claim: &Claim) -> rusqlite::Result<Claimed> {
    lives(db, &claim.session, &claim.generation)?;
    let life = current_life(db, &claim.session)?;
    if !claim.generation.is_empty() && life.as_ref() != Some(&claim.generation) {
        return Ok(Claimed::default());
    }
    let mut open = db.prepare_cached(&format!(
        "SELECT {OPEN} FROM notice INDEXED BY notice_open WHERE session = ?1 AND state IN ('pending', 'leased') ORDER BY seq"
    ))?;
    let (mut given, mut too_late, mut settled, mut answered) = (Vec::new(), 0, Vec::new(), Answered::default());
    let mut rows = open.query(params![claim.session])?;
    while given.len() < claim.limit
        && let Some(row) = rows.next()?
    {
        let open = Open::read(row)?;
        match open.fate(claim, life.as_deref()) {
            Fate::Left => {}
            Fate::Settled(state, reason) => settled.push((open.seq, state, reason)),
            Fate::TooLate => {
                too_late += 1;
                settled.push((open.seq, "dropped", open.too_late()));
            }
            Fate::Given => match by_seq(db, open.seq)? {
                None => {}
                Some(Entry { unreadable: Some(why), .. }) => settled.push((open.seq, "dropped", why)),
                Some(entry) if answered.has_room(entry.answered_bytes()) => given.push(entry),
                Some(_) => break,
            },
        }
    }
    drop(rows);
    for (seq, state, reason) in settled {
        settle(db, seq, state, &reason, claim.now.utc)?;
    }
    for entry in &mut given {
        give(db, entry, claim)?;
    }
    Ok(Claimed { given, too_late })
}

/// The most notices that are counted as waiting.
const MAX_COUNTED: i64 = 1_000;

/// How many notices of a session a claim at a terminal would give out. Nothing is settled by counting.
pub(crate) fn waiting(db: &Connection, session: &str, now: Moment) -> rusqlite::Result<u64> {
    let sql = "SELECT count(*) FROM (SELECT 1 FROM notice INDEXED BY notice_open
        WHERE session = ?1 AND state IN ('pending', 'leased') AND (state = 'pending' OR lease_up <= ?2) AND stale = ''
        AND NOT (kind = 'completion' AND (observed
            OR EXISTS (SELECT 1 FROM mark WHERE mark.process = notice.process AND consumed_at > 0)))
        LIMIT ?3)";
    let count: i64 = db.prepare_cached(sql)?.query_row(params![session, now.up, MAX_COUNTED], |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

fn give(db: &Connection, entry: &mut Entry, claim: &Claim) -> rusqlite::Result<()> {
    // Whoever had it let its time pass without a word: it may have been told. What was only kept for somebody who did not come nobody had.
    let maybe_told = entry.state == "leased" && entry.attempts > 0;
    entry.lease_until = claim.now.utc.micros() + claim.lease_for;
    db.prepare_cached(
        "UPDATE notice SET state = 'leased', attempts = attempts + 1, maybe_told = maybe_told OR ?2, lease = ?3, lease_up = ?4, lease_until = ?5
         WHERE seq = ?1",
    )?
    .execute(params![entry.notice.seq as i64, maybe_told, claim.lease, claim.now.up + claim.lease_for, entry.lease_until])?;
    entry.state = "leased".into();
    entry.attempts += 1;
    entry.notice.repeat |= maybe_told;
    entry.lease.clone_from(&claim.lease);
    Ok(())
}

/// What became of one notice that was asked for by its place.
pub(super) enum One {
    Given(Box<Entry>),
    /// Somebody else has it.
    Lent,
    /// It is for a life of the conversation that is yet to come.
    NotYet,
    /// Nobody is to be told of it any more, or it is gone.
    Over,
}

/// Gives out one notice, by the rules of [`claim`]. If a taker asks again with the same lease, it gets the same answer: the first one may
/// not have arrived.
pub(super) fn claim_one(db: &Connection, seq: u64, claim: &Claim) -> rusqlite::Result<One> {
    let open = db
        .prepare_cached(&format!("SELECT {OPEN} FROM notice WHERE seq = ?1 AND state IN ('pending', 'leased')"))?
        .query_row(params![seq as i64], Open::read)
        .optional()?;
    let Some(open) = open else { return Ok(One::Over) };
    if open.state == "leased" && open.lease_up > claim.now.up && open.lease == claim.lease {
        return Ok(by_seq(db, seq)?.map_or(One::Over, |entry| One::Given(Box::new(entry))));
    }
    match open.fate(claim, current_life(db, &claim.session)?.as_deref()) {
        Fate::Left if open.state == "leased" && open.lease_up > claim.now.up => Ok(One::Lent),
        Fate::Left => Ok(One::NotYet),
        Fate::Settled(state, reason) => {
            settle(db, seq, state, &reason, claim.now.utc)?;
            Ok(One::Over)
        }
        Fate::TooLate => {
            settle(db, seq, "dropped", &open.too_late(), claim.now.utc)?;
            Ok(One::Over)
        }
        Fate::Given => {
            let Some(mut entry) = by_seq(db, seq)? else { return Ok(One::Over) };
            if let Some(why) = &entry.unreadable {
                settle(db, seq, "dropped", why, claim.now.utc)?;
                return Ok(One::Over);
            }
            give(db, &mut entry, claim)?;
            Ok(One::Given(Box::new(entry)))
        }
    }
}

/// How long until the next lease of this conversation ends. One that has ended is nothing to wait for: whoever asks could have had it.
pub(crate) fn next_lapse(db: &Connection, session: &str, now: Moment) -> rusqlite::Result<Option<Duration>> {
    let at: Option<i64> = db
        .prepare_cached(
            "SELECT MIN(lease_up) FROM notice INDEXED BY notice_open WHERE session = ?1 AND state IN ('pending', 'leased') AND state = 'leased' AND lease_up > ?2",
        )?
        .query_row(params![session, now.up], |r| r.get(0))?;
    Ok(at.map(|at| until(at, now)))
}

/// A session of gateways with notices that can be taken now. If it has newer ones, or some that were given out in between, it is another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenSession {
    pub(crate) session: String,
    newest: i64,
    attempts: i64,
}

/// The sessions of gateways that have notices that can be taken, and how long until a lease among them ends.
pub(crate) fn open_sessions(db: &Connection, now: Moment) -> rusqlite::Result<(Vec<OpenSession>, Option<Duration>)> {
    const OF_GATEWAYS: &str = "state IN ('pending', 'leased') AND (session GLOB 'agent:main:*' OR session = 'outlast:gateway')";
    let sql = format!(
        "SELECT session, MAX(seq), SUM(attempts) FROM notice INDEXED BY notice_open WHERE {OF_GATEWAYS} AND (state = 'pending' OR lease_up <= ?1) GROUP BY session"
    );
    let read = |row: &rusqlite::Row<'_>| Ok(OpenSession { session: row.get(0)?, newest: row.get(1)?, attempts: row.get(2)? });
    let open = db.prepare_cached(&sql)?.query_map(params![now.up], read)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let sql = format!("SELECT MIN(lease_up) FROM notice INDEXED BY notice_open WHERE {OF_GATEWAYS} AND state = 'leased' AND lease_up > ?1");
    let lapse: Option<i64> = db.prepare_cached(&sql)?.query_row(params![now.up], |row| row.get(0))?;
    Ok((open, lapse.map(|at| until(at, now))))
}

/// Remembers that this life of a conversation was seen.
pub(crate) fn lives(db: &Connection, session: &str, generation: &str) -> rusqlite::Result<()> {
    if generation.is_empty() {
        return Ok(());
    }
    db.prepare_cached(
        "INSERT OR IGNORE INTO life (session, generation, nth)
         VALUES (?1, ?2, (SELECT COALESCE(MAX(nth), 0) + 1 FROM life WHERE session = ?1))",
    )?
    .execute(params![session, generation])?;
    Ok(())
}

fn current_life(db: &Connection, session: &str) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT generation FROM life WHERE session = ?1 ORDER BY nth DESC LIMIT 1")?
        .query_row(params![session], |r| column::text(r, 0))
        .optional()
}
