//! What starts next in a conversation, and the prompt that its agent is given.

use super::batch::{Batch, Deed};
use super::ended::open_calls;
use super::live::{Certainty, Live};
use super::{COMMIT_RETRY_PAUSE, Coordinator, later, now};
use crate::owner::{self, UserId};
use crate::rules::change::{Event, Prompt};
use crate::rules::conversation::TurnId;
use crate::rules::note::ToolTail;
use crate::rules::queue::{self, BUDGET_LONG_WINDOW, Gates, Next};
use crate::rules::text::Line;
use crate::rules::turn::WaitReason;
use crate::store::TurnBody;
use outlast_agents::Block;
use outlast_core::Time;
use outlast_text::announce_header;
use outlast_wire::v1::chat::Content;

/// What the agent reads before a notice that may have been delivered by another path.
const MAYBE_A_REPEAT: &str = "(this may be a repeat)";

impl Coordinator {
    /// Starts what may start in a conversation, as part of the batch.
    pub(super) fn advance(&mut self, key: &str, batch: &mut Batch) {
        if self
            .chats
            .get(key)
            .and_then(|live| live.actor.as_ref().map(|actor| (live, actor)))
            .is_some_and(|(live, actor)| actor.open.is_none() && !actor.is_leaving && !live.fits(actor))
        {
            if let Some(actor) = self.touch(key, batch).and_then(|live| live.actor.as_mut()) {
                actor.is_leaving = true;
            }
            batch.deed(Deed::StopActor { key: key.to_owned() });
        }
        let Some(live) = self.chats.get(key) else { return };
        let gates = match self.gates(key, live, batch.now) {
            Ok(gates) => gates,
            Err(error) => {
                tracing::error!(%error, key, "cannot look at what may start");
                if let Some(live) = self.chats.get_mut(key) {
                    live.wake_at = Some(later(batch.now, COMMIT_RETRY_PAUSE));
                }
                return;
            }
        };
        let next = queue::next(&live.conversation, &gates, batch.now);
        let (mut waits_for, mut wake_at) = (None, None);
        match next {
            Next::Start(start) => _ = self.apply(key, Event::Start(start), batch),
            Next::TakeNotices => {
                if let Some(live) = self.chats.get_mut(key) {
                    live.is_taking = true;
                }
                batch.deed(Deed::TakeNotices { key: key.to_owned() });
            }
            Next::WaitUntil(at) => wake_at = Some(at),
            Next::WaitForPerson(reason) => waits_for = Some(reason),
            Next::Nothing => {}
        }
        let oldest = |live: &Live| live.conversation.rows.iter().find(|row| row.turn.is_open()).map(|row| row.id);
        let waiting = waits_for.zip(self.chats.get(key).and_then(oldest));
        // A line about the suspension was written when it began.
        let untold = waiting.filter(|(reason, _)| *reason != WaitReason::Suspended);
        if untold.is_some() && self.chats.get(key).is_some_and(|live| live.told_waiting != untold) {
            // With a copy of the conversation: if the commit fails, the line is not written, and this is tried again.
            let live = self.touch(key, batch);
            live.into_iter().for_each(|live| live.told_waiting = untold);
            untold.into_iter().for_each(|(reason, _)| self.tell_once(key, Line::Waiting(reason), batch));
        }
        let Some(live) = self.chats.get_mut(key) else { return };
        (live.wake_at, live.waits_for) = (wake_at, waits_for);
    }

    fn gates(&self, key: &str, live: &Live, now: Time) -> Result<Gates, crate::store::StoreError> {
        let mut gates = Gates {
            is_draining: self.drain.is_some() || self.hold_until.is_some(),
            is_agent_free: live.is_agent_free(),
            has_notices_due: live.has_notices_due && !live.is_taking,
            breaker: self.breaker,
            owner: owner::check(live.chat.owner.as_deref(), UserId::own()),
            // A local chat has no channel that can be cut: its parts are in the database, and each terminal reads them when it comes. The rule is for
            // channels that a reply is sent to.
            is_channel_connected: true,
            mark_window: self.settings.mark_window,
            unattended_starts: Vec::new(),
            tool_tail: None,
        };
        if gates.is_draining || !gates.is_agent_free || live.conversation.rows.iter().all(|row| !row.turn.is_open()) {
            return Ok(gates);
        }
        let window = i64::try_from(BUDGET_LONG_WINDOW.as_micros()).unwrap_or(i64::MAX);
        gates.unattended_starts = self.store.unattended_starts(key, Time::from_micros(now.micros().saturating_sub(window)))?;
        gates.tool_tail = self.tool_tail(key, live)?;
        Ok(gates)
    }

    /// The tool call that the attempt before left open.
    fn tool_tail(&self, key: &str, live: &Live) -> Result<Option<ToolTail>, crate::store::StoreError> {
        let Some((turn, attempt)) = self.store.last_cut_attempt(key, live.conversation.generation.number)? else { return Ok(None) };
        let parts = self.store.calls(turn, attempt)?;
        let Some(call) = open_calls(&parts).pop() else { return Ok(None) };
        // How old it is counts from when it was called, not from when it was closed.
        let called = parts.iter().find(|part| matches!(part.content(), Content::Tool(tool) if tool.call == call.call));
        Ok(Some(ToolTail { tool: Some(call.title), at: called.map(|part| part.at) }))
    }

    /// Writes a line unless the last line was the same: a gateway that starts again has nothing new to say.
    fn tell_once(&mut self, key: &str, line: Line, batch: &mut Batch) {
        let last = self.store.last_part(key).ok().flatten().unwrap_or(0);
        let said = self.store.parts(key, last.saturating_sub(1), last, 1).unwrap_or_default();
        let is_said = said.iter().any(|part| matches!(part.content(), Content::Line(body) if body.text == line.to_string()));
        if !is_said {
            self.tell(key, line, batch);
        }
    }

    /// What an agent is given for a prompt: the note, then the words.
    pub(super) fn blocks(&self, key: &str, prompt: &Prompt) -> Vec<Block> {
        let Some(live) = self.chats.get(key) else { return Vec::new() };
        let note = prompt.note.as_ref().map(|note| {
            let quoted = note.quoted_turn().and_then(|id| self.words_of(live, id));
            note.text(quoted.as_deref())
        });
        let is_first = prompt.attempt <= 1;
        let words = prompt.rows.iter().filter_map(|id| {
            let body = live.details.get(id)?.body.clone();
            Some(match &*body {
                TurnBody::Message { words } => block_of(words),
                TurnBody::Notice { text, is_repeat } => {
                    let is_certain = *is_repeat || !is_first || live.certain.get(id).is_some_and(|c| self.is_certain(c));
                    // The text of a repeat is marked already, and the note of a restart says more.
                    Block::Text(if is_certain { text.clone() } else { format!("{MAYBE_A_REPEAT}\n{text}") })
                }
            })
        });
        // Messages never share a prompt.
        note.into_iter().chain(announce_header(prompt.rows.len())).map(Block::Text).chain(words).collect()
    }

    fn words_of(&self, live: &Live, id: TurnId) -> Option<String> {
        match live.details.get(&id) {
            Some(detail) => Some(detail.body.words().to_owned()),
            None => self.store.turn(id).ok()?.map(|turn| turn.body.words().to_owned()),
        }
    }

    /// Whether no other path can have delivered a notice: its acknowledgement was answered, or its lease still holds over the same connection.
    fn is_certain(&self, certainty: &Certainty) -> bool {
        let holds = certainty.lease_until.is_some_and(|until| until > now()) && certainty.connection == self.connection;
        certainty.is_acknowledged || holds
    }
}

/// The words of a message for the agent. Two slashes before a name mean a command of the agent's own; any other words are text, whatever they begin with.
fn block_of(words: &str) -> Block {
    match words.strip_prefix("//") {
        Some(name) if name.starts_with(|c: char| c != '/' && !c.is_whitespace()) => Block::Command(format!("/{name}")),
        Some(_) | None => Block::Text(words.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_slashes_before_a_name_are_a_command_of_the_agents() {
        assert_eq!(block_of("//compact now"), Block::Command("/compact now".into()));
        for words in ["/etc/hosts is a path", "/compact", "// a comment", "//", "///", "a //b", ""] {
            assert_eq!(block_of(words), Block::Text(words.into()));
        }
    }
}
