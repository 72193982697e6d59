//! `active`: whether a process runs, for clients that want to reset, leave or continue.

use crate::sleeper::Sleeper;
use crate::support::*;

fn active(p: &Product, about: &[&str]) -> bool {
    p.json(["active"].iter().chain(about))["active"].as_bool().expect("a yes or a no")
}

#[test]
fn case_181_a_task_is_active_while_something_of_its_own_runs() {
    let p = product();
    let id = p.run_with(&["--task", "t1"], "exec sleep 1000");
    assert!(active(&p, &["--task", "t1"]) && !active(&p, &["--task", "t2"]));
    p.json(["kill", &id]);
    assert!(!active(&p, &["--task", "t1"]));
}

#[test]
fn case_182_what_is_older_than_the_limit_does_not_keep_a_conversation() {
    let p = product();
    let mut sleeper = Sleeper::start();
    let day = 86_400.0;
    let checkpoint = json!([{ "pid": sleeper.pid(), "session_key": "old", "started_at": Sleeper::now() - 25.0 * day / 24.0 }]);
    std::fs::write(p.work().join("processes.json"), checkpoint.to_string()).unwrap();
    p.call(["adopt", "processes.json"]).good();
    assert!(active(&p, &["--session", "old"]), "without a limit any age counts");
    assert!(!active(&p, &["--session", "old", "--max-age", "86400"]));
    assert!(active(&p, &["--session", "old", "--max-age", "93600"]));
    p.run_with(&["--session", "old"], "exec sleep 1000");
    assert!(active(&p, &["--session", "old", "--max-age", "86400"]), "a recent one counts");
    assert!(!active(&p, &["--session", "old", "--max-age", "0"]), "an age that is not less than the limit does not count");
    assert!(!active(&p, &["--session", "another"]));
    sleeper.end();
}

#[test]
fn case_183_while_a_process_runs_the_home_is_active() {
    let p = product();
    assert_eq!(p.json(["active"]), json!({"active": false, "running": 0, "waiting": 0, "failing": 0}));
    let id = p.run("exec sleep 1000");
    assert_eq!(p.json(["active"]), json!({"active": true, "running": 1, "waiting": 0, "failing": 0}));
    p.json(["kill", &id]);
    assert_eq!(p.json(["active"]), json!({"active": false, "running": 0, "waiting": 0, "failing": 0}));
}

#[test]
fn the_exit_code_says_whether_anything_runs() {
    let p = product();
    let id = p.run("exec sleep 1000");
    assert_eq!((p.call(["active"]).code, p.call(["active", "--session", "other"]).code), (Some(0), Some(3)));
    p.json(["kill", &id]);
    assert_eq!((p.call(["active"]).code, p.call(["active", "--json"]).code), (Some(3), Some(3)));
}

#[test]
fn case_185_a_goal_waits_while_its_process_runs() {
    let p = product();
    let id = p.run("exec sleep 1000");
    assert!(active(&p, &["--waiting", &id]));
    p.json(["kill", &id]);
    assert!(!active(&p, &["--waiting", &id]));
    assert!(!active(&p, &["--waiting", "proc_000000000000"]));
    assert!(!active(&p, &["--waiting", "nonsense"]));
}

#[test]
fn case_186_the_count_falls_to_0_without_a_request() {
    let p = product();
    let id = p.run("while [ ! -e gate ]; do sleep 0.01; done");
    assert_eq!(p.json(["engine", "status"])["running"], 1);
    std::fs::write(p.work().join("gate"), "").unwrap();
    eventually("the record of the end", || p.meta(&id).ended);
    // Nothing but the count is asked for, and asking for it looks at no process.
    eventually("a count of 0", || (p.json(["engine", "status"])["running"] == 0).then_some(()));
}
