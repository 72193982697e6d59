use outlast_core::Time;

use crate::rules::breaker::Breaker;
use crate::rules::change::{apply, *};
use crate::rules::conversation::*;
use crate::rules::queue::*;
use crate::rules::tables::*;
use crate::rules::turn::*;

fn interrupted(reason: InterruptReason, at: Time) -> Conversation {
    let turn = Turn::Interrupted { attempt: 1, mark: mark(reason, at) };
    Conversation { rows: vec![row(1, TurnKind::Message, turn)], ..conversation() }
}

fn cut() -> Conversation {
    interrupted(InterruptReason::RestartTimeout, ago(MINUTE))
}

fn heads(next: &Next) -> Option<Vec<i64>> {
    match next {
        Next::Start(start) => Some(start.rows.iter().map(|row| row.0).collect()),
        Next::TakeNotices | Next::WaitUntil(_) | Next::WaitForPerson(_) | Next::Nothing => None,
    }
}

#[test]
fn case_028_a_message_keeps_the_generation_and_the_mark_of_a_notice() {
    let mut before = cut();
    before.rows[0].cause = Cause::Notice("evt_1".into());
    let (after, _) = apply(before.clone(), Event::Message(message(2)), NOW);
    assert_eq!((after.generation, after.standing()), (before.generation, before.standing()));
}

#[test]
fn case_120_and_121_a_fresh_mark_is_resumed_once_whatever_its_reason() {
    for reason in [InterruptReason::RestartTimeout, InterruptReason::ShutdownTimeout, InterruptReason::RestartInterrupted] {
        let before = interrupted(reason, ago(MINUTE));
        let Next::Start(start) = next(&before, &gates(), NOW) else { panic!() };
        let (after, effects) = apply(before, Event::Start(start.clone()), NOW);
        let prompts: Vec<_> = effects.iter().filter(|effect| matches!(effect, Effect::Prompt(_))).collect();
        assert_eq!(prompts.len(), 1);
        assert_eq!(next(&after, &gates(), NOW), Next::Nothing);
        assert_eq!(apply(after.clone(), Event::Start(start), NOW), (after, vec![]), "it cannot be started twice");
    }
}

#[test]
fn case_122_a_stale_mark_waits_for_a_person_and_is_kept() {
    let stale = interrupted(InterruptReason::RestartTimeout, ago(HOUR + 1));
    assert_eq!(next(&stale, &gates(), NOW), Next::WaitForPerson(WaitReason::Age));
    let (after, _) = apply(stale, Event::Resume, NOW);
    assert_eq!(heads(&next(&after, &gates(), NOW)), Some(vec![1]));
}

#[test]
fn case_123_and_127_without_a_way_to_the_person_nothing_is_resumed() {
    let suspended = Conversation { suspended_at: Some(NOW), ..cut() };
    assert_eq!(next(&suspended, &gates(), NOW), Next::WaitForPerson(WaitReason::Suspended));
    let down = Gates { is_channel_connected: false, ..gates() };
    assert_eq!(next(&cut(), &down, NOW), Next::WaitForPerson(WaitReason::Channel));
}

#[test]
fn case_126_and_202_a_removed_owner_or_a_failed_check_holds_back_what_is_unattended() {
    let notice = Conversation { rows: vec![row(1, TurnKind::Notice, Turn::Queued)], ..conversation() };
    for owner in [OwnerCheck::MayNotSpeak, OwnerCheck::Failed] {
        for held in [&cut(), &notice] {
            assert_eq!(next(held, &Gates { owner, ..gates() }, NOW), Next::WaitForPerson(WaitReason::Owner));
        }
    }
}

#[test]
fn case_128_and_129_a_message_queues_behind_the_turn_that_was_resumed() {
    let Next::Start(start) = next(&cut(), &gates(), NOW) else { panic!() };
    let (running, _) = apply(cut(), Event::Start(start), NOW);
    let (after, _) = apply(running, Event::Message(message(2)), NOW);
    assert_eq!(next(&after, &gates(), NOW), Next::Nothing);
    assert_eq!(after.queued(TurnKind::Message).count(), 1);
}

#[test]
fn case_076_people_pass_an_open_breaker() {
    let open = Gates { breaker: Breaker::Open, ..gates() };
    assert_eq!(next(&cut(), &open, NOW), Next::WaitForPerson(WaitReason::Breaker));
    let mut queued = cut();
    queued.rows.push(row(2, TurnKind::Message, Turn::Queued));
    assert_eq!(heads(&next(&queued, &open, NOW)), Some(vec![1]));
    let fresh = Conversation { rows: vec![row(1, TurnKind::Notice, Turn::Queued)], ..conversation() };
    assert_eq!(heads(&next(&fresh, &open, NOW)), Some(vec![1]), "new notices pass, too");
}

#[test]
fn a_message_does_not_wait_behind_a_turn_that_is_held_back() {
    let mut queued = cut();
    queued.rows.push(row(2, TurnKind::Message, Turn::Queued));
    let held = Gates { owner: OwnerCheck::MayNotSpeak, ..gates() };
    assert_eq!(heads(&next(&queued, &held, NOW)), Some(vec![2]));
}

#[test]
fn case_164_a_known_cause_gets_the_same_answer_and_no_second_turn() {
    let (once, first) = apply(conversation(), Event::Message(message(5)), NOW);
    let again = Message { turn: TurnId(6), ..message(5) };
    assert_eq!(apply(once.clone(), Event::Message(again.clone()), NOW), (once.clone(), first.clone()));
    // Finished long ago and no longer in memory.
    let known = Message { known_as: Some(TurnId(5)), ..again };
    let (after, answer) = apply(conversation(), Event::Message(known), NOW);
    assert_eq!((after, answer), (conversation(), first));
    let (once, first) = apply(conversation(), Event::Notice(notice(5, &conversation())), NOW);
    assert_eq!(apply(once.clone(), Event::Notice(notice(5, &once)), NOW), (once, first));
}

#[test]
fn case_168_and_170_notices_wait_for_the_turn_and_none_is_lost() {
    for mode in [BusyMode::Queue, BusyMode::Interrupt] {
        let rows = vec![row(1, TurnKind::Message, Turn::Running { attempt: 1, mark: None })];
        let busy = Conversation { mode, rows, ..conversation() };
        let (one, _) = apply(busy.clone(), Event::Notice(notice(2, &busy)), NOW);
        let (two, _) = apply(one, Event::Notice(notice(3, &busy)), NOW);
        assert_eq!(two.running().unwrap().id, TurnId(1));
        let (done, _) = apply(two, Event::Agent { head: TurnId(1), attempt: 1, report: AgentReport::Completed }, NOW);
        assert_eq!(heads(&next(&done, &gates(), NOW)), Some(vec![2, 3]));
    }
}

#[test]
fn case_169_notices_never_join_the_words_of_a_person() {
    let rows =
        vec![row(1, TurnKind::Notice, Turn::Queued), row(2, TurnKind::Message, Turn::Queued), row(3, TurnKind::Notice, Turn::Queued)];
    let both = Conversation { rows, ..conversation() };
    assert_eq!(heads(&next(&both, &gates(), NOW)), Some(vec![2]));
}

#[test]
fn case_172_a_notice_of_an_earlier_generation_starts_nothing() {
    let before = conversation();
    let (new, _) = apply(before.clone(), Event::New, NOW);
    let (after, effects) = apply(new, Event::Notice(notice(9, &before)), NOW);
    let why = ObsoleteReason::EarlierGeneration;
    assert_eq!(after.rows[0].turn, Turn::Finished(Outcome::Obsolete { why }));
    assert!(effects.contains(&Effect::Acknowledge { event_id: "evt_9".into() }));
    assert_eq!(next(&after, &gates(), NOW), Next::Nothing);
}

#[test]
fn case_176_forty_notices_make_two_turns_and_a_budget_bounds_the_rest() {
    let rows = (1..=40).map(|id| row(id, TurnKind::Notice, Turn::Queued)).collect();
    let many = Conversation { rows, ..conversation() };
    assert_eq!(heads(&next(&many, &gates(), NOW)).unwrap().len(), MAX_NOTICES_PER_TURN);
    let spent = |starts: Vec<Time>| next(&many, &Gates { unattended_starts: starts, ..gates() }, NOW);
    let second = 1_000_000;
    assert!(heads(&spent(vec![ago(second); 5])).is_some());
    assert_eq!(spent(vec![ago(second); 6]), Next::WaitUntil(ago(-59 * second)));
    assert!(heads(&spent(vec![ago(60 * second); 6])).is_some());
    assert_eq!(spent(vec![ago(23 * HOUR); 200]), Next::WaitUntil(ago(-HOUR)));
    assert!(heads(&spent(vec![ago(-HOUR); 200])).is_some(), "starts ahead of the clock do not count");
}

#[test]
fn several_notices_move_together() {
    let rows = (1..=3).map(|id| row(id, TurnKind::Notice, Turn::Queued)).collect();
    let three = Conversation { rows, ..conversation() };
    let Next::Start(start) = next(&three, &gates(), NOW) else { panic!() };
    let (running, _) = apply(three.clone(), Event::Start(start), NOW);
    assert!(running.rows.iter().all(|row| row.head == TurnId(1) && row.turn == Turn::Running { attempt: 1, mark: None }));
    let (cut, _) = apply(running.clone(), Event::GatewayStarted { is_held: false }, NOW);
    let Next::Start(again) = next(&cut, &gates(), NOW) else { panic!() };
    assert_eq!(again.rows, [TurnId(1), TurnId(2), TurnId(3)]);
    // Without its prompt the turn is undone, so the notices may be put together anew.
    let drain = Event::DrainTimedOut { kind: DrainKind::Restart, has_prompt: false };
    let (back, _) = apply(running, drain, NOW);
    assert_eq!(back.rows.iter().map(|row| row.head).collect::<Vec<_>>(), [TurnId(1), TurnId(2), TurnId(3)]);
}

#[test]
fn queues_have_bounds() {
    let rows = (1..=MAX_QUEUED_MESSAGES as i64).map(|id| row(id, TurnKind::Message, Turn::Queued)).collect();
    let full = Conversation { rows, ..conversation() };
    let (after, effects) = apply(full.clone(), Event::Message(message(9999)), NOW);
    assert_eq!((after, effects), (full.clone(), vec![Effect::Refuse { message_id: "m9999".into() }]));
    let (_, effects) = apply(full, Event::Message(message(7)), NOW);
    assert_eq!(effects, [Effect::Answer { message_id: "m7".into(), turn: TurnId(7) }], "what is known is not refused");

    let due = Gates { has_notices_due: true, ..gates() };
    let waiting = |count: usize| {
        let rows = (1..=count as i64).map(|id| row(id, TurnKind::Notice, Turn::Queued)).collect();
        next(&Conversation { rows, suspended_at: Some(NOW), ..conversation() }, &due, NOW)
    };
    assert_eq!(waiting(MAX_QUEUED_NOTICES - 1), Next::TakeNotices);
    assert_eq!(waiting(MAX_QUEUED_NOTICES), Next::WaitForPerson(WaitReason::Suspended));
}

#[test]
fn a_notice_that_was_leased_too_often_is_recorded_and_not_started() {
    let lease = |leases| LeasedNotice { leases, ..notice(9, &conversation()) };
    let after = |leases| apply(conversation(), Event::Notice(lease(leases)), NOW).0.rows[0].turn;
    assert_eq!(after(MAX_NOTICE_LEASES), Turn::Queued);
    let why = ObsoleteReason::LeasedTooOften;
    assert_eq!(after(MAX_NOTICE_LEASES + 1), Turn::Finished(Outcome::Obsolete { why }));
}
