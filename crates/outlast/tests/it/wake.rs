//! Hooks that wake an agent: what they tell is told, and what the agent has by other ways does not wake it.

use crate::gate::Gate;
use crate::support::*;
use crate::told::history;
use std::path::{Path, PathBuf};

/// A product whose hook wakes: it writes what it is told into a file, one line for each run, and then does `more`.
fn waking(more: &str, keys: &str) -> (Product, PathBuf) {
    let p = product();
    let log = p.work().join("told");
    p.configure(&format!(
        "[[hook]]\nname = \"waker\"\ncommand = \"cat >> {}; {more}\"\nwake = true\nsessions = [\"agent:*\"]\n{keys}",
        log.display()
    ));
    (p, log)
}

/// What the hook was told, run by run.
fn runs(log: &Path) -> Vec<Vec<Value>> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let run = |line: &str| serde_json::from_str::<Value>(line).unwrap()["events"].as_array().unwrap().clone();
    whole.lines().map(run).collect()
}

fn told(log: &Path, count: usize) -> Vec<Value> {
    eventually(&format!("{count} notices told"), || Some(runs(log).concat()).filter(|all| all.len() >= count))
}

fn drained(p: &Product) -> Vec<Value> {
    p.json(["events", "drain", "--session", "agent:1"])["events"].as_array().unwrap().clone()
}

fn post(p: &Product, session: &str, n: u64) -> String {
    let posted = p.json(["events", "post", "--session", session, &json!({"type": "note", "n": n}).to_string()]);
    posted["event"]["event_id"].as_str().unwrap().to_owned()
}

fn states(p: &Product) -> Vec<String> {
    history(p, &["--session", "agent:1"]).iter().map(|t| t["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_a_wake_has_delivered_is_not_delivered_again() {
    let (p, log) = waking("true", "");
    let id = p.run_with(&["--notify", "--session", "agent:1"], "exit 3");
    let heard = told(&log, 1);
    assert_eq!((&heard[0]["event"]["session_id"], &heard[0]["repeat"]), (&json!(id), &json!(false)), "{heard:?}");
    eventually("the notice to be settled", || (states(&p) == ["delivered"]).then_some(()));
    assert_eq!(drained(&p), [Value::Null; 0]);
    assert_eq!(p.json(["events", "consumed", &id])["consumed"], true);
    // Of other conversations it hears nothing.
    post(&p, "chat:1", 1);
    post(&p, "agent:1", 2);
    assert_eq!(told(&log, 2)[1]["event"]["n"], 2);
    assert_eq!(p.json(["events", "drain", "--session", "chat:1"])["events"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_the_agent_has_seen_by_itself_does_not_wake_it() {
    let (p, log) = waking("true", "coalesce_ms = 1500\n");
    let gate = Gate::new(&p, "gate");
    let seen: Vec<String> =
        (0..3).map(|_| p.run_with(&["--notify", "--session", "agent:1"], &format!("{}; echo out", gate.wait()))).collect();
    (0..3).for_each(|_| gate.open());
    let own = |args: &[&str]| Answer::from(p.command(args).env("OUTLAST_SESSION", "agent:1").output().unwrap());
    // It has ended, and no notice was delivered yet: the hook gathers for a while.
    own(&["wait", &seen[0]]).good();
    for id in &seen[1..] {
        eventually("its end", || (p.json(["poll", id])["status"] == "exited").then_some(()));
    }
    own(&["log", &seen[1]]).good();
    assert_eq!(p.json(["events", "next", "--session", "agent:1"])["notices"][0]["event"]["session_id"], seen[2], "another taker gets it");
    post(&p, "agent:1", 7);
    let heard = told(&log, 1);
    assert_eq!((heard.len(), &heard[0]["event"]["n"]), (1, &json!(7)), "{heard:?}");
}

#[test]
fn a_wake_that_fails_leaves_the_notice_to_takers_and_is_not_retried_after_delivery() {
    let (p, log) = waking("exit 1", "retry_seconds = [2]\n");
    post(&p, "agent:1", 1);
    told(&log, 1);
    let given = eventually("the notice to be free again", || drained(&p).pop());
    assert_eq!((&given["event"]["n"], &given["event"]["repeat"]), (&json!(1), &json!(true)), "it may have come through: {given}");
    assert_eq!(states(&p), ["delivered"]);
    // Told behind it, so that a second try would have come before.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    post(&p, "agent:1", 2);
    eventually("the second notice", || runs(&log).concat().iter().any(|t| t["event"]["n"] == 2).then_some(()));
    assert_eq!(runs(&log).concat().iter().filter(|t| t["event"]["n"] == 1).count(), 1);
}

#[test]
fn while_a_wake_delivers_it_no_other_taker_gets_it() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let log = p.work().join("told");
    p.configure(&format!(
        "[[hook]]\nname = \"waker\"\ncommand = \"cat >> {}; {}\"\nwake = true\nsessions = [\"agent:*\"]\n",
        log.display(),
        gate.wait()
    ));
    post(&p, "agent:1", 1);
    told(&log, 1);
    assert_eq!((drained(&p), states(&p)), (vec![], vec!["leased".to_owned()]));
    gate.open();
    eventually("the notice to be settled", || (states(&p) == ["delivered"]).then_some(()));
}

#[test]
fn an_engine_killed_between_the_call_and_its_settlement_tells_it_again_as_a_repeat() {
    let (p, log) = waking("true", "");
    for point in ["delivery.wakes", "delivery.before_settle"] {
        std::fs::write(&log, "").unwrap();
        p.points().arm(point).unwrap();
        let name = post(&p, "agent:1", 1);
        let engine = eventually(&format!("the engine at {point}"), || p.points().held(point));
        kill_and_wait(engine).unwrap();
        p.points().release(point).unwrap();
        // The next engine.
        p.engine();
        let want = if point == "delivery.wakes" { 1 } else { 2 };
        let heard = told(&log, want);
        let (first, last) = (&heard[0], heard.last().unwrap());
        assert!(heard.iter().all(|t| t["event"]["event_id"] == name), "{heard:?}");
        assert_eq!((first["repeat"] == true, last["repeat"] == true), (want == 1, true), "killed at {point}: {heard:?}");
        assert!(last["text"].as_str().unwrap().contains("may be a repeat"), "{last}");
        eventually("the notice to be settled", || (states(&p).last().unwrap() == "delivered").then_some(()));
        assert_eq!(drained(&p), [Value::Null; 0]);
    }
}
