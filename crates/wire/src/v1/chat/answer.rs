//! What the gateway answers.

use super::turn::{Standing, TurnInfo, TurnState};
use outlast_core::Time;
use serde::{Deserialize, Serialize};

/// A conversation that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Opened {
    /// The conversation as it stands.
    #[serde(flatten)]
    pub conversation: ConversationInfo,
    /// Whether it was created by this request.
    #[serde(default)]
    pub is_new: bool,
    /// Its last part; absent if there is none.
    #[serde(default)]
    pub last_part: Option<u64>,
    /// The last part that a person was shown; absent if there is none.
    #[serde(default)]
    pub seen_part: Option<u64>,
}

impl Opened {
    /// A conversation without parts.
    pub fn new(conversation: ConversationInfo) -> Self {
        Self { conversation, is_new: false, last_part: None, seen_part: None }
    }
}

/// How a conversation is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ConversationInfo {
    /// Its key.
    pub key: String,
    /// What a person calls it: the last word of a local key, else the key.
    pub name: String,
    /// The current generation, from 1 on.
    pub generation: u64,
    /// Where it stands.
    pub standing: Standing,
    /// How many turns in a row did not finish.
    #[serde(default)]
    pub strikes: u32,
    /// Who answers in it, in words.
    #[serde(default)]
    pub agent: Option<String>,
    /// How many turns are queued, running or interrupted.
    #[serde(default)]
    pub open_turns: u64,
    /// When a person last said something.
    #[serde(default)]
    pub last_message_at: Option<Time>,
    /// What the next turn waits for, if it does, as a sentence.
    #[serde(default)]
    pub waits_for: Option<String>,
}

impl ConversationInfo {
    /// An active conversation without turns.
    pub fn new(key: impl Into<String>, name: impl Into<String>, generation: u64) -> Self {
        Self {
            key: key.into(),
            name: name.into(),
            generation,
            standing: Standing::Active,
            strikes: 0,
            agent: None,
            open_turns: 0,
            last_message_at: None,
            waits_for: None,
        }
    }
}

/// A message that is written down and will be answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Accepted {
    /// Its turn.
    pub turn: u64,
    /// Where that stands.
    pub state: TurnState,
    /// How many turns come before it.
    #[serde(default)]
    pub ahead: u32,
    /// What the person should know about it, as a sentence.
    #[serde(default)]
    pub note: Option<String>,
}

impl Accepted {
    /// A turn that comes next.
    pub fn new(turn: u64, state: TurnState) -> Self {
        Self { turn, state, ahead: 0, note: None }
    }
}

/// A conversation after a person changed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Changed {
    /// Where it stands now.
    pub standing: Standing,
    /// The generation that is current now.
    pub generation: u64,
    /// What was done, as a sentence; also if there was nothing to do.
    #[serde(default)]
    pub said: String,
}

impl Changed {
    /// A conversation that stands so now, and what was done.
    pub fn new(standing: Standing, generation: u64, said: impl Into<String>) -> Self {
        Self { standing, generation, said: said.into() }
    }
}

/// All conversations, the one in which a person spoke last first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Conversations {
    /// The conversations; the one with the newest message is the first.
    #[serde(default)]
    pub conversations: Vec<ConversationInfo>,
}

impl Conversations {
    /// A list of these conversations.
    pub fn new(conversations: Vec<ConversationInfo>) -> Self {
        Self { conversations }
    }
}

/// A conversation with the turns of one generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Shown {
    /// The conversation as it stands.
    #[serde(flatten)]
    pub conversation: ConversationInfo,
    /// Its turns, the oldest first.
    #[serde(default)]
    pub turns: Vec<TurnInfo>,
    /// Its last generations with the current one, the oldest first. Empty if the gateway is older than this field.
    #[serde(default)]
    pub generations: Vec<GenerationInfo>,
}

impl Shown {
    /// A conversation with these turns.
    pub fn new(conversation: ConversationInfo, turns: Vec<TurnInfo>) -> Self {
        Self { conversation, turns, generations: Vec::new() }
    }
}

/// One generation of a conversation, to choose from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GenerationInfo {
    /// Its number, from 1 on.
    pub generation: u64,
    /// When it began.
    pub started_at: Time,
    /// When it ended; absent for the current one.
    #[serde(default)]
    pub ended_at: Option<Time>,
    /// How many turns it has.
    #[serde(default)]
    pub turns: u64,
    /// When its last turn was accepted; absent if it has none.
    #[serde(default)]
    pub last_turn_at: Option<Time>,
    /// The beginning of the first thing that a person said in it.
    #[serde(default)]
    pub first_words: Option<String>,
    /// The earlier generation that a person continued with it.
    #[serde(default)]
    pub resumed_from: Option<u64>,
}

impl GenerationInfo {
    /// The current generation, without turns.
    pub fn new(generation: u64, started_at: Time) -> Self {
        Self { generation, started_at, ended_at: None, turns: 0, last_turn_at: None, first_words: None, resumed_from: None }
    }
}

/// How the gateway is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GatewayStatus {
    /// Its pid.
    pub pid: u32,
    /// How many turns run.
    #[serde(default)]
    pub running: u64,
    /// Whether no turn runs or may start, and no reply is unsent.
    #[serde(default)]
    pub idle: bool,
    /// The program's version.
    #[serde(default)]
    pub version: String,
    /// The home that it serves.
    #[serde(default)]
    pub home: String,
    /// When it started.
    pub started_at: Time,
    /// Whether it starts no new turns.
    #[serde(default)]
    pub draining: bool,
    /// Until when it starts no new turns, if a person asked for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_until: Option<Time>,
    /// What it ends for, if it does: `restart` or `stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// How many parts could not be sent to their channel.
    #[serde(default)]
    pub unsent: u64,
    /// How many turns wait.
    #[serde(default)]
    pub queued: u64,
    /// How many terminals follow a conversation.
    #[serde(default)]
    pub terminals: u64,
    /// What a person should know: each a sentence.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl GatewayStatus {
    /// A gateway that has nothing to do.
    pub fn new(pid: u32, version: impl Into<String>, home: impl Into<String>, started_at: Time) -> Self {
        Self {
            pid,
            running: 0,
            idle: true,
            version: version.into(),
            home: home.into(),
            started_at,
            draining: false,
            drained_until: None,
            ending: None,
            unsent: 0,
            queued: 0,
            terminals: 0,
            notes: Vec::new(),
        }
    }
}
