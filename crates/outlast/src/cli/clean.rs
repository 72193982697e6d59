//! `outlast clean`

use super::choice::{BulkVerb, Choice, ChoiceArgs};
use super::owner::meant;
use super::progress::{self, About};
use super::{Context, Failure, ScopeArgs, named, times};
use clap::Args;
use outlast_client::ProcessId;
use std::collections::BTreeSet;

/// At most this many removed processes are named.
const MAX_NAMED: u64 = 20;

/// Remove all finished processes
///
/// Their output and records are deleted. Notices of them keep their text, also the output in it, until their own time is over (`retention.notice_days`).
///
/// On a terminal it asks before it removes processes of other sessions; --yes skips the question. In a pipe and with --json it does not ask.
#[derive(Debug, Args)]
pub(crate) struct Clean {
    #[command(flatten)]
    scope: ScopeArgs,
    /// Only processes that failed: not those that exited with code 0 or were stopped
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    choice: ChoiceArgs,
}

impl Clean {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let named = self.scope.session.clone();
        let scope = self.scope.or(&ctx.owner());
        let client = ctx.client().await?;
        // The names of what was removed are shown only to a user at a terminal.
        let before = if ctx.out.has_person() { client.list(&scope, true).await? } else { Vec::new() };
        let about = About::Words("removing finished processes");
        let many = BulkVerb { verb: "remove", done: "removed", finished: true, failed: self.failed };
        let left = "the rest is still being removed";
        let cleaned = match many.choose(ctx, &client, &self.choice, &scope).await? {
            Choice::All => progress::during(ctx, about, left, client.clean(&scope)).await??,
            Choice::These(ids) => progress::during(ctx, about, left, client.clean_these(&ids)).await??,
            Choice::Answered(code) => return Ok(code),
        };
        if ctx.out.json {
            ctx.out.object(&cleaned)?;
        } else {
            ctx.out.line(&format!("{} removed, {} freed", cleaned.removed, times::size(cleaned.freed_bytes)))?;
            if (1..=MAX_NAMED).contains(&cleaned.removed) && !before.is_empty() {
                let left: BTreeSet<ProcessId> = client.list(&scope, true).await?.iter().map(|p| p.session_id).collect();
                let gone = before.iter().filter(|p| !left.contains(&p.session_id));
                let names: Vec<String> = gone.map(|p| named::shown(p.session_id, p.name.as_deref())).collect();
                ctx.out.tip(&format!("removed: {}", names.join(", ")));
            }
            if cleaned.kept > 0 {
                ctx.out.remark(&format!("{} kept: what they started is still running; `outlast list` shows it", cleaned.kept));
            }
            if cleaned.removed == 0
                && let Some(meant) = meant(&client, named.as_deref()).await
            {
                ctx.out.remark(&meant);
            }
        }
        Ok(0)
    }
}
