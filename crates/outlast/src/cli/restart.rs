//! `outlast restart`

use super::choice::NamedVerb;
use super::envfile::EnvArgs;
use super::failure::OURS;
use super::named::{self, Each, Named};
use super::progress::{self, About};
use super::{Context, Failure, ending, kill, left_running, rerun, run, seconds};
use clap::Args;
use outlast_client::{Client, ClientError, Owner, Reason, Restarted, Status, code};
use std::time::Duration;

/// Stop a process and run its command again
///
/// Stops the process and everything it started, as `kill` does, and then starts its command again as `rerun` does: in the same directory, with the same name,
/// labels and flags, in the current environment. The new process has an id of its own, which is printed. A process that has finished is only started. A
/// process that could not be started again, for instance because its directory is gone, is not stopped.
///
/// The exit code is 125 if a process was not started again, and 126 or 127 if its program could not be run. Several processes are restarted at the same time. With --json the answer is {"old": {...}, "new": {...}}, for several {"processes": [...]}.
#[derive(Debug, Args)]
pub(crate) struct Restart {
    /// The process: its name, its id, or at least four digits of its id; may be several
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Time between TERM and KILL, such as 10s or 5m; 0 sends KILL at once
    #[arg(long, value_name = "DURATION", value_parser = seconds, allow_negative_numbers = true)]
    grace: Option<Duration>,
    #[command(flatten)]
    env: EnvArgs,
    /// Do not ask first if several running processes have the name
    #[arg(long)]
    yes: bool,
}

impl Restart {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        self.start(ctx).await.map_err(|e| e.exit(OURS))
    }

    async fn start(self, ctx: &Context) -> Result<i32, Failure> {
        let env = self.env.read(&ctx.world)?;
        let grace = self.grace.or(kill::configured(ctx));
        let client = ctx.client().await?;
        let verb = NamedVerb { verb: "restart", done: "restarted", yes: self.yes };
        let Some(all) = verb.choose(ctx, &client, &self.ids).await? else { return Ok(OURS) };
        let shown = match &all[..] {
            [one] => one.to_string(),
            _ => "each of them".to_owned(),
        };
        let left = "it is still being restarted; see with: outlast list";
        let about = About::Stop { what: &shown, grace: grace.unwrap_or(ctx.settings.grace) };
        let restarts = named::at_once(&all, |id| {
            let (client, caller, env) = (client.clone(), ctx.caller(), env.clone());
            async move { client.restart(&id, caller, env, grace).await }
        });
        let mut answers = progress::during(ctx, about, left, restarts).await??;
        if let ([(one, _)], 1) = (&answers[..], self.ids.len()) {
            let (one, answer) = (*one, answers.remove(0).1);
            let restarted = match answer {
                Ok(restarted) => restarted,
                Err(e) => return Err(one.failed(ctx, refused(ctx, &client, one, &self.ids, e).await)),
            };
            if ctx.out.json {
                ctx.out.object(&named::with_ids(&restarted))?;
                return Ok(exit_code(&restarted));
            }
            return tell(ctx, one, &restarted);
        }
        let mut each = Each::new();
        for (one, answer) in answers {
            match answer {
                Ok(restarted) => {
                    if !ctx.out.json {
                        tell(ctx, one, &restarted)?;
                    }
                    each.done(&restarted, exit_code(&restarted));
                }
                Err(e) => each.failed(ctx, one, refused(ctx, &client, one, &self.ids, e).await.exit(OURS)),
            }
        }
        each.finish(ctx)
    }
}

/// The refusal. A user is told that the process keeps running, if it does.
async fn refused(ctx: &Context, client: &Client, one: &Named, given: &[String], error: ClientError) -> Failure {
    let failure = rerun::refused(ctx, error, "restart", &one.id, &one.typed(given)).of_process(&one.id);
    if ctx.out.json || !matches!(failure.code(), code::SCRUBBED | code::BAD_SPEC) {
        return failure;
    }
    // This look settles no notice.
    match client.with_owner(Owner::default()).poll(&one.id).await {
        Ok(now) if now.status == Status::Running => {
            let error = format!("{} keeps running: {}", one.id, failure.error());
            failure.saying(error)
        }
        _ => failure,
    }
}

/// 0, or that of a command that could not be started again.
fn exit_code(restarted: &Restarted) -> i32 {
    match restarted.new.fate.completion_reason {
        Some(Reason::FailedStart) => ending::exit_code(&restarted.new.fate),
        _ => 0,
    }
}

/// Prints the new id, and how the old process ended.
fn tell(ctx: &Context, of: &Named, restarted: &Restarted) -> Result<i32, Failure> {
    let Restarted { old, left_killed, new, .. } = restarted;
    let was = match old.status.as_str() {
        code::ALREADY_EXITED => format!("{of} had finished"),
        _ => format!("{of} was stopped"),
    };
    if !left_killed.is_empty() {
        ctx.out.remark(&format!("stopped what it had left running: {}", left_running::named(left_killed)));
    }
    if let Some(warning) = &old.warning {
        ctx.out.remark(warning);
    }
    if new.fate.completion_reason == Some(Reason::FailedStart) {
        ctx.out.remark(&was);
        return run::failed_start(ctx, new);
    }
    ctx.out.line(&new.session_id.to_string())?;
    let pid = new.pid.map(|pid| format!(" as pid {pid}")).unwrap_or_default();
    ctx.out.remark(&format!("{was}; {} runs in its place{pid}", new.session_id));
    run::tell_not_passed_on(ctx, new);
    Ok(0)
}
