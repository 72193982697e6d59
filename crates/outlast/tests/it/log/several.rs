//! Several logs at once.

use crate::gate::{Gate, Held, until_printed};
use crate::support::*;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

fn follows(p: &Product, args: &[&str]) -> Child {
    p.command(["log", "--follow"].iter().chain(args)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn texts<'a>(events: &'a [Value], id: &str) -> Vec<&'a str> {
    events.iter().filter(|e| e["event"] == "line" && e["session_id"] == id).map(|e| e["text"].as_str().unwrap()).collect()
}

#[test]
fn lines_of_several_come_whole_with_names_that_line_up_and_their_ends_are_told() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let web = p.run_with(&["--name", "web"], &format!("printf 'half '; {}; echo whole; exit 3", gate.wait()));
    let nameless = p.run("echo one; printf 'no end'");
    p.wait(&nameless);
    until_printed(&p, &web, "half ");
    let follower = follows(&p, &[&web, &nameless, &web]);
    gate.open();
    let shown = follower.wait_with_output().unwrap();
    assert_eq!(shown.status.code(), Some(0));
    let mut lines: Vec<_> = std::str::from_utf8(&shown.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [format!("{nameless} | no end"), format!("{nameless} | one"), "web               | half whole".into()]);
    let told = String::from_utf8(shown.stderr).unwrap();
    assert!(told.contains("web               | exited with code 3"), "{told}");
    assert!(told.contains(&format!("{nameless} | exited with code 0")), "{told}");
}

#[test]
fn following_several_loses_and_doubles_nothing_when_the_engine_is_killed() {
    let p = product();
    let gates: Vec<_> = (0..3).map(|n| Gate::new(&p, &format!("gate{n}"))).collect();
    let ids: Vec<_> = gates.iter().map(|g| p.run(&format!("seq 1000; {}; seq 1001 2000; printf last", g.wait()))).collect();
    let mut flags = vec!["--json", "--offset", "0"];
    flags.extend(ids.iter().map(String::as_str));
    let mut follower = follows(&p, &flags);
    let mut out = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut event = || out.next().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    // Output of each was seen before the engine is killed, and each continues afterwards; the second engine is killed as well.
    let mut events: Vec<Value> = (0..3000).map(|_| event().unwrap()).collect();
    p.kill_engine();
    gates[0].open();
    events.extend((0..1000).map(|_| event().unwrap()));
    p.kill_engine();
    gates[1..].iter().for_each(Gate::open);
    events.extend(std::iter::from_fn(event));
    assert!(follower.wait().unwrap().success());
    for id in &ids {
        let want: Vec<_> = (1..=2000).map(|n| n.to_string()).chain(["last".into()]).collect();
        assert_eq!(texts(&events, id), want);
        let end = events.iter().find(|e| e["event"] == "end" && e["session_id"] == **id).unwrap();
        assert_eq!((&end["process"]["exit_code"], &end["next_byte"]), (&json!(0), &end["process"]["output_bytes"]), "{end}");
    }
}

#[test]
fn a_reader_that_leaves_can_continue_after_the_last_whole_line() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let ids = ["a", "b"].map(|name| p.run_with(&["--name", name], &format!("echo said; printf half; {0}; {0}", gate.wait())));
    ids.iter().for_each(|id| until_printed(&p, id, "half"));
    let mut follower = follows(&p, &["--json", &ids[0], &ids[1]]);
    let mut out = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut event = || serde_json::from_str::<Value>(&out.next().unwrap().unwrap()).unwrap();
    for _ in 0..2 {
        let line = event();
        assert_eq!((&line["event"], &line["text"], &line["next_byte"]), (&json!("line"), &json!("said"), &json!(5)), "{line}");
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&follower), rustix::process::Signal::INT).unwrap();
    for id in &ids {
        let left = event();
        assert_eq!((&left["event"], &left["session_id"], &left["next_byte"]), (&json!("left"), &json!(id), &json!(5)), "{left}");
    }
    assert!(follower.wait().unwrap().success());
    assert_eq!(p.json(["poll", &ids[0]])["status"], "running");
}

#[test]
fn one_that_is_gone_when_its_end_is_to_be_told_is_a_failure() {
    let p = product();
    let gates = ["gate", "other"].map(|name| Gate::new(&p, name));
    let ids = gates.each_ref().map(|gate| p.run(&format!("echo ready; {}", gate.wait())));
    ids.iter().for_each(|id| until_printed(&p, id, "ready"));
    let mut follower = follows(&p, &["--json", "--offset", "0", &ids[0], &ids[1]]);
    let mut out = BufReader::new(follower.stdout.take().unwrap()).lines();
    (0..2).for_each(|_| assert!(out.next().unwrap().unwrap().contains("ready")));
    let held = Held::new(follower.id());
    gates[0].open();
    p.wait(&ids[0]);
    p.call(["rm", &ids[0]]).good();
    drop(held);
    gates[1].open();
    let events: Vec<Value> = out.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(events.iter().any(|e| e["event"] == "error" && e["session_id"] == *ids[0]), "{events:?}");
    assert_eq!(follower.wait().unwrap().code(), Some(1));
}

#[test]
fn a_name_that_is_wrong_is_told_before_anything_is_shown() {
    let p = product();
    let id = p.run("echo said");
    p.wait(&id);
    let refused = p.call(["log", &id, "proc_00000000dead", "--follow"]);
    assert_eq!((refused.code, refused.text().as_str()), (Some(1), ""));
    assert!(refused.err.contains("No process with ID proc_00000000dead"), "{refused:?}");
    for flag in [&["--raw"][..], &["--from-byte", "3"]] {
        let refused = p.call(["log", &id, &id].iter().chain(flag));
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains("the bytes of one process"), "{refused:?}");
    }
}

#[test]
fn what_there_is_of_several_is_shown_with_names_and_in_json_as_pages() {
    let p = product();
    let ids = ["a", "bb"].map(|name| p.run_with(&["--name", name], "echo one; echo two"));
    ids.iter().for_each(|id| _ = p.wait(id));
    assert_eq!(p.call(["log", &ids[0], &ids[1]]).good().text(), "a  | one\na  | two\nbb | one\nbb | two\n");
    assert_eq!(p.call(["log", "--prefix", "--limit", "1", &ids[1]]).good().text(), "bb | two\n");
    let pages = p.json(["log", &ids[0], &ids[1]]);
    assert_eq!((&pages["processes"][0]["output"], &pages["processes"][1]["session_id"]), (&json!("one\ntwo"), &json!(ids[1])), "{pages}");
}
