//! `hook`: agents that are told between their turns, and those that are woken over HTTP.

mod woken;

use crate::gate::Held;
use crate::support::*;
use crate::told::history;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

/// What Claude Code writes to a hook.
fn claude(event: &str, dir: &str) -> Vec<u8> {
    let input = json!({
        "session_id": "5d2a", "transcript_path": "/t.jsonl", "cwd": dir, "permission_mode": "default", "hook_event_name": event,
        "source": "startup", "prompt": "go on", "stop_hook_active": false,
    });
    input.to_string().into_bytes()
}

fn post(p: &Product, session: &str, n: u64) -> Value {
    p.json(["events", "post", "--session", session, &json!({"type": "note", "message": format!("number {n}"), "n": n}).to_string()])
}

fn said(p: &Product, event: &str, dir: &str) -> Answer {
    p.call_with_input(["hook", "claude", "--lease", "1"], &claude(event, dir)).good()
}

fn states(p: &Product) -> Vec<String> {
    history(p, &[]).iter().map(|t| t["state"].as_str().unwrap().to_owned()).collect()
}

const KEY: &str = "mcp:claude-code:/w";

#[test]
fn claude_reads_at_the_boundaries_of_its_turns_what_there_is_and_once() {
    let p = product();
    // Where nothing ever ran there is nothing to be told, and nothing is made.
    assert_eq!((said(&p, "SessionStart", "/w").text(), p.home().root.exists()), (String::new(), false));
    for (n, event) in ["SessionStart", "UserPromptSubmit", "PostToolUse"].into_iter().enumerate() {
        post(&p, KEY, n as u64);
        assert_eq!(said(&p, event, "/elsewhere").text(), "", "another conversation's");
        let answer = said(&p, event, "/w").json();
        assert_eq!(answer["hookSpecificOutput"]["hookEventName"], event);
        let text = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
        assert!(text.contains(&format!("number {n}")) && !text.contains("repeat"), "{text}");
        assert_eq!(said(&p, event, "/w").text(), "", "told once");
    }
    assert_eq!(states(&p), ["delivered"; 3]);
}

#[test]
fn claude_is_kept_from_stopping_once_and_only_by_something_to_be_told() {
    let p = product();
    p.engine();
    assert_eq!(said(&p, "Stop", "/w").text(), "");
    post(&p, KEY, 1);
    post(&p, KEY, 2);
    let again: Vec<u8> =
        String::from_utf8(claude("Stop", "/w")).unwrap().replace("\"stop_hook_active\":false", "\"stop_hook_active\":true").into();
    assert_eq!(p.call_with_input(["hook", "claude"], &again).good().text(), "");
    assert_eq!(states(&p), ["pending"; 2], "nothing was taken");
    let answer = said(&p, "Stop", "/w").json();
    assert_eq!(answer["decision"], "block");
    let reason = answer["reason"].as_str().unwrap();
    assert!(reason.contains("number 1") && reason.contains("number 2"), "{reason}");
    assert_eq!(said(&p, "Stop", "/w").text(), "");
}

#[test]
fn more_than_an_agent_reads_at_once_is_told_in_parts() {
    let p = product();
    let long = "x".repeat(4_000);
    for n in 0..5 {
        p.json(["events", "post", "--session", KEY, &json!({"type": "note", "n": n, "message": long}).to_string()]);
    }
    let mut parts = 0;
    loop {
        let text = said(&p, "UserPromptSubmit", "/w").text();
        if text.is_empty() {
            break;
        }
        assert!(text.chars().count() < 10_500, "{}", text.len());
        parts += 1;
    }
    assert_eq!((parts, states(&p)), (3, vec!["delivered".to_owned(); 5]));
    assert!(history(&p, &[]).iter().all(|t| t["event"].get("repeat").is_none()));
}

#[test]
fn the_directory_claude_was_started_in_names_its_conversation_wherever_it_went() {
    let p = product();
    post(&p, KEY, 1);
    let call = |dir: &str, name: &str, value: &str| {
        let mut child = p.command(["hook", "claude"]).env(name, value).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&claude("UserPromptSubmit", dir)).unwrap();
        Answer::from(child.wait_with_output().unwrap()).good().text()
    };
    assert_eq!(call("/w", "CLAUDE_PROJECT_DIR", "/other"), "");
    assert!(call("/w/deep/down", "CLAUDE_PROJECT_DIR", "/w").contains("number 1"));
    post(&p, "mine", 2);
    assert!(call("/w", "OUTLAST_SESSION", "mine").contains("number 2"));
    // Its tools are told the directory without links.
    let real = p.work().canonicalize().unwrap();
    std::os::unix::fs::symlink(&real, p.user().join("link")).unwrap();
    post(&p, &format!("mcp:claude-code:{}", real.display()), 3);
    assert!(call("/w", "CLAUDE_PROJECT_DIR", p.user().join("link").to_str().unwrap()).contains("number 3"));
}

#[test]
fn what_is_no_call_of_a_hook_is_refused_and_changes_nothing() {
    let p = product();
    post(&p, KEY, 1);
    let told = json!({"events": [{"event": post(&p, "opencode:1", 2)["event"]}]}).to_string();
    for (args, input, why) in [
        (&["hook", "claude"][..], &b"{"[..], "no JSON: line 1"),
        (&["hook", "claude"], b"", "is empty"),
        (&["hook", "claude"], b"{\"cwd\": \"/w\"}", "neither"),
        (&["hook", "claude"], b"{\"hook_event_name\": \"Stop\"}", "no `cwd`"),
        (&["hook", "claude"], b"{\"hook_event_name\": \"PreToolUse\", \"cwd\": \"/w\"}", "SessionStart"),
        (&["hook", "claude"], told.as_bytes(), "[[hook]]"),
        (&["hook", "codex"], b"{\"hook_event_name\": \"Stop\", \"cwd\": \"/w\"}", "session_id"),
        (&["hook", "codex"], told.as_bytes(), "not a session of Codex"),
        (&["hook", "hermes"], told.as_bytes(), "not a session of Hermes"),
        (&["hook", "opencode"], b"[]", "neither"),
        (&["hook", "opencode", "--url", "http://example.com"], told.as_bytes(), "http://"),
    ] {
        let refused = p.call_with_input(args, input);
        // Not 2: to an agent that would be an order.
        assert_eq!(refused.code, Some(125), "{args:?} {}", refused.err);
        assert!(refused.err.contains(why) && refused.out.is_empty(), "{args:?}: {}", refused.err);
    }
    assert_eq!(p.call(["hook", "claude", "--nonsense"]).code, Some(125));
    assert_eq!(states(&p), ["pending"; 2]);
}

fn hook(p: &Product, args: &[&str], event: &str) -> Child {
    hook_given(p, args, &claude(event, "/w"))
}

fn hook_given(p: &Product, args: &[&str], input: &[u8]) -> Child {
    let mut child = p.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("outlast runs");
    child.stdin.take().unwrap().write_all(input).unwrap();
    child
}

/// Takes what comes next, and how it is marked.
fn next(p: &Product) -> Option<bool> {
    let given = p.json(["events", "next", "--session", KEY, "--wait", "10"]);
    given["notices"].as_array().unwrap().first().map(|t| t["event"]["repeat"] == true)
}

#[test]
fn a_hook_killed_before_it_printed_loses_nothing_and_one_killed_after_says_nothing_twice() {
    let p = product();
    p.engine();
    // Given to it, and never printed.
    post(&p, KEY, 1);
    p.points().arm("notice.leased").unwrap();
    let mut child = hook(&p, &["hook", "claude", "--lease", "1"], "UserPromptSubmit");
    eventually("the hook has it", || p.points().held("notice.leased"));
    child.kill().unwrap();
    assert_eq!(child.wait_with_output().unwrap().stdout, b"");
    p.points().release("notice.leased").unwrap();
    assert_eq!(next(&p), Some(true), "what a dead hook had printed is unknown");
    p.call(["events", "ack", "--session", KEY, history(&p, &[])[0]["event"]["event_id"].as_str().unwrap()]).good();
    // Printed and acknowledged, and not answered any more.
    post(&p, KEY, 2);
    p.points().arm("notice.settled").unwrap();
    let mut child = hook(&p, &["hook", "claude", "--lease", "60"], "UserPromptSubmit");
    eventually("the hook has said so", || p.points().held("notice.settled"));
    child.kill().unwrap();
    assert!(String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().contains("number 2"));
    p.points().release("notice.settled").unwrap();
    assert_eq!((states(&p), said(&p, "UserPromptSubmit", "/w").text()), (vec!["delivered".to_owned(); 2], String::new()));
    // Killed after it printed, before the output was read.
    post(&p, KEY, 3);
    p.points().arm("notice.leased").unwrap();
    let mut child = hook(&p, &["hook", "claude", "--lease", "1"], "UserPromptSubmit");
    let engine = eventually("the hook has it", || p.points().held("notice.leased"));
    p.points().release("notice.leased").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let held = Held::new(engine);
    child.kill().unwrap();
    child.wait().unwrap();
    drop(held);
    assert!(line.contains("number 3"), "{line}");
    // Either it was heard, or it comes again and is marked.
    match next(&p) {
        None => assert_eq!(states(&p), ["delivered"; 3]),
        Some(repeat) => assert!(repeat),
    }
}

#[test]
fn a_waiter_wakes_with_the_next_notice_and_only_one_of_several() {
    let p = product();
    p.engine();
    let quiet = p.call_with_input(["hook", "claude", "--wait", "--timeout", "0.2"], &claude("Stop", "/w")).good();
    assert_eq!((quiet.text(), quiet.err), (String::new(), String::new()));
    let args = ["hook", "claude", "--wait", "--timeout", "3"];
    let waiters: Vec<Child> = (0..3).map(|_| hook(&p, &args, "Stop")).collect();
    let other = hook_given(&p, &args, &claude("Stop", "/elsewhere"));
    post(&p, KEY, 1);
    let ended: Vec<Answer> = waiters.into_iter().map(|w| w.wait_with_output().unwrap().into()).collect();
    let woken: Vec<&Answer> = ended.iter().filter(|a| a.code == Some(2)).collect();
    assert_eq!(woken.len(), 1, "{ended:?}");
    assert!(woken[0].err.contains("number 1") && woken[0].out.is_empty(), "{woken:?}");
    assert!(ended.iter().filter(|a| a.code == Some(0)).count() == 2 && other.wait_with_output().unwrap().status.code() == Some(0));
    assert_eq!(states(&p), ["delivered"]);
}

/// How many wait. What is being made has another name.
fn places(p: &Product) -> usize {
    let is_made = |entry: &std::fs::DirEntry| entry.path().extension().is_none();
    std::fs::read_dir(p.home().root.join("hooks")).map_or(0, |all| all.flatten().filter(is_made).count())
}

#[test]
fn a_waiter_leaves_when_another_comes_to_wait_for_the_same() {
    let p = product();
    p.engine();
    let args = ["hook", "claude", "--wait"];
    let first = hook(&p, &args, "Stop");
    eventually("it to wait", || (places(&p) == 1).then_some(()));
    let second = hook(&p, &args, "Stop");
    // No message to either of them is needed.
    let left: Answer = first.wait_with_output().unwrap().into();
    assert_eq!((left.code, left.text(), left.err.as_str()), (Some(0), String::new(), ""));
    post(&p, KEY, 1);
    let woken: Answer = second.wait_with_output().unwrap().into();
    assert!(woken.code == Some(2) && woken.err.contains("number 1"), "{woken:?}");
    assert_eq!((places(&p), states(&p)), (0, vec!["delivered".to_owned()]));
}

#[test]
fn another_conversation_in_the_same_directory_dismisses_no_waiter() {
    let p = product();
    p.engine();
    let args = ["hook", "claude", "--wait"];
    let first = hook(&p, &args, "Stop");
    let of_another = String::from_utf8(claude("Stop", "/w")).unwrap().replace("5d2a", "77c0");
    let mut second = hook_given(&p, &args, of_another.as_bytes());
    eventually("both to wait", || (places(&p) == 2).then_some(()));
    second.kill().unwrap();
    second.wait().unwrap();
    post(&p, KEY, 1);
    let woken: Answer = first.wait_with_output().unwrap().into();
    assert!(woken.code == Some(2) && woken.err.contains("number 1"), "{woken:?}");
}

#[test]
fn a_waiter_that_is_interrupted_leaves() {
    let p = product();
    p.engine();
    let mut waiter = hook(&p, &["hook", "claude", "--wait"], "Stop");
    eventually("it to wait", || (p.json(["interrupt", "--session", KEY])["count"] == 1).then_some(()));
    assert_eq!(eventually("it to leave", || waiter.try_wait().unwrap()).code(), Some(0));
}

#[test]
fn a_waiter_whose_agent_is_gone_gives_back_what_it_got() {
    let p = product();
    p.engine();
    let mut waiter = hook(&p, &["hook", "claude", "--wait"], "Stop");
    drop(waiter.stderr.take());
    post(&p, KEY, 1);
    assert_ne!(waiter.wait().unwrap().code(), Some(2));
    assert!(said(&p, "UserPromptSubmit", "/w").text().contains("number 1"));
}

#[test]
fn codex_reads_at_the_boundaries_of_its_turns_what_is_for_its_thread() {
    let p = product();
    post(&p, "codex:019a-7", 1);
    let call = |thread: &str| {
        let input =
            json!({"hook_event_name": "UserPromptSubmit", "session_id": thread, "turn_id": "t", "cwd": "/w", "prompt": "x", "model": "m"});
        p.call_with_input(["hook", "codex"], input.to_string().as_bytes()).good().text()
    };
    assert_eq!(call("019a-8"), "");
    assert!(call("019a-7").contains("number 1"));
    assert_eq!(call("019a-7"), "");
}
