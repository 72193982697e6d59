//! `wait`: until the end, or until told to let go.

use crate::gate::{Gate, until_printed};
use crate::support::*;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A wait that is under way, as the engine knows.
fn waiting(p: &Product, args: &[&str]) -> Child {
    p.command(["wait", "--json"].iter().chain(args)).stdout(Stdio::piped()).spawn().unwrap()
}

fn answer(waiter: Child) -> (Option<i32>, Value) {
    let said = waiter.wait_with_output().unwrap();
    (said.status.code(), serde_json::from_slice(&said.stdout).unwrap_or_else(|e| panic!("{e}: {said:?}")))
}

#[test]
fn case_092_a_wait_returns_well_under_a_second_after_the_end() {
    let p = product();
    let mut took: Vec<Duration> = (0..20)
        .map(|_| {
            let id = p.run("sleep 0.05");
            let began = Instant::now();
            assert_eq!(p.wait(&id)["exit_code"], 0);
            began.elapsed()
        })
        .collect();
    took.sort();
    // A loaded machine makes some slow; a timer of ours would make most.
    assert!(took[14] < Duration::from_millis(700), "{took:?}");
}

#[test]
fn case_093_the_command_line_waits_without_limit() {
    let p = product().with_env("TERMINAL_TIMEOUT", "1");
    let id = p.run("sleep 1.3; exit 2");
    let ended = p.json(["wait", &id, "--timeout", "1000"]);
    assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("exited"), &json!(2)), "{ended}");
    assert!(ended.get("timeout_note").is_none(), "{ended}");
}

#[test]
fn case_095_a_wait_that_runs_out_says_so_and_leaves_the_process_alone() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("for i in $(seq 30); do head -c 99 /dev/zero | tr '\\0' a; echo; done; {}; exit 3", gate.wait()));
    eventually("its output", || (p.meta(&id).log_end() == 3000).then_some(()));
    let said = p.call(["wait", "--json", &id, "--timeout", "0.1"]);
    assert_eq!(said.code, Some(124));
    let waited = said.json();
    assert_eq!((&waited["status"], &waited["timeout_note"]), (&json!("timeout"), &json!("Waited 0.1s, process still running")), "{waited}");
    // The engine answers with 1,000 characters. For programs, the command line adds those before them.
    assert_eq!((waited["output"].as_str().unwrap().len(), waited.get("output_cut")), (3000, None));
    assert!(waited.get("exit_code").is_none(), "{waited}");
    let said = p.call(["wait", &id, "--timeout", "0.1"]).err;
    assert_eq!(said, format!("{id} keeps running after 0.1s\n"));
    p.call(["signal", &id, "STOP"]).good();
    eventually("it to be suspended", || (p.json(["poll", &id])["is_suspended"] == true).then_some(()));
    let said = p.call(["wait", &id, "--timeout", "0.1"]).err;
    assert_eq!(said, format!("{id} keeps running after 0.1s, suspended by a stop signal; `outlast signal {id} CONT` continues it\n"));
    p.call(["signal", &id, "CONT"]).good();
    assert_eq!(p.json(["poll", &id])["status"], "running");
    gate.open();
    let ended = p.wait(&id);
    assert_eq!((&ended["exit_code"], ended["output"].as_str().unwrap().len()), (&json!(3), 3000), "{ended}");
}

#[test]
fn case_096_098_an_interrupt_ends_the_waits_of_its_own_conversation_only() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--session", "talk"], &format!("echo said; {}; exit 3", gate.wait()));
    let other = p.run_with(&["--session", "other"], &gate.wait());
    until_printed(&p, &id, "said");
    let in_session =
        |session: &str, id: &str| p.command(["wait", "--json", id]).env("OUTLAST_SESSION", session).stdout(Stdio::piped()).spawn().unwrap();
    let (ours, theirs) = (in_session("talk", &id), in_session("other", &other));
    // It answers how many it reached, so it can be asked until the wait was there.
    eventually("a wait to interrupt", || (p.json(["interrupt", "--session", "talk"])["count"] == 1).then_some(()));
    let (code, waited) = answer(ours);
    assert_eq!((code, &waited["status"]), (Some(125), &json!("interrupted")), "{waited}");
    assert_eq!((&waited["note"], &waited["output"]), (&json!("User sent a new message -- wait interrupted"), &json!("said\n")), "{waited}");
    assert_eq!(p.json(["poll", &id])["status"], "running");
    gate.open();
    gate.open();
    assert_eq!(answer(theirs).1["status"], "exited");
    assert_eq!(p.wait(&id)["exit_code"], 3);
}

#[test]
fn case_097_an_end_that_has_come_wins_over_an_interrupt() {
    let p = product();
    for _ in 0..5 {
        let gate = Gate::new(&p, "gate");
        let id = p.run_with(&["--session", "talk"], &format!("{}; exit 3", gate.wait()));
        let waiter = p.command(["wait", "--json", &id]).env("OUTLAST_SESSION", "talk").stdout(Stdio::piped()).spawn().unwrap();
        gate.open();
        eventually("the record of the end", || p.meta(&id).ended);
        p.call(["interrupt", "--session", "talk"]).good();
        let (code, waited) = answer(waiter);
        assert_eq!((code, &waited["status"], &waited["exit_code"]), (Some(3), &json!("exited"), &json!(3)), "{waited}");
        std::fs::remove_file(p.work().join("gate")).unwrap();
    }
}

#[test]
fn case_099_a_timeout_of_zero_or_less_is_an_error() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&gate.wait());
    for bad in ["0", "-1", "-0.5", "nan", "inf", "soon", ""] {
        let said = p.call(["wait", "--json", &id, "--timeout", bad]);
        assert_ne!(said.code, Some(0), "{bad}");
        assert_ne!(said.code, Some(124), "{bad}");
        assert_eq!(said.json()["code"], "usage", "{bad}: {said:?}");
    }
    // The shortest time is a time.
    assert_eq!(p.call(["wait", &id, "--timeout", "0.0001"]).code, Some(124));
}

#[test]
fn a_wait_survives_the_death_of_the_engine() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("{}; exit 7", gate.wait()));
    let waiter = waiting(&p, &[&id]);
    p.kill_engine();
    gate.open();
    let (code, waited) = answer(waiter);
    assert_eq!((code, &waited["exit_code"]), (Some(7), &json!(7)), "{waited}");
}

#[test]
fn many_may_wait_for_one() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("{}; exit 5", gate.wait()));
    let waiters: Vec<_> = (0..5).map(|_| waiting(&p, &[&id])).collect();
    gate.open();
    for waiter in waiters {
        assert_eq!(answer(waiter).0, Some(5));
    }
}

#[test]
fn a_wait_for_what_is_over_returns_at_once_as_often_as_asked() {
    let p = product();
    let id = p.run("echo out; exit 5");
    for _ in 0..3 {
        let ended = p.wait(&id);
        assert_eq!((&ended["exit_code"], &ended["output"], &ended["session_id"]), (&json!(5), &json!("out\n"), &json!(id)), "{ended}");
    }
}

#[test]
fn an_exit_code_of_ours_is_explained_also_in_a_pipe() {
    let p = product();
    let id = p.run_with(&["--timeout", "0.05"], "exec sleep 1000");
    let waited = p.call(["wait", &id]);
    assert_eq!((waited.code, waited.err.as_str()), (Some(124), format!("{id} was stopped at its time limit (SIGTERM)\n").as_str()));
    let id = p.run("exec sleep 1000");
    kill_and_wait(crate::kill::kill_both_keepers(&p, &id)).unwrap();
    let waited = p.call(["wait", &id]);
    assert_eq!(
        (waited.code, waited.err.as_str()),
        (Some(125), format!("{id} is lost: it ended, and its exit status is unknown\n").as_str())
    );
    // A code of the command's own says enough.
    assert_eq!(p.call(["wait", &p.run("exit 3")]).err, "");
}
