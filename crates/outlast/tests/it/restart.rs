//! `restart`: the tree is stopped, and the command runs again in its place.

use crate::support::*;
use crate::told::{about, drained};

fn id(of: &Value) -> String {
    of["id"].as_str().unwrap_or_else(|| panic!("no id in {of}")).to_owned()
}

#[test]
fn a_restart_stops_the_whole_tree_and_runs_the_same_again() {
    let p = product();
    let line = "sleep 1000 & echo $! >pid; exec sleep 1000";
    let old = p.run_with(&["--name", "web", "--label", "app=shop", "--env", "GIVEN=kept", "--task", "t"], line);
    let child: u32 = eventually("its child", || std::fs::read_to_string(p.work().join("pid")).ok()?.trim().parse().ok());
    let restarted = p.json(["restart", "web"]);
    assert_eq!(id(&restarted["old"]), old, "{restarted}");
    assert_eq!((&restarted["old"]["status"], &restarted["old"]["seen_dead"]), (&json!("killed"), &json!(2)), "{restarted}");
    assert!(wait_for_end(child, PATIENCE), "the tree is gone");
    let new = &restarted["new"];
    assert_ne!(id(new), old);
    assert_eq!((&new["name"], &new["labels"], &new["task_id"]), (&json!("web"), &json!({"app": "shop"}), &json!("t")), "{new}");
    assert_eq!((&new["command"], &new["status"]), (&json!(line), &json!("running")));
    assert_eq!(p.json(["poll", "web"])["id"], new["id"], "the name means the new one");
    let told = p.call(["restart", "web"]).good();
    let third = told.text().trim().to_owned();
    assert!(told.err.contains(&format!("web ({}) was stopped; {third} runs in its place as pid ", id(new))), "{told:?}");
    assert_eq!(p.json(["list"])["processes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_finished_process_is_started_and_what_it_left_is_stopped() {
    let p = product();
    let old = p.run("sleep 1000 >/dev/null 2>&1 & echo $! >pid");
    p.wait(&old);
    let left: u32 = std::fs::read_to_string(p.work().join("pid")).unwrap().trim().parse().unwrap();
    let restarted = p.json(["restart", &old]);
    assert_eq!(restarted["old"]["status"], "already_exited", "{restarted}");
    assert_eq!(restarted["left_killed"][0]["pid"], left, "{restarted}");
    assert!(wait_for_end(left, PATIENCE));
    assert_eq!(p.wait(&id(&restarted["new"]))["exit_code"], 0);
    let told = p.call(["restart", &old]).good();
    assert!(told.err.contains(&format!("{old} had finished; ")), "{told:?}");
}

#[test]
fn a_process_that_could_not_be_started_again_is_not_stopped() {
    let p = product();
    let running = |id: &str| assert_eq!(p.json(["poll", id])["status"], "running");
    std::fs::create_dir(p.work().join("sub")).unwrap();
    let gone = p.run_with(&["--name", "gone", "--cwd", "sub"], "exec sleep 1000");
    std::fs::remove_dir(p.work().join("sub")).unwrap();
    let refused = p.call(["restart", "gone"]);
    assert!(refused.code == Some(125) && refused.err.contains("/sub does not exist\n  create it again with `mkdir -p /"), "{refused:?}");
    running(&gone);
    let rerun = p.call(["rerun", "gone"]);
    assert!(rerun.code == Some(125) && rerun.err.contains("/sub does not exist\n  create it again with `mkdir -p /"), "{rerun:?}");
    let secret = p.run_with(&["--env", "GITHUB_TOKEN=first"], "exec sleep 1000");
    assert_eq!(p.json(["restart", &secret])["code"], "scrubbed");
    running(&secret);
    let envy = p.run_with(&["--name", "envy", "--env", "API_TOKEN=first"], "exec sleep 1000");
    let refused = p.call(["restart", "envy"]);
    let hint = "`outlast restart envy --env API_TOKEN` gives it again, from the environment of this shell";
    assert_eq!(refused.err, format!("outlast: envy ({envy}) keeps running: the value of API_TOKEN was not kept\n  {hint}\n"));
    let rerun = p.call(["rerun", "envy"]);
    assert_eq!(rerun.err, format!("outlast: envy ({envy}): the value of API_TOKEN was not kept\n  {}\n", hint.replace("restart", "rerun")));
    let both = p.call(["restart", "envy", &envy, &secret]);
    assert!(both.err.contains(&format!("envy ({envy}) keeps running: the value of API_TOKEN")), "{both:?}");
    assert!(both.err.contains(&format!("{secret} keeps running: the value of GITHUB_TOKEN")), "{both:?}");
    let restarted = p.json(["restart", &secret, "--env", "GITHUB_TOKEN=second"]);
    assert_eq!(id(&restarted["old"]), secret, "{restarted}");
    assert_eq!(p.call(["restart", "nothing-like-it"]).code, Some(125));
}

#[test]
fn several_are_restarted_and_what_fails_for_one_is_done_for_the_others() {
    let p = product();
    std::fs::create_dir(p.work().join("sub")).unwrap();
    let bad = p.run_with(&["--name", "bad", "--cwd", "sub"], "exec sleep 1000");
    std::fs::remove_dir(p.work().join("sub")).unwrap();
    let good = p.run_with(&["--name", "good"], "exec sleep 1000");
    let answer = p.call(["restart", "--json", "good", "bad", &good]);
    assert_eq!(answer.code, Some(125), "{answer:?}");
    let all = answer.json()["processes"].clone();
    assert_eq!((id(&all[0]["old"]), &all[1]["code"]), (good, &json!("bad_spec")), "{all}");
    assert_eq!(all.as_array().unwrap().len(), 2, "a process that is named twice is restarted once");
    assert_eq!(p.json(["poll", &bad])["status"], "running");
}

#[test]
fn a_program_that_is_gone_ends_the_restart_with_its_exit_code() {
    let p = product();
    let program = p.work().join("serve");
    std::fs::write(&program, "#!/bin/sh\necho up\nexec sleep 1000\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // The shell of the script has read it by then.
    let old = p.json(["run", "--until", "up", "--", "./serve", "now"])["id"].as_str().unwrap().to_owned();
    std::fs::remove_file(&program).unwrap();
    let failed = p.call(["restart", &old]);
    assert_eq!((failed.code, failed.text().as_str()), (Some(127), ""), "{failed:?}");
    assert!(failed.err.contains(&format!("{old} was stopped")) && failed.err.contains("failed to start"), "{failed:?}");
}

#[test]
fn a_restart_continues_when_its_caller_dies() {
    let p = product();
    let old = p.run_with(&["--name", "web"], "trap '' TERM; echo ready; while :; do sleep 0.01; done");
    eventually("the trap", || p.call(["log", &old]).text().contains("ready").then_some(()));
    let mut call = p.command(["restart", "web", "--grace", "1"]).spawn().unwrap();
    eventually("the stop", || (p.json(["poll", &old])["phase"] == "stopping").then_some(()));
    call.kill().unwrap();
    call.wait().unwrap();
    let new = eventually("the new one", || Some(p.json(["poll", "web"])).filter(|new| new["id"] != old.as_str()));
    assert_eq!((&new["status"], &p.json(["poll", &old])["signal"]), (&json!("running"), &json!("SIGKILL")), "{new}");
}

#[test]
fn a_restart_whose_engine_is_killed_starts_one_process() {
    let p = product();
    let old = p.run_with(&["--name", "web"], "trap '' TERM; echo ready; while :; do sleep 0.01; done");
    eventually("the trap", || p.call(["log", &old]).text().contains("ready").then_some(()));
    let call = p.command(["restart", "--json", "web", "--grace", "1"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually("the stop", || (p.json(["poll", &old])["phase"] == "stopping").then_some(()));
    p.kill_engine();
    let answer = Answer::from(call.wait_with_output().unwrap()).good().json();
    assert_eq!(id(&answer["old"]), old, "{answer}");
    let listed = p.json(["list"]);
    assert_eq!(listed["processes"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["processes"][0]["id"], answer["new"]["id"]);
}

#[test]
fn the_end_that_a_restart_makes_is_no_notice() {
    let p = product();
    let first = p.run_with(&["--name", "web", "--notify", "--session", "s"], "exec sleep 1000");
    p.call(["restart", "web"]).good();
    let by_its_session = p.command(["restart", "web"]).env("OUTLAST_SESSION", "s").output().unwrap();
    assert!(by_its_session.status.success(), "{by_its_session:?}");
    assert_eq!(drained(&p, "s"), Vec::<Value>::new(), "the process that counts runs");
    let now = p.json(["poll", "web"]);
    assert_ne!(now["id"], first.as_str());
    p.call(["signal", "web", "KILL"]).good();
    p.wait("web");
    let told = drained(&p, "s");
    assert_eq!(about(&told), [now["id"].as_str().unwrap()], "{told:?}");
}
