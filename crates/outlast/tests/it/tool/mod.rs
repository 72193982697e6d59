//! `tool`: the tools as an agent calls them.

mod foreground;
mod told;

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
fn case_079_an_unknown_id_is_not_found_by_any_action() {
    let p = product();
    for action in ["poll", "log", "wait", "kill", "write", "submit", "close"] {
        let said = process(&p, json!({"action": action, "session_id": "proc_ffffffffffff"}));
        assert_eq!((&said["status"], &said["error"]), (&json!("not_found"), &json!("No process with ID proc_ffffffffffff")), "{action}");
        assert!(said["hint"].as_str().unwrap().contains("process(action=\"list\")"), "{said}");
    }
}

#[test]
fn a_process_is_found_by_its_name_within_its_session() {
    let p = product();
    let id = p.run_with(&["--name", "web", "--session", "s", "--stdin"], "read -r line; echo got $line; exit 3");
    let in_session = |arguments: Value| p.call(["tool", "process", &arguments.to_string(), "--session", "s"]).good().json();
    assert_eq!(in_session(json!({"action": "poll", "session_id": "web"}))["session_id"], id);
    assert_eq!(in_session(json!({"action": "submit", "session_id": "web", "data": "it"}))["status"], "ok");
    let waited = in_session(json!({"action": "wait", "session_id": "web"}));
    assert_eq!((&waited["session_id"], &waited["exit_code"], &waited["output"]), (&json!(id), &json!(3), &json!("got it\n")), "{waited}");
    let slip = in_session(json!({"action": "log", "session_id": "wbe"}));
    assert_eq!((&slip["status"], &slip["error"]), (&json!("not_found"), &json!("No process with ID wbe")), "{slip}");
    assert!(slip["hint"].as_str().unwrap().starts_with(&format!("did you mean web ({id})? process(action=\"list\")")), "{slip}");
    let other = p.call(["tool", "process", &json!({"action": "poll", "session_id": "web"}).to_string(), "--session", "t"]).good().json();
    assert_eq!(other["status"], "not_found", "{other}");
    assert!(!other["hint"].as_str().unwrap().contains("web"), "{other}");
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
fn case_230_231_secrets_are_masked_in_everything_the_tools_show() {
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
    let there = p.work().display().to_string();
    for background in [false, true] {
        let gone = terminal(&p, json!({"command": "touch ran", "workdir": "not/there", "background": background}));
        assert_eq!((&gone["status"], &gone["exit_code"]), (&json!("error"), &json!(-1)), "{gone}");
        assert!(gone["error"].as_str().unwrap().ends_with(&format!("directory {there}/not/there does not exist")), "{gone}");
        assert!(gone["hint"].as_str().unwrap().starts_with(&format!("{there} exists;")), "{gone}");
    }
    assert!(!p.work().join("ran").exists());
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
fn case_243_a_script_runs_in_the_foreground_also_if_it_asks_for_the_background() {
    let p = product();
    let call = json!({"command": "test -t 1 || echo here", "background": true, "pty": true, "notify_on_complete": true, "watch_patterns": ["here"]});
    assert_eq!(call_with(&p, &["--code-execution"], "terminal", call), json!({"output": "here", "exit_code": 0, "error": null}));
    let refused = call_with(&p, &["--code-execution"], "terminal", json!({"command": "npm start", "background": true}));
    assert!(refused["error"].as_str().unwrap().contains("long-lived"), "{refused}");
    assert!(call_with(&p, &["--code-execution"], "process", json!({"action": "list"}))["error"].is_string());
}
