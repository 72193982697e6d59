//! One event, step by step.

use outlast_core::Time;

use super::{
    AgentReport, BusyMode, Cause, Conversation, Effect, Event, Generation, LastStart, LeasedNotice, MAX_NOTICE_LEASES, MAX_QUEUED_MESSAGES,
    Message, Prompt, Quote, Standing, StartedWhy, TurnId, TurnRow,
};
use crate::rules::queue::Start;
use crate::rules::reset::{self, ResetReason};
use crate::rules::text::Line;
use crate::rules::turn::{self, GenerationEnd, MarkWindow, ObsoleteReason, Outcome, Turn, TurnEffect, TurnEvent, TurnKind};

pub(super) fn apply(conversation: Conversation, event: Event, now: Time) -> (Conversation, Vec<Effect>) {
    let mut change = Change { conversation, effects: Vec::new(), now };
    match event {
        Event::Message(message) => change.message(message),
        Event::Notice(notice) => change.notice(notice),
        Event::Start(start) => change.start(start),
        Event::Agent { head, attempt, report } => change.agent(head, attempt, report),
        Event::Stop => change.stop(),
        Event::New => change.new_conversation(),
        Event::Resume => change.resume(),
        Event::Return { to } => change.return_to(to),
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
        // During a drain nothing starts, so a turn that gave way would give way to nothing.
        if self.conversation.mode == BusyMode::Interrupt && message.draining.is_none() {
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
        self.end_generation(StartedWhy::New, GenerationEnd::Asked);
        self.effects.push(Effect::Tell(Line::NewConversation));
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

    fn return_to(&mut self, earlier: u32) {
        self.conversation.has_person_written = true;
        self.end_generation(StartedWhy::Resumed, GenerationEnd::Asked);
        self.effects.push(Effect::Tell(Line::Returned(earlier)));
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

    /// Ends the turns of a generation, and tells about all notices among them in one line.
    fn end_open_turns(&mut self, how: GenerationEnd) {
        let why = ObsoleteReason::GenerationEnded;
        let obsolete = |rows: &[TurnRow]| rows.iter().filter(|row| row.turn == Turn::Finished(Outcome::Obsolete { why })).count();
        // Rows that an earlier event of the same commit finished are still there.
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
        let step = turn::apply(row.turn, event, self.conversation.strikes, self.now);
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
