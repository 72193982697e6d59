//! The end of a process is told to its owner, once.

use crate::gate::Gate;
use crate::support::*;
use crate::told::*;

#[test]
fn case_067_without_the_flag_nothing_is_told() {
    let p = product();
    let id = p.run_with(&["--session", "s"], "echo out");
    p.wait(&id);
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
    assert!(history(&p, &[]).is_empty());
}

#[test]
fn case_068_069_an_end_is_told_with_its_code_and_output() {
    let p = product();
    let good = ended(&p, "s", "echo fine");
    let bad = ended(&p, "s", "echo broken; exit 1");
    let told = drained_with_texts(&p, "s");
    let want = [(&good, "echo fine", 0, "fine\n", "completed normally"), (&bad, "echo broken; exit 1", 1, "broken\n", "exited")];
    assert_eq!(told.len(), 2, "{told:?}");
    for ((event, text), (id, command, code, output, how)) in told.iter().zip(want) {
        assert_eq!(event["type"], "completion");
        assert_eq!((&event["session_id"], &event["session_key"]), (&json!(id), &json!("s")), "{event}");
        assert_eq!((&event["command"], &event["exit_code"], &event["output"]), (&json!(command), &json!(code), &json!(output)), "{event}");
        assert_eq!((&event["completion_reason"], &event["termination_source"]), (&json!("exited"), &json!("")), "{event}");
        for ours in ["event_id", "seq", "created_at", "started_at", "ended_at"] {
            assert!(!event[ours].is_null(), "{ours}: {event}");
        }
        let first = format!("[IMPORTANT: Background process {id} {how} (exit code {code}).");
        assert_eq!(text, &format!("{first}\nCommand: {command}\nOutput:\n| {output}]"));
    }
}

#[test]
fn case_071_what_was_cut_off_is_told_and_lines_stay_whole() {
    let p = product();
    ended(&p, "s", "for i in $(seq 1000 1999); do echo line-$i; done");
    let (event, text) = drained_with_texts(&p, "s").remove(0);
    let output = event["output"].as_str().unwrap();
    assert!(output.starts_with("line-") && output.ends_with("line-1999\n") && output.len() <= 2000, "{output}");
    let cut = 10_000 - output.len();
    assert_eq!(event["output_cut"], json!(cut), "{event}");
    assert!(text.contains(&format!("\n({cut} characters of output before this were cut)\nOutput:\n| line-")), "{text}");
}

#[test]
fn case_072_three_ends_are_three_notices() {
    let p = product();
    let ids: Vec<String> = (0..3).map(|n| ended(&p, "s", &format!("exit {n}"))).collect();
    let told = drained(&p, "s");
    assert_eq!(about(&told), ids.iter().map(String::as_str).collect::<Vec<_>>());
    let mut names: Vec<&str> = told.iter().map(|e| e["event_id"].as_str().unwrap()).collect();
    names.dedup();
    assert_eq!(names.len(), 3);
}

#[test]
fn case_073_161_221_a_stop_and_the_end_it_brings_are_one_notice() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &gate.wait());
    // A person stops it, which is no act of its owner.
    p.call(["kill", &id]).good();
    let told = drained_with_texts(&p, "s");
    assert_eq!(told.len(), 1, "{told:?}");
    let (event, text) = &told[0];
    assert_eq!((&event["completion_reason"], &event["termination_source"]), (&json!("killed"), &json!("process.kill")), "{event}");
    assert_eq!((&event["exit_code"], &event["signal"]), (&json!(-15), &json!("SIGTERM")), "{event}");
    assert!(text.contains(&format!("{id} terminated by process.kill (exit code -15, SIGTERM).")), "{text}");
    assert_eq!(history(&p, &["--process", &id]).len(), 1);
}

#[test]
fn case_162_a_signal_from_outside_does_not_read_as_ours() {
    let p = product();
    ended(&p, "s", "kill -TERM $$");
    let (event, text) = drained_with_texts(&p, "s").remove(0);
    assert_eq!((&event["completion_reason"], &event["exit_code"]), (&json!("exited"), &json!(-15)), "{event}");
    assert!(text.contains(" exited (exit code -15, SIGTERM).") && !text.contains("terminated by"), "{text}");
}

#[test]
fn case_074_no_piece_of_an_escape_sequence_is_told() {
    let p = product();
    // The cut falls somewhere into these.
    ended(&p, "s", "for i in $(seq 500); do printf '\\033[31mred\\033[0m\\n'; done");
    let output = drained(&p, "s").remove(0)["output"].as_str().unwrap().to_owned();
    assert!(output.lines().all(|line| line == "red") && output.lines().count() > 100, "{output:?}");
}

#[test]
fn case_075_a_client_woken_by_the_end_finds_the_notice() {
    let p = product();
    for n in 0..20 {
        let id = ended(&p, "s", &format!("sleep 0.0{n}"));
        assert_eq!(states(&p, &id), ["pending"], "round {n}");
    }
}

#[test]
fn case_077_121_a_notice_says_where_its_owner_is() {
    let p = product();
    let mut flags = vec!["--notify", "--session", "s", "--task", "t"];
    for part in ["platform=irc", "chat=#dev=x", "user=u1", "name=Ada L.", "thread=9", "message=m7"] {
        flags.extend(["--route", part]);
    }
    let id = p.run_with(&flags, "true");
    p.wait(&id);
    let event = drained(&p, "s").remove(0);
    for (field, want) in [
        ("platform", "irc"),
        ("chat_id", "#dev=x"),
        ("user_id", "u1"),
        ("user_name", "Ada L."),
        ("thread_id", "9"),
        ("message_id", "m7"),
        ("session_key", "s"),
        ("task_id", "t"),
    ] {
        assert_eq!(event[field], want, "{field}: {event}");
    }
}

#[test]
fn case_078_more_output_is_told_where_that_was_asked_for() {
    let p = product();
    let line = "head -c 7000 /dev/zero | tr '\\0' a";
    for (chars, want) in [("5000", 5000), ("10", 10), ("200000", 7000)] {
        let id = p.run_with(&["--notify", "--session", "s", "--notify-chars", chars], line);
        p.wait(&id);
        let event = drained(&p, "s").remove(0);
        assert_eq!(event["output"].as_str().unwrap().len(), want, "{event}");
    }
    for bad in ["0", "200001", "4294967296", "-1", "many"] {
        let refused = p.call(["run", "--json", "--notify", "--notify-chars", bad, "--", "true"]);
        assert_eq!(refused.code, Some(125), "{bad}: {refused:?}");
    }
}

#[test]
fn case_013_the_fastest_command_is_told_of() {
    let p = product();
    let ids: Vec<String> = (0..30).map(|_| p.run_with(&["--notify", "--session", "s"], "true")).collect();
    for id in &ids {
        p.wait(id);
    }
    let mut told = drained(&p, "s");
    told.sort_by_key(|e| ids.iter().position(|id| e["session_id"] == **id));
    assert_eq!(about(&told), ids.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(told.iter().all(|e| e["exit_code"] == 0), "{told:?}");
}

#[test]
fn a_start_that_failed_is_told_of() {
    let p = product();
    let id = p.json(["run", "--notify", "--session", "s", "--", "no-such-program", "x"])["session_id"].as_str().unwrap().to_owned();
    let (event, text) = drained_with_texts(&p, "s").remove(0);
    assert_eq!((&event["session_id"], &event["completion_reason"]), (&json!(id), &json!("failed_start")), "{event}");
    assert_eq!(event["exit_code"], Value::Null, "{event}");
    assert!(text.contains("failed to start (exit code ?)"), "{text}");
}

#[test]
fn case_205_an_end_while_no_engine_runs_is_told_with_its_real_code() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &format!("echo before; {}; echo after; exit 7", gate.wait()));
    p.kill_engine();
    gate.open();
    // No engine is asked: the record alone shows the end.
    eventually("the record of the end", || p.meta(&id).ended);
    let told = drained(&p, "s");
    assert_eq!(about(&told), [&*id]);
    assert_eq!((&told[0]["exit_code"], &told[0]["output"]), (&json!(7), &json!("before\nafter\n")), "{told:?}");
    assert!(told[0].get("repeat").is_none(), "{told:?}");
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
}

#[test]
fn an_engine_killed_between_the_end_and_the_drain_forgets_nothing_and_repeats_nothing() {
    let p = product();
    let id = ended(&p, "s", "exit 4");
    for _ in 0..3 {
        p.kill_engine();
        assert_eq!(states(&p, &id), ["pending"]);
    }
    let told = drained(&p, "s");
    assert_eq!((about(&told), told[0].get("repeat")), (vec![&*id], None));
    p.kill_engine();
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
    assert_eq!(states(&p, &id), ["delivered"]);
}

#[test]
fn an_engine_killed_while_it_writes_the_notice_writes_it_once() {
    for point in ["news.before_commit", "news.after_commit"] {
        let p = product();
        let gate = Gate::new(&p, "gate");
        let id = p.run_with(&["--notify", "--session", "s"], &format!("{}; exit 6", gate.wait()));
        p.points().arm(point).unwrap();
        gate.open();
        let engine = eventually(point, || p.points().held(point));
        kill_and_wait(engine).unwrap();
        p.points().release(point).unwrap();
        assert_eq!(p.wait(&id)["exit_code"], 6);
        let told = drained(&p, "s");
        assert_eq!((about(&told), told[0].get("repeat")), (vec![&*id], None), "killed at {point}");
        assert_eq!(drained(&p, "s"), [Value::Null; 0], "killed at {point}");
    }
}

#[test]
fn an_index_that_is_lost_tells_again_and_says_that_it_may_be_a_repeat() {
    let p = product();
    let id = ended(&p, "s", "exit 4");
    let first = drained(&p, "s").remove(0);
    p.call(["engine", "stop"]).good();
    for file in ["index.db", "index.db-wal", "index.db-shm"] {
        let _absent = std::fs::remove_file(p.home().root.join(file));
    }
    let again = drained_with_texts(&p, "s");
    assert_eq!(again.len(), 1, "{again:?}");
    let (event, text) = &again[0];
    // The same id, so that a taker that has stored it recognises the repeat.
    assert_eq!((&event["session_id"], &event["event_id"], &event["repeat"]), (&json!(id), &first["event_id"], &json!(true)), "{event}");
    assert!(text.contains("\n(this may be a repeat)\n"), "{text}");
}

#[test]
fn case_117_attempts_that_failed_can_be_told_from_the_one_that_did_not() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let killed = p.run_with(&["--notify", "--session", "s"], &gate.wait());
    p.call(["kill", &killed, "--grace", "0"]).good();
    ended(&p, "s", "exit 2");
    ended(&p, "s", "true");
    let texts: Vec<String> = drained_with_texts(&p, "s").into_iter().map(|(_, text)| text).collect();
    let want = ["terminated by process.kill (exit code -9, SIGKILL)", "exited (exit code 2)", "completed normally (exit code 0)"];
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts.iter().zip(want).all(|(text, want)| text.contains(want)), "{texts:?}");
}

#[test]
fn case_117_an_attempt_that_is_run_again_is_superseded() {
    let p = product();
    let first = ended(&p, "s", "exit 2");
    let again = p.json(["rerun", &first]);
    let again = again["session_id"].as_str().unwrap_or_else(|| panic!("{again}")).to_owned();
    p.wait(&again);
    assert_eq!(about(&drained(&p, "s")), [&*again]);
    assert_eq!(states(&p, &first), ["superseded"]);
}

#[test]
fn a_rerun_is_told_of_as_the_first_was() {
    let p = product();
    let flags = ["--notify", "--watch", "a b", "--watch", "-c", "--session", "s", "--route", "chat=7", "--notify-chars", "3"];
    let first = p.json(["run"].iter().chain(&flags).chain(&["--", "echo 12345"]));
    for (field, want) in [("notify_on_complete", json!(true)), ("watch_patterns", json!(["a b", "-c"])), ("watch_hit", json!(false))] {
        assert_eq!(first[field], want, "{first}");
    }
    let first = first["session_id"].as_str().unwrap();
    p.wait(first);
    let again = p.json(["rerun", first]);
    for (field, want) in [("notify_on_complete", json!(true)), ("watch_patterns", json!(["a b", "-c"])), ("session_key", json!("s"))] {
        assert_eq!(again[field], want, "{again}");
    }
    p.wait(again["session_id"].as_str().unwrap());
    let told = drained(&p, "s");
    assert_eq!((&told[0]["session_id"], &told[0]["chat_id"], &told[0]["output"]), (&again["session_id"], &json!("7"), &json!("45\n")));
    let listed = p.call(["list", "--all"]).text();
    assert!(listed.contains("NOTIFIES") && listed.contains("end, watch"), "{listed}");
    assert!(p.call(["poll", first]).text().contains("watched for  \"a b\", \"-c\""));
}

#[test]
fn case_227_several_ends_are_one_message_that_asks_for_one_answer() {
    let p = product();
    let ids: Vec<String> = (0..5).map(|_| ended(&p, "s", "true")).collect();
    // An agent's own command, in its own session.
    let drained: Answer = p.command(["events", "drain"]).env("OUTLAST_SESSION", "s").output().unwrap().into();
    let said = drained.good().text();
    assert!(said.starts_with("[IMPORTANT: 5 background notices arrived together"), "{said}");
    assert!(said.contains("one consolidated answer"), "{said}");
    assert!(ids.iter().all(|id| said.contains(id.as_str())), "{said}");
    assert_eq!(p.call(["events", "drain", "--session", "s"]).good().text(), "");
}

#[test]
fn case_233_a_secret_is_masked_in_what_is_told() {
    let p = product();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    ended(&p, "s", &format!("echo {secret}"));
    let said = p.call(["events", "drain", "--json", "--session", "s"]).good().text();
    assert!(said.contains("completed normally") && !said.contains(secret), "{said}");
}

#[test]
fn an_engine_that_heard_and_died_before_it_wrote_is_replaced_without_a_client() {
    let p = product();
    let (log, gate) = (p.work().join("told"), Gate::new(&p, "gate"));
    p.configure(&format!("[[hook]]\nname = \"told\"\ncommand = \"cat >> {}\"\n", log.display()));
    let told = |what: &str| {
        let text = eventually(what, || std::fs::read_to_string(&log).ok().filter(|text| text.contains(what)));
        assert_eq!(text.matches(what).count(), 1, "{text}");
    };
    let line = format!("{0}; echo ready; {0}; exit 4", gate.wait());
    p.run_with(&["--notify", "--watch", "ready", "--session", "s"], &line);
    for what in [r#""watch_match""#, r#""completion""#] {
        p.points().arm("news.before_commit").unwrap();
        gate.open();
        // It has heard, and written nothing.
        let engine = eventually("an engine that has heard", || p.points().held("news.before_commit"));
        kill_and_wait(engine).unwrap();
        p.points().release("news.before_commit").unwrap();
        told(what);
    }
}
