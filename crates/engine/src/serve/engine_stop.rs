//! `engine stop`: who may ask for it.

use super::context::RequestContext;
use crate::refuse;
use crate::table::WhichProcesses;
use outlast_core::{OnStop, Owner};
use outlast_wire::code;
use outlast_wire::v1::Error;

/// A conversation may not stop, by way of the engine, what it may not stop by name. What goes on without an engine is no reason.
pub(super) async fn may_stop(asked: &RequestContext) -> Result<(), Error> {
    if asked.owner.session.is_none() {
        return Ok(());
    }
    // One that ends already ends as it was asked.
    let Ok(live) = asked.parts.table.all(&Owner::default(), WhichProcesses::Live).await else { return Ok(()) };
    let dies = live.iter().map(|v| &v.facts).filter(|f| !f.is_over() && f.kept.spec.on_stop == OnStop::Kill);
    match dies.filter(|f| !asked.owner.may_touch(&f.kept.spec.owner)).count() {
        0 => Ok(()),
        n => {
            let what = format!("{n} processes of others would be stopped with the engine");
            Err(refuse::refusal(code::NOT_YOURS, what, "have a person stop it, or ask again when they are over"))
        }
    }
}
