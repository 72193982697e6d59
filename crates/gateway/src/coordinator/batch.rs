//! Several inputs that share one commit.

use super::input::{AnswerTo, ChatAnswer, FollowAsked, Followed, Input};
use super::live::Live;
use super::refusal::store_failed;
use super::{COMMIT_RETRY_PAUSE, Coordinator};
use crate::rules::change::{self, Effect, Event};
use crate::rules::conversation::{Conversation, TurnId};
use crate::rules::text::Line;
use crate::store::{StoreChange, TurnRecord};
use outlast_agents::Decision;
use outlast_core::Time;
use outlast_wire::v1::chat::{ChatEvent, ChatRequest, Content, LineBody, Part};
use outlast_wire::v1::{Done, Error};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Inputs that were applied and are not committed yet.
pub(crate) struct Batch {
    pub(crate) now: Time,
    /// The conversations that changed, as they were. `None`: it is new.
    before: BTreeMap<String, Option<Live>>,
    parts: Vec<(String, Part)>,
    changes: Vec<StoreChange>,
    deeds: Vec<Deed>,
    /// The conversations in which something may start for a reason outside this batch.
    pub(super) due: BTreeSet<String>,
    /// What is taken in again if the commit fails.
    again: Vec<Input>,
}

/// What is done after the commit.
pub(super) enum Deed {
    Answer {
        to: AnswerTo,
        answer: Box<Result<ChatAnswer, Error>>,
    },
    /// What was asked for does not depend on the commit.
    AnswerAnyway {
        to: AnswerTo,
        written: Done,
        unwritten: Done,
    },
    /// A message is answered with its turn, as that is after the commit.
    Accepted {
        key: String,
        turn: TurnId,
        note: Option<String>,
        to: AnswerTo,
    },
    /// A client reads something. The answer is what is committed, this batch included.
    Tell {
        request: ChatRequest,
        to: AnswerTo,
    },
    Follow {
        asked: FollowAsked,
        to: oneshot::Sender<Result<Followed, Error>>,
    },
    Effect {
        key: String,
        effect: Effect,
    },
    TakeNotices {
        key: String,
    },
    StopActor {
        key: String,
    },
    /// The agent that had ended is gone; another one gets the prompt.
    PromptAgain {
        key: String,
    },
    Allow {
        key: String,
        permission: String,
        decision: Decision,
    },
}

impl Batch {
    pub(super) fn new(now: Time) -> Self {
        let (before, due) = (BTreeMap::new(), BTreeSet::new());
        Self { now, before, parts: Vec::new(), changes: Vec::new(), deeds: Vec::new(), due, again: Vec::new() }
    }

    pub(crate) fn touched(&self) -> impl Iterator<Item = &String> {
        self.before.keys()
    }

    /// The parts of an attempt that are not committed yet.
    pub(super) fn parts_of(&self, turn: TurnId, attempt: u32) -> impl Iterator<Item = &Part> {
        let id = turn.0.unsigned_abs();
        self.parts.iter().map(|(_, part)| part).filter(move |part| part.turn == Some(id) && part.attempt == attempt)
    }

    pub(super) fn deed(&mut self, deed: Deed) {
        self.deeds.push(deed);
    }

    pub(super) fn answer(&mut self, to: AnswerTo, answer: Result<ChatAnswer, Error>) {
        self.deeds.push(Deed::Answer { to, answer: Box::new(answer) });
    }

    pub(crate) fn change(&mut self, change: StoreChange) {
        self.changes.push(change);
    }

    /// Everything that is to be committed, and the turns that changed.
    pub(super) fn take_changes(&mut self, chats: &BTreeMap<String, Live>) -> (Vec<StoreChange>, Vec<TurnRecord>) {
        let (mut changes, mut changed) = (Vec::new(), Vec::new());
        for (key, before) in &self.before {
            let Some(live) = chats.get(key) else { continue };
            let (own, turns) = differences(key, before.as_ref(), live, self.now);
            changes.extend(own);
            changed.extend(turns);
        }
        changes.append(&mut self.changes);
        (changes, changed)
    }

    /// What is done after the commit.
    pub(super) fn into_deeds(self) -> Vec<Deed> {
        self.deeds
    }

    /// Takes an input in again if the commit fails.
    pub(crate) fn again(&mut self, input: Input) {
        self.again.push(input);
    }
}

impl Coordinator {
    /// A conversation that is about to change. A copy is kept.
    pub(crate) fn touch<'a>(&'a mut self, key: &str, batch: &mut Batch) -> Option<&'a mut Live> {
        let live = self.chats.get_mut(key)?;
        if !batch.before.contains_key(key) {
            batch.before.insert(key.to_owned(), Some(live.clone()));
        }
        Some(live)
    }

    /// A new conversation.
    pub(crate) fn insert(&mut self, key: &str, live: Live, batch: &mut Batch) {
        batch.before.entry(key.to_owned()).or_insert(None);
        self.chats.insert(key.to_owned(), live);
    }

    /// Applies one event by the rules. Lines for the person are written with it; everything else is done after the commit. Returns the lines.
    pub(crate) fn apply(&mut self, key: &str, event: Event, batch: &mut Batch) -> Vec<Line> {
        self.apply_saying(key, event, is_kept, batch)
    }

    /// The same, where only these lines are written.
    pub(super) fn apply_saying(&mut self, key: &str, event: Event, is_written: fn(&Line) -> bool, batch: &mut Batch) -> Vec<Line> {
        let now = batch.now;
        let Some(live) = self.touch(key, batch) else { return Vec::new() };
        let before: Conversation = live.conversation.clone();
        let (after, effects) = change::apply(before.clone(), event, now);
        let is_new_generation = after.generation != before.generation;
        live.conversation = after;
        live.follow_rules(&before, now);
        if is_new_generation {
            (live.chat.agent_session, live.chat.resumed_from) = (None, None);
        }
        let mut lines = Vec::new();
        for effect in effects {
            match effect {
                Effect::Tell(line) => lines.push(line),
                effect => batch.deeds.push(Deed::Effect { key: key.to_owned(), effect }),
            }
        }
        self.close_ended(key, &before, batch);
        for line in lines.iter().filter(|line| is_written(line)) {
            self.tell(key, *line, batch);
        }
        lines
    }

    /// Writes a line for the person.
    pub(crate) fn tell(&mut self, key: &str, line: Line, batch: &mut Batch) {
        let body = LineBody::new(line.to_string(), about(&line));
        self.part(key, None, 0, &Content::Line(body), batch);
    }

    /// Writes a part.
    pub(crate) fn part(&mut self, key: &str, turn: Option<TurnId>, attempt: u32, content: &Content, batch: &mut Batch) {
        let id = self.next_part;
        self.next_part += 1;
        self.part_at(id, key, turn, attempt, content, batch);
    }

    /// Writes a part under a number that was set aside for it.
    pub(super) fn part_at(&mut self, id: u64, key: &str, turn: Option<TurnId>, attempt: u32, content: &Content, batch: &mut Batch) {
        let part = Part::new(id, turn.map(|turn| turn.0.unsigned_abs()), attempt, content, batch.now);
        batch.changes.push(StoreChange::Part { key: key.to_owned(), part: Box::new(part.clone()) });
        batch.parts.push((key.to_owned(), part));
    }

    /// Commits a batch, and does what follows from it.
    pub(super) fn finish(&mut self, mut batch: Batch) {
        let (changes, changed) = batch.take_changes(&self.chats);
        if !changes.is_empty() {
            crate::points::reach("gateway.before_commit");
            if let Err(error) = self.store.commit(&changes) {
                return self.roll_back(batch, &store_failed(&error));
            }
        }
        for key in batch.before.keys() {
            let Some(live) = self.chats.get_mut(key) else { continue };
            live.forget_finished();
        }
        if changed.iter().any(|turn: &TurnRecord| !turn.turn.is_open()) {
            crate::points::reach("gateway.turn.recorded");
        }
        batch.parts.sort_by_key(|(_, part)| part.id);
        for (key, part) in batch.parts {
            self.show(&key, &ChatEvent::Part { part: Box::new(part) });
        }
        for turn in changed {
            self.turn_changed(&turn);
        }
        for (key, before) in &batch.before {
            self.show_standing(key, before.as_ref());
            self.end_outdated_taking(key);
        }
        for deed in batch.deeds {
            self.act(deed);
        }
    }

    fn roll_back(&mut self, batch: Batch, error: &Error) {
        // What would have started is asked for again, or it would wait for an event that may never come.
        self.due.extend(batch.due);
        for (key, before) in batch.before {
            match before {
                Some(mut before) => {
                    let taken_back = self.chats.remove(&key).and_then(|live| {
                        before.keep_what_others_said(&live);
                        live.actor
                    });
                    self.chats.insert(key.clone(), before);
                    self.give_back_prompt(&key, taken_back);
                    self.due.insert(key);
                }
                None => _ = self.chats.remove(&key),
            }
        }
        for deed in batch.deeds {
            match deed {
                Deed::Answer { to, .. } | Deed::Accepted { to, .. } => _ = to.send(Err(error.clone())),
                // What is committed can be read, also while the disk is full.
                Deed::Tell { request, to } => self.tell_client(request, to),
                Deed::Follow { asked, to } => self.follow(asked, to),
                Deed::AnswerAnyway { to, unwritten, .. } => _ = to.send(Ok(ChatAnswer::Done(unwritten))),
                Deed::TakeNotices { key } => {
                    if let Some(live) = self.chats.get_mut(&key) {
                        live.is_taking = false;
                    }
                }
                Deed::Effect { .. } | Deed::StopActor { .. } | Deed::PromptAgain { .. } | Deed::Allow { .. } => {}
            }
        }
        for input in batch.again.into_iter().rev() {
            self.pending.push_front(input);
        }
        self.pending.push_back(Input::Look);
        self.pause_until = Some(Instant::now() + COMMIT_RETRY_PAUSE);
    }
}

/// What has to be written about a conversation, and which turns changed.
fn differences(key: &str, before: Option<&Live>, after: &Live, now: Time) -> (Vec<StoreChange>, Vec<TurnRecord>) {
    let mut changes = Vec::new();
    let record = after.record(key);
    let old = before.map(|live| live.record(key));
    if old.as_ref() != Some(&record) {
        if let Some(old) = old.filter(|old| old.generation != record.generation) {
            // The old row keeps its values as they were at its end.
            let generation = old.generation.number;
            changes.push(StoreChange::GenerationEnded { key: key.to_owned(), generation, at: now });
        }
        changes.push(StoreChange::Conversation(Box::new(record)));
    }
    let mut turns = Vec::new();
    for row in &after.conversation.rows {
        let Some(turn) = after.turn_record(key, row) else { continue };
        let old = before.and_then(|live| live.turn_record(key, live.conversation.row(row.id)?));
        if old.as_ref() != Some(&turn) {
            changes.push(StoreChange::Turn(Box::new(turn.clone())));
            turns.push(turn);
        }
    }
    (changes, turns)
}

/// Whether a line is part of the conversation. An order that changed nothing is only answered.
fn is_kept(line: &Line) -> bool {
    !matches!(line, Line::NothingToStop | Line::NothingToResume)
}

/// What a line is about, in a word for front ends.
pub(super) fn about(line: &Line) -> &'static str {
    match line {
        Line::Banner(_) => "banner",
        Line::KeptWhileDraining(_) | Line::KeptWhileHeld(_) => "kept",
        Line::ResumedAfterRestart | Line::ResumedAfterInterruption => "resumed",
        Line::AgentEndedRetrying => "interrupted",
        Line::Failed(_) | Line::GaveUp => "failed",
        Line::Suspended => "suspended",
        Line::StartedAnew(_) | Line::Reset(..) | Line::ResumeExpired(_) | Line::NewConversation => "new",
        Line::TooOldToQuote => "obsolete",
        Line::Stopped | Line::WaitingCancelled(_) | Line::NothingToStop => "stopped",
        Line::Continued | Line::NothingToResume => "resumed",
        Line::Returned(_) | Line::ReturnedLater(..) => "returned",
        Line::NoticesObsolete(..) => "notice",
        Line::Waiting(_) => "waiting",
    }
}
