//! `outlast list`

use super::conversation::{self, Conversation};
use super::label::{self, LabelArgs};
use super::out::Tone;
use super::owner::meant;
use super::table::{Cell, Column, lay_out};
use super::{Context, Failure, ScopeArgs, ending, named, times};
use clap::{Args, ValueEnum};
use outlast_client::{ProcessInfo, Status, Time};
use serde_json::json;
use std::cmp::Ordering;

/// List processes
///
/// Shows running processes, and finished ones that left a child running. --all or --state exited|failed|stopped|lost shows finished ones. If several filters are
/// given, a process must pass all of them.
///
/// The column NOTIFIES says when the process makes a notice. `end`: when it ends. `watch`: when it prints a watched line. `hit`: a watched line was printed.
/// `off`: watching has stopped, because too many lines matched.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Include finished processes and running agents of conversations
    #[arg(long, short)]
    all: bool,
    /// Only processes in this state
    #[arg(long, value_name = "STATE")]
    state: Option<StateFilter>,
    /// Only processes with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    label: LabelArgs,
    /// Sort by this field [default: running first, then oldest first]
    #[arg(long, value_name = "FIELD")]
    sort: Option<SortField>,
    /// Reverse the order
    #[arg(long)]
    reverse: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// What `--state` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StateFilter {
    /// The command has not ended
    Running,
    /// The command has ended, for any reason
    Exited,
    /// It ended by itself or at its time limit, and its exit code is not 0 or not known
    Failed,
    /// It ended because it was stopped
    Stopped,
    /// A stop signal suspended it
    Suspended,
    /// It is being started
    Starting,
    /// It is being stopped
    Stopping,
    /// It was started elsewhere and added with `adopt`
    Adopted,
    /// It runs, and its keepers are dead
    Orphaned,
    /// It runs, and its keepers do not answer
    Unreachable,
    /// It ended, and its exit status is unknown
    Lost,
}

/// The states that `--state` takes.
pub(super) fn states() -> Vec<String> {
    StateFilter::value_variants().iter().filter_map(|state| Some(state.to_possible_value()?.get_name().to_owned())).collect()
}

impl StateFilter {
    fn takes(self, p: &ProcessInfo) -> bool {
        match self {
            Self::Running => p.status == Status::Running,
            Self::Exited => p.status == Status::Exited,
            Self::Failed => ending::is_failed(p),
            Self::Stopped => p.status == Status::Exited && ending::was_stopped(p),
            Self::Suspended => p.is_suspended,
            Self::Starting => p.phase == "starting",
            Self::Stopping => p.phase == "stopping",
            Self::Adopted => p.phase == "adopted",
            Self::Orphaned => p.phase == "orphaned",
            Self::Unreachable => p.phase == "unreachable",
            Self::Lost => p.phase == "lost",
        }
    }

    /// Whether finished processes are in this state.
    fn is_finished(self) -> bool {
        matches!(self, Self::Exited | Self::Failed | Self::Stopped | Self::Lost)
    }
}

/// What `--sort` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SortField {
    /// When it was started, the newest first
    Started,
    /// When it ended, the newest first; those that run come last
    Ended,
    /// How long it has run, or ran, the longest first
    Time,
    /// How much output there is, the largest first
    Output,
    /// Its name; those without one come last
    Name,
    /// Its state, as it is shown
    State,
    /// Its command
    Command,
}

impl SortField {
    /// Sorts. Where the field is equal, the order stays. What lacks the field comes last, also the other way round.
    fn sort(self, all: &mut [ProcessInfo], is_reversed: bool) {
        let is_falling = matches!(self, Self::Started | Self::Ended | Self::Time | Self::Output) != is_reversed;
        let turned = |by: Ordering| if is_falling { by.reverse() } else { by };
        match self {
            Self::Started => all.sort_by(|a, b| turned(a.started_at.cmp(&b.started_at))),
            Self::Ended => all.sort_by(|a, b| {
                let (a, b) = (a.fate.ended_by(), b.fate.ended_by());
                a.is_none().cmp(&b.is_none()).then_with(|| turned(a.cmp(&b)))
            }),
            Self::Time => all.sort_by(|a, b| turned(a.uptime_seconds.cmp(&b.uptime_seconds))),
            Self::Output => all.sort_by(|a, b| turned(a.output_bytes.cmp(&b.output_bytes))),
            Self::Name => all.sort_by(|a, b| a.name.is_none().cmp(&b.name.is_none()).then_with(|| turned(a.name.cmp(&b.name)))),
            Self::State => all.sort_by(|a, b| turned(ending::standing(a).0.cmp(&ending::standing(b).0))),
            Self::Command => all.sort_by(|a, b| turned(a.command.cmp(&b.command))),
        }
    }
}

impl List {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let named = self.scope.session.clone();
        let scope = self.scope.clone().or(&ctx.owner());
        let client = ctx.client().await?;
        let all = self.all || self.state.is_some_and(StateFilter::is_finished);
        let mut processes = client.list(&scope, all).await?;
        ending::mark_suspended(&mut processes);
        let has_any = !processes.is_empty();
        processes.retain(|p| self.takes(p));
        match self.sort {
            Some(field) => field.sort(&mut processes, self.reverse),
            None if self.reverse => processes.reverse(),
            None => {}
        }
        let meant = if processes.is_empty() { meant(&client, named.as_deref()).await } else { None };
        if ctx.out.json {
            let mut answer = with_conversations(outlast_client::List::new(processes));
            if let Some(hint) = meant {
                super::answer::merge(&mut answer, json!({"hint": hint}));
            }
            ctx.out.object(&named::with_ids(&answer))?;
            return Ok(0);
        }
        // If a session is named, everything in it is shown.
        let hidden = if scope.session.is_none() { hide_agents(&mut processes, all) } else { 0 };
        if let Some(meant) = meant {
            ctx.out.remark(&meant);
        } else if processes.is_empty() {
            ctx.out.tip(match (all, has_any && self.is_filtered()) {
                (true, true) => "no process matches",
                (false, true) => "no running process matches; --all includes finished ones",
                (true, false) => "no processes",
                (false, false) => "nothing runs; --all shows finished processes",
            });
        }
        for line in sorted_lines(&processes, self.sort, times::now(), &ctx.out) {
            ctx.out.line(&line)?;
        }
        match hidden {
            0 => {}
            1 => ctx.out.tip("1 agent of a conversation runs, too; --all shows it"),
            many => ctx.out.tip(&format!("{many} agents of conversations run, too; --all shows them")),
        }
        Ok(0)
    }

    fn takes(&self, p: &ProcessInfo) -> bool {
        let has_name = self.name.is_none() || p.name == self.name;
        has_name && self.label.takes(p) && self.state.is_none_or(|state| state.takes(p))
    }

    fn is_filtered(&self) -> bool {
        self.state.is_some() || self.name.is_some() || self.label.is_given()
    }
}

/// Leaves out the agents of conversations, because users look for what they and their agents started. `--all` shows those that run; the output of a finished one is
/// in its conversation. Returns how many of those left out are running.
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

/// The columns. A command is cut to `command` columns before another column is left out.
const fn columns(command: usize) -> [Column; 12] {
    [
        Column::new("ID"),
        Column::new("STATE").cut(16),
        Column::new("PID").goes(2),
        Column::new("TIME").goes(3),
        Column::new("STARTED").goes(7),
        Column::new("ENDED").goes(6),
        Column::new("OUTPUT").goes(8),
        Column::new("NOTIFIES").goes(1),
        Column::new("CHAT").cut(8).goes(4),
        Column::new("NAME").cut(8).goes(5),
        Column::new("LABELS").cut(12).goes(0),
        Column::new("COMMAND").cut(command),
    ]
}

/// A terminal with fewer columns gets states in fewer words.
const ROOM_FOR_LONG_STATES: usize = 100;
/// A terminal with fewer columns gets shorter commands.
const ROOM_FOR_LONG_COMMANDS: usize = 70;

pub(super) fn lines(processes: &[ProcessInfo], now: Time, out: &super::Out) -> Vec<String> {
    sorted_lines(processes, None, now, out)
}

/// The same with a column for the field by which they were sorted, if the others do not show it.
fn sorted_lines(processes: &[ProcessInfo], by: Option<SortField>, now: Time, out: &super::Out) -> Vec<String> {
    let is_below = |room| out.width.is_some_and(|width| width < room);
    let columns = columns(if is_below(ROOM_FOR_LONG_COMMANDS) { 8 } else { 16 });
    let standing = if is_below(ROOM_FOR_LONG_STATES) { ending::short_standing } else { ending::standing };
    let rows: Vec<_> = processes
        .iter()
        .map(|p| {
            let (standing, tone) = standing(p);
            [
                Cell::new(&p.session_id.to_string()),
                Cell::new(&standing).tone(tone),
                Cell::new(&pids(p)),
                Cell::new(&ending::time(p, times::age).unwrap_or_default()),
                Cell::new(&by.filter(|by| *by == SortField::Started).and_then(|_| times::ago(p.started_at, now)).unwrap_or_default())
                    .tone(Tone::Quiet),
                Cell::new(&ending::ended(&p.fate, now).unwrap_or_default()).tone(Tone::Quiet),
                Cell::new(&by.filter(|by| *by == SortField::Output).map(|_| times::size(p.output_bytes)).unwrap_or_default()),
                Cell::new(&notifies(p)),
                Cell::new(Conversation::of(p).map(Conversation::name).unwrap_or_default()),
                Cell::new(p.name.as_deref().unwrap_or_default()),
                Cell::new(&label::shown(p).unwrap_or_default()).tone(Tone::Quiet),
                Cell::new(conversation::command(p)),
            ]
        })
        .collect();
    if rows.is_empty() { Vec::new() } else { lay_out(columns, &rows, out) }
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

/// What it makes notices of, in a word or two: its end, and whether a watched line was printed or watching has stopped.
fn notifies(p: &ProcessInfo) -> String {
    let watched = match (p.watch_patterns.is_empty(), p.watch_disabled, p.watch_hit) {
        (true, ..) => None,
        (_, true, _) => Some("off"),
        (.., Some(true)) => Some("hit"),
        _ => Some("watch"),
    };
    [p.notify_on_complete.then_some("end"), watched].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
