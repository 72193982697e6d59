//! `outlast acp-proxy`: the test is the client on one side and the agent on the other.

use crate::gate::Gate;
use crate::support::*;
use crate::told::{about, call_in, drained, states};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};

/// An agent that says what is written into one FIFO and gives what it hears to another. It exits with 7 when it hears no more.
const AGENT: &str = "cat \"$1\" & cat >\"$2\"; kill $! 2>/dev/null; wait; exit 7";

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A proxy, with a client and an agent that do as the test says.
struct Between {
    proxy: Child,
    client_says: Option<ChildStdin>,
    client_hears: Receiver<Vec<u8>>,
    agent_says: File,
    agent_hears: Receiver<Vec<u8>>,
    asked: u64,
}

impl Between {
    fn start(p: &Product) -> Self {
        Self::start_as(p, AGENT)
    }

    fn start_as(p: &Product, agent: &str) -> Self {
        let fifo = |name: &str| {
            use rustix::fs::{CWD, FileType, Mode};
            // Each agent has its own: that of a proxy before may not have left yet.
            let path = p.work().join(format!("{name}-{}", COUNT.fetch_add(1, Relaxed)));
            rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
            path
        };
        let (says, hears) = (fifo("agent-says"), fifo("agent-hears"));
        let mut command = p.command(["acp-proxy", "--", "sh", "-c", agent, "agent"]);
        command.arg(&says).arg(&hears).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut proxy = command.spawn().expect("a proxy");
        Self {
            client_says: proxy.stdin.take(),
            client_hears: lines(proxy.stdout.take().expect("a pipe")),
            // With both directions open here, it need not wait for the agent to come.
            agent_says: File::options().read(true).write(true).open(says).expect("a FIFO"),
            agent_hears: lines(Late(hears, None)),
            proxy,
            asked: 0,
        }
    }

    fn client_says(&mut self, line: &str) {
        let to = self.client_says.as_mut().expect("a client");
        to.write_all(line.as_bytes()).and_then(|()| to.flush()).expect("a proxy that reads");
    }

    fn agent_says(&mut self, line: &str) {
        self.agent_says.write_all(line.as_bytes()).expect("an agent");
    }

    fn client_hears(&self) -> String {
        text(&self.client_hears)
    }

    fn agent_hears(&self) -> Value {
        serde_json::from_str(&text(&self.agent_hears)).expect("JSON")
    }

    /// The agent asks its client, in the conversation `session`; the id of the request.
    fn begin(&mut self, session: &str, method: &str, mut params: Value) -> u64 {
        self.asked += 1;
        params["sessionId"] = json!(session);
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        self.agent_says(&format!("{request}\n"));
        self.asked
    }

    /// The answer to the one request that is under way.
    fn answer(&self, id: u64) -> Value {
        let answer = self.agent_hears();
        assert_eq!((&answer["id"], &answer["jsonrpc"]), (&json!(id), &json!("2.0")), "{answer}");
        answer
    }

    fn ask(&mut self, session: &str, method: &str, params: Value) -> Value {
        let id = self.begin(session, method, params);
        self.answer(id)
    }

    fn result(&mut self, session: &str, method: &str, params: Value) -> Value {
        let answer = self.ask(session, method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn error(&mut self, session: &str, method: &str, params: Value) -> i64 {
        let answer = self.ask(session, method, params);
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {answer}"))
    }

    /// A terminal that runs a shell line.
    fn create(&mut self, session: &str, line: &str) -> String {
        let made = self.result(session, "terminal/create", json!({"command": "sh", "args": ["-c", line]}));
        made["terminalId"].as_str().expect("an id").to_owned()
    }

    fn output(&mut self, session: &str, id: &str) -> Value {
        self.result(session, "terminal/output", json!({"terminalId": id}))
    }

    fn wait(&mut self, session: &str, id: &str) -> Value {
        self.result(session, "terminal/wait_for_exit", json!({"terminalId": id}))
    }

    /// Begins a wait, and returns once the engine waits.
    fn begin_wait(&mut self, p: &Product, session: &str, id: &str) -> u64 {
        p.points().arm("wait.begun").unwrap();
        let asked = self.begin(session, "terminal/wait_for_exit", json!({"terminalId": id}));
        eventually("the wait", || p.points().held("wait.begun"));
        p.points().release("wait.begun").unwrap();
        asked
    }

    /// The client leaves; the exit code of the proxy.
    fn leave(mut self) -> Option<i32> {
        drop(self.client_says.take());
        assert!(wait_for_end(self.proxy.id(), PATIENCE), "the proxy stays");
        self.proxy.wait().expect("a child").code()
    }

    fn kill_9(mut self) {
        kill_and_wait(self.proxy.id()).unwrap();
        self.proxy.wait().expect("a child");
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        drop(self.client_says.take());
        // Over already: that is what is wanted.
        let _over = self.proxy.kill();
        let _status = self.proxy.wait();
    }
}

/// A FIFO for a reader that has to wait for a writer.
struct Late(std::path::PathBuf, Option<File>);

impl Read for Late {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.1.is_none() {
            self.1 = Some(File::open(&self.0)?);
        }
        self.1.as_mut().expect("opened").read(into)
    }
}

/// Lines as they come, so that one that does not come is a failure and no hang.
fn lines(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let mut line = Vec::new();
            match from.read_until(b'\n', &mut line) {
                Ok(1..) if tell.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    lines
}

fn text(from: &Receiver<Vec<u8>>) -> String {
    String::from_utf8(from.recv_timeout(PATIENCE).expect("a line")).expect("text")
}

#[test]
fn everything_but_terminals_passes_byte_for_byte() {
    let p = product();
    let mut b = Between::start(&p);
    let long = format!("{{\"id\":1,\"method\":\"fs/write_text_file\",\"params\":\"{}\"}}\n", "é\\u0000x".repeat(400_000));
    for line in ["{ \"jsonrpc\":\"2.0\", \"id\": 1.0 }\n", "nothing\r\n", "\n", &long] {
        b.client_says(line);
        assert!(text(&b.agent_hears) == line, "to the agent");
        b.agent_says(line);
        assert!(b.client_hears() == line, "to the client");
    }
    assert_eq!(b.leave(), Some(7));
    // Nothing was asked of an engine, so there is none.
    assert_eq!(p.json(["engine", "status"])["status"], "not_running");
}

#[test]
fn the_agent_is_told_that_there_are_terminals() {
    let p = product();
    let mut b = Between::start(&p);
    b.client_says("{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"clientCapabilities\":{\"fs\":{},\"terminal\":false}}}\n");
    assert_eq!(b.agent_hears()["params"]["clientCapabilities"], json!({"fs": {}, "terminal": true}));
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"protocolVersion\":1}}\n";
    b.agent_says(answer);
    assert_eq!(b.client_hears(), answer);
}

#[test]
fn a_terminal_from_its_creation_to_its_release() {
    let p = product();
    let mut b = Between::start(&p);
    let gate = Gate::new(&p, "gate");
    let id = b.create("s", &format!("printf 'one\\n\\033[31mtwo'; {}; exit 3", gate.wait()));
    let seen = eventually("its output", || Some(b.output("s", &id)).filter(|o| o["output"] == "one\ntwo"));
    assert_eq!(seen, json!({"output": "one\ntwo", "truncated": false, "exitStatus": null}));
    let waiting = b.begin_wait(&p, "s", &id);
    gate.open();
    assert_eq!(b.answer(waiting)["result"], json!({"exitCode": 3, "signal": null}));
    let seen = b.output("s", &id);
    assert_eq!((&seen["output"], &seen["exitStatus"]), (&json!("one\ntwo"), &json!({"exitCode": 3, "signal": null})));
    assert_eq!(b.result("s", "terminal/release", json!({"terminalId": id})), json!({}));
    for method in ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"] {
        assert_eq!(b.error("s", method, json!({"terminalId": id})), -32002, "{method}");
    }
    // The agent knows all about it; its log is there for people.
    assert_eq!(drained(&p, "acp:s"), [] as [Value; 0]);
    assert!(p.call(["log", &id]).good().text().contains("two"));
    assert_eq!(b.leave(), Some(7));
}

#[test]
fn output_is_cut_at_its_beginning_and_between_characters() {
    let p = product();
    let mut b = Between::start(&p);
    for (limit, want) in [(7, "ééz"), (5, "ééz"), (4, "éz"), (1, "z"), (0, "")] {
        let made = b.result("s", "terminal/create", json!({"command": "printf", "args": ["éééz"], "outputByteLimit": limit}));
        let id = made["terminalId"].as_str().unwrap().to_owned();
        b.wait("s", &id);
        let seen = b.output("s", &id);
        let want = if limit == 7 { "éééz" } else { want };
        assert_eq!((&seen["output"], &seen["truncated"]), (&json!(want), &json!(want != "éééz")), "{limit}");
    }
    // A mebibyte is the most, also if more is asked for.
    for limit in [json!(1_u64 << 40), Value::Null] {
        let made = b.result("s", "terminal/create", json!({"command": "seq", "args": ["1", "400000"], "outputByteLimit": limit}));
        let id = made["terminalId"].as_str().unwrap().to_owned();
        b.wait("s", &id);
        let seen = b.output("s", &id);
        let output = seen["output"].as_str().unwrap();
        assert!(output.len() == 1 << 20 && output.ends_with("\n400000\n") && seen["truncated"] == true);
    }
}

#[test]
fn a_client_that_is_shown_a_terminal_sees_what_it_printed() {
    let p = product();
    let mut b = Between::start(&p);
    let gate = Gate::new(&p, "gate");
    let id = b.create("s", &format!("echo one; {}; echo two; exit 3", gate.wait()));
    eventually("its output", || (b.output("s", &id)["output"] == "one\n").then_some(()));
    let update = |content: &Value| {
        format!(
            "{{\"jsonrpc\":\"2.0\",  \"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":{{\"sessionUpdate\":\"tool_call_update\",\"content\":[{content}]}}}}}}\n"
        )
    };
    let line = update(&json!({"type": "terminal", "terminalId": id}));
    let shows = |b: &mut Between| {
        b.agent_says(&line);
        let heard = b.client_hears();
        let content = serde_json::from_str::<Value>(&heard).unwrap()["params"]["update"]["content"][0].clone();
        // Every other byte is as it was.
        assert_eq!(heard, update(&content));
        assert_eq!(content["type"], "content");
        content["content"]["text"].as_str().unwrap().to_owned()
    };
    let text = shows(&mut b);
    assert!(text.starts_with("```console\n$ ") && text.contains("\none\n```\nIt keeps running"), "{text}");
    // Another conversation's is not shown.
    b.agent_says(&line.replace("\"sessionId\":\"s\"", "\"sessionId\":\"t\""));
    assert!(b.client_hears().contains("cannot be shown here"));
    gate.open();
    p.call(["wait", &id]);
    let text = shows(&mut b);
    assert!(text.contains("\none\ntwo\n```\nExit code 3."), "{text}");
    // To show it to a person is not to tell the agent.
    assert_eq!(states(&p, &id), ["pending"]);
    assert_eq!(b.result("s", "terminal/release", json!({"terminalId": id})), json!({}));
    assert_eq!(states(&p, &id), ["consumed"]);
    // Agents show it once more when they have let go of it.
    assert_eq!(shows(&mut b), text);
    // Other takers can still deliver it.
    let id = b.create("s", "exit 4");
    p.call(["wait", &id]);
    b.agent_says(&update(&json!({"type": "terminal", "terminalId": id})));
    assert!(b.client_hears().contains("Exit code 4."));
    assert_eq!(about(&drained(&p, "acp:s")), [id.as_str()]);
}

#[test]
fn a_kill_reaches_the_tree_and_keeps_the_terminal() {
    let p = product();
    let mut b = Between::start(&p);
    let id = b.create("s", "echo begun; sleep 1000 & setsid sleep 1000 & wait");
    eventually("its output", || (b.output("s", &id)["output"] == "begun\n").then_some(()));
    assert_eq!(b.result("s", "terminal/kill", json!({"terminalId": id})), json!({}));
    assert_eq!(b.wait("s", &id), json!({"exitCode": null, "signal": "SIGTERM"}));
    let seen = b.output("s", &id);
    assert_eq!(seen, json!({"output": "begun\n", "truncated": false, "exitStatus": {"exitCode": null, "signal": "SIGTERM"}}));
    // Once more does no harm.
    assert_eq!(b.result("s", "terminal/kill", json!({"terminalId": id})), json!({}));
    assert_eq!(states(&p, &id), ["consumed"]);
    assert_eq!(p.json(["list"])["processes"], json!([]));
}

#[test]
fn a_release_stops_what_runs() {
    let p = product();
    let mut b = Between::start(&p);
    let id = b.create("s", "sleep 1000");
    // Asked for in one breath: what came before the release is served.
    let looked = b.begin("s", "terminal/output", json!({"terminalId": id}));
    let released = b.begin("s", "terminal/release", json!({"terminalId": id}));
    let answers = [b.agent_hears(), b.agent_hears()];
    for asked in [looked, released] {
        let answer = answers.iter().find(|a| a["id"] == asked).expect("an answer");
        assert!(answer["error"].is_null(), "{answer}");
    }
    assert_eq!(p.json(["poll", &id])["signal"], "SIGTERM");
    assert_eq!(drained(&p, "acp:s"), [] as [Value; 0]);
}

#[test]
fn a_release_leaves_running_what_a_finished_command_left_and_a_kill_stops_it() {
    let p = product();
    let mut b = Between::start(&p);
    for (method, stops) in [("terminal/release", false), ("terminal/kill", true)] {
        let id = b.create("s", "sleep 1000 & exit 3");
        p.call(["wait", &id]);
        let left = p.json(["poll", &id])["left"][0]["pid"].as_u64().unwrap();
        assert_eq!(b.result("s", method, json!({"terminalId": id})), json!({}));
        assert_eq!(wait_for_end(left.try_into().unwrap(), std::time::Duration::ZERO), stops, "{method}");
        p.call(["kill", &id]);
    }
}

#[test]
fn a_terminal_is_there_for_its_own_session_alone() {
    let p = product();
    let mut b = Between::start(&p);
    let id = b.create("mine", "sleep 1000");
    for method in ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"] {
        assert_eq!(b.error("theirs", method, json!({"terminalId": id})), -32002, "{method}");
        assert_eq!(b.error("mine", method, json!({"terminalId": "proc_000000000000"})), -32002, "{method}");
        assert_eq!(b.error("mine", method, json!({"terminalId": &id[..12]})), -32002, "{method}");
        assert_eq!(b.error("mine", method, json!({})), -32602, "{method}");
    }
    assert_eq!(b.output("mine", &id)["exitStatus"], Value::Null);
    // Nor are those that a person or another face started.
    let other = p.run("sleep 1000");
    assert_eq!(b.error("mine", "terminal/kill", json!({"terminalId": other})), -32002);
    assert_eq!(p.json(["poll", &id])["session_key"], "acp:mine");
}

#[test]
fn the_next_proxy_serves_the_terminals_of_one_that_was_killed() {
    let p = product();
    let mut first = Between::start(&p);
    let gate = Gate::new(&p, "gate");
    let id = first.create("s", &format!("echo before; {}; echo after; exit 42", gate.wait()));
    first.begin_wait(&p, "s", &id);
    first.kill_9();
    let mut second = Between::start(&p);
    let waiting = second.begin_wait(&p, "s", &id);
    gate.open();
    assert_eq!(second.answer(waiting)["result"], json!({"exitCode": 42, "signal": null}));
    assert_eq!(second.output("s", &id)["output"], "before\nafter\n");
    assert_eq!(second.error("t", "terminal/output", json!({"terminalId": id})), -32002);
    // It was told by the answer, once.
    assert_eq!((states(&p, &id), drained(&p, "acp:s").len()), (vec!["consumed".to_owned()], 0));
}

#[test]
fn an_end_that_no_proxy_saw_is_told_to_the_session() {
    let p = product();
    let mut b = Between::start(&p);
    let gate = Gate::new(&p, "gate");
    let id = b.create("s", &format!("{}; exit 5", gate.wait()));
    b.begin_wait(&p, "s", &id);
    b.kill_9();
    gate.open();
    assert_eq!(p.wait(&id)["exit_code"], 5);
    let told = drained(&p, "acp:s");
    assert_eq!((about(&told), &told[0]["exit_code"]), (vec![id.as_str()], &json!(5)));
    // The next proxy finds the terminal as it was left.
    let mut next = Between::start(&p);
    assert_eq!(next.wait("s", &id), json!({"exitCode": 5, "signal": null}));
    assert_eq!(drained(&p, "acp:s"), [] as [Value; 0]);
}

#[test]
fn an_end_that_the_agent_saw_in_an_output_is_not_told_again() {
    let p = product();
    let mut b = Between::start(&p);
    let id = b.create("s", "exit 1");
    p.wait(&id);
    assert_eq!(b.output("s", &id)["exitStatus"]["exitCode"], 1);
    eventually("the end to be seen", || (states(&p, &id) == ["consumed"]).then_some(()));
    let id = b.create("s", "exit 2");
    p.wait(&id);
    assert_eq!(b.result("s", "terminal/release", json!({"terminalId": id})), json!({}));
    assert_eq!(states(&p, &id), ["consumed"]);
}

#[test]
fn a_wait_survives_the_death_of_the_engine() {
    let p = product();
    let mut b = Between::start(&p);
    let gate = Gate::new(&p, "gate");
    let id = b.create("s", &format!("{}; exit 9", gate.wait()));
    let waiting = b.begin_wait(&p, "s", &id);
    p.points().arm("wait.begun").unwrap();
    p.kill_engine();
    // The same wait, asked of the next engine.
    eventually("the wait", || p.points().held("wait.begun"));
    p.points().release("wait.begun").unwrap();
    gate.open();
    assert_eq!(b.answer(waiting)["result"], json!({"exitCode": 9, "signal": null}));
    p.kill_engine();
    assert_eq!(b.output("s", &id)["exitStatus"]["exitCode"], 9);
}

#[test]
fn a_cancelled_request_ends_the_wait_and_not_the_command() {
    let p = product();
    let mut b = Between::start(&p);
    let gate = Gate::new(&p, "gate");
    let id = b.create("s", &gate.wait());
    let waiting = b.begin_wait(&p, "s", &id);
    b.agent_says(&format!("{}\n", json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": waiting}})));
    assert_eq!(b.answer(waiting)["error"]["code"], -32800);
    assert_eq!(p.json(["poll", &id])["status"], "running");
    // One that is about something else is the client's.
    let other = "{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":999}}\n";
    b.agent_says(other);
    assert_eq!(b.client_hears(), other);
    // A person who lets go of the conversation's waits does the same.
    let waiting = b.begin_wait(&p, "s", &id);
    p.call(["interrupt", "--session", "acp:s"]).good();
    assert_eq!(b.answer(waiting)["error"]["code"], -32800);
    gate.open();
    p.wait(&id);
    assert_eq!(about(&drained(&p, "acp:s")), [id.as_str()]);
}

#[test]
fn commands_begin_where_the_conversation_works_with_the_variables_they_are_given() {
    let p = product();
    let mut b = Between::start(&p);
    let dir = p.work().join("project");
    std::fs::create_dir(&dir).unwrap();
    b.client_says(&format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {"cwd": dir, "mcpServers": []}})));
    b.agent_hears();
    b.agent_says("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"sessionId\":\"s\"}}\n");
    b.client_hears();
    let mut printed = |params: Value| {
        let made = b.result("s", "terminal/create", params);
        let id = made["terminalId"].as_str().unwrap().to_owned();
        b.wait("s", &id);
        b.output("s", &id)["output"].as_str().unwrap().trim_end().to_owned()
    };
    assert_eq!(printed(json!({"command": "pwd"})), dir.to_str().unwrap());
    assert_eq!(printed(json!({"command": "pwd", "cwd": "/"})), "/");
    let env = json!([{"name": "A", "value": "b c"}]);
    assert_eq!(printed(json!({"command": "sh", "args": ["-c", "echo \"$A\" $HOME"], "env": env})), format!("b c {}", p.user().display()));
    // Several agents put a whole line where the program belongs.
    assert_eq!(printed(json!({"command": "echo \"$A\" && cd / && pwd", "env": env})), "b c\n/");
    // A command never runs in another directory, whether the session or the agent names the missing one.
    std::fs::remove_dir(&dir).unwrap();
    for params in [json!({"command": "pwd"}), json!({"command": "pwd", "cwd": dir})] {
        let refused = b.ask("s", "terminal/create", params)["error"].clone();
        assert_eq!(refused["code"], -32602, "{refused}");
        let said = refused["message"].as_str().unwrap();
        assert!(said.contains(&format!("directory {} does not exist", dir.display())), "{refused}");
        assert!(said.contains(&format!("{} exists", p.work().display())), "{refused}");
    }
}

#[test]
fn what_cannot_be_started_is_no_terminal() {
    let p = product();
    let mut b = Between::start(&p);
    let refused = b.ask("s", "terminal/create", json!({"command": "no-such-program", "args": ["x"]}));
    assert_eq!(refused["error"]["code"], -32603);
    assert!(refused["error"]["message"].as_str().unwrap().starts_with("\"no-such-program\" could not be started: "), "{refused}");
    assert_eq!(b.error("s", "terminal/create", json!({"command": "ls", "cwd": "relative"})), -32602);
    assert_eq!(b.error("s", "terminal/create", json!({"command": ""})), -32602);
    assert_eq!(b.error(&"s".repeat(300), "terminal/create", json!({"command": "ls"})), -32602);
    // The agent knows the end, so no notice is delivered.
    eventually("the end to be seen", || {
        let all = p.json(["list", "--all"]);
        let id = all["processes"][0]["session_id"].as_str().expect("a failed start is listed").to_owned();
        (states(&p, &id) == ["consumed"]).then_some(())
    });
}

#[test]
fn secrets_stay_out_of_what_the_agent_reads() {
    let p = product();
    let mut b = Between::start(&p);
    let token = ["gh", "p_", &"a1B2".repeat(9)].concat();
    std::fs::write(p.work().join("secret"), &token).unwrap();
    let id = b.create("s", "echo \"token is $(cat secret) indeed\"");
    b.wait("s", &id);
    let seen = b.output("s", &id);
    let output = seen["output"].as_str().unwrap();
    assert!(output.starts_with("token is ") && output.ends_with(" indeed\n") && !output.contains("a1B2a1B2"), "{output}");
}

#[test]
fn many_waits_are_answered_each() {
    let p = product();
    let mut b = Between::start(&p);
    let ids: Vec<String> = (0..20).map(|n| b.create("s", &format!("exit {n}"))).collect();
    let asked: Vec<u64> = ids.iter().map(|id| b.begin("s", "terminal/wait_for_exit", json!({"terminalId": id}))).collect();
    let answers: Vec<Value> = asked.iter().map(|_| b.agent_hears()).collect();
    for (n, asked) in asked.iter().enumerate() {
        let answer = answers.iter().find(|a| a["id"] == *asked).expect("an answer");
        assert_eq!(answer["result"]["exitCode"], n);
    }
    assert_eq!(drained(&p, "acp:s"), [] as [Value; 0]);
}

#[test]
fn processes_go_on_when_client_and_agent_have_left() {
    let p = product();
    let mut b = Between::start(&p);
    let gate = Gate::new(&p, "gate");
    let id = b.create("s", &format!("{}; exit 4", gate.wait()));
    assert_eq!(b.leave(), Some(7));
    assert_eq!(p.json(["poll", &id])["status"], "running");
    gate.open();
    assert_eq!(p.wait(&id)["exit_code"], 4);
    assert_eq!(about(&drained(&p, "acp:s")), [id.as_str()]);
    // A person who speaks for the conversation touches its processes, and others do not.
    assert_eq!(call_in(&p, "acp:s", &["poll", &id]).code, Some(0));
    assert_ne!(call_in(&p, "acp:t", &["poll", &id]).code, Some(0));
}

#[test]
fn the_exit_is_the_agents() {
    let p = product();
    for (line, code) in [("exit 0", 0), ("exit 3", 3), ("kill -TERM $$", 128 + 15)] {
        assert_eq!(p.call(["acp-proxy", "--", "sh", "-c", line]).code, Some(code), "{line}");
    }
    let refused = p.call(["acp-proxy", "--", "no-such-agent"]);
    assert_eq!(refused.code, Some(127));
    assert!(refused.err.contains("cannot start the agent no-such-agent"), "{}", refused.err);
    assert_eq!(p.call(["acp-proxy"]).code, Some(125));
}

#[test]
fn a_signal_to_the_proxy_is_the_agents() {
    let p = product();
    // Not politely: a shell's child that was just forked may swallow what its parent listens for.
    let agent = "trap 'kill -9 $!; echo \"{\\\"bye\\\":1}\"; exit 6' TERM; sleep 1000 & echo '{\"ready\":1}'; wait";
    let mut b = Between::start_as(&p, agent);
    assert_eq!(b.client_hears(), "{\"ready\":1}\n");
    let pid = rustix::process::Pid::from_raw(b.proxy.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(b.client_hears(), "{\"bye\":1}\n");
    assert!(wait_for_end(b.proxy.id(), PATIENCE));
    assert_eq!(b.proxy.wait().unwrap().code(), Some(6));
}
