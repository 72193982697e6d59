//! The end of a gateway and the start of the next one, case by case.

use crate::support::{Bench, KEY, cat};
use outlast_client::{AgentChoice, ChatEvent, Heard, Setup, Shown, Standing, TurnOutcome, TurnState};
use outlast_testkit::product::{PATIENCE, Product, eventually, kill_and_wait, wait_for_end};
use outlast_wire::frame;
use outlast_wire::v1::chat::{ChatMessage, ChatRequest};
use serde_json::json;
use std::io::Write;
use std::time::{Duration, Instant};

const OTHER: &str = "agent:main:local:dm:other";

fn stop(bench: &Bench, limit: Option<Duration>) {
    bench.block(bench.chat().shutdown(limit)).unwrap();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"));
}

fn standing(shown: &Shown) -> (Standing, u32) {
    (shown.conversation.standing.clone(), shown.conversation.strikes)
}

#[test]
fn case_051_and_052_and_092_after_a_clean_stop_nothing_is_marked_however_often_it_is_started() {
    let bench = Bench::new();
    let turn = bench.send("hi", &cat()).turn;
    bench.wait(turn);
    stop(&bench, None);
    for _ in 0..3 {
        bench.start();
        let shown = bench.show();
        assert_eq!((standing(&shown), shown.turns[0].attempt), ((Standing::Active, 0), 1));
        assert!(bench.lines().is_empty(), "{:?}", bench.lines());
        stop(&bench, None);
    }
    bench.start();
}

#[test]
fn case_093_a_crash_after_the_drain_finished_marks_nothing() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("work", &agent).turn;
    bench.wait_for_prompts(1);
    let points = bench.product().points();
    points.arm("gateway.before_word").unwrap();
    bench.block(bench.chat().begin_shutdown(None, None)).unwrap();
    bench.open_gate();
    let held = eventually("a gateway that has drained", || points.held("gateway.before_word"));
    kill_and_wait(held).unwrap();
    bench.reap();
    bench.next_after(held);
    let ended = bench.wait(turn);
    assert_eq!((ended.outcome, ended.attempt, ended.interrupt_reason), (Some(TurnOutcome::Completed), 1, None));
    assert_eq!(standing(&bench.show()), (Standing::Active, 0));
}

#[test]
fn case_060_and_081_a_process_that_runs_on_delays_no_stop_and_marks_no_conversation() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let id = bench.product().run_with(&["--session", KEY, "--notify"], "sleep 600");
    let began = Instant::now();
    stop(&bench, Some(Duration::from_secs(50)));
    assert!(began.elapsed() < Duration::from_secs(40), "nothing runs, so nothing is waited for");
    assert_eq!(bench.product().json(["poll", &id])["status"], "running");
    bench.start();
    assert_eq!(standing(&bench.show()), (Standing::Active, 0));
    bench.product().call(["kill", &id]).good();
}

#[test]
fn case_082_without_a_budget_a_running_turn_is_marked_at_once() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    stop(&bench, Some(Duration::ZERO));
    bench.start();
    bench.wait_for_prompts(2);
    bench.open_gate();
    let ended = bench.wait(turn);
    assert_eq!((ended.attempt, ended.interrupt_reason.as_deref()), (2, Some("shutdown_timeout")));
}

#[test]
fn case_069_a_success_in_one_conversation_keeps_the_strikes_of_another() {
    let bench = Bench::new();
    // Two deaths of the agent are two strikes.
    let deadly = AgentChoice::Command("cat > /dev/null; kill -9 $$".into());
    bench.wait(bench.send("boom", &deadly).turn);
    bench.send_to(OTHER, "boom", &deadly);
    eventually("the strikes of the other", || bench.try_show(OTHER).filter(|shown| shown.conversation.strikes == 2));
    bench.wait(bench.send("fine", &cat()).turn);
    assert_eq!((bench.show().conversation.strikes, bench.try_show(OTHER).unwrap().conversation.strikes), (0, 2));
    let pid = bench.kill();
    bench.next_after(pid);
    assert_eq!((bench.show().conversation.strikes, bench.try_show(OTHER).unwrap().conversation.strikes), (0, 2), "a start keeps them");
}

#[test]
fn case_096_what_an_agent_started_itself_is_gone_when_the_gateway_has_ended() {
    let bench = Bench::new();
    let work = bench.work();
    let line = format!("sleep 600 & echo $! > {0}/new; mv {0}/new {0}/child; cat > /dev/null; wait", work.display());
    bench.send("long", &AgentChoice::Command(line));
    let child = eventually("its child", || std::fs::read_to_string(work.join("child")).ok());
    let child: u32 = child.trim().parse().unwrap();
    stop(&bench, Some(Duration::ZERO));
    assert!(wait_for_end(child, PATIENCE));
}

#[test]
fn case_097_and_117_a_terminal_that_does_not_read_delays_no_stop() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let mut deaf = bench.socket();
    let mut write = |id, request| deaf.write_all(&frame::json(&ChatMessage { id, session: None, request })).unwrap();
    write(1, ChatRequest::Hello { version: 1, client: "a test".into(), namespaces: None });
    write(2, ChatRequest::Follow { key: KEY.into(), after: None, context: 0, is_attended: true });
    eventually("a terminal", || (bench.block(bench.chat().status()).unwrap().terminals == 1).then_some(()));
    let agent = bench.gated();
    bench.send("work", &agent);
    bench.wait_for_prompts(1);
    // More than the socket holds waits for it when the banner is sent.
    let loud = AgentChoice::Command("head -c 4000000 /dev/zero | tr '\\0' x".into());
    bench.send("loud", &loud);
    bench.open_gate();
    bench.until("both", |shown| shown.turns.iter().all(|turn| turn.is_finished()));
    let began = Instant::now();
    stop(&bench, None);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    drop(deaf);
}

#[test]
fn case_112_and_114_and_116_a_busy_conversation_reads_one_banner_and_an_idle_one_none() {
    let bench = Bench::new();
    bench.send_to(OTHER, "hi", &cat());
    eventually("the other is idle", || bench.try_show(OTHER).filter(|shown| shown.turns[0].is_finished()));
    let agent = bench.gated();
    let first = bench.send("one", &agent).turn;
    bench.wait_for_prompts(1);
    bench.send("two", &agent);
    bench.block(bench.chat().begin_shutdown(None, None)).unwrap();
    bench.until_line("shutting down");
    bench.open_gate();
    assert_eq!(bench.ended().code(), Some(0));
    bench.start();
    bench.wait(first);
    let banners = |key: &str| bench.lines_of(key).iter().filter(|line| line.contains("I'll try to resume")).count();
    assert_eq!((banners(KEY), banners(OTHER)), (1, 0));
    bench.wait_for_prompts(2);
    bench.open_gate();
    bench.until("both", |shown| shown.turns.iter().all(|turn| turn.is_finished()));
}

#[test]
fn case_124_a_mark_of_an_unknown_kind_starts_nothing_and_a_message_is_answered() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    stop(&bench, Some(Duration::ZERO));
    bench.sql("UPDATE turn SET interrupt_reason = 'whim' WHERE state = 'interrupted'");
    bench.start();
    let next = bench.send("hello", &cat()).turn;
    assert_eq!(bench.wait(next).reply.as_deref(), Some("hello"));
    assert_eq!(bench.prompts().len(), 1, "the one with the mark was not started");
    let status = bench.block(bench.chat().status()).unwrap();
    assert!(status.notes.iter().any(|note| note.contains(&format!("({turn})"))), "it is named: {:?}", status.notes);
}

#[test]
fn case_132_a_message_behind_a_resumed_turn_is_answered_once_after_it() {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    product.configure(&crate::support::acp_config(&product.work()));
    let bench = Bench::stopped(product);
    bench.start();
    let first = bench.send("one", &crate::support::scripted()).turn;
    bench.wait_for_prompts(1);
    let pid = bench.kill();
    bench.next_after(pid);
    bench.wait_for_prompts(2);
    let second = bench.send("two", &crate::support::scripted()).turn;
    let states: Vec<TurnState> = bench.show().turns.into_iter().map(|turn| turn.state).collect();
    assert_eq!(states, [TurnState::Running, TurnState::Queued]);
    bench.open_gate();
    bench.wait(first);
    let prompts = bench.wait_for_prompts(3);
    assert!(prompts[2].contains("two") && !prompts[2].contains("Note from the gateway"), "{prompts:?}");
    bench.open_gate();
    bench.wait(second);
    assert_eq!(bench.prompts().len(), 3);
}

#[test]
fn case_100_and_205_limits_come_from_the_environment_then_the_file_then_the_default() {
    let value = |product: &Product, key: &str| product.json(["config", "show"])["values"][key]["value"].clone();
    let of = |env: Option<&str>, file: &str| {
        let mut product = Product::new(env!("CARGO_BIN_EXE_outlast"));
        if let Some(env) = env {
            product = product.with_env("OUTLAST_GATEWAY_DRAIN_TIMEOUT_SECONDS", env).with_env("OUTLAST_GATEWAY_IDLE_EXIT_SECONDS", env);
        }
        product.configure(file);
        (value(&product, "gateway.drain_timeout_seconds"), value(&product, "gateway.idle_exit_seconds"))
    };
    let file = "[gateway]\ndrain_timeout_seconds = 12\nidle_exit_seconds = 12\n";
    assert_eq!(of(Some("7"), file), (json!(7.0), json!(7.0)));
    assert_eq!(of(None, file), (json!(12.0), json!(12.0)));
    assert_eq!(of(Some("soon"), ""), (json!(60.0), json!(600.0)));
    // For idleness 0 means never, so that no value of it ends a gateway at once.
    assert_eq!(of(Some("-3"), "").1, json!(0.0));
}

/// Three stops within five minutes held back what the third one had interrupted.
#[test]
fn stops_of_a_user_hold_nothing_back() {
    let bench = Bench::new();
    let agent = bench.gated();
    for (n, name) in ["one", "two", "three"].iter().enumerate() {
        let key = format!("agent:main:local:dm:{name}");
        bench.send_to(&key, "long", &agent);
        bench.wait_for_prompts(2 * n + 1);
        stop(&bench, Some(Duration::ZERO));
        bench.start();
        bench.wait_for_prompts(2 * n + 2);
        bench.open_gate();
        eventually("its end", || bench.try_show(&key).filter(|shown| shown.turns[0].outcome == Some(TurnOutcome::Completed)));
        let lines = bench.lines_of(&key);
        assert!(lines.iter().any(|line| line.starts_with("Resumed after a restart")), "{lines:?}");
    }
}

/// What was on the screen when the gateway ended was shown again as if it had come while the user was away.
#[test]
fn what_an_open_terminal_was_sent_counts_as_seen_when_the_gateway_ends() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let seen = |bench: &Bench| {
        let opened = bench.block(bench.chat().open(KEY, &Setup::default())).unwrap();
        (opened.seen_part, opened.last_part)
    };
    stop(&bench, None);
    bench.start();
    assert!(matches!(seen(&bench), (None, Some(_))), "no terminal was open");
    let mut feed = bench.chat().follow(KEY).attended();
    bench.block(async { while !matches!(feed.next().await.unwrap(), Heard::Event(ChatEvent::CaughtUp { .. })) {} });
    stop(&bench, None);
    drop(feed);
    bench.start();
    let (seen, last) = seen(&bench);
    assert!(seen.is_some() && seen == last, "{seen:?} {last:?}");
}

#[test]
fn a_restart_does_not_undo_a_stop_that_waits_and_says_so() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    bench.block(bench.chat().begin_shutdown(None, None)).unwrap();
    bench.until_line("shutting down");
    assert_eq!(bench.block(bench.chat().restart(None)).unwrap().status, "stopping");
    bench.open_gate();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"));
    bench.start();
    assert_eq!(bench.wait(turn).outcome, Some(TurnOutcome::Completed));
}

/// It printed nothing, and agents waited for the restart.
#[test]
fn an_agent_that_asks_for_an_end_is_told_not_to_wait_for_it() {
    for (verb, what) in [("restart", "restarts"), ("stop", "ends")] {
        let bench = Bench::new();
        let pid = bench.pid();
        let line = format!("cat > /dev/null; {} gateway {verb}", bench.product().program().display());
        let turn = bench.send("do it", &AgentChoice::Command(line)).turn;
        bench.ended();
        match verb {
            "restart" => _ = bench.next_after(pid),
            _ => _ = bench.start(),
        }
        let want = format!("the gateway {what} when your turn has ended; finish it, and do not wait for it");
        assert_eq!(bench.wait(turn).reply.unwrap().trim(), want);
    }
}

#[test]
fn new_says_what_it_cancels() {
    let bench = Bench::new();
    let agent = bench.gated();
    bench.send("long", &agent);
    bench.wait_for_prompts(1);
    bench.send("and then", &agent);
    bench.send("and then", &agent);
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    let want = ["Stopped.", "2 messages that waited are cancelled.", "Started a new generation: the agent forgets what was said."];
    assert_eq!(bench.lines(), want);
    // What changed nothing is answered, and is no part of the conversation.
    assert_eq!(bench.block(bench.chat().stop(KEY)).unwrap().said, "Nothing is running.");
    assert_eq!(bench.block(bench.chat().resume(KEY)).unwrap().said, "Nothing is interrupted or suspended.");
    assert_eq!(bench.lines(), want);
}
