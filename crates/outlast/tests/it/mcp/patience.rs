//! Clients that give up before they are answered.

use super::*;
use crate::gate::Gate;
use std::time::{Duration, Instant};

/// A client of the Python SDK, which may give up after five seconds and does not say so.
const HASTY: &str = "mcp";

/// Calls a tool, and returns the number of the request once it has waited for longer than such a client does.
fn waits_too_long(agent: &mut Agent, tool: &str, arguments: Value) -> u64 {
    let waiting = agent.send("tools/call", json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}));
    while agent.hear()["params"]["progress"].as_f64().unwrap() < 5.5 {}
    waiting
}

/// The only line about this process in an answer.
fn line(result: &Value, process: &str) -> String {
    let told = notices(result);
    assert!(told.len() == 1 && told[0]["text"].as_str().unwrap().contains(process), "{result}");
    told[0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_call_that_names_no_wait_is_answered_before_its_client_gives_up() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, HASTY, &[]);
    let began = Instant::now();
    let said = agent.call("run", json!({"command": format!("{}; exit 3", gate.wait())}));
    assert!(began.elapsed() >= Duration::from_millis(3_500), "{:?}", began.elapsed());
    let (all, text) = (object(&said), texts(&said).remove(0));
    let id = all["process"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
    assert!(text.contains(&id) && text.contains("keeps running in the background: do not run it again"), "{text}");
    assert!(text.contains("its end will be told"), "{text}");
    gate.open();
    p.wait(&id);
    let told = line(&agent.call("list", json!({})), &id);
    assert!(told.contains("exited (exit code 3)") && !told.contains("repeat"), "{told}");
    assert!(notices(&agent.call("list", json!({}))).is_empty());
    agent.leave();
}

#[test]
fn an_end_that_was_answered_too_late_is_told_in_one_line_as_a_possible_repeat() {
    let p = product();
    let mut agent = Agent::old(&p, HASTY, &[]);
    for notify in [true, false] {
        let gate = Gate::new(&p, &format!("gate-{notify}"));
        let command = format!("echo out; {}; exit 3", gate.wait());
        let late = waits_too_long(&mut agent, "run", json!({"command": command, "wait_seconds": 100, "notify": notify}));
        gate.open();
        let answer = agent.answer(late)["result"].clone();
        assert_eq!((&object(&answer)["exit_code"], &object(&answer)["process"]), (&json!(3), &Value::Null), "{answer}");
        // The line names the process, which is not forgotten.
        let id =
            p.json(["list", "--all"])["processes"].as_array().unwrap().iter().find(|one| one["command"] == command).unwrap()["session_id"]
                .clone();
        let id = id.as_str().unwrap();
        let told = line(&agent.call("list", json!({})), id);
        assert!(told.contains("(this may be a repeat)") && told.contains("It exited with code 3: do not run it again."), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(notices(&agent.call("list", json!({}))).is_empty());
        assert_eq!(agent.tool("log", json!({"process": id}))["output"], "out");
        assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
    }
    agent.leave();
}

#[test]
fn a_call_that_still_waits_is_told_to_a_client_that_has_given_up() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, HASTY, &[]);
    let late = waits_too_long(&mut agent, "run", json!({"command": gate.wait(), "wait_seconds": 100}));
    let next = agent.send("tools/call", json!({"name": "list", "arguments": {}}));
    let said = agent.answer(next)["result"].clone();
    let id = object(&said)["processes"][0]["process"].as_str().unwrap().to_owned();
    let told = line(&said, &id);
    assert!(told.contains("was not answered. It is still running, and its end will be told: do not run it again."), "{told}");
    let next = agent.send("tools/call", json!({"name": "list", "arguments": {}}));
    assert!(notices(&agent.answer(next)["result"]).is_empty(), "once");
    gate.open();
    agent.answer(late);
    assert!(line(&agent.call("list", json!({})), &id).contains("exited with code 0"));
    agent.leave();
}

#[test]
fn a_call_that_was_cancelled_is_told_with_the_next_answer() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "unknown", &[]);
    let waiting = agent.send(
        "tools/call",
        json!({"name": "run", "arguments": {"command": format!("{}; exit 4", gate.wait()), "wait_seconds": 100}, "_meta": {"progressToken": 1}}),
    );
    assert_eq!(agent.hear()["method"], "notifications/progress");
    agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}}));
    let said = agent.call("list", json!({}));
    let id = object(&said)["processes"][0]["process"].as_str().unwrap().to_owned();
    assert!(line(&said, &id).contains("was not answered. It is still running"), "{said}");
    gate.open();
    let told = line(&agent.call("notices", json!({"wait_seconds": 60})), &id);
    assert!(told.contains("exited (exit code 4)") && !told.contains("repeat"), "no model has seen it: {told}");
    agent.leave();
}

#[test]
fn what_was_answered_whole_is_kept_and_not_listed() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &[]);
    for (tool, arguments) in [("run", json!({"command": "echo one"})), ("run", json!({"command": "echo two", "notify": false}))] {
        assert_eq!(agent.tool(tool, arguments)["exit_code"], 0);
    }
    // The server confirms an answer to the engine once it is written.
    eventually("none is listed", || (agent.tool("list", json!({}))["processes"] == json!([])).then_some(()));
    assert_eq!(agent.ask("resources/list", json!({}))["resources"], json!([]));
    let all = eventually("both are set aside", || {
        let all = p.json(["list", "--all"])["processes"].as_array().unwrap().clone();
        (all.len() == 2 && all.iter().all(|one| one["is_set_aside"] == true)).then_some(all)
    });
    // An engine that starts anew knows it as well.
    eventually("it is on disk", || {
        p.call(["engine", "stop"]).good();
        p.json(["list", "--all"])["processes"].as_array().unwrap().iter().all(|one| one["is_set_aside"] == true).then_some(())
    });
    let id = all[0]["session_id"].as_str().unwrap();
    assert_eq!(
        agent.tool("log", json!({"process": id}))["output"].as_str().unwrap().trim_end(),
        if all[0]["command"] == "echo one" { "one" } else { "two" }
    );
    assert_eq!(agent.tool("list", json!({}))["processes"], json!([]));
    agent.leave();
}
