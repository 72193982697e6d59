//! `outlast interrupt`

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
        let done = ctx.client().await?.interrupt(&self.session).await?;
        if ctx.out.json {
            ctx.out.object(&done)?
        } else {
            ctx.out.tip(&format!("{} waits were let go", done.count.unwrap_or(0)))
        }
        Ok(0)
    }
}
