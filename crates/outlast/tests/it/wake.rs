//! Hooks that wake an agent: what they tell is told, and what the agent has by other ways does not wake it.

use crate::gate::Gate;
use crate::mcp::{Agent, notices};
use crate::person::Person;
use crate::support::*;
use crate::told::history;
use std::os::unix::fs::PermissionsExt as _;
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

/// What `doctor` says of hooks that wake.
fn wake_checks(p: &Product) -> Vec<Value> {
    let answer = p.json(["doctor", "--quick"]);
    answer["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "wake").cloned().collect()
}

#[test]
fn a_wake_that_cannot_work_is_known_and_the_next_answer_of_a_tool_has_the_notice() {
    let p = product();
    p.configure(
        "[[hook]]\nname = \"waker\"\ncommand = [\"/no/such/outlast\", \"hook\", \"codex\"]\nwake = true\nsessions = [\"mcp:*\"]\nretry_seconds = [600]\n",
    );
    let mut agent = Agent::old(&p, "a", &[]);
    // It runs while the call is answered, so that its end is a notice.
    let gate = Gate::new(&p, "gate");
    let line = format!("{}; exit 5", gate.wait());
    let id = agent.tool("run", json!({"command": line, "wait_seconds": 0}))["process"].as_str().unwrap().to_owned();
    gate.open();
    let status = || p.json(["engine", "status"])["degraded"].to_string();
    let failed = "the hook waker could not wake an agent when it was last called";
    let said = eventually("the failed wake", || Some(status()).filter(|said| said.contains(failed)));
    assert!(said.contains("cannot run the hook: No such file"), "{said}");
    // The next try is in ten minutes.
    let given = agent.call("list", json!({}));
    assert_eq!(notices(&given).len(), 1, "{given}");
    assert!(notices(&given)[0]["text"].as_str().unwrap().contains(&format!("{id} exited (exit code 5)")), "{given}");
    assert!(notices(&agent.call("list", json!({}))).is_empty());
    assert!(status().contains(failed), "also when no notice waits");
    let mut person = Person::calls(&p, &["list"]);
    person.sees("a hook could not wake its agent; `outlast doctor` says why\r\n");
    assert_eq!(person.ended(), Some(0));
    let checks = wake_checks(&p);
    assert!(checks.len() == 1 && checks[0]["state"] == "degraded", "{checks:?}");
    assert!(checks[0]["what"].as_str().unwrap().ends_with("there is no /no/such/outlast"), "{checks:?}");
    agent.leave();
}

#[test]
fn a_wake_that_works_again_is_no_longer_reported() {
    let (p, log) = waking("test -e ok", "retry_seconds = [600]\n");
    let sentence = || p.json(["engine", "status"])["degraded"].to_string();
    post(&p, "agent:1", 1);
    eventually("the failed wake", || sentence().contains("the hook waker could not wake an agent").then_some(()));
    // A hook runs in the home directory of the user.
    std::fs::write(p.user().join("ok"), "").unwrap();
    post(&p, "agent:1", 2);
    told(&log, 2);
    eventually("the end of the report", || (!sentence().contains("could not wake an agent")).then_some(()));
}

#[test]
fn doctor_and_install_try_our_own_hooks_without_waking_an_agent() {
    let p = product();
    let codex = p.work().join("codex");
    let script = "#!/bin/sh\nread -r hello; echo '{\"id\":1,\"result\":{}}'; read -r initialized; read -r more && touch asked\n";
    std::fs::write(&codex, script).unwrap();
    std::fs::set_permissions(&codex, std::fs::Permissions::from_mode(0o755)).unwrap();
    let note = p.json(["install", "codex"])["notes"].to_string();
    assert!(note.contains("wake-codex cannot wake it now: cannot run codex app-server"), "{note}");
    let config = p.user().join(".config/outlast/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("\"hook\", \"codex\"", &format!("\"hook\", \"codex\", \"--program\", \"{}\"", codex.display())))
        .unwrap();
    assert!(!p.json(["install", "codex"])["notes"].to_string().contains("cannot wake"));
    let checks = wake_checks(&p);
    assert!(
        checks.len() == 1 && checks[0]["state"] == "ok" && checks[0]["what"].as_str().unwrap().contains("reaches the agent"),
        "{checks:?}"
    );
    assert!(!p.user().join("asked").exists(), "after the greeting nothing is asked of it");
    let opencode = p.json(["install", "opencode", "--wake"])["notes"].to_string();
    assert!(opencode.contains("wake-opencode cannot wake it now: opencode cannot be asked"), "{opencode}");
    let hermes = p.json(["install", "hermes", "--wake"])["notes"].to_string();
    assert!(hermes.contains("wake-hermes cannot wake it now"), "{hermes}");
    let mine = p.user().join("mine");
    p.configure(&format!("[[hook]]\nname = \"mine\"\ncommand = [\"touch\", \"{}\"]\nwake = true\n", mine.display()));
    assert!(wake_checks(&p)[0]["what"].as_str().unwrap().contains("`outlast hook test mine` runs it"));
    assert!(!mine.exists(), "a command of the user is not run");
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
