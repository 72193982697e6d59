//! `up`: the lines of a Procfile, run and followed.

use crate::person::Person;
use crate::support::*;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

fn procfile(p: &Product, text: &str) -> String {
    let path = p.work().join("Procfile");
    std::fs::write(&path, text).unwrap();
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn running(p: &Product) -> Vec<String> {
    let listed = p.json(["list", "--sort", "started", "--reverse"]);
    listed["processes"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn lines_run_under_their_names_and_their_output_comes_behind_them() {
    let p = product();
    let path = procfile(&p, "# the shop\n\nweb: echo listening; pwd\nworker: echo working >&2; exit 3\n");
    std::fs::create_dir(p.work().join("sub")).unwrap();
    let up = p.command(["up", "../Procfile"]).current_dir(p.work().join("sub")).output().unwrap();
    let shown = String::from_utf8(up.stdout).unwrap();
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable();
    let dir = format!("web    | {}", p.work().canonicalize().unwrap().display());
    assert_eq!(lines, [dir.as_str(), "web    | listening", "worker | working"], "the file's directory, and no colours in a pipe");
    let told = String::from_utf8(up.stderr).unwrap();
    assert!(told.contains("web    | exited with code 0") && told.contains("worker | exited with code 3"), "{told}");
    assert_eq!(up.status.code(), Some(3), "the first code that is not 0");
    assert_eq!(p.json(["poll", "web"])["labels"], json!({"procfile": path}));
}

#[test]
fn ctrl_c_stops_all_and_shows_what_they_say_to_it() {
    let p = product();
    procfile(&p, "web: trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.01; done\nworker: echo ready; exec sleep 1000\n");
    let mut person = Person::calls(&p, &["up"]);
    person.sees("Ctrl-C stops them; closing the terminal leaves them running");
    person.sees("\x1b[36mweb    |\x1b[0m ready");
    person.sees("\x1b[35mworker |\x1b[0m ready");
    person.types("\x03");
    person.sees("stopping them; Ctrl-C again kills them at once");
    person.sees("web    |\x1b[0m bye");
    person.sees("was stopped by Ctrl-C (SIGTERM)");
    assert_eq!(person.ended(), Some(130));
    assert_eq!(running(&p), Vec::<String>::new());
}

#[test]
fn a_second_ctrl_c_kills_what_ignores_the_first() {
    let p = product();
    p.configure("[terminal]\ndaemon_term_grace_seconds = 1000\n");
    procfile(&p, "stubborn: trap '' TERM; echo ready; while :; do sleep 0.01; done\n");
    let mut person = Person::calls(&p, &["up", "--no-color"]);
    person.sees("stubborn | ready");
    person.types("\x03");
    person.sees("stopping them");
    eventually("the stop", || (p.json(["poll", "stubborn"])["phase"] == "stopping").then_some(()));
    person.types("\x03");
    person.sees("was stopped by Ctrl-C (SIGKILL)");
    assert_eq!(person.ended(), Some(130));
    assert!(!person.seen.contains("\x1b[36m"), "{:?}", person.seen);
}

/// Whether the tests run below `nohup`: programs that they start ignore the signal as well.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(ignored, 16).unwrap() & 1 == 1
}

#[test]
fn they_keep_running_when_the_caller_is_killed_or_its_terminal_closes() {
    let p = product();
    procfile(&p, "web: echo ready; exec sleep 1000\n");
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::HUP, rustix::process::Signal::TERM] {
        if signal == rustix::process::Signal::HUP && is_hangup_ignored() {
            continue;
        }
        let mut up = p.command(["up"]).stdout(Stdio::piped()).spawn().unwrap();
        let line = BufReader::new(up.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        assert_eq!(line, "web | ready");
        rustix::process::kill_process(rustix::process::Pid::from_child(&up), signal).unwrap();
        up.wait().unwrap();
        assert_eq!(running(&p), ["web"]);
        p.call(["kill", "web"]).good();
    }
}

#[test]
fn detached_they_are_found_by_the_label_of_the_file_and_not_started_twice() {
    let p = product();
    let path = procfile(&p, "web: exec sleep 1000\nworker: exec sleep 1000\n");
    let started = p.call(["up", "-d"]).good();
    let lines: Vec<Vec<String>> = started.text().lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    assert_eq!([&lines[0][1], &lines[1][1]], ["web", "worker"]);
    assert_eq!(p.json(["poll", "web"])["id"], json!(lines[0][0]));
    let again = p.call(["up"]);
    assert!(again.code == Some(1) && again.err.contains(&format!("web ({}), worker (", lines[0][0])), "{again:?}");
    assert!(again.err.contains("`outlast kill --label procfile=Procfile` stops them"), "{again:?}");
    assert_eq!(running(&p), ["web", "worker"]);
    assert_eq!(p.json(["list", "--label", "procfile=Procfile"])["processes"].as_array().unwrap().len(), 2, "as the file lies here");
    assert_eq!(p.json(["kill", "--label", &format!("procfile={path}")])["killed"], 2);
    let json = p.json(["up", "-d"]);
    assert_eq!((&json["processes"][1]["name"], json["processes"].as_array().unwrap().len()), (&json!("worker"), 2), "{json}");
}

#[test]
fn a_wrong_line_or_a_missing_file_is_refused_before_anything_starts() {
    let p = product();
    let missing = p.call(["up"]);
    assert!(missing.code == Some(1) && missing.err.contains("cannot read Procfile: No such file"), "{missing:?}");
    for (text, says) in [
        ("web: sleep 1000\nnpm start\n", "Procfile:2: there is no colon"),
        ("web: sleep 1000\n\nweb: sleep 1000\n", "Procfile:3: web is already defined in line 1"),
        ("web: sleep 1000\nbad name: x\n", "Procfile:2: \"bad name\" cannot be a name"),
        ("web:\n", "Procfile:1: web has no command"),
        ("# nothing\n", "Procfile has no line that names a command"),
    ] {
        procfile(&p, text);
        let refused = p.call(["up"]);
        assert!(refused.code == Some(1) && refused.err.contains(says), "{text:?}: {refused:?}");
    }
    assert_eq!(p.json(["list", "--all"]), json!({"processes": []}));
}

#[test]
fn a_line_that_cannot_be_started_stops_those_before_it() {
    let p = product();
    p.configure("[limits]\nmax_running = 1\n");
    procfile(&p, "web: exec sleep 1000\nworker: exec sleep 1000\n");
    let refused = p.call(["up", "-d"]);
    assert!(refused.code == Some(1) && refused.err.contains("Procfile:2: "), "{refused:?}");
    assert!(refused.err.contains("; those that had been started were stopped"), "{refused:?}");
    assert_eq!(running(&p), Vec::<String>::new());
}

#[test]
fn it_follows_across_the_death_of_the_engine_and_answers_in_events() {
    let p = product();
    let gate = crate::gate::Gate::new(&p, "gate");
    procfile(&p, &format!("web: echo one; {}; echo two\n", gate.wait()));
    let mut up = p.command(["up", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(up.stdout.take().unwrap()).lines();
    let mut event = || serde_json::from_str::<Value>(&out.next().unwrap().unwrap()).unwrap();
    assert_eq!(event()["text"], "one");
    p.kill_engine();
    gate.open();
    assert_eq!(event()["text"], "two");
    let end = event();
    assert_eq!((&end["event"], &end["process"]["exit_code"], &end["name"]), (&json!("end"), &json!(0), &json!("web")), "{end}");
    assert!(up.wait().unwrap().success());
}

#[test]
fn a_directory_stands_for_its_procfile_and_a_name_that_is_in_use_is_noted() {
    let p = product();
    let other = p.run_with(&["--name", "web"], "exec sleep 1000");
    procfile(&p, "web: exec sleep 1000\nworker: exec sleep 1000\n");
    let up = p.call(["up", "-d", p.work().to_str().unwrap()]).good();
    assert_eq!(up.text().lines().count(), 2, "{up:?}");
    assert!(up.err.starts_with(&format!("note: another process called web runs ({other});")) && !up.err.contains("worker"), "{}", up.err);
}
