//! `view close`: detaches attached terminals; the process keeps running.

use super::context::RequestContext;
use crate::refuse;
use outlast_core::IdRef;
use outlast_wire::code;
use outlast_wire::v1::{Error, ViewClosed};

pub(super) async fn close(asked: &RequestContext, name: &str) -> Result<ViewClosed, Error> {
    let view = match (asked.resolve(name).await, name.parse()) {
        (Ok(view), _) => view,
        // The process may have been removed: then no view of it is open, as requested. An unknown name is a mistake.
        (Err(error), Ok(IdRef::Exact(id))) if error.code == code::NOT_FOUND => {
            let note = format!("No process {id} is known, so no view of it is open.");
            return Ok(ViewClosed::new(id.to_string(), 0, note));
        }
        (Err(error), _) => return Err(error),
    };
    let id = view.id();
    match asked.parts.views.close(id) {
        0 => Err(refuse::refusal(code::NO_VIEW, format!("no terminal is attached to {id}"), format!("`outlast attach {id}` attaches one"))),
        views => {
            let note = format!(
                "The view of {id} was closed. The process was not killed and keeps running, its output stays available, and `outlast attach {id}` opens the view again."
            );
            Ok(ViewClosed::new(id.to_string(), views as u64, note))
        }
    }
}
