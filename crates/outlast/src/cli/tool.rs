//! `outlast tool`

use super::mcp::ProfileArg;
use super::owner::Whose;
use super::route::RouteArgs;
use super::{Context, Failure, input};
use clap::{Args, Subcommand};
use outlast_tools::{AtLimit, Host, Policy, Profile, Schema, Tools};
use serde_json::{Value, json};
use std::ffi::OsString;

/// Call a tool as an agent does (for debugging)
///
/// `terminal` and `process` are the tools of the set `hermes`. `call` calls a tool of any set by its name, such as `run` of the set `native`.
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
    /// Call a tool of any set: `--profile native` has run, wait, log, list, kill, write and notices; `codex` has exec_command and write_stdin
    Call {
        /// The name of the tool
        tool: String,
        #[command(flatten)]
        call: ToolCall,
        #[command(flatten)]
        set: ToolSet,
    },
    /// Print the names, descriptions and JSON schemas that a model is given
    Schema {
        #[command(flatten)]
        host: HostArgs,
        #[command(flatten)]
        set: ToolSet,
    },
}

/// The set of tools.
#[derive(Debug, Args)]
struct ToolSet {
    /// The set of tools
    #[arg(long, value_name = "NAME", default_value = "hermes")]
    profile: ProfileArg,
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
            ToolCommand::Terminal(call) => call.perform(ctx, Profile::Hermes, "terminal").await,
            ToolCommand::Process(call) => call.perform(ctx, Profile::Hermes, "process").await,
            ToolCommand::Call { tool, call, set } => {
                let profile = set.profile.into();
                let names: Vec<String> = Tools::schemas_of(&call.host.host(ctx, profile)).iter().map(|one| one.name.to_string()).collect();
                if !names.contains(&tool) {
                    let what = format!("the set {} has no tool {tool:?}", profile.name());
                    return Err(Failure::refused(what, format!("it has {}; --profile chooses another set", names.join(", "))).exit(2));
                }
                call.perform(ctx, profile, &tool).await
            }
            ToolCommand::Schema { host, set } => {
                let tools: Vec<Value> = Tools::schemas_of(&host.host(ctx, set.profile.into())).iter().map(Schema::to_json).collect();
                ctx.out.object(&json!({ "tools": tools }))?;
                Ok(0)
            }
        }
    }
}

impl ToolCall {
    async fn perform(self, ctx: &Context, profile: Profile, tool: &str) -> Result<i32, Failure> {
        let arguments = parsed(self.arguments)?;
        let mut host = self.host.host(ctx, profile);
        host.route = self.route.into();
        let client = ctx.client().await?.with_owner(self.whose.or(ctx.owner()));
        ctx.out.object(&Tools::new(client, host).call(tool, &arguments).await)?;
        Ok(0)
    }
}

impl HostArgs {
    fn host(&self, ctx: &Context, profile: Profile) -> Host {
        let mut host = ctx.host();
        host.profile = profile;
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
