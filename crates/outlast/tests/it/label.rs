//! Labels: kept with the process, and what processes are found by.

use crate::person::Person;
use crate::support::*;

fn ids(listed: &Value) -> Vec<String> {
    listed["processes"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn labels_are_shown_and_survive_the_engine_its_index_and_a_rerun() {
    let p = product();
    let id = p.run_with(&["--name", "web", "--label", "app=shop", "--label", "note=a = b"], "exec sleep 1000");
    let labels = json!({"app": "shop", "note": "a = b"});
    let agree = |id: &str| {
        assert_eq!(p.json(["poll", id])["labels"], labels);
        let listed = p.json(["list", "--label", "app=shop"]);
        assert_eq!(listed["processes"][0]["labels"], labels, "{listed}");
    };
    agree(&id);
    assert!(p.call(["poll", "web"]).good().text().contains("labels     app=shop, note=a = b\n"));
    p.kill_engine();
    agree(&id);
    // Without an index, the folder of the process is all there is.
    p.kill_engine();
    for file in ["index.db", "index.db-wal", "index.db-shm"] {
        // The last two are there only while the index is open.
        let _there = std::fs::remove_file(p.home().root.join(file));
    }
    agree(&id);
    p.call(["kill", &id]).good();
    let again = p.json(["rerun", &id]);
    assert_eq!((&again["labels"], &again["name"]), (&labels, &json!("web")), "{again}");
    let plain = p.run("true");
    assert_eq!(p.json(["poll", &plain]).get("labels"), None, "a process without labels has no such field");
}

#[test]
fn labels_that_cannot_be_kept_are_refused_before_anything_starts() {
    let p = product();
    let long = "k".repeat(65) + "=v";
    for (labels, code, says) in [
        (vec!["novalue"], Some(125), "a label is KEY=VALUE"),
        (vec!["=v"], Some(125), "a label is KEY=VALUE"),
        (vec!["a b=v"], Some(125), "\"a b\" cannot be the key of a label"),
        (vec![&long], Some(125), "cannot be the key of a label"),
        (vec!["k=a\nb"], Some(125), "the value of the label k has a control character in it"),
        (vec!["k=1", "k=2"], Some(125), "the label k is given twice"),
    ] {
        let flags = labels.iter().flat_map(|label| ["--label", label]);
        let refused = p.call(["run"].into_iter().chain(flags).chain(["true"]));
        assert!(refused.code == code && refused.err.contains(says), "{labels:?}: {refused:?}");
    }
    assert_eq!(p.json(["list", "--all"]), json!({"processes": []}));
}

#[test]
fn a_secret_in_the_value_of_a_label_is_masked() {
    let p = product();
    let id = p.run_with(&["--env", "DB_PASSWORD=corr3cthorse-Q9", "--label", "db=corr3cthorse-Q9", "--label", "api_token=x1"], "true");
    p.wait(&id);
    assert_eq!(p.json(["poll", &id])["labels"], json!({"db": "***", "api_token": "***"}));
    let spec = std::fs::read(p.folder(&id).path.join("spec")).unwrap();
    assert!(!spec.windows(5).any(|w| w == b"corr3"), "nor is it on disk");
}

#[test]
fn a_list_is_narrowed_by_state_name_and_label_and_sorted() {
    let p = product();
    let web = p.run_with(&["--name", "web", "--label", "app=shop", "--label", "tier=front"], "exec sleep 1000");
    let db = p.run_with(&["--name", "db", "--label", "app=shop"], "exec sleep 1000");
    let bad = p.run_with(&["--name", "tests", "--label", "app=shop"], "exit 3");
    p.wait(&bad);
    let good = p.run("echo out");
    p.wait(&good);
    let listed = |flags: &[&str]| ids(&p.json(["list"].iter().chain(flags)));
    assert_eq!(listed(&["--label", "app=shop"]), [web.as_str(), db.as_str()]);
    assert_eq!(listed(&["--label", "app=shop", "--label", "tier=front"]), [web.as_str()]);
    assert_eq!(listed(&["--label", "app=sho"]), Vec::<String>::new());
    assert_eq!(listed(&["--name", "db"]), [db.as_str()]);
    assert_eq!(listed(&["--state", "exited"]), [bad.as_str(), good.as_str()], "without --all");
    assert_eq!(listed(&["--state", "failed", "--label", "app=shop"]), [bad.as_str()]);
    assert_eq!(listed(&["--state", "running", "--all"]), [web.as_str(), db.as_str()]);
    assert_eq!(listed(&["--all", "--sort", "name"]), [db.as_str(), bad.as_str(), web.as_str(), good.as_str()]);
    let by_start = [web.as_str(), db.as_str(), bad.as_str(), good.as_str()];
    assert_eq!(listed(&["--all", "--sort", "started", "--reverse"]), by_start);
    assert_eq!(listed(&["--all", "--sort", "started"]), by_start.iter().rev().copied().collect::<Vec<_>>(), "the newest first");
    assert_eq!(listed(&["--all", "--sort", "ended"])[..2], [good.as_str(), bad.as_str()]);
    assert_eq!(listed(&["--all", "--sort", "ended", "--reverse"])[..2], [bad.as_str(), good.as_str()], "those that run come last");
    assert_eq!(listed(&["--all", "--sort", "output"]).first(), Some(&good));
    let by_output = p.call(["list", "--all", "--sort", "output"]).good().text();
    assert!(by_output.lines().next().unwrap().contains("OUTPUT") && by_output.contains("4 B"), "{by_output}");
    assert!(!p.call(["list"]).good().text().contains("OUTPUT"));
    let labelled = p.call(["list"]).good().text();
    assert!(labelled.contains("LABELS") && labelled.contains("app=shop, tier=front"), "{labelled}");
    p.call(["signal", "web", "STOP"]).good();
    eventually("it to be suspended", || (listed(&["--state", "suspended"]) == [web.as_str()]).then_some(()));
    assert_eq!(listed(&["--label", "tier"]), [web.as_str()]);
    p.call(["kill", "db"]).good();
    assert_eq!(listed(&["--state", "stopped"]), [db.as_str()]);
    assert_eq!(listed(&["--state", "failed"]), [bad.as_str()], "a stop on request is no failure");
    let mut person = Person::calls(&p, &["list", "--name", "tests"]);
    person.sees("no running process matches; --all includes finished ones");
    assert_eq!(person.ended(), Some(0));
    let mut person = Person::calls_at(&p, &["list", "--label", "ap=shop"], 24, 200);
    person.sees("no running process has --label ap=shop; labels in use: app=shop, tier=front");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn kill_by_label_stops_those_that_have_it_and_no_other() {
    let p = product();
    let shop = ["web", "db"].map(|name| p.run_with(&["--name", name, "--label", "app=shop"], "exec sleep 1000"));
    let other = p.run_with(&["--label", "app=other"], "exec sleep 1000");
    let would = p.json(["kill", "--label", "app=shop", "--dry-run"]);
    assert_eq!((&would["count"], ids(&p.json(["list"])).len()), (&json!(2), 3), "{would}");
    for dry in [&[][..], &["--dry-run"]] {
        let refused = p.call(["kill", "--label", "app=shp"].iter().chain(dry));
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert_eq!(refused.err, "outlast: no running process has --label app=shp\n  labels in use: app=other, app=shop\n");
    }
    let refused = p.call(["kill", "--label", "tier", "--json"]);
    assert_eq!((refused.code, &refused.json()["code"]), (Some(1), &json!("not_found")), "{refused:?}");
    assert_eq!(p.json(["kill", "--label", "app=shop"])["killed"], 2);
    assert_eq!(ids(&p.json(["list"])), [other.as_str()]);
    let refused = p.call(["kill", "--label", "app=other", "web"]);
    assert!(refused.code == Some(2), "{refused:?}");
    // On a terminal it asks before it reaches another session's.
    let theirs = p.run_with(&["--session", "agent-a", "--label", "app=other"], "exec sleep 1000");
    let mut person = Person::calls(&p, &["kill", "--label", "app=other"]);
    person.sees("stop 2 processes, 1 of them of another session (agent-a)? [y/N] ");
    person.types("n\r");
    person.sees("nothing was stopped");
    assert_eq!((person.ended(), ids(&p.json(["list"])).contains(&theirs)), (Some(1), true));
    assert_eq!(p.json(["clean", "--label", "app=nothing"])["removed"], 0);
    assert_eq!(p.json(["clean", "--label", "app=shop"])["removed"], 2);
    assert_eq!(p.json(["poll", &shop[0]])["code"], "not_found");
}

#[test]
fn log_and_wait_by_label_take_what_each_name_means() {
    let p = product();
    let old = p.run_with(&["--name", "web", "--label", "app=shop"], "echo old web");
    p.wait(&old);
    let web = p.run_with(&["--name", "web", "--label", "app=shop"], "echo new web");
    p.wait(&web);
    let db = p.run_with(&["--name", "db", "--label", "app=shop"], "echo the db; exit 3");
    p.wait(&db);
    let other = p.run_with(&["--name", "other"], "echo other");
    p.wait(&other);
    assert_eq!(p.call(["log", "--label", "app=shop"]).good().text(), "web | new web\ndb  | the db\n");
    let followed = p.call(["log", "--label", "app=shop", "--follow"]).good().text();
    assert!(followed.contains("web | new web\n") && followed.contains("db  | the db\n") && followed.lines().count() == 2, "{followed}");
    let waited = p.call(["wait", "--json", "--label", "app=shop"]);
    assert_eq!((waited.code, ids(&waited.json())), (Some(3), vec![web, db]));
    let refused = p.call(["log", "--label", "app=sho"]);
    assert!(refused.code == Some(1) && refused.err.contains("no process has --label app=sho"), "{refused:?}");
}

#[test]
fn a_session_finds_its_own_processes_by_label() {
    let p = product();
    let own = p.run_with(&["--session", "a", "--label", "app=shop"], "echo own");
    let theirs = p.run_with(&["--session", "b", "--label", "app=shop"], "echo theirs");
    p.wait(&own);
    p.wait(&theirs);
    let shown = p.command(["log", "--label", "app=shop"]).env("OUTLAST_SESSION", "a").output().unwrap();
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), format!("{own} | own\n"));
}

#[test]
fn the_answers_about_many_processes_have_their_ids() {
    let p = product();
    let mut ids: Vec<String> = (0..2).map(|_| p.run_with(&["--label", "g=2"], "exec sleep 1000")).collect();
    p.run_with(&["--label", "g=3"], "exec sleep 1000");
    ids.sort();
    let killed = p.json(["kill", "--label", "g=2", "--grace", "0"]);
    assert_eq!((&killed["killed"], &killed["processes"]), (&json!(2), &json!(ids)), "{killed}");
    let cleaned = p.json(["clean", "--label", "g=2"]);
    let mut removed: Vec<&str> = cleaned["processes"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    removed.sort_unstable();
    assert_eq!((&cleaned["removed"], removed), (&json!(2), ids.iter().map(String::as_str).collect()), "{cleaned}");
}
