//! `rm`: removes a finished process.

use super::context::RequestContext;
use crate::disk::blocking;
use crate::facts::EndSeen;
use crate::intake::Current;
use crate::left_behind::may_have_left;
use crate::refuse;
use crate::remove;
use crate::table::ProcessView;
use outlast_core::{Ask, decide};
use outlast_store::meta::Snapshot;
use outlast_wire::v1::{Error, LeftProcess, Removed};
use std::sync::Arc;
use std::time::Duration;

/// How long a removal waits for the output to close. The end is reported before that, so a client may ask in between.
const CLOSING: Duration = Duration::from_secs(1);

pub(super) async fn remove(asked: &RequestContext, name: &str) -> Result<Removed, Error> {
    let view = removable(asked, name).await?;
    remove::forget(&asked.parts, &view).await?;
    Ok(Removed::new(view.id()))
}

/// Keeps a finished process, and has lists for agents leave it out.
pub(super) async fn set_aside(asked: &RequestContext, name: &str) -> Result<Removed, Error> {
    let view = removable(asked, name).await?;
    asked.parts.table.consumed(view.id(), EndSeen::SetAside).await;
    Ok(Removed::new(view.id()))
}

/// A process that may be removed.
pub(super) async fn removable(asked: &RequestContext, name: &str) -> Result<ProcessView, Error> {
    let mut view = asked.resolve_to_change(name).await?;
    until_closed(asked, &mut view).await?;
    // What a finished process has left running may hold its output open. Then the phase is not final yet.
    match &left_running(asked, &view).await?[..] {
        [] => {}
        left => return Err(refuse::left_running(view.id(), left)),
    }
    if view.facts.is_over() && !view.facts.phase.is_final() {
        return Err(refuse::output_held(view.id()));
    }
    decide(&view.facts.phase, Ask::Remove, false).map_err(|r| refuse::rule(&r))?;
    Ok(view)
}

/// What a finished process has left running. Once its record is removed, no verb finds that any more.
pub(super) async fn left_running(asked: &RequestContext, view: &ProcessView) -> Result<Vec<LeftProcess>, Error> {
    if !may_have_left(&view.facts.phase) {
        return Ok(Vec::new());
    }
    let (parts, dir, facts) = (Arc::clone(&asked.parts), view.dir.clone(), view.facts.clone());
    let look = move || parts.leftovers.look().at(&dir, &facts, Snapshot::read(&dir).ok().as_ref());
    blocking(look).await.map_err(|e| refuse::disk("cannot look for what is left", &e))
}

/// Waits a moment for the output of an ended process to be closed.
pub(super) async fn until_closed(asked: &RequestContext, view: &mut ProcessView) -> Result<(), Error> {
    let Current { facts, .. } = asked.look(view).await?;
    view.facts = facts;
    if view.facts.is_over() && !view.facts.phase.is_final() {
        // If another process holds the output for longer, the caller sees that in the facts.
        let _closed = tokio::time::timeout(CLOSING, view.until(|f| f.phase.is_final())).await;
    }
    Ok(())
}
