//! The client against an engine that is played by the test.

use outlast_client::{
    Activity, At, Chunk, Client, ClientError, Connect, From, Kill, Owner, Page, Run, Scope, Spec, Start, blocking, caller, code,
};
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::{self, Event, Message, Reply, Request};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

const ID: &str = "proc_ab12000000ff";

/// The engine's side of one connection.
struct Fake {
    stream: UnixStream,
    splitter: Splitter,
    frames: VecDeque<Frame>,
}

impl Fake {
    fn new(stream: UnixStream) -> Self {
        Self { stream, splitter: Splitter::default(), frames: VecDeque::new() }
    }

    /// The next frame, or nothing when the client has gone.
    async fn frame(&mut self) -> Option<Frame> {
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

    async fn message(&mut self) -> Option<Message> {
        match self.frame().await? {
            Frame::Json(text) => Some(serde_json::from_slice(&text).unwrap()),
            Frame::Raw { .. } => panic!("bytes that no request announced"),
        }
    }

    async fn raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    async fn answer(&mut self, of: u64, answer: Value) {
        self.raw(&frame::json(&Reply::answer(of, answer))).await;
    }

    async fn event(&mut self, of: u64, event: Event) {
        self.raw(&frame::json(&Reply::<Value>::event(of, event))).await;
    }

    async fn refuse(&mut self, of: u64, code: &str, kind: v1::ErrorKind) {
        let error = v1::Error { error: "no".into(), code: code.into(), hint: "h".into(), kind, status: "error".into(), exit_code: None };
        self.raw(&frame::json(&Reply::<Value>::error(of, error))).await;
    }

    async fn hello(&mut self) {
        let hello = self.message().await.expect("a hello");
        assert!(matches!(hello.request, Request::Hello { version: 1, .. }));
        self.answer(hello.id, json!({"version": 1, "program": "fake", "pid": 1})).await;
    }
}

/// A client and the engine it speaks to, which has said hello.
async fn pair() -> (Client, Fake) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut fake = Fake::new(theirs);
    let (client, ()) = tokio::join!(Client::over(ours), fake.hello());
    (client.unwrap(), fake)
}

/// A home whose engine is played by whoever accepts from the listener.
struct Home {
    dir: tempfile::TempDir,
    listener: UnixListener,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("engine")).unwrap();
        symlink(dir.path(), dir.path().join("run")).unwrap();
        Self { dir, listener }
    }

    fn connect(&self) -> Connect {
        Connect { home: self.dir.path().into(), start: Start::Never, owner: Owner::default() }
    }

    async fn accept(&self) -> Fake {
        let mut fake = Fake::new(self.listener.accept().await.unwrap().0);
        fake.hello().await;
        fake
    }

    async fn client(&self) -> (Client, Fake) {
        let to = self.connect();
        let (client, fake) = tokio::join!(Client::connect(&to), self.accept());
        (client.unwrap(), fake)
    }
}

fn process(id: &str) -> Value {
    json!({"session_id": id, "command": "true", "status": "running", "phase": "running", "pid": 7, "cwd": "/",
           "started_at": "2023-11-14T22:13:20.000000Z", "uptime_seconds": 1, "output_bytes": 0})
}

fn waited(status: &str) -> Value {
    json!({"status": status, "session_id": ID, "command": "true", "exit_code": 0, "output": "done"})
}

#[tokio::test]
async fn answers_reach_whoever_asked_in_any_order() {
    let (client, mut fake) = pair().await;
    let engine = async {
        let (a, b) = (fake.message().await.unwrap(), fake.message().await.unwrap());
        for m in [b, a] {
            let Request::Poll { process: which } = &m.request else { panic!("{m:?}") };
            fake.answer(m.id, process(which)).await;
        }
    };
    let (one, two, ()) = tokio::join!(client.poll("proc_000000000001"), client.poll("proc_000000000002"), engine);
    assert_eq!(one.unwrap().session_id.to_string(), "proc_000000000001");
    assert_eq!(two.unwrap().session_id.to_string(), "proc_000000000002");
}

#[tokio::test]
async fn a_dropped_future_cancels_its_request() {
    let (client, mut fake) = pair().await;
    let asker = client.clone();
    let waiting = tokio::spawn(async move { asker.wait(ID, None).await });
    let wait = fake.message().await.unwrap();
    assert!(matches!(wait.request, Request::Wait { timeout_ms: None, .. }));
    waiting.abort();
    let cancel = fake.message().await.unwrap();
    assert!(matches!(cancel.request, Request::Cancel { of } if of == wait.id), "{cancel:?}");
}

#[tokio::test]
async fn an_answer_that_crosses_its_cancellation_is_dropped() {
    let (client, mut fake) = pair().await;
    let asker = client.clone();
    let waiting = tokio::spawn(async move { asker.wait(ID, None).await });
    let wait = fake.message().await.unwrap();
    waiting.abort();
    fake.message().await.unwrap();
    fake.answer(wait.id, waited("exited")).await;
    let (count, ()) = tokio::join!(client.count_running(), async {
        let m = fake.message().await.unwrap();
        fake.answer(m.id, json!({"active": true, "running": 3})).await;
    });
    assert_eq!(count.unwrap(), 3);
}

#[tokio::test]
async fn a_refusal_comes_with_code_and_hint() {
    let (client, mut fake) = pair().await;
    let (refused, ()) = tokio::join!(client.kill(ID, Kill::default()), async {
        let m = fake.message().await.unwrap();
        fake.refuse(m.id, code::ALREADY_EXITED, v1::ErrorKind::Refusal).await;
    });
    let refused = refused.unwrap_err();
    assert_eq!((refused.code(), refused.hint()), (code::ALREADY_EXITED, "h"));
}

#[tokio::test]
async fn frames_that_make_no_sense_are_a_protocol_error() {
    for nonsense in [vec![0xff; 8], vec![1, 0, 0, 0, 9], frame::json(&"hello"), [5, 0, 0, 0, 0].iter().chain(b"{bad").copied().collect()] {
        let (client, mut fake) = pair().await;
        let (failed, ()) = tokio::join!(client.poll(ID), async {
            fake.message().await.unwrap();
            fake.raw(&nonsense).await;
        });
        let failed = failed.unwrap_err();
        assert!(matches!(failed, ClientError::Protocol { .. }), "{nonsense:?}: {failed:?}");
        // The connection is of no use any more, and says so at once.
        assert!(matches!(client.poll(ID).await, Err(ClientError::Unavailable { .. })));
    }
}

/// So many lists in each other.
fn lists(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

/// A reply whose answer may be what no value of ours can be.
fn reply(of: u64, answer: &str) -> Vec<u8> {
    let text = format!("{{\"of\":{of},\"answer\":{answer}}}");
    [&(text.len() as u32 + 1).to_le_bytes()[..], &[0], text.as_bytes()].concat()
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_nobody_elses_trouble() {
    let (client, mut fake) = pair().await;
    let engine = async {
        let (one, other) = (fake.message().await.unwrap(), fake.message().await.unwrap());
        fake.raw(&reply(one.id, &lists(500))).await;
        fake.answer(other.id, process(ID)).await;
    };
    let (unread, read, ()) = tokio::join!(client.poll(ID), client.poll(ID), engine);
    assert_eq!(unread.unwrap_err().code(), code::PROTOCOL);
    assert_eq!(read.unwrap().session_id.to_string(), ID);
}

#[tokio::test]
async fn what_a_sink_owes_is_read_one_by_one() {
    let (client, mut fake) = pair().await;
    let owed = |seq: u64, field: &str| {
        format!(
            "{{\"event\":{{\"type\":\"custom\",\"event_id\":\"evt_{seq}\",\"seq\":{seq},\"created_at\":\"2023-11-14T22:13:20.000000Z\",\"x\":{field}}},\
             \"text\":\"t\",\"attempts\":0,\"first_at\":\"2023-11-14T22:13:20.000000Z\",\"lease\":\"word\"}}"
        )
    };
    let all = [owed(1, "1"), owed(2, &lists(124)), owed(3, &lists(500)), owed(4, "4"), owed(5, "5").replace("created_at", "made_at")];
    let engine = async {
        let asked = fake.message().await.unwrap();
        fake.raw(&reply(asked.id, &format!("{{\"deliveries\":[{}]}}", all.join(",")))).await;
        let dead = fake.message().await.unwrap();
        fake.answer(dead.id, json!({"status": "ok"})).await;
        dead.request
    };
    let sink = async {
        let owed = client.deliveries("h", 8, Duration::from_secs(1)).await.unwrap();
        let given_up = client.give_up("h", &owed.unread[0]).await.unwrap();
        (owed, given_up)
    };
    let ((owed, given_up), asked) = tokio::join!(sink, engine);
    // What is too deep inside of an answer need not be too deep by itself.
    assert_eq!(owed.deliveries.iter().map(|d| d.event.seq).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(owed.unread.iter().map(|u| (u.seq, u.lease.as_str())).collect::<Vec<_>>(), [(3, "word"), (5, "word")]);
    assert!(given_up);
    assert!(
        matches!(&asked, Request::Pushed { seq: 3, how: v1::notice::Push::Dead { reason }, .. } if reason.contains("recursion limit")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn an_answer_of_another_shape_is_a_protocol_error() {
    let (client, mut fake) = pair().await;
    let everything = Scope::default();
    let (failed, ()) = tokio::join!(client.list(&everything, true), async {
        let m = fake.message().await.unwrap();
        fake.answer(m.id, json!({"processes": 3})).await;
    });
    assert!(matches!(failed, Err(ClientError::Protocol { .. })));
}

#[tokio::test]
async fn a_request_too_long_to_send_is_refused_here() {
    let (client, _fake) = pair().await;
    let spec = Spec::shell("x".repeat(frame::MAX));
    let refused = client.run(Run::new(spec, caller([], Path::new("/")))).await.map(|p| p.id()).unwrap_err();
    assert_eq!(refused.code(), code::BAD_REQUEST);
}

#[tokio::test]
async fn an_engine_of_another_version_is_refused() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut fake = Fake::new(theirs);
    let (client, ()) = tokio::join!(Client::over(ours), async {
        let hello = fake.message().await.unwrap();
        fake.answer(hello.id, json!({"version": 99, "program": "outlast 9", "pid": 42})).await;
    });
    let refused = client.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), code::BAD_VERSION);
    assert!(refused.to_string().contains("pid 42"), "{refused}");
}

#[tokio::test]
async fn a_run_cut_off_by_a_crash_is_repeated_under_the_same_id() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let run = client.run(Run::new(Spec::shell("true"), caller([], Path::new("/"))));
    let (ran, ids) = tokio::join!(run, async {
        let first = fake.message().await.unwrap();
        drop(fake);
        let mut fake = home.accept().await;
        let second = fake.message().await.unwrap();
        let ids = [first.request, second.request].map(|r| match r {
            Request::Run { want: Some(id), .. } => id,
            other => panic!("{other:?}"),
        });
        fake.answer(second.id, process(&ids[1].to_string())).await;
        ids
    });
    assert_eq!(ids[0], ids[1]);
    assert_eq!(ran.unwrap().id(), ids[0]);
}

#[tokio::test]
async fn a_signal_cut_off_by_a_crash_is_not_repeated() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let (sent, ()) = tokio::join!(client.signal(ID, 10), async {
        fake.message().await.unwrap();
        drop(fake);
    });
    let failed = sent.unwrap_err();
    assert!(matches!(failed, ClientError::Unavailable { .. }), "{failed:?}");
    assert!(failed.hint().contains("may have been done"));
}

#[tokio::test]
async fn a_wait_goes_on_over_a_restart_with_the_time_that_is_left() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let (end, (first, second)) = tokio::join!(client.wait(ID, Some(Duration::from_secs(3600))), async {
        let first = fake.message().await.unwrap();
        drop(fake);
        let mut fake = home.accept().await;
        let second = fake.message().await.unwrap();
        fake.answer(second.id, waited("exited")).await;
        (first, second)
    });
    assert_eq!(end.unwrap().fate.exit_code, Some(Some(0)));
    let left = |m: Message| match m.request {
        Request::Wait { timeout_ms: Some(t), .. } => t,
        other => panic!("{other:?}"),
    };
    let (first, second) = (left(first), left(second));
    assert!(second <= first && first <= 3_600_000, "{first} {second}");
}

#[tokio::test]
async fn an_engine_that_is_ending_is_waited_out() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    // Even what must not be repeated: the engine said that it did nothing.
    let (closed, ()) = tokio::join!(client.close(ID), async {
        let m = fake.message().await.unwrap();
        fake.refuse(m.id, code::UNAVAILABLE, v1::ErrorKind::Unavailable).await;
        drop(fake);
        let mut fake = home.accept().await;
        let m = fake.message().await.unwrap();
        fake.answer(m.id, json!({"status": "ok", "message": "stdin closed"})).await;
    });
    assert_eq!(closed.unwrap().message.as_deref(), Some("stdin closed"));
}

#[tokio::test]
async fn an_engine_that_never_stays_up_is_given_up() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let crashes = async {
        loop {
            fake.message().await.unwrap();
            drop(fake);
            fake = home.accept().await;
        }
    };
    let failed = tokio::select! {
        failed = client.poll(ID) => failed.unwrap_err(),
        () = crashes => unreachable!(),
    };
    assert!(failed.to_string().contains("5 times in a row"), "{failed}");
}

#[tokio::test]
async fn a_connection_that_dies_at_hello_counts_as_none() {
    let home = Home::new();
    let to = home.connect();
    let (failed, ()) = tokio::join!(Client::connect(&to), async {
        drop(home.listener.accept().await.unwrap());
    });
    assert!(failed.map(|_| ()).unwrap_err().is_not_running());
}

#[tokio::test]
async fn following_goes_on_at_the_byte_reached() {
    let home = Home::new();
    let (client, _first) = home.client().await;
    let mut chunks = client.follow(ID, From::Last(100));
    let engine = async {
        let mut fake = home.accept().await;
        let m = fake.message().await.unwrap();
        assert!(matches!(m.request, Request::Read { from: From::Last(100), follow: true, .. }));
        fake.event(m.id, Event::At { byte: 1000 }).await;
        fake.raw(&frame::raw(m.id, b"one ")).await;
        fake.event(m.id, Event::Gap { from: 1004, to: 2000, why: "dropped".into() }).await;
        fake.raw(&frame::raw(m.id, b"two ")).await;
        drop(fake);
        let mut fake = home.accept().await;
        let m = fake.message().await.unwrap();
        assert!(matches!(m.request, Request::Read { from: From::Byte(2004), follow: true, .. }), "{m:?}");
        fake.event(m.id, Event::At { byte: 2004 }).await;
        fake.raw(&frame::raw(m.id, b"three")).await;
        fake.answer(m.id, json!({"next_byte": 2009, "closed": true})).await;
    };
    let reader = async {
        let mut got = Vec::new();
        while let Some(chunk) = chunks.next().await.unwrap() {
            got.push(chunk);
        }
        got
    };
    let (got, ()) = tokio::join!(reader, engine);
    assert_eq!(
        got,
        [
            Chunk::Bytes { at: 1000, bytes: b"one ".to_vec() },
            Chunk::Gap { from: 1004, to: 2000, why: "dropped".into() },
            Chunk::Bytes { at: 2000, bytes: b"two ".to_vec() },
            Chunk::Bytes { at: 2004, bytes: b"three".to_vec() },
        ]
    );
    assert!(chunks.closed());
    assert_eq!(chunks.next_byte(), Some(2009));
}

#[tokio::test]
async fn a_terminal_that_looks_on_is_announced_on_its_own_connection() {
    let home = Home::new();
    let (client, _first) = home.client().await;
    let mut chunks = client.attach(ID, From::Now, true);
    let (end, ()) = tokio::join!(chunks.next(), async {
        let mut fake = home.accept().await;
        let m = fake.message().await.unwrap();
        assert!(matches!(m.request, Request::Attach { read_only: true, .. }));
        fake.answer(m.id, process(ID)).await;
        let m = fake.message().await.unwrap();
        assert!(matches!(m.request, Request::Read { from: From::Now, follow: true, .. }));
        fake.answer(m.id, json!({"next_byte": 0, "closed": true})).await;
    });
    assert_eq!(end.unwrap(), None);
}

#[tokio::test]
async fn a_long_write_goes_in_pieces_that_follow_each_other() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let bytes: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    let (written, got) = tokio::join!(client.write(ID, &bytes, At::Byte(10)), async {
        let mut got = Vec::new();
        while got.len() < bytes.len() {
            let m = fake.message().await.unwrap();
            let Request::Write { at: Some(at), len, .. } = m.request else { panic!("{m:?}") };
            assert_eq!(at, 10 + got.len() as u64);
            let end = got.len() + len as usize;
            while got.len() < end {
                let Some(Frame::Raw { of, bytes }) = fake.frame().await else { panic!("expected bytes") };
                assert_eq!(of, m.id);
                got.extend_from_slice(&bytes);
            }
            fake.answer(m.id, json!({"status": "ok", "bytes_written": len, "next_offset": 10 + got.len()})).await;
        }
        got
    });
    assert_eq!(written.unwrap().bytes_written, Some(300_000));
    assert!(got == bytes);
}

#[tokio::test]
async fn a_write_without_an_offset_is_never_repeated() {
    let home = Home::new();
    let (client, mut fake) = home.client().await;
    let (written, ()) = tokio::join!(client.submit(ID, b"y", At::End), async {
        fake.message().await.unwrap();
        drop(fake);
    });
    assert_eq!(written.unwrap_err().code(), code::MAYBE_WRITTEN);
}

#[tokio::test]
async fn what_is_under_way_survives_the_client_value() {
    let (client, mut fake) = pair().await;
    let log = client.with_owner(Owner { session: Some("s".into()), ..Owner::default() });
    drop(client);
    let (page, ()) = tokio::join!(log.log(ID, Page::default()), async {
        let m = fake.message().await.unwrap();
        assert_eq!(m.owner.session.as_deref(), Some("s"));
        let page = json!({"session_id": ID, "command": "true", "status": "running", "output": "x", "total_lines": 1,
                          "showing": "1 lines", "first_line": 0, "from_byte": 0, "next_byte": 2, "at_end": true});
        fake.answer(m.id, page).await;
    });
    assert_eq!(page.unwrap().output, "x");
    drop(log);
    assert!(fake.message().await.is_none(), "the connection ends with its last user");
}

#[test]
fn the_blocking_client_asks_the_same() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let engine = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            theirs.set_nonblocking(true).unwrap();
            let mut fake = Fake::new(UnixStream::from_std(theirs).unwrap());
            fake.hello().await;
            let m = fake.message().await.unwrap();
            assert!(matches!(m.request, Request::Active(Activity::Any)));
            fake.answer(m.id, json!({"active": true, "running": 2})).await;
            let m = fake.message().await.unwrap();
            fake.event(m.id, Event::At { byte: 0 }).await;
            fake.raw(&frame::raw(m.id, b"hi")).await;
            fake.answer(m.id, json!({"next_byte": 2, "closed": true})).await;
        });
    });
    let client = blocking::Client::over(ours).unwrap();
    assert!(client.active(Activity::Any).unwrap());
    let got: Result<Vec<_>, _> = client.read(ID, From::Byte(0)).collect();
    assert_eq!(got.unwrap(), [Chunk::Bytes { at: 0, bytes: b"hi".to_vec() }]);
    engine.join().unwrap();
}

/// A program that plays the engine's start. A shell writes it: were it open for writing here, a child forked meanwhile could keep it busy.
fn program(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("outlast");
    let write = r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod 755 "$2""#;
    let status = std::process::Command::new("sh").args(["-c", write, "sh", script]).arg(&path).status().unwrap();
    assert!(status.success());
    path
}

#[tokio::test]
async fn an_engine_is_started_where_none_runs() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("engine")).unwrap();
    let home = dir.path().join("deep/home");
    let script = format!(
        r#"test "$1 $2 $4 $5" = "__engine --home --ready-fd 1" || exit 9; ln -s {0} "$3/run"; echo started >> {0}/starts; echo ready"#,
        dir.path().display()
    );
    let to = Connect { home: home.clone(), start: Start::OnDemand { program: program(dir.path(), &script) }, owner: Owner::default() };
    let accept = async {
        let mut fakes = Vec::new();
        for _ in 0..3 {
            let mut fake = Fake::new(listener.accept().await.unwrap().0);
            fake.hello().await;
            fakes.push(fake);
        }
    };
    // Three come at once; one starts the engine, and the others find it.
    let (a, b, c, ()) = tokio::join!(Client::connect(&to), Client::connect(&to), Client::connect(&to), accept);
    assert!(a.is_ok() && b.is_ok() && c.is_ok());
    assert_eq!(std::fs::read_to_string(dir.path().join("starts")).unwrap(), "started\n");
    assert_eq!(std::fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn an_engine_that_no_longer_listens_is_let_to_end() {
    use rustix::fs::{FlockOperation, flock};
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("engine")).unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let last = std::fs::File::create(home.join("lock")).unwrap();
    flock(&last, FlockOperation::LockExclusive).unwrap();
    let script = format!(r#"flock -n "$3/lock" true || exit 9; ln -s {} "$3/run"; echo ready"#, dir.path().display());
    let to = Connect { home: home.clone(), start: Start::OnDemand { program: program(dir.path(), &script) }, owner: Owner::default() };
    let ending = async {
        // The client has come as far as the lock for starters; the last engine still holds the home.
        let starters = loop {
            match std::fs::File::open(home.join("start.lock")) {
                Ok(file) => break file,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        while flock(&starters, FlockOperation::NonBlockingLockShared).is_ok() {
            flock(&starters, FlockOperation::Unlock).unwrap();
            tokio::task::yield_now().await;
        }
        drop(last);
        let mut fake = Fake::new(listener.accept().await.unwrap().0);
        fake.hello().await;
        fake
    };
    let (client, _fake) = tokio::join!(Client::connect(&to), ending);
    client.map(|_| ()).unwrap();
}

#[tokio::test]
async fn an_engine_that_cannot_start_has_its_last_words_passed_on() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("engine.log"), "words of an earlier life\n").unwrap();
    for (script, want) in [
        ("echo first >&2; echo 'cannot open index: disk is full' >&2; exit 1", "cannot open index: disk is full"),
        ("exit 3", "ended at once, without a word (exit status: 3)"),
        ("kill -9 $$", "signal: 9"),
    ] {
        let program = program(dir.path(), script);
        let to = Connect { home: home.clone(), start: Start::OnDemand { program }, owner: Owner::default() };
        let failed = Client::connect(&to).await.map(|_| ()).unwrap_err();
        assert!(matches!(failed, ClientError::Start { .. }), "{failed:?}");
        assert!(failed.to_string().contains(want), "{failed}");
        assert!(failed.hint().contains("engine.log"));
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("nowhere");
    let to = Connect { home: dir.path().join("home"), start: Start::OnDemand { program }, owner: Owner::default() };
    let failed = Client::connect(&to).await.map(|_| ()).unwrap_err();
    assert!(failed.to_string().contains("nowhere"), "{failed}");
    assert_eq!(failed.code(), code::CANNOT_START);
}
