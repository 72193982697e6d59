//! Durable tasks.

use super::*;
use crate::gate::Gate;

fn task_of(agent: &mut Agent, arguments: Value) -> String {
    let said = agent.call("run", arguments);
    assert_eq!((&said["resultType"], &said["status"]), (&json!("task"), &json!("working")), "{said}");
    assert!(said["ttlMs"].as_u64().unwrap() >= 6 * 86_400_000 && said["pollIntervalMs"].is_u64(), "{said}");
    said["taskId"].as_str().unwrap().to_owned()
}

#[test]
fn a_task_can_be_resolved_after_any_crash() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::new(&p, "a", &[], with_tasks());
    let id = task_of(&mut agent, json!({"command": format!("echo out; {}; exit 4", gate.wait()), "wait_seconds": 0.1}));
    assert_eq!(agent.ask("tasks/get", json!({"taskId": id}))["status"], "working");
    agent.kill();
    p.kill_engine();
    gate.open();
    let mut agent = Agent::new(&p, "a", &[], with_tasks());
    let over = eventually("the task is over", || {
        let said = agent.ask("tasks/get", json!({"taskId": id}));
        (said["status"] != "working").then_some(said)
    });
    // What did not end well is a result, and no failure of the call.
    assert_eq!((&over["status"], &over["result"]["isError"]), (&json!("completed"), &json!(true)), "{over}");
    assert_eq!(
        (&over["result"]["structuredContent"]["exit_code"], &over["result"]["structuredContent"]["output"]),
        (&json!(4), &json!("out")),
        "{over}"
    );
    // The result may be requested again, and no notice is delivered to its client.
    assert_eq!(agent.ask("tasks/get", json!({"taskId": id}))["status"], "completed");
    assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
    agent.leave();
}

#[test]
fn a_task_that_was_waited_for_can_still_be_resolved() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::new(&p, "a", &[], with_tasks());
    let id = task_of(&mut agent, json!({"command": format!("{}; echo out", gate.wait()), "wait_seconds": 0.1}));
    gate.open();
    let waited = agent.tool("wait", json!({"process": id}));
    assert_eq!((&waited["status"], &waited["process"]), (&json!("exited"), &json!(id)), "{waited}");
    let over = agent.ask("tasks/get", json!({"taskId": id}));
    assert_eq!((&over["status"], &over["result"]["structuredContent"]["output"]), (&json!("completed"), &json!("out")), "{over}");
    agent.leave();
}

#[test]
fn the_result_of_a_task_carries_what_is_due() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::new(&p, "a", &[], with_tasks());
    let id = task_of(&mut agent, json!({"command": format!("{}; exit 4", gate.wait()), "wait_seconds": 0.1}));
    let other = crate::told::ended(&p, &format!("mcp:a:{}", p.work().display()), "exit 5");
    // A running task has no result that could carry it.
    assert_eq!(agent.ask("tasks/get", json!({"taskId": id}))["status"], "working");
    gate.open();
    let mut result = || {
        eventually("the task is over", || {
            let said = agent.ask("tasks/get", json!({"taskId": id}));
            (said["status"] != "working").then(|| said["result"].clone())
        })
    };
    let first = result();
    let told = notices(&first);
    assert!(told.len() == 1 && told[0]["text"].as_str().unwrap().contains(&other), "{first}");
    assert!(notices(&result()).is_empty(), "once");
    assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
    agent.leave();
}

#[test]
fn an_update_of_a_task_shows_nothing_and_settles_no_notice() {
    let p = product();
    let session = format!("mcp:a:{}", p.work().display());
    let id = crate::told::ended(&p, &session, "exit 3");
    let mut agent = Agent::new(&p, "a", &[], with_tasks());
    agent.ask("tasks/update", json!({"taskId": id, "inputResponses": {}}));
    assert_eq!(crate::told::about(&crate::told::drained(&p, &session)), [id.as_str()]);
    agent.leave();
}

#[test]
fn a_call_that_names_its_conversation_is_answered_without_a_task() {
    // Requests for a task have no arguments, and would be made for another conversation.
    let p = product();
    let mut agent = Agent::new(&p, "a", &[], with_tasks());
    let said = agent.call("run", json!({"command": "sleep 1000", "wait_seconds": 0.1, "conversation": "one"}));
    assert_eq!((&said["taskId"], &said["structuredContent"]["status"]), (&Value::Null, &json!("running")), "{said}");
    agent.tool("kill", json!({"process": said["structuredContent"]["process"], "conversation": "one"}));
    agent.leave();
}

#[test]
fn a_command_that_ends_in_time_or_has_no_waiter_is_no_task() {
    let p = product();
    let mut agent = Agent::new(&p, "a", &[], with_tasks());
    let done = agent.call("run", json!({"command": "echo x"}));
    assert_eq!((&done["resultType"], &done["structuredContent"]["output"]), (&json!("complete"), &json!("x")), "{done}");
    // A server that is to stay would keep the call of a client busy that drives a task to its end.
    for more in
        [json!({"wait_seconds": 0}), json!({"wait_seconds": 0.1, "notify": false}), json!({"wait_seconds": 0.1, "watch": ["Listening"]})]
    {
        let mut arguments = json!({"command": "sleep 1000"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let server = agent.call("run", arguments);
        assert_eq!((&server["resultType"], &server["structuredContent"]["status"]), (&json!("complete"), &json!("running")), "{server}");
        agent.tool("kill", json!({"process": server["structuredContent"]["process"]}));
    }
    agent.leave();
    let mut hermes = Agent::new(&p, "hermes", &[], with_tasks());
    let background = json!({"command": "sleep 1000", "background": true, "notify_on_complete": true});
    let server = object(&hermes.call("terminal", background));
    assert!(server["session_id"].is_string(), "{server}");
    hermes.tool("process", json!({"action": "kill", "session_id": server["session_id"]}));
    let waited = hermes.call("terminal", json!({"command": "sleep 1000", "timeout": 1}));
    assert_eq!(waited["resultType"], "task", "{waited}");
    hermes.ask("tasks/cancel", json!({"taskId": waited["taskId"]}));
    hermes.leave();
}

#[test]
fn a_task_is_offered_only_where_version_and_capability_allow_it() {
    let p = product();
    let call = json!({"command": "sleep 1000", "wait_seconds": 0.1});
    // A client of the old era that declares the extension would show an empty result.
    let mut old = Agent::declaring(&p, "a", &[], with_tasks());
    let mut plain = Agent::new(&p, "a", &[], json!({}));
    for agent in [&mut old, &mut plain] {
        let said = agent.call("run", call.clone());
        assert_eq!((&said["taskId"], &said["structuredContent"]["status"]), (&Value::Null, &json!("running")), "{said}");
        agent.tool("kill", json!({"process": said["structuredContent"]["process"]}));
    }
    assert_eq!(plain.refused("tasks/get", json!({"taskId": "proc_000000000000"}))["code"], -32021);
    old.leave();
    plain.leave();
}

#[test]
fn a_cancelled_task_is_stopped_and_says_so() {
    let p = product();
    let mut agent = Agent::new(&p, "a", &[], with_tasks());
    let id = task_of(&mut agent, json!({"command": "sleep 1000", "wait_seconds": 0.1}));
    agent.ask("tasks/cancel", json!({"taskId": id}));
    let said = agent.ask("tasks/get", json!({"taskId": id}));
    assert_eq!(said["status"], "cancelled", "{said}");
    // Cancelled twice is cancelled.
    agent.ask("tasks/cancel", json!({"taskId": id}));
    // Neither a task of another client nor one that never existed.
    let mut other = Agent::new(&p, "b", &[], with_tasks());
    for unknown in [id.as_str(), "proc_000000000000", "nonsense", ""] {
        assert_eq!(other.refused("tasks/get", json!({"taskId": unknown}))["code"], -32602, "{unknown}");
        assert_eq!(other.refused("tasks/cancel", json!({"taskId": unknown}))["code"], -32602, "{unknown}");
        assert_eq!(other.refused("tasks/update", json!({"taskId": unknown, "inputResponses": {}}))["code"], -32602, "{unknown}");
    }
    other.leave();
    agent.leave();
}
