//! When output came: `--timestamps` and `--since`.

use crate::gate::{Gate, until_printed};
use crate::support::*;
use outlast_client::Time;

/// The second of the day, of a time such as `14:03:22`.
fn second(clock: &str) -> i64 {
    let parts: Vec<i64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
    parts[0] * 3600 + parts[1] * 60 + parts[2]
}

/// `14:03:22 text` as the second and the text.
fn stamped(printed: &str) -> Vec<(i64, String)> {
    let line = |line: &str| {
        let (clock, text) = line.rsplit_once(' ').unwrap();
        (second(clock.split(' ').next_back().unwrap()), text.to_owned())
    };
    printed.lines().map(line).collect()
}

#[test]
fn each_line_has_the_time_at_which_it_came() {
    let p = product().with_env("TZ", "EAST-5");
    // The second line comes in two writes, and has the time of its beginning.
    let id = p.run("echo early; sleep 2.2; printf la; sleep 1.2; echo te; echo last");
    p.wait(&id);
    let started = p.json(["poll", &id])["started_at"].as_str().unwrap().to_owned();
    let stamps = stamped(&p.call(["log", &id, "--timestamps"]).good().text());
    let texts: Vec<&str> = stamps.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts, ["early", "late", "last"]);
    assert_eq!(stamps[0].0, (second(&started[11..19]) + 5 * 3600) % 86_400);
    let later = |n: usize| (stamps[n].0 - stamps[0].0).rem_euclid(86_400);
    assert!((2..30).contains(&later(1)) && (3..60).contains(&later(2)) && later(2) > later(1), "{stamps:?}");
    assert_eq!(stamped(&p.call(["log", &id, "--timestamps", "--follow"]).good().text()), stamps);
    assert_eq!(stamped(&p.call(["log", &id, "--timestamps", "--grep", "last"]).good().text()), stamps[2..]);
    let prefixed = p.call(["log", &id, "--timestamps", "--prefix"]).good().text();
    assert!(prefixed.lines().all(|line| line.starts_with(&format!("{id} | "))) && stamped(&prefixed) == stamps, "{prefixed}");
}

#[test]
fn what_came_since_a_time_is_shown_from_the_beginning_of_its_line() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("echo early; printf be; sleep 2.2; echo gun; echo late; {}", gate.wait()));
    until_printed(&p, &id, "late");
    let started: Time = p.json(["poll", &id])["started_at"].as_str().unwrap().parse().unwrap();
    let since = |seconds: f64, flags: &[&str]| {
        let at = Time::from_micros(started.micros() + (seconds * 1e6) as i64).to_string();
        p.call(["log", &id, "--since", &at].iter().chain(flags)).good()
    };
    assert_eq!(since(-5.0, &[]).text(), "early\nbegun\nlate\n");
    assert_eq!(since(1.5, &[]).text(), "begun\nlate\n");
    assert_eq!(since(1.5, &["--json"]).json()["first_line"], 1);
    assert_eq!(since(600.0, &[]).text(), "");
    for all in ["1h", "3600", "2020-01-31"] {
        assert_eq!(p.call(["log", &id, "--since", all]).good().text(), "early\nbegun\nlate\n");
    }
    let wrong = p.call(["log", &id, "--since", "yesterday"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("neither a duration such as 10m nor a time such as 14:00"), "{}", wrong.err);
    gate.open();
}

#[test]
fn a_pump_that_takes_over_continues_the_times() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("echo first; {}; sleep 1.2; echo second", gate.wait()));
    until_printed(&p, &id, "first");
    kill_and_wait(p.meta(&id).pump).unwrap();
    gate.open();
    p.wait(&id);
    let stamps = stamped(&p.call(["log", &id, "--timestamps"]).good().text());
    assert!((stamps[1].0 - stamps[0].0).rem_euclid(86_400) >= 1, "{stamps:?}");
}

#[test]
fn output_that_came_before_the_time_is_not_shown_because_its_last_line_is_unfinished() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("echo early; printf unfinished; {}", gate.wait()));
    until_printed(&p, &id, "unfinished");
    let later = Time::from_micros(outlast_store::os::now().micros() + 600_000_000).to_string();
    assert_eq!(p.call(["log", &id, "--since", &later]).good().text(), "");
    assert_eq!(p.json(["log", &id, "--since", &later])["output"], "");
    gate.open();
}

#[test]
fn a_time_counts_for_each_of_several_processes_in_json() {
    let p = product();
    let ids = ["a", "b"].map(|name| p.run_with(&["--name", name], "echo early; sleep 2.2; echo late"));
    ids.iter().for_each(|id| drop(p.wait(id)));
    let started: Time = p.json(["poll", &ids[1]])["started_at"].as_str().unwrap().parse().unwrap();
    let since = Time::from_micros(started.micros() + 1_500_000).to_string();
    let logs = p.json(["log", "a", "b", "--since", &since]);
    let shown: Vec<&str> = logs["processes"].as_array().unwrap().iter().map(|log| log["output"].as_str().unwrap()).collect();
    assert_eq!(shown, ["late", "late"], "{logs}");
}

#[test]
fn the_rest_of_a_line_has_a_time_as_well() {
    let p = product();
    let id = p.run("echo 12345; echo last");
    p.wait(&id);
    let whole = stamped(&p.call(["log", &id, "--timestamps"]).good().text());
    let rest = p.call(["log", &id, "--timestamps", "--from-byte", "3"]).good();
    assert_eq!((stamped(&rest.text()), rest.err.as_str()), (vec![(whole[0].0, "45".into()), whole[1].clone()], ""));
}

/// Makes of a process that is over one whose keeper noted no times, as keepers of earlier versions do.
fn forget_times(p: &Product, id: &str) {
    use outlast_store::meta::{Live, flag};
    use std::os::unix::fs::FileExt;
    eventually("its keepers leave", || p.processes().iter().all(|(_, line)| !(line.contains("keeper") && line.contains(id))).then_some(()));
    let file = std::fs::OpenOptions::new().read(true).write(true).open(p.folder(id).meta()).unwrap();
    // The live part begins after the identity of the process.
    let at = 64 + std::mem::offset_of!(Live, flags) as u64;
    let mut flags = [0; 4];
    file.read_exact_at(&mut flags, at).unwrap();
    assert!(p.meta(id).has(flag::TIMED));
    file.write_all_at(&(u32::from_le_bytes(flags) & !flag::TIMED).to_le_bytes(), at).unwrap();
    assert!(!p.meta(id).has(flag::TIMED) && p.meta(id).has(flag::DONE));
    // No keeper of an earlier version has made this file.
    let _none = std::fs::remove_file(p.folder(id).times());
}

#[test]
fn the_output_of_a_keeper_of_an_earlier_version_has_no_times_and_the_user_is_told_why() {
    let p = product();
    let id = p.run("echo one; echo two");
    p.wait(&id);
    forget_times(&p, &id);
    p.kill_engine();
    for args in [&["--timestamps"][..], &["--timestamps", "--follow"], &["--timestamps", "--from-byte", "0"]] {
        let shown = p.call(["log", id.as_str()].iter().chain(args)).good();
        assert_eq!(shown.text(), "--:--:-- one\n--:--:-- two\n", "{args:?}");
        let why = "[--:--:--: not known; the process was started by an earlier version, its disk was full, or the output is too old]\n";
        assert_eq!(shown.err, why, "{args:?}");
    }
    for args in [&["--since", "1h"][..], &["--since", "1h", "--follow"], &["--since", "1h", "--json"]] {
        let refused = p.call(["log", id.as_str()].iter().chain(args));
        let said = format!("{}{}", refused.text(), refused.err);
        assert!(refused.code == Some(1) && said.contains("it was started by an earlier version, or its disk was full"), "{args:?}: {said}");
        assert!(said.contains("leave out the time, or name lines or bytes"), "{args:?}: {said}");
    }
    assert_eq!(p.call(["log", &id]).good().text(), "one\ntwo\n");
}

#[test]
fn the_last_lines_since_a_time_and_those_that_match_can_be_asked_for() {
    let p = product();
    let id = p.run("seq 1 30");
    p.wait(&id);
    assert_eq!(p.call(["log", &id, "--since", "1h", "-n", "2"]).good().text(), "29\n30\n");
    assert_eq!(p.call(["log", &id, "--since", "1h", "-n", "12", "--grep", "2"]).good().text(), "20\n21\n22\n23\n24\n25\n26\n27\n28\n29\n");
    let page = p.json(["log", &id, "--grep", "^1", "-n", "25"]);
    assert_eq!((&page["output"], &page["id"]), (&json!("10\n11\n12\n13\n14\n15\n16\n17\n18\n19"), &json!(id)), "{page}");
}
