//! The gateway of the home: it registers that it serves, and is told which sessions have notices.

use super::context::RequestContext;
use crate::closing::Closing;
use crate::gateways::Serving;
use crate::notices::{OpenSession, moment};
use crate::refuse;
use outlast_wire::v1::{Done, Error, Event};
use std::time::Duration;

/// Tells a gateway which sessions have notices. Ends with the connection, or with the engine.
pub(super) async fn serve(asked: &RequestContext) -> Result<Done, Error> {
    let parts = &asked.parts;
    let _serving = Serving::new(&parts.gateways, asked.pid);
    let (mut news, mut leases) = (parts.outbox.news(), parts.outbox.leases());
    let mut known: Vec<OpenSession> = Vec::new();
    let mut is_first = true;
    loop {
        news.borrow_and_update();
        leases.borrow_and_update();
        let (open, lapse) = parts.outbox.open_sessions(moment(parts.now())).await.map_err(|e| refuse::index(&e))?;
        let sessions: Vec<String> = open.iter().filter(|one| !known.contains(one)).map(|one| one.session.clone()).collect();
        if is_first || !sessions.is_empty() {
            asked.out.event(Event::Sessions { sessions }).await;
        }
        (known, is_first) = (open, false);
        // A lease may run out without a report.
        let lapse = lapse.map(|after| after.max(Duration::from_millis(1)));
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return Err(refuse::stopping()) },
            // Another taker has leased a notice, and may die with it.
            changed = leases.changed() => if changed.is_err() { return Err(refuse::stopping()) },
            () = parts.closing.reached(Closing::Stopping) => return Err(refuse::stopping()),
            () = tokio::time::sleep(lapse.unwrap_or_default()), if lapse.is_some() => {}
        }
    }
}

pub(super) fn disown(asked: &RequestContext, sessions: Vec<String>) -> Done {
    asked.parts.gateways.disown(sessions);
    Done::ok()
}
