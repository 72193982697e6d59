//! `outlast close`

use super::write::{tell, without_input};
use super::{Context, Failure, named};
use clap::Args;

/// Close the input of a process
///
/// The process sees the end of its input, as after Ctrl-D.
#[derive(Debug, Args)]
pub(crate) struct Close {
    /// The process: its name, its id, or at least four digits of its id
    id: String,
}

impl Close {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        let process = named::find(ctx, &client, &self.id, named::Purpose::Act).await?;
        match client.close(&process.id).await {
            Ok(closed) => tell(ctx, &process, &closed),
            Err(e) => Err(process.failed(ctx, without_input(&client, &process.id, e).await)),
        }
    }
}
