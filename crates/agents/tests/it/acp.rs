use crate::support::*;
use outlast_agents::{AgentFault, AgentNews, McpServer, NotTaken, Opened, StopReason, ToolStatus, agent_session};
use outlast_client::{Owner, Scope, Take};
use serde_json::json;
use std::time::Duration;

const END: AgentNews = AgentNews::Completed { stop_reason: StopReason::EndTurn };

#[tokio::test]
async fn text_is_streamed_and_parts_end_where_a_tool_begins() {
    let world = World::new().await;
    let tool = |update: &str, id: &str, rest: serde_json::Value| {
        let mut whole = json!({"sessionUpdate": update, "toolCallId": id});
        whole.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"update": whole})
    };
    let mut chat = world.start(&json!({"turns": [[
        {"text": "I will "}, {"text": "look."},
        tool("tool_call", "1", json!({"title": "Read\nfile", "kind": "read", "status": "in_progress"})),
        tool("tool_call_update", "1", json!({"content": []})),
        tool("tool_call_update", "1", json!({"status": "completed"})),
        {"update": {"sessionUpdate": "plan", "entries": []}},
        {"text": "Done: "}, {"echo": null},
    ], [{"text": "again"}]]}));
    chat.prompt(1, "hello");
    let events = chat.turn().await;
    assert_eq!(events[0], AgentNews::Ready { session: Some("sess-1".into()), opened: Opened::New });
    assert_eq!(events[1], AgentNews::Prompted);
    assert_eq!(texts(&events), ["I will look.", "Done: hello"]);
    assert_eq!(drafts(&events), "I will look.Done: hello");
    let tools: Vec<_> =
        events.iter().filter_map(|e| if let AgentNews::Tool(line) = e { Some((line.title.as_str(), line.status)) } else { None }).collect();
    assert_eq!(tools, [("Read file", ToolStatus::InProgress), ("Read file", ToolStatus::Completed)]);
    assert_eq!(events.last(), Some(&END));
    // The same process takes the next turn.
    chat.prompt(2, "more");
    assert_eq!(texts(&chat.turn().await), ["again"]);
    assert_eq!(world.running().await, 1);
    chat.stop().await;
    assert_eq!(world.running().await, 0);
}

#[tokio::test]
async fn an_agent_has_its_own_session_the_conversations_name_and_nothing_of_its_starter() {
    let world = World::new().await;
    let env_file = world.path("env");
    std::fs::write(&env_file, "OPENAI_API_KEY=sk-test\nOUTLAST_SESSION=stolen\n").unwrap();
    let names = ["OUTLAST_SESSION", "OUTLAST_GENERATION", "OPENAI_API_KEY", "CARGO_MANIFEST_DIR"];
    let steps: Vec<_> = names.iter().map(|name| json!({ "env": name })).chain([json!({"stderr": "a warning"})]).collect();
    let mut settings = world.settings(&json!({ "turns": [steps] }));
    settings.env_file = Some(env_file.into());
    settings.mcp = vec![McpServer::outlast("/usr/bin/outlast", "/home/o", KEY, GENERATION)];
    let mut chat = world.start_with(settings, world.conversation());
    chat.prompt(1, "hello");
    let text = drafts(&chat.turn().await);
    assert_eq!(text, format!("OUTLAST_SESSION={KEY}OUTLAST_GENERATION={GENERATION}OPENAI_API_KEY=sk-testCARGO_MANIFEST_DIR=(unset)"));
    let mine = world.client.list(&Scope::session(agent_session(KEY)), false).await.unwrap();
    assert_eq!((mine.len(), mine[0].notify_on_complete), (1, false));
    assert_eq!(std::fs::read_to_string(world.files().join("agent.stderr")).unwrap(), "a warning\n");
    let new = &world.heard()[1];
    assert_eq!(new["method"], "session/new");
    let env = json!([{"name": "OUTLAST_HOME", "value": "/home/o"}, {"name": "OUTLAST_SESSION", "value": KEY}, {"name": "OUTLAST_GENERATION", "value": GENERATION}]);
    assert_eq!(new["params"]["mcpServers"], json!([{"name": "outlast", "command": "/usr/bin/outlast", "args": ["mcp"], "env": env}]));
    chat.stop().await;
}

#[tokio::test]
async fn terminals_are_the_conversations_and_files_are_refused() {
    let world = World::new().await;
    let mut chat = world.start(&json!({"turns": [[
        {"terminal": "echo out; exit 3"},
        {"call": {"method": "fs/read_text_file", "params": {"path": "/etc/passwd"}}},
    ]]}));
    chat.prompt(1, "hello");
    let text = drafts(&chat.turn().await);
    assert!(text.starts_with("\"out\\n\" 3{") && text.contains("-32601"), "{text}");
    let owner = Owner { generation: Some(GENERATION.into()), ..Owner::session(KEY) };
    let own = world.client.with_owner(owner.clone());
    assert_eq!(own.list(&Scope::session(KEY), true).await.unwrap().len(), 1);
    // The agent has seen the end, so no notice of it is left.
    assert!(own.take(&Take::default()).await.unwrap().notices.is_empty());
    chat.stop().await;
}

#[tokio::test]
async fn a_turn_is_cancelled_and_the_agent_takes_the_next() {
    let world = World::new().await;
    let mut chat = world.start(&json!({"turns": [[{"text": "begun"}, {"until_cancelled": null}], [{"text": "next"}]]}));
    let attempt = chat.prompt(1, "hello");
    chat.until(|news| matches!(news, AgentNews::Draft(_))).await;
    assert!(!chat.handle.withdraw(&attempt));
    chat.handle.cancel(&attempt).unwrap();
    assert_eq!(chat.turn().await.last(), Some(&AgentNews::Completed { stop_reason: StopReason::Cancelled }));
    chat.prompt(2, "hello");
    let events = chat.turn().await;
    assert_eq!((texts(&events), events.last()), (vec!["next"], Some(&END)));
    chat.stop().await;
}

#[tokio::test]
async fn a_prompt_that_the_agent_does_not_have_is_cancelled_or_withdrawn_at_once() {
    let world = World::new().await;
    let go = world.path("go");
    let mut chat = world.start(&json!({"start": [{"wait_file": go}], "turns": [[{"echo": null}]]}));
    let first = chat.prompt(1, "first");
    chat.handle.cancel(&first).unwrap();
    assert_eq!(chat.turn().await, [AgentNews::Completed { stop_reason: StopReason::Cancelled }]);
    let second = chat.prompt(2, "second");
    assert!(chat.handle.withdraw(&second));
    chat.prompt(3, "third");
    std::fs::write(go, "").unwrap();
    assert_eq!(texts(&chat.turn().await), ["third"]);
    assert_eq!(world.heard().iter().filter(|m| m["method"] == "session/prompt").count(), 1);
    chat.stop().await;
}

#[tokio::test]
async fn an_agent_that_does_not_answer_a_cancel_is_stopped_with_its_tree() {
    let world = World::new().await;
    let mut settings = world.settings(&json!({"turns": [[{"spawn": "sleep 1000"}, {"text": "begun"}, {"deaf": null}]]}));
    settings.limits.cancel = Duration::from_millis(100);
    let mut chat = world.start_with(settings, world.conversation());
    let attempt = chat.prompt(1, "hello");
    chat.until(|news| matches!(news, AgentNews::Draft(_))).await;
    chat.handle.cancel(&attempt).unwrap();
    let (of, had_prompt, why) = chat.gone().await;
    assert_eq!((of, had_prompt), (Some(attempt.clone()), true));
    assert!(why.contains("did not answer a cancel"), "{why}");
    assert_eq!(chat.handle.cancel(&attempt), Err(NotTaken::Over));
    assert_eq!(world.running().await, 0);
}

#[tokio::test]
async fn an_agent_that_exits_in_its_turn_is_gone_and_had_the_prompt() {
    let world = World::new().await;
    let mut chat = world.start(&json!({"turns": [[{"text": "half a"}, {"stderr": "out of luck"}, {"exit": 3}]]}));
    let attempt = chat.prompt(1, "hello");
    let events = chat.until(|news| matches!(news, AgentNews::Text(_))).await;
    assert_eq!(texts(&events), ["half a"]);
    let (of, had_prompt, why) = chat.gone().await;
    assert_eq!((of, had_prompt, why.as_str()), (Some(attempt), true, "the agent exited with code 3: out of luck"));
}

/// A shell line for two processes that hold what they inherited: a child, and one in a session of its own. Both write down their pids.
fn workers(world: &World) -> String {
    let pids = world.path("pids");
    format!("setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' & echo $$ >> {pids}; exec sleep 1000")
}

/// How many of them live. One that was killed and that its keeper has not reaped yet is dead.
fn alive(world: &World) -> usize {
    let is_alive = |pid: &&str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    };
    std::fs::read_to_string(world.path("pids")).unwrap_or_default().lines().filter(is_alive).count()
}

#[tokio::test]
async fn what_an_agent_leaves_behind_is_stopped_before_it_counts_as_gone() {
    let world = World::new().await;
    let mut chat = world.start(
        &json!({"turns": [[{"terminal": "true"}, {"spawn": workers(&world)}, {"wait_lines": [world.path("pids"), 2]}, {"exit": 0}]]}),
    );
    let build = outlast_client::Spec::shell("exec sleep 1000").owned_by(Owner::session(KEY));
    let build =
        world.client.run_info(outlast_client::Run::new(build, world.place.surroundings.clone())).await.unwrap().session_id.to_string();
    chat.prompt(1, "hello");
    let (_, had_prompt, why) = chat.gone().await;
    assert!(had_prompt && why.starts_with("the agent exited with code 0"), "{why}");
    assert_eq!((alive(&world), world.running().await), (0, 0));
    // Processes that it started through the engine keep running.
    let running = world.client.poll(&build).await.unwrap();
    assert_eq!(running.phase, "running");
    world.client.kill(&build, outlast_client::Kill::at_once()).await.unwrap();
}

#[tokio::test]
async fn what_an_agent_of_a_dead_gateway_left_behind_is_stopped_before_the_next_starts() {
    let world = World::new().await;
    let mut chat = world.start(&json!({"turns": [[{"spawn": workers(&world)}, {"wait_lines": [world.path("pids"), 2]}, {"text": "ready"}, {"wait_file": world.path("go")}, {"exit": 0}], [{"echo": null}]]}));
    chat.prompt(1, "hello");
    chat.until(|news| matches!(news, AgentNews::Draft(_))).await;
    // As a crash would: without a word.
    drop(chat);
    world.go();
    eventually("the end of the agent", || async { world.running().await == 0 }).await;
    assert_eq!(alive(&world), 2);
    let mut chat = world.start(&json!({"turns": [[{"echo": null}]]}));
    chat.prompt(1, "hello");
    assert_eq!(texts(&chat.turn().await), ["hello"]);
    assert_eq!(alive(&world), 0);
    chat.stop().await;
}

#[tokio::test]
async fn an_agent_that_cannot_be_started_is_gone_without_the_prompt() {
    let world = World::new().await;
    let mut settings = world.settings(&json!({}));
    settings.argv = vec!["/no/such/agent".into()];
    let mut chat = world.start_with(settings, world.conversation());
    let attempt = chat.prompt(1, "hello");
    let (of, had_prompt, why) = chat.gone().await;
    assert_eq!((of, had_prompt), (Some(attempt), false));
    assert!(why.contains("exited with code 127") && why.contains("/no/such/agent"), "{why}");

    let mut settings = world.settings(&json!({}));
    settings.env_file = Some("/no/such/file".into());
    let (_, had_prompt, why) = world.start_with(settings, world.conversation()).gone().await;
    assert!(!had_prompt && why.contains("/no/such/file"), "{why}");

    let mut settings = world.settings(&json!({"start": [{"deaf": null}], "turns": []}));
    settings.limits.start = Duration::from_millis(50);
    let (_, had_prompt, why) = world.start_with(settings, world.conversation()).gone().await;
    assert!(!had_prompt && why.contains("did not open a session"), "{why}");

    let (_, had_prompt, why) = world.start(&json!({"refuse": ["session/new"], "turns": []})).gone().await;
    assert!(!had_prompt && why.contains("no session/new today"), "{why}");
}

#[tokio::test]
async fn an_agent_that_speaks_nonsense_or_floods_fails_its_turn_and_is_stopped() {
    let world = World::new().await;
    let cases = [
        (json!({"raw": "Warning: this is no protocol\n"}), "does not speak ACP"),
        (json!({"raw": format!("{{\"method\":\"x\",\"params\":\"{}\"}}\n", "y".repeat(20_000))}), "a line of more than 10000 bytes"),
        (json!({"endless": null}), "a line of more than 10000 bytes"),
    ];
    for (step, want) in cases {
        let mut settings = world.settings(&json!({"turns": [[{"text": "begun"}, step]]}));
        settings.limits.line_bytes = 10_000;
        let mut chat = world.start_with(settings, world.conversation());
        chat.prompt(1, "hello");
        let events = chat.turn().await;
        assert_eq!(texts(&events), ["begun"]);
        assert!(matches!(events.last(), Some(AgentNews::Failed { why, .. }) if why.contains(want)), "{:?}", events.last());
        let (of, had_prompt, _) = chat.gone().await;
        assert_eq!((of, had_prompt, world.running().await), (None, false, 0));
    }
}

#[tokio::test]
async fn an_agent_that_is_silent_for_too_long_is_stopped_and_a_refused_prompt_is_not_the_end() {
    let world = World::new().await;
    let mut settings = world.settings(&json!({"turns": [[{"fail": "the model is out"}], [{"deaf": null}]]}));
    settings.limits.silence = Duration::from_millis(200);
    let mut chat = world.start_with(settings, world.conversation());
    chat.prompt(1, "hello");
    assert_eq!(chat.turn().await.last(), Some(&AgentNews::Failed { fault: AgentFault::Reported, why: "the model is out".into() }));
    chat.prompt(2, "hello");
    let events = chat.turn().await;
    assert!(matches!(events.last(), Some(AgentNews::Failed { why, .. }) if why.contains("said nothing for 0.2 s")), "{events:?}");
    chat.gone().await;
}

#[tokio::test]
async fn a_turn_goes_on_when_the_engine_is_killed() {
    let world = World::new().await;
    let (begun, go) = (world.path("begun"), world.path("go"));
    let mut chat = world.start(&json!({"turns": [[
        {"text": "before "}, {"touch": begun}, {"wait_file": go}, {"text": "after "}, {"repeat": 500}, {"ask": "rm"}, {"terminal": "echo hi"},
    ], [{"echo": null}]]}));
    chat.prompt(1, "hello");
    world.appears("begun").await;
    world.product.kill_engine();
    std::fs::write(go, "").unwrap();
    let events = chat.until(|news| matches!(news, AgentNews::Permission(_))).await;
    let Some(AgentNews::Permission(ask)) = events.last() else { unreachable!() };
    let numbers: String = (0..500).map(|n| format!("{n} ")).collect();
    assert_eq!(drafts(&events), format!("before after {numbers}"));
    world.product.kill_engine();
    chat.handle.allow(&ask.id, outlast_agents::Decision::Allow).unwrap();
    let events = chat.turn().await;
    assert_eq!(events.last(), Some(&END));
    assert_eq!(drafts(&events), "{\"optionId\":\"allow_once\",\"outcome\":\"selected\"}\"hi\\n\" 0");
    world.product.kill_engine();
    chat.prompt(2, "once");
    assert_eq!(texts(&chat.turn().await), ["once"]);
    // Nothing was written twice: each message was read once.
    let heard = world.heard();
    assert_eq!(heard.iter().filter(|m| m["method"] == "session/prompt").count(), 2);
    chat.stop().await;
}

#[tokio::test]
async fn a_session_is_resumed_else_loaded_without_its_replay_else_new_with_a_summary() {
    let world = World::new().await;
    let both = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    let load = json!({"loadSession": true});
    let cases = [
        (json!({"capabilities": both}), Opened::Resumed, "hello", "sess-old"),
        (json!({"capabilities": load}), Opened::Loaded, "hello", "sess-old"),
        (json!({"capabilities": both, "refuse": ["session/resume"]}), Opened::Loaded, "hello", "sess-old"),
        (json!({"capabilities": both, "refuse": ["session/resume", "session/load"]}), Opened::New, "so far: nothing\n\n|hello", "sess-1"),
        (json!({"capabilities": {}}), Opened::New, "so far: nothing\n\n|hello", "sess-1"),
    ];
    for (mut script, opened, reply, session) in cases {
        script["replay"] = json!([{"text": "old words"}, {"update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "old"}}]);
        script["turns"] = json!([[{"echo": null}]]);
        let conversation = world.conversation().with_session("sess-old").with_summary("so far: nothing");
        let mut chat = world.start_with(world.settings(&script), conversation);
        chat.prompt(1, "hello");
        let events = chat.turn().await;
        assert_eq!(events[0], AgentNews::Ready { session: Some(session.into()), opened });
        assert_eq!((texts(&events), events.len()), (vec![reply], 5), "{events:?}");
        // The next actor stops the agent of this one, which was left without a word.
        drop(chat);
    }
    assert_eq!(outlast_agents::stop_agents_of(&world.client, KEY).await.unwrap(), 1);
}

#[tokio::test]
async fn an_agent_that_was_stopped_in_order_leaves_no_process_behind() {
    let world = World::new().await;
    let mut chat = world.start(&json!({"turns": [[{"echo": null}]]}));
    chat.prompt(1, "hello");
    assert_eq!(texts(&chat.turn().await), ["hello"]);
    chat.stop().await;
    let left = world.client.list(&outlast_client::Scope::session(outlast_agents::agent_session(KEY)), true).await.unwrap();
    assert_eq!(left, []);
}

#[tokio::test]
async fn a_replay_that_comes_after_the_answer_is_no_reply() {
    let world = World::new().await;
    let old =
        json!([{"text": "old words"}, {"update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "old"}}, {"text": "more"}]);
    let script = json!({"capabilities": {"loadSession": true}, "late_replay": old, "turns": [[{"echo": null}]]});
    let mut chat = world.start_with(world.settings(&script), world.conversation().with_session("sess-old"));
    chat.prompt(1, "hello");
    let events = chat.turn().await;
    assert_eq!((texts(&events), drafts(&events).as_str(), events.len()), (vec!["hello"], "hello", 5), "{events:?}");
    chat.stop().await;
}

#[tokio::test]
async fn what_lies_beside_an_agent_is_found_by_it() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let world = World::new().await;
    let dir = world.path("it's a dir");
    std::fs::create_dir(&dir).unwrap();
    symlink("/bin/sh", format!("{dir}/interpreter")).unwrap();
    let mut settings = world.settings(&json!({"turns": [[{"text": "found"}]]}));
    std::fs::write(format!("{dir}/agent"), format!("#!/usr/bin/env interpreter\nexec '{}' '{}'\n", settings.argv[0], settings.argv[1]))
        .unwrap();
    std::fs::set_permissions(format!("{dir}/agent"), PermissionsExt::from_mode(0o755)).unwrap();
    settings.argv = vec![format!("{dir}/agent")];
    let mut chat = world.start_with(settings, world.conversation());
    chat.prompt(1, "hello");
    assert_eq!(texts(&chat.turn().await), ["found"]);
    chat.stop().await;
}

#[tokio::test]
async fn a_gateway_that_does_not_read_gets_every_event_when_it_does() {
    let world = World::new().await;
    let tools: Vec<_> =
        (0..2_000).map(|n| json!({"update": {"sessionUpdate": "tool_call", "toolCallId": n.to_string(), "title": "t"}})).collect();
    let mut steps = tools;
    steps.push(json!({"touch": world.path("said")}));
    let mut chat = world.start(&json!({ "turns": [steps] }));
    let attempt = chat.prompt(1, "hello");
    world.appears("said").await;
    // Orders are taken meanwhile.
    assert_eq!((chat.handle.attend(true), chat.handle.withdraw(&attempt)), (Ok(()), false));
    let events = chat.turn().await;
    assert_eq!(events.iter().filter(|e| matches!(e, AgentNews::Tool(_))).count(), 2_000);
    assert_eq!(events.last(), Some(&END));
    chat.stop().await;
}

#[tokio::test]
async fn a_slow_gateway_gets_the_answer_of_an_agent_that_ended_behind_it() {
    let world = World::new().await;
    let mut steps: Vec<_> =
        (0..2_000).map(|n| json!({"update": {"sessionUpdate": "tool_call", "toolCallId": n.to_string(), "title": "t"}})).collect();
    // The prompt is the third request.
    steps.extend([json!({"raw": "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"stopReason\":\"end_turn\"}}\n"}), json!({"exit": 0})]);
    let mut chat = world.start(&json!({ "turns": [steps] }));
    chat.prompt(1, "hello");
    eventually("the end of the agent", || async {
        world.client.list(&Scope::session(agent_session(KEY)), true).await.unwrap().iter().any(|p| p.fate.exit_code == Some(Some(0)))
    })
    .await;
    // Longer than an output is waited for that something else holds open.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let events = chat.turn().await;
    assert_eq!(events.iter().filter(|e| matches!(e, AgentNews::Tool(_))).count(), 2_000);
    assert_eq!(events.last(), Some(&END));
    chat.gone().await;
}

#[tokio::test]
async fn a_prompt_longer_than_any_pipe_arrives_whole() {
    let world = World::new().await;
    let mut chat = world.start(&json!({"turns": [[{"text": "read"}]]}));
    let words = "0123456789".repeat(100_000);
    chat.prompt(1, &words);
    assert_eq!(texts(&chat.turn().await), ["read"]);
    assert!(world.heard().last().unwrap()["params"]["prompt"][0]["text"] == words);
    chat.stop().await;
}
