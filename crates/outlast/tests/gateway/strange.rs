//! Strange input: refused, without harm to others.

use crate::support::{Bench, KEY, cat};
use outlast_client::{Setup, code};
use outlast_wire::v1::chat::ChatReply;
use serde_json::Value;
use std::io::{Read, Write};

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
fn keys_ids_and_words_from_outside_are_checked() {
    let bench = Bench::new();
    let setup = Setup::default().answered_by(cat());
    let refused = |key: &str, id: &str, words: &str| {
        bench.block(async { bench.chat_now().await.send(key, id, words, &setup).await }).unwrap_err().code().to_owned()
    };
    for key in [
        "agent:main:telegram:dm:7",
        "agent:main:local:dm:../x",
        "agent:main:local:dm:",
        "main",
        "agent:main:local:dm:a:b",
        "outlast:gateway",
    ] {
        assert_eq!(refused(key, "msg:1", "x"), code::BAD_REQUEST, "{key}");
    }
    for id in ["evt_1", "1", "msg:", "msg:a b", "msg:\u{7}"] {
        assert_eq!(refused(KEY, id, "x"), code::BAD_ID, "{id}");
    }
    assert_eq!(refused(KEY, "msg:1", "  "), code::BAD_REQUEST);
    assert_eq!(refused(KEY, "msg:1", &"x".repeat((1 << 20) + 1)), code::BAD_REQUEST);
    let none = bench.block(async { bench.chat_now().await.send(KEY, "msg:1", "x", &Setup::default()).await }).unwrap_err();
    assert!(none.to_string().contains("no agent was chosen"), "{none}");
    let unknown = bench.block(async { bench.chat_now().await.show(KEY, None).await }).unwrap_err();
    assert_eq!(unknown.code(), code::NO_CONVERSATION);
    assert!(bench.block(bench.chat().list()).unwrap().is_empty(), "nothing was made by what was refused");
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
