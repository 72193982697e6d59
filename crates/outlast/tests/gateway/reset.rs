//! Resets: a message after a long silence, or after the hour of the day, starts a new generation, unless a young process runs in the session.

use crate::support::{Bench, KEY, cat};
use outlast_client::{Setup, TurnOutcome};
use outlast_testkit::product::{Product, eventually};
use outlast_wire::frame;
use outlast_wire::v1::chat::{AgentChoice, ChatMessage, ChatReply, ChatRequest};
use std::io::{Read, Write};

const IDLE: &str = "[session_reset]\nmode = \"idle\"\nidle_minutes = 120\n";
const WAS_IDLE: &str = "This conversation was idle for too long, so your message starts a new generation. /resume 1 goes back.";

/// A conversation with one answer, of which the last message is so old.
fn silent_for(bench: &Bench, minutes: i64) {
    bench.wait(bench.send("before", &cat()).turn);
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    bench.sql(&format!("UPDATE conversation SET last_message_at = last_message_at - {minutes} * 60000000"));
    bench.start();
}

fn generation_after(bench: &Bench, words: &str) -> u64 {
    assert_eq!(bench.wait(bench.send(words, &cat()).turn).outcome, Some(TurnOutcome::Completed));
    bench.show().conversation.generation
}

fn run_in_session(bench: &Bench, line: &str) -> String {
    let ran = bench.product().json(["run", "--session", KEY, "--", line]);
    ran["session_id"].as_str().unwrap().to_owned()
}

fn signal(pid: u32, name: &str) {
    assert!(std::process::Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn case_036_and_050_a_message_after_a_long_silence_starts_anew_and_nothing_else_does() {
    let bench = Bench::configured(IDLE);
    silent_for(&bench, 121);
    assert_eq!(bench.show().conversation.generation, 1, "a start and a look reset nothing");
    assert_eq!(generation_after(&bench, "after"), 2);
    assert_eq!(bench.lines(), [WAS_IDLE]);
    assert_eq!(generation_after(&bench, "again"), 2);
    // 119 minutes are not too long.
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    silent_for(&bench, 119);
    assert_eq!(generation_after(&bench, "in time"), 3);
}

#[test]
fn without_a_setting_a_local_chat_is_never_reset() {
    let bench = Bench::new();
    silent_for(&bench, 100_000);
    assert_eq!(generation_after(&bench, "after"), 1);
}

#[test]
fn case_042_and_046_a_young_process_keeps_its_conversation_and_one_that_is_gone_does_not() {
    let bench = Bench::configured(IDLE);
    let gate = bench.work().join("server");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let id = run_in_session(&bench, &format!("cat {}", gate.display()));
    silent_for(&bench, 121);
    assert_eq!(generation_after(&bench, "after"), 1);
    std::fs::write(&gate, "").unwrap();
    bench.product().wait(&id);
    silent_for(&bench, 121);
    assert_eq!(generation_after(&bench, "later"), 2);
}

#[test]
fn case_043_an_old_process_does_not_keep_its_conversation_and_keeps_running() {
    let bench = Bench::configured(&format!("{IDLE}bg_process_max_age_hours = 0.0002\n"));
    let id = run_in_session(&bench, "sleep 600");
    eventually("a process that is a second old", || {
        let age = bench.product().json(["poll", &id])["uptime_seconds"].as_u64().unwrap();
        (age >= 1).then_some(())
    });
    silent_for(&bench, 121);
    assert_eq!(generation_after(&bench, "after"), 2);
    assert_eq!(bench.product().json(["poll", &id])["status"], "running");
    bench.product().call(["kill", &id]).good();
}

#[test]
fn while_the_engine_does_not_answer_no_conversation_is_reset() {
    let bench = Bench::configured(IDLE);
    silent_for(&bench, 121);
    let engine = bench.product().engine();
    signal(engine, "STOP");
    let turn = bench.send("after", &cat()).turn;
    signal(engine, "CONT");
    bench.wait(turn);
    assert_eq!(bench.show().conversation.generation, 1);
}

#[test]
fn what_comes_behind_a_message_that_may_reset_keeps_its_place() {
    let bench = Bench::configured(IDLE);
    silent_for(&bench, 121);
    let engine = bench.product().engine();
    signal(engine, "STOP");
    let mut stream = bench.socket();
    let mut write = |id, request| stream.write_all(&frame::json(&ChatMessage { id, session: None, request })).unwrap();
    write(1, ChatRequest::Hello { version: 1, client: "a test".into(), namespaces: None });
    for (id, words) in [(2, "one"), (3, "two")] {
        let agent = Some(AgentChoice::Command("cat".into()));
        write(id, ChatRequest::Send { key: KEY.into(), message_id: format!("msg:{words}"), words: words.into(), agent, cwd: None });
    }
    write(4, ChatRequest::New { key: KEY.into(), request_id: None });
    signal(engine, "CONT");
    let (mut frames, mut buffer) = (frame::Splitter::default(), [0; 4096]);
    for _answer in 0..4 {
        let text = loop {
            match frames.next_frame().unwrap() {
                Some(frame::Frame::Json(text)) => break text,
                Some(frame::Frame::Raw { .. }) => panic!("bytes"),
                None => {
                    let count = stream.read(&mut buffer).unwrap();
                    frames.push(&buffer[..count]);
                }
            }
        };
        let reply: ChatReply<serde_json::Value> = serde_json::from_slice(&text).unwrap();
        assert!(reply.error.is_none(), "{:?}", reply.error);
    }
    let shown = bench.block(bench.chat().show(KEY, Some(2))).unwrap();
    let words: Vec<_> = shown.turns.iter().map(|turn| turn.words.clone().unwrap()).collect();
    assert_eq!((words, bench.show().conversation.generation), (vec!["one".to_owned(), "two".to_owned()], 3));
}

#[test]
fn case_037_the_hour_of_a_daily_reset_is_a_local_one() {
    // Five hours ahead of UTC, the hour that began last there is not the one that began last in UTC.
    let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let hour = (seconds / 3600 + 5) % 24;
    let product = Product::new(env!("CARGO_BIN_EXE_outlast")).with_env("TZ", "EAST-5");
    product.configure(&format!("[session_reset]\nmode = \"daily\"\nat_hour = {hour}\n"));
    let bench = Bench::stopped(product);
    bench.start();
    silent_for(&bench, 90);
    assert_eq!(generation_after(&bench, "after"), 2);
    assert!(bench.lines()[0].starts_with("Conversations are reset daily"), "{:?}", bench.lines());
}

#[test]
fn case_040_a_conversation_without_an_answer_is_reset_without_a_word() {
    let bench = Bench::configured(IDLE);
    let setup = Setup::default().answered_by(AgentChoice::Command("exit 1".into()));
    let turn = bench.block(async { bench.chat_now().await.send(KEY, "msg:1", "x", &setup).await }).unwrap().turn;
    bench.wait(turn);
    let told = bench.lines().len();
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    bench.sql("UPDATE conversation SET last_message_at = last_message_at - 121 * 60000000");
    bench.start();
    assert_eq!((generation_after(&bench, "after"), bench.lines().len()), (2, told));
}

#[test]
fn case_048_an_agent_sees_what_protects_its_conversation() {
    let bench = Bench::new();
    let gate = bench.work().join("server");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().unwrap().success());
    let line = format!("cat {}", gate.display());
    let ran = bench.product().json(["run", "--session", KEY, "--task", "other", "--", &line]);
    let list = format!("OUTLAST_TASK=mine {} list --json", bench.product().program().display());
    let reply = bench.wait(bench.send("what runs?", &AgentChoice::Command(list)).turn).reply.unwrap();
    let listed: serde_json::Value = serde_json::from_str(&reply).unwrap();
    let [one] = &listed["processes"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&one["session_id"], &one["session_scoped"]), (&ran["session_id"], &serde_json::Value::Bool(true)));
    std::fs::write(&gate, "").unwrap();
    bench.product().wait(ran["session_id"].as_str().unwrap());
}
