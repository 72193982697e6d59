//! `outlast rerun`

use super::envfile::EnvArgs;
use super::failure::OURS;
use super::{Context, Failure, named, run};
use clap::Args;
use outlast_client::Reason;

/// Run a process's command again in the current environment
#[derive(Debug, Args)]
pub(crate) struct Rerun {
    /// The process: its name, its id, or at least four digits of its id
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
        let client = ctx.client().await?;
        let process = named::find(ctx, &client, &self.id).await?;
        let info = client.rerun(&process.id, ctx.caller(), env).await?;
        match info.fate.completion_reason {
            Some(Reason::FailedStart) => run::failed_start(ctx, &info),
            _ => {
                run::tell_not_passed_on(ctx, &info);
                run::started(ctx, &info)
            }
        }
    }
}
