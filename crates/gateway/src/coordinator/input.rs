//! What arrives at the coordinator, and what it answers.

use crate::exit::StopSignal;
use crate::owner::Asker;
use crate::rules::conversation::TurnId;
use crate::rules::reset::LiveProcesses;
use outlast_agents::AgentEvent;
use outlast_client::Told;
use outlast_core::Notice;
use outlast_wire::v1::chat::{Accepted, Changed, ChatEvent, ChatRequest, Conversations, GatewayStatus, Opened, Part, Shown, TurnInfo};
use outlast_wire::v1::{Done, Error};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// What can arrive at the coordinator.
pub(crate) enum Input {
    /// A client asks something.
    Ask { request: ChatRequest, by: Asker, to: AnswerTo },
    /// A client wants to follow a conversation.
    Follow { asked: FollowAsked, by: Asker, to: oneshot::Sender<Result<Followed, Error>> },
    /// A client has left.
    Left { follower: u64 },
    /// A follower wants the next page of parts.
    Parts { key: String, after: u64, upto: u64, to: oneshot::Sender<Result<Vec<Part>, Error>> },
    /// An agent reports.
    Agent { key: String, actor: u64, event: Box<AgentEvent> },
    /// The driver of an agent ended without a last event.
    ActorOver { key: String, actor: u64 },
    /// An agent could not be started at all.
    CannotStart { key: String, head: TurnId, attempt: u32, why: String },
    /// These sessions have notices that can be taken.
    NoticesOpen { sessions: Vec<String>, connection: u64 },
    /// The connection to the engine broke.
    EngineLost,
    /// Notices were leased, or could not be.
    Taken { key: String, generation: String, connection: u64, taken: Result<TakenNotices, String> },
    /// The engine answered an acknowledgement with `ok`.
    Acknowledged { key: String, event_ids: Vec<String> },
    /// The engine's list of what runs in the session of a conversation, or that it did not answer.
    LookedUp { key: String, processes: LiveProcesses },
    /// SIGTERM or SIGINT.
    Signal(StopSignal),
    /// Look again at what may start.
    Look,
}

/// Where the answer to a request goes.
pub(crate) type AnswerTo = oneshot::Sender<Result<ChatAnswer, Error>>;

/// What a request is answered with.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(crate) enum ChatAnswer {
    Opened(Box<Opened>),
    Accepted(Accepted),
    Changed(Changed),
    Done(Done),
    Conversations(Conversations),
    Shown(Box<Shown>),
    Turn(Box<TurnInfo>),
    Status(Box<GatewayStatus>),
}

/// The sending end of the coordinator's inputs.
#[derive(Clone)]
pub(crate) struct Gateway {
    pub(crate) inputs: mpsc::Sender<Input>,
}

/// What a follower wants.
pub(crate) struct FollowAsked {
    pub(crate) key: String,
    pub(crate) after: Option<u64>,
    pub(crate) context: u32,
    pub(crate) is_attended: bool,
}

/// What a follower is given: where to begin, how far there is something, and what happens from now on.
pub(crate) struct Followed {
    pub(crate) follower: u64,
    pub(crate) after: u64,
    pub(crate) last_part: Option<u64>,
    /// The turns that are open.
    pub(crate) open: Vec<TurnInfo>,
    pub(crate) events: mpsc::Receiver<WaitingEvent>,
}

/// An event that waits for a follower. Its room is free again once it is dropped.
pub(crate) struct WaitingEvent {
    pub(crate) event: ChatEvent,
    pub(crate) room: OwnedSemaphorePermit,
}

/// What a take gave.
pub(crate) struct TakenNotices {
    pub(super) notices: Vec<Told>,
    /// How many the engine dropped instead, because they are for another generation.
    pub(super) too_late: u64,
    /// Those of them that could be looked up, oldest first.
    pub(super) late: Vec<Notice>,
}
