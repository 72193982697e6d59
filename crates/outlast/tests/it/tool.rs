//! `tool`: the tools as an agent calls them.

use crate::gate::{Gate, until_printed};
use crate::support::*;
use std::process::{Child, Stdio};
use std::time::Duration;

fn call_with(p: &Product, flags: &[&str], tool: &str, arguments: Value) -> Value {
    p.call(["tool", tool].iter().map(|a| (*a).to_owned()).chain([arguments.to_string()]).chain(flags.iter().map(|f| (*f).to_owned())))
        .good()
        .json()
}

fn terminal(p: &Product, arguments: Value) -> Value {
    call_with(p, &[], "terminal", arguments)
}

fn process(p: &Product, arguments: Value) -> Value {
    call_with(p, &[], "process", arguments)
}

/// Starts a command in the background and gives its id.
fn started(p: &Product, arguments: Value) -> String {
    let mut all = json!({"background": true});
    all.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
    let said = terminal(p, all);
    said["session_id"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
}

/// A call that is under way.
fn under_way(p: &Product, flags: &[&str], arguments: &Value) -> Child {
    let call = p.command(["tool", "terminal", &arguments.to_string()].iter().chain(flags)).stdout(Stdio::piped()).spawn();
    call.unwrap()
}

fn answer(call: Child) -> Value {
    Answer::from(call.wait_with_output().unwrap()).good().json()
}

/// The one process that runs.
fn the_running_one(p: &Product) -> String {
    eventually("a process", || p.json(["list"])["processes"][0]["session_id"].as_str().map(ToOwned::to_owned))
}

#[test]
fn a_foreground_call_answers_with_output_and_code_and_leaves_nothing() {
    let p = product();
    assert_eq!(
        terminal(&p, json!({"command": "echo höllo; echo err >&2; exit 3"})),
        json!({"output": "höllo\nerr", "exit_code": 3, "error": null})
    );
    let said = p.call(["tool", "terminal", r#"{"command": "echo höllo"}"#]).good();
    assert!(said.text().contains("höllo"), "not escaped: {said:?}");
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
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
    // It goes on where the notice says.
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
fn at_its_limit_a_foreground_command_goes_on_in_the_background() {
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
    // Where nobody can be told, it says so.
    let said = call_with(&p, &["--no-notify"], "terminal", json!({"command": gate.wait(), "timeout": 1}));
    assert!(said["notify_unsupported"] == true && said["note"].as_str().unwrap().contains("poll"), "{said}");
}

/// Goes on, however the test ends.
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
        // It is a child that nobody has waited for, so the number is its own.
        let _over = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

#[test]
fn an_end_right_after_the_limit_is_answered_and_not_promised() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let limit = Duration::from_secs(3);
    let line = format!("echo begun; {}; echo done; exit 4", gate.wait());
    let call = under_way(&p, &[], &json!({"command": line, "timeout": limit.as_secs()}));
    let id = the_running_one(&p);
    // Nothing tells that it has asked to wait; if it has not yet, this shows less, and nothing wrong.
    std::thread::sleep(Duration::from_millis(200));
    // The caller stands still while its time runs out, and finds the command over when it goes on.
    let stopped = Stopped::stop(&call);
    std::thread::sleep(limit);
    gate.open();
    eventually("the record of the end", || p.meta(&id).ended);
    drop(stopped);
    assert_eq!(answer(call), json!({"output": "begun\ndone", "exit_code": 4, "error": null}));
}

#[test]
fn at_its_limit_a_foreground_command_is_stopped_if_told_so() {
    let p = product();
    for flag in ["--kill-at-limit", "--code-execution"] {
        let said = call_with(&p, &[flag], "terminal", json!({"command": "echo begun; sleep 100", "timeout": 1}));
        assert_eq!(said, json!({"output": "begun\n[Command timed out after 1s]", "exit_code": 124, "error": null}), "{flag}");
    }
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
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
    assert_eq!(p.json(["poll", &id])["status"], "not_found");
    gate.open();
    assert_eq!(answer(other), json!({"output": "other", "exit_code": 0, "error": null}));
}

#[test]
fn a_foreground_command_goes_on_when_its_caller_is_killed() {
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
    assert!(said["note"].as_str().unwrap().contains("still runs"), "{said}");
    gate.open();
    until_printed(&p, said["session_id"].as_str().unwrap(), "late");
}

#[test]
fn case_079_an_unknown_id_is_not_found_whatever_the_action() {
    let p = product();
    for action in ["poll", "log", "wait", "kill", "write", "submit", "close"] {
        let said = process(&p, json!({"action": action, "session_id": "proc_ffffffffffff"}));
        assert_eq!((&said["status"], &said["error"]), (&json!("not_found"), &json!("No process with ID proc_ffffffffffff")), "{action}");
        assert!(said["hint"].as_str().unwrap().contains("process(action=\"list\")"), "{said}");
    }
}

#[test]
fn case_080_081_086_087_089_poll_and_log() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = started(&p, json!({"command": format!("seq 100; {}; exit 7", gate.wait())}));
    until_printed(&p, &id, "100\n");
    let polled = process(&p, json!({"action": "poll", "session_id": id}));
    assert_eq!(polled["status"], "running");
    for field in ["command", "pid", "uptime_seconds", "output_preview"] {
        assert!(!polled[field].is_null(), "{field}: {polled}");
    }
    assert!(polled.get("exit_code").is_none(), "{polled}");
    let log = |more: Value| {
        let mut all = json!({"action": "log", "session_id": id});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        process(&p, all)
    };
    let tail = log(json!({"limit": 10}));
    assert_eq!((&tail["showing"], &tail["total_lines"]), (&json!("10 lines"), &json!(100)), "{tail}");
    assert!(tail["output"].as_str().unwrap().starts_with("91\n"), "{tail}");
    let page = log(json!({"offset": "10", "limit": "5"}));
    assert_eq!((&page["output"], &page["showing"]), (&json!("11\n12\n13\n14\n15"), &json!("5 lines")), "{page}");
    assert!(log(json!({"offset": 0, "limit": 1}))["output"] == "1");
    assert_eq!(log(json!({"offset": 1e18}))["output"], "");
    for bad in [json!({"offset": -1}), json!({"offset": "x"}), json!({"limit": 0}), json!({"limit": []})] {
        assert!(log(bad.clone())["error"].is_string(), "{bad}");
    }
    gate.open();
    p.wait(&id);
    let polled = process(&p, json!({"action": "poll", "session_id": id}));
    assert_eq!((&polled["status"], &polled["exit_code"], &polled["completion_reason"]), (&json!("exited"), &json!(7), &json!("exited")));
}

#[test]
fn case_093_095_096_097_waits_are_clamped_run_out_and_are_interrupted() {
    let p = product().with_env("TERMINAL_TIMEOUT", "2").with_env("OUTLAST_SESSION", "talk");
    let gate = Gate::new(&p, "gate");
    let id = started(&p, json!({"command": format!("echo said; {}; exit 5", gate.wait())}));
    until_printed(&p, &id, "said");
    let ran_out = process(&p, json!({"action": "wait", "session_id": id, "timeout": 1}));
    assert_eq!((&ran_out["status"], &ran_out["output"]), (&json!("timeout"), &json!("said\n")), "{ran_out}");
    assert_eq!(ran_out["timeout_note"], "Waited 1s, process still running");
    let clamped = process(&p, json!({"action": "wait", "session_id": id, "timeout": 1000}));
    assert_eq!(clamped["timeout_note"], "Requested wait of 1000s was clamped to configured limit of 2s", "{clamped}");
    assert_eq!(clamped["status"], "timeout");
    let waiting =
        p.command(["tool", "process", &json!({"action": "wait", "session_id": id}).to_string()]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("a wait to interrupt", || (p.json(["interrupt", "--session", "talk"])["count"] == 1).then_some(()));
    let interrupted = answer(waiting);
    assert_eq!(
        (&interrupted["status"], &interrupted["note"]),
        (&json!("interrupted"), &json!("User sent a new message -- wait interrupted"))
    );
    gate.open();
    let ended = process(&p, json!({"action": "wait", "session_id": id, "timeout": 1e300}));
    assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("exited"), &json!(5)), "{ended}");
    assert!(ended["timeout_note"].as_str().unwrap().contains("clamped"), "{ended}");
    for bad in [json!(0), json!(-1), json!("soon")] {
        let said = process(&p, json!({"action": "wait", "session_id": id, "timeout": bad}));
        assert!(said["error"].as_str().unwrap().contains("timeout must be"), "{said}");
    }
}

#[test]
fn case_149_150_kill() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = started(&p, json!({"command": format!("echo last; {}", gate.wait())}));
    until_printed(&p, &id, "last");
    let killed = process(&p, json!({"action": "kill", "session_id": id}));
    assert_eq!(
        (&killed["status"], &killed["completion_reason"], &killed["termination_source"], &killed["output"]),
        (&json!("killed"), &json!("killed"), &json!("process.kill"), &json!("last\n")),
        "{killed}"
    );
    assert_eq!(process(&p, json!({"action": "kill", "session_id": id})), json!({"status": "already_exited", "exit_code": -15}));
}

#[test]
fn case_168_to_173_input() {
    let p = product();
    let id = started(&p, json!({"command": "read -r line; read -r two; printf '[%s|%s]' \"$line\" \"$two\"; cat >got", "pty": "true"}));
    assert_eq!(process(&p, json!({"action": "write", "session_id": id, "data": "é"}))["bytes_written"], 2);
    assert_eq!(process(&p, json!({"action": "submit", "session_id": id, "data": "x"}))["bytes_written"], 2);
    assert_eq!(process(&p, json!({"action": "submit", "session_id": id, "data": 42}))["bytes_written"], 3);
    until_printed(&p, &id, "[éx|42]");
    let closed = process(&p, json!({"action": "close", "session_id": id}));
    assert_eq!((&closed["status"], &closed["message"]), (&json!("ok"), &json!("EOF sent")));
    assert_eq!(process(&p, json!({"action": "wait", "session_id": id}))["exit_code"], 0);
    let over = process(&p, json!({"action": "write", "session_id": id, "data": "x"}));
    assert_eq!((&over["status"], &over["error"]), (&json!("already_exited"), &json!("Process has already finished")), "{over}");
    let gate = Gate::new(&p, "gate");
    let pipe = started(&p, json!({"command": gate.wait()}));
    let refused = process(&p, json!({"action": "submit", "session_id": pipe, "data": "x"}));
    assert_eq!(refused["status"], "error");
    assert!(
        refused["error"].as_str().unwrap().contains("stdin not available") && refused["hint"].as_str().unwrap().contains("pty=true"),
        "{refused}"
    );
}

#[test]
fn case_177_229_a_list_is_that_of_the_caller() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let start = |flags: &[&str]| {
        let said = call_with(&p, flags, "terminal", json!({"command": gate.wait(), "background": true}));
        said["session_id"].as_str().unwrap().to_owned()
    };
    let own = start(&["--session", "s1", "--task", "t1"]);
    let sibling = start(&["--session", "s1", "--task", "t2"]);
    let other = start(&["--session", "s2", "--task", "t3"]);
    let all = call_with(&p, &["--session", "s1", "--task", "t1"], "process", json!({"action": "list"}));
    let shown: Vec<_> =
        all["processes"].as_array().unwrap().iter().map(|e| (e["session_id"].clone(), e["session_scoped"].clone())).collect();
    assert_eq!(shown, [(json!(own), json!(null)), (json!(sibling), json!(true))]);
    assert_eq!(process(&p, json!({"action": "list"}))["processes"].as_array().unwrap().len(), 3, "a person sees all");
    // Another conversation's process is not there to be touched.
    for action in ["poll", "log", "wait", "kill", "write"] {
        let said = call_with(&p, &["--session", "s1"], "process", json!({"action": action, "session_id": other}));
        assert_eq!(said["status"], "not_found", "{action}: {said}");
    }
    assert_eq!(p.json(["poll", &other])["status"], "running");
}

#[test]
fn case_228_what_is_asked_for_in_a_wrong_way() {
    let p = product();
    let unknown = process(&p, json!({"action": "dance"}));
    assert_eq!(unknown, json!({"error": "Unknown process action: dance. Use: list, poll, log, wait, kill, write, submit, close"}));
    assert_eq!(process(&p, json!({"action": "poll"})), json!({"error": "session_id is required for poll"}));
    assert_eq!(process(&p, json!({"action": "poll", "session_id": 12345}))["status"], "not_found");
}

#[test]
fn case_230_231_secrets_are_masked_in_whatever_the_tools_show() {
    let token = ["gh", "p_", &"a1B2".repeat(9)].concat();
    let p = product().with_env("MY_OPAQUE_TOKEN", "swordfish-and-more");
    let id = started(&p, json!({"command": "printenv"}));
    p.wait(&id);
    let shown = process(&p, json!({"action": "log", "session_id": id}))["output"].as_str().unwrap().to_owned();
    assert!(!shown.contains("swordfish-and-more") && shown.contains("MY_OPAQUE_TOKEN="), "{shown}");
    assert!(shown.contains(&format!("HOME={}", p.user().display())), "{shown}");
    std::fs::write(p.work().join("token"), &token).unwrap();
    let said = terminal(&p, json!({"command": "cat token"}));
    assert!(!said.to_string().contains(&token) && said["exit_code"] == 0, "{said}");
    let id = started(&p, json!({"command": format!("cat token; echo {token}")}));
    p.wait(&id);
    for action in ["poll", "log", "wait", "list"] {
        let said = process(&p, json!({"action": action, "session_id": id}));
        assert!(!said.to_string().contains(&token), "{action}: {said}");
    }
}

#[test]
fn case_234_235_147_what_is_said_of_a_background_process() {
    let p = product();
    let silent = terminal(&p, json!({"command": "true", "background": true}));
    assert_eq!(
        (&silent["output"], &silent["exit_code"], &silent["error"]),
        (&json!("Background process started"), &json!(0), &json!(null))
    );
    assert!(silent["pid"].is_u64() && silent["hint"].as_str().unwrap().contains("notify_on_complete"), "{silent}");
    let told = terminal(&p, json!({"command": "true", "background": true, "notify_on_complete": true}));
    assert!(told["notify_on_complete"] == true && told.get("hint").is_none(), "{told}");
    let both = terminal(&p, json!({"command": "true", "background": true, "notify_on_complete": true, "watch_patterns": ["x"]}));
    assert!(both["watch_patterns_ignored"].as_str().unwrap().contains("duplicate notifications"), "{both}");
    let mute = call_with(&p, &["--no-notify"], "terminal", json!({"command": "true", "background": true, "notify_on_complete": true}));
    assert!(mute["notify_unsupported"].as_str().unwrap().contains("poll") && mute.get("notify_on_complete").is_none(), "{mute}");
}

#[test]
fn case_236_237_239_240_241_what_is_refused_runs_nothing() {
    let p = product();
    for (call, status, part) in [
        (json!({"command": "touch ran", "timeout": 9999}), json!(null), "9999"),
        (json!({"command": "nohup touch ran &"}), json!("error"), "nohup"),
        (json!({"command": "touch ran; pnpm dev"}), json!("error"), "long-lived"),
        (json!({"command": ["touch", "ran"]}), json!("error"), "expected string, got array"),
        (json!({"command": "touch ran", "workdir": "/tmp;x"}), json!("blocked"), "';'"),
        (json!({"command": "touch ran", "background": "perhaps"}), json!("error"), "background must be true or false"),
    ] {
        let said = terminal(&p, call);
        assert!(said["status"] == status && said["error"].as_str().unwrap().contains(part), "{said}");
    }
    assert!(!p.work().join("ran").exists());
    for call in [
        json!({"command": "echo ran", "timeout": 600}),
        json!({"command": "echo ran", "timeout": 300, "nonsense": [1]}),
        json!({"command": "echo ran || npm install vite"}),
        json!({"command": "echo ran || docker compose up -d"}),
        json!({"command": "echo ran || pnpm dev --help"}),
    ] {
        assert_eq!(terminal(&p, call)["output"], "ran");
    }
    assert!(started(&p, json!({"command": "true", "timeout": 9999})).starts_with("proc_"));
    let long = product().with_env("TERMINAL_TIMEOUT", "900");
    assert_eq!(terminal(&long, json!({"command": "echo ran"}))["output"], "ran");
    let short = product().with_env("TERMINAL_MAX_FOREGROUND_TIMEOUT", "5");
    assert!(terminal(&short, json!({"command": "true", "timeout": 6}))["error"].as_str().unwrap().contains("5s"));
}

#[test]
fn a_workdir_is_where_it_runs() {
    let p = product();
    std::fs::create_dir(p.work().join("sub dir")).unwrap();
    let shown = |call: Value| terminal(&p, call)["output"].as_str().unwrap().to_owned();
    assert!(shown(json!({"command": "pwd", "workdir": "sub dir"})).ends_with("/work/sub dir"));
    assert_eq!(shown(json!({"command": "pwd", "workdir": "~"})), p.user().display().to_string());
    let gone = terminal(&p, json!({"command": "pwd", "workdir": "not/there"}));
    assert!(gone["warnings"][0].as_str().unwrap().contains("does not exist"), "{gone}");
}

#[test]
fn case_242_245_terminals() {
    let p = product();
    let said = terminal(&p, json!({"command": "stty size", "pty": true}));
    assert_eq!((&said["output"], &said["exit_code"]), (&json!("30 120"), &json!(0)), "{said}");
    let said = terminal(&p, json!({"command": "test -t 1 || echo none # gh auth login --with-token", "pty": true}));
    assert!(said["output"] == "none" && said["pty_note"].is_string(), "{said}");
}

#[test]
fn case_243_a_script_runs_in_the_foreground_whatever_it_asks_for() {
    let p = product();
    let call = json!({"command": "test -t 1 || echo here", "background": true, "pty": true, "notify_on_complete": true, "watch_patterns": ["here"]});
    assert_eq!(call_with(&p, &["--code-execution"], "terminal", call), json!({"output": "here", "exit_code": 0, "error": null}));
    let refused = call_with(&p, &["--code-execution"], "terminal", json!({"command": "npm start", "background": true}));
    assert!(refused["error"].as_str().unwrap().contains("long-lived"), "{refused}");
    assert!(call_with(&p, &["--code-execution"], "process", json!({"action": "list"}))["error"].is_string());
}

/// A home in which no shell line can be started.
fn without_a_shell() -> Product {
    let p = product();
    let bin = p.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("bash"), "#!/nonexistent/interpreter\n").unwrap();
    std::fs::set_permissions(bin.join("bash"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    p.with_env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
}

#[test]
fn a_foreground_start_that_fails_is_answered_and_not_told() {
    let p = without_a_shell().with_env("OUTLAST_SESSION", "talk");
    let hooked = p.work().join("hooked");
    p.configure(&format!("[[hook]]\nname = \"told\"\ncommand = [\"/bin/touch\", {hooked:?}]\n"));
    let said = terminal(&p, json!({"command": "true"}));
    assert!(said["error"].as_str().unwrap().starts_with("Failed to start the command: "), "{said}");
    let told = p.json(["events", "history"]);
    assert_eq!(told["notices"][0]["event"]["session_id"], said["session_id"], "{told}");
    assert_eq!(told["notices"][0]["state"], "consumed", "{told}");
    assert_eq!((given(&p, "3"), hooked.exists()), (vec![], false));
}

#[test]
fn case_033_a_start_that_fails_is_told_and_can_be_looked_at() {
    let p = without_a_shell();
    let said = terminal(&p, json!({"command": "true", "background": true}));
    assert!(said["error"].as_str().unwrap().starts_with("Failed to start background process: "), "{said}");
    assert_eq!((&said["exit_code"], &said["output"], &said["status"]), (&json!(-1), &json!(""), &json!("error")), "{said}");
    let polled = process(&p, json!({"action": "poll", "session_id": said["session_id"]}));
    assert_eq!((&polled["completion_reason"], &polled["exit_code"]), (&json!("failed_start"), &json!(null)), "{polled}");
    assert!(polled["start_error"].is_string(), "{polled}");
    let said = terminal(&p, json!({"command": "true"}));
    assert!(said["error"].as_str().unwrap().starts_with("Failed to start the command: "), "{said}");
}

#[test]
fn what_the_engine_refuses_is_an_answer() {
    let p = product();
    for background in [true, false] {
        let call = json!({"command": "x".repeat(200_000), "background": background}).to_string();
        let said = p.call_with_input(["tool", "terminal", "-"], call.as_bytes()).good().json();
        assert!(said["status"] == "error" && said["error"].as_str().unwrap().starts_with("Failed to start"), "{said:.300}");
    }
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
}

/// What a conversation is told, by kind and process.
fn drained(p: &Product, session: &str) -> Vec<(Value, Value)> {
    let all = p.json(["events", "drain", "--session", session]);
    let events = all["events"].as_array().unwrap_or_else(|| panic!("{all}"));
    events.iter().map(|e| (e["event"]["type"].clone(), e["event"]["session_id"].clone())).collect()
}

#[test]
fn what_was_answered_is_not_told_and_what_was_handed_over_is() {
    let p = product().with_env("OUTLAST_SESSION", "talk");
    let gate = Gate::new(&p, "gate");
    terminal(&p, json!({"command": "echo quick"}));
    assert_eq!(drained(&p, "talk"), []);
    let said = terminal(&p, json!({"command": gate.wait(), "timeout": 1}));
    assert_eq!(drained(&p, "talk"), []);
    gate.open();
    let told = eventually("the notice", || Some(drained(&p, "talk")).filter(|all| !all.is_empty()));
    assert_eq!(told, [(json!("completion"), said["session_id"].clone())]);
    // Asked for, and then answered by a wait: told once.
    let id = started(&p, json!({"command": "true", "notify_on_complete": true}));
    process(&p, json!({"action": "wait", "session_id": id}));
    assert_eq!(drained(&p, "talk"), []);
    // With a place in a chat.
    let flags = ["--route", "platform=telegram", "--route", "chat=7"];
    let said = call_with(&p, &flags, "terminal", json!({"command": "true", "background": true, "notify_on_complete": true}));
    let event = eventually("the notice", || p.json(["events", "drain"])["events"].get(0).cloned());
    assert_eq!(event["event"]["session_id"], said["session_id"]);
    assert_eq!((&event["event"]["platform"], &event["event"]["chat_id"]), (&json!("telegram"), &json!("7")), "{event}");
}

/// What a taker is given, by process, and whether as a repeat.
fn given(p: &Product, wait: &str) -> Vec<(Value, bool)> {
    let all = p.json(["events", "next", "--session", "talk", "--lease", "0.01", "--wait", wait]);
    all["notices"].as_array().unwrap().iter().map(|n| (n["event"]["session_id"].clone(), n["event"].get("repeat").is_some())).collect()
}

#[test]
fn a_foreground_command_that_is_over_before_anybody_waits_is_answered_and_not_told() {
    let p = product().with_env("OUTLAST_SESSION", "talk");
    for killed in [false, true] {
        p.points().arm("run.before_answer").unwrap();
        let mut call = under_way(&p, &[], &json!({"command": "true"}));
        eventually("the start", || p.points().held("run.before_answer"));
        let told = eventually("the notice", || p.json(["events", "history", "--state", "leased"])["notices"].get(0).cloned());
        assert_eq!(given(&p, "0"), [], "it is kept for whoever waits");
        if killed {
            // Nobody comes: it is told, and is no repeat.
            call.kill().unwrap();
            call.wait().unwrap();
            assert_eq!(given(&p, "20"), [(told["event"]["session_id"].clone(), false)]);
            p.points().release("run.before_answer").unwrap();
        } else {
            p.points().release("run.before_answer").unwrap();
            assert_eq!(answer(call)["exit_code"], 0);
            assert_eq!(given(&p, "3"), []);
        }
    }
}

#[test]
fn case_233_a_secret_is_masked_in_what_is_told() {
    let p = product().with_env("OUTLAST_SESSION", "talk");
    let token = ["gh", "p_", &"a1B2".repeat(9)].concat();
    std::fs::write(p.work().join("token"), &token).unwrap();
    started(&p, json!({"command": "cat token", "notify_on_complete": true}));
    let event = eventually("the notice", || p.json(["events", "drain"])["events"].get(0).cloned());
    assert!(!event.to_string().contains(&token) && event["text"].as_str().unwrap().contains("ghp_"), "{event}");
}

#[test]
fn output_can_be_had_within_a_number_of_tokens() {
    let p = product();
    let line = "echo begin; seq 5000; echo 'error: it broke'; seq 5000; echo the end; exit 3";
    let said = terminal(&p, json!({"command": line, "max_output_tokens": "200"}));
    let output = said["output"].as_str().unwrap();
    assert!(said["output_tokens"].as_u64().unwrap() <= 200 && said["exit_code"] == 3, "{said}");
    for part in ["begin", "error: it broke", "the end", "process(action=\"log\", offset="] {
        assert!(output.contains(part), "{part}: {output}");
    }
    let id = said["session_id"].as_str().unwrap_or_else(|| panic!("there is more to read: {said}"));
    for (action, field) in [("log", "output"), ("wait", "output"), ("poll", "output_preview")] {
        let short = process(&p, json!({"action": action, "session_id": id, "max_output_tokens": 50}));
        let text = short[field].as_str().unwrap();
        assert!(text.contains("the end") && text.len() < 400, "{action}: {short}");
    }
    // What fits is whole, and leaves nothing behind.
    let said = terminal(&p, json!({"command": "echo short", "max_output_tokens": 50}));
    assert_eq!(said, json!({"output": "short", "exit_code": 0, "error": null, "output_tokens": 1}));
    for bad in [json!(0), json!("few"), json!(-1)] {
        assert!(terminal(&p, json!({"command": "true", "max_output_tokens": bad}))["error"].is_string());
        assert!(process(&p, json!({"action": "log", "session_id": id, "max_output_tokens": bad}))["error"].is_string());
    }
}
