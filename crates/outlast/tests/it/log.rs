//! `log`: pages by line and by byte, the raw bytes, and following.

mod pages;
mod printed;
mod several;
mod times;

use crate::gate::{Gate, until_printed};
use crate::person::Person;
use crate::support::*;
use std::process::Stdio;

/// A finished process that has printed the numbers from 0 on, one a line.
fn numbers(p: &Product, count: u32) -> String {
    let id = p.run(&format!("seq 0 {}", count - 1));
    assert_eq!(p.wait(&id)["exit_code"], 0);
    id
}

fn lines(from: u32, to: u32) -> String {
    (from..to).map(|n| n.to_string()).collect::<Vec<_>>().join("\n")
}

#[test]
fn case_085_fifty_lines_are_fifty() {
    let p = product();
    let page = p.json(["log", &numbers(&p, 50)]);
    assert_eq!((&page["total_lines"], &page["showing"], &page["first_line"]), (&json!(50), &json!("50 lines"), &json!(0)), "{page}");
    assert_eq!((page["output"].as_str().unwrap(), &page["at_end"]), (lines(0, 50).as_str(), &json!(true)));
}

#[test]
fn case_085_a_last_line_without_an_end_is_one_and_no_output_is_none() {
    let p = product();
    let id = p.run("printf 'one\\ntwo'");
    p.wait(&id);
    let page = p.json(["log", &id]);
    assert_eq!((&page["total_lines"], &page["showing"], &page["output"]), (&json!(2), &json!("2 lines"), &json!("one\ntwo")));
    let id = p.run("true");
    p.wait(&id);
    let page = p.json(["log", &id]);
    assert_eq!((&page["total_lines"], &page["showing"], &page["output"]), (&json!(0), &json!("0 lines"), &json!("")));
}

#[test]
fn a_user_is_told_why_no_line_is_shown() {
    let p = product();
    let id = numbers(&p, 100);
    for (flags, says) in [
        (["--grep", "nope"], "no line matches"),
        (["--offset", "999999"], "there are 100 lines"),
        (["--offset", "100"], "there are 100 lines"),
    ] {
        let args = ["log", &id].into_iter().chain(flags);
        let (seen, code) = Person::calls(&p, &args.clone().collect::<Vec<_>>()).until_the_end();
        assert_eq!((code, seen.trim_end()), (Some(0), format!("{says}\r\n{id} exited with code 0").as_str()), "{flags:?}");
        let quiet = p.call(args).good();
        assert_eq!((quiet.text().as_str(), quiet.err.as_str()), ("", ""), "{flags:?}");
    }
    let (seen, _) = Person::calls(&p, &["log", &id, "--grep", "^7$"]).until_the_end();
    assert_eq!(seen.trim_end(), format!("7\r\n{id} exited with code 0"));
}

#[test]
fn case_086_a_limit_without_an_offset_shows_the_last_lines() {
    let p = product();
    let id = numbers(&p, 100);
    let page = p.json(["log", &id, "--limit", "10"]);
    assert_eq!((&page["showing"], &page["first_line"], &page["total_lines"]), (&json!("10 lines"), &json!(90), &json!(100)), "{page}");
    assert_eq!(page["output"], lines(90, 100));
    // The default is 200.
    let id = numbers(&p, 300);
    let page = p.json(["log", &id]);
    assert_eq!((&page["showing"], page["output"].as_str().unwrap()), (&json!("200 lines"), lines(100, 300).as_str()));
}

#[test]
fn case_087_an_offset_shows_lines_from_there_and_zero_is_the_head() {
    let p = product();
    let id = numbers(&p, 100);
    let page = p.json(["log", &id, "--offset", "10", "--limit", "5"]);
    assert_eq!((&page["showing"], &page["first_line"], &page["at_end"]), (&json!("5 lines"), &json!(10), &json!(false)), "{page}");
    assert_eq!(page["output"], lines(10, 15));
    assert_eq!(p.json(["log", &id, "--offset", "0", "--limit", "3"])["output"], lines(0, 3));
    assert_eq!(p.json(["log", &id, "--offset", "98"])["output"], lines(98, 100));
}

#[test]
fn case_089_an_offset_past_the_end_is_an_empty_page() {
    let p = product();
    let id = numbers(&p, 10);
    for past in ["10", "1000000"] {
        let page = p.json(["log", &id, "--offset", past]);
        assert_eq!((&page["output"], &page["showing"], &page["total_lines"]), (&json!(""), &json!("0 lines"), &json!(10)), "{page}");
    }
    let page = p.json(["log", &id, "--from-byte", "1000000"]);
    assert_eq!((&page["output"], &page["next_byte"], &page["at_end"]), (&json!(""), &json!(20), &json!(true)), "{page}");
}

#[test]
fn case_090_line_numbers_stay_true_when_old_output_is_gone() {
    let p = product();
    p.configure("log.tail_bytes = 100000");
    // 13 MB in lines of 13 bytes: the head of 1 MiB, then segments of 4 MiB of which the last ones stay.
    let (count, width) = (1_000_000_u64, 13);
    let id = p.run("seq -f '%012.0f' 0 999999");
    assert_eq!(p.wait(&id)["exit_code"], 0);
    let line = |n: u64| format!("{n:012}");
    let page = |flags: &[&str]| p.json(["log", &id].iter().chain(flags));
    let polled = p.json(["poll", &id]);
    let gap = &polled["gaps"][0];
    let (from, to) = (gap["from"].as_u64().unwrap(), gap["to"].as_u64().unwrap());
    assert_eq!((from, &gap["why"], &polled["output_bytes"]), (1 << 20, &json!("retention"), &json!(count * width)), "{polled}");
    assert!(to > from && to <= count * width - 100_000, "{polled}");
    // The first line that is kept whole behind the gap.
    let kept = to.div_ceil(width);

    let tail = page(&["--limit", "2"]);
    assert_eq!((&tail["total_lines"], &tail["first_line"]), (&json!(count), &json!(count - 2)), "{tail}");
    assert_eq!(tail["output"], format!("{}\n{}", line(count - 2), line(count - 1)));
    let head = page(&["--offset", "5", "--limit", "2"]);
    assert_eq!(head["output"], format!("{}\n{}", line(5), line(6)));
    // A kept line behind the gap is found by its own number.
    let later = page(&["--offset", &(kept + 1000).to_string(), "--limit", "1"]);
    assert_eq!((&later["output"], &later["first_line"]), (&json!(line(kept + 1000)), &json!(kept + 1000)), "{later}");
    // One that is gone gives the first that is whole, under its own number, and says so.
    for gone in ["200000", &(kept - 1).to_string()] {
        for limit in ["1", "2"] {
            let page = page(&["--offset", gone, "--limit", limit]);
            assert_eq!((&page["first_line"], page.get("approximate")), (&json!(kept), None), "{page}");
            assert!(page["output"].as_str().unwrap().starts_with(&line(kept)), "{page}");
            let showing = if limit == "1" { "1 line" } else { "2 lines" };
            assert_eq!((&page["showing"], &page["lines_gone"]), (&json!(showing), &json!(kept - 1)), "{page}");
        }
    }
    // A page ends before the gap. The next one reports the gap and continues with correct line numbers.
    let before = page(&["--from-byte", &(from - 100).to_string()]);
    assert_eq!((&before["next_byte"], &before["at_end"], before.get("gaps")), (&json!(from), &json!(false), None), "{before}");
    assert_eq!(before["first_line"], (from - 100) / width, "{before}");
    for inside in [from, from + 1, to - 1] {
        let behind = page(&["--from-byte", &inside.to_string(), "--limit", "2"]);
        assert_eq!(behind["gaps"], json!([{"event": "gap", "from": inside, "to": to, "why": "retention"}]), "{behind}");
        assert_eq!(
            (&behind["output"], &behind["first_line"]),
            (&json!(format!("{}\n{}", line(kept), line(kept + 1))), &json!(kept)),
            "{behind}"
        );
    }
    // In bytes, they are all there but those of the gap.
    let raw = p.call(["log", &id, "--raw"]);
    assert_eq!(raw.out.len() as u64, from + (count * width - to));
    assert!(raw.err.contains(&format!("bytes {from} to {to} are missing: retention")), "{}", raw.err);
}

#[test]
fn case_091_a_progress_bar_is_one_line_and_shows_its_last_state() {
    let p = product();
    let id = p.run(r"for i in $(seq 0 100); do printf '\rdone: %d%%' $i; done; printf '\nnext\n'");
    let ended = p.wait(&id);
    assert_eq!(ended["output"], "done: 100%\nnext\n");
    let page = p.json(["log", &id]);
    assert_eq!((&page["total_lines"], &page["output"]), (&json!(2), &json!("done: 100%\nnext")), "{page}");
    // The bytes are all there.
    assert_eq!(p.call(["log", &id, "--raw"]).text().matches('\r').count(), 101);
}

#[test]
fn raw_bytes_come_out_exactly_as_they_went_in() {
    let p = product();
    let all: Vec<u8> = (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(p.work().join("bytes"), &all).unwrap();
    let id = p.run("cat bytes");
    p.wait(&id);
    assert!(p.call(["log", &id, "--raw"]).good().out == all);
    assert!(p.call(["log", &id, "--raw", "--from-byte", "77777"]).good().out == all[77_777..]);
    assert!(p.call(["log", &id, "--raw", "--follow"]).good().out == all);
    assert!(p.call(["log", &id, "--raw", "--follow", "--from-byte", "50000"]).good().out == all[50_000..]);
    // By lines, the bytes of those lines.
    let newline: Vec<usize> = all.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1).collect();
    let cut = p.call(["log", &id, "--raw", "--offset", "3", "--limit", "2"]).good().out;
    assert!(cut == all[newline[2]..newline[4]]);
}

#[test]
fn pages_by_byte_one_after_another_are_the_whole() {
    let p = product();
    let id = numbers(&p, 1000);
    let whole = p.call(["log", &id, "--raw"]).text();
    let (mut at, mut read) = (0, String::new());
    loop {
        let page = p.json(["log", &id, "--from-byte", &at.to_string(), "--limit", "150"]);
        assert_eq!((&page["from_byte"], &page["total_lines"]), (&json!(at), &json!(1000)));
        assert_eq!(page["first_line"], read.matches('\n').count());
        read += page["output"].as_str().unwrap();
        read.push('\n');
        at = page["next_byte"].as_u64().unwrap();
        if page["at_end"] == true {
            break;
        }
    }
    assert_eq!(read, whole);
}

#[test]
fn a_reader_that_continues_in_the_middle_of_a_line_misses_nothing() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("printf 'hel'; {0}; printf 'lo wor'; {0}; printf 'ld\\nnext\\n'", gate.wait()));
    let (mut at, mut read) = (0, String::new());
    for so_far in ["hel", "hello wor", "hello world\nnext\n"] {
        until_printed(&p, &id, so_far);
        let page = p.json(["log", &id, "--from-byte", &at.to_string()]);
        read += page["output"].as_str().unwrap();
        at = page["next_byte"].as_u64().unwrap();
        assert_eq!(at, so_far.len() as u64, "{page}");
        gate.open();
    }
    assert_eq!(read, "hello world\nnext");
}

#[test]
fn a_secret_in_two_pages_is_masked_in_both() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let (a, b) = ("ghp_0123456789abcdefgh", "ijklmnopqrstuvwxyz");
    let id = p.run(&format!("printf 'key {a}'; {}; echo {b}", gate.wait()));
    until_printed(&p, &id, a);
    let first = p.json(["log", &id, "--from-byte", "0"]);
    let at = first["next_byte"].as_u64().unwrap();
    gate.open();
    p.wait(&id);
    for from in [at, at - 3, at + 1] {
        let page = p.json(["log", &id, "--from-byte", &from.to_string()]);
        assert!(!page["output"].as_str().unwrap().contains("mnopqr"), "{page}");
    }
}

#[test]
fn one_line_that_is_longer_than_a_page_is_read_in_pages() {
    let p = product();
    let id = p.run("head -c 450000 /dev/zero | tr '\\0' ' '; echo end");
    p.wait(&id);
    let (mut at, mut sizes) = (0, Vec::new());
    while at < 450_000 {
        let page = p.json(["log", &id, "--from-byte", &at.to_string()]);
        sizes.push(page["output"].as_str().unwrap().len());
        at = page["next_byte"].as_u64().unwrap();
    }
    assert_eq!(sizes, [200_000, 200_000, 50_003]);
}

#[test]
fn follow_prints_everything_and_ends_at_the_end() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("echo before; {}; seq 5000; echo after", gate.wait()));
    until_printed(&p, &id, "before");
    let follower = p.command(["log", &id, "--follow", "--offset", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    gate.open();
    let shown = follower.wait_with_output().unwrap();
    assert_eq!(shown.status.code(), Some(0));
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), format!("before\n{}\nafter\n", lines(1, 5001)));
}

#[test]
fn run_follow_prints_everything_and_exits_as_the_command_did() {
    let p = product();
    let shown = p.call(["run", "--follow", "--", "echo out; echo err >&2; seq 3000; exit 4"]);
    assert_eq!((shown.code, shown.text()), (Some(4), format!("out\nerr\n{}\n", lines(1, 3001))), "{}", shown.err);
    let shown = p.call(["run", "--follow", "--pty", "--", "printf 'no end'"]);
    assert_eq!((shown.code, shown.text().as_str()), (Some(0), "no end"));
    assert_eq!(p.call(["run", "--follow", "--", "kill -KILL $$"]).code, Some(137));
}

#[test]
fn run_follow_waits_for_the_end_of_a_command_that_has_closed_its_output() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = "proc_00000000c105";
    let line = format!("echo said; exec >&- 2>&-; {}; exit 4", gate.wait());
    let follower = p.command(["run", "--follow", "--id", id, "--", &line]).stdout(Stdio::piped()).spawn().unwrap();
    eventually("its output to be closed", || {
        let started = p.json(["poll", id])["phase"] == "running";
        (started && p.meta(id).closed.is_some()).then_some(())
    });
    gate.open();
    let shown = follower.wait_with_output().unwrap();
    assert_eq!((shown.status.code(), shown.stdout.as_slice()), (Some(4), &b"said\n"[..]));
}

#[test]
fn run_follow_in_json_answers_on_standard_output_and_shows_on_standard_error() {
    let p = product();
    let shown = p.call(["run", "--follow", "--json", "--", "echo out; exit 4"]);
    assert_eq!((shown.code, shown.err.as_str()), (Some(4), "out\n"));
    let answer = shown.json();
    assert_eq!((&answer["exit_code"], &answer["next_byte"]), (&json!(4), &json!(4)), "{answer}");
}

#[test]
fn ctrl_c_leaves_a_follower_and_not_the_command() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("echo said; {}; exit 6", gate.wait()));
    let mut follower = p.command(["log", &id, "--follow"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(follower.stdout.as_mut().unwrap(), &mut line).unwrap();
    let pid = rustix::process::Pid::from_child(&follower);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let left = follower.wait_with_output().unwrap();
    assert_eq!(left.status.code(), Some(0), "{left:?}");
    assert!(String::from_utf8_lossy(&left.stderr).contains(&format!("outlast log {id} --follow --from-byte 5")), "{left:?}");
    gate.open();
    assert_eq!(p.wait(&id)["exit_code"], 6);
}

#[test]
fn a_follower_survives_the_death_of_the_engine() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("seq 1000; {}; seq 1001 2000", gate.wait()));
    let mut follower = p.command(["log", &id, "--follow", "--raw"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = vec![0; lines(1, 1001).len() + 1];
    std::io::Read::read_exact(follower.stdout.as_mut().unwrap(), &mut first).unwrap();
    p.kill_engine();
    gate.open();
    let rest = follower.wait_with_output().unwrap();
    assert_eq!(rest.status.code(), Some(0));
    assert_eq!(String::from_utf8([first, rest.stdout].concat()).unwrap(), format!("{}\n", lines(1, 2001)));
}

#[test]
fn a_prompt_without_a_line_end_is_shown_to_a_follower() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("printf 'Continue? '; {}", gate.wait()));
    let mut follower = p.command(["log", &id, "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut prompt = [0; 10];
    std::io::Read::read_exact(follower.stdout.as_mut().unwrap(), &mut prompt).unwrap();
    assert_eq!(&prompt, b"Continue? ");
    gate.open();
    assert!(follower.wait().unwrap().success());
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let p = product();
    let id = numbers(&p, 100_000);
    for flags in [&["log", &id, "--raw"][..], &["log", &id, "--follow"]] {
        let mut reader = p.command(flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(reader.stdout.take());
        let left = reader.wait_with_output().unwrap();
        assert_eq!((left.status.code(), left.stderr.as_slice()), (Some(0), &b""[..]), "{flags:?}");
    }
}
