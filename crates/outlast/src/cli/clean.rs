//! `outlast clean`

use super::owner::meant;
use super::progress::{self, About};
use super::{Context, Failure, ScopeArgs, times};
use clap::Args;

/// Remove all finished processes
#[derive(Debug, Args)]
pub(crate) struct Clean {
    #[command(flatten)]
    scope: ScopeArgs,
}

impl Clean {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let named = self.scope.session.clone();
        let scope = self.scope.or(&ctx.owner());
        let client = ctx.client().await?;
        let about = About::Words("forgetting what is finished");
        let cleaned = progress::during(ctx, about, "the rest is still being forgotten", client.clean(&scope)).await??;
        if ctx.out.json {
            ctx.out.object(&cleaned)?;
        } else {
            ctx.out.line(&format!("{} removed, {} freed", cleaned.removed, times::size(cleaned.freed_bytes)))?;
            if cleaned.removed == 0
                && let Some(meant) = meant(&client, named.as_deref()).await
            {
                ctx.out.remark(&meant);
            }
        }
        Ok(0)
    }
}
