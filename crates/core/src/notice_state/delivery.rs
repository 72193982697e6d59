//! The delivery of one notice to one sink.

use super::{Moment, Uptime};
use crate::Time;

/// A delivery of one notice to one sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Whether it is due, with the sink, or over.
    pub state: DeliveryState,
    /// How often it was tried, including a try under way.
    pub tries: u32,
    /// The sink may have delivered it before.
    pub maybe_told: bool,
    /// When it was tried first.
    pub first_try: Option<Time>,
    /// Why the last try failed; empty if none did.
    pub last_error: String,
    /// Held back for a client that waits: if the client is answered, the sink does not deliver it.
    pub quiet: bool,
}

/// Whether a delivery is due, with the sink, or over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryState {
    /// The sink may take it from this time on.
    Due {
        /// When the sink may take it first.
        at: Uptime,
    },
    /// The sink has it.
    Leased {
        /// The token of the lease.
        token: String,
        /// When the lease ends.
        until: Uptime,
    },
    /// It was delivered.
    Delivered,
    /// It was given up: a dead letter.
    Dead {
        /// When it was given up.
        at: Time,
    },
}

/// What may happen to a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryEvent<'a> {
    /// A client that waited was answered.
    Answered,
    /// No client was answered.
    NotAnswered,
    /// The sink asks for deliveries.
    Take {
        /// The token of the new lease.
        token: &'a str,
        /// When the new lease ends.
        until: Uptime,
    },
    /// The sink reports its try.
    Report {
        /// The token of the lease.
        token: &'a str,
        /// How it went.
        outcome: DeliveryOutcome<'a>,
    },
    /// Its notice cannot be read.
    Unreadable {
        /// The error of reading it.
        reason: &'a str,
    },
    /// A user has dead letters tried again.
    Revive,
    /// Its notice was replayed. Only for sinks that wake agents.
    Replay,
    /// Its notice is settled. Only for sinks that wake agents.
    NoticeSettled,
    /// A new engine has started.
    EngineStarted {
        /// The machine was started again, too.
        rebooted: bool,
    },
}

/// How a try went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome<'a> {
    /// It was delivered.
    Delivered,
    /// It failed, and is tried again at this time.
    Retry {
        /// When it is due again.
        at: Uptime,
        /// What went wrong.
        error: &'a str,
    },
    /// It was not tried, and is due again at this time. It does not count as a try.
    NotTried {
        /// When it is due.
        at: Uptime,
    },
    /// It is given up.
    Dead {
        /// What went wrong.
        error: &'a str,
    },
}

/// What an event does to a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryStep {
    /// It stays as it is.
    Same,
    /// It has this new state.
    Next(Delivery),
    /// It is removed.
    Removed,
    /// Nothing: it is no longer leased under the token of the event.
    Lost,
}

impl Delivery {
    /// A delivery that is being written. `held_until`: it is held back until then for a client that waits.
    pub fn new(maybe_told: bool, held_until: Option<Uptime>) -> Self {
        Self {
            state: DeliveryState::Due { at: held_until.unwrap_or(0) },
            tries: 0,
            maybe_told,
            first_try: None,
            last_error: String::new(),
            quiet: held_until.is_some(),
        }
    }

    fn at(&self, state: DeliveryState) -> Self {
        Self { state, ..self.clone() }
    }

    /// Due at once, as if it had never been tried. The sink may have delivered it.
    fn again() -> Self {
        Self::new(true, None)
    }

    fn reported(&self, outcome: DeliveryOutcome<'_>, now: Moment) -> Self {
        let over = |state, error: &str| Self { last_error: error.to_owned(), quiet: false, ..self.at(state) };
        match outcome {
            DeliveryOutcome::Delivered => over(DeliveryState::Delivered, ""),
            DeliveryOutcome::Retry { at, error } => over(DeliveryState::Due { at }, error),
            DeliveryOutcome::NotTried { at } => Self { tries: self.tries.saturating_sub(1), ..self.at(DeliveryState::Due { at }) },
            DeliveryOutcome::Dead { error } => over(DeliveryState::Dead { at: now.utc }, error),
        }
    }
}

/// What an event does to a delivery.
pub fn deliver(delivery: &Delivery, event: DeliveryEvent<'_>, now: Moment) -> DeliveryStep {
    use DeliveryState::{Dead, Delivered, Due, Leased};
    let is_held_back = delivery.quiet && delivery.tries == 0;
    match (&delivery.state, event) {
        (Due { .. }, DeliveryEvent::Answered) if is_held_back => DeliveryStep::Removed,
        (Due { .. }, DeliveryEvent::NotAnswered) if is_held_back => {
            DeliveryStep::Next(Delivery { quiet: false, ..delivery.at(Due { at: 0 }) })
        }
        (_, DeliveryEvent::Answered | DeliveryEvent::NotAnswered) => DeliveryStep::Same,
        (Due { at: from } | Leased { until: from, .. }, DeliveryEvent::Take { token, until }) if *from <= now.up => {
            // The sink had it before, and did not report.
            let is_overdue = matches!(delivery.state, Leased { .. });
            DeliveryStep::Next(Delivery {
                tries: delivery.tries.saturating_add(1),
                maybe_told: delivery.maybe_told || is_overdue,
                first_try: delivery.first_try.or(Some(now.utc)),
                ..delivery.at(Leased { token: token.to_owned(), until })
            })
        }
        (_, DeliveryEvent::Take { .. }) => DeliveryStep::Same,
        (Leased { token: has, .. }, DeliveryEvent::Report { token, outcome }) if has == token => {
            DeliveryStep::Next(delivery.reported(outcome, now))
        }
        (_, DeliveryEvent::Report { .. }) => DeliveryStep::Lost,
        (Due { .. } | Leased { .. }, DeliveryEvent::Unreadable { reason }) => {
            DeliveryStep::Next(delivery.reported(DeliveryOutcome::Dead { error: reason }, now))
        }
        (Delivered | Dead { .. }, DeliveryEvent::Unreadable { .. }) => DeliveryStep::Same,
        (Dead { .. }, DeliveryEvent::Revive) | (Delivered, DeliveryEvent::Replay) => DeliveryStep::Next(Delivery::again()),
        (_, DeliveryEvent::Revive | DeliveryEvent::Replay) => DeliveryStep::Same,
        (Due { .. }, DeliveryEvent::NoticeSettled) => DeliveryStep::Removed,
        // The sink reports what it was lent.
        (Leased { .. } | Delivered | Dead { .. }, DeliveryEvent::NoticeSettled) => DeliveryStep::Same,
        (Leased { .. }, DeliveryEvent::EngineStarted { .. }) => {
            DeliveryStep::Next(Delivery { maybe_told: true, ..delivery.at(Due { at: 0 }) })
        }
        (Due { .. }, DeliveryEvent::EngineStarted { rebooted: true }) => DeliveryStep::Next(delivery.at(Due { at: 0 })),
        (Due { .. } | Delivered | Dead { .. }, DeliveryEvent::EngineStarted { .. }) => DeliveryStep::Same,
    }
}
