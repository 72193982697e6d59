//! The outbox as tables, and each step on them. Every function here runs inside the writer's transaction, so that a claim is one act and nothing is half done.

use outlast_core::{Body, Notice, Owner, ProcessId, Route, Time};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use sha2::{Digest, Sha256};
use std::time::Duration;

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
    created_at  INTEGER NOT NULL,       -- microseconds, UTC, as everywhere here unless it says otherwise
    open_since  INTEGER NOT NULL,
    state       TEXT NOT NULL,          -- pending, leased, delivered, consumed, superseded, dropped
    reason      TEXT NOT NULL DEFAULT '',
    attempts    INTEGER NOT NULL DEFAULT 0,
    maybe_told  INTEGER NOT NULL DEFAULT 0,
    observed    INTEGER NOT NULL DEFAULT 0,
    stale       TEXT NOT NULL DEFAULT '', -- why it is not to be told again, should whoever has it not tell it
    lease       TEXT NOT NULL DEFAULT '',
    lease_up    INTEGER NOT NULL DEFAULT 0, -- when the lease ends, in microseconds since the machine was started
    lease_until INTEGER NOT NULL DEFAULT 0, -- the same by a clock that may be set: for showing only
    settled_at  INTEGER NOT NULL DEFAULT 0,
    event       TEXT NOT NULL           -- JSON; last, since it is long and seldom read
) STRICT;
-- Open ones are few among many. Questions about them name this index: left to choose, SQLite takes the one of all notices of a conversation.
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
    due_up      INTEGER NOT NULL,       -- when it may be tried, in microseconds since the machine was started; of a leased one, when the lease ends
    first_at    INTEGER NOT NULL DEFAULT 0,
    died_at     INTEGER NOT NULL DEFAULT 0,
    reason      TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (sink, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX delivery_open ON delivery (sink, due_up, seq) WHERE state IN ('pending', 'leased');
CREATE INDEX delivery_dead ON delivery (seq) WHERE state = 'dead';
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

/// How many notices of one conversation may be open. Whoever takes its turn in between has a handful; this many mean that nobody does, and each claim looks at
/// all of them. Past it, give or take a few hundred, the oldest are dropped, with a reason.
const MOST_OPEN: u64 = 10_000;
/// The most that one answer holds, in bytes of its events; the one that passes it is the last. Each comes with its text, alone and among the others, and all of
/// it has to fit into one frame.
const MOST_BYTES: usize = 1 << 20;
/// How many notices are removed in one transaction, so that nobody waits long for it.
const REMOVED_AT_ONCE: usize = 2_000;

/// A moment by two clocks: UTC for what is kept and shown, and the time since the machine was started, which nobody sets, for what runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) utc: Time,
    /// Microseconds.
    pub(crate) up: i64,
}

impl Moment {
    /// This moment, which is `utc` by the engine's clock.
    pub(crate) fn now(utc: Time) -> Self {
        Self { utc, up: (outlast_store::os::boottime_ns() / 1_000) as i64 }
    }
}

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
    /// Why it is not to be told again, should whoever has it not tell it.
    stale: String,
    /// How long its JSON is.
    bytes: usize,
}

const COLUMNS: &str = "seq, event, state, reason, attempts, maybe_told, observed, lease, lease_until, stale";

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
        stale: row.get(9)?,
        bytes: event.len(),
    })
}

/// Takes what fits into one answer.
fn bounded<T>(mut all: impl Iterator<Item = rusqlite::Result<T>>, entry: impl Fn(&T) -> &Entry) -> rusqlite::Result<Vec<T>> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while bytes < MOST_BYTES
        && let Some(one) = all.next()
    {
        let one = one?;
        bytes += entry(&one).bytes;
        taken.push(one);
    }
    Ok(taken)
}

/// Writes a notice and what the sinks owe for it. Nothing if it is there already.
pub(crate) fn insert(db: &Connection, draft: &Draft, sinks: &[Push], now: Moment) -> rusqlite::Result<Option<u64>> {
    let mut notice = Notice::new(draft.event_id(), draft.at, draft.process, &draft.owner, draft.route.clone(), draft.body.clone());
    notice.repeat = draft.repeat;
    let (kind, session) = (notice.kind().to_owned(), notice.session_key.clone());
    let seen = kind == "completion" && is_consumed(db, &notice.session_id)?;
    // Asked for before it is tried, since a try that is ignored would use up a place.
    let written = db
        .prepare_cached(
            "INSERT OR IGNORE INTO notice
                 (key, id, kind, process, session, task, generation, created_at, event, state, reason, settled_at, maybe_told, open_since)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14 WHERE NOT EXISTS (SELECT 1 FROM notice WHERE key = ?1)",
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
            if seen { now.utc.micros() } else { 0 },
            draft.repeat,
            now.utc.micros(),
        ])?;
    if written == 0 {
        return Ok(None);
    }
    let seq = db.last_insert_rowid();
    for sink in sinks.iter().filter(|s| s.takes(&kind, &session)) {
        db.prepare_cached("INSERT INTO delivery (sink, seq, session, state, due_up, maybe_told) VALUES (?1, ?2, ?3, 'pending', 0, ?4)")?
            .execute(params![sink.name, seq, session, draft.repeat])?;
    }
    // Counting takes as long as there are open ones, so it is done for one in 256, by its name: as good as by lot, and no conversation can be missed for long.
    if notice.event_id.ends_with("00") {
        make_room(db, &session, now)?;
    }
    Ok(Some(seq as u64))
}

/// Drops the oldest notices of a conversation that has too many open ones.
fn make_room(db: &Connection, session: &str, now: Moment) -> rusqlite::Result<()> {
    // What somebody is just telling is not dropped under their hands.
    let mut old = db.prepare_cached(
        "SELECT seq FROM
             (SELECT seq, state, lease_up FROM notice INDEXED BY notice_open
                WHERE session = ?1 AND state IN ('pending', 'leased') ORDER BY seq DESC LIMIT -1 OFFSET ?2)
         WHERE state = 'pending' OR lease_up <= ?3",
    )?;
    let old = old.query_map(params![session, MOST_OPEN as i64, now.up], |r| r.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    if !old.is_empty() {
        tracing::warn!(session, dropped = old.len(), "a conversation has too many notices that nobody asked for");
    }
    for seq in old {
        settle(
            db,
            seq as u64,
            "dropped",
            &format!("nobody asked for it, and {MOST_OPEN} newer ones of its conversation are open"),
            now.utc,
        )?;
    }
    Ok(())
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
pub(crate) fn consume(db: &Connection, process: &str, how: &str, now: Moment) -> rusqlite::Result<()> {
    mark(db, process, how, now.utc)?;
    let reason = format!("its end was seen by {how}");
    db.prepare_cached(
        "UPDATE notice SET state = 'consumed', reason = ?2, settled_at = ?3, lease = ''
         WHERE process = ?1 AND kind = 'completion' AND (state = 'pending' OR (state = 'leased' AND (lease = 'answer' OR lease_up <= ?4)))",
    )?
    .execute(params![process, reason, now.utc.micros(), now.up])?;
    Ok(())
}

/// How long an answer may take to reach its socket.
const ANSWERING: i64 = 60_000_000;

/// Keeps the end of a process from being told by anybody else while it is answered. What a taker has stays theirs, but should they release it, it was told.
pub(crate) fn hold(db: &Connection, process: &str, now: Moment) -> rusqlite::Result<()> {
    hold_where(db, "process = ?1 AND kind = 'completion'", process, now)
}

/// As [`hold`], of a notice by what it is about.
pub(crate) fn hold_key(db: &Connection, key: &str, now: Moment) -> rusqlite::Result<()> {
    hold_where(db, "key = ?1", key, now)
}

fn hold_where(db: &Connection, which: &str, what: &str, now: Moment) -> rusqlite::Result<()> {
    db.prepare_cached(&format!("UPDATE notice SET maybe_told = 1 WHERE {which} AND state = 'leased'"))?.execute(params![what])?;
    db.prepare_cached(&format!(
        "UPDATE notice SET state = 'leased', attempts = attempts + 1, lease = 'answer', lease_up = ?2 + ?4, lease_until = ?3 + ?4
         WHERE {which} AND (state = 'pending' OR (state = 'leased' AND lease_up <= ?2))"
    ))?
    .execute(params![what, now.up, now.utc.micros(), ANSWERING])?;
    Ok(())
}

/// Whoever was to be answered has left: it is told after all. Marked as a repeat, since another who waited may just be reading it.
const LET_GO: &str = "UPDATE notice SET state = 'pending', maybe_told = 1, lease = '', lease_up = 0, lease_until = 0
     WHERE state IN ('pending', 'leased') AND state = 'leased' AND lease = 'answer'";

/// Undoes [`hold`].
pub(crate) fn let_go(db: &Connection, process: &str) -> rusqlite::Result<()> {
    db.prepare_cached(&format!("{LET_GO} AND process = ?1 AND kind = 'completion'"))?.execute(params![process])?;
    Ok(())
}

/// Undoes [`hold_key`].
pub(crate) fn let_go_key(db: &Connection, key: &str) -> rusqlite::Result<()> {
    db.prepare_cached(&format!("{LET_GO} AND key = ?1"))?.execute(params![key])?;
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

/// A new engine begins, and takes back what the old one had in its own hands: pushes under way, and answers that were not sent for sure. After a reboot nobody has
/// anything any more.
pub(crate) fn begun(db: &Connection, boot: &str, rebuilt: bool, now: Time) -> rusqlite::Result<()> {
    if rebuilt {
        // Whoever goes on behind the last notice they saw must not wait for numbers that were given before. There were never a thousand notices a second.
        let floor = (now.micros() / 1_000).max(last_seq(db)? as i64);
        db.prepare_cached("DELETE FROM sqlite_sequence WHERE name = 'notice'")?.execute([])?;
        db.prepare_cached("INSERT INTO sqlite_sequence (name, seq) VALUES ('notice', ?1)")?.execute(params![floor])?;
    }
    // Pushes are made by the engine's own program, and died with it.
    db.prepare_cached("UPDATE delivery SET state = 'pending', maybe_told = 1, lease = '', due_up = 0 WHERE state = 'leased'")?
        .execute([])?;
    db.prepare_cached(LET_GO)?.execute([])?;
    if one(db, "boot")?.as_deref() != Some(boot) {
        db.prepare_cached(
            "UPDATE notice INDEXED BY notice_open SET lease_up = 0 WHERE state IN ('pending', 'leased') AND state = 'leased'",
        )?
        .execute([])?;
        db.prepare_cached("UPDATE delivery SET due_up = 0 WHERE state IN ('pending', 'leased')")?.execute([])?;
        set_one(db, "boot", boot)?;
    }
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

/// A newer run makes what is to be told of an older one stale. What somebody is just telling is theirs to settle, and is not told again if they do not.
pub(crate) fn supersede(db: &Connection, process: &str, by: &str, now: Moment) -> rusqlite::Result<()> {
    let reason = format!("run again as {by}");
    db.prepare_cached(
        "UPDATE notice SET state = 'superseded', reason = ?2, settled_at = ?3, lease = ''
         WHERE process = ?1 AND kind = 'completion' AND (state = 'pending' OR (state = 'leased' AND lease_up <= ?4))",
    )?
    .execute(params![process, reason, now.utc.micros(), now.up])?;
    db.prepare_cached("UPDATE notice SET stale = ?2 WHERE process = ?1 AND kind = 'completion' AND state = 'leased'")?
        .execute(params![process, reason])?;
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
    lease_up: i64,
    /// Whether the end of its process was seen.
    consumed: bool,
}

/// What a claim does with a notice.
enum Fate {
    Given,
    /// Somebody has it, or it is for another kind of taker.
    Left,
    Settled(&'static str, String),
}

impl Open {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get::<_, i64>(0)? as u64,
            state: row.get(1)?,
            kind: row.get(2)?,
            generation: row.get(3)?,
            observed: row.get(4)?,
            stale: row.get(5)?,
            lease_up: row.get(6)?,
            consumed: row.get(7)?,
        })
    }

    fn fate(&self, claim: &Claim, life: Option<&str>) -> Fate {
        let completion = self.kind == "completion";
        if self.state == "leased" && self.lease_up > claim.now.up {
            return Fate::Left;
        }
        if life.is_some_and(|life| !self.generation.is_empty() && self.generation != life) {
            return Fate::Settled("dropped", format!("generation {} of the conversation has ended", self.generation));
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
}

/// Whether a notice of this kind is about lines of a process.
fn is_watch(kind: &str) -> bool {
    kind == "watch_match" || kind == "watch_disabled"
}

/// Gives out the next notices of a conversation, each to one taker until its lease ends. To one of a life that has ended nothing is given.
pub(crate) fn claim(db: &Connection, claim: &Claim) -> rusqlite::Result<Vec<Entry>> {
    lives(db, &claim.session, &claim.generation)?;
    let life = current_life(db, &claim.session)?;
    if !claim.generation.is_empty() && life.as_ref() != Some(&claim.generation) {
        return Ok(Vec::new());
    }
    let mut open = db.prepare_cached(
        "SELECT seq, state, kind, generation, observed, stale, lease_up,
             EXISTS (SELECT 1 FROM mark WHERE mark.process = notice.process AND consumed_at > 0)
         FROM notice INDEXED BY notice_open WHERE session = ?1 AND state IN ('pending', 'leased') ORDER BY seq",
    )?;
    let (mut given, mut settled, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut rows = open.query(params![claim.session])?;
    while given.len() < claim.limit
        && bytes < MOST_BYTES
        && let Some(row) = rows.next()?
    {
        let open = Open::read(row)?;
        match open.fate(claim, life.as_deref()) {
            Fate::Left => {}
            Fate::Settled(state, reason) => settled.push((open.seq, state, reason)),
            Fate::Given => match by_seq(db, open.seq) {
                Ok(Some(entry)) => {
                    bytes += entry.bytes;
                    given.push(entry);
                }
                Ok(None) => {}
                // It must not stand in the way of those behind it.
                Err(rusqlite::Error::FromSqlConversionFailure(_, _, why)) => {
                    settled.push((open.seq, "dropped", format!("it cannot be read: {why}")))
                }
                Err(error) => return Err(error),
            },
        }
    }
    drop(rows);
    for (seq, state, reason) in settled {
        settle(db, seq, state, &reason, claim.now.utc)?;
    }
    for entry in &mut given {
        // Whoever had it let its time pass without a word: it may have been told.
        let maybe_told = entry.state == "leased";
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
    }
    Ok(given)
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

/// How long it is until the machine has been up for so many microseconds.
fn until(up: i64, now: Moment) -> Duration {
    Duration::from_micros(u64::try_from(up - now.up).unwrap_or(0))
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

fn by_seq(db: &Connection, seq: u64) -> rusqlite::Result<Option<Entry>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM notice WHERE seq = ?1"))?.query_row(params![seq as i64], entry).optional()
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

/// Reads notices and changes nothing. They may be fewer than asked for if they are long: go on behind the last.
pub(crate) fn read(db: &Connection, filter: &Filter) -> rusqlite::Result<Vec<Entry>> {
    // Only what is asked for is in the question, so that it is answered by an index.
    let (mut which, after, limit) = (String::from("seq > ?1"), filter.after as i64, filter.limit as i64);
    let mut values: Vec<&dyn ToSql> = vec![&after];
    for (column, wanted) in [("session", &filter.session), ("process", &filter.process), ("kind", &filter.kind), ("state", &filter.state)] {
        if let Some(value) = wanted {
            values.push(value);
            which.push_str(&format!(" AND {column} = ?{}", values.len()));
        }
    }
    values.push(&limit);
    let order = if filter.newest { "DESC" } else { "ASC" };
    let mut wanted =
        db.prepare_cached(&format!("SELECT {COLUMNS} FROM notice WHERE {which} ORDER BY seq {order} LIMIT ?{}", values.len()))?;
    let rows = wanted.query_map(values.as_slice(), entry)?;
    bounded(rows, |e| e)
}

/// The place of the newest notice there ever was. It never goes back, whatever is removed.
pub(crate) fn last_seq(db: &Connection) -> rusqlite::Result<u64> {
    let last: Option<i64> =
        db.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'notice'")?.query_row([], |r| r.get(0)).optional()?;
    Ok(last.unwrap_or(0) as u64)
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
    let mut due = db.prepare_cached(
        "WITH put_off AS (
             SELECT session, MIN(seq) AS first FROM delivery INDEXED BY delivery_open
             WHERE sink = ?1 AND state IN ('pending', 'leased') AND due_up > ?2 AND state = 'pending' AND attempts = 0 GROUP BY session
         )
         SELECT d.seq, d.state = 'leased', d.attempts, d.maybe_told, d.first_at
         FROM delivery d INDEXED BY delivery_open LEFT JOIN put_off p ON p.session = d.session
         WHERE d.sink = ?1 AND d.state IN ('pending', 'leased') AND d.due_up <= ?2 AND (p.first IS NULL OR d.seq < p.first)
         ORDER BY d.seq LIMIT ?3",
    )?;
    let mut rows = due.query(params![sink, now.up, limit as i64])?;
    let due = std::iter::from_fn(|| {
        rows.next().transpose().map(|row| {
            let row = row?;
            let (lapsed, maybe, first): (bool, bool, i64) = (row.get(1)?, row.get(3)?, row.get(4)?);
            let Some(mut entry) = by_seq(db, row.get::<_, i64>(0)? as u64)? else { return Ok(None) };
            entry.notice.repeat |= maybe || lapsed;
            let first_at = if first == 0 { now.utc } else { Time::from_micros(first) };
            let owed = Owed { entry, attempts: row.get(2)?, first_at, lease: lease.to_owned(), reason: String::new() };
            Ok(Some((owed, lapsed)))
        })
    });
    // A notice that is gone is owed no more; its rows are swept up.
    let taken = bounded(due.filter_map(Result::transpose), |(owed, _): &(Owed, bool)| &owed.entry)?;
    drop(rows);
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
        let n: i64 = db
            .prepare_cached("SELECT COUNT(*) FROM delivery INDEXED BY delivery_open WHERE sink = ?1 AND state IN ('pending', 'leased')")?
            .query_row(params![sink.name], |r| r.get(0))?;
        all += n as u64;
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
        Ok(Some((r.get(1)?, Owed { entry, attempts: r.get(2)?, first_at, lease: String::new(), reason: r.get(4)? })))
    })?;
    bounded(rows.filter_map(Result::transpose), |(_, owed): &(String, Owed)| &owed.entry)
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

/// Drops what has been open since before `before`: nobody will ask for it any more.
pub(crate) fn expire(db: &Connection, before: Time, now: Moment) -> rusqlite::Result<u64> {
    let days = (now.utc.micros() - before.micros()) / 86_400_000_000;
    let gone = db
        .prepare_cached(
            "UPDATE notice INDEXED BY notice_open SET state = 'dropped', reason = ?1, settled_at = ?2, lease = ''
             WHERE state IN ('pending', 'leased') AND open_since < ?3 AND (state = 'pending' OR lease_up <= ?4)",
        )?
        .execute(params![format!("expired: nobody asked for it in {days} days"), now.utc.micros(), before.micros(), now.up])?;
    Ok(gone as u64)
}

/// Removes notices that were settled before `before`, so many at a time. A notice that a sink still owes, or gave up on later than that, is kept for it. Whether there may be more.
pub(crate) fn prune(db: &Connection, before: Time, sinks: &[Push]) -> rusqlite::Result<bool> {
    let names: Vec<&str> = sinks.iter().map(|s| s.name.as_str()).collect();
    // What a sink owes that is not configured any more nobody will ever push.
    let names = serde_json::to_string(&names).expect("strings serialise");
    let gone = db
        .prepare_cached(
            "DELETE FROM notice WHERE seq IN (SELECT seq FROM notice n WHERE settled_at > 0 AND settled_at < ?1 AND NOT EXISTS
                 (SELECT 1 FROM delivery d WHERE d.sink IN (SELECT value FROM json_each(?2)) AND d.seq = n.seq
                    AND (d.state IN ('pending', 'leased') OR (d.state = 'dead' AND d.died_at >= ?1)))
                 LIMIT ?3)",
        )?
        .execute(params![before.micros(), names, REMOVED_AT_ONCE as i64])?;
    Ok(gone == REMOVED_AT_ONCE)
}

/// Removes what belonged to notices and processes that are gone. Marks outlive their processes for as long as there is a notice that may be told, or told again.
pub(crate) fn sweep(db: &Connection, before: Time) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM delivery WHERE seq NOT IN (SELECT seq FROM notice)")?.execute([])?;
    db.prepare_cached(
        "DELETE FROM mark WHERE consumed_at < ?1 AND process NOT IN (SELECT id FROM process)
             AND process NOT IN (SELECT process FROM notice)",
    )?
    .execute(params![before.micros()])?;
    db.prepare_cached("DELETE FROM watching WHERE process NOT IN (SELECT id FROM process)")?.execute([])?;
    db.prepare_cached("DELETE FROM barrier WHERE opened_at > 0 AND opened_at < ?1")?.execute(params![before.micros()])?;
    db.prepare_cached(
        "DELETE FROM life WHERE session NOT IN (SELECT session FROM notice) AND session NOT IN (SELECT session FROM barrier)
             AND session NOT IN (SELECT session FROM process WHERE session IS NOT NULL)",
    )?
    .execute([])?;
    Ok(())
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
