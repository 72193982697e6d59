//! `outlast hook claude`

use super::super::owner::Whose;
use super::super::{Context, Failure, seconds, some_seconds};
use super::{asked, boundary};
use clap::Args;
use outlast_client::Owner;
use outlast_tools::{Called, HookInput};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name that Claude Code gives to MCP servers. The keys of its sessions are made from it.
const NAME: &str = "claude-code";

/// Deliver notices to Claude Code
///
/// For Claude Code's hooks SessionStart, UserPromptSubmit, PostToolUse and Stop: prints pending notices in Claude Code's JSON, and acknowledges them once they are
/// written. If there are none, it prints nothing. With --wait, for a hook with `asyncRewake`, it waits for a notice, prints it on standard error and exits
/// with 2, which starts a turn.
#[derive(Debug, Args)]
pub(crate) struct Claude {
    /// Wait for the next notice, and wake the agent with it. Exits 0 without output after the time limit, on an interrupt, and if the session starts another wait
    #[arg(long)]
    wait: bool,
    /// With --wait: at most this long, such as 90s or 5m [default: without limit]
    #[arg(long, value_name = "DURATION", value_parser = seconds, requires = "wait", allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// The lease of the printed notices, such as 30s or 5m: no other taker gets them before it ends
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, default_value = "60s", allow_negative_numbers = true)]
    lease: Duration,
    #[command(flatten)]
    whose: Whose,
}

impl Claude {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let called = match asked()? {
            HookInput::Called(called) => called,
            _ => {
                let hint = "let Claude Code run it, from .claude/settings.json; for a [[hook]] table there are codex, opencode and hermes";
                return Err(Failure::refused(
                    "standard input is from a [[hook]] table, and Claude Code cannot be woken from outside",
                    hint,
                ));
            }
        };
        let owner = owner(self.whose.or(ctx.owner()), &called, ctx.world.var("CLAUDE_PROJECT_DIR").map(PathBuf::from))?;
        match self.wait {
            true => boundary::wait(ctx, &called, owner, self.lease, self.timeout).await,
            false => boundary::tell(ctx, &called, owner, self.lease).await,
        }
    }
}

/// The owner: the session that was named, else the one of Claude Code in the directory where it was started, as for its tools. `cwd`
/// changes while the agent works.
fn owner(named: Owner, called: &Called, project: Option<PathBuf>) -> Result<Owner, Failure> {
    if named.session.is_some() {
        return Ok(named);
    }
    let dir = project.filter(|dir| dir.is_absolute()).unwrap_or_else(|| called.dir.clone());
    if !Path::new(&dir).is_absolute() {
        return Err(Failure::refused("standard input has no `cwd`, which names the session", "name it with --session"));
    }
    // Its tools see the directory without links.
    let dir = dir.canonicalize().unwrap_or(dir);
    Ok(Owner { session: Owner::of_agent(NAME, &dir).session, ..named })
}
