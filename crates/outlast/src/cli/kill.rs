//! `outlast kill`

use super::choice::{BulkVerb, Choice, ChoiceArgs};
use super::named::{self, Each, Named};
use super::owner::meant;
use super::progress::{self, About};
use super::{Context, Failure, ScopeArgs, ending, left_running, millis, output, seconds};
use crate::config::Origin;
use clap::Args;
use outlast_client::{Client, Killed, Owner, Scope};
use std::time::Duration;

/// Stop a process and everything it started
///
/// Sends TERM to its process tree, and KILL to what is left after the grace period. Returns once the whole tree is gone.
///
/// In a pipe it prints the output of the process, so that a script needs no second call; with --json the answer has its last 200,000 characters. On a terminal
/// it prints only how the process ended; `outlast log` shows the output.
///
/// If the process has finished, what it left running is stopped, and the exit code is 1 (--json: `left_killed`).
///
/// Several processes are stopped at the same time. If one of them could not be stopped, the exit code is 1. With --json the answer is {"processes": [...]},
/// each as for one process, or an error with its `id`.
///
/// On a terminal, --all and --label ask before they stop processes of other sessions; --yes skips the question. In a pipe and with --json they do not ask.
/// If no running process has the label, the exit code is 1.
#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// The process: its name, its id, or at least four digits of its id; may be several
    #[arg(required_unless_present_any = ["all", "labels"], conflicts_with_all = ["all", "labels"], value_name = "ID")]
    ids: Vec<String>,
    /// Stop every running process, of your session if you have one, and what finished processes left running
    #[arg(long)]
    all: bool,
    /// Time between TERM and KILL, such as 10s or 5m; 0 sends KILL at once
    #[arg(long, value_name = "DURATION", value_parser = seconds, allow_negative_numbers = true, conflicts_with = "no_escalate")]
    grace: Option<Duration>,
    /// Send TERM only, never KILL
    #[arg(long)]
    no_escalate: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    choice: ChoiceArgs,
}

impl Kill {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let is_many = self.all || self.choice.label.is_given();
        if !is_many && (self.scope.task.is_some() || self.scope.session.is_some()) {
            return Err(Failure::refused("--task and --session go with --all or --label", "name one process, or write --all"));
        }
        if !is_many && self.choice.is_given() {
            return Err(Failure::refused(
                "--older, --dry-run and --yes go with --all or --label",
                "name one process without them, or write --all",
            ));
        }
        let mut kill = outlast_client::Kill::default();
        (kill.grace_ms, kill.no_escalate) = (self.grace.or(configured(ctx)).map(millis), self.no_escalate);
        match is_many {
            false => named(ctx, &self.ids, kill).await,
            true => {
                let named = self.scope.session.clone();
                all(ctx, scope(self.scope, &ctx.owner()), &self.choice, kill, named).await
            }
        }
    }
}

/// The grace in the configuration of the caller. The engine may have read another one.
pub(super) fn configured(ctx: &Context) -> Option<Duration> {
    let set = ctx.settings.origin("terminal.daemon_term_grace_seconds") != Origin::Default;
    set.then_some(ctx.settings.grace)
}

/// The scope of --all. Without flags an agent stops the processes of its session, or those of its task if it has no session.
fn scope(args: ScopeArgs, owner: &Owner) -> Scope {
    match args.or(owner) {
        Scope { session: Some(session), task } if owner.session.as_ref() == Some(&session) && task == owner.task => {
            Scope { session: Some(session), task: None }
        }
        scope => scope,
    }
}

/// What the progress line shows during a stop.
fn about<'a>(ctx: &Context, what: &'a str, kill: &outlast_client::Kill) -> About<'a> {
    About::Stop { what, grace: kill.grace_ms.map_or(ctx.settings.grace, Duration::from_millis) }
}

/// Stops the named processes, all at the same time.
async fn named(ctx: &Context, given: &[String], kill: outlast_client::Kill) -> Result<i32, Failure> {
    let client = ctx.client().await?;
    let all = named::find_each(ctx, &client, given, named::Purpose::Act).await?;
    if let ([one], 1) = (&all[..], given.len()) {
        let left = format!("{one} is still being stopped; see with: outlast poll {}", one.id);
        let shown = one.to_string();
        let killed = progress::during(ctx, about(ctx, &shown, &kill), &left, client.kill(&one.id, kill)).await?;
        let killed = killed.map_err(|e| one.failed(ctx, e))?;
        if ctx.out.json {
            ctx.out.object(&output::in_json(&client, &one.id, &killed).await)?;
            return Ok(0);
        }
        return tell(ctx, &client, one, &killed).await;
    }
    let left = "they are still being stopped; see with: outlast list";
    let kills = named::at_once(&all, |id| {
        let (client, kill) = (client.clone(), kill);
        async move { client.kill(&id, kill).await }
    });
    let mut each = Each::new();
    for (one, killed) in progress::during(ctx, about(ctx, "each of them", &kill), left, kills).await?? {
        match killed {
            Ok(killed) => {
                if ctx.out.json {
                    each.done(&output::in_json(&client, &one.id, &killed).await, 0);
                } else {
                    each.done(&killed, tell(ctx, &client, one, &killed).await?);
                }
            }
            Err(e) => each.failed(ctx, one, e),
        }
    }
    each.finish(ctx)
}

/// Prints how it ended, and before that its output if this is a pipe or a file.
async fn tell(ctx: &Context, client: &Client, of: &Named, killed: &Killed) -> Result<i32, Failure> {
    // A user at a terminal wants the process to end; `log` shows its output.
    if let Some(end) = killed.output.as_ref().filter(|_| ctx.out.height.is_none()) {
        let is_whole = killed.output_cut.is_none();
        output::print_end(ctx, client, &of.id, end, is_whole).await?;
    }
    match killed.status.as_str() {
        "signalled" => ctx.out.remark(&format!("{of} was asked to end; `outlast wait {}` waits for it", of.id)),
        _ => {
            let tree = killed.seen_dead.filter(|n| *n > 1).map(|n| format!(", {n} processes in all")).unwrap_or_default();
            ctx.out.remark(&format!("{of} {}{tree}", ending::sentence(&killed.fate)));
        }
    }
    if let Some(warning) = &killed.warning {
        ctx.out.remark(warning);
    }
    Ok(0)
}

async fn all(ctx: &Context, scope: Scope, choice: &ChoiceArgs, kill: outlast_client::Kill, named: Option<String>) -> Result<i32, Failure> {
    let client = ctx.client().await?;
    if choice.label.is_given() {
        choice.label.check("running process", &client.list(&scope, false).await?)?;
    }
    let left = "they are still being stopped; see with: outlast list";
    let many = BulkVerb { verb: "stop", done: "stopped", finished: false, failed: false };
    let about = about(ctx, "each of them", &kill);
    let killed = match many.choose(ctx, &client, choice, &scope).await? {
        Choice::All => progress::during(ctx, about, left, client.kill_all(&scope, kill)).await??,
        Choice::These(ids) => progress::during(ctx, about, left, client.kill_these(&ids, kill)).await??,
        Choice::Answered(code) => return Ok(code),
    };
    let code = i32::from(!killed.failed.is_empty());
    if ctx.out.json {
        ctx.out.object(&killed)?;
        return Ok(code);
    }
    ctx.out.line(&format!("{} stopped", killed.killed))?;
    if !killed.left_killed.is_empty() {
        ctx.out.remark(&format!("also stopped what finished processes had left running: {}", left_running::named(&killed.left_killed)));
    }
    if killed.killed == 0
        && killed.left_killed.is_empty()
        && let Some(meant) = meant(&client, named.as_deref()).await
    {
        ctx.out.remark(&meant);
    }
    for warning in &killed.warnings {
        ctx.out.remark(warning);
    }
    for failed in &killed.failed {
        ctx.out.remark(&format!("outlast: {failed}"));
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_stops_its_own_unless_told() {
        let owner = Owner { session: Some("s".into()), task: Some("t".into()), generation: None };
        let args = |task: Option<&str>, session: Option<&str>| ScopeArgs { task: task.map(Into::into), session: session.map(Into::into) };
        assert_eq!(scope(args(None, None), &owner), Scope { session: Some("s".into()), task: None });
        assert_eq!(scope(args(Some("u"), None), &owner), Scope { session: None, task: Some("u".into()) });
        let task_only = Owner { session: None, ..owner };
        assert_eq!(scope(args(None, None), &task_only), Scope { session: None, task: Some("t".into()) });
        assert_eq!(scope(args(None, None), &Owner::default()), Scope::default());
    }
}
