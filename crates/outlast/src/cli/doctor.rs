//! `outlast doctor`

mod agents;
mod engine;
mod home;
mod machine;
mod notices;
mod processes;

use super::out::Tone;
use super::table::wrap;
use super::{Context, Failure, times};
use clap::Args;
use outlast_client::{Client, DeadLetter, EngineStatus, History, Owner, ProcessInfo, Scope, Told};
use serde::Serialize;
use serde_json::json;

/// Check that everything is in place, and say what to do where it is not
///
/// Each line is one thing that was looked at. Where a promise is weaker than it could be, it says which (P1 to P8, as in the documentation), what that means
/// for you, and what to do about it. Looking changes nothing. Exits 0 if all is well, 3 if something is degraded, 1 if something is broken.
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

/// What degraded promises exit with. Not 2, which is for words that make no sense.
const DEGRADED: i32 = 3;
/// How many dead letters and dropped notices are looked at.
const SOME: u32 = 100;

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// It works, but a promise is weaker than it could be.
    Degraded,
    /// It does not work.
    Broken,
}

/// What was looked at, how it is, what that means and what to do.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    what: String,
    /// The promises that are weaker for it.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    promises: &'static [&'static str],
    #[serde(skip_serializing_if = "String::is_empty")]
    means: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

impl Check {
    fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, state: State::Ok, what: what.into(), promises: &[], means: String::new(), hint: String::new() }
    }
    fn degraded(name: &'static str, promises: &'static [&'static str], what: impl Into<String>) -> Self {
        Self { state: State::Degraded, promises, ..Self::ok(name, what) }
    }
    fn broken(name: &'static str, what: impl Into<String>) -> Self {
        Self { state: State::Broken, ..Self::ok(name, what) }
    }
    /// What it means for whoever uses it.
    fn means(self, means: impl Into<String>) -> Self {
        Self { means: means.into(), ..self }
    }
    /// What to do.
    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

/// What an engine can tell.
struct Found {
    status: EngineStatus,
    processes: Vec<ProcessInfo>,
    dead: Vec<DeadLetter>,
    dropped: Vec<Told>,
}

impl Doctor {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let found = match ctx.client().await {
            Ok(client) => ask(&client).await,
            Err(e) => Err(e),
        };
        let mut checks = examine(ctx, &found);
        checks.extend(agents::checks(ctx).await);
        let worst = checks.iter().map(|c| c.state).max().unwrap_or(State::Ok);
        if ctx.out.json {
            ctx.out.object(&json!({"status": worst, "checks": checks}))?;
        } else {
            checks.iter().try_for_each(|check| say(ctx, check))?;
            ctx.out.line(&summary(&checks))?;
        }
        Ok(match worst {
            State::Ok => 0,
            State::Degraded => DEGRADED,
            State::Broken => 1,
        })
    }
}

/// Asks as a person does, who sees everything. None of it counts as having been told.
async fn ask(client: &Client) -> Result<Found, Failure> {
    let client = client.with_owner(Owner::default());
    let dropped = History::default().in_state("dropped").limit(SOME).newest_first();
    Ok(Found {
        status: client.engine_status().await?,
        processes: client.list(&Scope::default(), true).await?,
        dead: client.dead_letters(Some(SOME)).await?,
        dropped: client.history(dropped).await?,
    })
}

fn examine(ctx: &Context, found: &Result<Found, Failure>) -> Vec<Check> {
    let home = &ctx.settings.home;
    let mut checks = home::checks(home);
    checks.extend(engine::checks(ctx, found));
    let pid = found.as_ref().ok().map(|f| f.status.pid);
    checks.extend(machine::checks(ctx, pid));
    if let Ok(found) = found {
        checks.extend(processes::checks(&found.processes, times::now()));
        checks.extend(notices::checks(&found.dead, &found.dropped));
    }
    for warning in &ctx.settings.warnings {
        checks.push(
            Check::degraded("config", &[], warning.clone())
                .means("what you set there does not count")
                .hint(format!("correct it in {}, or take it out", ctx.settings.file.display())),
        );
    }
    if !ctx.settings.redact {
        checks.push(
            Check::degraded("secrets", &["P8"], "security.redact_secrets is off")
                .means("passwords and tokens in commands and output are kept, shown and told as they are")
                .hint("set it to true, and stop the engine so that the next one heeds it"),
        );
    }
    checks
}

/// The columns before what is said.
const INDENT: usize = 21;

fn say(ctx: &Context, check: &Check) -> Result<(), Failure> {
    let (word, tone) = match check.state {
        State::Ok => ("ok", Tone::Good),
        State::Degraded => ("degraded", Tone::Busy),
        State::Broken => ("broken", Tone::Bad),
    };
    let promises = if check.promises.is_empty() { String::new() } else { format!(" ({})", check.promises.join(", ")) };
    let room = ctx.out.width.map_or(usize::MAX, |width| width.saturating_sub(INDENT).max(20));
    let mut head = format!("{}{} {:12}", ctx.out.paint(tone, word), " ".repeat(8 - word.len()), check.name);
    let parts = [("", format!("{}{promises}", check.what)), ("means: ", check.means.clone()), ("→ ", check.hint.clone())];
    for (mark, text) in parts.iter().filter(|(_, text)| !text.is_empty()) {
        let inner = " ".repeat(mark.chars().count());
        for (n, line) in wrap(text, room.saturating_sub(inner.len())).iter().enumerate() {
            let before = if n == 0 { mark } else { inner.as_str() };
            ctx.out.line(format!("{head}{before}{line}").trim_end())?;
            head = " ".repeat(INDENT);
        }
    }
    Ok(())
}

/// `nothing is broken, 2 things are degraded`.
fn summary(checks: &[Check]) -> String {
    let count = |state: State| checks.iter().filter(|c| c.state == state).count();
    let things = |n: usize| if n == 1 { "1 thing is".to_owned() } else { format!("{n} things are") };
    match (count(State::Broken), count(State::Degraded)) {
        (0, 0) => "every promise holds".into(),
        (0, degraded) => format!("nothing is broken, {} degraded", things(degraded)),
        (broken, 0) => format!("{} broken", things(broken)),
        (broken, degraded) => format!("{} broken, {} degraded", things(broken), things(degraded)),
    }
}
