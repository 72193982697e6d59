//! An agent for tests: it speaks ACP and does what a script says.
//!
//! `scripted_agent SCRIPT` reads a JSON object with `capabilities`, `start` (steps before it reads anything), `replay` (steps of a `session/load`), `late_replay` (steps
//! after the answer to it), `refuse` (methods that it answers with an error) and `turns` (a list of steps for each prompt; the last one is used for all that follow). Every line that it reads is appended to SCRIPT.heard.

use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};

fn main() {
    let path = std::env::args().nth(1).expect("a script");
    let script: Value = serde_json::from_slice(&std::fs::read(&path).expect("a script")).expect("JSON");
    let heard = std::fs::OpenOptions::new().append(true).create(true).open(format!("{path}.heard")).expect("a file");
    let mut agent = Agent { heard, lines: std::io::stdin().lock(), session: "sess-1".into(), asked: 100, is_cancelled: false };
    agent.play(&script["start"], &Value::Null);
    let mut turn = 0;
    while let Some(message) = agent.hear() {
        let (method, params) = (message["method"].as_str().unwrap_or(""), &message["params"]);
        if script["refuse"].as_array().is_some_and(|all| all.contains(&json!(method))) {
            agent.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": format!("no {method} today")}}));
            continue;
        }
        let result = match method {
            "initialize" => json!({"protocolVersion": 1, "agentCapabilities": script["capabilities"], "authMethods": []}),
            "session/new" => json!({"sessionId": agent.session}),
            "session/resume" | "session/load" => {
                agent.session = params["sessionId"].as_str().expect("a session").into();
                if method == "session/load" {
                    agent.play(&script["replay"], &Value::Null);
                }
                json!({})
            }
            "session/prompt" => {
                agent.is_cancelled = false;
                let turns = script["turns"].as_array().expect("turns");
                let steps = &turns[turn.min(turns.len() - 1)];
                turn += 1;
                match agent.play(steps, &params["prompt"]) {
                    Some(error) => {
                        agent.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
                        continue;
                    }
                    None => json!({"stopReason": if agent.is_cancelled { "cancelled" } else { "end_turn" }}),
                }
            }
            _ if message["id"].is_null() || method.is_empty() => continue,
            _ => {
                agent.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}));
                continue;
            }
        };
        agent.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        if method == "session/load" {
            agent.play(&script["late_replay"], &Value::Null);
        }
    }
}

struct Agent {
    heard: std::fs::File,
    lines: std::io::StdinLock<'static>,
    session: String,
    asked: u64,
    is_cancelled: bool,
}

impl Agent {
    fn say(&self, message: &Value) {
        self.write(&format!("{message}\n"));
    }

    fn write(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).expect("a reader");
    }

    fn hear(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.lines.read_line(&mut line).expect("a line") == 0 {
            return None;
        }
        self.heard.write_all(line.as_bytes()).expect("a file");
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    fn update(&self, update: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": self.session, "update": update}}));
    }

    fn text(&self, text: &str) {
        self.update(&json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}));
    }

    /// Asks the client, and reads on until the answer comes. Nothing if the turn was cancelled meanwhile and `or_cancel` says that this ends the wait.
    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        self.asked += 1;
        params["sessionId"] = json!(self.session);
        self.say(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
        loop {
            let message = self.hear().expect("an answer");
            if message["method"] == "session/cancel" {
                self.is_cancelled = true;
            } else if message["id"] == self.asked {
                return message;
            }
        }
    }

    /// Plays steps. Returns the error that the turn is to be answered with, if there is one.
    fn play(&mut self, steps: &Value, prompt: &Value) -> Option<Value> {
        for step in steps.as_array().into_iter().flatten() {
            // `of` adds to `ask`, and comes after it.
            let (what, with) = step.as_object().and_then(|step| step.iter().next()).expect("one step");
            let word = with.as_str().unwrap_or_default();
            match what.as_str() {
                "text" => self.text(word),
                "env" => self.text(&format!("{word}={}", std::env::var(word).unwrap_or_else(|_| "(unset)".into()))),
                "echo" => {
                    let blocks = prompt.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
                    self.text(&blocks.collect::<Vec<_>>().join("|"));
                }
                "update" => self.update(with),
                "raw" => self.write(word),
                "stderr" => eprintln!("{word}"),
                "repeat" => (0..with.as_u64().expect("a number")).for_each(|n| self.text(&format!("{n} "))),
                "endless" => loop {
                    self.write(&"x".repeat(1 << 10));
                },
                "call" => {
                    let answer = self.ask(with["method"].as_str().expect("a method"), with["params"].clone());
                    self.text(&format!("{}", answer.get("result").or(answer.get("error")).expect("an answer")));
                }
                "ask" => {
                    let option = |kind: &str| json!({"optionId": kind, "name": kind, "kind": kind});
                    let options = ["allow_once", "allow_always", "reject_once"].map(option);
                    let mut params = json!({"toolCall": {"toolCallId": "t", "title": with, "kind": "execute"}, "options": options});
                    if let Some(of) = step.get("of") {
                        params["toolCall"]["content"] = json!([{"type": "content", "content": {"type": "text", "text": of}}]);
                    }
                    let answer = self.ask("session/request_permission", params);
                    self.text(&format!("{}", answer["result"]["outcome"]));
                }
                "terminal" => {
                    let created = self.ask("terminal/create", json!({"command": word}));
                    let id = created["result"]["terminalId"].clone();
                    let of = || json!({"terminalId": id});
                    let exit = self.ask("terminal/wait_for_exit", of());
                    let output = self.ask("terminal/output", of());
                    self.ask("terminal/release", of());
                    self.text(&format!("{} {}", output["result"]["output"], exit["result"]["exitCode"]));
                }
                "spawn" => drop(std::process::Command::new("sh").args(["-c", word]).spawn().expect("a child")),
                "touch" => std::fs::write(word, "").expect("a file"),
                // No descriptor tells of a file that another program makes; the test has a limit of its own.
                "wait_file" => {
                    while !std::path::Path::new(word).exists() {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                }
                "wait_lines" => {
                    let (path, count) = (with[0].as_str().expect("a path"), with[1].as_u64().expect("a number"));
                    while (std::fs::read_to_string(path).unwrap_or_default().lines().count() as u64) < count {
                        std::thread::sleep(std::time::Duration::from_millis(2));
                    }
                }
                "until_cancelled" => {
                    while !self.is_cancelled {
                        self.is_cancelled = self.hear().expect("a cancel")["method"] == "session/cancel";
                    }
                }
                "deaf" => loop {
                    std::thread::park();
                },
                "exit" => std::process::exit(i32::try_from(with.as_i64().expect("a code")).expect("a code")),
                "fail" => return Some(json!({"code": -32603, "message": with})),
                other => panic!("no step {other}"),
            }
        }
        None
    }
}
