//! `outlast gateway restart`

use super::super::progress::{self, About};
use super::{Context, Failure, check_configuration, none, not_installed, running};
use clap::Args;
use outlast_client::{Chat, Connect};
use serde_json::json;
use std::time::Duration;

/// Restart the gateway once the running turns have finished
///
/// Turns that take too long are interrupted and resumed by the next gateway. If no gateway runs, none is started. If the configuration has
/// errors, they are reported and the gateway keeps running. Called from within a conversation, it returns at once, and the restart follows.
#[derive(Debug, Args)]
pub(crate) struct GatewayRestartArgs {}

/// How long a gateway may take to exit after its turns have finished or were interrupted.
const END_LIMIT: Duration = Duration::from_secs(60);
/// How long a service manager may take to start the next one.
const SERVICE_LIMIT: Duration = Duration::from_secs(30);
/// The interval of the checks for it. A socket that does not exist has no descriptor to wait on.
const SERVICE_CHECK_INTERVAL: Duration = Duration::from_millis(50);

impl GatewayRestartArgs {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        // A gateway that the user stopped stays stopped. The next one reads the configuration anyway.
        let Some(chat) = running(ctx).await? else { return none(ctx) };
        check_configuration(&ctx.settings)?;
        let old = chat.status().await?.pid;
        if let Some(from) = super::asking_conversation(ctx) {
            let done = chat.restart(Some(&from)).await?;
            let status = match done.status.as_str() {
                "restarted" | "stopping" => done.status.as_str(),
                _ => "restarting",
            };
            return tell(ctx, status, old);
        }
        let restarted = async {
            let limit = ctx.settings.gateway.drain_timeout.saturating_add(END_LIMIT);
            if !chat.restart_within(limit).await? {
                let error = format!("the gateway (pid {old}) was asked to restart, and has not ended within {} s", limit.as_secs());
                return Err(Failure::fault(error, "`outlast gateway status` shows what it does; `kill -9` of it loses no message"));
            }
            let next = match by_service(ctx).await? {
                Some(next) => Some(next),
                None => start(ctx).await?,
            };
            match next {
                Some(next) => Ok(Some(next.status().await?.pid)),
                None => Ok(None),
            }
        };
        let about = About::Words("the gateway waits for the turns that run");
        match progress::during(ctx, about, "the gateway is still restarting", restarted).await?? {
            Some(pid) => tell(ctx, "restarted", pid),
            None => tell(ctx, "stopped", old),
        }
    }
}

/// The next gateway, if a service manager starts it. Starting one here too would collide with that.
async fn by_service(ctx: &Context) -> Result<Option<Chat>, Failure> {
    let lock = ctx.settings.home.join("gateway.lock");
    let began = std::time::Instant::now();
    while began.elapsed() < SERVICE_LIMIT && std::fs::read_to_string(&lock).unwrap_or_default().trim() == "service" {
        if let Some(chat) = running(ctx).await? {
            return Ok(Some(chat));
        }
        tokio::time::sleep(SERVICE_CHECK_INTERVAL).await;
    }
    Ok(None)
}

/// The next gateway, started here unless the engine has started it. None if the user stopped the gateway meanwhile.
async fn start(ctx: &Context) -> Result<Option<Chat>, Failure> {
    let program = ctx.world.gateway().ok_or_else(|| not_installed(&ctx.world.program))?;
    match Chat::start_in_place(&Connect::to(&ctx.settings.home).starting(program)).await? {
        true => running(ctx).await,
        false => Ok(None),
    }
}

fn tell(ctx: &Context, status: &str, pid: u32) -> Result<i32, Failure> {
    if ctx.out.json {
        ctx.out.object(&json!({"status": status, "pid": pid}))?;
    } else if status == "restarting" {
        // For the agent, which would wait for the restart otherwise.
        ctx.out.line("the gateway restarts when your turn has ended; finish it, and do not wait for it")?;
    } else if status == "stopping" {
        ctx.out.line("the gateway is being stopped; the next message of a person starts it")?;
    } else {
        ctx.out.tip(&match status {
            "stopped" => format!("the gateway (pid {pid}) has ended; it was stopped meanwhile, so it is not started again"),
            _ => format!("the gateway has {status} (pid {pid})"),
        });
    }
    Ok(0)
}
