//! `clean`: removes the finished processes of a scope, or those that were named.

use super::chosen::Chosen;
use super::context::RequestContext;
use super::remove::{left_running, until_closed};
use crate::remove;
use crate::table::WhichProcesses;
use outlast_core::Owner;
use outlast_wire::code;
use outlast_wire::v1::{Cleaned, Error};

pub(super) async fn clean(asked: &RequestContext, chosen: &Chosen) -> Result<Cleaned, Error> {
    let mut views = asked.parts.table.all(&asked.owner, WhichProcesses::All).await?;
    views.retain(|v| v.facts.is_over() && chosen.takes(v) && asked.may_change(v.id()));
    let mut cleaned = Cleaned::default();
    for mut view in views {
        if !view.facts.phase.is_final() {
            until_closed(asked, &mut view).await?;
            if !view.facts.phase.is_final() {
                cleaned.kept += 1;
                continue;
            }
        }
        if !left_running(asked, &view).await?.is_empty() {
            cleaned.kept += 1;
            continue;
        }
        match remove::forget(&asked.parts, &view).await {
            Ok(()) => {
                cleaned.removed += 1;
                cleaned.processes.push(view.id());
                cleaned.freed_bytes += view.facts.bytes;
            }
            // Another request has removed it meanwhile.
            Err(error) if error.code == code::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    if let Some(place) = asked.parts.place.clone() {
        // Left-over processes may have ended since. Leaves are listed before the processes: a leaf whose process is not among them is
        // unused.
        let leaves = place.leaves();
        let live = asked.parts.table.all(&Owner::default(), WhichProcesses::Live).await?;
        let dead = leaves.into_iter().filter(|id| !live.iter().any(|v| v.id() == *id)).collect::<Vec<_>>();
        // What could not be removed is found by the next `clean`.
        let _swept = crate::disk::blocking(move || dead.into_iter().for_each(|id| place.remove_leaf(id))).await;
    }
    Ok(cleaned)
}
