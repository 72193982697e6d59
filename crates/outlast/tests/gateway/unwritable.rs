//! A database that cannot be written for a while: what was undone is done once it can be.

use crate::support::{Bench, KEY, acp_config, cat, scripted};
use outlast_client::{Setup, TurnKind, TurnOutcome};
use outlast_testkit::product::{Product, eventually, terminate};

/// What the log has when a commit failed.
const FAILED: &str = "the database of the gateway cannot be used";

/// A gateway that finds one queued message, and that for some seconds cannot write a turn of this state. `also` is changed in its database.
fn with_refused(state: &str, also: &str) -> Bench {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    bench.sql(&format!(
        "UPDATE turn SET state = 'queued', attempt = 0, outcome = NULL, started_at = NULL, finished_at = NULL; {also}
         CREATE TABLE until AS SELECT unixepoch() + 4 AS at;
         CREATE TRIGGER refuse BEFORE INSERT ON turn WHEN NEW.state = '{state}' AND unixepoch() < (SELECT at FROM until)
         BEGIN SELECT RAISE(ABORT, 'the test wants it so'); END"
    ));
    bench.start();
    eventually("a commit that fails", || bench.log().contains(FAILED).then_some(()));
    bench
}

#[test]
fn a_turn_whose_start_could_not_be_written_starts_later() {
    let bench = with_refused("running", "");
    let shown = bench.until("the turn", |shown| shown.turns.iter().all(|turn| turn.is_finished()));
    assert_eq!((shown.turns.len(), shown.turns[0].outcome.clone()), (1, Some(TurnOutcome::Completed)));
}

#[test]
fn an_agent_that_cannot_be_started_is_told_of_once_it_can_be_written() {
    let bench = with_refused("finished", r#"UPDATE conversation SET agent = '{"agent":"nobody"}';"#);
    let shown = bench.until("the turn", |shown| shown.turns.iter().all(|turn| turn.is_finished()));
    assert_eq!((shown.turns.len(), shown.turns[0].outcome.clone()), (1, Some(TurnOutcome::Failed)));
}

/// The engine says "there are none" and then "there is one", over two connections. The gateway hears the second first.
#[test]
fn a_notice_that_came_while_the_gateway_heard_of_none_is_taken() {
    let bench = Bench::configured("[gateway]\nlog = \"debug\"\n");
    bench.wait(bench.send("hi", &cat()).turn);
    let generation = bench.generation();
    let points = bench.product().points();
    let run = |line: &str| {
        let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", generation.as_str())];
        let ran = bench.product().command(["run", "--notify", "--", line]).envs(env).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    let told = || bench.log().matches("the engine has told of notices").count();
    points.arm("gateway.notices.none").unwrap();
    run("echo first");
    eventually("a taking that found nothing", || points.held("gateway.notices.none"));
    let before = told();
    run("echo second");
    eventually("that the engine tells of it", || (told() > before).then_some(()));
    points.release("gateway.notices.none").unwrap();
    bench.until("both turns", |shown| shown.turns.iter().filter(|turn| turn.kind == TurnKind::Notice && turn.is_finished()).count() == 2);
}

/// Without the barrier, no program would have started a gateway when the time came.
#[test]
fn a_gateway_that_cannot_set_a_time_for_what_waits_leaves_the_next_start_to_the_engine() {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    product.configure("[gateway]\nidle_exit_seconds = 2\ndrain_timeout_seconds = 0.2\n");
    let bench = Bench::stopped(product);
    bench.product().call(["engine", "stop"]).good();
    let index = rusqlite::Connection::open(bench.product().home().index()).unwrap();
    index.execute_batch("CREATE TRIGGER refuse BEFORE INSERT ON barrier BEGIN SELECT RAISE(ABORT, 'the test wants it so'); END").unwrap();
    drop(index);
    let pid = bench.start();
    bench.wait(bench.send("hi", &cat()).turn);
    let generation = bench.generation();
    let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", generation.as_str())];
    let told = |shown: &outlast_client::Shown| shown.turns.iter().filter(|turn| turn.kind == TurnKind::Notice).count();
    for count in 1..=7 {
        let ran = bench.product().command(["run", "--notify", "--", "true"]).envs(env).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        bench.until("its turn", |shown| told(shown) == count && (count == 7 || shown.turns.iter().all(|turn| turn.is_finished())));
    }
    // The budget holds the seventh back, which is no work for a gateway.
    assert_eq!(bench.ended().code(), Some(0), "{}", bench.log());
    let next = bench.next_after(pid);
    // The same holds for what a SIGTERM interrupted.
    let agent = bench.gated();
    bench.send("long", &agent);
    bench.wait_for_prompts(1);
    terminate(next);
    bench.next_after(next);
}

/// The client was told that the stop had failed, and the gateway ended all the same.
#[test]
fn a_stop_is_answered_although_nothing_can_be_written_and_the_next_gateway_resumes_the_turn() {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    product.configure(&acp_config(&product.work()));
    let bench = Bench::stopped(product);
    bench.start();
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    bench.sql(
        "CREATE TRIGGER no_banner BEFORE INSERT ON part WHEN NEW.kind = 'line' BEGIN SELECT RAISE(ABORT, 'the test wants it so'); END;
         CREATE TRIGGER no_mark BEFORE INSERT ON turn WHEN NEW.state = 'interrupted' BEGIN SELECT RAISE(ABORT, 'the test wants it so'); END",
    );
    bench.start();
    let turn = bench.send("long", &scripted()).turn;
    bench.wait_for_prompts(1);
    let stopped = bench.product().json(["gateway", "stop", "--timeout", "0.3"]);
    assert_eq!(stopped["status"], "stopped", "{stopped}");
    assert!(stopped["note"].as_str().unwrap().contains("found as interrupted"), "{stopped}");
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"), "{}", bench.log());
    bench.sql("DROP TRIGGER no_banner; DROP TRIGGER no_mark");
    bench.start();
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[1].contains("interrupted by a gateway interruption"), "{prompts:?}");
    bench.open_gate();
    let ended = bench.wait(turn);
    assert_eq!((ended.outcome, ended.interrupt_reason.as_deref()), (Some(TurnOutcome::Completed), Some("restart_interrupted")));
}

/// Requests during the retry of a commit, also a stop, were once refused because of a full disk.
#[test]
fn a_gateway_that_cannot_write_can_be_asked_followed_and_stopped() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    bench.sql(
        "CREATE TRIGGER refuse BEFORE INSERT ON turn WHEN NEW.state = 'finished' BEGIN SELECT RAISE(ABORT, 'the test wants it so'); END",
    );
    bench.start();
    let turn = bench.send("late", &cat()).turn;
    eventually("a commit that fails", || bench.log().contains(FAILED).then_some(()));
    // The end of the turn is tried with everything that is asked from now on.
    let status = bench.product().call(["gateway", "status", "--json"]).good().json();
    assert_eq!(status["running"], 1, "{status}");
    let shown = bench.product().call(["chat", "show", "--json"]).good().json();
    assert_eq!((&shown["turns"][0]["reply"], &shown["turns"][1]["state"]), (&"hi".into(), &"running".into()), "{shown}");
    assert_eq!(bench.product().call(["chat", "list", "--json"]).good().json()["conversations"][0]["open_turns"], 1);
    assert!(bench.parts().contains(&("words".into(), "late".into())), "it can be followed");
    let opened = bench.block(bench.chat().open(KEY, &Setup::default())).unwrap();
    assert!(!opened.is_new && opened.last_part.is_some(), "it can be opened: {opened:?}");
    let stopped = bench.product().json(["gateway", "stop", "--timeout", "0.3"]);
    assert_eq!((&stopped["status"], bench.ended().code(), bench.word().as_str()), (&"stopped".into(), Some(0), "stopped"), "{stopped}");
    bench.sql("DROP TRIGGER refuse");
    bench.start();
    assert_eq!(bench.wait(turn).reply.as_deref(), Some("late"));
}
