//! The state of the protocol with one agent. It decides what to do next, and does nothing itself.
//!
//! [`Talk`] takes what the agent says, what the gateway orders and the time. It returns what to send, what to report to the gateway, and whether to stop the agent.
//! `drive.rs` does these things. `opening.rs` has the way to an open session, `turn.rs` has the turns in it.

mod opening;
mod turn;

use super::line::{Incoming, RequestId, RpcFailure};
use super::{AcpLimits, AcpSettings, McpServer};
use crate::driver::{AgentEvent, AgentFault, AgentNews, Attempt, Block, Conversation, Opened, Prompt};
use crate::permission::{Decision, PermissionAsk, PermissionPolicy, Ruling, SettledBy};
use crate::program::one_line;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;
use turn::{MAX_TURN_PARTS, TalkTurn};

/// The version of the protocol that is spoken.
const ACP_VERSION: u64 = 1;
/// How many bytes an agent may write in one turn, tool calls included. Some agents repeat all of a tool's output with each update.
const MAX_TURN_BYTES: u64 = 1 << 30;
/// How many permissions may be asked for at once. One more is denied.
const MAX_OPEN_PERMISSIONS: usize = 64;
/// How many characters of an agent's error are quoted.
const MAX_FAILURE_CHARS: usize = 500;
/// How long an agent that loaded a session may say nothing before the wait for the end of its replay is given up. It is asked something that every agent answers at
/// once, so this is for an agent that does not answer.
const REPLAY_SILENCE_LIMIT: Duration = Duration::from_secs(2);

/// Comes before text that begins with a slash. Agents take such text for a command of their own, and some end the turn without a word if they do not know it. It has to
/// be words: opencode joins all blocks and removes spaces before it looks for the slash.
const LEAD_BEFORE_SLASH: &str = "The user wrote:";

const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// What `drive.rs` has to do.
#[derive(Debug, PartialEq)]
pub(super) enum Effect {
    /// Write this line to the agent.
    Send(Vec<u8>),
    /// Report this to the gateway.
    Tell(AgentEvent),
    /// Stop the agent.
    End(TalkEnd),
}

/// Why an agent is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TalkEnd {
    /// The attempt has failed by this fault of the agent's.
    Failed(AgentFault, String),
    /// The agent cannot continue.
    Gone(String),
}

/// Where the talk stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// `initialize` was not answered.
    Greeting { request: u64 },
    /// A session is being opened in this way.
    Opening { request: u64, way: Opened, can_load: bool },
    /// The session was loaded, and the end of the replay is awaited. `since` is when the agent last wrote; `is_disturbed` if that was after the question.
    Settling { request: u64, session: String, since: Instant, is_disturbed: bool },
    /// Prompts are taken.
    Open { session: String },
    /// It has ended.
    Over,
}

pub(super) struct Talk {
    policy: PermissionPolicy,
    limits: AcpLimits,
    mcp: Vec<McpServer>,
    conversation: Conversation,
    stage: Stage,
    next_request: u64,
    next_permission: u64,
    turn: Option<TalkTurn>,
    permissions: VecDeque<OpenPermission>,
    is_attended: bool,
    /// When a session must be open.
    start_limit: Instant,
    /// What goes before the first prompt.
    summary: Option<String>,
    effects: Vec<Effect>,
}

/// A permission that was not decided about.
struct OpenPermission {
    request: RequestId,
    ask: PermissionAsk,
    asked_at: Instant,
}

impl Talk {
    /// A talk that begins: `initialize` is the first thing to send.
    pub(super) fn begin(settings: &AcpSettings, conversation: Conversation, now: Instant) -> Self {
        let mut talk = Self {
            policy: settings.permission.clone(),
            limits: settings.limits.clone(),
            mcp: settings.mcp.clone(),
            stage: Stage::Over,
            next_request: 0,
            next_permission: 0,
            turn: None,
            permissions: VecDeque::new(),
            is_attended: conversation.is_attended,
            start_limit: now + settings.limits.start,
            summary: None,
            effects: Vec::new(),
            conversation,
        };
        // Files are the agent's own business: it runs on this machine as this user, with tools of its own. A second way to them would be one more to guard.
        let capabilities = json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": true });
        let us = json!({ "name": "outlast", "title": "Outlast", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": ACP_VERSION, "clientCapabilities": capabilities, "clientInfo": us });
        let request = talk.ask("initialize", params);
        talk.stage = Stage::Greeting { request };
        talk
    }

    /// What is to be done now, in this order.
    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether the agent would take a prompt.
    pub(super) fn is_free(&self) -> bool {
        matches!(self.stage, Stage::Open { .. }) && self.turn.is_none()
    }

    /// The attempt that the agent works on.
    pub(super) fn attempt(&self) -> Option<&Attempt> {
        self.turn.as_ref().map(|turn| &turn.attempt)
    }

    /// Gives the agent a prompt. The agent is free.
    pub(super) fn prompt(&mut self, prompt: Prompt, now: Instant) {
        let Stage::Open { session } = &self.stage else { return };
        let summary = self.summary.take().map(Block::Text);
        let blocks: Vec<Block> = summary.into_iter().chain(prompt.blocks).collect();
        let lead = blocks.first().filter(|first| is_taken_for_command(first)).map(|_| LEAD_BEFORE_SLASH.to_owned());
        let mut texts: Vec<String> = lead.into_iter().chain(blocks.iter().map(|block| block.text().to_owned())).collect();
        // Some agents join blocks without a separator: the end of a note and the words of a person would be one line.
        if let Some((_, before)) = texts.split_last_mut() {
            before.iter_mut().for_each(|text| text.push_str("\n\n"));
        }
        let blocks: Vec<Value> = texts.into_iter().map(|text| json!({ "type": "text", "text": text })).collect();
        let params = json!({ "sessionId": session, "prompt": blocks });
        self.tell(Some(prompt.attempt.clone()), AgentNews::Prompted);
        let request = self.ask("session/prompt", params);
        self.turn = Some(TalkTurn::new(prompt.attempt, request, now));
    }

    /// Cancels the turn, if it is of this attempt.
    pub(super) fn cancel(&mut self, attempt: &Attempt, now: Instant) {
        let (Stage::Open { session }, Some(turn)) = (&self.stage, &mut self.turn) else { return };
        if turn.attempt != *attempt || turn.cancel_limit.is_some() {
            return;
        }
        turn.cancel_limit = Some(now + self.limits.cancel);
        let note = json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } });
        self.send(&note);
        // The protocol wants these answered before the turn ends.
        while let Some(open) = self.permissions.pop_front() {
            self.settle(open, &Ruling::Cancelled, SettledBy::Cancel);
        }
    }

    /// A person decided about a permission.
    pub(super) fn allow(&mut self, permission_id: &str, decision: &Decision) {
        let Some(at) = self.permissions.iter().position(|open| open.ask.id == permission_id) else { return };
        if let Some(ruling) = self.permissions[at].ask.ruling(decision)
            && let Some(open) = self.permissions.remove(at)
        {
            self.settle(open, &ruling, SettledBy::Person);
        }
    }

    /// A person came, or the last one left. The time limit of open questions starts again, so that a person who leaves has time to come back.
    pub(super) fn attend(&mut self, is_attended: bool, now: Instant) {
        if self.is_attended != is_attended {
            self.is_attended = is_attended;
            self.permissions.iter_mut().for_each(|open| open.asked_at = now);
        }
    }

    /// The agent was active in another way than by writing a line.
    pub(super) fn touch(&mut self, now: Instant) {
        if let Some(turn) = &mut self.turn {
            turn.last_heard = now;
        }
    }

    /// The agent wrote a line of this many bytes.
    pub(super) fn hear(&mut self, said: Incoming, bytes: usize, now: Instant) {
        if let Some(turn) = &mut self.turn {
            turn.last_heard = now;
            turn.heard_bytes += bytes as u64;
            if turn.heard_bytes > MAX_TURN_BYTES {
                return self
                    .end(TalkEnd::Failed(AgentFault::Garbled, format!("the agent wrote more than {MAX_TURN_BYTES} bytes in one turn")));
            }
        }
        if let Stage::Settling { since, is_disturbed, .. } = &mut self.stage
            && !matches!(said, Incoming::Blank | Incoming::Answer { .. })
        {
            (*since, *is_disturbed) = (now, true);
        }
        match said {
            Incoming::Blank | Incoming::OtherUpdate | Incoming::Notification { .. } => {}
            Incoming::Answer { id: Some(id), outcome } => self.answered(id, outcome, now),
            Incoming::Answer { id: None, .. } => {}
            Incoming::Text { session, text } => self.text(&session, &text),
            Incoming::Tool { session, tool } => self.tool(&session, tool, now),
            Incoming::Permission { id, call, title, kind, detail, options } => {
                self.next_permission += 1;
                let detail = self.with_announced(&call, detail);
                let ask = PermissionAsk { id: format!("perm-{}", self.next_permission), call, title, kind, detail, options };
                self.asked(OpenPermission { request: id, ask, asked_at: now });
            }
            Incoming::Request { id, method } => self.refuse(&id, METHOD_NOT_FOUND, &format!("this client does not serve {method}")),
            Incoming::BadRequest { id, why } => self.refuse(&id, INVALID_PARAMS, &why),
        }
    }

    /// The next time at which [`Talk::tick`] has something to do. While calls of the agent are served, its silence does not count: it waits for us.
    pub(super) fn deadline(&self, are_calls_under_way: bool) -> Option<Instant> {
        let limit = self.policy.limit(self.is_attended);
        let permission = self.permissions.iter().map(|open| open.asked_at + limit).min();
        let turn = match &self.turn {
            None => match &self.stage {
                Stage::Greeting { .. } | Stage::Opening { .. } => Some(self.start_limit),
                Stage::Settling { since, .. } => Some((*since + REPLAY_SILENCE_LIMIT).min(self.start_limit)),
                Stage::Open { .. } | Stage::Over => None,
            },
            Some(TalkTurn { cancel_limit: Some(limit), .. }) => Some(*limit),
            Some(_) if are_calls_under_way || !self.permissions.is_empty() => None,
            Some(turn) => Some(turn.last_heard + self.limits.silence),
        };
        let untold = self.turn.as_ref().and_then(TalkTurn::untold_due);
        permission.into_iter().chain(turn).chain(untold).min()
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, are_calls_under_way: bool, now: Instant) {
        let limit = self.policy.limit(self.is_attended);
        while let Some(at) = self.permissions.iter().position(|open| open.asked_at + limit <= now)
            && let Some(open) = self.permissions.remove(at)
        {
            let ruling = open.ask.ruling(&Decision::Deny).unwrap_or(Ruling::Cancelled);
            self.settle(open, &ruling, SettledBy::Limit(limit));
            self.touch(now);
        }
        if self.turn.as_ref().and_then(TalkTurn::untold_due).is_some_and(|due| due <= now) {
            self.tell_untold();
        }
        if self.deadline(are_calls_under_way).is_none_or(|due| due > now) {
            return;
        }
        if let Stage::Settling { session, .. } = &self.stage {
            let session = session.clone();
            return self.is_open(session, Opened::Loaded);
        }
        match &self.turn {
            None => self.end(TalkEnd::Gone(format!("the agent did not open a session within {} s", self.limits.start.as_secs_f64()))),
            Some(TalkTurn { cancel_limit: Some(_), .. }) => {
                let within = self.limits.cancel.as_secs_f64();
                self.end(TalkEnd::Gone(format!("the agent did not answer a cancel within {within} s and was stopped")));
            }
            Some(_) => {
                let silence = self.limits.silence.as_secs_f64();
                self.end(TalkEnd::Failed(AgentFault::TimedOut, format!("the agent said nothing for {silence} s and was stopped")));
            }
        }
    }

    /// Ends the turn when nothing more comes from the agent. Returns its attempt.
    pub(super) fn close(&mut self) -> Option<Attempt> {
        self.stage = Stage::Over;
        self.permissions.clear();
        self.tell_untold();
        let turn = self.turn.take()?;
        self.flush(&turn.text, &turn.attempt);
        Some(turn.attempt)
    }

    fn answered(&mut self, id: u64, outcome: Result<Value, RpcFailure>, now: Instant) {
        match self.stage.clone() {
            Stage::Greeting { request } if request == id => self.greeted(outcome),
            Stage::Opening { request, way, can_load } if request == id => self.opened(way, can_load, outcome, now),
            Stage::Settling { request, session, is_disturbed, .. } if request == id => match is_disturbed {
                true => self.settle_replay(session, now),
                false => self.is_open(session, Opened::Loaded),
            },
            Stage::Open { .. } if self.turn.as_ref().is_some_and(|turn| turn.request == id) => self.turn_over(outcome),
            Stage::Greeting { .. } | Stage::Opening { .. } | Stage::Settling { .. } | Stage::Open { .. } | Stage::Over => {}
        }
    }

    fn asked(&mut self, open: OpenPermission) {
        self.tell_untold();
        if let Some(turn) = &mut self.turn {
            turn.parts += 1;
            if turn.parts > MAX_TURN_PARTS {
                return self.too_many_parts();
            }
        }
        let is_cancelled = self.turn.as_ref().is_none_or(|turn| turn.cancel_limit.is_some());
        if is_cancelled || self.permissions.len() >= MAX_OPEN_PERMISSIONS {
            return self.settle(open, &Ruling::Cancelled, SettledBy::Cancel);
        }
        if let Some((decision, by)) = self.policy.rule(&open.ask)
            && let Some(ruling) = open.ask.ruling(&decision)
        {
            return self.settle(open, &ruling, by);
        }
        self.tell(self.attempt().cloned(), AgentNews::Permission(open.ask.clone()));
        self.permissions.push_back(open);
    }

    fn settle(&mut self, open: OpenPermission, ruling: &Ruling, by: SettledBy) {
        self.settle_of(self.attempt().cloned(), open, ruling, by);
    }

    fn settle_of(&mut self, attempt: Option<Attempt>, open: OpenPermission, ruling: &Ruling, by: SettledBy) {
        let (outcome, is_allowed) = match ruling {
            Ruling::Selected { option, is_allowed } => (json!({ "outcome": "selected", "optionId": option }), *is_allowed),
            Ruling::Cancelled => (json!({ "outcome": "cancelled" }), false),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": open.request.0, "result": { "outcome": outcome } });
        self.send(&answer);
        self.tell(attempt, AgentNews::PermissionSettled { title: open.ask.question(), id: open.ask.id, is_allowed, by });
    }

    fn refuse(&mut self, id: &RequestId, code: i64, message: &str) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id.0, "error": { "code": code, "message": message } }));
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_request;
        self.next_request += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn send(&mut self, message: &Value) {
        self.effects.push(Effect::Send(format!("{message}\n").into_bytes()));
    }

    fn tell(&mut self, attempt: Option<Attempt>, what: AgentNews) {
        self.effects.push(Effect::Tell(AgentEvent { attempt, what }));
    }

    fn end(&mut self, end: TalkEnd) {
        self.stage = Stage::Over;
        self.effects.push(Effect::End(end));
    }
}

/// Whether an agent would take a text that is to be read for a command.
fn is_taken_for_command(block: &Block) -> bool {
    // The byte order mark counts as a space in JavaScript.
    let is_space = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
    matches!(block, Block::Text(text) if text.trim_start_matches(is_space).starts_with('/'))
}

fn shown(failure: &RpcFailure) -> String {
    let message = one_line(&failure.message, MAX_FAILURE_CHARS);
    let message = if message.is_empty() { format!("error {}", failure.code) } else { message };
    match &failure.details {
        Some(details) if !message.contains(details.as_str()) => format!("{message}: {details}"),
        Some(_) | None => message,
    }
}

#[cfg(test)]
mod tests;
