//! Commands whose start takes long, as with a slow login file.

use super::*;
use crate::gate::Gate;
use std::path::Path;
use std::time::{Duration, Instant};

/// Clients that are not known, with a profile by their name: a call that names no wait is answered after four seconds.
const CLIENTS: [(&str, &str, &str); 3] =
    [("unknown", "run", "command"), ("some-hermes", "terminal", "command"), ("some-codex", "exec_command", "cmd")];

/// Makes each first start of a home take so long.
fn login_file(p: &Product, line: &str) {
    std::fs::write(p.user().join(".profile"), format!("{line}\n")).unwrap();
}

/// Waits until a login shell has the gate open.
fn until_read(gate: &Path) {
    eventually("the login file to be read", || {
        // Not through the links to this process itself.
        let is_other =
            |name: &std::ffi::OsStr| name.to_str().and_then(|name| name.parse().ok()).is_some_and(|pid: u32| pid != std::process::id());
        let others = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_other(&entry.file_name()));
        let all = others.filter_map(|entry| std::fs::read_dir(entry.path().join("fd")).ok());
        all.flatten().flatten().any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == gate)).then_some(())
    });
}

#[test]
fn the_start_is_part_of_a_wait_that_the_call_does_not_name() {
    std::thread::scope(|all| {
        for (client, tool, argument) in CLIENTS {
            all.spawn(move || {
                let p = product();
                login_file(&p, "sleep 2.5");
                let gate = Gate::new(&p, "gate");
                let mut agent = Agent::old(&p, client, &[]);
                let began = Instant::now();
                let said = agent.tool(tool, json!({argument: gate.wait()}));
                let took = began.elapsed();
                assert!(took < Duration::from_secs(6), "{client}: {took:?}");
                assert!(took > Duration::from_millis(2_500) && said["status"] != "starting", "{client}: {took:?}: {said}");
                gate.open();
                let id = said.get("process").unwrap_or(&said["session_id"]).as_str().unwrap_or_else(|| panic!("{said}"));
                p.wait(id);
                agent.leave();
            });
        }
    });
}

#[test]
fn a_start_that_outlasts_its_call_is_answered_with_the_process_and_continues() {
    std::thread::scope(|all| {
        for (client, tool, argument) in CLIENTS {
            all.spawn(move || {
                let p = product();
                let gate = Gate::new(&p, "gate");
                login_file(&p, &gate.wait());
                let mut agent = Agent::old(&p, client, &[]);
                let said = agent.call(tool, json!({argument: "echo one; exit 3"}));
                let (all, text) = (object(&said), texts(&said).remove(0));
                assert!(text.contains("do not run it again") && text.contains("ts end will be told"), "{client}: {text}");
                assert_eq!(all.get("status"), Some(&json!("starting")), "{client}: {said}");
                let id = all.get("process").unwrap_or(&all["session_id"]).as_str().unwrap().to_owned();
                let (look, named) = match client {
                    "unknown" => ("wait", json!({"process": id})),
                    "some-hermes" => ("process", json!({"action": "wait", "session_id": id})),
                    _ => ("write_stdin", json!({"session_id": all["session_id"]})),
                };
                // A call about it waits for the start as well, for as long as its client does.
                assert_eq!(agent.tool(look, named.clone())["status"], "starting", "{client}");
                gate.open();
                let over = agent.tool(look, named);
                assert_eq!((&over["exit_code"], &over["output"].as_str().unwrap().trim()), (&json!(3), &"one"), "{client}: {over}");
                let list = if client == "some-codex" { "write_stdin" } else { look };
                assert!(notices(&agent.call(list, json!({}))).is_empty(), "{client}: its end was answered");
                assert_eq!(p.json(["list", "--all"])["processes"].as_array().unwrap().len(), 1, "{client}");
                agent.leave();
            });
        }
    });
}

#[test]
fn a_start_that_was_cancelled_is_told_and_so_is_its_end() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    login_file(&p, &gate.wait());
    let mut agent = Agent::old(&p, "unknown", &[]);
    let waiting = agent.send("tools/call", json!({"name": "run", "arguments": {"command": "exit 3", "wait_seconds": 100}}));
    until_read(&p.work().join("gate"));
    agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}}));
    let told = notices(&agent.call("list", json!({})));
    assert!(told.len() == 1 && told[0]["text"].as_str().unwrap().contains("takes long and continues in the background"), "{told:?}");
    assert!(notices(&agent.call("list", json!({}))).is_empty());
    gate.open();
    let told = notices(&agent.call("notices", json!({"wait_seconds": 60})));
    assert!(told.len() == 1 && told[0]["text"].as_str().unwrap().contains("exited (exit code 3)"), "{told:?}");
    agent.leave();
}

#[test]
fn a_start_that_is_refused_after_its_call_was_answered_is_told_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    login_file(&p, &gate.wait());
    let mut agent = Agent::old(&p, "unknown", &[]);
    let dir = p.work().join("dir");
    std::fs::create_dir(&dir).unwrap();
    // Each start is found to be impossible only when the login files were read.
    let mut start =
        || agent.tool("run", json!({"command": "touch ran", "cwd": dir, "wait_seconds": 0}))["process"].as_str().unwrap().to_owned();
    let (first, second) = (start(), start());
    std::fs::remove_dir(&dir).unwrap();
    gate.open();
    let said = agent.call("wait", json!({"process": first}));
    assert!(object(&said)["error"].as_str().unwrap().contains("could not be started"), "{said}");
    // The other one may have been refused as soon.
    let mut told = notices(&said);
    eventually("the other one to be told", || {
        told.extend(notices(&agent.call("list", json!({}))));
        (!told.is_empty()).then_some(())
    });
    let text = told[0]["text"].as_str().unwrap();
    assert!(
        told.len() == 1 && text.contains(&second) && text.contains("could not be started") && text.contains("Nothing was run"),
        "{told:?}"
    );
    assert!(notices(&agent.call("list", json!({}))).is_empty());
    for id in [first, second] {
        assert_eq!(agent.tool("wait", json!({"process": id}))["code"], "not_found");
    }
    assert!(!p.work().join("ran").exists());
    agent.leave();
}
