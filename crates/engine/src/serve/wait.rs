//! `wait`: until the process ends, a timeout passes, or the wait is interrupted.

use super::context::{AnswerWithEnd, RequestContext, read_small};
use crate::facts::{Facts, FolderLook};
use crate::intake::Current;
use crate::points::point;
use crate::refuse;
use crate::render::{self, Log};
use crate::table::ProcessView;
use outlast_core::{Owner, Phase, limits};
use outlast_wire::code;
use outlast_wire::v1::{Done, Error, Waited};
use std::sync::Arc;
use std::time::Duration;

/// How long after the end of a command its output may stay open before the answer names what holds it as left running.
const LETTING_GO: Duration = Duration::from_millis(100);

enum Woken {
    Ended,
    TimedOut,
    Interrupted,
}

pub(super) async fn wait(asked: &RequestContext, name: &str, timeout_ms: Option<u64>) -> Result<AnswerWithEnd<Waited>, Error> {
    if timeout_ms == Some(0) {
        let hint = "give a time of more than 0, or none to wait for as long as it takes; `poll` does not wait at all";
        return Err(refuse::refusal(code::BAD_REQUEST, "a timeout of 0 is not allowed", hint));
    }
    let mut view = asked.resolve(name).await?;
    let awaiting = asked.awaits_end(&view.facts);
    // Subscribed first, so that no interrupt is missed.
    let mut interrupts = match &asked.owner.session {
        Some(session) => asked.parts.table.interrupts(session.clone()).await,
        None => None,
    };
    point!("wait.begun");
    let woken = tokio::select! {
        biased;
        _ = view.until(Facts::is_over) => Woken::Ended,
        () = passed(timeout_ms) => Woken::TimedOut,
        () = interrupted(&mut interrupts) => Woken::Interrupted,
    };
    // If the process has ended, that is the answer, whatever woke this task.
    let Current { facts, seen } = asked.look(&view).await?;
    let (facts, seen) = until_let_go(asked, &mut view, facts, seen).await?;
    // The client gives up and waits no more. An end that comes while this is answered is delivered like any other.
    let awaiting = awaiting.filter(|_| facts.is_over());
    let (status, chars) = match woken {
        _ if facts.is_over() => ("exited", limits::WAIT_EXIT_CHARS),
        Woken::Ended => return Err(refuse::stopping()),
        Woken::TimedOut => ("timeout", limits::WAIT_TIMEOUT_CHARS),
        Woken::Interrupted => ("interrupted", limits::WAIT_TIMEOUT_CHARS),
    };
    let (parts, ProcessView { dir, .. }, of) = (Arc::clone(&asked.parts), view, Arc::clone(&facts));
    let look = move || {
        let shown = render::preview(&parts.redactor, &Log::open(&dir, &of, seen.meta.as_ref()), &of, chars)?;
        Ok((shown, parts.leftovers.look().at(&dir, &of, seen.meta.as_ref())))
    };
    let (shown, left) = read_small(&asked.parts, &facts, look).await?;
    let of = (status == "exited").then(|| Arc::clone(&facts));
    let mut answer = Waited::new(status, facts.id(), facts.kept.spec.command.shown(), render::fate(&facts));
    answer.output = shown.text;
    answer.output_cut = shown.cut;
    answer.output_missing = shown.missing;
    answer.left = left;
    answer.timeout_note = (status == "timeout").then(|| {
        let seconds = timeout_ms.unwrap_or(0) as f64 / 1_000.0;
        format!("Waited {seconds}s, process still running")
    });
    answer.note = (status == "interrupted").then(|| "User sent a new message -- wait interrupted".into());
    Ok(AnswerWithEnd { answer, of, awaiting })
}

/// Waits a moment for the processes that a command started to end with it. A helper at the other end of a pipe often ends a little later.
async fn until_let_go(
    asked: &RequestContext,
    view: &mut ProcessView,
    facts: Arc<Facts>,
    seen: FolderLook,
) -> Result<(Arc<Facts>, FolderLook), Error> {
    let Phase::Draining { ending } = &facts.phase else { return Ok((facts, seen)) };
    let passed = Duration::from_micros(u64::try_from(asked.parts.now().micros() - ending.at.micros()).unwrap_or(0));
    let Some(rest) = LETTING_GO.checked_sub(passed) else { return Ok((facts, seen)) };
    // If something stays, the answer names it.
    let _stays = tokio::time::timeout(rest, view.until(|facts| facts.phase.is_final())).await;
    let Current { facts, seen } = asked.look(view).await?;
    Ok((facts, seen))
}

/// Cancels the waiting calls of a session, which is the caller's own unless the caller is a person.
pub(super) async fn interrupt(asked: &RequestContext, session: String) -> Result<Done, Error> {
    if !asked.owner.may_touch(&Owner { session: Some(session.clone()), ..Owner::default() }) {
        return Err(refuse::no_session(&session));
    }
    let count = asked.parts.table.interrupt(session).await? as u64;
    Ok(Done::many(count))
}

async fn passed(timeout_ms: Option<u64>) {
    match timeout_ms {
        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        None => std::future::pending().await,
    }
}

/// Returns once the waits of the session are interrupted. May be dropped and called again.
pub(super) async fn interrupted(interrupts: &mut Option<tokio::sync::watch::Receiver<u64>>) {
    if let Some(interrupts) = interrupts
        && interrupts.changed().await.is_ok()
    {
        return;
    }
    // A call without a session cannot be interrupted.
    std::future::pending().await
}
