//! `write`, `submit`, `close`: every byte of input, once.

use crate::gate::{Gate, until_printed};
use crate::support::*;

#[test]
fn case_168_write_appends_nothing_and_submit_one_newline() {
    let p = product();
    for flag in ["--pty", "--stdin"] {
        let id = p.run_with(&[flag], "read -r line; printf '[%s]' \"$line\"");
        let written = p.json(["write", &id, "hel"]);
        assert_eq!(
            (&written["status"], &written["bytes_written"], &written["next_offset"]),
            (&json!("ok"), &json!(3), &json!(3)),
            "{written}"
        );
        assert_eq!(p.json(["poll", &id])["status"], "running", "no newline has come");
        let written = p.json(["submit", &id, "lo"]);
        assert_eq!((&written["bytes_written"], &written["next_offset"]), (&json!(3), &json!(6)), "{written}");
        let ended = p.wait(&id);
        assert!(ended["output"].as_str().unwrap().ends_with("[hello]"), "{ended}");
    }
}

#[test]
fn case_169_input_works_where_it_was_asked_for_recovered_or_not_and_is_refused_elsewhere() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&gate.wait());
    for verb in [&["write", &id, "x"][..], &["submit", &id, "x"], &["close", &id]] {
        let said = p.call(["--json"].iter().chain(verb));
        assert_eq!(said.code, Some(1), "{verb:?}");
        let refused = said.json();
        assert_eq!((&refused["status"], &refused["code"]), (&json!("error"), &json!("no_input")), "{verb:?}: {refused}");
        assert_eq!(refused["error"], "its input is closed", "{refused}");
        assert!(refused["hint"].as_str().unwrap().contains("--stdin"), "{refused}");
    }
    let asked = p.run_with(&["--stdin"], "cat");
    p.call(["submit", &asked, "one"]).good();
    p.kill_engine();
    p.call(["submit", &asked, "two"]).good();
    p.call(["close", &asked]).good();
    assert_eq!(p.wait(&asked)["output"], "one\ntwo\n");
}

#[test]
fn case_170_what_is_over_takes_no_input_and_says_so() {
    let p = product();
    for flag in ["--pty", "--stdin"] {
        let id = p.run_with(&[flag], "exit 3");
        p.wait(&id);
        for verb in [&["write", &id, "x"][..], &["submit", &id, "x"], &["close", &id]] {
            let refused = p.json(verb);
            assert_eq!(
                (&refused["status"], &refused["error"]),
                (&json!("already_exited"), &json!("Process has already finished")),
                "{refused}"
            );
            assert_eq!(refused["exit_code"], 3, "{refused}");
        }
    }
}

#[test]
fn case_171_close_is_an_end_of_file_on_a_terminal_and_the_end_of_a_pipe() {
    let p = product();
    for (flag, message) in [("--pty", "EOF sent"), ("--stdin", "stdin closed")] {
        let id = p.run_with(&[flag], "cat > got; exit 4");
        p.call(["submit", &id, "text"]).good();
        let closed = p.json(["close", &id]);
        assert_eq!((&closed["status"], &closed["message"]), (&json!("ok"), &json!(message)), "{closed}");
        assert_eq!(p.wait(&id)["exit_code"], 4);
        assert_eq!(std::fs::read_to_string(p.work().join("got")).unwrap(), "text\n");
    }
}

#[test]
fn a_pipe_that_was_closed_takes_nothing_more() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--stdin"], &format!("cat; {}", gate.wait()));
    p.call(["close", &id]).good();
    for verb in [&["write", &id, "x"][..], &["submit", &id, "x"]] {
        let refused = p.json(verb);
        assert_eq!(refused["code"], "no_input", "{refused}");
    }
    assert!(p.json(["poll", &id]).get("takes_input").is_none());
}

#[test]
fn case_173_bytes_are_counted_and_not_characters() {
    let p = product();
    let id = p.run_with(&["--stdin"], "cat");
    assert_eq!(p.json(["write", &id, "é"])["bytes_written"], 2);
    assert_eq!(p.json(["submit", &id, "é"])["bytes_written"], 3);
    assert_eq!(p.json(["write", &id, ""])["bytes_written"], 0);
    let polled = p.json(["poll", &id]);
    assert_eq!((&polled["input_bytes"], &polled["takes_input"]), (&json!(5), &json!(true)), "{polled}");
    p.call(["close", &id]).good();
    assert_eq!(p.wait(&id)["output"], "éé\n");
}

#[test]
fn a_retry_at_the_same_offset_writes_nothing_twice() {
    let p = product();
    let id = p.run_with(&["--stdin"], "cat");
    let write = |text: &str, at: u64| p.json(["write", &id, text, "--offset", &at.to_string()]);
    assert_eq!(write("hello ", 0)["next_offset"], 6);
    for _ in 0..3 {
        let again = write("hello ", 0);
        assert_eq!((&again["status"], &again["bytes_written"], &again["next_offset"]), (&json!("ok"), &json!(0), &json!(6)), "{again}");
        assert_eq!(again["already"], 6, "{again}");
    }
    // One that overlaps writes the rest of it.
    let rest = write("lo world", 3);
    assert_eq!((&rest["next_offset"], &rest["bytes_written"], &rest["already"]), (&json!(11), &json!(5), &json!(3)), "{rest}");
    let hole = write("!", 20);
    assert_eq!(hole["code"], "bad_offset", "{hole}");
    assert!(hole["error"].as_str().unwrap().contains("11"), "where to continue: {hole}");
    let line = p.json(["submit", &id, "", "--offset", "11"]);
    assert_eq!(line["next_offset"], 12);
    assert_eq!(p.json(["submit", &id, "", "--offset", "11"])["next_offset"], 12);
    // Also to another engine.
    p.kill_engine();
    assert_eq!(write("hello world\n", 0)["next_offset"], 12);
    p.call(["close", &id]).good();
    assert_eq!(p.wait(&id)["output"], "hello world\n");
}

#[test]
fn a_megabyte_of_input_arrives_whole() {
    let p = product();
    let bytes: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    std::fs::write(p.work().join("bytes"), &bytes).unwrap();
    let sum = std::process::Command::new("sha256sum").stdin(std::fs::File::open(p.work().join("bytes")).unwrap()).output().unwrap();
    let id = p.run_with(&["--stdin"], "sha256sum");
    let written = p.call_with_input(["write", "--json", &id, "-"], &bytes).good().json();
    assert_eq!((&written["bytes_written"], &written["next_offset"]), (&json!(1 << 20), &json!(1 << 20)));
    p.call(["close", &id]).good();
    assert_eq!(p.wait(&id)["output"], String::from_utf8(sum.stdout).unwrap());
}

#[test]
fn a_megabyte_of_lines_reaches_a_terminal_whole() {
    let p = product();
    // A terminal takes at most 4096 bytes of a line.
    let lines: String = (0..16_384).map(|n| format!("{n:063}\n")).collect();
    let id = p.run_with(&["--pty"], "stty -echo; echo ready; head -n 16384 > got");
    until_printed(&p, &id, "ready");
    let written = p.call_with_input(["write", "--json", &id, "-"], lines.as_bytes()).good().json();
    assert_eq!(written["bytes_written"], 1 << 20);
    assert_eq!(p.wait(&id)["exit_code"], 0);
    assert!(std::fs::read_to_string(p.work().join("got")).unwrap() == lines);
}

#[test]
fn a_dash_reads_the_text_from_standard_input() {
    let p = product();
    let id = p.run_with(&["--stdin"], "cat");
    p.call_with_input(["write", &id, "-"], b"raw\xff\x00\n").good();
    // The last newline of a submitted text is not doubled.
    p.call_with_input(["submit", &id, "-"], b"line\n").good();
    p.call_with_input(["submit", &id, "-"], b"line").good();
    p.call(["write", &id, "--", "--dashes"]).good();
    p.call(["close", &id]).good();
    p.wait(&id);
    assert_eq!(p.call(["log", &id, "--raw"]).out, b"raw\xff\x00\nline\nline\n--dashes");
}

#[test]
fn input_for_a_program_that_does_not_read_waits_or_is_refused_and_harms_nothing() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--stdin"], &format!("{}; sha256sum", gate.wait()));
    let bytes = vec![b'x'; 1 << 20];
    std::fs::write(p.work().join("bytes"), &bytes).unwrap();
    let sum = std::process::Command::new("sha256sum").stdin(std::fs::File::open(p.work().join("bytes")).unwrap()).output().unwrap();
    let mut writing = p
        .command(["write", "--json", &id, "-", "--offset", "0"])
        .stdin(std::fs::File::open(p.work().join("bytes")).unwrap())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the pipe to be full", || p.json(["poll", &id])["input_bytes"].as_u64().filter(|n| *n >= 64 << 10));
    // The others are served meanwhile.
    assert_eq!(p.json(["poll", &id])["status"], "running");
    // The writer dies; what it had written counts, and a retry writes the rest.
    writing.kill().unwrap();
    writing.wait().unwrap();
    gate.open();
    let written = p.call_with_input(["write", "--json", &id, "-", "--offset", "0"], &bytes).good().json();
    assert_eq!(written["next_offset"], 1 << 20, "{written}");
    p.call(["close", &id]).good();
    assert_eq!(p.wait(&id)["output"], String::from_utf8(sum.stdout).unwrap());
}

#[test]
fn a_program_that_closes_its_input_and_keeps_running_refuses_more() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--stdin"], &format!("exec <&-; echo closed; {}", gate.wait()));
    until_printed(&p, &id, "closed");
    let refused = eventually("a refusal", || {
        let said = p.json(["write", &id, "x"]);
        (said["code"] == "no_input").then_some(said)
    });
    // The keeper refuses what comes before the engine knows.
    let error = refused["error"].as_str().unwrap();
    assert!(error == "its input was closed, and takes nothing more" || error.contains("has closed its input"), "{refused}");
    assert!(!refused["hint"].as_str().unwrap().contains("start it with"), "{refused}");
    gate.open();
    assert_eq!(p.wait(&id)["exit_code"], 0);
}
