//! Limits, priority and processors: each command has those of its caller, not those of the engine's starter.

use crate::places::by_way_of;
use crate::support::*;
use outlast_testkit::machine;
use std::process::Command;

/// Prints the limits, priority and policy, processors and I/O priority of a process.
const SHOW: &str = "cat /proc/self/limits; cut -d' ' -f18,19,40,41 /proc/self/stat; grep Cpus_allowed_list: /proc/self/status; ionice";
/// A caller with lower limits than others.
const LIMITED: [&str; 4] = [
    "sh",
    "-c",
    "ulimit -S -t 700; ulimit -S -f 400000; ulimit -S -n 200; ulimit -S -c 0; exec nice -n 5 ionice -c 3 chrt -b 0 taskset -c 0 \"$@\"",
    "sh",
];
/// A caller with the usual limits.
const PLAIN: [&str; 1] = ["env"];

/// What a command of this caller prints when the caller runs it directly, and when the engine runs it.
fn both(p: &Product, before: &[&str]) -> [String; 2] {
    let line = ["-c", SHOW];
    let direct = Command::new(before[0]).args(&before[1..]).arg("sh").args(line).output().unwrap();
    assert!(direct.status.success(), "{direct:?}");
    let through = Answer::from(by_way_of(p, before, &["run", "--wait", "--", "sh", "-c", SHOW]).output().unwrap()).good();
    [String::from_utf8(direct.stdout).unwrap(), through.text()]
}

fn missing() -> Option<String> {
    let tried = Command::new(LIMITED[0]).args(&LIMITED[1..]).arg("true").output();
    match tried {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
        Err(e) => Some(e.to_string()),
    }
}

#[test]
fn a_command_has_the_limits_of_its_caller_and_not_those_of_the_first() {
    const NAME: &str = "a_command_has_the_limits_of_its_caller_and_not_those_of_the_first";
    if let Some(why) = missing() {
        return machine::skipped(NAME, why);
    }
    let p = product();
    if !machine::may_raise_priority() {
        // An engine that the limited caller starts keeps its low priority, and `engine status` says so.
        machine::skipped(NAME, "its first part: CAP_SYS_NICE, with which an engine gets back from the low priority of its first caller");
        both(&p, &PLAIN);
    }
    for before in [&LIMITED[..], &PLAIN, &LIMITED] {
        let [direct, through] = both(&p, before);
        assert_eq!(through, direct, "{before:?}");
    }
    // On a terminal, and started again by another caller: the limits of the current caller count.
    let asked = by_way_of(&p, &LIMITED, &["run", "--json", "--", SHOW]).output().unwrap();
    let first = Answer::from(asked).json()["session_id"].as_str().unwrap().to_owned();
    p.wait(&first);
    let again = p.json(["rerun", &first])["session_id"].as_str().unwrap().to_owned();
    p.wait(&again);
    let [direct, _] = both(&p, &PLAIN);
    assert_eq!(p.call(["log", "--raw", &again]).text(), direct);
    assert_ne!(p.call(["log", "--raw", &first]).text(), direct);
}

#[test]
fn an_engine_does_not_keep_the_limits_of_its_first_caller() {
    let p = product();
    let soft = ["sh", "-c", "ulimit -S -t 700; ulimit -S -f 400000; exec \"$@\"", "sh"];
    Answer::from(by_way_of(&p, &soft, &["list"]).output().unwrap()).good();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", p.engine())).unwrap();
    for name in ["Max cpu time", "Max file size"] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        assert_eq!(words[0], words[1], "{name}{line}: the soft limit is the hard one");
        assert!(!["700", "204800000"].contains(&words[0]), "{name}{line}");
    }
    // Only a privileged engine can remove a hard limit. Others report which one will end them.
    let hard = ["sh", "-c", "ulimit -t 70000; exec \"$@\"", "sh"];
    p.call(["engine", "stop"]).good();
    Answer::from(by_way_of(&p, &hard, &["engine", "start"]).output().unwrap()).good();
    let status = p.json(["engine", "status"]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", p.engine())).unwrap();
    let is_limited = limits.lines().any(|line| line.starts_with("Max cpu time") && line.contains("70000"));
    let is_told = status["degraded"].to_string().contains("70000 seconds of CPU time");
    assert_eq!(is_limited, is_told, "{limits}\n{status}");
}

#[test]
fn a_starter_that_may_not_write_a_file_as_long_as_the_keeper_can_run_commands() {
    const NAME: &str = "a_starter_that_may_not_write_a_file_as_long_as_the_keeper_can_run_commands";
    // Half of it, in kilobytes, and hard: an ordinary user cannot leave that behind, and root only without this capability.
    let keeper = product().program().with_file_name("outlast-keeper");
    let half = std::fs::metadata(&keeper).map_or(0, |meta| meta.len() / 2048).to_string();
    let ordinary = ["--bounding-set=-sys_resource", "--inh-caps=-sys_resource", "bash", "-c", "ulimit -f $0; exec \"$@\"", &half];
    let before: Vec<&str> = std::iter::once("setpriv").chain(ordinary).collect();
    match Command::new(before[0]).args(&before[1..]).arg("true").output() {
        Ok(tried) if tried.status.success() => {}
        Ok(tried) => return machine::skipped(NAME, String::from_utf8_lossy(&tried.stderr)),
        Err(e) => return machine::skipped(NAME, format!("setpriv: {e}")),
    }
    let p = product();
    let said = Answer::from(by_way_of(&p, &before, &["run", "--wait", "--", "echo ran"]).output().unwrap()).good();
    assert_eq!(said.text(), "ran\n");
    let status = p.json(["engine", "status"]);
    assert!(status["degraded"].to_string().contains("a hard limit of its starter"), "{status}");
}

#[test]
fn a_retry_with_other_limits_is_the_same_request() {
    let p = product();
    let id = "proc_0123456789ab";
    let args = ["run", "--json", "--id", id, "--", "exec sleep 1000"];
    let first = p.call(args).json();
    let fewer = ["sh", "-c", "ulimit -S -n 99; exec \"$@\"", "sh"];
    let again = Answer::from(by_way_of(&p, &fewer, &args).output().unwrap()).json();
    assert_eq!((again["session_id"].as_str(), &again["pid"]), (Some(id), &first["pid"]), "{again}");
}
