//! How long what is over is kept, and for whom.

use crate::sleeper::Sleeper;
use crate::support::*;

fn is_known(p: &Product, id: &str) -> bool {
    p.json(["poll", id])["status"] != "not_found"
}

#[test]
fn case_215_what_has_just_ended_is_kept() {
    let p = product();
    let id = p.run("echo kept; exit 1");
    p.wait(&id);
    for _ in 0..2 {
        p.run("true");
        p.call(["engine", "stop"]).good();
        assert_eq!(p.json(["log", &id])["output"], "kept");
    }
}

#[test]
fn case_216_over_the_limit_the_oldest_go_and_never_what_runs() {
    let p = product();
    p.configure("retention.bytes = 600000");
    let running = p.run("exec sleep 1000");
    let ids: Vec<String> = (0..4)
        .map(|_| {
            let id = p.run("head -c 250000 /dev/zero");
            p.wait(&id);
            id
        })
        .collect();
    // 4 of 250,000 bytes are too much by two.
    eventually("the oldest two to go", || (!is_known(&p, &ids[0]) && !is_known(&p, &ids[1])).then_some(()));
    assert!(is_known(&p, &ids[2]) && is_known(&p, &ids[3]));
    eventually("their folders to go", || (!p.folder(&ids[0]).path.exists() && !p.folder(&ids[1]).path.exists()).then_some(()));
    assert_eq!(p.json(["poll", &running])["status"], "running");
    assert_eq!(p.json(["log", &ids[3]])["output"].as_str().map(str::len), Some(p.json(["log", &ids[2]])["output"].as_str().unwrap().len()));
}

#[test]
fn case_216_many_that_are_over_are_all_kept() {
    let p = product();
    let ids: Vec<String> = (0..70).map(|_| p.run("true")).collect();
    for id in &ids {
        p.wait(id);
    }
    assert_eq!(p.json(["list", "--all"])["processes"].as_array().map(Vec::len), Some(70));
}

#[test]
fn case_218_age_counts_from_the_end() {
    let p = product();
    // An hour.
    p.configure("retention.days = 0.0416");
    let mut sleeper = Sleeper::start();
    let checkpoint = json!([{"pid": sleeper.pid(), "session_id": "proc_0123456789ab", "started_at": Sleeper::now() - 7_200.0}]);
    p.call_with_input(["adopt", "-"], checkpoint.to_string().as_bytes()).good();
    sleeper.end();
    let id = "proc_0123456789ab";
    assert_eq!(p.wait(id)["status"], "exited");
    p.run("true");
    p.call(["engine", "stop"]).good();
    let polled = p.json(["poll", id]);
    assert_eq!(polled["status"], "exited", "{polled}");
    assert!(polled["is_uptime_at_least"] == true && polled["found_ended_at"].is_string(), "{polled}");
}

#[test]
fn what_is_too_old_goes_at_the_next_start_and_what_runs_stays() {
    let p = product();
    let over = p.run("exit 0");
    p.wait(&over);
    let running = p.run("exec sleep 1000");
    p.configure("retention.days = 0");
    p.call(["engine", "stop"]).good();
    eventually("the old one to go", || (!is_known(&p, &over)).then_some(()));
    eventually("its folder to go", || (!p.folder(&over).path.exists()).then_some(()));
    assert_eq!(p.json(["poll", &running])["status"], "running");
}

#[test]
fn case_219_a_result_is_there_for_its_own_conversation_after_everything_ended() {
    let p = product();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let id = p.run_with(&["--session", "mine"], &format!("echo {secret}; seq 1 100000"));
    p.wait(&id);
    p.call(["engine", "stop"]).good();
    let as_session = |session: &str, args: &[&str]| Answer::from(p.command(args).env("OUTLAST_SESSION", session).output().unwrap()).json();
    let mine = as_session("mine", &["log", "--json", &id, "--offset", "0"]);
    assert!(mine["output"].as_str().unwrap().starts_with("ghp_01...2345\n1\n2\n"), "masked: {}", &mine.to_string()[..200]);
    assert_eq!(mine["showing"], "200 lines", "bounded");
    for args in [&["poll", "--json", &id][..], &["log", "--json", &id], &["wait", "--json", &id], &["rm", "--json", &id]] {
        assert_eq!(as_session("another", args)["status"], "not_found", "{args:?}");
    }
    assert_eq!(as_session("mine", &["poll", "--json", &id])["status"], "exited");
}

#[test]
fn rm_forgets_what_is_over_and_refuses_what_runs() {
    let p = product();
    let running = p.run("exec sleep 1000");
    let refused = p.call(["rm", "--json", &running]);
    assert_eq!((refused.json()["code"].as_str(), refused.code), (Some("still_running"), Some(1)));
    p.json(["kill", &running]);
    assert_eq!(p.json(["rm", &running]), json!({"status": "removed", "id": running, "session_id": running}));
    assert!(!is_known(&p, &running) && !p.folder(&running).path.exists());
    p.kill_engine();
    assert!(!is_known(&p, &running), "also to the next engine");
    assert_eq!(p.json(["rm", &running])["status"], "not_found");
}

#[test]
fn clean_forgets_what_is_over_in_its_scope() {
    let p = product();
    let [a, b] = [["--task", "t1"], ["--task", "t2"]].map(|flags| p.run_with(&flags, "exit 0"));
    let running = p.run_with(&["--task", "t1"], "exec sleep 1000");
    for id in [&a, &b] {
        p.wait(id);
        eventually("the end of its output", || (p.json(["poll", id])["phase"] == "exited").then_some(()));
    }
    let cleaned = p.json(["clean", "--task", "t1"]);
    assert_eq!(cleaned["removed"], 1, "{cleaned}");
    assert!(!is_known(&p, &a) && is_known(&p, &b) && is_known(&p, &running));
    assert_eq!(p.json(["clean"])["removed"], 1);
    assert_eq!(p.json(["list", "--all"])["processes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_left_something_running_is_kept_until_that_has_ended() {
    let p = product();
    let id = p.run("sleep 1000 >/dev/null 2>&1 & echo started");
    let over = p.run("exit 0");
    p.wait(&over);
    eventually("its record of what it left", || (p.json(["poll", &id])["phase"] == "exited").then_some(()));
    assert_eq!(p.json(["poll", &id])["left_running"], 1);
    p.configure("retention.days = 0");
    p.call(["engine", "stop"]).good();
    eventually("the one that left nothing to go", || (!is_known(&p, &over)).then_some(()));
    assert_eq!(p.json(["kill", &id])["left_killed"].as_array().map(Vec::len), Some(1), "without its record no verb finds it");
    p.call(["engine", "stop"]).good();
    eventually("it to go", || (!is_known(&p, &id)).then_some(()));
}
