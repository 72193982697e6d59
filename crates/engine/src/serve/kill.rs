//! `kill`: stops the whole tree, and answers which processes were seen to die.

use super::chosen::Chosen;
use super::context::{AnswerWithEnd, RequestContext, reading};
use crate::disk::blocking;
use crate::refuse;
use crate::render::{self, Log};
use crate::stop::{StopReport, cause, stop_all, stop_one};
use crate::stop_left::{stop_left, stop_left_of_all};
use crate::table::{ProcessView, WhichProcesses};
use outlast_core::{Stop, StopWay, limits};
use outlast_wire::code;
use outlast_wire::v1::{Error, Kill, KillAll, Killed};
use std::sync::Arc;
use std::time::Duration;

pub(super) async fn kill(asked: &RequestContext, name: &str, kill: Kill) -> Result<AnswerWithEnd<Killed>, Error> {
    let mut view = asked.resolve_to_change(name).await?;
    let awaiting = asked.awaits_end(&view.facts);
    let stop = Stop { cause: cause(&asked.owner, "process.kill"), way: way(kill, asked.parts.config.grace) };
    let done = match stop_one(&asked.parts, &mut view, &stop).await {
        // The client wants nothing of it to run, so leftovers are stopped too.
        Err(error) if error.code == code::ALREADY_EXITED => {
            return Err(error.with_stopped_left(stop_left(&asked.parts, &mut view, &stop).await?));
        }
        done => done?,
    };
    let ended = answer(asked, view, &stop, done).await?;
    // The process keeps running, so the client has not seen its end.
    let awaiting = awaiting.filter(|_| ended.of.is_some());
    Ok(AnswerWithEnd { awaiting, ..ended })
}

pub(super) async fn kill_all(asked: &RequestContext, chosen: &Chosen, kill: Kill) -> Result<KillAll, Error> {
    let mut views = asked.parts.table.all(&asked.owner, WhichProcesses::Live).await?;
    views.retain(|v| !v.facts.is_over() && chosen.takes(v) && asked.may_change(v.id()));
    let stop = Stop { cause: cause(&asked.owner, "kill_all"), way: way(kill, asked.parts.config.grace) };
    let (mut killed, mut failed, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for result in stop_all(&asked.parts, views, &stop).await {
        match result {
            Ok((id, Ok(done))) => {
                killed.push(id);
                warnings.extend(done.warning().map(|warning| format!("{id}: {warning}")));
            }
            Ok((id, Err(error))) if error.code == code::ALREADY_EXITED => killed.push(id),
            Ok((_, Err(error))) | Err(error) => failed.push(error),
        }
    }
    // After the running ones: a process that ended meanwhile may have left something, too.
    let mut left_killed = Vec::new();
    for result in stop_left_of_all(&asked.parts, left_of_chosen(asked, chosen).await?, &stop).await {
        match result {
            Ok((id, stopped)) => {
                left_killed.extend(stopped.left_killed);
                warnings.extend(stopped.warning.map(|warning| format!("{id}: {warning}")));
            }
            Err(error) => failed.push(error),
        }
    }
    killed.sort();
    let mut answer = KillAll::new(u32::try_from(killed.len()).unwrap_or(u32::MAX), failed);
    answer.processes = killed;
    (answer.left_killed, answer.warnings) = (left_killed, warnings);
    Ok(answer)
}

/// The chosen finished processes that may have left something running.
async fn left_of_chosen(asked: &RequestContext, chosen: &Chosen) -> Result<Vec<ProcessView>, Error> {
    let mut views = asked.parts.table.all(&asked.owner, WhichProcesses::All).await?;
    views.retain(|v| v.facts.is_over() && chosen.takes(v) && asked.may_change(v.id()));
    let parts = Arc::clone(&asked.parts);
    let found = blocking(move || {
        let look = parts.leftovers.look();
        views.retain(|v| look.has_left(&v.dir, &v.facts));
        views
    });
    found.await.map_err(|e| refuse::disk("cannot look for what is left", &e))
}

fn way(kill: Kill, grace: Duration) -> StopWay {
    match kill {
        Kill { no_escalate: true, .. } => StopWay::TermOnly,
        Kill { grace_ms: Some(ms), .. } => StopWay::Escalate { grace: Duration::from_millis(ms) },
        Kill { grace_ms: None, .. } => StopWay::Escalate { grace },
    }
}

async fn answer(asked: &RequestContext, view: ProcessView, stop: &Stop, done: StopReport) -> Result<AnswerWithEnd<Killed>, Error> {
    let now = asked.look(&view).await?;
    let (parts, of) = (Arc::clone(&asked.parts), Arc::clone(&now.facts));
    let dir = view.dir.clone();
    let shown =
        reading(move || render::preview(&parts.redactor, &Log::open(&dir, &of, now.seen.meta.as_ref()), &of, limits::WAIT_EXIT_CHARS))
            .await?;
    let of = now.facts.is_over().then(|| Arc::clone(&now.facts));
    let status = if stop.way == StopWay::TermOnly { "signalled" } else { "killed" };
    let mut answer = Killed::new(status, view.id(), render::fate(&now.facts));
    answer.output = Some(shown.text);
    answer.output_cut = shown.cut;
    answer.seen_dead = Some(done.seen_dead);
    answer.warning = done.warning();
    Ok(AnswerWithEnd { answer, of, awaiting: None })
}
