//! Any message of an agent leaves its server able to answer the next one.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_client::{Connect, caller};
use outlast_mcp::{Server, Settings, over};
use outlast_tools::Host;
use std::path::Path;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

/// There is no engine, and the server does not start one.
const NOWHERE: &str = "/nowhere";

const HELLO: &str = r#"{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;
const LAST: &str = "{\"jsonrpc\":\"2.0\",\"id\":\"the last\",\"method\":\"ping\"}\n";

const NEW_ERA: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"a","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}},"#;

const METHODS: [&str; 12] = [
    "tools/call",
    "tools/list",
    "resources/read",
    "resources/list",
    "resources/templates/list",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "notifications/cancelled",
];
const TOOLS: [&str; 7] = ["run", "wait", "log", "list", "kill", "write", "notices"];

/// What is sent: as it is, or as a part of something that makes sense.
fn line(kind: u8, text: &str) -> String {
    let (text, n) = (text.replace('\n', " "), usize::from(kind / 8));
    let call = |method: &str, params: String| format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
    let tool = |arguments: &str, meta: String| {
        call("tools/call", format!(r#"{{"name":"{}","arguments":{arguments},"_meta":{{{meta}"x":1}}}}"#, TOOLS[n % TOOLS.len()]))
    };
    match kind % 8 {
        0 => text,
        1 => call(METHODS[n % METHODS.len()], text),
        2 => call(METHODS[n % METHODS.len()], format!(r#"{{"_meta":{{{NEW_ERA}"x":1}},{text}}}"#)),
        3 => tool(&text, String::new()),
        4 => tool(&text, NEW_ERA.into()),
        5 => tool("{}", format!("{text},")),
        6 => call("resources/read", format!(r#"{{"uri":{}}}"#, serde_json::Value::from(text))),
        _ => call("tasks/get", format!(r#"{{"taskId":{},"_meta":{{{NEW_ERA}"x":1}}}}"#, serde_json::Value::from(text))),
    }
}

async fn serve(sent: String) {
    let settings = Settings::new(Connect::to(NOWHERE), Host::new(caller([], Path::new(NOWHERE))), NOWHERE.into());
    let (agent, server) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(server);
    let serving = tokio::spawn(over(Server::new(settings), read, write));
    let (read, mut write) = tokio::io::split(agent);
    let writing = async {
        write.write_all(sent.as_bytes()).await.expect("the server reads");
        write
    };
    let reading = async {
        let mut lines = BufReader::new(read).lines();
        while let Some(line) = lines.next_line().await.expect("what a server says is text") {
            let said: serde_json::Value = serde_json::from_str(&line).expect("and JSON");
            if said["id"] == "the last" {
                return true;
            }
        }
        false
    };
    let (write, answered) = tokio::join!(writing, reading);
    assert!(answered, "the server has left");
    drop(write);
    serving.await.expect("it does not panic").expect("it ends well");
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
}

fuzz_target!(|input: (u8, &str)| {
    let sent = format!("{HELLO}{}\n{LAST}", line(input.0, input.1));
    RUNTIME.with(|runtime| runtime.block_on(serve(sent)));
});
