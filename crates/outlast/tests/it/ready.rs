//! `run --until`: a command is ready when it has printed a line.

use crate::gate::Gate;
use crate::support::*;
use std::process::Stdio;

#[test]
fn a_server_is_ready_when_it_says_so_and_keeps_running() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    // The line comes in two writes and in two colours.
    let server = format!(r"echo starting; printf 'Liste\033[32mning '; printf 'on\033[0m :80\n'; {}; exit 3", gate.wait());
    let ready = p.call(["run", "--until", "Listening on", "--", &server]).good();
    let text = ready.text();
    let (id, line) = text.trim_end().split_once('\n').unwrap();
    assert_eq!((line, ready.err.as_str()), ("Listening on :80", ""));
    assert_eq!(p.json(["poll", id])["phase"], "running");
    gate.open();
    assert_eq!(p.wait(id)["exit_code"], 3);
}

#[test]
fn a_line_that_came_before_is_found_again_by_the_same_request() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let server = format!("echo ready; seq 20000; {}", gate.wait());
    let args = ["run", "--id", "proc_00000000feed", "--until", "ready", "--", &server];
    for _ in 0..2 {
        let answer = p.json(args);
        assert_eq!(
            (&answer["matched_line"], &answer["timed_out"], &answer["status"]),
            (&json!("ready"), &json!(false), &json!("running")),
            "{answer}"
        );
    }
    gate.open();
}

#[test]
fn a_prompt_without_a_line_end_is_a_line() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let text = p.call(["run", "--until", "password", "--", &format!("printf 'password: '; {}", gate.wait())]).good().text();
    assert!(text.ends_with("\npassword:\n"), "{text:?}");
    gate.open();
}

#[test]
fn a_command_that_ends_first_gives_its_exit_code_and_last_output() {
    let p = product();
    let ended = p.call(["run", "--until", "Listening", "--", "echo address in use; exit 7"]);
    assert_eq!(ended.code, Some(7));
    assert!(
        ended.err.starts_with("address in use\n") && ended.err.contains("exited with code 7 before it printed a line with \"Listening\""),
        "{}",
        ended.err
    );
    assert_eq!(ended.text().lines().count(), 1);
    // Its last line counts, also without an end.
    let text = p.call(["run", "--until", "Listening", "--", "printf Listening; exit 7"]).good().text();
    assert!(text.ends_with("\nListening\n"), "{text:?}");
    assert_eq!(p.call(["run", "--until", "x", "--", "./not-there", "arg"]).code, Some(127));
}

#[test]
fn a_timeout_leaves_the_process_running() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let late = p.call(["run", "--until", "Listening", "--timeout", "0.3s", "--", &format!("echo said; {}; exit 5", gate.wait())]);
    assert_eq!(late.code, Some(124), "{}", late.err);
    let id = late.text().trim_end().to_owned();
    assert!(late.err.contains(&format!("{id} keeps running; it printed no line with \"Listening\"")), "{}", late.err);
    assert_eq!(p.json(["poll", &id])["phase"], "running");
    gate.open();
    assert_eq!(p.wait(&id)["exit_code"], 5);
}

#[test]
fn the_death_of_the_engine_is_no_end() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = "proc_00000000dead";
    let server = format!("echo first; {}; echo Listening; {}", gate.wait(), gate.wait());
    let waiting = p.command(["run", "--id", id, "--until", "Listening", "--", &server]).stdout(Stdio::piped()).spawn().unwrap();
    crate::gate::until_printed(&p, id, "first");
    p.kill_engine();
    gate.open();
    let ready = waiting.wait_with_output().unwrap();
    assert_eq!((ready.status.code(), String::from_utf8(ready.stdout).unwrap()), (Some(0), format!("{id}\nListening\n")));
    gate.open();
}

#[test]
fn a_notice_is_consumed_by_an_end_that_was_told_and_not_by_a_line() {
    let p = product();
    let call = |args: &[&str]| {
        let out = p.command(args).env("OUTLAST_SESSION", "s").output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let drained = || call(&["events", "drain", "--json"]);
    call(&["run", "--notify", "--until", "never", "--", "echo over"]);
    assert!(drained().contains("\"events\":[]"));
    let told = call(&["run", "--notify", "--until", "ready", "--", "echo ready"]);
    let id = told.lines().next().unwrap();
    p.wait(id);
    assert!(drained().contains(id));
}

#[test]
fn a_text_that_no_line_has_is_refused() {
    let p = product();
    for text in ["", "a\nb"] {
        let refused = p.call(["run", "--until", text, "--", "true"]);
        assert!(refused.code == Some(125) && refused.err.contains("--until"), "{:?} {}", refused.code, refused.err);
    }
}
