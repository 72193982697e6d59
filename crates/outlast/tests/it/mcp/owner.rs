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
    let owner = a.call("list", json!({}))["_meta"]["outlast/owner"].clone();
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
fn a_thread_that_the_client_names_is_the_conversation() {
    let p = product();
    let mut codex = Agent::old(&p, "codex-mcp-client", &["--profile", "native"]);
    let thread = |agent: &mut Agent, thread: &str, tool: &str, arguments: Value| {
        agent.ask("tools/call", json!({"name": tool, "arguments": arguments, "_meta": {"threadId": thread}}))
    };
    let one = thread(&mut codex, "t-1", "run", json!({"command": "sleep 1000", "wait_seconds": 0}));
    assert_eq!(one["_meta"]["outlast/owner"], json!({"session": "codex:t-1", "from": "threadId"}));
    let id = one["structuredContent"]["process"].clone();
    assert_eq!(thread(&mut codex, "t-2", "list", json!({}))["structuredContent"]["processes"], json!([]));
    assert_eq!(thread(&mut codex, "t-2", "kill", json!({"process": id}))["isError"], true);
    assert_eq!(thread(&mut codex, "t-1", "kill", json!({"process": id}))["structuredContent"]["status"], "killed");
    assert_eq!(codex.refused("tools/call", json!({"name": "list", "_meta": {"threadId": "a b"}}))["code"], -32602);
    // A handle is a name beside the pair, and reaches nothing else.
    let by_handle = codex.call("list", json!({"conversation": "codex:t-1"}));
    assert_eq!(by_handle["_meta"]["outlast/owner"]["session"], format!("mcp:codex-mcp-client:{}#codex:t-1", p.work().display()));
    codex.leave();
}
