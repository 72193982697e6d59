//! A scripted model on the loopback, as agents ask one: chat completions, streamed. What it answers depends on what came since it spoke last.
//!
//! `RUN: line` in a user's message is a call of the agent's shell tool; what the tool said, and anything else a user says, is answered with a text that repeats it.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// What a user's message begins with for the model to run the rest.
pub(super) const RUN: &str = "RUN: ";
/// Names that shell tools have.
const SHELLS: &[&str] = &["bash", "shell", "terminal", "run_shell_command", "exec_command", "run_command"];

/// What a model says to a request: a message of the role `assistant`, whole. It may take its time.
pub(crate) type Answer = dyn Fn(&Value) -> Value + Send + Sync;

/// The model. It answers for as long as the program runs.
pub(crate) struct Model {
    port: u16,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Model {
    pub(super) fn start() -> Result<Self> {
        Self::answering(Box::new(answer))
    }

    /// A model that gives prepared answers. It records each question before it answers.
    pub(crate) fn answering(answer: Box<Answer>) -> Result<Self> {
        let answer: Arc<Answer> = answer.into();
        let door = TcpListener::bind(("127.0.0.1", 0)).context("cannot listen on the loopback")?;
        let port = door.local_addr()?.port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let heard = asked.clone();
        std::thread::spawn(move || {
            for stream in door.incoming().flatten() {
                let (heard, answer) = (heard.clone(), answer.clone());
                std::thread::spawn(move || {
                    // Who hangs up before the answer asks again.
                    let _left = serve(&stream, &heard, &*answer);
                });
            }
        });
        Ok(Self { port, asked })
    }

    /// All that it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where it is, as agents want it.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// Every message of the role `tool` that it was shown last, as text.
    pub(super) fn tools_said(&self) -> Vec<String> {
        self.said_by("tool")
    }

    /// Every message of the role `user` that it was shown last, as text.
    pub(super) fn users_said(&self) -> Vec<String> {
        self.said_by("user")
    }

    fn said_by(&self, role: &str) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // What has no tools to offer is no turn: a title, a summary.
        let Some(last) = asked.iter().rev().find(|a| shell(a).is_some()) else { return Vec::new() };
        messages(last).filter(|m| m["role"] == role).map(text).collect()
    }
}

fn serve(mut stream: &TcpStream, asked: &Mutex<Vec<Value>>, answer: &Answer) -> Result<()> {
    let mut lines = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if lines.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            lines.read_line(&mut line)?;
            if line.trim_end().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body)?;
        if !first.contains("/chat/completions") {
            let list = json!({"object": "list", "data": [{"id": "mock", "object": "model"}]}).to_string();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{list}", list.len())?;
            continue;
        }
        let request: Value = serde_json::from_slice(&body).context("the agent did not send JSON")?;
        asked.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let delta = answer(&request);
        let finish = if delta["tool_calls"].is_null() { "stop" } else { "tool_calls" };
        let usage = json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2});
        if request["stream"] != true {
            let choices = json!([{"index": 0, "message": delta, "finish_reason": finish}]);
            let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "mock", "choices": choices, "usage": usage});
            let whole = whole.to_string();
            write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{whole}", whole.len())?;
            continue;
        }
        let chunk = |delta: Value, finish: Value| {
            let choices = json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
            json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": choices, "usage": usage})
        };
        let events = format!("data: {}\n\ndata: {}\n\ndata: [DONE]\n\n", chunk(delta, Value::Null), chunk(json!({}), json!(finish)));
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{events}", events.len())?;
    }
}

/// The model's answer to the messages since its last one: those of the user, with the agent's additions, or the result of the tool.
fn answer(request: &Value) -> Value {
    let all: Vec<&Value> = messages(request).collect();
    let users: Vec<String> = all.iter().rev().take_while(|m| m["role"] == "user").map(|m| text(m)).collect();
    let line = users.iter().find_map(|said| said.split_once(RUN)?.1.lines().next().map(str::to_owned));
    match (line, shell(request)) {
        (Some(line), Some(tool)) => {
            let arguments = json!({"command": line.trim(), "description": "as told"}).to_string();
            let call = json!([{"index": 0, "id": "call_1", "type": "function", "function": {"name": tool, "arguments": arguments}}]);
            json!({"role": "assistant", "content": null, "tool_calls": call})
        }
        _ => json!({"role": "assistant", "content": format!("I read: {}", all.last().map(|m| text(m)).unwrap_or_default())}),
    }
}

/// The agent's shell tool, if it offers one.
pub(crate) fn shell(request: &Value) -> Option<&str> {
    let tools = request["tools"].as_array()?;
    tools.iter().filter_map(|t| t["function"]["name"].as_str()).find(|name| SHELLS.contains(&name.to_ascii_lowercase().as_str()))
}

pub(crate) fn messages(request: &Value) -> impl Iterator<Item = &Value> {
    request["messages"].as_array().into_iter().flatten()
}

/// A message's text, whether it is one or a list of parts.
pub(crate) fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|p| p["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}
