//! Ends are delivered once, also if client, server or engine is killed.

use super::*;
use crate::gate::Gate;

#[test]
fn an_end_comes_with_the_next_answer_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "a", &[]);
    let begun = agent.tool("run", json!({"command": format!("{}; exit 5", gate.wait()), "wait_seconds": 0}));
    let id = begun["process"].as_str().unwrap().to_owned();
    assert_eq!(begun["status"], "running", "{begun}");
    gate.open();
    p.wait(&id);
    let said = agent.call("list", json!({}));
    assert_eq!(notices(&said).len(), 1, "{said}");
    assert!(has_end(&said, &id, 5), "{said}");
    assert!(notices(&agent.call("list", json!({}))).is_empty());
    agent.leave();
}

/// Whether a result has the notice of this end.
fn has_end(result: &Value, id: &str, code: i32) -> bool {
    let end = format!("Background process {id} exited (exit code {code})");
    notices(result).iter().any(|one| one["text"].as_str().unwrap().contains(&end))
}

/// An ended process whose notice is due for the client's session.
fn ended(p: &Product, client: &str, code: i32) -> String {
    crate::told::ended(p, &format!("mcp:{client}:{}", p.work().display()), &format!("exit {code}"))
}

#[test]
fn a_notice_is_in_the_first_text_and_in_the_structured_content_of_any_answer() {
    let p = product();
    for (client, calls) in [
        (
            "a",
            vec![
                ("run", json!({"command": "echo ok"}), false),
                ("run", json!({"command": "exit 3"}), true),
                ("run", json!({"command": "true", "cwd": "not/there"}), true),
                ("run", json!({}), true),
                ("list", json!({}), false),
                ("log", json!({"process": "proc_000000000000"}), true),
            ],
        ),
        (
            "hermes",
            vec![
                ("terminal", json!({"command": "echo ok"}), false),
                ("terminal", json!({"command": "exit 3"}), true),
                ("process", json!({"action": "list"}), false),
                ("process", json!({"action": "dance"}), true),
            ],
        ),
        (
            "codex-mcp-client",
            vec![
                ("exec_command", json!({"cmd": "echo ok"}), false),
                ("exec_command", json!({"cmd": "exit 3"}), true),
                ("write_stdin", json!({"session_id": 7}), true),
            ],
        ),
    ] {
        for mut agent in [Agent::old(&p, client, &[]), Agent::new(&p, client, &[], json!({}))] {
            for (tool, arguments, is_error) in calls.clone() {
                let id = ended(&p, client, 5);
                let said = agent.call(tool, arguments.clone());
                assert_eq!((notices(&said).len(), &said["isError"]), (1, &json!(is_error)), "{tool} {arguments}: {said}");
                assert!(has_end(&said, &id, 5), "{tool} {arguments}: {said}");
            }
            agent.leave();
        }
    }
}

#[test]
fn a_notice_stands_before_what_a_client_cuts_off() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &[]);
    let long = p.run_with(&["--session", &format!("mcp:a:{}", p.work().display())], "seq 40000");
    p.wait(&long);
    let id = ended(&p, "a", 5);
    let said = agent.call("log", json!({"process": long, "offset": 0, "limit": 40000}));
    assert!(has_end(&said, &id, 5), "{said}");
    let text = texts(&said).remove(0);
    assert!(text.find(&id).unwrap() < 1_000, "{}", &text[..1_000]);
    assert!(text.len() > 50_000 && text.chars().count() <= 100_000, "{}", text.len());
    agent.leave();
}

#[test]
fn what_was_told_can_be_seen_again_and_is_marked() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &[]);
    let id = ended(&p, "a", 5);
    assert!(has_end(&agent.call("list", json!({})), &id, 5));
    assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
    let newer = ended(&p, "a", 6);
    let said = agent.call("notices", json!({"told": true}));
    let again = notices(&said);
    assert_eq!(again.len(), 2, "{said}");
    assert!(again[0]["event"]["session_id"] == json!(id) && again[0]["told_at"].is_string(), "{said}");
    assert!(again[1]["event"]["session_id"] == json!(newer) && again[1].get("told_at").is_none(), "{said}");
    // Showing it again does not deliver it again.
    assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
    assert!(notices(&agent.call("list", json!({}))).is_empty());
    agent.leave();
    // Another session does not see it.
    let mut other = Agent::old(&p, "b", &[]);
    assert_eq!(other.tool("notices", json!({"told": true}))["notices"], json!([]));
    other.leave();
}

#[test]
fn notices_that_do_not_fit_come_with_the_next_answer() {
    let p = product();
    let session = format!("mcp:a:{}", p.work().display());
    let ended = || {
        let id = p.run_with(&["--notify", "--notify-chars", "60000", "--session", &session], "seq 10000 20000");
        p.wait(&id);
        id
    };
    let ids = [ended(), ended(), ended()];
    let mut agent = Agent::old(&p, "a", &[]);
    let mut told = Vec::new();
    for _ in &ids {
        let said = agent.call("write", json!({"process": "proc_000000000000", "text": "x"}));
        let one = notices(&said);
        assert_eq!(one.len(), 1, "{}", said.to_string().len());
        told.extend(ids.iter().filter(|id| one[0]["text"].as_str().unwrap().contains(id.as_str())).cloned());
    }
    assert_eq!(told, ids);
    assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
    agent.leave();
}

/// Posts a notice with this message to the client's session.
fn post(p: &Product, client: &str, message: &str) {
    let event = json!({"type": "greeting", "message": message});
    let session = format!("mcp:{client}:{}", p.work().display());
    p.call_with_input(["events", "post", "--json", "--session", &session, "-"], event.to_string().as_bytes()).good();
}

#[test]
fn a_notice_that_is_longer_than_an_answer_is_shown_with_its_beginning_and_its_end() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &[]);
    for (n, tool) in ["notices", "list"].into_iter().enumerate() {
        post(&p, "a", &format!("START {}END", "word ".repeat(40_000)));
        let said = agent.call(tool, json!({}));
        let told = notices(&said);
        let text = told[0]["text"].as_str().unwrap();
        assert!(told.len() == 1 && text.contains("Message: START word word") && text.contains("word END\n]"), "{tool}: {said}");
        let hint =
            format!(" characters left out: the answer was too long; `outlast events history --json --after {n} --limit 1` shows all]");
        assert!(text.contains(&hint), "{tool}: {said}");
        assert!(texts(&said)[0].chars().count() <= 100_000 && said["isError"] == false, "{tool}: {}", texts(&said)[0].len());
        let whole = p.json(["events", "history", "--after", &n.to_string(), "--limit", "1"]);
        assert_eq!(whole["notices"][0]["event"]["message"].as_str().unwrap().len(), 200_009);
    }
    agent.leave();
}

#[test]
fn a_long_notice_that_was_told_hides_no_other_one() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &[]);
    for message in ["small one".to_owned(), "x".repeat(200_000), "y".repeat(60_000), "small two".to_owned()] {
        post(&p, "a", &message);
        assert_eq!(notices(&agent.call("list", json!({}))).len(), 1);
    }
    let said = agent.call("notices", json!({"told": true}));
    let again = notices(&said);
    let texts = ["Message: small one", "Message: xxx", "Message: yyy", "Message: small two"];
    assert!(again.len() == 4 && again.iter().zip(texts).all(|(one, want)| one["text"].as_str().unwrap().contains(want)), "{said}");
    // More than one answer shows: the newest are shown, and the others counted.
    for n in 0..16 {
        post(&p, "a", &format!("number {n}"));
    }
    while !notices(&agent.call("list", json!({}))).is_empty() {}
    // They are settled after the answer is in the pipe.
    eventually("all are settled", || {
        (p.json(["events", "history", "--state", "delivered"])["notices"].as_array()?.len() == 20).then_some(())
    });
    let said = agent.tool("notices", json!({"told": true}));
    assert_eq!(said["notices"].as_array().unwrap().len(), 16, "{}", said["note"]);
    assert_eq!(said["note"], "4 older notices not shown; `outlast events history --state delivered` shows all", "{said}");
    agent.leave();
}

#[test]
fn a_server_killed_while_it_waits_leaves_the_end_to_the_next() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "a", &[]);
    let begun = agent.tool("run", json!({"command": format!("{}; exit 5", gate.wait()), "wait_seconds": 0}));
    let id = begun["process"].clone();
    agent.send("tools/call", json!({"name": "wait", "arguments": {"process": id}, "_meta": {"progressToken": 1}}));
    assert_eq!(agent.hear()["method"], "notifications/progress");
    agent.kill();
    gate.open();
    let mut agent = Agent::old(&p, "a", &[]);
    let told = agent.tool("notices", json!({"wait_seconds": 60}));
    assert_eq!((&told["notices"][0]["event"]["session_id"], &told["notices"][0]["event"]["exit_code"]), (&id, &json!(5)), "{told}");
    assert!(notices(&agent.call("list", json!({}))).is_empty());
    agent.leave();
}

/// Fills the pipe to the agent, so that nothing more can be answered.
fn deafen(p: &Product, agent: &mut Agent) {
    let long = p.run_with(&["--session", &format!("mcp:a:{}", p.work().display())], "seq 20000");
    p.wait(&long);
    agent.send("tools/call", json!({"name": "log", "arguments": {"process": long, "offset": 0, "limit": 20000}}));
    eventually("the pipe is full", || (agent.unread() >= 60_000).then_some(()));
}

#[test]
fn an_end_in_an_answer_that_never_arrived_is_told() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &[]);
    deafen(&p, &mut agent);
    // The engine answers its wait, which the server has then, and cannot pass on.
    p.points().arm("answer.sent").unwrap();
    agent.send("tools/call", json!({"name": "run", "arguments": {"command": "exit 6"}}));
    eventually("the answer is with the server", || p.points().held("answer.sent"));
    p.points().release("answer.sent").unwrap();
    agent.kill();
    let mut agent = Agent::old(&p, "a", &[]);
    let told = agent.tool("notices", json!({"wait_seconds": 60}));
    let event = &told["notices"][0]["event"];
    assert_eq!(event["exit_code"], 6, "{told}");
    // Its log is there, since nothing of it was forgotten.
    let log = agent.tool("log", json!({"process": event["session_id"]}));
    assert_eq!(log["status"], "exited", "{log}");
    agent.leave();
}

#[test]
fn a_failed_start_in_an_answer_that_never_arrived_is_told() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &[]);
    deafen(&p, &mut agent);
    p.points().arm("answer.sent").unwrap();
    agent.send("tools/call", json!({"name": "run", "arguments": {"command": ["/does/not/exist"]}}));
    eventually("the answer is with the server", || p.points().held("answer.sent"));
    p.points().release("answer.sent").unwrap();
    agent.kill();
    let mut agent = Agent::old(&p, "a", &[]);
    let told = agent.tool("notices", json!({"wait_seconds": 60}));
    assert_eq!(told["notices"][0]["event"]["completion_reason"], "failed_start", "{told}");
    // An answer that arrived is the only report: no notice is delivered.
    let said = agent.call("run", json!({"command": ["/does/not/exist"]}));
    assert_eq!((&said["isError"], notices(&said).len()), (&json!(true), 0), "{said}");
    agent.leave();
    let mut agent = Agent::old(&p, "a", &[]);
    assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
    agent.leave();
}

#[test]
fn an_end_whose_wait_is_cancelled_while_it_is_answered_is_told_at_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "a", &[]);
    let id = agent.tool("run", json!({"command": format!("{}; exit 5", gate.wait()), "wait_seconds": 0}))["process"].clone();
    gate.open();
    p.wait(id.as_str().unwrap());
    for point in ["answer.ready", "answer.cancelled", "answer.held"] {
        p.points().arm(point).unwrap();
    }
    let waiting = agent.send("tools/call", json!({"name": "wait", "arguments": {"process": id}}));
    eventually("the end is about to be answered", || p.points().held("answer.ready"));
    agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}}));
    eventually("the engine knows that the wait was cancelled", || p.points().held("answer.cancelled"));
    p.points().release("answer.ready").unwrap();
    eventually("it would be held now", || p.points().held("answer.held"));
    p.points().release("answer.held").unwrap();
    p.points().release("answer.cancelled").unwrap();
    assert_eq!(told_soon(&mut agent)["session_id"], id);
    agent.leave();
}

/// The event of a notice that arrives before the lease of another taker would end, which takes a minute.
fn told_soon(agent: &mut Agent) -> Value {
    let asked = std::time::Instant::now();
    let told = agent.tool("notices", json!({"wait_seconds": 120}));
    assert!(asked.elapsed() < std::time::Duration::from_secs(50), "{told}: {:?}", asked.elapsed());
    told["notices"][0]["event"].clone()
}

#[test]
fn a_notice_in_an_answer_that_never_arrived_is_told_to_the_next_at_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "a", &[]);
    let id = agent.tool("run", json!({"command": format!("{}; exit 5", gate.wait()), "wait_seconds": 0}))["process"].clone();
    deafen(&p, &mut agent);
    gate.open();
    p.wait(id.as_str().unwrap());
    agent.send("tools/call", json!({"name": "notices", "arguments": {}}));
    eventually("it is with the server", || (p.json(["events", "history"])["notices"][0]["state"] == "leased").then_some(()));
    agent.kill();
    let mut agent = Agent::old(&p, "a", &[]);
    let event = told_soon(&mut agent);
    // The server may have told it before it was killed.
    assert_eq!((&event["session_id"], &event["repeat"]), (&id, &json!(true)), "{event}");
    assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
    agent.leave();
}

#[test]
fn an_answer_that_arrived_causes_no_notice() {
    let p = product();
    for _ in 0..5 {
        let mut agent = Agent::old(&p, "a", &[]);
        let said = agent.tool("run", json!({"command": "exit 6"}));
        assert_eq!(said["exit_code"], 6);
        agent.leave();
        let mut agent = Agent::old(&p, "a", &[]);
        assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
        assert_eq!(agent.tool("list", json!({}))["processes"], json!([]), "and it is not listed");
        agent.leave();
    }
}

#[test]
fn an_engine_killed_during_a_wait_changes_nothing() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "a", &[]);
    let begun = agent.tool("run", json!({"command": format!("{}; exit 7", gate.wait()), "wait_seconds": 0}));
    let waiting =
        agent.send("tools/call", json!({"name": "wait", "arguments": {"process": begun["process"]}, "_meta": {"progressToken": 1}}));
    assert_eq!(agent.hear()["method"], "notifications/progress");
    p.kill_engine();
    gate.open();
    let said = agent.answer(waiting);
    assert_eq!(said["result"]["structuredContent"]["exit_code"], 7, "{said}");
    agent.leave();
}

#[test]
fn agent_server_and_engine_killed_and_the_next_agent_is_told_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "a", &[]);
    let begun = agent.tool("run", json!({"command": format!("{}; exit 8", gate.wait()), "wait_seconds": 0}));
    agent.kill();
    p.kill_engine();
    gate.open();
    let mut agent = Agent::old(&p, "a", &[]);
    let told = agent.tool("notices", json!({"wait_seconds": 60}));
    assert_eq!(
        (&told["notices"][0]["event"]["session_id"], &told["notices"][0]["event"]["exit_code"]),
        (&begun["process"], &json!(8)),
        "{told}"
    );
    assert_eq!(agent.tool("notices", json!({}))["notices"], json!([]));
    agent.leave();
}
