//! Strange input: refused, without harm to others.

use crate::support::{Bench, KEY, cat};
use outlast_client::{Setup, code};
use outlast_testkit::machine::{as_stranger, skipped};
use outlast_testkit::product::eventually;
use outlast_wire::v1::chat::{ChatMessage, ChatReply, ChatRequest};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

#[test]
fn malformed_and_oversized_input_ends_its_connection_and_nothing_else() {
    let bench = Bench::new();
    for bytes in [&b"\xff\xff\xff\xff"[..], b"\x05\0\0\0\0{]}!", b"\x01\0\0\0\x09", b"\x03\0\0\0\x01ab", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = bench.socket();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
    }
    let reply: ChatReply<Value> = bench.ask_raw_value(&serde_json::json!({ "id": 7, "op": "no_such_request" }));
    assert_eq!(reply.error.unwrap().code, code::BAD_REQUEST);
    assert_eq!(bench.wait(bench.send("still there", &cat()).turn).reply.as_deref(), Some("still there"));
}

#[test]
fn case_019_keys_ids_and_words_from_outside_are_checked() {
    let bench = Bench::new();
    let setup = Setup::default().answered_by(cat());
    let refused = |key: &str, id: &str, words: &str| {
        bench.block(async { bench.chat_now().await.send(key, id, words, &setup).await }).unwrap_err().code().to_owned()
    };
    let long = format!("agent:main:local:dm:{}", "x".repeat(100_000));
    for key in [
        "agent:main:telegram:dm:7",
        "agent:work:local:dm:main",
        "agent:main:local:group:main",
        "agent:main:local:dm:../x",
        "agent:main:local:dm:..",
        "agent:main:local:dm:a/b",
        "agent:main:local:dm:",
        "agent:main:local:dm:a:b",
        "agent:main:local:dm:a b",
        "agent:main:local:dm:a\nb",
        "agent:main:local:dm:\u{1b}[2J",
        "agent:main:local:dm:a\0",
        "agent:main:local:dm:é",
        "agent:main:local:dm:main ",
        " agent:main:local:dm:main",
        "AGENT:main:local:dm:main",
        "main",
        "",
        "outlast:gateway",
        "outlast:agent:agent:main:local:dm:main",
        &long,
    ] {
        assert_eq!(refused(key, "msg:1", "x"), code::BAD_REQUEST, "{key}");
        let opened: ChatReply<Value> = bench.ask_raw(&ChatRequest::Open { key: key.into(), agent: Some(cat()), cwd: None });
        let error = opened.error.unwrap();
        assert_eq!(error.code, code::BAD_REQUEST, "{key}");
        let said = format!("{} {}", error.error, error.hint);
        assert!(said.len() < 500 && !said.contains(|c: char| c.is_control()), "what is refused is quoted short and tame: {said:?}");
        for request in [
            ChatRequest::Show { key: key.into(), generation: None },
            ChatRequest::Stop { key: key.into(), request_id: None },
            ChatRequest::New { key: key.into(), request_id: None },
            ChatRequest::Resume { key: key.into(), request_id: None, generation: None },
            ChatRequest::Allow { key: key.into(), permission: "1.1.perm-1".into(), option: "yes".into() },
            ChatRequest::Seen { key: key.into(), part: 1 },
            ChatRequest::Wait { key: key.into(), turn: 1, timeout_ms: Some(0) },
            ChatRequest::Follow { key: key.into(), after: None, context: 0, is_attended: false },
        ] {
            let answer: ChatReply<Value> = bench.ask_raw(&request);
            assert_eq!(answer.error.unwrap().code, code::NO_CONVERSATION, "{request:?}");
        }
    }
    for id in ["evt_1", "1", "", "msg:", "msg:a b", "msg:\u{7}", "msg:é", &format!("msg:{}", "x".repeat(129)), &"x".repeat(100_000)] {
        assert_eq!(refused(KEY, id, "x"), code::BAD_ID, "{id}");
    }
    assert_eq!(refused(KEY, "msg:1", "  "), code::BAD_REQUEST);
    assert_eq!(refused(KEY, "msg:1", &"x".repeat((1 << 20) + 1)), code::BAD_REQUEST);
    let none = bench.block(async { bench.chat_now().await.send(KEY, "msg:1", "x", &Setup::default()).await }).unwrap_err();
    assert!(none.to_string().contains("choose an agent"), "{none}");
    let unknown = bench.block(async { bench.chat_now().await.show(KEY, None).await }).unwrap_err();
    assert_eq!(unknown.code(), code::NO_CONVERSATION);
    assert!(bench.block(bench.chat().list()).unwrap().is_empty(), "nothing was made by what was refused");
}

/// The commit of both failed, and everything that shared it was refused, as on a full disk.
#[test]
fn an_id_in_two_conversations_at_once_is_refused_in_the_second_and_harms_no_other_message() {
    let bench = Bench::configured("[gateway]\nlog = \"debug\"\n");
    let points = bench.product().points();
    points.arm("gateway.before_commit").unwrap();
    let first = bench.spawn({
        let chat = bench.chat();
        async move { chat.send(KEY, "msg:first", "hello", &Setup::default().answered_by(cat())).await }
    });
    eventually("a commit", || points.held("gateway.before_commit"));
    let mut talk = bench.raw();
    let messages = [("one", "msg:same"), ("two", "msg:same"), ("three", "msg:other"), ("four", "msg:last")];
    for (id, (name, message_id)) in (7..).zip(messages) {
        let (key, message_id) = (format!("agent:main:local:dm:{name}"), message_id.to_owned());
        let request = ChatRequest::Send { key, message_id, words: "hello".into(), agent: Some(cat()), cwd: None };
        talk.say(&ChatMessage { id, session: None, request });
    }
    // The last is noted when those before it wait for the next commit.
    eventually("the messages", || bench.log().contains("a message has come key=\"agent:main:local:dm:four\"").then_some(()));
    points.release("gateway.before_commit").unwrap();
    bench.block(first).unwrap().unwrap();
    let codes = (7..=9).map(|id| talk.hear::<Value>(id).error.map(|error| error.code));
    assert_eq!(codes.collect::<Vec<_>>(), [None, Some(code::ID_TAKEN.to_owned()), None], "{}", bench.log());
}

#[test]
fn a_row_that_cannot_be_read_is_skipped_and_named() {
    let bench = Bench::new();
    bench.wait(bench.send("mine", &cat()).turn);
    bench.send_to("agent:main:local:dm:other", "x", &cat());
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    bench.sql("UPDATE conversation SET mode = 'nonsense' WHERE key LIKE '%other'");
    bench.start();
    let status = bench.block(bench.chat().status()).unwrap();
    assert!(status.notes.iter().any(|note| note.contains("agent:main:local:dm:other")), "{:?}", status.notes);
    let setup = Setup::default().answered_by(cat());
    let refused = bench.block(async { bench.chat_now().await.send("agent:main:local:dm:other", "msg:2", "x", &setup).await }).unwrap_err();
    assert!(refused.to_string().contains("cannot be read"), "{refused}");
    assert_eq!(bench.wait(bench.send("still mine", &cat()).turn).reply.as_deref(), Some("still mine"));
}

/// The answer of the gateway to an invalid message. Only a client that is let in gets one.
fn answer(socket: &str) -> std::io::Result<Vec<u8>> {
    let mut to = UnixStream::connect(socket)?;
    to.set_read_timeout(Some(outlast_testkit::product::PATIENCE))?;
    // A client that is turned away at once may be so before this is written.
    let _refused = to.write_all(&outlast_wire::frame::json(&serde_json::json!({"id": 1})));
    let mut said = vec![0; 4096];
    match to.read(&mut said) {
        Ok(n) => said.truncate(n),
        Err(e) if e.kind() == ErrorKind::ConnectionReset => said.clear(),
        Err(e) => return Err(e),
    }
    Ok(said)
}

#[test]
fn case_200_another_user_is_refused_at_the_socket_and_reads_no_file() {
    let bench = Bench::new();
    bench.wait(bench.send("a secret", &cat()).turn);
    let (home, sockets) = (bench.home(), bench.product().socket_dir().unwrap());
    match as_stranger(&sockets, || answer("gateway")) {
        Err(why) => return skipped("another_user_is_refused_at_the_socket_and_reads_no_file", format!("{why:#}")),
        Ok(said) => assert_eq!(said.unwrap_err().kind(), ErrorKind::PermissionDenied),
    }
    // With every directory opened by hand, each file and the listener still look after themselves.
    let open_to_all = |path: &Path| std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let files = home.join("conversations").join(KEY.replace(':', "+"));
    [&sockets, &home, &home.join("conversations"), &files, &sockets.join("gateway")].into_iter().for_each(|path| open_to_all(path));
    let (theirs, ours) = (as_stranger(&sockets, || answer("gateway")).unwrap(), answer(&sockets.join("gateway").to_string_lossy()));
    assert!(theirs.unwrap().is_empty() && !ours.unwrap().is_empty());
    let kept = std::fs::read_dir(&files).unwrap().chain(std::fs::read_dir(&home).unwrap()).map(Result::unwrap);
    let kept: Vec<_> = kept.filter(|entry| entry.file_type().unwrap().is_file()).map(|entry| entry.path()).collect();
    for name in ["gateway.db", "gateway.db-wal", "gateway.lock", "gateway.log"] {
        assert!(kept.contains(&home.join(name)), "{name}: {kept:?}");
    }
    for path in kept {
        let name = path.file_name().unwrap().to_owned();
        let read = as_stranger(path.parent().unwrap(), || std::fs::read(name)).unwrap();
        // The log of this gateway was made by the test.
        assert!(read.is_err() || path.ends_with("gateway.log"), "{}", path.display());
    }
}

#[test]
fn files_of_conversations_are_the_users_alone_and_words_are_in_no_log() {
    let bench = Bench::stopped(outlast_testkit::product::Product::new(env!("CARGO_BIN_EXE_outlast")));
    let secret = "a word that only the agent reads";
    let chat = |args: &[&str]| {
        let said = bench.product().command(["chat", "send", "main"].iter().chain(args)).output().unwrap();
        assert!(said.status.success(), "{said:?}");
    };
    // The gateway is started as a person has it, with a mask that forbids nothing.
    let mut first = std::process::Command::new("/bin/sh");
    first.args(["-c", "umask 0; exec \"$0\" chat send main --command 'cat; echo oops >&2' --wait \"$1\""]);
    let like = bench.product().command::<&str>([]);
    first.arg(like.get_program()).arg(secret).env_clear().envs(like.get_envs().filter_map(|(k, v)| Some((k, v?))));
    assert!(first.output().unwrap().status.success(), "{}", bench.log());
    chat(&["--command", "cat > /dev/null; exit 3", secret]);
    bench.until("both turns", |shown| shown.turns.len() == 2 && shown.turns.iter().all(|turn| turn.is_finished()));
    let mut dirs = vec![bench.home()];
    let mut seen = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            let meta = entry.path().symlink_metadata().unwrap();
            if meta.is_dir() {
                dirs.push(entry.path());
            }
            if !meta.is_symlink() {
                assert_eq!(meta.permissions().mode() & 0o077, 0, "{}", entry.path().display());
                seen.push(entry.file_name().into_string().unwrap());
            }
        }
    }
    for name in ["gateway.db", "gateway.db-wal", "gateway.lock", "gateway.log", "conversations"] {
        assert!(seen.iter().any(|found| found == name), "{name}: {seen:?}");
    }
    assert!(seen.iter().any(|found| found.ends_with(".stderr")) && !seen.iter().any(|found| found.ends_with(".prompt")), "{seen:?}");
    for log in ["gateway.log", "engine.log"] {
        let text = std::fs::read_to_string(bench.home().join(log)).unwrap_or_default();
        assert!(!text.contains(secret), "{log}: {text}");
    }
}
