//! `outlast close`

use super::write::tell;
use super::{Context, Failure};
use clap::Args;

/// Close the input of a process
#[derive(Debug, Args)]
pub(crate) struct Close {
    /// The process: its id, or at least four of its digits
    id: String,
}

impl Close {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let closed = ctx.client().await?.close(&self.id).await?;
        tell(ctx, &closed)
    }
}
