//! `outlast tool`

use super::owner::Whose;
use super::route::RouteArgs;
use super::{Context, Failure, input};
use clap::{Args, Subcommand};
use outlast_tools::{AtLimit, Host, Policy, Schema, Tools};
use serde_json::{Value, json};
use std::ffi::OsString;

/// Call a tool as an agent does (for debugging)
///
/// Prints the answer of the tool as one JSON object on one line. The exit code is 0 even if the tool refuses the call or the command fails, and 2 if the arguments
/// are not JSON.
#[derive(Debug, Args)]
pub(crate) struct Tool {
    #[command(subcommand)]
    command: ToolCommand,
}

#[derive(Debug, Subcommand)]
enum ToolCommand {
    /// Run a command in the foreground or background
    Terminal(ToolCall),
    /// Manage background processes
    Process(ToolCall),
    /// Print the names, descriptions and JSON schemas that a model is given
    Schema(HostArgs),
}

#[derive(Debug, Args)]
struct ToolCall {
    /// The arguments, as a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON")]
    arguments: OsString,
    #[command(flatten)]
    host: HostArgs,
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    route: RouteArgs,
}

/// What the host of the tools can do.
#[derive(Debug, Args)]
struct HostArgs {
    /// As a script of an agent: foreground commands only
    #[arg(long)]
    code_execution: bool,
    /// As a host that cannot notify the agent later
    #[arg(long)]
    no_notify: bool,
    /// Stop a foreground command at its time limit, instead of moving it to the background
    #[arg(long)]
    kill_at_limit: bool,
}

impl Tool {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        match self.command {
            ToolCommand::Terminal(call) => call.perform(ctx, "terminal").await,
            ToolCommand::Process(call) => call.perform(ctx, "process").await,
            ToolCommand::Schema(host) => {
                let tools: Vec<Value> = Tools::schemas_of(&host.host(ctx)).iter().map(Schema::to_json).collect();
                ctx.out.object(&json!({ "tools": tools }))?;
                Ok(0)
            }
        }
    }
}

impl ToolCall {
    async fn perform(self, ctx: &Context, tool: &str) -> Result<i32, Failure> {
        let arguments = parsed(self.arguments)?;
        let mut host = self.host.host(ctx);
        host.route = self.route.into();
        let client = ctx.client().await?.with_owner(self.whose.or(ctx.owner()));
        ctx.out.object(&Tools::new(client, host).call(tool, &arguments).await)?;
        Ok(0)
    }
}

impl HostArgs {
    fn host(&self, ctx: &Context) -> Host {
        let mut host = ctx.host();
        host.can_notify = !self.no_notify;
        host.policy = if self.code_execution { Policy::CodeExecution } else { Policy::Agent };
        host.at_limit = if self.kill_at_limit { AtLimit::Kill } else { AtLimit::HandOver };
        host
    }
}

fn parsed(arguments: OsString) -> Result<Value, Failure> {
    let text = input::text(arguments)?;
    serde_json::from_slice(&text).map_err(|e| {
        Failure::refused(
            format!("the arguments are not JSON: {e}"),
            r#"write an object, for instance: outlast tool process '{"action": "list"}'"#,
        )
        .exit(2)
    })
}
