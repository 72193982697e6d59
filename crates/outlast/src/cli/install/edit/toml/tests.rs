use super::super::tests::{AnyEdit, defaults, server, there_and_back, there_and_back_if_it_can, toml_text, twice_is_once};
use super::*;
use proptest::prelude::*;

impl AnyEdit for TomlEdit {
    fn put(&self, text: &str) -> Result<String, EditError> {
        put(text, self)
    }

    fn take(&self, text: &str) -> Result<String, EditError> {
        take(text, self)
    }
}

fn mcp() -> TomlEdit {
    TomlEdit::Table { path: vec!["mcp_servers", "outlast"], fields: server(), defaults: defaults() }
}

fn hook() -> TomlEdit {
    let fields = vec![("command".to_owned(), Data::texts(["/bin/outlast", "hook", "codex"])), ("wake".to_owned(), Data::Flag(true))];
    TomlEdit::Row { list: "hook", name: "codex", fields, defaults: Vec::new() }
}

#[test]
fn what_is_there_keeps_its_bytes() {
    let mut all = String::new();
    for text in [
        "",
        "\n",
        "# nothing but a remark",
        "model = \"o\" # why\n",
        "model = \"o\"",
        "model = \"o\"\n\n\n",
        "a = 1\r\n\r\n[mcp_servers.b]\r\ncommand = \"x\"\r\n",
        "[mcp_servers]\n[mcp_servers.b]\nargs = [\n  \"x\", # one\n]\n  # last\n",
        "\u{feff}a = nan\n",
        "[[hook]]\nname = \"mine\"\ncommand = \"x\"\n\n[log]\ntail_bytes = \"1MiB\"\n",
    ] {
        for edit in [mcp(), hook()] {
            all += &format!("{}\n----\n", there_and_back(text, &edit));
        }
        let both = put(&put(text, &mcp()).unwrap(), &hook()).unwrap();
        assert_eq!(take(&take(&both, &mcp()).unwrap(), &hook()).unwrap(), text, "in the other order too: {both:?}");
    }
    insta::assert_snapshot!(all.replace('\r', "␍").replace('\u{feff}', "BOM"));
}

#[test]
fn another_path_is_corrected_and_what_was_added_by_hand_stays() {
    let text = "[mcp_servers.outlast]\ncommand = '/old' # here\ntool_timeout_sec = 9\n\n[mcp_servers.outlast.env]\nA = \"1\"\n\n[z]\n";
    let mut fields = server();
    fields.push(("env".into(), Data::map([("B", Data::text("2"))])));
    let edit = TomlEdit::Table { path: vec!["mcp_servers", "outlast"], fields, defaults: Vec::new() };
    let made = put(text, &edit).unwrap();
    assert_eq!(
        made,
        "[mcp_servers.outlast]\ncommand = \"/bin/outlast\" # here\ntool_timeout_sec = 9\nargs = [\"mcp\"]\n\n[mcp_servers.outlast.env]\nA = \"1\"\nB = \"2\"\n\n[z]\n"
    );
    assert_eq!(take(&made, &edit).unwrap(), "\n[z]\n");
}

#[test]
fn of_a_list_only_the_words_that_differ_are_replaced() {
    let text = "[[hook]]\nname = \"codex\"\nwake = true\ncommand = [\n  '/old', # here\n  'hook', # what\n  \"codex\",\n]\n";
    assert_eq!(put(text, &hook()).unwrap(), text.replace("'/old'", "\"/bin/outlast\""));
    assert!(put(&text.replace("'hook', # what\n", ""), &hook()).unwrap().contains("command = [\"/bin/outlast\", \"hook\", \"codex\"]\n"));
}

#[test]
fn one_in_the_middle_goes_without_its_neighbours() {
    let text = "a = 1\n\n[mcp_servers.outlast]\ncommand = \"x\"\n# about z\n[z]\nb = 2";
    assert_eq!(take(text, &mcp()).unwrap(), "a = 1\n# about z\n[z]\nb = 2");
    let rows = "[[hook]]\nname = \"codex\"\ncommand = \"x\"\n[hook.budget]\nwakes = 1\nseconds = 2\n[[hook]]\nname = \"b\"\n";
    assert_eq!(take(rows, &hook()).unwrap(), "[[hook]]\nname = \"b\"\n");
}

#[test]
fn other_ways_of_writing_it_are_understood_or_refused() {
    let inline = "[mcp_servers]\na = { command = \"x\" }\noutlast = { command = \"/bin/outlast\", args = [\"mcp\"] }\n# end\n";
    assert_eq!(put(inline, &mcp()).unwrap(), inline);
    assert_eq!(take(inline, &mcp()).unwrap(), "[mcp_servers]\na = { command = \"x\" }\n# end\n");
    let dotted = "mcp_servers.outlast.command = \"/old\"\r\nmcp_servers.outlast.args = [\"mcp\"]\r\nb = 1\r\n";
    assert!(put(dotted, &mcp()).unwrap().starts_with("mcp_servers.outlast.command = \"/bin/outlast\"\r\n"));
    assert_eq!(take(dotted, &mcp()).unwrap(), "b = 1\r\n");
    for text in ["mcp_servers = { a = { command = \"x\" } }\n", "mcp_servers = 3\n", "[mcp_servers]\noutlast = { url = \"x\" }\n"] {
        let refused = put(text, &mcp()).unwrap_err();
        assert!(!refused.is_malformed, "{refused:?}");
    }
    assert!(!put("hook = [1]\n", &hook()).unwrap_err().is_malformed);
}

#[test]
fn a_list_in_brackets_gets_a_first_element() {
    let ours = "{ name = \"codex\", command = [\"/bin/outlast\", \"hook\", \"codex\"], wake = true }";
    for (text, made) in [
        ("a = 1\nhook = []\n[b]\n".to_owned(), format!("a = 1\nhook = [{ours}]\n[b]\n")),
        ("hook = [ ] # none".to_owned(), format!("hook = [{ours} ] # none")),
        ("hook = [{ name = \"x\" }]\r\n".to_owned(), format!("hook = [{ours}, {{ name = \"x\" }}]\r\n")),
        ("hook = [\n  { name = \"x\" }, # one\n]\n".to_owned(), format!("hook = [{ours}, \n  {{ name = \"x\" }}, # one\n]\n")),
    ] {
        assert_eq!(there_and_back(&text, &hook()), made);
    }
    // Where the user has put it.
    let moved = format!("hook = [{{ name = \"x\" }}, {ours}]\n");
    assert_eq!(take(&moved, &hook()).unwrap(), "hook = [{ name = \"x\" }]\n");
}

#[test]
fn what_cannot_be_read_is_refused_with_its_line() {
    for (text, line) in [("a = 1\nb = \n", 2), ("a = 1\na = 2\n", 2), ("[a\n", 1), ("x\n", 1)] {
        let refused = put(text, &mcp()).unwrap_err();
        assert_eq!((refused.is_malformed, refused.line), (true, Some(line)), "{text:?}: {refused:?}");
    }
}

proptest! {
    #[test]
    fn installing_and_undoing_gives_the_bytes_of_before(text in toml_text()) {
        there_and_back_if_it_can(&text, &mcp())?;
        there_and_back_if_it_can(&text, &hook())?;
    }

    #[test]
    fn whatever_is_read_never_breaks(text in ".{0,60}|[\\[\\]{}\"'=.,# ab\n]{0,40}") {
        twice_is_once(&text, &mcp())?;
        twice_is_once(&text, &hook())?;
    }
}
