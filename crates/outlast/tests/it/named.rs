//! Processes that are named by their names, and several of them at once.

use crate::gate::Gate;
use crate::person::Person;
use crate::support::*;
use crate::told::*;
use std::process::Stdio;

fn in_session(p: &Product, session: &str, args: &[&str]) -> Answer {
    Answer::from(p.command(args).env("OUTLAST_SESSION", session).output().unwrap())
}

#[test]
fn a_name_means_the_newest_that_runs_or_else_the_newest() {
    let p = product();
    let over = p.run_with(&["--name", "web"], "echo old");
    p.wait(&over);
    assert_eq!(p.json(["poll", "web"])["session_id"], over);
    let alone = p.call(["log", "web"]).good();
    assert_eq!((alone.text().as_str(), alone.err.as_str()), ("old\n", ""), "a single process needs no note");
    let older = p.run_with(&["--name", "web"], "echo older; exec sleep 1000");
    let newer = p.run_with(&["--name", "web"], "echo newer; exec sleep 1000");
    let said = p.call(["log", "web"]).good();
    assert_eq!(said.text(), "newer\n");
    assert_eq!(said.err, format!("note: 2 running processes are called web; this is {newer}, the newest\n"));
    p.call(["kill", &older]).good();
    let alone = p.call(["log", "web"]).good();
    assert_eq!((alone.text().as_str(), alone.err.as_str()), ("newer\n", ""), "one of three runs, and is meant");
    assert_eq!(p.json(["poll", "web"])["id"], newer);
    let killed = p.call(["kill", "web"]);
    assert!(killed.err.contains(&format!("web ({newer}) was stopped by kill (SIGTERM)")), "{killed:?}");
    assert_eq!(p.call(["poll", "web"]).good().err, "", "the newest is what a reader wants");
    let said = p.call(["rm", "web"]).good();
    assert!(said.err.contains(&format!("3 processes are called web; this is {newer}, the newest; none of them runs")), "{said:?}");
}

#[test]
fn every_verb_that_takes_an_id_takes_a_name() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--name", "echo", "--stdin"], &format!("trap : USR1; cat; {}; exit 3", gate.wait()));
    for (args, field) in [
        (&["poll", "echo"][..], "session_id"),
        (&["log", "echo"], "session_id"),
        (&["write", "echo", "a"], "session_id"),
        (&["submit", "echo", "b"], "session_id"),
        (&["signal", "echo", "USR1"], "session_id"),
        (&["close", "echo"], "id"),
    ] {
        assert_eq!(p.json(args)[field], id, "{args:?}");
    }
    assert_eq!(p.json(["view", "close", "echo"])["code"], "no_view");
    assert_eq!(p.json(["active", "--waiting", "echo"])["active"], true);
    assert_eq!(p.json(["events", "consumed", "echo"])["consumed"], false);
    assert_eq!(p.json(["events", "history", "--process", "echo"])["notices"], json!([]));
    assert_eq!(p.json(["until", "--no-wait", "--session", "s", "echo"])["code"], "not_found", "it is not of this session");
    assert_eq!(p.json(["until", "--no-wait", "echo"])["message"], format!("Waiting for the end of echo ({id})."));
    gate.open();
    let waited = p.call(["wait", "--json", "echo"]);
    assert_eq!((waited.code, &waited.json()["id"]), (Some(3), &json!(id)));
    assert_eq!(p.json(["until", "echo"])["why"], "exited");
    let attached = p.call(["attach", "echo"]);
    assert!(attached.err.contains(&format!("echo ({id}) exited with code 3")), "{attached:?}");
    let again = p.json(["rerun", "echo"]);
    assert_eq!(again["name"], "echo", "{again}");
    p.call(["kill", "echo"]);
    let again = again["id"].as_str().unwrap();
    assert_eq!(p.json(["rm", "echo"])["id"], again);
    assert_eq!(p.json(["rm", "echo"])["id"], id);
}

#[test]
fn an_unknown_name_is_refused_with_the_near_ones() {
    let p = product();
    let id = p.run_with(&["--name", "web"], "exec sleep 1000");
    for args in [&["log", "wbe"][..], &["until", "wbe"], &["until", "--no-wait", "wbe"], &["view", "close", "wbe"], &["kill", "wbe"]] {
        let refused = p.call(args);
        assert_eq!(refused.code, Some(1), "{args:?}: {refused:?}");
        assert!(refused.err.starts_with("outlast: no process is called wbe\n"), "{args:?}: {refused:?}");
        assert!(refused.err.contains(&format!("did you mean web ({id})?")), "{args:?}: {refused:?}");
        assert_eq!(p.json(args)["code"], "not_found", "{args:?}");
    }
    assert_eq!(p.call(["wait", "wbe"]).code, Some(125));
    assert_eq!(p.json(["until", "--list"])["barriers"], json!([]), "nothing waits for a process that is not there");
}

#[test]
fn a_session_does_not_see_the_names_of_others() {
    let p = product();
    let own = p.run_with(&["--name", "web", "--session", "a"], "exec sleep 1000");
    let other = p.run_with(&["--name", "web", "--session", "b"], "exec sleep 1000");
    p.run_with(&["--name", "hidden", "--session", "b"], "exec sleep 1000");
    let seen = in_session(&p, "a", &["poll", "--json", "web"]).json();
    assert_eq!(seen["id"], own);
    let killed = in_session(&p, "a", &["kill", "web"]);
    assert!(killed.code == Some(0) && !killed.err.contains("note:"), "{killed:?}");
    let refused = in_session(&p, "a", &["kill", "--json", "hiden"]);
    let said = refused.json();
    assert_eq!((refused.code, &said["code"]), (Some(1), &json!("not_found")), "{said}");
    assert!(!said["hint"].as_str().unwrap().contains("hidden"), "{said}");
    assert_eq!(in_session(&p, "a", &["poll", "--json", "hidden"]).json()["code"], "not_found");
    assert_eq!(p.json(["poll", "web"])["id"], other);
}

#[test]
fn a_name_that_is_the_beginning_of_another_id_is_refused_as_ambiguous() {
    let p = product();
    let by_id = p.run_with(&["--id", "proc_beef00000001"], "exec sleep 1000");
    let by_name = p.run_with(&["--name", "beef"], "exec sleep 1000");
    let said = p.json(["kill", "beef"]);
    assert_eq!(said["code"], "ambiguous_id", "{said}");
    assert!(said["error"].as_str().is_some_and(|e| e.contains(&by_id) && e.contains(&by_name)), "{said}");
    assert_eq!(p.json(["poll", "proc_beef"])["id"], by_id);
    p.call(["kill", &by_id]).good();
    p.call(["rm", &by_id]).good();
    assert_eq!(p.json(["poll", "beef"])["id"], by_name);
}

#[test]
fn a_reader_stays_with_its_process_when_the_engine_dies_and_the_name_moves_on() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let first = p.run_with(&["--name", "web"], &format!("echo one; {}; echo two", gate.wait()));
    let mut reader = p.command(["log", "web", "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut begun = [0; 4];
    std::io::Read::read_exact(reader.stdout.as_mut().unwrap(), &mut begun).unwrap();
    assert_eq!(&begun, b"one\n");
    let second = p.run_with(&["--name", "web"], "echo other; exec sleep 1000");
    p.kill_engine();
    assert_eq!(p.json(["poll", "web"])["id"], second);
    gate.open();
    let rest = reader.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&rest.stdout), "two\n");
    assert_eq!(p.wait(&first)["status"], "exited");
}

#[test]
fn several_are_waited_for_and_the_first_code_that_is_not_0_counts() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let a = p.run_with(&["--name", "a"], &format!("{}; echo a", gate.wait()));
    let b = p.run_with(&["--name", "b"], "echo b; exit 3");
    let c = p.run_with(&["--name", "c"], "echo c; exit 4");
    let early = p.call(["wait", "--json", "--timeout", "0.05", "a", "b"]);
    let said = early.json();
    let states: Vec<&Value> = said["processes"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!((early.code, states), (Some(124), vec![&json!("timeout"), &json!("exited")]), "{said}");
    gate.open();
    let all = p.call(["wait", "a", "c", "b", "a"]);
    assert_eq!((all.code, all.text().as_str()), (Some(4), "a\nc\nb\n"), "{all:?}");
    let said = p.json(["wait", "a", "b"]);
    let got: Vec<(&Value, &Value)> = said["processes"].as_array().unwrap().iter().map(|one| (&one["id"], &one["exit_code"])).collect();
    assert_eq!(got, [(&json!(a), &json!(0)), (&json!(b), &json!(3))], "{said}");
    let twice = p.json(["wait", "c", &c]);
    assert_eq!((twice["processes"].as_array().map(Vec::len), &twice["processes"][0]["id"]), (Some(1), &json!(c)), "{twice}");
    // A name that is wrong is told before anything is waited for.
    let wrong = p.call(["wait", "a", "nonsense"]);
    assert_eq!((wrong.code, wrong.text().as_str()), (Some(125), ""), "{wrong:?}");
}

#[test]
fn several_are_signalled_stopped_and_removed_and_one_that_cannot_be_keeps_no_other_from_it() {
    let p = product();
    let a = p.run_with(&["--name", "a"], "exec sleep 1000");
    let b = p.run_with(&["--name", "b"], "exec sleep 1000");
    let over = p.run_with(&["--name", "over"], "exit 3");
    p.wait(&over);
    let wrong = p.call(["kill", "a", "nonsense"]);
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
    assert_eq!(p.json(["poll", "a"])["status"], "running", "a wrong name is told before anything is stopped");
    let sent = p.call(["signal", "--json", "a", "over", "b", "CONT"]);
    let said = sent.json();
    let got: Vec<(&Value, &Value)> = said["processes"].as_array().unwrap().iter().map(|one| (&one["id"], &one["status"])).collect();
    let want = [(json!(a), json!("signalled")), (json!(over), json!("already_exited")), (json!(b), json!("signalled"))];
    assert_eq!(got, want.iter().map(|(id, status)| (id, status)).collect::<Vec<_>>(), "{said}");
    assert_eq!(sent.code, Some(1));
    let busy = p.call(["rm", "a", "over"]);
    assert!(busy.code == Some(1) && busy.err.contains(&format!("outlast: a ({a}) is still running")), "{busy:?}");
    assert_eq!(p.json(["poll", &over])["code"], "not_found");
    let stopped = p.call(["kill", "a", "b"]);
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert!(stopped.err.contains(&format!("a ({a}) was stopped")) && stopped.err.contains(&format!("b ({b}) was stopped")), "{stopped:?}");
    let gone = p.call(["rm", "--json", "a", "b"]);
    assert_eq!((gone.code, gone.json()["processes"].as_array().map(Vec::len)), (Some(0), Some(2)));
    assert_eq!(p.json(["list", "--all"]), json!({"processes": []}));
}

#[test]
fn a_user_is_told_that_the_name_of_a_new_process_is_in_use() {
    let p = product();
    let first = p.run_with(&["--name", "web"], "exec sleep 1000");
    let run = &["run", "--name", "web", "--", "sleep", "1000"];
    let mut person = Person::calls(&p, run);
    let note = format!("note: another process called web runs ({first}); `web` means the newest that runs, so this one only while it runs");
    person.sees(&note);
    let (seen, code) = person.until_the_end();
    let id = seen.split_whitespace().find(|word| word.starts_with("proc_") && **word != first).unwrap();
    assert!(code == Some(0) && seen.contains(&format!("`outlast log {id} --follow`")), "{seen}");
    assert_eq!(p.call(run).good().err, "", "only on a terminal");
    let (seen, _) = Person::calls(&p, &["rerun", "web"]).until_the_end();
    assert!(seen.contains("note: another process called web runs (") && !seen.contains("log web"), "{seen}");
    let other = Person::calls(&p, &["run", "--name", "other", "--", "true"]);
    assert!(!other.until_the_end().0.contains("note"));
}

#[test]
fn a_name_that_falls_back_to_an_older_process_is_noted_and_hints_use_the_id() {
    let p = product();
    let server = p.run_with(&["--name", "web"], "exec sleep 1000");
    // The new one ends at once: the name means the server again.
    let (seen, _) = Person::calls(&p, &["run", "--name", "web", "--", "exit 1"]).until_the_end();
    let ids: Vec<&str> = seen.split_whitespace().filter(|word| word.starts_with("proc_")).collect();
    let new = *ids.iter().find(|id| **id != server).unwrap();
    assert!(seen.contains(&format!("`outlast log {new}` shows its output")), "{seen}");
    let note = format!("note: 2 processes are called web; this is {server}, the newest that runs\n");
    assert_eq!(p.call(["log", "web"]).good().err, note);
    let killed = p.call(["kill", "web"]).good();
    assert!(killed.err.starts_with(&note) && killed.err.contains(&format!("web ({server}) was stopped")), "{killed:?}");
    let waited = p.call(["run", "--name", "web", "--wait", "--", "exit 3"]);
    assert_eq!((waited.code, waited.err.as_str()), (Some(3), ""), "nothing else runs");
    let (seen, _) = Person::calls(&p, &["run", "--name", "web", "--follow", "--", "true"]).until_the_end();
    assert!(seen.contains("web (proc_") && seen.contains(") runs; Ctrl-C leaves it running"), "{seen}");
}

#[test]
fn looking_a_name_up_is_not_seeing_the_end() {
    let p = product();
    let id = p.run_with(&["--name", "job", "--notify", "--session", "s"], "exit 3");
    p.wait(&id);
    let refused = in_session(&p, "s", &["kill", "job"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_eq!(about(&drained(&p, "s")), [id.as_str()]);
}

#[test]
fn verbs_have_the_names_that_people_try() {
    let p = product();
    let id = p.run_with(&["--name", "web"], "echo out");
    p.wait(&id);
    assert_eq!(p.json(["ps", "-a"])["processes"][0]["id"], id);
    for verb in ["status", "show"] {
        assert_eq!(p.json([verb, "web"])["id"], id, "{verb}");
    }
    for args in [&["logs", "web"][..], &["tail", "web"], &["tail", "-f", "-n", "1", "web"]] {
        assert_eq!(p.call(args).good().text(), "out\n", "{args:?}");
    }
    assert_eq!(p.json(["stop", "web"])["error"], "Process has already finished");
    assert!(p.call(["stop", "web"]).err.starts_with(&format!("outlast: web ({id}) has already finished\n")));
    let slip = p.call(["lgo", "web"]);
    assert!(slip.code == Some(2) && slip.err.contains("similar"), "{slip:?}");
}

#[test]
fn a_command_needs_no_dashes_before_it() {
    let p = product();
    let line = p.call(["run", "-w", "--name", "x", "printf", "%s\n", "--json", "-j4"]).good();
    assert_eq!(line.text(), "--json\n-j4\n");
    assert_eq!(p.call(["run", "-w", "echo a; echo b"]).good().text(), "a\nb\n");
    assert_eq!(p.call_with_input(["run", "-w", "-"], b"echo from stdin\n").good().text(), "from stdin\n");
    assert_eq!(p.call(["run", "-w", "printf", "%s", "--"]).good().text().trim_end(), "--");
    assert!(p.call(["run", "-w", "echo", "--help"]).good().text().starts_with("Usage: echo"));
    assert_eq!(p.call(["run", "-f", "echo followed"]).good().text(), "followed\n");
    let quiet = p.call(["run", "-q", "--name", "quiet", "true"]).good();
    assert_eq!((quiet.text().trim_end(), quiet.err.as_str()), (p.json(["poll", "quiet"])["id"].as_str().unwrap(), ""));
    let slip = p.call(["run", "--nmae", "x", "true"]);
    assert!(slip.code == Some(125) && slip.err.contains("--name"), "{slip:?}");
    // `--json` behind the command is the command's, also if ours cannot be read.
    let refused = p.call(["run", "--timeout", "0", "grep", "--json"]);
    assert!(refused.code == Some(125) && refused.out.is_empty() && refused.err.starts_with("error:"), "{refused:?}");
}

#[test]
fn a_name_that_would_be_taken_for_a_flag_or_not_be_seen_is_refused() {
    let p = product();
    for name in ["--all", "-x", " ", "\u{3000}"] {
        let refused = p.call(["run", &format!("--name={name}"), "--", "true"]);
        assert_eq!(
            (refused.code, refused.err.as_str()),
            (Some(125), "outlast: the name begins with a dash, or is blank\n  begin it with a letter or a digit, or leave it out\n")
        );
    }
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
}

#[test]
fn an_empty_id_is_said_to_be_empty() {
    let p = product();
    for verb in ["kill", "log", "rm"] {
        let refused = p.call([verb, ""]);
        assert!(refused.code != Some(0) && refused.err.starts_with("outlast: the name or id of the process is empty\n"), "{}", refused.err);
    }
}
