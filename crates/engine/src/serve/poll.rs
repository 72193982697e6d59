//! `poll`: the state of one process.

use super::context::{RequestContext, read_small};
use super::relay::Relay;
use crate::intake::Current;
use crate::refuse;
use crate::render::{Detail, process};
use crate::table::ProcessView;
use outlast_core::Status;
use outlast_wire::v1::{Error, Process};
use std::sync::Arc;

pub(super) async fn poll(asked: &RequestContext, name: &str) -> Result<Process, Error> {
    let view = asked.resolve(name).await?;
    let shown = whole(asked, &view).await?;
    let spec = &view.facts.kept.spec;
    if shown.status == Status::Exited && !spec.tell.is_nothing() && asked.informs_owner(&view.facts) {
        match asked.relay {
            true => asked.relays.begin(asked.out.of, Relay::Look(view.id())),
            false => asked.parts.outbox.observe(view.id()).await,
        }
    }
    Ok(shown)
}

/// Everything about a process, read from its folder now.
pub(super) async fn whole(asked: &RequestContext, view: &ProcessView) -> Result<Process, Error> {
    let Current { facts, seen } = asked.look(view).await?;
    let (parts, dir) = (Arc::clone(&asked.parts), view.dir.clone());
    let is_watched = !facts.kept.spec.tell.watch.is_empty();
    let of = Arc::clone(&facts);
    let look = move || Ok(process(&parts.redactor, &dir, &of, &seen, Detail::Whole, parts.now(), &parts.leftovers.look()));
    let mut shown = read_small(&asked.parts, &facts, look).await?;
    if is_watched {
        add_watched(asked, std::slice::from_mut(&mut shown)).await?;
    }
    Ok(shown)
}

/// Fills in, for processes with watch patterns, whether a match was reported and whether matches still are.
pub(super) async fn add_watched(asked: &RequestContext, shown: &mut [Process]) -> Result<(), Error> {
    let ids = shown.iter().filter(|p| !p.watch_patterns.is_empty()).map(|p| p.session_id).collect();
    let watched = asked.parts.outbox.watched(ids).await.map_err(|e| refuse::index(&e))?;
    for process in shown {
        if let Some((hits, disabled)) = watched.get(&process.session_id) {
            process.watch_hit = Some(*hits > 0);
            process.watch_disabled = *disabled;
            process.notify_on_complete |= *disabled;
        }
    }
    Ok(())
}
