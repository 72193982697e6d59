//! What is said about a wrong command line or a wrong configuration: on one line, and nothing that does not help.

use crate::support::*;

#[test]
fn a_regular_expression_that_is_wrong_is_explained_on_one_line() {
    let p = product();
    for args in [&["log", "x", "--grep", "["][..], &["log", "x", "--json", "--grep", "["]] {
        let refused = p.call(args);
        let said = refused.text() + &refused.err;
        assert!(refused.code == Some(2) && said.contains("not a regular expression: unclosed character class"), "{said}");
        assert!(!said.contains('^'), "{said}");
    }
}

#[test]
fn a_flag_that_is_wrong_is_not_proposed_as_an_id() {
    let p = product();
    let negative = p.call(["log", "x", "--offset", "-1"]);
    assert!(negative.err.contains("must be a whole number, 0 or more") && !negative.err.contains("tip:"), "{}", negative.err);
    let unknown = p.call(["rerun", "x", "--fast"]);
    assert!(unknown.code == Some(125) && unknown.err.contains("--fast") && !unknown.err.contains("as a value"), "{}", unknown.err);
}

#[test]
fn verbs_that_no_user_calls_are_not_proposed() {
    let p = product();
    let refused = p.call(["--json"]);
    let hint = refused.json()["hint"].to_string();
    assert!(refused.code == Some(2) && hint.contains("run") && !hint.contains("__"), "{refused:?}");
}

#[test]
fn an_address_without_a_port_is_answered_with_an_example() {
    let p = product();
    for address in ["localhost:8000", "8000"] {
        let refused = p.call(["mcp", "--http", address]);
        assert!(refused.code == Some(2) && refused.err.contains("for instance 127.0.0.1:8000"), "{}", refused.err);
    }
}

#[test]
fn a_file_of_variables_that_is_not_there_has_a_hint() {
    let p = product();
    let refused = p.call(["run", "--json", "--env-file", "/nonexist", "true"]);
    assert!(refused.code == Some(125) && refused.json()["hint"].as_str().unwrap().contains("standard input"), "{refused:?}");
}

#[test]
fn several_problems_of_the_configuration_are_one_line() {
    let p = product();
    p.configure("nosuch = 1\nother = 2\n[log]\ntail_bytes = \"much\"\n");
    let said = p.call(["list"]).good().err;
    assert!(said.lines().count() == 1 && said.contains("problems in the configuration ("), "{said}");
    assert!(said.ends_with("config.toml); `outlast doctor` shows them\n"), "{said}");
    let whole = p.call(["config", "show"]).good().err;
    assert!(whole.lines().count() > 1 && whole.contains("nosuch"), "{whole}");
    p.configure("nosuch = 1\n");
    let one = p.call(["list"]).good().err;
    assert!(one.contains("nosuch"), "{one}");
}

#[test]
fn a_tool_of_any_set_can_be_called() {
    let p = product();
    let unknown = p.call(["tool", "run", "{}"]);
    assert!(unknown.code == Some(2) && unknown.err.contains("`outlast tool call NAME JSON --profile native`"), "{}", unknown.err);
    let ran = p.call(["tool", "call", "run", "{\"command\": \"echo said\"}", "--profile", "native"]).good().json();
    assert!(ran.to_string().contains("said"), "{ran}");
    let not_there = p.call(["tool", "call", "run", "{}", "--json"]);
    let refused = not_there.json();
    assert_eq!((not_there.code, &refused["error"]), (Some(2), &json!("the set hermes has no tool \"run\"")), "{refused}");
    let schema = p.call(["tool", "schema", "--profile", "codex"]).good().json();
    assert_eq!(schema["tools"][0]["name"], "exec_command", "{schema}");
}

#[test]
fn input_for_a_process_without_one_says_how_to_start_it() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let refused = p.call(["write", &id, "x"]);
    assert_eq!(
        (refused.code, refused.err.as_str()),
        (Some(1), "outlast: its input is closed\n  start it with --stdin or --pty to write to it\n")
    );
}
