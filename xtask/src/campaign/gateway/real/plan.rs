//! What one round does. It follows from the seed alone.

use super::model::Moment;
use crate::rng::Rng;

/// What is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TurnWay {
    Message,
    Notice,
}

/// When the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// The gateway is held at this point.
    Held(&'static str),
    /// The model is held.
    Thinking(Moment),
}

impl When {
    pub(super) fn words(self) -> String {
        match self {
            Self::Held(point) => format!("at {point}"),
            Self::Thinking(Moment::Asked) => "while the model thinks about the words".into(),
            Self::Thinking(Moment::Told) => "while the model thinks about what its tool said".into(),
        }
    }
}

/// Every step of the way of a message and of a notice.
const STEPS: [(TurnWay, When); 20] = {
    use TurnWay::{Message, Notice};
    use When::{Held, Thinking};
    [
        (Message, Held("gateway.before_commit")),
        (Message, Held("gateway.message.accepted")),
        (Message, Held("gateway.turn.started")),
        (Message, Held("gateway.turn.prompted")),
        (Message, Thinking(Moment::Asked)),
        (Message, Held("gateway.turn.tool")),
        (Message, Thinking(Moment::Told)),
        (Message, Held("gateway.turn.reply")),
        (Message, Held("gateway.turn.recorded")),
        (Message, Held("gateway.turn.shown")),
        (Notice, Held("gateway.notice.leased")),
        (Notice, Held("gateway.before_commit")),
        (Notice, Held("gateway.notice.accepted")),
        (Notice, Held("gateway.notice.acknowledged")),
        (Notice, Held("gateway.turn.started")),
        (Notice, Held("gateway.turn.prompted")),
        (Notice, Thinking(Moment::Asked)),
        (Notice, Held("gateway.turn.reply")),
        (Notice, Held("gateway.turn.recorded")),
        (Notice, Held("gateway.turn.shown")),
    ]
};

/// The process that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RealVictim {
    Gateway,
    Engine,
    /// The program of the agent.
    Agent,
    /// The program of the agent, and everything that it started.
    AgentTree,
    /// `outlast chat`.
    Client,
    /// Gateway, engine, the agent with its tree and the client, at once.
    All,
    /// These, and all keepers and commands, as in a power failure.
    Everything,
}

impl RealVictim {
    const ALL: [Self; 7] = [Self::Gateway, Self::Engine, Self::Agent, Self::Client, Self::All, Self::AgentTree, Self::Everything];

    pub(super) fn has_gateway(self) -> bool {
        matches!(self, Self::Gateway | Self::All | Self::Everything)
    }

    pub(super) fn has_engine(self) -> bool {
        matches!(self, Self::Engine | Self::All | Self::Everything)
    }

    pub(super) fn has_agent(self) -> bool {
        matches!(self, Self::Agent | Self::AgentTree | Self::All | Self::Everything)
    }

    pub(super) fn has_agent_or_gateway(self) -> bool {
        self.has_agent() || self.has_gateway()
    }

    pub(super) fn has_client(self) -> bool {
        matches!(self, Self::Client | Self::All | Self::Everything)
    }
}

#[derive(Debug)]
pub(super) struct RealPlan {
    pub(super) way: TurnWay,
    pub(super) when: When,
    pub(super) victim: RealVictim,
}

impl RealPlan {
    /// Each step comes once in as many rounds as there are, with another victim each time; the seed says in which order.
    pub(super) fn draw(seed: u64, round: u64) -> Self {
        let (count, victims) = (STEPS.len() as u64, RealVictim::ALL.len() as u64);
        let mut order: Vec<usize> = (0..STEPS.len()).collect();
        let mut rng = Rng::new(seed, 0);
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let (way, when) = STEPS[order[(round % count) as usize]];
        // The number of steps is no multiple of the number of victims.
        let victim = RealVictim::ALL[((round + seed) % victims) as usize];
        Self { way, when, victim }
    }
}

impl std::fmt::Display for RealPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { way, when, victim } = self;
        write!(f, "{way:?}, {victim:?} killed {}", when.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_victim_comes_to_every_step() {
        let rounds = (STEPS.len() * RealVictim::ALL.len()) as u64;
        let all: std::collections::BTreeSet<String> = (0..rounds).map(|round| RealPlan::draw(1, round).to_string()).collect();
        assert_eq!(all.len() as u64, rounds);
    }
}
