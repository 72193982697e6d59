//! One turn: where it stands, what can happen to it, and when it is given up.

use std::time::Duration;

use outlast_core::Time;
use serde::{Deserialize, Serialize};

use super::text::Line;

/// A conversation is suspended after this many unfinished attempts in a row. A person can tell two unlucky restarts from a loop; more would
/// only repeat the damage.
pub const MAX_STRIKES: u32 = 3;

/// A turn is given up after this many attempts of its own. Strikes alone do not bound it, because other turns may succeed in between.
pub const MAX_TURN_ATTEMPTS: u32 = 3;

/// An agent that dies with the prompt is tried again up to this attempt. The second death says that the prompt kills it.
pub const LAST_ATTEMPT_RETRIED_AFTER_AGENT_DEATH: u32 = 1;

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
    /// Why.
    pub reason: InterruptReason,
    /// When.
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
        /// With what.
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

/// How a generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationEnd {
    /// A person asked with `/new`: queued messages are cancelled.
    Asked,
    /// A message came to a conversation that could not continue: queued messages move along.
    MovedOn,
}

/// What can happen to a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEvent {
    /// The queue says that it starts.
    Start,
    /// The agent completed this attempt.
    Completed {
        /// Which one.
        attempt: u32,
    },
    /// The agent failed in this attempt.
    Failed {
        /// Which one.
        attempt: u32,
        /// What was wrong.
        why: FailureReason,
    },
    /// The agent is gone without an answer.
    AgentGone {
        /// In which attempt.
        attempt: u32,
        /// Whether it had the prompt.
        had_prompt: bool,
    },
    /// `/stop` or Ctrl-C.
    Stop,
    /// A newer message cuts in, in a conversation of mode interrupt.
    CutIn {
        /// Whether the agent has the prompt.
        has_prompt: bool,
    },
    /// A newer message of the person replaces this interrupted turn.
    Replace,
    /// The generation ends.
    EndGeneration {
        /// What the turn answers.
        kind: TurnKind,
        /// How it ends.
        how: GenerationEnd,
    },
    /// The drain timed out.
    DrainTimedOut {
        /// What it leads to.
        kind: DrainKind,
        /// Whether the agent has the prompt.
        has_prompt: bool,
    },
    /// A gateway starts and finds this turn.
    GatewayStarted {
        /// Whether the driver still holds the attempt: its agent outlived the gateway.
        is_held: bool,
    },
}

/// What is done about a turn after the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEffect {
    /// Give the agent the prompt of the attempt that was started.
    Prompt,
    /// Cancel this attempt. If the agent does not have the prompt yet, it does not get it.
    Cancel {
        /// Which one.
        attempt: u32,
    },
    /// Tell the person.
    Tell(Line),
}

/// What one event makes of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStep {
    /// Where the turn stands now.
    pub turn: Turn,
    /// Unfinished attempts in a row, over all turns of the conversation.
    pub strikes: u32,
    /// Whether this was the last strike: the conversation is suspended.
    pub does_suspend: bool,
    /// What is done after the commit, in this order.
    pub effects: Vec<TurnEffect>,
}

/// Applies one event. An answer from another attempt changes nothing, and nothing changes a finished turn.
pub fn apply(turn: Turn, event: TurnEvent, strikes: u32, now: Time) -> TurnStep {
    let step = TurnStep { turn, strikes, does_suspend: false, effects: Vec::new() };
    match turn {
        Turn::Queued => step.when_queued(event),
        Turn::Running { attempt, mark } => step.when_running(attempt, mark, event, now),
        Turn::Interrupted { attempt, mark } => step.when_interrupted(attempt, mark, event),
        Turn::Finished(_) => step,
    }
}

impl TurnStep {
    fn when_queued(self, event: TurnEvent) -> Self {
        match event {
            TurnEvent::Start => self.to(Turn::Running { attempt: 1, mark: None }).with(TurnEffect::Prompt),
            TurnEvent::EndGeneration { kind: TurnKind::Notice, .. } => self.obsolete(),
            TurnEvent::EndGeneration { kind: TurnKind::Message, how: GenerationEnd::Asked } => self.cancelled(CancelReason::NewGeneration),
            TurnEvent::EndGeneration { kind: TurnKind::Message, how: GenerationEnd::MovedOn }
            | TurnEvent::Completed { .. }
            | TurnEvent::Failed { .. }
            | TurnEvent::AgentGone { .. }
            | TurnEvent::Stop
            | TurnEvent::CutIn { .. }
            | TurnEvent::Replace
            | TurnEvent::DrainTimedOut { .. }
            | TurnEvent::GatewayStarted { .. } => self,
        }
    }

    fn when_running(self, attempt: u32, mark: Option<Mark>, event: TurnEvent, now: Time) -> Self {
        let cancel = TurnEffect::Cancel { attempt };
        let interrupted = |reason| Turn::Interrupted { attempt, mark: Mark { reason, at: now } };
        match event {
            TurnEvent::Completed { attempt: of } if of == attempt => self.completed(),
            TurnEvent::Failed { attempt: of, why } if of == attempt => self.failed(why),
            TurnEvent::AgentGone { attempt: of, had_prompt: false } if of == attempt => self.failed(FailureReason::CannotStart),
            TurnEvent::AgentGone { attempt: of, had_prompt: true } if of == attempt => match self.strike(attempt) {
                Strike::GivenUp(step) => step,
                Strike::Counted(step) if attempt <= LAST_ATTEMPT_RETRIED_AFTER_AGENT_DEATH => {
                    step.to(interrupted(InterruptReason::AgentEnded)).with(TurnEffect::Tell(Line::AgentEndedRetrying))
                }
                Strike::Counted(step) => step.failed(FailureReason::AgentEnded),
            },
            TurnEvent::Stop => self.cancelled(CancelReason::Stopped).with(cancel),
            TurnEvent::CutIn { has_prompt: true } => self.cancelled(CancelReason::NewerMessage).with(cancel),
            TurnEvent::EndGeneration { .. } => self.cancelled(CancelReason::NewGeneration).with(cancel),
            // What no agent has seen is not closed and gets no mark: it is as if it had not been started.
            TurnEvent::CutIn { has_prompt: false } | TurnEvent::DrainTimedOut { has_prompt: false, .. } => {
                self.to(before_start(attempt, mark)).with(cancel)
            }
            TurnEvent::DrainTimedOut { kind, has_prompt: true } => match self.strike(attempt) {
                Strike::GivenUp(step) => step.with(cancel),
                Strike::Counted(step) => step.to(interrupted(kind.reason())).with(cancel),
            },
            TurnEvent::GatewayStarted { is_held } => match self.strike(attempt) {
                Strike::GivenUp(step) => step.with(cancel),
                // The agent continues. It costs a strike all the same, because what it says may be what killed the gateway.
                Strike::Counted(step) if is_held => step,
                Strike::Counted(step) => step.to(interrupted(InterruptReason::RestartInterrupted)),
            },
            TurnEvent::Completed { .. } | TurnEvent::Failed { .. } | TurnEvent::AgentGone { .. } => self,
            TurnEvent::Start | TurnEvent::Replace => self,
        }
    }

    fn when_interrupted(self, attempt: u32, mark: Mark, event: TurnEvent) -> Self {
        match event {
            TurnEvent::Start => {
                let step = self.to(Turn::Running { attempt: attempt + 1, mark: Some(mark) });
                let told = Line::resumed(mark.reason).map(TurnEffect::Tell);
                told.into_iter().fold(step, Self::with).with(TurnEffect::Prompt)
            }
            // The agent was faster than the cancel. Only a real end clears the mark.
            TurnEvent::Completed { attempt: of } if of == attempt => self.completed(),
            TurnEvent::Stop => self.cancelled(CancelReason::Stopped),
            TurnEvent::Replace => self.cancelled(CancelReason::NewerMessage),
            TurnEvent::EndGeneration { kind: TurnKind::Notice, how: GenerationEnd::MovedOn } => self.obsolete(),
            TurnEvent::EndGeneration { .. } => self.cancelled(CancelReason::NewGeneration),
            TurnEvent::Completed { .. }
            | TurnEvent::Failed { .. }
            | TurnEvent::AgentGone { .. }
            | TurnEvent::CutIn { .. }
            | TurnEvent::DrainTimedOut { .. }
            | TurnEvent::GatewayStarted { .. } => self,
        }
    }

    fn to(self, turn: Turn) -> Self {
        Self { turn, ..self }
    }

    fn with(mut self, effect: TurnEffect) -> Self {
        self.effects.push(effect);
        self
    }

    fn completed(self) -> Self {
        Self { strikes: 0, ..self.to(Turn::Finished(Outcome::Completed)) }
    }

    fn failed(self, why: FailureReason) -> Self {
        self.to(Turn::Finished(Outcome::Failed { why })).with(TurnEffect::Tell(Line::Failed(why)))
    }

    fn cancelled(self, why: CancelReason) -> Self {
        self.to(Turn::Finished(Outcome::Cancelled { why }))
    }

    fn obsolete(self) -> Self {
        self.to(Turn::Finished(Outcome::Obsolete { why: ObsoleteReason::GenerationEnded }))
    }

    /// Counts one more unfinished attempt.
    fn strike(self, attempt: u32) -> Strike {
        let strikes = self.strikes.saturating_add(1);
        let step = Self { strikes, does_suspend: strikes >= MAX_STRIKES, ..self };
        if !step.does_suspend && attempt < MAX_TURN_ATTEMPTS {
            return Strike::Counted(step);
        }
        let told = if step.does_suspend { Line::Suspended } else { Line::GaveUp };
        Strike::GivenUp(step.to(Turn::Finished(Outcome::GaveUp)).with(TurnEffect::Tell(told)))
    }
}

/// What a strike leads to.
enum Strike {
    /// The turn may be started again.
    Counted(TurnStep),
    /// The turn was given up.
    GivenUp(TurnStep),
}

/// Where a turn stood before the attempt that is running.
fn before_start(attempt: u32, mark: Option<Mark>) -> Turn {
    match mark {
        None => Turn::Queued,
        Some(mark) => Turn::Interrupted { attempt: attempt.saturating_sub(1), mark },
    }
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
