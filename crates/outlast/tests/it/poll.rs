//! `poll`: how one process is.

use crate::gate::{Gate, until_printed};
use crate::kill::kill_both_keepers;
use crate::support::*;

#[test]
fn case_079_an_unknown_id_is_not_found_by_any_verb() {
    let p = product();
    let id = "proc_ffffffffffff";
    let verbs: [&[&str]; 12] = [
        &["poll", id],
        &["log", id],
        &["log", id, "--raw"],
        &["log", id, "--follow"],
        &["wait", id],
        &["kill", id],
        &["signal", id, "TERM"],
        &["write", id, "x"],
        &["submit", id, "x"],
        &["close", id],
        &["rerun", id],
        &["rm", id],
    ];
    for verb in verbs {
        let said = p.call(["--json"].iter().chain(verb));
        assert_ne!(said.code, Some(0), "{verb:?}");
        let answer = said.json();
        assert_eq!((&answer["status"], &answer["code"]), (&json!("not_found"), &json!("not_found")), "{verb:?}: {answer}");
        assert_eq!(answer["error"], "No process with ID proc_ffffffffffff", "{verb:?}");
        let said = p.call(verb);
        assert!(said.err.contains(id) && said.out.is_empty(), "{verb:?}: {said:?}");
    }
}

#[test]
fn case_080_a_running_process_shows_preview_command_pid_and_uptime_and_no_exit_code() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!("echo some output; {}", gate.wait());
    let id = p.run(&line);
    until_printed(&p, &id, "some output");
    let polled = p.json(["poll", &id]);
    assert_eq!((&polled["status"], &polled["output_preview"]), (&json!("running"), &json!("some output\n")), "{polled}");
    assert_eq!((&polled["command"], &polled["session_id"]), (&json!(line), &json!(id)));
    assert!(polled["pid"].as_u64().is_some() && polled["uptime_seconds"].as_u64().is_some(), "{polled}");
    for absent in ["exit_code", "completion_reason", "termination_source", "ended_at", "signal"] {
        assert!(polled.get(absent).is_none(), "{absent}: {polled}");
    }
}

#[test]
fn case_081_an_exited_process_shows_code_reason_source_and_end() {
    let p = product();
    let id = p.run("exit 3");
    p.wait(&id);
    let polled = p.json(["poll", &id]);
    assert_eq!((&polled["status"], &polled["phase"], &polled["exit_code"]), (&json!("exited"), &json!("exited"), &json!(3)), "{polled}");
    assert_eq!((&polled["completion_reason"], &polled["termination_source"]), (&json!("exited"), &json!("")), "{polled}");
    assert!(polled["pid"].as_u64().is_some(), "{polled}");
    let (started, ended) = (polled["started_at"].as_str().unwrap(), polled["ended_at"].as_str().unwrap());
    assert!(started < ended && started.ends_with('Z') && ended.ends_with('Z'), "{polled}");
    // Uptime stops at the end.
    assert_eq!(polled["uptime_seconds"], 0, "{polled}");
    let killed = p.run("sleep 600");
    p.call(["kill", &killed]).good();
    let polled = p.json(["poll", &killed]);
    assert_eq!((&polled["completion_reason"], &polled["termination_source"]), (&json!("killed"), &json!("process.kill")), "{polled}");
    // What is over is in the list with the same pid.
    let listed = p.json(["list", "--all"]);
    let entry = listed["processes"].as_array().unwrap().iter().find(|e| e["session_id"] == killed.as_str()).unwrap();
    assert_eq!(entry["pid"], polled["pid"]);
}

#[test]
fn case_083_of_3000_characters_the_last_1000_are_the_preview() {
    let p = product();
    let id = p.run("for i in $(seq 30); do head -c 99 /dev/zero | tr '\\0' a; echo; done");
    p.wait(&id);
    let polled = p.json(["poll", &id]);
    let preview = polled["output_preview"].as_str().unwrap();
    assert_eq!(preview.len(), 1000);
    // Cut at a line, and the cut is told.
    assert!(preview.lines().all(|l| l.len() == 99), "{preview}");
    assert_eq!((&polled["output_cut"], &polled["output_bytes"]), (&json!(2000), &json!(3000)), "{polled}");
    // Characters, not bytes; and a line that is too long is cut at one.
    let id = p.run("for i in $(seq 1500); do printf é; done");
    p.wait(&id);
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["output_preview"].as_str().unwrap(), &polled["output_cut"]), ("é".repeat(1000).as_str(), &json!(500)), "{polled}");
}

#[test]
fn case_084_no_remains_of_an_escape_sequence_are_shown_wherever_the_cut_falls() {
    let p = product();
    // One line whose every visible character is in a sequence of its own.
    let id = p.run(r"for i in $(seq 2000); do printf '\033[38;5;%dmx' $((i % 256)); done");
    p.wait(&id);
    let preview = p.json(["poll", &id])["output_preview"].as_str().unwrap().to_owned();
    assert_eq!(preview, "x".repeat(1000));
    assert_eq!(p.json(["list", "--all"])["processes"][0]["output_preview"], "x".repeat(200));
}

#[test]
fn case_084_a_sequence_that_is_not_finished_yet_is_not_shown_in_part() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!(r"printf 'ok\033[3'; {}; printf '1mred\n'", gate.wait()));
    until_printed(&p, &id, "ok\x1b[3");
    assert_eq!(p.json(["poll", &id])["output_preview"], "ok");
    gate.open();
    assert_eq!(p.wait(&id)["output"], "okred\n");
}

#[test]
fn case_101_an_answer_with_the_exit_has_the_code_too() {
    let p = product();
    let id = p.run("exit 6");
    let seen = eventually("the end", || Some(p.json(["poll", &id])).filter(|polled| polled["status"] == "exited"));
    assert_eq!(seen["exit_code"], 6, "{seen}");
    let listed = p.json(["list", "--all"]);
    assert_eq!((&listed["processes"][0]["status"], &listed["processes"][0]["exit_code"]), (&json!("exited"), &json!(6)));
}

#[test]
fn case_102_a_unique_prefix_of_four_digits_names_a_process_and_an_exact_id_wins() {
    let p = product();
    let ids = ["proc_abcd00000001", "proc_abcd00000002", "proc_abce00000001"];
    for (code, id) in ids.iter().enumerate() {
        p.call(["run", "--wait", "--id", id, "--", &format!("exit {code}")]);
    }
    for (name, id) in [("abce", ids[2]), ("proc_abce", ids[2]), ("abcd00000002", ids[1]), ("proc_abcd00000001", ids[0]), ("ABCE", ids[2])] {
        assert_eq!(p.json(["poll", name])["session_id"], *id, "{name}");
    }
    let ambiguous = p.json(["poll", "abcd"]);
    assert_eq!(ambiguous["code"], "ambiguous_id", "{ambiguous}");
    assert!(ambiguous["error"].as_str().unwrap().contains(ids[0]) && ambiguous["error"].as_str().unwrap().contains(ids[1]), "{ambiguous}");
    for none in ["abc", "proc_abc", "abcf", "", "proc_", "zzzz", "abce000000010"] {
        let said = p.json(["poll", none]);
        assert_eq!(said["status"], "not_found", "{none:?}: {said}");
    }
}

#[test]
fn people_read_local_times_and_programs_utc() {
    let p = product();
    let id = p.run("true");
    p.wait(&id);
    let started = p.json(["poll", &id])["started_at"].as_str().unwrap().to_owned();
    assert!(started.ends_with('Z'), "{started}");
    let shown = |zone: &str| {
        let out = p.command(["poll", &id]).env("TZ", zone).output().unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix("started")).unwrap().trim().to_owned();
        line.split(", ").next().unwrap().to_owned()
    };
    // Zones half a day apart: in at least one of them it is the same day as now.
    let clock = |hours: i64| {
        let of_day: i64 = started[11..13].parse::<i64>().unwrap();
        format!("{:02}{}", (of_day + hours).rem_euclid(24), &started[13..19])
    };
    for (zone, hours) in [("UTC0", 0), ("EAST-5", 5), ("WEST+7", -7)] {
        let shown = shown(zone);
        assert!(shown.ends_with(&clock(hours)) && !shown.contains('T'), "{zone}: {shown} for {started}");
    }
}

#[test]
fn the_time_limit_of_a_process_is_shown_while_it_runs() {
    let p = product();
    let id = p.run_with(&["--timeout", "1h"], "exec sleep 1000");
    let shown = p.json(["poll", &id]);
    let time = |field: &str| shown[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let limit = time("deadline_at").duration_since(time("started_at")).as_secs();
    assert_eq!(limit, 3_600, "{shown}");
    let text = p.call(["poll", &id]).good().text();
    assert!(text.lines().any(|line| line.starts_with("time limit") && line.contains("is stopped at ")), "{text}");
    p.json(["kill", &id, "--grace", "0"]);
    assert!(p.json(["poll", &id]).get("deadline_at").is_none());
    assert!(!p.call(["poll", &id]).good().text().contains("time limit"));
}

#[test]
fn a_lost_process_is_known_to_have_run_until_its_last_output() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("sleep 1.1; echo last; {}", gate.wait()));
    eventually("its output", || (p.json(["poll", &id])["output_bytes"] == 5).then_some(()));
    kill_both_keepers(&p, &id);
    eventually("the orphan", || (p.json(["poll", &id])["phase"] == "orphaned").then_some(()));
    gate.open();
    let polled = eventually("the loss", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "lost"));
    let time = |field: &str| polled[field].as_str().unwrap_or_else(|| panic!("{field}: {polled}")).to_owned();
    // Times of one zone in one form compare as texts.
    assert!(time("started_at") < time("last_output_at") && time("last_output_at") <= time("found_ended_at"), "{polled}");
    assert!(polled["uptime_seconds"].as_u64() >= Some(1) && polled["is_uptime_at_least"] == true, "{polled}");
    let shown = p.call(["poll", &id]).good().text();
    assert!(shown.contains("(last output at ") && shown.contains("at least "), "{shown}");
    assert_eq!(p.json(["list", "--state", "lost"])["processes"][0]["uptime_seconds"], polled["uptime_seconds"]);
}
