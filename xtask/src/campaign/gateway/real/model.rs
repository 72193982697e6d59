//! The model of a round. It answers by the token of the last message, and can be held while it thinks.
//!
//! For `[[m]]` it runs a command with the agent's own shell tool. For `[[s]]` it starts a process with the tools of Outlast. It answers any
//! other token, and the result of a tool, with a text.

use super::super::super::agents::model::{Model, messages, shell, text};
use anyhow::Result;
use serde_json::{Value, json};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The beginning of the gateway's notes, which no other text has.
pub(super) const NOTE: &str = "[Note from the gateway";
/// The mark of a notice that may have been delivered before.
pub(super) const REPEAT: &str = "(this may be a repeat)";

/// The token of a message that is answered at once, of one for which a command is run, of one that starts a process, of that process, and of the last message.
pub(super) const FIRST: &str = "first";
pub(super) const RUNS: &str = "runs";
pub(super) const STARTS: &str = "starts";
pub(super) const NOTICE: &str = "notice";
pub(super) const LAST: &str = "last";

/// When a model is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// It has read the message.
    Asked,
    /// It has read the result of its tool.
    Told,
}

#[derive(Default)]
struct Held {
    /// Where the next request is held.
    at: Option<(Moment, &'static str)>,
    is_held: bool,
}

/// A model that can be held.
pub(super) struct Thinker {
    model: Model,
    held: Arc<(Mutex<Held>, Condvar)>,
}

impl Thinker {
    /// `run` is the line that it runs with the shell, `start` the one that it starts a process with.
    pub(super) fn start(run: String, start: String) -> Result<Self> {
        let held = Arc::new((Mutex::new(Held::default()), Condvar::new()));
        let hand = held.clone();
        let model = Model::answering(Box::new(move |request: &Value| answer(request, &run, &start, &hand)))?;
        Ok(Self { model, held })
    }

    pub(super) fn url(&self) -> String {
        self.model.url()
    }

    /// The requests that were turns: those that offer tools. Titles and summaries do not.
    pub(super) fn turns(&self) -> Vec<Value> {
        self.model.asked().into_iter().filter(|request| shell(request).is_some()).collect()
    }

    /// The next request about this token is held at this moment.
    pub(super) fn arm(&self, moment: Moment, token: &'static str) {
        self.lock().at = Some((moment, token));
    }

    pub(super) fn is_held(&self) -> bool {
        self.lock().is_held
    }

    /// Releases the held request, and holds no others.
    pub(super) fn release(&self) {
        *self.lock() = Held::default();
        self.held.1.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Thinker {
    fn drop(&mut self) {
        self.release();
    }
}

/// The tokens in a text, without those that a note quotes.
pub(super) fn tokens(text: &str) -> Vec<&str> {
    let own = text.lines().filter(|line| !line.starts_with("> "));
    own.flat_map(|line| line.split("[[").skip(1)).filter_map(|rest| Some(rest.split_once("]]")?.0)).collect()
}

fn answer(request: &Value, run: &str, start: &str, hand: &(Mutex<Held>, Condvar)) -> Value {
    let all: Vec<&Value> = messages(request).collect();
    let Some(tool) = shell(request) else { return say("...") };
    let said: Vec<String> = all.iter().filter(|m| m["role"] == "user").map(|m| text(m)).collect();
    let Some(token) = said.iter().rev().find_map(|text| tokens(text).last().map(|token| (*token).to_owned())) else { return say("...") };
    let is_told = all.last().is_some_and(|m| m["role"] == "tool");
    hold(if is_told { Moment::Told } else { Moment::Asked }, &token, hand);
    let ours = request["tools"].as_array().into_iter().flatten().filter_map(|t| t["function"]["name"].as_str());
    let ours = ours.filter(|name| name.contains("outlast")).find(|name| name.ends_with("run") || name.ends_with("terminal"));
    match (token.as_str(), is_told, ours) {
        (RUNS, false, _) => call(tool, &json!({"command": run, "description": "as told"})),
        (STARTS, false, Some(ours)) if ours.ends_with("run") => call(ours, &json!({"command": start, "wait_seconds": 0})),
        (STARTS, false, Some(ours)) => call(ours, &json!({"command": start, "background": true, "notify_on_complete": true})),
        (STARTS, false, None) => say("there are no tools of Outlast"),
        _ => say(&format!("answer to {token}")),
    }
}

fn say(words: &str) -> Value {
    json!({"role": "assistant", "content": words})
}

fn call(tool: &str, arguments: &Value) -> Value {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    json!({"role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
}

/// Waits if the round holds the model.
fn hold(moment: Moment, token: &str, hand: &(Mutex<Held>, Condvar)) {
    let mut held = hand.0.lock().unwrap_or_else(|e| e.into_inner());
    if held.at.is_none_or(|at| at != (moment, token)) || held.is_held {
        return;
    }
    held.is_held = true;
    while held.is_held {
        held = hand.1.wait(held).unwrap_or_else(|e| e.into_inner());
    }
}
