//! What the tables hold, as records: columns, and how they are read and written.

use crate::rules::conversation::{Generation, TurnId};
use crate::rules::turn::{Mark, Outcome, Turn};
use crate::store::{ChatState, ConversationRecord, StoreChange, TurnRecord};
use outlast_core::{OsText, Time};
use outlast_wire::v1::chat::{Content, GenerationInfo, Part, PartKind};
use rusqlite::types::{Type, ValueRef};
use rusqlite::{Row, Transaction, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The columns of [`conversation_of`].
pub(super) const CONVERSATION: &str = "key, generation, started_at, started_why, mode, strikes, suspended_at, last_message_at, agent, agent_session, \
     cwd, seen, last_order, owner, resumed_from FROM conversation";

/// The columns of [`turn_of`].
pub(super) const TURN: &str = "t.id, t.key, t.generation, t.cause, t.body, t.state, t.attempt, t.starts, t.head, t.quotes, t.interrupt_reason, \
     t.interrupted_at, t.outcome, t.why, t.unattended, t.accepted_at, t.started_at, t.finished_at, q.interrupt_reason, q.interrupted_at \
     FROM turn t LEFT JOIN turn q ON q.id = t.quotes";

/// The columns of [`generation_of`], for a key, with a limit of rows and of characters.
pub(super) const GENERATIONS: &str = "SELECT c.generation, c.started_at, c.ended_at, COUNT(t.id), MAX(t.accepted_at), c.resumed_from, \
     (SELECT CASE WHEN json_valid(f.body) THEN substr(json_extract(f.body, '$.words'), 1, ?3) END FROM turn f \
      WHERE f.key = c.key AND f.generation = c.generation AND f.kind = 'message' ORDER BY f.id LIMIT 1) \
     FROM conversation c LEFT JOIN turn t ON t.key = c.key AND t.generation = c.generation \
     WHERE c.key = ?1 GROUP BY c.generation ORDER BY c.generation DESC LIMIT ?2";

/// Writes one change, as part of a transaction.
pub(super) fn write(db: &Transaction<'_>, change: &StoreChange) -> rusqlite::Result<()> {
    match change {
        StoreChange::Conversation(row) => write_conversation(db, row),
        StoreChange::GenerationEnded { key, generation, at } => db
            .prepare_cached("UPDATE conversation SET ended_at = ?3 WHERE key = ?1 AND generation = ?2")?
            .execute(params![key, generation, at.micros()])
            .map(|_| ()),
        StoreChange::Turn(row) => write_turn(db, row),
        StoreChange::Part { key, part } => db
            .prepare_cached("INSERT INTO part (id, key, turn, attempt, kind, body, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                signed(part.id),
                key,
                part.turn.map(signed),
                part.attempt,
                part.kind.as_str(),
                part.body.to_string(),
                part.at.micros()
            ])
            .map(|_| ()),
        StoreChange::RunStarted { id, at, has_found_interrupted } => db
            .prepare_cached("INSERT INTO run (id, started_at, found_interrupted) VALUES (?1, ?2, ?3)")?
            .execute(params![id, at.micros(), has_found_interrupted])
            .map(|_| ()),
        StoreChange::RunEnded { id, at, how } => {
            db.prepare_cached("UPDATE run SET ended_at = ?2, how = ?3 WHERE id = ?1")?.execute(params![id, at.micros(), how]).map(|_| ())
        }
    }
}

fn write_conversation(db: &Transaction<'_>, row: &ConversationRecord) -> rusqlite::Result<()> {
    let ChatState { agent, agent_session, resumed_from, cwd, owner, seen, last_order } = &row.chat;
    let cwd = cwd.as_deref().map(OsText::from);
    db.prepare_cached(
        "INSERT INTO conversation (key, generation, name, started_at, started_why, mode, strikes, suspended_at, last_message_at, agent, \
         agent_session, cwd, seen, last_order, owner, resumed_from) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) \
         ON CONFLICT (key, generation) DO UPDATE SET mode = excluded.mode, strikes = excluded.strikes, suspended_at = excluded.suspended_at, \
         last_message_at = excluded.last_message_at, agent = excluded.agent, agent_session = excluded.agent_session, cwd = excluded.cwd, \
         seen = excluded.seen, last_order = excluded.last_order, owner = excluded.owner, resumed_from = excluded.resumed_from",
    )?
    .execute(params![
        row.key,
        row.generation.number,
        // A name is unique in the home; within the engine the key comes with it.
        format!("{} {}", row.key, row.generation.name()),
        row.generation.started_at.micros(),
        word(&row.started_why),
        word(&row.mode),
        row.strikes,
        row.suspended_at.map(Time::micros),
        row.last_message_at.map(Time::micros),
        agent.as_ref().map(json),
        agent_session,
        cwd.as_ref().map(json),
        seen.map(signed),
        last_order.as_ref().map(json),
        owner,
        resumed_from,
    ])
    .map(|_| ())
}

fn write_turn(db: &Transaction<'_>, row: &TurnRecord) -> rusqlite::Result<()> {
    let outcome = match row.turn {
        Turn::Finished(outcome) => Some(outcome),
        Turn::Queued | Turn::Running { .. } | Turn::Interrupted { .. } => None,
    };
    // The word of the outcome, and beside it the word of its reason; a sentence of the agent's counts instead of that.
    let (outcome, reason) = outcome.map_or((None, None), |o| {
        let value = serde_json::to_value(o).unwrap_or_default();
        let text = |name: &str| value.get(name).and_then(|v| v.as_str()).map(str::to_owned);
        (text("outcome"), text("why"))
    });
    let why = match (&reason, &row.why) {
        (Some(reason), Some(sentence)) => Some(format!("{reason}: {sentence}")),
        (Some(reason), None) => Some(reason.clone()),
        (None, sentence) => sentence.clone(),
    };
    db.prepare_cached(
        "INSERT INTO turn (id, key, generation, cause, kind, body, state, attempt, starts, head, quotes, interrupt_reason, interrupted_at, \
         outcome, why, unattended, accepted_at, started_at, finished_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19) \
         ON CONFLICT (id) DO UPDATE SET generation = excluded.generation, state = excluded.state, attempt = excluded.attempt, \
         starts = excluded.starts, head = excluded.head, quotes = excluded.quotes, interrupt_reason = excluded.interrupt_reason, \
         interrupted_at = excluded.interrupted_at, outcome = excluded.outcome, why = excluded.why, unattended = excluded.unattended, \
         started_at = excluded.started_at, finished_at = excluded.finished_at",
    )?
    .execute(params![
        row.id.0,
        row.key,
        row.generation,
        row.cause.to_string(),
        word(&row.cause.kind()),
        json(&*row.body),
        row.turn.word(),
        row.attempt,
        row.starts,
        row.head.0,
        row.quotes.map(|turn| turn.0),
        row.mark.map(|mark| word(&mark.reason)),
        row.mark.map(|mark| mark.at.micros()),
        outcome,
        why,
        row.is_unattended,
        row.accepted_at.micros(),
        row.started_at.map(Time::micros),
        row.finished_at.map(Time::micros),
    ])
    .map(|_| ())
}

pub(super) fn conversation_of(row: &Row<'_>) -> rusqlite::Result<ConversationRecord> {
    let started_at = Time::from_micros(row.get(2)?);
    Ok(ConversationRecord {
        key: row.get(0)?,
        generation: Generation { number: row.get(1)?, started_at },
        started_why: of_word(row, 3)?,
        mode: of_word(row, 4)?,
        strikes: row.get(5)?,
        suspended_at: time(row, 6)?,
        last_message_at: time(row, 7)?,
        chat: ChatState {
            agent: of_json(row, 8)?,
            agent_session: row.get(9)?,
            cwd: of_json::<OsText>(row, 10)?.map(|text| text.as_path().to_owned()),
            seen: row.get::<_, Option<i64>>(11)?.map(i64::unsigned_abs),
            last_order: of_json(row, 12)?,
            owner: owner_of(row, 13)?,
            resumed_from: row.get(14)?,
        },
    })
}

pub(super) fn generation_of(row: &Row<'_>) -> rusqlite::Result<GenerationInfo> {
    let started_at = time(row, 1)?.ok_or(rusqlite::Error::InvalidQuery)?;
    let mut of = GenerationInfo::new(row.get::<_, u32>(0)?.into(), started_at);
    (of.ended_at, of.turns, of.last_turn_at) = (time(row, 2)?, row.get::<_, u32>(3)?.into(), time(row, 4)?);
    (of.resumed_from, of.first_words) = (row.get::<_, Option<u32>>(5)?.map(u64::from), row.get(6)?);
    Ok(of)
}

/// The owner as it is stored. An unreadable one is refused where it is checked, so that it does not hide its conversation.
fn owner_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Real(_) | ValueRef::Blob(_) => Some(String::new()),
    })
}

pub(super) fn turn_of(row: &Row<'_>) -> rusqlite::Result<TurnRecord> {
    let (state, attempt): (String, u32) = (row.get(5)?, row.get(6)?);
    let (mark, quoted_mark) = (mark_of(row, 10)?, mark_of(row, 18)?);
    let why: Option<String> = row.get(13)?;
    let (reason, sentence) = match why.as_deref().map(|why| why.split_once(": ").map_or((why, None), |(word, rest)| (word, Some(rest)))) {
        Some((reason, sentence)) => (Some(reason.to_owned()), sentence.map(str::to_owned)),
        None => (None, None),
    };
    let turn = match (state.as_str(), mark) {
        ("queued", _) => Turn::Queued,
        ("running", mark) => Turn::Running { attempt, mark: mark.filter(|_| attempt > 1) },
        ("interrupted", Some(mark)) => Turn::Interrupted { attempt, mark },
        ("finished", _) => {
            let outcome: String = row.get(12)?;
            let value = serde_json::json!({ "outcome": outcome, "why": reason });
            Turn::Finished(serde_json::from_value::<Outcome>(value).map_err(|e| bad(12, e))?)
        }
        _ => return Err(bad(5, BadState(state))),
    };
    Ok(TurnRecord {
        id: TurnId(row.get(0)?),
        key: row.get(1)?,
        generation: row.get(2)?,
        cause: row.get::<_, String>(3)?.parse().map_err(|e| bad(3, e))?,
        body: Arc::new(of_json(row, 4)?.ok_or_else(|| bad(4, BadState("no body".into())))?),
        turn,
        attempt,
        starts: row.get(7)?,
        head: TurnId(row.get(8)?),
        quotes: row.get::<_, Option<i64>>(9)?.map(TurnId),
        mark,
        why: sentence,
        is_unattended: row.get(14)?,
        accepted_at: Time::from_micros(row.get(15)?),
        started_at: time(row, 16)?,
        finished_at: time(row, 17)?,
        quoted_mark,
    })
}

pub(super) fn part_of(row: &Row<'_>) -> rusqlite::Result<Part> {
    let id = row.get::<_, i64>(0)?.unsigned_abs();
    let turn = row.get::<_, Option<i64>>(1)?.map(i64::unsigned_abs);
    let at = Time::from_micros(row.get(5)?);
    let mut part = Part::new(id, turn, row.get(2)?, &Content::Unknown, at);
    let (kind, body): (String, String) = (row.get(3)?, row.get(4)?);
    // A part of which nothing can be read is shown as one of an unknown kind: its number is a cursor, so it must not be missing.
    if let Ok(body) = serde_json::from_str(&body) {
        part.kind = serde_json::from_value::<PartKind>(kind.into()).unwrap_or(part.kind);
        part.body = body;
    }
    Ok(part)
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is none of the words that may be here")]
struct BadState(String);

fn bad(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

fn mark_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Mark>> {
    let Some(reason) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    let reason = serde_json::from_value(reason.into()).map_err(|e| bad(column, e))?;
    Ok(time(row, column + 1)?.map(|at| Mark { reason, at }))
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Time>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Time::from_micros))
}

fn json<T: Serialize>(value: &T) -> String {
    // Texts, numbers and lists with string keys always serialise.
    serde_json::to_string(value).unwrap_or_default()
}

pub(super) fn of_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<T>> {
    let Some(text) = row.get::<_, Option<String>>(column)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|e| bad(column, e))
}

/// The word of an enum, as in JSON without its quotes.
fn word<T: Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn of_word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    serde_json::from_value(row.get::<_, String>(column)?.into()).map_err(|e| bad(column, e))
}

/// Ids of ours are far below the sign.
pub(super) fn signed(id: u64) -> i64 {
    i64::try_from(id).unwrap_or(i64::MAX)
}
