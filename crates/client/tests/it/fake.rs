//! An engine that is simulated by the test.

use outlast_client::{Client, Connect};
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::{self, Event, Message, Reply, Request};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::os::unix::fs::symlink;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

pub(crate) const ID: &str = "proc_ab12000000ff";

/// The engine's side of one connection.
pub(crate) struct Fake {
    stream: UnixStream,
    splitter: Splitter,
    frames: VecDeque<Frame>,
}

impl Fake {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream, splitter: Splitter::default(), frames: VecDeque::new() }
    }

    /// The next frame, or none when the client has closed the connection.
    pub(crate) async fn frame(&mut self) -> Option<Frame> {
        let mut buffer = [0; 4096];
        loop {
            while let Some(frame) = self.splitter.next_frame().unwrap() {
                self.frames.push_back(frame);
            }
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(n) => self.splitter.push(&buffer[..n]),
            }
        }
    }

    pub(crate) async fn message(&mut self) -> Option<Message> {
        match self.frame().await? {
            Frame::Json(text) => Some(serde_json::from_slice(&text).unwrap()),
            Frame::Raw { .. } => panic!("bytes that no request announced"),
        }
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn answer(&mut self, of: u64, answer: Value) {
        self.raw(&frame::json(&Reply::answer(of, answer))).await;
    }

    pub(crate) async fn event(&mut self, of: u64, event: Event) {
        self.raw(&frame::json(&Reply::<Value>::event(of, event))).await;
    }

    pub(crate) async fn refuse(&mut self, of: u64, code: &str, kind: v1::ErrorKind) {
        self.raw(&frame::json(&Reply::<Value>::error(of, v1::Error::new(kind, code, "no", "h")))).await;
    }

    pub(crate) async fn hello(&mut self) {
        let hello = self.message().await.expect("a hello");
        assert!(matches!(hello.request, Request::Hello { version: 1, .. }));
        self.answer(hello.id, json!({"version": 1, "program": "fake", "pid": 1})).await;
    }
}

/// A client and its engine, which has answered the hello.
pub(crate) async fn pair() -> (Client, Fake) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut fake = Fake::new(theirs);
    let (client, ()) = tokio::join!(Client::over(ours), fake.hello());
    (client.unwrap(), fake)
}

/// A home whose engine is the test that accepts from the listener.
pub(crate) struct Home {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) listener: UnixListener,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("engine")).unwrap();
        symlink(dir.path(), dir.path().join("run")).unwrap();
        Self { dir, listener }
    }

    pub(crate) fn connect(&self) -> Connect {
        Connect::to(self.dir.path())
    }

    pub(crate) async fn accept(&self) -> Fake {
        let mut fake = Fake::new(self.listener.accept().await.unwrap().0);
        fake.hello().await;
        fake
    }

    pub(crate) async fn client(&self) -> (Client, Fake) {
        let to = self.connect();
        let (client, fake) = tokio::join!(Client::connect(&to), self.accept());
        (client.unwrap(), fake)
    }
}

pub(crate) fn process(id: &str) -> Value {
    json!({"session_id": id, "command": "true", "status": "running", "phase": "running", "pid": 7, "cwd": "/",
           "started_at": "2023-11-14T22:13:20.000000Z", "uptime_seconds": 1, "output_bytes": 0})
}

pub(crate) fn waited(status: &str) -> Value {
    json!({"status": status, "session_id": ID, "command": "true", "exit_code": 0, "output": "done"})
}
