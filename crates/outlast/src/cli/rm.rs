//! `outlast rm`

use super::{Context, Failure};
use clap::Args;

/// Remove a finished process, with its output and its record
#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// The process: its id, or at least four of its digits
    id: String,
}

impl Rm {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let removed = ctx.client().await?.remove(&self.id).await?;
        if ctx.out.json {
            ctx.out.object(&removed)?
        } else {
            ctx.out.tip(&format!("{} is removed", removed.session_id))
        }
        Ok(0)
    }
}
