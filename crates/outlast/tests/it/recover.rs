//! What is known after a crash, and after damage. Nothing is forgotten, and nothing is made up.

use crate::support::*;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Fails if `text` is in any file below `dir`.
pub(crate) fn assert_nowhere(dir: &Path, text: &str) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            assert_nowhere(&path, text);
        } else if kind.is_file() {
            let found = std::fs::read(&path).unwrap().windows(text.len()).any(|w| w == text.as_bytes());
            assert!(!found, "{text} is in {}", path.display());
        }
    }
}

fn ids(p: &Product) -> Vec<String> {
    let listed = p.json(["list", "--all"]);
    let mut all: Vec<_> = listed["processes"].as_array().unwrap().iter().map(|e| e["session_id"].as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

/// What `doctor` and `engine status` say is not as it should be.
fn degraded(p: &Product) -> String {
    p.engine();
    p.json(["engine", "status"])["degraded"].to_string()
}

#[test]
fn case_203_a_crash_right_after_the_start_forgets_nothing_of_the_request() {
    let p = product();
    let flags = ["--session", "s", "--task", "t", "--generation", "g", "--name", "n", "--on-stop", "kill", "--timeout", "500", "--stdin"];
    let id = p.run_with(&flags, "read line; echo $line; exit 6");
    let before = p.json(["poll", &id]);
    p.kill_engine();
    let after = p.json(["poll", &id]);
    for field in ["session_key", "task_id", "name", "command", "cwd", "started_at", "pid", "takes_input", "status", "phase"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    p.call(["submit", &id, "still heard"]).good();
    let ended = p.wait(&id);
    assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(6), Some("still heard\n")), "{ended}");
}

#[test]
fn case_203_a_process_that_is_to_stop_with_the_engine_does_so_after_a_crash_too() {
    let p = product();
    let [dies, stays] = [&["--on-stop", "kill"][..], &[]].map(|flags| p.run_with(flags, "exec sleep 1000"));
    p.kill_engine();
    // The next one is told to end, and knows nothing but what lies on disk.
    p.engine();
    p.call(["engine", "stop"]).good();
    let polled = p.json(["poll", &dies]);
    assert_eq!(
        (polled["completion_reason"].as_str(), polled["termination_source"].as_str()),
        (Some("killed"), Some("engine.stop")),
        "{polled}"
    );
    assert_eq!(p.json(["poll", &stays])["status"], "running");
}

#[test]
fn case_206_a_start_leaves_other_processes_alone() {
    let p = product();
    let starters: Vec<_> = (0..6)
        .map(|n| {
            let mut command = p.command(["run", "--json", "--task", &format!("t{n}"), "--", "exec sleep 1000"]);
            command.stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut started: Vec<String> = starters
        .into_iter()
        .map(|s| Answer::from(s.wait_with_output().unwrap()).json()["session_id"].as_str().expect("it started").to_owned())
        .collect();
    started.sort();
    assert_eq!(ids(&p), started);
    p.kill_engine();
    assert_eq!(ids(&p), started);
}

#[test]
fn case_209_engine_after_engine_finds_each_process_once() {
    let p = product();
    let running = p.run("exec sleep 1000");
    let over = p.run("exit 1");
    p.wait(&over);
    let mut all = [running.clone(), over];
    all.sort();
    for _ in 0..3 {
        p.kill_engine();
        assert_eq!(ids(&p), all);
    }
    assert_eq!(p.json(["engine", "status"])["running"], 1);
    assert_eq!(p.json(["kill", "--all"])["killed"], 1);
}

#[test]
fn case_210_a_secret_is_not_on_disk_once_the_command_runs() {
    let p = product();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let id = p.run_with(&["--env", &format!("GITHUB_TOKEN={secret}")], &format!(": {secret}; exec sleep 1000"));
    assert_nowhere(&p.home().root, secret);
    p.kill_engine();
    p.json(["poll", &id]);
    assert_nowhere(&p.home().root, secret);
    p.json(["kill", &id]);
    assert_nowhere(&p.home().root, secret);
}

#[test]
fn case_210_who_is_told_that_it_runs_finds_no_secret_though_the_pump_is_slow() {
    let p = product();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    p.points().arm("pump.started").unwrap();
    let id = p.run_with(&["--env", &format!("GITHUB_TOKEN={secret}")], &format!(": {secret}; exec sleep 1000"));
    eventually("the pump", || p.points().held("pump.started"));
    assert_nowhere(&p.home().root, secret);
    p.points().release("pump.started").unwrap();
    p.json(["kill", &id]);
}

#[test]
fn case_210_what_is_said_to_run_has_no_secret_though_the_holder_dies_between_the_two() {
    let p = &product();
    let (id, secret) = ("proc_210210210210", "ghp_0123456789abcdefghijABCDEFGHIJ012345");
    p.points().arm("holder.scrubbed").unwrap();
    p.points().arm("pump.started").unwrap();
    std::thread::scope(|scope| {
        let line = format!(": {secret}; exec sleep 1000");
        let run = scope.spawn(move || p.run_with(&["--id", id, "--env", &format!("GITHUB_TOKEN={secret}")], &line));
        kill_and_wait(eventually("the holder", || p.points().held("holder.scrubbed"))).unwrap();
        // The pump has seen that its partner is gone, which is news, and has yet to cut off what the partner may have left.
        eventually("the pump", || p.points().held("pump.started"));
        assert_eq!(p.json(["poll", id])["phase"], "starting");
        p.points().release("holder.scrubbed").unwrap();
        p.points().release("pump.started").unwrap();
        run.join().unwrap();
        assert_nowhere(&p.home().root, secret);
    });
    p.json(["kill", id]);
}

/// A process that ended with code 3 and one that runs; no engine.
fn one_over_and_one_running(p: &Product) -> (String, String) {
    let over = p.run("echo printed; exit 3");
    p.wait(&over);
    let running = p.run("echo printed; touch ready; while [ ! -e gate ]; do sleep 0.01; done; echo more; exit 5");
    eventually("the first line", || p.work().join("ready").exists().then_some(()));
    p.kill_engine();
    (over, running)
}

/// Without a valid index, the folders contain the same facts as before.
fn all_is_known(p: &Product, over: &str, running: &str) {
    let mut both = [over.to_owned(), running.to_owned()];
    both.sort();
    assert_eq!(ids(p), both);
    let polled = p.json(["poll", over]);
    assert_eq!((polled["exit_code"].as_i64(), polled["output_preview"].as_str()), (Some(3), Some("printed\n")), "{polled}");
    assert_eq!(p.json(["poll", running])["phase"], "running");
}

#[test]
fn an_index_that_is_deleted_is_made_again_from_the_folders() {
    let p = product();
    let (over, running) = one_over_and_one_running(&p);
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _never_made = std::fs::remove_file(p.home().root.join(name));
    }
    all_is_known(&p, &over, &running);
    let told = p.call(["doctor", "--quick"]).text();
    assert!(told.contains("the index was gone") && told.contains("barriers"), "{told}");
    std::fs::write(p.work().join("gate"), "").unwrap();
    assert_eq!(p.wait(&running)["exit_code"], 5);
}

#[test]
fn an_index_that_is_damaged_is_set_aside_told_and_made_again() {
    let p = product();
    let (over, running) = one_over_and_one_running(&p);
    // An engine that ends well leaves everything in the one file.
    p.engine();
    p.call(["engine", "stop"]).good();
    let index = p.home().index();
    let whole = std::fs::read(&index).unwrap();
    let cut = |at: usize| whole[..at].to_vec();
    let mut spoilt = whole.clone();
    for byte in &mut spoilt[4096..] {
        *byte ^= 0x55;
    }
    let damage = [
        ("in its head", cut(50)),
        ("in its first page", cut(2000)),
        ("at a page", cut(4096)),
        // The very last is of an index with nothing in it.
        ("in its last pages", cut(whole.len() - 4096 - 100)),
        ("garbage", vec![0xa5; 9000]),
        ("spoilt pages", spoilt),
    ];
    for (how, bytes) in damage {
        std::fs::write(&index, &bytes).unwrap();
        all_is_known(&p, &over, &running);
        assert!(degraded(&p).contains("the index was damaged"), "{how}: {}", degraded(&p));
        let doctor = p.json(["doctor", "--quick"]).to_string();
        assert!(doctor.contains("the index was damaged"), "{how}: {doctor}");
        p.call(["engine", "stop"]).good();
    }
    // One that was cut to nothing is as good as none.
    std::fs::write(&index, b"").unwrap();
    all_is_known(&p, &over, &running);
    p.json(["kill", "--all"]);
}

#[test]
fn an_index_whose_log_is_torn_loses_nothing() {
    let p = product();
    let (over, running) = one_over_and_one_running(&p);
    let log = p.home().root.join("index.db-wal");
    if let Ok(bytes) = std::fs::read(&log) {
        std::fs::write(&log, &bytes[..bytes.len() * 2 / 3]).unwrap();
    }
    all_is_known(&p, &over, &running);
    p.json(["kill", "--all"]);
}

/// An end that was recorded, and an index that has yet to hear of it; no engine.
fn ended_unheard(p: &Product) -> String {
    let id = p.run("echo printed; touch ready; while [ ! -e gate ]; do sleep 0.01; done; exit 3");
    eventually("the first line", || p.work().join("ready").exists().then_some(()));
    let meta = p.meta(&id);
    p.kill_engine();
    std::fs::write(p.work().join("gate"), "").unwrap();
    for pid in [meta.pump, meta.holder] {
        assert!(wait_for_end(pid, PATIENCE));
    }
    p.kill_engine();
    id
}

#[test]
fn a_meta_that_was_cut_is_told_and_nothing_is_invented() {
    for keep in [0_u64, 40, 1024, 4095] {
        let p = product();
        let id = ended_unheard(&p);
        let whole = p.run("exit 0");
        p.wait(&whole);
        p.kill_engine();
        for name in ["index.db", "index.db-wal", "index.db-shm"] {
            let _never_made = std::fs::remove_file(p.home().root.join(name));
        }
        std::fs::File::options().write(true).open(p.folder(&id).meta()).unwrap().set_len(keep).unwrap();
        let polled = eventually("a word on it", || Some(p.json(["poll", &id])).filter(|v| v["status"] != "running"));
        assert_ne!(polled["exit_code"], 3, "what was cut off cannot be known: {polled}");
        assert_ne!(polled["exit_code"], 0, "and is not made up: {polled}");
        let told = format!("{polled} {}", degraded(&p));
        assert!(told.contains("meta"), "cut to {keep}: {told}");
        assert_eq!(p.json(["poll", &whole])["exit_code"], 0, "the others are well");
        assert_eq!(p.call(["log", &id, "--raw"]).text(), "printed\n", "cut to {keep}: what was printed is still there");
    }
}

#[test]
fn a_record_of_the_end_that_was_spoilt_is_told_and_not_believed() {
    let p = product();
    let id = ended_unheard(&p);
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _never_made = std::fs::remove_file(p.home().root.join(name));
    }
    let meta = p.folder(&id).meta();
    let mut bytes = std::fs::read(&meta).unwrap();
    bytes[3072 + 40] ^= 0x20;
    std::fs::write(&meta, bytes).unwrap();
    let polled = eventually("a word on it", || Some(p.json(["poll", &id])).filter(|v| v["status"] == "exited"));
    assert_eq!((polled["phase"].as_str(), polled.get("exit_code")), (Some("lost"), Some(&Value::Null)), "{polled}");
    assert!(polled["warnings"].to_string().contains("damaged"), "{polled}");
}

#[test]
fn a_journal_of_garbage_is_reported_and_harms_no_process() {
    let p = product();
    let id = ended_unheard(&p);
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _never_made = std::fs::remove_file(p.home().root.join(name));
    }
    std::fs::write(p.folder(&id).journal(), [0xff; 300]).unwrap();
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["exit_code"].as_i64(), polled["output_preview"].as_str()), (Some(3), Some("printed\n")), "{polled}");
    assert!(polled["warnings"].to_string().contains("journal"), "{polled}");
    assert_eq!(ids(&p), [id]);
}

#[test]
fn a_request_that_is_damaged_is_told_by_name() {
    let p = product();
    let id = ended_unheard(&p);
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _never_made = std::fs::remove_file(p.home().root.join(name));
    }
    std::fs::write(p.folder(&id).spec(), b"garbage").unwrap();
    assert_eq!(ids(&p), [""; 0]);
    assert!(degraded(&p).contains(&id), "{}", degraded(&p));
    assert!(p.folder(&id).meta().exists(), "what cannot be read is not thrown away");
}

#[test]
fn a_segment_that_was_cut_is_a_gap_with_its_range() {
    let p = product();
    let id = p.run("head -c 3000000 /dev/zero | tr '\\0' x; echo end");
    p.wait(&id);
    let folder = p.folder(&id).path;
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|e| (e.metadata().unwrap().len(), e.path())).collect();
    files.sort();
    let (len, largest) = files.pop().unwrap();
    std::fs::File::options().write(true).open(&largest).unwrap().set_len(len - 1000).unwrap();
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["exit_code"].as_i64(), polled["output_bytes"].as_u64()), (Some(0), Some(3_000_004)), "{polled}");
    assert_eq!(polled["gaps"].as_array().map(Vec::len), Some(1), "{polled}");
    let gap = &polled["gaps"][0];
    assert_eq!((gap["to"].as_u64().unwrap() - gap["from"].as_u64().unwrap(), gap["why"].as_str()), (1000, Some("lost")), "{polled}");
    let kept = p.call(["log", "--raw", &id]);
    assert_eq!(kept.out.len(), 3_000_004 - 1000);
    assert!(kept.err.contains("1000") || kept.err.contains("missing") || kept.err.contains("gap"), "the gap is told: {:?}", kept.err);
}

#[test]
fn a_folder_that_was_removed_by_hand_is_told_as_lost() {
    let p = product();
    let (over, running) = one_over_and_one_running(&p);
    std::fs::remove_dir_all(p.folder(&over).path).unwrap();
    assert_eq!(ids(&p), [running.as_str()]);
    assert_eq!(p.json(["poll", &over])["status"], "not_found");
    p.json(["kill", "--all"]);
}

#[test]
fn a_copied_home_gets_an_engine_of_its_own_and_leaves_the_original_alone() {
    let (p, copy) = (product(), product());
    let id = p.run("touch ready; while [ ! -e gate ]; do sleep 0.01; done; echo more; exit 5");
    eventually("it runs", || p.work().join("ready").exists().then_some(()));
    let (engine, sockets) = (p.engine(), p.socket_dir().unwrap());
    let socket = std::fs::symlink_metadata(sockets.join(&id)).unwrap().ino();
    let copied = std::process::Command::new("cp").arg("-a").args([p.home().root, copy.home().root]).status().unwrap();
    assert!(copied.success());
    assert_eq!(copy.socket_dir().as_ref(), Some(&sockets), "the link is copied as it is");
    assert_eq!(ids(&copy), [&*id]);
    assert_ne!(copy.engine(), engine);
    assert_ne!(copy.socket_dir().unwrap(), sockets);
    // What runs is the original's, and nothing that is asked of the copy reaches it.
    let polled = copy.json(["poll", &id]);
    assert_eq!(polled["phase"], "lost", "{polled}");
    copy.json(["kill", &id, "--grace", "0"]);
    copy.call(["engine", "stop"]).good();
    assert_eq!(std::fs::symlink_metadata(sockets.join(&id)).unwrap().ino(), socket);
    assert_eq!(p.engine(), engine);
    assert_eq!(p.json(["poll", &id])["phase"], "running");
    std::fs::write(p.work().join("gate"), "").unwrap();
    assert_eq!(p.wait(&id)["exit_code"], 5);
}

/// Two processes of a session that ended while no engine ran: the next engine finds both at once.
fn two_that_ended_unseen(p: &Product, before_they_end: impl FnOnce(&[String; 2])) -> [String; 2] {
    let go = p.work().join("go");
    let line = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    let both = ["one", "two"].map(|name| p.run_with(&["--session", "s", "--notify", "--name", name], &line));
    before_they_end(&both);
    p.kill_engine();
    let start = std::fs::File::options().write(true).create(true).truncate(false).open(p.home().start_lock()).unwrap();
    rustix::fs::flock(&start, rustix::fs::FlockOperation::LockExclusive).unwrap();
    std::fs::write(&go, "").unwrap();
    eventually("both are over", || both.iter().all(|id| p.meta(id).ended.is_some()).then_some(()));
    both
}

/// The processes whose ends were delivered to a session, in order.
fn ends_told(p: &Product) -> Vec<String> {
    let drained = p.json(["events", "drain", "--session", "s"]);
    let mut told: Vec<String> =
        drained["events"].as_array().unwrap().iter().map(|e| e["event"]["session_id"].as_str().unwrap().to_owned()).collect();
    told.sort();
    told
}

#[test]
fn a_panic_over_one_process_at_the_start_costs_no_other_its_news() {
    let p = product();
    let point = |bad: &str| format!("news.of.{bad}");
    let [bad, good] = two_that_ended_unseen(&p, |[bad, _]| p.points().panics(&point(bad), true).unwrap());
    assert_eq!(ends_told(&p), [good]);
    assert!(degraded(&p).contains(&bad), "{}", degraded(&p));
    p.points().panics(&point(&bad), false).unwrap();
    p.kill_engine();
    assert_eq!(ends_told(&p), std::slice::from_ref(&bad));
    // Something else may be degraded here: a container has no cgroup.
    assert!(!degraded(&p).contains(&bad), "{}", degraded(&p));
}

#[test]
fn a_panic_over_one_folder_at_the_start_keeps_no_engine_from_starting() {
    let p = product();
    let mut both = two_that_ended_unseen(&p, |[bad, _]| p.points().panics(&format!("recover.look.{bad}"), true).unwrap());
    let mut told = ends_told(&p);
    // A moment later, the task that supervises the damaged process reads it again.
    eventually("both are told", || {
        told.extend(ends_told(&p));
        (told.len() >= 2).then_some(())
    });
    told.sort();
    both.sort();
    assert_eq!(told, both);
}
