//! A person at a terminal is told of an end, by a live `outlast` on that terminal or by the desktop.

use crate::gate::Gate;
use crate::person::Person;
use crate::support::*;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// A shell of a user, with the program in its path before everything else in `bin`.
fn bash(p: &Product) -> Command {
    let bin = p.work().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_outlast"), bin.join("outlast")).unwrap();
    let call = p.command([""; 0]);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]);
    shell.env_clear().envs(call.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(p.work());
    shell.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    shell.env("PS1", "ready> ").env("HISTFILE", "/dev/null");
    shell
}

/// Whether a child that tells of an end is there.
fn has_teller(p: &Product) -> bool {
    p.processes().iter().any(|(_, line)| line.contains("__tell-end"))
}

#[test]
fn a_run_that_waits_rings_at_the_end() {
    let p = product();
    for how in ["--wait", "--follow"] {
        let mut person = Person::calls(&p, &["run", "--bell", how, "--name", "suite", "--", "exit 3"]);
        person.sees("\u{1b}]9;outlast: suite failed (exit 3) after ");
        person.sees("\u{1b}\\\u{7}");
        assert_eq!(person.ended(), Some(3), "{how}");
    }
    let mut person =
        Person::calls(&p, &["run", "--bell", "--until", "listening", "--name", "web", "--", "echo listening; exec sleep 1000"]);
    person.sees("\u{1b}]9;outlast: web: the wait for \"listening\" is over\u{1b}\\\u{7}");
    assert_eq!(person.ended(), Some(0));
    assert!(!has_teller(&p));
}

#[test]
fn the_terminal_is_told_although_the_shell_is_free_and_the_engine_was_killed() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    std::fs::write(p.work().join("suite"), format!("{}; exit 1", gate.wait())).unwrap();
    let mut person = Person::runs(&p, bash(&p), 24, 120);
    person.sees("ready> ");
    person.types("outlast run -q --bell --notify --name suite sh ./suite\r");
    person.sees("proc_");
    person.types("echo fr''ee\r");
    person.sees("free\r\n");
    eventually("a child that tells", || has_teller(&p).then_some(()));
    // Ctrl-C at the prompt is not for the child.
    person.types("\u{3}");
    p.kill_engine();
    assert_eq!(p.json(["list"])["processes"].as_array().unwrap().len(), 1);
    gate.open();
    person.sees("\u{1b}]9;outlast: suite failed (exit 1) after ");
    person.sees("\u{7}");
    // That a terminal was told settles no notice.
    let told = p.json(["events", "drain", "--wait", "60"]);
    assert_eq!(told["events"][0]["event"]["name"], "suite", "{told}");
    assert!(told["events"][0]["event"].get("repeat").is_none(), "{told}");
    person.types("exit 0\r");
    assert_eq!(person.ended(), Some(0));
    eventually("the child to end", || (!has_teller(&p)).then_some(()));
}

#[test]
fn the_child_of_a_bell_ends_with_its_terminal() {
    let p = product();
    let mut person = Person::runs(&p, bash(&p), 24, 120);
    person.sees("ready> ");
    person.types("outlast run -q --bell sleep 1000\r");
    person.sees("proc_");
    eventually("a child that tells", || has_teller(&p).then_some(()));
    person.types("exit 0\r");
    person.ended();
    drop(person);
    eventually("the child to end", || (!has_teller(&p)).then_some(()));
    assert_eq!(p.json(["list"])["processes"].as_array().unwrap().len(), 1, "the process keeps running");
}

#[test]
fn a_setting_tells_of_what_ran_long_enough() {
    let p = product();
    p.configure("notify = \"terminal\"\nnotify_after = \"1h\"");
    let mut short = Person::calls(&p, &["run", "--wait", "--", "echo done"]);
    short.sees("exited with code 0");
    assert_eq!(short.ended(), Some(0));
    assert!(!short.seen.contains('\u{7}'), "{:?}", short.seen);
    p.configure("notify = \"terminal\"\nnotify_after = 0");
    let mut long = Person::calls(&p, &["run", "--wait", "--name", "suite", "--", "echo done"]);
    long.sees("outlast: suite finished (exit 0) after ");
    long.sees("\u{7}");
    assert_eq!(long.ended(), Some(0));
    // The setting is a person's, and not that of an agent on a terminal.
    let mut of_agent = p.command(["run", "--wait", "--", "echo done"]);
    of_agent.env("OUTLAST_SESSION", "s");
    let mut agent = Person::runs(&p, of_agent, 24, 80);
    agent.sees("exited with code 0");
    assert_eq!(agent.ended(), Some(0));
    assert!(!agent.seen.contains('\u{7}'), "{:?}", agent.seen);
    let shown = p.json(["config", "show"]);
    let value = |key: &str| shown["values"][key]["value"].clone();
    assert_eq!((value("notify"), value("notify_after")), (json!("terminal"), json!("0s")), "{shown}");
}

#[test]
fn the_desktop_is_told_by_notify_send_and_without_it_the_terminal() {
    let p = product();
    p.configure("notify = \"desktop\"\nnotify_after = 0");
    let shell = bash(&p);
    let (sent, program) = (p.work().join("sent"), p.work().join("bin/notify-send"));
    std::fs::write(&program, format!("#!/bin/sh\nprintf '%s|' \"$@\" > {0}.new; mv {0}.new {0}\n", sent.display())).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut person = Person::runs(&p, shell, 24, 120);
    person.sees("ready> ");
    person.types("outlast run -q --name suite true\r");
    let said = eventually("notify-send", || std::fs::read_to_string(&sent).ok());
    assert!(said.starts_with("--app-name=outlast|--|outlast|suite finished (exit 0) after "), "{said}");
    std::fs::remove_file(&program).unwrap();
    person.types("outlast run -q --name second true\r");
    person.sees("outlast: second finished (exit 0) after ");
    person.types("exit 0\r");
    assert_eq!(person.ended(), Some(0));
    eventually("the child to end", || (!has_teller(&p)).then_some(()));
}

#[test]
fn without_a_terminal_a_bell_is_a_note_and_no_child() {
    let p = product();
    p.configure("notify = \"terminal\"\nnotify_after = 0");
    let run = p.call(["run", "--bell", "--", "exec sleep 1000"]).good();
    assert!(run.err.contains("note: --bell does nothing here"), "{run:?}");
    assert!(!has_teller(&p));
}
