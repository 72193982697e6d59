//! The turn that an agent takes: its text, its tool calls, and its end.

use super::super::line::{RpcFailure, ToolNews};
use super::{MAX_FAILURE_CHARS, Stage, Talk, TalkEnd, shown};
use crate::driver::{AgentFault, AgentNews, Attempt, MAX_REPLY_BYTES, StopReason, ToolLine, ToolStatus};
use crate::permission::{Ruling, SettledBy};
use crate::program::one_line;
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// How many tool calls, changes of them, questions and pieces of text one turn may have. Each is a row that is kept. An agent that works for a day has a tenth of
/// it; one that has more repeats itself.
pub(super) const MAX_TURN_PARTS: usize = 20_000;
/// How many tool calls of a turn are remembered. The oldest is forgotten first, and an update of it is then reported under its id.
pub(super) const MAX_KNOWN_TOOLS: usize = 4_096;
/// How long a tool call whose input is being written waits for its title, before it is reported as it is.
pub(super) const PENDING_TOOL_LIMIT: Duration = Duration::from_millis(500);
/// How many such calls wait at once, and how many are remembered with their announcements. With one more, all are reported.
pub(super) const MAX_UNTOLD_TOOLS: usize = 16;

/// The turn that the agent takes.
pub(super) struct TalkTurn {
    pub(super) attempt: Attempt,
    pub(super) request: u64,
    /// The text since the last part.
    pub(super) text: String,
    reply_bytes: usize,
    /// How many parts were reported.
    pub(super) parts: usize,
    pub(super) heard_bytes: u64,
    pub(super) last_heard: Instant,
    pub(super) tools: HashMap<String, ToolLine>,
    tool_order: VecDeque<String>,
    /// Calls that were not reported yet, and since when. Agents announce a call before they know its input, and its line is written once.
    pub(super) untold: VecDeque<(String, Instant)>,
    /// What the agent announced of calls before they began, by their ids. A request for a permission may not repeat it.
    announced: VecDeque<(String, String)>,
    /// When a cancel must be answered, if it was cancelled.
    pub(super) cancel_limit: Option<Instant>,
}

impl TalkTurn {
    pub(super) fn new(attempt: Attempt, request: u64, now: Instant) -> Self {
        Self {
            attempt,
            request,
            text: String::new(),
            reply_bytes: 0,
            parts: 0,
            heard_bytes: 0,
            last_heard: now,
            tools: HashMap::new(),
            tool_order: VecDeque::new(),
            untold: VecDeque::new(),
            announced: VecDeque::new(),
            cancel_limit: None,
        }
    }

    /// When the calls that were not reported yet are due.
    pub(super) fn untold_due(&self) -> Option<Instant> {
        self.untold.front().map(|(_, since)| *since + PENDING_TOOL_LIMIT)
    }
}

impl Talk {
    /// The agent has answered the prompt.
    pub(super) fn turn_over(&mut self, outcome: Result<Value, RpcFailure>) {
        self.tell_untold();
        let Some(turn) = self.turn.take() else { return };
        self.flush(&turn.text, &turn.attempt);
        // The agent has no use for answers to requests of an ended turn.
        while let Some(open) = self.permissions.pop_front() {
            self.settle_of(Some(turn.attempt.clone()), open, &Ruling::Cancelled, SettledBy::Cancel);
        }
        let what = match outcome {
            Ok(answer) => AgentNews::Completed { stop_reason: stop_reason(answer["stopReason"].as_str().unwrap_or("end_turn")) },
            // Some agents answer a prompt that was cancelled with an error.
            Err(_) if turn.cancel_limit.is_some() => AgentNews::Completed { stop_reason: StopReason::Cancelled },
            Err(failure) => AgentNews::Failed { fault: AgentFault::Reported, why: shown(&failure) },
        };
        self.tell(Some(turn.attempt), what);
    }

    /// Text of the session between turns, and of other sessions, is no reply to anything.
    pub(super) fn text(&mut self, session: &str, text: &str) {
        if turn_in(&self.stage, &mut self.turn, session).is_some() {
            self.tell_untold();
        }
        let Some(turn) = turn_in(&self.stage, &mut self.turn, session) else { return };
        turn.reply_bytes += text.len();
        if turn.reply_bytes > MAX_REPLY_BYTES {
            return self.end(TalkEnd::Failed(AgentFault::Garbled, format!("the agent wrote a reply of more than {MAX_REPLY_BYTES} bytes")));
        }
        turn.text.push_str(text);
        let attempt = turn.attempt.clone();
        self.tell(Some(attempt), AgentNews::Draft(text.to_owned()));
    }

    /// The agent begins a tool call, or changes one.
    pub(super) fn tool(&mut self, session: &str, news: ToolNews, now: Instant) {
        let Some(turn) = turn_in(&self.stage, &mut self.turn, session) else { return };
        if let Some(detail) = news.detail {
            turn.announced.retain(|(id, _)| *id != news.id);
            turn.announced.push_back((news.id.clone(), detail));
            if turn.announced.len() > MAX_UNTOLD_TOOLS {
                turn.announced.pop_front();
            }
        }
        let before = turn.tools.get(&news.id);
        let is_new = before.is_none();
        // A call without a word about it has begun; one that is called pending has not.
        let is_pending = news.status == Some(ToolStatus::Pending);
        let mut line = before.cloned().unwrap_or_else(|| ToolLine {
            id: news.id.clone(),
            title: news.title.clone().unwrap_or_else(|| news.id.clone()),
            kind: None,
            status: ToolStatus::Pending,
        });
        line.title = news.title.filter(|title| !title.is_empty()).unwrap_or(line.title);
        line.kind = news.kind.or(line.kind);
        line.status = news.status.unwrap_or(line.status);
        if before == Some(&line) {
            return;
        }
        turn.parts += 1;
        if turn.parts > MAX_TURN_PARTS {
            return self.too_many_parts();
        }
        turn.tools.insert(news.id.clone(), line.clone());
        if is_new {
            turn.tool_order.push_back(news.id.clone());
            if turn.tool_order.len() > MAX_KNOWN_TOOLS
                && let Some(oldest) = turn.tool_order.pop_front()
            {
                turn.tools.remove(&oldest);
            }
        }
        let is_waiting = turn.untold.iter().any(|(id, _)| *id == news.id);
        if is_new && !is_waiting {
            turn.untold.push_back((news.id, now));
        } else if !is_waiting {
            let attempt = turn.attempt.clone();
            return self.tell(Some(attempt), AgentNews::Tool(line));
        }
        if !is_pending || turn.untold.len() > MAX_UNTOLD_TOOLS {
            // Calls that were announced before it are reported before it.
            self.tell_untold();
        }
    }

    /// Reports the calls that were held back, as they stand.
    pub(super) fn tell_untold(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if turn.untold.is_empty() {
            return;
        }
        let (attempt, text) = (turn.attempt.clone(), std::mem::take(&mut turn.text));
        let lines: Vec<ToolLine> = turn.untold.drain(..).filter_map(|(id, _)| turn.tools.get(&id).cloned()).collect();
        // A part ends where the agent begins to do something, so that people read words and deeds in their order.
        self.flush(&text, &attempt);
        for line in lines {
            self.tell(Some(attempt.clone()), AgentNews::Tool(line));
        }
    }

    /// The detail of a call in a request for a permission, together with what was announced before, if that is something else.
    pub(super) fn with_announced(&self, call: &str, detail: Option<String>) -> Option<String> {
        let of_call = |turn: &TalkTurn| turn.announced.iter().find(|(id, _)| id == call).map(|(_, detail)| detail.clone());
        let announced = self.turn.as_ref().and_then(of_call);
        match (detail, announced) {
            (Some(detail), Some(announced)) if !detail.contains(&announced) => Some(format!("{detail} {announced}")),
            (detail, announced) => detail.or(announced),
        }
    }

    /// Ends a turn that has more parts than may be kept.
    pub(super) fn too_many_parts(&mut self) {
        self.end(TalkEnd::Failed(AgentFault::Garbled, format!("the agent did more than {MAX_TURN_PARTS} things in one turn")));
    }

    /// Tells a part of the reply. Blank lines around it are the agent's way to set it off from what came before; people and scripts have their own.
    pub(super) fn flush(&mut self, text: &str, attempt: &Attempt) {
        if !text.trim().is_empty() {
            self.tell(Some(attempt.clone()), AgentNews::Text(text.trim_matches('\n').to_owned()));
        }
    }
}

/// The turn, if it is in this session.
fn turn_in<'a>(stage: &Stage, turn: &'a mut Option<TalkTurn>, session: &str) -> Option<&'a mut TalkTurn> {
    match stage {
        Stage::Open { session: own } if own == session => turn.as_mut(),
        Stage::Greeting { .. } | Stage::Opening { .. } | Stage::Settling { .. } | Stage::Open { .. } | Stage::Over => None,
    }
}

fn stop_reason(word: &str) -> StopReason {
    match word {
        "end_turn" => StopReason::EndTurn,
        "max_tokens" => StopReason::MaxTokens,
        "max_turn_requests" => StopReason::MaxTurnRequests,
        "refusal" => StopReason::Refusal,
        "cancelled" => StopReason::Cancelled,
        other => StopReason::Other(one_line(other, MAX_FAILURE_CHARS)),
    }
}
