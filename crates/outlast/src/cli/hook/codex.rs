//! `outlast hook codex`

mod app_server;

use super::super::{Context, Failure, some_seconds};
use super::{SessionLock, asked, boundary, own};
use app_server::AppServer;
use clap::Args;
use outlast_client::Owner;
use outlast_tools::{HookInput, ToTell};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The prefix of the keys of its sessions.
const PREFIX: &str = "codex:";

/// The prefix of the id of a message with notices. The ids of the notices follow, joined by `+`.
const MARK: &str = "outlast:";

/// Wake a thread of Codex, or deliver notices between its turns
///
/// For a `[[hook]]` table with `wake = true` and sessions = ["codex:*"]: puts the message into Codex's queue of that thread, which is on disk, and starts the turn
/// unless another Codex has the thread open. It is also the command for Codex's own hooks SessionStart, UserPromptSubmit, PostToolUse and Stop. Standard
/// input tells the two uses apart.
#[derive(Debug, Args)]
pub(crate) struct Codex {
    /// The Codex program
    #[arg(long, value_name = "PROGRAM", default_value = "codex")]
    program: PathBuf,
    /// Codex's home directory [default: CODEX_HOME, else ~/.codex]
    #[arg(long, value_name = "DIR")]
    codex_home: Option<PathBuf>,
    /// How long to wait for the turn, such as 90s or 5m; a longer turn is cut off and continues with the next one. The `[[hook]]` table needs a `timeout_seconds` above this
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, default_value = "10m", allow_negative_numbers = true)]
    timeout: Duration,
    /// Only find out whether Codex's app-server can be started. Nothing is read or delivered
    #[arg(long)]
    check: bool,
    /// As a hook of Codex itself: the lease of the printed notices, such as 30s or 5m
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, default_value = "60s", allow_negative_numbers = true)]
    lease: Duration,
}

impl Codex {
    /// Whether it only tries what a wake needs.
    pub(super) fn is_check(&self) -> bool {
        self.check
    }

    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        if self.check {
            self.app_server(ctx).await?.end().await;
            return Ok(0);
        }
        match asked()? {
            HookInput::Told(told) => self.wake(ctx, told).await,
            HookInput::Called(called) if called.conversation.is_empty() => {
                Err(Failure::refused("standard input has no `session_id`, which names the thread", ""))
            }
            HookInput::Called(called) => {
                let owner = Owner { session: Some(format!("{PREFIX}{}", called.conversation)), ..ctx.owner() };
                boundary::tell(ctx, &called, owner, self.lease).await
            }
            _ => Err(Failure::refused("standard input is of a kind that is not known here", "")),
        }
    }

    async fn app_server(&self, ctx: &Context) -> Result<AppServer, Failure> {
        let home = self.codex_home.as_ref().map(|dir| ctx.world.path(dir));
        AppServer::start(&self.program, home.as_deref(), self.timeout).await
    }

    async fn wake(self, ctx: &Context, told: ToTell) -> Result<i32, Failure> {
        let thread = own(&told.session, PREFIX, "Codex")?.to_owned();
        let lock = SessionLock::acquire(&ctx.settings.home, &told.session, self.timeout).await?;
        let mut codex = self.app_server(ctx).await?;
        // The queue is read first: a message that leaves it meanwhile is found in the thread.
        let mut there = marks(&codex.call("thread/queue/list", json!({"threadId": thread, "limit": 100})).await?);
        there.extend(marks(&codex.call("thread/read", json!({"threadId": thread, "includeTurns": true})).await?));
        let told = told.without(|id| there.iter().any(|mark| mark == id));
        if told.notices.is_empty() {
            return Ok(0);
        }
        let mark = format!("{MARK}{}", told.ids().collect::<Vec<_>>().join("+"));
        let input = json!([{"type": "text", "text": told.text()}]);
        codex.call("thread/queue/add", json!({"threadId": thread, "input": input, "clientUserMessageId": mark})).await?;
        // Codex has the message on disk now. After a failure it is delivered with the next turn of the thread, and the next hook finds it.
        drop(lock);
        if let Err(e) = codex.take_turn(&thread, &mark).await {
            eprintln!("outlast: the message is in Codex's queue, and no turn was taken here: {}", e.error());
        }
        codex.end().await;
        Ok(0)
    }
}

/// The ids of all notices that are named anywhere in this value.
fn marks(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields.iter().flat_map(|(name, value)| if is_name(name) { named(value) } else { marks(value) }).collect(),
        Value::Array(all) => all.iter().flat_map(marks).collect(),
        _ => Vec::new(),
    }
}

fn is_name(field: &str) -> bool {
    field == "clientId" || field == "clientUserMessageId"
}

fn named(value: &Value) -> Vec<String> {
    let names = value.as_str().and_then(|v| v.strip_prefix(MARK)).unwrap_or_default();
    names.split('+').filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_found_wherever_it_lies() {
        let queue = json!({"data": [{"id": "1", "clientUserMessageId": "outlast:evt_1+evt_2"}, {"clientUserMessageId": "mine"}]});
        assert_eq!(marks(&queue), ["evt_1", "evt_2"]);
        let item = json!({"type": "userMessage", "clientId": "outlast:evt_3", "content": [{"text": "outlast:evt_9"}]});
        assert_eq!(marks(&json!({"thread": {"turns": [{"items": [item, {"clientId": null}]}]}})), ["evt_3"]);
    }
}
