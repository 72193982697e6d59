//! Notices as a person reads them: one line each, without the texts for models.

use crate::person::Person;
use crate::support::*;

/// The lines without the time at which each notice was made.
fn said(lines: &str) -> Vec<String> {
    let without_time = |line: &str| {
        let (time, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no time: {line}"));
        assert!(time.len() == 8 && time.bytes().filter(|b| *b == b':').count() == 2, "{line}");
        rest.to_owned()
    };
    lines.lines().map(without_time).collect()
}

#[test]
fn a_history_selects_the_states_that_it_shows() {
    let p = product();
    let seen = p.run_with(&["--notify"], "exit 1");
    pending(&p, 1);
    p.call(["poll", &seen]).good();
    let of = |state: &str| {
        let found = p.json(["events", "history", "--state", state]);
        found["notices"].as_array().unwrap().iter().map(|n| n["event"]["session_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually("the look to count", || (of("seen") == [seen.as_str()]).then_some(()));
    assert_eq!(of("pending"), [""; 0]);
    let shown = p.call(["events", "history", "--state", "seen"]).good().text();
    assert!(shown.lines().nth(1).unwrap().contains(" seen "), "{shown}");
    let refused = p.call(["events", "history", "--state", "gone"]);
    assert!(refused.code == Some(2) && refused.err.contains("superseded"), "{refused:?}");
    let help = p.call(["events", "history", "--help"]).good().text();
    assert!(help.contains("- seen:") && help.contains("It waits for agents only"), "{help}");
}

#[test]
fn a_person_who_waits_for_notices_is_told_so_at_once() {
    let p = product();
    let mut person = Person::calls(&p, &["events", "drain", "--wait", "5m"]);
    person.sees("nothing is pending; waiting up to 5m, Ctrl-C stops\r\n");
    p.run_with(&["--notify", "--name", "suite"], "exit 1");
    person.sees("suite failed (exit 1)");
    assert_eq!(person.ended(), Some(0));
    let id = p.run_with(&["--notify"], "exit 1");
    pending(&p, 1);
    p.call(["wait", &id]);
    eventually("the wait to count", || {
        let consumed = p.json(["events", "history", "--state", "consumed"]);
        (consumed["notices"].as_array().unwrap().len() == 1).then_some(())
    });
    let mut person = Person::calls(&p, &["events", "drain", "--wait"]);
    person.sees("nothing is pending (1 was already seen); waiting, Ctrl-C stops\r\n");
    person.types("\x03");
    assert_ne!(person.ended(), Some(0));
    assert_eq!(p.call(["events", "drain", "--wait", "0.1"]).good().err, "", "only on a terminal");
}

fn pending(p: &Product, count: usize) {
    eventually("notices", || {
        let found = p.json(["events", "history", "--state", "pending"]);
        (found["notices"].as_array().unwrap().len() == count).then_some(())
    });
}

/// The line without how long the process ran.
fn without_duration(line: &str) -> &str {
    line.rsplit_once(" after ").map_or(line, |(what, time)| {
        assert!(time.ends_with('s'), "{line}");
        what
    })
}

#[test]
fn a_person_reads_one_line_for_each_notice_and_no_text_for_models() {
    let p = product();
    p.run_with(&["--notify", "--name", "suite"], "echo no; exit 1");
    pending(&p, 1);
    let plain = p.run_with(&["--notify"], "exit 0");
    pending(&p, 2);
    p.run_with(&["--watch", "listening", "--name", "web"], "echo Server listening on 8080; exec sleep 1000");
    pending(&p, 3);
    let taken = p.call(["events", "next"]).good().text();
    assert_eq!(said(&taken).iter().map(|l| without_duration(l)).collect::<Vec<_>>(), ["suite failed (exit 1)"], "{taken}");
    p.call(["events", "release", "1"]).good();
    let all = p.call(["events"]).good().text();
    assert!(!all.contains("[IMPORTANT"), "{all}");
    let want = [
        "suite failed (exit 1) after".to_owned(),
        format!("exit 0 ({plain}) finished (exit 0) after"),
        "web printed \"listening\": Server listening on 8080".to_owned(),
    ];
    for (line, want) in said(&all).iter().zip(&want) {
        assert!(line.starts_with(want), "{line}");
    }
    assert_eq!(said(&all).len(), 3, "{all}");
    assert_eq!(p.call(["events", "drain"]).good().text(), "", "what was printed is acknowledged");
    let history = p.call(["events", "history"]).good().text();
    assert!(history.contains("suite failed (exit 1)") && !history.contains("IMPORTANT"), "{history}");
}

#[test]
fn json_and_the_session_of_an_agent_keep_the_texts_for_models() {
    let p = product();
    for n in 0..3 {
        p.json(["events", "post", "--session", "s", &json!({"type": "note", "message": format!("no {n}")}).to_string()]);
    }
    let next = p.json(["events", "next", "--session", "s"]);
    assert!(next["text"].as_str().unwrap().starts_with("[IMPORTANT: "), "{next}");
    p.call(["events", "ack", "--session", "s", "1"]).good();
    let of_agent: Answer = p.command(["events", "drain", "--limit", "1"]).env("OUTLAST_SESSION", "s").output().unwrap().into();
    assert_eq!(of_agent.good().text(), "[IMPORTANT: A notice of kind \"note\" was posted.\nMessage: no 1\n]\n");
    let of_person = p.call(["events", "drain", "--session", "s"]).good().text();
    assert_eq!(said(&of_person), ["note: no 2"]);
}

#[test]
fn a_person_who_follows_sees_whose_notice_it_is() {
    let p = product();
    p.engine();
    let mut person = Person::calls(&p, &["events", "follow"]);
    person.sees("Ctrl-C leaves");
    p.json(["events", "post", "--session", "agent:7", r#"{"type": "deploy", "message": "stage 2\nis \u001b[2Jdone"}"#]);
    person.sees("deploy: stage 2 is \u{fffd}[2Jdone\r\n");
    assert!(person.seen.contains("[agent:7] ") && !person.seen.contains("IMPORTANT"), "{}", person.seen);
    person.types("\u{3}");
    assert_eq!(person.ended(), Some(0));
}

/// `events` printed only that nothing is pending, after `log` had shown the end.
#[test]
fn a_person_is_told_that_notices_were_already_seen() {
    let p = product();
    let nothing = |want: &str| {
        let (shown, code) = Person::calls(&p, &["events"]).until_the_end();
        assert_eq!((shown.trim_end(), code), (want, Some(0)));
    };
    nothing("no notices are pending");
    let id = p.run_with(&["--notify"], "exit 1");
    pending(&p, 1);
    p.call(["log", &id]).good();
    let is_consumed = || p.json(["events", "history"])["notices"][0]["state"] == "consumed";
    eventually("the notice to be consumed", || is_consumed().then_some(()));
    nothing("no notices are pending; 1 of the last hour was already seen (`outlast events history`)");
    let id = p.run_with(&["--notify"], "exit 1");
    pending(&p, 1);
    p.json(["poll", &id]);
    nothing("no notices are pending; 2 of the last hour were already seen (`outlast events history`)");
}

#[test]
fn a_person_is_told_until_when_another_taker_holds_notices() {
    let p = product();
    p.json(["events", "post", "--id", "held", r#"{"type": "deploy", "message": "done"}"#]);
    let until = p.json(["events", "next", "--lease", "1h"])["notices"][0]["lease_until"].as_str().unwrap().to_owned();
    let (shown, _) = Person::calls(&p, &["events", "next"]).until_the_end();
    let held = shown.trim_end().strip_prefix("no notices are pending; 1 is held by another taker until ").unwrap();
    assert!(held.ends_with(&until[14..19]), "{shown}: {until}");
    assert!(Person::calls(&p, &["events"]).until_the_end().0.contains("; 1 is held by another taker until "));
}
