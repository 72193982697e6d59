//! One conversation: its row and its open turns.

use std::fmt;
use std::str::FromStr;

use outlast_core::Time;
use serde::{Deserialize, Serialize};

use super::turn::{InterruptReason, Mark, Turn, TurnKind};

/// The id of a turn's row. Ids grow, so they give the order of the queue. The coordinator assigns them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TurnId(pub i64);

/// What a turn answers, by an id that its maker repeats when it is not sure that it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Cause {
    /// A person's message, by the id that the client made.
    Message(String),
    /// A notice, by the `evt_…` that the engine made.
    Notice(String),
}

impl Cause {
    /// Whether it is a message or a notice.
    pub fn kind(&self) -> TurnKind {
        match self {
            Self::Message(_) => TurnKind::Message,
            Self::Notice(_) => TurnKind::Notice,
        }
    }
}

/// As in the table. Every message has the prefix, so a client cannot choose an id that reads as a notice.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(id) => write!(f, "msg:{id}"),
            Self::Notice(id) => f.write_str(id),
        }
    }
}

/// A cause that the table cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the cause of a turn: {0:?} (it starts with `msg:` or `evt_`)")]
pub struct BadCause(pub String);

impl FromStr for Cause {
    type Err = BadCause;
    fn from_str(text: &str) -> Result<Self, BadCause> {
        match text.strip_prefix("msg:") {
            Some(id) => Ok(Self::Message(id.to_owned())),
            None if text.starts_with("evt_") => Ok(Self::Notice(text.to_owned())),
            None => Err(BadCause(text.to_owned())),
        }
    }
}

/// One generation of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generation {
    /// Counts from 1 within a key.
    pub number: u32,
    /// When it started.
    pub started_at: Time,
}

impl Generation {
    /// Its name in the engine. The time is part of it, so a deleted database never leads to a name that was used before.
    pub fn name(&self) -> String {
        format!("{}-{}", self.number, self.started_at.micros())
    }
}

/// Why a generation was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartedWhy {
    /// It is the first.
    First,
    /// A person asked with `/new`.
    New,
    /// The one before was suspended.
    Suspended,
    /// The one before was idle for too long.
    Idle,
    /// Daily reset.
    Daily,
    /// The one before had an interrupted turn that was too old.
    ResumeExpired,
    /// A person asked with `/resume N` to continue an earlier one.
    Resumed,
}

/// What a message does to a running turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BusyMode {
    /// It waits.
    Queue,
    /// It cancels the turn.
    Interrupt,
}

/// The interrupted turn whose words a later message's note quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quote {
    /// Which turn.
    pub turn: TurnId,
    /// How it was interrupted; the quoted row keeps it.
    pub mark: Mark,
}

/// When a turn was started last. The budget counts these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastStart {
    /// When it started.
    pub at: Time,
    /// Whether without a person.
    pub is_unattended: bool,
}

/// One row of the table `turn`, as far as the rules need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRow {
    /// Its id.
    pub id: TurnId,
    /// The generation it belongs to.
    pub generation: u32,
    /// What it answers.
    pub cause: Cause,
    /// Where it stands.
    pub turn: Turn,
    /// The row whose prompt carries this one: itself, or the first of several notices.
    pub head: TurnId,
    /// What its note quotes.
    pub quotes: Option<Quote>,
    /// When it was started last.
    pub last_start: Option<LastStart>,
}

/// A conversation: its current generation and its open turns, oldest first.
///
/// After [`apply`](super::change::apply) it also has the rows that this event finished, so that the store finds them. [`Conversation::forget_finished`] drops
/// them after the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversation {
    /// The current generation.
    pub generation: Generation,
    /// Why it was started.
    pub started_why: StartedWhy,
    /// What a message does to a running turn.
    pub mode: BusyMode,
    /// Unfinished attempts in a row.
    pub strikes: u32,
    /// Since when it is suspended.
    pub suspended_at: Option<Time>,
    /// When a person last wrote. Notices do not move it.
    pub last_message_at: Option<Time>,
    /// Whether a person wrote, or used `/resume`, during this run of the gateway. Kept in memory only.
    pub has_person_written: bool,
    /// The turns.
    pub rows: Vec<TurnRow>,
}

/// How a conversation stands. Derived, not stored, so that it cannot outlive what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Neither of the others.
    Active,
    /// A turn is interrupted. If there are several, this is the newest mark.
    ResumePending {
        /// Why it was interrupted.
        reason: InterruptReason,
        /// When it was interrupted.
        at: Time,
    },
    /// Too many attempts in a row did not finish. It comes before an interrupted turn.
    Suspended {
        /// When the last strike came.
        at: Time,
    },
}

impl Standing {
    /// The word that front ends show.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::ResumePending { .. } => "resume_pending",
            Self::Suspended { .. } => "suspended",
        }
    }
}

impl Conversation {
    /// The first generation of a key.
    pub fn first(mode: BusyMode, now: Time) -> Self {
        Self {
            generation: Generation { number: 1, started_at: now },
            started_why: StartedWhy::First,
            mode,
            strikes: 0,
            suspended_at: None,
            last_message_at: None,
            has_person_written: false,
            rows: Vec::new(),
        }
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        if let Some(at) = self.suspended_at {
            return Standing::Suspended { at };
        }
        match self.rows.iter().filter_map(|row| row.turn.interruption()).max_by_key(|mark| mark.at) {
            Some(Mark { reason, at }) => Standing::ResumePending { reason, at },
            None => Standing::Active,
        }
    }

    /// The row of the turn that runs.
    pub fn running(&self) -> Option<&TurnRow> {
        self.heads().find(|row| matches!(row.turn, Turn::Running { .. }))
    }

    /// The row with this id.
    pub fn row(&self, id: TurnId) -> Option<&TurnRow> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// The rows whose prompt is that of `head`, in order.
    pub fn group(&self, head: TurnId) -> impl Iterator<Item = &TurnRow> {
        self.rows.iter().filter(move |row| row.head == head)
    }

    /// The queued rows of a kind, in order.
    pub fn queued(&self, kind: TurnKind) -> impl Iterator<Item = &TurnRow> {
        self.rows.iter().filter(move |row| row.cause.kind() == kind && row.turn == Turn::Queued)
    }

    /// The first interrupted turn of a kind.
    pub fn interrupted(&self, kind: TurnKind) -> Option<&TurnRow> {
        self.heads().find(|row| row.cause.kind() == kind && row.turn.interruption().is_some())
    }

    /// Drops the finished rows. To be called once they are committed.
    pub fn forget_finished(&mut self) {
        self.rows.retain(|row| row.turn.is_open());
    }

    pub(super) fn heads(&self) -> impl Iterator<Item = &TurnRow> {
        self.rows.iter().filter(|row| row.head == row.id)
    }

    pub(super) fn turn_of(&self, cause: &Cause) -> Option<TurnId> {
        self.rows.iter().find(|row| row.cause == *cause).map(|row| row.id)
    }

    pub(super) fn push(&mut self, id: TurnId, cause: Cause, turn: Turn, quotes: Option<Quote>) {
        let generation = self.generation.number;
        self.rows.push(TurnRow { id, generation, cause, turn, head: id, quotes, last_start: None });
    }
}
