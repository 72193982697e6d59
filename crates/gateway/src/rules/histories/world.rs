//! Plays each act in the rules and in the oracle, and compares what they say.

use std::collections::BTreeMap;
use std::time::Duration;

use outlast_core::Time;

use super::act::{Act, GateDraw, ResetDraw, UNKNOWN_AGE};
use super::oracle::Oracle;
use super::promises::broken;
use crate::rules::breaker::Breaker;
use crate::rules::change::{AgentReport, Effect, Event, LeasedNotice, Message, apply};
use crate::rules::conversation::{BusyMode, Conversation, Standing, TurnId, TurnRow};
use crate::rules::note::{Note, ResumePolicy, ToolTail};
use crate::rules::queue::{Gates, Next, OwnerCheck, Start, next};
use crate::rules::reset::{DEFAULT_PROTECTION_AGE, LiveProcesses, ResetFacts, ResetMode, ResetPolicy};
use crate::rules::turn::{DrainKind, FailureReason, Mark, MarkWindow, Turn};

const SECOND: i64 = 1_000_000;
const BEGIN: i64 = 1_800_000_000 * SECOND;

pub(super) struct World {
    conversation: Conversation,
    /// The finished rows, as the table would have them.
    table: BTreeMap<i64, String>,
    causes: BTreeMap<String, i64>,
    oracle: Oracle,
    does_forget: bool,
    last_id: i64,
}

impl World {
    pub(super) fn new(mode: BusyMode, does_forget: bool) -> Self {
        Self {
            conversation: Conversation::first(mode, Time::from_micros(BEGIN)),
            table: BTreeMap::new(),
            causes: BTreeMap::new(),
            oracle: Oracle::new(BEGIN, mode == BusyMode::Interrupt),
            does_forget,
            last_id: 0,
        }
    }

    pub(super) fn play(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::Message { again, has_prompt, draining, is_held, reset, window } => {
                self.message(*again, *has_prompt, (*draining, *is_held), reset, *window)
            }
            Act::Notice { again, generation, leases } => self.notice(*again, *generation, *leases),
            Act::Next(gates) => self.next(gates),
            Act::NextOpen => self.next(&all_open()),
            Act::Agent { of, attempt_off, report } => self.agent(*of, *attempt_off, *report),
            Act::Stop => {
                self.oracle.stop();
                self.apply(Event::Stop)
            }
            Act::New => {
                self.oracle.new_conversation();
                self.apply(Event::New)
            }
            Act::Resume => {
                self.oracle.resume();
                self.apply(Event::Resume)
            }
            Act::Return(to) => {
                self.oracle.return_to(u32::from(*to));
                self.apply(Event::Return { to: u32::from(*to), continued_in: None })
            }
            Act::DrainTimedOut { is_restart, has_prompt } => {
                self.oracle.drain(*is_restart, *has_prompt);
                let kind = if *is_restart { DrainKind::Restart } else { DrainKind::Shutdown };
                self.apply(Event::DrainTimedOut { kind, has_prompt: *has_prompt })
            }
            Act::GatewayStarted { is_held } => {
                self.oracle.gateway_started(*is_held);
                self.apply(Event::GatewayStarted { is_held: *is_held })
            }
            Act::Pass(n) => {
                let seconds = [1, 59, 600, 3599, 3600, 3601, 7201, 40_000, 90_000];
                self.oracle.now += seconds[usize::from(*n)] * SECOND;
                Ok(())
            }
        }
    }

    fn now(&self) -> Time {
        Time::from_micros(self.oracle.now)
    }

    /// An id for the next row, and the name of a new cause or of one that was used before.
    fn name(&mut self, again: Option<u8>, prefix: &str) -> (i64, String) {
        self.last_id += 1;
        let used: Vec<&String> = self.causes.keys().filter(|cause| cause.contains(prefix)).collect();
        let name = match again {
            Some(n) if !used.is_empty() => used[usize::from(n) % used.len()].trim_start_matches("msg:").to_owned(),
            _ => format!("{prefix}{}", self.last_id),
        };
        (self.last_id, name)
    }

    /// The table knows what is no longer in memory, and sometimes what is.
    fn known_as(&self, cause: &str) -> Option<TurnId> {
        let id = *self.causes.get(cause)?;
        let is_in_memory = self.conversation.row(TurnId(id)).is_some();
        (!is_in_memory || id % 2 == 0).then_some(TurnId(id))
    }

    fn message(
        &mut self,
        again: Option<u8>,
        has_prompt: bool,
        (draining, is_held): (u8, bool),
        reset: &ResetDraw,
        window: u8,
    ) -> Result<(), String> {
        let (id, name) = self.name(again, "m");
        let draining = [DrainKind::Restart, DrainKind::Shutdown].get(usize::from(draining)).copied();
        let word = draining.map(|kind| if kind == DrainKind::Restart { "Restart" } else { "Shutdown" });
        let known_as = self.known_as(&format!("msg:{name}"));
        self.oracle.message(id, &name, has_prompt, (word, is_held), reset, window_of(window));
        self.apply(Event::Message(Message {
            turn: TurnId(id),
            message_id: name,
            known_as,
            has_prompt,
            draining,
            is_held,
            reset: facts(reset),
            mark_window: rules_window(window),
        }))
    }

    fn notice(&mut self, again: Option<u8>, generation: u8, leases: u8) -> Result<(), String> {
        let (id, name) = self.name(again, "evt_");
        let known_as = self.known_as(&name);
        self.oracle.notice(id, &name, generation == 4, leases);
        let generation = match generation {
            0..=3 => Some(self.conversation.generation.name()),
            4 => Some(format!("{}-0", self.conversation.generation.number)),
            _ => None,
        };
        self.apply(Event::Notice(LeasedNotice { turn: TurnId(id), event_id: name, known_as, generation, leases: u32::from(leases) }))
    }

    fn next(&mut self, draw: &GateDraw) -> Result<(), String> {
        let expected = self.oracle.next(draw, window_of(draw.window));
        let now = self.now();
        let said = next(&self.conversation, &gates(draw, now), now);
        let words = next_words(&said);
        if words != expected {
            return Err(format!("next says {words:?} instead of {expected:?}"));
        }
        let Next::Start(start) = said else { return Ok(()) };
        self.oracle.start(&start.rows.iter().map(|row| row.0).collect::<Vec<_>>(), &note_words(start.note.as_ref()));
        self.apply(Event::Start(start))
    }

    fn agent(&mut self, of: u8, attempt_off: i8, report: u8) -> Result<(), String> {
        let any = self.oracle.book.get(usize::from(of) * 3).map(|e| (e.id, 1));
        let Some((head, attempt)) = (if of < 6 { self.oracle.running() } else { None }).or(any) else { return Ok(()) };
        let attempt = attempt.saturating_add_signed(i32::from(attempt_off));
        let (event, word, report) = match report {
            0..=4 => ("completed", "", AgentReport::Completed),
            5 => ("failed", "TimedOut", AgentReport::Failed { why: FailureReason::TimedOut }),
            6 => ("gone without", "", AgentReport::Gone { had_prompt: false }),
            _ => ("gone with", "", AgentReport::Gone { had_prompt: true }),
        };
        self.oracle.agent(head, attempt, event, word);
        self.apply(Event::Agent { head: TurnId(head), attempt, report })
    }

    fn apply(&mut self, event: Event) -> Result<(), String> {
        let (after, effects) = apply(self.conversation.clone(), event, self.now());
        self.conversation = after;
        if let Some(what) = broken(&self.conversation) {
            return Err(what.into());
        }
        for row in &self.conversation.rows {
            self.causes.insert(row.cause.to_string(), row.id.0);
            if row.turn.is_open() {
                if self.table.contains_key(&row.id.0) {
                    return Err(format!("turn {} was finished and is open again", row.id.0));
                }
                continue;
            }
            let words = row_words(row);
            if self.table.insert(row.id.0, words.clone()).is_some_and(|before| before != words) {
                return Err(format!("turn {} was finished and has changed: {words}", row.id.0));
            }
        }
        let mut said: Vec<String> = effects.iter().map(effect_words).collect();
        said.sort();
        let (page, expected) = (self.page(), self.oracle.page());
        let expected_said = self.oracle.said();
        if self.does_forget {
            self.conversation.forget_finished();
        }
        match () {
            () if page != expected => Err(format!("the rows are\n{page:#?}\ninstead of\n{expected:#?}")),
            () if said != expected_said => Err(format!("the effects are {said:?} instead of {expected_said:?}")),
            () => Ok(()),
        }
    }

    fn page(&self) -> Vec<String> {
        let c = &self.conversation;
        let micros = |at: Option<Time>| at.map(Time::micros);
        let standing = match c.standing() {
            Standing::Active => "active".to_owned(),
            Standing::ResumePending { at, .. } => format!("resume_pending {}", at.micros()),
            Standing::Suspended { at } => format!("suspended {}", at.micros()),
        };
        let head = format!(
            "generation {} at {} {:?} strikes {} suspended {:?} last {:?} wrote {} standing {standing}",
            c.generation.number,
            c.generation.started_at.micros(),
            c.started_why,
            c.strikes,
            micros(c.suspended_at),
            micros(c.last_message_at),
            c.has_person_written
        );
        let mut rows = self.table.clone();
        rows.extend(c.rows.iter().filter(|row| row.turn.is_open()).map(|row| (row.id.0, row_words(row))));
        std::iter::once(head).chain(rows.into_values()).collect()
    }
}

fn mark_words(mark: Mark) -> (String, i64) {
    (format!("{:?}", mark.reason), mark.at.micros())
}

fn row_words(row: &TurnRow) -> String {
    let state = match row.turn {
        Turn::Queued => "queued".to_owned(),
        Turn::Running { attempt, mark } => format!("running {attempt} {:?}", mark.map(mark_words)),
        Turn::Interrupted { attempt, mark } => format!("interrupted {attempt} {:?}", Some(mark_words(mark))),
        Turn::Finished(outcome) => format!("finished {outcome:?}"),
    };
    let quotes = row.quotes.map(|quote| quote.turn.0);
    format!("{} {} g{} {state} head {} quotes {quotes:?}", row.id.0, row.cause, row.generation, row.head.0)
}

fn effect_words(effect: &Effect) -> String {
    match effect {
        Effect::Answer { message_id, turn } => format!("answer {message_id} {}", turn.0),
        Effect::Refuse { message_id } => format!("refuse {message_id}"),
        Effect::Acknowledge { event_id } => format!("acknowledge {event_id}"),
        Effect::Prompt(prompt) => {
            let rows: Vec<i64> = prompt.rows.iter().map(|row| row.0).collect();
            format!("prompt {rows:?} {} {}", prompt.attempt, note_words(prompt.note.as_ref()))
        }
        Effect::Cancel { head, attempt } => format!("cancel {} {attempt}", head.0),
        Effect::Tell(line) => format!("tell {line:?}"),
    }
}

fn note_words(note: Option<&Note>) -> String {
    let policy = |policy: &ResumePolicy| match policy {
        ResumePolicy::Ask => "ask",
        ResumePolicy::Continue => "continue",
    };
    match note {
        None => "none".into(),
        Some(Note::Restarted { mark, quotes, open_call, policy: of }) => {
            let call = open_call.is_some();
            format!("restarted {:?} quotes {:?} {} call {call}", mark_words(*mark), quotes.map(|turn| turn.0), policy(of))
        }
        Some(Note::Replaces { mark, quotes, open_call, policy: of }) => {
            let call = open_call.is_some();
            format!("replaces {:?} quotes {:?} {} call {call}", mark_words(*mark), Some(quotes.0), policy(of))
        }
        Some(Note::OpenToolCall { .. }) => "tool".into(),
    }
}

fn next_words(next: &Next) -> String {
    match next {
        Next::Start(Start { head, rows, note, is_unattended }) => {
            let rows: Vec<i64> = rows.iter().map(|row| row.0).collect();
            assert_eq!(rows[0], head.0, "the head is the first of its rows");
            format!("start {rows:?} {} {}", if *is_unattended { "unattended" } else { "attended" }, note_words(note.as_ref()))
        }
        Next::TakeNotices => "take".into(),
        Next::WaitUntil(at) => format!("until {}", at.micros()),
        Next::WaitForPerson(reason) => format!("person {reason:?}"),
        Next::Nothing => "nothing".into(),
    }
}

/// Microseconds; none for one draw in six.
fn window_of(draw: u8) -> i64 {
    if draw == 0 { 0 } else { 3600 * SECOND }
}

fn rules_window(draw: u8) -> MarkWindow {
    if draw == 0 { MarkWindow(Duration::ZERO) } else { MarkWindow::default() }
}

fn facts(draw: &ResetDraw) -> ResetFacts {
    let after = Duration::from_secs(2 * 3600);
    let mode = match draw.mode {
        0 => ResetMode::None,
        1 => ResetMode::Idle { after },
        2 => ResetMode::Daily { at_hour: draw.hour },
        _ => ResetMode::Both { after, at_hour: draw.hour },
    };
    let protection_age = if draw.is_any_age { Duration::ZERO } else { DEFAULT_PROTECTION_AGE };
    ResetFacts {
        policy: ResetPolicy { mode, protection_age, should_notify: draw.should_notify },
        utc_offset_seconds: draw.offset_minutes * 60,
        processes: match draw.youngest_hours {
            None => LiveProcesses::None,
            Some(UNKNOWN_AGE) => LiveProcesses::Unknown,
            Some(hours) => LiveProcesses::Youngest(Duration::from_secs(u64::from(hours) * 3600)),
        },
        has_history: draw.has_history,
    }
}

fn all_open() -> GateDraw {
    GateDraw {
        is_draining: false,
        is_agent_free: true,
        has_notices_due: false,
        is_breaker_open: false,
        owner: 5,
        is_connected: true,
        window: 1,
        starts: Vec::new(),
        tail: None,
    }
}

fn gates(draw: &GateDraw, now: Time) -> Gates {
    let ago = |seconds: i32| Time::from_micros(now.micros() - i64::from(seconds) * SECOND);
    let starts = draw.starts.iter().flat_map(|(count, age)| std::iter::repeat_n(ago(*age), usize::from(*count)));
    Gates {
        is_draining: draw.is_draining,
        is_agent_free: draw.is_agent_free,
        has_notices_due: draw.has_notices_due,
        breaker: if draw.is_breaker_open { Breaker::Open } else { Breaker::Closed },
        owner: [OwnerCheck::MayNotSpeak, OwnerCheck::Failed].get(usize::from(draw.owner)).copied().unwrap_or(OwnerCheck::MaySpeak),
        is_channel_connected: draw.is_connected,
        mark_window: rules_window(draw.window),
        unattended_starts: starts.collect(),
        tool_tail: draw.tail.map(|age| ToolTail { tool: None, at: age.map(ago) }),
    }
}
