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
            ctx.out.object(&outlast_client::List { processes })?;
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
                Cell::new(p.name.as_deref().unwrap_or_default()),
                Cell::new(&p.command),
            ]
        })
        .collect();
    if rows.is_empty() { Vec::new() } else { lay_out(["ID", "STATE", "PID", "TIME", "NAME", "COMMAND"], &rows, out) }
}
