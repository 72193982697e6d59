//! `until`: a barrier outlives its waiters.

use crate::gate::Gate;
use crate::support::*;
use crate::told::*;
use std::process::Stdio;

#[test]
fn a_barrier_opens_with_the_end_of_a_process_and_is_not_told_as_well() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--session", "s"], &gate.wait());
    let waiter = p.command(["until", "--json", "--session", "s", &id]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the barrier", || (!barriers(&p, "s").is_empty()).then_some(()));
    // Over the death of an engine.
    p.kill_engine();
    gate.open();
    let said = waiter.wait_with_output().unwrap();
    let open: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((said.status.code(), &open["status"], &open["why"]), (Some(0), &json!("open"), &json!("exited")), "{open}");
    assert_eq!(open["message"], format!("You were waiting for the end of {id}: it has ended."));
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
    // What is over, and a whole id that is not known, is open at once.
    assert_eq!(p.json(["until", "--session", "s", &id])["why"], "exited");
    assert_eq!(p.json(["until", "--session", "s", "proc_ffffffffffff"])["why"], "unknown");
    assert!(p.call(["until", &id]).good().text().contains("it has ended"));
}

fn barriers(p: &Product, session: &str) -> Vec<Value> {
    p.json(["until", "--list", "--session", session])["barriers"].as_array().unwrap().clone()
}

#[test]
fn a_barrier_without_a_waiter_causes_a_notice_when_it_opens() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--session", "s"], &gate.wait());
    let timed_out = p.call(["until", "--json", "--session", "s", "--timeout", "0.05", &id]);
    let waiting = timed_out.json();
    assert_eq!((timed_out.code, &waiting["status"]), (Some(124), &json!("waiting")), "{waiting}");
    // The same again is the same barrier.
    let again = p.json(["until", "--no-wait", "--session", "s", &id]);
    assert_eq!((&again["barrier"], &again["status"]), (&waiting["barrier"], &json!("waiting")), "{again}");
    let mut waiter = p.command(["until", "--session", "s", &id]).stdout(Stdio::null()).spawn().unwrap();
    kill_and_wait(waiter.id()).unwrap();
    waiter.wait().unwrap();
    p.kill_engine();
    gate.open();
    let told = p.json(["events", "drain", "--session", "s", "--wait", "60"]);
    let event = &told["events"][0]["event"];
    assert_eq!((&event["type"], &event["why"], &event["barrier"]), (&json!("until"), &json!("exited"), &waiting["barrier"]), "{told}");
    assert_eq!(event["session_id"], json!(id));
    assert_eq!(barriers(&p, "s")[0]["status"], "open");
}

#[test]
fn the_waiter_of_a_barrier_is_answered_before_a_notice_is_delivered() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--session", "s"], &gate.wait());
    let taken = || p.json(["events", "next", "--session", "s", "--lease", "0.01"])["notices"].clone();
    // Whether it has to wait, or finds it over.
    for over in [false, true] {
        p.points().arm("barrier.opened").unwrap();
        let waiter = p.command(["until", "--json", "--session", "s", &id]).stdout(Stdio::piped()).spawn().unwrap();
        if !over {
            eventually("the barrier", || (!barriers(&p, "s").is_empty()).then_some(()));
            gate.open();
        }
        eventually("the notice", || p.points().held("barrier.opened"));
        assert_eq!(taken(), json!([]), "over: {over}");
        p.points().release("barrier.opened").unwrap();
        let open: Value = serde_json::from_slice(&waiter.wait_with_output().unwrap().stdout).unwrap();
        assert_eq!((&open["status"], &open["why"]), (&json!("open"), &json!("exited")), "{open}");
        assert_eq!(taken(), json!([]), "over: {over}");
        eventually("that it is consumed", || history(&p, &[]).iter().all(|told| told["state"] == "consumed").then_some(()));
    }
    // If the waiter dies there, the notice is delivered at once.
    p.points().arm("barrier.opened").unwrap();
    let mut waiter = p.command(["until", "--session", "s", &id]).stdout(Stdio::null()).spawn().unwrap();
    eventually("the notice", || p.points().held("barrier.opened"));
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    let given = p.json(["events", "next", "--session", "s", "--wait", "20"]);
    p.points().release("barrier.opened").unwrap();
    let event = &given["notices"][0]["event"];
    assert_eq!((&event["type"], event.get("repeat")), (&json!("until"), None), "{given}");
}

#[test]
fn a_conversation_has_one_barrier_and_can_take_it_away() {
    let p = product();
    let first = p.json(["until", "--for", "1h", "--no-wait", "--session", "s"]);
    let second = p.json(["until", "--for", "2h", "--no-wait", "--session", "s"]);
    assert_ne!(first["barrier"], second["barrier"]);
    let names = |session| barriers(&p, session).iter().map(|b| b["barrier"].clone()).collect::<Vec<_>>();
    assert_eq!(names("s"), [second["barrier"].clone()]);
    assert!(names("other").is_empty());
    // The waiter of a barrier that is removed learns that.
    let waiter = p.command(["until", "--json", "--for", "3h", "--session", "s"]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the third", || (names("s") != [second["barrier"].clone()]).then_some(()));
    assert_eq!(p.json(["until", "--clear", "--session", "s"])["barriers"][0]["status"], "cleared");
    let said = waiter.wait_with_output().unwrap();
    let cleared: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((said.status.code(), &cleared["status"]), (Some(1), &json!("cleared")), "{cleared}");
    assert!(names("s").is_empty());
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
}

#[test]
fn case_212_what_was_taken_away_cannot_be_taken_away_again() {
    let p = product();
    p.json(["until", "--for", "1h", "--no-wait", "--session", "s"]);
    let clear = || p.call(["until", "--clear", "--session", "s"]);
    assert!(clear().good().text().contains("cleared"));
    let again = clear();
    assert_eq!((again.code, again.text().as_str()), (Some(1), ""), "{again:?}");
    assert!(again.err.contains("no barrier"), "{again:?}");
    let said = p.call(["until", "--clear", "--json", "--session", "s"]);
    assert_eq!((said.code, &said.json()["code"]), (Some(1), &json!("not_found")), "{said:?}");
}

#[test]
fn a_barrier_opens_at_a_time_or_with_the_end_of_a_pid() {
    let p = product();
    let open = p.json(["until", "--for", "0.2", "--session", "s"]);
    assert_eq!((&open["status"], &open["why"]), (&json!("open"), &json!("time")), "{open}");
    assert_eq!(p.json(["until", "--at", "2020-01-31T08:00:00+02:00"])["why"], "time");
    let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sleeper.id().to_string();
    assert_eq!(p.call(["until", "--pid", &pid, "--timeout", "0.05"]).code, Some(124));
    p.kill_engine();
    let waiter = p.command(["until", "--json", "--pid", &pid]).stdout(Stdio::piped()).spawn().unwrap();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let open: Value = serde_json::from_slice(&waiter.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(open["why"], "pid_gone", "{open}");
    // One that is gone already.
    assert_eq!(p.json(["until", "--pid", &pid])["why"], "pid_gone");
}

#[test]
fn an_interrupt_ends_the_wait_and_leaves_the_barrier() {
    let p = product();
    let waiter = p.command(["until", "--json", "--for", "1h", "--session", "s"]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("a wait to interrupt", || (p.json(["interrupt", "--session", "s"])["count"] == 1).then_some(()));
    let said = waiter.wait_with_output().unwrap();
    let let_go: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((said.status.code(), &let_go["status"]), (Some(1), &json!("interrupted")), "{let_go}");
    assert_eq!(barriers(&p, "s")[0]["status"], "waiting");
}

#[test]
fn a_process_of_another_session_does_not_exist_for_a_session() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--session", "s"], &gate.wait());
    assert_eq!(p.json(["until", "--session", "other", &id])["why"], "unknown");
}

#[test]
fn a_clock_time_is_that_of_the_users_zone() {
    let p = product();
    let until = |args: &[&str], zone: &str| {
        let out = p.command([&["until", "--no-wait", "--at"], args].concat()).env("TZ", zone).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let message = |told: &str| serde_json::from_str::<Value>(told).unwrap()["message"].as_str().unwrap().to_owned();
    // Programs read UTC, people their own clock.
    assert_eq!(message(&until(&["2090-01-31 14:30", "--json"], "EAST-5")), "Waiting for 2090-01-31T09:30:00.000000Z.");
    assert_eq!(until(&["2090-01-31T09:30:00Z"], "EAST-5"), "Waiting for 2090-01-31 14:30:00.\n");
    assert!(message(&until(&["14:30", "--json"], "EAST-5")).ends_with("T09:30:00.000000Z."));
    assert!(until(&["14:30"], "WEST+7").trim_end().ends_with("14:30:00."));
    let wrong = p.call(["until", "--at", "25:00"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("is not a time such as 14:30"), "{}", wrong.err);
}

#[test]
fn a_clear_shows_what_it_removed() {
    let p = product();
    p.call(["until", "--for", "0.01"]).good();
    p.call(["until", "--for", "1h", "--no-wait"]).good();
    let cleared = p.call(["until", "--clear"]).good().text();
    assert!(cleared.lines().count() == 1 && cleared.contains("cleared: Waiting for "), "{cleared}");
    let again = p.call(["until", "--clear"]);
    assert_eq!(
        (again.code, again.text().as_str(), again.err.lines().next()),
        (Some(1), "", Some("outlast: there is no barrier to remove"))
    );
    assert_eq!(p.json(["until", "--list"])["barriers"].as_array().map(Vec::len), Some(1), "one that has opened");
}
