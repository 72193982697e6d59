use crate::rules::breaker::{Breaker, RunStart, judge};
use crate::rules::change::{apply, *};
use crate::rules::conversation::*;
use crate::rules::queue::{Next, next};
use crate::rules::tables::*;
use crate::rules::text::Line;
use crate::rules::turn::*;

fn running() -> Conversation {
    Conversation { rows: vec![row(1, TurnKind::Message, Turn::Running { attempt: 1, mark: None })], ..conversation() }
}

fn drain(of: Conversation, kind: DrainKind, has_prompt: bool) -> Conversation {
    apply(of, Event::DrainTimedOut { kind, has_prompt }, NOW).0
}

fn crash(of: Conversation) -> Conversation {
    apply(of, Event::GatewayStarted { is_held: false }, NOW).0
}

fn start(of: Conversation) -> Conversation {
    let Next::Start(start) = next(&of, &gates(), NOW) else { panic!("nothing starts: {of:?}") };
    apply(of, Event::Start(start), NOW).0
}

fn complete(of: Conversation) -> Conversation {
    let running = of.running().unwrap();
    let Turn::Running { attempt, .. } = running.turn else { unreachable!() };
    let event = Event::Agent { head: running.id, attempt, report: AgentReport::Completed };
    apply(of, event, NOW).0
}

fn pending(reason: InterruptReason) -> Standing {
    Standing::ResumePending { reason, at: NOW }
}

#[test]
fn case_014_a_new_conversation_has_no_mark() {
    assert_eq!(Conversation::first(BusyMode::Queue, NOW).standing(), Standing::Active);
}

#[test]
fn case_021_and_022_and_084_a_mark_has_reason_and_time() {
    assert_eq!(drain(running(), DrainKind::Restart, true).standing(), pending(InterruptReason::RestartTimeout));
    assert_eq!(drain(running(), DrainKind::Shutdown, true).standing(), pending(InterruptReason::ShutdownTimeout));
}

#[test]
fn case_024_a_suspended_conversation_is_not_marked() {
    let suspended = drain(Conversation { strikes: 2, ..running() }, DrainKind::Restart, true);
    assert_eq!(suspended.standing(), Standing::Suspended { at: NOW });
    assert!(suspended.interrupted(TurnKind::Message).is_none());
    assert_eq!(drain(suspended.clone(), DrainKind::Restart, true), suspended);
}

#[test]
fn case_025_and_026_only_a_completed_turn_clears_the_mark() {
    let done = complete(start(drain(running(), DrainKind::Restart, true)));
    assert_eq!(done.standing(), Standing::Active);
    let marked = drain(running(), DrainKind::Restart, true);
    let late = |report| apply(marked.clone(), Event::Agent { head: TurnId(1), attempt: 1, report }, NOW).0;
    for report in [AgentReport::Failed { why: FailureReason::CancelledItself }, AgentReport::Gone { had_prompt: true }] {
        assert_eq!(late(report), marked, "the answer to a cancel is no end");
    }
    assert_eq!(late(AgentReport::Completed).standing(), Standing::Active);
}

#[test]
fn case_055_to_058_a_crash_interrupts_what_ran_and_nothing_else() {
    // The journal alone says what ran; how long ago it started does not matter.
    let crashed = crash(Conversation { last_message_at: Some(ago(50 * HOUR)), ..running() });
    assert_eq!(crashed.standing(), pending(InterruptReason::RestartInterrupted));
    assert_eq!(crash(crashed.clone()), crashed, "the next start counts nothing twice");
    assert_eq!(crash(conversation()).standing(), Standing::Active);
}

#[test]
fn case_061_and_062_and_064_strikes_are_per_conversation_and_three_suspend() {
    let first = drain(running(), DrainKind::Restart, true);
    let second = drain(start(first.clone()), DrainKind::Restart, true);
    let third = drain(start(second.clone()), DrainKind::Restart, true);
    assert_eq!((first.strikes, second.strikes, third.strikes), (1, 2, 3));
    assert_eq!((second.standing().word(), third.standing().word()), ("resume_pending", "suspended"));
}

#[test]
fn case_066_a_start_keeps_the_strikes() {
    let two = Conversation { strikes: 2, rows: vec![], ..running() };
    assert_eq!(crash(two).strikes, 2);
}

#[test]
fn case_030_and_067_suspended_comes_before_a_mark() {
    let both = Conversation { suspended_at: Some(NOW), strikes: 3, ..drain(running(), DrainKind::Restart, true) };
    let (after, _) = apply(both, Event::Message(message(9)), NOW);
    assert_eq!((after.generation.number, after.started_why), (2, StartedWhy::Suspended));
}

#[test]
fn case_068_a_success_clears_strikes_and_mark() {
    let twice = drain(start(drain(running(), DrainKind::Restart, true)), DrainKind::Restart, true);
    assert_eq!(twice.strikes, 2);
    let done = complete(start(twice));
    assert_eq!((done.strikes, done.standing()), (0, Standing::Active));
}

#[test]
fn case_072_and_074_three_crashes_in_a_row_suspend() {
    let crashed = crash(start(crash(start(crash(running())))));
    assert_eq!(crashed.standing().word(), "suspended");
    assert_eq!(crashed.rows[0].turn, Turn::Finished(Outcome::GaveUp));
}

#[test]
fn case_073_and_085_and_090_a_turn_that_finished_in_time_gets_no_strike() {
    let done = complete(running());
    assert_eq!(drain(done.clone(), DrainKind::Restart, true), done);
}

#[test]
fn case_076_to_080_the_breaker() {
    let starts = |seconds: &[i64]| -> Vec<RunStart> {
        let one = |s: &i64| RunStart { at: ago(-s * 1_000_000), has_found_interrupted: true };
        seconds.iter().map(one).collect()
    };
    assert_eq!(judge(&starts(&[0, 300, 600])), Breaker::Open);
    assert_eq!(judge(&starts(&[0, 150, 300])), Breaker::Open);
    assert_eq!(judge(&starts(&[0, 301, 600])), Breaker::Closed);
    assert_eq!(judge(&starts(&[0, 300])), Breaker::Closed);
    assert_eq!(judge(&[]), Breaker::Closed);
    assert_eq!(judge(&starts(&[5_000, 10, 20])), Breaker::Closed, "the clock was stepped back");
    assert_eq!(judge(&starts(&[0, 1, 2, 1_000, 1_001, 1_002])), Breaker::Open, "only the last three count");
    let mut clean = starts(&[0, 1, 2]);
    clean[1].has_found_interrupted = false;
    assert_eq!(judge(&clean), Breaker::Closed);
}

#[test]
fn case_086_and_087_a_turn_without_its_prompt_is_not_marked() {
    let back = drain(running(), DrainKind::Restart, false);
    assert_eq!((back.standing(), back.strikes, back.rows[0].turn), (Standing::Active, 0, Turn::Queued));
    // It goes back to the mark it had, not to the queue.
    let again = start(drain(running(), DrainKind::Shutdown, true));
    let back = drain(again, DrainKind::Restart, false);
    assert_eq!(back.standing(), pending(InterruptReason::ShutdownTimeout));
}

#[test]
fn case_088_a_drain_that_is_killed_leaves_the_journal_to_say_what_ran() {
    assert_eq!(crash(running()).standing(), pending(InterruptReason::RestartInterrupted));
}

#[test]
fn case_109_and_110_and_111_a_message_during_a_drain_is_kept() {
    for mode in [BusyMode::Queue, BusyMode::Interrupt] {
        let during = Message { draining: Some(DrainKind::Restart), ..message(2) };
        let (after, effects) = apply(Conversation { mode, ..running() }, Event::Message(during), NOW);
        assert!(after.running().is_some(), "the turn is not interrupted for what cannot start");
        assert!(effects.contains(&Effect::Tell(Line::KeptWhileDraining(DrainKind::Restart))));
        let back = crash(complete(after));
        let Next::Start(start) = next(&back, &gates(), NOW) else { panic!() };
        assert_eq!(start.head, TurnId(2));
    }
}

#[test]
fn case_112_the_banner_promises_to_try() {
    for kind in [DrainKind::Restart, DrainKind::Shutdown] {
        assert!(Line::Banner(kind).to_string().contains("I'll try to resume"));
    }
    assert!(Line::Banner(DrainKind::Restart).to_string().contains("restarting"));
}

#[test]
fn a_held_agent_works_on_and_costs_a_strike() {
    let held = |of| apply(of, Event::GatewayStarted { is_held: true }, NOW);
    let (once, effects) = held(running());
    assert_eq!((once.rows[0].turn, once.strikes, effects.len()), (running().rows[0].turn, 1, 0));
    let (thrice, effects) = held(held(once).0);
    assert_eq!(thrice.standing().word(), "suspended");
    assert!(effects.contains(&Effect::Cancel { head: TurnId(1), attempt: 1 }), "its agent is stopped");
}

#[test]
fn an_agent_that_dies_is_tried_once_more() {
    let gone = |of: Conversation, attempt| {
        let report = AgentReport::Gone { had_prompt: true };
        apply(of, Event::Agent { head: TurnId(1), attempt, report }, NOW)
    };
    let (once, effects) = gone(running(), 1);
    assert_eq!(once.standing(), pending(InterruptReason::AgentEnded));
    assert_eq!(effects, [Effect::Tell(Line::AgentEndedRetrying)]);
    let (twice, effects) = gone(start(once), 2);
    assert_eq!(twice.rows[0].turn, Turn::Finished(Outcome::Failed { why: FailureReason::AgentEnded }));
    assert_eq!((effects, twice.strikes), (vec![Effect::Tell(Line::Failed(FailureReason::AgentEnded))], 2));
}
