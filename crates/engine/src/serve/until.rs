//! `until`: a barrier, and waiting for it to open.

use super::context::RequestContext;
use super::pending_answer::PendingAnswer;
use crate::barrier;
use crate::bytes::lease_token;
use crate::closing::Closing;
use crate::facts::Facts;
use crate::notices::barrier as rows;
use crate::notices::{Barrier, ResolvedTarget};
use crate::refuse;
use outlast_core::IdRef;
use outlast_wire::code;
use outlast_wire::v1::Error;
use outlast_wire::v1::notice::{self as v1, BarrierTarget, Barriers};
use std::sync::Arc;

/// Sets a barrier and answers once it is open, or at once if `no_wait` is set.
pub(super) async fn until(asked: &RequestContext, until: BarrierTarget, id: Option<String>, no_wait: bool) {
    let id = match named(id) {
        Ok(id) => id,
        Err(error) => return asked.out.error(error).await,
    };
    // Before it is set, because it may open at once.
    let awaiting = (!no_wait).then(|| PendingAnswer::begin(&asked.parts, rows::key(&id)));
    match (set(asked, until, id.clone()).await, awaiting) {
        (Err(error), _) => asked.out.error(error).await,
        (Ok(set), None) => asked.out.answer(shown(&set, if set.opened.is_empty() { "waiting" } else { "open" })).await,
        (Ok(set), Some(awaiting)) if set.id == id => wait(asked, set, awaiting).await,
        // The session has this barrier already.
        (Ok(set), Some(_)) => {
            let awaiting = PendingAnswer::begin(&asked.parts, set.key());
            wait(asked, set, awaiting).await;
        }
    }
}

/// The name of a barrier: the one that was given, or a new one.
fn named(id: Option<String>) -> Result<String, Error> {
    match id {
        Some(id) if is_name(&id) => Ok(id),
        Some(id) => {
            let what = format!("{id:?} is not the name of a barrier");
            Err(refuse::refusal(code::BAD_REQUEST, what, "give bar_ and twelve hexadecimal digits, or none"))
        }
        None => Ok(format!("bar_{}", &lease_token()[..12])),
    }
}

async fn set(asked: &RequestContext, until: BarrierTarget, id: String) -> Result<Barrier, Error> {
    let target = match until {
        BarrierTarget::Process { process, or_match } => {
            let (id, name) = meant(asked, &process).await?;
            ResolvedTarget::Process { id, or_match, name }
        }
        BarrierTarget::Pid { pid } => match outlast_store::os::incarnation_of(pid) {
            Ok(of) => ResolvedTarget::pid(&of),
            // The process is gone already: no incarnation has this start time.
            Err(_) => ResolvedTarget::Pid { pid, start_ticks: 0, boot: "0".into() },
        },
        BarrierTarget::Time { at } => ResolvedTarget::Time { at_us: at.micros() },
        other => return Err(refuse::unknown("something to wait for", &other)),
    };
    barrier::set(&asked.parts.barriers, &asked.owner, target, id).await.map_err(|e| refuse::index(&e))
}

fn is_name(id: &str) -> bool {
    id.strip_prefix("bar_").is_some_and(|hex| hex.len() == 12 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The id and name of the process that is meant. An unknown id counts as ended, because the process may have been removed. An unknown name
/// is a mistake.
async fn meant(asked: &RequestContext, given: &str) -> Result<(String, Option<String>), Error> {
    match (asked.resolve(given).await, given.parse()) {
        (Ok(view), _) => Ok((view.id().to_string(), view.facts.kept.spec.name.clone())),
        (Err(error), Ok(IdRef::Exact(id))) if error.code == code::NOT_FOUND => Ok((id.to_string(), None)),
        (Err(error), _) => Err(error),
    }
}

async fn wait(asked: &RequestContext, set: Barrier, awaiting: PendingAnswer) {
    let parts = &asked.parts;
    let mut interrupts = match &asked.owner.session {
        Some(session) => asked.parts.table.interrupts(session.clone()).await,
        None => None,
    };
    let opened = match parts.barriers.opened(&set.id) {
        Some(mut opened) => {
            tokio::select! {
                biased;
                opened = async { opened.wait_for(|why| !why.is_empty()).await.map(|why| why.clone()) } => opened.ok(),
                () = super::wait::interrupted(&mut interrupts) => return asked.out.answer(shown(&set, "interrupted")).await,
                () = parts.closing.reached(Closing::Stopping) => return asked.out.error(refuse::stopping()).await,
            }
        }
        // It opened before the engine could watch it.
        None => None,
    };
    let why = match opened {
        Some(why) => Some(why),
        None => match parts.outbox.barrier(set.id.clone()).await {
            Ok(found) => found.map(|b| b.opened).filter(|why| !why.is_empty()),
            Err(error) => return asked.out.error(refuse::index(&error)).await,
        },
    };
    let Some(why) = why else { return asked.out.answer(shown(&set, "cleared")).await };
    let open = Barrier { opened: why, ..set };
    let now = parts.now();
    let (parts, key) = (Arc::clone(&asked.parts), open.key());
    let hold = async move {
        if let Err(error) = parts.outbox.answer_begins_for(key, now).await {
            tracing::warn!(%error, "a barrier that was answered may also be delivered as a notice");
        }
        awaiting.held();
    };
    let (parts, key) = (Arc::clone(&asked.parts), open.key());
    let then = move |sent| async move {
        let outbox = &parts.outbox;
        if sent { outbox.answered_later(key, now).await } else { outbox.answer_failed_for(key).await }
    };
    asked.out.answer_between(hold, shown(&open, "open"), Box::new(|sent| Box::pin(then(sent)))).await;
}

fn shown(barrier: &Barrier, status: &str) -> v1::Barrier {
    let mut shown = v1::Barrier::new(&barrier.id, status, barrier.message(), barrier.created_at);
    shown.why = Some(barrier.opened.clone()).filter(|why| !why.is_empty());
    shown
}

/// The barriers of the caller's session. Removes them if `clear` is set.
pub(super) async fn barriers(asked: &RequestContext, clear: bool) -> Result<Barriers, Error> {
    let session = asked.owner.session.clone().unwrap_or_default();
    let of = session.clone();
    let all = asked.parts.outbox.with(move |db| rows::all(db, Some(&of))).await.map_err(|e| refuse::index(&e))?;
    if clear {
        let gone = asked.parts.outbox.with(move |db| rows::clear(db, &session)).await.map_err(|e| refuse::index(&e))?;
        asked.parts.barriers.removed(&gone);
    }
    let status = |b: &Barrier| match (b.opened.is_empty(), clear) {
        (false, _) => "open",
        (true, true) => "cleared",
        (true, false) => "waiting",
    };
    Ok(Barriers { barriers: all.iter().map(|b| shown(b, status(b))).collect() })
}

/// Whether a session that waits for this process may continue because a match was reported.
pub(super) async fn has_matched(asked: &RequestContext, facts: &Facts) -> Result<bool, Error> {
    Ok(barrier::has_matched(&asked.parts.outbox, facts, None).await)
}
