//! Hooks and webhooks: the engine calls them, also without a client.

use crate::gate::Gate;
use crate::support::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A product whose hook writes what it is told into a file, one line each.
pub(crate) fn hooked(more: &str) -> (Product, PathBuf) {
    let p = product();
    let log = p.work().join("told");
    p.configure(&format!("[[hook]]\nname = \"told\"\ncommand = \"cat >> {}\"\n{more}", log.display()));
    (p, log)
}

pub(crate) fn told(log: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
}

pub(crate) fn hears_of(log: &PathBuf, id: &str) -> Value {
    eventually(&format!("the hook hears of {id}"), || told(log).into_iter().find(|t| t["event"]["session_id"] == *id))
}

#[test]
fn a_hook_is_told_of_an_end() {
    let (p, log) = hooked("");
    let id = p.run_with(&["--notify", "--session", "chat:7", "--route", "chat=42"], "echo out; exit 3");
    let heard = hears_of(&log, &id);
    assert_eq!(heard["event"]["type"], "completion");
    assert_eq!((heard["event"]["exit_code"].as_i64(), heard["event"]["chat_id"].as_str()), (Some(3), Some("42")));
    assert_eq!((heard["attempt"].as_u64(), heard["repeat"].as_bool()), (Some(1), Some(false)));
    assert!(heard["text"].as_str().unwrap().contains("(exit code 3)"), "{heard}");
    // A sink observes: the agent is told all the same.
    let drained = p.json(["events", "drain", "--session", "chat:7"]);
    assert_eq!(drained["events"][0]["event"]["session_id"], *id, "{drained}");
}

#[test]
fn a_hook_has_the_name_and_the_exit_code_without_reading_json() {
    let p = product();
    let log = p.work().join("told");
    let write = format!(
        "printf '%s|%s|%s' \\\"$OUTLAST_NAME\\\" \\\"$OUTLAST_EXIT_CODE\\\" \\\"$OUTLAST_TEXT\\\" > {0}.new; mv {0}.new {0}",
        log.display()
    );
    p.configure(&format!("[[hook]]\nname = \"told\"\ncommand = \"{write}\""));
    p.run_with(&["--notify", "--name", "web", "--session", "s"], "exit 3");
    let said = eventually("the hook", || std::fs::read_to_string(&log).ok());
    let (said, _after) = said.split_once(" after ").unwrap_or_else(|| panic!("{said}"));
    assert_eq!(said, "web|3|web failed (exit 3)");
    assert_eq!(p.json(["events", "drain", "--session", "s"])["events"][0]["event"]["name"], "web");
}

#[test]
fn a_hook_with_a_budget_is_told_together_what_came_together() {
    let (p, log) = hooked("coalesce_ms = 1000\nbudget = { wakes = 1, seconds = 4 }");
    let post = |n: u64| drop(p.json(["events", "post", "--session", "s", &json!({"type": "note", "n": n}).to_string()]));
    let numbers = |run: &Value| -> Vec<u64> {
        let events = run["events"].as_array().unwrap_or_else(|| panic!("no list: {run}"));
        events.iter().map(|told| told["event"]["n"].as_u64().unwrap()).collect()
    };
    let runs = |count: usize| eventually("the hook", || Some(told(&log)).filter(|runs| runs.len() >= count));
    [1, 2].into_iter().for_each(post);
    assert_eq!(runs(1).iter().map(numbers).collect::<Vec<_>>(), [[1, 2]]);
    let first = std::time::Instant::now();
    // The one run that it has for now is spent, so these wait for longer than they are gathered.
    [3, 4].into_iter().for_each(post);
    assert_eq!(runs(2).iter().map(numbers).collect::<Vec<_>>(), [[1, 2], [3, 4]]);
    assert!(first.elapsed() > std::time::Duration::from_secs(2), "{:?}", first.elapsed());
}

#[test]
fn a_hook_is_called_although_the_engine_is_dead_and_no_client_calls() {
    let (p, log) = hooked("");
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify"], &format!("{}; exit 4", gate.wait()));
    p.kill_engine();
    gate.open();
    let heard = hears_of(&log, &id);
    assert_eq!(heard["event"]["exit_code"], 4);
}

#[test]
fn a_hook_hears_nothing_of_what_an_agent_waited_for_in_the_foreground() {
    let (p, log) = hooked("");
    let said = p.call(["tool", "terminal", r#"{"command": "echo seen"}"#, "--session", "chat:7"]).good().json();
    assert_eq!((said["output"].as_str(), said["exit_code"].as_i64()), (Some("seen"), Some(0)), "{said}");
    // Told after it, so that what was to come before would be there.
    let id = p.run_with(&["--notify", "--session", "chat:7"], "true");
    hears_of(&log, &id);
    assert_eq!(told(&log).len(), 1, "{:?}", told(&log));
    let drained = p.json(["events", "drain", "--session", "chat:7"]);
    assert_eq!(drained["events"].as_array().map(Vec::len), Some(1), "{drained}");
}

#[test]
fn what_a_webhook_refuses_is_a_dead_letter_until_it_is_replayed() {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = door.local_addr().unwrap().port();
    let (say, said) = std::sync::mpsc::channel();
    let answers = std::thread::spawn(move || {
        for status in ["500 No", "500 No", "200 OK"] {
            let (stream, _) = door.accept().unwrap();
            let mut lines = BufReader::new(&stream);
            let (mut id, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                lines.read_line(&mut line).unwrap();
                match line.trim_end().split_once(": ") {
                    Some(("webhook-id", value)) => id = value.to_owned(),
                    Some(("content-length", value)) => length = value.parse().unwrap(),
                    Some(_) => {}
                    None if line.trim_end().is_empty() => break,
                    None => {}
                }
            }
            let mut body = vec![0; length];
            lines.read_exact(&mut body).unwrap();
            say.send((id, serde_json::from_slice::<Value>(&body).unwrap())).unwrap();
            (&stream).write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").as_bytes()).unwrap();
        }
    });
    let p = product();
    let secret = p.work().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    p.configure(&format!(
        "[[webhook]]\nname = \"ops\"\nurl = \"http://127.0.0.1:{port}/\"\nsecret_file = {secret:?}\nretry_seconds = [0.05]\ngive_up_seconds = 0.06\n"
    ));
    let id = p.run_with(&["--notify"], "exit 5");
    let dead = eventually("a dead letter", || {
        let dead = p.json(["events", "dead"]);
        (dead["letters"].as_array().map(Vec::len) == Some(1)).then_some(dead)
    });
    let letter = &dead["letters"][0];
    assert_eq!((letter["sink"].as_str(), letter["event"]["session_id"].as_str()), (Some("ops"), Some(id.as_str())), "{dead}");
    assert!(letter["reason"].as_str().unwrap().contains("500"), "{dead}");
    p.call(["events", "replay", "--dead"]).good();
    answers.join().unwrap();
    let all: Vec<(String, Value)> = said.try_iter().collect();
    // The same name each time, so that a receiver drops what it has seen.
    assert!(all.iter().all(|(name, body)| *name == all[0].0 && body["data"]["event"]["event_id"] == *name.as_str()), "{all:?}");
    eventually("no dead letter", || (p.json(["events", "dead"])["letters"].as_array().map(Vec::len) == Some(0)).then_some(()));
}

#[test]
fn a_sink_that_makes_no_sense_is_warned_about_and_the_others_tell() {
    let (p, log) = hooked("[[hook]]\nname = \"empty\"\ncommand = \"\"\n[[webhook]]\nname = \"bare\"\nurl = \"https://example.com\"\n");
    let shown = p.call(["config", "show"]).good();
    assert!(shown.err.contains("its command is empty") && shown.err.contains("[[webhook]]"), "{}", shown.err);
    let id = p.run_with(&["--notify"], "true");
    hears_of(&log, &id);
}

/// A hook that gives up at once, and this many notices that it gave up on.
fn given_up(p: &Product, count: u64) {
    p.configure("[[hook]]\nname = \"ops\"\ncommand = \"echo no route >&2; exit 9\"\nretry_seconds = [0.01]\ngive_up_seconds = 0.01\nat_once = 100\n");
    for n in 0..count {
        p.call(["events", "post", "--session", "s", &json!({"type": "note", "n": n}).to_string()]).good();
    }
    eventually("dead letters", || (p.json(["events", "dead", "--limit", "1"])["total"] == count).then_some(()));
}

#[test]
fn all_dead_letters_are_counted_and_a_sink_that_gave_up_is_named() {
    let p = product();
    given_up(&p, 3);
    let dead = p.json(["events", "dead", "--limit", "2"]);
    assert_eq!((dead["letters"].as_array().unwrap().len(), &dead["total"]), (2, &json!(3)), "{dead}");
    let shown = p.call(["events", "dead", "--limit", "2"]).good();
    assert_eq!(shown.err, "2 of 3 shown, the oldest first; --limit N shows more\n");
    assert_eq!(p.call(["events", "dead"]).good().err, "");
    let sinks = |checks: &Value| -> Vec<String> {
        let all = checks["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "sink");
        all.map(|check| check["what"].as_str().unwrap().to_owned()).collect()
    };
    let found = sinks(&p.json(["doctor", "--quick"]));
    assert!(matches!(&found[..], [one] if one.starts_with("the sink ops gave up on 3 notices, the last because: ")), "{found:?}");
    let status = p.json(["engine", "status"])["degraded"].to_string();
    assert!(
        status.contains("the sink ops gave up on 3 notices in the last day, the last because: ") && status.contains("no route"),
        "{status}"
    );
    let history = p.json(["events", "history", "--limit", "1"]);
    let failed = &history["notices"][0]["failed_deliveries"][0];
    assert_eq!((&failed["sink"], &failed["dead"]), (&json!("ops"), &json!(true)), "{history}");
    assert!(failed["error"].as_str().unwrap().contains("no route") && failed["attempts"].as_u64() > Some(0), "{history}");
    let lines = p.call(["events", "history"]).good().text();
    assert!(lines.contains("; the sink ops gave up after ") && lines.contains("no route"), "{lines}");
}

#[test]
fn a_delivery_that_will_be_tried_again_is_in_the_history_with_its_error() {
    let p = product();
    p.configure("[[hook]]\nname = \"ops\"\ncommand = \"echo no route >&2; exit 9\"\nretry_seconds = [3600]\n");
    p.call(["events", "post", "--session", "s", "{\"type\": \"note\"}"]).good();
    let failed = eventually("the failed delivery", || {
        p.json(["events", "history"])["notices"][0].get("failed_deliveries").map(|failed| failed[0].clone())
    });
    assert_eq!((&failed["sink"], &failed["dead"], &failed["attempts"]), (&json!("ops"), &json!(false), &json!(1)), "{failed}");
    let lines = p.call(["events", "history"]).good().text();
    assert!(lines.contains("; the sink ops will try again after 1 failed try: ") && lines.contains("no route"), "{lines}");
    let status = p.json(["engine", "status"])["degraded"].to_string();
    assert!(status.contains("the sink ops did not take 1 notice, and is tried again"), "{status}");
}

#[test]
fn letters_of_a_sink_that_is_not_configured_are_not_offered_to_it() {
    let p = product();
    given_up(&p, 2);
    p.configure("[[hook]]\nname = \"other\"\ncommand = \"true\"\n");
    p.call(["engine", "restart"]).good();
    let refused = p.call(["events", "replay", "--dead", "--sink", "ops", "--json"]);
    assert_eq!((refused.code, &refused.json()["code"]), (Some(1), &json!("not_found")), "{refused:?}");
    assert!(refused.json()["hint"].as_str().unwrap().starts_with("the running engine has other"), "{refused:?}");
    // Without a name, those of other sinks only.
    assert_eq!(p.json(["events", "replay", "--dead"])["count"], 0);
    assert_eq!(p.json(["events", "dead"])["total"], 2);
}
