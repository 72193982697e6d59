//! `outlast view`

use super::{Context, Failure, named};
use clap::{Args, Subcommand};

/// Disconnect terminals that are attached to a process
///
/// `outlast attach` attaches a terminal.
#[derive(Debug, Args)]
pub(crate) struct View {
    #[command(subcommand)]
    command: ViewCommand,
}

#[derive(Debug, Subcommand)]
enum ViewCommand {
    /// End every `attach` to a process; the process keeps running
    Close {
        /// The process: its name, its id, or at least four digits of its id
        id: String,
    },
}

impl View {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let ViewCommand::Close { id } = self.command;
        let client = ctx.client().await?;
        let id = named::find_or_id(ctx, &client, id).await?;
        let closed = client.view_close(&id).await?;
        if ctx.out.json {
            ctx.out.object(&closed)?;
        } else {
            ctx.out.line(&closed.note)?;
        }
        Ok(0)
    }
}
