use super::super::tests::{AnyEdit, defaults, json_text, server, there_and_back, there_and_back_if_it_can, twice_is_once};
use super::*;
use proptest::prelude::*;
use serde_json::json;

impl AnyEdit for JsonEdit {
    fn put(&self, text: &str) -> Result<String, EditError> {
        put(text, self)
    }

    fn take(&self, text: &str) -> Result<String, EditError> {
        take(text, self)
    }
}

fn mcp() -> JsonEdit {
    JsonEdit::Member { path: vec!["mcpServers", "outlast"], fields: server(), defaults: defaults() }
}

fn ours(value: &Value) -> Ours {
    let is = |v: &Value| v["command"].as_str().is_some_and(|c| c.ends_with("hook claude"));
    let inner = value["hooks"].as_array().map(Vec::as_slice).unwrap_or_default();
    match inner.iter().filter(|h| is(h)).count() {
        0 if is(value) => Ours::Whole,
        0 => Ours::Nothing,
        n if n == inner.len() => Ours::Whole,
        _ => Ours::Within("hooks"),
    }
}

fn hook() -> JsonEdit {
    let command = Data::map([("type", Data::text("command")), ("command", Data::text("/bin/outlast hook claude"))]);
    let data = Data::map([("hooks", Data::List(vec![command]))]);
    JsonEdit::Element { path: vec!["hooks", "Stop"], data, ours }
}

#[test]
fn nothing_becomes_a_file_as_people_write_it() {
    insta::assert_snapshot!(there_and_back("", &mcp()));
    insta::assert_snapshot!(there_and_back("\n", &hook()));
}

#[test]
fn what_is_there_keeps_its_bytes() {
    let shapes = [
        "{}",
        "{ }\n",
        "{\n}\n",
        "{\"a\":1}",
        "{\"mcpServers\": {}}",
        "{\n  \"mcpServers\": {\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"b\": {\"command\": \"x\"}\n  }, \"c\": [1,\n2]\n}",
        "{\n\t\"a\": 1, // why\n\t\"b\": [1, 2,], /* and */ // more  \n}\n",
        "{\n  \"a\": 1 // no comma  \n}\n",
        "{\r\n    \"a\": {\r\n        \"b\": null\r\n    }\r\n}\r\n",
        "\u{feff}{\"a\": \"\\u00e9{\\\"[\"}",
        "// first\n{\n  // nothing\n}\n// last\n",
        "{\n  \"hooks\": {\n    \"Stop\": [],\n    \"Other\": [{}]\n  }\n}\n",
        "{\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]},\n    ],\n  },\n}\n",
        "{\"a\": 1, \"mcpServers\": {\"b\": 1,},}",
        "{\n  \"a\": 1 }",
    ];
    let mut all = String::new();
    for text in shapes {
        for edit in [mcp(), hook()] {
            let made = there_and_back(text, &edit);
            all += &format!("{made}\n----\n");
        }
        let both = put(&put(text, &mcp()).unwrap(), &hook()).unwrap();
        assert_eq!(take(&take(&both, &hook()).unwrap(), &mcp()).unwrap(), text);
    }
    insta::assert_snapshot!(all.replace('\r', "␍").replace('\u{feff}', "BOM"));
}

#[test]
fn another_path_is_corrected_and_what_was_added_by_hand_stays() {
    let text = "{\"mcpServers\": {\"outlast\": {\"command\": \"/old\", \"args\": [\"mcp\"], \"env\": {\"A\": \"1\"}, \"disabled\": true}}}";
    let mut fields = server();
    fields.push(("env".into(), Data::map([("B", Data::text("2"))])));
    let made = put(text, &JsonEdit::Member { path: vec!["mcpServers", "outlast"], fields, defaults: Vec::new() }).unwrap();
    assert_eq!(
        made,
        "{\"mcpServers\": {\"outlast\": {\"command\": \"/bin/outlast\", \"args\": [\"mcp\"], \"env\": {\"A\": \"1\", \"B\": \"2\"}, \"disabled\": true}}}"
    );
}

#[test]
fn a_hook_that_shares_its_group_leaves_alone() {
    let group = |inner: &str| format!("{{\"hooks\": {{\"Stop\": [{{\"matcher\": \"x\", \"hooks\": [{inner}]}}]}}}}");
    let mine = "{\"type\": \"command\", \"command\": \"mine\"}";
    let text = group(&format!("{mine}, {{\"type\": \"command\", \"command\": \"/bin/outlast hook claude\"}}"));
    assert_eq!(put(&text, &hook()).unwrap(), text);
    assert_eq!(take(&text, &hook()).unwrap(), group(mine));
    let old = text.replace("/bin/outlast", "/old/outlast");
    let now: Value = serde_json::from_str(&put(&old, &hook()).unwrap()).unwrap();
    assert_eq!(now["hooks"]["Stop"].as_array().unwrap().len(), 2);
    assert_eq!(now["hooks"]["Stop"][0]["hooks"], json!([{"type": "command", "command": "mine"}]));
}

#[test]
fn what_cannot_be_read_is_refused_with_its_line() {
    let lines = |text: &str| put(text, &mcp()).map_err(|e| (e.is_malformed, e.line, e.what));
    for (text, line, what) in [
        ("{\n  \"a\": 1\n  \"b\": 2\n}", 3, "a comma or } was expected, and there is '\"'"),
        ("{\n  \"a\": }", 2, "a value was expected, and there is '}'"),
        ("{\"a\": \"b\n\"}", 1, "a text in quotes has no end"),
        ("{", 1, "a name in quotes or } was expected, and the text ends"),
        ("{} {}", 1, "there is '{' after the end"),
        ("{a: 1}", 1, "a name in quotes or } was expected, and there is 'a'"),
        ("{\"a\": 01}", 1, "a value was expected, and there is '0'"),
        ("/* {}", 1, "a remark that begins with /* has no end"),
    ] {
        assert_eq!(lines(text), Err((true, Some(line), what.to_owned())), "{text:?}");
    }
    let deep = "[".repeat(100_000);
    assert!(lines(&deep).unwrap_err().2.contains("are nested"));
    for text in ["[]", "3", "{\"mcpServers\": []}", "{\"mcpServers\": {\"outlast\": 3}}"] {
        assert!(!lines(text).unwrap_err().0, "{text:?}");
    }
}

#[test]
fn an_entry_in_the_middle_goes_without_its_neighbours() {
    let text = "{\n  \"mcpServers\": {\n    \"a\": 1, // one\n    \"outlast\": {\n      \"command\": \"x\"\n    }, \"b\": 2\n  }\n}\n";
    let less = take(text, &mcp()).unwrap();
    assert_eq!(less, "{\n  \"mcpServers\": {\n    \"a\": 1, // one\n     \"b\": 2\n  }\n}\n");
    let first = "{\"mcpServers\": {\"outlast\": {}, \"b\": 2}, \"c\": 3}";
    assert_eq!(take(first, &mcp()).unwrap(), "{\"mcpServers\": { \"b\": 2}, \"c\": 3}");
}

proptest! {
    #[test]
    fn installing_and_undoing_gives_the_bytes_of_before(text in json_text()) {
        there_and_back_if_it_can(&text, &mcp())?;
        there_and_back_if_it_can(&text, &hook())?;
    }

    #[test]
    fn whatever_is_read_never_breaks(text in ".{0,60}|[\\[\\]{}\",:/* a\n]{0,40}") {
        twice_is_once(&text, &mcp())?;
        twice_is_once(&text, &hook())?;
    }
}
