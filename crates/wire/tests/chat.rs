//! `fixtures/wire-v1/chat-*.jsonl`: messages of older clients and gateways stay readable, and messages of newer ones do not break
//! this one.

use outlast_core::{OsText, Time};
use outlast_wire::v1::chat::{
    Accepted, AgentChoice, Changed, ChatEvent, ChatMessage, ChatReply, ChatRequest, Content, ConversationInfo, Conversations,
    GatewayStatus, LineBody, Opened, Part, PermissionBody, PermissionOption, Shown, Standing, TextBody, ToolBody, ToolState, TurnInfo,
    TurnKind, TurnOutcome, TurnState, WordsBody,
};
use outlast_wire::v1::{Done, Error, ErrorKind, Hello};
use serde_json::{Value, json};
use std::path::PathBuf;

const AT: Time = Time::from_micros(1_700_000_000_000_000);
const KEY: &str = "agent:main:local:dm:main";

fn dir() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/wire-v1").into()
}

fn requests() -> Vec<ChatMessage> {
    let key = || KEY.to_owned();
    let all = vec![
        ChatRequest::Hello { version: 1, client: "a client".into(), namespaces: None },
        ChatRequest::Open { key: key(), agent: Some(AgentChoice::Agent("codex".into())), cwd: Some("/src".into()) },
        ChatRequest::Open { key: key(), agent: None, cwd: None },
        ChatRequest::Send {
            key: key(),
            message_id: "msg:0123456789abcdef".into(),
            words: "hello".into(),
            agent: Some(AgentChoice::Command("cat".into())),
            cwd: Some(OsText::from(vec![0x2f, 0xff])),
        },
        ChatRequest::Follow { key: key(), after: Some(7), context: 20, is_attended: true },
        ChatRequest::Follow { key: key(), after: None, context: 0, is_attended: false },
        ChatRequest::Stop { key: key(), request_id: None },
        ChatRequest::New { key: key(), request_id: Some("req:0123456789abcdef".into()) },
        ChatRequest::Resume { key: key(), request_id: None, generation: None },
        ChatRequest::Allow { key: key(), permission: "perm_1".into(), option: "allow".into() },
        ChatRequest::Seen { key: key(), part: 9 },
        ChatRequest::List,
        ChatRequest::Show { key: key(), generation: Some(2) },
        ChatRequest::Wait { key: key(), turn: 3, timeout_ms: Some(1000) },
        ChatRequest::Status,
        ChatRequest::Drain { hold_seconds: Some(60) },
        ChatRequest::Undrain,
        ChatRequest::Restart { from: Some(key()) },
        ChatRequest::Shutdown { timeout_ms: Some(60_000), from: None },
        ChatRequest::Cancel { of: 4 },
        ChatRequest::Resume { key: key(), request_id: None, generation: Some(1) },
    ];
    all.into_iter().enumerate().map(|(n, request)| ChatMessage { id: n as u64, session: None, request }).collect()
}

fn conversation() -> ConversationInfo {
    let mut it = ConversationInfo::new(KEY, "main", 2);
    (it.standing, it.strikes, it.agent, it.open_turns) = (Standing::ResumePending, 1, Some("codex".into()), 1);
    (it.last_message_at, it.waits_for) = (Some(AT), Some("a person".into()));
    it
}

fn turn() -> TurnInfo {
    let mut turn = TurnInfo::queued(3, TurnKind::Message, "msg:0123456789abcdef");
    (turn.state, turn.attempt, turn.outcome) = (TurnState::Finished, 2, Some(TurnOutcome::Failed));
    (turn.interrupt_reason, turn.interrupted_at) = (Some("restart_interrupted".into()), Some(AT));
    (turn.why, turn.words, turn.reply) = (Some("agent_ended".into()), Some("hello".into()), Some("hi".into()));
    (turn.accepted_at, turn.started_at, turn.finished_at) = (Some(AT), Some(AT), Some(AT));
    turn
}

fn contents() -> Vec<Content> {
    let mut tool = ToolBody::new("call_1", "cargo test", ToolState::Failed);
    tool.result = Some("exit code 101".into());
    let mut permission = PermissionBody::new("perm_1", "rm -rf target", vec![PermissionOption::new("y", "Allow once", "allow_once")]);
    (permission.answer, permission.by) = (Some("y".into()), Some("person".into()));
    vec![
        Content::Words(WordsBody::new("hello", "msg:0123456789abcdef")),
        Content::Text(TextBody::new("**hi**")),
        Content::Tool(tool),
        Content::Permission(permission),
        Content::Line(LineBody::new("resumed after a restart", "resumed")),
    ]
}

fn replies() -> Vec<Value> {
    fn value<T: serde::Serialize>(reply: ChatReply<T>) -> Value {
        serde_json::to_value(reply).expect("it serialises")
    }
    let mut opened = Opened::new(conversation());
    (opened.is_new, opened.last_part, opened.seen_part) = (true, Some(9), Some(7));
    let mut accepted = Accepted::new(3, TurnState::Queued);
    (accepted.ahead, accepted.note) = (1, Some("answered after the restart".into()));
    let mut status = GatewayStatus::new(7, "0.1.0", "/home", AT);
    (status.running, status.idle, status.draining, status.unsent) = (1, false, true, 2);
    (status.queued, status.terminals, status.notes) = (3, 4, vec!["a note".into()]);
    let mut all = vec![
        value(ChatReply::answer(0, Hello { version: 1, program: "0.1.0".into(), pid: 7, home: Some("/home".into()) })),
        value(ChatReply::answer(1, opened)),
        value(ChatReply::answer(2, accepted)),
        value(ChatReply::answer(3, Changed::new(Standing::Suspended, 2, "stopped"))),
        value(ChatReply::answer(4, Conversations::new(vec![conversation()]))),
        value(ChatReply::answer(5, Shown::new(conversation(), vec![turn(), TurnInfo::queued(4, TurnKind::Notice, "evt_1")]))),
        value(ChatReply::answer(6, turn())),
        value(ChatReply::answer(7, status)),
        value(ChatReply::answer(8, Done::ok())),
        value(ChatReply::<Value>::error(9, Error::new(ErrorKind::Refusal, "not_found", "no such conversation", "look"))),
    ];
    let mut events: Vec<ChatEvent> = contents()
        .iter()
        .enumerate()
        .map(|(n, content)| ChatEvent::Part { part: Box::new(Part::new(n as u64 + 1, Some(3), 1, content, AT)) })
        .collect();
    events.extend([
        ChatEvent::Draft { turn: 3, attempt: 1, from: 5, text: "wor".into() },
        ChatEvent::Turn { turn: Box::new(turn()) },
        ChatEvent::Standing { standing: Standing::Active, strikes: 0, generation: 2 },
        ChatEvent::CaughtUp { last_part: Some(9) },
    ]);
    all.extend(events.into_iter().enumerate().map(|(n, event)| value(ChatReply::<Value>::event(10 + n as u64, event))));
    all
}

fn lines<T: serde::Serialize>(of: &[T]) -> String {
    of.iter().map(|m| serde_json::to_string(m).expect("it serialises") + "\n").collect()
}

/// Reads each line as its type, and compares what that type writes today with the line: fields may be added, none lost or renamed.
fn check<T: serde::Serialize + for<'de> serde::Deserialize<'de>>(file: &str) {
    let text = std::fs::read_to_string(dir().join(file)).expect("a fixture");
    assert!(text.lines().count() > 3, "{file} is not empty");
    for line in text.lines() {
        let read: T = serde_json::from_str(line).unwrap_or_else(|e| panic!("{file}: {e}: {line}"));
        let then: Value = serde_json::from_str(line).expect("JSON");
        let now = serde_json::to_value(&read).expect("it serialises");
        assert!(holds(&now, &then), "{file}: {line} became {now}");
    }
}

/// Whether `now` contains everything that `then` contains.
fn holds(now: &Value, then: &Value) -> bool {
    match (now, then) {
        (Value::Object(now), Value::Object(then)) => then.iter().all(|(k, v)| now.get(k).is_some_and(|n| holds(n, v))),
        _ => now == then,
    }
}

#[test]
fn fixture_wire_v1_chat_is_readable() {
    check::<ChatMessage>("chat-requests.jsonl");
    check::<ChatReply<Value>>("chat-replies.jsonl");
    let text = std::fs::read_to_string(dir().join("chat-replies.jsonl")).expect("a fixture");
    let line = |n: usize| text.lines().nth(n).expect("a line");
    fn answer<T: for<'de> serde::Deserialize<'de>>(line: &str) -> T {
        serde_json::from_str::<ChatReply<T>>(line).expect("a reply").answer.expect("an answer")
    }
    assert_eq!(answer::<Opened>(line(1)).conversation, conversation());
    assert_eq!(answer::<Shown>(line(5)).turns[0], turn());
    assert!(answer::<Shown>(line(5)).generations.is_empty(), "a gateway of then lists none");
    assert_eq!(answer::<TurnInfo>(line(6)), turn());
    assert_eq!(answer::<GatewayStatus>(line(7)).terminals, 4);
    for (n, content) in contents().iter().enumerate() {
        let event = serde_json::from_str::<ChatReply<Value>>(line(10 + n)).expect("a reply").event;
        let Some(ChatEvent::Part { part }) = event else { panic!("{event:?}") };
        assert_eq!(&part.content(), content);
    }
}

#[test]
fn what_a_newer_peer_adds_breaks_nothing() {
    let turn: TurnInfo = serde_json::from_value(
        json!({"id": 1, "kind": "dream", "cause": "c", "state": "paused", "outcome": "merged", "mood": {"deep": [1]}}),
    )
    .expect("a turn");
    assert_eq!((turn.kind.as_str(), turn.state.as_str()), ("dream", "paused"));
    assert_eq!(turn.outcome, Some(TurnOutcome::Other("merged".into())));
    assert!(!turn.is_finished());
    assert_eq!(serde_json::to_value(&turn).expect("it serialises")["state"], "paused");
    let event: ChatEvent = serde_json::from_value(json!({"event": "weather", "sun": true})).expect("an event");
    assert_eq!(event, ChatEvent::Unknown);
    let part = json!({"id": 1, "kind": "picture", "body": {"png": ""}, "at": "2026-01-01T00:00:00Z", "x": 1});
    assert_eq!(serde_json::from_value::<Part>(part).expect("a part").content(), Content::Unknown);
    let part = json!({"id": 1, "kind": "text", "body": ["not", "an", "object", {"with": "text"}], "at": "2026-01-01T00:00:00Z"});
    assert_eq!(serde_json::from_value::<Part>(part).expect("a part").content(), Content::Unknown);
    let opened = json!({"key": KEY, "name": "main", "generation": 1, "standing": "asleep", "colour": "red"});
    let opened: Opened = serde_json::from_value(opened).expect("a conversation");
    assert_eq!((opened.conversation.standing.as_str(), opened.last_part), ("asleep", None));
    let message: ChatMessage = serde_json::from_value(json!({"id": 1, "op": "stop", "key": KEY, "gently": true})).expect("a message");
    assert_eq!(message.request, ChatRequest::Stop { key: KEY.into(), request_id: None });
}

/// Scripts read these fields also if they have no value.
#[test]
fn a_turn_says_every_field() {
    let turn = serde_json::to_value(TurnInfo::queued(1, TurnKind::Message, "msg:1")).expect("it serialises");
    for field in ["id", "kind", "cause", "state", "attempt", "interrupt_reason", "outcome", "reply"] {
        assert!(turn.get(field).is_some(), "{field}");
    }
}

#[test]
#[ignore = "writes into the repository"]
fn generate_fixture_wire_v1_chat() {
    for (file, text) in [("chat-requests.jsonl", lines(&requests())), ("chat-replies.jsonl", lines(&replies()))] {
        std::fs::write(dir().join(file), text).expect("a file");
    }
}

/// A request is flattened into its message, so none of its fields may have the name of a field of the message.
#[test]
fn a_chat_request_has_no_field_of_its_messages_name() {
    for message in requests() {
        let text = serde_json::to_string(&message).expect("it serialises");
        let read: ChatMessage = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_eq!(read.request, message.request);
    }
}
