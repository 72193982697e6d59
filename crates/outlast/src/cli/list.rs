//! `outlast list`

use super::out::Tone;
use super::owner::meant;
use super::table::{Cell, Column, lay_out};
use super::{Context, Failure, ScopeArgs, ending, times};
use clap::Args;
use outlast_client::{ProcessInfo, Time};
use serde_json::json;

/// List processes
#[derive(Debug, Args)]
#[command(visible_alias = "ls")]
pub(crate) struct List {
    /// Include finished processes
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

impl List {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let named = self.scope.session.clone();
        let scope = self.scope.or(&ctx.owner());
        let client = ctx.client().await?;
        let processes = client.list(&scope, self.all).await?;
        let meant = if processes.is_empty() { meant(&client, named.as_deref()).await } else { None };
        if ctx.out.json {
            let mut answer = serde_json::to_value(outlast_client::List::new(processes)).unwrap_or_default();
            if let Some(hint) = meant {
                super::run::merge(&mut answer, json!({"hint": hint}));
            }
            ctx.out.object(&answer)?;
            return Ok(0);
        }
        if let Some(meant) = meant {
            ctx.out.remark(&meant);
        } else if processes.is_empty() {
            ctx.out.tip(if self.all { "no processes" } else { "nothing runs; --all shows finished processes" });
        }
        for line in lines(&processes, times::now(), &ctx.out) {
            ctx.out.line(&line)?;
        }
        Ok(0)
    }
}

const COLUMNS: [Column; 8] = [
    Column::new("ID"),
    Column::new("STATE").cut(10),
    Column::new("PID").goes(2),
    Column::new("TIME").goes(4),
    Column::new("ENDED").goes(3),
    Column::new("TOLD").goes(1),
    Column::new("NAME").cut(10).goes(5),
    Column::new("COMMAND").cut(20),
];

pub(super) fn lines(processes: &[ProcessInfo], now: Time, out: &super::Out) -> Vec<String> {
    let rows: Vec<_> = processes
        .iter()
        .map(|p| {
            let (standing, tone) = ending::standing(p);
            [
                Cell::new(&p.session_id.to_string()),
                Cell::new(&standing).tone(tone),
                Cell::new(&p.pid.filter(|_| p.fate.completion_reason.is_none()).map(|pid| pid.to_string()).unwrap_or_default()),
                Cell::new(&times::age(p.uptime_seconds)),
                Cell::new(&p.fate.ended_at.and_then(|at| times::ago(at, now)).unwrap_or_default()).tone(Tone::Quiet),
                Cell::new(&told(p)),
                Cell::new(p.name.as_deref().unwrap_or_default()),
                Cell::new(&p.command),
            ]
        })
        .collect();
    if rows.is_empty() { Vec::new() } else { lay_out(COLUMNS, &rows, out) }
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
