//! The database of a gateway: one narrow trait, implemented with SQLite.
//!
//! The coordinator is the only writer. It gives every row its id, so a store only keeps what it is given, and enforces what must never be: two turns for one
//! cause, two current generations of a key, two running turns in one conversation.

mod sqlite;
#[cfg(test)]
mod tests;

pub(crate) use sqlite::SqliteStore;

use crate::rules::breaker::RunStart;
use crate::rules::conversation::{BusyMode, Cause, Generation, StartedWhy, TurnId};
use crate::rules::turn::{Mark, Turn};
use outlast_core::Time;
use outlast_wire::v1::chat::{AgentChoice, Changed, GenerationInfo, Part};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// The database of a gateway. A database on another machine could implement it: a commit is one transaction, and reads are by key and id.
pub(crate) trait Store: Send {
    /// The current generation of every conversation with its open turns. Unreadable rows are left out and named.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Writes all of it in one transaction, or nothing.
    fn commit(&mut self, changes: &[StoreChange]) -> Result<(), StoreError>;

    /// A generation, current or ended. One that cannot be read is named when the gateway starts.
    fn generation(&self, key: &str, number: u32) -> Result<Option<ConversationRecord>, StoreError>;

    /// The last generations of a conversation for a person to choose from, oldest first, at most `limit`.
    fn generations(&self, key: &str, limit: usize) -> Result<Vec<GenerationInfo>, StoreError>;

    /// Called once when nothing waits: makes later commits quicker, where that can be done beforehand.
    fn get_ready(&mut self);

    /// The turn that a cause has, of whichever conversation and generation.
    fn turn_of_cause(&self, cause: &Cause) -> Result<Option<TurnRecord>, StoreError>;

    /// A turn.
    fn turn(&self, id: TurnId) -> Result<Option<TurnRecord>, StoreError>;

    /// The last turns of a generation, oldest first, at most `limit`.
    fn turns(&self, key: &str, generation: u32, limit: usize) -> Result<Vec<TurnRecord>, StoreError>;

    /// The ids of the last turns of a generation, newest first, at most `limit`.
    fn turn_ids(&self, key: &str, generation: u32, limit: usize) -> Result<Vec<TurnId>, StoreError>;

    /// The parts of a conversation after `after` and up to `upto`, oldest first, at most `limit`; fewer if they are long.
    fn parts(&self, key: &str, after: u64, upto: u64, limit: usize) -> Result<Vec<Part>, StoreError>;

    /// The id of the part that is `count` parts before the one after `after`: where to begin for a reader who wants some context.
    fn part_before(&self, key: &str, after: u64, count: u32) -> Result<u64, StoreError>;

    /// The last part of a conversation.
    fn last_part(&self, key: &str) -> Result<Option<u64>, StoreError>;

    /// The texts of one attempt of a turn, oldest first.
    fn texts(&self, turn: TurnId, attempt: u32) -> Result<Vec<String>, StoreError>;

    /// The last attempt of a generation that has ended; nothing if its agent completed the turn.
    fn last_cut_attempt(&self, key: &str, generation: u32) -> Result<Option<(TurnId, u32)>, StoreError>;

    /// The parts about tool calls and permissions of one attempt of a turn, oldest first.
    fn calls(&self, turn: TurnId, attempt: u32) -> Result<Vec<Part>, StoreError>;

    /// When unattended turns of a conversation were started since then, one time for each prompt.
    fn unattended_starts(&self, key: &str, since: Time) -> Result<Vec<Time>, StoreError>;

    /// Whether a turn of a generation was completed.
    fn has_history(&self, key: &str, generation: u32) -> Result<bool, StoreError>;

    /// How the last run of the gateway ended ([`StoreChange::RunEnded`]); nothing if it was killed.
    fn last_end(&self) -> Result<Option<String>, StoreError>;

    /// The last starts of the gateway, oldest first.
    fn last_runs(&self, limit: usize) -> Result<Vec<RunStart>, StoreError>;
}

/// What a gateway finds when it starts.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) conversations: Vec<(ConversationRecord, Vec<TurnRecord>)>,
    pub(crate) last_turn: i64,
    pub(crate) last_part: u64,
    pub(crate) last_run: i64,
    /// The conversations whose row could not be read. No other is made in their place.
    pub(crate) unreadable: BTreeSet<String>,
    /// What could not be read, each in a sentence.
    pub(crate) skipped: Vec<String>,
}

/// One thing that a commit writes.
#[derive(Debug, Clone)]
pub(crate) enum StoreChange {
    /// A generation, new or changed.
    Conversation(Box<ConversationRecord>),
    /// A generation ended.
    GenerationEnded { key: String, generation: u32, at: Time },
    /// A turn, new or changed.
    Turn(Box<TurnRecord>),
    /// A new part of a conversation.
    Part { key: String, part: Box<Part> },
    /// The gateway started.
    RunStarted { id: i64, at: Time, has_found_interrupted: bool },
    /// The gateway ends.
    RunEnded { id: i64, at: Time, how: String },
}

/// One row of `conversation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConversationRecord {
    pub(crate) key: String,
    pub(crate) generation: Generation,
    pub(crate) started_why: StartedWhy,
    pub(crate) mode: BusyMode,
    pub(crate) strikes: u32,
    pub(crate) suspended_at: Option<Time>,
    pub(crate) last_message_at: Option<Time>,
    pub(crate) chat: ChatState,
}

/// What a conversation has beside what the rules need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ChatState {
    /// Who answers.
    pub(crate) agent: Option<AgentChoice>,
    /// The agent's own name for the session of this generation.
    pub(crate) agent_session: Option<String>,
    /// The earlier generation that a person continued with this one.
    pub(crate) resumed_from: Option<u32>,
    /// Where the agent works.
    pub(crate) cwd: Option<PathBuf>,
    /// The user who wrote last, as it is stored.
    pub(crate) owner: Option<String>,
    /// The last part that a person was shown.
    pub(crate) seen: Option<u64>,
    /// The last `/stop`, `/new` or `/resume`, so that one that is sent again changes nothing.
    pub(crate) last_order: Option<LastOrder>,
}

/// An order of a person, and what it was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastOrder {
    pub(crate) request_id: String,
    pub(crate) answer: Changed,
}

/// One row of `turn`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnRecord {
    pub(crate) id: TurnId,
    pub(crate) key: String,
    pub(crate) generation: u32,
    pub(crate) cause: Cause,
    pub(crate) body: Arc<TurnBody>,
    pub(crate) turn: Turn,
    /// How often it was started; kept when it is finished.
    pub(crate) attempt: u32,
    /// How often it was started, starts that were withdrawn included: the number of a start is part of its name for the driver. It is used twice only if the first
    /// gateway died before there was a process of that name.
    pub(crate) starts: u32,
    pub(crate) head: TurnId,
    pub(crate) quotes: Option<TurnId>,
    /// How it was interrupted last; kept when it is started again and when it is finished.
    pub(crate) mark: Option<Mark>,
    /// Why it failed, in a sentence.
    pub(crate) why: Option<String>,
    pub(crate) is_unattended: bool,
    pub(crate) accepted_at: Time,
    pub(crate) started_at: Option<Time>,
    pub(crate) finished_at: Option<Time>,
    /// How the turn that it quotes was interrupted. Read with the row, and not written.
    pub(crate) quoted_mark: Option<Mark>,
}

/// What a turn is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum TurnBody {
    /// A person's words.
    Message { words: String },
    /// A notice: its text for the agent, and whether the engine called it a possible repeat.
    Notice { text: String, is_repeat: bool },
}

impl TurnBody {
    pub(crate) fn words(&self) -> &str {
        match self {
            Self::Message { words } => words,
            Self::Notice { text, .. } => text,
        }
    }
}

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("cannot use {}: {what}", path.display())]
    Failed { path: PathBuf, what: String },
    #[error("{} was written by a newer version (layout {layout}, and this build knows {known}): use that version", path.display())]
    Newer { path: PathBuf, layout: i64, known: i64 },
}
