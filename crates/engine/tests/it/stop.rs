use crate::world::World;
use outlast_client::{Client, Kill, Page, Process, Reason, Scope, Spec, Status};
use outlast_core::{Cause, Owner, Record, Stop, StopWay};
use outlast_store::dir::{Home, ProcessDir};
use outlast_store::journal::Journal;
use outlast_store::meta::Snapshot;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cases_149_and_150_a_kill_says_what_it_did_and_a_second_one_that_it_was_too_late() {
    let world = World::new().await;
    let process = world.sh("echo before; sleep 1000").await;
    let mut seen = process.follow(outlast_client::From::Byte(0));
    seen.next().await.unwrap();
    let killed = process.kill(Kill::default()).await.unwrap();
    assert_eq!((killed.status.as_str(), killed.output.as_deref()), ("killed", Some("before\n")));
    assert_eq!(killed.fate.completion_reason, Some(Reason::Killed));
    assert_eq!(killed.fate.termination_source.as_deref(), Some("process.kill"));
    assert_eq!(killed.fate.signal.as_deref(), Some("SIGTERM"));
    let again = process.kill(Kill::default()).await.unwrap_err();
    assert_eq!((again.status(), again.code()), ("already_exited", "already_exited"));
    assert_eq!(process.poll().await.unwrap().status, Status::Exited);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_151_what_ignores_term_is_dead_after_the_grace_or_at_once_with_none() {
    let world = World::new().await;
    for grace in [100, 0] {
        let process = world.sh("trap '' TERM; echo up; while :; do sleep 0.01; done").await;
        process.follow(outlast_client::From::Byte(0)).next().await.unwrap();
        let killed = process.kill(Kill::within(Duration::from_millis(grace))).await.unwrap();
        assert_eq!(killed.fate.signal.as_deref(), Some("SIGKILL"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_escalate_leaves_it_at_term() {
    let world = World::new().await;
    let process = world.sh("trap 'echo told' TERM; echo up; while :; do sleep 0.01; done").await;
    let mut seen = process.follow(outlast_client::From::Byte(0));
    seen.next().await.unwrap();
    let answer = process.kill(Kill::politely()).await.unwrap();
    assert_eq!(answer.status, "signalled");
    while !process.log(Page::default()).await.unwrap().output.contains("told") {
        seen.next().await.unwrap();
    }
    assert_eq!(process.poll().await.unwrap().status, Status::Running);
    process.signal(9).await.unwrap();
    assert_eq!(process.wait(None).await.unwrap().fate.signal.as_deref(), Some("SIGKILL"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_163_kill_all_of_a_task_leaves_the_others() {
    let world = World::new().await;
    let mut ids = Vec::new();
    for task in ["t1", "t1", "t2"] {
        let mut spec = Spec::shell("sleep 1000");
        spec.owner.task = Some(task.into());
        ids.push(world.run(spec).await.session_id);
    }
    let scope = Scope { task: Some("t1".into()), session: None };
    let killed = world.client.kill_all(&scope, Kill::default()).await.unwrap();
    assert_eq!((killed.killed, killed.failed.len()), (2, 0));
    assert_eq!(world.client.process(ids[0]).poll().await.unwrap().fate.termination_source.as_deref(), Some("kill_all"));
    assert_eq!(world.client.process(ids[2]).poll().await.unwrap().status, Status::Running);
    assert_eq!(world.client.kill_all(&Scope::default(), Kill::default()).await.unwrap().killed, 1);
}

fn dir(world: &World, process: &Process) -> ProcessDir {
    Home::new(std::fs::canonicalize(world.path("home")).unwrap()).process(process.id())
}

/// A command without keepers, once it has said something. Its output has to go elsewhere then, so that it does not die of a broken pipe.
async fn orphan(world: &World, line: &str) -> (Process, Snapshot) {
    let process = world.sh(line).await;
    process.follow(outlast_client::From::Byte(0)).next().await.unwrap();
    let meta = Snapshot::read(&dir(world, &process)).unwrap();
    // Stopped first: neither may see the other die and replace it.
    for signal in [rustix::process::Signal::STOP, rustix::process::Signal::KILL] {
        for pid in [meta.holder, meta.pump] {
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
        }
    }
    while process.poll().await.unwrap().phase != "orphaned" {
        tokio::task::yield_now().await;
    }
    (process, meta)
}

const IGNORES_TERM: &str = "trap '' TERM; echo up; exec >/dev/null 2>&1; while :; do sleep 0.01; done";
/// How long what must happen may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stop_of_an_orphan_continues_without_the_client_that_asked_for_it() {
    let world = World::new().await;
    let (process, _) = orphan(&world, IGNORES_TERM).await;
    let asking = Client::over(world.engine.connect()).await.unwrap();
    let other = asking.process(process.id());
    let journal = dir(&world, &process).journal();
    let is_asked = || {
        let read = outlast_store::journal::read_from(&journal, 0).unwrap();
        read.records.iter().any(|(_, r)| matches!(r, Record::StopAsked { .. }))
    };
    tokio::select! {
        killed = other.kill(Kill::within(Duration::from_secs(1))) => panic!("{killed:?}"),
        () = async { while !is_asked() { tokio::task::yield_now().await } } => {}
    }
    drop((asking, other));
    let end = tokio::time::timeout(LONG, process.wait(None)).await.expect("the stop was given up").unwrap();
    assert_eq!(end.fate.completion_reason, Some(Reason::Killed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stop_of_an_orphan_is_finished_by_the_next_engine() {
    let mut world = World::new().await;
    let (process, _) = orphan(&world, IGNORES_TERM).await;
    // As an engine leaves it that dies between the record and the first signal.
    let way = StopWay::Escalate { grace: Duration::from_millis(10) };
    let stop = Stop { cause: Cause::Asked { by: Owner::default(), source: "process.kill".into() }, way };
    let mut journal = Journal::open_for_append(&dir(&world, &process)).unwrap();
    journal.append(&Record::StopAsked { at: outlast_store::os::now(), stop }).unwrap();
    drop(journal);
    world.restart(|_| {}).await;
    let end =
        tokio::time::timeout(LONG, world.client.process(process.id()).wait(None)).await.expect("no engine continued the stop").unwrap();
    assert_eq!(end.fate.completion_reason, Some(Reason::Killed));
    assert_eq!(end.fate.termination_source.as_deref(), Some("process.kill"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_keepers_were_both_killed_is_orphaned_and_can_be_stopped() {
    let world = World::new().await;
    let (process, meta) = orphan(&world, "sleep 1000 >/dev/null 2>&1 & echo up; exec >/dev/null 2>&1; wait").await;
    let info = process.poll().await.unwrap();
    assert_eq!((info.status, info.pid), (Status::Running, Some(meta.cmd)));
    let killed = process.kill(Kill::default()).await.unwrap();
    assert_eq!((killed.fate.exit_code, killed.fate.completion_reason), (Some(None), Some(Reason::Killed)));
    assert!(killed.seen_dead >= Some(2), "{killed:?}");
    assert_eq!(process.poll().await.unwrap().status, Status::Exited);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_survive_the_death_of_a_pump() {
    let world = World::new().await;
    let info = world.run(Spec::shell("cat").with_input()).await;
    let process = world.client.process(info.session_id);
    let home = outlast_store::dir::Home::new(std::fs::canonicalize(world.path("home")).unwrap());
    let dir = home.process(process.id());
    for n in 0..10 {
        let pump = outlast_store::meta::Snapshot::read(&dir).unwrap().pump;
        let line = format!("line {n}\n");
        let kill =
            async { rustix::process::kill_process(rustix::process::Pid::from_raw(pump as i32).unwrap(), rustix::process::Signal::KILL) };
        let (killed, written) = tokio::join!(kill, process.write(line.as_bytes(), outlast_client::At::End));
        killed.unwrap();
        assert_eq!(written.unwrap().bytes_written, Some(line.len() as u64));
        // The pair is whole again before the next blow.
        while outlast_store::meta::Snapshot::read(&dir).is_ok_and(|m| m.pump == pump || m.pump == 0) {
            tokio::task::yield_now().await;
        }
    }
    process.close().await.unwrap();
    let end = process.wait(None).await.unwrap();
    let wanted: String = (0..10).map(|n| format!("line {n}\n")).collect();
    assert_eq!((end.fate.exit_code, end.output), (Some(Some(0)), wanted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keepers_whose_sockets_were_taken_away_are_found_again() {
    let world = World::new().await;
    let process = world.sh("sleep 1000").await;
    let socket = std::fs::read_link(world.path("home/run")).unwrap().join(process.id().to_string());
    std::fs::remove_file(&socket).unwrap();
    process.signal(rustix::process::Signal::CONT.as_raw()).await.unwrap();
    assert!(socket.exists(), "the pump listens again");
    std::fs::remove_file(&socket).unwrap();
    process.kill(Kill::default()).await.unwrap();
}
