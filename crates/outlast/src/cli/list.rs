//! `outlast list`

use super::conversation::{self, Conversation};
use super::out::Tone;
use super::owner::meant;
use super::table::{Cell, Column, lay_out};
use super::{Context, Failure, ScopeArgs, ending, named, times};
use clap::Args;
use outlast_client::{ProcessInfo, Time};
use serde_json::json;

/// List processes
#[derive(Debug, Args)]
#[command(visible_aliases = ["ls", "ps"])]
pub(crate) struct List {
    /// Include finished processes, and the agents of conversations that run
    #[arg(long, short)]
    all: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

impl List {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let named = self.scope.session.clone();
        let scope = self.scope.or(&ctx.owner());
        let client = ctx.client().await?;
        let mut processes = client.list(&scope, self.all).await?;
        ending::mark_suspended(&mut processes);
        let meant = if processes.is_empty() { meant(&client, named.as_deref()).await } else { None };
        if ctx.out.json {
            let mut answer = with_conversations(outlast_client::List::new(processes));
            if let Some(hint) = meant {
                super::run::merge(&mut answer, json!({"hint": hint}));
            }
            ctx.out.object(&named::with_ids(&answer))?;
            return Ok(0);
        }
        // Who names a session wants to see what is in it.
        let hidden = if scope.session.is_none() { hide_agents(&mut processes, self.all) } else { 0 };
        if let Some(meant) = meant {
            ctx.out.remark(&meant);
        } else if processes.is_empty() {
            ctx.out.tip(if self.all { "no processes" } else { "nothing runs; --all shows finished processes" });
        }
        for line in lines(&processes, times::now(), &ctx.out) {
            ctx.out.line(&line)?;
        }
        match hidden {
            0 => {}
            1 => ctx.out.tip("1 agent of a conversation runs, too; --all shows it"),
            many => ctx.out.tip(&format!("{many} agents of conversations run, too; --all shows them")),
        }
        Ok(0)
    }
}

/// Leaves out the agents of conversations: people look for what they and their agents started. Those that run are shown with `--all`; what a finished one said is
/// in its conversation. Returns how many of those that were left out run.
fn hide_agents(processes: &mut Vec<ProcessInfo>, all: bool) -> usize {
    let is_hidden = |p: &ProcessInfo| conversation::is_finished_agent(p) || (conversation::is_agent(p) && !all);
    let running = processes.iter().filter(|p| is_hidden(p) && !conversation::is_finished_agent(p)).count();
    processes.retain(|p| !is_hidden(p));
    running
}

/// The list as JSON. A process of a conversation has its name, and an agent is marked as one.
fn with_conversations(list: outlast_client::List) -> serde_json::Value {
    let found: Vec<_> = list.processes.iter().map(|p| Conversation::of(p).map(|c| (c.name().to_owned(), c.is_agent))).collect();
    let mut answer = serde_json::to_value(list).unwrap_or_default();
    let entries = answer["processes"].as_array_mut().into_iter().flatten();
    for (entry, (name, is_agent)) in entries.zip(found).filter_map(|(entry, found)| Some((entry, found?))) {
        entry["conversation"] = json!(name);
        if is_agent {
            entry["is_agent"] = json!(true);
        }
    }
    answer
}

const COLUMNS: [Column; 9] = [
    Column::new("ID"),
    Column::new("STATE").cut(10),
    Column::new("PID").goes(2),
    Column::new("TIME").goes(4),
    Column::new("ENDED").goes(3),
    Column::new("TOLD").goes(1),
    Column::new("CHAT").cut(8).goes(5),
    Column::new("NAME").cut(10).goes(6),
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
                Cell::new(&pids(p)),
                Cell::new(&times::age(p.uptime_seconds)),
                Cell::new(&p.fate.ended_at.and_then(|at| times::ago(at, now)).unwrap_or_default()).tone(Tone::Quiet),
                Cell::new(&told(p)),
                Cell::new(Conversation::of(p).map(Conversation::name).unwrap_or_default()),
                Cell::new(p.name.as_deref().unwrap_or_default()),
                Cell::new(conversation::command(p)),
            ]
        })
        .collect();
    if rows.is_empty() { Vec::new() } else { lay_out(COLUMNS, &rows, out) }
}

/// How many pids of what a process left running a line shows; `poll` shows all.
const MAX_PIDS: usize = 3;

/// The pid of one that runs, or those of what it left running.
fn pids(p: &ProcessInfo) -> String {
    let own = p.pid.filter(|_| p.fate.completion_reason.is_none());
    let left = p.left.iter().take(MAX_PIDS).map(|left| left.pid);
    let pids: Vec<String> = own.into_iter().chain(left).map(|pid| pid.to_string()).collect();
    if p.left.len() > MAX_PIDS { format!("{} …", pids.join(" ")) } else { pids.join(" ") }
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
