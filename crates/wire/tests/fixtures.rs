//! `fixtures/wire-v1`: messages of older clients, engines and keepers stay readable.

use outlast_core::notice_state::TakerKind;
use outlast_core::{Cause, Command, EnvVar, OnStop, OsText, Owner, ProcessId, Reason, Route, Scope, Status, Stop, StopWay, Time};
use outlast_wire::v1::keeper::{FromKeeper, KeeperReply, KeeperRequest, ToKeeper};
use outlast_wire::v1::notice::{BarrierTarget, History, Lent, Push, Replay, Verdict};
use outlast_wire::v1::sandbox::{FileOffsets, FromSandbox, Piece, SandboxHello, SandboxReply, SandboxRequest, ToSandbox, Update};
use outlast_wire::v1::{
    Activity, AdoptFrom, Caller, Error, ErrorKind, Event, From, Hello, Kill, LogPage, Message, Page, Process, Reply, Request, RerunChange,
    Spec, Tell,
};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

const ID: ProcessId = ProcessId::from_bytes([0x01, 0x23, 0x45, 0x67, 0x89, 0xab]);
const AT: Time = Time::from_micros(1_700_000_000_000_000);

fn dir() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/wire-v1").into()
}

fn requests() -> Vec<Message> {
    let process = || "proc_0123456789ab".to_owned();
    let caller = || {
        let mut caller = Caller::new(vec![EnvVar { name: "PATH".into(), value: "/bin".into() }], OsText::from(vec![0x2f, 0xff]));
        caller.umask = Some(0o022);
        caller
    };
    let spec = Spec {
        command: Command::Argv(vec!["echo".into(), "hi".into()]),
        on: None,
        cwd: Some("/tmp".into()),
        env: vec![EnvVar { name: "K".into(), value: "V".into() }],
        pty: true,
        stdin: false,
        name: Some("a name".into()),
        labels: Default::default(),
        timeout_ms: Some(5000),
        on_stop: OnStop::Kill,
        tell: Tell::default(),
    };
    let told = spec.clone();
    let tell =
        Tell { completion: true, unless_waited_for: false, awaited: false, watch: vec!["ERROR".into()], chars: Some(9), route: route() };
    let kill = Kill::within(Duration::from_millis(500));
    let all = vec![
        Request::Hello { version: 1, client: "a client".into(), namespaces: None },
        Request::Run { spec: Box::new(spec.clone()), want: Some(ID), caller: caller() },
        Request::Run { spec: Box::new(Spec { command: Command::Shell("echo hi".into()), ..spec }), want: None, caller: caller() },
        Request::Rerun { process: process(), caller: caller(), env: Vec::new(), want: None },
        Request::List { scope: Scope { task: Some("t".into()), session: Some("s".into()) }, all: true },
        Request::Poll { process: process() },
        Request::Log { process: process(), page: Page::from_line(0).limit(10) },
        Request::Read { process: process(), from: From::Byte(7), follow: true, to_exit: false, view: false, masked: false, timed: false },
        Request::Wait { process: process(), timeout_ms: Some(1) },
        Request::Interrupt { session: "s".into() },
        Request::Kill { process: process(), kill },
        Request::KillAll { scope: Scope::default(), kill: Kill::politely() },
        Request::Signal { process: process(), number: 15 },
        Request::Write { process: process(), at: Some(3), len: 9 },
        Request::Close { process: process() },
        Request::Resize { process: process(), rows: 30, cols: 120 },
        Request::Attach { process: process(), read_only: true },
        Request::Remove { process: process(), set_aside: false },
        Request::Clean { scope: Scope::default() },
        Request::Active(Activity::Session { session: "s".into(), max_age_ms: Some(1) }),
        Request::Adopt(AdoptFrom::Pid { pid: 7 }),
        Request::EngineStatus,
        Request::EngineStop,
        Request::Cancel { of: 3 },
        Request::Run { spec: Box::new(Spec { tell, ..told }), want: None, caller: caller() },
        Request::NoticeNext { taker: TakerKind::Terminal, limit: 1, lease_ms: 2, wait_ms: Some(3), asked: false },
        Request::NoticeSettle { ids: vec!["evt_1".into()], lease: Some("l".into()), verdict: Verdict::Dropped { reason: "r".into() } },
        Request::NoticeFollow { after: Some(1) },
        Request::NoticePost { name: Some("n".into()), event: fields(), route: route() },
        Request::NoticeHistory(History::default().after(1).about(process()).in_state("pending")),
        Request::NoticeReplay(Replay::From { seq: 1 }),
        Request::NoticeReplay(Replay::Dead { notice: Some("evt_1".into()), sink: Some("ops".into()) }),
        Request::NoticeDead { limit: Some(1) },
        Request::Consumed { process: process(), mark: true },
        Request::Deliveries { sink: "ops".into(), limit: 1, lease_ms: 2 },
        Request::Pushed { sink: "ops".into(), seq: 1, lease: "l".into(), how: Push::Again { after_ms: 1, reason: "r".into() } },
        Request::Until {
            until: BarrierTarget::Process { process: process(), or_match: true },
            barrier: Some("bar_0123456789ab".into()),
            no_wait: true,
        },
        Request::Until { until: BarrierTarget::Pid { pid: 7 }, barrier: None, no_wait: false },
        Request::Until { until: BarrierTarget::Time { at: AT }, barrier: None, no_wait: false },
        Request::Barriers { clear: true },
        Request::Read { process: process(), from: From::Now, follow: true, to_exit: true, view: true, masked: false, timed: false },
        Request::ViewClose { process: process() },
        Request::Wake { sink: "ops".into(), lent: vec![Lent::new(1, "l")] },
        Request::Relayed { of: vec![3, 5] },
        Request::Read { process: process(), from: From::Byte(0), follow: false, to_exit: false, view: false, masked: true, timed: false },
        Request::Serve,
        Request::Disown { sessions: vec!["agent:main:telegram:dm:7".into()] },
        Request::EngineHandOver,
        Request::KillThese { processes: vec![ID], kill: Kill::politely() },
        Request::CleanThese { processes: vec![ID] },
        Request::Find { process: "a name".into() },
        Request::RerunChanged {
            process: process(),
            caller: caller(),
            env: Vec::new(),
            change: RerunChange::default().named("n").running(outlast_core::Command::Shell("echo ho".into())),
            want: Some(ID),
        },
        Request::Restart { process: process(), caller: caller(), env: Vec::new(), want: Some(ID), grace_ms: Some(500) },
        Request::EndConversation,
        Request::Wait { process: process(), timeout_ms: None },
    ];
    let owner = Owner { session: Some("s".into()), task: Some("t".into()), generation: Some("g".into()) };
    let last = all.len() - 1;
    // The client of the last request forwards the answer.
    let message = |(n, request)| Message { id: n as u64, owner: owner.clone(), relay: n == last, instance: None, force: false, request };
    all.into_iter().enumerate().map(message).collect()
}

fn route() -> Route {
    Route { platform: Some("p".into()), chat_id: Some("c".into()), message_id: Some("m".into()), ..Route::default() }
}

fn fields() -> serde_json::Map<String, Value> {
    let fields = serde_json::json!({"type": "async_delegation", "delegation_id": "deleg_1", "id": "its own"});
    fields.as_object().cloned().unwrap_or_default()
}

fn replies() -> Vec<Value> {
    let mut process = Process::new(ID, "echo hi", Status::Exited, "exited", AT);
    process.pid = Some(7);
    process.cwd = "/".into();
    process.uptime_seconds = 3;
    process.output_preview = Some("hi\n".into());
    process.output_cut = Some(2);
    process.output_bytes = 3;
    process.fate.exit_code = Some(None);
    process.fate.signal = Some("SIGTERM".into());
    process.fate.completion_reason = Some(Reason::Killed);
    process.fate.termination_source = Some("process.kill".into());
    process.fate.ended_at = Some(AT);
    process.task_id = Some("t".into());
    process.session_key = Some("s".into());
    process.session_scoped = true;
    process.detached = true;
    process.pty = true;
    process.takes_input = true;
    process.input_bytes = Some(1);
    process.protection = Some("full".into());
    process.left_running = Some(1);
    process.gaps = vec![Event::Gap { from: 1, to: 2, why: "retention".into() }];
    process.warnings = vec!["a warning".into()];
    process.note = Some("a note".into());
    let mut page = LogPage::new(ID, "echo hi", Status::Running);
    page.output = "hi".into();
    page.total_lines = 1;
    page.showing = "1 lines".into();
    page.lines_gone = Some(4);
    page.next_byte = 3;
    page.approximate = true;
    let error = Error::new(ErrorKind::Refusal, "not_found", "No process with ID x", "list them").with_status("not_found");
    let value = |v: Result<Value, serde_json::Error>| v.expect("it serialises");
    vec![
        value(serde_json::to_value(Reply::answer(0, Hello { version: 1, program: "0.1.0".into(), pid: 7, home: None }))),
        value(serde_json::to_value(Reply::answer(1, process))),
        value(serde_json::to_value(Reply::answer(6, page))),
        value(serde_json::to_value(Reply::<Value>::error(5, error))),
        value(serde_json::to_value(Reply::<Value>::event(7, Event::At { byte: 7 }))),
        value(serde_json::to_value(Reply::answer(0, Hello { version: 1, program: "0.1.0".into(), pid: 7, home: Some("/home".into()) }))),
        value(serde_json::to_value(Reply::<Value>::event(47, Event::Sessions { sessions: vec!["agent:main:local:dm:main".into()] }))),
    ]
}

fn keeper() -> (Vec<ToKeeper>, Vec<FromKeeper>) {
    let stop = Stop {
        cause: Cause::Asked { by: Owner::default(), source: "process.kill".into() },
        way: StopWay::Escalate { grace: Duration::from_secs(2) },
    };
    let asks = vec![
        KeeperRequest::Hello { version: 1, listener: true },
        KeeperRequest::Stop { stop },
        KeeperRequest::Signal { number: 10 },
        KeeperRequest::Write { at: Some(1), len: 2 },
        KeeperRequest::CloseInput,
        KeeperRequest::Resize { rows: 1, cols: 2 },
        KeeperRequest::AwaitOutput { past: 9 },
        KeeperRequest::Attached { on: true },
    ];
    let says = vec![
        KeeperReply::Hello { version: 1, program: "0.1.0".into() },
        KeeperReply::Ok,
        KeeperReply::Stopped { seen_dead: 2, survivors: vec![7], unrecorded: None },
        KeeperReply::AlreadyEnded,
        KeeperReply::Written { taken: 2, next: 3, is_canonical: false },
        KeeperReply::Output { end: 9, closed: true },
        KeeperReply::Refused { code: "no_input".into(), error: "why".into() },
        KeeperReply::News,
    ];
    (
        asks.into_iter().enumerate().map(|(n, ask)| ToKeeper { id: n as u64, ask }).collect(),
        says.into_iter().enumerate().map(|(n, say)| FromKeeper { of: (n < 7).then_some(n as u64), say }).collect(),
    )
}

fn sandbox() -> (Vec<ToSandbox>, Vec<FromSandbox>) {
    let asks = vec![
        SandboxRequest::Hello { version: 1 },
        SandboxRequest::Start { process: ID, len: 7 },
        SandboxRequest::Attach { process: ID, log: 1, files: FileOffsets { journal: 2, lines: 3, times: 4 }, upto: 5 },
        SandboxRequest::Allow { of: 2, upto: 6 },
        SandboxRequest::Detach { of: 2 },
        SandboxRequest::Dial { process: ID },
        SandboxRequest::HangUp { of: 5 },
        SandboxRequest::InputTaken { process: ID },
        SandboxRequest::List,
        SandboxRequest::Remove { process: ID },
        SandboxRequest::Ping,
    ];
    let hello = SandboxHello {
        version: 1,
        program: "0.1.0".into(),
        home: "0123456789abcdef0123456789abcdef".into(),
        boot: "fedcba9876543210fedcba9876543210".into(),
        uid: 1000,
        arch: "x86_64".into(),
        clock_us: AT.micros(),
        cwd: OsText::from(vec![0x2f, 0xff]),
    };
    let piece = |at, len| Piece { at, len };
    let update = Update {
        log: piece(1, 2),
        journal: piece(3, 4),
        lines: piece(5, 6),
        times: piece(7, 8),
        meta: Some([9, 10, 11, 12]),
        log_end: 13,
        is_over: true,
    };
    let says = vec![
        SandboxReply::Hello(Box::new(hello)),
        SandboxReply::Ok,
        SandboxReply::Update(update),
        SandboxReply::Update(Update { log_end: 1, ..Update::default() }),
        SandboxReply::Taken { bytes: 5 },
        SandboxReply::HungUp,
        SandboxReply::InputTaken { bytes: 6 },
        SandboxReply::Processes { processes: vec![ID] },
        SandboxReply::Refused { code: "id_taken".into(), error: "why".into() },
    ];
    ((0..).zip(asks).map(|(id, ask)| ToSandbox { id, ask }).collect(), (0..).zip(says).map(|(of, say)| FromSandbox { of, say }).collect())
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
fn fixture_wire_v1_is_readable() {
    check::<Message>("requests.jsonl");
    check::<Reply<Value>>("replies.jsonl");
    check::<ToKeeper>("to-keeper.jsonl");
    check::<FromKeeper>("from-keeper.jsonl");
    check::<ToSandbox>("to-sandbox.jsonl");
    check::<FromSandbox>("from-sandbox.jsonl");
    let text = std::fs::read_to_string(dir().join("replies.jsonl")).expect("a fixture");
    let line = |n: usize| text.lines().nth(n).expect("a line");
    let process: Reply<Process> = serde_json::from_str(line(1)).expect("a process");
    assert_eq!(process.answer.expect("an answer").fate.exit_code, Some(None));
    let page: Reply<LogPage> = serde_json::from_str(line(2)).expect("a page");
    assert_eq!(page.answer.expect("an answer").next_byte, 3);
    // An engine that does not name its home, and one that does.
    let [silent, named] = [0, 5].map(|n| serde_json::from_str::<Reply<Hello>>(line(n)).expect("a hello").answer.expect("an answer"));
    assert_eq!((silent.home, named.home), (None, Some("/home".into())));
}

/// A request is flattened into its message, so none of its fields may have the name of a field of the message.
#[test]
fn a_request_has_no_field_of_its_messages_name() {
    for message in requests() {
        let text = serde_json::to_string(&message).expect("it serialises");
        let read: Message = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert_eq!(serde_json::to_string(&read).expect("it serialises"), text);
    }
}

#[test]
#[ignore = "writes into the repository"]
fn generate_fixture_wire_v1() {
    std::fs::create_dir_all(dir()).expect("a directory");
    let (asks, says) = keeper();
    let (to_sandbox, from_sandbox) = sandbox();
    for (file, text) in [
        ("requests.jsonl", lines(&requests())),
        ("replies.jsonl", lines(&replies())),
        ("to-keeper.jsonl", lines(&asks)),
        ("from-keeper.jsonl", lines(&says)),
        ("to-sandbox.jsonl", lines(&to_sandbox)),
        ("from-sandbox.jsonl", lines(&from_sandbox)),
    ] {
        std::fs::write(dir().join(file), text).expect("a file");
    }
}
