//! Compares what was promised in a home with the records of the database, the agents, the followers and the engine.

use super::agent::{self, Noted, Prompt};
use super::plan::{Came, Driver};
use anyhow::{Context, Result, ensure};
use outlast_client::Part;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One message or notice, and its expected result.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// The round, and what it did.
    pub(super) of: String,
    pub(super) key: String,
    pub(super) driver: Driver,
    /// The message's id, or the process of the notice.
    pub(super) cause: Cause,
    pub(super) token: String,
    /// The allowed results. If empty, it must be completed, in any number of attempts.
    pub(super) may_be: Vec<Came>,
    /// The least prompts that its agents must have seen.
    pub(super) least_prompts: usize,
    /// Whether its first prompt must say nothing of a repeat: nothing happened that could be one.
    pub(super) is_certain: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    Message(String),
    Notice { process: String },
}

/// A row of `turn`.
#[derive(Debug, Clone)]
struct TurnRow {
    id: i64,
    key: String,
    cause: String,
    state: String,
    attempt: u32,
    head: i64,
    reason: Option<String>,
    outcome: Option<String>,
}

/// A row of `conversation`.
#[derive(Debug, Clone)]
pub(super) struct ConversationRow {
    name: String,
    pub(super) is_current: bool,
    strikes: u32,
    pub(super) is_suspended: bool,
}

/// Everything about a home, as its sources have it when nothing runs any more.
pub(super) struct Books {
    turns: Vec<TurnRow>,
    parts: Vec<(String, Part)>,
    pub(super) conversations: Vec<ConversationRow>,
    /// Of each start of a gateway, whether it found a turn that was interrupted.
    pub(super) founds: Vec<bool>,
    noted: Vec<Noted>,
    /// Of each process, its notice: id and state.
    notices: BTreeMap<String, Vec<(String, String)>>,
}

impl Books {
    /// Reads the database of a gateway that has ended, what agents wrote down in `dir`, and the engine's history of notices.
    pub(super) fn read(home: &Path, dir: &Path, history: &Value) -> Result<Self> {
        let db = Connection::open_with_flags(home.join("gateway.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let turns = db
            .prepare("SELECT id, key, cause, state, attempt, head, interrupt_reason, outcome FROM turn")?
            .query_map([], |row| {
                Ok(TurnRow {
                    id: row.get(0)?,
                    key: row.get(1)?,
                    cause: row.get(2)?,
                    state: row.get(3)?,
                    attempt: row.get(4)?,
                    head: row.get(5)?,
                    reason: row.get(6)?,
                    outcome: row.get(7)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        let mut parts = Vec::new();
        let mut statement = db.prepare("SELECT id, turn, attempt, kind, body, at, key FROM part ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let body: String = row.get(4)?;
            let part = serde_json::json!({
                "id": row.get::<_, i64>(0)?, "turn": row.get::<_, Option<i64>>(1)?, "attempt": row.get::<_, u32>(2)?,
                "kind": row.get::<_, String>(3)?, "body": serde_json::from_str::<Value>(&body)?,
                "at": outlast_core::Time::from_micros(row.get(5)?),
            });
            parts.push((row.get(6)?, serde_json::from_value(part)?));
        }
        let conversations = db
            .prepare("SELECT key, generation, ended_at IS NULL, strikes, suspended_at IS NOT NULL FROM conversation")?
            .query_map([], |row| {
                let name = format!("{}, generation {}", row.get::<_, String>(0)?, row.get::<_, u32>(1)?);
                Ok(ConversationRow { name, is_current: row.get(2)?, strikes: row.get(3)?, is_suspended: row.get(4)? })
            })?
            .collect::<rusqlite::Result<_>>()?;
        let mut statement = db.prepare("SELECT found_interrupted FROM run ORDER BY id")?;
        let founds = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut notices: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for told in history["notices"].as_array().context("a history")? {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let event = &told["event"];
            notices.entry(text(&event["session_id"])).or_default().push((text(&event["event_id"]), text(&told["state"])));
        }
        Ok(Self { turns, parts, conversations, founds, noted: agent::noted(dir), notices })
    }

    /// Everything that is wrong.
    pub(super) fn check(&self, ledger: &[Entry]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut known = BTreeSet::new();
        for entry in ledger {
            match self.check_entry(entry) {
                Ok(turn) => _ = known.insert(turn),
                Err(error) => wrong.push(format!("{}, {}: {error:#}", entry.of, entry.token)),
            }
        }
        if wrong.is_empty() {
            let strange = self.turns.iter().filter(|turn| !known.contains(&turn.id));
            wrong.extend(strange.map(|turn| format!("no client asked for turn {turn:?}")));
        }
        for noted in &self.noted {
            match noted {
                Noted::Clash { key } => wrong.push(format!("two agents worked in {key} at once")),
                Noted::Prompt(prompt) => {
                    let strange = prompt.tokens.iter().find(|token| !ledger.iter().any(|entry| entry.token == **token));
                    wrong.extend(strange.map(|token| format!("an agent was told {token}, which no client said: {prompt:?}")));
                    if prompt.tokens.is_empty() {
                        wrong.push(format!("an agent was prompted without words: {prompt:?}"));
                    }
                }
                Noted::Waiting(_) | Noted::Ending(_) => {}
            }
        }
        wrong.extend(self.conversations.iter().filter(|row| row.is_current).filter_map(|row| {
            let is_well = row.strikes == 0 && !row.is_suspended;
            (!is_well).then(|| {
                format!("{}: everything ended well, and it has {} strikes or is suspended ({})", row.name, row.strikes, row.is_suspended)
            })
        }));
        wrong.extend(self.lines(ledger));
        wrong
    }

    /// The row of an entry, which is as it must be.
    fn check_entry(&self, entry: &Entry) -> Result<i64> {
        let turn = self.row(entry)?;
        ensure!(turn.key == entry.key, "it came to {}", turn.key);
        let outcome = turn.outcome.as_deref().filter(|_| turn.state == "finished");
        let is_one = |came: &Came| (came.0, came.1, Some(came.2)) == (turn.attempt, turn.reason.as_deref(), outcome);
        let is_well = entry.may_be.is_empty() && outcome == Some("completed");
        ensure!(is_well || entry.may_be.iter().any(is_one), "it came to {turn:?}, and may be {:?}", entry.may_be);
        let prompts = self.prompts(&entry.token);
        ensure!(
            prompts.len() >= entry.least_prompts && prompts.len() <= turn.attempt as usize,
            "its agents saw it {} times, in {} attempts: {prompts:?}",
            prompts.len(),
            turn.attempt
        );
        ensure!(prompts.iter().all(|prompt| prompt.key == entry.key), "the agent of another conversation saw it: {prompts:?}");
        let unmarked = prompts.iter().skip(1).find(|prompt| !prompt.is_marked(&entry.token));
        ensure!(unmarked.is_none(), "it was said again and not marked: {unmarked:?}");
        // A later attempt cannot know that no agent saw the one before; only a command may be the one that the first attempt had asked for.
        let is_late = prompts.first().is_some_and(|prompt| prompts.len() < turn.attempt as usize && !prompt.is_marked(&entry.token));
        ensure!(!is_late || entry.driver.is_per_turn(), "attempt {} says nothing of the one before: {prompts:?}", turn.attempt);
        let is_marked = turn.attempt == 1 && prompts.first().is_some_and(|prompt| prompt.is_marked(&entry.token));
        ensure!(!(entry.is_certain && is_marked), "it was said once, and marked as a repeat: {prompts:?}");
        if outcome == Some("completed") {
            self.check_reply(entry, turn, prompts.last().context("no agent saw it")?)?;
        }
        Ok(turn.id)
    }

    fn row(&self, entry: &Entry) -> Result<&TurnRow> {
        let cause = match &entry.cause {
            Cause::Message(id) => id.clone(),
            Cause::Notice { process } => {
                let notices = self.notices.get(process).map(Vec::as_slice).unwrap_or_default();
                let [(id, state)] = notices else { anyhow::bail!("the engine has {} notices of {process}", notices.len()) };
                ensure!(state == "delivered", "the engine says that its notice is {state}");
                id.clone()
            }
        };
        let rows: Vec<&TurnRow> = self.turns.iter().filter(|turn| turn.cause == cause).collect();
        let [row] = rows[..] else { anyhow::bail!("{cause} has {} turns", rows.len()) };
        Ok(row)
    }

    fn prompts<'a>(&'a self, token: &str) -> Vec<&'a Prompt> {
        let prompt = |noted: &'a Noted| match noted {
            Noted::Prompt(prompt) if prompt.tokens.contains(token) => Some(prompt),
            Noted::Prompt(_) | Noted::Waiting(_) | Noted::Ending(_) | Noted::Clash { .. } => None,
        };
        self.noted.iter().filter_map(prompt).collect()
    }

    /// The reply of the last attempt is there once, as the agent gave it.
    fn check_reply(&self, entry: &Entry, turn: &TurnRow, last: &Prompt) -> Result<()> {
        let is_own =
            |part: &&Part| part.turn == Some(turn.head.unsigned_abs()) && part.attempt == turn.attempt && part.kind.as_str() == "text";
        let texts: Vec<&str> =
            self.parts.iter().map(|(_, part)| part).filter(is_own).filter_map(|part| part.body["text"].as_str()).collect();
        let said = agent::reply_parts(&last.tokens, &last.nonce);
        let wanted = if entry.driver.is_per_turn() { vec![said.join("\n")] } else { said.to_vec() };
        ensure!(texts == wanted, "its reply is {texts:?}, and the agent said {wanted:?}");
        Ok(())
    }

    /// Each interruption is shown to people once.
    fn lines(&self, ledger: &[Entry]) -> Vec<String> {
        let mut wrong = Vec::new();
        let keys: BTreeSet<&str> = ledger.iter().map(|entry| entry.key.as_str()).collect();
        for key in keys {
            let turns: Vec<&TurnRow> = self.turns.iter().filter(|turn| turn.key == key && turn.head == turn.id).collect();
            // The death of an agent is shown when it happens, also if a newer message replaces the turn, which is then not retried.
            let again = |reason: &str| -> usize {
                let is_told_at_once = |turn: &TurnRow| reason == "agent_ended" && turn.outcome.as_deref() == Some("cancelled");
                let of = turns.iter().filter(|turn| turn.reason.as_deref() == Some(reason));
                of.map(|turn| turn.attempt as usize - 1 + usize::from(is_told_at_once(turn))).sum()
            };
            // The line about an agent's end begins with its cause.
            let said = |end: &str| {
                let lines = self.parts.iter().filter(|(of, part)| of == key && part.kind.as_str() == "line");
                lines.filter(|(_, part)| part.body["text"].as_str().is_some_and(|text| text.ends_with(end))).count()
            };
            for (reason, text) in
                [("restart_interrupted", "Resumed after an interruption of the gateway."), ("agent_ended", ". Trying again.")]
            {
                let (said, wanted) = (said(text), again(reason));
                if said != wanted {
                    wrong.push(format!("{key}: {wanted} attempts were after {reason}, and the person was told {said} times"));
                }
            }
        }
        wrong
    }

    /// The turns of `chat show` that are otherwise in the table.
    pub(super) fn differences<'a>(&'a self, turns: &'a Value) -> impl Iterator<Item = &'a Value> {
        turns.as_array().into_iter().flatten().filter(|turn| {
            let is_same = |row: &TurnRow| {
                let words = [("cause", Some(&row.cause)), ("state", Some(&row.state))];
                let words = words.into_iter().chain([("interrupt_reason", row.reason.as_ref()), ("outcome", row.outcome.as_ref())]);
                turn["attempt"] == row.attempt && words.into_iter().all(|(name, word)| turn[name].as_str() == word.map(String::as_str))
            };
            !self.turns.iter().any(|row| turn["id"] == row.id && is_same(row))
        })
    }

    /// The parts of a conversation as the database has them.
    pub(super) fn parts_of(&self, key: &str) -> Vec<&Part> {
        self.parts.iter().filter(|(of, _)| of == key).map(|(_, part)| part).collect()
    }
}
