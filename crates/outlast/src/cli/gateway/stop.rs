//! `outlast gateway stop`

use super::super::progress::{self, About};
use super::super::seconds;
use super::{Context, Failure, none, running};
use clap::Args;
use serde_json::json;
use std::time::Duration;

/// Stop the gateway, once the turns that run have finished
///
/// Turns that take longer than --timeout are interrupted, and resumed when there is a gateway again. It stays stopped until `outlast chat`
/// or `outlast gateway run` starts it. Processes keep running. From within a conversation the answer comes at once, and the end follows.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// How many seconds turns may take to finish [default: as configured, 60]
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,
}

impl Stop {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let Some(chat) = running(ctx).await? else { return none(ctx) };
        let pid = chat.status().await?.pid;
        if let Some(from) = super::asking_conversation(ctx) {
            let done = chat.begin_shutdown(self.timeout, Some(&from)).await?;
            if done.status == "stopped" {
                return tell(ctx, "stopped", pid, "the gateway was stopped for this turn already, and started again by a person");
            }
            return tell(ctx, "stopping", pid, "the gateway ends when the turns that run have finished");
        }
        let about = About::Words("the gateway waits for the turns that run");
        let limit = self.timeout.unwrap_or(ctx.settings.gateway.drain_timeout);
        progress::during(ctx, about, "the gateway is still ending", chat.shutdown(Some(limit))).await??;
        tell(ctx, "stopped", pid, &format!("the gateway (pid {pid}) has ended"))
    }
}

fn tell(ctx: &Context, status: &str, pid: u32, tip: &str) -> Result<i32, Failure> {
    if ctx.out.json {
        ctx.out.object(&json!({"status": status, "pid": pid}))?;
    } else {
        ctx.out.tip(tip);
    }
    Ok(0)
}
