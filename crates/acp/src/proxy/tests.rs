use super::*;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::task::JoinHandle;

/// A client, an agent, and a proxy between them. There is no engine: nothing here needs one.
struct Three {
    client: Side,
    agent: Side,
    proxy: JoinHandle<Ended>,
}

struct Side {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
}

impl Side {
    async fn say(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.unwrap();
    }

    async fn hears(&mut self) -> String {
        let mut line = String::new();
        self.read.read_line(&mut line).await.unwrap();
        line
    }

    async fn hears_json(&mut self) -> Value {
        serde_json::from_str(&self.hears().await).unwrap()
    }
}

fn three(most: usize) -> Three {
    let caller = outlast_client::caller([], std::path::Path::new("/"));
    let mut options = Options::new(Connect::to("/nonexistent/home"), caller);
    options.leave = Duration::from_millis(200);
    let proxy = Proxy { most, ..Proxy::new(options) };
    // Small, so that a message takes several turns.
    let ((client, near_client), (agent, near_agent)) = (duplex(64), duplex(64));
    let proxy = tokio::spawn(proxy.run(split(near_client), split(near_agent)));
    let side = |stream| {
        let (read, write) = split(stream);
        Side { read: BufReader::new(read), write }
    };
    Three { client: side(client), agent: side(agent), proxy }
}

#[tokio::test]
async fn everything_else_is_passed_on_byte_for_byte() {
    let Three { mut client, mut agent, .. } = three(MOST_BYTES);
    for line in [
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/prompt\",\"params\":{ \"z\" : 1.0, \"a\":\"\\u00e9é\" }}\n",
        "{\"method\":\"session/update\",\"params\":{\"terminal/create\":1}}\r\n",
        "[{\"id\":1,\"method\":\"terminal/create\"}]\n",
        "{\"method\":\"terminal/kill\",\"params\":{}}\n",
        "{\"id\":2,\"method\":\"terminal/resize\",\"params\":{}}\n",
        "{\"id\":null,\"method\":\"terminal/kill\",\"params\":{}}\n",
        "{\"id\":9,\"result\":{\"method\":\"initialize\"}}\n",
        "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":{\"content\":[{\"type\":\"terminal\",\"terminalId\":\"t\"}]}}}\n",
        "{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":5}}\n",
        "no json at all\n",
        "\n",
        "{\"id\":1,\"method\":\n",
    ] {
        client.say(line.as_bytes()).await;
        assert_eq!(agent.hears().await, line);
        agent.say(line.as_bytes()).await;
        assert_eq!(client.hears().await, line);
    }
    // Bytes that are not text, and a line without an end.
    client.say(b"\xff\xfe{\n").await;
    let mut three = [0; 4];
    agent.read.read_exact(&mut three).await.unwrap();
    assert_eq!(&three, b"\xff\xfe{\n");
}

#[tokio::test]
async fn a_terminal_that_cannot_be_looked_at_is_no_reason_to_hold_anything_back() {
    let Three { client: mut heard, mut agent, .. } = three(MOST_BYTES);
    let line = |content: &str| {
        format!("{{ \"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":{{\"content\":[{content}], \"x\":1.0}}}}}}\n")
    };
    agent.say(line("{\"type\":\"terminal\",\"terminalId\":\"proc_0123456789ab\"}").as_bytes()).await;
    let text = "What proc_0123456789ab printed cannot be shown here; `outlast log proc_0123456789ab` may have it.";
    assert_eq!(heard.hears().await, line(&crate::terminal_content::content(text).to_string()));
}

#[tokio::test]
async fn the_last_line_needs_no_end() {
    let Three { mut client, mut agent, proxy } = three(MOST_BYTES);
    client.say(b"{\"id\":1}").await;
    client.write.shutdown().await.unwrap();
    assert_eq!(agent.hears().await, "{\"id\":1}");
    agent.say(b"{\"id\":2}").await;
    drop(agent);
    assert_eq!(client.hears().await, "{\"id\":2}");
    assert_eq!(proxy.await.unwrap(), Ended::Agent);
}

#[tokio::test]
async fn the_agent_is_told_of_terminals_and_the_client_sees_the_agents_own_answer() {
    let Three { mut client, mut agent, .. } = three(MOST_BYTES);
    client
        .say(b"{\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1,\"clientCapabilities\":{\"terminal\":false}}}\n")
        .await;
    let said = agent.hears_json().await;
    assert_eq!(said["params"], json!({"protocolVersion": 1, "clientCapabilities": {"terminal": true}}));
    let answer = "{\"id\":0,\"result\":{\"protocolVersion\":1,  \"agentCapabilities\":{}}}\n";
    agent.say(answer.as_bytes()).await;
    assert_eq!(client.hears().await, answer);
}

#[tokio::test]
async fn nobody_waits_for_a_message_that_was_too_long() {
    let Three { mut client, mut agent, .. } = three(200);
    let filler = "x".repeat(300);
    // A request: its sender gets an error, and the next line is read as usual.
    client.say(format!("{{\"id\":\"q\",\"method\":\"m\",\"params\":\"{filler}\"}}\n{{\"id\":2,\"method\":\"next\"}}\n").as_bytes()).await;
    let refused = client.hears_json().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("q"), &json!(INVALID_REQUEST)));
    assert_eq!(agent.hears_json().await["method"], "next");
    // An answer: the side that waits for it gets an error instead.
    client.say(format!("{{\"result\":\"{filler}\",\"id\":7}}\n").as_bytes()).await;
    let instead = agent.hears_json().await;
    assert_eq!((&instead["id"], &instead["error"]["code"]), (&json!(7), &json!(INTERNAL)));
    // A request about a terminal from the other side, and a notification, which has no answer.
    agent
        .say(
            format!("{{\"method\":\"n\",\"params\":\"{filler}\"}}\n{{\"id\":8,\"method\":\"terminal/create\",\"params\":\"{filler}\"}}\n")
                .as_bytes(),
        )
        .await;
    assert_eq!(agent.hears_json().await["id"], 8);
    agent.say(format!("{filler}\n{{\"id\":9,\"method\":\"fs/read_text_file\"}}\n").as_bytes()).await;
    assert_eq!(agent.hears_json().await["id"], Value::Null);
    assert_eq!(client.hears_json().await["id"], 9);
}

#[tokio::test]
async fn an_agent_is_told_why_there_is_no_terminal() {
    let Three { client: _client, mut agent, .. } = three(MOST_BYTES);
    agent.say(b"{\"id\":1,\"method\":\"terminal/create\",\"params\":{\"sessionId\":\"s\",\"command\":\"ls\"}}\n").await;
    let refused = agent.hears_json().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(1), &json!(INTERNAL)));
    assert!(refused["error"]["message"].as_str().unwrap().contains("/nonexistent/home"), "{refused}");
    agent.say(b"{\"id\":2,\"method\":\"terminal/create\",\"params\":{}}\n{\"id\":3,\"method\":\"terminal/output\",\"params\":{\"sessionId\":\"s\",\"terminalId\":\"1\"}}\n").await;
    assert_eq!(agent.hears_json().await["error"]["code"], message::INVALID_PARAMS);
    assert_eq!(agent.hears_json().await["error"]["code"], message::NOT_FOUND);
}

#[tokio::test]
async fn an_agent_that_stays_when_its_client_has_left_is_not_waited_for_forever() {
    let Three { client, mut agent, proxy } = three(MOST_BYTES);
    drop(client);
    assert_eq!(agent.hears().await, "");
    // It may keep writing, and its output has no reader.
    agent.say(b"{\"method\":\"session/update\"}\n").await;
    assert_eq!(proxy.await.unwrap(), Ended::Client);
}
