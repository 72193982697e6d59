//! `doctor`: what is not as promised, why, what it means and what to do.

use crate::person::Person;
use crate::support::*;
use outlast_testkit::machine::{in_own_mounts, mount_tmpfs, skipped};

fn check<'a>(answer: &'a Value, name: &str) -> Vec<&'a Value> {
    answer["checks"].as_array().unwrap().iter().filter(|c| c["name"] == name).collect()
}

/// Everything that is not well says what it means or what to do about it.
fn is_explained(answer: &Value) {
    for check in answer["checks"].as_array().unwrap() {
        let well = check["state"] == "ok";
        assert!(check["what"].is_string() && (well || check["hint"].is_string()), "{check}");
        assert!(well || check["promises"].is_null() || check["means"].is_string(), "{check}");
    }
}

#[test]
fn the_exit_code_says_whether_something_is_degraded() {
    let p = product();
    let said = p.call(["doctor", "--json"]);
    let answer = said.json();
    is_explained(&answer);
    let want = match answer["status"].as_str().unwrap() {
        "ok" => 0,
        "degraded" => 3,
        other => panic!("{other}: {answer}"),
    };
    assert_eq!(said.code, Some(want));
    p.configure("[retention]\ndays = \"many\"\n");
    let worse = p.call(["doctor", "--json"]);
    assert_eq!((worse.code, check(&worse.json(), "config")[0]["state"].as_str()), (Some(3), Some("degraded")));
    assert!(p.call(["doctor"]).text().contains("degraded"));
}

#[test]
fn a_process_whose_keepers_were_killed_a_secret_and_a_sink_that_fails_are_told() {
    let p = product().with_env("OUTLAST_REDACT_SECRETS", "0");
    p.configure("[[hook]]\nname = \"ops\"\ncommand = \"exit 9\"\nretry_seconds = [3600]\n");
    let id = p.run("exec sleep 1000");
    let meta = p.meta(&id);
    // Stopped first: else the one that is killed second has made a new one by then.
    for signal in [rustix::process::Signal::STOP, rustix::process::Signal::KILL] {
        for pid in [meta.pump, meta.holder] {
            rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
        }
    }
    eventually("the orphan to be known", || (p.json(["poll", &id])["phase"] == "orphaned").then_some(()));
    p.wait(&p.run_with(&["--notify"], "true"));
    let answer = eventually("the sink to have failed", || {
        let answer = p.json(["doctor"]);
        (!check(&answer, "sink").is_empty()).then_some(answer)
    });
    is_explained(&answer);
    assert!(check(&answer, "orphans")[0]["what"].as_str().unwrap().contains(&id), "{answer}");
    assert_eq!(check(&answer, "secrets")[0]["promises"], json!(["P8"]));
    let sink = check(&answer, "sink")[0];
    assert!(sink["what"].as_str().unwrap().contains("the sink ops did not take"), "{sink}");
}

#[test]
fn looking_is_not_being_told() {
    let p = product();
    let id = p.run_with(&["--notify"], "exit 3");
    eventually("its end", || (p.json(["list", "--all"])["processes"][0]["status"] == "exited").then_some(()));
    p.call(["doctor"]);
    let drained = p.json(["events", "drain"]);
    assert_eq!(drained["events"][0]["event"]["session_id"], *id, "{drained}");
}

#[test]
fn a_home_in_memory_or_with_little_room_is_told() {
    let name = "a_home_in_memory_or_with_little_room_is_told";
    let ran = in_own_mounts(|| {
        let p = product();
        mount_tmpfs(&p.home().root, "size=64m,mode=700").unwrap();
        p.engine();
        let answer = p.json(["doctor"]);
        is_explained(&answer);
        assert_eq!(check(&answer, "file system")[0]["promises"], json!(["P1", "P2", "P3"]), "{answer}");
        assert!(check(&answer, "room")[0]["what"].as_str().unwrap().contains("MiB are left"), "{answer}");
        p.shut_down().unwrap();
    });
    if let Err(why) = ran {
        skipped(name, format!("{why:#}"));
    }
}

#[test]
fn on_a_narrow_terminal_it_is_broken_between_words() {
    let p = product();
    p.engine();
    let mut person = Person::calls_at(&p, &["doctor"], 24, 60);
    person.sees("dropped unread");
    person.ended();
    for line in person.seen.lines() {
        let plain = outlast_text::strip(line);
        let paths = plain.contains('/');
        assert!(paths || plain.trim_end().chars().count() <= 60, "{plain:?}");
    }
}
