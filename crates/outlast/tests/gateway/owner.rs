//! Whose a conversation is: the user who wrote last. Nothing is started for one who may no longer speak.

use crate::support::{Bench, KEY, cat};
use outlast_client::{TurnKind, TurnOutcome, TurnState};

const HELD: &str = "The owner of this conversation may no longer speak here";

/// Ends the gateway, and has the database say that somebody else wrote last, as after a home was given to another user.
fn hand_over(bench: &Bench, owner: &str) {
    bench.block(bench.chat().shutdown(Some(std::time::Duration::ZERO))).unwrap();
    bench.ended();
    bench.sql(&format!("UPDATE conversation SET owner = {owner}"));
}

fn tell(bench: &Bench) {
    let generation = bench.generation();
    let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", generation.as_str())];
    let ran = bench.product().command(["run", "--notify", "--", "echo news"]).envs(env).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

#[test]
fn the_user_at_the_socket_is_written_down_as_the_owner() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let us = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(bench.home()).unwrap());
    assert_eq!(bench.query("SELECT owner FROM conversation"), us.to_string());
}

#[test]
fn case_202_a_notice_of_an_owner_who_may_no_longer_speak_starts_nothing_until_another_user_writes() {
    for owner in ["'4294967294'", "'nobody'", "x'ff'"] {
        let bench = Bench::new();
        bench.wait(bench.send("hi", &cat()).turn);
        hand_over(&bench, owner);
        bench.start();
        tell(&bench);
        bench.until_line(HELD);
        let shown = bench.show();
        let notice = shown.turns.iter().find(|turn| turn.kind == TurnKind::Notice).unwrap();
        assert_eq!((notice.state.clone(), notice.attempt), (TurnState::Queued, 0), "{owner}");
        assert!(shown.conversation.waits_for.is_some_and(|why| why.contains("may no longer speak")), "{owner}");
        // A message makes it the conversation of the user who wrote it, and what waited goes on.
        assert_eq!(bench.wait(bench.send("mine now", &cat()).turn).reply.as_deref(), Some("mine now"));
        let done = bench.wait(notice.id);
        assert_eq!((done.outcome, done.attempt), (Some(TurnOutcome::Completed), 1), "{owner}");
        assert_eq!(bench.lines().iter().filter(|line| line.contains(HELD)).count(), 1, "it is told once: {:?}", bench.lines());
    }
}

#[test]
fn an_interrupted_turn_is_not_resumed_for_an_owner_who_may_no_longer_speak() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("work", &agent).turn;
    bench.wait_for_prompts(1);
    hand_over(&bench, "'4294967294'");
    bench.start();
    bench.until_line(HELD);
    assert_eq!(bench.prompts().len(), 1);
    let held = bench.show().turns.into_iter().find(|found| found.id == turn).unwrap();
    assert_eq!(held.state, TurnState::Interrupted);
    // Whoever may speak takes it over with /resume.
    bench.block(bench.chat().resume(KEY)).unwrap();
    bench.wait_for_prompts(2);
    bench.open_gate();
    assert_eq!(bench.wait(turn).reply.as_deref(), Some("did: work"));
}

#[test]
fn a_conversation_of_a_version_that_knew_no_owners_is_the_home_users() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    hand_over(&bench, "NULL");
    bench.start();
    tell(&bench);
    bench.until("its turn", |shown| shown.turns.iter().any(|turn| turn.kind == TurnKind::Notice && turn.is_finished()));
    assert!(!bench.lines().iter().any(|line| line.contains(HELD)));
}
