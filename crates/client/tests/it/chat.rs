//! Conversations, against a gateway that is played by the test.

use outlast_client::{
    Chat, ChatEvent, ChatFeed, ClientError, Connect, Content, Heard, LineBody, Peer, Setup, Standing, TextBody, TurnOutcome, TurnState,
    code, message_id,
};
use outlast_testkit::fake_gateway::{FakeGateway, Fault};
use outlast_wire::v1::chat::ChatRequest;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const KEY: &str = "agent:main:local:dm:main";

struct Place {
    gateway: FakeGateway,
    dir: TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let gateway = FakeGateway::start(dir.path());
        Self { dir, gateway }
    }

    async fn chat(&self) -> Chat {
        Chat::connect(&Connect::to(self.dir.path())).await.unwrap()
    }

    /// Listens again as soon as the gateway was killed, so that a client that starts nothing finds it.
    fn comes_back(&self) {
        while self.dir.path().join("run/gateway").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.gateway.listen();
    }

    /// Waits until the program was called so often, at most this long, and then listens in its place.
    fn is_started(&self, times: usize, at_most: Duration) {
        let began = std::time::Instant::now();
        while starts(self.dir.path()) < times && began.elapsed() < at_most {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.gateway.listen();
    }

    fn text(&self, text: &str) -> u64 {
        self.gateway.part(KEY, None, &Content::Text(TextBody::new(text)))
    }
}

/// A program that plays a gateway's start: it tells the test that it was called, and waits for the test to listen.
fn program(dir: &Path) -> PathBuf {
    let script = format!(
        r#"test "$1 $3 $4 $5" = "--home --ready-fd 1 --detach" || exit 9
test -z "$OUTLAST_SESSION" || exit 8
echo started >> {0}/starts
until test -S "$2/run/gateway"; do sleep 0.01; done
echo ready"#,
        dir.display()
    );
    written(dir, &script)
}

/// A shell writes it: were it open for writing here, a child forked meanwhile could keep it busy.
fn written(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("outlast-gateway");
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod 755 "$2""#;
    let status = std::process::Command::new("sh").args(["-c", write, "sh", script]).arg(&path).status().unwrap();
    assert!(status.success());
    path
}

fn starts(dir: &Path) -> usize {
    std::fs::read_to_string(dir.join("starts")).map_or(0, |text| text.lines().count())
}

/// What a feed brings next, as a short word.
async fn heard(feed: &mut ChatFeed) -> String {
    let heard = tokio::time::timeout(Duration::from_secs(30), feed.next()).await.expect("something comes").unwrap();
    match heard {
        Heard::Event(ChatEvent::Part { part }) => match part.content() {
            Content::Text(body) => body.text,
            Content::Words(body) => format!("> {}", body.text),
            Content::Line(body) => format!("- {}", body.text),
            other => format!("{other:?}"),
        },
        Heard::Event(ChatEvent::CaughtUp { .. }) => "caught up".into(),
        Heard::Event(ChatEvent::Turn { turn }) => format!("turn {} {}", turn.id, turn.state),
        Heard::Event(ChatEvent::Draft { text, .. }) => format!("~{text}"),
        Heard::Event(other) => format!("{other:?}"),
        Heard::Lost { .. } => "lost".into(),
        Heard::Regained => "regained".into(),
        other => format!("{other:?}"),
    }
}

async fn all_heard(feed: &mut ChatFeed, want: &[&str]) {
    for word in want {
        assert_eq!(heard(feed).await, *word, "of {want:?}");
    }
}

#[tokio::test]
async fn a_message_is_accepted_and_its_reply_waited_for() {
    let place = Place::new();
    let chat = place.chat().await;
    let opened = chat.open(KEY, &Setup::default().in_dir("/src")).await.unwrap();
    assert!(opened.is_new && opened.conversation.standing == Standing::Active);
    let accepted = chat.send(KEY, &message_id().unwrap(), "hello", &Setup::default()).await.unwrap();
    let turn = chat.wait(KEY, accepted.turn, None).await.unwrap().expect("no time is over");
    assert_eq!((turn.outcome, turn.reply.as_deref()), (Some(TurnOutcome::Completed), Some("you said: hello")));
    let shown = chat.show(KEY, None).await.unwrap();
    assert_eq!((shown.conversation.name.as_str(), shown.turns.len()), ("main", 1));
    assert_eq!(chat.list().await.unwrap().len(), 1);
    let status = chat.status().await.unwrap();
    assert_eq!((status.pid, status.running, status.idle), (std::process::id(), 0, true));
    let unknown = chat.show("agent:main:local:dm:none", None).await.unwrap_err();
    assert_eq!(unknown.code(), code::NO_CONVERSATION);
}

#[tokio::test]
async fn a_message_whose_answer_was_lost_is_sent_again_under_its_id() {
    for fault in [Fault::DieBefore, Fault::DieAfter, Fault::RefuseAndLeave] {
        let place = Arc::new(Place::new());
        let chat = place.chat().await;
        place.gateway.fail_next("send", fault);
        let id = message_id().unwrap();
        let back = place.clone();
        let back = std::thread::spawn(move || back.comes_back());
        let accepted = loop {
            match chat.send(KEY, &id, "hello", &Setup::default()).await {
                // There is none yet, and this client starts none.
                Err(e) if e.is_not_running() => tokio::time::sleep(Duration::from_millis(5)).await,
                sent => break sent.unwrap(),
            }
        };
        back.join().unwrap();
        assert_eq!(accepted.turn, 1, "{fault:?}");
        let sends = place.gateway.asked().into_iter().filter(|r| matches!(r, ChatRequest::Send { message_id, .. } if *message_id == id));
        assert_eq!(sends.count(), 2, "{fault:?}");
        assert_eq!(place.gateway.turns(KEY).len(), 1, "{fault:?}: one message has one turn");
    }
}

#[tokio::test]
async fn a_gateway_that_is_killed_many_times_is_started_many_times() {
    let place = Arc::new(Place::new());
    place.gateway.kill();
    let home = place.dir.path().to_owned();
    const DEATHS: usize = 7;
    for _ in 0..DEATHS {
        place.gateway.fail_next("send", Fault::DieAfter);
    }
    // The starter's program says that it is ready when the test listens.
    let lives = place.clone();
    let lives = std::thread::spawn(move || (1..=DEATHS + 1).for_each(|life| lives.is_started(life, Duration::from_secs(30))));
    let chat = Chat::connect(&Connect::to(&home).starting(program(&home))).await.unwrap();
    let accepted = chat.send(KEY, &message_id().unwrap(), "hello", &Setup::default()).await.unwrap();
    lives.join().unwrap();
    assert_eq!((accepted.turn, place.gateway.turns(KEY).len(), starts(&home)), (1, 1, DEATHS + 1));
}

#[tokio::test]
async fn what_must_not_be_done_twice_is_not_repeated() {
    let place = Place::new();
    let chat = place.chat().await;
    place.gateway.fail_next("restart", Fault::DieAfter);
    // The gateway was faster with its end than with its answer.
    assert_eq!(chat.restart(None).await.unwrap().status, "ok");
    let restarts = place.gateway.asked().into_iter().filter(|asked| matches!(asked, ChatRequest::Restart { .. })).count();
    assert_eq!(restarts, 1);
}

/// A gateway knows an order again by its id.
#[tokio::test]
async fn an_order_is_repeated_under_the_same_id() {
    let place = Arc::new(Place::new());
    place.gateway.kill();
    let home = place.dir.path().to_owned();
    place.gateway.fail_next("stop", Fault::DieAfter);
    let lives = place.clone();
    let lives = std::thread::spawn(move || (1..=2).for_each(|life| lives.is_started(life, Duration::from_secs(30))));
    let chat = Chat::connect(&Connect::to(&home).starting(program(&home))).await.unwrap();
    chat.stop(KEY).await.unwrap();
    lives.join().unwrap();
    let ids: Vec<_> = place
        .gateway
        .asked()
        .into_iter()
        .filter_map(|asked| match asked {
            ChatRequest::Stop { request_id, .. } => Some(request_id.expect("an id")),
            _ => None,
        })
        .collect();
    assert!(ids.len() == 2 && ids[0] == ids[1], "{ids:?}");
}

#[tokio::test]
async fn a_feed_goes_on_over_a_restart_without_gap_or_double() {
    let place = Place::new();
    place.text("one");
    let two = place.text("two");
    place.text("three");
    let chat = place.chat().await;
    let mut feed = chat.follow(KEY).after(Some(two)).with_context(1).attended();
    all_heard(&mut feed, &["two", "three", "caught up"]).await;
    assert_eq!(place.gateway.followers(KEY), [true]);
    place.text("four");
    all_heard(&mut feed, &["four"]).await;
    place.gateway.kill();
    all_heard(&mut feed, &["lost"]).await;
    // Written while no terminal was there.
    place.text("five");
    place.gateway.listen();
    all_heard(&mut feed, &["regained", "five", "caught up"]).await;
    place.text("six");
    all_heard(&mut feed, &["six"]).await;
    assert_eq!(feed.last_part(), Some(6));
    drop(feed);
    while !place.gateway.followers(KEY).is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn two_terminals_hear_the_same() {
    let place = Place::new();
    place.gateway.hold_turns();
    let chat = place.chat().await;
    let (mut a, mut b) = (chat.follow(KEY), chat.follow(KEY));
    all_heard(&mut a, &["caught up"]).await;
    all_heard(&mut b, &["caught up"]).await;
    chat.send(KEY, "msg:1", "hello", &Setup::default()).await.unwrap();
    place.gateway.draft(KEY, 1, 0, "h");
    place.gateway.draft(KEY, 1, 1, "i");
    place.gateway.reply(KEY, 1, "hi");
    for feed in [&mut a, &mut b] {
        all_heard(feed, &["> hello", "turn 1 running", "~h", "~i", "hi", "turn 1 finished"]).await;
    }
}

#[tokio::test]
async fn a_part_that_comes_again_is_not_passed_on() {
    let place = Place::new();
    let chat = place.chat().await;
    let mut feed = chat.follow(KEY);
    all_heard(&mut feed, &["caught up"]).await;
    place.text("one");
    all_heard(&mut feed, &["one"]).await;
    let again = serde_json::json!({"of": 2, "event": {"event": "part", "part":
        {"id": 1, "kind": "text", "body": {"text": "one"}, "at": "2026-01-01T00:00:00Z"}}});
    place.gateway.say_raw(KEY, &outlast_wire::frame::json(&again));
    place.gateway.say_raw(KEY, &outlast_wire::frame::json(&serde_json::json!({"of": 2, "event": {"event": "of_a_newer_gateway"}})));
    place.text("two");
    all_heard(&mut feed, &["Unknown", "two"]).await;
}

#[tokio::test]
async fn a_gateway_whose_database_was_deleted_is_followed_from_its_beginning() {
    let place = Place::new();
    for text in ["one", "two", "three"] {
        place.text(text);
    }
    let chat = place.chat().await;
    let mut feed = chat.follow(KEY);
    all_heard(&mut feed, &["one", "two", "three", "caught up"]).await;
    place.gateway.kill();
    place.gateway.forget();
    place.text("another one");
    place.gateway.listen();
    all_heard(&mut feed, &["lost", "regained", "another one", "caught up"]).await;
}

#[tokio::test]
async fn a_wait_goes_on_over_a_restart_and_ends_with_its_time() {
    let place = Place::new();
    place.gateway.hold_turns();
    let chat = place.chat().await;
    let turn = chat.send(KEY, "msg:1", "hello", &Setup::default()).await.unwrap().turn;
    assert_eq!(chat.wait(KEY, turn, Some(Duration::from_millis(20))).await.unwrap(), None);
    let (waited, ()) = tokio::join!(chat.wait(KEY, turn, None), async {
        while !place.gateway.asked().iter().any(|r| matches!(r, ChatRequest::Wait { timeout_ms: None, .. })) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        place.gateway.kill();
        tokio::time::sleep(Duration::from_millis(50)).await;
        place.gateway.listen();
        place.gateway.change(KEY, turn, |t| {
            (t.state, t.outcome, t.why) = (TurnState::Finished, Some(TurnOutcome::GaveUp), Some("interrupted three times".into()));
        });
    });
    assert_eq!(waited.unwrap().expect("it is finished").outcome, Some(TurnOutcome::GaveUp));
}

/// The lock says what the last gateway thought of its end.
#[tokio::test]
async fn who_looks_on_starts_a_gateway_that_died_and_none_that_was_stopped() {
    for (says, is_started) in [("at work\n", true), ("stopped\n", false), ("", false)] {
        let place = Arc::new(Place::new());
        let home = place.dir.path().to_owned();
        let chat = Chat::connect(&Connect::to(&home).starting(program(&home))).await.unwrap();
        let mut feed = chat.follow(KEY);
        all_heard(&mut feed, &["caught up"]).await;
        std::fs::write(home.join("gateway.lock"), says).unwrap();
        place.gateway.kill();
        all_heard(&mut feed, &["lost"]).await;
        let (life, limit) = (place.clone(), if is_started { Duration::from_secs(30) } else { Duration::from_millis(600) });
        let life = std::thread::spawn(move || life.is_started(1, limit));
        all_heard(&mut feed, &["regained", "caught up"]).await;
        life.join().unwrap();
        assert_eq!(starts(&home), usize::from(is_started), "{says:?}");
    }
}

/// The engine starts gateways as well, without the lock that clients hold meanwhile.
#[tokio::test]
async fn a_gateway_that_the_engine_started_first_is_waited_for() {
    let place = Arc::new(Place::new());
    place.gateway.kill();
    let home = place.dir.path().to_owned();
    let script = r#"flock "$2/gateway.lock" sleep 2 >&2 & until ! flock -n "$2/gateway.lock" true; do :; done; echo started >> "$2/starts"; echo failed"#;
    let path = written(&home, script);
    let life = place.clone();
    let life = std::thread::spawn(move || life.is_started(1, Duration::from_secs(30)));
    Chat::connect(&Connect::to(&home).starting(path)).await.map(|_| ()).unwrap();
    life.join().unwrap();
    assert_eq!(starts(&home), 1);
}

#[tokio::test]
async fn no_gateway_is_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let failed = Chat::connect(&Connect::to(dir.path())).await.map(|_| ()).unwrap_err();
    assert!(failed.is_not_running());
    assert_eq!(failed.code(), code::GATEWAY_NOT_RUNNING);
    assert!(failed.to_string().contains("gateway") && failed.hint().contains("outlast chat"), "{failed}: {}", failed.hint());
    let to = Connect::to(dir.path().join("home")).starting(dir.path().join("outlast-gateway"));
    let failed = Chat::connect(&to).await.map(|_| ()).unwrap_err();
    assert!(matches!(failed, ClientError::Start { peer: Peer::Gateway, .. }), "{failed:?}");
    assert_eq!(failed.code(), code::GATEWAY_CANNOT_START);
    assert!(failed.hint().contains("beside `outlast`"), "{}", failed.hint());
}

#[tokio::test]
async fn a_peer_that_talks_nonsense_is_an_error_and_no_hang() {
    for nonsense in ["{", "[]", r#"{"of": "one"}"#, r#"{"of": 2, "answer": {"turn": "x"}}"#, r#"{"of": 2, "answer": 7}"#] {
        let place = Place::new();
        let chat = place.chat().await;
        place.gateway.fail_next("send", Fault::Garble(nonsense));
        let failed = chat.send(KEY, "msg:1", "hello", &Setup::default()).await.unwrap_err();
        assert!(matches!(failed, ClientError::Protocol { peer: Peer::Gateway, .. }), "{nonsense}: {failed:?}");
        assert!(failed.hint().contains("gateway stop"), "{}", failed.hint());
    }
    let place = Place::new();
    let chat = place.chat().await;
    let mut feed = chat.follow(KEY);
    all_heard(&mut feed, &["caught up"]).await;
    // Longer than any frame may be.
    place.gateway.say_raw(KEY, &[0xff; 64]);
    assert!(matches!(feed.next().await, Err(ClientError::Protocol { .. })));
}

#[tokio::test]
async fn a_message_that_is_too_long_is_refused_here() {
    let place = Place::new();
    let chat = place.chat().await;
    let failed = chat.send(KEY, "msg:1", &"x".repeat(17 << 20), &Setup::default()).await.unwrap_err();
    assert_eq!(failed.code(), code::BAD_REQUEST);
    assert!(failed.hint().contains("into a file"), "{}", failed.hint());
    assert!(place.gateway.turns(KEY).is_empty());
}

#[tokio::test]
async fn a_shutdown_returns_when_the_gateway_has_ended() {
    let place = Place::new();
    let chat = place.chat().await;
    place.gateway.part(KEY, None, &Content::Line(LineBody::new("x", "banner")));
    chat.shutdown(Some(Duration::from_secs(5))).await.unwrap();
    assert!(Chat::connect(&Connect::to(place.dir.path())).await.map(|_| ()).unwrap_err().is_not_running());
}

#[tokio::test]
async fn a_restart_waits_for_the_end_of_that_gateway_and_not_of_the_next() {
    let place = Arc::new(Place::new());
    let chat = place.chat().await;
    let next = place.clone();
    let next = std::thread::spawn(move || next.comes_back());
    assert!(chat.restart_within(Duration::from_secs(30)).await.unwrap());
    next.join().unwrap();
    assert_eq!(chat.status().await.unwrap().pid, std::process::id());
}

/// A copied home remembers where the original's sockets are.
#[tokio::test]
async fn the_gateway_of_another_home_is_not_ours() {
    let place = Place::new();
    let copy = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(place.dir.path().join("run.d"), copy.path().join("run")).unwrap();
    assert!(Chat::connect(&Connect::to(copy.path())).await.map(|_| ()).unwrap_err().is_not_running());
}
