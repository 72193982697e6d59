//! Notices: what a client asks about them, and what it is answered.

use outlast_core::{Notice, Time};
use serde::{Deserialize, Serialize};

/// How notices are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Taker {
    /// Between two turns at a terminal: an end that a poll showed is not told.
    Terminal,
    /// Turns come by themselves: an end that a poll showed is told all the same.
    #[default]
    Gateway,
}

/// What to do with a notice that was given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// Its owner was told.
    Delivered,
    /// Its owner was not told: it is to be given again.
    Released,
    /// Nobody is to be told.
    Dropped {
        /// Why.
        reason: String,
    },
}

/// How a push went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Push {
    /// It was taken.
    Delivered,
    /// It is to be tried again.
    Again {
        /// After this long.
        after_ms: u64,
        /// What went wrong.
        reason: String,
    },
    /// It was not tried, and this time does not count.
    Later {
        /// After this long.
        after_ms: u64,
    },
    /// It is given up.
    Dead {
        /// What went wrong.
        reason: String,
    },
}

/// Which notices somebody wants to read. Reading changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct History {
    /// Behind the one with this `seq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// About this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// In this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// At most so many; absent means 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The newest first.
    pub newest: bool,
}

impl History {
    /// The same, behind the one with this `seq`.
    #[must_use]
    pub fn after(self, seq: u64) -> Self {
        Self { after: Some(seq), ..self }
    }

    /// The same, about this process.
    #[must_use]
    pub fn about(self, process: impl Into<String>) -> Self {
        Self { process: Some(process.into()), ..self }
    }

    /// The same, of this kind.
    #[must_use]
    pub fn of_kind(self, kind: impl Into<String>) -> Self {
        Self { kind: Some(kind.into()), ..self }
    }

    /// The same, in this state.
    #[must_use]
    pub fn in_state(self, state: impl Into<String>) -> Self {
        Self { state: Some(state.into()), ..self }
    }

    /// The same, at most so many.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// The same, the newest first.
    #[must_use]
    pub fn newest_first(self) -> Self {
        Self { newest: true, ..self }
    }
}

/// What to offer again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "replay", rename_all = "snake_case")]
pub enum Replay {
    /// Delivered notices, from this `seq` on, to their owners.
    From {
        /// The first.
        seq: u64,
    },
    /// What sinks gave up on.
    Dead {
        /// One notice; absent means all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<String>,
        /// One sink; absent means all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sink: Option<String>,
    },
}

/// What a barrier waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "until", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Until {
    /// The end of a process; one that is not known is over.
    Process {
        /// Which.
        process: String,
        /// A match that was told is enough: any for as long as it is watched, and the first after the barrier was set even if that was the last of all.
        #[serde(default)]
        or_match: bool,
    },
    /// The end of a pid.
    Pid {
        /// The number.
        pid: u32,
    },
    /// A time.
    Time {
        /// When.
        at: Time,
    },
}

/// One notice, its text, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Told {
    /// What happened, in the contract's fields.
    pub event: Notice,
    /// The same as a text for an agent.
    pub text: String,
    /// pending, leased, delivered, consumed, superseded or dropped.
    pub state: String,
    /// Why it is settled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// How often it was given out.
    pub attempts: u32,
    /// Whether a poll showed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// The word that settles it, while it is given out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Until when it is nobody else's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Time>,
    /// When it was settled: delivered, consumed, superseded or dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Time>,
}

impl Told {
    /// A notice with its text, in a state.
    pub fn new(event: Notice, text: impl Into<String>, state: impl Into<String>) -> Self {
        Self {
            event,
            text: text.into(),
            state: state.into(),
            reason: String::new(),
            attempts: 0,
            observed: false,
            lease: None,
            lease_until: None,
            settled_at: None,
        }
    }
}

/// Several notices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Notices {
    /// In order.
    pub notices: Vec<Told>,
    /// All of them as one text for an agent; absent where they were only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How many were dropped on this occasion, because they were for a generation of the conversation that has ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub too_late: u64,
}

pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Notices {
    /// These, with one text for all of them if they were given out.
    pub fn new(notices: Vec<Told>, text: Option<String>) -> Self {
        Self { notices, text, too_late: 0 }
    }

    /// The same, and so many were dropped.
    #[must_use]
    pub fn too_late(self, count: u64) -> Self {
        Self { too_late: count, ..self }
    }
}

/// What became of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judged {
    /// For each name: `ok`, `already`, `unknown`, or `lost` where somebody else has it now.
    pub notices: Vec<JudgedOne>,
}

impl Judged {
    /// These.
    pub fn new(notices: Vec<JudgedOne>) -> Self {
        Self { notices }
    }
}

/// What became of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JudgedOne {
    /// Its name.
    pub event_id: String,
    /// `ok`, `already`, `unknown` or `lost`.
    pub status: String,
}

impl JudgedOne {
    /// This one.
    pub fn new(event_id: impl Into<String>, status: impl Into<String>) -> Self {
        Self { event_id: event_id.into(), status: status.into() }
    }
}

/// What became of a post.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Posted {
    /// The notice.
    #[serde(flatten)]
    pub told: Told,
    /// Whether it was there before.
    pub existed: bool,
}

impl Posted {
    /// This one, and whether it was there before.
    pub fn new(told: Told, existed: bool) -> Self {
        Self { told, existed }
    }
}

/// Whether an owner has seen the end of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumed {
    /// Whether.
    pub consumed: bool,
}

/// Something a sink owes, given to it for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// What happened.
    pub event: Notice,
    /// The same as a text for an agent.
    pub text: String,
    /// How often it was tried before.
    pub attempts: u32,
    /// When it was tried first.
    pub first_at: Time,
    /// The word that settles it.
    pub lease: String,
}

impl Delivery {
    /// A notice with its text, lent under a word.
    pub fn new(event: Notice, text: impl Into<String>, attempts: u32, first_at: Time, lease: impl Into<String>) -> Self {
        Self { event, text: text.into(), attempts, first_at, lease: lease.into() }
    }
}

/// A delivery by its place, and the word under which it was lent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lent {
    /// Its place among all notices.
    pub seq: u64,
    /// The word.
    pub lease: String,
}

impl Lent {
    /// This one.
    pub fn new(seq: u64, lease: impl Into<String>) -> Self {
        Self { seq, lease: lease.into() }
    }
}

/// What a sink owes now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deliveries {
    /// In order.
    pub deliveries: Vec<Delivery>,
}

/// What a sink gave up on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The sink.
    pub sink: String,
    /// What it could not deliver.
    pub event: Notice,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was tried first.
    pub first_at: Time,
    /// Why it was given up.
    pub reason: String,
}

impl DeadLetter {
    /// A notice that a sink gave up on.
    pub fn new(sink: impl Into<String>, event: Notice, attempts: u32, first_at: Time, reason: impl Into<String>) -> Self {
        Self { sink: sink.into(), event, attempts, first_at, reason: reason.into() }
    }
}

/// Everything that sinks gave up on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Dead {
    /// In order.
    pub letters: Vec<DeadLetter>,
}

/// A barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Barrier {
    /// Its name.
    pub barrier: String,
    /// `waiting`; `open`; `interrupted`, which ends the wait and leaves the barrier; or `cleared`, if it was taken away or another took its place.
    pub status: String,
    /// Why it is open: `exited`, `matched`, `unknown`, `pid_gone` or `time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What it waits for, in a sentence.
    pub message: String,
    /// Since when.
    pub created_at: Time,
}

impl Barrier {
    /// A barrier that stands like this.
    pub fn new(barrier: impl Into<String>, status: impl Into<String>, message: impl Into<String>, created_at: Time) -> Self {
        Self { barrier: barrier.into(), status: status.into(), why: None, message: message.into(), created_at }
    }
}

/// All barriers of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Barriers {
    /// In the order in which they were set.
    pub barriers: Vec<Barrier>,
}
