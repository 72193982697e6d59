//! Tests that all formats share.

use super::{Data, EditError, Fields};
use proptest::prelude::*;

/// An edit in any of the formats.
pub(super) trait AnyEdit {
    fn put(&self, text: &str) -> Result<String, EditError>;
    fn take(&self, text: &str) -> Result<String, EditError>;
}

/// Makes an edit twice and undoes it. Returns the edited text.
pub(super) fn there_and_back(text: &str, edit: &impl AnyEdit) -> String {
    let made = edit.put(text).unwrap_or_else(|e| panic!("{e:?} in {text:?}"));
    assert_eq!(edit.put(&made).unwrap(), made, "twice is once");
    assert_eq!(edit.take(&made).unwrap(), text, "and back from {made:?}");
    assert_eq!(edit.take(text).unwrap(), text, "nothing of ours");
    made
}

/// The same for a text that may be refused, or has an entry of that name.
pub(super) fn there_and_back_if_it_can(text: &str, edit: &impl AnyEdit) -> Result<(), TestCaseError> {
    twice_is_once(text, edit)?;
    let Ok(made) = edit.put(text) else { return Ok(()) };
    if edit.take(text).unwrap() == text && made != text {
        prop_assert_eq!(edit.take(&made).unwrap(), text);
    }
    Ok(())
}

/// Any text is refused, or a second edit changes nothing.
pub(super) fn twice_is_once(text: &str, edit: &impl AnyEdit) -> Result<(), TestCaseError> {
    if let Ok(made) = edit.put(text) {
        prop_assert_eq!(&edit.put(&made).unwrap(), &made);
    }
    Ok(())
}

/// The fields of an MCP server.
pub(super) fn server() -> Fields {
    vec![("command".to_owned(), Data::text("/bin/outlast")), ("args".to_owned(), Data::texts(["mcp"]))]
}

/// The fields that only a new entry gets.
pub(super) fn defaults() -> Fields {
    vec![("limit".to_owned(), Data::Number(9))]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-c]",
        1 => Just("mcpServers".to_owned()),
        1 => Just("mcp_servers".to_owned()),
        1 => Just("outlast".to_owned()),
        1 => Just("hooks".to_owned()),
        1 => Just("hook".to_owned()),
        1 => Just("Stop".to_owned()),
    ]
}

/// White space, sometimes with a remark.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        2 => Just(" ".to_owned()),
        2 => Just("\n  ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" // remark }  \n".to_owned()),
        1 => Just("/* , \n */".to_owned()),
    ]
}

/// A document with remarks, odd gaps and trailing commas.
pub(super) fn json_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("1".to_owned()),
        Just("\"x,}\"".to_owned()),
        Just("null".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned())
    ];
    let value = leaf.prop_recursive(4, 24, 4, |inner| {
        let member = (gap(), name(), gap(), inner.clone(), gap()).prop_map(|(a, name, b, value, c)| format!("{a}\"{name}\":{b}{value}{c}"));
        let element = (gap(), inner, gap()).prop_map(|(a, value, b)| format!("{a}{value}{b}"));
        prop_oneof![
            (proptest::collection::vec(member, 0..4), gap(), any::<bool>())
                .prop_map(|(all, gap, comma)| closed('{', '}', &all, &gap, comma)),
            (proptest::collection::vec(element, 0..4), gap(), any::<bool>())
                .prop_map(|(all, gap, comma)| closed('[', ']', &all, &gap, comma)),
        ]
    });
    (gap(), value, gap()).prop_map(|(a, value, b)| format!("{a}{value}{b}"))
}

fn closed(open: char, close: char, all: &[String], gap: &str, comma: bool) -> String {
    let comma = if comma && !all.is_empty() { "," } else { "" };
    format!("{open}{}{comma}{gap}{close}", all.join(","))
}

/// Lines of a document. Many combinations are valid.
pub(super) fn toml_text() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("a = 1".to_owned()),
        Just("b = \"\"\"\n[x]\n\"\"\"".to_owned()),
        Just("c = [\n 1, # one\n]".to_owned()),
        Just("# remark".to_owned()),
        Just(String::new()),
        Just("[mcp_servers.a]".to_owned()),
        Just("[mcp_servers]".to_owned()),
        Just("[[hook]]".to_owned()),
        Just("hook = []".to_owned()),
        Just("hook = [{ name = \"x\" }, { name = \"y\" }] # two".to_owned()),
        Just("[z]".to_owned()),
        Just("  [z.y] # deep".to_owned()),
        Just("d.e = { f = 1 }".to_owned()),
        Just("name = \"other\"".to_owned()),
    ];
    (proptest::collection::vec(line, 0..8), any::<bool>(), any::<bool>()).prop_map(|(lines, last, crlf)| {
        let text = lines.join("\n") + if last { "\n" } else { "" };
        if crlf { text.replace('\n', "\r\n") } else { text }
    })
}

/// Lines of a document. Many combinations are valid.
pub(super) fn yaml_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("a: 1"),
        Just("b: |\n  text\n  mcp_servers:"),
        Just("c:\n- x\n- y: 2"),
        Just("# remark"),
        Just(""),
        Just("mcp_servers:\n  # first\n  a:\n    command: x"),
        Just("mcp_servers:\n    a: {command: x}\n    # last"),
        Just("mcp_servers: {}"),
        Just("mcp_servers: {a: {command: x}} # one"),
        Just("mcp_servers:"),
        Just("d: {e: [1, 'two', \"three\"]}"),
        Just("f: >-\n  folded\n\n  more"),
        Just("---"),
        Just("g: \"a\n  b\""),
        Just("h: é # ü"),
    ];
    (proptest::collection::vec(part, 0..6), any::<bool>(), any::<bool>()).prop_map(|(parts, last, crlf)| {
        let text = parts.join("\n") + if last { "\n" } else { "" };
        if crlf { text.replace('\n', "\r\n") } else { text }
    })
}
