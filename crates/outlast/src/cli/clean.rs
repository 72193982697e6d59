//! `outlast clean`

use super::{Context, Failure, ScopeArgs, times};
use clap::Args;

/// Forget every finished process
#[derive(Debug, Args)]
pub(crate) struct Clean {
    #[command(flatten)]
    scope: ScopeArgs,
}

impl Clean {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let scope = self.scope.or(&ctx.owner());
        let cleaned = ctx.client().await?.clean(&scope).await?;
        if ctx.out.json {
            ctx.out.object(&cleaned)?;
        } else {
            ctx.out.line(&format!("{} removed, {} freed", cleaned.removed, times::size(cleaned.freed_bytes)))?;
        }
        Ok(0)
    }
}
