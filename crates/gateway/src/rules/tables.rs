//! The whole tables, one snapshot each.

use std::fmt::Write as _;
use std::time::Duration;

use outlast_core::Time;

use super::breaker::Breaker;
use super::change::{apply, *};
use super::conversation::*;
use super::note::{Note, ToolTail, note};
use super::queue::{Gates, Next, OwnerCheck, Start, next};
use super::reset::{LiveProcesses, ResetFacts, ResetMode, ResetPolicy, ResetReason};
use super::step::{self, *};
use super::text::Line;
use super::turn::WaitReason;
use super::turn::*;

pub(super) const MINUTE: i64 = 60_000_000;
pub(super) const HOUR: i64 = 60 * MINUTE;
/// 2027-01-15 08:00 UTC.
pub(super) const NOW: Time = Time::from_micros(1_800_000_000_000_000);

pub(super) fn ago(micros: i64) -> Time {
    Time::from_micros(NOW.micros() - micros)
}

pub(super) fn mark(reason: InterruptReason, at: Time) -> Mark {
    Mark { reason, at }
}

pub(super) fn conversation() -> Conversation {
    Conversation { last_message_at: Some(ago(5 * MINUTE)), ..Conversation::first(BusyMode::Queue, ago(48 * HOUR)) }
}

pub(super) fn row(id: i64, kind: TurnKind, turn: Turn) -> TurnRow {
    let cause = match kind {
        TurnKind::Message => Cause::Message(format!("m{id}")),
        TurnKind::Notice => Cause::Notice(format!("evt_{id}")),
    };
    TurnRow { id: TurnId(id), generation: 1, cause, turn, head: TurnId(id), quotes: None, last_start: None }
}

pub(super) fn idle_after(minutes: u64) -> ResetPolicy {
    ResetPolicy { mode: ResetMode::Idle { after: Duration::from_secs(minutes * 60) }, ..ResetPolicy::OFF }
}

pub(super) fn facts(policy: ResetPolicy) -> ResetFacts {
    ResetFacts { policy, utc_offset_seconds: 0, processes: LiveProcesses::None, has_history: true }
}

pub(super) fn message(id: i64) -> Message {
    Message {
        turn: TurnId(id),
        message_id: format!("m{id}"),
        known_as: None,
        has_prompt: true,
        draining: None,
        is_held: false,
        reset: facts(ResetPolicy::OFF),
        mark_window: MarkWindow::default(),
    }
}

pub(super) fn notice(id: i64, to: &Conversation) -> LeasedNotice {
    let generation = Some(to.generation.name());
    LeasedNotice { turn: TurnId(id), event_id: format!("evt_{id}"), known_as: None, generation, leases: 1 }
}

pub(super) fn gates() -> Gates {
    Gates {
        is_draining: false,
        is_agent_free: true,
        has_notices_due: false,
        breaker: Breaker::Closed,
        owner: OwnerCheck::MaySpeak,
        is_channel_connected: true,
        mark_window: MarkWindow::default(),
        unattended_starts: Vec::new(),
        tool_tail: None,
    }
}

fn outcome_words(outcome: Outcome) -> String {
    let words = serde_json::to_value(outcome).unwrap();
    let why = words.get("why").map_or(String::new(), |why| format!(" ({})", why.as_str().unwrap()));
    format!("{}{why}", words["outcome"].as_str().unwrap())
}

pub(super) fn turn_words(turn: Turn) -> String {
    let reason = |mark: Mark| serde_json::to_value(mark.reason).unwrap().as_str().unwrap().to_owned();
    match turn {
        Turn::Queued => "queued".into(),
        Turn::Running { attempt, mark: None } => format!("running #{attempt}"),
        Turn::Running { attempt, mark: Some(_) } => format!("running #{attempt}, marked"),
        Turn::Interrupted { attempt, mark } => format!("interrupted #{attempt} {}", reason(mark)),
        Turn::Finished(outcome) => outcome_words(outcome),
    }
}

fn turn_events() -> Vec<(&'static str, TurnEvent)> {
    let of = |kind, how| TurnEvent::EndGeneration { kind, how };
    let drain = |kind, has_prompt| TurnEvent::DrainTimedOut { kind, has_prompt };
    vec![
        ("start", TurnEvent::Start),
        ("agent completed", TurnEvent::Completed { attempt: 0 }),
        ("agent failed", TurnEvent::Failed { attempt: 0, why: FailureReason::Reported }),
        ("agent gone, no prompt", TurnEvent::AgentGone { attempt: 0, had_prompt: false }),
        ("agent gone, had the prompt", TurnEvent::AgentGone { attempt: 0, had_prompt: true }),
        ("/stop", TurnEvent::Stop),
        ("message cuts in, has the prompt", TurnEvent::CutIn { has_prompt: true }),
        ("message cuts in, no prompt", TurnEvent::CutIn { has_prompt: false }),
        ("message replaces it", TurnEvent::Replace),
        ("/new, a message", of(TurnKind::Message, GenerationEnd::Asked)),
        ("/new, a notice", of(TurnKind::Notice, GenerationEnd::Asked)),
        ("moved on, a message", of(TurnKind::Message, GenerationEnd::MovedOn)),
        ("moved on, a notice", of(TurnKind::Notice, GenerationEnd::MovedOn)),
        ("drain timed out, has the prompt", drain(DrainKind::Restart, true)),
        ("drain timed out, no prompt", drain(DrainKind::Restart, false)),
        ("gateway starts", TurnEvent::GatewayStarted { is_held: false }),
        ("gateway starts, agent held", TurnEvent::GatewayStarted { is_held: true }),
    ]
}

/// The event, as if it were about this attempt.
fn about(event: TurnEvent, of: u32) -> TurnEvent {
    match event {
        TurnEvent::Completed { .. } => TurnEvent::Completed { attempt: of },
        TurnEvent::Failed { why, .. } => TurnEvent::Failed { attempt: of, why },
        TurnEvent::AgentGone { had_prompt, .. } => TurnEvent::AgentGone { attempt: of, had_prompt },
        other => other,
    }
}

fn turns() -> Vec<(Turn, u32)> {
    let marked = mark(InterruptReason::ShutdownTimeout, ago(MINUTE));
    vec![
        (Turn::Queued, 0),
        (Turn::Running { attempt: 1, mark: None }, 1),
        (Turn::Running { attempt: 2, mark: Some(marked) }, 2),
        (Turn::Running { attempt: 3, mark: Some(marked) }, 3),
        (Turn::Interrupted { attempt: 2, mark: marked }, 2),
        (Turn::Interrupted { attempt: 1, mark: mark(InterruptReason::RestartInterrupted, ago(MINUTE)) }, 1),
        (Turn::Interrupted { attempt: 1, mark: mark(InterruptReason::AgentEnded, ago(MINUTE)) }, 1),
        (Turn::Finished(Outcome::Completed), 1),
    ]
}

#[test]
fn the_whole_table_of_turns() {
    let mut table = String::new();
    for (turn, attempt) in turns() {
        // Strikes matter to what runs.
        for strikes in if matches!(turn, Turn::Running { .. }) { vec![0, 2] } else { vec![1] } {
            writeln!(table, "{}, strikes {strikes}", turn_words(turn)).unwrap();
            for (name, event) in turn_events() {
                let step = step::apply(turn, about(event, attempt), strikes, NOW);
                let of_another = step::apply(turn, about(event, attempt + 1), strikes, NOW);
                if about(event, 1) != about(event, 2) {
                    assert_eq!((of_another.turn, of_another.strikes, of_another.effects.len()), (turn, strikes, 0), "{name}");
                }
                let is_same = step.turn == turn && step.strikes == strikes && step.effects.is_empty();
                let suspends = if step.does_suspend { ", suspends" } else { "" };
                let after = if is_same {
                    "=".to_owned()
                } else {
                    format!("{:<34} strikes {}{suspends} {:?}", turn_words(step.turn), step.strikes, step.effects)
                };
                writeln!(table, "  {name:<34}{after}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}

fn standings() -> Vec<(&'static str, Conversation)> {
    let interrupted = |at| Turn::Interrupted { attempt: 1, mark: mark(InterruptReason::RestartTimeout, at) };
    let with = |rows: Vec<TurnRow>| Conversation { rows, ..conversation() };
    let suspended = |rows| Conversation { suspended_at: Some(ago(MINUTE)), strikes: 3, ..with(rows) };
    vec![
        ("active", with(vec![])),
        ("active, idle for 3 h", Conversation { last_message_at: Some(ago(3 * HOUR)), ..with(vec![]) }),
        ("active, a message queued", with(vec![row(1, TurnKind::Message, Turn::Queued)])),
        ("active, a notice queued", with(vec![row(1, TurnKind::Notice, Turn::Queued)])),
        ("active, running", with(vec![row(1, TurnKind::Message, Turn::Running { attempt: 1, mark: None })])),
        ("resume pending", with(vec![row(1, TurnKind::Message, interrupted(ago(MINUTE)))])),
        ("resume pending, about a notice", with(vec![row(1, TurnKind::Notice, interrupted(ago(MINUTE)))])),
        ("resume pending, stale", with(vec![row(1, TurnKind::Message, interrupted(ago(2 * HOUR)))])),
        (
            "resume pending, stale, a message queued",
            with(vec![row(1, TurnKind::Message, interrupted(ago(2 * HOUR))), row(2, TurnKind::Message, Turn::Queued)]),
        ),
        ("suspended", suspended(vec![])),
        (
            "suspended, a message and a notice queued, one interrupted",
            suspended(vec![
                row(1, TurnKind::Message, interrupted(ago(MINUTE))),
                row(2, TurnKind::Message, Turn::Queued),
                row(3, TurnKind::Notice, Turn::Queued),
            ]),
        ),
        ("suspended, a stale message interrupted", suspended(vec![row(1, TurnKind::Message, interrupted(ago(2 * HOUR)))])),
        ("suspended, a notice interrupted", suspended(vec![row(1, TurnKind::Notice, interrupted(ago(MINUTE)))])),
    ]
}

fn rows_words(rows: &[TurnRow]) -> String {
    let one = |row: &TurnRow| {
        let quotes = row.quotes.map_or(String::new(), |quote| format!(" quoting {}", quote.turn.0));
        format!("{} {}{quotes}", row.cause, turn_words(row.turn))
    };
    rows.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn effects_words(effects: &[Effect]) -> String {
    let one = |effect: &Effect| match effect {
        Effect::Answer { turn, .. } => format!("answer {}", turn.0),
        Effect::Refuse { message_id } => format!("refuse {message_id}"),
        Effect::Acknowledge { event_id } => format!("acknowledge {event_id}"),
        Effect::Prompt(prompt) => format!("prompt {}#{}", prompt.head.0, prompt.attempt),
        Effect::Cancel { head, attempt } => format!("cancel {}#{attempt}", head.0),
        Effect::Tell(line) => format!("tell {line:?}"),
    };
    if effects.is_empty() { "no effect".to_owned() } else { effects.iter().map(one).collect::<Vec<_>>().join(", ") }
}

fn after_words(before: &Conversation, after: &Conversation, effects: &[Effect]) -> String {
    let why = if after.generation == before.generation { String::new() } else { format!(" ({:?})", after.started_why) };
    format!(
        "{}, generation {}{why}, strikes {}\n      [{}]\n      {}",
        after.standing().word(),
        after.generation.number,
        after.strikes,
        rows_words(&after.rows),
        effects_words(effects)
    )
}

#[test]
fn the_whole_table_of_conversations() {
    let with_reset = |message: Message| Event::Message(Message { reset: facts(idle_after(120)), ..message });
    let mut table = String::new();
    for (name, before) in standings() {
        let elsewhere = LeasedNotice { generation: Some("0-0".into()), ..notice(9, &before) };
        let events = [
            ("message, no reset", Event::Message(message(9))),
            ("message, reset after 2 h idle", with_reset(message(9))),
            ("message that is known", Event::Message(Message { known_as: Some(TurnId(-1)), ..message(9) })),
            ("message, draining", Event::Message(Message { draining: Some(DrainKind::Restart), ..message(9) })),
            ("message, mode interrupt", Event::Message(message(9))),
            ("message, mode interrupt, held back", Event::Message(Message { is_held: true, ..message(9) })),
            ("message, mode interrupt, no prompt", Event::Message(Message { has_prompt: false, ..message(9) })),
            ("notice for this generation", Event::Notice(notice(9, &before))),
            ("notice for another generation", Event::Notice(elsewhere)),
            ("/stop", Event::Stop),
            ("/new", Event::New),
            ("/resume", Event::Resume),
            ("/resume 7", Event::Return { to: 7, continued_in: None }),
        ];
        writeln!(table, "{name}: [{}]", rows_words(&before.rows)).unwrap();
        for (what, event) in events {
            let mode = if what.contains("mode interrupt") { BusyMode::Interrupt } else { BusyMode::Queue };
            let before = Conversation { mode, ..before.clone() };
            let (after, effects) = apply(before.clone(), event, NOW);
            writeln!(table, "  {what}\n      {}", after_words(&before, &after, &effects)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_whole_table_of_drains_and_starts() {
    let with = |turn, strikes| Conversation { strikes, rows: vec![row(1, TurnKind::Message, turn)], ..conversation() };
    let marked = mark(InterruptReason::RestartTimeout, ago(MINUTE));
    let before = [
        ("nothing runs", Conversation { rows: vec![], ..conversation() }),
        ("queued", with(Turn::Queued, 0)),
        ("first attempt", with(Turn::Running { attempt: 1, mark: None }, 0)),
        ("second attempt", with(Turn::Running { attempt: 2, mark: Some(marked) }, 1)),
        ("third attempt, another turn succeeded in between", with(Turn::Running { attempt: 3, mark: Some(marked) }, 0)),
        ("third strike", with(Turn::Running { attempt: 1, mark: None }, 2)),
        ("interrupted", with(Turn::Interrupted { attempt: 1, mark: marked }, 1)),
    ];
    let drain = |kind, has_prompt| Event::DrainTimedOut { kind, has_prompt };
    let events = [
        ("drain before a restart timed out, has the prompt", drain(DrainKind::Restart, true)),
        ("drain before a stop timed out, has the prompt", drain(DrainKind::Shutdown, true)),
        ("drain timed out, no prompt", drain(DrainKind::Restart, false)),
        ("gateway starts", Event::GatewayStarted { is_held: false }),
        ("gateway starts, agent held", Event::GatewayStarted { is_held: true }),
    ];
    let mut table = String::new();
    for (name, before) in before {
        writeln!(table, "{name}: strikes {} [{}]", before.strikes, rows_words(&before.rows)).unwrap();
        for (what, event) in &events {
            let (after, effects) = apply(before.clone(), event.clone(), NOW);
            writeln!(table, "  {what}\n      {}", after_words(&before, &after, &effects)).unwrap();
            let Next::Start(start) = next(&after, &gates(), NOW) else { continue };
            let (_, effects) = apply(after, Event::Start(start), NOW);
            writeln!(table, "      then: {}", effects_words(&effects)).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_whole_table_of_what_starts() {
    let stale = Turn::Interrupted { attempt: 1, mark: mark(InterruptReason::RestartInterrupted, ago(2 * HOUR)) };
    let fresh = Turn::Interrupted { attempt: 1, mark: mark(InterruptReason::RestartInterrupted, ago(MINUTE)) };
    let with = |rows: Vec<TurnRow>| Conversation { rows, ..conversation() };
    let queues = [
        ("nothing", with(vec![])),
        ("person's interrupted", with(vec![row(1, TurnKind::Message, fresh)])),
        ("person's stale", with(vec![row(1, TurnKind::Message, stale)])),
        ("person's stale, message", with(vec![row(1, TurnKind::Message, stale), row(2, TurnKind::Message, Turn::Queued)])),
        ("message", with(vec![row(1, TurnKind::Message, Turn::Queued)])),
        ("notices' interrupted, notice", with(vec![row(1, TurnKind::Notice, fresh), row(2, TurnKind::Notice, Turn::Queued)])),
        ("person's stale, notice", with(vec![row(1, TurnKind::Message, stale), row(2, TurnKind::Notice, Turn::Queued)])),
        ("notices' stale, notices' interrupted", with(vec![row(1, TurnKind::Notice, stale), row(2, TurnKind::Notice, fresh)])),
        ("two notices", with(vec![row(1, TurnKind::Notice, Turn::Queued), row(2, TurnKind::Notice, Turn::Queued)])),
        ("notice, message", with(vec![row(1, TurnKind::Notice, Turn::Queued), row(2, TurnKind::Message, Turn::Queued)])),
        ("running", with(vec![row(1, TurnKind::Message, Turn::Running { attempt: 1, mark: None })])),
        ("suspended, message", Conversation { suspended_at: Some(NOW), ..with(vec![row(1, TurnKind::Message, Turn::Queued)]) }),
    ];
    let held = [
        ("open", gates()),
        ("notices due", Gates { has_notices_due: true, ..gates() }),
        ("draining", Gates { is_draining: true, has_notices_due: true, ..gates() }),
        ("agent busy", Gates { is_agent_free: false, has_notices_due: true, ..gates() }),
        ("breaker", Gates { breaker: Breaker::Open, ..gates() }),
        ("owner", Gates { owner: OwnerCheck::MayNotSpeak, ..gates() }),
        ("owner unknown", Gates { owner: OwnerCheck::Failed, ..gates() }),
        ("channel", Gates { is_channel_connected: false, ..gates() }),
        ("budget", Gates { unattended_starts: vec![ago(30_000_000); 6], ..gates() }),
        ("all, notices due", {
            let held = Gates { breaker: Breaker::Open, owner: OwnerCheck::Failed, is_channel_connected: false, ..gates() };
            Gates { has_notices_due: true, ..held }
        }),
    ];
    let mut table = String::new();
    for (name, conversation) in queues {
        for has_person_written in [false, true] {
            writeln!(table, "{name}{}", if has_person_written { ", a person wrote" } else { "" }).unwrap();
            let conversation = Conversation { has_person_written, ..conversation.clone() };
            for (what, gates) in &held {
                let said = match next(&conversation, gates, NOW) {
                    Next::Start(Start { rows, note, is_unattended, .. }) => {
                        let rows: Vec<i64> = rows.into_iter().map(|row| row.0).collect();
                        let note = if note.is_some() { ", note" } else { "" };
                        format!("start {rows:?}{note}{}", if is_unattended { ", unattended" } else { "" })
                    }
                    other => format!("{other:?}"),
                };
                writeln!(table, "  {what:<18}{said}").unwrap();
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_whole_table_of_notes() {
    let plain = row(7, TurnKind::Message, Turn::Queued);
    let interrupted = |reason| row(7, TurnKind::Message, Turn::Interrupted { attempt: 1, mark: mark(reason, ago(MINUTE)) });
    let quote = Quote { turn: TurnId(3), mark: mark(InterruptReason::RestartTimeout, ago(MINUTE)) };
    let tail = |at| ToolTail { tool: Some("terminal".into()), at };
    let cases = [
        ("restart", interrupted(InterruptReason::RestartTimeout), None, true),
        ("restart, no person", interrupted(InterruptReason::RestartTimeout), None, false),
        ("shutdown", interrupted(InterruptReason::ShutdownTimeout), None, true),
        ("interruption", interrupted(InterruptReason::RestartInterrupted), None, true),
        ("agent ended", interrupted(InterruptReason::AgentEnded), None, true),
        ("interrupted, and a tool call is open", interrupted(InterruptReason::RestartTimeout), Some(tail(Some(NOW))), true),
        (
            "interrupted, and quotes an older one",
            TurnRow { quotes: Some(quote), ..interrupted(InterruptReason::RestartInterrupted) },
            None,
            true,
        ),
        ("replaces an interrupted message", TurnRow { quotes: Some(quote), ..plain.clone() }, None, true),
        ("replaces one, and a tool call is open", TurnRow { quotes: Some(quote), ..plain.clone() }, Some(tail(Some(NOW))), true),
        ("tool call open for 1 h", plain.clone(), Some(tail(Some(ago(HOUR)))), true),
        ("tool call open for more than 1 h", plain.clone(), Some(tail(Some(ago(HOUR + 1)))), true),
        ("tool call open, time and tool unknown", plain.clone(), Some(ToolTail { tool: None, at: None }), true),
        ("nothing happened", plain, None, true),
    ];
    let mut table = String::new();
    for (name, row, tail, is_present) in cases {
        let note = note(&row, tail.as_ref(), is_present, MarkWindow::default(), NOW);
        let words = note.as_ref().and_then(Note::quoted_turn).map(|_| "Deploy it,\nplease.");
        let text = note.map_or("(no note)".to_owned(), |note| note.text(words));
        writeln!(table, "## {name}\n{text}\n").unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn every_line_that_a_person_reads() {
    let drains = [DrainKind::Restart, DrainKind::Shutdown];
    let failures = [
        FailureReason::Reported,
        FailureReason::CancelledItself,
        FailureReason::TimedOut,
        FailureReason::Garbled,
        FailureReason::CannotStart,
        FailureReason::KilledAtStart,
        FailureReason::AgentEnded,
    ];
    let obsolete = [ObsoleteReason::EarlierGeneration, ObsoleteReason::GenerationEnded, ObsoleteReason::LeasedTooOften];
    let waits = [WaitReason::Suspended, WaitReason::Age, WaitReason::Breaker, WaitReason::Owner, WaitReason::Channel];
    let mut lines: Vec<Line> = drains.into_iter().flat_map(|kind| [Line::Banner(kind), Line::KeptWhileDraining(kind)]).collect();
    lines.extend([Line::KeptWhileHeld(1), Line::KeptWhileHeld(60)]);
    lines.extend([Line::ResumedAfterRestart, Line::ResumedAfterInterruption, Line::AgentEndedRetrying]);
    lines.extend(failures.map(Line::Failed));
    lines.extend([
        Line::GaveUp,
        Line::Suspended,
        Line::StartedAnew(1),
        Line::Reset(ResetReason::Idle, 1),
        Line::Reset(ResetReason::Daily, 1),
    ]);
    lines.extend([Line::ResumeExpired(1), Line::TooOldToQuote, Line::NewConversation, Line::Stopped]);
    lines.extend([Line::WaitingCancelled(1), Line::WaitingCancelled(2), Line::NothingToStop]);
    lines.extend([Line::Continued, Line::Returned(1), Line::ReturnedLater(1, 3), Line::NothingToResume]);
    lines.extend(obsolete.map(|why| Line::NoticesObsolete(why, 1)));
    lines.push(Line::NoticesObsolete(ObsoleteReason::GenerationEnded, 3));
    lines.extend(waits.map(Line::Waiting));
    let table: String = lines.iter().map(|line| format!("{line:?}\n    {line}\n")).collect();
    insta::assert_snapshot!(table);
}
