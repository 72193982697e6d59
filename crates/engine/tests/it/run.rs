use crate::world::{World, config};
use outlast_client::{Client, Page, Reason, Run, Scope, Spec, Status, caller};
use outlast_engine::{Clock, Engine};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_1_a_process_is_listed_as_running_at_once() {
    let world = World::new().await;
    let info = world.run(Spec::shell("echo out; echo err >&2; read x; exit 3")).await;
    assert!(info.pid.is_some());
    // Case 3: input is at its end from the start, so the read fails at once and the exit is ours.
    let end = world.client.process(info.session_id).wait(None).await.unwrap();
    assert_eq!((end.status.as_str(), end.fate.exit_code, end.output.as_str()), ("exited", Some(Some(3)), "out\nerr\n"));
    let all = world.client.list(&Scope::default(), true).await.unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].status, Status::Exited);
    assert!(world.client.list(&Scope::default(), false).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_not_there_is_a_process_that_failed_to_start() {
    let world = World::new().await;
    for (spec, code) in [(Spec::argv(["no-such-program"]), 127), (Spec::argv(["/etc/passwd"]), 126)] {
        let info = world.run(spec).await;
        assert_eq!((info.phase.as_str(), info.fate.start_code, info.fate.exit_code), ("failed_start", Some(code), Some(None)));
        assert_eq!(info.fate.completion_reason, Some(Reason::FailedStart));
        let again = world.client.poll(&info.session_id.to_string()).await.unwrap();
        assert_eq!(again.fate, info.fate, "it stays listed");
    }
    let status = world.client.engine_status().await.unwrap();
    assert_eq!((status.running, status.known), (0, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_id_starts_once_and_another_command_is_refused() {
    let world = World::new().await;
    let id = "proc_00000000abcd".parse().unwrap();
    let mark = world.path("mark");
    let line = format!("echo x >> {}; echo up; sleep 1000", mark.display());
    let run = || Run::new(Spec::shell(line.clone()), world.caller()).with_id(id);
    let both = tokio::join!(world.client.run_info(run()), world.client.run_info(run()));
    let (first, second) = (both.0.unwrap(), both.1.unwrap());
    assert_eq!((first.session_id, first.pid), (second.session_id, second.pid));
    let third = world.client.run_info(run()).await.unwrap();
    assert_eq!(third.pid, first.pid);
    let other = Run::new(Spec::shell("true"), world.caller()).with_id(id);
    assert_eq!(world.client.run_info(other).await.unwrap_err().code(), "id_taken");
    world.client.process(id).follow(outlast_client::From::Byte(0)).next().await.unwrap();
    world.client.process(id).kill(Default::default()).await.unwrap();
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "x\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_7_a_directory_that_is_gone_is_refused() {
    let world = World::new().await;
    let mut spec = Spec::shell("pwd");
    spec.cwd = Some(world.path("gone/deeper").as_path().into());
    let refused = world.try_run(spec).await.unwrap_err();
    assert_eq!(refused.code(), "bad_spec");
    assert!(refused.to_string().contains("does not exist") && refused.hint().contains(world.tmp.path().to_str().unwrap()), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_11_too_many_are_refused() {
    let world = World::with(|c| c.max_running = 2).await;
    let first = world.sh("sleep 1000").await;
    world.sh("sleep 1000").await;
    let refused = world.try_run(Spec::shell("true")).await.unwrap_err();
    assert_eq!(refused.code(), "too_many_running");
    first.kill(Default::default()).await.unwrap();
    world.run(Spec::shell("true")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_engine_harms_no_process() {
    let mut world = World::new().await;
    let ends_meanwhile = world.sh("sleep 0.3; echo done; exit 7").await.id();
    let goes_on = world.run(Spec::shell("read x; echo got $x").with_input()).await.session_id;
    world.restart(|_| {}).await;
    assert_eq!(world.client.process(goes_on).poll().await.unwrap().status, Status::Running);
    let end = world.client.process(ends_meanwhile).wait(None).await.unwrap();
    assert_eq!((end.fate.exit_code, end.output.as_str()), (Some(Some(7)), "done\n"));
    world.client.process(goes_on).write(b"it\n", outlast_client::At::End).await.unwrap();
    let end = world.client.process(goes_on).wait(None).await.unwrap();
    assert_eq!(end.output, "got it\n");
    let status = world.client.engine_status().await.unwrap();
    assert_eq!(status.known, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_stop_kill_ends_with_the_engine_and_nothing_else_does() {
    let mut world = World::new().await;
    let stays = world.sh("sleep 1000").await.id();
    let mut spec = Spec::shell("sleep 1000");
    spec.on_stop = outlast_client::OnStop::Kill;
    let goes = world.run(spec).await.session_id;
    world.restart(|_| {}).await;
    assert_eq!(world.client.process(stays).poll().await.unwrap().status, Status::Running);
    let gone = world.client.process(goes).poll().await.unwrap();
    assert_eq!((gone.status, gone.fate.termination_source.as_deref()), (Status::Exited, Some("engine.stop")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rerun_takes_the_same_command_and_asks_for_what_was_scrubbed() {
    let world = World::new().await;
    let mut spec = Spec::shell("echo $MODE $API_TOKEN");
    let variable = |name: &str, value: &str| outlast_client::EnvVar { name: name.into(), value: value.into() };
    spec.env = vec![variable("MODE", "fast"), variable("API_TOKEN", "hunter2hunter2")];
    let first = world.run(spec).await.session_id.to_string();
    let refused = world.client.rerun(&first, world.caller(), vec![]).await.unwrap_err();
    assert_eq!(refused.code(), "scrubbed");
    assert!(refused.to_string().contains("API_TOKEN"), "{refused}");
    let again = world.client.rerun(&first, world.caller(), vec![variable("API_TOKEN", "other")]).await.unwrap();
    let end = world.client.process(again.session_id).wait(None).await.unwrap();
    assert_eq!(end.output, "fast other\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_and_cleaned_processes_are_gone_for_good() {
    let mut world = World::new().await;
    let runs = world.sh("sleep 1000").await;
    assert_eq!(world.client.remove(&runs.id().to_string()).await.unwrap_err().code(), "still_running");
    let mut done = Vec::new();
    for _ in 0..3 {
        let process = world.sh("echo x").await;
        process.wait(None).await.unwrap();
        done.push(process.id().to_string());
    }
    world.client.remove(&done[0]).await.unwrap();
    assert_eq!(world.client.poll(&done[0]).await.unwrap_err().status(), "not_found");
    let cleaned = world.client.clean(&Scope::default()).await.unwrap();
    assert_eq!(cleaned.removed, 2);
    assert!(cleaned.freed_bytes > 0);
    world.restart(|_| {}).await;
    assert_eq!(world.client.list(&Scope::default(), true).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finished_ones_are_pruned_by_age_and_size_and_running_ones_never() {
    let mut world = World::new().await;
    let runs = world.sh("sleep 1000").await.id();
    for _ in 0..3 {
        world.sh("echo x").await.wait(None).await.unwrap();
    }
    world.restart(|c| c.keep_bytes = 0).await;
    let left = world.client.list(&Scope::default(), true).await.unwrap();
    assert_eq!(left.iter().map(|p| p.session_id).collect::<Vec<_>>(), [runs]);
    // And from then on as soon as one ends.
    let process = world.sh("echo x").await;
    let _seen_or_gone = process.wait(Some(Duration::from_secs(60))).await;
    world.restart(|c| c.keep_for = Duration::ZERO).await;
    assert_eq!(world.client.list(&Scope::default(), true).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_index_is_rebuilt_without_losing_a_process() {
    let mut world = World::new().await;
    let done = world.sh("echo x; exit 4").await;
    done.wait(None).await.unwrap();
    let runs = world.sh("echo y; sleep 1000").await.id();
    world.engine.stop().await;
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _absent = std::fs::remove_file(world.path("home").join(name));
    }
    world.restart(|_| {}).await;
    assert_eq!(world.client.process(done.id()).poll().await.unwrap().fate.exit_code, Some(Some(4)));
    assert_eq!(world.client.process(runs).poll().await.unwrap().status, Status::Running);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_engine_on_the_same_home_is_told_so() {
    let world = World::new().await;
    let user = outlast_engine::UserInfo::new("x", "/", "/bin/sh");
    let keeper = outlast_engine::KeeperProgram::Binary("/bin/true".into());
    let config = outlast_engine::Config::new(world.path("home"), "/bin/false", keeper, user);
    let second = outlast_engine::Engine::start(config).await;
    assert!(matches!(second, Err(outlast_engine::ServeError::Taken { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_with_nothing_to_do_leaves_and_one_with_something_stays() {
    let tmp = tempfile::tempdir().unwrap();
    let mut config = config(&tmp);
    config.idle_exit = Duration::from_millis(20);
    let engine = Engine::start(config).await.unwrap();
    let client = Client::over(engine.connect()).await.unwrap();
    let here = caller([("PATH".into(), "/usr/bin:/bin".into())], tmp.path());
    let process = client.run(Run::new(Spec::shell("while [ ! -e gate ]; do sleep 0.01; done"), here)).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), engine.stopped()).await.is_err(), "a client is connected");
    drop((client, process));
    assert!(tokio::time::timeout(Duration::from_millis(100), engine.stopped()).await.is_err(), "something runs");
    std::fs::write(tmp.path().join("gate"), "").unwrap();
    tokio::time::timeout(Duration::from_secs(60), engine.stopped()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_whose_owner_panicked_leaves_and_the_next_one_has_the_home() {
    let tmp = tempfile::tempdir().unwrap();
    let mut broken = config(&tmp);
    // The owner of the table alone asks how much time has passed.
    broken.clock = Clock::with_elapsed(outlast_store::os::now, || panic!("on purpose"));
    let engine = Engine::start(broken).await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), engine.stopped()).await.unwrap();
    let next = Engine::start(config(&tmp)).await.unwrap();
    let client = Client::over(next.connect()).await.unwrap();
    assert!(client.list(&Scope::default(), true).await.unwrap().is_empty());
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_masked_in_what_readers_see_and_in_what_is_kept() {
    let world = World::new().await;
    let token = ["gh", "p_", &"a1B2".repeat(9)].concat();
    let process = world.sh(&format!("echo the token is {token}")).await;
    process.wait(None).await.unwrap();
    let poll = process.poll().await.unwrap();
    let page = process.log(Page::default()).await.unwrap();
    for text in [&poll.command, poll.output_preview.as_ref().unwrap(), &page.output, &page.command] {
        assert!(!text.contains(&token), "{text}");
    }
    world.engine.stop().await;
    let dir = world.path("home/proc").join(process.id().to_string());
    assert!(!std::fs::read(dir.join("spec")).unwrap().windows(token.len()).any(|w| w == token.as_bytes()));
    let index = std::fs::read(world.path("home/index.db")).unwrap();
    assert!(!index.windows(token.len()).any(|w| w == token.as_bytes()));
}

#[test]
fn an_engine_whose_socket_directory_was_taken_away_opens_another() {
    let tmp = tempfile::tempdir().unwrap();
    let mut config = config(&tmp);
    let (first, second) = (tmp.path().join("a"), tmp.path().join("b"));
    for dir in [&first, &second] {
        std::fs::create_dir(dir).unwrap();
    }
    config.run_candidates = vec![first.clone(), second.clone()];
    let home = config.home.clone();
    let (tell, ready) = std::sync::mpsc::channel();
    let engine = std::thread::spawn(move || outlast_engine::serve(config, |_| {}, move || tell.send(()).unwrap()));
    ready.recv().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let connect =
        || runtime.block_on(async { Client::over(tokio::net::UnixStream::connect(home.join("run/engine")).await.unwrap()).await });
    let before = connect().unwrap();
    // As a logout does with the user's runtime directory. The engine may be quicker to make its socket again than we to remove the
    // directory.
    while std::fs::remove_dir_all(&first).is_err() {}
    while !std::fs::read_link(home.join("run")).unwrap().starts_with(&second) || !home.join("run/engine").exists() {
        std::thread::yield_now();
    }
    let after = connect().unwrap();
    let (a, b) = runtime.block_on(async { (before.engine_status().await.unwrap(), after.engine_status().await.unwrap()) });
    assert_eq!(a.started_at, b.started_at, "it is the same engine");
    runtime.block_on(after.engine_stop()).unwrap();
    drop((before, after));
    engine.join().unwrap().unwrap();
    assert!(!home.join("run/engine").exists(), "nothing is left");
}
