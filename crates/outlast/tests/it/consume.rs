//! Who has seen an end is not told of it.

use crate::gate::{Gate, until_printed};
use crate::sinks::{hears_of, hooked};
use crate::support::*;
use crate::told::*;
use std::process::{Child, Stdio};

/// Whether it counts as consumed.
fn is_consumed(p: &Product, id: &str) -> bool {
    p.json(["events", "consumed", id])["consumed"].as_bool().unwrap()
}

fn becomes_consumed(p: &Product, id: &str) {
    eventually("the mark", || is_consumed(p, id).then_some(()));
}

fn taken(p: &Product, session: &str) -> Vec<Value> {
    let said = p.json(["events", "next", "--session", session, "--limit", "100", "--lease", "0.01"]);
    said["notices"].as_array().unwrap().iter().map(|told| told["event"].clone()).collect()
}

#[test]
fn case_103_104_a_poll_of_its_owner_silences_the_terminal_and_not_the_gateway() {
    let p = product();
    for _ in 0..5 {
        let id = ended(&p, "s", "exit 3");
        assert_eq!(call_in(&p, "s", &["poll", "--json", &id]).json()["exit_code"], 3);
        assert!(!is_consumed(&p, &id));
        assert_eq!(drained(&p, "s"), [Value::Null; 0]);
        assert_eq!(states(&p, &id), ["pending"]);
        assert_eq!(about(&taken(&p, "s")), [&*id]);
        call_in(&p, "s", &["events", "consumed", &id, "--mark"]).good();
    }
}

#[test]
fn case_104_a_poll_of_another_session_settles_no_notice() {
    let p = product();
    let id = ended(&p, "s", "exit 3");
    p.call(["poll", &id]).good();
    assert_eq!(call_in(&p, "other", &["poll", &id]).code, Some(1));
    assert_eq!(about(&drained(&p, "s")), [&*id]);
}

#[test]
fn case_105_a_poll_while_it_runs_is_no_look_at_its_end() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &gate.wait());
    call_in(&p, "s", &["poll", &id]).good();
    gate.open();
    p.wait(&id);
    assert_eq!(about(&drained(&p, "s")), [&*id]);
}

#[test]
fn case_107_a_log_and_a_wait_of_its_owner_consume() {
    let p = product();
    for verb in [&["log"][..], &["wait"]] {
        let id = ended(&p, "s", "echo out");
        let args: Vec<&str> = verb.iter().copied().chain([&*id]).collect();
        call_in(&p, "s", &args).good();
        // After the answer no notice is delivered. The end is marked as seen right after it.
        assert_eq!((drained(&p, "s"), taken(&p, "s")), (vec![], vec![]), "{verb:?}");
        becomes_consumed(&p, &id);
        assert_eq!(states(&p, &id), ["consumed"], "{verb:?}");
        let reason = history(&p, &["--process", &id])[0]["reason"].as_str().unwrap().to_owned();
        assert_eq!(reason, format!("its end was seen by {}", verb[0]));
    }
}

#[test]
fn case_089_a_page_that_does_not_reach_the_end_consumes_nothing() {
    let p = product();
    let id = ended(&p, "s", "seq 100");
    call_in(&p, "s", &["log", &id, "--offset", "0", "--limit", "10"]).good();
    call_in(&p, "s", &["log", &id, "--offset", "101"]).good();
    call_in(&p, "s", &["log", &id, "--from-byte", "1000"]).good();
    assert_eq!(about(&drained(&p, "s")), [&*id]);
    // A reader that continues at the end of the output has seen the end.
    let id = ended(&p, "s", "seq 100");
    call_in(&p, "s", &["log", &id, "--offset", "100"]).good();
    becomes_consumed(&p, &id);
}

#[test]
fn what_others_do_consumes_nothing() {
    let p = product();
    let id = ended(&p, "s", "echo out");
    for args in [&["log", &id][..], &["wait", &id], &["poll", &id], &["log", &id, "--follow"], &["list", "--all"], &["log", &id, "--raw"]] {
        p.call(args).good();
    }
    for args in [&["log", &*id][..], &["wait", &id], &["kill", &id]] {
        assert_ne!(call_in(&p, "other", args).code, Some(0), "{args:?}");
    }
    p.call(["events", "history"]).good();
    assert!(!is_consumed(&p, &id));
    // What its owner does without seeing the end consumes nothing either.
    call_in(&p, "s", &["list", "--all"]).good();
    call_in(&p, "s", &["log", &id, "--raw"]).good();
    assert_eq!(about(&drained(&p, "s")), [&*id]);
    assert!(is_consumed(&p, &id));
}

#[test]
fn case_161_a_stop_of_its_owner_consumes_and_a_stop_of_all_does_not() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let start = || p.run_with(&["--notify", "--session", "s"], &gate.wait());
    let (own, all) = (start(), start());
    call_in(&p, "s", &["kill", &own]).good();
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
    becomes_consumed(&p, &own);
    call_in(&p, "s", &["kill", "--all"]).good();
    let told = drained(&p, "s");
    assert_eq!((about(&told), &told[0]["termination_source"]), (vec![&*all], &json!("kill_all")));
    // A stop that only asks has not seen the end.
    let asked = p.run_with(&["--notify", "--session", "s"], &format!("trap '' TERM; echo deaf; {}", gate.wait()));
    until_printed(&p, &asked, "deaf");
    let said = call_in(&p, "s", &["kill", "--json", "--no-escalate", &asked]).good().json();
    assert_eq!((&said["status"], said.get("exit_code")), (&json!("signalled"), None), "{said}");
    gate.open();
    p.wait(&asked);
    assert_eq!(states(&p, &asked), ["pending"]);
    assert_eq!(about(&drained(&p, "s")), [&*asked]);
}

#[test]
fn a_run_that_waits_consumes_and_one_that_follows_does_not() {
    let p = product();
    p.call(["run", "--notify", "--session", "s", "--wait", "--", "true"]).good();
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
    let said = p.json(["run", "--notify", "--session", "s", "--follow", "--", "echo seen"]);
    let id = said["session_id"].as_str().unwrap();
    // A terminal need not say again what was just on it; a gateway has not said it yet.
    assert_eq!((drained(&p, "s"), is_consumed(&p, id)), (vec![], false));
    assert_eq!(about(&taken(&p, "s")), [id]);
}

#[test]
fn a_run_that_waits_and_never_began_consumes_too() {
    let p = product();
    let failed = p.call(["run", "--json", "--notify", "--session", "s", "--wait", "--", "no-such-program", "x"]);
    assert_eq!((failed.code, &failed.json()["code"]), (Some(127), &json!("failed_start")), "{failed:?}");
    assert_eq!((drained(&p, "s"), taken(&p, "s")), (vec![], vec![]));
    assert!(is_consumed(&p, failed.json()["session_id"].as_str().unwrap()));
}

#[test]
fn an_end_before_a_run_could_wait_is_kept_for_it() {
    let (p, log) = hooked("");
    for (command, code) in [(vec!["exit 3"], 3), (vec!["no-such-program", "x"], 127)] {
        for killed in [false, true] {
            p.points().arm("run.before_answer").unwrap();
            let args = [&["run", "--notify", "--session", "s", "--wait", "--"][..], &command].concat();
            let mut run = p.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            eventually("the start", || p.points().held("run.before_answer"));
            let told = eventually("the notice", || p.json(["events", "history", "--state", "leased"])["notices"].get(0).cloned());
            let id = told["event"]["session_id"].as_str().unwrap();
            assert_eq!(taken(&p, "s"), [Value::Null; 0], "it is kept for a client that is about to wait");
            // A viewer sees it at once: only notices of its owner wait.
            hears_of(&log, id);
            if killed {
                run.kill().unwrap();
                run.wait().unwrap();
                let given = p.json(["events", "next", "--session", "s", "--wait", "20"]);
                let event = &given["notices"][0]["event"];
                assert_eq!((&event["session_id"], event.get("repeat")), (&json!(id), None), "{given}");
                p.points().release("run.before_answer").unwrap();
                p.call([
                    "events",
                    "ack",
                    event["event_id"].as_str().unwrap(),
                    "--lease",
                    given["lease"].as_str().unwrap(),
                    "--session",
                    "s",
                ])
                .good();
            } else {
                p.points().release("run.before_answer").unwrap();
                assert_eq!(run.wait().unwrap().code(), Some(code));
                becomes_consumed(&p, id);
                assert_eq!(taken(&p, "s"), [Value::Null; 0]);
            }
        }
    }
}

#[test]
fn case_109_what_the_gateway_delivered_is_consumed() {
    let p = product();
    let id = ended(&p, "s", "true");
    let given = p.json(["events", "next", "--session", "s"]);
    let told = &given["notices"][0];
    assert!(!is_consumed(&p, &id));
    let (name, word) = (told["event"]["event_id"].as_str().unwrap(), given["lease"].as_str().unwrap());
    p.call(["events", "ack", name, "--lease", word, "--session", "s"]).good();
    assert!(is_consumed(&p, &id));
    assert_eq!((drained(&p, "s"), taken(&p, "s")), (vec![], vec![]));
}

#[test]
fn case_110_two_takers_get_it_once_and_what_one_gives_back_the_other_gets() {
    let p = product();
    let id = ended(&p, "s", "true");
    let take = |wait| {
        let args = ["events", "next", "--json", "--session", "s", "--wait", wait];
        p.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
    };
    let answer = |taker: Child| -> Value { serde_json::from_slice(&taker.wait_with_output().unwrap().stdout).unwrap() };
    let takers: Vec<Child> = (0..4).map(|_| take("1")).collect();
    let mut answers: Vec<Value> = takers.into_iter().map(answer).collect();
    answers.retain(|said| said["notices"] != json!([]));
    assert_eq!(answers.len(), 1, "{answers:?}");
    let first = answers.remove(0);
    assert_eq!(first["notices"][0]["event"]["session_id"], json!(id));
    // Another waits until it is given back.
    let second = take("60");
    let name = first["notices"][0]["event"]["event_id"].as_str().unwrap();
    p.call(["events", "release", name, "--lease", first["lease"].as_str().unwrap()]).good();
    let second = answer(second);
    let told = &second["notices"][0];
    assert_eq!((&told["event"]["event_id"], &told["attempts"]), (&json!(name), &json!(2)), "{second}");
    // Given back means not told, so it is no repeat.
    assert!(told["event"].get("repeat").is_none(), "{second}");
    // The previous taker cannot settle it any more.
    let late = p.call(["events", "ack", "--json", name, "--lease", first["lease"].as_str().unwrap()]);
    assert_eq!((late.code, &late.json()["notices"][0]["status"]), (Some(1), &json!("lost")));
    p.call(["events", "ack", name, "--lease", second["lease"].as_str().unwrap()]).good();
    assert_eq!(states(&p, &id), ["delivered"]);
}

#[test]
fn case_111_nothing_to_be_told_is_an_empty_list() {
    let p = product();
    assert_eq!(p.json(["events", "drain"]), json!({"events": []}));
    assert_eq!(p.json(["events", "next"]), json!({"notices": [], "lease": null, "text": null}));
    assert_eq!(p.call(["events", "drain"]).good().text(), "");
}

#[test]
fn case_113_each_conversation_drains_its_own() {
    let p = product();
    let ids: Vec<String> = ["a", "b", "c"].iter().map(|session| ended(&p, session, "true")).collect();
    let own = p.run_with(&["--notify"], "true");
    eventually("the person's own", || (states(&p, &own) == ["pending"]).then_some(()));
    assert_eq!(about(&drained(&p, "a")), [&*ids[0]]);
    assert_eq!(drained(&p, "a"), [Value::Null; 0]);
    assert_eq!(states(&p, &ids[1]), ["pending"]);
    // Without a session there are only those without one.
    let mine = p.json(["events", "drain"]);
    assert_eq!(mine["events"][0]["event"]["session_id"], json!(own), "{mine}");
    assert_eq!(mine["events"].as_array().unwrap().len(), 1, "{mine}");
    assert_eq!(about(&drained(&p, "b")), [&*ids[1]]);
    assert_eq!(call_in(&p, "c", &["events", "drain", "--json"]).json()["events"][0]["event"]["session_id"], json!(ids[2]));
}

#[test]
fn case_114_who_does_not_own_a_notice_cannot_settle_it() {
    let p = product();
    let id = ended(&p, "a", "true");
    let name = history(&p, &[])[0]["event"]["event_id"].as_str().unwrap().to_owned();
    for verb in ["ack", "release", "drop"] {
        let refused = p.call(["events", verb, "--json", "--session", "b", &name]);
        assert_eq!((refused.code, &refused.json()["notices"][0]["status"]), (Some(1), &json!("unknown")), "{verb}");
    }
    assert_eq!(call_in(&p, "b", &["events", "consumed", &id, "--mark"]).code, Some(1));
    assert_eq!(call_in(&p, "b", &["events", "history", "--json"]).json()["notices"], json!([]));
    assert_eq!(about(&drained(&p, "a")), [&*id]);
}

#[test]
fn case_115_217_what_was_consumed_is_not_told_when_its_process_is_forgotten() {
    let p = product();
    let id = ended(&p, "s", "true");
    // A taker leases it and dies. Meanwhile its owner sees the end in another way.
    p.call(["events", "next", "--session", "s", "--lease", "3"]).good();
    call_in(&p, "s", &["wait", &id]).good();
    p.call(["rm", &id]).good();
    assert_eq!(states(&p, &id), ["leased"]);
    p.kill_engine();
    let later = p.json(["events", "next", "--session", "s", "--wait", "4"]);
    assert_eq!(later["notices"], json!([]), "{later}");
    assert_eq!((drained(&p, "s"), states(&p, &id)), (vec![], vec!["consumed".into()]));
    assert!(is_consumed(&p, &id));
}

#[test]
fn an_end_that_was_not_seen_is_delivered_although_its_process_was_forgotten() {
    let p = product();
    let id = ended(&p, "s", "echo kept; exit 9");
    p.call(["rm", &id]).good();
    let told = drained(&p, "s");
    assert_eq!((about(&told), &told[0]["exit_code"], &told[0]["output"]), (vec![&*id], &json!(9), &json!("kept\n")));
}

/// A taker leases notices for this many seconds, and is killed while the engine is at this point.
fn taker_killed_at(p: &Product, point: &str, lease: &str) {
    p.points().arm(point).unwrap();
    let args = ["events", "next", "--json", "--session", "s", "--lease", lease, "--wait"];
    let mut taker = p.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the engine at the point", || p.points().held(point));
    kill_and_wait(taker.id()).unwrap();
    taker.wait().unwrap();
}

#[test]
fn case_116_what_a_dead_taker_had_comes_back_as_a_repeat() {
    let p = product();
    let id = ended(&p, "s", "true");
    taker_killed_at(&p, "notice.leased", "1");
    p.points().release("notice.leased").unwrap();
    // No other taker gets it before the lease is over, so this waits.
    let given = p.json(["events", "next", "--session", "s", "--wait", "30"]);
    let told = &given["notices"][0];
    assert_eq!((&told["event"]["session_id"], &told["event"]["repeat"]), (&json!(id), &json!(true)), "{given}");
    assert!(told["text"].as_str().unwrap().contains("(this may be a repeat)"), "{given}");
    assert_eq!(told["attempts"], 2);
}

#[test]
fn what_a_taker_left_before_it_was_answered_is_given_to_the_next_at_once() {
    let p = product();
    let id = ended(&p, "s", "true");
    taker_killed_at(&p, "notice.claimed", "3600");
    // Held until then. Otherwise the engine could answer before it sees that the taker has left.
    let given = p.json(["events", "next", "--session", "s", "--wait", "30"]);
    p.points().release("notice.claimed").unwrap();
    let told = &given["notices"][0];
    assert_eq!((&told["event"]["session_id"], told["event"].get("repeat")), (&json!(id), None), "it was not delivered: {given}");
}

#[test]
fn a_drain_that_dies_before_it_acknowledges_has_its_notices_told_again() {
    let p = product();
    let id = ended(&p, "s", "true");
    p.points().arm("notice.before_settle").unwrap();
    let args = ["events", "drain", "--json", "--session", "s", "--lease", "1"];
    let mut drain = p.command(args).stdout(Stdio::piped()).spawn().unwrap();
    let engine = eventually("the acknowledgement", || p.points().held("notice.before_settle"));
    kill_and_wait(drain.id()).unwrap();
    kill_and_wait(engine).unwrap();
    p.points().release("notice.before_settle").unwrap();
    drain.wait().unwrap();
    let again = p.json(["events", "drain", "--session", "s", "--wait", "30"]);
    let event = &again["events"][0]["event"];
    assert_eq!((&event["session_id"], &event["repeat"]), (&json!(id), &json!(true)), "{again}");
}

#[test]
fn an_engine_killed_at_an_acknowledgement_is_asked_again() {
    for point in ["notice.claimed", "notice.leased", "notice.before_settle", "notice.settled"] {
        let p = product();
        let id = ended(&p, "s", "true");
        p.points().arm(point).unwrap();
        std::thread::scope(|scope| {
            let drain = scope.spawn(|| p.json(["events", "drain", "--session", "s", "--lease", "1", "--wait", "30"]));
            let engine = eventually(point, || p.points().held(point));
            kill_and_wait(engine).unwrap();
            p.points().release(point).unwrap();
            let said = drain.join().unwrap();
            let events = said["events"].as_array().unwrap();
            assert_eq!((events.len(), &events[0]["event"]["session_id"]), (1, &json!(id)), "killed at {point}: {said}");
        });
        assert_eq!(states(&p, &id), ["delivered"], "killed at {point}");
        assert_eq!(drained(&p, "s"), [Value::Null; 0], "killed at {point}");
    }
}

#[test]
fn an_answer_whose_engine_died_before_it_wrote_so_is_told_again_as_a_repeat() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &format!("{}; exit 3", gate.wait()));
    p.points().arm("answer.sent").unwrap();
    let args = ["wait", "--json", &id];
    let waiter = p.command(args).env("OUTLAST_SESSION", "s").stdout(Stdio::piped()).spawn().unwrap();
    gate.open();
    let engine = eventually("the answer", || p.points().held("answer.sent"));
    // Killed after the answer and before it was written: the waiter has seen the end, and gets the notice once more as a repeat.
    assert!(waiter.wait_with_output().unwrap().status.code() == Some(3));
    kill_and_wait(engine).unwrap();
    p.points().release("answer.sent").unwrap();
    let told = drained(&p, "s");
    assert_eq!((about(&told), &told[0]["repeat"]), (vec![&*id], &json!(true)));
}

#[test]
fn a_client_killed_before_its_answer_leaves_the_end_to_be_delivered_at_once() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &gate.wait());
    p.points().arm("answer.held").unwrap();
    let mut waiter = p.command(["wait", &id]).env("OUTLAST_SESSION", "s").stdout(Stdio::null()).spawn().unwrap();
    gate.open();
    eventually("the answer", || p.points().held("answer.held"));
    assert_eq!(drained(&p, "s"), [Value::Null; 0], "no other taker gets it meanwhile");
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    p.points().release("answer.held").unwrap();
    // Far sooner than the hold would end by itself.
    let said = p.json(["events", "drain", "--session", "s", "--wait", "20"]);
    let events: Vec<Value> = said["events"].as_array().unwrap().iter().map(|e| e["event"].clone()).collect();
    assert_eq!(about(&events), [&*id]);
    assert_eq!(states(&p, &id), ["delivered"]);
}

#[test]
fn what_is_for_a_life_that_has_ended_is_dropped_with_a_reason() {
    let p = product();
    let flags = |generation: &'static str| ["--notify", "--session", "s", "--generation", generation];
    let old = p.run_with(&flags("g1"), "true");
    p.wait(&old);
    let new = p.run_with(&flags("g2"), "true");
    p.wait(&new);
    let said = p.json(["events", "drain", "--session", "s", "--generation", "g2"]);
    let events: Vec<Value> = said["events"].as_array().unwrap().iter().map(|e| e["event"].clone()).collect();
    assert_eq!(about(&events), [&*new]);
    let dropped = history(&p, &["--state", "dropped"]);
    assert_eq!((dropped.len(), &dropped[0]["event"]["session_id"]), (1, &json!(old)), "{dropped:?}");
    assert_eq!(dropped[0]["reason"], "generation g1 of the conversation has ended");
    // It stays readable.
    assert!(dropped[0]["text"].as_str().unwrap().contains(&old));
}

/// A client of the session that waits for the end of this process. Returns once it waits.
fn waiter(p: &Product, session: &str, args: &[&str]) -> Child {
    p.points().arm("wait.begun").unwrap();
    let waiter = p.command(args).env("OUTLAST_SESSION", session).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the wait", || p.points().held("wait.begun"));
    p.points().release("wait.begun").unwrap();
    waiter
}

#[test]
fn a_waiter_is_answered_before_a_notice_is_delivered() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &format!("{}; exit 3", gate.wait()));
    let waiter = waiter(&p, "s", &["wait", &id]);
    p.points().arm("news.after_commit").unwrap();
    gate.open();
    eventually("the notice", || p.points().held("news.after_commit"));
    // It is on disk, and the waiter was not answered yet.
    assert_eq!((states(&p, &id), taken(&p, "s")), (vec!["leased".into()], vec![]));
    p.points().release("news.after_commit").unwrap();
    assert_eq!(waiter.wait_with_output().unwrap().status.code(), Some(3));
    becomes_consumed(&p, &id);
    assert_eq!((taken(&p, "s"), states(&p, &id)), (vec![], vec!["consumed".into()]));
}

#[test]
fn a_client_that_stops_it_is_answered_before_a_notice_is_delivered() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &gate.wait());
    p.points().arm("news.after_commit").unwrap();
    let stop = p.command(["kill", &id]).env("OUTLAST_SESSION", "s").stdout(Stdio::null()).spawn().unwrap();
    eventually("the notice", || p.points().held("news.after_commit"));
    assert_eq!((states(&p, &id), taken(&p, "s")), (vec!["leased".into()], vec![]));
    p.points().release("news.after_commit").unwrap();
    assert_eq!(stop.wait_with_output().unwrap().status.code(), Some(0));
    becomes_consumed(&p, &id);
    assert_eq!(taken(&p, "s"), [Value::Null; 0]);
}

#[test]
fn a_notice_kept_for_a_waiter_that_dies_is_delivered_at_once_and_is_no_repeat() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &gate.wait());
    let mut waiter = waiter(&p, "s", &["wait", &id]);
    p.points().arm("news.after_commit").unwrap();
    gate.open();
    eventually("the notice", || p.points().held("news.after_commit"));
    assert_eq!(taken(&p, "s"), [Value::Null; 0]);
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    // Far sooner than it would come free by itself.
    let given = p.json(["events", "next", "--session", "s", "--wait", "20"]);
    p.points().release("news.after_commit").unwrap();
    let event = &given["notices"][0]["event"];
    assert_eq!((&event["session_id"], event.get("repeat")), (&json!(id), None), "{given}");
}

#[test]
fn a_waiter_that_gives_up_in_the_last_moment_keeps_nothing() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &gate.wait());
    let waiter = waiter(&p, "s", &["wait", "--timeout", "0.5", &id]);
    // Kept from before it is written until they have gone.
    p.points().arm("news.before_commit").unwrap();
    gate.open();
    eventually("the notice", || p.points().held("news.before_commit"));
    let said = waiter.wait_with_output().unwrap();
    p.points().release("news.before_commit").unwrap();
    if said.status.code() == Some(0) {
        // It looked once more, and saw the end.
        becomes_consumed(&p, &id);
        return;
    }
    let given = p.json(["events", "next", "--session", "s", "--wait", "20"]);
    let event = &given["notices"][0]["event"];
    assert_eq!((&event["session_id"], event.get("repeat")), (&json!(id), None), "{given}");
}
