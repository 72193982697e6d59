//! Answers repeat nothing, and say what was wrong.

use super::*;
use crate::gate::Gate;

#[test]
fn a_look_that_finds_nothing_new_repeats_nothing() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let command = format!("echo one; {}; echo two; {}", gate.wait(), gate.wait());
    let mut agent = Agent::old(&p, "a", &[]);
    let id = agent.tool("run", json!({"command": command, "wait_seconds": 0}))["process"].as_str().unwrap().to_owned();
    crate::gate::until_printed(&p, &id, "one");
    let mut wait = |want: Option<&str>| {
        let said = agent.call("wait", json!({"process": id, "seconds": 0.01}));
        let (all, text) = (object(&said), texts(&said).remove(0));
        assert_eq!((&all["status"], &all["unchanged"]), (&json!("running"), &want.map_or(json!(true), |_| Value::Null)), "{said}");
        assert_eq!(all["output"], want.unwrap_or_default(), "{said}");
        assert_eq!(text.contains("unchanged: nothing new since your last look"), want.is_none(), "{text}");
    };
    wait(Some("one"));
    wait(None);
    gate.open();
    crate::gate::until_printed(&p, &id, "two");
    wait(Some("one\ntwo"));
    wait(None);
    // Another server does not know what the model has.
    agent.leave();
    let mut hermes = Agent::old(&p, "a", &["--profile", "hermes"]);
    let poll = |agent: &mut Agent, action: &str| object(&agent.call("process", json!({"action": action, "session_id": id, "timeout": 1})));
    for (action, field) in [("poll", "output_preview"), ("wait", "output")] {
        let (first, second) = (poll(&mut hermes, action), poll(&mut hermes, action));
        assert!(first[field].as_str().unwrap().contains("two") && first.get("unchanged").is_none(), "{first}");
        assert_eq!((second.get(field), &second["unchanged"], second.get("command")), (None, &json!(true), None), "{second}");
    }
    gate.open();
    p.wait(&id);
    for _ in 0..2 {
        let over = poll(&mut hermes, "poll");
        assert_eq!((&over["status"], over.get("unchanged")), (&json!("exited"), None), "an end is always told whole: {over}");
    }
    hermes.leave();
}

#[test]
fn write_stdin_shows_only_what_is_new() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut agent = Agent::old(&p, "codex-mcp-client", &[]);
    let command = format!("printf 'one\\ntwo '; {}; printf 'three\\nfour\\n'; {}", gate.wait(), gate.wait());
    let begun = agent.tool("exec_command", json!({"cmd": command, "yield_time_ms": 500}));
    assert_eq!(begun["output"], "one\ntwo", "{begun}");
    let id = begun["session_id"].clone();
    gate.open();
    crate::gate::until_printed(&p, begun["process"].as_str().unwrap(), "four");
    let mut look = || agent.call("write_stdin", json!({"session_id": id, "yield_time_ms": 5_000}));
    assert_eq!(object(&look())["output"], "three\nfour");
    let nothing = look();
    assert_eq!((&object(&nothing)["output"], &object(&nothing)["unchanged"]), (&json!(""), &json!(true)), "{nothing}");
    assert!(texts(&nothing)[0].contains("unchanged, there is no new output"), "{nothing}");
    gate.open();
    assert_eq!(object(&look())["exit_code"], 0);
    agent.leave();
}

#[test]
fn a_wrong_name_is_answered_with_the_right_one_and_nothing_is_run() {
    let p = product();
    for (client, tool, arguments, want) in [
        ("a", "run", json!({"cmd": "touch ran"}), "run has no argument cmd: did you mean command?"),
        ("a", "run", json!({"command": "touch ran", "workdir": "/"}), "run has no argument workdir: did you mean cwd?"),
        ("hermes", "terminal", json!({"command": "touch ran", "cwd": "/"}), "terminal has no argument cwd: did you mean workdir?"),
        (
            "codex-mcp-client",
            "exec_command",
            json!({"cmd": "touch ran", "cwd": "/"}),
            "exec_command has no argument cwd: did you mean workdir?",
        ),
    ] {
        let mut agent = Agent::old(&p, client, &[]);
        let said = agent.call(tool, arguments);
        assert_eq!((&said["isError"], &object(&said)["error"]), (&json!(true), &json!(want)), "{said}");
        agent.leave();
    }
    assert!(!p.work().join("ran").exists());
}

#[test]
fn arguments_that_are_no_object_are_invalid_parameters() {
    let p = product();
    for mut agent in [Agent::old(&p, "a", &[]), Agent::new(&p, "a", &[], json!({}))] {
        for bad in [json!("{\"command\": \"ls\"}"), json!(["ls"]), json!(7)] {
            let refused = agent.refused("tools/call", json!({"name": "run", "arguments": bad}));
            assert_eq!(refused["code"], -32602, "{refused}");
            assert!(refused["message"].as_str().unwrap().contains("`arguments` must be an object"), "{refused}");
        }
        assert_eq!(agent.refused("tools/call", json!({}))["code"], -32602);
        assert_eq!(agent.refused("no/such/method", json!({}))["code"], -32601);
        agent.leave();
    }
}

#[test]
fn a_line_that_a_terminal_cuts_is_reported() {
    let p = product();
    let mut agent = Agent::old(&p, "a", &[]);
    let id = agent.tool("run", json!({"command": "cat", "pty": true, "wait_seconds": 0}))["process"].clone();
    let said = agent.call("write", json!({"process": id, "text": "x".repeat(4_095), "enter": true}));
    assert_eq!(object(&said).get("warning"), None, "{said}");
    let said = agent.call("write", json!({"process": id, "text": format!("a\n{}", "x".repeat(5_000)), "enter": true}));
    let warning = object(&said)["warning"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
    assert!(warning.contains("a line of 5000 bytes was cut") && warning.contains("4095"), "{warning}");
    agent.tool("kill", json!({"process": id}));
    // A program that reads each byte gets all of them.
    let raw =
        agent.tool("run", json!({"command": "stty raw -echo; echo ready; cat >/dev/null", "pty": true, "wait_seconds": 0}))["process"]
            .clone();
    crate::gate::until_printed(&p, raw.as_str().unwrap(), "ready");
    let said = agent.call("write", json!({"process": raw, "text": "x".repeat(5_000)}));
    assert_eq!((&object(&said)["bytes_written"], object(&said).get("warning")), (&json!(5_000), None), "{said}");
    agent.tool("kill", json!({"process": raw}));
    agent.leave();
}

#[test]
fn a_client_is_sent_nothing_that_its_version_does_not_know() {
    let p = product();
    for (version, is_structured) in [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", true), (OLD, true)] {
        let mut agent = Agent::start(&p, &[]);
        let about = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
        assert_eq!(agent.ask("initialize", about)["protocolVersion"], version);
        agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        for (tool, arguments) in [("run", json!({"command": "echo x"})), ("log", json!({"process": "nothing"}))] {
            let said = agent.call(tool, arguments);
            assert_eq!((said.get("structuredContent").is_some(), said.get("_meta")), (is_structured, None), "{version}: {said}");
        }
        agent.leave();
    }
}
