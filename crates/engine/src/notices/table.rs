//! Notices and their deliveries as tables, and each verb on them. Every function here runs inside the writer's transaction: it loads rows,
//! applies an event to each, and stores the result. `outlast_core::notice_state` decides what an event does.

mod claim;
pub(crate) mod column;
mod delivery;
mod keep;
pub(super) mod rows;
mod seen;
mod settle;
pub(crate) mod wake;

pub(crate) use claim::{
    Claim, Claimed, NamedBy, OpenSession, claim, is_known_generation, next_lapse, note_generation, open_sessions, waiting,
};
pub(crate) use delivery::{
    OwedDelivery, PushResult, TroubledDelivery, dead, dead_of_sinks, failing, next_due, owed, pushed, revive, take, troubled,
};
pub(crate) use keep::{MAX_REMOVED_AT_ONCE, engine_started, expire, prune, sweep};
pub(crate) use seen::{answer_begins, answer_failed, answered, end_seen, is_consumed, observe, reserve, supersede, waiters_left};
pub(crate) use settle::{SettleReply, SettleResult, claim_cancelled, replay, settle, taker_gone};

use crate::config::Push;
pub(crate) use outlast_core::notice_state::Moment;
use outlast_core::notice_state::{Delivery, NoticeEvent, TrackedNotice, Uptime, WrittenFor};
use outlast_core::{Body, Notice, Owner, ProcessId, Route, Time};
use outlast_text::announce;
use rows::{DeliveryRow, StateColumns, on_each, shown_state, subject};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// How many notices of one session may be open. A session with a taker has a handful. This many mean that it has none, and each claim reads
/// all of them. Above this number, give or take a few hundred, the oldest are dropped with a reason.
const MOST_OPEN: u64 = 10_000;
/// How many bytes of notices one answer holds, each with its text, alone and among the others. A longer notice is given alone. It fits into
/// a frame all the same: posted events are short, no text is much longer than its event, and the longest command is in the event only.
const MOST_BYTES: usize = 4 << 20;

/// The current moment, which is `utc` by the engine's clock.
pub(crate) fn moment(utc: Time) -> Moment {
    Moment { utc, up: (outlast_store::os::boottime_ns() / 1_000) as Uptime }
}

/// A notice that is not written yet.
#[derive(Debug, Clone)]
pub(crate) struct NoticeDraft {
    /// Identifies the fact that it reports. The same fact gives the same key, however often it is read.
    pub(crate) key: String,
    pub(crate) at: Time,
    pub(crate) process: Option<ProcessId>,
    pub(crate) owner: Owner,
    pub(crate) route: Route,
    pub(crate) body: Body,
    /// Whether it may have been delivered before, because the index was rebuilt.
    pub(crate) repeat: bool,
}

/// The id of the notice with this key. It depends on the key alone, so that a sink recognises a repeat even if the index was lost in
/// between.
pub(crate) fn id_of(key: &str) -> String {
    let sum = Sha256::digest(key.as_bytes());
    format!("evt_{}", &crate::bytes::hex(&sum)[..24])
}

/// The key of the notice of a process's end.
pub(crate) fn end_key(process: impl std::fmt::Display) -> String {
    format!("{process}/completion")
}

/// A notice as clients are shown it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct NoticeEntry {
    pub(crate) notice: Notice,
    /// A held notice is `leased`, whatever it is held for.
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) attempts: u32,
    pub(crate) observed: bool,
    /// Whether the taker that was just given it goes on for another conversation of the session.
    pub(crate) earlier: bool,
    /// The token, if a taker or a sink has it.
    pub(crate) lease: String,
    pub(crate) lease_until: i64,
    /// When it was settled; 0 while it is open.
    pub(crate) settled_at: i64,
    /// The length of its JSON in bytes.
    pub(super) bytes: usize,
    /// Why its event cannot be read, if so. Then `notice` is made from the other columns, and it is not delivered.
    pub(super) unreadable: Option<String>,
}

impl NoticeEntry {
    /// A notice that was just written.
    fn written(notice: Notice, bytes: usize, tracked: &TrackedNotice, now: Moment) -> Self {
        let (state, reason, lease) = (String::new(), String::new(), String::new());
        let mut entry = Self {
            notice,
            state,
            reason,
            attempts: 0,
            observed: false,
            earlier: false,
            lease,
            lease_until: 0,
            settled_at: 0,
            bytes,
            unreadable: None,
        };
        entry.follow(tracked, now);
        entry
    }

    /// Updates the entry after a change of the notice.
    fn follow(&mut self, tracked: &TrackedNotice, now: Moment) {
        let columns = StateColumns::of(&tracked.state, now);
        if tracked.is_settled() {
            columns.reason.clone_into(&mut self.reason);
        }
        self.state = shown_state(columns.state.to_owned());
        columns.lease.clone_into(&mut self.lease);
        (self.lease_until, self.settled_at) = (columns.lease_until, columns.settled_at);
        (self.attempts, self.observed) = (tracked.given, tracked.observed);
        self.notice.repeat |= tracked.maybe_told;
    }

    /// How many bytes it takes in an answer.
    fn answered_bytes(&self) -> usize {
        // Names, numbers and punctuation.
        const AROUND: usize = 512;
        self.bytes + 2 * json_bytes(&announce(&self.notice)) + json_bytes(&self.reason) + AROUND
    }
}

/// How many bytes a text takes in JSON.
fn json_bytes(text: &str) -> usize {
    let more = |b: u8| match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..=0x1f => 5,
        _ => 0,
    };
    text.len() + text.bytes().map(more).sum::<usize>()
}

const COLUMNS: &str = "seq, event, state, reason, attempts, maybe_told, observed, lease, lease_until, settled_at,
    id, kind, process, session, task, generation, created_at";

fn entry(row: &Row<'_>) -> rusqlite::Result<NoticeEntry> {
    let event = column::bytes(row, 1)?;
    // An event that cannot be read must not keep others from being read, leased or settled.
    let (mut notice, unreadable) = match serde_json::from_slice::<Notice>(event) {
        Ok(notice) => (notice, None),
        Err(error) => (without_event(row, &error)?, Some(format!("it cannot be read: {error}"))),
    };
    notice.seq = row.get::<_, i64>(0)? as u64;
    notice.repeat |= row.get::<_, bool>(5)?;
    Ok(NoticeEntry {
        notice,
        state: shown_state(column::text(row, 2)?),
        reason: column::text(row, 3)?,
        attempts: column::count(row, 4)?,
        observed: row.get(6)?,
        earlier: false,
        lease: column::text(row, 7)?,
        lease_until: row.get(8)?,
        settled_at: row.get(9)?,
        bytes: event.len(),
        unreadable,
    })
}

/// A notice whose event cannot be read, made from the other columns.
fn without_event(row: &Row<'_>, error: &serde_json::Error) -> rusqlite::Result<Notice> {
    let (kind, process) = (column::text(row, 11)?, column::text(row, 12)?);
    let message = format!("The content of this notice cannot be read: {error}");
    let fields = [("type", kind), ("message", message)].map(|(name, text)| (name.to_owned(), text.into()));
    let owner =
        Owner { session: Some(column::text(row, 13)?), task: Some(column::text(row, 14)?), generation: Some(column::text(row, 15)?) };
    let (at, body) = (Time::from_micros(row.get(16)?), Body::Posted(fields.into_iter().collect()));
    let mut notice = Notice::new(column::text(row, 10)?, at, None, &owner, Route::default(), body);
    notice.session_id = process;
    Ok(notice)
}

/// The size of an answer so far.
#[derive(Default)]
struct AnswerSize {
    count: usize,
    bytes: usize,
}

impl AnswerSize {
    /// Adds one notice of this many bytes, if it fits. The first always does.
    fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.count == 0 || self.bytes + bytes <= MOST_BYTES;
        if fits {
            (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
        }
        fits
    }
}

/// Takes what fits into one answer.
fn bounded<T>(all: impl Iterator<Item = rusqlite::Result<T>>, bytes: impl Fn(&T) -> usize) -> rusqlite::Result<Vec<T>> {
    let mut answered = AnswerSize::default();
    all.take_while(|one| one.as_ref().map_or(true, |one| answered.has_room(bytes(one)))).collect()
}

/// How long until the machine has been up for this many microseconds.
fn until(up: i64, now: Moment) -> Duration {
    Duration::from_micros(u64::try_from(up.saturating_sub(now.up)).unwrap_or(0))
}

/// Writes a notice that any taker may claim, with its deliveries. Returns its number; none if it exists already.
#[cfg(test)]
pub(crate) fn insert(db: &Connection, draft: &NoticeDraft, sinks: &[Push], now: Moment) -> rusqlite::Result<Option<u64>> {
    Ok(insert_for(db, draft, sinks, WrittenFor::AnyTaker, None, now)?.map(|entry| entry.notice.seq))
}

/// Writes a notice with its deliveries. None if it exists already. `held_until`: deliveries wait until then for a client to be answered.
pub(crate) fn insert_for(
    db: &Connection,
    draft: &NoticeDraft,
    sinks: &[Push],
    written_for: WrittenFor,
    held_until: Option<Uptime>,
    now: Moment,
) -> rusqlite::Result<Option<NoticeEntry>> {
    let mut notice = Notice::new(id_of(&draft.key), draft.at, draft.process, &draft.owner, draft.route.clone(), draft.body.clone());
    notice.repeat = draft.repeat;
    let (kind, session) = (notice.kind().to_owned(), notice.session_key.clone());
    let seen = kind == "completion" && is_consumed(db, &notice.session_id)?;
    let tracked = TrackedNotice::new(subject(kind.as_bytes(), seen), draft.repeat, written_for, now);
    let event = json(&notice);
    let seq = last_seq(db)? as i64 + 1;
    let state = StateColumns::of(&tracked.state, now);
    let written = db
        .prepare_cached(
            "INSERT OR IGNORE INTO notice (seq, key, id, kind, process, session, task, generation, created_at, event, state, reason, lease_up,
                 lease_until, settled_at, attempts, maybe_told, open_since)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        )?
        .execute(params![
            seq,
            draft.key,
            notice.event_id,
            kind,
            notice.session_id,
            session,
            notice.task_id,
            notice.generation,
            draft.at.micros(),
            event,
            state.state,
            state.reason,
            state.lease_up,
            state.lease_until,
            state.settled_at,
            tracked.given,
            tracked.maybe_told,
            tracked.open_since.micros(),
        ])?;
    if written == 0 {
        return Ok(None);
    }
    // An end that the agent has seen does not wake it.
    let waker = waker_of(sinks, &kind, &session).filter(|_| !seen);
    for sink in sinks.iter().filter(|s| !s.wakes && s.takes(&kind, &session)).chain(waker) {
        let delivery = Delivery::new(draft.repeat, held_until);
        DeliveryRow { sink: sink.name.clone(), seq: seq as u64, session: session.clone(), delivery }.store(db)?;
    }
    // Counting takes longer the more are open, so it is done for about one notice in 256. Ids are hashes, so no session is missed for long.
    if notice.event_id.ends_with("00") {
        make_room(db, &session, now)?;
    }
    notice.seq = seq as u64;
    Ok(Some(NoticeEntry::written(notice, event.len(), &tracked, now)))
}

/// The sink that wakes an agent with such a notice: only the first of those that are for it.
fn waker_of<'a>(sinks: &'a [Push], kind: &str, session: &str) -> Option<&'a Push> {
    sinks.iter().find(|sink| sink.wakes && sink.takes(kind, session))
}

/// Drops the oldest notices of a session that has too many open ones.
fn make_room(db: &Connection, session: &str, now: Moment) -> rusqlite::Result<()> {
    let mut old = db.prepare_cached(
        "SELECT seq FROM
             (SELECT seq, lease_up FROM notice INDEXED BY notice_open WHERE session = ?1 AND settled_at = 0 ORDER BY seq DESC LIMIT -1 OFFSET ?2)
         WHERE lease_up <= ?3",
    )?;
    let old = old.query_map(params![session, MOST_OPEN as i64, now.up], |r| r.get(0))?.collect::<rusqlite::Result<Vec<i64>>>()?;
    if !old.is_empty() {
        tracing::warn!(session, dropped = old.len(), "a session has too many notices that no client took");
    }
    on_each(db, &old, NoticeEvent::Drop { reason: &format!("dropped: its session has over {MOST_OPEN} undelivered notices") }, now)
}

fn json(notice: &Notice) -> String {
    // A notice holds strings, numbers and maps with string keys only, which always serialise.
    serde_json::to_string(notice).expect("a notice serialises")
}

pub(crate) fn by_seq(db: &Connection, seq: u64) -> rusqlite::Result<Option<NoticeEntry>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM notice WHERE seq = ?1"))?.query_row(params![seq as i64], entry).optional()
}

/// The notice with this id.
pub(crate) fn by_id(db: &Connection, id: &str) -> rusqlite::Result<Option<NoticeEntry>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM notice WHERE id = ?1"))?.query_row(params![id], entry).optional()
}

/// The notice with this key.
pub(crate) fn by_key(db: &Connection, key: &str) -> rusqlite::Result<Option<NoticeEntry>> {
    by_id(db, &id_of(key))
}

/// Which notices to read.
#[derive(Debug, Clone, Default)]
pub(crate) struct NoticeFilter {
    /// Only notices after this number.
    pub(crate) after: u64,
    pub(crate) session: Option<String>,
    pub(crate) process: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) state: Option<String>,
    /// Whether the newest come first.
    pub(crate) newest: bool,
    pub(crate) limit: usize,
}

/// Reads notices and changes nothing. Returns fewer than the limit if they are long; the next read continues after the last.
pub(crate) fn read(db: &Connection, filter: &NoticeFilter) -> rusqlite::Result<Vec<NoticeEntry>> {
    // Only the given conditions are in the query, so that an index answers it.
    let (mut which, after, limit) = (String::from("seq > ?1"), filter.after as i64, filter.limit as i64);
    let mut values: Vec<&dyn ToSql> = vec![&after];
    for (column, wanted) in [("session", &filter.session), ("process", &filter.process), ("kind", &filter.kind), ("state", &filter.state)] {
        if let Some(value) = wanted {
            values.push(value);
            let stored = match column {
                "state" => {
                    "CASE WHEN state IN ('reserved', 'answering', 'waking') THEN 'leased' WHEN state = 'pending' AND observed THEN 'seen' ELSE state END"
                }
                _ => column,
            };
            which.push_str(&format!(" AND {stored} = ?{}", values.len()));
        }
    }
    values.push(&limit);
    let places: &[(&str, &str)] = match filter {
        NoticeFilter { process: Some(_), .. } => &[("notice_of_process", "process <> ''")],
        // Open and settled notices of a session have separate indexes, each in order.
        NoticeFilter { session: Some(_), .. } => &[("notice_open", "settled_at = 0"), ("notice_closed", "settled_at > 0")],
        _ => &[],
    };
    let part = |(index, so): &(&str, &str)| format!("SELECT {COLUMNS} FROM notice INDEXED BY {index} WHERE {which} AND {so}");
    let question = match places {
        [] => format!("SELECT {COLUMNS} FROM notice WHERE {which}"),
        places => places.iter().map(part).collect::<Vec<_>>().join(" UNION ALL "),
    };
    let order = if filter.newest { "DESC" } else { "ASC" };
    let mut wanted = db.prepare_cached(&format!("{question} ORDER BY seq {order} LIMIT ?{}", values.len()))?;
    let rows = wanted.query_map(values.as_slice(), entry)?;
    bounded(rows, NoticeEntry::answered_bytes)
}

/// The number of the newest notice ever. It never decreases, whatever is removed.
pub(crate) fn last_seq(db: &Connection) -> rusqlite::Result<u64> {
    let last: i64 = db
        .prepare_cached(
            "SELECT MAX(COALESCE((SELECT MAX(seq) FROM notice), 0), COALESCE((SELECT CAST(value AS INTEGER) FROM one WHERE name = 'floor'), 0))",
        )?
        .query_row([], |r| r.get(0))?;
    Ok(last as u64)
}

/// Records that numbers up to this one are used, before the notices that show it are removed.
fn set_floor(db: &Connection, seq: u64) -> rusqlite::Result<()> {
    set_one(db, "floor", &seq.to_string())
}

/// Reads a single value by its name.
pub(crate) fn one(db: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    db.prepare_cached("SELECT value FROM one WHERE name = ?1")?.query_row(params![name], |r| column::text(r, 0)).optional()
}

/// Writes a single value by its name.
pub(crate) fn set_one(db: &Connection, name: &str, value: &str) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO one (name, value) VALUES (?1, ?2)")?.execute(params![name, value])?;
    Ok(())
}
