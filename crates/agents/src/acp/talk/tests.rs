use super::turn::{MAX_KNOWN_TOOLS, MAX_UNTOLD_TOOLS, PENDING_TOOL_LIMIT};
use super::*;
use crate::acp::line::parse_line;
use crate::driver::StopReason;
use crate::permission::PermissionMode;
use std::time::Duration;

fn conversation() -> Conversation {
    Conversation::new("key", "1", "/work", "/files")
}

struct Told {
    talk: Talk,
    now: Instant,
}

impl Told {
    fn new(settings: &AcpSettings, conversation: Conversation) -> Self {
        let now = Instant::now();
        Self { talk: Talk::begin(settings, conversation, now), now }
    }

    /// A talk in which a prompt was given, with the effects so far taken.
    fn prompted() -> Self {
        let mut told = Self::new(&AcpSettings::new(["agent"]), conversation());
        told.says(r#"{"id":0,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#);
        told.says(r#"{"id":1,"result":{"sessionId":"s"}}"#);
        told.talk.prompt(Prompt { attempt: Attempt::new("t", 1), blocks: vec![Block::Text("hi".into())] }, told.now);
        told.talk.take_effects();
        told
    }

    fn says(&mut self, line: &str) -> Vec<Effect> {
        self.talk.hear(parse_line(line.as_bytes()).unwrap(), line.len(), self.now);
        self.talk.take_effects()
    }

    fn text(&mut self, session: &str, text: &str) -> Vec<Effect> {
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
        self.says(&json!({"method": "session/update", "params": {"sessionId": session, "update": update}}).to_string())
    }

    fn later(&mut self, by: Duration, are_calls_under_way: bool) -> Vec<Effect> {
        self.now += by;
        self.talk.tick(are_calls_under_way, self.now);
        self.talk.take_effects()
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn an_agent_of_another_version_or_that_wants_a_login_is_not_talked_to() {
    let end = |lines: &[&str]| {
        let mut told = Told::new(&AcpSettings::new(["agent"]), conversation().with_session("old"));
        told.talk.take_effects();
        let mut last = Vec::new();
        for line in lines {
            last = told.says(line);
        }
        match &last[..] {
            [Effect::End(TalkEnd::Gone(why))] => why.clone(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end(&[r#"{"id":0,"result":{"protocolVersion":2}}"#]), "the agent speaks ACP version 2, and this gateway version 1");
    let greeting = r#"{"id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}"#;
    let login = end(&[greeting, r#"{"id":1,"error":{"code":-32000,"message":"Authentication required"}}"#]);
    assert!(login.contains("log in") && login.contains("Authentication required"), "{login}");
    let new = r#"{"id":1,"error":{"code":-32603,"message":"forgotten"}}"#;
    assert!(end(&[greeting, new, r#"{"id":2,"result":{}}"#]).contains("without a name"));
}

/// opencode took a path for a command that it does not know, and ended the turn without asking its model.
#[test]
fn text_that_begins_with_a_slash_is_not_taken_for_a_command_of_the_agents() {
    let sent = |blocks: Vec<Block>| {
        let mut told = Told::prompted();
        told.says(r#"{"id":2,"result":{"stopReason":"end_turn"}}"#);
        told.talk.prompt(Prompt { attempt: Attempt::new("t", 2), blocks }, told.now);
        let line = told.talk.take_effects().into_iter().find_map(|effect| match effect {
            Effect::Send(line) => Some(line),
            _ => None,
        });
        let request: Value = serde_json::from_slice(&line.unwrap()).unwrap();
        let texts = request["params"]["prompt"].as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap().to_owned());
        texts.collect::<Vec<_>>()
    };
    let text = |text: &str| Block::Text(text.into());
    for words in ["/etc/hosts is a path", " \u{feff}\n/tmp is full"] {
        assert_eq!(sent(vec![text(words)]), ["The user wrote:\n\n", words]);
    }
    assert_eq!(sent(vec![Block::Command("/compact".into())]), ["/compact"]);
    assert_eq!(sent(vec![text("see /etc/hosts")]), ["see /etc/hosts"]);
    assert_eq!(sent(vec![text("a note"), text("/etc/hosts")]), ["a note\n\n", "/etc/hosts"]);
}

#[test]
fn text_between_turns_or_of_another_session_is_no_reply() {
    let mut told = Told::prompted();
    assert!(told.text("other", "x").is_empty());
    assert_eq!(told.text("s", "x").len(), 1);
    assert_eq!(told.says(r#"{"id":2,"result":{"stopReason":"max_tokens"}}"#).len(), 2);
    assert!(told.text("s", "x").is_empty() && told.talk.is_free());
    // An answer that comes twice ends nothing.
    assert!(told.says(r#"{"id":2,"result":{"stopReason":"end_turn"}}"#).is_empty());
}

#[test]
fn a_loaded_session_is_open_when_nothing_is_replayed_any_more() {
    let loaded = || {
        let mut told = Told::new(&AcpSettings::new(["agent"]), conversation().with_session("s"));
        told.says(r#"{"id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}"#);
        let asked = told.says(r#"{"id":1,"result":{}}"#);
        assert!(matches!(&asked[..], [Effect::Send(line)] if String::from_utf8_lossy(line).contains("_outlast/fence")), "{asked:?}");
        told
    };
    let ready = |effects: &[Effect]| matches!(effects, [Effect::Tell(event)] if matches!(event.what, AgentNews::Ready { opened: Opened::Loaded, .. }));
    let unknown = |id: u64| format!(r#"{{"id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#);
    let mut told = loaded();
    assert!(ready(&told.says(&unknown(2))) && told.talk.is_free());
    // What came before the answer is followed by another question.
    let mut told = loaded();
    assert!(told.text("s", "old").is_empty());
    assert!(matches!(told.says(&unknown(2))[..], [Effect::Send(_)]));
    assert!(told.says(&unknown(2)).is_empty() && !told.talk.is_free(), "an answer counts once");
    assert!(ready(&told.says(&unknown(3))));
    // One that does not answer is waited for until it has been silent for a while.
    let mut told = loaded();
    assert!(told.later(Duration::from_secs(1), false).is_empty());
    told.text("s", "old");
    assert!(told.later(Duration::from_secs(1), false).is_empty());
    assert!(ready(&told.later(Duration::from_secs(1), false)));
}

#[test]
fn silence_counts_while_the_agent_is_to_speak_and_not_while_it_waits_for_us() {
    let mut told = Told::prompted();
    told.later(29 * MINUTE, false);
    told.text("s", "still here");
    assert!(told.later(29 * MINUTE, false).is_empty());
    assert!(told.later(29 * MINUTE, true).is_empty(), "a terminal of the agent's is waited for");
    told.talk.touch(told.now);
    let effects = told.later(30 * MINUTE, false);
    assert!(matches!(&effects[..], [Effect::End(TalkEnd::Failed(_, why))] if why.contains("1800 s")), "{effects:?}");
}

#[test]
fn a_reply_without_an_end_is_a_flood() {
    let mut told = Told::prompted();
    let piece = "x".repeat(1 << 20);
    assert!((0..2).all(|_| told.text("s", &piece).len() == 1));
    let effects = told.text("s", "x");
    assert!(matches!(&effects[..], [Effect::End(TalkEnd::Failed(_, why))] if why.contains("2097152")), "{effects:?}");
}

#[test]
fn an_error_after_a_cancel_is_a_cancel_and_a_real_end_still_counts() {
    for (answer, want) in [
        (r#"{"id":2,"error":{"code":-32800,"message":"aborted"}}"#, StopReason::Cancelled),
        (r#"{"id":2,"result":{"stopReason":"end_turn"}}"#, StopReason::EndTurn),
    ] {
        let mut told = Told::prompted();
        told.talk.cancel(&Attempt::new("t", 2), told.now);
        assert!(told.talk.take_effects().is_empty(), "another attempt is not this one");
        told.talk.cancel(&Attempt::new("t", 1), told.now);
        told.talk.cancel(&Attempt::new("t", 1), told.now);
        assert_eq!(told.talk.take_effects().len(), 1, "it is said once");
        let told = told.says(answer);
        let completed = AgentNews::Completed { stop_reason: want };
        assert!(matches!(&told[..], [Effect::Tell(event)] if event.what == completed), "{told:?}");
    }
}

#[test]
fn too_many_permissions_at_once_are_denied() {
    let mut told = Told::prompted();
    let ask = |n: usize| {
        json!({"id": n, "method": "session/request_permission", "params": {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": []}}).to_string()
    };
    for n in 0..MAX_OPEN_PERMISSIONS {
        assert!(matches!(told.says(&ask(n))[..], [Effect::Tell(_)]));
    }
    let refused = told.says(&ask(99));
    assert!(
        matches!(&refused[..], [Effect::Send(line), Effect::Tell(_)] if String::from_utf8_lossy(line).contains("cancelled")),
        "{refused:?}"
    );
    // All that wait are denied together, by the same limit.
    assert_eq!(told.later(MINUTE, false).len(), 2 * MAX_OPEN_PERMISSIONS);
    let mut settings = AcpSettings::new(["agent"]);
    settings.permission.mode = PermissionMode::Always;
    assert_eq!(Told::new(&settings, conversation()).talk.take_effects().len(), 1);
}

#[test]
fn a_tool_call_is_told_when_it_changes_and_old_ones_are_forgotten() {
    let mut told = Told::prompted();
    let tool = |id: usize, status: &str| {
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": id.to_string(), "title": "T", "status": status});
        json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}).to_string()
    };
    assert_eq!(told.says(&tool(0, "in_progress")).len(), 1);
    assert_eq!(told.says(&tool(0, "in_progress")).len(), 0);
    assert_eq!(told.says(&tool(0, "failed")).len(), 1);
    for id in 1..=MAX_KNOWN_TOOLS {
        told.says(&tool(id, "pending"));
    }
    let turn = told.talk.turn.as_ref().unwrap();
    assert!(turn.tools.len() == MAX_KNOWN_TOOLS && turn.untold.len() <= MAX_UNTOLD_TOOLS, "{}", turn.untold.len());
    assert!(told.says(&tool(0, "failed")).len() <= MAX_UNTOLD_TOOLS + 1);
    assert!(told.says(&tool(MAX_KNOWN_TOOLS + 1, "failed")).len() == 1);
}

#[test]
fn a_person_is_asked_with_what_was_said_of_the_call_before() {
    let content = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let mut told = Told::prompted();
    let update = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "run", "status": "pending", "content": content("{\"command\": \"make\"}")});
    told.says(&json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}).to_string());
    for (n, (call, said, want)) in [
        ("1", content("Approve run"), "run: Approve run {\"command\": \"make\"}"),
        ("1", json!([]), "run: {\"command\": \"make\"}"),
        ("2", json!([]), "run"),
    ]
    .into_iter()
    .enumerate()
    {
        let call = json!({"toolCallId": call, "title": "run", "content": said});
        let effects = told.says(
            &json!({"id": n, "method": "session/request_permission", "params": {"sessionId": "s", "toolCall": call, "options": []}})
                .to_string(),
        );
        let Some(Effect::Tell(AgentEvent { what: AgentNews::Permission(ask), .. })) = effects.last() else { panic!("{effects:?}") };
        assert_eq!((ask.title.as_str(), ask.question().as_str()), ("run", want));
    }
}

#[test]
fn a_call_whose_input_is_being_written_is_told_with_its_title_or_after_a_while() {
    let tool = |status: Option<&str>, title: &str| {
        let update = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": title, "status": status});
        json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}).to_string()
    };
    let titles = |effects: &[Effect]| {
        let title = |effect: &Effect| match effect {
            Effect::Tell(AgentEvent { what: AgentNews::Tool(line), .. }) => line.title.clone(),
            Effect::Tell(AgentEvent { what: AgentNews::Text(text), .. }) => format!("text {text}"),
            Effect::Tell(AgentEvent { what: AgentNews::Draft(text), .. }) => format!("draft {text}"),
            other => format!("{other:?}").chars().take(20).collect(),
        };
        effects.iter().map(title).collect::<Vec<_>>()
    };
    let mut told = Told::prompted();
    told.text("s", "so ");
    assert!(told.says(&tool(Some("pending"), "bash")).is_empty());
    assert_eq!(titles(&told.says(&tool(Some("in_progress"), "make"))), ["text so ", "make"]);
    // Text, the end and the limit end the wait, and a call that is said to be nothing is one that runs.
    let mut told = Told::prompted();
    told.says(&tool(Some("pending"), "bash"));
    assert_eq!(titles(&told.text("s", "x")), ["bash", "draft x"]);
    let mut told = Told::prompted();
    told.says(&tool(Some("pending"), "bash"));
    assert_eq!(titles(&told.says(r#"{"id":2,"result":{"stopReason":"end_turn"}}"#)).first().map(String::as_str), Some("bash"));
    let mut told = Told::prompted();
    told.says(&tool(Some("pending"), "bash"));
    assert!(told.talk.deadline(true).is_some());
    assert_eq!(titles(&told.later(PENDING_TOOL_LIMIT, true)), ["bash"]);
    assert_eq!(titles(&Told::prompted().says(&tool(None, "terminal: make"))), ["terminal: make"]);
}

#[test]
fn a_turn_of_too_many_parts_fails_whatever_they_are() {
    let tool = |n: usize| json!({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "tool_call", "toolCallId": n.to_string()}}});
    let ask =
        |n: usize| json!({"id": n, "method": "session/request_permission", "params": {"toolCall": {"toolCallId": "t"}, "options": []}});
    for what in [&tool as &dyn Fn(usize) -> Value, &ask] {
        let mut told = Told::prompted();
        for n in 0..MAX_TURN_PARTS {
            assert!(!told.says(&what(n).to_string()).iter().any(|effect| matches!(effect, Effect::End(_))));
        }
        let end = told.says(&what(MAX_TURN_PARTS).to_string());
        assert!(matches!(&end[..], [Effect::End(TalkEnd::Failed(_, why))] if why.contains("20000 things")), "{end:?}");
    }
}
