//! `outlast rerun`

use super::bell::Bell;
use super::envfile::EnvArgs;
use super::failure::OURS;
use super::{Context, Failure, choice, edit, named, run};
use clap::Args;
use outlast_client::{Client, Command, Reason, RerunChange, code};

/// Run a process's command again in the current environment
///
/// The new process has the directory, the name, the labels and the flags of the original. If the original still runs, it keeps running; use
/// `outlast restart` to replace it. With --wait or --follow it exits as the command did.
///
/// With --edit, an editor opens the command: $VISUAL, else $EDITOR, else vi. What is saved runs as a shell command line. If the command is left unchanged, it
/// runs as before; on a terminal you are asked first. If the editor fails or the file is empty, nothing is started.
#[derive(Debug, Args)]
pub(crate) struct Rerun {
    /// The process: its name, its id, or at least four digits of its id
    id: String,
    /// Edit the command first
    #[arg(long)]
    edit: bool,
    /// Give the new process this name
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    name: Option<String>,
    /// Show its output until it ends; Ctrl-C leaves it running, and the exit code is 130
    #[arg(long, short, conflicts_with = "wait")]
    follow: bool,
    /// Wait until it ends, print its output, and exit with its code
    #[arg(long, short)]
    wait: bool,
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
        let process = named::find(ctx, &client, &self.id, named::Purpose::Act).await?;
        let mut change = RerunChange::default();
        if let Some(name) = self.name {
            change = change.named(name);
        }
        if self.edit {
            match edited(ctx, &client, &process.id).await? {
                Some(command) => change = change.running(command),
                None if !choice::may_ask(ctx) => ctx.out.remark("the command was left unchanged; it runs as before"),
                None if choice::is_confirmed("unchanged; run it anyway?")? => {}
                None => {
                    ctx.out.remark("nothing was started");
                    return Ok(OURS);
                }
            }
        }
        let typed = process.typed(std::slice::from_ref(&self.id));
        let again = client.rerun_changed(&process.id, ctx.caller(), env, change).await;
        let info = again.map_err(|e| process.failed(ctx, refused(ctx, e, "rerun", &process.id, &typed)))?;
        if info.fate.completion_reason == Some(Reason::FailedStart) {
            return run::failed_start(ctx, &info);
        }
        run::tell_not_passed_on(ctx, &info);
        let bell = Bell::new(ctx, false);
        let typed = named::typed_after_start(ctx, &client, &info).await;
        if self.follow {
            return run::to_its_end(ctx, &client, info, &typed, bell).await;
        }
        if self.wait {
            return run::wait_for_it(ctx, &client, &info, &typed, bell).await;
        }
        if let Some(bell) = bell {
            bell.leave(ctx, &info);
        }
        run::started(ctx, &client, info, &typed).await
    }
}

/// The refusal for a user with the command that does what is missing. If the directory is gone, neither `rerun` nor `restart` can choose another one.
pub(super) fn refused(ctx: &Context, failure: impl Into<Failure>, verb: &str, id: &str, typed: &str) -> Failure {
    let failure = failure.into();
    if failure.code() == code::SCRUBBED && !ctx.out.json {
        let hint = match failure.hint().split_once(" again with --env ") {
            Some((_, names)) => format!("`outlast {verb} {typed} --env {names}` gives it again, from the environment of this shell"),
            None => failure.hint().replace(id, typed),
        };
        let error = failure.error().replace(&format!("the command of {id}"), "its command");
        return failure.saying(error).hinting(hint);
    }
    let dir = failure.error().strip_prefix("directory ").and_then(|rest| rest.strip_suffix(" does not exist"));
    let Some(dir) = dir.filter(|_| failure.code() == code::BAD_SPEC) else { return failure };
    let create = Command::Argv(["mkdir", "-p", dir].map(Into::into).to_vec()).shown();
    failure.hinting(format!("create it again with `{create}`, or start the command elsewhere with `outlast run --cwd DIR`"))
}

/// The command as the user edited it, or nothing if it was not changed.
async fn edited(ctx: &Context, client: &Client, id: &str) -> Result<Option<Command>, Failure> {
    let shown = client.poll(id).await?.command;
    let edited = edit::edit(ctx, &shown).await?;
    // The program and its arguments are shown as a shell reads them, so that the line does the same.
    Ok((edited != shown.as_bytes()).then(|| Command::Shell(edited.into())))
}
