//! Processes that another program started, by pid or from a checkpoint of the Hermes agent.

use crate::sleeper::Sleeper;
use crate::support::*;

fn adopt(p: &Product, checkpoint: &Value) -> Answer {
    p.call_with_input(["adopt", "--json", "-"], checkpoint.to_string().as_bytes())
}

/// The one that was taken in.
fn only(answer: &Answer) -> Value {
    let said = answer.json();
    assert_eq!(said["adopted"].as_array().map(Vec::len), Some(1), "{said}");
    said["adopted"][0].clone()
}

fn skipped(answer: &Answer) -> String {
    let said = answer.json();
    assert_eq!((said["adopted"].as_array().map(Vec::len), answer.code), (Some(0), Some(1)), "{said}");
    said["skipped"].to_string()
}

#[test]
fn case_175_189_an_entry_of_the_reference_comes_with_all_its_fields() {
    let p = product();
    let mut sleeper = Sleeper::start();
    let entry = json!({
        "session_id": "proc_0123456789ab", "command": "npm run dev", "pid": sleeper.pid(), "pid_scope": "host", "host_start_time": sleeper.start_ticks(),
        "cwd": "/tmp", "started_at": Sleeper::now() - 100.0, "task_id": "t1", "session_key": "agent:main:chat", "watcher_platform": "telegram",
        "watcher_chat_id": "42", "watcher_user_id": "7", "watcher_user_name": "u", "watcher_thread_id": "", "watcher_message_id": "", "watcher_interval": 5,
        "notify_on_complete": true, "watch_patterns": ["ERROR"], "a field of a later version": {"x": 1},
    });
    let taken = only(&adopt(&p, &json!([entry])));
    assert_eq!((taken["session_id"].as_str(), taken["pid"].as_u64()), (Some("proc_0123456789ab"), Some(u64::from(sleeper.pid()))));
    assert_eq!((taken["status"].as_str(), taken["detached"].as_bool()), (Some("running"), Some(true)), "{taken}");
    assert_eq!((taken["command"].as_str(), taken["cwd"].as_str()), (Some("npm run dev"), Some("/tmp")));
    assert_eq!((taken["task_id"].as_str(), taken["session_key"].as_str()), (Some("t1"), Some("agent:main:chat")));
    assert!(taken["uptime_seconds"].as_u64() >= Some(100), "{taken}");
    assert_eq!(taken["note"], "Process recovered after restart -- output history unavailable");
    assert_eq!(p.json(["list", "--task", "t1"])["processes"][0]["detached"], true);
    // Its owner gets a notice of the end. Its output cannot be watched.
    assert_eq!((&taken["notify_on_complete"], &taken["watch_patterns"]), (&json!(true), &Value::Null), "{taken}");
    assert!(taken["warnings"][0].as_str().is_some_and(|warning| warning.contains("watched for")), "{taken}");
    p.kill_engine();
    sleeper.end();
    let told = eventually("the notice", || p.json(["events", "drain", "--session", "agent:main:chat"])["events"].get(0).cloned());
    let (event, text) = (&told["event"], told["text"].as_str().unwrap());
    assert_eq!((&event["type"], &event["exit_code"], &event["task_id"]), (&json!("completion"), &Value::Null, &json!("t1")), "{told}");
    assert_eq!((&event["platform"], &event["chat_id"], &event["user_id"]), (&json!("telegram"), &json!("42"), &json!("7")), "{told}");
    let lost = "Background process proc_0123456789ab marked lost because the process backend disappeared (exit code ?).";
    assert!(text.contains(lost) && text.contains("output was not kept") && text.contains("npm run dev"), "{text}");
}

#[test]
fn an_adopted_process_is_shown_as_adopted_and_not_as_orphaned() {
    let p = product();
    let mut sleeper = Sleeper::start();
    let taken = only(&p.call(["adopt", "--json", &sleeper.pid().to_string()]));
    let id = taken["session_id"].as_str().unwrap();
    for shown in [&taken, &p.json(["poll", id]), &p.json(["list"])["processes"][0]] {
        assert_eq!(
            (&shown["phase"], &shown["status"], &shown["detached"]),
            (&json!("adopted"), &json!("running"), &json!(true)),
            "{shown}"
        );
    }
    assert!(p.call(["list"]).good().text().contains(" adopted "));
    let text = p.call(["poll", id]).good().text();
    assert!(text.contains("adopted: its output and exit code are not available") && !text.contains("recovered"), "{text}");
    let checks = p.json(["doctor", "--quick"])["checks"].to_string();
    assert!(!checks.contains("both keepers of "), "{checks}");
    p.kill_engine();
    assert_eq!(p.json(["poll", id])["phase"], "adopted", "from its folder alone");
    sleeper.end();
    p.wait(id);
    assert_eq!(p.json(["poll", id])["phase"], "lost");
}

#[test]
fn the_end_of_an_adopted_process_is_told_only_if_it_was_to_be() {
    let p = product();
    let mut sleeper = Sleeper::start();
    let taken = only(&adopt(&p, &json!([{"pid": sleeper.pid(), "session_key": "s", "notify_on_complete": false}])));
    sleeper.end();
    p.wait(taken["session_id"].as_str().unwrap());
    assert_eq!(p.json(["events", "history"])["notices"], json!([]));
}

#[test]
fn case_191_a_dead_pid_is_not_taken_in() {
    let p = product();
    let mut sleeper = Sleeper::start();
    let entry = json!({"pid": sleeper.pid(), "command": "x"});
    sleeper.end();
    assert!(skipped(&adopt(&p, &json!([entry]))).contains("not alive"));
    assert_eq!(p.json(["list", "--all"]), json!({"processes": []}));
}

#[test]
fn case_192_without_a_recorded_start_being_alive_is_enough() {
    let p = product();
    let sleeper = Sleeper::start();
    let taken = only(&adopt(&p, &json!([{"pid": sleeper.pid()}])));
    assert_eq!((taken["command"].as_str(), taken["detached"].as_bool()), (Some("unknown"), Some(true)), "{taken}");
}

#[test]
fn case_193_a_pid_with_another_start_is_not_taken_in() {
    let p = product();
    let mut sleeper = Sleeper::start();
    let answer = adopt(&p, &json!([{"pid": sleeper.pid(), "host_start_time": sleeper.start_ticks() + 1}]));
    assert!(skipped(&answer).contains("another process by now"));
    p.json(["kill", "--all"]);
    assert!(sleeper.is_alive());
}

#[test]
fn case_194_a_pid_with_the_same_start_is_taken_in_as_detached() {
    let p = product();
    let sleeper = Sleeper::start();
    let taken = only(&adopt(&p, &json!([{"pid": sleeper.pid(), "host_start_time": sleeper.start_ticks()}])));
    assert_eq!((taken["detached"].as_bool(), taken["status"].as_str()), (Some(true), Some("running")), "{taken}");
}

#[test]
fn case_195_a_pid_inside_a_sandbox_means_nothing_here() {
    let p = product();
    let mut sleeper = Sleeper::start();
    assert!(skipped(&adopt(&p, &json!([{"pid": sleeper.pid(), "pid_scope": "sandbox"}]))).contains("sandbox"));
    p.json(["kill", "--all"]);
    assert!(sleeper.is_alive());
}

#[test]
fn one_bad_entry_does_not_spoil_the_others() {
    let p = product();
    let sleeper = Sleeper::start();
    let answer = adopt(
        &p,
        &json!([1, null, {}, {"pid": -4}, {"pid": "12"}, {"pid": 4_294_967_296_u64}, {"pid": 1}, {"pid": sleeper.pid(), "session_id": 5}]),
    );
    let said = answer.json();
    assert_eq!((said["adopted"].as_array().map(Vec::len), said["skipped"].as_array().map(Vec::len)), (Some(1), Some(7)), "{said}");
    for nonsense in ["", "{}", "[", "\"x\"", "null"] {
        let answer = p.call_with_input(["adopt", "--json", "-"], nonsense.as_bytes());
        assert_eq!((answer.json()["code"].as_str(), answer.code), (Some("bad_request"), Some(1)), "{nonsense:?}");
    }
    assert_eq!(p.json(["adopt", "no-such-file"])["status"], "error");
}

#[test]
fn case_198_what_was_taken_in_outlasts_one_crash_and_the_next() {
    let p = product();
    let sleeper = Sleeper::start();
    let id = only(&adopt(&p, &json!([{"pid": sleeper.pid(), "session_key": "s"}])))["session_id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        p.kill_engine();
        let polled = p.json(["poll", &id]);
        assert_eq!(
            (polled["status"].as_str(), polled["detached"].as_bool(), polled["session_key"].as_str()),
            (Some("running"), Some(true), Some("s"))
        );
    }
    std::fs::remove_file(p.home().index()).unwrap();
    p.kill_engine();
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["status"].as_str(), polled["detached"].as_bool()), (Some("running"), Some(true)), "from its folder alone: {polled}");
}

#[test]
fn case_199_the_end_of_an_adopted_process_is_known_at_once_and_no_code_is_made_up() {
    let p = product();
    let mut sleeper = Sleeper::start();
    let id = only(&p.call(["adopt", "--json", &sleeper.pid().to_string()]))["session_id"].as_str().unwrap().to_owned();
    let wait = p.command(["wait", "--json", &id]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    sleeper.end();
    let ended = Answer::from(wait.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(125));
    for said in [ended.json(), p.json(["poll", &id])] {
        assert_eq!((said["status"].as_str(), said.get("exit_code")), (Some("exited"), Some(&Value::Null)), "{said}");
        assert_eq!(said["completion_reason"], "lost");
    }
}

#[test]
fn case_201_a_kill_of_an_adopted_process_is_a_real_one() {
    let p = product();
    let mut sleeper = Sleeper::of("bash", ["-c", "sleep 1000 & sleep 1000; wait"]);
    let id = only(&p.call(["adopt", "--json", &sleeper.pid().to_string()]))["session_id"].as_str().unwrap().to_owned();
    let killed = p.json(["kill", &id]);
    assert_eq!((killed["status"].as_str(), killed["termination_source"].as_str()), (Some("killed"), Some("process.kill")), "{killed}");
    assert!(killed["seen_dead"].as_u64() >= Some(2), "{killed}");
    assert_eq!(sleeper.ended_by(), Some(15));
    assert_eq!(p.json(["poll", &id])["exit_code"], Value::Null, "who is not its parent cannot know");
}

#[test]
fn case_201_children_that_an_adopted_process_makes_while_it_is_stopped_end_too() {
    let p = product();
    let born = p.work().join("born");
    let script = format!("trap 'setsid sleep 1000 & echo $! > {0}.new; mv {0}.new {0}' TERM; while :; do sleep 0.01; done", born.display());
    let mut sleeper = Sleeper::of("bash", ["-c", &script]);
    let id = only(&p.call(["adopt", "--json", &sleeper.pid().to_string()]))["session_id"].as_str().unwrap().to_owned();
    let killed = p.json(["kill", &id, "--grace", "0.5"]);
    assert_eq!(killed["status"], "killed", "{killed}");
    assert_eq!(sleeper.ended_by(), Some(9));
    let child: u32 = std::fs::read_to_string(&born).unwrap().trim().parse().unwrap();
    assert!(wait_for_end(child, std::time::Duration::ZERO), "{child} lives");
}

#[test]
fn case_209_taken_in_twice_it_is_one() {
    let p = product();
    let sleeper = Sleeper::start();
    let checkpoint = json!([{"pid": sleeper.pid(), "session_id": "proc_0123456789ab"}]);
    let first = only(&adopt(&p, &checkpoint))["session_id"].clone();
    let again = [only(&adopt(&p, &checkpoint)), only(&p.call(["adopt", "--json", &sleeper.pid().to_string()]))];
    assert!(again.iter().all(|a| a["session_id"] == first), "{again:?}");
    p.kill_engine();
    assert_eq!(only(&adopt(&p, &checkpoint))["session_id"], first);
    assert_eq!(p.json(["list", "--all"])["processes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_we_run_already_is_not_taken_in_as_another() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let pid = p.json(["poll", &id])["pid"].to_string();
    assert_eq!(only(&p.call(["adopt", "--json", &pid]))["session_id"], id);
    assert_eq!(p.json(["list", "--all"])["processes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn case_210_a_secret_in_an_adopted_command_is_not_on_disk() {
    let p = product();
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let by_entry = Sleeper::start();
    let by_pid = Sleeper::of("bash", ["-c", "sleep 1000; :", secret]);
    let taken = only(&adopt(&p, &json!([{"pid": by_entry.pid(), "command": format!("GITHUB_TOKEN={secret} npm run dev")}])));
    assert!(!taken.to_string().contains(secret), "{taken}");
    assert!(!only(&p.call(["adopt", "--json", &by_pid.pid().to_string()])).to_string().contains(secret));
    p.call(["engine", "stop"]).good();
    crate::recover::assert_nowhere(&p.home().root, secret);
    p.json(["kill", "--all"]);
}

#[test]
fn case_211_a_name_with_blanks_and_brackets_does_not_hide_who_it_is() {
    let p = product();
    let odd = p.work().join("a b) S 1 (c");
    std::fs::copy("/bin/sleep", &odd).unwrap();
    let mut sleeper = Sleeper::of(&odd, ["1000"]);
    let taken = only(&adopt(&p, &json!([{"pid": sleeper.pid(), "host_start_time": sleeper.start_ticks()}])));
    p.kill_engine();
    let id = taken["session_id"].as_str().unwrap();
    assert_eq!(p.json(["poll", id])["status"], "running");
    assert_eq!(p.json(["kill", id])["status"], "killed");
    assert_eq!(sleeper.ended_by(), Some(15));
}

#[test]
fn case_213_our_own_programs_are_not_taken_in() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let meta = p.meta(&id);
    let us = std::process::id();
    for pid in [p.engine(), meta.pump, meta.holder, 1] {
        let answer = p.call(["adopt", "--json", &pid.to_string()]);
        let said = answer.json();
        assert_eq!((said["code"].as_str(), answer.code), (Some("not_that_process"), Some(1)), "{pid} of {us}: {said}");
        assert!(skipped(&adopt(&p, &json!([{"pid": pid}]))).contains("Outlast's own"));
    }
    assert_eq!(p.json(["kill", "--all"])["killed"], 1);
}

#[test]
fn case_219_another_conversations_entry_is_not_taken_in_by_this_one() {
    let p = product();
    let mut sleeper = Sleeper::start();
    let checkpoint = json!([{"pid": sleeper.pid(), "session_key": "mine"}]);
    std::fs::write(p.work().join("processes.json"), checkpoint.to_string()).unwrap();
    let answer = Answer::from(p.command(["adopt", "--json", "processes.json"]).env("OUTLAST_SESSION", "another").output().unwrap());
    assert!(skipped(&answer).contains("another session"));
    assert!(sleeper.is_alive());
}
