//! `outlast interrupt`

use super::owner::meant;
use super::{Context, Failure};
use clap::Args;

/// Let go of the waits of a conversation; its processes go on
#[derive(Debug, Args)]
pub(crate) struct Interrupt {
    /// Whose waits
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
            ctx.out.tip(&format!("{} waits were let go", done.count.unwrap_or(0)));
            if done.count.unwrap_or(0) == 0
                && let Some(meant) = meant(&client, Some(&self.session)).await
            {
                ctx.out.remark(&meant);
            }
        }
        Ok(0)
    }
}
