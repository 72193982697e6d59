//! A part: one thing in a conversation that is kept and shown.

use super::turn::words;
use outlast_core::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that was said or done in a conversation. Parts are written once and never change, so their numbers are cursors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Part {
    /// Its number, which grows with each part of the home.
    pub id: u64,
    /// The turn it belongs to; absent for a line about the conversation as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// Which attempt at that turn.
    #[serde(default)]
    pub attempt: u32,
    /// The kind of its content.
    pub kind: PartKind,
    /// What it says, by its kind; [`Part::content`] reads it.
    #[serde(default)]
    pub body: Value,
    /// When it was written.
    pub at: Time,
}

words! {
    /// What a part is.
    PartKind {
        /// What a person said.
        Words = "words",
        /// What the agent answered.
        Text = "text",
        /// A tool call of the agent. A second part with the same `call` says how it went.
        Tool = "tool",
        /// A question about a permission. A second part with the same `permission` has the answer.
        Permission = "permission",
        /// Something a person should know.
        Line = "line",
    }
}

/// What a part says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// What a person said.
    Words(WordsBody),
    /// What the agent answered.
    Text(TextBody),
    /// A tool call.
    Tool(ToolBody),
    /// A question about a permission.
    Permission(PermissionBody),
    /// Something a person should know.
    Line(LineBody),
    /// A newer gateway wrote it.
    Unknown,
}

impl Part {
    /// A part with this content.
    pub fn new(id: u64, turn: Option<u64>, attempt: u32, content: &Content, at: Time) -> Self {
        let (kind, body) = content.to_stored();
        Self { id, turn, attempt, kind, body, at }
    }

    /// What it says. A body that does not fit its kind is unknown.
    pub fn content(&self) -> Content {
        fn read<T: DeserializeOwned>(body: &Value, of: impl Fn(T) -> Content) -> Content {
            T::deserialize(body).map_or(Content::Unknown, of)
        }
        match &self.kind {
            PartKind::Words => read(&self.body, Content::Words),
            PartKind::Text => read(&self.body, Content::Text),
            PartKind::Tool => read(&self.body, Content::Tool),
            PartKind::Permission => read(&self.body, Content::Permission),
            PartKind::Line => read(&self.body, Content::Line),
            PartKind::Other(_) => Content::Unknown,
        }
    }
}

impl Content {
    /// Kind and body, as they are stored and sent.
    pub fn to_stored(&self) -> (PartKind, Value) {
        // The bodies hold only texts and lists of texts, which always serialise.
        let json = |body: serde_json::Result<Value>| body.unwrap_or_default();
        match self {
            Self::Words(body) => (PartKind::Words, json(serde_json::to_value(body))),
            Self::Text(body) => (PartKind::Text, json(serde_json::to_value(body))),
            Self::Tool(body) => (PartKind::Tool, json(serde_json::to_value(body))),
            Self::Permission(body) => (PartKind::Permission, json(serde_json::to_value(body))),
            Self::Line(body) => (PartKind::Line, json(serde_json::to_value(body))),
            Self::Unknown => (PartKind::Other("unknown".into()), Value::Null),
        }
    }
}

/// What a person said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WordsBody {
    /// The words.
    pub text: String,
    /// The id under which they were sent, by which a terminal knows its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

impl WordsBody {
    /// Words that were sent under this id.
    pub fn new(text: impl Into<String>, message_id: impl Into<String>) -> Self {
        Self { text: text.into(), message_id: Some(message_id.into()) }
    }
}

/// What the agent answered, or a piece of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextBody {
    /// Markdown.
    pub text: String,
}

impl TextBody {
    /// A part of a reply with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// A tool call of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolBody {
    /// The agent's name for the call.
    pub call: String,
    /// What is done, in one line.
    pub title: String,
    /// How far it is.
    pub state: ToolState,
    /// What came of it, in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

impl ToolBody {
    /// A call in this state.
    pub fn new(call: impl Into<String>, title: impl Into<String>, state: ToolState) -> Self {
        Self { call: call.into(), title: title.into(), state, result: None }
    }
}

words! {
    /// How a tool call goes.
    ToolState {
        /// It waits, perhaps for a permission.
        Pending = "pending",
        /// It runs.
        Running = "running",
        /// It is done.
        Completed = "completed",
        /// It failed, or was refused.
        Failed = "failed",
        /// It was open when the attempt was interrupted, so that its outcome is unknown.
        Unknown = "unknown",
    }
}

/// A question about a permission, and its answer once there is one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PermissionBody {
    /// The name of the question, for the answer.
    pub permission: String,
    /// The tool call that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// What is asked for, in one line.
    pub question: String,
    /// What can be answered.
    #[serde(default)]
    pub options: Vec<PermissionOption>,
    /// The option that was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// How it was chosen: by a person or a rule, or because no answer came in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl PermissionBody {
    /// A question that waits for its answer.
    pub fn new(permission: impl Into<String>, question: impl Into<String>, options: Vec<PermissionOption>) -> Self {
        Self { permission: permission.into(), call: None, question: question.into(), options, answer: None, by: None }
    }
}

/// One possible answer to a question about a permission.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PermissionOption {
    /// Its name, for the answer.
    pub option: String,
    /// What a person reads.
    pub name: String,
    /// ACP's word for it: `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

impl PermissionOption {
    /// An option of this kind.
    pub fn new(option: impl Into<String>, name: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { option: option.into(), name: name.into(), kind: kind.into() }
    }
}

/// Something a person should know: one line, or a line with the output of a process below it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LineBody {
    /// The line, and what is below it.
    pub text: String,
    /// What it is about, in a word: `banner`, `interrupted`, `resumed`, `suspended`, `notice`, `new` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
}

impl LineBody {
    /// A line about something.
    pub fn new(text: impl Into<String>, about: impl Into<String>) -> Self {
        Self { text: text.into(), about: Some(about.into()) }
    }
}
