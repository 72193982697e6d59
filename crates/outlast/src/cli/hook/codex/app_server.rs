//! `codex app-server` as a child process, over lines of JSON-RPC.

use super::super::super::Failure;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout, timeout_at};

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// How long it may take to exit once its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// The longest line that is read. A thread is sent with all its turns.
const MAX_LINE_BYTES: u64 = 256 << 20;

pub(super) struct AppServer {
    child: Child,
    input: ChildStdin,
    lines: BufReader<ChildStdout>,
    asked: u64,
    until: Instant,
    /// Ids of messages, and the turn that each started, from notifications.
    turns: Vec<(String, String)>,
    /// Turns that have completed.
    over: Vec<String>,
}

impl AppServer {
    /// Starts one. It is killed when this is dropped.
    pub(super) async fn start(program: &Path, home: Option<&Path>, within: Duration) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.arg("app-server").stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        if let Some(home) = home {
            command.env("CODEX_HOME", home);
        }
        let cannot = |e: std::io::Error| {
            let hint = "is it installed? --program names it; an engine that was started without a caller has the PATH of the one before";
            Failure::refused(format!("cannot run {} app-server: {e}", program.display()), hint)
        };
        let mut child = command.spawn().map_err(cannot)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::fault("codex app-server has no input or output", ""));
        };
        let until = Instant::now() + within;
        let mut codex = Self { child, input, lines: BufReader::new(output), asked: 0, until, turns: Vec::new(), over: Vec::new() };
        let client = json!({"name": "outlast", "title": "Outlast", "version": env!("CARGO_PKG_VERSION")});
        // The queue is part of the experimental API.
        codex.call("initialize", json!({"clientInfo": client, "capabilities": {"experimentalApi": true}})).await?;
        codex.say(&json!({"method": "initialized"})).await?;
        Ok(codex)
    }

    /// Sends a request, and waits for the answer.
    pub(super) async fn call(&mut self, method: &str, params: Value) -> Result<Value, Failure> {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({"id": id, "method": method, "params": params})).await?;
        let until = self.until.min(Instant::now() + ANSWER_TIMEOUT);
        loop {
            let mut message = self.hear(method, until).await?;
            if message["id"] == id && message.get("method").is_none() {
                if let Some(error) = message.get("error") {
                    let why = error["message"].as_str().unwrap_or("no reason given");
                    return Err(Failure::refused(
                        format!("Codex refuses {method}: {why}"),
                        "Codex 0.166 and its home of this user are known to work",
                    ));
                }
                return Ok(message["result"].take());
            }
            self.note(message).await?;
        }
    }

    /// Starts the turn of the queued message with this id, and waits until it has completed.
    pub(super) async fn take_turn(&mut self, thread: &str, mark: &str) -> Result<(), Failure> {
        self.call("thread/resume", json!({"threadId": thread, "excludeTurns": true})).await?;
        let queue = self.call("thread/queue/list", json!({"threadId": thread, "limit": 100})).await?;
        let mut entries = queue["data"].as_array().into_iter().flatten();
        if let Some(ours) = entries.find(|one| one["clientUserMessageId"] == mark) {
            // Codex starts the turn by itself, unless the last turn was interrupted. If it has started it already, it refuses this.
            let _begun = self.call("thread/queue/start", json!({"threadId": thread, "queuedSubmissionId": ours["id"]})).await;
        }
        loop {
            let begun = self.turns.iter().find(|(name, _)| name == mark).map(|(_, turn)| turn.clone());
            if begun.is_some_and(|turn| self.over.contains(&turn)) {
                return Ok(());
            }
            let message = self.hear("the end of the turn", self.until).await?;
            self.note(message).await?;
        }
    }

    /// Handles a notification. A request of Codex is refused, because no user is there to answer it.
    async fn note(&mut self, message: Value) -> Result<(), Failure> {
        let params = &message["params"];
        match message["method"].as_str() {
            Some(_) if message.get("id").is_some() => {
                let refusal = json!({"code": -32601, "message": "no user can answer: this turn was started by a notice"});
                self.say(&json!({"id": message["id"], "error": refusal})).await?;
            }
            Some("item/started" | "item/completed") if params["item"]["type"] == "userMessage" => {
                if let (Some(name), Some(turn)) = (params["item"]["clientId"].as_str(), params["turnId"].as_str()) {
                    self.turns.push((name.to_owned(), turn.to_owned()));
                }
            }
            Some("turn/completed") => self.over.extend(params["turn"]["id"].as_str().map(str::to_owned)),
            _ => {}
        }
        Ok(())
    }

    async fn say(&mut self, message: &Value) -> Result<(), Failure> {
        let gone = |e: std::io::Error| Failure::fault(format!("cannot write to codex app-server: {e}"), "its error output is above");
        self.input.write_all(format!("{message}\n").as_bytes()).await.map_err(gone)?;
        self.input.flush().await.map_err(gone)
    }

    async fn hear(&mut self, what: &str, until: Instant) -> Result<Value, Failure> {
        let mut line = Vec::new();
        let read = timeout_at(until, (&mut self.lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)).await;
        match read {
            Err(_) => Err(Failure::fault(format!("codex app-server did not answer in time: {what}"), "")),
            Ok(Ok(n)) if n > 0 && line.ends_with(b"\n") => {
                serde_json::from_slice(&line).map_err(|_| Failure::fault("codex app-server sent a line that is not JSON", ""))
            }
            Ok(Ok(_)) => Err(Failure::fault("codex app-server exited, or sent a line that is too long", "its error output is above")),
            Ok(Err(e)) => Err(Failure::fault(format!("cannot read from codex app-server: {e}"), "")),
        }
    }

    /// Closes its input and waits for its exit.
    pub(super) async fn end(mut self) {
        drop(self.input);
        if timeout(EXIT_TIMEOUT, self.child.wait()).await.is_err() {
            // It may have exited meanwhile.
            let _gone = self.child.kill().await;
        }
    }
}
