//! Output: every byte, in order, and readable as text.

use crate::gate::{Gate, printed, until_printed};
use crate::support::*;

/// Prints pieces of bytes, each once the one before it is in the log, and gives the text a log shows while it runs and at its end.
fn in_pieces(p: &Product, pieces: &[&str]) -> (Vec<String>, String) {
    let gate = Gate::new(p, "gate");
    let steps: Vec<_> = pieces.iter().map(|piece| format!("printf '{piece}'; {}", gate.wait())).collect();
    let id = p.run(&steps.join("; "));
    let mut shown = Vec::new();
    let mut bytes = 0;
    for piece in pieces {
        // Each byte is written as an octal escape of four characters, or as itself.
        bytes += piece.len() as u64 - 3 * piece.matches('\\').count() as u64;
        eventually("a piece", || (p.meta(&id).log_end() >= bytes).then_some(()));
        shown.push(p.json(["log", &id])["output"].as_str().unwrap().to_owned());
        gate.open();
    }
    assert_eq!(p.wait(&id)["exit_code"], 0);
    // Until its output is closed, more could come.
    eventually("its last word", || (p.json(["poll", &id])["phase"] == "exited").then_some(()));
    (shown, p.json(["log", &id])["output"].as_str().unwrap().to_owned())
}

#[test]
fn case_047_a_character_in_two_reads_is_whole() {
    let p = product();
    let (shown, end) = in_pieces(&p, &[r"caf\303", r"\251!"]);
    assert_eq!((shown[0].as_str(), shown[1].as_str(), end.as_str()), ("caf", "café!", "café!"));
}

#[test]
fn case_048_a_character_of_four_bytes_in_three_reads_is_whole() {
    let p = product();
    let (shown, end) = in_pieces(&p, &[r"\360\237", r"\246", r"\200"]);
    assert_eq!((shown, end.as_str()), (vec![String::new(), String::new(), "🦀".into()], "🦀"));
}

#[test]
fn case_049_output_that_ends_inside_a_character_ends_with_one_replacement() {
    let p = product();
    let (shown, end) = in_pieces(&p, &[r"ok \360\237\246"]);
    assert_eq!((shown[0].as_str(), end.as_str()), ("ok ", "ok \u{fffd}"));
}

#[test]
fn case_050_a_byte_that_is_never_valid_is_replaced_where_it_stands() {
    let p = product();
    let (_, end) = in_pieces(&p, &[r"a\377b\300c"]);
    assert_eq!(end, "a\u{fffd}b\u{fffd}c");
}

#[test]
fn case_051_warnings_of_a_shell_without_a_terminal_are_not_shown() {
    let p = product();
    std::fs::write(p.user().join(".bashrc"), "case $- in *i*) echo interactive;; esac\n").unwrap();
    assert_eq!(printed(&p, "echo clean"), "clean\n");
    // An interactive shell that is not ours does complain, in writes of its own.
    let id = p.run("HOME=/ setsid --wait bash --norc --noprofile -i -c 'echo said'");
    let ended = p.wait(&id);
    assert_eq!((&ended["exit_code"], &ended["output"]), (&json!(0), &json!("said\n")), "{ended}");
    assert_eq!(p.json(["poll", &id])["output_preview"], "said\n");
    assert!(p.call(["log", &id, "--raw"]).text().contains("no job control in this shell"), "raw output stays raw");
}

#[test]
fn case_053_of_300_000_characters_the_last_200_000_are_shown_and_all_are_kept() {
    let p = product();
    let id = p.run("head -c 100000 /dev/zero | tr '\\0' a; head -c 200000 /dev/zero | tr '\\0' b");
    p.wait(&id);
    let page = p.json(["log", &id]);
    let output = page["output"].as_str().unwrap();
    assert!(output.len() == 200_000 && output.bytes().all(|b| b == b'b'), "{} characters", output.len());
    assert_eq!((&page["output_cut"], &page["total_lines"]), (&json!(100_000), &json!(1)));
    let raw = p.call(["log", &id, "--raw"]).out;
    assert_eq!((raw.len(), raw.iter().filter(|b| **b == b'a').count()), (300_000, 100_000));
}

#[test]
fn raw_lines_are_all_that_were_asked_for_however_long_they_are_together() {
    let p = product();
    let id = p.run("seq -f 'line %09.0f' 0 39999");
    p.wait(&id);
    for (args, first, count) in [
        (&["-n", "30000"][..], 10_000, 30_000),
        (&["--offset", "5", "--limit", "30000"], 5, 30_000),
        (&["--offset", "39998", "--limit", "30000"], 39_998, 2),
        (&["--from-byte", "150", "--limit", "30000"], 10, 30_000),
        (&["--offset", "35000"], 35_000, 5_000),
    ] {
        let text = p.call([&["log", &id, "--raw"], args].concat()).text();
        let lines: Vec<&str> = text.lines().collect();
        let expected = [format!("line {first:09}"), format!("line {:09}", first + count - 1)];
        assert_eq!((lines.len(), lines[0], lines[lines.len() - 1]), (count, &*expected[0], &*expected[1]), "{args:?}");
    }
}

#[test]
fn case_054_a_follower_that_dies_or_does_not_read_harms_nothing() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("echo first; {}; seq 200000; echo last", gate.wait()));
    let piped = || p.command(["log", &id, "--follow"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let (mut dying, mut idle) = (piped(), piped());
    let mut byte = [0];
    for follower in [&mut dying, &mut idle] {
        std::io::Read::read_exact(follower.stdout.as_mut().unwrap(), &mut byte).unwrap();
    }
    dying.kill().unwrap();
    dying.wait().unwrap();
    gate.open();
    // The idle reader holds far less than there is, so the command does not wait for it.
    assert_eq!(p.wait(&id)["exit_code"], 0);
    let raw = p.call(["log", &id, "--raw"]).text();
    assert!(raw.starts_with("first\n1\n2\n") && raw.ends_with("\n200000\nlast\n"));
    assert_eq!(raw.lines().count(), 200_002);
    // And once it does read, it gets everything.
    let rest = idle.wait_with_output().unwrap();
    assert_eq!(rest.stdout.len(), raw.len() - 1);
}

#[test]
fn case_055_output_without_a_reader_is_kept() {
    let p = product();
    let all = printed(&p, "seq 50000");
    assert!(all.starts_with("1\n2\n") && all.ends_with("\n50000\n"));
    assert_eq!(all.lines().count(), 50_000);
}

#[test]
fn case_056_057_059_a_descendant_that_holds_the_output_delays_neither_poll_nor_wait() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("({}; echo late) & echo early; exit 3", gate.wait()));
    let ended = p.json(["wait", &id, "--timeout", "60"]);
    assert_eq!((&ended["status"], &ended["exit_code"], &ended["output"]), (&json!("exited"), &json!(3), &json!("early\n")), "{ended}");
    let polled = p.json(["poll", &id]);
    assert_eq!((&polled["status"], &polled["phase"], &polled["exit_code"]), (&json!("exited"), &json!("draining"), &json!(3)), "{polled}");
    assert_eq!(p.json(["list"])["processes"][0]["left_running"], 1, "what it left is named");
    gate.open();
    eventually("the last writer to let go", || (p.json(["poll", &id])["phase"] == "exited").then_some(()));
    let polled = p.json(["poll", &id]);
    assert_eq!((&polled["exit_code"], &polled["output_preview"]), (&json!(3), &json!("early\nlate\n")), "{polled}");
}

#[test]
fn case_060_what_comes_after_the_end_is_in_the_log_and_reaches_a_follower() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("({}; echo late) & echo early", gate.wait()));
    p.wait(&id);
    let follower = p.command(["log", &id, "--follow"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    gate.open();
    assert_eq!(String::from_utf8(follower.wait_with_output().unwrap().stdout).unwrap(), "early\nlate\n");
    assert_eq!(p.json(["log", &id])["output"], "early\nlate");
}

#[test]
fn case_061_a_command_that_lives_is_running_also_when_it_has_closed_its_output() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("echo said; exec >&- 2>&-; {}; exit 4", gate.wait()));
    eventually("its output to be closed", || p.meta(&id).closed);
    for _ in 0..2 {
        let polled = p.json(["poll", &id]);
        assert_eq!((&polled["status"], &polled["phase"]), (&json!("running"), &json!("running")), "{polled}");
        assert!(polled.get("exit_code").is_none(), "{polled}");
    }
    gate.open();
    assert_eq!(p.wait(&id)["exit_code"], 4);
}

#[test]
fn case_062_an_exit_code_once_told_stays() {
    let p = product();
    let id = p.run("exit 7");
    assert_eq!(p.wait(&id)["exit_code"], 7);
    p.call(["kill", &id]);
    p.call(["signal", &id, "TERM"]);
    p.kill_engine();
    let polled = p.json(["poll", &id]);
    assert_eq!((&polled["exit_code"], &polled["completion_reason"]), (&json!(7), &json!("exited")), "{polled}");
}

#[test]
fn case_063_a_process_without_a_handle_of_ours_is_polled_and_nothing_fails() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let mut stranger = std::process::Command::new("sh").args(["-c", &gate.wait()]).current_dir(p.work()).spawn().unwrap();
    let adopted = p.json(["adopt", &stranger.id().to_string()]);
    let id = adopted["adopted"][0]["session_id"].as_str().unwrap_or_else(|| panic!("{adopted}")).to_owned();
    let polled = p.json(["poll", &id]);
    assert_eq!((&polled["status"], &polled["detached"]), (&json!("running"), &json!(true)), "{polled}");
    assert_eq!(p.json(["log", &id])["output"], "");
    gate.open();
    stranger.wait().unwrap();
    let ended = p.wait(&id);
    // No keeper could see its status, so none is reported.
    assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("exited"), &Value::Null), "{ended}");
}

#[test]
fn case_065_short_processes_one_after_another_leave_no_descriptor_open() {
    let p = product();
    let engine = p.engine();
    let open = || std::fs::read_dir(format!("/proc/{engine}/fd")).unwrap().count();
    let some = |n: u32| {
        for _ in 0..n {
            p.call(["run", "--wait", "--", "true"]).good();
        }
    };
    some(10);
    let before = eventually("a quiet engine", || Some(open()));
    some(40);
    eventually("as many as before", || (open() <= before).then_some(()));
    assert_eq!(p.engine(), engine);
}

#[test]
fn case_066_the_output_of_what_is_long_over_is_still_served() {
    let p = product();
    let id = p.run("echo kept");
    p.wait(&id);
    for _ in 0..2 {
        assert_eq!(p.json(["poll", &id])["output_preview"], "kept\n");
        assert_eq!(p.json(["log", &id])["output"], "kept");
        p.kill_engine();
    }
}

#[test]
fn colours_and_other_escapes_are_stripped_for_readers_and_kept_in_the_raw_log() {
    let p = product();
    let id = p.run(r"printf '\033[1;31mred\033[0m \033]0;title\007plain \033(Bx\n'");
    assert_eq!(p.wait(&id)["output"], "red plain x\n");
    assert_eq!(p.json(["poll", &id])["output_preview"], "red plain x\n");
    assert_eq!(p.json(["list", "--all"])["processes"][0]["output_preview"], "red plain x\n");
    assert_eq!(p.call(["log", &id]).text(), "red plain x\n");
    assert_eq!(p.call(["log", &id, "--follow"]).text(), "red plain x\n");
    assert_eq!(p.call(["log", &id, "--raw"]).text(), "\x1b[1;31mred\x1b[0m \x1b]0;title\x07plain \x1b(Bx\n");
}

const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

#[test]
fn secrets_in_output_and_command_are_masked_wherever_they_are_read() {
    let p = product();
    let line = format!("echo token {TOKEN}");
    let id = p.run(&line);
    p.wait(&id);
    for args in [&["wait", &id][..], &["poll", &id], &["log", &id], &["log", &id, "--follow"], &["list", "--all"]] {
        let said = p.call(["--json"].iter().chain(args));
        assert!(!said.text().contains(TOKEN) && !said.err.contains(TOKEN), "{args:?}: {said:?}");
        let said = p.call(args);
        assert!(!said.text().contains(TOKEN) && !said.err.contains(TOKEN), "{args:?}: {said:?}");
    }
    assert_eq!(p.call(["log", &id]).text(), "token ghp_01...wxyz\n");
    assert_eq!(p.json(["poll", &id])["command"], "echo token ghp_01...wxyz");
    // Nor does it lie in a file of ours once the command has started, its own output aside.
    let found = std::process::Command::new("grep").args(["-rl", TOKEN]).arg(p.home().root).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    assert!(found.lines().all(|f| f.contains("/log")), "{found}");
}

#[test]
fn secrets_are_shown_where_masking_was_switched_off() {
    let by_file = product();
    by_file.configure("security.redact_secrets = false");
    for p in [by_file, product().with_env("OUTLAST_REDACT_SECRETS", "0")] {
        let id = p.run(&format!("echo {TOKEN}"));
        assert_eq!(p.wait(&id)["output"], format!("{TOKEN}\n"));
        assert_eq!(p.call(["log", &id, "--follow"]).text(), format!("{TOKEN}\n"));
    }
}

#[test]
fn a_command_cannot_switch_masking_off() {
    let p = product();
    let id = p.run(&format!("export OUTLAST_REDACT_SECRETS=0; echo {TOKEN}"));
    p.wait(&id);
    let log = p.call(["log", &id]);
    assert!(!log.text().contains(TOKEN), "{log:?}");
}

#[test]
fn output_of_many_writers_at_once_is_complete() {
    let p = product();
    let id = p.run("for w in 1 2 3 4; do (for i in $(seq 500); do echo $w-$i; done) & done; wait");
    p.wait(&id);
    let raw = p.call(["log", &id, "--raw"]).text();
    for w in 1..=4 {
        let own: Vec<_> = raw.lines().filter(|l| l.starts_with(&format!("{w}-"))).collect();
        assert_eq!(own, (1..=500).map(|i| format!("{w}-{i}")).collect::<Vec<_>>());
    }
    until_printed(&p, &id, "4-500");
}
