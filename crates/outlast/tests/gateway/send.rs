//! Messages: answered, in order, once, by an agent that finds our program.

use crate::support::{Bench, KEY, cat};
use outlast_client::{AgentChoice, ChatEvent, Heard, Setup, TurnInfo, TurnOutcome, TurnState, message_id};
use outlast_testkit::product::{Product, eventually};
use outlast_wire::v1::chat::{ChatMessage, ChatRequest};

#[test]
fn a_message_is_answered() {
    let bench = Bench::new();
    let accepted = bench.send("hello", &cat());
    let turn = bench.wait(accepted.turn);
    assert_eq!((turn.outcome, turn.reply.as_deref(), turn.attempt), (Some(TurnOutcome::Completed), Some("hello"), 1));
    let parts = bench.parts();
    assert_eq!(parts, [("words".to_owned(), "hello".to_owned()), ("text".to_owned(), "hello".to_owned())]);
    let status = bench.block(bench.chat().status()).unwrap();
    assert_eq!((status.running, status.idle), (0, true));
}

#[test]
fn messages_are_answered_one_at_a_time_in_their_order() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turns: Vec<u64> = ["one", "two", "three"].iter().map(|words| bench.send(words, &agent).turn).collect();
    bench.wait_for_prompts(1);
    let states: Vec<TurnState> = bench.show().turns.into_iter().map(|turn| turn.state).collect();
    assert_eq!(states, [TurnState::Running, TurnState::Queued, TurnState::Queued]);
    for (at, turn) in turns.iter().enumerate() {
        bench.wait_for_prompts(at + 1);
        bench.open_gate();
        bench.wait(*turn);
    }
    assert_eq!(bench.prompts(), ["one", "two", "three"]);
    let replies: Vec<Option<String>> = bench.show().turns.into_iter().map(|turn| turn.reply).collect();
    assert_eq!(replies, [Some("did: one".to_owned()), Some("did: two".to_owned()), Some("did: three".to_owned())]);
}

#[test]
fn a_message_that_is_sent_again_has_one_turn_also_over_a_restart() {
    let bench = Bench::new();
    let (id, setup) = (message_id().unwrap(), Setup::default().answered_by(cat()));
    let send = || bench.block(async { bench.chat_now().await.send(KEY, &id, "once", &setup).await }).unwrap();
    let first = send();
    assert_eq!(send().turn, first.turn);
    bench.wait(first.turn);
    assert_eq!((send().turn, send().state), (first.turn, TurnState::Finished));
    let pid = bench.kill();
    bench.next_after(pid);
    assert_eq!(send().turn, first.turn);
    assert_eq!(bench.show().turns.len(), 1);
}

#[test]
fn a_terminal_sees_the_draft_the_part_and_the_end() {
    let bench = Bench::new();
    let agent = bench.gated();
    bench.send("first", &agent);
    bench.wait_for_prompts(1);
    bench.block(async {
        let mut feed = bench.chat_now().await.follow(KEY);
        let mut seen = Vec::new();
        loop {
            let Heard::Event(event) = feed.next().await.unwrap() else { continue };
            match event {
                ChatEvent::CaughtUp { .. } => {
                    seen.push("caught up".to_owned());
                    bench.open_gate();
                }
                ChatEvent::Draft { from, text, .. } => seen.push(format!("draft {from} {}", text.trim_end())),
                ChatEvent::Part { part } => seen.push(format!("part {}", part.kind)),
                ChatEvent::Turn { turn } if turn.is_finished() => break,
                _ => {}
            }
        }
        assert_eq!(seen, ["part words", "caught up", "draft 0 did: first", "part text"]);
    });
}

#[test]
fn case_130_a_command_that_fails_or_is_missing_ends_its_turn_and_no_other() {
    let bench = Bench::new();
    let turn = bench.send("x", &outlast_client::AgentChoice::Command("echo no >&2; exit 3".into())).turn;
    let failed = bench.wait(turn);
    assert_eq!(failed.outcome, Some(TurnOutcome::Failed));
    assert!(failed.why.unwrap().contains("no"), "{:?}", bench.lines());
    let next = bench.send("y", &cat()).turn;
    assert_eq!(bench.wait(next).reply.as_deref(), Some("y"));
}

/// The gateway once answered with the turn as it was before its end, and `chat send --wait` reported a timeout.
#[test]
fn a_client_that_begins_to_wait_while_the_reply_is_written_down_is_told_the_end() {
    let bench = Bench::new();
    let points = bench.product().points();
    points.arm("gateway.turn.reply").unwrap();
    let turn = bench.send("hello", &cat()).turn;
    eventually("the reply", || points.held("gateway.turn.reply"));
    let mut talk = bench.raw();
    talk.say(&ChatMessage { id: 7, session: None, request: ChatRequest::Wait { key: KEY.into(), turn, timeout_ms: None } });
    // A second hello is refused without the coordinator, which is held. By then the request before is in its queue.
    talk.say(&ChatMessage { id: 8, session: None, request: ChatRequest::Hello { version: 1, client: "a test".into(), namespaces: None } });
    assert!(talk.hear::<TurnInfo>(8).error.is_some());
    points.release("gateway.turn.reply").unwrap();
    let told = talk.hear::<TurnInfo>(7).answer.unwrap();
    assert_eq!((told.outcome, told.reply.as_deref()), (Some(TurnOutcome::Completed), Some("hello")));
}

/// The gateway's `outlast` was only in the PATH of the terminal, which agents do not have.
#[test]
fn an_agent_finds_the_outlast_of_its_gateway_unless_the_login_has_one() {
    let asks = AgentChoice::Command("cat > /dev/null; command -v outlast; echo \"$PATH\"; echo \"${OUTLAST_DIR-unset}\"".into());
    let ours = std::path::Path::new(env!("CARGO_BIN_EXE_outlast"));
    let dir = ours.parent().unwrap().display().to_string();
    let reply = |product: Product| {
        let bench = Bench::stopped(product);
        bench.start();
        let reply = bench.wait(bench.send("where?", &asks).turn).reply.unwrap();
        let [found, path, left] = reply.lines().map(str::to_owned).collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(left, "unset");
        (found, path)
    };
    let (found, path) = reply(Product::new(ours));
    assert_eq!((found.as_str(), path.ends_with(&format!(":{dir}"))), (ours.to_str().unwrap(), true), "{path}");
    let product = Product::new(ours);
    let own = product.user().join("own/outlast");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(ours, &own).unwrap();
    std::fs::write(product.user().join(".profile"), "PATH=$HOME/own:$PATH\n").unwrap();
    let (found, path) = reply(product);
    assert_eq!((found.as_str(), path.contains(&dir)), (own.to_str().unwrap(), false), "{path}");
}

#[test]
fn a_wrong_name_of_an_agent_is_answered_with_those_of_the_configuration() {
    let bench = Bench::configured("[gateway.agents.reviewer]\ncommand = \"cat\"\n");
    let send = |agent: &str| bench.product().call(["chat", "send", "x", "--agent", agent, "--wait", "hello"]);
    let refused = send("reviwer");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for want in
        ["there is no agent reviwer", "did you mean reviewer?", "codex, opencode", "and reviewer in config.toml", "[gateway.agents.NAME]"]
    {
        assert!(refused.err.contains(want), "{want}: {}", refused.err);
    }
    let unchosen = bench.product().call(["chat", "send", "x", "hello"]);
    assert_eq!(unchosen.code, Some(1), "{unchosen:?}");
    for want in
        ["there is no conversation x; to begin it, choose an agent", "codex, opencode", "and reviewer in config.toml", "--command CMD"]
    {
        assert!(unchosen.err.contains(want), "{want}: {}", unchosen.err);
    }
    assert_eq!(bench.product().call(["chat", "list", "--json"]).text(), "{\"conversations\":[]}\n", "nothing was created");
    assert_eq!(send("reviewer").text(), "hello\n");
    assert!(send("claude").err.contains("Claude Code does not speak ACP by itself; [gateway.agents.claude] in config.toml"));
}

#[test]
fn a_new_conversation_whose_name_is_near_a_known_one_is_asked_about() {
    let bench = Bench::new();
    bench.product().call(["chat", "send", "main", "--command", "cat", "--wait", "hello"]).good();
    let mistyped = bench.product().call(["chat", "send", "mian", "hello"]);
    for want in ["there is no conversation mian; to begin it, choose an agent", "did you mean main? For a new one, give --agent NAME"] {
        assert!(mistyped.err.contains(want), "{want}: {mistyped:?}");
    }
}
