//! What each event makes of a conversation and its turns.

use outlast_core::Time;

use super::conversation::{BusyMode, Cause, Conversation, Generation, LastStart, Quote, Standing, StartedWhy, TurnId, TurnRow};
use super::note::Note;
use super::queue::Start;
use super::reset::{self, ResetFacts, ResetReason};
use super::step::{self, GenerationEnd, TurnEffect, TurnEvent};
use super::text::Line;
use super::turn::{DrainKind, FailureReason, MarkWindow, ObsoleteReason, Outcome, Turn, TurnKind};

/// A message is refused if this many wait already. A person who is that far ahead of the agent gets no answers in time; a script must
/// notice.
pub const MAX_QUEUED_MESSAGES: usize = 256;

/// A notice that was leased more often than this is not tried again: writing it down seems to kill the gateway.
pub const MAX_NOTICE_LEASES: u32 = 5;

/// What can happen to a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A person wrote.
    Message(Message),
    /// The engine leased a notice to the gateway.
    Notice(LeasedNotice),
    /// A turn starts, as decided by [`next`](super::queue::next).
    Start(Start),
    /// The driver reports about an attempt.
    Agent {
        /// The first row of the turn.
        head: TurnId,
        /// Which attempt of it, from 1. Another one changes nothing.
        attempt: u32,
        /// What the driver reports.
        report: AgentReport,
    },
    /// `/stop` or Ctrl-C.
    Stop,
    /// `/new`.
    New,
    /// `/resume`.
    Resume,
    /// `/resume N`: a new generation whose agent continues where an earlier one ended.
    Return {
        /// The earlier one, which has ended.
        to: u32,
        /// The last generation that continued it before, in the same session of its agent.
        continued_in: Option<u32>,
    },
    /// The drain timed out.
    DrainTimedOut {
        /// What it leads to.
        kind: DrainKind,
        /// Whether the agent of the running turn has the prompt.
        has_prompt: bool,
    },
    /// A gateway starts.
    GatewayStarted {
        /// Whether the driver still holds the attempt that was running.
        is_held: bool,
    },
}

/// A person's message, and what the coordinator knows when it arrives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The id of its row, if it gets one.
    pub turn: TurnId,
    /// The id that the client made.
    pub message_id: String,
    /// The row that the table has for this message already, of whichever generation.
    pub known_as: Option<TurnId>,
    /// Whether the agent of the running turn has the prompt. Without a running turn it does not matter.
    pub has_prompt: bool,
    /// What the gateway drains for, if it does.
    pub draining: Option<DrainKind>,
    /// Whether a person holds new turns back.
    pub is_held: bool,
    /// What a reset depends on.
    pub reset: ResetFacts,
    /// How long a mark is fresh.
    pub mark_window: MarkWindow,
}

impl Message {
    /// Whether a turn may start for it. If not, a running turn that gave way would give way to nothing.
    pub fn may_start(&self) -> bool {
        self.draining.is_none() && !self.is_held
    }
}

/// A notice that the engine leased to the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedNotice {
    /// The id of its row, if it gets one.
    pub turn: TurnId,
    /// The `evt_…` that the engine made.
    pub event_id: String,
    /// The row that the table has for this notice already.
    pub known_as: Option<TurnId>,
    /// The name of the generation it is for. A process that was started without one reports to the current generation.
    pub generation: Option<String>,
    /// How often the engine leased it, this time included.
    pub leases: u32,
}

/// What a driver reports about an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentReport {
    /// The agent ended its turn.
    Completed,
    /// The agent failed.
    Failed {
        /// What was wrong.
        why: FailureReason,
    },
    /// The agent is gone.
    Gone {
        /// Whether it had the prompt.
        had_prompt: bool,
    },
}

/// What is done after the commit. A crash may lose each of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Tell the sender that the message is kept as this turn. If it is lost, the sender asks again.
    Answer {
        /// The id that its client made.
        message_id: String,
        /// Its turn.
        turn: TurnId,
    },
    /// Tell the sender that the message is not kept, because too many wait. Nothing was written.
    Refuse {
        /// The id that its client made.
        message_id: String,
    },
    /// Tell the engine that the notice is delivered. If it is lost, the engine offers the notice again.
    Acknowledge {
        /// The id that the engine made.
        event_id: String,
    },
    /// Start the agent if need be, and give it the prompt. If it is lost, the turn is found running at the next start.
    Prompt(Prompt),
    /// Cancel an attempt. If the agent does not have the prompt yet, it does not get it. If it does not answer in time, it is stopped.
    Cancel {
        /// The first row of the turn.
        head: TurnId,
        /// Which attempt of it, from 1.
        attempt: u32,
    },
    /// Tell the person.
    Tell(Line),
}

/// What an agent is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The row whose prompt it is.
    pub head: TurnId,
    /// The attempt. The driver's answers name it.
    pub attempt: u32,
    /// The rows whose words are in the prompt, in order.
    pub rows: Vec<TurnId>,
    /// What comes before the words.
    pub note: Option<Note>,
}

/// Applies one event. The result is one commit; the effects come after it.
pub fn apply(conversation: Conversation, event: Event, now: Time) -> (Conversation, Vec<Effect>) {
    let mut change = Change { conversation, effects: Vec::new(), now };
    match event {
        Event::Message(message) => change.message(message),
        Event::Notice(notice) => change.notice(notice),
        Event::Start(start) => change.start(start),
        Event::Agent { head, attempt, report } => change.agent(head, attempt, report),
        Event::Stop => change.stop(),
        Event::New => change.new_conversation(),
        Event::Resume => change.resume(),
        Event::Return { to, continued_in } => change.return_to(to, continued_in),
        Event::DrainTimedOut { kind, has_prompt } => change.running_turn(TurnEvent::DrainTimedOut { kind, has_prompt }),
        Event::GatewayStarted { is_held } => {
            change.conversation.has_person_written = false;
            change.running_turn(TurnEvent::GatewayStarted { is_held });
        }
    }
    (change.conversation, change.effects)
}

/// One event in progress.
struct Change {
    conversation: Conversation,
    effects: Vec<Effect>,
    now: Time,
}

impl Change {
    fn message(&mut self, message: Message) {
        let cause = Cause::Message(message.message_id.clone());
        let message_id = message.message_id.clone();
        if let Some(turn) = message.known_as.or_else(|| self.conversation.turn_of(&cause)) {
            return self.effects.push(Effect::Answer { message_id, turn });
        }
        if self.conversation.queued(TurnKind::Message).count() >= MAX_QUEUED_MESSAGES {
            return self.effects.push(Effect::Refuse { message_id });
        }
        let mut quote = self.leave_generation(&message);
        quote = quote.or_else(|| self.replace_interrupted(message.mark_window));
        if self.conversation.mode == BusyMode::Interrupt && message.may_start() {
            self.running_turn(TurnEvent::CutIn { has_prompt: message.has_prompt });
        }
        self.conversation.push(message.turn, cause, Turn::Queued, None);
        self.give_quote(quote);
        self.conversation.last_message_at = Some(self.now);
        self.conversation.has_person_written = true;
        self.effects.push(Effect::Answer { message_id, turn: message.turn });
        self.effects.extend(message.draining.map(|kind| Effect::Tell(Line::KeptWhileDraining(kind))));
    }

    /// Starts a new generation if the message must not enter this one: suspended, then resume pending, then the reset policy. Returns the
    /// interrupted message that is to be quoted.
    fn leave_generation(&mut self, message: &Message) -> Option<Quote> {
        let facts = &message.reset;
        let is_waiting = self.conversation.running().is_some() || self.conversation.queued(TurnKind::Message).next().is_some();
        match self.conversation.standing() {
            Standing::Suspended { .. } => {
                let quote = self.conversation.rows.iter().rev().filter(|row| row.cause.kind() == TurnKind::Message).find_map(quote_of);
                self.effects.push(Effect::Tell(Line::StartedAnew(self.conversation.generation.number)));
                self.end_generation(StartedWhy::Suspended, GenerationEnd::MovedOn);
                self.unless_stale(quote, message.mark_window)
            }
            // A turn that runs and messages that wait are signs of a conversation that continues, whatever else is too old in it.
            Standing::ResumePending { at, .. } => {
                if facts.policy.is_on() && message.mark_window.has_passed(at, self.now) && !is_waiting {
                    self.effects.push(Effect::Tell(Line::ResumeExpired(self.conversation.generation.number)));
                    self.end_generation(StartedWhy::ResumeExpired, GenerationEnd::MovedOn);
                }
                None
            }
            Standing::Active => {
                let is_idle = self.conversation.rows.iter().all(|row| !row.turn.is_open());
                let reason = reset::due(facts, self.conversation.last_message_at, self.now).filter(|_| is_idle)?;
                if facts.has_history && facts.policy.should_notify {
                    self.effects.push(Effect::Tell(Line::Reset(reason, self.conversation.generation.number)));
                }
                let why = match reason {
                    ResetReason::Idle => StartedWhy::Idle,
                    ResetReason::Daily => StartedWhy::Daily,
                };
                self.end_generation(why, GenerationEnd::MovedOn);
                None
            }
        }
    }

    /// An interrupted turn of a person gives way to the newer message, unless another message follows it already.
    fn replace_interrupted(&mut self, window: MarkWindow) -> Option<Quote> {
        let is_open_message = |row: &&TurnRow| row.cause.kind() == TurnKind::Message && row.turn.is_open();
        let newest = self.conversation.rows.iter().rfind(is_open_message)?;
        let quote = quote_of(newest)?;
        self.step(quote.turn, TurnEvent::Replace);
        self.unless_stale(Some(quote), window)
    }

    fn unless_stale(&mut self, quote: Option<Quote>, window: MarkWindow) -> Option<Quote> {
        let quote = quote?;
        if quote.mark.is_stale(window, self.now) {
            self.effects.push(Effect::Tell(Line::TooOldToQuote));
            return None;
        }
        Some(quote)
    }

    /// The message that starts first carries the quote, so that the agent reads the words in the order in which they were written.
    fn give_quote(&mut self, quote: Option<Quote>) {
        let is_free = |row: &&mut TurnRow| row.cause.kind() == TurnKind::Message && row.turn == Turn::Queued && row.quotes.is_none();
        if let (Some(quote), Some(row)) = (quote, self.conversation.rows.iter_mut().find(is_free)) {
            row.quotes = Some(quote);
        }
    }

    fn notice(&mut self, notice: LeasedNotice) {
        let cause = Cause::Notice(notice.event_id.clone());
        self.effects.push(Effect::Acknowledge { event_id: notice.event_id });
        if notice.known_as.is_some() || self.conversation.turn_of(&cause).is_some() {
            return;
        }
        let current = self.conversation.generation.name();
        let is_earlier = notice.generation.is_some_and(|name| name != current);
        let obsolete = match (is_earlier, notice.leases > MAX_NOTICE_LEASES) {
            (true, _) => Some(ObsoleteReason::EarlierGeneration),
            (false, true) => Some(ObsoleteReason::LeasedTooOften),
            (false, false) => None,
        };
        let turn = obsolete.map_or(Turn::Queued, |why| Turn::Finished(Outcome::Obsolete { why }));
        self.conversation.push(notice.turn, cause, turn, None);
        self.effects.extend(obsolete.map(|why| Effect::Tell(Line::NoticesObsolete(why, 1))));
    }

    fn start(&mut self, start: Start) {
        let can_start = |id: &TurnId| {
            let row = self.conversation.row(*id);
            row.is_some_and(|row| matches!(row.turn, Turn::Queued | Turn::Interrupted { .. }))
        };
        let is_whole = start.rows.contains(&start.head) && start.rows.iter().all(can_start);
        if self.conversation.suspended_at.is_some() || self.conversation.running().is_some() || !is_whole {
            return;
        }
        let last_start = LastStart { at: self.now, is_unattended: start.is_unattended };
        for row in self.conversation.rows.iter_mut().filter(|row| start.rows.contains(&row.id)) {
            row.head = start.head;
            row.last_start = Some(last_start);
        }
        let (head, rows, note) = (start.head, start.rows, start.note);
        for effect in self.turn_step(head, TurnEvent::Start) {
            let attempt = self.attempt_of(head);
            match (effect, attempt) {
                (TurnEffect::Prompt, Some(attempt)) => {
                    self.effects.push(Effect::Prompt(Prompt { head, attempt, rows: rows.clone(), note: note.clone() }));
                }
                (other, _) => self.effects.extend(of_turn(head, other)),
            }
        }
    }

    fn attempt_of(&self, head: TurnId) -> Option<u32> {
        match self.conversation.row(head)?.turn {
            Turn::Running { attempt, .. } | Turn::Interrupted { attempt, .. } => Some(attempt),
            Turn::Queued | Turn::Finished(_) => None,
        }
    }

    fn agent(&mut self, head: TurnId, attempt: u32, report: AgentReport) {
        let event = match report {
            AgentReport::Completed => TurnEvent::Completed { attempt },
            AgentReport::Failed { why } => TurnEvent::Failed { attempt, why },
            AgentReport::Gone { had_prompt } => TurnEvent::AgentGone { attempt, had_prompt },
        };
        self.step(head, event);
    }

    fn stop(&mut self) {
        let mut has_stopped = false;
        for head in self.open_heads() {
            self.step(head, TurnEvent::Stop);
            has_stopped |= self.conversation.row(head).is_some_and(|row| !row.turn.is_open());
        }
        self.effects.push(Effect::Tell(if has_stopped { Line::Stopped } else { Line::NothingToStop }));
    }

    fn new_conversation(&mut self) {
        self.tell_cancelled();
        self.end_generation(StartedWhy::New, GenerationEnd::Asked);
        self.effects.push(Effect::Tell(Line::NewConversation));
    }

    /// Says what the end of the generation cancels.
    fn tell_cancelled(&mut self) {
        let is_begun = |row: &TurnRow| matches!(row.turn, Turn::Running { .. } | Turn::Interrupted { .. });
        let waiting = self.conversation.queued(TurnKind::Message).count();
        if self.conversation.heads().any(is_begun) {
            self.effects.push(Effect::Tell(Line::Stopped));
        }
        if waiting > 0 {
            self.effects.push(Effect::Tell(Line::WaitingCancelled(waiting)));
        }
    }

    fn resume(&mut self) {
        self.conversation.has_person_written = true;
        let told = match self.conversation.standing() {
            Standing::Active => Line::NothingToResume,
            Standing::ResumePending { .. } => Line::Continued,
            Standing::Suspended { .. } => {
                self.conversation.suspended_at = None;
                self.conversation.strikes = 0;
                Line::Continued
            }
        };
        self.effects.push(Effect::Tell(told));
    }

    fn return_to(&mut self, earlier: u32, continued_in: Option<u32>) {
        self.conversation.has_person_written = true;
        self.tell_cancelled();
        self.end_generation(StartedWhy::Resumed, GenerationEnd::Asked);
        let told = continued_in.map_or(Line::Returned(earlier), |later| Line::ReturnedLater(earlier, later));
        self.effects.push(Effect::Tell(told));
    }

    /// Ends the generation and starts the next. What stays open belongs to the next one.
    fn end_generation(&mut self, why: StartedWhy, how: GenerationEnd) {
        self.end_open_turns(how);
        let conversation = &mut self.conversation;
        let number = conversation.generation.number.saturating_add(1);
        conversation.generation = Generation { number, started_at: self.now };
        conversation.started_why = why;
        conversation.strikes = 0;
        conversation.suspended_at = None;
        conversation.last_message_at = None;
        for row in conversation.rows.iter_mut().filter(|row| row.turn.is_open()) {
            row.generation = number;
        }
    }

    /// Ends the turns of a generation, with one line about all notices among them.
    fn end_open_turns(&mut self, how: GenerationEnd) {
        let why = ObsoleteReason::GenerationEnded;
        let obsolete = |rows: &[TurnRow]| rows.iter().filter(|row| row.turn == Turn::Finished(Outcome::Obsolete { why })).count();
        // Rows that were finished by an earlier event of the same commit are still in the list.
        let earlier = obsolete(&self.conversation.rows);
        for head in self.open_heads() {
            let Some(kind) = self.conversation.row(head).map(|row| row.cause.kind()) else { continue };
            self.step(head, TurnEvent::EndGeneration { kind, how });
        }
        let count = obsolete(&self.conversation.rows) - earlier;
        if count > 0 {
            self.effects.push(Effect::Tell(Line::NoticesObsolete(why, count)));
        }
    }

    fn open_heads(&self) -> Vec<TurnId> {
        self.conversation.heads().filter(|row| row.turn.is_open()).map(|row| row.id).collect()
    }

    fn running_turn(&mut self, event: TurnEvent) {
        if let Some(head) = self.conversation.running().map(|row| row.id) {
            self.step(head, event);
        }
    }

    fn step(&mut self, head: TurnId, event: TurnEvent) {
        let effects = self.turn_step(head, event);
        self.effects.extend(effects.into_iter().filter_map(|effect| of_turn(head, effect)));
    }

    /// Applies an event to a turn. All rows of its prompt move together.
    fn turn_step(&mut self, head: TurnId, event: TurnEvent) -> Vec<TurnEffect> {
        let Some(row) = self.conversation.row(head) else { return Vec::new() };
        let step = step::apply(row.turn, event, self.conversation.strikes, self.now);
        self.conversation.strikes = step.strikes;
        if step.does_suspend {
            self.conversation.suspended_at = Some(self.now);
        }
        for row in self.conversation.rows.iter_mut().filter(|row| row.head == head) {
            row.turn = step.turn;
            // A queued row is in no prompt. The next start may put it together with others.
            if row.turn == Turn::Queued {
                row.head = row.id;
            }
        }
        step.effects
    }
}

/// The effect of a turn as one of its conversation. A prompt needs the rows and the note, which only a start knows.
fn of_turn(head: TurnId, effect: TurnEffect) -> Option<Effect> {
    match effect {
        TurnEffect::Prompt => None,
        TurnEffect::Cancel { attempt } => Some(Effect::Cancel { head, attempt }),
        TurnEffect::Tell(line) => Some(Effect::Tell(line)),
    }
}

/// The quote of a row, if it is interrupted.
fn quote_of(row: &TurnRow) -> Option<Quote> {
    Some(Quote { turn: row.id, mark: row.turn.interruption()? })
}
