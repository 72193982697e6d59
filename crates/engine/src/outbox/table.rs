//! The outbox as tables, and each step on them. Every function here runs inside the writer's transaction, so that a claim is one act and nothing is half done.

use outlast_core::{Body, Notice, Owner, ProcessId, Route, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest, Sha256};

/// The tables of the second layout.
pub(crate) const CREATE: &str = "
CREATE TABLE notice (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    key         TEXT NOT NULL UNIQUE,   -- what it is about: process, kind and which of them
    id          TEXT NOT NULL UNIQUE,
    kind        TEXT NOT NULL,
    process     TEXT NOT NULL,          -- empty: about none
    session     TEXT NOT NULL,          -- empty: for a person
    task        TEXT NOT NULL,
    generation  TEXT NOT NULL,
    created_at  INTEGER NOT NULL,       -- microseconds, UTC, as everywhere here
    event       TEXT NOT NULL,          -- JSON
    state       TEXT NOT NULL,          -- pending, leased, delivered, consumed, superseded, dropped
    reason      TEXT NOT NULL DEFAULT '',
    attempts    INTEGER NOT NULL DEFAULT 0,
    maybe_told  INTEGER NOT NULL DEFAULT 0,
    observed    INTEGER NOT NULL DEFAULT 0,
    lease       TEXT NOT NULL DEFAULT '',
    lease_until INTEGER NOT NULL DEFAULT 0,
    lease_for   INTEGER NOT NULL DEFAULT 0,
    settled_at  INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX notice_open ON notice (session, seq) WHERE state IN ('pending', 'leased');
CREATE INDEX notice_of_process ON notice (process, kind);
CREATE INDEX notice_of_session ON notice (session, seq);
CREATE INDEX notice_settled ON notice (settled_at) WHERE settled_at > 0;
CREATE TABLE delivery (                 -- one for each notice and each sink that pushes
    sink        TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    session     TEXT NOT NULL,
    state       TEXT NOT NULL,          -- pending, leased, delivered, dead
    attempts    INTEGER NOT NULL DEFAULT 0,
    maybe_told  INTEGER NOT NULL DEFAULT 0,
    lease       TEXT NOT NULL DEFAULT '',
    due_at      INTEGER NOT NULL,       -- when it may be tried; of a leased one, when the lease ends
    first_at    INTEGER NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (sink, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_open ON delivery (sink, due_at, seq) WHERE state IN ('pending', 'leased');
CREATE TABLE mark (                     -- outlives the process it is about
    process     TEXT PRIMARY KEY,
    consumed_at INTEGER NOT NULL DEFAULT 0,
    by          TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE TABLE watching (                 -- how far matches were judged, and what the limiter knows
    process     TEXT PRIMARY KEY,
    cursor      INTEGER NOT NULL,
    limiter     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE life (                     -- generations of a conversation, in the order in which they were seen
    session     TEXT NOT NULL,
    generation  TEXT NOT NULL,
    nth         INTEGER NOT NULL,
    PRIMARY KEY (session, generation)
) STRICT, WITHOUT ROWID;
CREATE TABLE barrier (
    id          TEXT PRIMARY KEY,
    session     TEXT NOT NULL,
    task        TEXT NOT NULL,
    generation  TEXT NOT NULL,
    until       TEXT NOT NULL,          -- JSON
    created_at  INTEGER NOT NULL,
    opened      TEXT NOT NULL DEFAULT '',
    opened_at   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE one (                      -- what there is one of
    name        TEXT PRIMARY KEY,
    value       TEXT NOT NULL
) STRICT, WITHOUT ROWID;
";

/// A notice that is not written yet.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// What it is about; the same fact gives the same key, however often it is read.
    pub(crate) key: String,
    pub(crate) at: Time,
    pub(crate) process: Option<ProcessId>,
    pub(crate) owner: Owner,
    pub(crate) route: Route,
    pub(crate) body: Body,
    /// Whether its owner may have been told before: the index was rebuilt.
    pub(crate) repeat: bool,
}

impl Draft {
    /// The notice's name. It comes from the key alone, so that a sink that saw it knows it again even if the index was lost in between.
    pub(crate) fn event_id(&self) -> String {
        let sum = Sha256::digest(self.key.as_bytes());
        format!("evt_{}", &crate::run_dir::hex(&sum)[..24])
    }
}

/// A sink that pushes, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// Its name.
    pub name: String,
    /// The kinds it is for; empty means all.
    pub kinds: Vec<String>,
    /// The conversations it is for, `*` standing for any text; empty means all.
    pub sessions: Vec<String>,
}

impl Push {
    fn takes(&self, kind: &str, session: &str) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|k| k == kind))
            && (self.sessions.is_empty() || self.sessions.iter().any(|pattern| glob(pattern, session)))
    }
}

/// Whether `text` is what `pattern` describes, `*` standing for any text.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Where a notice stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) notice: Notice,
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) attempts: u32,
    pub(crate) observed: bool,
    pub(crate) lease: String,
    pub(crate) lease_until: i64,
    pub(crate) lease_for: i64,
}

/// The most that one answer holds, in bytes of its events; the one that passes it is the last. Each comes with its text, alone and among the others, and all of
/// it has to fit into one frame.
const MOST_BYTES: usize = 1 << 20;

const COLUMNS: &str = "seq, event, state, reason, attempts, maybe_told, observed, lease, lease_until, lease_for";

fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let event: String = row.get(1)?;
    let mut notice: Notice =
        serde_json::from_str(&event).map_err(|e| rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Text, Box::new(e)))?;
    notice.seq = row.get::<_, i64>(0)? as u64;
    notice.repeat |= row.get::<_, bool>(5)?;
    Ok(Entry {
        notice,
        state: row.get(2)?,
        reason: row.get(3)?,
        attempts: row.get(4)?,
        observed: row.get(6)?,
        lease: row.get(7)?,
        lease_until: row.get(8)?,
        lease_for: row.get(9)?,
    })
}

fn length(row: &Row<'_>) -> rusqlite::Result<usize> {
    Ok(row.get_ref(1)?.as_bytes().map_or(0, <[u8]>::len))
}

impl Entry {
    /// Whether nobody holds it. A clock that was set back does not make a lease longer than it was.
    fn is_free(&self, now: Time) -> bool {
        self.state == "pending" || (self.state == "leased" && is_over(self.lease_until, self.lease_for, now))
    }
}

fn is_over(until: i64, lasted: i64, now: Time) -> bool {
    until <= now.micros() || until - now.micros() > lasted
}

/// Writes a notice and what the sinks owe for it. Nothing if it is there already.
pub(crate) fn insert(db: &Connection, draft: &Draft, sinks: &[Push], now: Time) -> rusqlite::Result<Option<u64>> {
    let mut notice = Notice::new(draft.event_id(), draft.at, draft.process, &draft.owner, draft.route.clone(), draft.body.clone());
    notice.repeat = draft.repeat;
    let (kind, session) = (notice.kind().to_owned(), notice.session_key.clone());
    let seen = kind == "completion" && is_consumed(db, &notice.session_id)?;
    let written = db
        .prepare_cached(
            "INSERT OR IGNORE INTO notice (key, id, kind, process, session, task, generation, created_at, event, state, reason, settled_at, maybe_told)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        )?
        .execute(params![
            draft.key,
            notice.event_id,
            kind,
            notice.session_id,
            session,
            notice.task_id,
            notice.generation,
            draft.at.micros(),
            json(&notice),
            if seen { "consumed" } else { "pending" },
            if seen { "its end was seen before it was told" } else { "" },
            if seen { now.micros() } else { 0 },
            draft.repeat,
        ])?;
    if written == 0 {
        return Ok(None);
    }
    let seq = db.last_insert_rowid();
    for sink in sinks.iter().filter(|s| s.takes(&kind, &session)) {
        db.prepare_cached("INSERT INTO delivery (sink, seq, session, state, due_at, maybe_told) VALUES (?1, ?2, ?3, 'pending', ?4, ?5)")?
            .execute(params![sink.name, seq, session, now.micros(), draft.repeat])?;
    }
    Ok(Some(seq as u64))
}

fn json(notice: &Notice) -> String {
    // A notice holds strings, numbers and maps with string keys only, which always serialise.
    serde_json::to_string(notice).expect("a notice serialises")
}

/// Whether the owner of a process has seen its end.
pub(crate) fn is_consumed(db: &Connection, process: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM mark WHERE process = ?1 AND consumed_at > 0")?.exists(params![process])
}

/// The owner of a process has seen its end: what is still to be told of it is not told. What somebody is just telling is theirs to settle.
pub(crate) fn consume(db: &Connection, process: &str, how: &str, now: Time) -> rusqlite::Result<()> {
    mark(db, process, how, now)?;
    let reason = format!("its end was seen by {how}");
    db.prepare_cached(
        "UPDATE notice SET state = 'consumed', reason = ?2, settled_at = ?3, lease = ''
         WHERE process = ?1 AND kind = 'completion' AND (state = 'pending' OR (state = 'leased' AND (lease = 'answer' OR lease_until <= ?3)))",
    )?
    .execute(params![process, reason, now.micros()])?;
    Ok(())
}

/// How long an answer may take to reach its socket.
const ANSWERING: i64 = 60_000_000;

/// Keeps the end of a process from being told by anybody else while it is answered.
pub(crate) fn hold(db: &Connection, process: &str, now: Time) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE notice SET state = 'leased', attempts = attempts + 1, lease = 'answer', lease_until = ?2 + ?3, lease_for = ?3
         WHERE process = ?1 AND kind = 'completion' AND state = 'pending'",
    )?
    .execute(params![process, now.micros(), ANSWERING])?;
    Ok(())
}

/// As [`hold`], of a notice by what it is about.
pub(crate) fn hold_key(db: &Connection, key: &str, now: Time) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE notice SET state = 'leased', attempts = attempts + 1, lease = 'answer', lease_until = ?2 + ?3, lease_for = ?3
         WHERE key = ?1 AND state = 'pending'",
    )?
    .execute(params![key, now.micros(), ANSWERING])?;
    Ok(())
}

/// Whoever waited was answered with what a notice says.
pub(crate) fn consume_key(db: &Connection, key: &str, now: Time) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE notice SET state = 'consumed', reason = 'whoever waited was answered', settled_at = ?2, lease = ''
         WHERE key = ?1 AND state = 'leased' AND lease = 'answer'",
    )?
    .execute(params![key, now.micros()])?;
    Ok(())
}

fn mark(db: &Connection, process: &str, how: &str, now: Time) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO mark (process, consumed_at, by) VALUES (?1, ?2, ?3)")?.execute(params![
        process,
        now.micros(),
        how
    ])?;
    Ok(())
}

/// Somebody in its own conversation looked at a process that is over: a terminal need not tell it, a gateway still does.
pub(crate) fn observe(db: &Connection, process: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE notice SET observed = 1 WHERE process = ?1 AND kind = 'completion' AND state IN ('pending', 'leased')")?
        .execute(params![process])?;
    Ok(())
}

/// A newer run makes what is to be told of an older one stale.
pub(crate) fn supersede(db: &Connection, process: &str, by: &str, now: Time) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE notice SET state = 'superseded', reason = ?2, settled_at = ?3
         WHERE process = ?1 AND kind = 'completion' AND state = 'pending'",
    )?
    .execute(params![process, format!("run again as {by}"), now.micros()])?;
    Ok(())
}

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
    pub(crate) lease_for: i64,
    pub(crate) now: Time,
}

/// Gives out the next notices of a conversation, each to one taker until its lease ends.
pub(crate) fn claim(db: &Connection, claim: &Claim) -> rusqlite::Result<Vec<Entry>> {
    lives(db, &claim.session, &claim.generation)?;
    let current = current_life(db, &claim.session)?;
    let mut given = Vec::new();
    let mut settled = Vec::new();
    let mut open =
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM notice WHERE session = ?1 AND state IN ('pending', 'leased') ORDER BY seq"))?;
    let mut rows = open.query(params![claim.session])?;
    let mut bytes = 0;
    while given.len() < claim.limit
        && bytes < MOST_BYTES
        && let Some(row) = rows.next()?
    {
        let (length, entry) = (length(row)?, entry(row)?);
        let notice = &entry.notice;
        let consumed = !notice.session_id.is_empty() && is_consumed(db, &notice.session_id)?;
        let ended_life = current.as_ref().is_some_and(|now| !notice.generation.is_empty() && notice.generation != *now);
        match claim.taker {
            _ if !entry.is_free(claim.now) => {}
            _ if ended_life => {
                settled.push((notice.seq, "dropped", format!("generation {} of the conversation has ended", notice.generation)));
            }
            _ if notice.kind() == "completion" && consumed => {
                settled.push((notice.seq, "consumed", "its end was seen before it was told".into()));
            }
            Taker::Terminal if notice.kind() == "completion" && entry.observed => {}
            Taker::Gateway if notice.is_watch() && consumed => {
                settled.push((notice.seq, "dropped", "the end of the process was told already".into()));
            }
            Taker::Terminal | Taker::Gateway => {
                bytes += length;
                given.push(entry);
            }
        }
    }
    drop(rows);
    for (seq, state, reason) in settled {
        settle(db, seq, state, &reason, claim.now)?;
    }
    for entry in &mut given {
        // Whoever had it let its time pass without a word: it may have been told.
        let maybe_told = entry.state == "leased";
        entry.lease_until = claim.now.micros() + claim.lease_for;
        db.prepare_cached(
            "UPDATE notice SET state = 'leased', attempts = attempts + 1, maybe_told = maybe_told OR ?2, lease = ?3, lease_until = ?4, lease_for = ?5
             WHERE seq = ?1",
        )?
        .execute(params![entry.notice.seq as i64, maybe_told, claim.lease, entry.lease_until, claim.lease_for])?;
        entry.state = "leased".into();
        entry.attempts += 1;
        entry.notice.repeat |= maybe_told;
        entry.lease.clone_from(&claim.lease);
    }
    Ok(given)
}

/// When the next lease of this conversation ends. What is free already and was not given is not for this taker, however long it waits.
pub(crate) fn next_lapse(db: &Connection, session: &str, now: Time) -> rusqlite::Result<Option<Time>> {
    let at: Option<i64> = db
        .prepare_cached("SELECT MIN(lease_until) FROM notice WHERE session = ?1 AND state = 'leased' AND lease_until > ?2")?
        .query_row(params![session, now.micros()], |r| r.get(0))?;
    Ok(at.map(Time::from_micros))
}

fn settle(db: &Connection, seq: u64, state: &str, reason: &str, now: Time) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE notice SET state = ?2, reason = ?3, settled_at = ?4, lease = '' WHERE seq = ?1")?.execute(params![
        seq as i64,
        state,
        reason,
        now.micros()
    ])?;
    Ok(())
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
        .query_row(params![session], |r| r.get(0))
        .optional()
}

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
    /// It was settled before, in the same way.
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

fn judge_one(db: &Connection, found: &Entry, lease: Option<&str>, verdict: &Verdict, now: Time) -> rusqlite::Result<Settled> {
    let seq = found.notice.seq;
    let wanted = match verdict {
        Verdict::Delivered => "delivered",
        Verdict::Released => "pending",
        Verdict::Dropped(_) => "dropped",
    };
    match found.state.as_str() {
        state if state == wanted => return Ok(Settled::Already),
        "leased" if lease.is_some_and(|l| l != found.lease) => return Ok(Settled::Lost),
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
            } else {
                db.prepare_cached("UPDATE notice SET state = 'pending', lease = '', lease_until = 0 WHERE seq = ?1")?
                    .execute(params![seq as i64])?;
            }
        }
        Verdict::Dropped(reason) => settle(db, seq, "dropped", reason, now)?,
    }
    Ok(Settled::Done)
}

/// One notice.
pub(crate) fn by_id(db: &Connection, id: &str) -> rusqlite::Result<Option<Entry>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM notice WHERE id = ?1"))?.query_row(params![id], entry).optional()
}

/// One notice, by what it is about.
pub(crate) fn by_key(db: &Connection, key: &str) -> rusqlite::Result<Option<Entry>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM notice WHERE key = ?1"))?.query_row(params![key], entry).optional()
}

/// Which notices somebody wants to read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Behind this one.
    pub(crate) after: u64,
    pub(crate) session: Option<String>,
    pub(crate) process: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) state: Option<String>,
    /// The newest first.
    pub(crate) newest: bool,
    pub(crate) limit: usize,
}

/// Reads notices and changes nothing. Fewer come than there are if they are long.
pub(crate) fn read(db: &Connection, filter: &Filter) -> rusqlite::Result<Vec<Entry>> {
    let order = if filter.newest { "DESC" } else { "ASC" };
    let mut wanted = db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM notice
         WHERE seq > ?1 AND (?2 IS NULL OR session = ?2) AND (?3 IS NULL OR process = ?3) AND (?4 IS NULL OR kind = ?4) AND (?5 IS NULL OR state = ?5)
         ORDER BY seq {order} LIMIT ?6"
    ))?;
    let mut rows =
        wanted.query(params![filter.after as i64, filter.session, filter.process, filter.kind, filter.state, filter.limit as i64])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while bytes < MOST_BYTES
        && let Some(row) = rows.next()?
    {
        bytes += length(row)?;
        found.push(entry(row)?);
    }
    Ok(found)
}

/// The newest notice's place.
pub(crate) fn last_seq(db: &Connection) -> rusqlite::Result<u64> {
    let last: Option<i64> = db.prepare_cached("SELECT MAX(seq) FROM notice")?.query_row([], |r| r.get(0))?;
    Ok(last.unwrap_or(0) as u64)
}

/// Offers notices again that were given before: those from `from` on that are settled as delivered, of one conversation or of all.
pub(crate) fn replay(db: &Connection, from: u64, session: Option<&str>) -> rusqlite::Result<u64> {
    let changed = db
        .prepare_cached(
            "UPDATE notice SET state = 'pending', reason = 'replayed', maybe_told = 1, observed = 0, lease = '', lease_until = 0, settled_at = 0
             WHERE seq >= ?1 AND state = 'delivered' AND (?2 IS NULL OR session = ?2)",
        )?
        .execute(params![from as i64, session])?;
    // What is told again is not known to be seen.
    db.prepare_cached(
        "DELETE FROM mark WHERE process IN (SELECT process FROM notice WHERE seq >= ?1 AND state = 'pending' AND kind = 'completion'
             AND reason = 'replayed' AND (?2 IS NULL OR session = ?2))",
    )?
    .execute(params![from as i64, session])?;
    Ok(changed as u64)
}

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
pub(crate) fn take(db: &Connection, sink: &str, limit: usize, lease: &str, lease_for: i64, now: Time) -> rusqlite::Result<Vec<Owed>> {
    let mut due = db.prepare_cached(
        "WITH put_off AS (
             SELECT session, MIN(seq) AS first FROM delivery
             WHERE sink = ?1 AND state IN ('pending', 'leased') AND due_at > ?2 AND state = 'pending' AND attempts = 0 GROUP BY session
         )
         SELECT d.seq, d.state, d.attempts, d.maybe_told, d.first_at FROM delivery d LEFT JOIN put_off p ON p.session = d.session
         WHERE d.sink = ?1 AND d.state IN ('pending', 'leased') AND d.due_at <= ?2 AND (p.first IS NULL OR d.seq < p.first)
         ORDER BY d.seq LIMIT ?3",
    )?;
    let rows = due.query_map(params![sink, now.micros(), limit as i64], |r| {
        Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?, r.get::<_, u32>(2)?, r.get::<_, bool>(3)?, r.get::<_, i64>(4)?))
    })?;
    let due: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    let mut taken = Vec::new();
    for (seq, state, attempts, maybe, first) in due {
        let lapsed = state == "leased";
        let first = if first == 0 { now.micros() } else { first };
        db.prepare_cached(
            "UPDATE delivery SET state = 'leased', attempts = attempts + 1, maybe_told = maybe_told OR ?3, lease = ?4, due_at = ?5, first_at = ?6
             WHERE sink = ?1 AND seq = ?2",
        )?
        .execute(params![sink, seq, lapsed, lease, now.micros() + lease_for, first])?;
        let found =
            db.prepare_cached(&format!("SELECT {COLUMNS} FROM notice WHERE seq = ?1"))?.query_row(params![seq], entry).optional()?;
        let Some(mut entry) = found else {
            db.prepare_cached("DELETE FROM delivery WHERE sink = ?1 AND seq = ?2")?.execute(params![sink, seq])?;
            continue;
        };
        entry.notice.repeat |= maybe || lapsed;
        taken.push(Owed { entry, attempts, first_at: Time::from_micros(first), lease: lease.to_owned(), reason: String::new() });
    }
    Ok(taken)
}

/// Takes back what the engine before us had in its own hands, which died with it: pushes under way, and answers that were not sent for sure.
pub(crate) fn take_back(db: &Connection, now: Time) -> rusqlite::Result<()> {
    db.execute(
        "UPDATE delivery SET state = 'pending', maybe_told = 1, lease = '', due_at = ?1 WHERE state = 'leased'",
        params![now.micros()],
    )?;
    db.execute(
        "UPDATE notice SET state = 'pending', maybe_told = 1, lease = '', lease_until = 0 WHERE state = 'leased' AND lease = 'answer'",
        [],
    )?;
    Ok(())
}

/// How a push went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It was taken.
    Delivered,
    /// It is to be tried again at this time.
    Again { at: Time, reason: String },
    /// It was not tried: this time does not count.
    Later { at: Time },
    /// It is given up.
    Dead { reason: String },
}

/// Writes down how a push went. `false`: the lease was lost, and somebody else has it.
pub(crate) fn pushed(db: &Connection, sink: &str, seq: u64, lease: &str, how: &Pushed) -> rusqlite::Result<bool> {
    let (state, due, reason) = match how {
        Pushed::Delivered => ("delivered", 0, ""),
        Pushed::Again { at, reason } => ("pending", at.micros(), reason.as_str()),
        Pushed::Later { at } => ("pending", at.micros(), ""),
        Pushed::Dead { reason } => ("dead", 0, reason.as_str()),
    };
    let untried = u32::from(matches!(how, Pushed::Later { .. }));
    let changed = db
        .prepare_cached(
            "UPDATE delivery SET state = ?4, due_at = ?5, reason = CASE WHEN ?7 THEN reason ELSE ?6 END, lease = '', attempts = attempts - ?7
             WHERE sink = ?1 AND seq = ?2 AND state = 'leased' AND lease = ?3",
        )?
        .execute(params![sink, seq as i64, lease, state, due, reason, untried])?;
    Ok(changed == 1)
}

/// When a sink that is given nothing now will be: what is due already waits behind something that is not.
pub(crate) fn next_due(db: &Connection, sink: &str, now: Time) -> rusqlite::Result<Option<Time>> {
    let due: Option<i64> = db
        .prepare_cached("SELECT MIN(due_at) FROM delivery WHERE sink = ?1 AND state IN ('pending', 'leased') AND due_at > ?2")?
        .query_row(params![sink, now.micros()], |r| r.get(0))?;
    Ok(due.map(Time::from_micros))
}

/// How many pushes are owed by these sinks.
pub(crate) fn owed(db: &Connection, sinks: &[Push]) -> rusqlite::Result<u64> {
    let mut all = 0;
    for sink in sinks {
        let n: i64 = db
            .prepare_cached("SELECT COUNT(*) FROM delivery WHERE sink = ?1 AND state IN ('pending', 'leased')")?
            .query_row(params![sink.name], |r| r.get(0))?;
        all += n as u64;
    }
    Ok(all)
}

/// What sinks gave up on, or still try: `state` is `dead`, `pending` or `leased`.
pub(crate) fn deliveries(db: &Connection, state: &str, session: Option<&str>, limit: usize) -> rusqlite::Result<Vec<(String, Owed)>> {
    let mut found = db.prepare_cached(
        "SELECT d.sink, d.seq, d.attempts, d.first_at, d.reason FROM delivery d
         WHERE d.state = ?1 AND (?2 IS NULL OR d.session = ?2) ORDER BY d.seq LIMIT ?3",
    )?;
    let rows = found.query_map(params![state, session, limit as i64], |r| {
        Ok((r.get::<_, String>(0)?, r.get::<_, i64>(1)?, r.get::<_, u32>(2)?, r.get::<_, i64>(3)?, r.get::<_, String>(4)?))
    })?;
    let rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    let mut all = Vec::new();
    for (sink, seq, attempts, first, reason) in rows {
        let entry =
            db.prepare_cached(&format!("SELECT {COLUMNS} FROM notice WHERE seq = ?1"))?.query_row(params![seq], entry).optional()?;
        let Some(entry) = entry else { continue };
        all.push((sink, Owed { entry, attempts, first_at: Time::from_micros(first), lease: String::new(), reason }));
    }
    Ok(all)
}

/// Has dead letters tried again: one notice's or all, of one sink or of all.
pub(crate) fn revive(db: &Connection, id: Option<&str>, sink: Option<&str>, session: Option<&str>, now: Time) -> rusqlite::Result<u64> {
    let changed = db
        .prepare_cached(
            "UPDATE delivery SET state = 'pending', attempts = 0, first_at = 0, due_at = ?1, maybe_told = 1, reason = ''
             WHERE state = 'dead' AND (?2 IS NULL OR sink = ?2) AND (?3 IS NULL OR session = ?3)
               AND (?4 IS NULL OR seq = (SELECT seq FROM notice WHERE id = ?4))",
        )?
        .execute(params![now.micros(), sink, session, id])?;
    Ok(changed as u64)
}

/// Removes what was settled before `before`, and the marks of processes nothing is known of any more.
pub(crate) fn prune(db: &Connection, before: Time, sinks: &[Push]) -> rusqlite::Result<u64> {
    let names = sinks.iter().map(|s| s.name.clone()).collect::<Vec<_>>();
    // What a sink owes that is not configured any more nobody will ever push.
    let names = serde_json::to_string(&names).expect("strings serialise");
    let gone = db.execute(
        "DELETE FROM notice WHERE settled_at > 0 AND settled_at < ?1 AND NOT EXISTS
             (SELECT 1 FROM delivery d WHERE d.seq = notice.seq AND d.state IN ('pending', 'leased')
                AND d.sink IN (SELECT value FROM json_each(?2)))",
        params![before.micros(), names],
    )?;
    db.execute("DELETE FROM delivery WHERE seq NOT IN (SELECT seq FROM notice)", [])?;
    db.execute(
        "DELETE FROM mark WHERE consumed_at < ?1 AND process NOT IN (SELECT id FROM process)
             AND process NOT IN (SELECT process FROM notice WHERE state IN ('pending', 'leased'))",
        params![before.micros()],
    )?;
    db.execute("DELETE FROM watching WHERE process NOT IN (SELECT id FROM process)", [])?;
    db.execute("DELETE FROM barrier WHERE opened_at > 0 AND opened_at < ?1", params![before.micros()])?;
    Ok(gone as u64)
}

/// Reads what there is one of.
pub(crate) fn one(db: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT value FROM one WHERE name = ?1")?.query_row(params![name], |r| r.get(0)).optional()
}

/// Writes what there is one of.
pub(crate) fn set_one(db: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO one (name, value) VALUES (?1, ?2)")?.execute(params![name, value])?;
    Ok(())
}
