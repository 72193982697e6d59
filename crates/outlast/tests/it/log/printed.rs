//! What `log`, `wait`, `run --wait` and `kill` print: everything to a pipe, a screenful to a terminal (`kill` nothing), with colours there alone.

use super::{lines, numbers};
use crate::gate::{Gate, until_printed};
use crate::person::Person;
use crate::support::*;
use std::process::Stdio;

#[test]
fn a_log_of_thirty_thousand_lines_is_printed_whole_to_a_pipe() {
    let p = product();
    let all = format!("{}\n", lines(0, 30_000));
    let id = numbers(&p, 30_000);
    for args in [&["log", &id][..], &["log", &id, "--all"], &["wait", &id], &["run", "--wait", "--", "seq 0 29999"]] {
        let printed = p.call(args).good();
        assert!(printed.text() == all && printed.err.is_empty(), "{args:?}: {} bytes, {}", printed.out.len(), printed.err);
    }
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("seq 0 29999; {}", gate.wait()));
    until_printed(&p, &id, "\n29999\n");
    assert!(p.call(["kill", &id]).good().text() == all);
}

#[test]
fn lines_are_chosen_by_number_and_by_what_they_match() {
    let p = product();
    let id = numbers(&p, 1_000);
    let printed = |flags: &[&str]| p.call(["log", &id].iter().chain(flags)).good().text();
    assert_eq!(printed(&["-n", "3"]), "997\n998\n999\n");
    assert_eq!(printed(&["--lines", "2000"]), format!("{}\n", lines(0, 1_000)));
    assert_eq!(printed(&["--offset", "990"]), format!("{}\n", lines(990, 1_000)));
    assert_eq!(printed(&["--offset", "3", "--limit", "2"]), "3\n4\n");
    assert_eq!(printed(&["--grep", "^.9{2}$"]), "199\n299\n399\n499\n599\n699\n799\n899\n999\n");
    assert_eq!(printed(&["--grep", "^9", "-n", "15"]), format!("{}\n", lines(985, 1_000)));
    assert_eq!(printed(&["--follow", "--grep", "^99[89]$"]), "998\n999\n");
    let wrong = p.call(["log", &id, "--grep", "("]);
    assert!(wrong.code == Some(2) && wrong.err.contains("unclosed group"), "{}", wrong.err);
}

#[test]
fn several_logs_are_printed_whole_to_a_pipe() {
    let p = product();
    let id = numbers(&p, 5_000);
    let printed = p.call(["log", "--prefix", &id]).good().text();
    let expected: String = (0..5_000).map(|n| format!("{id} | {n}\n")).collect();
    assert!(printed == expected, "{}", printed.len());
}

#[test]
fn what_is_missing_is_told_beside_the_output() {
    let p = product();
    p.configure("log.tail_bytes = 100000");
    let id = p.run("seq -f '%012.0f' 0 999999");
    assert_eq!(p.wait(&id)["exit_code"], 0);
    let printed = p.call(["log", &id]).good();
    assert!(printed.err.contains("are missing: retention]") && printed.err.lines().count() <= 2, "{}", printed.err);
    // Only the line before the gap lacks its end, and none its beginning.
    let (text, mut last) = (printed.text(), None);
    for line in text.lines().filter(|line| line.len() == 12) {
        let number: u64 = line.parse().unwrap();
        assert!(last < Some(number));
        last = Some(number);
    }
    assert!(text.lines().filter(|line| line.len() != 12).count() <= 1);
    assert_eq!(last, Some(999_999));
}

#[test]
fn a_line_longer_than_any_buffer_stays_one_line() {
    let p = product();
    let id = p.run("head -c 5000000 /dev/zero | tr '\\0' x; echo; echo next");
    p.wait(&id);
    let printed = p.call(["log", &id]).good().text();
    assert!(printed == format!("{}\nnext\n", "x".repeat(5_000_000)), "{}", printed.len());
}

#[test]
fn a_byte_within_a_line_shows_no_half_of_a_secret() {
    let p = product();
    let id = p.run("echo key ghp_0123456789abcdefghijklmnopqrstuvwxyz end; echo next");
    p.wait(&id);
    for from in 0..46 {
        let printed = p.call(["log", &id, "--from-byte", &from.to_string()]).good().text();
        assert!(!printed.contains("mnopqr") && printed.ends_with("end\nnext\n"), "{from}: {printed}");
    }
}

#[test]
fn a_reader_that_leaves_a_log_early_is_no_error() {
    let p = product();
    let id = numbers(&p, 100_000);
    let wait = ["wait", &id];
    for args in [&["log", &id][..], &wait, &["log", &id, "--prefix"]] {
        let mut reader = p.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(reader.stdout.take());
        let left = reader.wait_with_output().unwrap();
        assert_eq!((left.status.code(), left.stderr.as_slice()), (Some(0), &b""[..]), "{args:?}");
    }
}

#[test]
fn a_terminal_gets_a_screenful_and_is_told_what_is_left_out() {
    let p = product();
    let id = numbers(&p, 30_000);
    for args in [&["log", &id][..], &["wait", &id], &["log", &id, "--follow"]] {
        let mut person = Person::calls_at(&p, args, 12, 100);
        person.sees("29999\r\n");
        person.sees(&format!("[the first 29991 of 30000 lines are left out; `outlast log {id} --all` shows all, -n N the last N]"));
        assert_eq!(person.ended(), Some(0));
        assert!(person.seen.contains("29991\r\n") && !person.seen.contains("29990\r\n"), "{:?}", person.seen);
    }
    let mut person = Person::calls_at(&p, &["log", &id, "--all"], 12, 100);
    person.sees("29999\r\n");
    assert!(person.seen.starts_with("0\r\n1\r\n") && !person.seen.contains("left out"), "{:?}", &person.seen[..100]);
    assert_eq!(person.ended(), Some(0));
    let (seen, code) = Person::calls_at(&p, &["log", &id, "-n", "2"], 12, 100).until_the_end();
    assert_eq!((code, seen), (Some(0), format!("29998\r\n29999\r\n{id} exited with code 0\r\n")));
}

#[test]
fn a_kill_shows_on_a_terminal_how_the_process_ended_and_no_output() {
    let p = product();
    let id = p.run("seq 50; exec sleep 1000");
    crate::gate::until_printed(&p, &id, "50");
    let mut person = Person::calls(&p, &["kill", &id]);
    person.sees(&format!("{id} was stopped by kill (SIGTERM)\r\n"));
    assert_eq!((person.ended(), person.seen.lines().count()), (Some(0), 1), "{}", person.seen);
}

/// Prints colours, and what would do more to a terminal than that.
const COLOURFUL: &str = r"printf '\033[2J\033[1;31mred\033[0m \033]0;title\007\033[32mgreen\033[0m\033[K\n'; echo done";

#[test]
fn colours_pass_to_a_terminal_and_nothing_else_does() {
    let p = product();
    let id = p.run(COLOURFUL);
    p.wait(&id);
    for args in [&["log", &id][..], &["log", &id, "--follow"], &["wait", &id], &["run", "--wait", "--", COLOURFUL]] {
        let mut person = Person::calls(&p, args);
        person.sees("done\r\n");
        assert!(person.seen.starts_with("\x1b[1;31mred\x1b[0m \x1b[32mgreen\x1b[0m\r\n"), "{args:?}: {:?}", person.seen);
        assert_eq!(person.ended(), Some(0));
    }
    let mut person = Person::calls(&p, &["log", &id, "--no-color"]);
    person.sees("done\r\n");
    assert!(person.seen.starts_with("red green\r\n"), "{:?}", person.seen);
    assert_eq!(person.ended(), Some(0));
    assert_eq!(p.call(["log", &id]).good().text(), "red green\ndone\n");
}

#[test]
fn a_secret_in_two_colours_is_masked() {
    let p = product();
    let token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let (a, b) = token.split_at(14);
    let print = format!(r"printf '\033[31m{a}\033[32m{b}\033[0m\n'; printf '%s\033[1m%s\n' correct-hor se-battery; echo done");
    let id = p.run_with(&["--env", "API_TOKEN=correct-horse-battery"], &print);
    p.wait(&id);
    let mut person = Person::calls(&p, &["log", &id]);
    person.sees("done\r\n");
    person.ended();
    for seen in [person.seen, p.call(["log", &id]).good().text(), p.json(["log", &id])["output"].to_string()] {
        assert!(!seen.contains("abcdef") && !seen.contains("89abcd") && !seen.contains("battery") && !seen.contains("correct"), "{seen:?}");
    }
}

#[test]
fn a_page_says_at_which_line_the_next_begins() {
    let p = product();
    let id = numbers(&p, 1_000);
    let (mut line, mut read) = (0, Vec::new());
    loop {
        let page = p.json(["log", &id, "--offset", &line.to_string(), "--limit", "150"]);
        read.extend(page["output"].as_str().unwrap().lines().map(str::to_owned));
        line = page["next_line"].as_u64().unwrap();
        if page["at_end"] == true {
            break;
        }
    }
    assert_eq!(read.join("\n"), lines(0, 1_000));
}

#[test]
fn pages_of_a_long_coloured_line_miss_no_character() {
    let p = product();
    let id = p.run(r"for i in $(seq 60000); do printf '\033[3%dm%05d\033[0m' $((i % 8)) $i; done; echo; echo end");
    p.wait(&id);
    let (mut at, mut read) = (0, String::new());
    loop {
        let page = p.json(["log", &id, "--from-byte", &at.to_string(), "--limit", "1"]);
        read += page["output"].as_str().unwrap();
        at = page["next_byte"].as_u64().unwrap();
        assert_eq!(page.get("output_cut").is_some(), page["next_line"] == 0, "{}", page["output_cut"]);
        if page.get("output_cut").is_none() {
            break;
        }
    }
    let whole: String = (1..=60_000).map(|n| format!("{n:05}")).collect();
    assert!(read == whole, "{} {}", read.len(), whole.len());
}

/// `log` settled the notice of an end that it had not mentioned.
#[test]
fn a_log_that_is_shown_to_its_end_on_a_terminal_says_how_the_process_ended() {
    let p = product();
    let id = p.run_with(&["--name", "fail1"], "seq 3; exit 3");
    p.wait(&id);
    let end = format!("fail1 ({id}) exited with code 3");
    let printed = p.call(["log", "fail1"]).good();
    assert_eq!((printed.text().as_str(), printed.err.as_str()), ("1\n2\n3\n", ""), "a pipe gets the output alone");
    let seen = |args: &[&str]| Person::calls(&p, args).until_the_end().0;
    for args in [&["log", "fail1"][..], &["log", "fail1", "-n", "1"], &["log", "fail1", "--raw"], &["log", "fail1", "--grep", "2"]] {
        let seen = seen(args);
        assert!(seen.trim_end().ends_with(&end), "{args:?}: {seen}");
    }
    let part = seen(&["log", "fail1", "--offset", "0", "--limit", "1"]);
    assert!(!part.contains("exited"), "that is not the end: {part}");
    let prefixed = seen(&["log", "fail1", "--prefix", "--no-color"]);
    assert!(prefixed.trim_end().ends_with("fail1 | exited with code 3"), "{prefixed}");
}
