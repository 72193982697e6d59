//! Agents that are woken over HTTP.

use super::post;
use crate::support::*;
use crate::told::{ended, history};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

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
                // The client may be gone.
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
    // Delivered, but the answer was lost: the next try finds it there.
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
    assert!(none.code == Some(125) && none.err.contains("404"), "{none:?}");
    let none = call(&events(&[&post(&p, "mcp:opencode:/nowhere", 5)]));
    assert!(none.code == Some(125), "{none:?}");
}

#[test]
fn of_the_sessions_in_a_directory_opencode_is_told_in_the_one_that_started_the_process() {
    let p = product();
    let [one, two, unknown] = ["1", "2", "3"].map(|code| ended(&p, "mcp:opencode:/w", &format!("exit {code}")));
    let tool = |at: u64, output: &str| json!({"info": {"role": "assistant", "time": {"created": at}}, "parts": [{"type": "tool", "state": {"output": output}}]});
    // The newest session has listed what the older one started.
    let mut messages = [("ses_new", vec![tool(20, &format!("{one} {two}"))]), ("ses_old", vec![tool(10, &one)])];
    let asked_of = |line: &str| ["ses_new", "ses_old"].iter().position(|id| line.contains(&format!("/session/{id}/")));
    let agent = Agent::new(Box::new(move |request| {
        let session = |id: &str, updated: u64| json!({"id": id, "directory": "/w", "time": {"updated": updated}});
        let Some(n) = asked_of(&request.line) else { return (200, json!([session("ses_old", 1), session("ses_new", 5)])) };
        if request.line.starts_with("POST ") {
            messages[n].1.push(json!({"info": {"role": "user"}, "parts": request.json()["parts"]}));
            return (204, Value::Null);
        }
        (200, json!(messages[n].1))
    }));
    let due: Vec<Value> = [&one, &two, &unknown].iter().map(|id| history(&p, &["--process", id]).remove(0)).collect();
    p.call_with_input(["hook", "opencode", "--url", &agent.url()], &events(&due.iter().collect::<Vec<_>>())).good();
    let sent: Vec<(bool, usize)> = agent
        .take("POST")
        .iter()
        .map(|r| (r.line.contains("ses_old"), r.json()["parts"][0]["metadata"]["outlast"].as_array().unwrap().len()))
        .collect();
    assert_eq!(sent, [(false, 2), (true, 1)], "one that no session has started goes to the newest");
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
    assert!(late.code == Some(125) && late.err.contains("not in the session"), "{late:?}");
    let sent = agent.take("POST");
    // opencode:hush
    assert_eq!((sent.len(), sent[0].header("authorization")), (1, "Basic b3BlbmNvZGU6aHVzaA=="));
    let unreachable = p.call_with_input(["hook", "opencode", "--url", "http://127.0.0.1:9"], &events(&[&one]));
    assert!(unreachable.code == Some(125) && unreachable.err.contains("opencode serve"), "{unreachable:?}");
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
    assert!(gone.code == Some(125) && gone.err.contains("does not show the session: not found"), "{gone:?}");
    let broken = hermes(true);
    let failed = p.call_with_input(["hook", "hermes", "--url", &broken.url()], &events(&[&post(&p, "hermes:api_1", 4)]));
    assert!(failed.code == Some(125) && failed.err.contains("500"), "{failed:?}");
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
    // A notice of a process that no session there has started is not delivered there.
    let other = call(&[&post(&p, "hermes:mcp", 1)]);
    assert!(other.code == Some(125) && other.err.contains("none of Hermes's sessions"), "{other:?}");
    assert_eq!(agent.take("POST").len(), 0);
    // A session that cannot be read does not prevent delivery in another.
    let agent = two_sessions(&id, "gone");
    p.call_with_input(["hook", "hermes", "--url", &agent.url()], &events(&[&notice])).good();
    assert_eq!(agent.take("POST").len(), 1);
    let perhaps = p.call_with_input(["hook", "hermes", "--url", &agent.url()], &events(&[&post(&p, "hermes:mcp", 2)]));
    assert!(perhaps.code == Some(125) && perhaps.err.contains("does not show the session"), "{perhaps:?}");
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
