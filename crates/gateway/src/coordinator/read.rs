//! What clients read of conversations. Reading changes nothing and needs no coordinator.

use super::Coordinator;
use super::guard::own_only;
use super::live::Live;
use super::refusal::{not_found, refusal, shown_name, store_failed};
use crate::rules::turn::{Outcome, Turn};
use crate::store::{ConversationRecord, Store, StoreError, TurnRecord};
use outlast_wire::code;
use outlast_wire::v1::Error;
use outlast_wire::v1::chat::{ConversationInfo, Conversations, Part, Shown, TurnInfo, TurnKind, TurnOutcome, TurnState};
use std::collections::BTreeMap;

/// How many parts are read for a follower at once.
const PARTS_PER_PAGE: usize = 64;
/// How many turns of a generation are shown, the last ones.
const MAX_SHOWN_TURNS: usize = 1000;
/// How many bytes of texts one answer carries, as they are escaped. A frame has room for a quarter more: numbers, names, and the beginnings of texts that were cut.
const MAX_ANSWER_BYTES: usize = 12 << 20;
/// How much is shown of a text that was cut.
const MAX_CUT_CHARS: usize = 200;
/// How many generations of a conversation are listed. A daily reset makes one each day.
const MAX_SHOWN_GENERATIONS: usize = 100;
/// How much of a shell line a list of conversations has.
const MAX_LISTED_AGENT_CHARS: usize = 200;

/// The conversations of a home, for readers.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) chats: &'a BTreeMap<String, Live>,
    pub(crate) store: &'a dyn Store,
}

impl Coordinator {
    pub(super) fn reading(&self) -> Reading<'_> {
        Reading { chats: &self.chats, store: &*self.store }
    }
}

impl Reading<'_> {
    /// Whether a client that speaks for this session may read the conversation: the agent of one reads its own.
    pub(crate) fn check_reader(self, session: Option<&str>, key: &str) -> Result<(), Error> {
        match session.filter(|session| self.chats.contains_key(*session)) {
            Some(own) => own_only(key, own),
            None => Ok(()),
        }
    }

    /// Every part of a conversation.
    pub(crate) fn all_parts(self, key: &str) -> Result<Vec<Part>, Error> {
        if !self.chats.contains_key(key) {
            return Err(not_found(key));
        }
        let mut parts: Vec<Part> = Vec::new();
        loop {
            let page = self.page(key, parts.last().map_or(0, |part| part.id), u64::MAX >> 1)?;
            if page.is_empty() {
                return Ok(parts);
            }
            parts.extend(page);
        }
    }

    pub(crate) fn list(&self) -> Conversations {
        let in_one_line = |(key, live): (&String, &Live)| {
            let mut info = live.info(key);
            // A shell line may be long, and there may be many conversations.
            info.agent = info.agent.map(|agent| agent.chars().take(MAX_LISTED_AGENT_CHARS).collect());
            info
        };
        let mut all: Vec<ConversationInfo> = self.chats.iter().map(in_one_line).collect();
        all.sort_by_key(|info| std::cmp::Reverse(info.last_message_at));
        Conversations::new(all)
    }

    pub(crate) fn shown(&self, key: &str, generation: Option<u64>) -> Result<Shown, Error> {
        let live = self.chats.get(key).ok_or_else(|| not_found(key))?;
        let current = live.conversation.generation.number;
        let generation = match generation {
            // Not by its row: a generation that began and ended within one commit has turns only.
            Some(number) => {
                let found = u32::try_from(number).ok().filter(|number| (1..=current).contains(number));
                found.ok_or_else(|| no_generation(key, number))?
            }
            None => current,
        };
        let turns = self.turns_in_one_answer(key, generation).map_err(|e| store_failed(&e))?;
        let mut shown = Shown::new(live.info(key), turns);
        shown.generations = self.store.generations(key, MAX_SHOWN_GENERATIONS).map_err(|e| store_failed(&e))?;
        Ok(shown)
    }

    /// A generation that has ended.
    pub(super) fn earlier(&self, key: &str, number: u64) -> Result<ConversationRecord, Error> {
        let found =
            u32::try_from(number).ok().map(|number| self.store.generation(key, number)).transpose().map_err(|e| store_failed(&e))?;
        found.flatten().ok_or_else(|| no_generation(key, number))
    }

    /// The parts of a page.
    pub(crate) fn page(&self, key: &str, after: u64, upto: u64) -> Result<Vec<Part>, Error> {
        self.store.parts(key, after, upto, PARTS_PER_PAGE).map_err(|e| store_failed(&e))
    }

    /// The last turns of a generation, oldest first, with as much of their texts as one answer can carry: the newest have all of theirs.
    fn turns_in_one_answer(&self, key: &str, generation: u32) -> Result<Vec<TurnInfo>, StoreError> {
        let mut room = MAX_ANSWER_BYTES;
        let mut turns = Vec::new();
        // One by one, so that only what is answered is in memory.
        for id in self.store.turn_ids(key, generation, MAX_SHOWN_TURNS)? {
            // One that cannot be read is named when the gateway starts.
            let Ok(Some(turn)) = self.store.turn(id) else { continue };
            let mut info = self.whole_turn_info(&turn)?;
            fit(&mut info, &mut room);
            turns.push(info);
        }
        turns.reverse();
        Ok(turns)
    }

    /// A turn as clients see it, in one message.
    pub(super) fn turn_info(&self, turn: &TurnRecord) -> Result<TurnInfo, StoreError> {
        let mut info = self.whole_turn_info(turn)?;
        fit(&mut info, &mut MAX_ANSWER_BYTES.clone());
        Ok(info)
    }

    fn whole_turn_info(&self, turn: &TurnRecord) -> Result<TurnInfo, StoreError> {
        let kind = match turn.cause.kind() {
            crate::rules::turn::TurnKind::Message => TurnKind::Message,
            crate::rules::turn::TurnKind::Notice => TurnKind::Notice,
        };
        let mut info = TurnInfo::queued(turn.id.0.unsigned_abs(), kind, turn.cause.to_string());
        info.state = state_of(&turn.turn);
        info.attempt = turn.attempt;
        info.interrupt_reason = turn.mark.map(|mark| word(&mark.reason));
        info.interrupted_at = turn.mark.map(|mark| mark.at);
        if let Turn::Finished(outcome) = turn.turn {
            info.outcome = Some(outcome_of(&outcome));
            info.why = turn.why.clone().or_else(|| reason_of(&outcome));
        }
        info.words = Some(turn.body.words().to_owned());
        let texts = if turn.attempt > 0 { self.store.texts(turn.head, turn.attempt)? } else { Vec::new() };
        info.reply = (!texts.is_empty()).then(|| texts.join("\n\n"));
        (info.accepted_at, info.started_at, info.finished_at) = (Some(turn.accepted_at), turn.started_at, turn.finished_at);
        Ok(info)
    }
}

/// Cuts the texts of a turn for which a message has no room. The reply comes first.
fn fit(info: &mut TurnInfo, room: &mut usize) {
    for text in [&mut info.reply, &mut info.words, &mut info.why].into_iter().flatten() {
        let needed = escaped_len(text);
        if needed > *room {
            let begin: String = text.chars().take(MAX_CUT_CHARS).collect();
            *text = format!("{begin}… [cut: {} bytes in all; `outlast chat export` has them]", text.len());
        } else {
            *room -= needed;
        }
    }
}

/// How many bytes a text has as JSON.
fn escaped_len(text: &str) -> usize {
    let len = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        0..=0x1f => 6,
        _ => 1,
    };
    text.bytes().map(len).sum()
}

pub(super) fn state_of(turn: &Turn) -> TurnState {
    match turn {
        Turn::Queued => TurnState::Queued,
        Turn::Running { .. } => TurnState::Running,
        Turn::Interrupted { .. } => TurnState::Interrupted,
        Turn::Finished(_) => TurnState::Finished,
    }
}

fn outcome_of(outcome: &Outcome) -> TurnOutcome {
    match outcome {
        Outcome::Completed => TurnOutcome::Completed,
        Outcome::Failed { .. } => TurnOutcome::Failed,
        Outcome::Cancelled { .. } => TurnOutcome::Cancelled,
        Outcome::GaveUp => TurnOutcome::GaveUp,
        Outcome::Obsolete { .. } => TurnOutcome::Obsolete,
    }
}

fn reason_of(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Completed | Outcome::GaveUp => None,
        Outcome::Failed { why } => Some(word(why)),
        Outcome::Cancelled { why } => Some(word(why)),
        Outcome::Obsolete { why } => Some(word(why)),
    }
}

fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn no_generation(key: &str, number: u64) -> Error {
    let what = format!("there is no generation {number} of the conversation {}", shown_name(key));
    refusal(code::NOT_FOUND, what, "`/history`, or `outlast chat show NAME`, lists the generations")
}
