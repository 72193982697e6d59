//! Stops what a finished process has left running.

use crate::disk::blocking;
use crate::facts::has_keeper;
use crate::link::Link;
use crate::orphan::TreeMember;
use crate::parts::Parts;
use crate::reach::{unexpected, unreachable};
use crate::stop::{for_each, survived};
use crate::table::ProcessView;
use crate::{final_record, orphan, refuse};
use outlast_core::{Phase, ProcessId, Stop, StopWay};
use outlast_store::meta::Snapshot;
use outlast_store::os::{boot_id, is_alive};
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use outlast_wire::v1::{Error, StoppedLeft};
use std::sync::Arc;
use std::time::Duration;

/// How often a stop is retried if the keeper is replaced before it answers.
const TRIES: u32 = 16;
/// How long the stop waits for the output to close after the last process that could hold it has died.
const CLOSING: Duration = Duration::from_secs(1);

/// Stops the rest of the tree of a finished process. A keeper does it, unless none lives or it is of an earlier version.
pub(crate) async fn stop_left(parts: &Arc<Parts>, view: &mut ProcessView, stop: &Stop) -> Result<StoppedLeft, Error> {
    let mut seen: Vec<TreeMember> = Vec::new();
    for _ in 0..TRIES {
        view.facts = parts.intake.look(view).await?.facts;
        let Some(mut keeper) = connect(parts, view).await else {
            return without_keeper(parts, view, stop, seen).await;
        };
        // Before each request: if the keeper is killed, the next one does not know what the first has stopped.
        seen.extend(named_members(parts, view).await?);
        match keeper.ask(KeeperRequest::StopLeft { stop: stop.clone() }).await {
            Ok(KeeperReply::Stopped { survivors, unrecorded, .. }) if survivors.is_empty() => {
                let unrecorded = unrecorded.map(|why| format!("the stop could not be recorded: {why}"));
                return Ok(stopped(parts, view, stop, seen, unrecorded).await);
            }
            Ok(KeeperReply::Stopped { survivors, .. }) => return Err(survived(view, &survivors)),
            // A keeper of an earlier version does not know the request.
            Ok(KeeperReply::Refused { .. }) => return without_keeper(parts, view, stop, seen).await,
            Ok(other) => return Err(unexpected(other)),
            // The keeper died or left before it answered. A stop can be repeated.
            Err(_) => {}
        }
    }
    Err(unreachable(view))
}

/// The same for each of several processes.
pub(crate) async fn stop_left_of_all(
    parts: &Arc<Parts>,
    views: Vec<ProcessView>,
    stop: &Stop,
) -> Vec<Result<(ProcessId, StoppedLeft), Error>> {
    for_each(views, |mut view| {
        let (parts, stop) = (Arc::clone(parts), stop.clone());
        async move { Ok((view.id(), stop_left(&parts, &mut view, &stop).await?)) }
    })
    .await
}

/// A connection to the keeper of a process. If no keeper holds the lock of this folder, the socket belongs to the keeper of a folder of
/// which it is a copy.
async fn connect(parts: &Arc<Parts>, view: &ProcessView) -> Option<Link> {
    let dir = view.dir.clone();
    let has_keeper = blocking(move || has_keeper(&dir)).await.unwrap_or(false);
    if has_keeper { Link::connect(&parts.sockets.of(view.id()), false).await.ok() } else { None }
}

async fn named_members(parts: &Arc<Parts>, view: &ProcessView) -> Result<Vec<TreeMember>, Error> {
    let (here, dir, facts, id) = (Arc::clone(parts), view.dir.clone(), Arc::clone(&view.facts), view.id());
    let look = move || here.leftovers.tree_of(&dir, facts.local()?).map(|tree| tree.members().into_iter().map(TreeMember::of).collect());
    let found: Option<Vec<TreeMember>> = blocking(look).await.map_err(|e| refuse::disk(format!("cannot look at {id}"), &e))?;
    Ok(found.unwrap_or_default())
}

/// Stops them by identity, and completes the stop if the client leaves.
async fn without_keeper(parts: &Arc<Parts>, view: &mut ProcessView, stop: &Stop, mut seen: Vec<TreeMember>) -> Result<StoppedLeft, Error> {
    let (here, dir, facts, id) = (Arc::clone(parts), view.dir.clone(), Arc::clone(&view.facts), view.id());
    let (asked, way, now) = (stop.clone(), stop.way, parts.now());
    let stopping = tokio::spawn(async move {
        let disk = |e| refuse::disk(format!("cannot stop what {id} left running"), &e);
        let recorded = blocking(move || {
            let tree = here.leftovers.tree_of(&dir, facts.local()?)?;
            let is_empty = tree.members().is_empty();
            // Recorded before the first signal. If the disk refuses the record, the stop is carried out all the same.
            let recorded = if is_empty { Ok(()) } else { final_record::stop_of_left_asked(&dir, &asked, now) };
            Some((tree, recorded))
        });
        // A process that never ran has left nothing.
        let Some((tree, recorded)) = recorded.await.map_err(disk)? else { return Ok(None) };
        orphan::stop(tree, way).await.map(|ended| Some((ended, recorded.err()))).map_err(disk)
    });
    let Some((ended, refused)) = stopping.await.map_err(refuse::fault)?? else { return Ok(StoppedLeft::default()) };
    if !ended.survivors.is_empty() {
        return Err(survived(view, &ended.survivors));
    }
    let is_known = |one: &TreeMember| ended.seen_dead.iter().any(|dead| dead.life == one.life);
    seen.retain(|one| !is_known(one));
    seen.extend(ended.seen_dead.iter().cloned());
    let unrecorded = refused.map(|why| format!("the stop could not be recorded: {why}"));
    let unknown = if seen.is_empty() { not_recorded(view) } else { None };
    let warnings: Vec<String> = [unrecorded, ended.unexamined.warning(), unknown].into_iter().flatten().collect();
    let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
    Ok(stopped(parts, view, stop, seen, warning).await)
}

/// The warning if none of the processes was found that an earlier version of the keeper counted.
fn not_recorded(view: &ProcessView) -> Option<String> {
    let meta = Snapshot::read(&view.dir).ok()?;
    let is_this_boot = boot_id().is_ok_and(|boot| boot == meta.boot);
    let counted = meta.closed.map(|(_, output)| output.left_running).filter(|n| *n > 0 && is_this_boot && meta.left.is_empty())?;
    Some(format!(
        "{counted} of its processes were running when its output closed, and its keeper, of an earlier version, did not record which: \
         none with its id in the environment was found"
    ))
}

async fn stopped(parts: &Arc<Parts>, view: &mut ProcessView, stop: &Stop, seen: Vec<TreeMember>, warning: Option<String>) -> StoppedLeft {
    let mut dead: Vec<TreeMember> = seen.into_iter().filter(|one| !is_alive(&one.life)).collect();
    dead.sort_by_key(|one| (one.life.start_ticks, one.life.pid));
    dead.dedup_by_key(|one| one.life);
    let killed = dead.iter().map(|one| parts.leftovers.shown(&view.facts, one)).collect();
    let is_draining = |phase: &Phase| matches!(phase, Phase::Draining { .. });
    let mut warnings: Vec<String> = warning.into_iter().collect();
    if is_draining(&view.facts.phase) && stop.way != StopWay::TermOnly {
        let closed = tokio::time::timeout(CLOSING, view.until(|facts| facts.phase.is_final())).await;
        if closed.is_err() {
            warnings.push("its output is still held open by a process that is not part of its tree".into());
        }
    }
    StoppedLeft::new(killed, (!warnings.is_empty()).then(|| warnings.join("; ")))
}
