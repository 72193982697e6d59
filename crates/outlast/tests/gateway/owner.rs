//! Whose a conversation is: the user who wrote last. Nothing is started for one who may no longer speak.

use crate::support::{Bench, KEY, cat};
use outlast_client::{TurnKind, TurnOutcome, TurnState};
use outlast_testkit::machine::{is_root, skipped};
use outlast_testkit::product::{Product, eventually};

const HELD: &str = "The owner of this conversation may no longer speak here";

/// Ends the gateway, and records another user as the last writer in the database, as after a home was given to that user.
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
        // A message makes it the conversation of the user who wrote it, and waiting turns continue.
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
    // A user who may speak takes it over with /resume.
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

/// The user and group that own nothing.
const NOBODY: u32 = 65534;

fn chown_all(dir: &std::path::Path, user: u32) {
    std::os::unix::fs::lchown(dir, Some(user), Some(user)).unwrap();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => chown_all(&entry.path(), user),
            false => std::os::unix::fs::lchown(entry.path(), Some(user), Some(user)).unwrap(),
        }
    }
}

/// The same with two real users: one speaks, a notice comes for them, and the home is given to another.
#[test]
fn a_home_that_is_given_to_another_user_starts_nothing_for_the_user_before() {
    use std::os::unix::process::CommandExt as _;
    const NAME: &str = "a_home_that_is_given_to_another_user_starts_nothing_for_the_user_before";
    if !is_root() {
        return skipped(NAME, "only root can become another user");
    }
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    let root = product.work().parent().unwrap().to_owned();
    chown_all(&root, NOBODY);
    let as_nobody = |args: &[&str]| product.command(args).uid(NOBODY).gid(NOBODY).output();
    match as_nobody(&["--version"]) {
        Ok(said) if said.status.success() => {}
        other => return skipped(NAME, format!("user {NOBODY} cannot run the program: {other:?}")),
    }
    let done = |args: &[&str]| {
        let said = as_nobody(args).unwrap();
        assert!(said.status.success(), "{args:?}: {said:?}");
        String::from_utf8(said.stdout).unwrap()
    };
    done(&["chat", "send", "main", "--command", "cat", "--wait", "hello"]);
    done(&["gateway", "stop"]);
    done(&["run", "--notify", "--session", KEY, "--", "true"]);
    eventually("a notice", || done(&["events", "history", "--json", "--state", "pending"]).contains("evt_").then_some(()));
    done(&["engine", "stop"]);
    eventually("the end of all processes of that user", || product.processes().is_empty().then_some(()));
    chown_all(&root, 0);
    let bench = Bench::stopped(product);
    bench.start();
    bench.until_line(HELD);
    assert!(bench.show().turns.iter().all(|turn| turn.kind == TurnKind::Message || turn.state == TurnState::Queued));
    bench.wait(bench.send("mine now", &cat()).turn);
    bench.until("the notice", |shown| shown.turns.iter().all(|turn| turn.is_finished()));
}
