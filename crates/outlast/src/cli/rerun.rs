//! `outlast rerun`

use super::envfile::EnvArgs;
use super::failure::OURS;
use super::{Context, Failure, run};
use clap::Args;
use outlast_client::Reason;

/// Run a process's command again in the current environment
#[derive(Debug, Args)]
pub(crate) struct Rerun {
    /// The process: its id, or at least four of its digits
    id: String,
    #[command(flatten)]
    env: EnvArgs,
}

impl Rerun {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        self.start(ctx).await.map_err(|e| e.exit(OURS))
    }

    async fn start(self, ctx: &Context) -> Result<i32, Failure> {
        let env = self.env.read(&ctx.world)?;
        let info = ctx.client().await?.rerun(&self.id, ctx.caller(), env).await?;
        match info.fate.completion_reason {
            Some(Reason::FailedStart) => run::failed_start(ctx, &info),
            _ => {
                run::tell_not_passed_on(ctx, &info);
                run::started(ctx, &info)
            }
        }
    }
}
