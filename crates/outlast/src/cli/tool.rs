//! `outlast tool`

use super::owner::Whose;
use super::route::RouteArgs;
use super::{Context, Failure, input};
use clap::{Args, Subcommand};
use outlast_tools::{AtLimit, Host, Policy, Schema, Tools};
use serde_json::{Value, json};
use std::ffi::OsString;

/// Call a tool as an agent does
///
/// Prints the tool's answer, one JSON object on one line. What a tool refuses or a command does is such an answer too, and exits 0; arguments that are no JSON exit 2.
#[derive(Debug, Args)]
pub(crate) struct Tool {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Run a command in the foreground or background
    Terminal(Call),
    /// Look after processes in the background
    Process(Call),
    /// Print what a model is told of the tools: names, descriptions and JSON schemas
    Schema(Can),
}

#[derive(Debug, Args)]
struct Call {
    /// The arguments, as a JSON object; `-` reads them from standard input
    #[arg(value_name = "JSON")]
    arguments: OsString,
    #[command(flatten)]
    can: Can,
    #[command(flatten)]
    whose: Whose,
    #[command(flatten)]
    route: RouteArgs,
}

/// What the host can do.
#[derive(Debug, Args)]
struct Can {
    /// For a script of an agent: the foreground alone
    #[arg(long)]
    code_execution: bool,
    /// For a host that cannot tell the agent anything later
    #[arg(long)]
    no_notify: bool,
    /// Stop a foreground command at its limit, instead of letting it go on in the background
    #[arg(long)]
    kill_at_limit: bool,
}

impl Tool {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        match self.what {
            What::Terminal(call) => call.perform(ctx, "terminal").await,
            What::Process(call) => call.perform(ctx, "process").await,
            What::Schema(can) => {
                let tools: Vec<Value> = Tools::schemas_of(&can.host(ctx)).iter().map(Schema::to_json).collect();
                ctx.out.object(&json!({ "tools": tools }))?;
                Ok(0)
            }
        }
    }
}

impl Call {
    async fn perform(self, ctx: &Context, tool: &str) -> Result<i32, Failure> {
        let arguments = parsed(self.arguments)?;
        let mut host = self.can.host(ctx);
        host.route = self.route.into();
        let client = ctx.client().await?.with_owner(self.whose.or(ctx.owner()));
        ctx.out.object(&Tools::new(client, host).call(tool, &arguments).await)?;
        Ok(0)
    }
}

impl Can {
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
            format!("the arguments are no JSON: {e}"),
            r#"write an object, for instance: outlast tool process '{"action": "list"}'"#,
        )
        .exit(2)
    })
}
