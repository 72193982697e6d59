//! One agent does not see another's processes.

use super::*;

fn runs(agent: &mut Agent) -> String {
    agent.tool("run", json!({"command": "sleep 1000", "wait_seconds": 0}))["process"].as_str().unwrap().to_owned()
}

#[test]
fn a_conversation_is_known_by_client_and_directory_or_by_what_is_said() {
    let p = product();
    let mut a = Agent::old(&p, "a", &[]);
    let id = runs(&mut a);
    let owner = a.owner();
    assert_eq!(owner["session"], format!("mcp:a:{}", p.work().display()), "{owner}");
    // The same client later, in the other era, is the same conversation.
    for mut again in [Agent::old(&p, "a", &[]), Agent::new(&p, "a", &[], json!({}))] {
        assert_eq!(again.tool("list", json!({}))["processes"][0]["process"], json!(id));
        again.leave();
    }
    for mut other in [Agent::old(&p, "b", &[]), Agent::old(&p, "a", &["--session", "chat:1"]), Agent::new(&p, "b", &[], json!({}))] {
        assert_eq!(other.tool("list", json!({}))["processes"], json!([]));
        for (tool, arguments) in [
            ("log", json!({"process": id})),
            ("kill", json!({"process": id})),
            ("wait", json!({"process": id})),
            ("write", json!({"process": id, "text": "x"})),
        ] {
            let said = other.call(tool, arguments);
            assert_eq!((&said["isError"], &said["structuredContent"]["code"]), (&json!(true), &json!("not_found")), "{tool}: {said}");
        }
        other.refused("resources/read", json!({"uri": format!("proc://{id}/log")}));
        other.leave();
    }
    assert_eq!(a.tool("kill", json!({"process": id}))["status"], "killed");
    a.leave();
}

#[test]
fn a_server_below_an_agent_of_the_gateway_speaks_for_its_conversation_without_being_told() {
    let p = product();
    let home = p.home().root.to_string_lossy().into_owned();
    for (home_of_agent, want) in
        [(home.as_str(), "agent:main:local:dm:x".to_owned()), ("/elsewhere", format!("mcp:a:{}", p.work().display()))]
    {
        // The agent gives its servers no variable of its own, as Hermes does. It stays above the server.
        let like = p.command(["mcp"]);
        let mut agent = std::process::Command::new("/bin/sh");
        agent
            .args(["-c", "env -u OUTLAST_SESSION -u OUTLAST_GENERATION OUTLAST_HOME=\"$2\" \"$1\" mcp; exit", "agent"])
            .arg(p.program())
            .arg(&home);
        agent.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(p.work());
        agent.envs([("OUTLAST_HOME", home_of_agent), ("OUTLAST_SESSION", "agent:main:local:dm:x"), ("OUTLAST_GENERATION", "1-2")]);
        let mut agent = Agent::of(agent);
        agent.meta = Some(meta("a", json!({})));
        let owner = agent.owner();
        assert_eq!(owner["session"], want, "{owner}");
        agent.leave();
    }
}

#[test]
fn a_thread_that_the_client_names_is_the_conversation() {
    let p = product();
    let mut codex = Agent::old(&p, "codex-mcp-client", &["--profile", "native"]);
    let thread = |agent: &mut Agent, thread: &str, tool: &str, arguments: Value| {
        agent.ask("tools/call", json!({"name": tool, "arguments": arguments, "_meta": {"threadId": thread, "outlast/owner": true}}))
    };
    let one = thread(&mut codex, "t-1", "run", json!({"command": "sleep 1000", "wait_seconds": 0}));
    assert_eq!(one["_meta"]["outlast/owner"], json!({"session": "codex:t-1", "from": "threadId"}));
    let id = one["structuredContent"]["process"].clone();
    assert_eq!(thread(&mut codex, "t-2", "list", json!({}))["structuredContent"]["processes"], json!([]));
    assert_eq!(thread(&mut codex, "t-2", "kill", json!({"process": id}))["isError"], true);
    assert_eq!(thread(&mut codex, "t-1", "kill", json!({"process": id}))["structuredContent"]["status"], "killed");
    assert_eq!(codex.refused("tools/call", json!({"name": "list", "_meta": {"threadId": "a b"}}))["code"], -32602);
    // A handle is a name beside the pair, and reaches nothing else.
    let call = json!({"name": "list", "arguments": {"conversation": "codex:t-1"}, "_meta": {"outlast/owner": true}});
    let by_handle = codex.ask("tools/call", call);
    assert_eq!(by_handle["_meta"]["outlast/owner"]["session"], format!("mcp:codex-mcp-client:{}#codex:t-1", p.work().display()));
    codex.leave();
}

#[test]
fn no_tool_and_no_resource_reaches_another_conversations_process() {
    let p = product();
    let mut a = Agent::old(&p, "a", &[]);
    let id = runs(&mut a);
    let mut hermes = Agent::old(&p, "hermes", &[]);
    for action in ["poll", "log", "wait", "kill", "write", "submit", "close"] {
        let said = hermes.tool("process", json!({"action": action, "session_id": id, "data": "x", "timeout": 1}));
        assert_eq!(said["code"], "not_found", "{action}: {said}");
    }
    assert_eq!(hermes.tool("process", json!({"action": "list"}))["processes"], json!([]));
    hermes.leave();
    let mut codex = Agent::old(&p, "codex-mcp-client", &[]);
    let number = u64::from_str_radix(id.trim_start_matches("proc_"), 16).unwrap();
    for chars in ["", "x", "\u{3}"] {
        let said = codex.tool("write_stdin", json!({"session_id": number, "chars": chars}));
        assert_eq!(said["code"], "not_found", "{chars:?}: {said}");
    }
    codex.leave();
    let mut old = Agent::old(&p, "b", &[]);
    assert_eq!(old.ask("resources/list", json!({}))["resources"], json!([]));
    for part in ["status", "log"] {
        let uri = format!("proc://{id}/{part}");
        // What is another's is refused in the words for what never was.
        let never = old.refused("resources/read", json!({"uri": format!("proc://proc_000000000000/{part}")}));
        for method in ["resources/read", "resources/subscribe"] {
            let refused = old.refused(method, json!({"uri": uri}));
            assert_eq!(refused["code"], never["code"], "{refused}");
            assert_eq!(refused["message"].as_str().unwrap().replace(&id, "proc_000000000000"), never["message"].as_str().unwrap());
        }
    }
    old.leave();
    // A listener hears of its own, and of nothing else.
    let mut new = Agent::new(&p, "b", &[], json!({}));
    let own = runs(&mut new);
    let (theirs, mine) = (format!("proc://{id}/status"), format!("proc://{own}/status"));
    new.send("subscriptions/listen", json!({"notifications": {"resourceSubscriptions": [theirs, mine]}}));
    assert_eq!(new.hear()["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(a.tool("kill", json!({"process": id}))["status"], "killed");
    assert_eq!(new.tool("kill", json!({"process": own}))["status"], "killed");
    for _ in 0..2 {
        let said = if new.notified.is_empty() { new.hear() } else { new.notified.remove(0) };
        assert_eq!(said["params"]["uri"], json!(mine), "{said}");
    }
    new.leave();
    a.leave();
}
