//! Notices: the end of a process starts a turn in the conversation that started it.

use crate::support::{Bench, KEY, cat};
use outlast_client::{AgentChoice, Shown, TurnKind, TurnOutcome, TurnState};
use outlast_testkit::product::eventually;

/// An agent that starts a process of the conversation for a message, and repeats what it is told otherwise. `line` is the process.
fn starter(bench: &Bench, line: &str) -> AgentChoice {
    AgentChoice::Command(format!(
        "words=$(cat); printf '%s\\n\\001\\n' \"$words\" >> {0}/prompts; case \"$words\" in start*) {1} run --notify -- '{line}' > /dev/null && echo started;; *) echo \"told: $words\";; esac",
        bench.work().display(),
        bench.product().program().display(),
    ))
}

fn notices(shown: &Shown) -> Vec<&outlast_client::TurnInfo> {
    shown.turns.iter().filter(|turn| turn.kind == TurnKind::Notice).collect()
}

fn one_finished(shown: &Shown) -> bool {
    notices(shown).iter().any(|turn| turn.is_finished())
}

#[test]
fn case_152_and_196_the_end_of_a_process_starts_a_turn_in_its_conversation() {
    let bench = Bench::new();
    let turn = bench.send("start it", &starter(&bench, "echo built; exit 3")).turn;
    assert_eq!(bench.wait(turn).reply.as_deref(), Some("started"));
    let shown = bench.until("a turn about the notice", one_finished);
    let [notice] = notices(&shown)[..] else { panic!("{:?}", shown.turns) };
    assert_eq!((notice.outcome.clone(), notice.attempt), (Some(TurnOutcome::Completed), 1));
    assert!(notice.cause.starts_with("evt_") && notice.reply.as_deref().unwrap().contains("built"), "{notice:?}");
    let prompts = bench.prompts();
    assert!(prompts.len() == 2 && !prompts[1].contains("repeat"), "{prompts:?}");
    assert!(bench.lines().iter().any(|line| line.starts_with("A process ended (exit code 3)")), "{:?}", bench.lines());
    let open = bench.product().json(["events", "history", "--state", "pending"]);
    assert!(open.to_string().matches("evt_").count() == 0, "{open}");
}

#[test]
fn a_notice_starts_a_gateway_where_none_runs() {
    let bench = Bench::configured("[gateway]\nidle_exit_seconds = 0.2\n");
    let gate = bench.work().join("build");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let turn = bench.send("start it", &starter(&bench, &format!("cat {}", gate.display()))).turn;
    bench.wait(turn);
    assert_eq!(bench.ended().code(), Some(0));
    assert_eq!(bench.word(), "");
    std::fs::write(&gate, "the build says hello\n").unwrap();
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[1].contains("the build says hello"), "{prompts:?}");
    // It may be gone again by now, as it is idle: a person looks.
    eventually("the turn in the database", || {
        if bench.try_pid().is_none() && bench.word().is_empty() {
            bench.start();
        }
        bench.try_show(KEY).filter(one_finished)
    });
}

#[test]
fn a_notice_waits_while_a_turn_runs_and_joins_no_message() {
    let bench = Bench::new();
    let agent = bench.gated();
    bench.wait(bench.send("hi", &cat()).turn);
    let turn = bench.send("busy", &agent).turn;
    bench.wait_for_prompts(1);
    let generation = bench.generation();
    let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", generation.as_str())];
    for _ in 0..2 {
        let ran = bench.product().command(["run", "--notify", "--", "echo side"]).envs(env).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    }
    eventually("two notices", || {
        let open = bench.product().json(["events", "history", "--state", "pending"]);
        (open.to_string().matches("\"event_id\"").count() >= 2).then_some(())
    });
    let queued = bench.send("next", &agent).turn;
    bench.open_gate();
    bench.wait(turn);
    bench.wait_for_prompts(2);
    bench.open_gate();
    bench.wait(queued);
    bench.wait_for_prompts(3);
    bench.open_gate();
    let shown = bench.until("both notices", |shown| notices(shown).iter().filter(|turn| turn.is_finished()).count() == 2);
    let prompts = bench.prompts();
    assert_eq!((prompts.len(), prompts[1].as_str()), (3, "next"), "{prompts:?}");
    assert_eq!(prompts[2].matches("echo side").count(), 2, "both came together: {prompts:?}");
    assert_eq!(notices(&shown)[0].reply, notices(&shown)[1].reply);
}

#[test]
fn a_notice_of_an_ended_generation_starts_nothing() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let generation = bench.generation();
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    bench.wait(bench.send("anew", &cat()).turn);
    let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", generation.as_str())];
    let ran =
        bench.product().command(["run", "--notify", "--wait", "--", "echo late"]).envs(env).env("OUTLAST_SESSION", KEY).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    // A message behind it is answered, and no turn about the notice was made.
    let last = bench.send("last", &cat()).turn;
    bench.wait(last);
    assert!(bench.show().turns.iter().all(|turn| turn.kind == TurnKind::Message || turn.outcome == Some(TurnOutcome::Obsolete)));
}

/// Notice → lease → accepted → acknowledged → turn → reply: whichever step the gateway is killed at, the notice has one turn.
#[test]
fn case_163_a_notice_has_one_turn_whichever_step_the_gateway_is_killed_at() {
    for point in ["gateway.notice.leased", "gateway.notice.accepted", "gateway.notice.acknowledged", "gateway.turn.recorded"] {
        let bench = Bench::new();
        bench.wait(bench.send("hi", &cat()).turn);
        let generation = bench.generation();
        bench.product().points().arm(point).unwrap();
        let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", generation.as_str())];
        let ran = bench.product().command(["run", "--notify", "--", "echo news"]).envs(env).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        let held = eventually(point, || bench.product().points().held(point));
        outlast_testkit::product::kill_and_wait(held).unwrap();
        bench.reap();
        let shown = bench.until("a turn about the notice", one_finished);
        let [notice] = notices(&shown)[..] else { panic!("{point}: {:?}", shown.turns) };
        assert_eq!((notice.state.clone(), notice.outcome.clone()), (TurnState::Finished, Some(TurnOutcome::Completed)), "{point}");
        let open = bench.product().json(["events", "history", "--state", "pending"]);
        assert_eq!(open.to_string().matches("\"event_id\"").count(), 0, "{point}: {open}");
        let reply = notice.reply.clone().unwrap_or_default();
        let is_marked = reply.contains("repeat") || reply.contains("interrupted");
        let is_certain = point == "gateway.turn.recorded";
        assert!(
            is_marked != is_certain || point == "gateway.notice.accepted" || point == "gateway.notice.acknowledged",
            "{point}: {reply}"
        );
    }
}

#[test]
fn the_budget_holds_unattended_turns_back() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let generation = bench.generation();
    let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", generation.as_str())];
    for count in 1..=7 {
        let ran = bench.product().command(["run", "--notify", "--", "true"]).envs(env).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        bench.until("the notice is there", |shown| notices(shown).len() >= count);
        if count < 7 {
            bench.until("its turn", |shown| notices(shown).iter().all(|turn| turn.is_finished()));
        }
    }
    let shown = bench.show();
    let states: Vec<TurnState> = notices(&shown).iter().map(|turn| turn.state.clone()).collect();
    assert_eq!(states.iter().filter(|state| **state == TurnState::Finished).count(), 6, "{states:?}");
    assert_eq!(states.last(), Some(&TurnState::Queued), "the seventh waits for its time");
    // A person is never held back.
    assert_eq!(bench.wait(bench.send("still there?", &cat()).turn).reply.as_deref(), Some("still there?"));
}

#[test]
fn case_157_and_158_a_session_without_a_conversation_is_left_to_others() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let other = "agent:main:telegram:dm:7";
    let ran = bench.product().command(["run", "--notify", "--session", other, "--", "true"]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    eventually("it was reported", || bench.log().contains(other).then_some(()));
    let open = bench.product().json(["events", "history", "--state", "pending"]);
    assert_eq!(open.to_string().matches(other).count(), 1, "{open}");
}

/// The engine had once been told that the session is of no gateway, and never that it is by now.
#[test]
fn a_conversation_that_is_created_for_a_disowned_session_gets_its_notices_and_a_gateway_for_later_ones() {
    let bench = Bench::configured("[gateway]\nidle_exit_seconds = 0.5\n");
    let key = "agent:main:local:dm:later";
    let notify = || {
        let ran = bench.product().command(["run", "--notify", "--session", key, "--", "true"]).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    let agent = AgentChoice::Command(format!("words=$(cat); printf '%s\\n\\001\\n' \"$words\" >> {}/prompts", bench.work().display()));
    notify();
    eventually("the gateway has seen it", || bench.log().contains(key).then_some(()));
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), ""), "it told the engine, which starts no other");
    bench.start();
    bench.send_to(key, "hi", &agent);
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[0] == "hi" && prompts[1].contains("exit code 0"), "{prompts:?}");
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), ""));
    // The engine starts a gateway for the next one, and so does the engine after it.
    notify();
    bench.wait_for_prompts(3);
    bench.product().kill_engine();
    notify();
    bench.wait_for_prompts(4);
}
