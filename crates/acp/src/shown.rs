//! Terminals that an agent shows its client, inside of a tool call. The client does not have them: they are ours. So it is given as text what it would show.
//!
//! Decision 116: docs/decisions/acp.md.

use crate::message::Message;
use outlast_client::ProcessId;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::ops::Range;

/// The terminals of ours in a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    /// The conversation.
    pub session: String,
    /// Where each is written, in order, and its id.
    pub terminals: Vec<(Range<usize>, String)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    session_id: String,
    /// Of `session/update`.
    #[serde(borrow, default)]
    update: Option<&'a RawValue>,
    /// Of `session/request_permission`.
    #[serde(borrow, default)]
    tool_call: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolCall<'a> {
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Item {
    r#type: String,
    terminal_id: String,
}

impl Shown {
    /// Finds them in a message of the agent's; nothing where there is none.
    pub fn find(line: &[u8]) -> Option<Self> {
        // Nearly all messages have no such word, and need not be read for it.
        memchr::memmem::find(line, b"\"terminalId\"")?;
        let message = Message::read(line)?;
        let params: Params<'_> = match message.method.as_deref()? {
            "session/update" | "session/request_permission" => message.params()?,
            _ => return None,
        };
        let calls = [params.update, params.tool_call].into_iter().flatten();
        let items = calls.filter_map(|call| serde_json::from_str::<ToolCall<'_>>(call.get()).ok()).flat_map(|call| call.content);
        let mut terminals: Vec<_> = items
            .filter_map(|raw| {
                let item: Item = serde_json::from_str(raw.get()).ok()?;
                let is_ours = item.r#type == "terminal" && item.terminal_id.parse::<ProcessId>().is_ok();
                // It is a piece of the line, read in place.
                let start = raw.get().as_ptr().addr() - line.as_ptr().addr();
                is_ours.then(|| (start..start + raw.get().len(), item.terminal_id))
            })
            .collect();
        terminals.sort_by_key(|(place, _)| place.start);
        (!terminals.is_empty()).then_some(Self { session: params.session_id, terminals })
    }

    /// The message with other content in their place, in their order. Every other byte is as it was.
    pub fn replaced(&self, line: &[u8], by: &[Value]) -> Vec<u8> {
        let mut out = Vec::with_capacity(line.len());
        let mut at = 0;
        for ((place, _), content) in self.terminals.iter().zip(by) {
            out.extend_from_slice(&line[at..place.start]);
            out.extend_from_slice(content.to_string().as_bytes());
            at = place.end;
        }
        out.extend_from_slice(&line[at..]);
        out
    }
}

/// A text, as the content of a tool call.
pub(crate) fn content(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// A text as it stands, for clients that read Markdown.
pub(crate) fn verbatim(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    format!("{fence}console\n{}\n{fence}", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "proc_0123456789ab";

    fn replaced(line: &str) -> Option<String> {
        let shown = Shown::find(line.as_bytes())?;
        let by: Vec<Value> = (0..shown.terminals.len()).map(|n| json!(n)).collect();
        Some(String::from_utf8(shown.replaced(line.as_bytes(), &by)).unwrap())
    }

    #[test]
    fn terminals_of_ours_are_replaced_and_every_other_byte_stays() {
        let item = format!(r#"{{ "terminalId":"{ID}","type" : "terminal", "_meta":{{}} }}"#);
        let line = format!(
            "{{\"params\" : {{\"sessionId\":\"s\", \"update\":{{\"content\":[ {item} , {{\"type\":\"content\",\"content\":1.0}},{item}],\"é\":\"\\u00e9\"}}}},\"method\":\"session/update\"}}\r\n"
        );
        assert_eq!(replaced(&line), Some(line.replacen(&item, "0", 1).replacen(&item, "1", 1)));
        let asks =
            format!(r#"{{"id":7,"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"content":[{item}]}}}}}}"#);
        assert_eq!(replaced(&asks), Some(asks.replace(&item, "0")));
    }

    #[test]
    fn what_is_no_terminal_of_ours_is_not_touched() {
        let update =
            |content: &str| format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{{"content":{content}}}}}}}"#);
        for line in [
            update(r#"[{"type":"terminal","terminalId":"term-1"}]"#),
            update(r#"[{"type":"terminal","terminalId":"proc_0123"}]"#),
            update(&format!(r#"[{{"type":"content","terminalId":"{ID}"}}]"#)),
            update(&format!(r#"{{"type":"terminal","terminalId":"{ID}"}}"#)),
            update(&format!(r#"[{{"type":"terminal","terminalId":"{ID}"}}]"#)).replace("session/update", "session/other"),
            update(&format!(r#"[{{"type":"terminal","terminalId":"{ID}"}}]"#)).replace("sessionId", "other"),
            format!(r#"[{}]"#, update(&format!(r#"[{{"type":"terminal","terminalId":"{ID}"}}]"#))),
            format!(r#"{{"id":1,"result":{{"terminalId":"{ID}"}}}}"#),
            "\"terminalId\"".into(),
        ] {
            assert_eq!(replaced(&line), None, "{line}");
        }
    }

    #[test]
    fn nothing_in_a_text_ends_it() {
        assert_eq!(verbatim("$ ls\na\n\n"), "```console\n$ ls\na\n```");
        assert_eq!(verbatim("a ```` b"), "`````console\na ```` b\n`````");
    }
}
