//! The first commit of a gateway: which turns the end of the last one interrupted.

use super::Coordinator;
use super::batch::Batch;
use crate::rules::change::Event;
use crate::store::{StoreChange, StoreError};
use outlast_agents::Attempt;
use std::collections::{BTreeMap, BTreeSet};

/// What became of attempts that an earlier run left running, by the key of the conversation.
#[derive(Default)]
pub(crate) struct FoundAttempts {
    /// Their processes are there.
    pub(crate) held: BTreeSet<String>,
    /// They have no process, and the engine may be about to start it.
    pub(crate) not_started: BTreeMap<String, Attempt>,
}

impl Coordinator {
    /// The one commit of a start: every turn that was running, as the rules say, and the row of this run. Then agents that still work are followed.
    pub(crate) fn mark_interrupted(&mut self, found: &FoundAttempts, has_found_interrupted: bool) -> Result<(), StoreError> {
        let mut batch = Batch::new(self.started_at);
        let running: Vec<String> =
            self.chats.iter().filter(|(_, live)| live.conversation.running().is_some()).map(|(key, _)| key.clone()).collect();
        for key in &running {
            let head = self.chats.get(key).and_then(|live| live.conversation.running()).map(|row| row.id);
            self.apply(key, Event::GatewayStarted { is_held: found.held.contains(key) }, &mut batch);
            if let (Some(head), true, Some(live)) = (head, found.not_started.contains_key(key), self.chats.get_mut(key)) {
                live.take_back_start(head);
            }
        }
        batch.change(StoreChange::RunStarted { id: self.run, at: self.started_at, has_found_interrupted });
        let (changes, _) = batch.take_changes(&self.chats);
        self.store.commit(&changes)?;
        for live in self.chats.values_mut() {
            live.forget_finished();
        }
        for deed in batch.into_deeds() {
            self.act(deed);
        }
        for key in running {
            self.follow_held(&key);
        }
        Ok(())
    }
}
