//! What an event makes of one turn, and when a turn is given up.

use outlast_core::Time;

use super::text::Line;
use super::turn::{CancelReason, DrainKind, FailureReason, InterruptReason, Mark, ObsoleteReason, Outcome, Turn, TurnKind};

/// A conversation is suspended after this many unfinished attempts in a row. A person can tell two unlucky restarts from a loop; more would
/// only repeat the damage.
pub const MAX_STRIKES: u32 = 3;

/// A turn is given up after this many attempts of its own. Strikes alone do not bound it, because other turns may succeed between its attempts.
pub const MAX_TURN_ATTEMPTS: u32 = 3;

/// An agent that dies with the prompt is tried again up to this attempt. The second death says that the prompt kills it.
pub const LAST_ATTEMPT_RETRIED_AFTER_AGENT_DEATH: u32 = 1;

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
        /// The attempt that was completed.
        attempt: u32,
    },
    /// The agent failed in this attempt.
    Failed {
        /// The attempt that failed.
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
        /// The attempt to cancel.
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
