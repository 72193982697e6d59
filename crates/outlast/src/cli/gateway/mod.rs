//! `outlast gateway`

mod drain;
mod restart;
mod run;
mod status;
mod stop;

use super::{Context, Failure};
use crate::config::Settings;
use clap::{Args, Subcommand};
use outlast_client::{Chat, Connect, code};
use serde_json::json;
use std::path::Path;

/// Show, run, restart or stop the gateway of `outlast chat`
///
/// The gateway runs the conversations. `outlast chat` starts one when it is needed, and so does the engine when a process of a conversation has ended.
/// A gateway exits when there is nothing to do. It can be killed at any time: no message is lost, and interrupted replies are resumed.
#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    #[command(subcommand)]
    verb: GatewayVerb,
}

#[derive(Debug, Subcommand)]
enum GatewayVerb {
    Run(run::GatewayRunArgs),
    Status(status::GatewayStatusArgs),
    Drain(drain::GatewayDrainArgs),
    Restart(restart::GatewayRestartArgs),
    Stop(stop::GatewayStopArgs),
}

impl GatewayArgs {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        match self.verb {
            GatewayVerb::Run(args) => args.perform(ctx).await,
            GatewayVerb::Status(args) => args.perform(ctx).await,
            GatewayVerb::Drain(args) => args.perform(ctx).await,
            GatewayVerb::Restart(args) => args.perform(ctx).await,
            GatewayVerb::Stop(args) => args.perform(ctx).await,
        }
    }
}

/// A connection to the running gateway, if there is one.
pub(super) async fn running(ctx: &Context) -> Result<Option<Chat>, Failure> {
    match Chat::connect(&Connect::to(&ctx.settings.home)).await {
        Ok(chat) => Ok(Some(chat)),
        Err(e) if e.is_not_running() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The conversation whose agent calls this, directly or in a process of its own. Such an agent must not wait for the end of the gateway:
/// that waits for the end of its turn.
fn asking_conversation(ctx: &Context) -> Option<String> {
    ctx.owner().session.filter(|key| key.starts_with("agent:"))
}

/// Refuses a restart if the next gateway could not start, or could not read its configuration.
pub(super) fn check_configuration(settings: &Settings) -> Result<(), Failure> {
    let faults: Vec<&str> = settings.unreadable.iter().chain(&settings.gateway.faults).map(String::as_str).collect();
    if faults.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        code::GATEWAY_CANNOT_START,
        format!("the gateway was not restarted, because its configuration has errors: {}", faults.join("; ")),
        "correct the configuration and restart again; until then the running gateway keeps its old configuration",
    ))
}

/// The failure if no gateway runs and its program is not installed.
pub(super) fn not_installed(program: &Path) -> Failure {
    if program.starts_with("/proc") {
        let what = format!(
            "the directory of this program is unknown, because {} cannot be read; outlast-gateway lies beside it",
            program.display()
        );
        return Failure::new(code::GATEWAY_CANNOT_START, what, "mount /proc; if `outlast` was replaced in this moment, run it again");
    }
    let beside = program.parent().unwrap_or(program).display();
    Failure::new(
        code::GATEWAY_CANNOT_START,
        format!("conversations need the program outlast-gateway, which is not in {beside}"),
        "install it beside `outlast`: release archives have both, and `cargo build --release` makes both",
    )
}

/// Reports that no gateway runs, which is not a failure, and why none can start.
fn none(ctx: &Context) -> Result<i32, Failure> {
    let faults = &ctx.settings.gateway.faults;
    if ctx.out.json {
        let version = env!("CARGO_PKG_VERSION");
        ctx.out.object(&json!({
            "status": "not_running", "pid": null, "running": 0, "idle": true, "version": version, "home": ctx.settings.home,
            "notes": faults,
        }))?;
    } else if faults.is_empty() {
        ctx.out.line("no gateway runs; `outlast chat` starts one")?;
    } else {
        ctx.out.line(&format!("no gateway runs, and none can start: {}", faults.join("; ")))?;
    }
    Ok(0)
}
