//! `hook`: agents that are told between their turns, and those that are woken over HTTP.

use crate::gate::Held;
use crate::support::*;
use crate::told::{ended, history};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

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
        (&["hook", "codex"], told.as_bytes(), "none of Codex's"),
        (&["hook", "hermes"], told.as_bytes(), "none of Hermes's"),
        (&["hook", "opencode"], b"[]", "neither"),
        (&["hook", "opencode", "--url", "http://example.com"], told.as_bytes(), "http://"),
    ] {
        let refused = p.call_with_input(args, input);
        // Not 2: to an agent that would be an order.
        assert_eq!(refused.code, Some(1), "{args:?} {}", refused.err);
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
    assert_eq!(next(&p), Some(true), "nobody knows what a dead hook had printed");
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
    // Printed, and killed while nobody hears it.
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
    // Without anybody saying anything to either.
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

/// A request as it came over the wire.
#[derive(Debug, Clone)]
struct Request {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v)
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

type Answering = Box<dyn FnMut(&Request) -> (u16, Value) + Send>;

/// A server of an agent: a real one on the loopback, with answers of the test's own.
struct Agent {
    port: u16,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Agent {
    fn new(mut answer: Answering) -> Self {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, asked) = (door.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
        let heard = Arc::clone(&asked);
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in door.incoming().flatten() {
                let Some(request) = read(&stream) else { continue };
                heard.lock().unwrap().push(request.clone());
                let (status, body) = answer(&request);
                let body = if body.is_null() { String::new() } else { body.to_string() };
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                // Whoever asked may be gone.
                let _gone = (&stream).write_all(head.as_bytes());
            }
        });
        Self { port, asked }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The requests whose line begins so, since the last time.
    fn take(&self, begins: &str) -> Vec<Request> {
        let all: Vec<Request> = self.asked.lock().unwrap().drain(..).collect();
        all.into_iter().filter(|r| r.line.starts_with(begins)).collect()
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    lines.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        lines.read_line(&mut header).ok()?;
        match header.trim_end().split_once(": ") {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.to_owned())),
            None => break,
        }
    }
    let mut request = Request { line: line.trim_end().to_owned(), headers, body: Vec::new() };
    let length = request.header("content-length").parse().unwrap_or(0);
    request.body = vec![0; length];
    lines.read_exact(&mut request.body).ok()?;
    Some(request)
}

/// What a `[[hook]]` table writes of these.
fn events(posted: &[&Value]) -> Vec<u8> {
    let events: Vec<Value> =
        posted.iter().map(|p| json!({"event": p["event"], "text": p["text"], "attempt": 1, "repeat": false})).collect();
    json!({"events": events}).to_string().into_bytes()
}

/// An opencode with one session in `/w` that was used last and others beside it, which keeps what it is told. `writes`: whether it does.
fn opencode(writes: bool) -> Agent {
    let mut messages: Vec<Value> = vec![json!({"info": {"role": "user"}, "parts": [{"type": "text", "text": "hi"}]})];
    Agent::new(Box::new(move |request| {
        let session = |id: &str, dir: &str, updated: u64| json!({"id": id, "directory": dir, "time": {"updated": updated}});
        let mut child = session("ses_child", "/w", 99);
        child["parentID"] = json!("ses_1");
        let line = request.line.as_str();
        if line.starts_with("GET /session?directory=%2Fw ") {
            return (200, json!([session("ses_0", "/w", 1), session("ses_1", "/w", 5), session("ses_2", "/elsewhere", 9), child]));
        }
        if line.starts_with("GET /session/ses_1 ") {
            return (200, session("ses_1", "/w", 5));
        }
        if line.starts_with("GET /session/ses_1/message?directory=%2Fw ") {
            return (200, json!(messages));
        }
        if line.starts_with("POST /session/ses_1/prompt_async?directory=%2Fw ") {
            if writes {
                messages.push(json!({"info": {"role": "user"}, "parts": request.json()["parts"]}));
            }
            return (204, Value::Null);
        }
        (404, json!({"name": "NotFoundError"}))
    }))
}

#[test]
fn opencode_is_told_in_its_own_session_and_what_is_there_is_not_told_again() {
    let p = product();
    let agent = opencode(true);
    let url = agent.url();
    let call = |input: &[u8]| p.call_with_input(["hook", "opencode", "--url", &url], input);
    let (one, two) = (post(&p, "mcp:opencode:/w", 1), post(&p, "mcp:opencode:/w", 2));
    call(&events(&[&one])).good();
    let sent = agent.take("POST");
    assert_eq!(sent.len(), 1, "{sent:?}");
    let part = &sent[0].json()["parts"][0];
    assert_eq!((&part["type"], &part["metadata"]), (&json!("text"), &json!({"outlast": [one["event"]["event_id"]]})));
    assert!(part["text"].as_str().unwrap().contains("number 1"), "{part}");
    assert_eq!((sent[0].header("content-type"), sent[0].header("authorization")), ("application/json", ""));
    // Told, and nobody heard that it was: the next try finds it there.
    call(&events(&[&one])).good();
    assert_eq!(agent.take("POST").len(), 0);
    call(&events(&[&one, &two])).good();
    let sent = agent.take("POST");
    assert_eq!((sent.len(), &sent[0].json()["parts"][0]["metadata"]), (1, &json!({"outlast": [two["event"]["event_id"]]})));
    // By its name.
    let three = post(&p, "opencode:ses_1", 3);
    call(&events(&[&three])).good();
    assert_eq!(agent.take("POST").len(), 1);
    let none = call(&events(&[&post(&p, "opencode:ses_9", 4)]));
    assert!(none.code == Some(1) && none.err.contains("404"), "{none:?}");
    let none = call(&events(&[&post(&p, "mcp:opencode:/nowhere", 5)]));
    assert!(none.code == Some(1), "{none:?}");
}

#[test]
fn opencode_is_shown_its_password_and_believed_once_the_message_is_there() {
    let p = product();
    let agent = opencode(false);
    let file = p.work().join("password");
    std::fs::write(&file, "hush\n").unwrap();
    let one = post(&p, "opencode:ses_1", 1);
    let args = ["hook", "opencode", "--url", &agent.url(), "--password-file", file.to_str().unwrap(), "--timeout", "0.3"];
    let late = p.call_with_input(args, &events(&[&one]));
    assert!(late.code == Some(1) && late.err.contains("not in the session"), "{late:?}");
    let sent = agent.take("POST");
    // opencode:hush
    assert_eq!((sent.len(), sent[0].header("authorization")), (1, "Basic b3BlbmNvZGU6aHVzaA=="));
    let nobody = p.call_with_input(["hook", "opencode", "--url", "http://127.0.0.1:9"], &events(&[&one]));
    assert!(nobody.code == Some(1) && nobody.err.contains("opencode serve"), "{nobody:?}");
}

#[test]
fn of_two_hooks_that_are_to_tell_the_same_one_does() {
    let p = product();
    let one = post(&p, "opencode:ses_1", 1);
    // The server looks into the session only once it may.
    let (looked, looks) = std::sync::mpsc::channel();
    let (go, may) = std::sync::mpsc::channel::<()>();
    let mut first = Some((looked, may));
    let mut messages: Vec<Value> = Vec::new();
    let agent = Agent::new(Box::new(move |request| {
        let line = request.line.as_str();
        if line.starts_with("GET /session/ses_1 ") {
            return (200, json!({"id": "ses_1", "directory": "/w"}));
        }
        if line.starts_with("POST ") {
            messages.push(json!({"info": {"role": "user"}, "parts": request.json()["parts"]}));
            return (204, Value::Null);
        }
        let said = json!(messages);
        if let Some((looked, may)) = first.take() {
            looked.send(()).unwrap();
            may.recv().unwrap();
        }
        (200, said)
    }));
    let tell = || {
        let mut child =
            p.command(["hook", "opencode", "--url", &agent.url()]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&events(&[&one])).unwrap();
        child
    };
    // The first has looked and not told, as when its engine was killed and the next one runs the second.
    let first = tell();
    looks.recv_timeout(PATIENCE).expect("it looks");
    let second = tell();
    let waits = format!(" {} ", second.id());
    eventually("the second to wait for the first", || {
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().any(|line| line.contains("-> FLOCK") && line.contains(&waits)).then_some(())
    });
    go.send(()).unwrap();
    for child in [first, second] {
        Answer::from(child.wait_with_output().unwrap()).good();
    }
    assert_eq!(agent.take("POST").len(), 1);
}

/// A Hermes with one session, which keeps what it is told unless it `fails`.
fn hermes(fails: bool) -> Agent {
    let mut messages: Vec<Value> = Vec::new();
    Agent::new(Box::new(move |request| {
        let line = request.line.as_str();
        if line.starts_with("GET /api/sessions/api_1/messages ") {
            return (200, json!({"object": "list", "data": messages}));
        }
        if line.starts_with("POST /api/sessions/api_1/chat ") {
            if fails {
                return (500, json!({"error": "no model"}));
            }
            messages.push(json!({"role": "user", "content": request.json()["message"]}));
            messages.push(json!({"role": "assistant", "content": "ok"}));
            return (200, json!({"message": {"role": "assistant", "content": "ok"}}));
        }
        if line.starts_with("POST /webhooks/outlast ") {
            return (202, json!({"status": "accepted"}));
        }
        (404, json!({"error": "none"}))
    }))
}

#[test]
fn hermes_takes_a_turn_in_its_own_session_and_is_not_told_twice() {
    let p = product();
    let agent = hermes(false);
    let key = p.work().join("key");
    std::fs::write(&key, "hush\n").unwrap();
    let args = ["hook", "hermes", "--url", &agent.url(), "--key-file", key.to_str().unwrap()];
    let (one, two) = (post(&p, "hermes:api_1", 1), post(&p, "hermes:api_1", 2));
    p.call_with_input(args, &events(&[&one])).good();
    let sent = agent.take("POST");
    assert_eq!((sent.len(), sent[0].header("authorization")), (1, "Bearer hush"));
    let message = sent[0].json()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("number 1") && message.contains(one["event"]["event_id"].as_str().unwrap()), "{message}");
    p.call_with_input(args, &events(&[&one, &two])).good();
    let sent = agent.take("POST");
    let message = sent[0].json()["message"].as_str().unwrap().to_owned();
    assert!(sent.len() == 1 && message.contains("number 2") && !message.contains("number 1"), "{message}");
    p.call_with_input(args, &events(&[&one, &two])).good();
    assert_eq!(agent.take("POST").len(), 0);
    let gone = p.call_with_input(args, &events(&[&post(&p, "hermes:api_9", 3)]));
    assert!(gone.code == Some(1) && gone.err.contains("there is none"), "{gone:?}");
    let broken = hermes(true);
    let failed = p.call_with_input(["hook", "hermes", "--url", &broken.url()], &events(&[&post(&p, "hermes:api_1", 4)]));
    assert!(failed.code == Some(1) && failed.err.contains("500"), "{failed:?}");
}

/// A Hermes with two sessions, of which the one that was used last has only seen the process in a list, and one more.
fn two_sessions(process: &str, beside: &'static str) -> Agent {
    let tool = |at: f64| json!({"role": "tool", "timestamp": at, "content": format!("{{\"result\": \"{{\\\"session_id\\\": \\\"{process}\\\"}}\"}}")});
    let mut started = vec![json!({"role": "user", "content": "start it", "timestamp": 1.0}), tool(2.5)];
    let seen = vec![json!({"role": "user", "content": format!("what is {process}?"), "timestamp": 0.5}), tool(3.5)];
    Agent::new(Box::new(move |request| {
        let line = request.line.as_str();
        if line.starts_with("GET /api/sessions?") {
            return (200, json!({"object": "list", "data": [{"id": beside}, {"id": "late"}, {"id": "early"}]}));
        }
        if line.starts_with("GET /api/sessions/late/messages ") {
            return (200, json!({"data": seen}));
        }
        if line.starts_with("GET /api/sessions/early/messages ") {
            return (200, json!({"data": started}));
        }
        if line.starts_with("GET /api/sessions/empty/messages ") {
            return (200, json!({"data": []}));
        }
        if line.starts_with("POST /api/sessions/early/chat ") {
            started.push(json!({"role": "user", "content": request.json()["message"]}));
            return (200, json!({"message": {"role": "assistant", "content": "ok"}}));
        }
        (404, json!({"error": "none"}))
    }))
}

#[test]
fn what_hermes_started_over_mcp_is_told_in_the_session_that_started_it() {
    let p = product();
    let id = ended(&p, "hermes:mcp", "exit 3");
    let notice = history(&p, &["--process", &id])[0].clone();
    let agent = two_sessions(&id, "empty");
    let call = |notices: &[&Value]| p.call_with_input(["hook", "hermes", "--url", &agent.url()], &events(notices));
    call(&[&notice]).good();
    let sent = agent.take("POST");
    assert!(sent.len() == 1 && sent[0].line.contains("/early/chat "), "{sent:?}");
    assert!(sent[0].json()["message"].as_str().unwrap().contains(&id), "{sent:?}");
    call(&[&notice]).good();
    assert_eq!(agent.take("POST").len(), 0, "told once");
    // What nobody there has started is told by nobody there.
    let other = call(&[&post(&p, "hermes:mcp", 1)]);
    assert!(other.code == Some(1) && other.err.contains("none of Hermes's sessions"), "{other:?}");
    assert_eq!(agent.take("POST").len(), 0);
    // A session that cannot be shown keeps nobody from being told in another.
    let agent = two_sessions(&id, "gone");
    p.call_with_input(["hook", "hermes", "--url", &agent.url()], &events(&[&notice])).good();
    assert_eq!(agent.take("POST").len(), 1);
    let perhaps = p.call_with_input(["hook", "hermes", "--url", &agent.url()], &events(&[&post(&p, "hermes:mcp", 2)]));
    assert!(perhaps.code == Some(1) && perhaps.err.contains("does not show the session"), "{perhaps:?}");
}

#[test]
fn a_webhook_of_hermes_gets_each_notice_signed_under_its_own_name() {
    let p = product();
    let agent = hermes(false);
    let secret = p.work().join("secret");
    std::fs::write(&secret, "hush\n").unwrap();
    let (one, two) = (post(&p, "anything", 1), post(&p, "anything", 2));
    let url = format!("{}/webhooks/outlast", agent.url());
    p.call_with_input(["hook", "hermes", "--webhook", &url, "--secret-file", secret.to_str().unwrap()], &events(&[&one, &two])).good();
    let sent = agent.take("POST /webhooks/outlast ");
    let names: Vec<&str> = sent.iter().map(|r| r.header("x-request-id")).collect();
    assert_eq!(names, [one["event"]["event_id"].as_str().unwrap(), two["event"]["event_id"].as_str().unwrap()]);
    for request in &sent {
        assert!(request.header("x-webhook-timestamp").parse::<u64>().is_ok_and(|t| t > 1_700_000_000));
        assert_eq!(request.header("x-webhook-signature-v2").len(), 64);
        assert!(request.json()["text"].as_str().unwrap().contains("number"), "{:?}", request.json());
    }
}
