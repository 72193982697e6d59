//! Messages between a terminal and the gateway. Frames, hello and errors are those of the engine's socket.
//!
//! The gateway listens at `run/gateway` in the home. A request leaves out fields that it does not need. A reader ignores unknown
//! fields and keeps unknown words as [`Standing::Other`] and the like. So client and gateway may be of different versions.

mod answer;
mod event;
mod part;
mod turn;

pub use answer::{Accepted, Changed, ConversationInfo, Conversations, GatewayStatus, GenerationInfo, Opened, Shown};
pub use event::{ChatEvent, ChatReply};
pub use part::{Content, LineBody, Part, PartKind, PermissionBody, PermissionOption, TextBody, ToolBody, ToolState, WordsBody};
pub use turn::{Standing, TurnInfo, TurnKind, TurnOutcome, TurnState};

use super::namespaces::Namespaces;
use outlast_core::OsText;
use serde::{Deserialize, Serialize};

/// The longest text of one message, in bytes. A longer one belongs into a file that the agent can read.
pub const MAX_WORDS_BYTES: usize = 1 << 20;

/// One message from a client: a number for the answers to carry, and the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChatMessage {
    /// The client's own number for the message, never used twice on a connection.
    pub id: u64,
    /// The session for which the client speaks; absent for a person. A client with a session is its agent, which may ask about
    /// itself only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The request.
    #[serde(flatten)]
    pub request: ChatRequest,
}

/// What is asked of the gateway. The fields lie beside the message's own, so none may be called `id`, `session` or `op`.
///
/// | request | answer |
/// |---|---|
/// | hello | [`super::Hello`], with the home |
/// | open | [`Opened`] |
/// | send | [`Accepted`] |
/// | follow | none, after its events |
/// | stop, new, resume, allow | [`Changed`] |
/// | seen, drain, undrain, restart, shutdown | [`super::Done`] |
/// | list | [`Conversations`] |
/// | show | [`Shown`] |
/// | wait | [`TurnInfo`] |
/// | status | [`GatewayStatus`] |
/// | cancel | none |
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum ChatRequest {
    /// First on each connection.
    Hello {
        /// The newest version the client speaks.
        version: u32,
        /// The client's name, for the gateway's log.
        client: String,
        /// Where the client runs, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespaces: Option<Box<Namespaces>>,
    },
    /// Open a conversation. If there is none with this key, it is created.
    Open {
        /// The key of the conversation.
        key: String,
        /// Who answers in it from now on; absent leaves that as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<AgentChoice>,
        /// The directory that the agent of a new conversation works in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<OsText>,
    },
    /// Say something. Sent again under the same `message_id`, it is recognised and gets the same answer.
    Send {
        /// In which conversation. If there is none with this key, it is created.
        key: String,
        /// A name that the client makes: `msg:` and random digits.
        message_id: String,
        /// The words, at most [`MAX_WORDS_BYTES`].
        words: String,
        /// Who answers in the conversation from now on; absent leaves that as it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<AgentChoice>,
        /// The directory that the agent of a new conversation works in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<OsText>,
    },
    /// The parts after `after` in order, then [`ChatEvent::CaughtUp`], then what happens, until it is cancelled. Continues into newer
    /// generations.
    Follow {
        /// Which conversation.
        key: String,
        /// The last part that the client has; absent means none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
        /// How many parts up to `after` come before them, for a reader who wants to know what was said last.
        #[serde(default, skip_serializing_if = "is_zero")]
        context: u32,
        /// A person is at this terminal, and can answer a question about a permission. Turns are attended while such a client follows.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_attended: bool,
    },
    /// Cancel the turn that runs, or that waits to be resumed.
    Stop {
        /// In which conversation.
        key: String,
        /// A name that the client makes, so that an order that is sent again changes nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Start a new generation of a conversation.
    New {
        /// The key of the conversation.
        key: String,
        /// A name that the client makes, so that an order that is sent again changes nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// Continue a suspended conversation, or an interrupted turn that is held back; with a generation, continue that earlier one in a new
    /// one.
    Resume {
        /// Which conversation.
        key: String,
        /// A name that the client makes, so that an order that is sent again changes nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
        /// Which earlier generation; absent, or the current one, means what is suspended or held back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u64>,
    },
    /// Answer a question about a permission.
    Allow {
        /// In which conversation.
        key: String,
        /// Which question, from [`PermissionBody::permission`].
        permission: String,
        /// Which of its options, from [`PermissionOption::option`].
        option: String,
    },
    /// A person was shown everything up to this part.
    Seen {
        /// In which conversation.
        key: String,
        /// The last part that was shown.
        part: u64,
    },
    /// All conversations.
    List,
    /// A conversation with its turns.
    Show {
        /// The key of the conversation.
        key: String,
        /// Which generation; absent means the current one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation: Option<u64>,
    },
    /// Wait until a turn is finished. If the time is over first, the answer is the turn as it is then.
    Wait {
        /// In which conversation.
        key: String,
        /// Which turn.
        turn: u64,
        /// At most this long, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// How is the gateway?
    Status,
    /// Start no new turns for so long, an hour at most.
    Drain {
        /// In seconds; absent means as long as is allowed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold_seconds: Option<u64>,
    },
    /// Start turns again.
    Undrain,
    /// End the gateway as [`ChatRequest::Shutdown`] does, and have it started again. Answered at once.
    Restart {
        /// The conversation whose agent asks for it, from within a turn. The restart does not wait long for that turn alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// End the gateway until a person starts it. Answered at once; the connection closes when it has ended. `unmarked`: it ends, and its memory could
    /// not be written; if that stays so, turns that take too long get no mark, and the next gateway finds them as interrupted.
    Shutdown {
        /// How long turns may take to finish, in milliseconds; absent means as configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// As in [`ChatRequest::Restart`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
    },
    /// End request `of` of this connection.
    Cancel {
        /// Its number.
        of: u64,
    },
}

/// Who answers in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentChoice {
    /// An agent that is known by this name.
    Agent(String),
    /// A shell line that is run once for each turn: words on its input, the reply on its output.
    Command(String),
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}
