//! `outlast doctor`

mod agents;
mod engine;
mod gateway;
mod home;
mod machine;
mod notices;
mod place;
mod processes;
mod trial;
mod wakes;

use super::out::{Out, Tone};
use super::table::wrap;
use super::{Context, Failure, progress, times};
use crate::os::Surroundings;
use clap::Args;
use outlast_client::{Client, Dead, EngineStatus, History, Owner, ProcessInfo, Scope, Told};
use serde::Serialize;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

/// Test every promise on this machine and explain what is weaker
///
/// Each line is one check. If a promise is weaker here, the line names it (P1 to P8, as in docs/promises.md), what that means for you, and what to do about it.
/// The lines called `trial` come from real commands in a scratch home: they print, read and are stopped, with and without a terminal, while their keepers
/// and their engine are killed. Your own processes, notices and hooks are not touched, and the scratch home is removed. Takes a few seconds.
///
/// Exits 0 if no problem is found, 3 if something is degraded, 1 if something is broken.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Leave out the trial, which starts and kills commands
    #[arg(long)]
    quick: bool,
}

/// The exit code if a promise is degraded. Not 2, which is for bad usage.
const DEGRADED: i32 = 3;
/// How many dead letters and dropped notices are read.
const MAX_NOTICES: u32 = 100;

/// How good the finding of a check is. The order matters: the worst one decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckState {
    Ok,
    /// It works, but a promise is weaker than it could be.
    Degraded,
    /// It does not work.
    Broken,
}

/// One check: the finding, what it means for which promise, and what to do.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: CheckState,
    what: String,
    /// The promises that it weakens.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    promises: &'static [&'static str],
    #[serde(skip_serializing_if = "String::is_empty")]
    means: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

impl Check {
    fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, state: CheckState::Ok, what: what.into(), promises: &[], means: String::new(), hint: String::new() }
    }
    fn degraded(name: &'static str, promises: &'static [&'static str], what: impl Into<String>) -> Self {
        Self { state: CheckState::Degraded, promises, ..Self::ok(name, what) }
    }
    fn broken(name: &'static str, what: impl Into<String>) -> Self {
        Self { state: CheckState::Broken, ..Self::ok(name, what) }
    }
    /// Adds what it means for the user.
    fn means(self, means: impl Into<String>) -> Self {
        Self { means: means.into(), ..self }
    }
    /// Adds what to do.
    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

/// The answers of the engine of the home.
pub(super) struct EngineReport {
    status: EngineStatus,
    processes: Vec<ProcessInfo>,
    dead: Dead,
    dropped: Vec<Told>,
}

/// The facts from which the checks are made, besides the home itself.
struct DoctorFacts<'a> {
    place: Surroundings,
    found: &'a Result<EngineReport, Failure>,
    /// Absent with `--quick`.
    trial: Option<&'a trial::TrialReport>,
    /// Ended processes of Outlast that process 1 has not reaped.
    unreaped: usize,
}

impl Doctor {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let found = match ctx.client().await {
            Ok(client) => ask(&client).await,
            Err(e) => Err(e),
        };
        let trial = if self.quick { None } else { Some(try_promises(ctx).await?) };
        let place = Surroundings::here();
        let unreaped = place::unreaped(&place).await;
        let facts = DoctorFacts { place, found: &found, trial: trial.as_ref(), unreaped };
        let mut checks = examine(ctx, &facts);
        checks.extend(gateway::checks(ctx).await);
        checks.extend(agents::checks(ctx).await);
        checks.extend(wakes::checks(ctx).await);
        let worst = checks.iter().map(|c| c.state).max().unwrap_or(CheckState::Ok);
        if ctx.out.json {
            ctx.out.object(&json!({"status": worst, "checks": checks}))?;
        } else {
            checks.iter().try_for_each(|check| say(ctx, check))?;
            ctx.out.line(&summary(&checks, trial.is_some()))?;
        }
        Ok(match worst {
            CheckState::Ok => 0,
            CheckState::Degraded => DEGRADED,
            CheckState::Broken => 1,
        })
    }
}

/// Asks as a user does, who sees all sessions. This marks nothing as delivered.
pub(super) async fn ask(client: &Client) -> Result<EngineReport, Failure> {
    let client = client.with_owner(Owner::default());
    let dropped = History::default().in_state("dropped").limit(MAX_NOTICES).newest_first();
    Ok(EngineReport {
        status: client.engine_status().await?,
        processes: client.list(&Scope::default(), true).await?,
        dead: client.dead(Some(MAX_NOTICES)).await?,
        dropped: client.history(dropped).await?,
    })
}

/// The checks that change nothing, as text for a report. No engine is started, and no program is run.
pub(super) fn looked_at(ctx: &Context, found: &Result<EngineReport, Failure>) -> String {
    let facts = DoctorFacts { place: Surroundings::here(), found, trial: None, unreaped: 0 };
    let checks = examine(ctx, &facts);
    let mut lines: Vec<String> = checks.iter().flat_map(|check| lines(&Out::plain(None), check)).collect();
    lines.push(summary(&checks, false));
    lines.join("\n") + "\n"
}

/// Runs the trial. A signal ends it early; its scratch home is still removed.
async fn try_promises(ctx: &Context) -> Result<trial::TrialReport, Failure> {
    let mut signals = Vec::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        signals.push(signal(kind)?);
    }
    let interrupted = std::future::poll_fn(|cx| match signals.iter_mut().any(|s| s.poll_recv(cx).is_ready()) {
        true => std::task::Poll::Ready(()),
        false => std::task::Poll::Pending,
    });
    let about = progress::About::Words("trying a command, a terminal, a stop and kills of our own processes");
    match progress::beside(ctx, about, trial::perform(ctx, interrupted)).await {
        Some(seen) => Ok(seen),
        None => Err(Failure::left("interrupted; the scratch home was removed")),
    }
}

fn examine(ctx: &Context, facts: &DoctorFacts<'_>) -> Vec<Check> {
    let mut checks = place::checks(facts);
    checks.extend(home::checks(&ctx.settings.home, facts.place.container));
    checks.extend(facts.trial.map(trial::checks).unwrap_or_default());
    checks.extend(engine::checks(ctx, facts));
    checks.extend(machine::checks(ctx, facts));
    if let Ok(found) = facts.found {
        checks.extend(processes::checks(&found.processes, times::now()));
        checks.extend(notices::checks(&found.dead, &found.dropped));
    }
    for warning in &ctx.settings.warnings {
        let is_whole_file = ctx.settings.unreadable.as_ref().is_some_and(|why| warning.starts_with(why));
        let (means, what) = match is_whole_file {
            true => ("no setting, hook or webhook of the file has an effect", "correct"),
            false => ("this setting has no effect", "correct or remove it in"),
        };
        checks.push(Check::degraded("config", &[], warning.clone()).means(means).hint(format!("{what} {}", ctx.settings.file.display())));
    }
    if !ctx.settings.redact {
        checks.push(
            Check::degraded("secrets", &["P8"], "security.redact_secrets is off")
                .means("passwords and tokens in commands and output are stored and shown, and sent with notices")
                .hint("set it to true, then `outlast engine restart`: the next engine reads it"),
        );
    }
    checks
}

/// The columns before the text of a check.
const INDENT: usize = 21;

fn say(ctx: &Context, check: &Check) -> Result<(), Failure> {
    lines(&ctx.out, check).iter().try_for_each(|line| ctx.out.line(line))
}

fn lines(out: &Out, check: &Check) -> Vec<String> {
    let (word, tone) = match check.state {
        CheckState::Ok => ("ok", Tone::Good),
        CheckState::Degraded => ("degraded", Tone::Busy),
        CheckState::Broken => ("broken", Tone::Bad),
    };
    let promises = if check.promises.is_empty() { String::new() } else { format!(" ({})", check.promises.join(", ")) };
    let room = out.width.map_or(usize::MAX, |width| width.saturating_sub(INDENT).max(20));
    let mut head = format!("{}{} {:12}", out.paint(tone, word), " ".repeat(8 - word.len()), check.name);
    let parts = [("", format!("{}{promises}", check.what)), ("means: ", check.means.clone()), ("→ ", check.hint.clone())];
    let mut all = Vec::new();
    for (mark, text) in parts.iter().filter(|(_, text)| !text.is_empty()) {
        let inner = " ".repeat(mark.chars().count());
        for (n, line) in wrap(text, room.saturating_sub(inner.len())).iter().enumerate() {
            let before = if n == 0 { mark } else { inner.as_str() };
            all.push(format!("{head}{before}{line}").trim_end().to_owned());
            head = " ".repeat(INDENT);
        }
    }
    all
}

/// `nothing is broken, 2 things are degraded`. `is_tried`: whether the trial was run.
fn summary(checks: &[Check], is_tried: bool) -> String {
    let count = |state: CheckState| checks.iter().filter(|c| c.state == state).count();
    let things = |n: usize| if n == 1 { "1 thing is".to_owned() } else { format!("{n} things are") };
    match (count(CheckState::Broken), count(CheckState::Degraded)) {
        (0, 0) if is_tried => "every promise holds".into(),
        (0, 0) => "no problem found; the promises were not tried (--quick)".into(),
        (0, degraded) => format!("nothing is broken, {} degraded", things(degraded)),
        (broken, 0) => format!("{} broken", things(broken)),
        (broken, degraded) => format!("{} broken, {} degraded", things(broken), things(degraded)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::Container;

    pub(super) const MACHINE: Surroundings = Surroundings { container: None, init: String::new(), has_battery: false, has_systemd: false };

    pub(super) fn docker() -> Surroundings {
        Surroundings { container: Some(Container::Docker), init: "sh".into(), has_battery: false, has_systemd: false }
    }

    /// Renders checks as they are printed without a terminal.
    pub(super) fn shown(checks: &[Check]) -> String {
        checks.iter().flat_map(|check| lines(&super::super::out::Out::plain(None), check)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_summary_counts() {
        let checks = |states: &[CheckState]| states.iter().map(|s| Check { state: *s, ..Check::ok("x", "y") }).collect::<Vec<_>>();
        let all = |states: &[CheckState]| summary(&checks(states), true);
        assert_eq!(summary(&checks(&[CheckState::Ok]), false), "no problem found; the promises were not tried (--quick)");
        assert_eq!(all(&[CheckState::Ok]), "every promise holds");
        assert_eq!(all(&[CheckState::Ok, CheckState::Degraded]), "nothing is broken, 1 thing is degraded");
        assert_eq!(all(&[CheckState::Broken, CheckState::Degraded, CheckState::Degraded]), "1 thing is broken, 2 things are degraded");
    }
}
