//! Requests about notices, and their answers.

use outlast_core::{Notice, Time};
use serde::{Deserialize, Serialize};

/// What a taker reports about a leased notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// The owner received it.
    Delivered,
    /// The owner did not receive it: offer it again.
    Released,
    /// It will not be delivered.
    Dropped {
        /// The reason.
        reason: String,
    },
}

/// How a delivery to a sink went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Push {
    /// The receiver accepted it.
    Delivered,
    /// It failed, and should be retried.
    Again {
        /// When to retry, in milliseconds from now.
        after_ms: u64,
        /// What failed.
        reason: String,
    },
    /// It was not tried. This does not count as an attempt.
    Later {
        /// When to try, in milliseconds from now.
        after_ms: u64,
    },
    /// It failed and is not tried again.
    Dead {
        /// What failed.
        reason: String,
    },
}

/// Which notices to read. Reading changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct History {
    /// After the notice with this `seq`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// About this process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Only notices of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only notices in this state: as in [`Told::state`], but pending ones that were observed are `seen`, and not `pending`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The most notices to return; absent means 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Whether the newest comes first.
    pub newest: bool,
}

impl History {
    /// The same, after the notice with this `seq`.
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

    /// The same, at most this many.
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

/// What to deliver again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "replay", rename_all = "snake_case")]
pub enum Replay {
    /// Delivered notices with this `seq` or a higher one, to their owners.
    From {
        /// The first `seq`.
        seq: u64,
    },
    /// Dead letters of sinks.
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
pub enum BarrierTarget {
    /// The end of a process; an unknown id counts as ended.
    Process {
        /// The process id.
        process: String,
        /// Open on the first reported match, too. While the process is watched, any match counts. Once it is not, only the first
        /// match after the barrier was set counts, even if it was the last of all.
        #[serde(default)]
        or_match: bool,
    },
    /// The end of an operating-system process.
    Pid {
        /// The pid.
        pid: u32,
    },
    /// A time.
    Time {
        /// The time at which to open.
        at: Time,
    },
}

/// A notice, its text and its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Told {
    /// What happened, in the contract's fields.
    pub event: Notice,
    /// The event as a text for an agent.
    pub text: String,
    /// One of: pending, leased, delivered, consumed, superseded, dropped.
    pub state: String,
    /// Why it is settled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// How often it was leased to a taker.
    pub attempts: u32,
    /// Whether a poll showed the end that it reports.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observed: bool,
    /// Whether it is from another conversation of the session, which is over. The text says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
    /// The lease token that settles it, while it is leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// When its lease ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Time>,
    /// When it was settled: delivered, consumed, superseded or dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Time>,
    /// Deliveries to sinks that failed and are not done. Only a history has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_deliveries: Vec<FailedDelivery>,
}

impl Told {
    /// A notice with its text, in this state.
    pub fn new(event: Notice, text: impl Into<String>, state: impl Into<String>) -> Self {
        Self {
            event,
            text: text.into(),
            state: state.into(),
            reason: String::new(),
            attempts: 0,
            observed: false,
            earlier: false,
            lease: None,
            lease_until: None,
            settled_at: None,
            failed_deliveries: Vec::new(),
        }
    }
}

/// Several notices.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Notices {
    /// The notices, by `seq` unless the request asked for another order.
    pub notices: Vec<Told>,
    /// All of them as one text for an agent; absent if they were only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How many were dropped by this request because their generation of the session has ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub too_late: u64,
}

pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Notices {
    /// These notices, with one text for all of them if they were leased.
    pub fn new(notices: Vec<Told>, text: Option<String>) -> Self {
        Self { notices, text, too_late: 0 }
    }

    /// The same, and this many were dropped.
    #[must_use]
    pub fn too_late(self, count: u64) -> Self {
        Self { too_late: count, ..self }
    }
}

/// The answer to a settlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judged {
    /// For each notice: `ok`, `already`, `unknown`, or `lost` if another taker holds it.
    pub notices: Vec<JudgedOne>,
}

impl Judged {
    /// An answer with these.
    pub fn new(notices: Vec<JudgedOne>) -> Self {
        Self { notices }
    }
}

/// What became of one notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JudgedOne {
    /// The notice's id.
    pub event_id: String,
    /// `ok`, `already`, `unknown` or `lost`.
    pub status: String,
}

impl JudgedOne {
    /// This notice with this status.
    pub fn new(event_id: impl Into<String>, status: impl Into<String>) -> Self {
        Self { event_id: event_id.into(), status: status.into() }
    }
}

/// The answer to a post.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Posted {
    /// The notice and its state.
    #[serde(flatten)]
    pub told: Told,
    /// Whether it existed before.
    pub existed: bool,
}

impl Posted {
    /// This notice, and whether it existed before.
    pub fn new(told: Told, existed: bool) -> Self {
        Self { told, existed }
    }
}

/// Whether the owner of a process has seen its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumed {
    /// Whether it has.
    pub consumed: bool,
}

/// A notice for a sink, leased to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivery {
    /// What happened.
    pub event: Notice,
    /// The event as a text for an agent.
    pub text: String,
    /// How often delivery was attempted before.
    pub attempts: u32,
    /// When delivery was first attempted.
    pub first_at: Time,
    /// The lease token that settles it.
    pub lease: String,
}

impl Delivery {
    /// A notice with its text, leased with a token.
    pub fn new(event: Notice, text: impl Into<String>, attempts: u32, first_at: Time, lease: impl Into<String>) -> Self {
        Self { event, text: text.into(), attempts, first_at, lease: lease.into() }
    }
}

/// A delivery, by the `seq` of its notice, and its lease token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Lent {
    /// The `seq` of the notice.
    pub seq: u64,
    /// The lease token.
    pub lease: String,
}

impl Lent {
    /// A delivery under this lease token.
    pub fn new(seq: u64, lease: impl Into<String>) -> Self {
        Self { seq, lease: lease.into() }
    }
}

/// The notices that a sink has to deliver now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deliveries {
    /// The deliveries, by `seq`.
    pub deliveries: Vec<Delivery>,
}

/// A notice that a sink gave up on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The sink.
    pub sink: String,
    /// What it could not deliver.
    pub event: Notice,
    /// How often delivery was attempted.
    pub attempts: u32,
    /// When delivery was first attempted.
    pub first_at: Time,
    /// Why the sink gave up.
    pub reason: String,
}

impl DeadLetter {
    /// A notice that a sink gave up on.
    pub fn new(sink: impl Into<String>, event: Notice, attempts: u32, first_at: Time, reason: impl Into<String>) -> Self {
        Self { sink: sink.into(), event, attempts, first_at, reason: reason.into() }
    }
}

/// How many dead letters a sink has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DeadOfSink {
    /// The name of the sink.
    pub sink: String,
    /// How many notices it gave up on.
    pub count: u64,
    /// Why it gave up on the newest of them.
    pub reason: String,
}

impl DeadOfSink {
    /// A sink with this number of dead letters.
    pub fn new(sink: impl Into<String>, count: u64, reason: impl Into<String>) -> Self {
        Self { sink: sink.into(), count, reason: reason.into() }
    }
}

/// Dead letters, at most as many as requested.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Dead {
    /// The dead letters, by `seq`.
    pub letters: Vec<DeadLetter>,
    /// The sinks that have dead letters, with the numbers of all of them. Engines of earlier versions leave it out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<DeadOfSink>,
}

impl Dead {
    /// These dead letters, and the numbers of all of each sink.
    pub fn new(letters: Vec<DeadLetter>, sinks: Vec<DeadOfSink>) -> Self {
        Self { letters, sinks }
    }

    /// How many dead letters there are in all.
    pub fn total(&self) -> u64 {
        self.sinks.iter().map(|of| of.count).sum::<u64>().max(self.letters.len() as u64)
    }
}

/// A delivery to a sink that has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FailedDelivery {
    /// The name of the sink.
    pub sink: String,
    /// Whether the sink gave up. Otherwise it tries again.
    #[serde(default)]
    pub dead: bool,
    /// How often it was tried.
    pub attempts: u32,
    /// What went wrong last.
    pub error: String,
}

impl FailedDelivery {
    /// A delivery that failed this often, the last time with this error.
    pub fn new(sink: impl Into<String>, dead: bool, attempts: u32, error: impl Into<String>) -> Self {
        Self { sink: sink.into(), dead, attempts, error: error.into() }
    }
}

/// A barrier, as its client sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Barrier {
    /// Its id.
    pub barrier: String,
    /// `waiting`; `open`; `interrupted`, which ends the wait and keeps the barrier; or `cleared`, if the barrier was cleared or
    /// replaced.
    pub status: String,
    /// Why it is open: `exited`, `matched`, `unknown`, `pid_gone` or `time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What it waits for, as a sentence.
    pub message: String,
    /// When it was set.
    pub created_at: Time,
}

impl Barrier {
    /// A barrier in this state.
    pub fn new(barrier: impl Into<String>, status: impl Into<String>, message: impl Into<String>, created_at: Time) -> Self {
        Self { barrier: barrier.into(), status: status.into(), why: None, message: message.into(), created_at }
    }
}

/// The barriers of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Barriers {
    /// In the order in which they were set.
    pub barriers: Vec<Barrier>,
}
