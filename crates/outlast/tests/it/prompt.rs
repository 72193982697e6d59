//! What a person sees by the way: the numbers in a prompt, and the line about waiting notices.

use crate::person::Person;
use crate::support::*;
use outlast_testkit::machine::skipped;
use std::process::Command;

fn pending(p: &Product, count: usize) {
    eventually("notices", || {
        let found = p.json(["events", "history", "--state", "pending"]);
        (found["notices"].as_array().unwrap().len() == count).then_some(())
    });
}

#[test]
fn a_prompt_counts_without_an_engine_and_starts_none() {
    let p = product();
    let prompt = || p.call(["prompt"]).good().text();
    assert_eq!(prompt(), "");
    assert!(p.processes().is_empty(), "{:?}", p.processes());
    let id = p.run("exec sleep 1000");
    assert_eq!(prompt(), "1 running");
    assert_eq!(Person::calls(&p, &["prompt"]).until_the_end().0, "1 running\r\n", "a line of its own on a terminal");
    p.run_with(&["--notify"], "exit 1");
    p.run_with(&["--notify", "--session", "s"], "exit 1");
    pending(&p, 2);
    assert_eq!(prompt(), "1 running, 1 notice", "the notices of agents are theirs");
    assert_eq!(p.json(["active"])["waiting"], 1);
    p.call(["kill", &id]).good();
    p.call(["engine", "stop"]).good();
    // No engine runs, and the last one left the number.
    assert_eq!(prompt(), "1 notice");
    assert_eq!(p.json(["prompt"]), json!({"running": 0, "waiting": 1}));
    assert!(p.processes().is_empty(), "{:?}", p.processes());
    assert_eq!(p.call(["events"]).good().text().lines().count(), 1);
    assert_eq!(prompt(), "");
    p.call(["engine", "stop"]).good();
    assert_eq!(prompt(), "");
}

#[test]
fn an_end_that_was_seen_is_not_counted_as_waiting() {
    let p = product();
    let id = p.run_with(&["--notify"], "exit 1");
    pending(&p, 1);
    assert_eq!(p.json(["prompt"])["waiting"], 1);
    p.call(["poll", &id]).good();
    // `events` leaves out what was polled. The engine writes that down a moment later, and counts it at once.
    assert_eq!(p.json(["active"])["waiting"], 0);
    assert_eq!(p.call(["events"]).good().text(), "");
    for verb in ["tail", "log", "wait"] {
        let id = p.run_with(&["--notify"], "exit 1");
        eventually("the notice", || (p.json(["active"])["waiting"] == 1).then_some(()));
        p.call([verb, &id]);
        assert_eq!(p.json(["active"])["waiting"], 0, "{verb}");
    }
}

#[test]
fn a_hung_engine_does_not_hold_up_a_prompt() {
    let p = product();
    let engine = rustix::process::Pid::from_raw(p.engine().cast_signed()).unwrap();
    rustix::process::kill_process(engine, rustix::process::Signal::STOP).unwrap();
    let said = p.call(["prompt"]);
    rustix::process::kill_process(engine, rustix::process::Signal::CONT).unwrap();
    assert_eq!((said.code, said.text().as_str(), said.err.as_str()), (Some(0), "", ""));
}

/// A shell of a user with `outlast` in its path.
fn shell(p: &Product, program: &str, args: &[&str]) -> Command {
    let bin = p.work().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_outlast"), bin.join("outlast")).unwrap();
    let call = p.command([""; 0]);
    let mut shell = Command::new(program);
    shell.args(args).env_clear().envs(call.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(p.work());
    shell.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display())).env("HISTFILE", "/dev/null");
    shell
}

#[test]
fn bash_shows_the_numbers_and_keeps_the_exit_code() {
    let p = product();
    p.run("exec sleep 1000");
    let mut person = Person::runs(&p, shell(&p, "bash", &["--norc", "--noprofile", "-i"]), 24, 120);
    person.types("PS1='code $? ready> '; eval \"$(outlast prompt bash)\"; eval \"$(outlast prompt bash)\"\r");
    person.sees("[1 running] code 0 ready> ");
    person.types("(exit 7)\r");
    person.sees("[1 running] code 7 ready> ");
    assert!(!person.seen.contains("[1 running] [1 running]"), "loaded twice, shown once: {}", person.seen);
    // Shells that inherit the prompt and not the function.
    for inner in ["bash --norc --noprofile -i", "sh -i"] {
        person.types(&format!("export PS1; {inner}\r"));
        person.types("echo inner-$((6*7))\r");
        person.sees("inner-42\r\n");
        person.types("exit 7\r");
        person.sees("code 7 ready> ");
        assert!(!person.seen.contains("not found"), "{inner}: {}", person.seen);
        person.types("(exit 5); echo outer-$((6*7))\r");
        person.sees("outer-42\r\n");
        person.seen.clear();
    }
    person.types("(exit 7)\r");
    person.sees("code 7 ready> ");
    person.types("exit 0\r");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn zsh_and_fish_show_the_numbers() {
    let p = product();
    p.run("exec sleep 1000");
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if is_there("zsh") {
        let ask = "PROMPT='ready> '; eval \"$(outlast prompt zsh)\"; print -P -- $PROMPT";
        let said: Answer = shell(&p, "zsh", &["-f", "-c", ask]).output().unwrap().into();
        assert_eq!(said.good().text(), "[1 running] ready> \n");
    } else {
        skipped("zsh_and_fish_show_the_numbers", "zsh");
    }
    std::fs::remove_dir_all(p.work().join("bin")).unwrap_or_default();
    if is_there("fish") {
        let ask = "function fish_prompt; echo -n 'ready> '; end; outlast prompt fish | source; fish_prompt";
        let said: Answer = shell(&p, "fish", &["--no-config", "-c", ask]).output().unwrap().into();
        assert_eq!(said.good().text(), "[1 running] ready> ");
    } else {
        skipped("zsh_and_fish_show_the_numbers", "fish");
    }
}

#[test]
fn a_person_is_told_in_one_line_that_notices_wait() {
    let p = product();
    p.run_with(&["--notify"], "exit 1");
    pending(&p, 1);
    let mut person = Person::calls(&p, &["list"]);
    person.sees("1 notice is waiting; `outlast events` shows it\r\n");
    assert_eq!(person.ended(), Some(0));
    p.run_with(&["--notify"], "exit 1");
    pending(&p, 2);
    let mut person = Person::calls(&p, &["run", "--", "true"]);
    person.sees("2 notices are waiting; `outlast events` shows them\r\n");
    assert_eq!(person.ended(), Some(0));
    assert_eq!(person.seen.matches("waiting").count(), 1, "{}", person.seen);
    for silent in [&["list", "--json"][..], &["run", "-q", "--", "true"], &["config", "path"]] {
        let mut person = Person::calls(&p, silent);
        assert_eq!(person.ended(), Some(0));
        person.types("x");
        person.sees("x");
        assert!(!person.seen.contains("waiting"), "{silent:?}: {}", person.seen);
    }
    let piped = p.call(["list"]).good();
    assert_eq!(piped.err, "", "only for a terminal");
    let mut of_agent = p.command(["list"]);
    of_agent.env("OUTLAST_SESSION", "s");
    let mut agent = Person::runs(&p, of_agent, 24, 80);
    assert_eq!(agent.ended(), Some(0));
    agent.types("x");
    agent.sees("x");
    assert!(!agent.seen.contains("waiting"), "{}", agent.seen);
}
