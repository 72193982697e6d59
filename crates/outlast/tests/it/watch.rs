//! Lines that match are told to their owner, and never too many of them.

use crate::gate::Gate;
use crate::support::*;
use crate::told::*;
use std::time::Duration;

/// A home with rules of its own. Keepers write down what matches once a second, so that no time here is shorter than that.
fn with_rules(rules: &str) -> Product {
    let p = product();
    p.configure(&format!("[watch]\n{rules}"));
    p
}

fn watched(p: &Product, session: &str, pattern: &str, line: &str) -> String {
    p.run_with(&["--watch", pattern, "--session", session], line)
}

/// Drains until there are this many events.
fn drain_until(p: &Product, session: &str, n: usize) -> Vec<(Value, String)> {
    let mut all = Vec::new();
    eventually("enough notices", || {
        all.extend(drained_with_texts(p, session));
        (all.len() >= n).then_some(())
    });
    all
}

fn kinds(told: &[(Value, String)]) -> Vec<&str> {
    told.iter().map(|(event, _)| event["type"].as_str().unwrap()).collect()
}

#[test]
fn case_014_119_120_the_first_line_is_told_and_what_does_not_occur_is_not() {
    let p = product();
    let id = watched(&p, "s", "ERROR", "echo INFO ok; echo ERROR: disk full");
    watched(&p, "t", "FATAL", "echo ERROR: disk full");
    let told = drain_until(&p, "s", 1);
    let (event, text) = &told[0];
    assert_eq!((told.len(), &event["type"], &event["session_id"]), (1, &json!("watch_match"), &json!(id)), "{told:?}");
    assert_eq!((&event["pattern"], &event["output"], &event["suppressed"]), (&json!("ERROR"), &json!("ERROR: disk full"), &json!(0)));
    let want = format!(
        "[IMPORTANT: Background process {id} matched watch pattern \"ERROR\".\nCommand: echo INFO ok; echo ERROR: disk full\nMatched output:\n| ERROR: disk full\n]"
    );
    assert_eq!(*text, want);
    p.wait(&id);
    // No notice of its end was asked for.
    assert_eq!((drained(&p, "s"), drained(&p, "t")), (vec![], vec![]));
    let shown = p.json(["poll", &id]);
    assert_eq!((&shown["watch_hit"], &shown["watch_patterns"]), (&json!(true), &json!(["ERROR"])), "{shown}");
    assert!(p.call(["list", "--all"]).text().contains("  hit  "));
}

#[test]
fn case_121_a_match_says_where_its_owner_is() {
    let p = product();
    let flags =
        ["--watch", "x", "--session", "s", "--route", "platform=irc", "--route", "chat=7", "--route", "thread=9", "--route", "name=Ada"];
    p.run_with(&flags, "echo x");
    let (event, _) = drain_until(&p, "s", 1).remove(0);
    let got = ["platform", "chat_id", "thread_id", "user_name", "session_key"].map(|field| event[field].as_str().unwrap());
    assert_eq!(got, ["irc", "7", "9", "Ada", "s"], "{event}");
}

#[test]
fn case_122_123_the_first_line_names_the_pattern_and_each_line_is_told_once() {
    let p = product();
    // The program, not the shell's own: all three in one write, and so in one notice.
    let id =
        p.run_with(&["--watch", "WARN", "--watch", "ERROR", "--session", "s"], "env printf 'ERROR: bad\\nWARN: hmm\\nWARN and ERROR\\n'");
    p.wait(&id);
    let (event, _) = drain_until(&p, "s", 1).remove(0);
    assert_eq!((&event["pattern"], &event["output"]), (&json!("ERROR"), &json!("ERROR: bad\nWARN: hmm\nWARN and ERROR")), "{event}");
}

#[test]
fn case_125_126_what_is_quoted_has_a_bound_and_says_so() {
    let p = product();
    watched(&p, "many", "hit", "for i in $(seq 30); do echo hit $i; done | cat");
    let (event, _) = drain_until(&p, "many", 1).remove(0);
    let lines = event["output"].as_str().unwrap().lines().filter(|line| line.starts_with("hit")).count();
    assert!(lines <= 20, "{event}");
    watched(&p, "long", "hit", "head -c 5000 /dev/zero | tr '\\0' a | sed 's/^/hit/'; echo");
    let (event, _) = drain_until(&p, "long", 1).remove(0);
    let output = event["output"].as_str().unwrap();
    assert!(output.ends_with("\n...(truncated)") && output.len() <= 2020 && output.starts_with("hitaaa"), "{output}");
}

#[test]
fn case_127_128_129_133_within_the_spacing_nothing_is_told_and_all_is_counted() {
    let p = with_rules("spacing_seconds = 3\nlifetime = 0");
    let gate = Gate::new(&p, "gate");
    let id = watched(&p, "s", "hit", &format!("echo hit 1; {0}; echo hit 2; echo hit 3; {0}; echo hit 4; {0}", gate.wait()));
    assert_eq!(drain_until(&p, "s", 1)[0].0["output"], "hit 1");
    gate.open();
    crate::gate::until_printed(&p, &id, "hit 3");
    // Counted, not told; nor is it told by the end of the spacing, which is what passes here.
    std::thread::sleep(Duration::from_millis(3_100));
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
    gate.open();
    let (event, text) = drain_until(&p, "s", 1).remove(0);
    assert_eq!((&event["output"], &event["suppressed"]), (&json!("hit 4"), &json!(2)), "{event}");
    assert!(text.ends_with("\n| hit 4\n(2 earlier matches were suppressed by rate limit)\n]"), "{text}");
    gate.open();
}

#[test]
fn case_131_139_223_who_says_too_much_is_watched_no_more_and_its_end_is_told_once() {
    let p = with_rules("spacing_seconds = 2\nstrikes = 2\nlifetime = 0");
    let id = watched(&p, "s", "hit", "for i in $(seq 140); do echo hit $i; sleep 0.05; done; exit 3");
    p.wait(&id);
    let told = drain_until(&p, "s", 4);
    assert_eq!(kinds(&told), ["watch_match", "watch_match", "watch_disabled", "completion"], "{told:?}");
    let (disabled, text) = &told[2];
    let message = disabled["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("Watch patterns disabled for process {id} — 2 consecutive rate-limit windows")), "{message}");
    assert_eq!(*text, format!("[IMPORTANT: {message}]"));
    assert_eq!(told[3].0["exit_code"], 3);
    let shown = p.json(["poll", &id]);
    assert_eq!((&shown["watch_disabled"], &shown["notify_on_complete"]), (&json!(true), &json!(true)), "{shown}");
    // The end of a life of matches, each well apart: it comes a while after the one before was told.
    let p = with_rules("spacing_seconds = 0.5\nlifetime = 2");
    let gate = Gate::new(&p, "gate");
    let id = watched(&p, "s", "hit", &format!("echo hit 1; {0}; sleep 1.2; echo hit 2; {0}; sleep 1.2; echo hit 3", gate.wait()));
    let mut told = drain_until(&p, "s", 1);
    gate.open();
    told.extend(drain_until(&p, "s", 1));
    gate.open();
    p.wait(&id);
    let rest = 4 - told.len();
    told.extend(drain_until(&p, "s", rest));
    assert_eq!(kinds(&told), ["watch_match", "watch_match", "watch_disabled", "completion"], "{told:?}");
}

#[test]
fn case_135_what_is_printed_after_the_end_is_not_told() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = watched(&p, "s", "late", &format!("({}; echo late; {}) & echo done", gate.wait(), gate.wait()));
    assert_eq!(p.wait(&id)["exit_code"], 0);
    gate.open();
    crate::gate::until_printed(&p, &id, "late");
    gate.open();
    eventually("its output's end", || (p.json(["poll", &id])["phase"] == "exited").then_some(()));
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
    assert_eq!(p.json(["poll", &id])["watch_hit"], false);
}

#[test]
fn case_137_138_a_line_in_pieces_and_in_colours_is_told_whole() {
    let p = product();
    watched(&p, "s", "Build ok", "printf 'now: Bui'; sleep 0.1; printf 'ld \\033[32mo\\033[0m'; sleep 0.1; echo 'k!'");
    let (event, _) = drain_until(&p, "s", 1).remove(0);
    assert_eq!(event["output"], "now: Build ok!");
}

#[test]
fn case_140_141_143_224_a_flood_of_all_trips_the_breaker_and_ends_are_told_all_the_same() {
    let p = with_rules("burst = 3\nwindow_seconds = 20\nrest_seconds = 2\nlifetime = 0");
    let (gate, end) = (Gate::new(&p, "gate"), Gate::new(&p, "end"));
    let line = format!("{}; echo hit; {}", gate.wait(), end.wait());
    let ids: Vec<String> =
        (0..5).map(|n| p.run_with(&["--notify", "--watch", "hit", "--session", if n < 3 { "a" } else { "b" }], &line)).collect();
    (0..5).for_each(|_| gate.open());
    // Of five matches of two conversations three are told.
    let told = |kind: &str| history(&p, &["--kind", kind]);
    eventually("five that printed", || ids.iter().all(|id| p.call(["log", id, "--raw"]).text().contains("hit")).then_some(()));
    eventually("the trip", || (!told("watch_overflow_tripped").is_empty()).then_some(()));
    eventually("the release", || (!told("watch_overflow_released").is_empty()).then_some(()));
    assert_eq!(told("watch_match").len(), 3);
    let held_back: u64 = told("watch_overflow_released").iter().map(|t| t["event"]["suppressed"].as_u64().unwrap()).sum();
    assert_eq!(held_back, 2);
    let trips = told("watch_overflow_tripped");
    assert_eq!(trips.len(), told("watch_overflow_released").len());
    for trip in &trips {
        let message = trip["event"]["message"].as_str().unwrap();
        assert_eq!(
            message,
            "Watch-pattern overflow: >3 notifications in 20s across all processes. Suppressing further watch_match events for 2s."
        );
        assert_eq!(trip["text"], format!("[IMPORTANT: {message}]"));
    }
    (0..5).for_each(|_| end.open());
    ids.iter().for_each(|id| drop(p.wait(id)));
    assert_eq!(told("completion").len(), 5);
}

#[test]
fn case_108_109_a_terminal_is_told_of_lines_of_what_it_has_seen_end_and_a_gateway_is_not() {
    let p = product();
    let both = |session: &str| {
        let id = p.run_with(&["--notify", "--watch", "hit", "--session", session], "echo hit");
        p.wait(&id);
        eventually("both", || (history(&p, &["--session", session]).len() == 2).then_some(()));
        call_in(&p, session, &["wait", &id]).good();
        eventually("the mark", || (p.json(["events", "consumed", &id])["consumed"] == true).then_some(()));
        id
    };
    both("terminal");
    assert_eq!(kinds(&drained_with_texts(&p, "terminal")), ["watch_match"]);
    both("gateway");
    assert_eq!(p.json(["events", "next", "--session", "gateway", "--limit", "9"])["notices"], json!([]));
    let dropped = history(&p, &["--session", "gateway", "--kind", "watch_match"]);
    assert_eq!((&dropped[0]["state"], &dropped[0]["reason"]), (&json!("dropped"), &json!("the end of the process was told already")));
}

#[test]
fn case_147_both_flags_tell_both() {
    let p = product();
    let id = p.run_with(&["--notify", "--watch", "hit", "--session", "s"], "echo hit");
    p.wait(&id);
    assert_eq!(kinds(&drain_until(&p, "s", 2)), ["watch_match", "completion"]);
}

#[test]
fn a_match_while_no_engine_runs_is_told() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = watched(&p, "s", "hit", &format!("{}; echo hit; {}", gate.wait(), gate.wait()));
    p.kill_engine();
    gate.open();
    // No client calls: the keeper starts an engine for the match.
    let told = eventually("the match", || {
        let told = drained(&p, "s");
        (!told.is_empty()).then_some(told)
    });
    assert_eq!((about(&told), told[0].get("repeat")), (vec![&*id], None));
    p.kill_engine();
    gate.open();
    p.wait(&id);
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
}

#[test]
fn case_145_185_a_goal_that_waits_for_a_match_continues_with_it() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = watched(&p, "s", "ready", &format!("{}; echo ready; {}", gate.wait(), gate.wait()));
    let waiting = || p.json(["active", "--waiting", &id])["active"].as_bool().unwrap();
    assert!(waiting());
    assert_eq!(p.call(["until", &id, "--match", "--session", "s", "--timeout", "0.05"]).code, Some(124));
    gate.open();
    let open = p.json(["until", &id, "--match", "--session", "s"]);
    assert_eq!((&open["status"], &open["why"]), (&json!("open"), &json!("matched")), "{open}");
    assert!(!waiting());
    // The end alone is still to come.
    assert_eq!(p.call(["until", &id, "--session", "s", "--timeout", "0.05"]).code, Some(124));
    gate.open();
    assert_eq!(p.json(["until", &id, "--session", "s"])["why"], "exited");
}

#[test]
fn case_145_a_match_that_the_breaker_refused_leaves_a_goal_waiting() {
    let p = with_rules("burst = 1\nwindow_seconds = 600\nrest_seconds = 600");
    let (told, refused, end) = (Gate::new(&p, "told"), Gate::new(&p, "refused"), Gate::new(&p, "end"));
    let first = watched(&p, "a", "ready", &format!("{}; echo ready; {}", told.wait(), end.wait()));
    let second = watched(&p, "b", "ready", &format!("{}; echo ready; {}", refused.wait(), end.wait()));
    let parked = ["until", &second, "--match", "--session", "b", "--timeout"];
    let mut waiter = p.command(parked.iter().chain(&["2"])).stdout(std::process::Stdio::null()).spawn().unwrap();
    eventually("the barrier", || p.json(["until", "--list", "--session", "b"])["barriers"].get(0).cloned());
    told.open();
    assert_eq!(p.json(["until", &first, "--match", "--session", "a"])["why"], "matched");
    refused.open();
    eventually("the trip", || history(&p, &["--session", "b", "--kind", "watch_overflow_tripped"]).pop());
    assert_eq!(waiter.wait().unwrap().code(), Some(124));
    assert_eq!(p.call(parked.iter().chain(&["0.05"])).code, Some(124));
    assert_eq!(p.json(["active", "--waiting", &second])["active"], true);
    assert!(history(&p, &["--session", "b", "--kind", "watch_match"]).is_empty());
    // The end opens it all the same.
    (0..2).for_each(|_| end.open());
    assert_eq!(p.json(["until", &second, "--match", "--session", "b"])["why"], "exited");
}

#[test]
fn case_233_a_secret_in_a_line_is_masked() {
    let p = product();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    watched(&p, "s", "token", &format!("echo token {secret}"));
    let (event, text) = drain_until(&p, "s", 1).remove(0);
    assert!(
        event["output"].as_str().unwrap().starts_with("token ") && !event.to_string().contains(secret) && !text.contains(secret),
        "{event}"
    );
}

#[test]
fn a_goal_hears_of_a_match_that_was_the_last_to_be_told() {
    let p = with_rules("lifetime = 1");
    let gate = Gate::new(&p, "gate");
    let id = watched(&p, "s", "ready", &format!("{0}; echo ready; {0}", gate.wait()));
    let waiter = p
        .command(["until", &id, "--match", "--json", "--session", "s", "--timeout", "40"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the barrier", || p.json(["until", "--list", "--session", "s"])["barriers"].get(0).cloned());
    // It is known over the death of an engine how many there were.
    p.kill_engine();
    gate.open();
    let said = waiter.wait_with_output().unwrap();
    let open: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&open["status"], &open["why"]), (&json!("open"), &json!("matched")), "{open}");
    // A later waiter would wait for a match that never comes, so its barrier opens at the end.
    assert_eq!(p.json(["poll", &id])["watch_disabled"], true);
    assert_eq!(p.call(["until", &id, "--match", "--session", "s", "--timeout", "0.05"]).code, Some(124));
    gate.open();
    assert_eq!(p.json(["until", &id, "--match", "--session", "s"])["why"], "exited");
}

#[test]
fn a_secret_in_a_matched_line_or_a_name_is_masked_where_it_is_shown() {
    let p = product();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    // The command does not hold it: only the line does. A pattern with it is refused.
    std::fs::write(p.work().join("said"), format!("token {secret}\n")).unwrap();
    let id = p.run_with(&["--watch", "token ", "--name", &format!("deploy {secret}"), "--session", "s"], "cat said; exec sleep 1000");
    let told = eventually("the match", || crate::told::drained_with_texts(&p, "s").pop());
    assert_eq!(told.0["type"], "watch_match", "{told:?}");
    let shown = [p.json(["poll", &id]), p.json(["list"]), told.0, json!(told.1), p.json(["events", "history"])];
    let shown = shown.map(|value| value.to_string()).join("\n") + &p.call(["poll", &id]).good().text() + &p.call(["list"]).good().text();
    assert!(!shown.contains(secret) && shown.contains("token ghp_01...wxyz") && shown.contains("deploy ghp_01...wxyz"), "{shown}");
    // A rerun still watches for the pattern.
    p.json(["kill", &id]);
    let again = p.json(["rerun", &id])["session_id"].as_str().unwrap().to_owned();
    eventually("another match", || {
        crate::told::drained(&p, "s").into_iter().find(|e| e["session_id"] == again.as_str() && e["type"] == "watch_match")
    });
}
