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
