//! `kill`: the whole tree, and an answer that says what was seen to die.

use super::awaiting::Awaiting;
use super::chosen::Chosen;
use super::keeper::{Away, reach, unexpected, unreachable};
use super::kill_left::stop_left;
use super::{Asked, Ended, reading};
use crate::disk::blocking;
use crate::engine::Engine;
use crate::facts::Facts;
use crate::render::{self, Log};
use crate::table::{ProcessView, Which};
use crate::{orphan, refuse, settle};
use outlast_core::{Action, Ask as Wish, Cause, Incarnation, Owner, Phase, ProcessId, Refusal, Stop, StopWay, decide, limits};
use outlast_wire::code;
use outlast_wire::v1::keeper::{Ask, Say};
use outlast_wire::v1::{Error, Kill, KillAll, Killed, StoppedLeft};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often a stop is asked for again, because the keeper was replaced before it answered.
const TRIES: u32 = 16;
/// How long a process may be starting before a stop gives up on it.
const STARTING: Duration = Duration::from_secs(10);
/// How long the record of an end may take that was seen.
const RECORDING: Duration = Duration::from_secs(10);
/// How many are stopped at the same time.
const AT_ONCE: usize = 64;

pub(super) async fn kill(asked: &Asked, name: &str, kill: Kill) -> Result<Ended<Killed>, Error> {
    let mut view = asked.resolve(name).await?;
    let awaiting = Awaiting::end(asked, &view.facts);
    let stop = Stop { cause: cause(&asked.owner, "process.kill"), way: way(kill, asked.shared().config.grace) };
    let done = match stop_one(&asked.engine, &mut view, &stop).await {
        // What was asked for is that nothing of it runs.
        Err(error) if error.code == code::ALREADY_EXITED => {
            return Err(error.with_stopped_left(stop_left(&asked.engine, &mut view, &stop).await?));
        }
        done => done?,
    };
    let ended = answer(asked, view, &stop, done).await?;
    // Of a process that goes on it has not seen the end.
    let awaiting = awaiting.filter(|_| ended.of.is_some());
    Ok(Ended { awaiting, ..ended })
}

pub(super) async fn kill_all(asked: &Asked, chosen: &Chosen, kill: Kill) -> Result<KillAll, Error> {
    let mut views = asked.engine.shared().table.all(&asked.owner, Which::Live).await?;
    views.retain(|v| !v.facts.is_over() && chosen.takes(v));
    let stop = Stop { cause: cause(&asked.owner, "kill_all"), way: way(kill, asked.shared().config.grace) };
    let (mut killed, mut failed, mut warnings) = (0, Vec::new(), Vec::new());
    for result in stop_all(&asked.engine, views, &stop).await {
        match result {
            Ok((id, done)) => {
                killed += 1;
                warnings.extend(done.warning().map(|warning| format!("{id}: {warning}")));
            }
            Err(error) if error.code == code::ALREADY_EXITED => killed += 1,
            Err(error) => failed.push(error),
        }
    }
    // After those: a process that ended meanwhile may have left something, too.
    let mut left_killed = Vec::new();
    for result in stop_left_of_all(&asked.engine, left_of_chosen(asked, chosen).await?, &stop).await {
        match result {
            Ok((id, stopped)) => {
                left_killed.extend(stopped.left_killed);
                warnings.extend(stopped.warning.map(|warning| format!("{id}: {warning}")));
            }
            Err(error) => failed.push(error),
        }
    }
    let mut answer = KillAll::new(killed, failed);
    (answer.left_killed, answer.warnings) = (left_killed, warnings);
    Ok(answer)
}

/// The chosen processes that are over and may have left something running.
async fn left_of_chosen(asked: &Asked, chosen: &Chosen) -> Result<Vec<ProcessView>, Error> {
    let mut views = asked.engine.shared().table.all(&asked.owner, Which::All).await?;
    views.retain(|v| v.facts.is_over() && chosen.takes(v));
    let shared = Arc::clone(asked.shared());
    let found = blocking(move || {
        let look = shared.leftovers.look();
        views.retain(|v| look.has_left(&v.dir, &v.facts));
        views
    });
    found.await.map_err(|e| refuse::disk("cannot look for what is left", &e))
}

async fn stop_left_of_all(engine: &Engine, views: Vec<ProcessView>, stop: &Stop) -> Vec<Result<(ProcessId, StoppedLeft), Error>> {
    for_each(views, |mut view| {
        let (engine, stop) = (engine.clone(), stop.clone());
        async move { Ok((view.id(), stop_left(&engine, &mut view, &stop).await?)) }
    })
    .await
}

/// Stops those that are to end with the engine.
pub(crate) async fn stop_with_the_engine(engine: &Engine, views: Vec<ProcessView>) {
    let grace = engine.shared().config.grace;
    let stop = Stop { cause: cause(&Owner::default(), "engine.stop"), way: StopWay::Escalate { grace } };
    for error in stop_all(engine, views, &stop).await.into_iter().filter_map(Result::err) {
        tracing::warn!(error = error.error, "not stopped with the engine");
    }
}

async fn stop_all(engine: &Engine, views: Vec<ProcessView>, stop: &Stop) -> Vec<Result<(ProcessId, Stopped), Error>> {
    for_each(views, |mut view| {
        let (engine, stop) = (engine.clone(), stop.clone());
        async move { Ok((view.id(), stop_one(&engine, &mut view, &stop).await?)) }
    })
    .await
}

/// Does something with each, a bounded number of them at the same time.
async fn for_each<T, F>(views: Vec<ProcessView>, work: impl Fn(ProcessView) -> F) -> Vec<Result<T, Error>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let mut waiting = views.into_iter();
    let mut under_way = JoinSet::new();
    let mut results = Vec::new();
    loop {
        while under_way.len() < AT_ONCE
            && let Some(view) = waiting.next()
        {
            under_way.spawn(work(view));
        }
        match under_way.join_next().await {
            Some(Ok(result)) => results.push(result),
            Some(Err(panic)) => results.push(Err(refuse::fault(panic))),
            None => return results,
        }
    }
}

fn cause(owner: &Owner, source: &str) -> Cause {
    Cause::Asked { by: owner.clone(), source: source.into() }
}

fn way(kill: Kill, grace: Duration) -> StopWay {
    match kill {
        Kill { no_escalate: true, .. } => StopWay::TermOnly,
        Kill { grace_ms: Some(ms), .. } => StopWay::Escalate { grace: Duration::from_millis(ms) },
        Kill { grace_ms: None, .. } => StopWay::Escalate { grace },
    }
}

/// What a stop did.
#[derive(Debug)]
struct Stopped {
    seen_dead: u32,
    /// Why the disk refused the record of the stop, if it did.
    unrecorded: Option<String>,
    /// What may be left of it, if that could not be found out.
    unexamined: Option<String>,
}

impl Stopped {
    /// What is not as it should be, though it was stopped.
    fn warning(self) -> Option<String> {
        let unrecorded = self.unrecorded.map(|why| format!("the stop could not be recorded: {why}"));
        let all: Vec<String> = unrecorded.into_iter().chain(self.unexamined).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// Stops one, through its keeper or, if that is dead, without.
async fn stop_one(engine: &Engine, view: &mut ProcessView, stop: &Stop) -> Result<Stopped, Error> {
    for _ in 0..TRIES {
        view.facts = engine.shared().intake.look(view).await?.facts;
        let said = match decide(&view.facts.phase, Wish::Kill(stop.clone()), false) {
            Ok(Action::StopTree(stop)) => stop_kept(engine, view, stop).await,
            Ok(Action::StopOrphan(of, stop)) => return stop_orphan(engine, view, of, &stop).await,
            Ok(other) => return Err(refuse::fault(format!("a stop became {other:?}"))),
            Err(Refusal::StillStarting) => {
                let begun = tokio::time::timeout(STARTING, view.until(|f| f.phase != Phase::Accepted)).await;
                begun.map_err(|_| refuse::rule(&Refusal::StillStarting))?;
                continue;
            }
            Err(refusal) => return Err(refuse::rule(&refusal)),
        };
        match said {
            Ok(Some(Say::Stopped { seen_dead, survivors, unrecorded })) => {
                return stopped(view, stop, Stopped { seen_dead, unrecorded, unexamined: None }, &survivors).await;
            }
            // It ended by itself before the stop reached it, or its keeper is another now: look again.
            Ok(Some(Say::AlreadyEnded)) => {
                let ended = tokio::time::timeout(RECORDING, view.until(Facts::is_over)).await;
                ended.map_err(|_| unreachable(view))?;
            }
            Ok(None) => {}
            Ok(Some(other)) => return Err(unexpected(other)),
            Err(error) => return Err(error),
        }
    }
    Err(unreachable(view))
}

/// Asks the keeper. Nothing if it died before it answered: a stop can be asked for twice.
async fn stop_kept(engine: &Engine, view: &mut ProcessView, stop: Stop) -> Result<Option<Say>, Error> {
    let mut link = match reach(engine, view).await {
        Ok(link) => link,
        Err(Away::Over) => return Ok(None),
        Err(Away::Refused(error)) => return Err(error),
    };
    Ok(link.ask(Ask::Stop { stop }).await.ok())
}

async fn stopped(view: &mut ProcessView, stop: &Stop, done: Stopped, survivors: &[u32]) -> Result<Stopped, Error> {
    if stop.way == StopWay::TermOnly {
        return Ok(done);
    }
    if !survivors.is_empty() {
        return Err(survived(view, survivors));
    }
    let ended = tokio::time::timeout(RECORDING, view.until(Facts::is_over)).await;
    if ended.is_ok_and(|facts| facts.is_over()) { Ok(done) } else { Err(unreachable(view)) }
}

pub(super) fn survived(view: &ProcessView, survivors: &[u32]) -> Error {
    let pids: Vec<String> = survivors.iter().map(ToString::to_string).collect();
    let what = format!("{} is not stopped: still alive are {}", view.id(), pids.join(", "));
    refuse::refusal(
        code::SURVIVORS,
        what,
        "they may belong to another user or hang in the kernel; it stays listed as running and can be killed again",
    )
}

async fn stop_orphan(engine: &Engine, view: &mut ProcessView, of: Incarnation, stop: &Stop) -> Result<Stopped, Error> {
    let (id, dir, asked, now) = (view.id(), view.dir.clone(), stop.clone(), engine.shared().now());
    let (shared, detached, way) = (Arc::clone(engine.shared()), view.facts.detached, stop.way);
    // A task of its own: a stop that was begun is not given up when whoever asked for it leaves.
    let under_way = tokio::spawn(async move {
        // The stop is recorded before it is carried out, so that the end is not taken for the command's own. If the disk refuses, this
        // engine remembers it.
        let again = asked.clone();
        let written = blocking(move || settle::stop_asked(&dir, &asked, now)).await.and_then(|written| written);
        if written.is_err() {
            shared.unsaved_stops.keep(id, now, again);
        }
        let tree = orphan::Tree::new(&shared.leftovers.own, id, of, detached);
        let ended = orphan::stop(tree, way).await.map_err(|e| refuse::disk(format!("cannot stop {id}"), &e))?;
        Ok::<_, Error>((ended, written.err().map(|e| e.to_string())))
    });
    let (ended, unrecorded) = under_way.await.map_err(refuse::fault)??;
    let done = Stopped { seen_dead: ended.seen_dead.len() as u32, unrecorded, unexamined: ended.unexamined.warning() };
    stopped(view, stop, done, &ended.survivors).await
}

async fn answer(asked: &Asked, view: ProcessView, stop: &Stop, done: Stopped) -> Result<Ended<Killed>, Error> {
    let now = asked.look(&view).await?;
    let (shared, of) = (Arc::clone(asked.shared()), Arc::clone(&now.facts));
    let dir = view.dir.clone();
    let shown =
        reading(move || render::preview(&shared.redactor, &Log::open(&dir, &of, now.seen.meta.as_ref()), &of, limits::WAIT_EXIT_CHARS))
            .await?;
    let of = now.facts.is_over().then(|| Arc::clone(&now.facts));
    let status = if stop.way == StopWay::TermOnly { "signalled" } else { "killed" };
    let mut answer = Killed::new(status, view.id(), render::fate(&now.facts));
    answer.output = Some(shown.text);
    answer.output_cut = shown.cut;
    answer.seen_dead = Some(done.seen_dead);
    answer.warning = done.warning();
    Ok(Ended { answer, of, awaiting: None })
}
