//! `outlast gateway stop`

use super::super::progress::{self, About};
use super::super::seconds;
use super::{Context, Failure, none, running};
use clap::Args;
use outlast_client::Done;
use serde_json::json;
use std::time::Duration;

/// Stop the gateway, once the turns that run have finished
///
/// Turns that take longer than --timeout are interrupted, and resumed when there is a gateway again. It stays stopped until `outlast chat
/// NAME`, `outlast chat send` or `outlast gateway run` starts it. Processes keep running. From within a conversation the answer comes at
/// once, and the end follows.
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
                return tell(ctx, "stopped", pid, None, "the gateway was stopped for this turn already, and started again by a person");
            }
            return tell(ctx, "stopping", pid, note(&done), "the gateway ends when the turns that run have finished");
        }
        let about = About::Words("the gateway waits for the turns that run");
        let limit = self.timeout.unwrap_or(ctx.settings.gateway.drain_timeout);
        let done = progress::during(ctx, about, "the gateway is still ending", chat.shutdown(Some(limit))).await??;
        tell(ctx, "stopped", pid, note(&done), &format!("the gateway (pid {pid}) has ended"))
    }
}

/// What a person should know about the end of a gateway that could not write.
fn note(done: &Done) -> Option<&'static str> {
    (done.status == "unmarked")
        .then_some("its database could not be written; turns that did not finish are found as interrupted when a gateway starts")
}

fn tell(ctx: &Context, status: &str, pid: u32, note: Option<&str>, tip: &str) -> Result<i32, Failure> {
    if ctx.out.json {
        let mut answer = json!({"status": status, "pid": pid});
        if let Some(note) = note {
            answer["note"] = note.into();
        }
        ctx.out.object(&answer)?;
    } else {
        ctx.out.tip(tip);
        note.into_iter().for_each(|note| ctx.out.tip(note));
    }
    Ok(0)
}
