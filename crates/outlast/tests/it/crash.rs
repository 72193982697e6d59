//! Whatever of ours is killed, nothing is lost.

use crate::support::*;

#[test]
fn case_204_output_and_exit_code_survive_a_kill_of_the_engine() {
    let p = product();
    let gate = p.work().join("gate");
    let id = p.run(&format!("echo before; while [ ! -e {} ]; do sleep 0.01; done; echo after; exit 7", gate.display()));
    eventually("the first line", || p.json(["log", &id])["output"].as_str().filter(|o| o.contains("before")).map(drop));
    let dead = p.kill_engine();
    std::fs::write(&gate, "").unwrap();
    let ended = p.wait(&id);
    assert_ne!(p.engine(), dead);
    assert_eq!((ended["status"].as_str(), ended["exit_code"].as_i64()), (Some("exited"), Some(7)), "{ended}");
    assert_eq!(ended["output"], "before\nafter\n");
}

#[test]
fn case_205_what_ended_while_nothing_of_ours_ran_but_its_keepers_is_known() {
    let p = product();
    let id = p.run("echo done; exit 3");
    eventually("the record of the end", || p.meta(&id).ended);
    p.kill_engine();
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["status"].as_str(), polled["exit_code"].as_i64()), (Some("exited"), Some(3)), "{polled}");
}

#[test]
fn a_keeper_with_news_starts_an_engine() {
    let p = product();
    let gate = p.work().join("gate");
    let id = p.run(&format!("while [ ! -e {} ]; do sleep 0.01; done", gate.display()));
    let dead = p.kill_engine();
    assert!(!p.processes().iter().any(|(_, c)| c.contains("__engine")));
    std::fs::write(&gate, "").unwrap();
    let engine = eventually("an engine", || p.processes().into_iter().find(|(_, c)| c.contains("__engine")).map(|(pid, _)| pid));
    assert_ne!(engine, dead);
    assert_eq!(p.wait(&id)["exit_code"], 0);
}

#[test]
fn a_pump_that_is_stopped_is_continued_and_loses_nothing() {
    let p = product();
    rustix::fs::mknodat(rustix::fs::CWD, p.work().join("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
    let id = p.run("echo first; read gate < fifo; seq 1 2000; exit 5");
    eventually("the first line", || (p.meta(&id).commit.base == 6).then_some(()));
    let pump = rustix::process::Pid::from_raw(p.meta(&id).pump as i32).unwrap();
    rustix::process::kill_process(pump, rustix::process::Signal::STOP).unwrap();
    // A command that is quiet waits for nobody; one that prints has its keeper felt for.
    std::fs::write(p.work().join("fifo"), "go\n").unwrap();
    let ended = p.wait(&id);
    assert_eq!(ended["exit_code"], 5, "{ended}");
    let want: String = std::iter::once("first\n".to_owned()).chain((1..=2000).map(|n| format!("{n}\n"))).collect();
    assert_eq!(p.call(["log", &id, "--raw"]).good().text(), want);
}

#[test]
fn processes_stay_reachable_when_the_directory_of_their_sockets_is_removed() {
    let p = product();
    let id = p.run_with(&["--stdin"], "read -r line; echo \"got $line\"; exit 6");
    p.kill_engine();
    std::fs::remove_dir_all(p.socket_dir().unwrap()).unwrap();
    let written = p.json(["submit", &id, "hello"]);
    assert_eq!(written["status"], "ok", "{written}");
    let ended = p.wait(&id);
    assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(6), Some("got hello\n")), "{ended}");
}

#[test]
fn both_keepers_killed_at_once_are_told_honestly() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let meta = p.meta(&id);
    for pid in [meta.pump, meta.holder] {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    let polled = eventually("the orphan to be known", || Some(p.json(["poll", &id])).filter(|a| a["phase"] != "running"));
    assert_eq!((polled["phase"].as_str(), polled["status"].as_str()), (Some("orphaned"), Some("running")), "{polled}");
    let killed = p.json(["kill", &id, "--grace", "0"]);
    assert_eq!((killed["status"].as_str(), killed["completion_reason"].as_str()), (Some("killed"), Some("killed")), "{killed}");
    assert!(wait_for_end(meta.cmd, PATIENCE));
    assert!(p.json(["poll", &id])["exit_code"].is_null());
}
