//! `outlast interrupt`

use super::owner::meant;
use super::{Context, Failure};
use clap::Args;

/// Cancel a session's waiting calls; its processes keep running
#[derive(Debug, Args)]
pub(crate) struct Interrupt {
    /// The session
    #[arg(long, value_name = "KEY")]
    session: String,
}

impl Interrupt {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        let done = client.interrupt(&self.session).await?;
        if ctx.out.json {
            ctx.out.object(&done)?;
        } else {
            ctx.out.tip(&format!("{} waiting calls were cancelled", done.count.unwrap_or(0)));
            if done.count.unwrap_or(0) == 0
                && let Some(meant) = meant(&client, Some(&self.session)).await
            {
                ctx.out.remark(&meant);
            }
        }
        Ok(0)
    }
}
