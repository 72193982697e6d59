//! What comes to a hook on its standard input: from an agent, which calls it at a boundary of its turns, or from the engine, which has an agent woken.

use outlast_core::Notice;
use outlast_text::announce_all;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The longest input that is read. 32 notices of the longest kind are far shorter.
pub const LONGEST_HOOK_INPUT: usize = 32 << 20;

/// The longest name of an event or a conversation.
const LONGEST_NAME: usize = 256;

/// What a hook is called with.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum HookInput {
    /// An agent has come to a boundary of its turns.
    Called(Called),
    /// An agent is to be told.
    Told(ToTell),
}

/// Where in its turns an agent is, in the shape that Claude Code and Codex have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Called {
    /// The name of the boundary.
    pub event: String,
    /// The agent's own name for the conversation.
    pub conversation: String,
    /// Where it works.
    pub dir: PathBuf,
    /// Whether it goes on only because a hook would not let it stop.
    pub goes_on: bool,
}

/// What an agent is to be told.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ToTell {
    /// The conversation.
    pub session: String,
    /// In order; at least one.
    pub notices: Vec<Notice>,
}

impl HookInput {
    /// Reads it. An error says what is wrong with it, and quotes nothing: it may hold secrets.
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
        let fits = |text: &str| text.len() <= LONGEST_NAME && !text.contains(char::is_control);
        if event.is_empty() || !fits(&event) || !fits(&conversation) {
            return Err(format!("`hook_event_name` and `session_id` must be 1 to {LONGEST_NAME} bytes of printable text"));
        }
        Ok(Self { event, conversation, dir, goes_on })
    }

    /// Whether the agent can be told something here. An error says where it can.
    pub fn can_be_told(&self) -> Result<bool, String> {
        match self.event.as_str() {
            "SessionStart" | "UserPromptSubmit" | "PostToolUse" => Ok(true),
            // Whoever is kept from stopping twice in a row might never stop.
            "Stop" => Ok(!self.goes_on),
            _ => Err("nothing can be told at this event: use it for SessionStart, UserPromptSubmit, PostToolUse and Stop".into()),
        }
    }

    /// What is to be written so that the agent reads this.
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

    /// All of them as one text for the agent. Possible repeats are marked as far as the engine knows of any: whoever tells has looked whether they were told.
    pub fn text(&self) -> String {
        announce_all(&self.notices)
    }

    /// The names of all, so that whoever finds one of them in a conversation knows that it was told there.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.notices.iter().map(|n| n.event_id.as_str())
    }

    /// The same without what was told already.
    #[must_use]
    pub fn without(mut self, was_told: impl Fn(&str) -> bool) -> Self {
        self.notices.retain(|n| !was_told(&n.event_id));
        self
    }
}

/// What kind of error it is, without what it quotes.
fn kind_of(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Data => "a field that is missing or of another kind",
        _ => "its form",
    }
}

#[cfg(test)]
mod tests;
