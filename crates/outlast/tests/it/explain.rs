//! Verbs that other programs run, typed by a user: they explain themselves in place of waiting for JSON.

use crate::person::Person;
use crate::support::*;

#[test]
fn a_verb_for_programs_that_is_typed_says_what_it_is_and_how_to_set_it_up() {
    let p = product();
    for (args, last) in [
        (&["mcp"][..], "outlast doctor\r\n"),
        (&["hook"], "lines with the text.\r\n"),
        (&["hook", "codex"], "lines with the text.\r\n"),
        (&["hook", "claude"], "lines with the text.\r\n"),
        (&["acp-proxy"], "when agent or editor end.\r\n"),
    ] {
        let mut person = Person::calls(&p, args);
        person.sees(last);
        assert_eq!(person.ended(), Some(0), "{args:?}");
        let text = person.seen.replace("\r\n", " ");
        assert!(text.starts_with(&format!("`outlast {}", args[0])) && text.contains("nothing to type here"), "{args:?}: {text}");
    }
    assert!(p.processes().is_empty(), "nothing is started for it: {:?}", p.processes());
}

#[test]
fn json_on_a_terminal_is_refused_in_place_of_a_silent_wait() {
    let p = product();
    let mut person = Person::calls(&p, &["mcp", "--json"]);
    person.sees("\"code\":\"usage\"");
    assert_eq!(person.ended(), Some(1));
}

#[test]
fn in_a_pipe_the_same_verbs_read_what_a_program_writes() {
    let p = product();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}});
    let answered = p.call_with_input(["mcp"], format!("{hello}\n").as_bytes());
    assert!(answered.text().contains("\"serverInfo\""), "{answered:?}");
    assert!(p.call_with_input(["hook", "codex"], b"no json").err.contains("standard input"), "no JSON is refused");
    for verb in ["hook", "acp-proxy"] {
        let incomplete = p.call([verb]);
        assert!(incomplete.code == Some(125) && incomplete.out.is_empty() && incomplete.err.contains("Usage:"), "{incomplete:?}");
    }
}
