//! What is listed, to whom.

use crate::gate::Gate;
use crate::support::*;

fn ids(listed: &Value) -> Vec<String> {
    listed["processes"].as_array().unwrap().iter().map(|e| e["session_id"].as_str().unwrap().to_owned()).collect()
}

fn entry<'a>(listed: &'a Value, id: &str) -> &'a Value {
    listed["processes"].as_array().unwrap().iter().find(|e| e["session_id"] == id).unwrap_or_else(|| panic!("{id} is not in {listed}"))
}

#[test]
fn a_process_that_a_stop_signal_suspended_says_so_until_it_is_continued() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let is_suspended = || {
        let (polled, listed) = (p.json(["poll", &id]), p.json(["list"])["processes"][0].clone());
        assert_eq!((&polled["phase"], &polled["status"]), (&json!("running"), &json!("running")), "{polled}");
        assert_eq!(polled["is_suspended"], listed["is_suspended"]);
        polled["is_suspended"] == true
    };
    assert!(!is_suspended());
    p.call(["signal", &id, "STOP"]).good();
    eventually("it to be suspended", || is_suspended().then_some(()));
    assert!(p.call(["list"]).good().text().contains("  suspended  "));
    let polled = p.call(["poll", &id]).good().text();
    assert!(
        polled.contains("suspended  by a stop signal") && polled.contains(&format!("`outlast signal {id} CONT` continues it")),
        "{polled}"
    );
    p.call(["signal", &id, "CONT"]).good();
    eventually("it to be continued", || (!is_suspended()).then_some(()));
    assert!(!p.call(["list"]).good().text().contains("suspended"));
}

#[test]
fn case_174_where_nothing_was_started_the_list_is_empty() {
    let p = product();
    assert_eq!(p.json(["list"]), json!({"processes": []}));
    assert_eq!(p.json(["list", "--all"]), json!({"processes": []}));
    let people = p.call(["list"]).good();
    assert_eq!(people.text(), "", "{}", people.err);
}

#[test]
fn case_175_running_ones_come_first_and_finished_ones_when_asked_for() {
    let p = product();
    let finished = p.run("echo out; exit 2");
    p.wait(&finished);
    let running = p.run_with(&["--name", "the sleeper"], "exec sleep 1000");
    assert_eq!(ids(&p.json(["list"])), [running.as_str()]);
    let all = p.json(["list", "--all"]);
    assert_eq!(ids(&all), [running.clone(), finished.clone()]);
    let (on, off) = (entry(&all, &running), entry(&all, &finished));
    assert_eq!((on["status"].as_str(), on["phase"].as_str(), on["name"].as_str()), (Some("running"), Some("running"), Some("the sleeper")));
    assert_eq!((on.get("exit_code"), on["pid"].as_u64().is_some()), (None, true));
    assert_eq!(
        (off["status"].as_str(), off["exit_code"].as_i64(), off["output_preview"].as_str()),
        (Some("exited"), Some(2), Some("out\n"))
    );
    let started_at = on["started_at"].as_str().unwrap();
    assert!(started_at.ends_with('Z') && started_at.as_bytes()[10] == b'T', "RFC 3339 in UTC, not {started_at}");
    assert_eq!(on["cwd"].as_str(), p.work().to_str());
    let people = p.call(["list", "--all"]).good().text();
    assert!(people.contains(&running) && people.contains(&finished) && people.contains("exited 2"), "{people}");
}

#[test]
fn case_175_what_ended_grows_no_older() {
    let p = product();
    let id = p.run("exit 0");
    p.wait(&id);
    let uptime = p.json(["poll", &id])["uptime_seconds"].clone();
    p.kill_engine();
    assert_eq!(p.json(["poll", &id])["uptime_seconds"], uptime);
}

#[test]
fn case_176_a_task_sees_its_own() {
    let p = product();
    let own = p.run_with(&["--task", "t1"], "exec sleep 1000");
    p.run_with(&["--task", "t2"], "exec sleep 1000");
    p.run("exec sleep 1000");
    assert_eq!(ids(&p.json(["list", "--task", "t1"])), [own]);
    assert_eq!(ids(&p.json(["list"])).len(), 3);
    assert_eq!(p.json(["list", "--task", "t"]), json!({"processes": []}));
}

#[test]
fn case_177_another_task_of_the_same_conversation_is_shown_and_flagged() {
    let p = product();
    let own = p.run_with(&["--task", "t1", "--session", "s1"], "exec sleep 1000");
    let scoped = p.run_with(&["--task", "t2", "--session", "s1"], "exec sleep 1000");
    p.run_with(&["--task", "t2", "--session", "s2"], "exec sleep 1000");
    let listed = p.json(["list", "--task", "t1", "--session", "s1"]);
    assert_eq!(ids(&listed), [own.clone(), scoped.clone()]);
    assert_eq!((entry(&listed, &own).get("session_scoped"), entry(&listed, &scoped)["session_scoped"].as_bool()), (None, Some(true)));
}

#[test]
fn case_179_a_secret_in_command_or_output_is_masked() {
    let p = product();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let id = p.run(&format!("echo token {secret}; : {secret}"));
    p.wait(&id);
    for said in [p.json(["list", "--all"]), p.json(["poll", &id]), p.json(["log", &id]), p.json(["wait", &id])] {
        assert!(!said.to_string().contains(secret), "{said}");
        assert!(said.to_string().contains("ghp_01...2345"), "{said}");
    }
    assert!(!p.call(["list", "--all"]).text().contains(secret));
    assert!(p.call(["log", "--raw", &id]).text().contains(secret), "the bytes themselves are kept");
}

#[test]
fn case_180_what_an_agent_has_just_started_is_in_its_list() {
    let p = product();
    let agent = [("OUTLAST_SESSION", "chat-1"), ("OUTLAST_TASK", "default")];
    let started = Answer::from(p.command(["run", "--json", "--", "exec sleep 1000"]).envs(agent).output().unwrap()).json();
    for flags in [&["list", "--json"][..], &["list", "--json", "--task", "another", "--session", "chat-1"]] {
        let listed = Answer::from(p.command(flags).envs(agent).output().unwrap()).json();
        assert_eq!(ids(&listed), [started["session_id"].as_str().unwrap()], "{flags:?}");
    }
    let other = Answer::from(p.command(["list", "--json"]).env("OUTLAST_SESSION", "chat-2").output().unwrap()).json();
    assert_eq!(ids(&other), [""; 0]);
}

#[test]
fn a_command_longer_than_a_line_is_cut_in_a_list_and_whole_in_a_poll() {
    let p = product();
    let line = format!("exec sleep 1000 # {}", "é".repeat(500));
    let id = p.run(&line);
    let listed = p.json(["list"]);
    assert_eq!(entry(&listed, &id)["command"].as_str().unwrap().chars().count(), 200);
    assert_eq!(p.json(["poll", &id])["command"], line);
}

#[test]
fn what_was_listed_while_it_ran_holds_nothing_open_once_it_is_over() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let open = || std::fs::read_dir(format!("/proc/{}/fd", p.engine())).unwrap().flatten().map(|fd| std::fs::read_link(fd.path()));
    let metas = || open().filter(|to| to.as_ref().is_ok_and(|to| to.ends_with("meta"))).count();
    let ids: Vec<String> = (0..20).map(|_| p.run(&gate.wait())).collect();
    assert_eq!(p.json(["list"])["processes"].as_array().unwrap().len(), 20);
    for _ in &ids {
        gate.open();
    }
    for id in &ids {
        assert_eq!(p.wait(id)["exit_code"], 0);
    }
    eventually("no meta is open", || (metas() == 0).then_some(()));
}

#[test]
fn the_agent_of_a_conversation_is_listed_when_all_is_asked_for_and_a_finished_one_never() {
    let p = product();
    let key = "agent:main:local:dm:main";
    let build = p.run_with(&["--session", key], "exec sleep 1000");
    let agent = p.run_with(&["--session", &format!("outlast:agent:{key}")], "exec sleep 1000");
    let over = p.run_with(&["--session", &format!("outlast:agent:{key}")], "true");
    p.wait(&over);
    let text = |args: &[&str]| p.call(args).good().text();
    let shows = |text: &str| [&build, &agent, &over].map(|id| text.contains(id.as_str()));
    assert_eq!(shows(&text(&["list"])), [true, false, false]);
    assert_eq!(shows(&text(&["list", "--all"])), [true, true, false]);
    assert_eq!(shows(&text(&["list", "--all", "--session", &format!("outlast:agent:{key}")])), [false, true, true]);
    assert!(text(&["list"]).lines().all(|line| line.contains("main") || line.contains("CHAT")));
    // Programs get all of them, and can tell.
    let listed = p.json(["list", "--all"]);
    let said = |id: &str| (entry(&listed, id)["conversation"].clone(), entry(&listed, id).get("is_agent").cloned());
    assert_eq!(said(&build), (json!("main"), None));
    assert_eq!((said(&agent), said(&over)), ((json!("main"), Some(json!(true))), (json!("main"), Some(json!(true)))));
}
