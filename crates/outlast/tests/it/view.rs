//! `view close`: the view ends, and the process keeps running.

use crate::gate::{Gate, until_printed};
use crate::support::*;
use crate::told::call_in;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

fn looks_on(p: &Product, id: &str) -> Child {
    p.command(["attach", "--json", id]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Closes the view as soon as there is one.
fn close(p: &Product, id: &str) -> Value {
    let closed = eventually("a view", || Some(p.json(["view", "close", id])).filter(|said| said["code"] != "no_view"));
    assert_eq!(closed["views"], 1, "{closed}");
    closed
}

#[test]
fn case_187_a_view_is_closed_and_the_process_keeps_running() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    for pty in [&[][..], &["--pty"]] {
        let id = p.run_with(pty, &format!("echo shown; {}; exit 3", gate.wait()));
        until_printed(&p, &id, "shown");
        let viewer = looks_on(&p, &id);
        let closed = close(&p, &id[..9]);
        assert_eq!((&closed["status"], &closed["closed"]), (&json!("ok"), &json!(id)), "{closed}");
        assert!(closed["note"].as_str().unwrap().contains("was not killed"), "{closed}");
        let said = viewer.wait_with_output().unwrap();
        let left: Value = serde_json::from_slice(&said.stdout).unwrap();
        assert_eq!((said.status.code(), &left["detached_here"], &left["status"]), (Some(0), &json!(true), &json!("running")), "{left}");
        assert_eq!(p.json(["view", "close", &id])["code"], "no_view");
        gate.open();
        assert_eq!(p.wait(&id)["exit_code"], 3);
    }
}

#[test]
fn case_188_without_a_view_it_is_an_error_and_what_is_forgotten_is_none() {
    let p = product();
    let id = p.run_with(&["--session", "s"], "true");
    p.wait(&id);
    let none = p.call(["view", "close", "--json", &id]);
    let said = none.json();
    assert_eq!((none.code, &said["status"], &said["code"]), (Some(1), &json!("error"), &json!("no_view")), "{said}");
    assert!(said["error"].as_str().unwrap().contains(&id), "{said}");
    p.call(["rm", &id]).good();
    for unknown in [&*id, "proc_ffffffffffff"] {
        let closed = p.call(["view", "close", "--json", unknown]).good().json();
        assert_eq!((&closed["status"], &closed["closed"], &closed["views"]), (&json!("ok"), &json!(unknown), &json!(0)), "{closed}");
    }
}

#[test]
fn a_viewer_comes_back_over_the_death_of_the_engine_and_is_then_told_to_leave() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--session", "s"], &format!("echo shown; {}", gate.wait()));
    let mut viewer = p.command(["attach", &id]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // What it shows it sees. Another conversation cannot see that, and closes nothing.
    let mut first = String::new();
    BufReader::new(viewer.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first.trim_end(), "shown");
    assert_eq!(call_in(&p, "other", &["view", "close", "--json", &id]).json()["views"], 0);
    p.kill_engine();
    close(&p, &id);
    assert_eq!(viewer.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(p.json(["poll", &id])["status"], "running");
}
