//! Asks the client for input before a request can be answered.

use crate::read;
use outlast_mcp::Token;
use rmcp::model::{ErrorData, InputRequests, InputRequiredResult, InputResponses};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Mutex;

/// The most states of unfinished requests. The oldest is forgotten first.
const MAX_STATES: usize = 256;

/// States that were given out. A client can only send back one of these; it cannot make one up or change it.
#[derive(Debug, Default)]
pub(crate) struct States(Mutex<VecDeque<String>>);

impl States {
    /// A new state, for a step of a request.
    pub(crate) fn give(&self, step: &str) -> Result<String, ErrorData> {
        let drawn = Token::draw().map_err(|e| ErrorData::internal_error(format!("no randomness: {e}"), None))?;
        let state = format!("{step}.{}", drawn.reveal());
        let mut all = self.0.lock().expect("nothing panics while it is held");
        if all.len() == MAX_STATES {
            all.pop_front();
        }
        all.push_back(state.clone());
        Ok(state)
    }

    /// The step of a state, or why the state is not valid.
    pub(crate) fn step(&self, state: &str) -> Result<String, ErrorData> {
        let known = self.0.lock().expect("nothing panics while it is held").iter().any(|given| given == state);
        match state.split_once('.') {
            Some((step, _)) if known => Ok(step.to_owned()),
            _ => Err(ErrorData::invalid_params("requestState is not one that was given out", None)),
        }
    }
}

/// The answer that asks for input.
pub(crate) fn ask(requests: Value, state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    Ok(InputRequiredResult::new(Some(read::<InputRequests>(requests)?), state))
}

/// A question to the user, whose answer has one field.
pub(crate) fn elicit(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

/// A question to the model.
pub(crate) fn sample(text: &str) -> Value {
    let messages = json!([{"role": "user", "content": {"type": "text", "text": text}}]);
    json!({"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}})
}

/// A question for the client's directories.
pub(crate) fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// A field of what the user accepted.
pub(crate) fn accepted<'a>(responses: Option<&'a InputResponses>, key: &str, field: &str) -> Option<&'a Value> {
    let response = responses?.get(key)?;
    (response["action"] == "accept").then(|| response["content"].get(field)).flatten()
}
