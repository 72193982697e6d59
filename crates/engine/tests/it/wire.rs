//! What a connection does with messages that no client of ours would send.

use crate::world::World;
use outlast_client::{Kill, Spec};
use outlast_wire::frame::{self, Frame, Splitter};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

struct Raw {
    stream: DuplexStream,
    frames: Splitter,
}

impl Raw {
    fn new(world: &World) -> Self {
        Self { stream: world.engine.connect(), frames: Splitter::default() }
    }

    async fn greeted(world: &World) -> Self {
        let mut raw = Self::new(world);
        raw.send(&json!({"id": 1, "op": "hello", "version": 1, "client": "test"})).await;
        assert_eq!(raw.next().await.unwrap()["answer"]["version"], 1);
        raw
    }

    async fn send(&mut self, message: &Value) {
        self.stream.write_all(&frame::json(message)).await.unwrap();
    }

    /// The next message, or nothing if the connection has ended.
    async fn next(&mut self) -> Option<Value> {
        let mut buffer = [0; 4096];
        loop {
            match self.frames.next_frame().unwrap() {
                Some(Frame::Json(text)) => return Some(serde_json::from_slice(&text).unwrap()),
                Some(Frame::Raw { .. }) => {}
                None => match self.stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return None,
                    Ok(n) => self.frames.push(&buffer[..n]),
                },
            }
        }
    }

    async fn error_of(&mut self, message: &Value) -> String {
        self.send(message).await;
        let reply = self.next().await.unwrap();
        assert_eq!(reply["of"], message["id"]);
        reply["error"]["code"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_a_hello_gets_an_error_and_is_disconnected() {
    let world = World::new().await;
    for (message, code) in
        [(json!({"id": 1, "op": "list"}), "bad_request"), (json!({"id": 1, "op": "hello", "version": 0, "client": "old"}), "bad_version")]
    {
        let mut raw = Raw::new(&world);
        assert_eq!(raw.error_of(&message).await, code);
        assert_eq!(raw.next().await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_client_is_answered_in_our_version() {
    let world = World::new().await;
    let mut raw = Raw::new(&world);
    raw.send(&json!({"id": 1, "op": "hello", "version": 99, "client": "new", "unknown": true})).await;
    assert_eq!(raw.next().await.unwrap()["answer"]["version"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_understood_is_refused_and_the_connection_stays_open() {
    let world = World::new().await;
    let mut raw = Raw::greeted(&world).await;
    for message in [
        json!({"id": 2, "op": "no_such_thing"}),
        json!({"id": 3, "op": "poll"}),
        json!({"id": 4, "op": "poll", "process": 7}),
        json!({"id": 5, "op": "hello", "version": 1, "client": "again"}),
        json!({"id": 6, "op": "write", "process": "abcd", "len": 1u64 << 40}),
        json!({"id": 7, "op": "signal", "process": "abcd", "number": 0}),
        json!({"id": 8, "op": "signal", "process": "abcd", "number": 1_000}),
    ] {
        assert_eq!(raw.error_of(&message).await, "bad_request", "{message}");
    }
    // Bytes that belong to nothing, and the end of what never began.
    raw.stream.write_all(&frame::raw(77, b"lost")).await.unwrap();
    raw.send(&json!({"id": 9, "op": "cancel", "of": 77})).await;
    // More bytes than were announced.
    raw.send(&json!({"id": 10, "op": "write", "process": "abcd", "len": 2})).await;
    raw.stream.write_all(&frame::raw(10, b"three")).await.unwrap();
    assert_eq!(raw.next().await.unwrap()["error"]["code"], "bad_request");
    raw.send(&json!({"id": 11, "op": "engine_status"})).await;
    assert_eq!(raw.next().await.unwrap()["of"], 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_comes_before_the_last_is_complete_does_not_replace_it() {
    let world = World::new().await;
    let started = world.run(Spec::shell("head -c 5").with_input()).await;
    let id = started.session_id.to_string();
    let mut raw = Raw::greeted(&world).await;
    raw.send(&json!({"id": 2, "op": "write", "process": id, "at": 0, "len": 5})).await;
    raw.stream.write_all(&frame::raw(2, b"fir")).await.unwrap();
    assert_eq!(raw.error_of(&json!({"id": 3, "op": "write", "process": id, "len": 6})).await, "bad_request");
    raw.stream.write_all(&frame::raw(3, b"second")).await.unwrap();
    raw.stream.write_all(&frame::raw(2, b"st")).await.unwrap();
    let written = raw.next().await.unwrap();
    assert_eq!((&written["of"], &written["answer"]["bytes_written"]), (&json!(2), &json!(5)), "{written}");
    let ended = world.client.process(started.session_id).wait(None).await.unwrap();
    assert_eq!(ended.output, "first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_cancelled_half_way_makes_room_for_the_next() {
    let world = World::new().await;
    let mut raw = Raw::greeted(&world).await;
    raw.send(&json!({"id": 2, "op": "write", "process": "abcd", "len": 5})).await;
    raw.send(&json!({"id": 3, "op": "cancel", "of": 2})).await;
    assert_eq!(raw.error_of(&json!({"id": 4, "op": "write", "process": "abcd", "len": 0})).await, "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_wait_for_their_turn_hold_a_bounded_number_of_bytes() {
    const PIECE: usize = 16 << 20;
    let world = World::new().await;
    let started = world.run(Spec::shell("exec sleep 1000").with_input()).await;
    let process = world.client.process(started.session_id);
    let mut raw = Raw::greeted(&world).await;
    // The client reads none of the answers.
    for n in 0..4u64 {
        raw.send(&json!({"id": 10 + n, "op": "write", "process": started.session_id, "len": PIECE})).await;
        for chunk in vec![b'x'; PIECE].chunks(frame::RAW_CHUNK) {
            raw.stream.write_all(&frame::raw(10 + n, chunk)).await.unwrap();
        }
    }
    assert_eq!(raw.error_of(&json!({"id": 20, "op": "write", "process": "abcd", "len": 1})).await, "unavailable");
    process.kill(Kill::default()).await.unwrap();
    for _ in 0..4 {
        raw.next().await.unwrap();
    }
    // An answered request has made room.
    assert_eq!(raw.error_of(&json!({"id": 21, "op": "write", "process": "abcd", "len": 0})).await, "not_found");
    raw.send(&json!({"id": 22, "op": "write", "process": "abcd", "len": 5})).await;
    raw.stream.write_all(&frame::raw(22, b"small")).await.unwrap();
    assert_eq!(raw.next().await.unwrap()["error"]["code"], "not_found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_ends_its_own_connection_and_nothing_else() {
    let world = World::new().await;
    let mut seed = 1u64;
    for len in [1usize, 4, 5, 64, 4096] {
        for greeted in [false, true] {
            let mut raw = if greeted { Raw::greeted(&world).await } else { Raw::new(&world) };
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) as u8
            })
            .take(len)
            .collect();
            // The connection may be closed before all of it was sent.
            let _sent = raw.stream.write_all(&bytes).await;
            let _ended = raw.stream.shutdown().await;
            while raw.next().await.is_some() {}
        }
    }
    world.client.engine_status().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_under_way_are_told_when_the_engine_ends() {
    let world = World::new().await;
    let process = world.sh("sleep 1000").await;
    let waits = tokio::spawn(async move { process.wait(None).await });
    let mut raw = Raw::greeted(&world).await;
    raw.send(&json!({"id": 2, "op": "engine_stop"})).await;
    assert_eq!(raw.next().await.unwrap()["answer"]["status"], "ok");
    world.engine.stopped().await;
    assert_eq!(waits.await.unwrap().unwrap_err().code(), "stopping");
    assert_eq!(raw.next().await, None);
}
