//! Which of many processes `kill --all` and `clean` are about, and when they ask.

use crate::person::Person;
use crate::support::*;

fn runs(p: &Product, id: &str) -> bool {
    p.json(["poll", id])["status"] == "running"
}

#[test]
fn kill_all_asks_a_user_before_it_stops_processes_of_other_sessions() {
    let p = product();
    let (own, other) = (p.run("exec sleep 1000"), p.run_with(&["--session", "agent-a"], "exec sleep 1000"));
    for no in ["n\r", "\r", "no way\r"] {
        let mut person = Person::calls(&p, &["kill", "--all"]);
        person.sees("stop 2 processes, 1 of them of another session (agent-a)? [y/N] ");
        person.types(no);
        person.sees("nothing was stopped");
        assert_eq!(person.ended(), Some(1));
        assert!(runs(&p, &own) && runs(&p, &other));
    }
    let mut person = Person::calls(&p, &["kill", "--all"]);
    person.sees("[y/N] ");
    // What starts while the question stands was not agreed to.
    let late = p.run_with(&["--session", "agent-b"], "exec sleep 1000");
    person.types("y\r");
    person.sees("2 stopped");
    person.sees("stopped: proc_");
    assert_eq!(person.ended(), Some(0));
    assert!(!runs(&p, &own) && !runs(&p, &other) && runs(&p, &late));
    let mut person = Person::calls(&p, &["kill", "--all", "--yes"]);
    person.sees("1 stopped");
    assert!(!person.seen.contains("[y/N]"), "{:?}", person.seen);
}

#[test]
fn nothing_is_asked_about_own_processes_in_a_pipe_or_with_json() {
    let p = product();
    let own = p.run("exec sleep 1000");
    let mut person = Person::calls(&p, &["kill", "--all"]);
    person.sees("1 stopped");
    assert!(!person.seen.contains("[y/N]") && !runs(&p, &own), "{:?}", person.seen);
    p.run_with(&["--session", "agent-a"], "exec sleep 1000");
    assert_eq!(p.json(["kill", "--all"])["killed"], 1);
    p.run_with(&["--session", "agent-a"], "exec sleep 1000");
    let mut person = Person::calls(&p, &["kill", "--all", "--json"]);
    person.sees("\"killed\":1");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn clean_asks_too_and_removes_only_what_failed_or_is_old_enough() {
    let p = product();
    let finished = |session: &[&str], line: &str| {
        let id = p.run_with(session, line);
        p.wait(&id);
        id
    };
    let (good, bad) = (finished(&[], "true"), finished(&[], "exit 3"));
    let other = finished(&["--session", "agent-a"], "exit 4");
    let left = || -> Vec<String> {
        let listed = p.json(["list", "--all"]);
        listed["processes"].as_array().unwrap().iter().map(|e| e["session_id"].as_str().unwrap().to_owned()).collect()
    };
    let mut person = Person::calls(&p, &["clean"]);
    person.sees("remove 3 processes, 1 of them of another session (agent-a)? [y/N] ");
    person.types("n\r");
    person.sees("nothing was removed");
    assert_eq!((person.ended(), left().len()), (Some(1), 3));
    assert_eq!(p.json(["clean", "--older", "1h"])["removed"], 0);
    let dry = p.json(["clean", "--failed", "--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["count"], left().len()), (&json!(true), &json!(2), 3), "{dry}");
    let text = p.call(["clean", "--failed", "--dry-run"]).good().text();
    assert!(text.contains(&bad) && text.contains(&other) && !text.contains(&good) && text.contains("2 would be removed"), "{text}");
    assert_eq!(p.json(["clean", "--failed"])["removed"], 2);
    assert_eq!(left(), [good]);
    assert_eq!(p.json(["clean", "--older", "0s"])["removed"], 1);
}

#[test]
fn kill_all_stops_only_what_is_old_enough_and_a_dry_run_stops_nothing() {
    let p = product();
    let mut sleeper = crate::sleeper::Sleeper::start();
    let checkpoint = json!([{ "pid": sleeper.pid(), "started_at": crate::sleeper::Sleeper::now() - 7200.0 }]).to_string();
    let old =
        p.call_with_input(["adopt", "--json", "-"], checkpoint.as_bytes()).json()["adopted"][0]["session_id"].as_str().unwrap().to_owned();
    let young = p.run("exec sleep 1000");
    let dry = p.json(["kill", "--all", "--older", "1h30m", "--dry-run"]);
    assert_eq!((&dry["count"], &dry["processes"][0]["session_id"]), (&json!(1), &json!(old)), "{dry}");
    assert_eq!(dry["processes"][0]["id"], json!(old), "as in every other answer");
    assert!(runs(&p, &old) && runs(&p, &young));
    assert_eq!(p.json(["kill", "--all", "--older", "1h30m"])["killed"], 1);
    assert!(!runs(&p, &old) && runs(&p, &young));
    sleeper.end();
    let refused = p.call(["kill", &young, "--dry-run"]);
    assert!(refused.code == Some(1) && refused.err.contains("--older and --dry-run go with --all"), "{refused:?}");
    assert!(runs(&p, &young));
}

#[test]
fn an_agent_cannot_name_processes_of_others() {
    let p = product();
    let (own, other) = (p.run_with(&["--session", "s"], "exec sleep 1000"), p.run_with(&["--session", "t"], "exec sleep 1000"));
    let killed = crate::told::call_in(&p, "s", &["kill", "--all", "--older", "0s", "--session", "t", "--json"]);
    assert!(runs(&p, &own) && runs(&p, &other), "{killed:?}");
    crate::told::call_in(&p, "s", &["kill", "--all", "--older", "0s"]).good();
    assert!(!runs(&p, &own) && runs(&p, &other));
}

/// `kill web` stopped one of two without a question.
#[test]
fn a_user_is_asked_which_of_several_running_processes_a_name_means() {
    let p = product();
    let web = || p.run_with(&["--name", "web"], "trap : USR1; while :; do sleep 0.01; done");
    let (old, new) = (web(), web());
    let asks = format!("2 running processes are called web: {new} (the newest), {old}; ");
    for (args, verb, done, code) in [
        (&["kill", "web"][..], "stop", "stopped", 1),
        (&["signal", "web", "USR1"], "send SIGUSR1 to", "sent", 1),
        (&["restart", "web"], "restart", "restarted", 125),
    ] {
        let mut person = Person::calls(&p, args);
        person.sees(&format!("{asks}{verb} {new}? [y/N] "));
        person.types("n\r");
        person.sees(&format!("nothing was {done}"));
        assert_eq!(person.ended(), Some(code), "{args:?}");
        assert!(runs(&p, &old) && runs(&p, &new));
    }
    let mut person = Person::calls(&p, &["kill", "web"]);
    person.sees("[y/N] ");
    person.types("y\r");
    assert_eq!(person.ended(), Some(0));
    assert!(runs(&p, &old) && !runs(&p, &new));
    let third = web();
    // An id means one process, --yes skips the question, and a pipe is not asked.
    for args in [&["signal", &third, "USR1"][..], &["signal", "web", "USR1", "--yes"], &["kill", "web", "--yes"]] {
        let (seen, code) = Person::calls(&p, args).until_the_end();
        assert!(code == Some(0) && !seen.contains("[y/N]"), "{args:?}: {seen}");
    }
    assert!(runs(&p, &old) && !runs(&p, &third));
    let _newer = web();
    let piped = p.call(["kill", "web"]).good();
    assert!(piped.err.contains("2 running processes are called web") && runs(&p, &old), "{piped:?}");
}
