//! The last acts of a gateway.

use super::live::Live;
use super::notices::OWN_SESSION;
use super::{Coordinator, later, now};
use crate::exit::Exit;
use crate::lock::LockWord;
use crate::store::StoreChange;
use outlast_agents::{running_agents, stop_agents_of};
use outlast_client::{BarrierTarget, Client, ClientError, Owner};
use std::time::Duration;

/// After a SIGTERM that no client asked for, the engine starts a gateway for open turns after this time. A service manager is faster. A machine that is
/// switched off has ended the engine by then, and the next one does it.
const RETURN_AFTER_SIGTERM: Duration = Duration::from_secs(60);
/// How long agents may take to be stopped at the end. What is left is stopped by the next gateway.
const AGENT_STOP_LIMIT: Duration = Duration::from_secs(15);
/// How long the engine may take to answer at the end. A gateway that was asked to end does so even if the engine hangs.
const ENGINE_ANSWER_LIMIT: Duration = Duration::from_secs(5);

impl Coordinator {
    /// The last acts: agents are stopped, what waits for a time is set as a barrier in the engine, and the run is closed. Returns the word for the lock.
    pub(crate) async fn leave(&mut self, exit: Exit) -> LockWord {
        self.stop_all_agents().await;
        let mut word = exit.word;
        let returns_at = (exit.does_return && self.has_open_turns()).then(|| later(now(), RETURN_AFTER_SIGTERM));
        let waits_until = self.next_waiting().filter(|_| exit.word == LockWord::Empty);
        if let Some(at) = waits_until.into_iter().chain(returns_at).min() {
            let engine = self.engine.with_owner(Owner::session(OWN_SESSION));
            if let Err(error) = in_time(engine.set_until(BarrierTarget::Time { at })).await {
                // Without it, no program would start a gateway when the time comes. With this word, the engine does at once.
                tracing::warn!(error, "no time could be set for what waits, so the next gateway is started now");
                word = LockWord::AtWork;
            }
        }
        if word == LockWord::Empty {
            self.disown_others().await;
        }
        let mut changes = self.seen_until_the_end();
        changes.push(StoreChange::RunEnded { id: self.run, at: now(), how: exit.how.to_owned() });
        if let Err(error) = self.store.commit(&changes) {
            tracing::warn!(%error, "the end of this run was not written down");
        }
        word
    }

    /// What open terminals were sent counts as seen: they have no gateway left that they could report it to.
    fn seen_until_the_end(&mut self) -> Vec<StoreChange> {
        let mut changes = Vec::new();
        for (key, live) in self.chats.iter_mut().filter(|(_, live)| live.attendants > 0) {
            // If it cannot be read, parts are shown again.
            let last = self.store.last_part(key).ok().flatten();
            if last > live.chat.seen {
                live.chat.seen = last;
                changes.push(StoreChange::Conversation(Box::new(live.record(key))));
            }
        }
        changes
    }

    /// Reports to the engine for which sessions it should start no gateway: another program uses their keys in the same home, or no more of their notices are taken
    /// before a person writes. The engine asks itself that only while no gateway serves, and forgets it when the next one does. So the gateway reports it once, at its end, and a conversation that was created meanwhile is its own.
    async fn disown_others(&self) {
        let full = self.chats.iter().filter(|(_, live)| live.has_notices_due && live.has_all_notices_it_keeps()).map(|(key, _)| key);
        let others: Vec<String> = self.not_ours.iter().filter(|session| !self.chats.contains_key(*session)).chain(full).cloned().collect();
        if others.is_empty() {
            return;
        }
        if let Err(error) = in_time(self.engine.disown(&others)).await {
            tracing::warn!(error, "the engine was not told which sessions are not ours, and may start a gateway for them");
        }
    }

    /// Whether a turn is open that does not wait for a person.
    fn has_open_turns(&self) -> bool {
        let is_open = |live: &Live| live.conversation.rows.iter().any(|row| row.turn.is_open());
        self.chats.values().any(|live| is_open(live) && live.conversation.suspended_at.is_none() && live.waits_for.is_none())
    }

    async fn stop_all_agents(&mut self) {
        for live in self.chats.values() {
            if let Some(actor) = &live.actor {
                // One that has ended needs no stop.
                let _ended = actor.handle.stop();
            }
        }
        let engine = self.engine.clone();
        let stopping = async {
            while self.chats.values().any(|live| live.actor.is_some()) {
                match self.next_input().await {
                    Some(input) => self.note_gone(input),
                    None => break,
                }
            }
            stop_strays(&engine).await;
        };
        if tokio::time::timeout(AGENT_STOP_LIMIT, stopping).await.is_err() {
            tracing::warn!("agents did not stop in time; the next gateway stops them");
        }
    }
}

/// The engine's answer at the end of the gateway, or why there is none.
async fn in_time<T>(answer: impl Future<Output = Result<T, ClientError>>) -> Result<T, String> {
    match tokio::time::timeout(ENGINE_ANSWER_LIMIT, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the engine has not answered within {} s", ENGINE_ANSWER_LIMIT.as_secs())),
    }
}

/// Stops agents that no actor drives. An earlier gateway may have died with a start under way, which the engine carried out after this one had looked.
async fn stop_strays(engine: &Client) {
    let stopped = async {
        for agent in running_agents(engine).await? {
            stop_agents_of(engine, &agent.key).await?;
        }
        Ok::<(), ClientError>(())
    };
    if let Err(error) = stopped.await {
        tracing::warn!(%error, "agents could not be looked for; the next gateway stops them");
    }
}
