//! The shape of every answer: which fields there are, and what they are called.

use crate::gate::{Gate, until_printed};
use crate::support::*;
use std::process::Stdio;

/// The answer with everything replaced that differs from run to run.
fn redacted(p: &Product, answer: Value) -> Value {
    let root = p.work().parent().unwrap().to_str().unwrap().to_owned();
    match answer {
        Value::Object(mut fields) => {
            // Where the machine gives no cgroup, every start says so.
            fields.retain(|name, value| name != "warnings" || !value.to_string().contains("cgroup"));
            fields.into_iter().map(|(name, value)| (name.clone(), field(p, &name, value))).collect()
        }
        Value::Array(all) => all.into_iter().map(|one| redacted(p, one)).collect(),
        Value::String(text) => json!(ids_hidden(&text.replace(&root, "[root]"))),
        other => other,
    }
}

fn field(p: &Product, name: &str, value: Value) -> Value {
    match (name, &value) {
        ("pid", Value::Number(_)) => json!("[pid]"),
        ("uptime_seconds", Value::Number(_)) => json!("[seconds]"),
        ("freed_bytes", Value::Number(_)) => json!("[bytes]"),
        (name, Value::String(time)) if name.ends_with("_at") => {
            assert!(time.len() == 27 && time.ends_with('Z') && time.contains('T'), "RFC 3339 in UTC: {time}");
            json!("[time]")
        }
        _ => redacted(p, value),
    }
}

fn ids_hidden(text: &str) -> String {
    let mut shown = text.to_owned();
    while let Some(at) =
        shown.match_indices("proc_").map(|(at, _)| at).find(|at| shown[at + 5..].starts_with(|c: char| c.is_ascii_hexdigit()))
    {
        shown.replace_range(at..at + 17, "[id]");
    }
    shown
}

macro_rules! assert_answer {
    ($p:expr, $name:literal, $answer:expr) => {
        insta::assert_json_snapshot!($name, redacted(&$p, $answer))
    };
}

#[test]
fn of_a_process_that_runs() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!("echo said; {}", gate.wait());
    let flags = ["--stdin", "--name", "build", "--task", "t1", "--session", "s1"];
    let started = p.json(["run", "--id", "proc_00000000aaaa"].iter().chain(&flags).chain(&["--", &line]));
    let id = started["session_id"].as_str().unwrap().to_owned();
    until_printed(&p, &id, "said");
    // What it has printed by the time of the answer is luck.
    let started = merged(started, json!({"output_preview": "", "output_bytes": 0}));
    assert_answer!(p, "run", started);
    assert_answer!(p, "poll_running", p.json(["poll", &id]));
    assert_answer!(p, "list", p.json(["list"]));
    assert_answer!(p, "log_running", p.json(["log", &id]));
    assert_answer!(p, "wait_timeout", p.json(["wait", &id, "--timeout", "0.05"]));
    assert_answer!(p, "write", p.json(["write", &id, "text"]));
    assert_answer!(p, "close", p.json(["close", &id]));
    assert_answer!(p, "active", p.json(["active"]));
    let waiter = p.command(["wait", "--json", &id]).env("OUTLAST_SESSION", "s1").stdout(Stdio::piped()).spawn().unwrap();
    let interrupted = eventually("a wait to interrupt", || Some(p.json(["interrupt", "--session", "s1"])).filter(|i| i["count"] == 1));
    assert_answer!(p, "interrupt", interrupted);
    let waited = waiter.wait_with_output().unwrap().stdout;
    assert_answer!(p, "wait_interrupted", serde_json::from_slice(&waited).unwrap());
    assert_answer!(p, "signal", p.json(["signal", &id, "CONT"]));
    assert_answer!(p, "kill", p.json(["kill", &id]));
    until_closed(&p, &id);
    assert_answer!(p, "poll_killed", p.json(["poll", &id]));
}

/// Waits until nothing more can become of it.
fn until_closed(p: &Product, id: &str) {
    eventually("its last word", || (p.json(["poll", id])["phase"] == "exited").then_some(()));
}

fn merged(mut one: Value, other: Value) -> Value {
    one.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
    one
}

#[test]
fn of_a_process_that_is_over() {
    let p = product();
    let id = p.run("echo one; echo two; exit 3");
    assert_answer!(p, "wait_exited", p.json(["wait", &id]));
    until_closed(&p, &id);
    assert_answer!(p, "poll_exited", p.json(["poll", &id]));
    assert_answer!(p, "list_all", p.json(["list", "--all"]));
    assert_answer!(p, "log", p.json(["log", &id]));
    assert_answer!(p, "log_page", p.json(["log", &id, "--offset", "0", "--limit", "1"]));
    assert_answer!(p, "log_follow", p.json(["log", &id, "--follow"]));
    // Whether its output was found closed by then is luck.
    let waited = p.json(["run", "--wait", "--", "kill -KILL $$"]);
    assert_answer!(p, "run_wait", merged(waited, json!({"phase": "exited"})));
    assert_answer!(p, "kill_all", p.json(["kill", "--all"]));
    assert_answer!(p, "rm", p.json(["rm", &id]));
    assert_answer!(p, "clean", p.json(["clean"]));
    assert_answer!(p, "failed_start", p.json(["run", "--", "no-such-program", "x"]));
}

#[test]
fn of_what_is_refused() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let (running, over) = (p.run(&gate.wait()), p.run("exit 3"));
    p.wait(&over);
    let calls: [(&str, &[&str]); 14] = [
        ("not found", &["poll", "proc_ffffffffffff"]),
        ("no name of a process", &["poll", "nonsense"]),
        ("kill of what is over", &["kill", &over]),
        ("write to what is over", &["write", &over, "x"]),
        ("write where no input was asked for", &["write", &running, "x"]),
        ("rm of what runs", &["rm", &running]),
        ("an id for something else", &["run", "--id", &over, "--", "other"]),
        ("an empty command", &["run", "--", " "]),
        ("no command", &["run"]),
        ("a flag that does not exist", &["run", "--nonsense", "--", "true"]),
        ("a time of zero", &["wait", &running, "--timeout", "0"]),
        ("a page of no lines", &["log", &running, "--limit", "0"]),
        ("a variable that is not set", &["run", "--env", "NOT_SET", "--", "true"]),
        ("attach to what is over", &["attach", &over]),
    ];
    let said: serde_json::Map<String, Value> = calls
        .iter()
        .map(|(what, args)| {
            let answer = p.call(["--json"].iter().chain(*args));
            assert_ne!(answer.code, Some(0), "{what}");
            (format!("{what}, exit {}", answer.code.unwrap()), answer.json())
        })
        .collect();
    assert_answer!(p, "errors", Value::Object(said));
}
