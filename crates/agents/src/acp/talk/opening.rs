//! From `initialize` to an open session: a new one, or an old one resumed or loaded.

use super::super::McpServer;
use super::super::line::{MAX_AGENT_ID_BYTES, RpcFailure};
use super::{ACP_VERSION, MAX_FAILURE_CHARS, Stage, Talk, TalkEnd, shown};
use crate::driver::{AgentNews, Opened};
use crate::program::one_line;
use serde_json::{Value, json};
use tokio::time::Instant;

/// A request that no agent knows, so each answers with an error, and that answer marks the end of its replay. Names with an underscore are free for extensions.
const FENCE_METHOD: &str = "_outlast/fence";
/// The agent wants its user to log in.
const AUTH_REQUIRED: i64 = -32000;

impl Talk {
    /// The agent has answered `initialize`.
    pub(super) fn greeted(&mut self, outcome: Result<Value, RpcFailure>) {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(failure) => return self.end(TalkEnd::Gone(format!("the agent refused to initialize: {}", shown(&failure)))),
        };
        if answer["protocolVersion"].as_u64() != Some(ACP_VERSION) {
            let theirs = one_line(&answer["protocolVersion"].to_string(), MAX_FAILURE_CHARS);
            return self.end(TalkEnd::Gone(format!("the agent speaks ACP version {theirs}, and this gateway version {ACP_VERSION}")));
        }
        let abilities = &answer["agentCapabilities"];
        let can_load = abilities["loadSession"] == true;
        let can_resume = !matches!(abilities["sessionCapabilities"]["resume"], Value::Null | Value::Bool(false));
        let way = match &self.conversation.agent_session {
            Some(_) if can_resume => Opened::Resumed,
            Some(_) if can_load => Opened::Loaded,
            _ => Opened::New,
        };
        self.open(way, can_load);
    }

    fn open(&mut self, way: Opened, can_load: bool) {
        let servers: Vec<Value> = self.mcp.iter().map(McpServer::to_json).collect();
        let mut params = json!({ "cwd": self.conversation.cwd.to_string_lossy(), "mcpServers": servers });
        let method = match way {
            Opened::Resumed => "session/resume",
            Opened::Loaded => "session/load",
            Opened::New | Opened::PerTurn => "session/new",
        };
        if way != Opened::New {
            params["sessionId"] = json!(self.conversation.agent_session);
        }
        let request = self.ask(method, params);
        self.stage = Stage::Opening { request, way, can_load };
    }

    /// Asks until a question is answered without an update before the answer. Gemini CLI answers `session/load` first and replays afterwards; in a turn, that would be
    /// taken for the reply.
    pub(super) fn settle_replay(&mut self, session: String, now: Instant) {
        let request = self.ask(FENCE_METHOD, json!({}));
        self.stage = Stage::Settling { request, session, since: now, is_disturbed: false };
    }

    /// Prompts are taken from now on.
    pub(super) fn is_open(&mut self, session: String, way: Opened) {
        self.stage = Stage::Open { session: session.clone() };
        self.tell(None, AgentNews::Ready { session: Some(session), opened: way });
    }

    /// The agent has answered the request to open a session.
    pub(super) fn opened(&mut self, way: Opened, can_load: bool, outcome: Result<Value, RpcFailure>, now: Instant) {
        let session = match (way, &outcome) {
            // The replay arrives while no turn is open, so it is reported nowhere.
            (Opened::Resumed | Opened::Loaded, Ok(_)) => self.conversation.agent_session.clone(),
            (Opened::New | Opened::PerTurn, Ok(answer)) => {
                answer["sessionId"].as_str().filter(|name| name.len() <= MAX_AGENT_ID_BYTES).map(str::to_owned)
            }
            (_, Err(_)) => None,
        };
        if let Some(session) = session {
            if way == Opened::New {
                self.summary = self.conversation.summary.take();
            }
            return match way {
                Opened::Loaded => self.settle_replay(session, now),
                Opened::Resumed | Opened::New | Opened::PerTurn => self.is_open(session, way),
            };
        }
        match (way, outcome) {
            // An agent forgets sessions: the next way is tried with the same process.
            (Opened::Resumed, Err(failure)) if failure.code != AUTH_REQUIRED => {
                self.open(if can_load { Opened::Loaded } else { Opened::New }, can_load);
            }
            (Opened::Loaded, Err(failure)) if failure.code != AUTH_REQUIRED => self.open(Opened::New, can_load),
            (_, Err(failure)) if failure.code == AUTH_REQUIRED => {
                let why = format!("the agent wants you to log in: run it once by hand ({})", shown(&failure));
                self.end(TalkEnd::Gone(why));
            }
            (_, Err(failure)) => self.end(TalkEnd::Gone(format!("the agent opened no session: {}", shown(&failure)))),
            (_, Ok(_)) => self.end(TalkEnd::Gone("the agent opened a session without a name that could be kept".into())),
        }
    }
}
