//! Agents over the Model Context Protocol.

mod beside;
mod first_process;
mod http;
mod owner;
mod patience;
mod quiet;
mod slow_start;
mod task;
mod told;
mod tools;
mod tree;

use crate::support::*;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

pub(crate) const OLD: &str = "2025-11-25";
pub(crate) const NEW: &str = "2026-07-28";
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A client that speaks to `outlast mcp` over its standard streams, one line for each message.
pub(crate) struct Agent {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    /// What every request says about its sender; nothing in the old era.
    meta: Option<Value>,
    next: u64,
    /// What came beside answers.
    pub(crate) notified: Vec<Value>,
}

impl Agent {
    /// One that has said `initialize`.
    pub(crate) fn old(p: &Product, name: &str, args: &[&str]) -> Self {
        Self::declaring(p, name, args, json!({}))
    }

    /// One of the old era that declares these capabilities.
    pub(crate) fn declaring(p: &Product, name: &str, args: &[&str], capabilities: Value) -> Self {
        let mut agent = Self::start(p, args);
        let said = agent
            .ask("initialize", json!({"protocolVersion": OLD, "capabilities": capabilities, "clientInfo": {"name": name, "version": "1"}}));
        assert_eq!(said["serverInfo"]["name"], "outlast", "{said}");
        agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    /// One of the new era, which says with each request who it is.
    pub(crate) fn new(p: &Product, name: &str, args: &[&str], capabilities: Value) -> Self {
        let mut agent = Self::start(p, args);
        agent.meta = Some(meta(name, capabilities));
        agent
    }

    fn start(p: &Product, args: &[&str]) -> Self {
        Self::of(p.command(["mcp"].iter().chain(args)))
    }

    /// The client of a server that this command starts.
    pub(crate) fn of(mut server: std::process::Command) -> Self {
        let mut child = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, to, from, meta: None, next: 0, notified: Vec::new() }
    }

    pub(crate) fn say(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.to.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// The next message.
    pub(crate) fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the server has left");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request, whose number is returned.
    pub(crate) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if let (Some(meta), Value::Object(all)) = (&self.meta, &mut params) {
            let own = all.entry("_meta").or_insert_with(|| json!({}));
            own.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
        }
        self.say(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    /// The answer to a request, whole.
    pub(crate) fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear();
            if message["id"] == id {
                return message;
            }
            self.notified.push(message);
        }
    }

    /// The result of a request.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let said = self.answer(id);
        assert!(said.get("error").is_none(), "{method}: {said}");
        said["result"].clone()
    }

    /// The error that a request gets.
    pub(crate) fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let said = self.answer(id);
        assert!(said.get("error").is_some(), "{method}: {said}");
        said["error"].clone()
    }

    /// The result of a tool.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The answer of a tool as an object.
    pub(crate) fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        object(&self.call(tool, arguments))
    }

    /// The owner of its calls, which an answer names if its call asks for it.
    pub(crate) fn owner(&mut self) -> Value {
        self.ask("tools/call", json!({"name": "list", "arguments": {}, "_meta": {"outlast/owner": true}}))["_meta"]["outlast/owner"].clone()
    }

    /// How many bytes wait to be read.
    pub(crate) fn unread(&self) -> u64 {
        rustix::io::ioctl_fionread(self.from.get_ref()).unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with its agent, as a crash does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Leaves, and waits for the server to do so.
    pub(crate) fn leave(mut self) {
        drop(self.to.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // A failed test must not leave the child.
        let _over = self.child.kill();
        let _over = self.child.wait();
    }
}

/// What a request of the new era says about its sender.
pub(crate) fn meta(name: &str, capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": {"name": name, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// What a client declares that drives tasks.
pub(crate) fn with_tasks() -> Value {
    json!({"extensions": {TASKS: {}}})
}

/// The texts of a result.
pub(crate) fn texts(result: &Value) -> Vec<String> {
    result["content"].as_array().unwrap().iter().filter_map(|c| c["text"].as_str().map(str::to_owned)).collect()
}

/// A result as an object: its structured content, or its text if there is none.
pub(crate) fn object(result: &Value) -> Value {
    match &result["structuredContent"] {
        Value::Null => serde_json::from_str(&texts(result)[0]).unwrap_or_default(),
        structured => structured.clone(),
    }
}

/// The notices of a result. They are also in its first text, which then is the structured content as JSON, and nowhere else.
pub(crate) fn notices(result: &Value) -> Vec<Value> {
    let (all, texts) = (object(result), texts(result));
    let told = all["notices"].as_array().cloned().unwrap_or_default();
    assert!(texts.len() == 1 && result["_meta"].get("outlast/notices").is_none(), "{result}");
    if !told.is_empty() {
        assert_eq!(serde_json::from_str::<Value>(&texts[0]).unwrap(), all);
    }
    told
}
