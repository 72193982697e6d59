//! A user at a terminal sees what is waited for. A pipe gets nothing of that.

use crate::gate::{Gate, until_printed};
use crate::person::Person;
use crate::support::*;

#[test]
fn a_wait_shows_how_long_and_the_last_line_and_wipes_it() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p
        .run_with(&["--name", "build"], &format!("echo compiling; echo ghp_0123456789abcdefghijklmnopqrstuvwxyz; {}; exit 3", gate.wait()));
    until_printed(&p, &id, "ghp_");
    let mut person = Person::calls_at(&p, &["wait", &id], 24, 60);
    person.sees(", waiting for build: ");
    let line = person.seen.rsplit("\r\x1b[K").next().unwrap().to_owned();
    assert!(!line.contains("ghp_0123456789abcdefghijklmnopqrstuvwxyz"), "{line:?}");
    gate.open();
    person.sees("exited with code 3");
    assert_eq!(person.ended(), Some(3));
    // Wiped, and then the answer.
    let (before, after) = person.seen.split_at(person.seen.rfind("\r\x1b[K").unwrap());
    assert!(before.contains("waiting for build") && after.contains("compiling") && !after.contains("waiting"), "{:?}", person.seen);
}

#[test]
fn the_line_of_a_wait_does_not_show_a_value_that_was_given_under_a_secrets_name() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!("echo pw=$DB_PASSWORD; {}", gate.wait());
    let mut person = Person::calls_at(&p, &["run", "--wait", "--env", "DB_PASSWORD=corr3cthorse-Q9", "--", &line], 24, 100);
    person.sees(": pw=");
    gate.open();
    assert_eq!(person.ended(), Some(0));
    person.sees("exited with code 0");
    assert!(person.seen.contains(": pw=***************") && !person.seen.contains("corr3c"), "{:?}", person.seen);
}

#[test]
fn a_wait_that_is_interrupted_says_that_the_process_keeps_running() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let mut person = Person::calls(&p, &["wait", &id]);
    person.sees("waiting for");
    person.types("\x03");
    person.sees(&format!("wait again with: outlast wait {id}"));
    assert_eq!(person.ended(), Some(130));
    assert_eq!(p.json(["poll", &id])["status"], "running");
}

#[test]
fn a_stop_with_a_long_grace_and_a_barrier_show_what_is_left() {
    let p = product();
    let id = p.run("trap 'echo no' TERM; echo ready; while :; do sleep 0.05; done");
    until_printed(&p, &id, "ready");
    let mut person = Person::calls(&p, &["kill", &id, "--grace", "3"]);
    person.sees("was asked to end, and is killed in ");
    assert_eq!(person.ended(), Some(0));
    let mut person = Person::calls(&p, &["until", "--for", "2"]);
    person.sees(" to go");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn in_a_pipe_or_in_json_there_is_no_line() {
    let p = product();
    let id = p.run("sleep 1.3");
    let waited = p.call(["wait", &id]).good();
    assert_eq!((waited.text().as_str(), waited.err.as_str()), ("", ""));
    let id = p.run("sleep 1.3");
    let mut person = Person::calls(&p, &["wait", "--json", &id]);
    person.sees("\"status\":\"exited\"");
    assert_eq!(person.ended(), Some(0));
    assert!(!person.seen.contains('\x1b') && !person.seen.contains("waiting"), "{:?}", person.seen);
}

#[test]
fn colours_are_for_terminals_and_for_those_who_ask() {
    let p = product();
    p.run("exec sleep 1000");
    let plain = |p: &Product| !p.call(["list"]).good().text().contains('\x1b');
    assert!(plain(&p));
    for (set, want) in [
        (&[("TERM", "xterm"), ("CLICOLOR_FORCE", "1")][..], false),
        (&[("TERM", "xterm"), ("CLICOLOR_FORCE", "0")], true),
        (&[("TERM", "xterm"), ("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], true),
    ] {
        let mut call = p.command(["list"]);
        let out = call.envs(set.iter().copied()).output().unwrap();
        assert_eq!(!out.stdout.contains(&0x1b), want, "{set:?}");
        let json = p.command(["list", "--json"]).envs(set.iter().copied()).output().unwrap();
        assert!(!json.stdout.contains(&0x1b), "{set:?}");
    }
    for (set, want) in [(None, true), (Some(("NO_COLOR", "1")), false), (Some(("CLICOLOR", "0")), false)] {
        let mut call = p.command(["list"]);
        call.envs(set);
        let mut person = Person::runs(&p, call, 24, 80);
        person.sees("sleep 1000");
        assert_eq!(person.ended(), Some(0));
        assert_eq!(person.seen.contains("\x1b[32mrunning\x1b[0m"), want, "{set:?}: {:?}", person.seen);
    }
}
