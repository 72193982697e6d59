//! What the agent of a conversation may ask. It speaks for the session of its conversation, as everything does that it starts.
//!
//! A message in a conversation is a person's: it is answered before notices, lifts holds and costs no budget. So an agent that could send one could keep itself
//! busy for ever, and answer its own questions about permissions. It may read its own conversation, and post notices to it. As everywhere,
//! this keeps agents apart by accident and not by force: they run as the same user.

use super::Coordinator;
use super::input::FollowAsked;
use super::refusal::{not_found, refusal};
use crate::owner::Asker;
use outlast_wire::code;
use outlast_wire::v1::Error;
use outlast_wire::v1::chat::ChatRequest;

impl Coordinator {
    /// Refuses what the agent of a conversation may not ask.
    pub(super) fn check_asker(&self, request: &ChatRequest, by: &Asker) -> Result<(), Error> {
        let Some(own) = self.conversation_of(by) else { return Ok(()) };
        match request {
            ChatRequest::Show { key, .. } | ChatRequest::Wait { key, .. } => own_only(key, own),
            ChatRequest::Send { .. }
            | ChatRequest::Open { .. }
            | ChatRequest::Stop { .. }
            | ChatRequest::New { .. }
            | ChatRequest::Resume { .. }
            | ChatRequest::Allow { .. }
            | ChatRequest::Seen { .. } => {
                let hint = "`outlast events post` tells your own conversation something; `outlast chat show` shows it";
                Err(refusal(code::NOT_YOURS, "people write in a conversation, and its agent answers there", hint))
            }
            // About the program, and not about a conversation; names of conversations are no secret.
            ChatRequest::List
            | ChatRequest::Status
            | ChatRequest::Drain { .. }
            | ChatRequest::Undrain
            | ChatRequest::Restart { .. }
            | ChatRequest::Shutdown { .. } => Ok(()),
            // Answered before they get here.
            ChatRequest::Hello { .. } | ChatRequest::Follow { .. } | ChatRequest::Cancel { .. } => Ok(()),
        }
    }

    /// The same for one that follows. An agent is no person who could be asked.
    pub(super) fn check_follower(&self, asked: &FollowAsked, by: &Asker) -> Result<(), Error> {
        match self.conversation_of(by) {
            None => Ok(()),
            Some(_) if asked.is_attended => Err(refusal(code::NOT_YOURS, "a person attends a conversation, and its agent does not", "")),
            Some(own) => own_only(&asked.key, own),
        }
    }

    /// The conversation whose agent asks. A session of another home, or of no conversation, is a person's as far as this gateway knows.
    fn conversation_of<'a>(&self, by: &'a Asker) -> Option<&'a str> {
        by.session.as_deref().filter(|session| self.chats.contains_key(*session))
    }
}

/// The answer does not reveal whether there is another conversation of this name, as with processes.
pub(super) fn own_only(key: &str, own: &str) -> Result<(), Error> {
    if key == own { Ok(()) } else { Err(not_found(key)) }
}
