//! What both kinds of actor do at the end of an agent: the limits for the rest of its output, and the last event.

use crate::driver::{AgentEvent, AgentNews, Attempt, Orders, StopReason};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long output may stay open without a byte after the agent has ended: a process that it started may hold it for ever.
pub(crate) const OUTPUT_DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// How long output is read in all after the agent has ended: a process that holds it may also write to it for ever.
pub(crate) const OUTPUT_DRAIN_MOST: Duration = Duration::from_secs(60);
/// How often the size of the file with standard error is checked.
pub(crate) const ERRORS_CHECK_PERIOD: Duration = Duration::from_secs(60);

/// The end of an attempt that was cancelled before the agent got its prompt.
pub(crate) fn cancelled_before_prompt(attempt: Attempt) -> AgentEvent {
    AgentEvent { attempt: Some(attempt), what: AgentNews::Completed { stop_reason: StopReason::Cancelled } }
}

/// Sends the last event of an actor whose agent was stopped, or never ran.
pub(crate) async fn tell_gone(orders: &mut Orders, events: &mpsc::Sender<AgentEvent>, prompted: Option<Attempt>, why: String) {
    tell_end(orders, events, prompted, false, why).await;
}

/// Sends the last event of an actor. A prompt that still waits reaches no agent, so the event names its attempt.
pub(crate) async fn tell_end(
    orders: &mut Orders,
    events: &mpsc::Sender<AgentEvent>,
    prompted: Option<Attempt>,
    was_killed: bool,
    why: String,
) {
    let waiting = orders.close().map(|prompt| prompt.attempt);
    let had_prompt = prompted.is_some();
    let what = AgentNews::Gone { had_prompt, was_killed, why };
    // Fails if the gateway has ended. The next gateway looks for agents itself.
    let _unheard = events.send(AgentEvent { attempt: prompted.or(waiting), what }).await;
}

/// When the output of an agent that has ended is read no further.
pub(crate) fn drained_at(ended_at: Instant, last_progress: Instant) -> Instant {
    (last_progress.max(ended_at) + OUTPUT_DRAIN_LIMIT).min(ended_at + OUTPUT_DRAIN_MOST)
}

/// Waits until this time, or for ever if there is none.
pub(crate) async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
