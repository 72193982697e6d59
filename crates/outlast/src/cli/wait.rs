//! `outlast wait`

use super::ending::{self, TIMED_OUT};
use super::failure::OURS;
use super::label::{NamedOrLabelled, Selection};
use super::named::{self, Each, Named};
use super::progress::{self, About};
use super::{Context, Failure, left_running, output, some_seconds, times};
use clap::Args;
use outlast_client::{Client, Owner, Waited};
use std::time::Duration;

/// Wait for a process to end, and exit with its code
///
/// Prints its output: in a pipe or a file everything that is kept, on a terminal the last lines that fit.
///
/// Exits as the command did: with its own code, 128+n for signal n, 126 or 127 if it could not be started, 124 if it still runs after --timeout
/// or reached its own time limit, 125 if it is lost or the wait failed.
///
/// If several processes are named, it waits until all have ended. Their output is printed in the order in which they are named, and the exit code is the first of
/// theirs that is not 0. With --json the answer is {"processes": [...]}, each as for one process.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    which: NamedOrLabelled,
    /// Wait at most this long, such as 90s, 5m or 1h30m; the process keeps running
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,
}

impl Wait {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        self.wait(ctx).await.map_err(|e| e.exit(OURS))
    }

    async fn wait(self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        let Selection { all, is_one } = self.which.find(ctx, &client).await?;
        match (&all[..], is_one) {
            ([one], true) => {
                let waited = for_it(ctx, &client, &one.id, &self.which.typed(one), self.timeout).await?;
                if ctx.out.json {
                    ctx.out.object(&output::in_json(&client, &one.id, &waited).await)?;
                    return Ok(code(&waited));
                }
                tell(ctx, &client, one, &waited, self.timeout).await
            }
            (several, _) => for_all(ctx, &client, several, self.timeout).await,
        }
    }
}

/// Waits until all have ended, or the time is over.
async fn for_all(ctx: &Context, client: &Client, all: &[Named], at_most: Option<Duration>) -> Result<i32, Failure> {
    let ids: Vec<&str> = all.iter().map(|one| one.id.as_str()).collect();
    let words = format!("waiting for the end of {} processes", all.len());
    let left = format!("they keep running; wait again with: outlast wait {}", ids.join(" "));
    let waits = named::at_once(all, |id| {
        let client = client.clone();
        async move { client.wait(&id, at_most).await }
    });
    let mut each = Each::new();
    for (one, waited) in progress::during(ctx, About::Words(&words), &left, waits).await?? {
        match waited {
            Ok(waited) => {
                if ctx.out.json {
                    each.done(&output::in_json(client, &one.id, &waited).await, code(&waited));
                } else {
                    let code = tell(ctx, client, one, &waited, at_most).await?;
                    each.done(&waited, code);
                }
            }
            Err(e) => each.failed(ctx, one, Failure::from(e).exit(OURS)),
        }
    }
    each.finish(ctx)
}

/// Waits, and shows at a terminal how long and for what.
pub(crate) async fn for_it(ctx: &Context, client: &Client, id: &str, typed: &str, at_most: Option<Duration>) -> Result<Waited, Failure> {
    let left = format!("{typed} keeps running; wait again with: outlast wait {typed}");
    Ok(progress::during(ctx, About::End { client, id, at_most }, &left, client.wait(id, at_most)).await??)
}

/// The exit code for the result of a wait.
pub(crate) fn code(waited: &Waited) -> i32 {
    match waited.status.as_str() {
        "exited" => ending::exit_code(&waited.fate),
        "timeout" => TIMED_OUT,
        // Interrupted: the process keeps running and has no exit code yet.
        _ => OURS,
    }
}

/// Prints the output and how the process ended, and returns the exit code. `at_most` is how long the wait could last.
pub(crate) async fn tell(ctx: &Context, client: &Client, of: &Named, waited: &Waited, at_most: Option<Duration>) -> Result<i32, Failure> {
    let id = waited.session_id;
    output::print_end(ctx, client, &id.to_string(), &waited.output, waited.output_cut.is_none()).await?;
    if let Some(missing) = waited.output_missing {
        ctx.out.remark(&format!("[{missing} bytes of output are missing: the disk refused them; `outlast poll {id}` shows which]"));
    }
    match waited.status.as_str() {
        "exited" => {
            let sentence = format!("{of} {}", ending::sentence(&waited.fate));
            if ending::is_ours(&waited.fate) {
                ctx.out.remark(&sentence)
            } else {
                ctx.out.tip(&sentence)
            }
            if let Some(note) = left_running::note(id, &waited.left) {
                ctx.out.remark(&note);
            }
        }
        "timeout" => {
            // This look settles no notice. Without it there is only less to say.
            let now = client.with_owner(Owner::default()).poll(&of.id).await;
            let suspended = match now.is_ok_and(|now| now.is_suspended) {
                true => format!(", suspended by a stop signal; `outlast signal {} CONT` continues it", of.id),
                false => String::new(),
            };
            let after = at_most.map(|time| format!(" after {}", times::short(time))).unwrap_or_default();
            ctx.out.remark(&format!("{of} keeps running{after}{suspended}"));
        }
        status => ctx.out.remark(&format!("{of}: {}", waited.note.as_deref().unwrap_or(status))),
    }
    Ok(code(waited))
}
