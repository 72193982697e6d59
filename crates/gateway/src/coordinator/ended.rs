//! What an attempt left open when it ended: tool calls and questions about permissions. They are closed in our parts, because no agent will.

use super::Coordinator;
use super::batch::Batch;
use crate::rules::conversation::{Conversation, TurnId};
use crate::rules::turn::{Outcome, Turn};
use outlast_wire::v1::chat::{Content, Part, PermissionBody, ToolBody, ToolState};

/// The source of an answer that a client sent.
pub(super) const BY_PERSON: &str = "a person";
/// The result of a call about which a question was open.
const NOT_ALLOWED: &str = "it was not allowed, and did not run";
/// The source of an answer to a question that its attempt left open.
pub(super) const BY_END_OF_TURN: &str = "the end of the turn";

impl Coordinator {
    /// Closes what the running attempt left open, if the event before which the conversation was `before` ended it. An agent that completed its turn may leave
    /// calls open: the end of the turn ends them.
    pub(super) fn close_ended(&mut self, key: &str, before: &Conversation, batch: &mut Batch) {
        let Some((head, attempt)) = before.running().and_then(|row| match row.turn {
            Turn::Running { attempt, .. } => Some((row.id, attempt)),
            Turn::Queued | Turn::Interrupted { .. } | Turn::Finished(_) => None,
        }) else {
            return;
        };
        let Some(live) = self.chats.get(key) else { return };
        let has_ended = live.conversation.row(head).is_none_or(|row| match row.turn {
            Turn::Running { attempt: of, .. } => of != attempt,
            Turn::Finished(Outcome::Completed) => false,
            Turn::Queued | Turn::Interrupted { .. } | Turn::Finished(_) => true,
        });
        if has_ended {
            self.close_attempt(key, head, attempt, batch);
        }
    }

    fn close_attempt(&mut self, key: &str, head: TurnId, attempt: u32, batch: &mut Batch) {
        let mut parts = match self.store.calls(head, attempt) {
            Ok(parts) => parts,
            Err(error) => {
                // They are shown as they were. The turn itself must not wait for that.
                tracing::error!(%error, key, "cannot look at what an attempt left open");
                return;
            }
        };
        parts.extend(batch.parts_of(head, attempt).cloned());
        let questions = open_questions(&parts);
        for mut body in open_calls(&parts) {
            // An answer is written down before the agent gets it. A call that was allowed, and is asked about again, may have run before the second question.
            let is_asked = questions.iter().any(|asked| asked.call.as_ref() == Some(&body.call));
            match is_asked && !was_allowed(&parts, &body.call) {
                true => (body.state, body.result) = (ToolState::Failed, Some(NOT_ALLOWED.into())),
                false => body.state = ToolState::Unknown,
            }
            self.part(key, Some(head), attempt, &Content::Tool(body), batch);
        }
        for mut body in questions {
            let refused = body.options.iter().find(|option| option.kind.starts_with("reject")).map(|option| option.option.clone());
            (body.answer, body.by) = (refused.or_else(|| Some("denied".into())), Some(BY_END_OF_TURN.into()));
            self.part(key, Some(head), attempt, &Content::Permission(body), batch);
        }
        let open = self.touch(key, batch).and_then(|live| live.actor.as_mut()).and_then(|actor| actor.open.as_mut());
        if let Some(open) = open.filter(|open| open.head == head && open.attempt == attempt) {
            open.permissions.clear();
        }
    }
}

/// The tool calls without an outcome, in the order in which they were begun.
pub(super) fn open_calls(parts: &[Part]) -> Vec<ToolBody> {
    let mut open: Vec<ToolBody> = Vec::new();
    for part in parts {
        let Content::Tool(tool) = part.content() else { continue };
        let known = open.iter().position(|one| one.call == tool.call);
        match (&tool.state, known) {
            (ToolState::Pending | ToolState::Running | ToolState::Unknown, Some(at)) => open[at] = tool,
            (ToolState::Pending | ToolState::Running | ToolState::Unknown, None) => open.push(tool),
            (_, Some(at)) => _ = open.remove(at),
            (_, None) => {}
        }
    }
    open
}

/// Whether a question about a call was answered with yes.
fn was_allowed(parts: &[Part], call: &str) -> bool {
    parts.iter().any(|part| match part.content() {
        Content::Permission(asked) if asked.call.as_deref() == Some(call) => {
            asked.options.iter().any(|option| asked.answer.as_ref() == Some(&option.option) && option.kind.starts_with("allow"))
        }
        _ => false,
    })
}

fn open_questions(parts: &[Part]) -> Vec<PermissionBody> {
    let mut open: Vec<PermissionBody> = Vec::new();
    for part in parts {
        let Content::Permission(asked) = part.content() else { continue };
        open.retain(|one| one.permission != asked.permission);
        if asked.answer.is_none() {
            open.push(asked);
        }
    }
    open
}
