//! Kimi Code, started by `outlast acp-proxy`. It runs its commands in terminals of its client, which the proxy provides.

use super::model::{Model, RUN};
use super::npm::Npm;
use anyhow::{Context, Result, bail, ensure};
use outlast_testkit::product::{PATIENCE, Product, eventually, kill_and_wait, wait_for_end};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};

const KIMI: &str = "@moonshot-ai/kimi-code";
static COUNT: AtomicU32 = AtomicU32::new(0);

pub(super) fn run(npm: &Npm, program: &Path) -> Result<()> {
    let version = npm.version(KIMI).context("its version")?;
    println!("kimi-acp {version}: behind `outlast acp-proxy`");
    let stage = KimiStage { product: Product::new(program), model: Model::start()?, npm };
    stage.configure()?;
    let session = stage.a_turn()?;
    stage.an_engine_killed(&session)?;
    stage.a_proxy_killed(&session)?;
    Ok(())
}

struct KimiStage<'a> {
    product: Product,
    model: Model,
    npm: &'a Npm,
}

impl KimiStage<'_> {
    fn configure(&self) -> Result<()> {
        let dir = self.product.user().join(".kimi-code");
        std::fs::create_dir_all(&dir)?;
        let config = format!(
            "default_model = \"mock\"\ntelemetry = false\n\n[models.mock]\nprovider = \"mock\"\nmodel = \"mock\"\nmax_context_size = 100000\n\n\
             [providers.mock]\ntype = \"openai\"\nbase_url = \"{}\"\napi_key = \"x\"\n",
            self.model.url()
        );
        std::fs::write(dir.join("config.toml"), config).context("cannot configure it")
    }

    /// A proxy and its agent. Everything the agent sends is recorded.
    fn start(&self) -> Result<AcpClient> {
        let said = self.product.work().join(format!("said-{}.jsonl", COUNT.fetch_add(1, Relaxed)));
        let mut command = self.product.command(["acp-proxy", "--", "sh", "-c", "\"$1\" acp | tee \"$2\"", "agent"]);
        command.arg(self.npm.program("kimi")).arg(&said);
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.npm.bin().display());
        command.env("PATH", path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut proxy = command.spawn().context("no proxy")?;
        let (says, hears) = (proxy.stdin.take(), lines(BufReader::new(proxy.stdout.take().context("a pipe")?)));
        let mut client = AcpClient { proxy, says, hears, said, asked: 0, text: String::new(), shown: String::new() };
        let said = client.ask("initialize", json!({"protocolVersion": 1, "clientCapabilities": {"terminal": false}}))?;
        ensure!(said["protocolVersion"] == 1, "another protocol: {said}");
        Ok(client)
    }

    /// From create to release, in one turn. The session it was in.
    fn a_turn(&self) -> Result<String> {
        let mut client = self.start()?;
        let opened = client.ask("session/new", json!({"cwd": self.product.work(), "mcpServers": []}))?;
        let session = opened["sessionId"].as_str().context("no session")?.to_owned();
        let said = client.prompt(&session, &format!("{RUN}echo one; echo two >&2; exit 3"))?;
        ensure!(said["stopReason"] == "end_turn", "the turn ended with {said}");
        let all = self.processes(&session);
        let [one] = &all[..] else { bail!("one process was to be there: {all:?}") };
        ensure!(one["exit_code"] == 3 && one["session_key"] == format!("acp:{session}"), "not its own: {one}");
        let told = self.model.tools_said().join("\n");
        ensure!(told.contains("one") && told.contains("two"), "the model was not told what the command said: {told:?}");
        ensure!(self.drained(&session).is_empty(), "the end was told twice");
        let calls = client.terminal_calls();
        for call in ["create", "wait_for_exit", "output", "release"] {
            ensure!(calls.iter().any(|c| c == call), "it never asked for terminal/{call}: {calls:?}");
        }
        println!("  a turn: terminal {}, exit code 3, and the model read {:?}", one["session_id"], short(&told));
        println!("  the agent asked for {}", calls.join(", "));
        ensure!(client.shown.contains("\none\ntwo\n") && client.shown.ends_with("Exit code 3."), "the client was shown {:?}", client.shown);
        println!("  the client was shown {:?}, and {:?}", short(&client.shown), short(&client.text));
        client.leave()?;
        Ok(session)
    }

    /// The engine is killed while the agent waits.
    fn an_engine_killed(&self, session: &str) -> Result<()> {
        let mut client = self.resume(session)?;
        let go = self.product.work().join("go-1");
        let turn = client.begin(
            "session/prompt",
            prompt(session, &format!("{RUN}echo begun; until [ -e {} ]; do sleep 0.1; done; echo ended", go.display())),
        );
        let id = self.running(session, &mut client)?;
        self.product.kill_engine();
        self.product.kill_engine();
        std::fs::write(&go, "")?;
        let said = client.answer(turn)?;
        ensure!(said["stopReason"] == "end_turn", "the turn ended with {said}");
        let told = self.model.tools_said().pop().unwrap_or_default();
        ensure!(told.contains("begun") && told.contains("ended"), "the model was told {told:?}");
        ensure!(self.drained(session).is_empty(), "the end was told twice");
        println!("  engine killed twice in mid-wait: {id} ended by itself, and the model read {:?}", short(&told));
        client.leave()
    }

    /// Proxy and agent are killed while the agent waits; both start again, and the agent is notified once.
    fn a_proxy_killed(&self, session: &str) -> Result<()> {
        let mut client = self.resume(session)?;
        let go = self.product.work().join("go-2");
        client.begin("session/prompt", prompt(session, &format!("{RUN}until [ -e {} ]; do sleep 0.1; done; exit 42", go.display())));
        let id = self.running(session, &mut client)?;
        let agents = below(client.proxy.id());
        kill_and_wait(client.proxy.id())?;
        for agent in &agents {
            kill_and_wait(*agent)?;
        }
        client.proxy.wait()?;
        drop(client);
        std::fs::write(&go, "")?;
        let ended = self.product.wait(&id);
        ensure!(ended["exit_code"] == 42, "it was harmed: {ended}");
        let told = self.drained(session);
        let [notice] = &told[..] else { bail!("one notice was to be there: {told:?}") };
        let mut client = self.resume(session)?;
        let said = client.prompt(session, notice)?;
        ensure!(said["stopReason"] == "end_turn", "the turn ended with {said}");
        let heard = self.model.users_said();
        let times = heard.iter().filter(|text| text.contains(&id)).count();
        ensure!(times == 1, "the model heard of {id} {times} times");
        ensure!(self.drained(session).is_empty(), "the end was told twice");
        println!("  proxy and agent killed in mid-wait: {id} exited 42, and the resumed agent was told once");
        client.leave()
    }

    fn resume(&self, session: &str) -> Result<AcpClient> {
        let mut client = self.start()?;
        client.ask("session/resume", json!({"sessionId": session, "cwd": self.product.work(), "mcpServers": []}))?;
        Ok(client)
    }

    fn processes(&self, session: &str) -> Vec<Value> {
        let listed = self.product.json(["list", "--all", "--session", &format!("acp:{session}")]);
        let ids = listed["processes"].as_array().cloned().unwrap_or_default();
        ids.iter().map(|p| self.product.json(["poll", p["session_id"].as_str().unwrap_or_default()])).collect()
    }

    /// The process that runs, once it does and the agent waits for its end.
    fn running(&self, session: &str, client: &mut AcpClient) -> Result<String> {
        eventually("a command that runs", || {
            // What the agent asks meanwhile, may it run this, wants an answer.
            client.hear().ok()?;
            client.terminal_calls().iter().find(|call| *call == "wait_for_exit")?;
            let of = self.processes(session);
            of.iter().find(|p| p["status"] == "running").and_then(|p| p["session_id"].as_str()).map(str::to_owned).map(Ok)
        })
    }

    /// The texts of the notices that wait for a conversation, which are taken by this.
    fn drained(&self, session: &str) -> Vec<String> {
        let said = self.product.json(["events", "drain", "--session", &format!("acp:{session}")]);
        said["events"].as_array().into_iter().flatten().filter_map(|e| e["text"].as_str()).map(str::to_owned).collect()
    }
}

fn prompt(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

/// An ACP client without terminals, that allows everything.
struct AcpClient {
    proxy: Child,
    says: Option<ChildStdin>,
    hears: Receiver<String>,
    /// Where everything that the agent says is written down.
    said: PathBuf,
    asked: u64,
    /// What the agent said.
    text: String,
    /// What was shown last in a tool call.
    shown: String,
}

impl AcpClient {
    fn prompt(&mut self, session: &str, text: &str) -> Result<Value> {
        self.ask("session/prompt", prompt(session, text))
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        let id = self.begin(method, params);
        self.answer(id).with_context(|| format!("{method} was not done"))
    }

    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.asked += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}));
        self.asked
    }

    fn say(&mut self, message: &Value) {
        if let Some(says) = &mut self.says {
            // A proxy that has gone is noticed by what it does not answer.
            let _gone = writeln!(says, "{message}").and_then(|()| says.flush());
        }
    }

    /// The answer to a request, with everything on the way to it.
    fn answer(&mut self, id: u64) -> Result<Value> {
        loop {
            let line = self.hears.recv_timeout(PATIENCE).context("it says nothing")?;
            let message: Value = serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))?;
            if message["method"].is_null() && message["id"] == id {
                ensure!(message["error"].is_null(), "refused: {}", message["error"]);
                return Ok(message["result"].clone());
            }
            self.take(&message)?;
        }
    }

    /// Takes what was said so far.
    fn hear(&mut self) -> Result<()> {
        while let Ok(line) = self.hears.try_recv() {
            self.take(&serde_json::from_str(&line)?)?;
        }
        Ok(())
    }

    fn take(&mut self, message: &Value) -> Result<()> {
        let (method, params) = (message["method"].as_str().unwrap_or_default(), &message["params"]);
        ensure!(!method.starts_with("terminal/"), "a terminal was asked of the client: {message}");
        match method {
            "session/request_permission" => {
                let options = params["options"].as_array().context("no options")?;
                let allow = options
                    .iter()
                    .find(|o| o["kind"].as_str().is_some_and(|k| k.starts_with("allow")))
                    .context("nothing can be allowed")?;
                let outcome = json!({"outcome": "selected", "optionId": allow["optionId"]});
                self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": {"outcome": outcome}}));
            }
            "session/update" => {
                let update = &params["update"];
                if update["sessionUpdate"] == "agent_message_chunk" {
                    self.text += update["content"]["text"].as_str().unwrap_or_default();
                }
                for content in update["content"].as_array().into_iter().flatten() {
                    ensure!(content["type"] != "terminal", "a terminal was shown that the client does not have: {message}");
                    if let Some(text) = content["content"]["text"].as_str() {
                        text.clone_into(&mut self.shown);
                    }
                }
            }
            _ if !message["id"].is_null() && !method.is_empty() => {
                let error = json!({"code": -32601, "message": "this client cannot do that"});
                self.say(&json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            }
            _ => {}
        }
        Ok(())
    }

    /// What the agent asked for of terminals, in this order.
    fn terminal_calls(&self) -> Vec<String> {
        let said = std::fs::read_to_string(&self.said).unwrap_or_default();
        let method =
            |line: &str| serde_json::from_str::<Value>(line).ok()?["method"].as_str()?.strip_prefix("terminal/").map(str::to_owned);
        said.lines().filter_map(method).collect()
    }

    /// Leaves, and waits until proxy and agent have.
    fn leave(mut self) -> Result<()> {
        drop(self.says.take());
        ensure!(wait_for_end(self.proxy.id(), PATIENCE), "the proxy stays");
        println!("  left: the proxy exited with {}", self.proxy.wait()?);
        Ok(())
    }
}

impl Drop for AcpClient {
    fn drop(&mut self) {
        drop(self.says.take());
        // Over already, unless something failed.
        let _over = self.proxy.kill();
        let _status = self.proxy.wait();
    }
}

fn lines(mut from: impl BufRead + Send + 'static) -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        loop {
            let mut line = String::new();
            match from.read_line(&mut line) {
                Ok(1..) if tell.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    lines
}

/// The pids of what `pid` started, and of what that did.
fn below(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let own: Vec<u32> = text.split_whitespace().filter_map(|p| p.parse().ok()).collect();
    own.iter().copied().chain(own.iter().flat_map(|p| below(*p))).collect()
}

fn short(text: &str) -> String {
    text.chars().take(120).collect()
}
