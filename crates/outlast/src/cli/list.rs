//! `outlast list`

use super::table::{Cell, lay_out};
use super::{Context, Failure, ScopeArgs, ending, times};
use clap::Args;
use outlast_client::ProcessInfo;

/// List processes
#[derive(Debug, Args)]
#[command(visible_alias = "ls")]
pub(crate) struct List {
    /// Finished ones too
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

impl List {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let scope = self.scope.or(&ctx.owner());
        let processes = ctx.client().await?.list(&scope, self.all).await?;
        if ctx.out.json {
            ctx.out.object(&outlast_client::List::new(processes))?;
            return Ok(0);
        }
        if processes.is_empty() {
            ctx.out.tip(if self.all { "no processes" } else { "nothing runs; --all shows finished processes" });
        }
        for line in lines(&processes, &ctx.out) {
            ctx.out.line(&line)?;
        }
        Ok(0)
    }
}

pub(super) fn lines(processes: &[ProcessInfo], out: &super::Out) -> Vec<String> {
    let rows: Vec<_> = processes
        .iter()
        .map(|p| {
            let (standing, tone) = ending::standing(p);
            [
                Cell::new(&p.session_id.to_string()),
                Cell::new(&standing).tone(tone),
                Cell::new(&p.pid.filter(|_| p.fate.completion_reason.is_none()).map(|pid| pid.to_string()).unwrap_or_default()),
                Cell::new(&times::age(p.uptime_seconds)),
                Cell::new(&told(p)),
                Cell::new(p.name.as_deref().unwrap_or_default()),
                Cell::new(&p.command),
            ]
        })
        .collect();
    if rows.is_empty() { Vec::new() } else { lay_out(["ID", "STATE", "PID", "TIME", "TOLD", "NAME", "COMMAND"], &rows, out) }
}

/// What its owner is told, in a word or two: its end; what matches, if something has, or no more.
fn told(p: &ProcessInfo) -> String {
    let watched = match (p.watch_patterns.is_empty(), p.watch_disabled, p.watch_hit) {
        (true, ..) => None,
        (_, true, _) => Some("off"),
        (.., Some(true)) => Some("hit"),
        _ => Some("watch"),
    };
    [p.notify_on_complete.then_some("end"), watched].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
