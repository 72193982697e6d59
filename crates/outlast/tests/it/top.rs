//! `top`: a person watches processes on a full screen, in a real terminal.

use crate::gate::{Gate, Held, until_printed};
use crate::support::*;
use crate::tmux::Tmux;
use crate::told::{about, drained, ended, states};

/// The size that every terminal has at least.
const SMALL: (u16, u16) = (80, 24);

#[test]
fn a_process_is_found_opened_and_followed_on_a_small_screen() {
    let p = product();
    let (gate, other) = (Gate::new(&p, "gate"), Gate::new(&p, "other"));
    let line = format!("echo first; {}; echo second; {0}", gate.wait());
    let id = p.run_with(&["--name", "server", "--session", "chat"], &line);
    p.run_with(&["--name", "other"], &other.wait());
    until_printed(&p, &id, "first");
    let Some(tmux) = Tmux::calls("a_process_is_found_opened_and_followed_on_a_small_screen", &p, SMALL, &["top"]) else { return };
    let list = tmux.shows("both", |s| s.contains("server") && s.contains("other"));
    assert!(list.contains("2 running") && list.contains("first") && list.contains("chat"), "{list}");
    assert_eq!(list.lines().count(), 24);
    tmux.types("/chat");
    tmux.shows("one", |s| s.contains("server") && !s.contains("other"));
    tmux.presses(&["Enter", "Enter"]);
    let open = tmux.shows("its log", |s| s.contains(&id) && s.contains("following") && s.contains("\nfirst\n"));
    assert!(open.contains("session chat"), "{open}");
    gate.open();
    tmux.sees("\nsecond\n");
    // One that ends while it is open shows how, also where finished ones are not listed.
    gate.open();
    tmux.shows("its end", |s| s.contains("exited 0") && s.contains("\nsecond\n"));
    tmux.resizes(120, 40);
    tmux.shows("the larger screen", |s| s.lines().count() == 40 && s.contains("q back"));
    tmux.types("q");
    tmux.sees("no process matches");
    tmux.presses(&["Escape"]);
    tmux.shows("the other one alone", |s| s.contains("other") && s.contains("1 running") && !s.contains("server"));
    tmux.types("q");
    assert_eq!(tmux.left(), 0);
}

#[test]
fn a_log_is_paged_through_and_searched() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("seq 1 200000; {}; echo more; {0}", gate.wait()));
    until_printed(&p, &id, "\n200000\n");
    let Some(tmux) = Tmux::calls("a_log_is_paged_through_and_searched", &p, SMALL, &["top"]) else { return };
    tmux.sees("200000");
    tmux.presses(&["Enter"]);
    tmux.shows("the end", |s| s.contains("following") && s.contains("\n200000\n"));
    tmux.presses(&["PPage"]);
    tmux.shows("the page before", |s| s.contains("\n199964\n") && s.contains("\n199981\n") && s.contains("99% of"));
    gate.open();
    until_printed(&p, &id, "more");
    tmux.presses(&["Home"]);
    tmux.shows("the beginning", |s| s.contains("\n1\n2\n3\n") && s.contains("0% of"));
    tmux.presses(&["NPage"]);
    tmux.sees("\n19\n20\n");
    tmux.types("/77777");
    tmux.presses(&["Enter"]);
    tmux.shows("it", |s| s.contains("\n77777\n77778\n") && s.contains("\"77777\"  n down  N up"));
    tmux.types("n");
    tmux.sees("\n177777\n177778\n");
    tmux.types("n");
    tmux.sees("no further \"77777\" that way");
    tmux.types("N");
    tmux.sees("\n77776\n77777\n");
    // What lies around it was read with it, and more as it is needed.
    for _ in 0..3 {
        tmux.presses(&["PPage", "PPage", "PPage", "PPage"]);
    }
    tmux.shows("216 rows above", |s| s.contains("\n77555\n77556\n"));
    tmux.types("/nowhere to be found");
    tmux.presses(&["Enter"]);
    tmux.sees("\"nowhere to be found\" is nowhere in the log");
    tmux.presses(&["End"]);
    tmux.shows("the end", |s| s.contains("following") && s.contains("\nmore\n"));
    tmux.presses(&["C-c"]);
    assert_eq!(tmux.left(), 0);
}

#[test]
fn what_a_log_no_longer_has_is_told_and_passed_over() {
    let p = product();
    p.configure("[log]\ntail_bytes = \"4MiB\"\n");
    // The head is a mebibyte and a segment has four: of some eighteen, the middle goes.
    let id = p.run("seq -f '%017.0f' 1 1000000; read -r _ </dev/zero");
    eventually("all of it", || (p.json(["poll", &id])["output_bytes"] == json!(18_000_000)).then_some(()));
    let Some(tmux) = Tmux::calls("what_a_log_no_longer_has_is_told_and_passed_over", &p, SMALL, &["top", "--all"]) else { return };
    tmux.sees("00000000");
    tmux.presses(&["Enter"]);
    tmux.sees("\n00000000001000000\n");
    tmux.types("/00000000000000077");
    tmux.presses(&["Enter"]);
    tmux.sees("\n00000000000000077\n00000000000000078\n");
    tmux.types("/are missing");
    tmux.presses(&["Enter"]);
    let gap = tmux.sees("are missing: retention]");
    assert!(gap.contains("[bytes 1048576 to "), "{gap}");
    // From below, the gap is passed in one step.
    tmux.types("N");
    tmux.sees("no further \"are missing\" that way");
    tmux.presses(&["C-c"]);
    assert_eq!(tmux.left(), 0);
}

#[test]
fn a_terminal_is_typed_into_and_left_again() {
    let p = product();
    let line = "stty -echo; echo ready; while read -r line; do echo \"got $line\"; test \"$line\" = over && exit 3; done";
    let id = p.run_with(&["--pty"], line);
    until_printed(&p, &id, "ready");
    let Some(tmux) = Tmux::calls("a_terminal_is_typed_into_and_left_again", &p, SMALL, &["top"]) else { return };
    tmux.sees("ready");
    tmux.presses(&["Enter"]);
    tmux.sees("following");
    tmux.types("i");
    tmux.shows("its terminal", |s| s.contains("Ctrl-\\ leaves") && s.contains("ready"));
    tmux.types("hello");
    tmux.presses(&["Enter"]);
    tmux.sees("got hello");
    tmux.presses(&["C-\\"]);
    tmux.shows("its log again", |s| s.contains("following") && s.contains("got hello"));
    assert_eq!(p.json(["poll", &id])["status"], "running");
    // When the process ends, the terminal is given back, and the next key is for `top`.
    tmux.types("i");
    tmux.sees("Ctrl-\\ leaves");
    tmux.types("over");
    tmux.presses(&["Enter"]);
    tmux.shows("its end", |s| s.contains("exited 3") && s.contains("got over"));
    tmux.types("i");
    tmux.sees("it has finished and takes no input");
    tmux.types("q");
    tmux.sees("nothing runs");
    tmux.types("q");
    assert_eq!(tmux.left(), 0);
}

#[test]
fn a_pipe_is_given_lines_and_its_end() {
    let p = product();
    let id = p.run_with(&["--stdin"], "echo ready; cat; echo over");
    until_printed(&p, &id, "ready");
    let Some(tmux) = Tmux::calls("a_pipe_is_given_lines_and_its_end", &p, SMALL, &["top"]) else { return };
    tmux.sees("ready");
    tmux.presses(&["Enter"]);
    tmux.sees("following");
    tmux.types("ia line, kq/");
    tmux.sees("> a line, kq/");
    tmux.presses(&["Enter"]);
    tmux.shows("what it prints", |s| s.contains("\na line, kq/\n"));
    tmux.presses(&["C-d"]);
    tmux.shows("its end", |s| s.contains("\nover\n") && s.contains("exited 0"));
    assert_eq!(p.wait(&id)["output"], "ready\na line, kq/\nover\n");
    tmux.types("qq");
    assert_eq!(tmux.left(), 0);
}

#[test]
fn a_stop_is_confirmed_or_refused() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--name", "precious"], &format!("sleep 1000 & echo up; {}", gate.wait()));
    until_printed(&p, &id, "up");
    let Some(tmux) = Tmux::calls("a_stop_is_confirmed_or_refused", &p, SMALL, &["top"]) else { return };
    tmux.sees("precious");
    tmux.presses(&["C-k"]);
    let asked = tmux.shows("the question", |s| s.contains(&format!("Stop {id}?")) && s.contains("precious: "));
    assert!(asked.contains("2 processes"), "{asked}");
    tmux.presses(&["Escape"]);
    tmux.sees("nothing was stopped");
    assert_eq!(p.json(["poll", &id])["phase"], "running");
    tmux.presses(&["Enter"]);
    tmux.sees("following");
    tmux.presses(&["C-k"]);
    tmux.sees(&format!("Stop {id}?"));
    tmux.types("y");
    tmux.shows("what became of it", |s| s.contains(&format!("{id} was stopped by SIGTERM, 2 processes in all")));
    tmux.shows("its end", |s| s.lines().next().is_some_and(|l| l.ends_with("SIGTERM")));
    assert_eq!(p.json(["poll", &id])["completion_reason"], "killed");
    tmux.types("qq");
    assert_eq!(tmux.left(), 0);
}

#[test]
fn several_are_marked_signalled_stopped_and_removed() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let loud = "trap 'echo got usr1' USR1; echo up; while :; do sleep 0.05; done";
    let first = p.run_with(&["--name", "first"], loud);
    let second = p.run_with(&["--name", "second"], loud);
    let other = p.run_with(&["--name", "other"], &gate.wait());
    for id in [&first, &second] {
        until_printed(&p, id, "up");
    }
    let Some(tmux) = Tmux::calls("several_are_marked_signalled_stopped_and_removed", &p, SMALL, &["top", "--all"]) else { return };
    tmux.shows("all three", |s| ["first", "second", "other"].iter().all(|name| s.contains(name)));
    tmux.types("/rap");
    tmux.presses(&["Enter"]);
    tmux.shows("the two", |s| s.contains("1/2") && !s.contains("other "));
    tmux.types("  S");
    tmux.sees("Which signal for these 2 processes?");
    tmux.types("jjjj");
    tmux.presses(&["Enter"]);
    tmux.sees("2 processes were signalled");
    for id in [&first, &second] {
        until_printed(&p, id, "got usr1");
    }
    tmux.presses(&["C-k"]);
    tmux.sees("Stop these 2 processes?");
    tmux.types("y");
    tmux.shows("both stopped", |s| s.contains("2 processes were stopped") && s.contains("0 of 2 running  2 finished"));
    tmux.presses(&["C-d"]);
    tmux.sees("Remove these 2 processes?");
    tmux.types("y");
    tmux.shows("that they are gone", |s| s.contains("2 processes were removed") && s.contains("no process matches"));
    for id in [&first, &second] {
        assert_eq!(p.call(["poll", id, "--json"]).json()["code"], "not_found");
    }
    assert_eq!(p.json(["poll", &other])["status"], "running");
    tmux.types("q");
    assert_eq!(tmux.left(), 0);
}

#[test]
fn a_process_is_run_again_and_its_id_copied() {
    let p = product();
    let id = p.run_with(&["--name", "again", "--session", "theirs"], "echo once more; exit 3");
    p.wait(&id);
    let Some(tmux) = Tmux::calls("a_process_is_run_again_and_its_id_copied", &p, SMALL, &["top", "--all"]) else { return };
    tmux.sees("exited 3");
    tmux.types("r");
    tmux.sees(&format!("Run {id} again?"));
    tmux.types("n");
    tmux.sees("nothing was started");
    tmux.types("r");
    tmux.sees(&format!("Run {id} again?"));
    tmux.types("y");
    tmux.shows("the new one", |s| s.contains(&format!("{id} runs again as proc_")) && s.contains("2 failed"));
    let all = p.json(["list", "--all"]);
    let all = all["processes"].as_array().unwrap();
    let new = all.iter().find(|process| process["id"] != json!(id)).unwrap();
    assert_eq!((&new["name"], &new["session_key"]), (&json!("again"), &json!("theirs")), "{new}");
    let new = new["id"].as_str().unwrap();
    // tmux takes what a program sends for the clipboard into its own buffer, if it is told to.
    tmux.allows_clipboard();
    tmux.types("c");
    tmux.sees(&format!("sent {new} to the clipboard of the terminal (OSC 52)"));
    eventually("the clipboard", || (tmux.clipboard() == new).then_some(()));
    tmux.types("q");
    assert_eq!(tmux.left(), 0);
}

#[test]
fn a_process_that_had_the_terminal_leaves_no_trace_on_the_screen() {
    let p = product();
    // It switches screens and back, as an editor in a shell does, resets the terminal, changes its modes and title, and stays in the middle.
    let full = r"printf 'shell\n\033[?1049heditor\033[?1049lshell again\n\033[?1000;1006h\033[?2004h\033[5;9r\033[3J\033[?25l\033]0;their title\007'";
    let line = format!("stty -echo; {full}; read -r _; printf '\\033creset\\n\\033[?47hdrawn\\033[31m\\033[?7l'; read -r _; exit 5");
    let id = p.run_with(&["--pty"], &line);
    until_printed(&p, &id, "shell again");
    let name = "a_process_that_had_the_terminal_leaves_no_trace_on_the_screen";
    let Some(tmux) = Tmux::calls(name, &p, SMALL, &["top"]) else { return };
    let modes = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{mouse_sgr_flag} #{scroll_region_upper}-#{scroll_region_lower} #{wrap_flag} #{pane_title}";
    let list = tmux.sees(&id[5..11]);
    let (before, title) = (tmux.asks(modes), tmux.asks("#{pane_title}"));
    assert!(list.contains("1 running"), "{list}");
    tmux.types("i");
    tmux.shows("its terminal", |s| s.contains("Ctrl-\\ leaves") && s.contains("shell again") && !s.contains("1 running"));
    eventually("its modes", || (tmux.asks("#{mouse_any_flag} #{cursor_flag} #{alternate_on}") == "1 0 1").then_some(()));
    tmux.presses(&["Enter"]);
    tmux.shows("what it draws", |s| s.contains("drawn") && !s.contains("shell"));
    assert_eq!(tmux.asks("#{alternate_on}"), "1");
    tmux.presses(&["C-\\"]);
    let list = tmux.shows("the list", |s| s.contains(&id[5..11]) && s.contains("1 running"));
    assert!(!list.contains("\ndrawn") && !list.contains("attached to"), "{list}");
    assert_eq!(tmux.asks(modes), before);
    // A second time, until it ends.
    tmux.types("i");
    // What is shown of it begins with a reset, which clears the line about the key.
    tmux.shows("its terminal again", |s| s.contains("drawn") && !s.contains("1 running"));
    tmux.presses(&["Enter"]);
    tmux.shows("the list again", |s| s.contains("nothing runs"));
    assert_eq!(tmux.asks(modes), before);
    tmux.types("q");
    assert_eq!(tmux.left(), 0);
    assert_eq!(tmux.screen().trim_end(), "left with 0\n icanon", "nothing else is on the user's own screen");
    assert_eq!((tmux.asks("#{history_size} #{cursor_flag}"), tmux.asks("#{pane_title}")), ("0 1".into(), title));
}

#[test]
fn the_list_is_usable_on_a_narrow_screen() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--name", "server"], &gate.wait());
    let Some(tmux) = Tmux::calls("the_list_is_usable_on_a_narrow_screen", &p, (30, 10), &["top"]) else { return };
    let list = tmux.sees("server");
    assert!(list.contains("1 running") && list.contains("1/1") && list.contains("? help  q quit"), "{list}");
    tmux.types("?");
    tmux.sees("j k scroll   q closes");
    tmux.types("q");
    tmux.presses(&["C-k"]);
    tmux.sees(&format!("Stop {id}?"));
    tmux.types("y");
    tmux.sees("nothing runs");
    tmux.types("q");
    assert_eq!(tmux.left(), 0);
}

#[test]
fn a_stop_is_not_lost_by_leaving_at_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&gate.wait());
    let top = || Tmux::calls("a_stop_is_not_lost_by_leaving_at_once", &p, SMALL, &["top"]);
    let Some(tmux) = top() else { return };
    tmux.sees(&id[5..11]);
    tmux.presses(&["C-k"]);
    tmux.sees(&format!("Stop {id}?"));
    tmux.types("yq");
    assert_eq!(tmux.left(), 0);
    tmux.sees(&format!("{id} was stopped by SIGTERM"));
    assert_eq!(p.json(["poll", &id])["completion_reason"], "killed");
    drop(tmux);
    // One that cannot be waited for is told.
    let id = p.run(&gate.wait());
    let Some(tmux) = top() else { return };
    tmux.sees(&id[5..11]);
    tmux.presses(&["C-k"]);
    tmux.sees(&format!("Stop {id}?"));
    let _held = Held::new(p.engine());
    tmux.types("yq");
    tmux.sees(&format!("the stop of {id} is still under way"));
    assert_eq!(tmux.left(), 0);
}

#[test]
fn a_viewer_settles_no_notice() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let theirs = ended(&p, "s", "echo out of theirs");
    let own = p.run_with(&["--notify"], "echo out of own");
    eventually("the end of its own", || (states(&p, &own) == ["pending"]).then_some(()));
    let stopped = p.run_with(&["--notify", "--session", "s"], &gate.wait());
    let looked_at = [(&theirs, "out of theirs"), (&own, "out of own")];
    for (args, looked_at) in [(&["top", "--all"][..], &looked_at[..]), (&["top", "--all", "--session", "s"], &looked_at[..1])] {
        let Some(tmux) = Tmux::calls("a_viewer_settles_no_notice", &p, SMALL, args) else { return };
        tmux.sees(&theirs[5..11]);
        for (id, text) in looked_at {
            tmux.types(&format!("/{id}"));
            tmux.presses(&["Enter", "Enter"]);
            tmux.shows("its end", |s| s.contains(&format!("\n{text}\n")) && s.contains("exited 0"));
            tmux.presses(&["Home"]);
            tmux.sees("100% of");
            tmux.presses(&["End"]);
            tmux.sees(" end");
            tmux.types("/out");
            tmux.presses(&["Enter"]);
            tmux.sees("n down");
            tmux.presses(&["Escape", "Escape", "Escape"]);
            tmux.sees("OWNER");
        }
        tmux.presses(&["C-c"]);
        assert_eq!(tmux.left(), 0);
    }
    let Some(tmux) = Tmux::calls("a_viewer_settles_no_notice", &p, SMALL, &["top"]) else { return };
    tmux.sees(&stopped[5..11]);
    tmux.presses(&["C-k"]);
    tmux.sees(&format!("Stop {stopped}?"));
    tmux.types("y");
    tmux.sees("was stopped by SIGTERM");
    assert_eq!((states(&p, &theirs), states(&p, &own)), (vec!["pending".to_owned()], vec!["pending".to_owned()]));
    let told = drained(&p, "s");
    assert_eq!(about(&told), [&*theirs, &*stopped]);
    let told = p.json(["events", "drain"]);
    assert_eq!(told["events"][0]["event"]["session_id"], json!(own), "{told}");
}

#[test]
fn an_engine_that_hangs_or_dies_is_waited_for() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    p.run_with(&["--name", "before"], &format!("echo shown; {}; echo later; {0}", gate.wait()));
    let Some(tmux) = Tmux::calls("an_engine_that_hangs_or_dies_is_waited_for", &p, SMALL, &["top", "--every", "0.2"]) else { return };
    tmux.sees("before");
    let held = Held::new(p.engine());
    tmux.shows("that it hangs", |s| s.contains("reconnecting: the engine does not answer") && s.contains("before"));
    drop(held);
    tmux.shows("that it is back", |s| !s.contains("reconnecting"));
    tmux.presses(&["Enter"]);
    tmux.shows("its log", |s| s.contains("following") && s.contains("\nshown\n"));
    p.kill_engine();
    gate.open();
    tmux.sees("\nlater\n");
    tmux.types("q");
    p.run_with(&["--name", "after"], &gate.wait());
    tmux.sees("after");
    tmux.types("q");
    assert_eq!(tmux.left(), 0);
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let p = product();
    use rustix::process::Signal;
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131)] {
        let Some(tmux) = Tmux::calls("a_signal_leaves_the_terminal_as_it_was", &p, SMALL, &["top"]) else { return };
        tmux.sees("nothing runs");
        assert_eq!(tmux.asks("#{alternate_on}"), "1");
        rustix::process::kill_process(rustix::process::Pid::from_raw(tmux.program() as i32).unwrap(), signal).unwrap();
        assert_eq!(tmux.left(), code);
    }
}

#[test]
fn flags_say_what_is_shown() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    p.run_with(&["--name", "theirs", "--session", "s"], &gate.wait());
    p.run_with(&["--name", "others", "--task", "t"], &gate.wait());
    let done = p.run_with(&["--name", "done"], "exit 3");
    p.wait(&done);
    let shows = |args: &[&str], want: &[&str], not: &[&str]| {
        let Some(tmux) = Tmux::calls("flags_say_what_is_shown", &p, SMALL, args) else { return };
        let screen = tmux.shows("them", |s| want.iter().all(|w| s.contains(w)));
        assert!(not.iter().all(|n| !screen.contains(n)), "{screen}");
        tmux.types("q");
        assert_eq!(tmux.left(), 0);
    };
    shows(&["top"], &["theirs", "others"], &["done"]);
    shows(&["top", "--session", "s"], &["theirs", "session s"], &["others"]);
    shows(&["top", "--task", "t"], &["others", "task t"], &["theirs"]);
    shows(&["top", "--all"], &["theirs", "others", "done", "exited 3"], &[]);
}

#[test]
fn without_a_screen_it_is_refused_with_what_to_do_instead() {
    let p = product();
    let refused = p.call(["top"]);
    assert_eq!((refused.code, &*refused.text()), (Some(1), ""), "{refused:?}");
    assert!(refused.err.contains("needs a terminal") && refused.err.contains("`outlast list`"), "{refused:?}");
    let refused = p.call(["top", "--json"]);
    let said = refused.json();
    assert_eq!((refused.code, &said["code"]), (Some(1), &json!("usage")), "{said}");
    assert!(said["hint"].as_str().unwrap().contains("outlast list --json"), "{said}");
    let refused = p.call(["top", "--every", "0.01"]);
    assert!(refused.code == Some(2) && refused.err.contains("at least 0.1s"), "{refused:?}");
    // A terminal that cannot be drawn on is none.
    let call = p.command(["top"]);
    let args = ["-qec", &format!("{} top", call.get_program().display()), "/dev/null"];
    let mut script = std::process::Command::new("script");
    script.args(args).env_clear().envs(call.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "dumb");
    let refused: Answer = script.stdin(std::process::Stdio::null()).output().expect("script runs").into();
    assert!(refused.code == Some(1) && refused.text().contains("TERM is not set, or dumb"), "{refused:?}");
}

#[test]
fn a_process_that_a_stop_signal_suspended_is_shown_as_suspended() {
    let p = product();
    let id = p.run("exec sleep 1000");
    p.call(["signal", &id, "STOP"]).good();
    let Some(tmux) = Tmux::calls("a_process_that_a_stop_signal_suspended_is_shown_as_suspended", &p, (120, 24), &["top"]) else { return };
    tmux.sees(" suspended ");
    p.call(["signal", &id, "CONT"]).good();
    tmux.shows("it running again", |s| s.contains("running") && !s.contains("suspended"));
    tmux.types("q");
    assert_eq!(tmux.left(), 0);
}
