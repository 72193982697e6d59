//! Several conversations of one client in one directory: each is told what it started, and of what one that is over has left, the next.

use super::*;
use crate::gate::Gate;

/// A client in a process of its own, which is no shell: its server is below it, and has a standard input of its own.
struct Own {
    agent: Agent,
    server: u32,
}

impl Own {
    fn begin(p: &Product, name: &str) -> Self {
        Self::with(p, name, &[])
    }

    /// One that gives its server these variables.
    fn with(p: &Product, name: &str, env: &[(&str, &str)]) -> Self {
        let mut client = below(p, "timeout");
        client.args(["--foreground", "1000", "/bin/sh", "-c", "cat | \"$0\" mcp"]).arg(p.program()).envs(env.iter().copied());
        let mut agent = Agent::of(client);
        let params = json!({"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": name, "version": "1"}});
        agent.ask("initialize", params);
        let shell = outlast_store::os::children_of(agent.pid())[0];
        let is_server = |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("outlast"));
        let server = outlast_store::os::children_of(shell).into_iter().find(is_server).unwrap();
        Self { agent, server }
    }

    /// Ends the client as a crash does. Its server ends when it finds that out.
    fn kill(self) {
        self.agent.kill();
        assert!(wait_for_end(self.server, PATIENCE));
    }

    fn leave(self) {
        self.agent.leave();
    }
}

/// A program in the environment of `outlast`.
fn below(p: &Product, program: &str) -> std::process::Command {
    let like = p.command(["mcp"]);
    let mut command = std::process::Command::new(program);
    command.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(p.work());
    command
}

/// Starts a command that ends with the code once the gate opens.
fn starts(agent: &mut Agent, gate: &Gate, code: i32) -> String {
    let begun = agent.tool("run", json!({"command": format!("{}; exit {code}", gate.wait()), "wait_seconds": 0}));
    begun["process"].as_str().unwrap().to_owned()
}

/// Kills the engine, and then lets the command end.
fn ends_without_engine(p: &Product, gate: &Gate, id: &str) {
    p.kill_engine();
    gate.open();
    p.wait(id);
}

/// The texts of the notices that come with the next answers.
fn told(agent: &mut Agent) -> Vec<String> {
    let mut all = Vec::new();
    for _ in 0..2 {
        let said = agent.call("list", json!({}));
        all.extend(notices(&said).iter().map(|one| one["text"].as_str().unwrap().to_owned()));
    }
    all
}

const MARK: &str = "(from an earlier conversation: ";

fn is_end(text: &str, id: &str, code: i32) -> bool {
    text.contains(&format!("Background process {id} exited (exit code {code})"))
}

/// Two conversations, of which the first is told of what it started and the other one is not.
fn only_the_first_is_told(p: &Product, a: &mut Agent, b: &mut Agent) {
    assert!(told(b).is_empty());
    let gate = Gate::new(p, "gate");
    let id = starts(a, &gate, 5);
    ends_without_engine(p, &gate, &id);
    assert_eq!(b.tool("notices", json!({}))["notices"], json!([]));
    for _ in 0..2 {
        assert!(told(b).is_empty());
    }
    // Reading it takes nothing from the first.
    assert_eq!(b.tool("wait", json!({"process": id}))["exit_code"], 5);
    let texts = told(a);
    assert!(texts.len() == 1 && is_end(&texts[0], &id, 5) && !texts[0].contains(MARK), "{texts:?}");
    assert_eq!(b.tool("notices", json!({"told": true}))["notices"], json!([]));
    assert_eq!(a.tool("notices", json!({"told": true}))["notices"].as_array().unwrap().len(), 1);
}

#[test]
fn of_two_clients_only_the_one_that_started_a_command_is_told_of_its_end() {
    let p = product();
    let (mut a, mut b) = (Own::begin(&p, "a"), Own::begin(&p, "a"));
    only_the_first_is_told(&p, &mut a.agent, &mut b.agent);
    a.leave();
    b.leave();
}

#[test]
fn of_two_servers_of_one_client_only_the_one_that_started_a_command_is_told_of_its_end() {
    let p = product();
    let (mut a, mut b) = (Agent::old(&p, "a", &[]), Agent::old(&p, "a", &[]));
    only_the_first_is_told(&p, &mut a, &mut b);
    a.leave();
    b.leave();
}

#[test]
fn what_a_client_leaves_is_told_to_the_next_that_begins_and_to_no_other() {
    let p = product();
    let (mut a, mut b) = (Own::begin(&p, "a"), Own::begin(&p, "a"));
    assert!(told(&mut b.agent).is_empty());
    let gate = Gate::new(&p, "gate");
    let id = starts(&mut a.agent, &gate, 5);
    a.kill();
    ends_without_engine(&p, &gate, &id);
    assert!(told(&mut b.agent).is_empty());
    // One that only looks at resources, as some clients have beside that of the conversation, takes nothing.
    let mut looks = Own::begin(&p, "a");
    looks.agent.ask("resources/list", json!({}));
    looks.leave();
    let mut c = Own::begin(&p, "a");
    let texts = told(&mut c.agent);
    assert!(texts.len() == 1 && is_end(&texts[0], &id, 5) && texts[0].lines().nth(1).unwrap().starts_with(MARK), "{texts:?}");
    assert!(texts[0].contains(", started 20"), "{texts:?}");
    for other in [&mut b.agent, &mut Own::begin(&p, "a").agent] {
        assert!(told(other).is_empty());
        assert_eq!(other.tool("notices", json!({}))["notices"], json!([]));
    }
    b.leave();
    c.leave();
}

#[test]
fn a_client_that_lived_beside_is_told_if_its_model_asks() {
    let p = product();
    let (mut a, mut b) = (Own::begin(&p, "a"), Own::begin(&p, "a"));
    assert!(told(&mut b.agent).is_empty());
    let gate = Gate::new(&p, "gate");
    let id = starts(&mut a.agent, &gate, 5);
    a.kill();
    ends_without_engine(&p, &gate, &id);
    assert!(told(&mut b.agent).is_empty());
    let said = b.agent.call("notices", json!({}));
    let texts = notices(&said);
    let text = texts[0]["text"].as_str().unwrap();
    assert!(texts.len() == 1 && is_end(text, &id, 5) && text.contains(MARK), "{said}");
    assert!(told(&mut Own::begin(&p, "a").agent).is_empty());
    b.leave();
}

#[test]
fn a_conversation_with_a_name_is_the_same_in_the_next_client() {
    let p = product();
    let named = |id| Own::with(&p, "qwen-cli-mcp-client-outlast", &[("QWEN_CODE_SESSION_ID", id)]);
    let (mut a, mut b) = (named("one"), named("two"));
    assert!(told(&mut b.agent).is_empty());
    let gate = Gate::new(&p, "gate");
    let id = starts(&mut a.agent, &gate, 5);
    a.kill();
    ends_without_engine(&p, &gate, &id);
    assert!(told(&mut b.agent).is_empty());
    let mut resumed = named("one");
    let texts = told(&mut resumed.agent);
    assert!(texts.len() == 1 && is_end(&texts[0], &id, 5) && !texts[0].contains(MARK), "{texts:?}");
    b.leave();
    resumed.leave();
}

#[test]
fn a_conversation_that_is_open_in_two_clients_is_over_when_both_are() {
    let p = product();
    let named = || Own::with(&p, "qwen-cli-mcp-client-outlast", &[("QWEN_CODE_SESSION_ID", "one")]);
    let (mut a, mut resumed) = (named(), named());
    let gate = Gate::new(&p, "gate");
    let id = starts(&mut a.agent, &gate, 5);
    assert!(told(&mut resumed.agent).is_empty());
    a.kill();
    let mut other = Own::begin(&p, "qwen-cli-mcp-client-outlast");
    assert!(told(&mut other.agent).is_empty());
    ends_without_engine(&p, &gate, &id);
    assert!(told(&mut other.agent).is_empty());
    let texts = told(&mut resumed.agent);
    assert!(texts.len() == 1 && is_end(&texts[0], &id, 5) && !texts[0].contains(MARK), "{texts:?}");
    other.leave();
    resumed.leave();
}

#[test]
fn what_a_person_restarts_or_reruns_is_told_to_the_conversation_that_started_it() {
    let p = product();
    let (mut a, mut b) = (Own::begin(&p, "a"), Own::begin(&p, "a"));
    assert!(told(&mut b.agent).is_empty());
    let gate = Gate::new(&p, "gate");
    let id = starts(&mut a.agent, &gate, 5);
    let restarted = p.json(["restart", &id])["new"]["id"].as_str().unwrap().to_owned();
    ends_without_engine(&p, &gate, &restarted);
    assert!(told(&mut b.agent).is_empty());
    let texts = told(&mut a.agent);
    assert!(texts.len() == 1 && is_end(&texts[0], &restarted, 5), "{texts:?}");
    let rerun = p.json(["rerun", &restarted])["id"].as_str().unwrap().to_owned();
    ends_without_engine(&p, &gate, &rerun);
    assert!(told(&mut b.agent).is_empty());
    let texts = told(&mut a.agent);
    assert!(texts.len() == 1 && is_end(&texts[0], &rerun, 5) && !texts[0].contains(MARK), "{texts:?}");
    a.leave();
    b.leave();
}

#[test]
fn a_process_of_another_open_conversation_is_changed_only_with_force() {
    let p = product();
    let (mut a, mut b) = (Own::begin(&p, "hermes-a"), Own::begin(&p, "hermes-a"));
    let start =
        |agent: &mut Agent| agent.tool("terminal", json!({"command": "cat", "background": true, "pty": true, "notify_on_complete": true}));
    let id = start(&mut a.agent)["session_id"].clone();
    for action in ["kill", "write", "submit", "close"] {
        let said = b.agent.tool("process", json!({"action": action, "session_id": id, "data": "x"}));
        assert_eq!(said["code"], "other_conversation", "{action}: {said}");
        assert!(said["hint"].as_str().unwrap().contains("force=true"), "{said}");
    }
    let listed = b.agent.tool("process", json!({"action": "list"}));
    assert_eq!(listed["processes"][0]["other_conversation"], true, "{listed}");
    assert!(a.agent.tool("process", json!({"action": "list"}))["processes"][0].get("other_conversation").is_none());
    assert_eq!(b.agent.tool("process", json!({"action": "poll", "session_id": id}))["status"], "running");
    let forced = |action: &str| json!({"action": action, "session_id": id, "data": "x", "force": true});
    assert_eq!(b.agent.tool("process", forced("submit"))["status"], "ok");
    assert_eq!(b.agent.tool("process", forced("kill"))["status"], "killed");
    // The conversation that started it is told.
    let said = a.agent.call("process", json!({"action": "list"}));
    assert_eq!(notices(&said).len(), 1, "{said}");
    a.leave();
    b.leave();
    // In the other profile.
    let (mut a, mut b) = (Agent::old(&p, "a", &[]), Agent::old(&p, "a", &[]));
    let id = a.tool("run", json!({"command": "cat", "pty": true, "wait_seconds": 0}))["process"].clone();
    for tool in ["kill", "write"] {
        let said = b.tool(tool, json!({"process": id, "text": "x"}));
        assert_eq!(said["code"], "other_conversation", "{tool}: {said}");
    }
    assert_eq!(b.tool("write", json!({"process": id, "text": "x", "force": true})).get("code"), None);
    assert_eq!(b.tool("kill", json!({"process": id, "force": true}))["status"], "killed");
    a.leave();
    b.leave();
}

#[test]
fn a_hook_is_told_what_the_servers_of_its_own_client_started() {
    told_to_hook("", "<\"$2\"");
}

#[test]
fn a_hook_is_told_also_if_it_and_the_server_are_started_by_wrappers() {
    told_to_hook("timeout --foreground 900", "");
}

/// A client calls its hook twice, with this before the hook and its server, and with this as the hook's input if it is no pipe.
fn told_to_hook(wrapper: &str, input_of_hook: &str) {
    let p = product();
    let name = "claude-code";
    let mut b = Own::begin(&p, name);
    assert!(told(&mut b.agent).is_empty());
    let (call, input) = (Gate::new(&p, "call"), p.work().join("input"));
    std::fs::write(&input, json!({"hook_event_name": "UserPromptSubmit", "session_id": "x", "cwd": p.work()}).to_string()).unwrap();
    // The client calls its hook through a shell, twice.
    let hook =
        format!("{}; cat \"$2\" | {wrapper} \"$1\" hook claude {input_of_hook} >\"$2.$n\" 2>&1; mv \"$2.$n\" \"$2.said.$n\"", call.wait());
    let script = format!("(for n in 1 2; do {hook}; done) & cat | {wrapper} \"$1\" mcp; exit");
    let mut client = below(&p, "timeout");
    client.args(["--foreground", "1000", "/bin/sh", "-c", &script, "client"]).arg(p.program()).arg(&input);
    let mut a = Agent::of(client);
    a.ask("initialize", json!({"protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}));
    let says = |n: u32| {
        call.open();
        let said = p.work().join(format!("input.said.{n}"));
        eventually("the hook to be called", || std::fs::read_to_string(&said).ok())
    };
    let gate = Gate::new(&p, "gate");
    let theirs = starts(&mut b.agent, &gate, 6);
    gate.open();
    p.wait(&theirs);
    assert_eq!(says(1), "", "it is the other conversation's");
    let id = starts(&mut a, &gate, 5);
    ends_without_engine(&p, &gate, &id);
    assert!(is_end(&says(2).replace("\\n", "\n"), &id, 5));
    assert!(told(&mut a).is_empty());
    assert_eq!(told(&mut b.agent).len(), 1);
    a.leave();
    b.leave();
}
