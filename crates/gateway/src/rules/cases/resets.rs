use std::time::Duration;

use outlast_core::Time;

use crate::rules::change::{apply, *};
use crate::rules::conversation::*;
use crate::rules::key::ChatType;
use crate::rules::reset::*;
use crate::rules::tables::*;
use crate::rules::text::Line;
use crate::rules::turn::*;

fn at(text: &str) -> Time {
    text.parse().unwrap()
}

fn daily(hour: u8) -> ResetPolicy {
    ResetPolicy { mode: ResetMode::Daily { at_hour: hour }, ..ResetPolicy::OFF }
}

fn pending(at: Time) -> Conversation {
    let turn = Turn::Interrupted { attempt: 1, mark: mark(InterruptReason::RestartTimeout, at) };
    Conversation { rows: vec![row(1, TurnKind::Notice, turn)], ..conversation() }
}

fn write(to: Conversation, reset: ResetFacts, mark_window: MarkWindow) -> (Conversation, Vec<Effect>) {
    apply(to, Event::Message(Message { reset, mark_window, ..message(9) }), NOW)
}

#[test]
fn case_031_a_fresh_mark_keeps_the_conversation_whatever_is_idle() {
    let idle = Conversation { last_message_at: Some(ago(50 * HOUR)), ..pending(ago(MINUTE)) };
    let (after, _) = write(idle, facts(idle_after(120)), MarkWindow::default());
    assert_eq!((after.generation.number, after.standing().word()), (1, "resume_pending"));
}

#[test]
fn case_032_a_stale_mark_starts_a_new_generation() {
    let (after, _) = write(pending(ago(HOUR + 1)), facts(idle_after(1_000_000)), MarkWindow::default());
    assert_eq!((after.generation.number, after.started_why), (2, StartedWhy::ResumeExpired));
    let (after, _) = write(pending(ago(HOUR)), facts(idle_after(1_000_000)), MarkWindow::default());
    assert_eq!(after.generation.number, 1, "a mark that is exactly as old as the window is fresh");
}

#[test]
fn case_033_and_034_without_resets_or_without_a_window_it_is_kept() {
    let (after, _) = write(pending(ago(50 * HOUR)), facts(ResetPolicy::OFF), MarkWindow::default());
    assert_eq!((after.generation.number, after.standing().word()), (1, "resume_pending"));
    let (after, _) = write(pending(ago(50 * HOUR)), facts(idle_after(120)), MarkWindow(Duration::ZERO));
    assert_eq!((after.generation.number, after.standing().word()), (1, "resume_pending"));
}

#[test]
fn case_036_and_037_and_038_idle_and_daily() {
    let last = |text| Some(at(text));
    let idle = facts(idle_after(120));
    assert_eq!(due(&idle, last("2026-01-01T00:00:00Z"), at("2026-01-01T02:01:00Z")), Some(ResetReason::Idle));
    assert_eq!(due(&idle, last("2026-01-01T00:00:00Z"), at("2026-01-01T02:00:00Z")), None);
    let at_four = facts(daily(4));
    assert_eq!(due(&at_four, last("2026-01-01T23:00:00Z"), at("2026-01-02T09:00:00Z")), Some(ResetReason::Daily));
    assert_eq!(due(&at_four, last("2026-01-01T05:00:00Z"), at("2026-01-02T03:59:00Z")), None);
    assert_eq!(due(&at_four, last("2026-01-01T05:00:00Z"), at("2026-01-02T04:00:00Z")), Some(ResetReason::Daily));
    // Two hours ahead of UTC, four o'clock is at 02:00 UTC.
    let east = ResetFacts { utc_offset_seconds: 7200, ..at_four };
    assert_eq!(due(&east, last("2026-01-01T05:00:00Z"), at("2026-01-02T02:00:00Z")), Some(ResetReason::Daily));
    assert_eq!(due(&east, last("2026-01-01T05:00:00Z"), at("2026-01-02T01:59:59Z")), None);
    assert_eq!(due(&idle, None, NOW), None, "a generation without a message cannot be idle");
}

#[test]
fn case_039_idle_names_the_reason_if_both_are_due() {
    let both = ResetPolicy { mode: ResetMode::Both { after: Duration::from_secs(7200), at_hour: 4 }, ..ResetPolicy::OFF };
    assert_eq!(due(&facts(both), Some(ago(50 * HOUR)), NOW), Some(ResetReason::Idle));
    let both = ResetPolicy { mode: ResetMode::Both { after: Duration::from_secs(720_000), at_hour: 4 }, ..both };
    assert_eq!(due(&facts(both), Some(ago(50 * HOUR)), NOW), Some(ResetReason::Daily));
}

#[test]
fn case_040_a_conversation_without_history_is_reset_without_a_word() {
    let idle = || Conversation { last_message_at: Some(ago(3 * HOUR)), ..conversation() };
    let (after, effects) = write(idle(), facts(idle_after(120)), MarkWindow::default());
    assert_eq!(after.started_why, StartedWhy::Idle);
    assert!(effects.contains(&Effect::Tell(Line::Reset(ResetReason::Idle, 1))));
    for quiet in
        [ResetFacts { has_history: false, ..facts(idle_after(120)) }, facts(ResetPolicy { should_notify: false, ..idle_after(120) })]
    {
        let (after, effects) = write(idle(), quiet, MarkWindow::default());
        assert_eq!((after.generation.number, effects.len()), (2, 1), "{effects:?}");
    }
}

#[test]
fn case_042_to_045_a_young_process_protects() {
    let hours = |n: u64| LiveProcesses::Youngest(Duration::from_secs(n * 3600));
    let with = |processes| ResetFacts { processes, ..facts(idle_after(120)) };
    let idle = Some(ago(3 * HOUR));
    assert_eq!(due(&with(LiveProcesses::Youngest(Duration::from_secs(600))), idle, NOW), None);
    assert_eq!(due(&with(hours(25)), idle, NOW), Some(ResetReason::Idle));
    assert_eq!(due(&with(hours(24)), idle, NOW), Some(ResetReason::Idle), "strictly younger protects");
    let any_age = ResetPolicy { protection_age: Duration::ZERO, ..idle_after(120) };
    assert_eq!(due(&ResetFacts { policy: any_age, ..with(hours(10_000)) }, idle, NOW), None);
    assert_eq!(due(&ResetFacts { policy: any_age, ..with(LiveProcesses::None) }, idle, NOW), Some(ResetReason::Idle));
    assert_eq!(due(&with(LiveProcesses::Unknown), idle, NOW), None, "what cannot be looked up is not thrown away");
}

#[test]
fn case_050_only_a_message_performs_a_reset() {
    let idle = Conversation { last_message_at: Some(ago(300 * HOUR)), ..conversation() };
    let (after, _) = apply(idle.clone(), Event::Notice(notice(9, &idle)), NOW);
    assert_eq!(after.generation, idle.generation);
}

#[test]
fn case_206_notices_do_not_move_the_clock() {
    let before = conversation();
    let (after, _) = apply(before.clone(), Event::Notice(notice(9, &before)), NOW);
    assert_eq!((after.last_message_at, after.has_person_written), (before.last_message_at, false));
}

#[test]
fn a_platform_comes_before_a_chat_type_and_a_local_chat_is_reset_only_if_its_platform_is_named() {
    let mut policies = ResetPolicies { default: idle_after(1), ..ResetPolicies::default() };
    policies.by_chat_type.insert(ChatType::Group, idle_after(2));
    policies.by_platform.insert("telegram".into(), idle_after(3));
    assert_eq!(policies.of("local", ChatType::Group), ResetPolicy::OFF);
    policies.by_platform.insert("local".into(), idle_after(4));
    assert_eq!(policies.of("signal", ChatType::Dm), idle_after(1));
    assert_eq!(policies.of("signal", ChatType::Group), idle_after(2));
    assert_eq!(policies.of("telegram", ChatType::Group), idle_after(3));
    assert_eq!(policies.of("local", ChatType::Dm), idle_after(4));
}
