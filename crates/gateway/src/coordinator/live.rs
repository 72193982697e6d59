//! One conversation in memory: its row, its open turns, and the agent that works in it.

use crate::rules::conversation::{Cause, Conversation, LastStart, Quote, TurnId, TurnRow};
use crate::rules::queue::MAX_QUEUED_NOTICES;
use crate::rules::text::Line;
use crate::rules::turn::WaitReason;
use crate::rules::turn::{Mark, Turn, TurnKind};
use crate::store::{ChatState, ConversationRecord, TurnBody, TurnRecord};
use outlast_agents::{AgentHandle, Attempt, Block};
use outlast_core::Time;
use outlast_wire::v1::chat::{AgentChoice, ConversationInfo, PermissionBody, Standing};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A conversation with everything that the gateway knows of it. A copy is kept while a batch is in progress, and put back if the commit fails.
#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) conversation: Conversation,
    pub(crate) details: BTreeMap<TurnId, Detail>,
    pub(crate) chat: ChatState,
    pub(crate) actor: Option<Actor>,
    /// The engine has notices for it, as far as is known.
    pub(crate) has_notices_due: bool,
    /// They are being taken.
    pub(crate) is_taking: bool,
    /// The engine has reported notices since then. The answer to the taking may be older, and have none of them.
    pub(crate) was_told_while_taking: bool,
    /// What it waits for, if it does; a line for the person was written.
    pub(crate) waits_for: Option<WaitReason>,
    /// The last such line, and the oldest turn that was open then: it is not repeated after each turn that passes the one that waits.
    pub(crate) told_waiting: Option<(WaitReason, TurnId)>,
    /// When to ask again what starts next.
    pub(crate) wake_at: Option<Time>,
    /// What is known about notices that this run wrote down, until their first prompt.
    pub(crate) certain: BTreeMap<TurnId, Certainty>,
    /// How many terminals with a person follow it.
    pub(crate) attendants: usize,
}

/// What a turn's row has beside what the rules need.
#[derive(Clone)]
pub(crate) struct Detail {
    pub(crate) body: Arc<TurnBody>,
    pub(crate) attempt: u32,
    pub(crate) starts: u32,
    pub(crate) mark: Option<Mark>,
    pub(crate) why: Option<String>,
    pub(crate) accepted_at: Time,
    pub(crate) finished_at: Option<Time>,
}

/// How it is known that a notice was not delivered by another path. See gateway notices, 4.
#[derive(Clone, Copy)]
pub(crate) struct Certainty {
    /// The engine gives it to no other taker until then.
    pub(crate) lease_until: Option<Time>,
    /// The acknowledgement was answered `ok`.
    pub(crate) is_acknowledged: bool,
    /// Which connection to the engine it came over.
    pub(crate) connection: u64,
}

/// The agent of a conversation.
#[derive(Clone)]
pub(crate) struct Actor {
    /// Its number in this run of the gateway. Late reports of an earlier agent have another number.
    pub(crate) number: u64,
    pub(crate) handle: AgentHandle,
    /// The name of the generation it works in.
    pub(crate) generation: String,
    pub(crate) choice: AgentChoice,
    /// Each turn is a command, whose output the next gateway reads from its first byte.
    pub(crate) is_per_turn: bool,
    /// The attempt that it works on, until it has answered or is gone.
    pub(crate) open: Option<OpenAttempt>,
    /// It was ordered to stop.
    pub(crate) is_leaving: bool,
    /// It was ready once, so a prompt that it did not take can be given to another one.
    pub(crate) was_ready: bool,
    /// It has said its last word, and another one is about to get its prompt.
    pub(crate) has_gone: bool,
}

/// An attempt that an agent works on.
#[derive(Clone)]
pub(crate) struct OpenAttempt {
    pub(crate) head: TurnId,
    /// The attempt's number in the rules.
    pub(crate) attempt: u32,
    /// Its name for the driver, which is never used twice.
    pub(crate) driver: Attempt,
    pub(crate) blocks: Arc<Vec<Block>>,
    pub(crate) prompt: PromptState,
    /// It was given to a second agent already, because the first had ended.
    pub(crate) has_moved: bool,
    /// The text that is being written.
    pub(crate) draft: String,
    /// Texts that are committed with the end of the attempt: the next gateway would read them again.
    pub(crate) texts: Vec<String>,
    /// Questions without an answer, by the driver's id.
    pub(crate) permissions: BTreeMap<String, PermissionBody>,
}

/// How far the prompt of an attempt has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PromptState {
    /// It waits for the agent.
    Waiting,
    /// The actor had ended. Another one gets the prompt when this one is gone.
    Refused,
    /// The agent may have it.
    Given,
    /// It was withdrawn in time.
    Withdrawn,
}

impl Live {
    pub(crate) fn new(conversation: Conversation, chat: ChatState) -> Self {
        Self {
            conversation,
            details: BTreeMap::new(),
            chat,
            actor: None,
            has_notices_due: false,
            is_taking: false,
            was_told_while_taking: false,
            waits_for: None,
            told_waiting: None,
            wake_at: None,
            certain: BTreeMap::new(),
            attendants: 0,
        }
    }

    /// As it was stored.
    pub(crate) fn of_rows(row: ConversationRecord, turns: Vec<TurnRecord>) -> Self {
        let conversation = Conversation {
            generation: row.generation,
            started_why: row.started_why,
            mode: row.mode,
            strikes: row.strikes,
            suspended_at: row.suspended_at,
            last_message_at: row.last_message_at,
            has_person_written: false,
            rows: Vec::new(),
        };
        let mut live = Self::new(conversation, row.chat);
        for turn in turns {
            let last_start = turn.started_at.map(|at| LastStart { at, is_unattended: turn.is_unattended });
            let quotes = turn.quotes.zip(turn.quoted_mark).map(|(turn, mark)| Quote { turn, mark });
            live.details.insert(
                turn.id,
                Detail {
                    body: turn.body,
                    attempt: turn.attempt,
                    starts: turn.starts,
                    mark: turn.mark,
                    why: turn.why,
                    accepted_at: turn.accepted_at,
                    finished_at: turn.finished_at,
                },
            );
            let TurnRecord { id, generation, cause, turn, head, .. } = turn;
            live.conversation.rows.push(TurnRow { id, generation, cause, turn, head, quotes, last_start });
        }
        live
    }

    /// Its row in the database.
    pub(crate) fn record(&self, key: &str) -> ConversationRecord {
        let Conversation { generation, started_why, mode, strikes, suspended_at, last_message_at, .. } = self.conversation;
        let chat = self.chat.clone();
        ConversationRecord { key: key.to_owned(), generation, started_why, mode, strikes, suspended_at, last_message_at, chat }
    }

    /// The row of a turn. Nothing if there is no such open turn.
    pub(crate) fn turn_record(&self, key: &str, row: &TurnRow) -> Option<TurnRecord> {
        let detail = self.details.get(&row.id)?;
        Some(TurnRecord {
            id: row.id,
            key: key.to_owned(),
            generation: row.generation,
            cause: row.cause.clone(),
            body: detail.body.clone(),
            turn: row.turn,
            attempt: detail.attempt,
            starts: detail.starts,
            head: row.head,
            quotes: row.quotes.map(|quote| quote.turn),
            mark: detail.mark,
            why: detail.why.clone(),
            is_unattended: row.last_start.is_some_and(|start| start.is_unattended),
            accepted_at: detail.accepted_at,
            started_at: row.last_start.map(|start| start.at),
            finished_at: detail.finished_at,
            quoted_mark: row.quotes.map(|quote| quote.mark),
        })
    }

    /// Brings the columns that only the store has up to date with what the rules made of the rows.
    pub(crate) fn follow_rules(&mut self, before: &Conversation, now: Time) {
        for row in &self.conversation.rows {
            let Some(detail) = self.details.get_mut(&row.id) else { continue };
            match row.turn {
                Turn::Queued => detail.attempt = 0,
                Turn::Running { attempt, mark } => {
                    let was_running = before.row(row.id).is_some_and(|old| matches!(old.turn, Turn::Running { .. }));
                    if !was_running {
                        detail.starts = detail.starts.saturating_add(1);
                    }
                    detail.attempt = attempt;
                    detail.mark = mark.or(detail.mark);
                }
                Turn::Interrupted { attempt, mark } => {
                    detail.attempt = attempt;
                    detail.mark = Some(mark);
                }
                Turn::Finished(_) => detail.finished_at = detail.finished_at.or(Some(now)),
            }
        }
    }

    /// A start whose process never came up gives its number back, so that the next one has the same name for its driver. Should the engine still be about to
    /// start that process, the next attempt gets it, and there are not two.
    pub(crate) fn take_back_start(&mut self, head: TurnId) {
        for row in self.conversation.rows.iter().filter(|row| row.head == head) {
            if let Some(detail) = self.details.get_mut(&row.id) {
                detail.starts = detail.starts.saturating_sub(1);
            }
        }
    }

    /// Drops what is known of finished turns. To be called once they are committed.
    pub(crate) fn forget_finished(&mut self) {
        self.conversation.forget_finished();
        let rows = &self.conversation.rows;
        self.details.retain(|id, _| rows.iter().any(|row| row.id == *id));
        self.certain.retain(|id, _| rows.iter().any(|row| row.id == *id));
    }

    /// Columns for a turn that the rules may be about to add.
    pub(crate) fn add_detail(&mut self, turn: TurnId, body: Arc<TurnBody>, now: Time) {
        self.details.insert(turn, Detail { body, attempt: 0, starts: 0, mark: None, why: None, accepted_at: now, finished_at: None });
    }

    /// Notes how a notice was leased.
    pub(crate) fn set_certain(&mut self, turn: TurnId, lease_until: Option<Time>, connection: u64) {
        self.certain.insert(turn, Certainty { lease_until, is_acknowledged: false, connection });
    }

    /// Notes which notices the engine knows to be delivered.
    pub(crate) fn acknowledged(&mut self, event_ids: &[String]) {
        for row in &self.conversation.rows {
            let is_one = matches!(&row.cause, Cause::Notice(id) if event_ids.contains(id));
            if let (true, Some(certainty)) = (is_one, self.certain.get_mut(&row.id)) {
                certainty.is_acknowledged = true;
            }
        }
    }

    /// Notes that the engine has notices.
    pub(crate) fn told_of_notices(&mut self) {
        self.has_notices_due = true;
        self.was_told_while_taking = self.is_taking;
    }

    /// Notes the end of a taking, and whether it found nothing.
    pub(crate) fn taking_over(&mut self, has_found_nothing: bool) {
        self.is_taking = false;
        let was_told = std::mem::take(&mut self.was_told_while_taking);
        if has_found_nothing {
            self.has_notices_due = was_told;
        }
    }

    /// Whether it keeps as many waiting notices as it may. The others are left to the engine.
    pub(crate) fn has_all_notices_it_keeps(&self) -> bool {
        self.conversation.queued(TurnKind::Notice).count() >= MAX_QUEUED_NOTICES
    }

    /// Whether a turn of it waits for a person, who may come in days.
    pub(crate) fn is_held_for_person(&self, turn: TurnId) -> bool {
        let is_held = self.waits_for.is_some() || self.conversation.suspended_at.is_some();
        is_held && self.conversation.row(turn).is_some_and(|row| matches!(row.turn, Turn::Queued | Turn::Interrupted { .. }))
    }

    /// When a batch is undone, facts from the engine and from terminals stay.
    pub(crate) fn keep_what_others_said(&mut self, undone: &Self) {
        (self.has_notices_due, self.is_taking) = (undone.has_notices_due, undone.is_taking);
        (self.was_told_while_taking, self.attendants) = (undone.was_told_while_taking, undone.attendants);
    }

    /// Whether the agent can take a prompt.
    pub(crate) fn is_agent_free(&self) -> bool {
        self.actor.as_ref().is_none_or(|actor| actor.open.is_none() && !actor.is_leaving && self.fits(actor))
    }

    /// Whether an agent is the one that the current generation wants.
    pub(crate) fn fits(&self, actor: &Actor) -> bool {
        actor.generation == self.conversation.generation.name() && Some(&actor.choice) == self.chat.agent.as_ref()
    }

    /// Whether the agent of the running turn may have the prompt. A prompt that still waits is withdrawn.
    pub(crate) fn has_prompt(&mut self) -> bool {
        let Some(actor) = &mut self.actor else { return false };
        let handle = actor.handle.clone();
        let Some(open) = &mut actor.open else { return false };
        if open.prompt == PromptState::Waiting && handle.withdraw(&open.driver) {
            open.prompt = PromptState::Withdrawn;
        }
        !matches!(open.prompt, PromptState::Withdrawn | PromptState::Refused)
    }

    /// Whether the attempt that the agent works on still counts for the rules.
    pub(crate) fn is_attempt_current(&self) -> bool {
        let Some(open) = self.actor.as_ref().and_then(|actor| actor.open.as_ref()) else { return false };
        self.conversation.row(open.head).is_some_and(|row| match row.turn {
            Turn::Running { attempt, .. } | Turn::Interrupted { attempt, .. } => attempt == open.attempt,
            Turn::Queued | Turn::Finished(_) => false,
        })
    }

    /// Whether an agent works on something that it may have seen.
    pub(crate) fn is_agent_working(&self) -> bool {
        self.actor.as_ref().is_some_and(|actor| actor.open.is_some())
    }

    pub(crate) fn standing(&self) -> Standing {
        wire_standing(self.conversation.standing().word())
    }

    pub(crate) fn info(&self, key: &str) -> ConversationInfo {
        let name = key.rsplit(':').next().unwrap_or(key);
        let mut info = ConversationInfo::new(key, name, u64::from(self.conversation.generation.number));
        info.standing = self.standing();
        info.strikes = self.conversation.strikes;
        info.agent = self.chat.agent.as_ref().map(agent_words);
        info.open_turns = self.conversation.rows.iter().filter(|row| row.turn.is_open()).count() as u64;
        info.last_message_at = self.conversation.last_message_at;
        let question = || self.has_question().then(|| "The agent waits for a permission.".to_owned());
        info.waits_for = self.waits_for.map(|reason| Line::Waiting(reason).to_string()).or_else(question);
        info
    }

    /// Whether the running turn waits for an answer to a question about a permission.
    fn has_question(&self) -> bool {
        let open = self.actor.as_ref().and_then(|actor| actor.open.as_ref());
        open.is_some_and(|open| open.permissions.values().any(|asked| asked.answer.is_none()))
    }
}

/// Who answers, in words.
pub(crate) fn agent_words(choice: &AgentChoice) -> String {
    match choice {
        AgentChoice::Agent(name) => name.clone(),
        AgentChoice::Command(line) => format!("command `{line}`"),
        other => format!("{other:?}"),
    }
}

fn wire_standing(word: &str) -> Standing {
    match word {
        "active" => Standing::Active,
        "resume_pending" => Standing::ResumePending,
        "suspended" => Standing::Suspended,
        other => Standing::Other(other.to_owned()),
    }
}
