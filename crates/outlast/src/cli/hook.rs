//! `outlast hook`

mod boundary;
mod claude;
mod codex;
mod hermes;
mod newest_waiter;
mod opencode;
mod session_lock;
mod test;
mod wake_check;

use super::explain::{self, Explained};
use super::failure::OURS;
use super::{Context, Failure};
use clap::{Args, Subcommand};
use outlast_tools::{HookInput, LONGEST_HOOK_INPUT, ToTell};
use session_lock::SessionLock;
use std::io::Read as _;
use std::path::Path;

pub(super) use wake_check::{WakeCheck, check_wake};

/// The session of processes that Hermes starts over MCP without saying in which of its sessions.
pub(super) const HERMES_OVER_MCP: &str = hermes::OVER_MCP;

/// Wake an agent, or deliver notices (run by other programs)
///
/// Run by other programs, with one JSON object on standard input. A `[[hook]]` table with `wake = true` runs it to start a turn in an agent's session, and an
/// agent runs it as a hook at the boundaries of its turns. Exits 0 once the agent has the notice, and 125 if it could not be
/// delivered. The pages under docs/agents describe the set-up of each agent.
///
/// A hook of your own needs none of these: a `[[hook]]` table of the configuration names a command that is run for each notice. docs/sinks.md describes it, and
/// `outlast hook test NAME` tries it.
#[derive(Debug, Args)]
pub(crate) struct Hook {
    #[command(subcommand)]
    command: HookVerb,
}

#[derive(Debug, Subcommand)]
enum HookVerb {
    Claude(claude::Claude),
    Codex(codex::Codex),
    Opencode(opencode::Opencode),
    Hermes(hermes::Hermes),
    Test(test::Test),
}

impl Hook {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        if !self.command.is_for_users() && explain::is_typed() {
            return explain::tell(ctx, Explained::Hook);
        }
        let performed = match self.command {
            HookVerb::Test(args) => return args.perform(ctx).await.map_err(|e| e.exit(OURS)),
            HookVerb::Claude(args) => args.perform(ctx).await,
            HookVerb::Codex(args) => args.perform(ctx).await,
            HookVerb::Opencode(args) => args.perform(ctx).await,
            HookVerb::Hermes(args) => args.perform(ctx).await,
        };
        // 1: notices that could not be written.
        performed.map(|code| if code == 1 { OURS } else { code }).map_err(|e| e.exit(OURS))
    }
}

impl HookVerb {
    /// Whether it does without the input that another program writes.
    fn is_for_users(&self) -> bool {
        match self {
            Self::Test(_) => true,
            Self::Claude(_) => false,
            Self::Codex(args) => args.is_check(),
            Self::Opencode(args) => args.is_check(),
            Self::Hermes(args) => args.is_check(),
        }
    }
}

/// Reads the input of the hook.
fn asked() -> Result<HookInput, Failure> {
    let hint = "this is run by a [[hook]] table or by an agent; to try it by hand, pipe into it what they would write";
    let mut input = Vec::new();
    // One byte more than allowed is read, which shows that the input is too long.
    let read = std::io::stdin().take(LONGEST_HOOK_INPUT as u64 + 1).read_to_end(&mut input);
    read.map_err(|e| Failure::fault(format!("cannot read standard input: {e}"), ""))?;
    HookInput::parse(&input).map_err(|why| Failure::refused(why, hint))
}

/// The notices for an agent that does not call hooks itself.
fn to_tell() -> Result<ToTell, Failure> {
    match asked()? {
        HookInput::Told(told) => Ok(told),
        _ => Err(Failure::refused(
            "standard input is from an agent that calls a hook, and this one is for a [[hook]] table",
            "put it into config.toml: [[hook]] with wake = true",
        )),
    }
}

/// A secret: from a file if one is named, else from the environment.
fn secret(ctx: &Context, file: Option<&Path>, set: Option<String>) -> Result<Option<String>, Failure> {
    let Some(file) = file.map(|file| ctx.world.path(file)) else { return Ok(set) };
    let text = std::fs::read_to_string(&file).map_err(|e| Failure::refused(format!("cannot read {}: {e}", file.display()), ""))?;
    match text.trim() {
        "" => Err(Failure::refused(format!("{} is empty, and a secret is expected in it", file.display()), "")),
        secret => Ok(Some(secret.to_owned())),
    }
}

/// The part of a session's key after the prefix of its client.
fn own<'a>(session: &'a str, prefix: &str, client: &str) -> Result<&'a str, Failure> {
    let own = session.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    own.ok_or_else(|| {
        let what = format!("the notice is of the session {session:?}, which is not a session of {client}: those begin with {prefix}");
        Failure::refused(what, format!("give the [[hook]] table sessions = [\"{prefix}*\"]"))
    })
}
