//! What an agent says, line by line. [`parse_line`] is a function of its argument and takes any bytes.

use crate::driver::ToolStatus;
use crate::permission::{OptionKind, PermissionOption};
use crate::program::one_line;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// How many characters of a title or an option's name are shown. They are for one line.
const MAX_TITLE_CHARS: usize = 200;
/// How many characters of what an agent adds to a permission request are shown: a command and its arguments, not a file.
const MAX_DETAIL_CHARS: usize = 600;
/// How many characters of a broken line are quoted.
const MAX_NONSENSE_CHARS: usize = 80;
/// The longest id of a request, of an option or of a session. They are kept or sent back as they are, and agents make them of a few digits.
pub(super) const MAX_AGENT_ID_BYTES: usize = 1 << 10;
/// How many options of a permission request are read. People choose from four.
const MAX_PERMISSION_OPTIONS: usize = 32;

/// A line of an agent's, as far as a client without an editor needs to understand it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Incoming {
    /// A line without a message.
    Blank,
    /// An answer to a request of ours.
    Answer {
        /// The request's id; `None` if it is none of ours.
        id: Option<u64>,
        /// What was answered.
        outcome: Result<Value, RpcFailure>,
    },
    /// A piece of the reply.
    Text {
        /// The agent's session.
        session: String,
        /// The piece.
        text: String,
    },
    /// A tool call began or changed.
    Tool {
        /// The agent's session.
        session: String,
        /// What changed.
        tool: ToolNews,
    },
    /// Another update: thoughts, plans, modes, a person's words that are replayed.
    OtherUpdate,
    /// A request for a permission.
    Permission {
        /// Its id.
        id: RequestId,
        /// The agent's id for the tool call.
        call: String,
        /// What the agent wants to do.
        title: String,
        /// The kind of tool.
        kind: Option<String>,
        /// What the agent says of it besides.
        detail: Option<String>,
        /// What can be answered.
        options: Vec<PermissionOption>,
    },
    /// Another request, which includes those about terminals.
    Request {
        /// Its id.
        id: RequestId,
        /// What is asked.
        method: String,
    },
    /// A request that makes no sense.
    BadRequest {
        /// Its id.
        id: RequestId,
        /// What is wrong with it.
        why: String,
    },
    /// Another notification.
    Notification {
        /// Its method.
        method: String,
    },
}

/// The id of a request, as the agent wrote it.
#[derive(Debug, Clone)]
pub struct RequestId(pub(super) Box<RawValue>);

impl PartialEq for RequestId {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

/// What changed in a tool call. What is absent stays as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolNews {
    /// The agent's id for the call.
    pub id: String,
    /// What it does.
    pub title: Option<String>,
    /// The kind of tool.
    pub kind: Option<String>,
    /// How far it is.
    pub status: Option<ToolStatus>,
    /// What the agent says of a call that has not begun: often what it is called with.
    pub detail: Option<String>,
}

/// Why an agent did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct RpcFailure {
    /// A number of JSON-RPC's, or of the protocol's.
    #[serde(default)]
    pub code: i64,
    /// In words.
    #[serde(default)]
    pub message: String,
    /// More words, on one line: some agents say "internal error", and what to do only here.
    #[serde(default, rename = "data", deserialize_with = "details")]
    pub details: Option<String>,
}

/// The words in the data of an error. There is no rule where they are.
fn details<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let data = Value::deserialize(from)?;
    let words = data.as_str().or_else(|| ["details", "message", "error"].iter().find_map(|name| data[name].as_str()));
    Ok(words.map(|words| one_line(words, MAX_DETAIL_CHARS)).filter(|words| !words.is_empty()))
}

/// Why a line is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}: {start:?}")]
#[non_exhaustive]
pub struct Nonsense {
    /// What is wrong with it.
    pub why: &'static str,
    /// How it begins.
    pub start: String,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// Reads a line of an agent's.
///
/// # Errors
///
/// If it is not one JSON object with a request, a notification or an answer.
pub fn parse_line(line: &[u8]) -> Result<Incoming, Nonsense> {
    let nonsense = |why| Nonsense { why, start: one_line(&String::from_utf8_lossy(&line[..line.len().min(1 << 10)]), MAX_NONSENSE_CHARS) };
    match line.iter().find(|b| !b.is_ascii_whitespace()) {
        None => return Ok(Incoming::Blank),
        Some(b'{') => {}
        Some(_) => return Err(nonsense("a line of its output is no JSON object")),
    }
    let said: Envelope<'_> = serde_json::from_slice(line).map_err(|_| nonsense("a line of its output is no JSON message"))?;
    if said.id.is_some_and(|id| id.get().len() > MAX_AGENT_ID_BYTES) {
        return Err(nonsense("the id of a message of it is too long"));
    }
    let id = said.id.map(|id| RequestId(id.to_owned()));
    let Some(method) = said.method else {
        let outcome = match (said.result, said.error) {
            (_, Some(error)) => Err(serde_json::from_str(error.get()).map_err(|_| nonsense("an error that it answers makes no sense"))?),
            // The protocol's empty answers are written as null, or not at all.
            (Some(result), None) => Ok(serde_json::from_str(result.get()).map_err(|_| nonsense("an answer of it makes no sense"))?),
            (None, None) if id.is_some() => Ok(Value::Null),
            (None, None) => return Err(nonsense("a message of it neither asks nor answers anything")),
        };
        return Ok(Incoming::Answer { id: id.and_then(|id| id.0.get().parse().ok()), outcome });
    };
    Ok(match (method.as_ref(), id) {
        ("session/update", None) => update(said.params),
        ("session/request_permission", Some(id)) => permission(id, said.params),
        (_, Some(id)) => Incoming::Request { id, method: one_line(&method, MAX_TITLE_CHARS) },
        (_, None) => Incoming::Notification { method: one_line(&method, MAX_TITLE_CHARS) },
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams<'a> {
    session_id: String,
    #[serde(borrow)]
    update: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateKind<'a> {
    #[serde(borrow)]
    session_update: Cow<'a, str>,
}

#[derive(Deserialize)]
struct MessageChunk<'a> {
    #[serde(borrow)]
    content: ContentBlock<'a>,
}

#[derive(Deserialize)]
struct ContentBlock<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(default)]
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall<'a> {
    tool_call_id: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(borrow, default)]
    raw_input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// What a tool is called with, as far as it is a command. Some agents have it in a layer of their own.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolInput {
    command: Value,
    cmd: Value,
    arguments: Value,
}

impl ToolInput {
    fn command(&self) -> Option<&str> {
        let own = self.command.as_str().or(self.cmd.as_str());
        own.or_else(|| self.arguments["command"].as_str()).or_else(|| self.arguments["cmd"].as_str())
    }
}

/// Reads an update. One that makes no sense is one that says nothing: newer agents have more kinds, and no turn depends on any.
fn update(params: Option<&RawValue>) -> Incoming {
    known_update(params).unwrap_or(Incoming::OtherUpdate)
}

fn known_update(params: Option<&RawValue>) -> Option<Incoming> {
    let UpdateParams { session_id: session, update } = serde_json::from_str(params?.get()).ok()?;
    let UpdateKind { session_update } = serde_json::from_str(update.get()).ok()?;
    match session_update.as_ref() {
        "agent_message_chunk" => {
            let MessageChunk { content } = serde_json::from_str(update.get()).ok()?;
            // Pictures and files of a reply have no line of their own yet.
            (content.r#type == "text").then_some(Incoming::Text { session, text: content.text? })
        }
        "tool_call" | "tool_call_update" => {
            let call: ToolCall<'_> = serde_json::from_str(update.get()).ok()?;
            Some(Incoming::Tool { session, tool: call.news() })
        }
        _ => None,
    }
}

impl ToolCall<'_> {
    /// The title, with the command that is run if the title does not say it: the tools of MCP servers have their names as titles.
    fn full_title(&self) -> Option<String> {
        let title = self.title.clone().filter(|title| !title.is_empty())?;
        let input: ToolInput = self.raw_input.and_then(|input| serde_json::from_str(input.get()).ok()).unwrap_or_default();
        match input.command() {
            Some(command) if !title.contains(command) => Some(format!("{title}: {command}")),
            Some(_) | None => Some(title),
        }
    }

    /// The first text of its content, on one line. Content of another shape says nothing.
    fn text(&self) -> Option<String> {
        let content: Vec<Value> = serde_json::from_str(self.content?.get()).ok()?;
        let text = content.iter().find_map(|part| part["content"]["text"].as_str())?;
        Some(one_line(text, MAX_DETAIL_CHARS)).filter(|text| !text.is_empty())
    }

    fn news(self) -> ToolNews {
        let short = |text: String| one_line(&text, MAX_TITLE_CHARS);
        let title = self.full_title();
        let status = self.status.as_deref().and_then(|word| match word {
            "pending" => Some(ToolStatus::Pending),
            "in_progress" => Some(ToolStatus::InProgress),
            "completed" => Some(ToolStatus::Completed),
            "failed" => Some(ToolStatus::Failed),
            _ => None,
        });
        // Of a call that runs, the content is its output, which may be long.
        let detail = if status == Some(ToolStatus::Pending) { self.text() } else { None };
        ToolNews { id: short(self.tool_call_id), title: title.map(short), kind: self.kind.map(short), status, detail }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionParams<'a> {
    #[serde(borrow)]
    tool_call: ToolCall<'a>,
    options: Vec<OfferedOption>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfferedOption {
    option_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: String,
}

fn permission(id: RequestId, params: Option<&RawValue>) -> Incoming {
    let asked: PermissionParams<'_> = match serde_json::from_str(params.map_or("null", RawValue::get)) {
        Ok(asked) => asked,
        Err(e) => return Incoming::BadRequest { id, why: one_line(&format!("the parameters make no sense: {e}"), MAX_TITLE_CHARS) },
    };
    let detail = asked.tool_call.text();
    let option = |offered: OfferedOption| PermissionOption {
        id: offered.option_id,
        name: one_line(&offered.name, MAX_TITLE_CHARS),
        kind: OptionKind::of(&offered.kind),
    };
    let offered = asked.options.into_iter().filter(|offered| offered.option_id.len() <= MAX_AGENT_ID_BYTES);
    let options = offered.take(MAX_PERMISSION_OPTIONS).map(option).collect();
    // A list of what is allowed is compared with the title as the agent wrote it.
    let tool = ToolCall { raw_input: None, ..asked.tool_call }.news();
    // A call may have been announced before, and then needs no title here.
    Incoming::Permission { id, title: tool.title.unwrap_or_else(|| tool.id.clone()), call: tool.id, kind: tool.kind, detail, options }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parsed(value: &Value) -> Incoming {
        parse_line(format!("{value}\n").as_bytes()).unwrap()
    }

    fn update_of(update: Value) -> Incoming {
        parsed(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}))
    }

    #[test]
    fn text_and_tools_are_read_and_other_updates_say_nothing() {
        let chunk = |content: Value| update_of(json!({"sessionUpdate": "agent_message_chunk", "content": content}));
        assert_eq!(chunk(json!({"type": "text", "text": "a\nb"})), Incoming::Text { session: "s".into(), text: "a\nb".into() });
        assert_eq!(chunk(json!({"type": "image", "data": "", "mimeType": "image/png"})), Incoming::OtherUpdate);
        let tool =
            update_of(json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": "Read\nfile", "kind": "read", "status": "pending"}));
        let news = ToolNews {
            id: "1".into(),
            title: Some("Read file".into()),
            kind: Some("read".into()),
            status: Some(ToolStatus::Pending),
            detail: None,
        };
        assert_eq!(tool, Incoming::Tool { session: "s".into(), tool: news });
        let done = update_of(json!({"sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed", "title": null}));
        let news = ToolNews { id: "1".into(), title: None, kind: None, status: Some(ToolStatus::Completed), detail: None };
        assert_eq!(done, Incoming::Tool { session: "s".into(), tool: news });
        // The tool of an MCP server is shown with the command that it runs.
        for (title, input, want) in [
            ("outlast_run", json!({"command": "make"}), "outlast_run: make"),
            ("Tool: outlast/exec_command", json!({"server": "outlast", "arguments": {"cmd": "make"}}), "Tool: outlast/exec_command: make"),
            ("$ make", json!({"command": "make"}), "$ make"),
            ("Edit", json!({"command": ["make"]}), "Edit"),
            ("Edit", json!("make"), "Edit"),
        ] {
            let update = json!({"sessionUpdate": "tool_call", "toolCallId": "1", "title": title, "rawInput": input});
            let Incoming::Tool { tool, .. } = update_of(update) else { panic!("no tool") };
            assert_eq!(tool.title.as_deref(), Some(want));
        }
        for other in [json!({"sessionUpdate": "plan", "entries": []}), json!({"sessionUpdate": 7}), json!([]), json!(null)] {
            assert_eq!(update_of(other), Incoming::OtherUpdate);
        }
        assert_eq!(parsed(&json!({"method": "session/update"})), Incoming::OtherUpdate);
    }

    #[test]
    fn answers_are_ours_by_their_number() {
        assert_eq!(parsed(&json!({"id": 3, "result": {"a": 1}})), Incoming::Answer { id: Some(3), outcome: Ok(json!({"a": 1})) });
        assert_eq!(parsed(&json!({"id": "3", "result": null})), Incoming::Answer { id: None, outcome: Ok(Value::Null) });
        let failure = RpcFailure { code: -32000, message: "log in".into(), details: None };
        let refused = json!({"id": 3, "error": {"code": -32000, "message": "log in", "data": {}}});
        assert_eq!(parsed(&refused), Incoming::Answer { id: Some(3), outcome: Err(failure) });
    }

    #[test]
    fn a_permission_is_read_with_the_options_it_offers() {
        let params = json!({"sessionId": "s", "toolCall": {"toolCallId": "t1", "kind": "execute"},
            "options": [{"optionId": "a", "name": "Allow\u{7}", "kind": "allow_once"}, {"optionId": "b", "name": "?", "kind": "new"}]});
        let ask = |params: &Value| parsed(&json!({"id": "x", "method": "session/request_permission", "params": params}));
        let Incoming::Permission { id, call, title, kind, detail, options } = ask(&params) else { panic!("no permission") };
        assert_eq!((id.0.get(), title.as_str(), kind.as_deref(), detail), ("\"x\"", "t1", Some("execute"), None));
        assert_eq!(call, "t1");
        // Kimi Code has the name of its tool as the title, and the command in the content.
        for (content, want) in [
            (json!([{"type": "content", "content": {"type": "text", "text": "Running:\nrm -r x"}}]), Some("Running: rm -r x")),
            (
                json!([{"type": "diff", "path": "/a", "newText": "b"}, {"type": "content", "content": {"type": "text", "text": "c"}}]),
                Some("c"),
            ),
            (json!("text"), None),
            (json!([7]), None),
        ] {
            let mut params = params.clone();
            params["toolCall"]["content"] = content;
            let Incoming::Permission { detail, .. } = ask(&params) else { panic!("no permission") };
            assert_eq!(detail.as_deref(), want);
        }
        assert_eq!((options[0].name.as_str(), options[0].kind, options[1].kind), ("Allow", OptionKind::AllowOnce, OptionKind::Other));
        let long = "x".repeat(MAX_AGENT_ID_BYTES + 1);
        let params = json!({"toolCall": {"toolCallId": long}, "options": [{"optionId": long}, {"optionId": "b"}]});
        let Incoming::Permission { title, options, .. } =
            parsed(&json!({"id": 1, "method": "session/request_permission", "params": params}))
        else {
            panic!("no permission")
        };
        assert_eq!((title.chars().count(), options.len()), (MAX_TITLE_CHARS, 1), "an option that cannot be sent back is not offered");
        let bad = parsed(&json!({"id": 1, "method": "session/request_permission", "params": {"toolCall": long}}));
        assert!(matches!(bad, Incoming::BadRequest { why, .. } if why.chars().count() <= MAX_TITLE_CHARS));
        let bad = parsed(&json!({"id": 1, "method": "session/request_permission", "params": {}}));
        assert!(matches!(bad, Incoming::BadRequest { .. }));
    }

    #[test]
    fn an_error_is_read_with_what_its_data_says() {
        for (data, want) in [
            (json!({"details": "run\n`setup`"}), Some("run `setup`")),
            (json!("no key"), Some("no key")),
            (json!({"service": "session"}), None),
            (json!([1]), None),
            (json!(null), None),
        ] {
            let Incoming::Answer { outcome: Err(failure), .. } =
                parsed(&json!({"id": 1, "error": {"code": -32603, "message": "m", "data": data}}))
            else {
                panic!("no error")
            };
            assert_eq!((failure.code, failure.message.as_str(), failure.details.as_deref()), (-32603, "m", want));
        }
    }

    #[test]
    fn what_is_no_message_is_nonsense_and_quoted() {
        for line in ["x", "[]", "7", "{", "{}", "{\"id\":null}", "{\"method\":1}", "\"a\"", "{\"id\":1,\"result\":1}x", "\u{feff}{}"] {
            assert!(parse_line(line.as_bytes()).is_err(), "{line}");
        }
        assert!(parse_line(b"{\"method\":\"\xff\"}").is_err());
        let long = json!({"id": "x".repeat(MAX_AGENT_ID_BYTES), "method": "a"}).to_string();
        assert!(parse_line(long.as_bytes()).unwrap_err().to_string().contains("id of a message of it is too long"));
        let told = parse_line(b"\x1b[31mWarning: something\n").unwrap_err().to_string();
        assert_eq!(told, "a line of its output is no JSON object: \"[31mWarning: something\"");
        assert_eq!(parse_line(b" \r\n"), Ok(Incoming::Blank));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, text in "\\{\"(method|id|result|error|params)\":.{0,40}\\}") {
            let _any = parse_line(&bytes);
            let _any = parse_line(text.as_bytes());
        }
    }
}
