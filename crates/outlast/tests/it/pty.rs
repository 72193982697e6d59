//! A command with a terminal.

use crate::gate::{Gate, until_printed};
use crate::support::*;

/// Runs it with a terminal, waits, and gives the kept bytes as text.
fn on_a_terminal(p: &Product, flags: &[&str], line: &str) -> String {
    let flags: Vec<_> = ["--pty"].iter().chain(flags).copied().collect();
    let id = p.run_with(&flags, line);
    let ended = p.wait(&id);
    assert_eq!(ended["exit_code"], 0, "{ended}");
    p.call(["log", &id, "--raw"]).text()
}

#[test]
fn case_018_a_terminal_has_thirty_rows_and_120_columns() {
    let p = product();
    assert_eq!(
        on_a_terminal(&p, &[], "stty size; test -t 0 && test -t 1 && test -t 2 && echo all; echo $TERM"),
        "30 120\r\nall\r\nxterm-256color\r\n"
    );
    // It is the controlling terminal of a session of its own.
    assert_eq!(on_a_terminal(&p, &[], "stty size </dev/tty; test $(ps -o sid= -p $$) = $$ && echo leads"), "30 120\r\nleads\r\n");
}

/// The program, in a world where no terminal can be had.
fn without_terminals() -> Option<(tempfile::TempDir, std::path::PathBuf)> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("outlast");
    let hide = "mount --bind /dev/null /dev/ptmx && exec \"$0\" \"$@\"";
    let script = format!("#!/bin/sh\nexec unshare --mount --map-root-user sh -c '{hide}' {} \"$@\"\n", env!("CARGO_BIN_EXE_outlast"));
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let works = std::process::Command::new(&path).arg("--version").output().is_ok_and(|o| o.status.success());
    if !works {
        eprintln!("not tested: this machine gives no mount namespace, so its terminals cannot be hidden");
    }
    works.then_some((dir, path))
}

#[test]
fn case_019_where_no_terminal_can_be_had_it_runs_once_with_pipes_and_says_so() {
    let Some((_dir, program)) = without_terminals() else { return };
    let p = Product::new(program);
    let id = p.run_with(&["--pty"], "echo ran >> runs; test -t 1 || echo no terminal");
    let ended = p.wait(&id);
    assert_eq!((&ended["exit_code"], &ended["output"]), (&json!(0), &json!("no terminal\n")), "{ended}");
    assert_eq!(std::fs::read_to_string(p.work().join("runs")).unwrap(), "ran\n");
    let polled = p.json(["poll", &id]);
    assert!(polled["warnings"].to_string().contains("a terminal was asked for"), "{polled}");
    assert!(polled.get("pty").is_none(), "{polled}");
}

#[test]
fn case_020_a_keeper_that_dies_right_after_the_start_does_not_start_it_again() {
    let p = product();
    p.points().arm("holder.start.after").unwrap();
    let mut asking = p.command(["run", "--pty", "--id", "proc_00000000abcd", "--", "echo ran >> runs"]).spawn().unwrap();
    let holder = eventually("the holder at the point", || p.points().held("holder.start.after"));
    kill_and_wait(holder).unwrap();
    p.points().release("holder.start.after").unwrap();
    assert!(asking.wait().unwrap().success());
    assert_eq!(p.wait("proc_00000000abcd")["status"], "exited");
    assert_eq!(std::fs::read_to_string(p.work().join("runs")).unwrap(), "ran\n");
}

#[test]
fn case_021_submit_and_close_end_a_program_that_reads_until_the_end() {
    let p = product();
    let id = p.run_with(&["--pty"], "cat > got; cat got");
    assert_eq!(p.json(["submit", &id, "hello"])["bytes_written"], 6);
    assert_eq!(p.json(["close", &id])["message"], "EOF sent");
    let ended = p.wait(&id);
    assert_eq!(ended["exit_code"], 0, "{ended}");
    assert_eq!(std::fs::read_to_string(p.work().join("got")).unwrap(), "hello\n");
    // Once as the terminal's echo, once as output.
    assert_eq!(ended["output"], "hello\nhello\n");
}

#[test]
fn case_023_a_program_on_a_terminal_that_a_signal_kills_has_an_exit_code() {
    let p = product();
    let id = p.run_with(&["--pty"], "kill -KILL $$");
    p.wait(&id);
    let polled = p.json(["poll", &id]);
    assert_eq!((&polled["status"], &polled["exit_code"], &polled["signal"]), (&json!("exited"), &json!(-9), &json!("SIGKILL")), "{polled}");
}

#[test]
fn case_024_questions_to_the_terminal_are_answered_and_not_shown() {
    let p = product();
    // Each question, and what its answer begins and ends with.
    let line = r#"stty raw -echo
        ask() { printf "$1"; IFS= read -r -d "$2" got; printf '%s=%s%s\r\n' "$3" "${got#??}" "$2"; }
        ask '\033[6n' R cursor; ask '\033[18t' t size; ask '\033[5n' n status; ask '\033[c' c device
        stty sane"#;
    let id = p.run_with(&["--pty"], line);
    let ended = p.wait(&id);
    assert_eq!(ended["output"], "cursor=1;1R\nsize=8;30;120t\nstatus=0n\ndevice=?62;22c\n", "{ended}");
    let raw = p.call(["log", &id, "--raw"]).text();
    assert!(raw.contains("\x1b[6n") && raw.contains("\x1b[18t"), "raw output stays raw: {raw:?}");
}

#[test]
fn case_024_a_question_at_its_last_byte_gets_its_answer_too() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!(
        r#"stty raw -echo; printf 'a\033[6'; {}; printf n; IFS= read -r -d R got; printf '%s' "${{got#??}}"; stty sane"#,
        gate.wait()
    );
    let id = p.run_with(&["--pty"], &line);
    until_printed(&p, &id, "a\x1b[6");
    gate.open();
    assert_eq!(p.wait(&id)["output"], "a1;1");
}

#[test]
fn case_025_pagers_do_not_wait_for_a_key_unless_the_user_chose_one() {
    let p = product();
    let line = "echo $PAGER $GIT_PAGER $MANPAGER; git init -q r && cd r && git -c user.name=n -c user.email=e commit -q --allow-empty -m first && git log --format=%s";
    let git = on_a_terminal(&p, &[], line);
    assert!(git.starts_with("cat cat cat\r\n") && git.trim_end().ends_with("first"), "{git:?}");
    let p = product().with_env("PAGER", "less -FX");
    assert_eq!(on_a_terminal(&p, &[], "echo $PAGER"), "less -FX\r\n");
    assert_eq!(on_a_terminal(&p, &["--env", "GIT_PAGER=more"], "echo $GIT_PAGER"), "more\r\n");
}

#[test]
fn case_026_text_reaches_a_terminal_as_utf8_and_is_counted_in_bytes() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!("stty -echo; echo ready; head -n 1 > got; {}", gate.wait());
    let id = p.run_with(&["--pty"], &line);
    until_printed(&p, &id, "ready");
    let written = p.json(["submit", &id, "äöü 🦀"]);
    assert_eq!((&written["bytes_written"], &written["next_offset"]), (&json!(12), &json!(12)), "{written}");
    eventually("the line", || std::fs::read(p.work().join("got")).ok().filter(|g| g == "äöü 🦀\n".as_bytes()));
}

#[test]
fn a_terminals_end_of_input_can_be_sent_more_than_once() {
    let p = product();
    let id = p.run_with(&["--pty"], "stty -echo; echo ready; cat > one; cat > two");
    until_printed(&p, &id, "ready");
    for (text, file) in [("first", "one"), ("second", "two")] {
        p.call(["submit", &id, text]).good();
        p.call(["close", &id]).good();
        eventually(file, || std::fs::read_to_string(p.work().join(file)).ok().filter(|t| *t == format!("{text}\n")));
    }
    assert_eq!(p.wait(&id)["exit_code"], 0);
}

#[test]
fn everything_a_program_prints_right_before_its_end_is_in_the_log() {
    let p = product();
    for _ in 0..5 {
        let out = on_a_terminal(&p, &[], "seq 2000; exec printf 'the very last'");
        assert!(out.ends_with("2000\r\nthe very last"), "{:?}", &out[out.len() - 40..]);
        assert_eq!(out.lines().count(), 2001);
    }
}

#[test]
fn ctrl_c_and_job_control_work_as_on_any_terminal() {
    let p = product();
    let id = p.run_with(&["--pty"], "trap 'echo interrupted; exit 9' INT; echo ready; while :; do read -r -t 5 _; done");
    until_printed(&p, &id, "ready");
    p.call(["write", &id, "\x03"]).good();
    let ended = p.wait(&id);
    assert_eq!(ended["exit_code"], 9, "{ended}");
    assert!(ended["output"].as_str().unwrap().contains("interrupted"), "{ended}");
}
