//! Over HTTP: who may ask, and what is refused.

use super::*;
use crate::gate::Gate;
use std::io::Read as _;
use std::net::TcpStream;

/// `outlast mcp --http`, and what it said about itself.
struct Http {
    child: Child,
    address: String,
    token: String,
}

impl Http {
    fn start(p: &Product) -> Self {
        let mut child = p.command(["mcp", "--http", "--json"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        let address = said["url"].as_str().unwrap().trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let token = std::fs::read_to_string(said["token_file"].as_str().unwrap()).unwrap();
        Self { child, address, token }
    }

    /// Sends one request with these headers beside the usual ones, and returns the status and the body.
    fn post(&self, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let said = self.post_whole(headers, body);
        let status = said.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("no status: {said:?}"));
        (status, said.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    /// The same, and returns all that was said.
    fn post_whole(&self, headers: &[(&str, &str)], body: &[u8]) -> String {
        let mut said = Vec::new();
        let _reset = self.send(headers, body).read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Sends one request, whose answer is yet to be read.
    fn send(&self, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        self.send_as("POST", headers, body)
    }

    fn send_as(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut all = vec![
            ("Host", self.address.clone()),
            ("Authorization", format!("Bearer {}", self.token)),
            ("Content-Type", "application/json".into()),
            ("Accept", "application/json, text/event-stream".into()),
        ];
        for (name, value) in headers {
            all.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
            if !value.is_empty() {
                all.push((name, (*value).to_owned()));
            }
        }
        let head: String = all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "{method} /mcp HTTP/1.1\r\n{head}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len()).unwrap();
        // One that is refused early may close before it has read all.
        let _refused = stream.write_all(body);
        stream
    }

    /// Begins a session of the old era.
    fn session(&self) -> String {
        let begun = self.post_whole(&[], INITIALIZE.as_bytes());
        let session = begun.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap_or_else(|| panic!("no session: {begun}"));
        let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", OLD)];
        assert_eq!(self.post(&headers, br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).0, 202);
        session.to_owned()
    }

    /// Calls a tool in a session.
    fn call_in(&self, session: &str, tool: &str, arguments: Value) -> Value {
        let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", OLD)];
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        let (status, said) = self.post(&headers, body.to_string().as_bytes());
        assert_eq!(status, 200, "{said}");
        message(&said)["result"].clone()
    }

    /// Ends a session, as a client does that leaves.
    fn delete(&self, session: &str) {
        let mut said = String::new();
        let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", OLD)];
        self.send_as("DELETE", &headers, b"").read_to_string(&mut said).unwrap();
        assert!(said.starts_with("HTTP/1.1 204 "), "{said}");
    }

    /// Makes a request of the new era, and returns its answer.
    fn ask(&self, name: &str, capabilities: Value, method: &str, mut params: Value) -> Value {
        params["_meta"] = meta(name, capabilities);
        let what = params.get("name").or(params.get("uri")).or(params.get("taskId")).and_then(Value::as_str).unwrap_or("").to_owned();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let headers = [("MCP-Protocol-Version", NEW), ("Mcp-Method", method), ("Mcp-Name", what.as_str())];
        let (status, said) = self.post(&headers, body.as_bytes());
        assert_eq!(status, 200, "{said}");
        message(&said)
    }

    fn call(&self, name: &str, tool: &str, arguments: Value) -> Value {
        self.ask(name, json!({}), "tools/call", json!({"name": tool, "arguments": arguments}))["result"].clone()
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        let _over = self.child.kill();
        let _over = self.child.wait();
    }
}

/// The last message of a body, be it an object, events or chunks of either.
fn message(body: &str) -> Value {
    let lines = body.lines().map(|line| line.trim_start_matches("data:").trim());
    let mut objects = lines.filter(|line| line.starts_with('{')).filter_map(|line| serde_json::from_str::<Value>(line).ok());
    objects.next_back().unwrap_or_else(|| panic!("no message: {body:?}"))
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}"#;

#[test]
fn only_who_has_the_token_is_answered() {
    let p = product();
    let http = Http::start(&p);
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(p.home().root.join("mcp-token")).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(http.post(&[], INITIALIZE.as_bytes()).0, 200);
    let shorter = &http.token[1..];
    for wrong in
        ["", "Bearer", "Bearer nonsense", &format!("Bearer {shorter}"), &format!("Bearer x{shorter}"), &format!("Basic {}", http.token)]
    {
        let (status, said) = http.post(&[("Authorization", wrong)], INITIALIZE.as_bytes());
        assert_eq!(status, 401, "{wrong}: {said}");
        assert!(said.contains("token is missing or wrong") && !said.contains(&http.token), "{said}");
    }
    // Nor do they keep a place among the connections.
    let mut stream = TcpStream::connect(&http.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n\r\n", http.address).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.to_lowercase().contains("\r\nconnection: close\r\n"), "{said}");
    // The token stays with the home.
    let again = Http::start(&p);
    assert_eq!(again.token, http.token);
}

#[test]
fn another_user_can_reach_the_port_and_nothing_behind_it() {
    use outlast_testkit::machine::{as_stranger, skipped};
    let p = product();
    let http = Http::start(&p);
    let home = p.home().root;
    // The directory forbids as much; the file does so by itself.
    std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let tried = as_stranger(&home, || (std::fs::read("mcp-token"), http.post(&[("Authorization", "")], INITIALIZE.as_bytes())));
    let (read, (status, said)) = match tried {
        Ok(tried) => tried,
        Err(why) => return skipped("another_user_can_reach_the_port_and_nothing_behind_it", format!("{why:#}")),
    };
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(status, 401, "{said}");
    assert!(!said.contains(&http.token), "{said}");
}

#[test]
fn a_token_is_kept_whole_and_for_its_owner_alone() {
    let p = product();
    let http = Http::start(&p);
    let home = p.home().root;
    let beside = std::fs::read_dir(&home).unwrap().filter(|e| e.as_ref().unwrap().file_name().to_string_lossy().starts_with("mcp-token."));
    assert_eq!(beside.count(), 0);
    let file = home.join("mcp-token");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let said = p.call(["mcp", "--http", "--json"]).json();
    assert!(said["error"].as_str().unwrap().contains("others may have read it"), "{said}");
    assert!(said["hint"].as_str().unwrap().contains("remove"), "{said}");
    // A new one is drawn then, and the old one is worth nothing.
    std::fs::remove_file(&file).unwrap();
    assert_ne!(Http::start(&p).token, http.token);
}

#[test]
fn other_origins_and_names_are_refused() {
    let p = product();
    let http = Http::start(&p);
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        let (status, said) = http.post(&[("Host", host)], INITIALIZE.as_bytes());
        assert_eq!(status, 403, "{host}: {said}");
    }
    for origin in ["http://evil.example", "https://localhost.evil.example", "null", "http://127.0.0.1.evil.example"] {
        let (status, said) = http.post(&[("Origin", origin)], INITIALIZE.as_bytes());
        assert_eq!(status, 403, "{origin}: {said}");
    }
    assert_eq!(http.post(&[("Origin", "http://localhost:5173")], INITIALIZE.as_bytes()).0, 200);
    assert!(p.processes().iter().all(|(_, line)| !line.contains("__engine")), "no request reached an engine");
}

#[test]
fn nonsense_and_too_much_are_refused_and_the_server_keeps_running() {
    let p = product();
    let http = Http::start(&p);
    for (body, least) in [(&b"no JSON"[..], 400), (b"{}", 400), (b"[]", 400), (b"\xff\xfe", 400), (b"", 400)] {
        let (status, said) = http.post(&[], body);
        assert!((least..500).contains(&status), "{:?}: {status} {said}", String::from_utf8_lossy(body));
    }
    let (status, _) = http.post(&[], &vec![b' '; 9 << 20]);
    assert_eq!(status, 413);
    assert!((400..500).contains(&http.post(&[("Content-Type", "text/plain")], INITIALIZE.as_bytes()).0));
    assert_eq!(http.call("a", "run", json!({"command": "echo here"}))["structuredContent"]["output"], "here");
}

#[test]
fn an_address_outside_of_the_machine_is_not_listened_at() {
    let p = product();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let said = p.call(["mcp", "--http", address, "--json"]);
        assert!(said.code != Some(0) && said.json()["error"].as_str().unwrap().contains("loopback"), "{said:?}");
    }
    assert_eq!(p.call(["mcp", "--http", "nonsense"]).code, Some(2));
}

#[test]
fn both_eras_share_an_endpoint_and_conversations_are_kept_apart() {
    let p = product();
    let http = Http::start(&p);
    let gate = Gate::new(&p, "gate");
    let begun = http.call("a", "run", json!({"command": format!("{}; exit 3", gate.wait()), "wait_seconds": 0, "conversation": "one"}));
    let id = begun["structuredContent"]["process"].clone();
    for other in [json!({}), json!({"conversation": "two"})] {
        assert_eq!(http.call("a", "list", other.clone())["structuredContent"]["processes"], json!([]), "{other}");
    }
    assert_eq!(http.call("b", "list", json!({"conversation": "one"}))["structuredContent"]["processes"], json!([]));
    gate.open();
    // An answer that has arrived counts as the delivery: there is no second one.
    let told = http.call("a", "notices", json!({"wait_seconds": 60, "conversation": "one"}));
    assert_eq!(told["structuredContent"]["notices"][0]["event"]["session_id"], id, "{told}");
    eventually("it is settled", || {
        let all = p.json(["events", "history"]);
        (all["notices"][0]["state"] == "delivered").then_some(())
    });
    assert_eq!(http.call("a", "notices", json!({"conversation": "one"}))["structuredContent"]["notices"], json!([]));
    let (status, said) = http.post(&[], INITIALIZE.as_bytes());
    assert_eq!((status, &message(&said)["result"]["protocolVersion"]), (200, &json!(OLD)), "{said}");
}

#[test]
fn a_session_of_the_old_era_is_told_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let http = Http::start(&p);
    let session = http.session();
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", OLD)];
    let call = |id: u64, tool: &str, arguments: Value| {
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
        let (status, said) = http.post(&headers, body.to_string().as_bytes());
        assert_eq!(status, 200, "{said}");
        message(&said)["result"].clone()
    };
    let run = call(2, "run", json!({"command": format!("{}; exit 3", gate.wait()), "wait_seconds": 0}));
    gate.open();
    let told = call(3, "notices", json!({"wait_seconds": 60}));
    assert_eq!(told["structuredContent"]["notices"][0]["event"]["session_id"], run["structuredContent"]["process"], "{told}");
    eventually("it is settled", || (p.json(["events", "history"])["notices"][0]["state"] == "delivered").then_some(()));
    // An end that a call itself shows causes no notice.
    assert_eq!(call(4, "run", json!({"command": "exit 4"}))["structuredContent"]["exit_code"], 4);
    let is_set_aside = |one: &&Value| one["is_set_aside"] == true;
    eventually("it is set aside", || {
        (p.json(["list", "--all"])["processes"].as_array().unwrap().iter().filter(is_set_aside).count() == 1).then_some(())
    });
    assert_eq!(call(5, "notices", json!({}))["structuredContent"]["notices"], json!([]));
}

#[test]
fn a_session_that_its_client_ends_has_ended() {
    let p = product();
    let http = Http::start(&p);
    let session = http.session();
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", OLD)];
    http.delete(&session);
    assert_eq!(http.post(&headers, br#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#).0, 404);
}

#[test]
fn what_an_ended_session_leaves_is_told_to_the_next_that_begins_and_to_no_other() {
    let p = product();
    let http = Http::start(&p);
    let (a, b) = (http.session(), http.session());
    let gate = Gate::new(&p, "gate");
    let begun = http.call_in(&a, "run", json!({"command": format!("{}; exit 5", gate.wait()), "wait_seconds": 0}));
    let id = begun["structuredContent"]["process"].as_str().unwrap().to_owned();
    assert_eq!(notices(&http.call_in(&b, "list", json!({}))).len(), 0);
    http.delete(&a);
    // It is on disk when the client is answered.
    p.kill_engine();
    gate.open();
    p.wait(&id);
    assert_eq!(notices(&http.call_in(&b, "list", json!({}))).len(), 0);
    let c = http.session();
    let told = notices(&http.call_in(&c, "list", json!({})));
    let text = told[0]["text"].as_str().unwrap();
    assert!(
        told.len() == 1 && text.contains(&format!("{id} exited (exit code 5)")) && text.contains("(from an earlier conversation: "),
        "{text}"
    );
    for session in [&b, &c, &http.session()] {
        assert_eq!(notices(&http.call_in(session, "notices", json!({}))).len(), 0);
    }
}

#[test]
fn a_process_of_an_ended_session_is_changed_without_force() {
    let p = product();
    let http = Http::start(&p);
    let (a, b) = (http.session(), http.session());
    let id = http.call_in(&a, "run", json!({"command": "cat", "pty": true, "wait_seconds": 0}))["structuredContent"]["process"].clone();
    let kill = || http.call_in(&b, "kill", json!({"process": id}))["structuredContent"].clone();
    assert_eq!(kill()["code"], "other_conversation");
    http.delete(&a);
    assert_eq!(kill()["status"], "killed");
    // A session that has called no tool ends as well, and needs no engine for that.
    let quiet = http.session();
    p.kill_engine();
    http.delete(&quiet);
    assert!(p.processes().iter().all(|(_, line)| !line.contains("__engine")));
}

#[test]
fn who_leaves_while_a_call_waits_is_told_when_it_asks_again() {
    let p = product();
    let http = Http::start(&p);
    let session = http.session();
    let old = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", OLD)];
    let new = [("MCP-Protocol-Version", NEW), ("Mcp-Method", "tools/call"), ("Mcp-Name", "wait")];
    for (era, headers, about) in [("old", &old[..], json!({})), ("new", &new[..], meta("a", json!({})))] {
        let gate = Gate::new(&p, era);
        let id = http.call("a", "run", json!({"command": gate.wait(), "wait_seconds": 0}))["structuredContent"]["process"].clone();
        p.points().arm("wait.begun").unwrap();
        let params = json!({"name": "wait", "arguments": {"process": id}, "_meta": about});
        let waiting =
            http.send(headers, json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}).to_string().as_bytes());
        eventually("the wait is under way", || p.points().held("wait.begun"));
        p.points().release("wait.begun").unwrap();
        drop(waiting);
        gate.open();
        let asked = std::time::Instant::now();
        let told = http.call("a", "notices", json!({"wait_seconds": 120}));
        assert_eq!(told["structuredContent"]["notices"][0]["event"]["session_id"], id, "{era}: {told}");
        assert!(asked.elapsed() < std::time::Duration::from_secs(50), "{era}: {told}");
    }
}

#[test]
fn a_task_outlasts_the_server() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let http = Http::start(&p);
    let made = http.ask(
        "a",
        with_tasks(),
        "tools/call",
        json!({"name": "run", "arguments": {"command": format!("{}; exit 3", gate.wait()), "wait_seconds": 0.1}}),
    );
    let id = made["result"]["taskId"].clone();
    assert!(id.is_string(), "{made}");
    // FastMCP 4.1.2 leaves out the header that names the task. It must not differ from the body.
    let body =
        json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": id, "_meta": meta("a", with_tasks())}}).to_string();
    for (name, want) in [(None, 200), (Some("proc_000000000000"), 400)] {
        let mut headers = vec![("MCP-Protocol-Version", NEW), ("Mcp-Method", "tasks/get")];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        let (status, said) = http.post(&headers, body.as_bytes());
        assert_eq!((status, said.contains("\"status\":\"working\"")), (want, want == 200), "{name:?}: {said}");
    }
    let too_much = http.post(&[("MCP-Protocol-Version", NEW), ("Mcp-Method", "tasks/get")], &vec![b' '; 9 << 20]);
    assert_eq!(too_much.0, 413);
    drop(http);
    p.kill_engine();
    gate.open();
    let http = Http::start(&p);
    let over = eventually("the task is over", || {
        let said = http.ask("a", with_tasks(), "tasks/get", json!({"taskId": id}));
        (said["result"]["status"] == "completed").then_some(said)
    });
    assert_eq!(over["result"]["result"]["structuredContent"]["exit_code"], 3, "{over}");
}

#[test]
fn what_one_session_was_shown_is_shown_to_the_others_too() {
    let p = product();
    let http = Http::start(&p);
    let (gate, sessions) = (Gate::new(&p, "gate"), [http.session(), http.session()]);
    let id = object(&http.call("a", "run", json!({"command": format!("echo one; {}", gate.wait()), "wait_seconds": 0})))["process"].clone();
    crate::gate::until_printed(&p, id.as_str().unwrap(), "one");
    for session in &sessions {
        let look = || {
            let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait", "arguments": {"process": id, "seconds": 0.01}}});
            object(
                &message(&http.post(&[("Mcp-Session-Id", session), ("MCP-Protocol-Version", OLD)], body.to_string().as_bytes()).1)["result"],
            )
        };
        let (first, second) = (look(), look());
        assert_eq!((&first["output"], first.get("unchanged")), (&json!("one"), None), "{first}");
        assert_eq!((&second["output"], &second["unchanged"]), (&json!(""), &json!(true)), "{second}");
    }
    // Without sessions they cannot be told apart, so each is shown what there is.
    for _ in 0..2 {
        let said = object(&http.call("a", "wait", json!({"process": id, "seconds": 0.01})));
        assert_eq!((&said["output"], said.get("unchanged")), (&json!("one"), None), "{said}");
    }
    gate.open();
}

#[test]
fn a_header_of_sessions_makes_no_conversation_where_there_are_no_sessions() {
    let p = product();
    let http = Http::start(&p);
    let call = |session: &str, tool: &str, arguments: Value| {
        let params = json!({"name": tool, "arguments": arguments, "_meta": meta("a", json!({}))});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let headers = [("MCP-Protocol-Version", NEW), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool), ("Mcp-Session-Id", session)];
        message(&http.post(&headers, body.as_bytes()).1)["result"].clone()
    };
    let gate = Gate::new(&p, "gate");
    let begun = object(&call("x", "run", json!({"command": format!("{}; exit 5", gate.wait()), "wait_seconds": 0})));
    let id = begun["process"].as_str().unwrap();
    // Each request would be another conversation, which may not even kill what the one before has started.
    assert!(object(&call("x", "list", json!({})))["processes"][0].get("other_conversation").is_none());
    gate.open();
    p.wait(id);
    assert_eq!(notices(&call("y", "list", json!({}))).len(), 1);
    assert!(notices(&call("x", "list", json!({}))).is_empty());
}

#[test]
fn two_sessions_are_told_apart_and_requests_without_one_are_told_of_neither() {
    let p = product();
    let http = Http::start(&p);
    let (a, b) = (http.session(), http.session());
    let call = |session: &str, tool: &str, arguments: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}).to_string();
        message(&http.post(&[("Mcp-Session-Id", session), ("MCP-Protocol-Version", OLD)], body.as_bytes()).1)["result"].clone()
    };
    assert!(notices(&call(&b, "list", json!({}))).is_empty());
    let gate = Gate::new(&p, "gate");
    let begun = object(&call(&a, "run", json!({"command": format!("{}; exit 5", gate.wait()), "wait_seconds": 0})));
    let id = begun["process"].as_str().unwrap();
    assert_eq!(object(&call(&b, "kill", json!({"process": id})))["code"], "other_conversation");
    p.kill_engine();
    gate.open();
    p.wait(id);
    for _ in 0..2 {
        assert!(notices(&call(&b, "list", json!({}))).is_empty());
        assert!(notices(&http.call("a", "list", json!({}))).is_empty());
    }
    assert_eq!(object(&http.call("a", "notices", json!({})))["notices"], json!([]));
    assert_eq!(notices(&call(&a, "list", json!({}))).len(), 1);
    // Without sessions conversations cannot be told apart: the first that calls is told.
    let begun = object(&http.call("a", "run", json!({"command": format!("{}; exit 5", gate.wait()), "wait_seconds": 0})));
    gate.open();
    p.wait(begun["process"].as_str().unwrap());
    assert_eq!(notices(&call(&b, "list", json!({}))).len(), 1);
    assert!(notices(&http.call("a", "list", json!({}))).is_empty());
}
