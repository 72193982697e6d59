//! The processes that `kill --all`, `kill --label` and `clean` apply to, and the question before they affect other sessions.

use super::conversation::Conversation;
use super::label::LabelArgs;
use super::named::{self, Named, Purpose};
use super::{Context, Failure, ending, list, seconds, times};
use clap::Args;
use outlast_client::{Client, ProcessId, ProcessInfo, Scope};
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

/// How many sessions a question names.
const MAX_NAMED_SESSIONS: usize = 3;
/// How many other processes of a name a question names.
const MAX_NAMED_OTHERS: usize = 4;

/// Flags that select processes, or skip the question.
#[derive(Debug, Args)]
pub(crate) struct ChoiceArgs {
    /// Only processes that have been in their state for at least this long, such as 30m or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = seconds, allow_negative_numbers = true)]
    older: Option<Duration>,
    /// Show the processes it would affect, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask first
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) label: LabelArgs,
}

impl ChoiceArgs {
    /// Whether a flag was given that selects processes, those for labels aside.
    pub(crate) fn selects(&self) -> bool {
        self.older.is_some() || self.dry_run
    }
}

/// The result of a selection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Everything in the scope.
    All,
    /// The processes that were found, and shown if there was a question. Processes that start or end after that are not among them.
    These(Vec<ProcessId>),
    /// Nothing is to be done. The exit code.
    Answered(i32),
}

/// A verb that applies to many processes.
pub(crate) struct BulkVerb {
    /// What it does: `stop`.
    pub(crate) verb: &'static str,
    /// What it has done: `stopped`.
    pub(crate) done: &'static str,
    /// Whether it applies to finished processes; otherwise to running ones.
    pub(crate) finished: bool,
    /// Whether it applies only to failed processes, as `list --state failed` does.
    pub(crate) failed: bool,
}

impl BulkVerb {
    fn takes(&self, p: &ProcessInfo, older: Option<Duration>, now: outlast_client::Time) -> bool {
        let is_over = p.fate.completion_reason.is_some();
        let age = match p.fate.ended_by() {
            Some(ended) => now.seconds_since(ended),
            None => p.uptime_seconds,
        };
        // What a finished process left running can be stopped, too. Until that has ended, its record is kept.
        let has_left = !p.left.is_empty();
        let is_meant = if self.finished { is_over && !has_left } else { !is_over || has_left };
        is_meant && older.is_none_or(|older| Duration::from_secs(age) >= older) && (!self.failed || ending::is_failed(p))
    }

    /// Finds the processes, and asks a user at a terminal if some belong to other sessions.
    pub(crate) async fn choose(&self, ctx: &Context, client: &Client, args: &ChoiceArgs, scope: &Scope) -> Result<Choice, Failure> {
        let may_ask = !args.yes && may_ask(ctx);
        if !may_ask && !args.dry_run && args.older.is_none() && !self.failed && !args.label.is_given() {
            return Ok(Choice::All);
        }
        let (mut found, now) = (client.list(scope, self.finished).await?, times::now());
        found.retain(|p| self.takes(p, args.older, now) && args.label.takes(p));
        if args.dry_run {
            return self.show(ctx, found).map(|()| Choice::Answered(0));
        }
        let own = ctx.owner().session;
        let others: Vec<&ProcessInfo> = found.iter().filter(|p| p.session_key != own).collect();
        if may_ask && !others.is_empty() && !is_confirmed(&self.question(&found, &others))? {
            ctx.out.remark(&format!("nothing was {}", self.done));
            return Ok(Choice::Answered(1));
        }
        Ok(Choice::These(found.iter().map(|p| p.session_id).collect()))
    }

    fn show(&self, ctx: &Context, found: Vec<ProcessInfo>) -> Result<(), Failure> {
        if ctx.out.json {
            let mut answer = json!({"dry_run": true, "count": found.len()});
            super::answer::merge(&mut answer, serde_json::to_value(outlast_client::List::new(found)).unwrap_or_default());
            return ctx.out.object(&named::with_ids(&answer));
        }
        for line in list::lines(&found, times::now(), &ctx.out) {
            ctx.out.line(&line)?;
        }
        ctx.out.line(&format!("{} would be {}", found.len(), self.done))
    }

    fn question(&self, found: &[ProcessInfo], others: &[&ProcessInfo]) -> String {
        let count = found.len();
        let sessions: BTreeSet<String> = others.iter().map(|p| owner_in_words(p)).collect();
        let named: Vec<&str> = sessions.iter().map(String::as_str).take(MAX_NAMED_SESSIONS).collect();
        let more = match sessions.len() - named.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let processes = |count: usize| if count == 1 { "process" } else { "processes" };
        let left = found.iter().filter(|p| !self.finished && p.fate.completion_reason.is_some()).count();
        let all = match count - left {
            0 => format!("what {left} finished {} left running", processes(left)),
            running if left == 0 => format!("{running} {}", processes(running)),
            running => format!("{running} {} and what {left} finished {} left running", processes(running), processes(left)),
        };
        let which = if others.len() == count { "of".to_owned() } else { format!("{} of them of", others.len()) };
        let other = if sessions.len() == 1 { "another session" } else { "other sessions" };
        super::out::tame(&format!("{} {all}, {which} {other} ({}{more})?", self.verb, named.join(", ")))
    }
}

/// What a verb does to processes that are named, in the words of its question.
pub(crate) struct NamedVerb<'a> {
    /// What it does: `stop`.
    pub(crate) verb: &'a str,
    /// What it has done: `stopped`.
    pub(crate) done: &'a str,
    /// Whether the user has skipped the question.
    pub(crate) yes: bool,
}

impl NamedVerb<'_> {
    /// Looks up each process, as [`named::find_each`] does. If a name means one of several that run, a user at a terminal is asked first. None if the answer is
    /// no.
    pub(crate) async fn choose(&self, ctx: &Context, client: &Client, given: &[String]) -> Result<Option<Vec<Named>>, Failure> {
        if self.yes || !may_ask(ctx) {
            return named::find_each(ctx, client, given, Purpose::Act).await.map(Some);
        }
        let mut all: Vec<Named> = Vec::new();
        for given in given {
            let (found, namesakes) = named::find_with_namesakes(ctx, client, given, Purpose::Act).await?;
            if all.contains(&found) {
                continue;
            }
            if !namesakes.is_empty() && !is_confirmed(&self.question(&found, &namesakes))? {
                ctx.out.remark(&format!("nothing was {}", self.done));
                return Ok(None);
            }
            all.push(found);
        }
        Ok(Some(all))
    }

    fn question(&self, of: &Named, others: &[ProcessId]) -> String {
        let shown: Vec<String> = others.iter().take(MAX_NAMED_OTHERS).map(ToString::to_string).collect();
        let more = match others.len() - shown.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let name = super::out::tame(of.name.as_deref().unwrap_or_default());
        let count = others.len() + 1;
        format!("{count} running processes are called {name}: {} (the newest), {}{more}; {} {0}?", of.id, shown.join(", "), self.verb)
    }
}

/// Whether a user can be asked.
pub(crate) fn may_ask(ctx: &Context) -> bool {
    ctx.out.has_person() && std::io::stdin().is_terminal()
}

/// Asks the user whether to continue. Anything but yes means no.
pub(crate) fn is_confirmed(question: &str) -> Result<bool, Failure> {
    let mut err = std::io::stderr();
    write!(err, "{question} [y/N] ")?;
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Whose a process is, in the words of a question.
fn owner_in_words(p: &ProcessInfo) -> String {
    match (Conversation::of(p), p.session_key.as_deref()) {
        (Some(of), _) if of.is_agent => format!("the agent of the conversation {}", of.name()),
        (Some(of), _) => format!("the conversation {}", of.name()),
        (None, Some(session)) => session.to_owned(),
        (None, None) => "no session".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(session: Option<&str>, code: Option<i32>) -> ProcessInfo {
        let mut p: ProcessInfo = serde_json::from_value(json!({
            "session_id": "proc_000000000001", "command": "x", "status": "running", "phase": "running", "pid": 1, "cwd": "/",
            "started_at": "2026-01-01T00:00:00Z", "uptime_seconds": 100, "output_bytes": 0,
        }))
        .unwrap();
        p.session_key = session.map(Into::into);
        if code.is_some() {
            p.status = outlast_client::Status::Exited;
            p.fate.completion_reason = Some(outlast_client::Reason::Exited);
            (p.fate.exit_code, p.fate.ended_at) = (Some(code), Some("2026-01-01T00:10:00Z".parse().unwrap()));
        }
        p
    }

    #[test]
    fn age_counts_from_the_start_of_a_running_process_and_from_the_end_of_a_finished_one() {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let kill = BulkVerb { verb: "stop", done: "stopped", finished: false, failed: false };
        let clean = |failed| BulkVerb { verb: "remove", done: "removed", finished: true, failed };
        let (running, good, bad) = (process(None, None), process(None, Some(0)), process(None, Some(3)));
        let minutes = |n: u64| Some(Duration::from_secs(60 * n));
        assert!(kill.takes(&running, None, now) && kill.takes(&running, minutes(1), now) && !kill.takes(&running, minutes(2), now));
        assert!(!kill.takes(&good, None, now) && !clean(false).takes(&running, None, now));
        assert!(clean(false).takes(&good, minutes(50), now) && !clean(false).takes(&good, minutes(51), now));
        assert!(clean(true).takes(&bad, None, now) && !clean(true).takes(&good, None, now));
    }

    #[test]
    fn the_question_about_a_name_names_the_others() {
        let ids: Vec<ProcessId> = (1..=6).map(|n| ProcessId::from_bytes([n; 6])).collect();
        let of = Named { id: ids[0].to_string(), name: Some("web".into()) };
        let kill = NamedVerb { verb: "stop", done: "stopped", yes: false };
        assert_eq!(
            kill.question(&of, &ids[1..2]),
            "2 running processes are called web: proc_010101010101 (the newest), proc_020202020202; stop proc_010101010101?"
        );
        assert!(kill.question(&of, &ids[1..]).contains("proc_050505050505 and 1 more; stop"));
    }

    #[test]
    fn the_question_names_the_other_sessions() {
        let kill = BulkVerb { verb: "stop", done: "stopped", finished: false, failed: false };
        let all: Vec<ProcessInfo> = ["a", "b", "c", "d", "a"].iter().map(|s| process(Some(s), None)).collect();
        let others: Vec<&ProcessInfo> = all.iter().collect();
        assert_eq!(kill.question(&all[..1], &others[..1]), "stop 1 process, of another session (a)?");
        let own = [process(None, None), process(None, Some(0))];
        let seven = [&own[..], &all].concat();
        let question = "stop 6 processes and what 1 finished process left running, 5 of them of other sessions (a, b, c and 1 more)?";
        assert_eq!(kill.question(&seven, &others), question);
        let agent = process(Some("outlast:agent:agent:main:local:dm:main"), None);
        let question = "stop 1 process, of another session (the agent of the conversation main)?";
        assert_eq!(kill.question(std::slice::from_ref(&agent), &[&agent]), question);
    }
}
