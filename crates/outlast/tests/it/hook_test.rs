//! `hook test`: one call of a configured sink, for real, and a report of what came of it.

use crate::support::*;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

#[test]
fn a_hook_that_works_is_called_once_with_a_notice_that_it_is_for() {
    let p = product();
    let log = p.work().join("told");
    let command = format!("cat >> {}; echo \\\"seen $OUTLAST_EVENT_KIND $OUTLAST_NAME\\\"", log.display());
    p.configure(&format!("[[hook]]\nname = \"wake\"\ncommand = \"{command}\"\nkinds = [\"watch_match\"]\nsessions = [\"agent:*\"]"));
    let said = p.call(["hook", "test", "wake"]).good().text();
    assert!(said.starts_with("the hook wake accepted the notice (exit 0) after "), "{said}");
    assert!(said.ends_with("its output:\n  seen watch_match test\n"), "{said}");
    let told: Value = serde_json::from_str(std::fs::read_to_string(&log).unwrap().trim()).unwrap();
    assert_eq!((&told["event"]["type"], &told["event"]["session_key"]), (&json!("watch_match"), &json!("agent:test")), "{told}");
    assert_eq!((&told["attempt"], &told["repeat"]), (&json!(1), &json!(false)), "{told}");
    let answer = p.json(["hook", "test", "wake", "--session", "agent:9"]);
    assert_eq!((&answer["status"], &answer["exit_code"], &answer["kind"]), (&json!("delivered"), &json!(0), &json!("hook")), "{answer}");
    assert!(answer["seconds"].as_f64().unwrap() > 0.0, "{answer}");
    let lines = std::fs::read_to_string(&log).unwrap();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    assert!(lines.contains("agent:9"), "{lines}");
    assert!(p.processes().is_empty(), "no engine is needed for it: {:?}", p.processes());
}

#[test]
fn the_notice_of_a_test_names_a_process_as_a_real_one_does() {
    let p = product();
    p.configure("[[hook]]\nname = \"wake\"\ncommand = \"cat; echo; echo $OUTLAST_PROCESS\"");
    let said = p.call(["hook", "test", "wake"]).good().text();
    let process = said.lines().last().unwrap().trim();
    assert!(process.parse::<outlast_core::ProcessId>().is_ok(), "{said}");
    assert!(said.contains(&format!("Background process test ({process})")) && !said.contains("unknown"), "{said}");
}

#[test]
fn a_hook_for_failures_can_be_tried_with_an_exit_code() {
    let p = product();
    p.configure("[[hook]]\nname = \"failed\"\ncommand = '[ \"$OUTLAST_EXIT_CODE\" = 0 ] || echo \"$OUTLAST_TEXT\"'");
    let good = p.call(["hook", "test", "failed"]).good().text();
    assert!(good.contains("\nit was given:\n  OUTLAST_NAME=test\n  OUTLAST_EXIT_CODE=0\n  OUTLAST_TEXT=test finished (exit 0)"), "{good}");
    assert!(!good.contains("its output:"), "{good}");
    let bad = p.call(["hook", "test", "failed", "--exit-code", "3"]).good().text();
    assert!(bad.contains("  OUTLAST_EXIT_CODE=3\n") && bad.contains("its output:\n  test failed (exit 3)"), "{bad}");
    assert_eq!(p.call(["hook", "test", "failed", "--exit-code", "300"]).code, Some(125));
}

#[test]
fn a_kind_that_no_notice_has_is_reported() {
    let p = product();
    p.configure("[[hook]]\nname = \"wake\"\ncommand = \"true\"\nkinds = [\"completions\"]\n[[hook]]\nname = \"own\"\ncommand = \"true\"\nkinds = [\"deploy\"]");
    let warned = p.call(["config", "show"]).good().err;
    assert!(warned.contains("has the unknown kind completions in the hook wake; did you mean completion?"), "{warned}");
    assert!(!warned.contains("deploy"), "a notice that is posted may have any kind: {warned}");
    let note = p.call(["hook", "test", "own"]).good().err;
    assert!(note.contains("note: deploy is no kind of Outlast's own notices: only `outlast events post` makes such\n"), "{note}");
    let refused = p.call(["hook", "test", "own", "--exit-code", "3"]);
    assert!(refused.code == Some(125) && refused.err.contains("own gets no notices of the kind completion"), "{refused:?}");
}

#[test]
fn a_hook_that_fails_is_reported_with_exit_code_and_output() {
    let p = product();
    p.configure("[[hook]]\nname = \"wake\"\ncommand = \"echo no route; echo to host >&2; exit 3\"\n[[hook]]\nname = \"gone\"\ncommand = [\"/nowhere/to/be/found\"]");
    let failed = p.call(["hook", "test", "wake"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.text().starts_with("the hook wake failed after "), "{failed:?}");
    assert!(failed.text().contains(": exit code 3\nit was given:\n  OUTLAST_NAME=test\n"), "{failed:?}");
    assert!(failed.text().ends_with("\nits output:\n  no route\n  to host\n"), "{failed:?}");
    let answer = p.call(["hook", "test", "wake", "--json"]);
    assert_eq!((answer.code, &answer.json()["exit_code"], &answer.json()["status"]), (Some(1), &json!(3), &json!("failed")));
    let gone = p.call(["hook", "test", "gone"]);
    assert!(gone.code == Some(1) && gone.text().contains("cannot run the hook"), "{gone:?}");
    // Nothing is left to be tried again.
    assert_eq!(p.json(["events", "dead"])["letters"], json!([]));
}

#[test]
fn a_webhook_is_reported_with_its_status_and_answer() {
    let p = product();
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", door.local_addr().unwrap());
    std::fs::write(p.work().join("secret"), SECRET).unwrap();
    p.configure(&format!("[[webhook]]\nname = \"ops\"\nurl = \"{url}\"\nsecret_file = \"{}\"", p.work().join("secret").display()));
    let receiver = std::thread::spawn(move || {
        let answers = ["HTTP/1.1 202 Accepted\r\ncontent-length: 6\r\n\r\nqueued", "HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\nfull"];
        answers.map(|answer| {
            let (stream, _) = door.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if line == "\r\n" {
                    break;
                }
                if let Some(n) = line.to_lowercase().strip_prefix("content-length:") {
                    length = n.trim().parse().unwrap();
                }
                head += &line;
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
            (head, serde_json::from_slice::<Value>(&body).unwrap())
        })
    });
    let accepted = p.call(["hook", "test", "ops"]).good().text();
    assert!(accepted.starts_with("the webhook ops accepted the notice (HTTP 202) after "), "{accepted}");
    assert!(accepted.ends_with("its answer:\n  queued\n"), "{accepted}");
    let refused = p.call(["hook", "test", "ops", "--json"]);
    assert_eq!((refused.code, &refused.json()["http_status"], &refused.json()["output"]), (Some(1), &json!(500), &json!("full")));
    let [(head, body), _] = receiver.join().unwrap();
    assert!(head.contains("webhook-signature: v1,"), "{head}");
    assert_eq!(body["type"], "outlast.completion", "{body}");
    // The receiver is gone by now.
    let unreachable = p.call(["hook", "test", "ops"]);
    assert!(unreachable.code == Some(1) && unreachable.text().contains("cannot connect to http://127.0.0.1:"), "{unreachable:?}");
}

#[test]
fn an_unknown_sink_is_refused_with_the_nearest_name() {
    let p = product();
    let none = p.call(["hook", "test", "wake"]);
    assert!(none.code == Some(125) && none.err.contains("none is configured") && none.err.contains("config.toml"), "{none:?}");
    for line in ["    [[hook]]\n", "    name = \"wake\"\n", "    command = ", "`outlast engine restart`"] {
        assert!(none.err.contains(line), "{line}: {none:?}");
    }
    // The example works as it is printed.
    let example = none.err.lines().skip_while(|line| !line.contains("[[hook]]")).collect::<Vec<_>>().join("\n");
    p.configure(&example);
    p.call(["hook", "test", "wake"]).good();
    assert!(p.call(["hook", "test", "--help"]).good().text().contains("[[hook]]\n"));
    p.configure("[[hook]]\nname = \"wake\"\ncommand = \"true\"\n[[hook]]\nname = \"log\"\ncommand = \"true\"");
    let near = p.call(["hook", "test", "wkae"]);
    assert!(near.code == Some(125) && near.err.contains("did you mean wake?"), "{near:?}");
    let far = p.call(["hook", "test", "telegram", "--json"]);
    assert_eq!((&far.json()["code"], &far.json()["hint"]), (&json!("not_found"), &json!("there are: wake, log")), "{far:?}");
}

#[test]
fn a_hook_that_the_running_engine_has_not_read_is_tried_and_that_is_said() {
    let p = product();
    p.configure("[[hook]]\nname = \"wake\"\ncommand = \"true\"");
    p.engine();
    assert_eq!(p.call(["hook", "test", "wake"]).good().err, "");
    p.configure("[[hook]]\nname = \"wake\"\ncommand = \"true\"\n[[hook]]\nname = \"new\"\ncommand = \"true\"");
    let tried = p.call(["hook", "test", "new"]).good();
    assert_eq!(tried.err, "note: the hook tables were changed, and the running engine has not read them: `outlast engine restart`\n");
    assert_eq!(p.json(["hook", "test", "new"])["needs_restart"], true);
    p.call(["engine", "restart"]).good();
    assert_eq!(p.call(["hook", "test", "new"]).good().err, "");
    assert_eq!(p.json(["hook", "test", "new"])["needs_restart"], false);
}

#[test]
fn of_two_hooks_with_one_name_the_configuration_lists_the_first() {
    let p = product();
    p.configure(
        "[[hook]]\nname = \"wake\"\ncommand = \"echo one\"\n[[hook]]\nname = \"wake\"\ncommand = \"echo two\"\n[[hook]]\nname = \"log\"\ncommand = \"echo log\"\n",
    );
    // Every other verb says how many problems there are, `config` and `doctor` which.
    let shown = p.call(["config", "show"]).good();
    let text = shown.text();
    let hooks: Vec<&str> = text.lines().filter(|line| line.starts_with("[[hook]]")).collect();
    assert_eq!(hooks, ["[[hook]] wake = echo one", "[[hook]] log = echo log"]);
    assert!(shown.err.contains("the second is ignored"), "{}", shown.err);
    let sinks = &p.json(["config", "show"])["sinks"];
    assert_eq!(
        sinks,
        &json!([{"kind": "hook", "name": "wake", "calls": "echo one"}, {"kind": "hook", "name": "log", "calls": "echo log"}])
    );
}
