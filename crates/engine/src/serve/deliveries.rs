//! Deliveries to sinks: giving them out, and recording how each went.

use super::context::RequestContext;
use crate::bytes::lease_token;
use crate::closing::Closing;
use crate::facts::EndSeen;
use crate::notices::{OwedDelivery, PushResult};
use crate::points::point;
use crate::refuse;
use outlast_text::announce;
use outlast_wire::code;
use outlast_wire::v1::notice::{Deliveries, Delivery, Lent, Push};
use outlast_wire::v1::{Done, Error};
use std::time::Duration;

/// The longest lease of a delivery, in milliseconds.
const LONGEST_LEASE: u64 = 86_400_000;
/// The most deliveries in one answer.
const MOST: u32 = 1_000;
/// How many characters of a reason are kept.
const LONGEST_REASON: usize = 4 << 10;

/// Gives a sink its due deliveries, and waits until there are some.
pub(super) async fn deliveries(asked: &RequestContext, sink: String, limit: u32, lease_ms: u64) -> Result<Deliveries, Error> {
    let parts = &asked.parts;
    known(asked, &sink)?;
    if limit == 0 || limit > MOST || lease_ms == 0 || lease_ms > LONGEST_LEASE {
        let what = format!("{limit} deliveries for {lease_ms} ms cannot be given");
        return Err(refuse::refusal(code::BAD_REQUEST, what, "give a limit of 1 to 1,000, and 1 to 86,400,000 ms"));
    }
    let mut news = parts.outbox.news();
    loop {
        if parts.closing.stage() != Closing::Open {
            return Err(refuse::stopping());
        }
        news.borrow_and_update();
        let taken = parts.outbox.take(sink.clone(), limit as usize, lease_token(), lease_ms as i64 * 1_000, parts.now());
        let (taken, due) = taken.await.map_err(|e| refuse::index(&e))?;
        if !taken.is_empty() {
            point!("delivery.leased");
            return Ok(answer(taken));
        }
        let wait = due.map(|after| after.max(Duration::from_millis(1)));
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return Err(refuse::stopping()) },
            () = parts.closing.reached(Closing::Stopping) => return Err(refuse::stopping()),
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
}

fn answer(owed: Vec<OwedDelivery>) -> Deliveries {
    let delivery = |owed: OwedDelivery| {
        let text = announce(&owed.entry.notice);
        Delivery::new(owed.entry.notice, text, owed.attempts, owed.first_at, owed.lease)
    };
    Deliveries { deliveries: owed.into_iter().map(delivery).collect() }
}

/// Which of these deliveries a sink that wakes agents may make now.
pub(super) async fn wake(asked: &RequestContext, sink: String, lent: Vec<Lent>) -> Result<Deliveries, Error> {
    known(asked, &sink)?;
    if lent.len() > MOST as usize {
        let what = format!("{} deliveries cannot be made at once", lent.len());
        return Err(refuse::refusal(code::BAD_REQUEST, what, format!("name {MOST} at most")));
    }
    let lent = lent.into_iter().map(|one| (one.seq, one.lease)).collect();
    let go = asked.parts.outbox.wake(sink, lent, asked.parts.now()).await.map_err(|e| refuse::index(&e))?;
    point!("delivery.wakes");
    Ok(answer(go))
}

fn known(asked: &RequestContext, sink: &str) -> Result<(), Error> {
    let all = asked.parts.outbox.sinks();
    if all.iter().any(|s| s.name == sink) {
        return Ok(());
    }
    let names: Vec<&str> = all.iter().map(|s| s.name.as_str()).collect();
    let hint = if names.is_empty() { "none is configured".into() } else { format!("there are {}", names.join(", ")) };
    Err(refuse::refusal(code::NOT_FOUND, format!("there is no sink {sink:?}"), hint))
}

/// Records how a delivery went.
pub(super) async fn pushed(asked: &RequestContext, sink: String, seq: u64, lease: String, how: Push) -> Result<Done, Error> {
    known(asked, &sink)?;
    let now = asked.parts.now();
    let short = |reason: String| reason.chars().take(LONGEST_REASON).collect();
    let after = |ms: u64| Duration::from_millis(ms.min(LONGEST_LEASE));
    let how = match how {
        Push::Delivered => PushResult::Delivered,
        Push::Again { after_ms, reason } => PushResult::Again { after: after(after_ms), reason: short(reason) },
        Push::Later { after_ms } => PushResult::Later { after: after(after_ms) },
        Push::Dead { reason } => PushResult::Dead { reason: short(reason) },
    };
    point!("delivery.before_settle");
    let (kept, end_of) = asked.parts.outbox.pushed(sink, seq, lease, how, now).await.map_err(|e| refuse::index(&e))?;
    if let Some(process) = end_of {
        asked.parts.table.consumed(process, EndSeen::Seen).await;
    }
    point!("delivery.settled");
    Ok(Done::word(if kept { "ok" } else { "lost" }))
}
