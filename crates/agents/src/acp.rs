//! ACP version 1 over an agent's standard input and output.
//!
//! `line.rs` reads what the agent says, `talk.rs` decides what follows from it, and `drive.rs` does that with a process of the engine.
//!
//! What this client offers an agent: terminals, which are processes of the conversation and outlive the agent; `outlast mcp` among the MCP servers; no files. `fs/*`
//! is refused: the agent runs on the same machine as the same user and has tools of its own for files. A second way to them would add nothing but the need to guard it.
//!
//! Decisions 200 and 233: docs/decisions/gateway.md.

mod drive;
mod line;
mod talk;

pub use line::{Incoming, Nonsense, RequestId, RpcFailure, ToolNews, parse_line};

use crate::driver::{Attempt, Conversation, Driver, FoundAttempt, FoundFuture, MAX_WAITING_EVENTS, Started, orders};
use crate::permission::PermissionPolicy;
use crate::program::AgentPlace;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

/// How long an agent may say nothing in a turn. A model thinks for minutes, and tools of an agent's own run without a word.
const SILENCE_LIMIT: Duration = Duration::from_secs(30 * 60);
/// How long an agent may take to answer a cancel. A person waits for it.
const CANCEL_LIMIT: Duration = Duration::from_secs(10);
/// How long an agent may take from its start until its session is open. Agents in JavaScript and Python take seconds, and minutes at their first start.
const AGENT_START_LIMIT: Duration = Duration::from_secs(180);

/// Drives agents that speak ACP.
pub struct AcpDriver {
    place: AgentPlace,
    settings: AcpSettings,
}

/// How an agent that speaks ACP is run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AcpSettings {
    /// The program and its arguments, for instance from [`crate::find_agent`].
    pub argv: Vec<String>,
    /// A file with variables for the agent.
    pub env_file: Option<PathBuf>,
    /// The MCP servers that the agent is given.
    pub mcp: Vec<McpServer>,
    /// Who decides about permissions.
    pub permission: PermissionPolicy,
    /// Whether secrets are masked in what the agent reads of its terminals.
    pub is_redacting: bool,
    /// How long things may take.
    pub limits: AcpLimits,
}

impl AcpSettings {
    /// The usual: a person is asked for permissions, and secrets are masked.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let argv = argv.into_iter().map(Into::into).collect();
        let (permission, limits) = (PermissionPolicy::default(), AcpLimits::default());
        Self { argv, env_file: None, mcp: Vec::new(), permission, is_redacting: true, limits }
    }
}

/// How long things may take, and how much an agent may say at once.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AcpLimits {
    /// How long an agent may be silent in a turn. Not counted while it waits for a permission or for one of its terminals.
    pub silence: Duration,
    /// How long an agent may take to answer a cancel.
    pub cancel: Duration,
    /// How long an agent may take to open its session.
    pub start: Duration,
    /// The longest line of an agent's, in bytes.
    pub line_bytes: usize,
}

impl Default for AcpLimits {
    fn default() -> Self {
        Self { silence: SILENCE_LIMIT, cancel: CANCEL_LIMIT, start: AGENT_START_LIMIT, line_bytes: outlast_acp::MOST_BYTES }
    }
}

/// An MCP server that an agent is to start.
#[derive(Clone)]
#[non_exhaustive]
pub struct McpServer {
    /// The name that its tools have.
    pub name: String,
    /// The program, as an absolute path.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables. Agents hand on next to nothing of their own environment.
    pub env: Vec<(String, String)>,
}

impl McpServer {
    /// `outlast mcp`, which speaks for one generation of a conversation.
    pub fn outlast(program: impl Into<String>, home: impl Into<String>, key: &str, generation: &str) -> Self {
        let env = [("OUTLAST_HOME", home.into()), ("OUTLAST_SESSION", key.into()), ("OUTLAST_GENERATION", generation.into())];
        let env = env.into_iter().map(|(name, value): (&str, String)| (name.to_owned(), value)).collect();
        Self { name: "outlast".into(), command: program.into(), args: vec!["mcp".into()], env }
    }

    /// The same, with this set of tools ([`crate::AgentName::mcp_profile`]).
    #[must_use]
    pub fn with_profile(mut self, profile: &str) -> Self {
        self.args.extend(["--profile".to_owned(), profile.to_owned()]);
        self
    }

    fn to_json(&self) -> Value {
        let env: Vec<Value> = self.env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        json!({ "name": self.name, "command": self.command, "args": self.args, "env": env })
    }
}

impl std::fmt::Debug for McpServer {
    // A value may be a secret, and a Debug text may reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("McpServer").field("name", &self.name).field("command", &self.command).field("env", &names).finish_non_exhaustive()
    }
}

impl AcpDriver {
    /// A driver for agents that run in this place with these settings.
    pub fn new(place: AgentPlace, settings: AcpSettings) -> Self {
        Self { place, settings }
    }
}

impl Driver for AcpDriver {
    fn start(&self, conversation: Conversation) -> Started {
        let (handle, orders) = orders();
        let (sender, events) = mpsc::channel(MAX_WAITING_EVENTS);
        tokio::spawn(drive::drive(self.place.clone(), self.settings.clone(), conversation, orders, sender));
        Started { handle, events }
    }

    /// Never to be continued: what an agent answered in between would have to be understood from the middle of the talk. The next gateway stops the agent, and the turn is
    /// started again with a note.
    fn find<'a>(&'a self, _key: &'a str, _attempt: &'a Attempt) -> FoundFuture<'a> {
        Box::pin(std::future::ready(Ok(FoundAttempt::Gone)))
    }
}
