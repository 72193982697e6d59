//! `attach`: a person at a terminal looks at a process and types into it.

mod tmux;

use crate::gate::{Gate, until_printed};
use crate::person::Person;
use crate::support::*;

#[test]
fn a_user_sees_earlier_output_types_and_leaves_while_the_process_keeps_running() {
    let p = product();
    let id = p.run_with(&["--pty"], "stty -echo; echo before; while read -r line; do echo \"got $line\"; done; exit 3");
    until_printed(&p, &id, "before");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("before");
    assert!(person.is_raw());
    person.types("first\r");
    person.sees("got first");
    // An agent may type at the same time.
    p.call(["submit", &id, "from elsewhere"]).good();
    person.sees("got from elsewhere");
    person.types("\x1c");
    person.sees(&format!("come back with: outlast attach {id}"));
    assert_eq!(person.ended(), Some(0));
    assert!(!person.is_raw(), "the terminal is as it was");
    assert_eq!(p.json(["poll", &id])["status"], "running");
    p.call(["close", &id]).good();
    assert_eq!(p.wait(&id)["exit_code"], 3);
}

#[test]
fn the_process_gets_the_size_of_the_persons_terminal_also_when_it_changes() {
    let p = product();
    let id = p.run_with(&["--pty"], "while stty size; do read -r -t 0.05 _; done");
    until_printed(&p, &id, "30 120");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("40 100");
    person.resizes(50, 90);
    person.sees("50 90");
    person.types("\x1c");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn a_question_to_the_terminal_is_answered_by_the_one_that_is_there_and_only_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!(
        "stty raw -echo; echo ready; {0}; printf '\\033[6n'; IFS= read -r -d R got; printf '<%s>' \"${{got#??}}\"; {0}; IFS= read -r -t 0.01 -N 1 more; printf '[%s]' \"$more\"",
        gate.wait()
    );
    let id = p.run_with(&["--pty"], &line);
    let mut person = Person::calls(&p, &["attach", &id]);
    // What it shows comes once the process knows of it.
    person.sees("ready");
    gate.open();
    person.sees("\x1b[6n");
    person.types("\x1b[5;7R");
    person.sees("<5;7>");
    gate.open();
    person.sees("[]");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn who_only_looks_sends_nothing_and_changes_nothing() {
    let p = product();
    let id = p.run_with(&["--pty"], "stty -echo; echo shown; read -r line; stty size; echo \"got $line\"; read -r _");
    until_printed(&p, &id, "shown");
    let mut person = Person::calls(&p, &["attach", "--read-only", &id]);
    person.sees("shown");
    eventually("raw mode", || person.is_raw().then_some(()));
    person.types("ignored\r");
    p.call(["submit", &id, "real"]).good();
    person.sees("got real");
    assert!(person.seen.contains("30 120"), "{:?}", person.seen);
    person.types("\x03");
    assert_eq!(person.ended(), Some(0));
    assert_eq!(p.json(["poll", &id])["status"], "running");
}

#[test]
fn a_process_with_a_pipe_gets_lines_and_the_end_of_input() {
    let p = product();
    let id = p.run_with(&["--stdin"], "echo ready; cat; echo over");
    until_printed(&p, &id, "ready");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("ready");
    person.types("a line\n");
    person.sees("a line\r\na line\r\n");
    person.types("\x04");
    person.sees("over");
    person.sees("exited with code 0");
    assert_eq!(person.ended(), Some(0));
    assert_eq!(p.wait(&id)["output"], "ready\na line\nover\n");
}

#[test]
fn the_key_that_leaves_does_so_also_where_lines_are_typed() {
    let p = product();
    let id = p.run_with(&["--stdin"], "echo ready; cat");
    until_printed(&p, &id, "ready");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("ready");
    person.types("\x1c");
    person.sees(&format!("come back with: outlast attach {id}"));
    assert_eq!(person.ended(), Some(0));
    assert_eq!(p.json(["poll", &id])["status"], "running");
}

#[test]
fn what_is_shown_into_a_file_is_text() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--pty"], &format!("printf '\\033[?1049h\\033[31mfull screen\\n'; {}", gate.wait()));
    until_printed(&p, &id, "full screen");
    let call = p.command(["attach", &id]);
    let mut into_a_file = std::process::Command::new("sh");
    into_a_file.args(["-c", r#"exec "$0" "$@" >shown"#]).arg(call.get_program()).args(call.get_args());
    into_a_file.envs(call.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut person = Person::runs(&p, into_a_file, 40, 100);
    person.sees("Ctrl-C leaves");
    gate.open();
    assert_eq!(person.ended(), Some(0));
    assert_eq!(std::fs::read_to_string(p.work().join("shown")).unwrap(), "full screen\r\n");
}

#[test]
fn a_person_is_told_of_the_end_and_the_terminal_is_as_it_was() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--pty"], &format!("printf '\\033[?1049hfull screen'; {}; exit 5", gate.wait()));
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("full screen");
    gate.open();
    person.sees("exited with code 5");
    person.sees("\x1b[?1049l");
    assert_eq!(person.ended(), Some(0));
    assert!(!person.is_raw());
}

#[test]
fn an_attached_view_survives_the_death_of_the_engine() {
    let p = product();
    let id = p.run_with(&["--pty"], "stty -echo; echo before; while read -r line; do echo \"got $line\"; done");
    until_printed(&p, &id, "before");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("before");
    p.kill_engine();
    person.types("after\r");
    person.sees("got after");
    person.types("\x1c");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn what_is_over_cannot_be_attached_to() {
    let p = product();
    let id = p.run("exit 3");
    p.wait(&id);
    let refused = p.call(["attach", &id]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("exited with code 3") && refused.err.contains(&format!("outlast log {id}")), "{refused:?}");
}

#[test]
fn a_closed_input_is_named_at_once() {
    let p = product();
    let id = p.run("echo up; exec sleep 1000");
    let mut person = Person::calls(&p, &["attach", &id]);
    person.sees("; its input is closed, so only its output is shown (`run --stdin` or `--pty` opens one)");
    person.types("\u{3}");
    assert_eq!(person.ended(), Some(0));
}
