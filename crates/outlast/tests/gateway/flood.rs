//! Too much of something: bounded, refused in words, and without harm to others.

use crate::support::{Bench, KEY, cat};
use outlast_client::{AgentChoice, ChatEvent, Client, Connect, Content, Heard, Owner, Setup, TurnInfo, TurnKind, code};
use outlast_testkit::product::eventually;
use outlast_wire::frame;
use outlast_wire::v1::chat::{ChatMessage, ChatReply, ChatRequest, Shown};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const OTHER: &str = "agent:main:local:dm:other";

fn memory(pid: u32, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().unwrap()
}

/// Another conversation is answered meanwhile.
fn others_are_answered(bench: &Bench) {
    let turn = bench.send_to(OTHER, "and me?", &cat()).turn;
    let done = bench.block(async { bench.chat_now().await.wait(OTHER, turn, None).await }).unwrap().unwrap();
    assert_eq!(done.reply.as_deref(), Some("and me?"));
}

/// Sends something and waits for its end, without a look at the whole conversation.
fn asked(bench: &Bench, words: &str, agent: &AgentChoice) -> TurnInfo {
    let turn = bench.send(words, agent).turn;
    bench.block(async { bench.chat_now().await.wait(KEY, turn, None).await }).unwrap().unwrap()
}

fn greet(bench: &Bench) -> UnixStream {
    let mut stream = bench.socket();
    let request = ChatRequest::Hello { version: 1, client: "a test".into(), namespaces: None };
    stream.write_all(&frame::json(&ChatMessage { id: 1, session: None, request })).unwrap();
    stream
}

/// The answer to a hello.
fn answered(stream: &mut UnixStream) -> ChatReply<Value> {
    let (mut frames, mut buffer) = (frame::Splitter::default(), [0; 4096]);
    loop {
        if let Some(frame::Frame::Json(text)) = frames.next_frame().unwrap() {
            return serde_json::from_slice(&text).unwrap();
        }
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "closed");
        frames.push(&buffer[..count]);
    }
}

#[test]
fn a_client_too_many_is_told_so_and_one_that_says_nothing_is_cut_off() {
    let bench = Bench::new();
    let mut silent = bench.socket();
    let mut connected: Vec<UnixStream> = Vec::new();
    // A thousand come; as many as there may be are served.
    for _ in 0..1000 {
        connected.push(greet(&bench));
    }
    let answers: Vec<ChatReply<Value>> = connected[..560].iter_mut().map(answered).collect();
    let (served, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.answer.is_some());
    assert!(served.len() == 511 && !refused.is_empty(), "{}", served.len());
    for answer in refused {
        let error = answer.error.unwrap();
        assert!(error.code == code::UNAVAILABLE && error.error.contains("512 clients are connected"), "{error:?}");
    }
    // Nothing comes from it, so its end is all there is to read.
    assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0, "closed after its time for a hello");
    drop(connected);
    eventually("room again", || bench.try_pid());
    assert_eq!(bench.wait(bench.send("still there", &cat()).turn).reply.as_deref(), Some("still there"));
}

#[test]
fn a_conversation_too_many_is_refused_and_those_there_are_go_on() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    bench.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) \
         INSERT INTO conversation (key, generation, name, started_at, started_why, mode, strikes, agent) \
         SELECT 'agent:main:local:dm:c' || i, 1, 'n' || i, 1, 'first', 'queue', 0, (SELECT agent FROM conversation) FROM n",
    );
    let pid = bench.start();
    let setup = Setup::default().answered_by(cat());
    let refused = bench.block(async { bench.chat_now().await.send(OTHER, "msg:1", "x", &setup).await }).unwrap_err();
    assert!(refused.code() == code::TOO_MANY && refused.to_string().contains("10000 conversations"), "{refused}");
    assert!(refused.hint().contains("/new"), "{}", refused.hint());
    assert_eq!(bench.wait(bench.send("still mine", &cat()).turn).reply.as_deref(), Some("still mine"));
    assert_eq!(bench.block(bench.chat().list()).unwrap().len(), 10_000);
    let kib = memory(pid, "VmRSS");
    assert!(kib < 100 << 10, "{kib} KiB");
}

#[test]
fn a_message_too_many_is_refused_and_nothing_of_it_is_kept() {
    let bench = Bench::new();
    let agent = bench.gated();
    let first = bench.send("first", &agent).turn;
    bench.wait_for_prompts(1);
    let chat = bench.chat();
    let setup = Setup::default();
    let mut refused = None;
    for n in 0..300 {
        let id = format!("msg:{n}");
        match bench.block(chat.send(KEY, &id, "more", &setup)) {
            Ok(_) => assert!(refused.is_none(), "one is accepted after one that was refused"),
            Err(error) => refused = refused.or(Some((n, error))),
        }
    }
    let (count, error) = refused.expect("a limit");
    assert!(count == 256 && error.code() == code::TOO_MANY && error.to_string().contains("too many messages wait"), "{count}: {error}");
    assert_eq!(bench.show().turns.len(), 257);
    // It once chose another agent all the same.
    let chosen = bench.show().conversation.agent;
    let error = bench.block(chat.send(KEY, "msg:other", "more", &Setup::default().answered_by(cat()))).unwrap_err();
    assert_eq!((error.code(), bench.show().conversation.agent), (code::TOO_MANY, chosen));
    others_are_answered(&bench);
    bench.block(chat.start_anew(KEY)).unwrap();
    assert!(bench.block(chat.show(KEY, Some(1))).unwrap().turns.iter().all(TurnInfo::is_finished), "{first}");
}

#[test]
fn notices_too_many_wait_in_the_engine_and_harm_no_one() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let generation = bench.generation();
    bench.block(async {
        let owner = Owner { generation: Some(generation), ..Owner::session(KEY) };
        let client = Client::connect(&Connect::to(bench.home()).speaking_for(owner)).await.unwrap();
        for n in 0..1500 {
            let event = serde_json::json!({"type": "flood", "n": n}).as_object().unwrap().clone();
            client.post(None, event, outlast_client::Route::default()).await.unwrap();
        }
    });
    let waiting = |shown: &Shown| shown.turns.iter().filter(|turn| turn.kind == TurnKind::Notice && !turn.is_finished()).count();
    // The budget holds turns back, so the queue fills up to its limit and no further.
    bench.until("a full queue", |shown| waiting(shown) >= 1024 - 32 || shown.turns.len() >= 1000);
    assert_eq!(bench.wait(bench.send("a person", &cat()).turn).reply.as_deref(), Some("a person"));
    others_are_answered(&bench);
    let queued: u64 = bench.block(bench.chat().status()).unwrap().queued;
    assert!(queued <= 1024 + 32, "{queued}");
}

/// An agent that prints this many MiB of a byte that needs most room in a message.
fn loud(mib: usize) -> AgentChoice {
    AgentChoice::Command(format!("head -c {} /dev/zero | tr '\\0' '\\001'", mib << 20))
}

#[test]
fn the_longest_reply_reaches_every_client_however_it_is_escaped() {
    let bench = Bench::new();
    let longest = "\u{1}".repeat(2 << 20);
    let done = asked(&bench, "loud", &loud(2));
    assert_eq!(done.reply.map(|reply| reply.len()), Some(longest.len()));
    assert_eq!(bench.parts()[1], ("text".to_owned(), longest));
    // With the longest words beside it, it is cut in what is shown at once, and stays whole in its part.
    let words = "\u{2}".repeat(1 << 20);
    let done = asked(&bench, &words, &loud(2));
    assert_eq!(done.reply.map(|reply| reply.len()), Some(2 << 20));
    assert!(done.words.unwrap().contains("[cut: 1048576 bytes in all"));
    asked(&bench, "again", &loud(2));
    let shown = bench.show();
    let lengths: Vec<usize> = shown.turns.iter().map(|turn| turn.reply.as_ref().unwrap().len()).collect();
    assert!(lengths[..2].iter().all(|len| *len < 1000) && lengths[2] == 2 << 20, "the newest has all of it: {lengths:?}");
    // One byte more, and the turn has failed with what there is.
    let failed = asked(&bench, "too loud", &loud(3));
    assert!(failed.why.unwrap().contains("more than 2097152 bytes"), "{:?}", failed.outcome);
    assert_eq!(asked(&bench, "fine", &cat()).reply.as_deref(), Some("fine"));
}

#[test]
fn a_reader_that_does_not_read_is_cut_off_and_costs_no_memory() {
    let bench = Bench::new();
    let pid = bench.pid();
    bench.wait(bench.send("hi", &cat()).turn);
    let mut slow = greet(&bench);
    for id in 2..10 {
        let request = ChatRequest::Follow { key: KEY.into(), after: None, context: 0, is_attended: false };
        slow.write_all(&frame::json(&ChatMessage { id, session: None, request })).unwrap();
    }
    assert!(answered(&mut slow).answer.is_some());
    // Each is twice in what is shown: as a part, and in its turn.
    let agent = AgentChoice::Command("head -c 2000000 /dev/zero | tr '\\0' x".into());
    for _ in 0..30 {
        asked(&bench, "loud", &agent);
    }
    others_are_answered(&bench);
    let kib = memory(pid, "VmHWM");
    assert!(kib < 256 << 10, "{kib} KiB at most");
    // A reader has missed nothing.
    let parts = bench.block(async {
        let mut feed = bench.chat_now().await.follow(KEY);
        let mut texts = 0;
        loop {
            match feed.next().await.unwrap() {
                Heard::Event(ChatEvent::Part { part }) => texts += usize::from(matches!(part.content(), Content::Text(_))),
                Heard::Event(ChatEvent::CaughtUp { .. }) => return texts,
                _ => {}
            }
        }
    });
    assert_eq!(parts, 31);
}

/// A terminal that was suspended while an agent wrote a lot ended with an error when it was continued.
#[test]
fn a_reader_that_does_not_keep_up_is_told_and_gets_every_part() {
    // A reply may have 2 MiB.
    const REPLY_BYTES: usize = 2_000_000;
    const LONG_REPLIES: usize = 8;
    let bench = Bench::new();
    let long = AgentChoice::Command(format!("head -c {REPLY_BYTES} /dev/zero | tr '\\0' x"));
    bench.wait(bench.send("first", &cat()).turn);
    let chat = bench.chat();
    let mut feed = chat.follow(KEY);
    bench.block(async { while !matches!(feed.next().await.unwrap(), Heard::Event(ChatEvent::CaughtUp { .. })) {} });
    // Nothing is read meanwhile. Each reply is shown as a draft, a part and a turn, and a reader may have 16 MiB waiting.
    for _ in 0..LONG_REPLIES {
        asked(&bench, "more", &long);
    }
    asked(&bench, "last", &cat());
    let (mut replies, mut times_behind) = (Vec::new(), 0);
    bench.block(async {
        while replies.last() != Some(&"last".len()) {
            match feed.next().await.unwrap() {
                Heard::Event(ChatEvent::Part { part }) => {
                    if let Content::Text(body) = part.content() {
                        replies.push(body.text.len());
                    }
                }
                Heard::FellBehind => times_behind += 1,
                Heard::Lost { why } => panic!("{why}"),
                _ => {}
            }
        }
    });
    assert!(times_behind > 0);
    assert_eq!(replies.split_last(), Some((&"last".len(), &[REPLY_BYTES; LONG_REPLIES][..])));
}
