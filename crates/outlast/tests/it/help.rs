//! `--help`, and every example in it.

use crate::person::Person;
use crate::shell;
use crate::support::*;
use std::os::unix::fs::PermissionsExt as _;

/// The verbs of a group of `outlast --help`.
fn verbs(group: &str) -> Vec<String> {
    let p = product();
    let help = p.call(["--help"]).good().text();
    let (_, rest) = help.split_once(&format!("{group}:\n")).unwrap_or_else(|| panic!("no group {group} in {help}"));
    let lines = rest.lines().take_while(|line| line.starts_with("  "));
    lines.map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// The examples in the long help of a verb.
fn examples(p: &Product, verb: &str) -> Vec<String> {
    let help = p.call([verb, "--help"]).good().text();
    let (_, rest) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{verb} has no examples: {help}"));
    let lines: Vec<String> = rest.lines().take_while(|line| line.starts_with("  ")).map(|line| line.trim().to_owned()).collect();
    assert!(lines.len() >= 2, "{verb}: {lines:?}");
    lines
}

/// Runs every example of a group. Each must do what it is an example of, and exit with 0.
fn run_examples(group: &str) {
    let verbs = verbs(group);
    assert!(!verbs.is_empty());
    for verb in verbs {
        let p = product();
        put_files(&p);
        if verb == "hook" {
            p.configure("[[hook]]\nname = \"ops\"\ncommand = \"cat\"\n");
        }
        let outside = std::process::Command::new("sleep").arg("600").current_dir(p.work()).spawn().unwrap();
        let outside = Outside(outside);
        std::fs::write(p.work().join("server.pid"), outside.0.id().to_string()).unwrap();
        for example in examples(&p, &verb) {
            start_named(&p, &example);
            let shown = run_example(&p, &verb, &example);
            println!("$ {example}\n{shown}");
        }
        p.call(["gateway", "stop", "--timeout", "0"]);
    }
}

/// A process that was started by another program.
struct Outside(std::process::Child);

impl Drop for Outside {
    fn drop(&mut self) {
        // It may have been stopped by an example.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Files and programs that examples name.
fn put_files(p: &Product) {
    let bin = p.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for (name, script) in [
        ("npm", "trap '' HUP; echo 'GET /'; echo 'Listening on http://localhost:3000'; sleep 600 & wait; wait"),
        ("make", "echo \"make $*\""),
        ("kimi", "cat"),
        ("opencode", "cat"),
    ] {
        std::fs::write(bin.join(name), format!("#!/bin/bash\n{script}\n")).unwrap();
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, text) in [
        ("answers.txt", "yes\n"),
        ("stop.json", r#"{"session_id": "1", "hook_event_name": "Stop", "cwd": "/"}"#),
        ("checkpoint.json", "[]"),
        ("Procfile", "web: make web\nworker: make worker\n"),
    ] {
        std::fs::write(p.work().join(name), text).unwrap();
    }
}

/// Starts the processes whose names are in the example.
fn start_named(p: &Product, example: &str) {
    let is_named = |name: &str| example.split_whitespace().any(|word| word == name);
    for (name, start) in [
        ("web", "outlast run --name web --until Listening npm start"),
        ("build", "outlast run --name build --wait make"),
        ("tests", "outlast run --name tests --wait make test"),
        ("repl", "outlast run --name repl --stdin cat"),
        ("shell", "outlast run --name shell --pty --until ready 'echo ready; exec cat'"),
        ("active", "outlast run --name web --until Listening npm start"),
        ("events", "outlast run --name build --notify make && outlast until build"),
    ] {
        let starts_it = example.contains("outlast run");
        if is_named(name) && !starts_it {
            // If an earlier example left one running, `kill`, `restart` and `signal` would ask which of the two is meant.
            let _none = p.call(["kill", name, "--grace", "0"]);
            let (shown, code) = shell::shows(p, start);
            assert_eq!(code, Some(0), "{start}: {shown}");
        }
    }
}

/// Runs it, with the keys that a full screen needs and the signal that a server needs.
fn run_example(p: &Product, verb: &str, example: &str) -> String {
    let leave = |text: &str, keys: &str| {
        let mut person: Person = shell::types(p, example);
        person.sees(text);
        person.types(keys);
        person.until_the_end()
    };
    let (shown, code) = match verb {
        "top" => {
            let mut person = shell::types(p, example);
            // It asks the terminal where the cursor is.
            person.sees("\x1b[6n");
            person.types("\x1b[1;1R");
            person.sees("outlast");
            person.types("q");
            person.until_the_end()
        }
        "view" => {
            let mut viewer = shell::types(p, "outlast attach shell");
            viewer.sees("ready");
            let closed = shell::shows(p, example);
            viewer.until_the_end();
            closed
        }
        "attach" if example.contains("--read-only") => leave("ready", "\x03"),
        "attach" => leave("ready", "\x1c"),
        "chat" if !example.contains("send") => leave("notes", "\x04"),
        "mcp" if example.contains("--http") => {
            let mut person = shell::types(p, &format!("exec {example}"));
            person.sees("listening at");
            outlast_testkit::product::terminate(person.pid());
            person.until_the_end()
        }
        // These read a protocol from standard input, which ends at once.
        "mcp" | "acp-proxy" => shell::shows(p, &format!("{example} < /dev/null")),
        _ => shell::shows(p, example),
    };
    // What this machine lacks is reported, and is no failure of the example.
    let is_degraded = verb == "doctor" && code == Some(3);
    assert!(code == Some(0) || is_degraded, "`{example}` exited with {code:?}:\n{shown}");
    shown
}

#[test]
fn every_everyday_example_works() {
    run_examples("Everyday");
}

#[test]
fn every_example_about_input_and_terminals_works() {
    run_examples("Input and terminals");
}

#[test]
fn every_example_about_notices_works() {
    run_examples("Notices");
}

#[test]
fn every_example_for_agents_works() {
    run_examples("Agents");
}

#[test]
fn every_example_about_this_machine_works() {
    run_examples("This machine");
}

/// A group that no test runs would have examples that were never tried.
#[test]
fn every_group_has_its_examples_run() {
    let help = product().call(["--help"]).good().text();
    let titles: Vec<&str> = help.lines().filter_map(|line| line.strip_suffix(':')).filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(titles, ["Everyday", "Input and terminals", "Notices", "Agents", "This machine", "Options of every verb"], "{help}");
}

#[test]
fn help_as_a_word_is_help_as_a_flag() {
    let p = product();
    assert_eq!(p.call(["help"]).good().text(), p.call(["--help"]).good().text());
    assert_eq!(p.call(["help", "run"]).good().text(), p.call(["run", "--help"]).good().text());
    assert_eq!(p.call(["help", "engine", "stop"]).good().text(), p.call(["engine", "stop", "--help"]).good().text());
    assert!(p.call(["help", "lst"]).err.contains("'list'"));
}
