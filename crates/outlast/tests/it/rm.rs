//! `rm` and `clean`: forgetting what is over.

use crate::gate::Gate;
use crate::support::*;

#[test]
fn what_is_over_is_forgotten_with_its_folder() {
    let p = product();
    let id = p.run("echo x");
    p.wait(&id);
    let removed = p.json(["rm", &id]);
    assert_eq!((&removed["status"], &removed["session_id"]), (&json!("removed"), &json!(id)));
    assert!(!p.folder(&id).path.exists());
    for verb in [&["poll", &id][..], &["log", &id], &["rm", &id]] {
        assert_eq!(p.json(verb)["status"], "not_found", "{verb:?}");
    }
    // Also to the next engine.
    p.kill_engine();
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
}

#[test]
fn what_runs_is_not_forgotten() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&gate.wait());
    let refused = p.call(["rm", "--json", &id]);
    assert_eq!((refused.code, refused.json()["code"].as_str()), (Some(1), Some("still_running")), "{refused:?}");
    assert_eq!(p.json(["clean"])["removed"], 0);
    assert_eq!(p.json(["poll", &id])["status"], "running");
}

#[test]
fn a_failed_start_is_forgotten_like_any_other() {
    let p = product();
    let id = p.json(["run", "--", "no-such-program", "x"])["session_id"].as_str().unwrap().to_owned();
    assert_eq!(p.json(["rm", &id])["status"], "removed");
    assert!(!p.folder(&id).path.exists());
}

#[test]
fn clean_forgets_every_finished_one_of_its_scope() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let running = p.run(&gate.wait());
    let ended = |flags: &[&str]| {
        let id = p.run_with(flags, "head -c 100000 /dev/zero");
        p.wait(&id);
        eventually("its last word", || (p.json(["poll", &id])["phase"] == "exited").then_some(()));
        id
    };
    let (one, two, three) = (ended(&["--task", "t1"]), ended(&["--task", "t2"]), ended(&["--session", "s"]));
    let cleaned = p.json(["clean", "--task", "t1"]);
    assert_eq!(cleaned["removed"], 1, "{cleaned}");
    assert!(cleaned["freed_bytes"].as_u64().unwrap() >= 100_000, "{cleaned}");
    assert!(!p.folder(&one).path.exists() && p.folder(&two).path.exists());
    assert_eq!(p.json(["clean"])["removed"], 2);
    assert!(!p.folder(&two).path.exists() && !p.folder(&three).path.exists());
    let left = p.json(["list", "--all"]);
    assert_eq!((left["processes"].as_array().unwrap().len(), &left["processes"][0]["session_id"]), (1, &json!(running)));
}
