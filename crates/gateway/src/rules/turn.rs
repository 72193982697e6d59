//! One turn: where it stands, and why.

use std::time::Duration;

use outlast_core::Time;
use serde::{Deserialize, Serialize};

/// How long a mark counts as fresh unless configured otherwise: after an hour a person no longer expects the work to continue by itself.
pub const DEFAULT_MARK_WINDOW: Duration = Duration::from_secs(3600);

/// Where a turn stands. Each variant holds what is true there and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "state", content = "of", rename_all = "snake_case")]
pub enum Turn {
    /// Written down, not started.
    Queued,
    /// Started. Written before the prompt is sent.
    Running {
        /// How often the turn was started, this time included.
        attempt: u32,
        /// The mark of the interruption before this attempt. If the prompt is never sent, the turn goes back to it.
        mark: Option<Mark>,
    },
    /// Started and not finished; to be started again. This is the mark *resume pending* of a conversation.
    Interrupted {
        /// How often the turn was started.
        attempt: u32,
        /// Why and when.
        mark: Mark,
    },
    /// Over. It never changes again.
    Finished(Outcome),
}

impl Turn {
    /// The word of its state, as in the table.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running { .. } => "running",
            Self::Interrupted { .. } => "interrupted",
            Self::Finished(_) => "finished",
        }
    }

    /// Whether it is not finished.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Finished(_))
    }

    /// The mark, if it is interrupted.
    pub fn interruption(&self) -> Option<Mark> {
        match self {
            Self::Interrupted { mark, .. } => Some(*mark),
            Self::Queued | Self::Running { .. } | Self::Finished(_) => None,
        }
    }
}

/// Why and when a turn was interrupted last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// What interrupted it.
    pub reason: InterruptReason,
    /// When that was recorded.
    pub at: Time,
}

impl Mark {
    /// Whether it is older than `window`. Exactly as old still counts as fresh, and so does a mark ahead of the clock.
    pub fn is_stale(&self, window: MarkWindow, now: Time) -> bool {
        window.has_passed(self.at, now)
    }
}

/// How long a mark counts as fresh. Zero: for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkWindow(pub Duration);

impl MarkWindow {
    /// Whether more than the window lies between the two instants.
    pub fn has_passed(&self, at: Time, now: Time) -> bool {
        let age = u128::try_from(i128::from(now.micros()) - i128::from(at.micros())).unwrap_or(0);
        !self.0.is_zero() && age > self.0.as_micros()
    }
}

impl Default for MarkWindow {
    fn default() -> Self {
        Self(DEFAULT_MARK_WINDOW)
    }
}

/// Why a turn was interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptReason {
    /// The drain before a restart timed out.
    RestartTimeout,
    /// The drain before a stop timed out.
    ShutdownTimeout,
    /// The gateway died.
    RestartInterrupted,
    /// The agent died.
    AgentEnded,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The agent ended it by itself.
    Completed,
    /// The agent could not do it.
    Failed {
        /// What was wrong.
        why: FailureReason,
    },
    /// A person ended it.
    Cancelled {
        /// What the person did.
        why: CancelReason,
    },
    /// It was interrupted too often.
    GaveUp,
    /// A notice that is recorded and shown to people, and never started.
    Obsolete {
        /// What made it obsolete.
        why: ObsoleteReason,
    },
}

/// What was wrong with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The agent reported an error.
    Reported,
    /// The agent cancelled the turn, and the gateway had not asked for it.
    CancelledItself,
    /// The agent was silent for too long.
    TimedOut,
    /// The agent violated its protocol.
    Garbled,
    /// The agent could not be started.
    CannotStart,
    /// The agent was killed while it started, again.
    KilledAtStart,
    /// The agent ended with the prompt, again.
    AgentEnded,
}

/// With what a person ended a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// `/stop` or Ctrl-C.
    Stopped,
    /// A newer message.
    NewerMessage,
    /// `/new`, or a message that started a new generation.
    NewGeneration,
}

/// What made a notice obsolete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObsoleteReason {
    /// It is for a generation that had ended when it arrived.
    EarlierGeneration,
    /// Its generation ended while it waited.
    GenerationEnded,
    /// The engine leased it so often that writing it down seems to kill the gateway.
    LeasedTooOften,
}

/// Whether a message or a notice is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// A person wrote.
    Message,
    /// The engine reported.
    Notice,
}

/// What a drain leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DrainKind {
    /// The gateway comes back at once.
    Restart,
    /// The gateway comes back on demand.
    Shutdown,
}

impl DrainKind {
    /// The reason of the marks that a drain of this kind leaves.
    pub fn reason(self) -> InterruptReason {
        match self {
            Self::Restart => InterruptReason::RestartTimeout,
            Self::Shutdown => InterruptReason::ShutdownTimeout,
        }
    }
}

/// Why a turn waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitReason {
    /// The conversation is suspended.
    Suspended,
    /// The mark is too old.
    Age,
    /// The breaker is open.
    Breaker,
    /// The owner may no longer speak.
    Owner,
    /// The channel is disconnected.
    Channel,
}
