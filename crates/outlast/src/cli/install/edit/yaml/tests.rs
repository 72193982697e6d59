use super::super::tests::{Wished, server, there_and_back, there_and_back_if_it_can, twice_is_once, usual, yaml_text};
use super::*;
use proptest::prelude::*;

impl Wished for Wish {
    fn put(&self, text: &str) -> Result<String, Trouble> {
        put(text, self)
    }

    fn take(&self, text: &str) -> Result<String, Trouble> {
        take(text, self)
    }
}

fn mcp() -> Wish {
    Wish { map: "mcp_servers", name: "outlast", fields: server(), usual: usual() }
}

#[test]
fn what_is_there_keeps_its_bytes() {
    let mut fields = server();
    fields.push(("env".to_owned(), Data::map([("OUTLAST_HOME", Data::text("/with space"))])));
    let with_env = Wish { fields, ..mcp() };
    let mut all = String::new();
    for text in [
        "",
        "\n",
        "# nothing but a remark",
        "model:\n  default: x # why\n",
        "model: é",
        "model: x\n\n\n",
        "mcp_servers:\n  # mine\n  a:\n    command: x\nb: 1\n",
        "a: 1\nmcp_servers:\n      a:\n        command: x",
        "mcp_servers: {}\nb: |\n  text\n",
        "mcp_servers: {a: {command: x}} # one\n",
        "mcp_servers:\nb: 1\n",
        "é: ü\nmcp_servers:",
        "mcp_servers:   # none yet\n",
        "a: 1\r\nmcp_servers:\r\n  a: {command: x}\r\n",
        "\u{feff}a: 1\n",
        "---\na: 1\n",
    ] {
        for wish in [mcp(), with_env.clone()] {
            all += &format!("{}\n----\n", there_and_back(text, &wish));
        }
    }
    insta::assert_snapshot!(all.replace('\r', "␍").replace('\u{feff}', "BOM"));
}

#[test]
fn another_path_is_corrected_and_what_was_added_by_hand_stays() {
    let text = "mcp_servers:\n  outlast:\n    command: '/old'  # here\n    args: [mcp]\n    timeout: 9\n";
    assert_eq!(put(text, &mcp()).unwrap(), text.replace("'/old'", "/bin/outlast"));
    let args = "mcp_servers:\n  outlast:\n    command: /old\n    args: [mcp, --profile, x]\n  b: {command: y}\n";
    let made = put(args, &mcp()).unwrap();
    assert_eq!(made, "mcp_servers:\n  outlast:\n    command: /bin/outlast\n    args:\n      - mcp\n    limit: 9\n  b: {command: y}\n");
    let both = args.replace("    args", "    timeout: 9\n    args");
    let refused = put(&both, &mcp()).unwrap_err();
    assert!(!refused.malformed && refused.what.contains("added by hand"), "{refused:?}");
}

#[test]
fn one_among_others_goes_without_its_neighbours() {
    for text in ["mcp_servers: {  a: {command: x} }\n", "mcp_servers:\n { }", "mcp_servers: { a: [x ] ,b: {} } \n"] {
        there_and_back(text, &mcp());
    }
    let text = "mcp_servers:\n  a:\n    command: x\n  outlast:\n    command: y\n    env:\n      A: \"1\n        2\"\n\n  # about b\n  b:\n    command: z\n";
    assert_eq!(take(text, &mcp()).unwrap(), "mcp_servers:\n  a:\n    command: x\n\n  # about b\n  b:\n    command: z\n");
    let flow = "mcp_servers: {a: {command: x}, outlast: {command: y}}\n";
    assert_eq!(take(flow, &mcp()).unwrap(), "mcp_servers: {a: {command: x}}\n");
}

#[test]
fn what_cannot_be_changed_safely_is_refused() {
    for text in [
        "- a\n",
        "mcp_servers: 3\n",
        "mcp_servers: ~\n",
        "mcp_servers: [a]\n",
        "{mcp_servers: {}}\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\n...\n",
        "a: &x {b: 1}\nmcp_servers: *x\n",
        "mcp_servers: {}\nmcp_servers: {}\n",
        "a: 1\rb: 2\n",
        "%é é\n---\na: 1\n",
    ] {
        let refused = put(text, &mcp()).unwrap_err();
        assert!(!refused.malformed, "{text:?}: {refused:?}");
        assert_eq!(take(text, &mcp()).map_err(|e| e.malformed).unwrap_or_else(|_| text.to_owned()), text);
    }
    for (text, line) in [("a: [1\n", 2), ("a: 1\n b: 2\n", 2), ("a: \"x\n", 1), ("\ta: 1\n", 1)] {
        let refused = put(text, &mcp()).unwrap_err();
        assert!(refused.malformed && refused.line.is_some_and(|l| l.abs_diff(line) <= 1), "{text:?}: {refused:?}");
    }
}

#[test]
fn words_that_mean_something_else_are_quoted() {
    assert_eq!(
        ["mcp", "/a/b-c", "yes", "1", "a b", "--x", "", "é"].map(scalar),
        ["mcp", "/a/b-c", "\"yes\"", "\"1\"", "\"a b\"", "\"--x\"", "\"\"", "\"é\""]
    );
}

proptest! {
    #[test]
    fn installing_and_undoing_gives_the_bytes_of_before(text in yaml_text()) {
        there_and_back_if_it_can(&text, &mcp())?;
    }

    #[test]
    fn whatever_is_read_never_breaks(text in ".{0,60}|[\\[\\]{}\"':,#|>&*!% a\n-]{0,40}") {
        twice_is_once(&text, &mcp())?;
    }
}
