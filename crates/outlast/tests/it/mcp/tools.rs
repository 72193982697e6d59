//! What the tools of each profile answer.

use super::*;
use crate::gate::Gate;

fn names(agent: &mut Agent) -> Vec<String> {
    agent.ask("tools/list", json!({}))["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_client_gets_the_tools_it_knows_or_those_it_was_given() {
    let p = product();
    let native = ["run", "wait", "log", "list", "kill", "write", "notices"];
    for (name, args, want) in [
        ("any-agent", &[][..], &native[..]),
        ("codex-mcp-client", &[], &["exec_command", "write_stdin"]),
        ("Hermes Agent", &[], &["terminal", "process"]),
        ("codex-mcp-client", &["--profile", "native"], &native),
        ("any-agent", &["--profile", "hermes"], &["terminal", "process"]),
    ] {
        let mut agent = Agent::old(&p, name, args);
        assert_eq!(names(&mut agent), want, "{name} {args:?}");
        agent.leave();
        let mut agent = Agent::new(&p, name, args, json!({}));
        assert_eq!(names(&mut agent), want, "{name} {args:?}");
        agent.leave();
    }
    assert!(p.processes().is_empty(), "no engine was needed");
}

#[test]
fn tools_have_the_prefix_that_the_server_was_started_with() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &["--prefix", "outlast_", "--profile", "hermes"]);
    assert_eq!(names(&mut agent), ["outlast_terminal", "outlast_process"]);
    assert_eq!(object(&agent.call("outlast_terminal", json!({"command": "echo x"})))["output"], "x");
    let refused = agent.refused("tools/call", json!({"name": "terminal", "arguments": {}}));
    assert!(refused["message"].as_str().unwrap().ends_with("There are: outlast_terminal, outlast_process"), "{refused}");
    agent.leave();
    for bad in ["", "a b", "ä", &"x".repeat(41)] {
        let said = p.call(["mcp", "--prefix", bad]);
        assert!(said.code == Some(2) && said.err.contains("letters, digits"), "{bad:?}: {said:?}");
    }
}

#[test]
fn a_short_command_is_answered_whole() {
    let p = product();
    for mut agent in [Agent::old(&p, "a", &[]), Agent::new(&p, "a", &[], json!({}))] {
        let said = agent.call("run", json!({"command": "echo höllo; exit 3"}));
        assert_eq!((&said["isError"], &said["structuredContent"]["exit_code"]), (&json!(true), &json!(3)), "{said}");
        assert_eq!(texts(&said), ["höllo\n[exited with code 3]"]);
        let good = agent.call("run", json!({"command": ["printf", "%s", "a b"]}));
        assert_eq!((&good["isError"], &good["structuredContent"]["output"]), (&json!(false), &json!("a b")), "{good}");
        let never = agent.call("run", json!({"command": ["/does/not/exist"]}));
        assert_eq!(never["isError"], true, "{never}");
        assert_eq!(agent.tool("list", json!({}))["processes"].as_array().unwrap().len(), 1, "what failed to start can be looked at");
        let missing = agent.call("log", json!({"process": "proc_000000000000"}));
        assert_eq!((&missing["isError"], &missing["structuredContent"]["code"]), (&json!(true), &json!("not_found")), "{missing}");
        assert_eq!(agent.refused("tools/call", json!({"name": "dance"}))["code"], -32602);
        for one in agent.tool("list", json!({}))["processes"].as_array().unwrap() {
            p.call(["rm", one["process"].as_str().unwrap()]).good();
        }
        agent.leave();
    }
}

#[test]
fn a_directory_that_does_not_exist_is_refused_in_every_profile() {
    let p = product();
    let gone = p.work().join("typo");
    for (name, tool, command, directory) in [
        ("any", "run", "command", "cwd"),
        ("codex-mcp-client", "exec_command", "cmd", "workdir"),
        ("Hermes Agent", "terminal", "command", "workdir"),
    ] {
        let mut agent = Agent::old(&p, name, &[]);
        let said = agent.call(tool, json!({command: "touch ran; pwd", directory: gone})).to_string();
        assert!(said.contains(&format!("directory {} does not exist", gone.display())), "{name}: {said}");
        assert!(said.contains(&format!("{} exists;", p.work().display())), "{name}: {said}");
        let said = agent.call(tool, json!({command: "pwd", directory: "~"})).to_string();
        assert!(said.contains(p.user().to_str().unwrap()), "{name}: {said}");
        agent.leave();
    }
    assert!(!p.work().join("ran").exists());
}

#[test]
fn what_a_command_left_running_is_named_by_each_profile() {
    let p = product();
    let command = "sleep 1000 >/dev/null 2>&1 & echo early";
    let mut agent = Agent::old(&p, "a", &[]);
    let said = agent.call("run", json!({"command": command}));
    let all = &said["structuredContent"];
    let (id, pid) = (all["process"].as_str().unwrap(), &all["left"][0]["pid"]);
    let note = format!("1 process is still running: {pid} sleep 1000; kill(process=\"{id}\") stops it");
    assert_eq!(texts(&said), [format!("early\n[exited with code 0; process: {id}; {note}]")]);
    let killed = agent.tool("kill", json!({"process": id}));
    let left_killed = json!([{"pid": pid, "command": "sleep 1000"}]);
    assert_eq!((&killed["status"], &killed["left_killed"]), (&json!("already_exited"), &left_killed), "{killed}");
    agent.leave();
    let mut agent = Agent::old(&p, "codex-mcp-client", &[]);
    let said = agent.call("exec_command", json!({"cmd": command, "yield_time_ms": 10_000}));
    let all = &said["structuredContent"];
    let (id, pid) = (all["process"].as_str().unwrap(), &all["left"][0]["pid"]);
    let note = format!("Note: 1 process is still running: {pid} sleep 1000; `outlast kill {id}` stops it\n");
    assert!(texts(&said)[0].contains(&note), "{said}");
    p.call(["kill", id]);
    agent.leave();
}

#[test]
fn the_pair_of_exec_command_and_write_stdin() {
    let p = product();
    let mut agent = Agent::old(&p, "codex-mcp-client", &[]);
    let done = agent.call("exec_command", json!({"cmd": "echo one; exit 2", "yield_time_ms": 10_000}));
    assert_eq!((&done["structuredContent"]["exit_code"], &done["isError"]), (&json!(2), &json!(true)), "{done}");
    let text = texts(&done).remove(0);
    assert!(text.contains("Process exited with code 2\n") && text.ends_with("Output:\none"), "{text}");

    let begun = agent
        .tool("exec_command", json!({"cmd": "echo ready; while read -r line; do echo got $line; done", "tty": true, "yield_time_ms": 500}));
    assert!(begun["session_id"].is_u64() && begun["output"].as_str().unwrap().contains("ready"), "{begun}");
    let id = begun["session_id"].clone();
    let said = agent.tool("write_stdin", json!({"session_id": id, "chars": "hey\n", "yield_time_ms": 1_000}));
    assert!(
        said["output"].as_str().unwrap().contains("got hey") && !said["output"].as_str().unwrap().contains("ready"),
        "only what is new: {said}"
    );
    // Its end is there at once, and its number is as good for the next server.
    agent.leave();
    let mut agent = Agent::old(&p, "codex-mcp-client", &[]);
    let over = agent.tool("write_stdin", json!({"session_id": id, "chars": "\u{4}", "yield_time_ms": 30_000}));
    assert_eq!(over["exit_code"], 0, "{over}");
    // Where there is no terminal, the key still means what it says.
    let sleeping = agent.tool("exec_command", json!({"cmd": "sleep 1000", "yield_time_ms": 250}));
    let interrupted = agent.tool("write_stdin", json!({"session_id": sleeping["session_id"], "chars": "\u{3}", "yield_time_ms": 30_000}));
    assert_eq!(interrupted["signal"], "SIGINT", "{interrupted}");
    agent.leave();
}

#[test]
fn every_answer_about_an_ended_process_has_its_exit_code() {
    let p = product();
    // Each verb gets a process of its own: some verbs remove the process that they have answered about.
    let ended = |session: &str| {
        let id = p.run_with(&["--session", &format!("mcp:{session}:{}", p.work().display())], "echo said; exit 7");
        p.wait(&id);
        id
    };
    let mut agent = Agent::old(&p, "a", &[]);
    for (tool, more) in [
        ("log", json!({})),
        ("log", json!({"offset": 0})),
        ("log", json!({"offset": 0, "limit": 1, "max_output_tokens": 100})),
        ("wait", json!({})),
        ("kill", json!({})),
        ("write", json!({"text": "x"})),
        ("write", json!({"close": true})),
    ] {
        let mut arguments = json!({"process": ended("a")});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let said = agent.call(tool, arguments);
        assert_eq!(said["structuredContent"]["exit_code"], 7, "{tool} {more}: {said}");
        let text = texts(&said).remove(0);
        assert!(text.contains("code 7") || text.contains("\"exit_code\":7"), "{tool} {more}: {text}");
    }
    assert_eq!(agent.tool("list", json!({}))["processes"][0]["exit_code"], 7);
    agent.leave();

    let mut agent = Agent::old(&p, "hermes", &[]);
    for action in ["poll", "log", "wait", "kill", "write", "submit", "close"] {
        let said = agent.call("process", json!({"action": action, "session_id": ended("hermes"), "data": "x"}));
        assert_eq!(object(&said)["exit_code"], 7, "{action}: {said}");
    }
    agent.leave();

    let mut agent = Agent::old(&p, "codex-mcp-client", &[]);
    for chars in ["", "x"] {
        let said = agent.call("write_stdin", json!({"session_id": ended("codex-mcp-client"), "chars": chars}));
        assert_eq!(said["structuredContent"]["exit_code"], 7, "{chars:?}: {said}");
        assert!(texts(&said).remove(0).contains("Process exited with code 7"), "{chars:?}: {said}");
    }
    agent.leave();
    assert_eq!(p.json(["log", &ended("a")])["exit_code"], 7);
}

#[test]
fn a_directory_that_does_not_exist_is_refused() {
    let p = product();
    let there = p.work().display().to_string();
    for (client, tool, argument, line) in [
        ("a", "run", "cwd", "command"),
        ("hermes", "terminal", "workdir", "command"),
        ("codex-mcp-client", "exec_command", "workdir", "cmd"),
    ] {
        let mut agent = Agent::old(&p, client, &[]);
        let said = agent.call(tool, json!({argument: "not/there", line: "touch ran"}));
        assert_eq!(said["isError"], true, "{said}");
        let text = texts(&said).remove(0);
        assert!(text.contains(&format!("directory {there}/not/there does not exist")), "{text}");
        assert!(text.contains(&format!("{there} exists;")), "{text}");
        agent.leave();
    }
    assert!(!p.work().join("ran").exists());
}

#[test]
fn the_tools_of_the_contract() {
    let p = product();
    let mut agent = Agent::old(&p, "hermes", &[]);
    assert_eq!(agent.tool("terminal", json!({"command": "echo x"})), json!({"output": "x", "exit_code": 0, "error": null}));
    let begun = agent.tool("terminal", json!({"command": "sleep 1000", "background": true}));
    let id = begun["session_id"].as_str().unwrap().to_owned();
    assert_eq!(agent.tool("process", json!({"action": "poll", "session_id": id}))["status"], "running");
    assert_eq!(agent.tool("process", json!({"action": "kill", "session_id": id}))["status"], "killed");
    agent.leave();
}

#[test]
fn a_cancelled_call_ends_the_wait_and_not_the_process() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "a", &[]);
    let begun = agent.tool("run", json!({"command": gate.wait(), "wait_seconds": 0}));
    let id = begun["process"].as_str().unwrap().to_owned();
    let waiting = agent.send("tools/call", json!({"name": "wait", "arguments": {"process": id}, "_meta": {"progressToken": "p"}}));
    // It is under way for as long as it says so.
    let progress = agent.hear();
    assert_eq!((&progress["method"], &progress["params"]["progressToken"]), (&json!("notifications/progress"), &json!("p")), "{progress}");
    agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}}));
    let polled = agent.tool("list", json!({}));
    assert_eq!(polled["processes"][0]["status"], "running", "{polled}");
    gate.open();
    // No client waits, so a notice is delivered.
    let told = agent.tool("notices", json!({"wait_seconds": 60}));
    assert_eq!(told["notices"][0]["event"]["session_id"], json!(id), "{told}");
    agent.leave();
}

#[test]
fn nonsense_is_refused_and_the_server_keeps_running() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &[]);
    agent.write(b"this is no JSON\n{\"jsonrpc\": \"2.0\"}\n\xff\xfe\n\n");
    agent.say(&json!({"jsonrpc": "2.0", "id": 77, "method": "no/such/method", "params": {}}));
    let refused = loop {
        let said = agent.hear();
        if said["id"] == 77 {
            break said;
        }
    };
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    for bad in [json!({"command": 5}), json!({"command": "x", "wait_seconds": "soon"}), json!({})] {
        assert_eq!(agent.call("run", bad.clone())["isError"], true, "{bad}");
    }
    // More than a message may have: dropped, and said so.
    let mut long = vec![b'x'; 9 << 20];
    long.push(b'\n');
    agent.write(&long);
    assert_eq!(agent.tool("run", json!({"command": "echo still here"}))["output"], "still here");
    agent.leave();
}

#[test]
fn resources_show_processes_and_say_when_they_change() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "a", &[]);
    let begun = agent.tool("run", json!({"command": format!("echo begun; {}; echo ended", gate.wait()), "wait_seconds": 0}));
    let id = begun["process"].as_str().unwrap().to_owned();
    let (log, status) = (format!("proc://{id}/log"), format!("proc://{id}/status"));
    let listed = agent.ask("resources/list", json!({}));
    let uris: Vec<&str> = listed["resources"].as_array().unwrap().iter().map(|r| r["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, [status.as_str(), log.as_str()]);
    assert_eq!(agent.ask("resources/templates/list", json!({}))["resourceTemplates"].as_array().unwrap().len(), 2);
    let read =
        |agent: &mut Agent, uri: &str| agent.ask("resources/read", json!({"uri": uri}))["contents"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&read(&mut agent, &status)).unwrap()["status"], "running");
    agent.ask("resources/subscribe", json!({"uri": status}));
    agent.ask("resources/subscribe", json!({"uri": log}));
    for bad in ["proc://proc_000000000000/log", "file:///etc/passwd", "proc://../log"] {
        assert_eq!(agent.refused("resources/read", json!({"uri": bad}))["code"], -32002, "{bad}");
        assert_eq!(agent.refused("resources/subscribe", json!({"uri": bad}))["code"], -32002, "{bad}");
    }
    gate.open();
    let mut changed = std::collections::BTreeSet::new();
    while changed.len() < 2 {
        let said = if agent.notified.is_empty() { agent.hear() } else { agent.notified.remove(0) };
        assert_eq!(said["method"], "notifications/resources/updated", "{said}");
        changed.insert(said["params"]["uri"].as_str().unwrap().to_owned());
    }
    eventually("the end in the log", || read(&mut agent, &log).contains("begun\nended").then_some(()));
    // To look at a resource is not to be told.
    assert_eq!(agent.tool("notices", json!({"wait_seconds": 60}))["notices"][0]["event"]["session_id"], json!(id));
    agent.leave();
}

#[test]
fn reading_a_resource_settles_no_notice() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "a", &[]);
    let begun = agent.tool("run", json!({"command": gate.wait(), "wait_seconds": 0}));
    let id = begun["process"].as_str().unwrap().to_owned();
    gate.open();
    p.wait(&id);
    for part in ["status", "log"] {
        agent.ask("resources/subscribe", json!({"uri": format!("proc://{id}/{part}")}));
        agent.ask("resources/read", json!({"uri": format!("proc://{id}/{part}")}));
    }
    let drained = p.json(["events", "drain", "--session", &format!("mcp:a:{}", p.work().display())]);
    assert_eq!(drained["events"][0]["event"]["session_id"], json!(id), "{drained}");
    agent.leave();
}

#[test]
fn a_listener_of_the_new_era_hears_of_changes_too() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::new(&p, "a", &[], json!({}));
    let begun = agent.tool("run", json!({"command": gate.wait(), "wait_seconds": 0}));
    let status = format!("proc://{}/status", begun["process"].as_str().unwrap());
    agent.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [status, "proc://../env"]}}));
    let accepted = agent.hear();
    assert_eq!(accepted["params"]["notifications"]["resourceSubscriptions"], json!([status]), "{accepted}");
    gate.open();
    let said = agent.hear();
    assert_eq!((&said["method"], &said["params"]["uri"]), (&json!("notifications/resources/updated"), &json!(status)), "{said}");
    agent.leave();
}
