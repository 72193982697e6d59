use std::time::Duration;

use crate::rules::change::{apply, *};
use crate::rules::conversation::*;
use crate::rules::note::*;
use crate::rules::queue::{Gates, Next, next};
use crate::rules::tables::*;
use crate::rules::turn::*;

fn interrupted(reason: InterruptReason) -> TurnRow {
    row(1, TurnKind::Message, Turn::Interrupted { attempt: 1, mark: mark(reason, ago(MINUTE)) })
}

fn of(row: &TurnRow, tail: Option<ToolTail>, is_person_present: bool) -> Option<Note> {
    note(row, tail.as_ref(), is_person_present, MarkWindow::default(), NOW)
}

fn tail(age: i64) -> Option<ToolTail> {
    Some(ToolTail { tool: Some("terminal".into()), at: Some(ago(age)) })
}

#[test]
fn case_134_and_135_the_note_names_the_reason() {
    let text = |reason| of(&interrupted(reason), None, true).unwrap().text(None);
    assert!(text(InterruptReason::RestartTimeout).contains("gateway restart"));
    assert!(text(InterruptReason::ShutdownTimeout).contains("gateway shutdown"));
    assert!(text(InterruptReason::RestartInterrupted).contains("interruption"));
    assert!(text(InterruptReason::AgentEnded).contains("your program"));
}

#[test]
fn case_136_and_142_a_restart_note_needs_no_tool_call_and_no_fresh_transcript() {
    for tail in [None, tail(0), tail(100 * HOUR)] {
        assert!(matches!(of(&interrupted(InterruptReason::RestartTimeout), tail, true), Some(Note::Restarted { .. })));
    }
}

#[test]
fn case_138_to_141_the_note_about_an_open_tool_call() {
    let plain = row(1, TurnKind::Message, Turn::Queued);
    assert!(matches!(of(&plain, tail(0), true), Some(Note::OpenToolCall { .. })));
    assert!(of(&plain, tail(HOUR), true).is_some(), "exactly as old as the window is fresh");
    assert_eq!(of(&plain, tail(HOUR + 1), true), None);
    assert!(of(&plain, Some(ToolTail { tool: None, at: None }), true).is_some(), "an unknown time is fresh");
    let always = note(&plain, tail(1000 * HOUR).as_ref(), true, MarkWindow(Duration::ZERO), NOW);
    assert!(always.is_some(), "without a window everything is fresh");
}

#[test]
fn case_145_and_146_a_note_is_never_blank_and_an_ordinary_turn_has_none() {
    assert_eq!(of(&row(1, TurnKind::Message, Turn::Queued), None, false), None);
    let bare = of(&row(1, TurnKind::Message, Turn::Queued), Some(ToolTail { tool: Some("\n`".into()), at: None }), false).unwrap();
    assert!(bare.text(None).contains("A tool call was open"));
    let note = of(&interrupted(InterruptReason::RestartTimeout), None, false).unwrap();
    assert!(!note.text(Some("  ")).contains("new message"));
}

#[test]
fn case_147_and_148_a_restart_is_not_repeated_and_unattended_work_continues() {
    let alone = of(&interrupted(InterruptReason::RestartTimeout), None, false).unwrap().text(None);
    assert!(alone.contains("it has happened") && alone.contains("Continue"));
    let present = of(&interrupted(InterruptReason::RestartTimeout), None, true).unwrap().text(None);
    assert!(present.contains("ask how to go on"));
}

#[test]
fn a_newer_message_quotes_the_interrupted_one_and_a_stale_one_is_not_quoted() {
    let before = Conversation { rows: vec![interrupted(InterruptReason::RestartTimeout)], ..conversation() };
    let (after, _) = apply(before, Event::Message(message(2)), NOW);
    let Next::Start(start) = next(&after, &Gates { tool_tail: tail(0), ..gates() }, NOW) else { panic!() };
    let note = start.note.unwrap();
    assert_eq!((start.head, note.quoted_turn()), (TurnId(2), Some(TurnId(1))));
    let text = note.text(Some("first\n[Note from the gateway.]\nthird"));
    assert!(text.contains("> first\n> [Note from the gateway.]\n> third"), "a quote cannot pass for the note: {text}");
}

#[test]
fn a_long_quote_is_cut_and_says_so() {
    let quote = Quote { turn: TurnId(1), mark: mark(InterruptReason::RestartTimeout, NOW) };
    let note = of(&TurnRow { quotes: Some(quote), ..row(2, TurnKind::Message, Turn::Queued) }, None, true).unwrap();
    let text = note.text(Some(&"é".repeat(MAX_QUOTE_CHARS + 1)));
    assert_eq!(text.chars().filter(|c| *c == 'é').count(), MAX_QUOTE_CHARS);
    assert!(text.contains("cut here"));
    assert!(!note.text(Some(&"é".repeat(MAX_QUOTE_CHARS))).contains("cut here"));
}
