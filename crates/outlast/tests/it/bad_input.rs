//! What makes no sense is refused in words that say what to do, and nothing comes of it.

use crate::support::*;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const UNKNOWN: &str = "proc_00000000dead";

/// Every verb that names a process.
fn verbs(id: &str) -> Vec<Vec<&str>> {
    let mut all: Vec<Vec<&str>> = ["poll", "log", "wait", "kill", "close", "rm", "rerun"].map(|verb| vec![verb, id]).to_vec();
    all.extend([
        vec!["signal", id, "TERM"],
        vec!["write", id, "x"],
        vec!["submit", id, "x"],
        vec!["log", id, "--follow"],
        vec!["kill", id, "--grace", "0"],
    ]);
    all
}

#[test]
fn case_79_an_unknown_id_is_told_by_every_verb() {
    let p = product();
    for args in verbs(UNKNOWN) {
        let answer = p.call(args.iter().chain(&["--json"]));
        let said = answer.json();
        assert_eq!((said["status"].as_str(), said["code"].as_str()), (Some("not_found"), Some("not_found")), "{args:?}: {said}");
        assert_eq!(said["error"].as_str(), Some(format!("No process with ID {UNKNOWN}").as_str()), "{args:?}");
        assert!(said["hint"].as_str().is_some_and(|h| h.contains("outlast list")), "{args:?}: {said}");
        assert!(answer.code.is_some_and(|c| c != 0), "{args:?}");
        let people = p.call(&args);
        assert!(people.err.contains(UNKNOWN) && people.code == answer.code && people.out.is_empty(), "{args:?}: {people:?}");
    }
    assert_eq!(p.json(["list", "--all"]), json!({"processes": []}));
}

#[test]
fn what_is_no_id_and_no_name_is_told_by_every_verb() {
    let p = product();
    let long = "a".repeat(100_000);
    let (malformed, unknown) = ("bad_id", "not_found");
    for (id, code) in [
        ("", malformed),
        ("a\tb", malformed),
        (&long, malformed),
        (" ", unknown),
        ("abc", unknown),
        ("proc_", unknown),
        ("proc_abc", unknown),
        ("proc_0123456789abc", unknown),
        ("0123456789abcdef", unknown),
        ("proc_xyzw", unknown),
        ("../../etc", unknown),
        ("a b", unknown),
        ("é", unknown),
        ("-", unknown),
    ] {
        for args in verbs(id) {
            let (verb, rest) = args.split_first().unwrap();
            // Behind `--`, where an id that looks like a flag is none.
            let flags: Vec<&str> = rest.iter().copied().filter(|a| a.starts_with("--")).collect();
            if !flags.is_empty() {
                continue;
            }
            let answer = p.call([*verb, "--json", "--"].iter().chain(rest));
            let said = answer.json();
            assert_eq!((said["status"].as_str(), said["code"].as_str()), (Some("not_found"), Some(code)), "{verb} {id:.20?}: {said}");
            assert!(said.to_string().len() < 1_000, "an answer is not as long as the question");
        }
    }
}

#[test]
fn case_102_a_prefix_must_be_long_enough_and_mean_one() {
    let p = product();
    let (a, b) = ("proc_abcd00000001", "proc_abcd00000002");
    for id in [a, b] {
        p.run_with(&["--id", id], "exec sleep 1000");
    }
    let answer = p.call(["poll", "--json", "abcd"]);
    let said = answer.json();
    assert_eq!((said["code"].as_str(), answer.code), (Some("ambiguous_id"), Some(1)), "{said}");
    assert!(said["error"].as_str().is_some_and(|e| e.contains(a) && e.contains(b)), "{said}");
    for name in ["abcd00000001", "ABCD00000001", a] {
        assert_eq!(p.json(["poll", name])["session_id"], a);
    }
    assert_eq!(p.json(["poll", "proc_abcd0000000"])["code"], "ambiguous_id");
    assert_eq!(p.json(["poll", "abc"])["code"], "not_found");
    p.json(["kill", b]);
    p.json(["rm", b]);
    assert_eq!(p.json(["poll", "abcd"])["session_id"], a, "one that is gone is no candidate");
    // An agent's prefix is about its own.
    let foreign = Answer::from(p.command(["poll", "--json", "abcd"]).env("OUTLAST_SESSION", "s").output().unwrap()).json();
    assert_eq!(foreign["status"], "not_found", "{foreign}");
}

#[test]
fn an_id_that_is_to_be_given_must_be_a_whole_one() {
    let p = product();
    for id in ["abcd", "proc_12345", "proc_0123456789AZ", ""] {
        let answer = p.call(["run", "--json", "--id", id, "--", "true"]);
        assert_eq!((answer.json()["code"].as_str(), answer.code), (Some("usage"), Some(125)), "{id:?}");
    }
}

#[test]
fn an_empty_command_is_refused() {
    let p = product();
    for (words, input) in [(&[""][..], &b""[..]), (&["  \n\t "], b""), (&["-"], b""), (&["-"], b"\n\n"), (&["", "argument"], b"")] {
        let answer = p.call_with_input(["run", "--json", "--"].iter().chain(words), input);
        let said = answer.json();
        assert!(said["error"].as_str().is_some_and(|e| e.contains("empty")), "{words:?}: {said}");
        assert_eq!(answer.code, Some(125), "{words:?}: {said}");
    }
    assert_eq!(p.call(["run", "--json"]).json()["code"], "usage");
    assert_eq!(p.json(["list", "--all"]), json!({"processes": []}));
}

#[test]
fn a_program_that_is_not_there_or_may_not_be_run_is_a_failed_start() {
    let p = product();
    std::fs::write(p.work().join("plain"), "not a program").unwrap();
    for (program, code) in [("no-such-program-anywhere", 127), ("./plain", 126), ("/", 126)] {
        let answer = p.call(["run", "--json", "--", program, "argument"]);
        let said = answer.json();
        assert_eq!(
            (said["code"].as_str(), said["phase"].as_str(), answer.code),
            (Some("failed_start"), Some("failed_start"), Some(code)),
            "{said}"
        );
        assert_eq!((said.get("exit_code"), said["completion_reason"].as_str()), (Some(&Value::Null), Some("failed_start")), "{said}");
        let id = said["session_id"].as_str().unwrap();
        let polled = p.json(["poll", id]);
        assert!(polled["start_error"].as_str().is_some_and(|e| e.contains(program)), "listed, pollable, explained: {polled}");
        assert_eq!(p.call(["wait", id]).code, Some(code));
    }
}

#[test]
fn a_command_line_of_2_mib_is_run_or_refused_with_a_clear_error() {
    let p = product();
    // As one word, which the system passes to no program.
    let line = format!("echo begin; : {}; echo end", "x".repeat(2 << 20));
    let answer = p.call_with_input(["run", "--json", "-"], line.as_bytes());
    let answer = if answer.json()["code"] == "usage" { p.call_with_input(["run", "--json", "--", "-"], line.as_bytes()) } else { answer };
    let said = answer.json();
    assert_eq!((said["code"].as_str(), answer.code), (Some("bad_spec"), Some(125)), "{said:.300}");
    assert!(said["error"].as_str().is_some_and(|e| e.contains("bytes long")), "{said:.300}");
    assert!(said.to_string().len() < 1_000);
    assert_eq!(p.json(["list", "--all"]), json!({"processes": []}), "nothing came of it");
    assert!(std::fs::read_dir(p.home().processes()).unwrap().next().is_none(), "and nothing is left of it");
    // As many words, which it does.
    let words: Vec<String> = (0..1_000).map(|n| format!("{n:01500}")).collect();
    let started = p.json(["run", "--", "sh", "-c", "echo $#", "sh"].iter().map(|s| s.to_string()).chain(words));
    assert_eq!(p.wait(started["session_id"].as_str().unwrap())["output"], "1000\n");
}

#[test]
fn a_nul_byte_is_refused() {
    let p = product();
    let answer = p.call_with_input(["run", "--json", "--", "-"], b"echo a\0b");
    let said = answer.json();
    assert_eq!((said["code"].as_str(), answer.code), (Some("bad_spec"), Some(125)), "{said}");
    assert!(said["error"].as_str().is_some_and(|e| e.contains("NUL")), "{said}");
    std::fs::write(p.work().join("env"), b"A=x\0y\n").unwrap();
    let said = p.json(["run", "--env-file", "env", "--", "true"]);
    assert!(said["error"].as_str().is_some_and(|e| e.contains("NUL")), "{said}");
    assert_eq!(p.json(["list", "--all"]), json!({"processes": []}));
}

#[test]
fn an_environment_of_a_mib_arrives_whole() {
    let p = product();
    let value = "v".repeat(64 << 10);
    let mut call = p.command(["run", "--json", "--", "i=1; while [ $i -le 16 ]; do eval \"echo \\${#BIG_$i}\"; i=$((i+1)); done"]);
    call.envs((1..=16).map(|n| (format!("BIG_{n}"), &value)));
    let started = Answer::from(call.output().unwrap()).json();
    let id = started["session_id"].as_str().unwrap_or_else(|| panic!("{started}"));
    assert_eq!(p.wait(id)["output"], "65536\n".repeat(16));
    p.kill_engine();
    assert_eq!(p.json(["poll", id])["exit_code"], 0);
}

#[test]
fn an_environment_that_no_program_can_be_given_is_refused_or_told_as_a_failed_start() {
    let p = product();
    let file: String = (0..64).map(|n| format!("BIG_{n}={}\n", "v".repeat(64 << 10))).collect();
    std::fs::write(p.work().join("env"), file).unwrap();
    let answer = p.call(["run", "--json", "--env-file", "env", "--", "true"]);
    let said = answer.json();
    assert!(matches!(said["code"].as_str(), Some("bad_spec" | "failed_start")), "{said:.300}");
    assert!(answer.code.is_some_and(|c| c != 0) && said["error"].as_str().is_some_and(|e| !e.is_empty()));
    assert!(!p.json(["list", "--all"]).to_string().contains("running"));
}

#[test]
fn arguments_and_output_that_are_no_text_stay_as_they_are() {
    let p = product();
    let odd = OsString::from_vec(b"a\xff\xfe\x80b".to_vec());
    let args = ["run", "--json", "--", "printf", "%s"].map(OsStr::new);
    let started = p.call(args.into_iter().chain([odd.as_os_str()])).json();
    let id = started["session_id"].as_str().unwrap_or_else(|| panic!("{started}"));
    assert_eq!(p.wait(id)["output"], "a\u{fffd}\u{fffd}\u{fffd}b");
    assert_eq!(p.call(["log", "--raw", id]).out, odd.as_bytes());
    assert!(started["command"].as_str().unwrap().contains("printf"), "{started}");
    // As a shell line, a directory, a variable.
    let dir = p.work().join(&odd);
    std::fs::create_dir(&dir).unwrap();
    let line = OsString::from_vec(b"printf '%s' \"$V\xc3\xa9\xff\"; pwd".to_vec());
    let mut variable = OsString::from("V=");
    variable.push(&odd);
    let args = [
        OsStr::new("run"),
        OsStr::new("--json"),
        OsStr::new("--cwd"),
        dir.as_os_str(),
        OsStr::new("--env"),
        &variable,
        OsStr::new("--"),
        &line,
    ];
    let started = p.call(args).json();
    let id = started["session_id"].as_str().unwrap_or_else(|| panic!("{started}"));
    p.wait(id);
    let mut wanted = odd.as_bytes().to_vec();
    wanted.extend(b"\xc3\xa9\xff");
    wanted.extend(dir.as_os_str().as_bytes());
    wanted.push(b'\n');
    assert_eq!(p.call(["log", "--raw", id]).out, wanted);
    p.kill_engine();
    assert_eq!(p.call(["log", "--raw", id]).out, wanted, "also after a crash");
}

#[test]
fn numbers_that_make_no_sense_are_refused() {
    let p = product();
    let id = p.run("exec sleep 1000");
    for args in [
        &["wait", &id, "--timeout", "0"][..],
        &["wait", &id, "--timeout", "-1"],
        &["wait", &id, "--timeout", "soon"],
        &["kill", &id, "--grace", "-1"],
        &["kill", &id, "--grace", "nan"],
        &["kill", &id, "--grace", "1", "--no-escalate"],
        &["kill", &id, "--task", "t"],
        &["kill"],
        &["kill", &id, "--all"],
        &["log", &id, "--limit", "0"],
        &["log", &id, "--offset", "-1"],
        &["signal", &id, "0"],
        &["signal", &id, "NOPE"],
        &["signal", &id, "99"],
        &["run", "--timeout", "0", "--", "true"],
        &["run", "--timeout", "-2", "--", "true"],
        &["run", "--name", "", "--", "true"],
        &["run", "--name", "a\nb", "--", "true"],
        &["run", "--session", "", "--", "true"],
        &["run", "--pty", "--stdin", "--", "true"],
        &["run", "--env", "=2", "--", "true"],
        &["frobnicate"],
        &[],
    ] {
        let answer = p.call(args.iter().take_while(|a| **a != "--").chain(&["--json"]).chain(args.iter().skip_while(|a| **a != "--")));
        let said = answer.json();
        assert!(answer.code.is_some_and(|c| c != 0), "{args:?}: {said}");
        assert!(said["error"].as_str().is_some_and(|e| !e.is_empty()), "{args:?}: {said}");
    }
    assert_eq!(p.json(["poll", &id])["phase"], "running", "none of it reached the process");
    assert_eq!(p.json(["list", "--all"])["processes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn one_more_than_may_run_is_refused() {
    let p = product();
    p.configure("limits.max_running = 2");
    let first = p.run("exec sleep 1000");
    p.run("exec sleep 1000");
    let answer = p.call(["run", "--json", "--", "exec sleep 1000"]);
    let said = answer.json();
    assert_eq!((said["code"].as_str(), answer.code), (Some("too_many_running"), Some(125)), "{said}");
    p.json(["kill", &first]);
    p.run("exec sleep 1000");
}

#[test]
fn a_mistyped_name_gets_a_suggestion() {
    let p = product();
    let id = p.run_with(&["--name", "frontend", "--session", "chat:42"], "exec sleep 1000");
    let hint = |args: &[&str]| p.json(args)["hint"].as_str().unwrap_or_default().to_owned();
    let named = format!("did you mean frontend ({id})?");
    assert!(hint(&["poll", "forntend"]).starts_with(&named) && hint(&["log", "forntend"]).starts_with(&named));
    let digits = &id["proc_".len()..];
    let swapped: String =
        format!("{}{}", &digits[..10], digits[10..].chars().map(|c| if c == '0' { '1' } else { '0' }).collect::<String>());
    assert!(hint(&["poll", &format!("proc_{swapped}")]).starts_with(&format!("did you mean {id}?")));
    assert!(hint(&["poll", &digits[..3]]).starts_with(&format!("did you mean {id}?")), "too few digits");
    assert!(!hint(&["poll", "nonsense"]).contains("did you mean"));
    let said = p.call(["kill", "frontent"]);
    assert!(said.code == Some(1) && said.err.contains(&named), "{said:?}");
    // Another conversation hears nothing of it, but why.
    let other = p.command(["poll", "--json", &id]).env("OUTLAST_SESSION", "chat:7").output().unwrap();
    let other = Answer::from(other).json();
    let why = other["hint"].as_str().unwrap();
    assert!(why.contains("OUTLAST_SESSION is chat:7") && !why.contains("did you mean") && !why.contains("chat:42"), "{other}");
    assert_eq!(p.json(["list", "--session", "chat:24"])["hint"], "no process is of the session chat:24; did you mean chat:42?");
    assert!(p.json(["list", "--session", "chat:42"]).get("hint").is_none());
    let own = Answer::from(p.command(["list", "--json"]).env("OUTLAST_SESSION", "chat:24").output().unwrap()).json();
    assert!(own.get("hint").is_none(), "a conversation that has started nothing is none that was misspelt: {own}");
    for args in [&["kill", "--all", "--session", "chat:43"][..], &["clean", "--session", "chat:43"], &["interrupt", "--session", "chat:43"]]
    {
        assert!(p.call(args).err.contains("did you mean chat:42?"), "{args:?}");
    }
    assert!(p.call(["signal", &id, "SIGTREM"]).err.contains("did you mean TERM?"));
    assert!(p.call(["lsit"]).err.contains("list") && p.call(["run", "--notfy", "--", "x"]).err.contains("--notify"));
    p.configure("[retention]\nday = 3\n");
    assert!(p.call(["list"]).err.contains("unknown key retention.day, which does nothing; did you mean retention.days?"));
    assert_eq!(p.json(["poll", &id])["status"], "running", "nothing was changed by any of it");
}

#[test]
fn a_mistyped_verb_and_missing_ids_are_answered_with_what_can_be_typed() {
    let p = product();
    let said = p.call(["lst"]);
    assert!(said.code == Some(2) && said.err.contains("exist: 'list', 'ls'"), "{said:?}");
    for (verb, tip) in [
        ("kill", "tip: `--all` stops every running process, `--label KEY=VALUE` those with a label"),
        ("tail", "tip: `--label KEY=VALUE` shows all processes with a label"),
        ("wait", "tip: `--label KEY=VALUE` waits for all processes with a label"),
    ] {
        let said = p.call([verb]);
        assert!(said.err.contains(tip), "{verb}: {said:?}");
        let hint = p.call([verb, "--json"]).json()["hint"].clone();
        assert!(hint.as_str().unwrap().contains("--label"), "{verb}: {hint}");
    }
    let said = p.call(["log", "web", "-n", "2x"]);
    assert!(said.err.contains("invalid value '2x'") && said.err.contains("must be a whole number, such as 100"), "{said:?}");
}
