//! `outlast gateway restart`

use super::super::chat::not_installed;
use super::super::progress::{self, About};
use super::{Context, Failure, running};
use clap::Args;
use outlast_client::{Chat, Connect};
use serde_json::json;
use std::time::Duration;

/// Restart the gateway, once the turns that run have finished
///
/// Turns that take too long are interrupted and resumed by the next gateway. If none runs, one is started. From within a conversation the
/// answer comes at once, and the restart follows.
#[derive(Debug, Args)]
pub(crate) struct Restart {}

/// How long a gateway may take to drain and end before it is given up.
const END_LIMIT: Duration = Duration::from_secs(120);

impl Restart {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let Some(chat) = running(ctx).await? else {
            return tell(ctx, "started", start(ctx).await?.status().await?.pid);
        };
        let old = chat.status().await?.pid;
        if let Some(from) = super::asking_conversation(ctx) {
            chat.restart(Some(&from)).await?;
            return tell(ctx, "restarting", old);
        }
        let restarted = async {
            if !chat.restart_within(END_LIMIT).await? {
                let error = format!("the gateway (pid {old}) was asked to restart, and has not ended within {} s", END_LIMIT.as_secs());
                return Err(Failure::fault(error, "`outlast gateway status` shows what it does; `kill -9` of it loses no message"));
            }
            Ok(start(ctx).await?.status().await?.pid)
        };
        let about = About::Words("the gateway waits for the turns that run");
        let pid = progress::during(ctx, about, "the gateway is still restarting", restarted).await??;
        tell(ctx, "restarted", pid)
    }
}

/// The next gateway, which is started if the engine has not done so.
async fn start(ctx: &Context) -> Result<Chat, Failure> {
    let program = ctx.world.gateway().ok_or_else(|| not_installed(&ctx.world.program))?;
    Ok(Chat::connect(&Connect::to(&ctx.settings.home).starting(program)).await?)
}

fn tell(ctx: &Context, status: &str, pid: u32) -> Result<i32, Failure> {
    if ctx.out.json {
        ctx.out.object(&json!({"status": status, "pid": pid}))?;
    } else {
        ctx.out.tip(&match status {
            "restarting" => "the gateway restarts when the turns that run have finished".to_owned(),
            _ => format!("the gateway has {status} (pid {pid})"),
        });
    }
    Ok(0)
}
