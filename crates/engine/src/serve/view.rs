//! `view close`: whoever looks on is told to leave, and the process goes on.

use super::Asked;
use crate::refuse;
use outlast_core::{IdRef, ProcessId};
use outlast_wire::code;
use outlast_wire::v1::{Error, ViewClosed};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// Those who look on, by what they look at.
#[derive(Default)]
pub(crate) struct Views(Mutex<HashMap<ProcessId, watch::Sender<()>>>);

/// Somebody who looks on, for as long as this is held.
pub(crate) struct View(Option<watch::Receiver<()>>);

impl View {
    /// Nobody who can be told to leave.
    pub(crate) const NONE: Self = Self(None);

    /// Returns once it is told to leave.
    pub(crate) async fn closed(&mut self) {
        match &mut self.0 {
            // Nothing is ever sent: the other end goes.
            Some(open) => while open.changed().await.is_ok() {},
            None => std::future::pending().await,
        }
    }
}

impl Views {
    /// Somebody looks on from now on.
    pub(crate) fn open(&self, id: ProcessId) -> View {
        let mut all = self.lock();
        all.retain(|_, views| views.receiver_count() > 0);
        View(Some(all.entry(id).or_insert_with(|| watch::channel(()).0).subscribe()))
    }

    /// Tells everybody who looks at a process to leave. How many.
    fn close(&self, id: ProcessId) -> usize {
        self.lock().remove(&id).map_or(0, |views| views.receiver_count())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ProcessId, watch::Sender<()>>> {
        // Entries are put and removed whole, so a panic elsewhere spoils nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) async fn close(asked: &Asked, name: &str) -> Result<ViewClosed, Error> {
    let view = match (asked.resolve(name).await, name.parse()) {
        (Ok(view), _) => view,
        // The process may have been removed: no view of it is open, which is what was asked for. A name that is not known is a mistake.
        (Err(error), Ok(IdRef::Exact(id))) if error.code == code::NOT_FOUND => {
            let note = format!("No process {id} is known, so no view of it is open.");
            return Ok(ViewClosed::new(id.to_string(), 0, note));
        }
        (Err(error), _) => return Err(error),
    };
    let id = view.id();
    match asked.shared().views.close(id) {
        0 => Err(refuse::refusal(code::NO_VIEW, format!("no terminal is attached to {id}"), format!("`outlast attach {id}` attaches one"))),
        views => {
            let note = format!(
                "The view of {id} was closed. The process was not killed and keeps running, its output stays available, and `outlast attach {id}` opens the view again."
            );
            Ok(ViewClosed::new(id.to_string(), views as u64, note))
        }
    }
}
