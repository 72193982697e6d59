//! Reads the standard input of a hook. An agent calls it at a boundary of its turns, or the engine calls it to wake an agent.

use outlast_core::Notice;
use outlast_text::announce_all;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The longest input that is read. 32 notices of the longest kind are far shorter.
pub const LONGEST_HOOK_INPUT: usize = 32 << 20;

/// The longest name of an event or a session.
const MAX_NAME_BYTES: usize = 256;

/// The input of a hook.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum HookInput {
    /// An agent is at a boundary of its turns.
    Called(Called),
    /// An agent is to be woken with notices.
    Told(ToTell),
}

/// A call by an agent, in the form that Claude Code and Codex use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Called {
    /// The name of the boundary.
    pub event: String,
    /// The agent's own id of the conversation.
    pub conversation: String,
    /// The agent's working directory.
    pub dir: PathBuf,
    /// Whether the agent keeps running only because a hook refused to let it stop.
    pub goes_on: bool,
}

/// The notices to wake an agent with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToTell {
    /// The session.
    pub session: String,
    /// The notices, in order; at least one.
    pub notices: Vec<Notice>,
}

impl HookInput {
    /// Parses an input. The error does not quote it, since it may hold secrets.
    pub fn parse(input: &[u8]) -> Result<Self, String> {
        if input.len() > LONGEST_HOOK_INPUT {
            return Err(format!("standard input has {} bytes, and a hook's has {LONGEST_HOOK_INPUT} at most", input.len()));
        }
        let value: Value = match serde_json::from_slice(input) {
            Ok(value) => value,
            Err(_) if input.trim_ascii().is_empty() => return Err("standard input is empty: a hook reads one JSON object from it".into()),
            Err(e) => return Err(format!("standard input is no JSON: line {}, column {}", e.line(), e.column())),
        };
        if value.get("hook_event_name").is_some() {
            return Called::read(value).map(Self::Called);
        }
        if value.get("event").is_some() || value.get("events").is_some() {
            return ToTell::read(value).map(Self::Told);
        }
        Err("standard input has neither `hook_event_name`, as an agent writes it, nor `event` or `events`, as [[hook]] tables are given"
            .into())
    }
}

impl Called {
    fn read(value: Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Raw {
            hook_event_name: String,
            #[serde(default)]
            session_id: String,
            #[serde(default)]
            cwd: PathBuf,
            #[serde(default)]
            stop_hook_active: bool,
        }
        let Raw { hook_event_name: event, session_id: conversation, cwd: dir, stop_hook_active: goes_on } = serde_json::from_value(value)
            .map_err(|_| {
            String::from("`hook_event_name`, `session_id` and `cwd` must be text, and `stop_hook_active` true or false")
        })?;
        let fits = |text: &str| text.len() <= MAX_NAME_BYTES && !text.contains(char::is_control);
        if event.is_empty() || !fits(&event) || !fits(&conversation) {
            return Err(format!("`hook_event_name` and `session_id` must be 1 to {MAX_NAME_BYTES} bytes of printable text"));
        }
        Ok(Self { event, conversation, dir, goes_on })
    }

    /// Whether a hook can give the agent a text at this event. The error names the events where it can.
    pub fn can_be_told(&self) -> Result<bool, String> {
        match self.event.as_str() {
            "SessionStart" | "UserPromptSubmit" | "PostToolUse" => Ok(true),
            // An agent that is kept from stopping twice in a row might never stop.
            "Stop" => Ok(!self.goes_on),
            _ => Err("nothing can be told at this event: use it for SessionStart, UserPromptSubmit, PostToolUse and Stop".into()),
        }
    }

    /// The output of the hook with which the agent reads a text.
    pub fn answer(&self, text: &str) -> Value {
        match self.event.as_str() {
            "Stop" => json!({"decision": "block", "reason": text}),
            event => json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}),
        }
    }
}

impl ToTell {
    fn read(value: Value) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct One {
            event: Notice,
        }
        let many = match value {
            Value::Object(mut fields) => fields.remove("events").unwrap_or_else(|| json!([fields])),
            other => other,
        };
        let read: Vec<One> = serde_json::from_value(many).map_err(|e| format!("`event` is no notice of ours, as {} says", kind_of(&e)))?;
        let notices: Vec<Notice> = read.into_iter().map(|one| one.event).collect();
        let Some(first) = notices.first() else { return Err("`events` is empty, so that there is nothing to tell".into()) };
        let session = first.session_key.clone();
        if notices.iter().any(|n| n.session_key != session) {
            return Err("the notices are of several conversations; an agent is told about its own".into());
        }
        let plain = |id: &str| !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        if !notices.iter().all(|n| plain(&n.event_id)) {
            return Err("a notice has an `event_id` that is none: `evt_` and 24 hexadecimal digits".into());
        }
        Ok(Self { session, notices })
    }

    /// All notices as one text for the agent. Repeats are marked as the engine knows them. The hook removes notices that the agent has already
    /// (see [`without`](Self::without)).
    pub fn text(&self) -> String {
        announce_all(&self.notices)
    }

    /// The ids of the notices. A hook looks for them in the conversation to find those that the agent has already.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.notices.iter().map(|n| n.event_id.as_str())
    }

    /// The same without the notices that were delivered already.
    #[must_use]
    pub fn without(mut self, was_told: impl Fn(&str) -> bool) -> Self {
        self.notices.retain(|n| !was_told(&n.event_id));
        self
    }
}

/// The kind of an error, without the input that it quotes.
fn kind_of(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a field that is missing or of another kind",
        _ => "its form",
    }
}

#[cfg(test)]
mod tests;
