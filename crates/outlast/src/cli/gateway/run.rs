//! `outlast gateway run`

use super::{Context, Failure, not_installed, running};
use clap::Args;
use outlast_client::code;
use std::os::unix::process::CommandExt as _;

/// Run the gateway in the foreground until it is stopped
///
/// For service managers, and to watch its log. Exits with 0 after `gateway stop`, 75 after `gateway restart`, 1 after SIGTERM, 78 if
/// the configuration is wrong.
#[derive(Debug, Args)]
pub(crate) struct GatewayRunArgs {
    /// A service manager restarts it after a crash and after exit code 75; the engine waits 30 s before it starts one itself
    #[arg(long)]
    service: bool,
}

impl GatewayRunArgs {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let program = ctx.world.gateway().ok_or_else(|| not_installed(&ctx.world.program))?;
        if let Some(chat) = running(ctx).await? {
            let pid = chat.status().await?.pid;
            return Err(Failure::refused(
                format!("a gateway (pid {pid}) runs in this home already"),
                "`outlast gateway stop` ends it; `outlast gateway status` shows what it does",
            ));
        }
        let mut command = std::process::Command::new(&program);
        command.arg("--home").arg(&ctx.settings.home).args(self.service.then_some("--service"));
        let error = command.exec();
        Err(Failure::new(code::GATEWAY_CANNOT_START, format!("cannot execute {}: {error}", program.display()), "it must be executable"))
    }
}
