//! `list`: those in a scope, running ones first.

use super::{Asked, reading};
use crate::facts::Seen;
use crate::render::{Detail, process};
use crate::state::{View, Which};
use outlast_core::{Scope, Status};
use outlast_store::meta::Snapshot;
use outlast_wire::v1::{Error, List, Process};
use std::sync::Arc;

pub(super) async fn list(asked: &Asked, scope: &Scope, all: bool) -> Result<List, Error> {
    let mut views = asked.engine.all(&asked.owner, if all { Which::All } else { Which::Live }).await?;
    views.retain(|v| scope.takes(&v.facts.kept.spec.owner) && (all || !v.facts.phase.is_final()));
    let (shared, scope) = (Arc::clone(asked.shared()), scope.clone());
    let mut processes = reading(move || {
        let entry = |view: &View| -> Process {
            // Of what is over for good only the pid and the like are looked up; the others are looked at, so that the list is true now.
            let seen = match view.facts.phase.is_final() {
                true => Seen { meta: Snapshot::read(&view.dir).ok(), ..Seen::default() },
                false => Seen::look(&view.dir, view.facts.cursor),
            };
            let facts = if view.facts.phase.is_final() { (*view.facts).clone() } else { view.facts.with(&seen) };
            let by_session = scope.by_session_only(&facts.kept.spec.owner);
            let mut entry = process(&shared, &view.dir, &facts, &seen, Detail::Entry);
            entry.session_scoped = by_session;
            entry
        };
        // Two cores for a long list, one thread for a short one.
        let (first, second) = views.split_at(if views.len() < 64 { views.len() } else { views.len() / 2 });
        Ok(std::thread::scope(|scope| {
            let other = (!second.is_empty()).then(|| scope.spawn(|| second.iter().map(entry).collect::<Vec<_>>()));
            let mut all: Vec<Process> = first.iter().map(entry).collect();
            if let Some(other) = other {
                // A panic there is a panic here.
                all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            all
        }))
    })
    .await?;
    if !all {
        processes.retain(|p| p.status == Status::Running);
    }
    super::poll::add_watched(asked, &mut processes).await?;
    processes.sort_by(|a, b| {
        (a.status != Status::Running, a.started_at, a.session_id).cmp(&(b.status != Status::Running, b.started_at, b.session_id))
    });
    Ok(List::new(processes))
}
