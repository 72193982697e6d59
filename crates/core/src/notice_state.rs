//! The life of a notice after it is written, and of each delivery of it to a sink, as two pure functions: [`transition`] and [`deliver`].
//!
//! Leases end by the uptime of the machine, which no user can set. Times that are stored or shown are UTC.

mod delivery;

pub use delivery::{Delivery, DeliveryEvent, DeliveryOutcome, DeliveryState, DeliveryStep, deliver};

use crate::Time;
use serde::{Deserialize, Serialize};

/// Microseconds since the machine was started.
pub type Uptime = i64;
/// How long something takes, in microseconds.
pub type Micros = i64;

/// A moment by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// For times that are stored and shown.
    pub utc: Time,
    /// For leases.
    pub up: Uptime,
}

/// How long an answer may take to reach its socket.
pub const ANSWER_TIMEOUT: Micros = 60_000_000;
/// How long a notice is reserved for a client that waits.
pub const RESERVATION_TIMEOUT: Micros = 60_000_000;
/// How long a notice is reserved for a client that announced a wait, or that has to come back to the next engine.
pub const ANNOUNCED_WAIT_TIMEOUT: Micros = 2_000_000;

/// A notice without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackedNotice {
    /// Which client or sink has it, or how it was settled.
    pub state: NoticeState,
    /// How often it was handed out.
    pub given: u32,
    /// Its owner may have been told. The next taker gets it marked as a repeat.
    pub maybe_told: bool,
    /// A poll in its own session showed the end.
    pub observed: bool,
    /// The process was run again. The notice is superseded for this reason, unless the taker that has it delivers it.
    pub superseded_reason: Option<String>,
    /// When it was written, or replayed.
    pub open_since: Time,
}

/// Which client or sink has a notice, or how it was settled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeState {
    /// Any taker may claim it.
    Pending,
    /// Reserved for a client that waits or announced a wait. No client was given it.
    Reserved {
        /// When other takers may claim it.
        until: Uptime,
    },
    /// The engine is sending an answer that contains it.
    Answering {
        /// When the answer counts as lost.
        until: Uptime,
    },
    /// One taker, or one sink that wakes an agent, has it. A lease that has run out stays in the row until the next claim: the notice is
    /// free ([`TrackedNotice::is_free`]), and its taker may still settle it.
    Leased {
        /// Which of the two.
        holder: LeaseHolder,
        /// The lease token.
        token: String,
        /// When the lease ends.
        until: Uptime,
    },
    /// It is over. Only a replay of a delivered notice opens it again.
    Settled {
        /// The kind of its end.
        how: Settlement,
        /// Why, for users.
        reason: String,
        /// When it was settled.
        at: Time,
    },
}

/// Who holds a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseHolder {
    /// A client. It may outlive the engine.
    Taker,
    /// A sink. It ends with the engine.
    Sink,
}

/// How a notice was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// It was delivered to its owner.
    Delivered,
    /// Its owner has seen what it says.
    Consumed,
    /// The process was run again.
    Superseded,
    /// It will not be delivered.
    Dropped,
}

/// What a notice is about, and what is known about that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeSubject {
    /// The end of a process.
    End {
        /// The owner has seen the end.
        seen: bool,
    },
    /// Lines of the output of a process.
    Output {
        /// The owner has seen the end of the process.
        end_seen: bool,
    },
    /// Anything else.
    Other,
}

/// The generation that a notice is for, compared with the newest generation of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeGeneration<'a> {
    /// Any generation, or the newest.
    Current,
    /// An earlier one.
    Ended {
        /// Its name.
        name: &'a str,
    },
    /// One that has not begun.
    Future,
}

/// The kind of client that takes notices. A request names it on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TakerKind {
    /// An agent at a terminal, between two turns of a person. The person knows an observed end already, so it is not delivered.
    Terminal,
    #[default]
    /// An agent behind a gateway, whose turns start by themselves. An observed end is delivered; lines of output after a delivered end are not.
    Gateway,
}

/// For whom a notice is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenFor {
    /// For the first taker that claims it.
    AnyTaker,
    /// For a client that waits or announced a wait.
    Waiter {
        /// Until when it is reserved.
        until: Uptime,
    },
    /// For a client that waits and is answered next. The answer begins with the write.
    Answer,
}

/// What may happen to a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeEvent<'a> {
    /// A client waits for it, or announced a wait.
    Reserve {
        /// Until when at most.
        until: Uptime,
    },
    /// The engine is about to send an answer that contains it.
    AnswerBegins,
    /// The answer was not sent.
    AnswerFailed,
    /// The last client that waited has left without an answer.
    WaitersLeft {
        /// The answer was prepared when the notice was written, and no client was sent it.
        is_prepared: bool,
    },
    /// The owner has seen the end that it tells.
    EndSeen {
        /// By which verb.
        by: &'a str,
    },
    /// A client that waited was answered with what it says. For notices that are about no end.
    Answered,
    /// A poll showed the end.
    Observed,
    /// The process was run again.
    RunAgain {
        /// The id of the new process.
        by: &'a str,
    },
    /// A taker asks for notices, or a sink is about to deliver it.
    Claim {
        /// By which rules.
        taker: TakerKind,
        /// Who will hold the lease.
        holder: LeaseHolder,
        /// The token of the new lease.
        token: &'a str,
        /// When the new lease ends.
        until: Uptime,
        /// The generation that the notice is for.
        generation: NoticeGeneration<'a>,
    },
    /// A taker, or a user, reports what became of it.
    Settle {
        /// The token of the lease, if the caller kept it.
        token: Option<&'a str>,
        /// What became of it.
        verdict: Verdict<'a>,
    },
    /// The relay that forwards the answer with it disconnected before it confirmed the answer. The taker may have told the owner. If any
    /// other taker disconnects, its lease runs out.
    TakerGone {
        /// The token of its lease.
        token: &'a str,
    },
    /// The taker disconnected, or cancelled its request, before its claim returned. After that its lease counts.
    ClaimCancelled {
        /// The token of its lease.
        token: &'a str,
    },
    /// A sink that wakes agents reports its call.
    SinkReport {
        /// The token of its delivery.
        token: &'a str,
        /// How the call went.
        call: SinkCall,
    },
    /// A user has it told again.
    Replay,
    /// No taker claimed it for a long time.
    Expire {
        /// Only a notice open since before this expires.
        before: Time,
        /// Why, for users.
        reason: &'a str,
    },
    /// Its session has too many notices.
    Drop {
        /// Why, for users.
        reason: &'a str,
    },
    /// A new engine has started.
    EngineStarted {
        /// The machine was started again, too.
        rebooted: bool,
    },
}

/// What a taker reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It was delivered to the owner.
    Delivered,
    /// The owner was not told.
    Released,
    /// It will not be delivered, for this reason.
    Dropped(&'a str),
}

/// How the call of a sink went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkCall {
    /// The agent has it.
    Told,
    /// It failed, but the agent may have received it.
    Failed,
    /// It was not made.
    NotTried,
}

/// What the engine does in the transaction that stores the new state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoticeEffect {
    /// Record that the owner has seen the end of the process, by this verb.
    MarkEndSeen(String),
    /// Remove that record.
    ForgetEndSeen,
    /// Remove deliveries that were held back for the answer: it was sent.
    CancelQuietDeliveries,
    /// Make them due: the answer was not sent.
    FreeQuietDeliveries,
}

/// What the caller of an event is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeReply {
    /// The event changed nothing that the caller needs to know.
    None,
    /// The caller has the notice.
    Given,
    /// Another client or sink has it.
    Busy,
    /// It is not for this kind of taker, or not yet.
    Skipped,
    /// The event settled or released it.
    Done,
    /// It was settled or released before.
    Already,
    /// The lease is over, and another client or sink has it now. Or there was no such lease.
    Lost,
}

/// What an event does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeStep {
    /// The new state, if anything is to be stored.
    pub next: Option<TrackedNotice>,
    /// What else to do in the same transaction.
    pub effects: Vec<NoticeEffect>,
    /// What the caller is answered.
    pub reply: NoticeReply,
}

impl TrackedNotice {
    /// A notice that is being written.
    pub fn new(subject: NoticeSubject, maybe_told: bool, written_for: WrittenFor, now: Moment) -> Self {
        let (state, given) = match (subject, written_for) {
            (NoticeSubject::End { seen: true }, _) => {
                let reason = "its end was seen before it was told".into();
                (NoticeState::Settled { how: Settlement::Consumed, reason, at: now.utc }, 0)
            }
            (_, WrittenFor::AnyTaker) => (NoticeState::Pending, 0),
            (_, WrittenFor::Waiter { until }) => (NoticeState::Reserved { until }, 0),
            (_, WrittenFor::Answer) => (NoticeState::Answering { until: now.up + ANSWER_TIMEOUT }, 1),
        };
        Self { state, given, maybe_told, observed: false, superseded_reason: None, open_since: now.utc }
    }

    /// Whether it is open and has no holder, or one whose time has run out. No event ends that time: the state stays until the next claim.
    pub fn is_free(&self, up: Uptime) -> bool {
        match &self.state {
            NoticeState::Pending => true,
            NoticeState::Reserved { until } | NoticeState::Answering { until } | NoticeState::Leased { until, .. } => *until <= up,
            NoticeState::Settled { .. } => false,
        }
    }

    /// Whether it is settled.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, NoticeState::Settled { .. })
    }

    /// Whether its holder may have told its owner.
    fn was_handed_out(&self) -> bool {
        match &self.state {
            NoticeState::Answering { .. } | NoticeState::Leased { .. } => true,
            NoticeState::Pending | NoticeState::Reserved { .. } | NoticeState::Settled { .. } => false,
        }
    }

    /// Whether no taker was ever given it, so that no token of it exists. A notice that may have been told can have been given before its
    /// index was lost.
    fn was_never_given(&self) -> bool {
        self.given == 0 && !self.maybe_told
    }

    fn is_leased_as(&self, with: &str) -> bool {
        matches!(&self.state, NoticeState::Leased { token, .. } if token == with)
    }

    fn at(&self, state: NoticeState) -> Self {
        Self { state, ..self.clone() }
    }

    fn settled(&self, how: Settlement, reason: impl Into<String>, now: Moment) -> Self {
        self.at(NoticeState::Settled { how, reason: reason.into(), at: now.utc })
    }
}

fn same(reply: NoticeReply) -> NoticeStep {
    NoticeStep { next: None, effects: Vec::new(), reply }
}

fn to(next: TrackedNotice) -> NoticeStep {
    NoticeStep { next: Some(next), effects: Vec::new(), reply: NoticeReply::None }
}

fn done(next: TrackedNotice) -> NoticeStep {
    NoticeStep { next: Some(next), effects: Vec::new(), reply: NoticeReply::Done }
}

/// What an event does to a notice.
pub fn transition(notice: &TrackedNotice, event: NoticeEvent<'_>, subject: NoticeSubject, now: Moment) -> NoticeStep {
    use NoticeState::{Answering, Leased, Pending, Reserved, Settled};
    let is_free = notice.is_free(now.up);
    match event {
        NoticeEvent::Reserve { until } => match notice.state {
            Pending if notice.given == 0 => to(notice.at(Reserved { until })),
            Pending | Reserved { .. } | Answering { .. } | Leased { .. } | Settled { .. } => same(NoticeReply::None),
        },
        NoticeEvent::AnswerBegins => match notice.state {
            Settled { .. } => same(NoticeReply::None),
            // The taker keeps it, but its owner learns of it by the answer.
            Leased { .. } if !is_free => to(TrackedNotice { maybe_told: true, ..notice.clone() }),
            Pending | Reserved { .. } | Answering { .. } | Leased { .. } => {
                let maybe_told = notice.maybe_told || notice.was_handed_out();
                let state = Answering { until: now.up + ANSWER_TIMEOUT };
                to(TrackedNotice { given: notice.given.saturating_add(1), maybe_told, ..notice.at(state) })
            }
        },
        NoticeEvent::AnswerFailed => {
            let next = match notice.state {
                // Another client that waits may be reading the same answer.
                Answering { .. } => Some(TrackedNotice { maybe_told: true, ..notice.at(Pending) }),
                // Another client may wait for a reserved notice.
                Pending | Reserved { .. } | Leased { .. } | Settled { .. } => None,
            };
            NoticeStep { next, effects: vec![NoticeEffect::FreeQuietDeliveries], reply: NoticeReply::None }
        }
        NoticeEvent::WaitersLeft { is_prepared } => {
            let freed = |next| NoticeStep { effects: vec![NoticeEffect::FreeQuietDeliveries], ..done(next) };
            match notice.state {
                Reserved { .. } if !is_prepared => freed(notice.at(Pending)),
                // No client was sent the prepared answer, and no other answer has begun.
                Answering { .. } if is_prepared && notice.given == 1 => freed(TrackedNotice { given: 0, ..notice.at(Pending) }),
                Pending | Reserved { .. } | Answering { .. } | Leased { .. } | Settled { .. } => same(NoticeReply::None),
            }
        }
        NoticeEvent::EndSeen { by } => {
            let next = match notice.state {
                // The taker that has it reports what became of it.
                Leased { .. } if !is_free => None,
                Settled { .. } => None,
                Pending | Reserved { .. } | Answering { .. } | Leased { .. } => {
                    Some(notice.settled(Settlement::Consumed, format!("its end was seen by {by}"), now))
                }
            };
            let effects = vec![NoticeEffect::MarkEndSeen(by.to_owned()), NoticeEffect::CancelQuietDeliveries];
            NoticeStep { next, effects, reply: NoticeReply::None }
        }
        NoticeEvent::Answered => match notice.state {
            // The taker that has it reports what became of it.
            Leased { .. } if !is_free => same(NoticeReply::None),
            Settled { .. } => same(NoticeReply::None),
            // Pending: the answer to another client failed, and made it free.
            Pending | Reserved { .. } | Answering { .. } | Leased { .. } => {
                to(notice.settled(Settlement::Consumed, "a client that waited was answered", now))
            }
        },
        NoticeEvent::Observed => match notice.state {
            Pending | Reserved { .. } | Answering { .. } | Leased { .. } => to(TrackedNotice { observed: true, ..notice.clone() }),
            Settled { .. } => same(NoticeReply::None),
        },
        NoticeEvent::RunAgain { by } => {
            let reason = format!("run again as {by}");
            match notice.state {
                Settled { .. } => same(NoticeReply::None),
                Pending | Reserved { .. } | Answering { .. } | Leased { .. } if is_free => {
                    to(notice.settled(Settlement::Superseded, reason, now))
                }
                Pending | Reserved { .. } | Answering { .. } | Leased { .. } => {
                    to(TrackedNotice { superseded_reason: Some(reason), ..notice.clone() })
                }
            }
        }
        NoticeEvent::Claim { taker, holder, token, until, generation } => match notice.state {
            Settled { .. } => same(NoticeReply::Already),
            // A sink repeats its claim: the first answer may not have arrived. Each claim of a taker has a token of its own.
            Leased { .. } if !is_free && notice.is_leased_as(token) => same(NoticeReply::Given),
            Pending | Reserved { .. } | Answering { .. } | Leased { .. } if !is_free => same(NoticeReply::Busy),
            Pending | Reserved { .. } | Answering { .. } | Leased { .. } => match refusal(notice, taker, subject, generation) {
                Some(Refused::Skip) => same(NoticeReply::Skipped),
                Some(Refused::Settle(how, reason)) => done(notice.settled(how, reason, now)),
                None => {
                    let maybe_told = notice.maybe_told || notice.was_handed_out();
                    let state = Leased { holder, token: token.to_owned(), until };
                    let next = TrackedNotice { given: notice.given.saturating_add(1), maybe_told, ..notice.at(state) };
                    NoticeStep { reply: NoticeReply::Given, ..to(next) }
                }
            },
        },
        NoticeEvent::Settle { token, verdict } => match &notice.state {
            Settled { .. } => same(NoticeReply::Already),
            Pending if token.is_some() && notice.was_never_given() => same(NoticeReply::Lost),
            Pending if verdict == Verdict::Released => same(NoticeReply::Already),
            Leased { token: has, .. } if token.is_some_and(|token| token != has) => same(NoticeReply::Lost),
            // No client has the token of an answer.
            Reserved { .. } | Answering { .. } if token.is_some() => same(NoticeReply::Lost),
            Pending | Reserved { .. } | Answering { .. } | Leased { .. } => settle(notice, token.is_some(), verdict, subject, now),
        },
        NoticeEvent::TakerGone { token } if notice.is_leased_as(token) => settle(notice, false, Verdict::Released, subject, now),
        NoticeEvent::ClaimCancelled { token } if notice.is_leased_as(token) => settle(notice, true, Verdict::Released, subject, now),
        NoticeEvent::TakerGone { .. } | NoticeEvent::ClaimCancelled { .. } => same(NoticeReply::None),
        NoticeEvent::SinkReport { token, call } => match (&notice.state, call) {
            (Leased { .. }, SinkCall::Told) if notice.is_leased_as(token) => settle(notice, false, Verdict::Delivered, subject, now),
            (Leased { .. }, SinkCall::Failed) if notice.is_leased_as(token) => settle(notice, false, Verdict::Released, subject, now),
            (Leased { .. }, SinkCall::NotTried) if notice.is_leased_as(token) => settle(notice, true, Verdict::Released, subject, now),
            // Released meanwhile, but the agent has it.
            (Pending, SinkCall::Told) => settle(notice, false, Verdict::Delivered, subject, now),
            // Settled, free, or with another holder: nothing to do.
            (Pending | Reserved { .. } | Answering { .. } | Leased { .. } | Settled { .. }, _) => same(NoticeReply::None),
        },
        NoticeEvent::Replay => match notice.state {
            Settled { how: Settlement::Delivered, .. } => {
                let next =
                    TrackedNotice { maybe_told: true, observed: false, superseded_reason: None, open_since: now.utc, ..notice.at(Pending) };
                let forget = matches!(subject, NoticeSubject::End { .. }).then_some(NoticeEffect::ForgetEndSeen);
                NoticeStep { effects: forget.into_iter().collect(), ..done(next) }
            }
            Pending | Reserved { .. } | Answering { .. } | Leased { .. } | Settled { .. } => same(NoticeReply::None),
        },
        NoticeEvent::Expire { before, reason } if is_free && notice.open_since < before => {
            done(notice.settled(Settlement::Dropped, reason, now))
        }
        NoticeEvent::Drop { reason } if is_free => done(notice.settled(Settlement::Dropped, reason, now)),
        NoticeEvent::Expire { .. } | NoticeEvent::Drop { .. } => same(NoticeReply::None),
        NoticeEvent::EngineStarted { rebooted } => match &notice.state {
            // The engine that died was sending it, itself or by a sink.
            Answering { .. } | Leased { holder: LeaseHolder::Sink, .. } => to(TrackedNotice { maybe_told: true, ..notice.at(Pending) }),
            // The client that waits has a moment to come back.
            Reserved { until } => {
                to(notice.at(Reserved { until: if rebooted { 0 } else { (*until).min(now.up + ANNOUNCED_WAIT_TIMEOUT) } }))
            }
            Leased { holder, token, .. } if rebooted => to(notice.at(Leased { holder: *holder, token: token.clone(), until: 0 })),
            Pending | Leased { .. } | Settled { .. } => same(NoticeReply::None),
        },
    }
}

/// Why a taker does not get a notice that is free.
enum Refused {
    /// It stays for other takers, or for a later claim of this one.
    Skip,
    /// It is settled like this, for every taker.
    Settle(Settlement, String),
}

/// Whether a taker does not get a notice that is free, and why.
fn refusal(notice: &TrackedNotice, taker: TakerKind, subject: NoticeSubject, generation: NoticeGeneration<'_>) -> Option<Refused> {
    match (generation, subject, &notice.superseded_reason) {
        (NoticeGeneration::Future, ..) => Some(Refused::Skip),
        (NoticeGeneration::Ended { name }, ..) => {
            Some(Refused::Settle(Settlement::Dropped, format!("generation {name} of the conversation has ended")))
        }
        (_, NoticeSubject::End { seen: true }, _) => {
            Some(Refused::Settle(Settlement::Consumed, "its end was seen before it was told".into()))
        }
        (_, _, Some(reason)) => Some(Refused::Settle(Settlement::Superseded, reason.clone())),
        (_, NoticeSubject::End { .. }, None) if taker == TakerKind::Terminal && notice.observed => Some(Refused::Skip),
        (_, NoticeSubject::Output { end_seen: true }, None) if taker == TakerKind::Gateway => {
            Some(Refused::Settle(Settlement::Dropped, "the end of the process was told already".into()))
        }
        (_, NoticeSubject::End { .. } | NoticeSubject::Output { .. } | NoticeSubject::Other, None) => None,
    }
}

/// Settles or releases an open notice. `is_certain`: the caller had the lease, so that it knows whether the notice was delivered.
fn settle(notice: &TrackedNotice, is_certain: bool, verdict: Verdict<'_>, subject: NoticeSubject, now: Moment) -> NoticeStep {
    match verdict {
        Verdict::Delivered => {
            let mark = matches!(subject, NoticeSubject::End { .. }).then(|| NoticeEffect::MarkEndSeen("delivery".into()));
            NoticeStep { effects: mark.into_iter().collect(), ..done(notice.settled(Settlement::Delivered, "", now)) }
        }
        Verdict::Dropped(reason) => done(notice.settled(Settlement::Dropped, reason, now)),
        Verdict::Released => match (subject, &notice.superseded_reason) {
            (NoticeSubject::End { seen: true }, _) => {
                done(notice.settled(Settlement::Consumed, "its end was seen while it was being told", now))
            }
            (_, Some(reason)) => done(notice.settled(Settlement::Superseded, reason.clone(), now)),
            (NoticeSubject::End { .. } | NoticeSubject::Output { .. } | NoticeSubject::Other, None) => {
                done(TrackedNotice { maybe_told: notice.maybe_told || !is_certain, ..notice.at(NoticeState::Pending) })
            }
        },
    }
}

#[cfg(test)]
mod tests;
