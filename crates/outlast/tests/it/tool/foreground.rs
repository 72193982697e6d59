//! A call that waits for its command.

use super::*;

#[test]
fn a_foreground_call_answers_with_output_and_code_and_leaves_nothing() {
    let p = product();
    assert_eq!(
        terminal(&p, json!({"command": "echo höllo; echo err >&2; exit 3"})),
        json!({"output": "höllo\nerr", "exit_code": 3, "error": null})
    );
    let said = p.call(["tool", "terminal", r#"{"command": "echo höllo"}"#]).good();
    assert!(said.text().contains("höllo"), "not escaped: {said:?}");
    assert_all_set_aside(&p, 2);
    // Killed by a signal, and its own 130 is no interrupt.
    let killed = terminal(&p, json!({"command": "kill -9 $$"}));
    assert_eq!((&killed["exit_code"], &killed["signal"]), (&json!(-9), &json!("SIGKILL")), "{killed}");
    assert_eq!(terminal(&p, json!({"command": "echo x; exit 130"})), json!({"output": "x", "exit_code": 130, "error": null}));
    let none = terminal(&p, json!({"command": "grep nothing /dev/null"}));
    assert_eq!((&none["exit_code"], &none["exit_code_meaning"]), (&json!(1), &json!("grep: no line matched (not an error)")), "{none}");
}

#[test]
fn arguments_come_from_standard_input_too() {
    let p = product();
    let said = p.call_with_input(["tool", "terminal", "-"], br#"{"command": "echo in"}"#).good().json();
    assert_eq!(said["output"], "in");
    let bad = p.call(["tool", "--json", "process", "nonsense"]);
    assert_eq!((bad.code, &bad.json()["code"]), (Some(2), &json!("usage")));
    assert!(bad.json()["hint"].as_str().unwrap().contains("outlast tool"));
    assert_eq!(p.call(["tool", "terminal"]).code, Some(2));
    // JSON that is no object is the tool's to refuse.
    assert!(process(&p, json!([1]))["error"].as_str().unwrap().contains("object"));
}

#[test]
fn the_schemas_are_printed_without_an_engine() {
    let p = product();
    let all = p.json(["tool", "schema"]);
    let names = |all: &Value| all["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&all), ["terminal", "process"]);
    assert_eq!(names(&p.json(["tool", "schema", "--code-execution"])), ["terminal"]);
    assert!(p.processes().is_empty() && !p.home().root.exists());
}

#[test]
fn long_output_is_cut_and_the_rest_can_be_read() {
    let p = product();
    let said = terminal(&p, json!({"command": "seq 100000"}));
    let output = said["output"].as_str().unwrap();
    assert!(output.starts_with("1\n2\n") && output.ends_with("\n99999\n100000"), "{}", output.len());
    let (head, rest) = output.split_once("\n\n[OUTPUT TRUNCATED: ").unwrap();
    let (notice, tail) = rest.split_once("]\n\n").unwrap();
    assert!((19_000..=20_000).contains(&head.len()) && (29_000..=30_000).contains(&tail.len()), "{} {}", head.len(), tail.len());
    assert!(notice.contains("of 588895 bytes"), "{notice}");
    // The log continues at the line that the notice names.
    let line: u64 = head.lines().count() as u64;
    assert!(notice.contains(&format!("offset={line})")), "{notice}");
    let page = process(&p, json!({"action": "log", "session_id": said["session_id"], "offset": line, "limit": 2}));
    assert_eq!(page["output"], format!("{}\n{}", line + 1, line + 2), "{page}");
}

#[test]
fn no_answer_is_longer_than_100000_characters() {
    let p = product();
    let chars = |v: &Value| serde_json::to_string(v).unwrap().chars().count();
    // Each takes six characters of JSON.
    let said = terminal(&p, json!({"command": "head -c 60000 /dev/zero | tr '\\0' '\\001'"}));
    assert!((90_000..=100_000).contains(&chars(&said)), "{}", chars(&said));
    let id = started(&p, json!({"command": "seq 100000", "notify_on_complete": true}));
    p.wait(&id);
    let page = process(&p, json!({"action": "log", "session_id": id, "offset": 0, "limit": 1_000_000}));
    assert!(chars(&page) <= 100_000, "{}", chars(&page));
    let lines = page["output"].as_str().unwrap().lines().count();
    assert!(lines > 10_000 && page["showing"] == format!("{lines} lines") && page["at_end"] == false, "{lines} {}", page["showing"]);
    let next = process(&p, json!({"action": "log", "session_id": id, "offset": lines, "limit": 1}));
    assert_eq!(next["output"], (lines + 1).to_string());
    let tail = process(&p, json!({"action": "log", "session_id": id, "limit": "1000000"}));
    assert!(chars(&tail) <= 100_000 && tail["at_end"] == true && tail["output"].as_str().unwrap().ends_with("\n100000"));
}

#[test]
fn at_its_limit_a_foreground_command_continues_in_the_background() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let said = terminal(&p, json!({"command": format!("echo begun; {}; echo done; exit 4", gate.wait()), "timeout": "1"}));
    assert_eq!(
        (&said["status"], &said["exit_code"], &said["output"], &said["notify_on_complete"], &said["error"]),
        (&json!("running"), &json!(null), &json!("begun"), &json!(true), &json!(null)),
        "{said}"
    );
    let id = said["session_id"].as_str().unwrap();
    assert!(said["note"].as_str().unwrap().contains(id) && said["pid"].is_u64(), "{said}");
    gate.open();
    let ended = process(&p, json!({"action": "wait", "session_id": id}));
    assert_eq!((&ended["exit_code"], &ended["output"]), (&json!(4), &json!("begun\ndone\n")), "{ended}");
    // If the agent cannot be notified, the answer says so.
    let said = call_with(&p, &["--no-notify"], "terminal", json!({"command": gate.wait(), "timeout": 1}));
    let both = ["notify_unsupported", "note"].map(|field| said[field].as_str().unwrap().to_owned());
    assert!(both.iter().all(|text| text.contains("poll")), "{said}");
}

/// A stopped process. It is continued when this is dropped.
struct Stopped(rustix::process::Pid);

impl Stopped {
    fn stop(call: &Child) -> Self {
        let pid = rustix::process::Pid::from_child(call);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It is a child that was not reaped, so the pid is its own.
        let _over = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

#[test]
fn an_end_right_after_the_limit_is_answered_and_not_promised() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let limit = Duration::from_secs(3);
    let line = format!("echo begun; {}; echo done; exit 4", gate.wait());
    p.points().arm("wait.begun").unwrap();
    let call = under_way(&p, &[], &json!({"command": line, "timeout": limit.as_secs()}));
    eventually("the wait", || p.points().held("wait.begun"));
    p.points().release("wait.begun").unwrap();
    let id = the_running_one(&p);
    // The caller is stopped while its time runs out. When it continues, the command has ended.
    let stopped = Stopped::stop(&call);
    std::thread::sleep(limit);
    gate.open();
    eventually("the record of the end", || p.meta(&id).ended);
    drop(stopped);
    assert_eq!(answer(call), json!({"output": "begun\ndone", "exit_code": 4, "error": null}));
}

/// Every process is kept, and lists for agents leave it out.
fn assert_all_set_aside(p: &Product, count: usize) {
    let all = p.json(["list", "--all"])["processes"].as_array().unwrap().clone();
    assert!(all.len() == count && all.iter().all(|one| one["is_set_aside"] == true), "{all:?}");
    assert_eq!(Value::Null, p.json(["tool", "process", r#"{"action": "list"}"#])["processes"][0]);
}

#[test]
fn at_its_limit_a_foreground_command_is_stopped_if_told_so() {
    let p = product();
    for flag in ["--kill-at-limit", "--code-execution"] {
        let said = call_with(&p, &[flag], "terminal", json!({"command": "echo begun; sleep 100", "timeout": 1}));
        assert_eq!(said, json!({"output": "begun\n[Command timed out after 1s]", "exit_code": 124, "error": null}), "{flag}");
    }
    assert_all_set_aside(&p, 2);
}

#[test]
fn an_interrupt_of_the_conversation_stops_its_foreground_command() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let call = under_way(&p, &["--session", "talk"], &json!({"command": format!("echo begun; {}", gate.wait())}));
    let other = under_way(&p, &["--session", "other"], &json!({"command": format!("echo other; {}", gate.wait())}));
    let id = eventually("the process", || {
        let all = p.json(["list", "--session", "talk"]);
        all["processes"][0]["session_id"].as_str().map(ToOwned::to_owned)
    });
    until_printed(&p, &id, "begun");
    eventually("a wait to interrupt", || (p.json(["interrupt", "--session", "talk"])["count"] == 1).then_some(()));
    assert_eq!(answer(call), json!({"output": "begun\n[Command interrupted]", "exit_code": 130, "error": null}));
    assert_eq!(p.json(["poll", &id])["is_set_aside"], true);
    gate.open();
    assert_eq!(answer(other), json!({"output": "other", "exit_code": 0, "error": null}));
}

#[test]
fn an_end_right_after_an_interrupt_stands() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!("echo begun; {}; echo done; exit 4", gate.wait());
    p.points().arm("wait.begun").unwrap();
    let call = under_way(&p, &["--session", "talk"], &json!({"command": line}));
    eventually("the wait", || p.points().held("wait.begun"));
    p.points().release("wait.begun").unwrap();
    let id = the_running_one(&p);
    // The caller is stopped while its wait is interrupted. When it continues, the command has ended.
    let stopped = Stopped::stop(&call);
    eventually("a wait to interrupt", || (p.json(["interrupt", "--session", "talk"])["count"] == 1).then_some(()));
    gate.open();
    eventually("the record of the end", || p.meta(&id).ended);
    drop(stopped);
    assert_eq!(answer(call), json!({"output": "begun\ndone", "exit_code": 4, "error": null}));
}

#[test]
fn a_foreground_command_keeps_running_when_its_caller_is_killed() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut call = under_way(&p, &[], &json!({"command": format!("{}; echo late; exit 6", gate.wait())}));
    let id = the_running_one(&p);
    call.kill().unwrap();
    call.wait().unwrap();
    gate.open();
    let ended = p.wait(&id);
    assert_eq!((&ended["exit_code"], &ended["output"]), (&json!(6), &json!("late\n")), "{ended}");
}

#[test]
fn a_command_that_left_something_running_keeps_its_name() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!("bash -c '{{ {}; echo late; }} & echo early'", gate.wait());
    let said = terminal(&p, json!({"command": line}));
    assert_eq!((&said["output"], &said["exit_code"]), (&json!("early"), &json!(0)), "{said}");
    let (id, left) = (said["session_id"].as_str().unwrap(), &said["left"][0]);
    let (pid, command) = (&left["pid"], left["command"].as_str().unwrap());
    let note = format!("1 process is still running: {pid} {command}; process(action=\"kill\", session_id=\"{id}\") stops it");
    assert_eq!(said["note"], note, "{said}");
    gate.open();
    until_printed(&p, said["session_id"].as_str().unwrap(), "late");
}

#[test]
fn what_a_command_left_running_is_named_and_stopped_by_a_kill() {
    let p = product();
    for redirected in ["", " >/dev/null 2>&1"] {
        let said = terminal(&p, json!({"command": format!("bash -c 'sleep 1000{redirected} & echo early'")}));
        let (id, pid) = (said["session_id"].as_str().unwrap(), said["left"][0]["pid"].as_u64().unwrap());
        let note = format!("1 process is still running: {pid} sleep 1000; process(action=\"kill\", session_id=\"{id}\") stops it");
        assert_eq!((&said["note"], &said["exit_code"]), (&json!(note), &json!(0)), "{said}");
        let killed = process(&p, json!({"action": "kill", "session_id": id}));
        let left_killed = json!([{"pid": pid, "command": "sleep 1000"}]);
        assert_eq!(killed, json!({"status": "already_exited", "exit_code": 0, "left_killed": left_killed}));
        assert!(wait_for_end(pid.try_into().unwrap(), std::time::Duration::ZERO));
    }
    let quiet = terminal(&p, json!({"command": "bash -c 'true & echo early > >(cat)'"}));
    assert_eq!((quiet.get("note"), quiet.get("session_id")), (None, None), "{quiet}");
}
