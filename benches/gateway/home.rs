//! A home with a gateway and agents.

use crate::bench_suite::harness::disk;
use crate::bench_suite::tools::clock;
use anyhow::{Context, Result, ensure};
use outlast_client::{AgentChoice, Chat, ChatEvent, ChatFeed, Client, Connect, Content, Heard, Setup, Start, TurnInfo, message_id};
use outlast_testkit::product::{PATIENCE, Product, wait_for_end};
use serde_json::{Value, json};
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use tempfile::TempDir;

/// A gateway that keeps running. Dropping it stops all processes of the home.
pub(super) struct GatewayHome {
    pub(super) product: Product,
    /// The pid of the gateway.
    pub(super) gateway: u32,
    stamp: String,
    _disk: TempDir,
}

impl GatewayHome {
    /// A home in a new directory on a disk, unless another place is given: in memory, a sync costs nothing.
    pub(super) fn new(program: &Path, stamp: &Path, place: Option<&Path>) -> Result<Self> {
        let disk = place.map_or_else(disk, |place| Ok(tempfile::Builder::new().prefix("ol-bench-").tempdir_in(place)?))?;
        let product = Product::in_dir(program, disk.path());
        let us = std::env::current_exe()?;
        product.configure(&format!(
            "[engine]\nidle_exit_seconds = 0\n[gateway]\nidle_exit_seconds = 0\nlog = \"debug\"\n[gateway.agents.bench]\nargv = [{:?}, \"__gateway-agent\"]\n",
            us.display().to_string()
        ));
        product.engine();
        // A call starts it, so that it has the product's environment.
        let said = product.call(["chat", "send", "first", "--json", "--command", "cat", "--wait", "hello"]).json();
        ensure!(said["outcome"] == "completed", "{said}");
        let status = product.json(["gateway", "status"]);
        let gateway = status["pid"].as_u64().with_context(|| format!("no gateway: {status}"))? as u32;
        Ok(Self { product, gateway, stamp: stamp.display().to_string(), _disk: disk })
    }

    fn to(&self) -> Connect {
        let mut to = Connect::to(self.product.home().root);
        to.start = Start::Never;
        to
    }

    /// A connection of its own to the gateway.
    pub(super) async fn chat(&self) -> Result<Chat> {
        Chat::connect(&self.to()).await.context("cannot connect to the gateway")
    }

    /// The same to the engine.
    pub(super) async fn client(&self) -> Result<Client> {
        Client::connect(&self.to()).await.context("cannot connect to the engine")
    }

    /// An ACP agent that answers each prompt with the time at which it read it.
    pub(super) fn acp(&self) -> AgentChoice {
        AgentChoice::Agent("bench".into())
    }

    /// A command that does the same, started for each turn.
    pub(super) fn command(&self) -> AgentChoice {
        AgentChoice::Command(format!("exec '{}' read", self.stamp))
    }

    /// Opens conversations, and runs a turn in each, so that its agent runs.
    pub(super) async fn open(&self, name: &str, agent: &AgentChoice, many: usize) -> Result<Vec<Conversation>> {
        let mut all = Vec::new();
        for n in 0..many {
            let key = format!("agent:main:local:dm:{name}-{n}");
            let chat = self.chat().await?;
            let setup = Setup::default().answered_by(agent.clone()).in_dir(self.product.work());
            let mut feed = chat.follow(&key);
            chat.open(&key, &setup).await?;
            while !matches!(feed.next().await?, Heard::Event(ChatEvent::CaughtUp { .. })) {}
            let mut conversation = Conversation { key, chat, feed };
            conversation.say("hello").await?;
            all.push(conversation);
        }
        Ok(all)
    }
}

impl Drop for GatewayHome {
    fn drop(&mut self) {
        self.product.call(["gateway", "stop", "--timeout", "0"]);
        wait_for_end(self.gateway, PATIENCE);
    }
}

/// A conversation that is followed over a connection of its own.
pub(super) struct Conversation {
    pub(super) key: String,
    chat: Chat,
    feed: ChatFeed,
}

/// A turn as observed from outside, in nanoseconds of the monotonic clock.
pub(super) struct Seen {
    /// When it was observed as running.
    pub(super) begun: u64,
    /// When the agent had read its prompt.
    pub(super) read: u64,
    /// When its end was observed.
    pub(super) ended: u64,
    pub(super) turn: TurnInfo,
}

impl Conversation {
    /// Sends a message, and waits for the answer.
    pub(super) async fn say(&mut self, words: &str) -> Result<Seen> {
        let id = message_id()?;
        self.chat.send(&self.key, &id, words, &Setup::default()).await?;
        self.turn().await
    }

    /// The next turn.
    pub(super) async fn turn(&mut self) -> Result<Seen> {
        let (mut begun, mut reply) = (None, String::new());
        loop {
            let heard = tokio::time::timeout(PATIENCE, self.feed.next()).await.with_context(|| format!("{} has no turn", self.key))??;
            let now = clock();
            match heard {
                Heard::Event(ChatEvent::Part { part }) => {
                    if let Content::Text(text) = part.content() {
                        reply = text.text;
                    }
                }
                Heard::Event(ChatEvent::Turn { turn }) if turn.is_finished() => {
                    ensure!(turn.outcome == Some(outlast_client::TurnOutcome::Completed), "{turn:?}");
                    let read = reply.trim().parse().with_context(|| format!("{reply:?} is no time"))?;
                    return Ok(Seen { begun: begun.context("a turn begins before it ends")?, read, ended: now, turn: *turn });
                }
                Heard::Event(ChatEvent::Turn { turn }) if turn.state == outlast_client::TurnState::Running => begun = begun.or(Some(now)),
                Heard::Event(_) => {}
                other => anyhow::bail!("the gateway is gone: {other:?}"),
            }
        }
    }
}

/// `xtask __gateway-agent`: an ACP agent that answers each prompt with the time at which it read it.
pub(crate) fn agent() -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let (line, now) = (line?, clock());
        let message: Value = serde_json::from_str(&line)?;
        let answer = |result: Value| format!("{}\n", json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        let said = match message["method"].as_str() {
            Some("initialize") => answer(json!({"protocolVersion": 1, "agentCapabilities": {}})),
            Some("session/new") => answer(json!({"sessionId": "s"})),
            Some("session/prompt") => {
                let text = json!({"type": "text", "text": format!("{now:020}")});
                let update = json!({"sessionUpdate": "agent_message_chunk", "content": text});
                let update = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}});
                // Written at once, so that it comes in one piece.
                format!("{update}\n{}", answer(json!({"stopReason": "end_turn"})))
            }
            _ => continue,
        };
        out.write_all(said.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}
