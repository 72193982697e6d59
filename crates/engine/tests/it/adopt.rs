use crate::world::World;
use outlast_client::{AdoptFrom, Reason, Scope, Status};
use std::process::{Child, Command};

fn sleeper() -> Child {
    Command::new("sleep").arg("1000").spawn().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_adopted_process_is_listed_stopped_and_survives_a_restart() {
    let mut world = World::new().await;
    let mut child = sleeper();
    let pid = child.id();
    let adopted = world.client.adopt(AdoptFrom::Pid { pid }).await.unwrap();
    let info = &adopted.adopted[0];
    assert!(info.detached && info.status == Status::Running && info.pid == Some(pid));
    assert_eq!(info.note.as_deref(), Some("Process recovered after restart -- output history unavailable"));
    let again = world.client.adopt(AdoptFrom::Pid { pid }).await.unwrap();
    assert_eq!(again.adopted[0].session_id, info.session_id, "case 209");
    world.restart(|_| {}).await;
    assert_eq!(world.client.list(&Scope::default(), true).await.unwrap().len(), 1);
    // Whoever started it still has to reap it; to everybody else a zombie is dead.
    let id = info.session_id;
    let killed = world.client.process(id).kill(Default::default()).await.unwrap();
    assert_eq!((killed.fate.completion_reason, killed.fate.exit_code), (Some(Reason::Killed), Some(None)));
    child.wait().unwrap();
    assert_eq!(world.client.process(id).poll().await.unwrap().status, Status::Exited);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_199_an_adopted_process_that_ends_is_lost_with_no_code() {
    let world = World::new().await;
    let mut child = sleeper();
    let adopted = world.client.adopt(AdoptFrom::Pid { pid: child.id() }).await.unwrap();
    let process = world.client.process(adopted.adopted[0].session_id);
    child.kill().unwrap();
    child.wait().unwrap();
    let end = process.wait(None).await.unwrap();
    assert_eq!((end.fate.completion_reason, end.fate.exit_code), (Some(Reason::Lost), Some(None)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_part_of_a_known_process_is_not_taken_in() {
    let world = World::new().await;
    // One that carries the name and one that only descends.
    let process = world.sh("sleep 1000 & echo $!; env -u OUTLAST_PROCESS_ID sleep 1000 & echo $!; wait").await;
    let pids = loop {
        let output = process.log(Default::default()).await.unwrap().output;
        let pids: Vec<u32> = output.lines().filter_map(|l| l.parse().ok()).collect();
        // Its environment is the shell's until it has become `sleep`.
        let sleeps = |pid: &u32| std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"sleep\n");
        if pids.len() == 2 && pids.iter().all(sleeps) {
            break pids;
        }
        tokio::task::yield_now().await;
    };
    for (pid, why) in pids.into_iter().zip(["its environment says so", "it descends from it"]) {
        let own = world.client.adopt(AdoptFrom::Pid { pid }).await.unwrap_err();
        assert_eq!((own.code(), own.to_string()), ("not_that_process", format!("pid {pid} belongs to {}: {why}", process.id())));
        let other = world.session("other").adopt(AdoptFrom::Pid { pid }).await.unwrap_err();
        assert_eq!(other.to_string(), format!("pid {pid} belongs to a process of another session: {why}"));
    }
    process.kill(Default::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_is_taken_in_as_far_as_it_is_true() {
    let world = World::new().await;
    let mut child = sleeper();
    let ticks = outlast_store::os::start_ticks(child.id()).unwrap();
    let text = serde_json::json!([
        {"session_id": "proc_abcdef012345", "command": "sleep 1000", "pid": child.id(), "host_start_time": ticks, "session_key": "s",
         "started_at": 1700000000.0, "cwd": "/tmp"},
        {"session_id": "proc_abcdef012346", "command": "other", "pid": child.id(), "host_start_time": ticks + 1},
        {"pid": 1}, {"pid": std::process::id()}, "nonsense",
    ]);
    let adopted = world.client.adopt(AdoptFrom::Checkpoint { text: text.to_string() }).await.unwrap();
    assert_eq!((adopted.adopted.len(), adopted.skipped.len()), (1, 4), "{:?}", adopted.skipped);
    let info = &adopted.adopted[0];
    assert_eq!((info.session_id.to_string().as_str(), info.session_key.as_deref()), ("proc_abcdef012345", Some("s")));
    assert_eq!(info.started_at.to_string(), "2023-11-14T22:13:20.000000Z");
    assert_eq!(world.session("other").list(&Scope::default(), true).await.unwrap().len(), 0);
    child.kill().unwrap();
    child.wait().unwrap();
}
