//! What one round does, and its expected result. Both follow from the seed alone.

use crate::rng::Rng;

/// The kind of agent of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Driver {
    /// An agent that speaks ACP.
    Acp,
    /// A command per turn.
    Command,
    /// A command per turn, from the configuration.
    Configured,
}

impl Driver {
    const ALL: [Self; 3] = [Self::Acp, Self::Command, Self::Configured];

    /// Whether each turn is a process of its own, which outlives the gateway.
    pub(super) fn is_per_turn(self) -> bool {
        self != Self::Acp
    }
}

/// What the agent has to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The message of a user.
    Message,
    /// The end of a process.
    Notice,
}

/// The state of a turn while a process is held at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing is in the table.
    Unwritten,
    /// It is running in the table, and no agent has the prompt.
    Started,
    /// It is running, and an agent may have the prompt.
    MaybePrompted,
    /// It is running, and the agent has the prompt.
    Prompted,
    /// It is finished in the table.
    Finished,
    /// Another process is held, and the gateway may be at the step before or later.
    Unknown,
}

/// A place at which one of the programs is held.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) name: &'static str,
    kind: Kind,
    progress: Progress,
    /// Only an agent that speaks ACP comes here, or only a command per turn.
    only: Option<Only>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    Acp,
    /// Where an agent is started: in every turn of a command, and in the first of an agent that speaks ACP.
    AgentStart,
}

const fn point(kind: Kind, name: &'static str, progress: Progress) -> Point {
    Point { name, kind, progress, only: None }
}

const fn only(only: Only, kind: Kind, name: &'static str, progress: Progress) -> Point {
    Point { name, kind, progress, only: Some(only) }
}

/// Every step of "message, accepted, started, tool, reply, recorded, shown" and of "notice, lease, accepted, acknowledged, turn, reply" at which a program can be held.
const POINTS: &[Point] = {
    use Kind::{Message, Notice};
    use Progress::{Finished, MaybePrompted, Prompted, Started, Unknown, Unwritten};
    &[
        point(Message, "gateway.before_commit", Unwritten),
        point(Message, "gateway.message.accepted", Started),
        point(Message, "gateway.turn.started", Started),
        point(Message, "chat.accepted", Unknown),
        only(Only::AgentStart, Message, "run.before_commit", MaybePrompted),
        only(Only::AgentStart, Message, "run.after_commit", MaybePrompted),
        only(Only::AgentStart, Message, "run.before_answer", MaybePrompted),
        point(Message, "gateway.turn.prompted", MaybePrompted),
        point(Message, "agent.prompted", Prompted),
        point(Message, "agent.tool", Prompted),
        only(Only::Acp, Message, "gateway.turn.tool", Prompted),
        point(Message, "agent.replied", Prompted),
        only(Only::Acp, Message, "agent.ended", Unknown),
        point(Message, "gateway.turn.reply", Prompted),
        point(Message, "gateway.turn.recorded", Finished),
        point(Message, "gateway.turn.shown", Finished),
        point(Message, "chat.answered", Finished),
        point(Message, "chat.shown", Finished),
        point(Notice, "news.before_commit", Unwritten),
        point(Notice, "news.after_commit", Unknown),
        point(Notice, "notice.claimed", Unwritten),
        point(Notice, "notice.leased", Unwritten),
        point(Notice, "gateway.notice.leased", Unwritten),
        point(Notice, "gateway.before_commit", Unwritten),
        point(Notice, "gateway.notice.accepted", Started),
        point(Notice, "notice.before_settle", Unknown),
        point(Notice, "notice.settled", Unknown),
        point(Notice, "gateway.notice.acknowledged", Unknown),
        point(Notice, "gateway.turn.started", Started),
        point(Notice, "gateway.turn.prompted", MaybePrompted),
        point(Notice, "agent.prompted", Prompted),
        only(Only::Acp, Notice, "gateway.turn.tool", Prompted),
        point(Notice, "agent.replied", Prompted),
        point(Notice, "gateway.turn.reply", Prompted),
        point(Notice, "gateway.turn.recorded", Finished),
        point(Notice, "gateway.turn.shown", Finished),
    ]
};

/// The process that is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GatewayVictim {
    Gateway,
    Engine,
    /// The agent of the conversation.
    Agent,
    /// `outlast chat send`.
    Client,
    /// These four, at once.
    All,
    /// These, and all keepers and commands, as in a power failure.
    Everything,
}

impl GatewayVictim {
    const ALL: [Self; 6] = [Self::Gateway, Self::Engine, Self::Agent, Self::Client, Self::All, Self::Everything];

    pub(super) fn has_gateway(self) -> bool {
        matches!(self, Self::Gateway | Self::All | Self::Everything)
    }

    pub(super) fn has_engine(self) -> bool {
        matches!(self, Self::Engine | Self::All | Self::Everything)
    }

    pub(super) fn has_agent(self) -> bool {
        matches!(self, Self::Agent | Self::All | Self::Everything)
    }

    pub(super) fn has_client(self) -> bool {
        matches!(self, Self::Client | Self::All | Self::Everything)
    }
}

/// How often the same is killed in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ordeal {
    Once,
    /// The gateway, until the conversation is suspended.
    GatewayThrice,
    /// The agent, until the turn has failed.
    AgentTwice,
}

/// How a user resumes a turn that the breaker holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BreakerRelease {
    /// With `/resume`.
    Resume,
    /// With another message.
    Write,
}

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) round: u64,
    pub(super) driver: Driver,
    pub(super) point: &'static Point,
    pub(super) victim: GatewayVictim,
    pub(super) ordeal: Ordeal,
    /// Where the next gateway is killed as well, while it starts.
    pub(super) again: Option<&'static str>,
    /// Whether the conversation had a turn before, so that an agent that speaks ACP is there.
    pub(super) is_warm: bool,
    /// Whether another conversation has a turn that runs meanwhile, and who answers there.
    pub(super) bystander: Option<Driver>,
    /// Whether the process of a notice was started by the agent.
    pub(super) is_by_agent: bool,
    /// Whether a person writes in the conversation while its notice is on the way.
    pub(super) does_collide: bool,
    /// Whether the client waits for the reply.
    pub(super) does_wait: bool,
    /// Whether the client comes back only when the turn is finished.
    pub(super) is_client_late: bool,
    pub(super) release: BreakerRelease,
    /// How long a process is held before the kill.
    pub(super) pause_micros: u64,
}

impl Plan {
    /// Each combination of driver, point and victim comes once in as many rounds as there are; the seed says in which order, and what else happens.
    pub(super) fn draw(seed: u64, round: u64) -> Self {
        let mut rng = Rng::new(seed, round);
        let all = combinations();
        let (driver, point, victim) = all[shuffled(seed, round, all.len() as u64)];
        let ordeal = match rng.below(20) {
            0 => Ordeal::GatewayThrice,
            1 => Ordeal::AgentTwice,
            _ => Ordeal::Once,
        };
        let (point, victim) = match ordeal {
            Ordeal::Once => (point, victim),
            Ordeal::GatewayThrice => {
                let name = if driver.is_per_turn() { "gateway.turn.reply" } else { rng.pick(&["gateway.turn.tool", "gateway.turn.reply"]) };
                (named(Kind::Message, name), GatewayVictim::Gateway)
            }
            Ordeal::AgentTwice => (named(Kind::Message, "agent.prompted"), GatewayVictim::Agent),
        };
        let kind = point.kind;
        let is_start = point.only == Some(Only::AgentStart);
        let is_shown = matches!(point.name, "chat.answered" | "chat.shown");
        Self {
            round,
            driver,
            point,
            victim,
            ordeal,
            again: (victim.has_gateway() && ordeal == Ordeal::Once && rng.one_in(4))
                .then(|| *rng.pick(&["gateway.at_work", "gateway.before_marks"])),
            is_warm: kind == Kind::Notice || (rng.one_in(2) && !is_start),
            bystander: (rng.one_in(4) && !is_start && ordeal == Ordeal::Once).then(|| *rng.pick(&Driver::ALL)),
            is_by_agent: rng.one_in(3),
            does_collide: kind == Kind::Notice && (victim == GatewayVictim::Client || rng.one_in(4)),
            does_wait: is_shown || ordeal != Ordeal::Once || !rng.one_in(3),
            is_client_late: rng.one_in(2),
            release: *rng.pick(&[BreakerRelease::Resume, BreakerRelease::Write]),
            pause_micros: *rng.pick(&[0, 0, 1_000, 10_000, 60_000]),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.point.kind
    }

    /// How far the turn is when the kill comes.
    pub(super) fn progress(&self) -> Progress {
        match self.point.progress {
            // The agent is started first, and prompted when it is there.
            Progress::MaybePrompted if self.point.only == Some(Only::AgentStart) && !self.driver.is_per_turn() => Progress::Started,
            other => other,
        }
    }

    /// Whether the next gateway finds a running turn; `None` if the plan cannot predict it.
    pub(super) fn finds_interrupted(&self) -> Option<bool> {
        match self.progress() {
            _ if self.bystander.is_some() => Some(true),
            // The colliding message may be at any step.
            Progress::Unwritten | Progress::Finished if self.does_collide => None,
            Progress::Unwritten | Progress::Finished => Some(false),
            Progress::Started | Progress::MaybePrompted | Progress::Prompted => Some(true),
            Progress::Unknown => None,
        }
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { driver, point, victim, .. } = self;
        write!(f, "{:?} {driver:?}, {victim:?} killed at {}", point.kind, point.name)?;
        if self.ordeal != Ordeal::Once {
            write!(f, ", {:?}", self.ordeal)?;
        }
        if let Some(again) = self.again {
            write!(f, ", the next gateway at {again}")?;
        }
        for (is_so, what) in [
            (self.is_warm && point.kind == Kind::Message, "warm"),
            (self.bystander.is_some(), "bystander"),
            (self.is_by_agent && point.kind == Kind::Notice, "by agent"),
            (self.does_collide, "collides"),
            (!self.does_wait && point.kind == Kind::Message, "no wait"),
            (self.is_client_late, "late"),
        ] {
            if is_so {
                write!(f, ", {what}")?;
            }
        }
        Ok(())
    }
}

/// All combinations.
fn combinations() -> Vec<(Driver, &'static Point, GatewayVictim)> {
    let mut all = Vec::new();
    for driver in Driver::ALL {
        for point in POINTS.iter().filter(|point| point.only != Some(Only::Acp) || driver == Driver::Acp) {
            all.extend(GatewayVictim::ALL.map(|victim| (driver, point, victim)));
        }
    }
    all
}

/// The place of a round in an order that the seed gives. Every number below `count` comes once in `count` rounds.
fn shuffled(seed: u64, round: u64, count: u64) -> usize {
    let mut order: Vec<u64> = (0..count).collect();
    let mut rng = Rng::new(seed, u64::MAX - round / count);
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    order[(round % count) as usize] as usize
}

fn named(kind: Kind, name: &str) -> &'static Point {
    let found = POINTS.iter().find(|point| point.kind == kind && point.name == name);
    found.unwrap_or_else(|| unreachable!("there is a point {name}"))
}

/// The facts at the moment of the kill.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    /// The kill happened.
    pub(super) is_killed: bool,
    /// An agent of the conversation was there, and was killed.
    pub(super) is_agent_killed: bool,
    /// It had written its prompt down.
    pub(super) has_prompt: bool,
    /// It had begun to end the turn.
    pub(super) is_ending: bool,
}

/// A possible result of a turn: its attempts, the reason of the last interruption, and its outcome.
pub(super) type Came = (u32, Option<&'static str>, &'static str);

pub(super) const ONCE: Came = (1, None, "completed");
pub(super) const AFTER_CRASH: Came = (2, Some("restart_interrupted"), "completed");
const AFTER_AGENT: Came = (2, Some("agent_ended"), "completed");
/// An agent that ends before it is ready counts as one that cannot be started.
const CANNOT_START: Came = (1, None, "failed");

/// The expected result of a turn in a round with one kill.
pub(super) fn expected(plan: &Plan, seen: Seen) -> Vec<Came> {
    if !seen.is_killed {
        return vec![ONCE];
    }
    match plan.progress() {
        _ if plan.victim.has_gateway() => expected_after_crash(plan, seen),
        Progress::Finished => vec![ONCE],
        _ if !seen.is_agent_killed => vec![ONCE],
        _ if seen.has_prompt && !seen.is_ending => vec![AFTER_AGENT],
        // It may be noticed to be dead before or after it is given the prompt, or has answered.
        _ if plan.is_warm || plan.driver.is_per_turn() || seen.has_prompt => vec![ONCE, AFTER_AGENT],
        _ => vec![ONCE, AFTER_AGENT, CANNOT_START],
    }
}

/// The same, if the gateway is among those that are killed.
fn expected_after_crash(plan: &Plan, seen: Seen) -> Vec<Came> {
    let progress = plan.progress();
    match (progress, plan.driver.is_per_turn()) {
        (Progress::Unwritten | Progress::Finished, _) => return vec![ONCE],
        (Progress::Started, _) => return vec![AFTER_CRASH],
        (Progress::Unknown, false) => return vec![ONCE, AFTER_CRASH],
        (Progress::MaybePrompted | Progress::Prompted, false) => return vec![AFTER_CRASH],
        (Progress::MaybePrompted | Progress::Prompted | Progress::Unknown, true) => {}
    }
    // A command that outlives the gateway is followed by the next one, unless its end was not seen by a keeper.
    match (plan.victim, seen.has_prompt, seen.is_ending) {
        // A keeper that was being forked may be the last to die, and see the command die before it.
        (GatewayVictim::Everything, true, false) => vec![AFTER_CRASH, AFTER_AGENT],
        (GatewayVictim::Everything, ..) => vec![ONCE, AFTER_CRASH, AFTER_AGENT],
        (_, true, false) if seen.is_agent_killed => vec![AFTER_AGENT],
        (_, true, _) if !seen.is_agent_killed => vec![ONCE],
        (_, true, _) => vec![ONCE, AFTER_AGENT],
        (_, false, _) => vec![ONCE, AFTER_CRASH, AFTER_AGENT],
    }
}
