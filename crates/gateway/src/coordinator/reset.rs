//! Resets: a message to a conversation that would be reset waits for the engine's list of what runs in its session.

use super::Coordinator;
use super::batch::Batch;
use super::input::{AnswerTo, Input};
use super::live::Live;
use super::refusal::{refusal, store_failed};
use crate::owner::UserId;
use crate::rules::change::MAX_QUEUED_MESSAGES;
use crate::rules::conversation::Standing;
use crate::rules::key::{ChatType, LOCAL_PLATFORM};
use crate::rules::reset::{self, LiveProcesses, ResetFacts};
use outlast_client::{Client, Scope, Status};
use outlast_core::Time;
use outlast_wire::code;
use outlast_wire::v1::Error;
use outlast_wire::v1::chat::ChatRequest;
use std::time::Duration;

/// How long the engine may take to list what runs in a session. A person waits for it; after this time the conversation is kept.
const LOOKUP_LIMIT: Duration = Duration::from_secs(2);

/// A request that waits, who made it, and where its answer goes.
pub(super) type Held = (ChatRequest, UserId, AnswerTo);

impl Coordinator {
    /// Holds a request back if it is about a conversation that a message would reset now, or follows such a message. Returns it if not.
    pub(super) fn hold_for_reset(&mut self, request: ChatRequest, by: UserId, to: AnswerTo, batch: &mut Batch) -> Option<Held> {
        let (key, is_message) = match &request {
            ChatRequest::Send { key, .. } => (key, true),
            ChatRequest::Stop { key, .. } | ChatRequest::New { key, .. } | ChatRequest::Resume { key, .. } => (key, false),
            _ => return Some((request, by, to)),
        };
        if let Some(held) = self.held.get_mut(key) {
            if held.len() >= MAX_QUEUED_MESSAGES {
                let what = "too many messages wait in this conversation";
                batch.answer(to, Err(refusal(code::TOO_MANY, what, "send it again in a moment")));
            } else {
                held.push((request, by, to));
            }
            return None;
        }
        if !is_message || !self.chats.get(key).is_some_and(|live| self.may_reset(live, batch.now)) {
            return Some((request, by, to));
        }
        let key = key.clone();
        self.look_up(&key);
        self.held.insert(key, vec![(request, by, to)]);
        None
    }

    /// Whether a message would reset the conversation if nothing ran in its session.
    fn may_reset(&self, live: &Live, now: Time) -> bool {
        let is_quiet = live.conversation.standing() == Standing::Active && live.conversation.rows.iter().all(|row| !row.turn.is_open());
        let facts = ResetFacts { processes: LiveProcesses::None, ..self.reset_facts(false, now) };
        is_quiet && reset::due(&facts, live.conversation.last_message_at, now).is_some()
    }

    fn look_up(&self, key: &str) {
        let (engine, inputs, key) = (self.engine.clone(), self.to_self.clone(), key.to_owned());
        tokio::spawn(async move {
            let processes = tokio::time::timeout(LOOKUP_LIMIT, live_processes(&engine, &key)).await.unwrap_or(LiveProcesses::Unknown);
            let _ended = inputs.send(Input::LookedUp { key, processes }).await;
        });
    }

    /// Continues the requests that waited for the engine's answer, in their order.
    pub(super) fn looked_up(&mut self, key: &str, processes: LiveProcesses, batch: &mut Batch) {
        for (request, by, to) in self.held.remove(key).unwrap_or_default() {
            self.ask_knowing(request, by, to, processes, batch);
        }
    }

    /// The facts for a message, as far as they do not depend on the session.
    fn reset_facts(&self, has_history: bool, now: Time) -> ResetFacts {
        ResetFacts {
            policy: self.settings.resets.of(LOCAL_PLATFORM, ChatType::Dm),
            utc_offset_seconds: (self.settings.utc_offset)(now),
            processes: LiveProcesses::Unknown,
            has_history,
        }
    }

    /// The facts for a message to a conversation.
    pub(super) fn facts_of(&self, key: &str, generation: u32, processes: LiveProcesses, now: Time) -> Result<ResetFacts, Error> {
        let has_history = self.store.has_history(key, generation).map_err(|e| store_failed(&e))?;
        Ok(ResetFacts { processes, ..self.reset_facts(has_history, now) })
    }
}

/// What runs in a session. Its agent is not among it: that belongs to a session of its own.
async fn live_processes(engine: &Client, key: &str) -> LiveProcesses {
    match engine.list(&Scope::session(key), false).await {
        Ok(processes) => {
            let running = processes.iter().filter(|process| process.status == Status::Running);
            let youngest = running.map(|process| process.uptime_seconds).min();
            youngest.map_or(LiveProcesses::None, |seconds| LiveProcesses::Youngest(Duration::from_secs(seconds)))
        }
        Err(error) => {
            tracing::warn!(%error, key, "what runs in this conversation is unknown, so it is not reset");
            LiveProcesses::Unknown
        }
    }
}
