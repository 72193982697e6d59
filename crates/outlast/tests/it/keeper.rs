//! A keeper that outlives its engine works with every later engine, also with newer ones.

use crate::support::*;
use outlast_wire::frame::{self, Frame, Splitter};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

struct Line {
    stream: UnixStream,
    split: Splitter,
}

impl Line {
    fn to(p: &Product, id: &str) -> Self {
        Self { stream: UnixStream::connect(p.socket_dir().unwrap().join(id)).unwrap(), split: Splitter::default() }
    }

    fn ask(&mut self, message: Value) -> Value {
        self.stream.write_all(&frame::json(&message)).unwrap();
        let mut buf = [0; 4096];
        loop {
            if let Some(Frame::Json(json)) = self.split.next_frame().unwrap() {
                return serde_json::from_slice(&json).unwrap();
            }
            let n = self.stream.read(&mut buf).unwrap();
            assert!(n > 0, "the keeper hung up");
            self.split.push(&buf[..n]);
        }
    }
}

#[test]
fn a_newer_engine_is_answered_in_the_version_both_know() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let mut line = Line::to(&p, &id);
    let hello = line.ask(json!({"id": 1, "op": "hello", "version": 99, "listener": false, "colour": "of a later version"}));
    assert_eq!((hello["of"].as_u64(), hello["version"].as_u64()), (Some(1), Some(1)), "{hello}");
    let unknown = line.ask(json!({"id": 2, "op": "levitate"}));
    assert_eq!((unknown["of"].as_u64(), unknown["code"].as_str()), (Some(2), Some("bad_request")), "{unknown}");
    let signal = line.ask(json!({"id": 3, "op": "signal", "number": 0}));
    assert_eq!((signal["of"].as_u64(), signal["say"].as_str()), (Some(3), Some("ok")), "{signal}");
}

#[test]
fn nonsense_to_a_keeper_is_refused_and_harms_no_process() {
    let p = product();
    let id = p.run("echo here; exec sleep 1000");
    let mut early = Line::to(&p, &id);
    assert_eq!(early.ask(json!({"id": 1, "op": "signal", "number": 9}))["code"], "bad_request");
    for bytes in [&b"\xff\xff\xff\xff"[..], b"\x02\0\0\0\x09\x09", b"\x03\0\0\0\0{}", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut line = Line::to(&p, &id);
        line.stream.write_all(bytes).unwrap();
        line.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        // It says what was wrong, or hangs up on what never became a frame.
        let _reset = line.stream.read_to_end(&mut rest);
    }
    assert_eq!(p.json(["poll", &id])["phase"], "running");
    assert_eq!(p.json(["kill", &id])["status"], "killed");
}
