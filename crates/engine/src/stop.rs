//! Stops processes with their trees, through their keepers if those live.

use crate::disk::blocking;
use crate::facts::Facts;
use crate::parts::Parts;
use crate::reach::{NoKeeper, unexpected, unreachable};
use crate::table::ProcessView;
use crate::{final_record, orphan, refuse};
use outlast_core::{Action, Ask, Cause, Incarnation, Owner, Phase, ProcessId, Refusal, Stop, StopWay, decide};
use outlast_wire::code;
use outlast_wire::v1::Error;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often a stop is retried if the keeper is replaced before it answers.
const TRIES: u32 = 16;
/// How long a stop waits for a process that is starting.
const STARTING: Duration = Duration::from_secs(10);
/// How long a stop waits for the record of an end that was seen.
const RECORDING: Duration = Duration::from_secs(10);
/// How many processes are stopped at the same time.
const AT_ONCE: usize = 64;

/// Stops the processes that are to end with the engine.
pub(crate) async fn stop_with_the_engine(parts: &Arc<Parts>, views: Vec<ProcessView>) {
    let grace = parts.config.grace;
    let stop = Stop { cause: cause(&Owner::default(), "engine.stop"), way: StopWay::Escalate { grace } };
    let results = stop_all(parts, views, &stop).await;
    for error in results.into_iter().filter_map(|one| one.and_then(|(_, stopped)| stopped).err()) {
        tracing::warn!(error = error.error, "not stopped with the engine");
    }
}

pub(crate) async fn stop_all(
    parts: &Arc<Parts>,
    views: Vec<ProcessView>,
    stop: &Stop,
) -> Vec<Result<(ProcessId, Result<StopReport, Error>), Error>> {
    for_each(views, |mut view| {
        let (parts, stop) = (Arc::clone(parts), stop.clone());
        async move { Ok((view.id(), stop_one(&parts, &mut view, &stop).await)) }
    })
    .await
}

/// Does something with each, a bounded number of them at the same time.
pub(crate) async fn for_each<T, F>(views: Vec<ProcessView>, work: impl Fn(ProcessView) -> F) -> Vec<Result<T, Error>>
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

pub(crate) fn cause(owner: &Owner, source: &str) -> Cause {
    Cause::Asked { by: owner.clone(), source: source.into() }
}

/// The result of a stop.
#[derive(Debug)]
pub(crate) struct StopReport {
    pub(crate) seen_dead: u32,
    /// Why the disk refused the record of the stop, if it did.
    unrecorded: Option<String>,
    /// A warning about processes that may be part of the tree and could not be examined.
    unexamined: Option<String>,
}

impl StopReport {
    /// Warnings about a process that was stopped.
    pub(crate) fn warning(self) -> Option<String> {
        let unrecorded = self.unrecorded.map(|why| format!("the stop could not be recorded: {why}"));
        let all: Vec<String> = unrecorded.into_iter().chain(self.unexamined).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// Stops one process, through its keeper if that lives.
pub(crate) async fn stop_one(parts: &Arc<Parts>, view: &mut ProcessView, stop: &Stop) -> Result<StopReport, Error> {
    for _ in 0..TRIES {
        view.facts = parts.intake.look(view).await?.facts;
        let said = match decide(&view.facts.phase, Ask::Kill(stop.clone()), false) {
            Ok(Action::StopTree(stop)) => stop_kept(parts, view, stop).await,
            Ok(Action::StopOrphan(of, stop)) if view.facts.local().is_some() => return stop_orphan(parts, view, of, &stop).await,
            Ok(Action::StopOrphan(..)) => return Err(refuse::orphan_elsewhere(view.id())),
            Ok(other) => return Err(refuse::fault(format!("a stop became {other:?}"))),
            Err(Refusal::StillStarting) => {
                let begun = tokio::time::timeout(STARTING, view.until(|f| f.phase != Phase::Accepted)).await;
                begun.map_err(|_| refuse::rule(&Refusal::StillStarting))?;
                continue;
            }
            Err(refusal) => return Err(refuse::rule(&refusal)),
        };
        match said {
            Ok(Some(KeeperReply::Stopped { seen_dead, survivors, unrecorded })) => {
                return stopped(view, stop, StopReport { seen_dead, unrecorded, unexamined: None }, &survivors).await;
            }
            // It ended before the stop reached it, or its keeper was replaced: look again.
            Ok(Some(KeeperReply::AlreadyEnded)) => {
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

/// Asks the keeper to stop the process. None if the keeper died before it answered; a stop can be repeated.
async fn stop_kept(parts: &Arc<Parts>, view: &mut ProcessView, stop: Stop) -> Result<Option<KeeperReply>, Error> {
    let mut link = match parts.reach.keeper(view).await {
        Ok(link) => link,
        Err(NoKeeper::Over) => return Ok(None),
        Err(NoKeeper::Refused(error)) => return Err(error),
    };
    Ok(link.ask(KeeperRequest::Stop { stop }).await.ok())
}

async fn stopped(view: &mut ProcessView, stop: &Stop, done: StopReport, survivors: &[u32]) -> Result<StopReport, Error> {
    if stop.way == StopWay::TermOnly {
        return Ok(done);
    }
    if !survivors.is_empty() {
        return Err(survived(view, survivors));
    }
    let ended = tokio::time::timeout(RECORDING, view.until(Facts::is_over)).await;
    if ended.is_ok_and(|facts| facts.is_over()) { Ok(done) } else { Err(unreachable(view)) }
}

pub(crate) fn survived(view: &ProcessView, survivors: &[u32]) -> Error {
    let pids: Vec<String> = survivors.iter().map(ToString::to_string).collect();
    let what = format!("{} is not stopped: still alive are {}", view.id(), pids.join(", "));
    refuse::refusal(
        code::SURVIVORS,
        what,
        "they may belong to another user or hang in the kernel; it stays listed as running and can be killed again",
    )
}

async fn stop_orphan(parts: &Arc<Parts>, view: &mut ProcessView, of: Incarnation, stop: &Stop) -> Result<StopReport, Error> {
    let (id, dir, asked, now) = (view.id(), view.dir.clone(), stop.clone(), parts.now());
    let (here, detached, way) = (Arc::clone(parts), view.facts.detached, stop.way);
    // A task of its own: a stop that was begun is not given up when the client leaves.
    let under_way = tokio::spawn(async move {
        // The stop is recorded before it is carried out, so that the end is not taken for the command's own. If the disk refuses, this
        // engine remembers it.
        let again = asked.clone();
        let written = blocking(move || final_record::stop_asked(&dir, &asked, now)).await.and_then(|written| written);
        if written.is_err() {
            here.unsaved_stops.keep(id, now, again);
        }
        let tree = orphan::Tree::new(&here.leftovers.own, id, of, detached);
        let ended = orphan::stop(tree, way).await.map_err(|e| refuse::disk(format!("cannot stop {id}"), &e))?;
        Ok::<_, Error>((ended, written.err().map(|e| e.to_string())))
    });
    let (ended, unrecorded) = under_way.await.map_err(refuse::fault)??;
    let done = StopReport { seen_dead: ended.seen_dead.len() as u32, unrecorded, unexamined: ended.unexamined.warning() };
    stopped(view, stop, done, &ended.survivors).await
}
