//! `outlast-keeper connect`: the processes of a sandbox over one stream, which may be cut anywhere.

use anyhow::Result;
use outlast_core::{Cause, Ending, Outcome, Owner, ProcessId, Stop, StopWay};
use outlast_store::meta::{Ended, flag};
use outlast_store::segments::Keep;
use outlast_testkit::points::Points;
use outlast_testkit::product::{eventually, kill_and_wait};
use outlast_testkit::sandbox::{Line, Shadow, TestSandbox};
use outlast_wire::frame;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use outlast_wire::v1::sandbox::{LOG_WINDOW, SandboxReply, SandboxRequest};
use std::time::Duration;

const ID: ProcessId = ProcessId::from_bytes([0xa1, 0, 0, 0, 0, 1]);

fn sandbox() -> TestSandbox {
    TestSandbox::new(env!("CARGO_BIN_EXE_outlast-keeper")).unwrap()
}

fn start(sandbox: &TestSandbox, line: &mut Line, command: &str) -> Result<()> {
    let request = sandbox.request(ID, command, |_, _| {})?;
    assert_eq!(line.start(ID, &request)?, SandboxReply::Ok);
    Ok(())
}

/// Runs a command to its end, and returns what the link has of it.
fn to_end(sandbox: &TestSandbox, command: &str) -> Result<Shadow> {
    let (mut line, _) = sandbox.connect()?;
    start(sandbox, &mut line, command)?;
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    Ok(shadow)
}

fn outcome(shadow: &Shadow) -> Option<Outcome> {
    shadow.meta.as_ref()?.ended.as_ref().map(|Ended { ending: Ending { outcome, .. }, .. }| outcome.clone())
}

fn soft() -> Stop {
    let cause = Cause::Asked { by: Owner::default(), source: "process.kill".into() };
    Stop { cause, way: StopWay::Escalate { grace: Duration::from_millis(200) } }
}

#[test]
fn a_command_has_its_output_its_code_and_its_signal() -> Result<()> {
    let first = sandbox();
    let shadow = to_end(&first, "echo out; echo err >&2; pwd; exit 42")?;
    assert_eq!(shadow.text(), format!("out\nerr\n{}\n", first.path().display()));
    assert_eq!(outcome(&shadow), Some(Outcome::Code(42)));
    let second = sandbox();
    let shadow = to_end(&second, "kill -9 $$")?;
    assert!(matches!(outcome(&shadow), Some(Outcome::Signal { number: 9, .. })), "{:?}", outcome(&shadow));
    let third = sandbox();
    let mut line = third.connect()?.0;
    let request = third.request(ID, "", |kept, launch| {
        kept.spec = outlast_core::Spec::argv(["no-such-program"]);
        launch.argv = vec!["no-such-program".into()];
    })?;
    assert_eq!(line.start(ID, &request)?, SandboxReply::Ok);
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    assert!(matches!(outcome(&shadow), Some(Outcome::NeverStarted(f)) if f.errno == libc::ENOENT), "{:?}", outcome(&shadow));
    Ok(())
}

#[test]
fn a_stream_that_is_cut_in_the_middle_of_output_goes_on_at_the_offset() -> Result<()> {
    let sandbox = sandbox();
    let (mut line, hello) = sandbox.connect()?;
    start(&sandbox, &mut line, "seq 1 200000; exit 7")?;
    let mut shadow = Shadow::default();
    for cut in 1..=5 {
        let of = line.attach(ID, &shadow, shadow.log.len() as u64 + 70_000)?;
        let before = shadow.updates;
        line.follow(of, &mut shadow, |shadow| shadow.updates > before)?;
        if cut % 2 == 0 {
            line.close()
        } else {
            line.kill()?
        }
        let again;
        (line, again) = sandbox.connect()?;
        assert_eq!((again.home, again.boot), (hello.home.clone(), hello.boot.clone()), "it is the same sandbox");
    }
    let of = line.attach(ID, &shadow, shadow.log.len() as u64 + LOG_WINDOW)?;
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    let wanted: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(shadow.text() == wanted, "{} bytes instead of {}", shadow.log.len(), wanted.len());
    assert_eq!(outcome(&shadow), Some(Outcome::Code(7)));
    Ok(())
}

#[test]
fn a_process_that_may_not_send_more_waits_and_holds_up_no_other() -> Result<()> {
    let sandbox = sandbox();
    let (mut line, _) = sandbox.connect()?;
    start(&sandbox, &mut line, "seq 1 100000")?;
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, 1000)?;
    while shadow.log.len() < 1000 {
        line.update(of, &mut shadow)?;
    }
    let other = ProcessId::from_bytes([0xa1, 0, 0, 0, 0, 2]);
    assert_eq!(line.start(other, &sandbox.request(other, "echo other", |_, _| {})?)?, SandboxReply::Ok);
    let mut others = Shadow::default();
    let of_other = line.attach(other, &others, LOG_WINDOW)?;
    line.follow(of_other, &mut others, |shadow| shadow.is_over)?;
    assert_eq!((others.text().as_str(), shadow.log.len()), ("other\n", 1000));
    assert!(outcome(&shadow).is_none(), "an end is not told before the output that came before it");
    line.ask(SandboxRequest::Allow { of, upto: LOG_WINDOW })?;
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    assert!(shadow.text().ends_with("\n99999\n100000\n"));
    Ok(())
}

#[test]
fn a_start_is_done_once_however_often_it_is_asked() -> Result<()> {
    let sandbox = sandbox();
    let mark = sandbox.path().join("mark");
    let request = sandbox.request(ID, &format!("echo run >> {}; echo once", mark.display()), |_, _| {})?;
    let (mut line, _) = sandbox.connect()?;
    assert_eq!(line.start(ID, &request)?, SandboxReply::Ok);
    assert_eq!(line.start(ID, &request)?, SandboxReply::Ok);
    line.kill()?;
    let (mut line, _) = sandbox.connect()?;
    assert_eq!(line.start(ID, &request)?, SandboxReply::Ok);
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    assert_eq!(line.start(ID, &request)?, SandboxReply::Ok, "also after its end");
    assert_eq!((shadow.text().as_str(), std::fs::read_to_string(&mark)?.as_str()), ("once\n", "run\n"));
    let other = sandbox.request(ID, "echo another", |_, _| {})?;
    assert!(matches!(line.start(ID, &other)?, SandboxReply::Refused { code, .. } if code == "id_taken"));
    let wrong = ProcessId::from_bytes([0xa1, 0, 0, 0, 0, 9]);
    assert!(matches!(line.start(wrong, &request)?, SandboxReply::Refused { code, .. } if code == "bad_request"));
    assert!(matches!(line.start(wrong, b"no spec")?, SandboxReply::Refused { code, .. } if code == "bad_request"));
    Ok(())
}

#[test]
fn a_connect_that_dies_around_a_start_leaves_a_process_that_the_next_one_starts() -> Result<()> {
    for point in ["connect.before_folder", "connect.after_folder", "connect.after_go"] {
        let sandbox = sandbox();
        let points = Points::new(sandbox.path().join("points"))?;
        let mark = sandbox.path().join("mark");
        let request = sandbox.request(ID, &format!("echo run >> {}", mark.display()), |_, _| {})?;
        let (mut line, _) = sandbox.connect()?;
        points.arm(point)?;
        let of = line.ask(SandboxRequest::Start { process: ID, len: request.len() as u64 })?;
        line.send(&frame::raw(of, &request))?;
        let pid = eventually("it is held", || points.held(point));
        kill_and_wait(pid)?;
        line.child.wait()?;
        let (mut line, _) = sandbox.connect()?;
        assert_eq!(line.start(ID, &request)?, SandboxReply::Ok, "{point}");
        let mut shadow = Shadow::default();
        let of = line.attach(ID, &shadow, LOG_WINDOW)?;
        line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
        assert_eq!((outcome(&shadow), std::fs::read_to_string(&mark)?.as_str()), (Some(Outcome::Code(0)), "run\n"), "{point}");
    }
    Ok(())
}

/// Without this, a stream that was frozen could start a process again that has ended and was removed since.
#[test]
fn a_stream_that_comes_back_after_another_was_made_changes_nothing() -> Result<()> {
    let sandbox = sandbox();
    let mark = sandbox.path().join("mark");
    let request = sandbox.request(ID, &format!("echo run >> {}", mark.display()), |_, _| {})?;
    let (mut old, _) = sandbox.connect()?;
    let pid = rustix::process::Pid::from_child(&old.child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP)?;
    let of = old.ask(SandboxRequest::Start { process: ID, len: request.len() as u64 })?;
    old.send(&frame::raw(of, &request))?;
    let (mut new, _) = sandbox.connect()?;
    assert_eq!(new.start(ID, &request)?, SandboxReply::Ok);
    let mut shadow = Shadow::default();
    let of = new.attach(ID, &shadow, LOG_WINDOW)?;
    new.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    let of = new.ask(SandboxRequest::Remove { process: ID })?;
    assert_eq!(new.answer(of)?, SandboxReply::Ok);
    rustix::process::kill_process(pid, rustix::process::Signal::CONT)?;
    assert!(old.is_over(), "it leaves");
    assert_eq!(std::fs::read_to_string(&mark)?, "run\n");
    assert!(!sandbox.dir(ID).path.exists());
    Ok(())
}

#[test]
fn input_at_an_offset_arrives_once_over_a_cut() -> Result<()> {
    let sandbox = sandbox();
    let request = sandbox.request(ID, "cat", |kept, launch| (kept.spec.stdin, launch.stdin) = (true, true))?;
    let (mut line, _) = sandbox.connect()?;
    assert_eq!(line.start(ID, &request)?, SandboxReply::Ok);
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    line.follow(of, &mut shadow, |shadow| shadow.meta.as_ref().is_some_and(|meta| meta.has(flag::STARTED)))?;
    let mut channel = line.dial(ID)?;
    assert!(matches!(channel.write(&mut line, 0, b"one\ntwo\n")?, KeeperReply::Written { next: 8, .. }));
    // Announced, and cut before its bytes.
    channel.tell(&mut line, KeeperRequest::Write { at: Some(8), len: 6 })?;
    line.close();
    let (mut line, _) = sandbox.connect()?;
    let of_input = line.ask(SandboxRequest::InputTaken { process: ID })?;
    assert_eq!(line.answer(of_input)?, SandboxReply::InputTaken { bytes: 8 });
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    let mut channel = line.dial(ID)?;
    // The first eight were taken, and are not written again.
    assert!(matches!(channel.write(&mut line, 0, b"one\ntwo\nthree\n")?, KeeperReply::Written { next: 14, .. }));
    assert_eq!(channel.ask(&mut line, KeeperRequest::CloseInput)?, KeeperReply::Ok);
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    assert_eq!((shadow.text().as_str(), outcome(&shadow)), ("one\ntwo\nthree\n", Some(Outcome::Code(0))));
    Ok(())
}

#[test]
fn more_input_than_a_command_reads_waits_without_holding_up_the_stream() -> Result<()> {
    let sandbox = sandbox();
    let request = sandbox.request(ID, "exec sleep 1000", |kept, launch| (kept.spec.stdin, launch.stdin) = (true, true))?;
    let (mut line, _) = sandbox.connect()?;
    assert_eq!(line.start(ID, &request)?, SandboxReply::Ok);
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    line.follow(of, &mut shadow, |shadow| shadow.meta.as_ref().is_some_and(|meta| meta.has(flag::STARTED)))?;
    let mut channel = line.dial(ID)?;
    channel.tell(&mut line, KeeperRequest::Write { at: Some(0), len: 200_000 })?;
    channel.bytes(&mut line, &vec![b'x'; 200_000])?;
    let ping = line.ask(SandboxRequest::Ping)?;
    assert_eq!(line.answer(ping)?, SandboxReply::Ok);
    let mut channel = line.dial(ID)?;
    assert!(matches!(channel.stop(&mut line, soft())?, KeeperReply::Stopped { .. }));
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    Ok(())
}

#[test]
fn a_stop_reaches_the_whole_tree() -> Result<()> {
    let sandbox = sandbox();
    let (mut line, _) = sandbox.connect()?;
    start(&sandbox, &mut line, "setsid sleep 1000 & (setsid sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1000; done' &); wait")?;
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    line.follow(of, &mut shadow, |shadow| shadow.text().contains("ready"))?;
    let mut channel = line.dial(ID)?;
    match channel.stop(&mut line, soft())? {
        KeeperReply::Stopped { seen_dead, survivors, .. } => assert!(seen_dead >= 3 && survivors.is_empty(), "{seen_dead} {survivors:?}"),
        other => panic!("{other:?}"),
    }
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    assert!(matches!(outcome(&shadow), Some(Outcome::Signal { number: 15, .. })), "{:?}", outcome(&shadow));
    drop(line);
    eventually("all of it is gone", || sandbox.processes().is_empty().then_some(()));
    Ok(())
}

#[test]
fn what_ended_while_no_stream_was_there_is_found_by_the_next() -> Result<()> {
    let sandbox = sandbox();
    let (mut line, _) = sandbox.connect()?;
    let go = sandbox.path().join("go");
    start(&sandbox, &mut line, &format!("echo begun; while ! [ -e {} ]; do sleep 0.01; done; echo done; exit 3", go.display()))?;
    line.kill()?;
    std::fs::write(&go, "")?;
    eventually("the keepers leave", || (!outlast_store::lock::is_held(&sandbox.dir(ID).meta()).ok()?).then_some(()));
    let (mut line, _) = sandbox.connect()?;
    let of = line.ask(SandboxRequest::List)?;
    assert_eq!(line.answer(of)?, SandboxReply::Processes { processes: vec![ID] });
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    assert_eq!((shadow.text().as_str(), outcome(&shadow)), ("begun\ndone\n", Some(Outcome::Code(3))));
    let of = line.ask(SandboxRequest::Remove { process: ID })?;
    assert_eq!(line.answer(of)?, SandboxReply::Ok);
    let of = line.ask(SandboxRequest::List)?;
    assert_eq!(line.answer(of)?, SandboxReply::Processes { processes: Vec::new() });
    let of = line.attach(ID, &Shadow::default(), LOG_WINDOW)?;
    assert!(matches!(line.answer(of)?, SandboxReply::Refused { code, .. } if code == "not_found"));
    Ok(())
}

#[test]
fn a_running_process_is_not_removed() -> Result<()> {
    let sandbox = sandbox();
    let (mut line, _) = sandbox.connect()?;
    start(&sandbox, &mut line, "exec sleep 1000")?;
    let of = line.ask(SandboxRequest::Remove { process: ID })?;
    assert!(matches!(line.answer(of)?, SandboxReply::Refused { code, .. } if code == "still_running"));
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    line.follow(of, &mut shadow, |shadow| shadow.meta.as_ref().is_some_and(|meta| meta.has(flag::STARTED)))?;
    let mut channel = line.dial(ID)?;
    channel.stop(&mut line, soft())?;
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    Ok(())
}

#[test]
fn a_process_whose_keepers_were_killed_is_lost_with_what_it_wrote() -> Result<()> {
    for is_attached in [true, false] {
        let sandbox = sandbox();
        let (mut line, _) = sandbox.connect()?;
        start(&sandbox, &mut line, "echo here; exec sleep 1000")?;
        let mut shadow = Shadow::default();
        let mut of = line.attach(ID, &shadow, LOG_WINDOW)?;
        line.follow(of, &mut shadow, |shadow| shadow.text() == "here\n")?;
        if !is_attached {
            line.kill()?;
        }
        let meta = outlast_store::meta::Snapshot::read(&sandbox.dir(ID))?;
        // Both at once: one alone would replace the other.
        for signal in [rustix::process::Signal::STOP, rustix::process::Signal::KILL] {
            for pid in [meta.pump, meta.holder] {
                rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), signal)?;
            }
        }
        kill_and_wait(meta.cmd)?;
        if !is_attached {
            (line, _) = sandbox.connect()?;
            of = line.attach(ID, &shadow, LOG_WINDOW)?;
        }
        line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
        assert!(shadow.files.journal > 0 && outcome(&shadow).is_none());
        let of = line.ask(SandboxRequest::Remove { process: ID })?;
        assert_eq!(line.answer(of)?, SandboxReply::Ok, "a lost process is over");
    }
    Ok(())
}

#[test]
fn output_that_retention_took_is_skipped_and_the_rest_comes() -> Result<()> {
    let sandbox = sandbox();
    let keep = Keep { head: 1000, segment: 1000, tail: 3000 };
    let request = sandbox.request(ID, "seq 1 5000", |kept, launch| (kept.keep, launch.keep) = (keep, keep))?;
    let (mut line, _) = sandbox.connect()?;
    assert_eq!(line.start(ID, &request)?, SandboxReply::Ok);
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, 0)?;
    eventually("it has ended", || (!outlast_store::lock::is_held(&sandbox.dir(ID).meta()).ok()?).then_some(()));
    line.ask(SandboxRequest::Allow { of, upto: LOG_WINDOW })?;
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    let wanted: String = (1..=5_000).map(|n| format!("{n}\n")).collect();
    let [(from, to)] = shadow.skipped[..] else { panic!("{:?}", shadow.skipped) };
    assert_eq!((shadow.log.len(), from, to % 1000), (wanted.len(), 1000, 0));
    assert!(shadow.log[..1000] == wanted.as_bytes()[..1000] && shadow.log[to as usize..] == wanted.as_bytes()[to as usize..]);
    assert!(wanted.len() as u64 - to >= 3000);
    Ok(())
}

#[test]
fn nonsense_ends_the_stream_and_harms_no_process() -> Result<()> {
    let sandbox = sandbox();
    let (mut first, _) = sandbox.connect()?;
    start(&sandbox, &mut first, "exec sleep 1000")?;
    drop(first);
    let json = |text: &str| [&(text.len() as u32 + 1).to_le_bytes()[..], b"\0", text.as_bytes()].concat();
    let cases = [
        b"\xff\xff\xff\xff".to_vec(),
        b"\x02\0\0\0\x09\x09".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        json("{}"),
        json(r#"{"id":1,"op":"list"}"#),
        json(r#"{"id":1,"op":"levitate"}"#),
        [json(r#"{"id":1,"op":"hello","version":1}"#), json(r#"{"id":2,"op":"start","process":"../../etc","len":1}"#)].concat(),
        [json(r#"{"id":1,"op":"hello","version":1}"#), json(r#"{"id":2,"op":"start","process":"proc_a10000000002","len":99999999999}"#)]
            .concat(),
        [
            json(r#"{"id":1,"op":"hello","version":1}"#),
            json(r#"{"id":2,"op":"start","process":"proc_a10000000002","len":1}"#),
            frame::raw(2, b"longer than that"),
        ]
        .concat(),
    ];
    for bytes in cases {
        let mut line = sandbox.silent()?;
        line.send(&bytes)?;
        // What never becomes a frame is only known as wrong at the end of the stream.
        line.child.stdin.take();
        if bytes.starts_with(b"GET") {
            line.close();
        }
        assert!(line.is_over(), "{:?}", String::from_utf8_lossy(&bytes));
        assert!(!line.child.wait()?.success() || bytes.starts_with(b"GET"), "{:?}", String::from_utf8_lossy(&bytes));
    }
    let (mut line, _) = sandbox.connect()?;
    let mut shadow = Shadow::default();
    let of = line.attach(ID, &shadow, LOG_WINDOW)?;
    let mut channel = line.dial(ID)?;
    assert!(matches!(channel.stop(&mut line, soft())?, KeeperReply::Stopped { .. }));
    line.follow(of, &mut shadow, |shadow| shadow.is_over)?;
    Ok(())
}

#[test]
fn a_hundred_processes_share_one_stream() -> Result<()> {
    let sandbox = sandbox();
    let (mut line, _) = sandbox.connect()?;
    let id = |n: u8| ProcessId::from_bytes([0xa2, 0, 0, 0, 0, n]);
    let mut all = Vec::new();
    for n in 0..100 {
        assert_eq!(line.start(id(n), &sandbox.request(id(n), &format!("seq 1 1000; exit {n}"), |_, _| {})?)?, SandboxReply::Ok);
        all.push((line.attach(id(n), &Shadow::default(), LOG_WINDOW)?, Shadow::default()));
    }
    let wanted: String = (1..=1000).map(|n| format!("{n}\n")).collect();
    for (n, (of, shadow)) in all.iter_mut().enumerate() {
        line.follow(*of, shadow, |shadow| shadow.is_over)?;
        assert!(shadow.text() == wanted, "{n}: {} bytes", shadow.log.len());
        assert_eq!(outcome(shadow), Some(Outcome::Code(n as i32)));
    }
    Ok(())
}
