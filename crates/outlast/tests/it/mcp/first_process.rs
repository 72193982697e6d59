//! An agent that is the first process of its container, as with `docker run IMAGE agent`, and another one beside it.

use super::*;
use crate::gate::Gate;
use outlast_testkit::machine::skipped;
use std::process::Command;

const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"claude-code","version":"1"}}"#;
/// A PID namespace, as a container has it.
const CONTAINER: [&str; 6] = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"];

/// Whether this machine allows that; if not, why.
fn no_container() -> Option<String> {
    match Command::new("unshare").args(CONTAINER).arg("true").output() {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(format!("no namespaces: {}", String::from_utf8_lossy(&done.stderr).trim())),
        Err(e) => Some(format!("cannot run unshare: {e}")),
    }
}

/// A program in the environment of `outlast`.
fn like_outlast(p: &Product, program: &str) -> Command {
    let like = p.command(["mcp"]);
    let mut command = Command::new(program);
    command.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(p.work());
    command
}

fn starts(agent: &mut Agent, gate: &Gate, code: i32) -> String {
    let begun = agent.tool("run", json!({"command": format!("{}; exit {code}", gate.wait()), "wait_seconds": 0}));
    begun["process"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned()
}

#[test]
fn the_hook_of_an_agent_that_is_process_1_is_told_only_what_that_agent_started() {
    if let Some(why) = no_container() {
        return skipped("the_hook_of_an_agent_that_is_process_1_is_told_only_what_that_agent_started", why);
    }
    let p = product();
    let (call, input) = (Gate::new(&p, "call"), p.work().join("input"));
    std::fs::write(&input, json!({"hook_event_name": "UserPromptSubmit", "session_id": "x", "cwd": p.work()}).to_string()).unwrap();
    // The agent is process 1, and calls its hook twice.
    let hook = format!("{}; \"$1\" hook claude <\"$2\" >\"$2.$n\" 2>&1; mv \"$2.$n\" \"$2.said.$n\"", call.wait());
    let script = format!("(for n in 1 2; do {hook}; done) & cat | \"$1\" mcp; exit");
    let mut container = like_outlast(&p, "unshare");
    container.args(CONTAINER).args(["timeout", "--foreground", "1000", "/bin/sh", "-c", &script, "agent"]).arg(p.program()).arg(&input);
    let mut a = Agent::of(container);
    a.ask("initialize", serde_json::from_str(INITIALIZE).unwrap());
    let first = outlast_store::os::children_of(a.pid())[0].to_string();
    // Another one is brought into the container, as by `docker exec`.
    let mut beside = like_outlast(&p, "nsenter");
    beside.args(["--target", &first, "--user", "--preserve-credentials", "--pid", "--mount", "timeout", "--foreground", "1000"]);
    beside.args(["/bin/sh", "-c", "cd \"$2\" && cat | \"$1\" mcp", "agent"]).arg(p.program()).arg(p.work());
    let mut b = Agent::of(beside);
    b.ask("initialize", serde_json::from_str(INITIALIZE).unwrap());
    let gate = Gate::new(&p, "gate");
    let says = |n: u32| {
        call.open();
        eventually("the hook to be called", || std::fs::read_to_string(p.work().join(format!("input.said.{n}"))).ok())
    };
    assert!(notices(&a.call("list", json!({}))).is_empty());
    let theirs = starts(&mut b, &gate, 6);
    gate.open();
    // Reading it takes nothing from the one that started it.
    assert_eq!(a.tool("wait", json!({"process": theirs, "seconds": 60}))["exit_code"], 6);
    assert_eq!(says(1), "", "it is the other agent's");
    let own = starts(&mut a, &gate, 5);
    gate.open();
    assert_eq!(b.tool("list", json!({}))["notices"].as_array().map(Vec::len), Some(1));
    assert_eq!(b.tool("wait", json!({"process": own, "seconds": 60}))["exit_code"], 5);
    assert!(says(2).contains(&own));
    assert!(notices(&a.call("list", json!({}))).is_empty() && notices(&b.call("list", json!({}))).is_empty());
    b.leave();
    a.leave();
}
