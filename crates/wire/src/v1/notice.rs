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
}

/// Several notices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Notices {
    /// In order.
    pub notices: Vec<Told>,
    /// All of them as one text for an agent; absent where they were only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What became of a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// For each name: `ok`, `already`, `unknown`, or `lost` where somebody else has it now.
    pub notices: Vec<JudgedOne>,
}

/// What became of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedOne {
    /// Its name.
    pub event_id: String,
    /// `ok`, `already`, `unknown` or `lost`.
    pub status: String,
}

/// What became of a post.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    /// The notice.
    #[serde(flatten)]
    pub told: Told,
    /// Whether it was there before.
    pub existed: bool,
}

/// Whether an owner has seen the end of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumed {
    /// Whether.
    pub consumed: bool,
}

/// Something a sink owes, given to it for a while.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// What a sink owes now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deliveries {
    /// In order.
    pub deliveries: Vec<Delivery>,
}

/// What a sink gave up on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// Everything that sinks gave up on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Dead {
    /// In order.
    pub letters: Vec<DeadLetter>,
}

/// A barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

/// All barriers of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Barriers {
    /// In the order in which they were set.
    pub barriers: Vec<Barrier>,
}
