//! `engine stop`: which clients may stop the engine.

use super::context::RequestContext;
use crate::refuse;
use crate::table::WhichProcesses;
use outlast_core::{OnStop, Owner};
use outlast_wire::code;
use outlast_wire::v1::Error;

/// A session may not stop the engine if that would stop a process that it may not stop by name. Processes that keep running do not count.
pub(super) async fn may_stop(asked: &RequestContext) -> Result<(), Error> {
    if asked.owner.session.is_none() {
        return Ok(());
    }
    // The engine is ending already.
    let Ok(live) = asked.parts.table.all(&Owner::default(), WhichProcesses::Live).await else { return Ok(()) };
    let dies = live.iter().map(|v| &v.facts).filter(|f| !f.is_over() && f.kept.spec.on_stop == OnStop::Kill);
    match dies.filter(|f| !asked.owner.may_touch(&f.kept.spec.owner)).count() {
        0 => Ok(()),
        n => {
            let what = format!("{n} processes of others would be stopped with the engine");
            Err(refuse::refusal(code::NOT_YOURS, what, "have a person stop it, or ask again when they have ended"))
        }
    }
}
