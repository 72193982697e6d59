//! The start of a gateway: lock, agents of an earlier run, one commit for every turn that was running, the breaker.

use crate::coordinator::{Coordinator, FoundAttempts, Gateway, Live, Parts, driver_attempt, now};
use crate::exit::{HOW_INTERRUPTED, HOW_STOPPED};
use crate::rules::breaker::{BREAKER_STARTS, RunStart, judge};
use crate::rules::turn::{MarkWindow, Turn};
use crate::settings::GatewaySettings;
use crate::store::{SqliteStore, Store, StoreError};
use outlast_agents::{AgentPlace, Attempt, FoundAttempt, running_agents, stop_agents_but, stop_agents_of};
use outlast_client::{Client, ClientError, Connect};
use outlast_core::Time;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("cannot {doing} {}: {error}", path.display())]
    File { doing: &'static str, path: PathBuf, error: std::io::Error },
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the engine cannot be reached: {0}")]
    Engine(#[from] ClientError),
}

impl StartError {
    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { doing, path, error }
    }
}

/// Reads the database, stops agents of an earlier run, and marks interrupted turns. If it is killed half-way, the next start does the same and counts nothing
/// twice.
pub(crate) async fn start(settings: Arc<GatewaySettings>) -> Result<(Coordinator, Gateway), StartError> {
    let mut store = SqliteStore::open(&settings.home.join("gateway.db"))?;
    let loaded = store.load()?;
    for skipped in &loaded.skipped {
        tracing::error!(skipped, "skipped");
    }
    let engine = Client::connect(&Connect::to(&settings.home).starting(&settings.outlast)).await?;
    let place = AgentPlace::of_login(&engine, &settings.user, &settings.user_home, &[("OUTLAST_HOME", settings.home.as_os_str())]);
    let place = place.finding(&settings.outlast);
    let (run, started_at) = (loaded.last_run + 1, now());
    // Only a user starts a gateway after a user stopped one, so neither is part of a loop.
    let was_stopped = matches!(store.last_end()?.as_deref(), Some(HOW_STOPPED | HOW_INTERRUPTED));
    let mut turns = loaded.conversations.iter().flat_map(|(_, turns)| turns);
    let has_found_interrupted = !was_stopped && turns.any(|turn| is_news_of_interruption(&turn.turn, settings.mark_window, started_at));
    let mut starts = store.last_runs(BREAKER_STARTS - 1)?;
    starts.push(RunStart { at: started_at, has_found_interrupted });
    let breaker = judge(&starts);
    let parts = Parts { settings, store: Box::new(store), loaded, engine, place, breaker, run, started_at };
    let (mut coordinator, gateway) = Coordinator::new(parts);
    let found = found_attempts(&coordinator).await?;
    stop_others(&coordinator.engine, &found).await?;
    crate::points::reach("gateway.before_marks");
    tokio::task::block_in_place(|| coordinator.mark_interrupted(&found, has_found_interrupted))?;
    stop_given_up(&coordinator, &found).await?;
    Ok((coordinator, gateway))
}

/// Whether a turn says that an earlier gateway was interrupted. One that its age holds back would say so at each start, although nothing was cut again.
fn is_news_of_interruption(turn: &Turn, window: MarkWindow, now: Time) -> bool {
    match turn {
        Turn::Running { .. } => true,
        Turn::Interrupted { mark, .. } => !mark.is_stale(window, now),
        Turn::Queued | Turn::Finished(_) => false,
    }
}

async fn found_attempts(coordinator: &Coordinator) -> Result<FoundAttempts, ClientError> {
    let mut found = FoundAttempts::default();
    for (key, live) in &coordinator.chats {
        let Some((attempt, choice)) = running_attempt(live).zip(live.chat.agent.as_ref()) else { continue };
        // Without a driver there is no process to follow.
        let Ok(driver) = coordinator.driver(key, &live.conversation.generation.name(), choice) else { continue };
        match driver.find(key, &attempt).await? {
            FoundAttempt::Held => _ = found.held.insert(key.clone()),
            FoundAttempt::NotStarted => _ = found.not_started.insert(key.clone(), attempt),
            FoundAttempt::Gone => {}
        }
    }
    Ok(found)
}

fn running_attempt(live: &Live) -> Option<Attempt> {
    let head = live.conversation.running()?.id;
    let starts = live.details.get(&head)?.starts;
    Some(driver_attempt(live, head, starts))
}

/// Stops the agents of an earlier run, whole trees, but for those that still work on an attempt.
async fn stop_others(engine: &Client, found: &FoundAttempts) -> Result<(), ClientError> {
    let keys: BTreeSet<String> = running_agents(engine).await?.into_iter().map(|agent| agent.key).collect();
    for key in keys.difference(&found.held) {
        let stopped = match found.not_started.get(key) {
            // Its process has just been started, and the next attempt follows it.
            Some(attempt) => stop_agents_but(engine, key, attempt).await?,
            None => stop_agents_of(engine, key).await?,
        };
        tracing::info!(key, stopped, "stopped agents of an earlier run");
    }
    Ok(())
}

/// Stops agents that were left to work on an attempt which the marks ended. Before the gateway listens: a message could start another agent, which would be
/// taken for the one that is stopped.
async fn stop_given_up(coordinator: &Coordinator, found: &FoundAttempts) -> Result<(), ClientError> {
    let is_over = |key: &&String| coordinator.chats.get(*key).is_none_or(|live| live.conversation.running().is_none());
    for key in found.held.iter().filter(is_over) {
        stop_agents_of(&coordinator.engine, key).await?;
        tracing::info!(key, "stopped the agent of a turn that was given up");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::turn::{InterruptReason, Mark, Outcome};

    /// Three restarts within five minutes opened the breaker for a turn that had been interrupted yesterday.
    #[test]
    fn a_turn_that_its_age_holds_back_is_no_news_of_an_interruption() {
        let (now, hour) = (Time::from_micros(1_800_000_000_000_000), 3_600_000_000);
        let interrupted = |ago: i64| {
            let mark = Mark { reason: InterruptReason::RestartInterrupted, at: Time::from_micros(now.micros() - ago) };
            Turn::Interrupted { attempt: 1, mark }
        };
        let is_news = |turn| is_news_of_interruption(&turn, MarkWindow::default(), now);
        assert!(is_news(Turn::Running { attempt: 1, mark: None }) && is_news(interrupted(hour)));
        assert!(!is_news(interrupted(hour + 1)) && !is_news(Turn::Queued) && !is_news(Turn::Finished(Outcome::Completed)));
        assert!(is_news_of_interruption(&interrupted(24 * hour), MarkWindow(std::time::Duration::ZERO), now), "no mark is too old there");
    }
}
