//! A stop reaches the whole tree and no other process, and reports what was seen.

use crate::support::*;
use outlast_testkit::machine::{self, Group};
use outlast_testkit::trees::{self, Tree, alive_in};
use std::path::Path;
use std::time::{Duration, Instant};

/// Waits for the file that a command makes once it is ready to be stopped.
fn ready(p: &Product) {
    let file = p.work().join("ready");
    eventually("the file ready", || file.exists().then_some(()));
}

fn line_of(p: &Product, file: &str) -> String {
    let path = p.work().join(file);
    eventually(&format!("a line in {file}"), || std::fs::read_to_string(&path).ok().filter(|t| t.ends_with('\n'))).trim().to_owned()
}

#[test]
fn case_149_what_is_over_is_not_signalled() {
    let p = product();
    let id = p.run("exit 4");
    p.wait(&id);
    let answer = p.call(["kill", "--json", &id]);
    let said = answer.json();
    assert_eq!((said["status"].as_str(), said["exit_code"].as_i64()), (Some("already_exited"), Some(4)), "{said}");
    assert_eq!((said["code"].as_str(), answer.code), (Some("already_exited"), Some(1)));
    assert_eq!(p.json(["poll", &id])["completion_reason"], "exited");
}

#[test]
fn case_150_a_kill_is_told_with_its_source_and_the_last_output() {
    let p = product();
    let id = p.run("echo last words; touch ready; exec sleep 1000");
    ready(&p);
    let killed = p.json(["kill", &id]);
    assert_eq!(killed["status"], "killed", "{killed}");
    assert_eq!((killed["completion_reason"].as_str(), killed["termination_source"].as_str()), (Some("killed"), Some("process.kill")));
    assert_eq!((killed["exit_code"].as_i64(), killed["signal"].as_str()), (Some(-15), Some("SIGTERM")));
    assert_eq!((killed["output"].as_str(), killed["seen_dead"].as_u64()), (Some("last words\n"), Some(1)));
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["status"].as_str(), polled["phase"].as_str()), (Some("exited"), Some("exited")), "{polled}");
    assert_eq!((polled["exit_code"].as_i64(), polled["completion_reason"].as_str()), (Some(-15), Some("killed")));
    assert_eq!(p.call(["wait", &id]).code, Some(143));
}

#[test]
fn case_150_a_command_that_ends_well_when_asked_keeps_its_own_code() {
    let p = product();
    let id = p.run("trap 'echo tidy; exit 7' TERM; touch ready; while :; do sleep 0.01; done");
    ready(&p);
    let killed = p.json(["kill", &id]);
    assert_eq!((killed["exit_code"].as_i64(), killed["completion_reason"].as_str()), (Some(7), Some("killed")), "{killed}");
    assert_eq!(killed["output"], "tidy\n");
}

#[test]
fn case_151_a_process_that_ignores_term_is_dead_after_the_grace() {
    let p = product();
    let id = p.run("trap '' TERM; touch ready; while :; do sleep 0.01; done");
    ready(&p);
    let began = Instant::now();
    let killed = p.json(["kill", &id, "--grace", "0.4"]);
    assert_eq!((killed["status"].as_str(), killed["signal"].as_str()), (Some("killed"), Some("SIGKILL")), "{killed}");
    assert!(began.elapsed() >= Duration::from_millis(400), "it was given its grace");
    assert!(alive_in(&p.work()).is_empty());
}

#[test]
fn case_152_a_grace_of_0_kills_at_once_and_without_escalation_nothing_is_reported_as_killed() {
    let p = product();
    let line = "trap 'echo asked >> asked' TERM; touch ready; while :; do sleep 0.01; done";
    let id = p.run(line);
    ready(&p);
    let said = p.json(["kill", &id, "--no-escalate"]);
    assert_eq!(said["status"], "signalled", "{said}");
    assert_eq!(said.get("completion_reason"), None, "{said}");
    line_of(&p, "asked");
    assert_eq!(p.json(["poll", &id])["status"], "running");
    std::fs::remove_file(p.work().join("asked")).unwrap();
    let killed = p.json(["kill", &id, "--grace", "0"]);
    assert_eq!((killed["status"].as_str(), killed["signal"].as_str()), (Some("killed"), Some("SIGKILL")), "{killed}");
    assert!(!p.work().join("asked").exists(), "it was not asked");
}

#[test]
fn case_152_a_term_that_was_outlived_is_not_why_it_ended() {
    let p = product();
    let id = p.run("trap 'touch asked' TERM; touch ready; while [ ! -e gate ]; do sleep 0.01; done; exit 3");
    ready(&p);
    p.json(["kill", &id, "--no-escalate"]);
    eventually("the request", || p.work().join("asked").exists().then_some(()));
    std::fs::write(p.work().join("gate"), "").unwrap();
    let ended = p.wait(&id);
    assert_eq!((ended["exit_code"].as_i64(), ended["completion_reason"].as_str()), (Some(3), Some("exited")), "{ended}");
}

#[test]
fn a_real_time_signal_reaches_the_command() {
    let p = product();
    let id = p.run("trap 'echo told; exit 6' RTMIN+1; touch ready; while :; do sleep 0.01; done");
    ready(&p);
    p.json(["signal", &id, "RTMIN+1"]);
    assert_eq!(p.call(["wait", &id]).code, Some(6));
    let refused = p.call(["signal", "--json", &id, "65"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    // Without keepers the engine sends it.
    let orphan = p.run("trap 'touch told' RTMIN+1; touch trapped; while :; do sleep 0.01; done");
    eventually("the trap", || p.work().join("trapped").exists().then_some(()));
    kill_both_keepers(&p, &orphan);
    eventually("the orphan", || (p.json(["poll", &orphan])["phase"] == "orphaned").then_some(()));
    p.json(["signal", &orphan, "RTMIN+1"]);
    eventually("the signal", || p.work().join("told").exists().then_some(()));
    p.json(["kill", &orphan]);
}

#[test]
fn case_153_a_negative_grace_counts_as_0() {
    let p = product();
    p.configure("terminal.daemon_term_grace_seconds = -5");
    let id = p.run("trap 'touch asked' TERM; touch ready; while :; do sleep 0.01; done");
    ready(&p);
    let killed = p.json(["kill", &id]);
    assert_eq!(killed["signal"], "SIGKILL", "{killed}");
    assert!(!p.work().join("asked").exists());
}

#[test]
fn case_153_an_unreadable_configuration_means_2_seconds() {
    let p = product();
    p.configure("this is = not [ toml");
    let id = p.run("trap '' TERM; touch ready; while :; do sleep 0.01; done");
    ready(&p);
    let began = Instant::now();
    let answer = p.call(["kill", "--json", &id]);
    assert_eq!(answer.json()["signal"], "SIGKILL");
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(answer.err.contains("config.toml"), "{}", answer.err);
}

#[test]
fn case_155_parent_and_children_that_ignore_the_request_are_all_dead() {
    let p = product();
    let id = p.run("trap '' TERM; sleep 1000 & echo $! > a; sleep 1000 & echo $! > b; while :; do wait; sleep 1000; done");
    let pids: Vec<u32> = ["a", "b"].map(|f| line_of(&p, f).parse().unwrap()).to_vec();
    assert!(pids.iter().all(|pid| alive_in(&p.work()).iter().any(|(p, _)| p == pid)));
    let killed = p.json(["kill", &id, "--grace", "0.3"]);
    assert_eq!(killed["status"], "killed", "{killed}");
    assert!(killed["seen_dead"].as_u64() >= Some(3), "{killed}");
    assert_eq!(alive_in(&p.work()), []);
}

#[test]
fn case_156_who_shuts_its_children_down_itself_gets_to_do_it() {
    let p = product();
    let child = "trap \"echo told >> told; exit\" TERM; trap \"echo asked by my parent >> parent; exit\" USR1; touch ready; while :; do sleep 0.01; done";
    let id = p.run(&format!("bash -c '{child}' & c=$!; trap 'kill -USR1 $c; wait $c; exit 0' TERM; while :; do wait; done"));
    ready(&p);
    let killed = p.json(["kill", &id, "--grace", "20"]);
    assert_eq!((killed["status"].as_str(), killed["exit_code"].as_i64()), (Some("killed"), Some(0)), "{killed}");
    assert_eq!(line_of(&p, "parent"), "asked by my parent");
    assert!(!p.work().join("told").exists(), "the child was asked before its parent had its chance");
}

#[test]
fn case_157_the_second_command_of_a_line_never_runs() {
    for flags in [&[][..], &["--pty"]] {
        let p = product();
        let id = p.run_with(flags, "touch ready; sleep 1000; touch second");
        ready(&p);
        let killed = p.json(["kill", &id]);
        assert_eq!(killed["status"], "killed", "{killed}");
        assert_eq!(alive_in(&p.work()), []);
        assert!(!p.work().join("second").exists(), "with {flags:?}");
    }
}

#[test]
fn case_158_a_loop_that_makes_children_leaves_none() {
    let p = product();
    let id = p.run("while :; do sleep 1000 & touch ready; sleep 0.2; done");
    ready(&p);
    assert_eq!(p.json(["kill", &id])["status"], "killed");
    assert_eq!(alive_in(&p.work()), []);
}

#[test]
fn case_159_a_pid_that_was_used_again_is_never_signalled() {
    const NAME: &str = "case_159_a_pid_that_was_used_again_is_never_signalled";
    if let Err(why) = can_choose_pids() {
        return machine::skipped(NAME, why);
    }
    for ours in [true, false] {
        let p = product();
        p.configure("engine.cgroup = false");
        // In a pid namespace of its own, whose next pid can be said.
        let script = r#"
            set -e
            cd "$WORK"
            if [ "$1" = ours ]; then
                id=$("$0" run -- 'exec sleep 1000')
                victim=$("$0" poll --json "$id" | sed 's/.*"pid":\([0-9]*\).*/\1/')
            else
                setsid sleep 1000 & victim=$!
                id=$("$0" adopt --json $victim | sed 's/.*"session_id":"\([^"]*\)".*/\1/')
            fi
            # Neither engine nor keepers are left to see the end.
            ours() {
                for p in $(ls /proc | grep '^[0-9]*$'); do
                    case $(readlink /proc/$p/exe) in */outlast|*/outlast-keeper*) echo $p;; esac
                done
            }
            all=$(ours)
            # Stopped first, so that none of them makes another.
            kill -STOP $all; kill -9 $all
            kill -9 $victim
            wait 2>/dev/null || :
            while [ -e /proc/$victim ]; do sleep 0.01; done
            echo $((victim - 1)) > /proc/sys/kernel/ns_last_pid
            setsid sleep 2000 & stranger=$!
            echo "victim $victim stranger $stranger"
            "$0" poll --json "$id" | sed 's/^/poll /'
            "$0" kill --json "$id" --grace 0.1 | sed 's/^/kill /' || :
            "$0" signal --json "$id" TERM | sed 's/^/signal /' || :
            "$0" kill --json --all | sed 's/^/all /' || :
            tr '\0' ' ' < /proc/$stranger/cmdline | sed 's/^/alive /'
            echo
            "$0" engine stop
        "#;
        let mut inside = std::process::Command::new("unshare");
        inside.args(["-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", script]).arg(env!("CARGO_BIN_EXE_outlast")).arg(if ours {
            "ours"
        } else {
            "adopted"
        });
        let template = p.command(["list"]);
        inside.env_clear().envs(template.get_envs().filter_map(|(n, v)| Some((n, v?)))).env("WORK", p.work());
        let done = inside.output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        let told =
            |word: &str| said.lines().find_map(|l| l.strip_prefix(word)).unwrap_or_else(|| panic!("no {word:?}: {done:?}")).to_owned();
        let numbers = told("victim ");
        let (victim, stranger) = numbers.split_once(" stranger ").unwrap();
        assert_eq!(victim, stranger, "the number was not given out again");
        let polled: Value = serde_json::from_str(&told("poll ")).unwrap();
        assert_eq!((polled["status"].as_str(), polled["phase"].as_str()), (Some("exited"), Some("lost")), "{polled}");
        assert_eq!(polled["exit_code"], Value::Null);
        for word in ["kill ", "signal "] {
            let said: Value = serde_json::from_str(&told(word)).unwrap();
            assert_eq!(said["status"], "already_exited", "{said}");
        }
        assert!(told("all ").contains("\"killed\":0"), "{said}");
        assert_eq!(told("alive ").trim(), "sleep 2000", "the stranger was touched");
    }
}

/// Whether pid namespaces can be made in which the next pid can be chosen.
fn can_choose_pids() -> Result<(), String> {
    let tried = std::process::Command::new("unshare")
        .args(["-p", "-f", "--mount-proc", "sh", "-c", "echo 100 > /proc/sys/kernel/ns_last_pid && sh -c 'echo $$'"])
        .output()
        .map_err(|e| format!("cannot run unshare: {e}"))?;
    if tried.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&tried.stderr).trim().to_owned()) }
}

#[test]
fn case_162_a_term_from_outside_is_not_ours() {
    let p = product();
    let id = p.run("echo $$ > pid; exec sleep 1000");
    let pid = line_of(&p, "pid");
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let ended = p.wait(&id);
    assert_eq!((ended["completion_reason"].as_str(), ended["termination_source"].as_str()), (Some("exited"), Some("")), "{ended}");
    assert_eq!((ended["exit_code"].as_i64(), ended["signal"].as_str()), (Some(-15), Some("SIGTERM")));
}

#[test]
fn case_163_of_many_only_those_of_the_task_end_and_are_counted() {
    let p = product();
    let [a, b, other] = [["--task", "t1"], ["--task", "t1"], ["--task", "t2"]].map(|flags| p.run_with(&flags, "exec sleep 1000"));
    let finished = p.run_with(&["--task", "t1"], "exit 0");
    p.wait(&finished);
    assert_eq!(p.json(["kill", "--all", "--task", "t1"])["killed"], 2);
    for id in [&a, &b] {
        let polled = p.json(["poll", id]);
        assert_eq!((polled["completion_reason"].as_str(), polled["termination_source"].as_str()), (Some("killed"), Some("kill_all")));
    }
    assert_eq!(p.json(["poll", &finished])["completion_reason"], "exited");
    assert_eq!(p.json(["poll", &other])["status"], "running");
    assert_eq!(p.json(["kill", "--all"])["killed"], 1);
    assert_eq!(p.json(["poll", &other])["status"], "exited");
}

#[test]
fn case_163_an_agent_stops_its_own_conversation_only() {
    let p = product();
    let [own, foreign, nobodys] = [&["--session", "s1"][..], &["--session", "s2"], &[]].map(|flags| p.run_with(flags, "exec sleep 1000"));
    let killed = Answer::from(p.command(["kill", "--json", "--all"]).env("OUTLAST_SESSION", "s1").output().unwrap()).json();
    assert_eq!(killed["killed"], 1);
    let refused = Answer::from(p.command(["kill", "--json", &foreign]).env("OUTLAST_SESSION", "s1").output().unwrap()).json();
    assert_eq!(refused["status"], "not_found", "{refused}");
    assert_eq!(p.json(["poll", &own])["status"], "exited");
    for id in [foreign, nobodys] {
        assert_eq!(p.json(["poll", &id])["status"], "running");
    }
}

#[test]
fn case_164_an_abandoned_turn_takes_what_it_started_and_no_more() {
    let p = product();
    let older = p.run_with(&["--session", "s", "--task", "turn-1"], "exec sleep 1000");
    let since = p.run_with(&["--session", "s", "--task", "turn-2"], "exec sleep 1000");
    let foreign = p.run_with(&["--session", "other"], "exec sleep 1000");
    assert_eq!(p.json(["kill", "--all", "--task", "turn-2"])["killed"], 1);
    assert_eq!(p.json(["poll", &since])["status"], "exited");
    for id in [older, foreign] {
        assert_eq!(p.json(["poll", &id])["status"], "running");
    }
}

#[test]
fn case_165_a_survivor_is_named_and_the_process_stays_running_and_can_be_killed() {
    let p = product();
    let frozen = match Group::v1("freezer") {
        Ok(group) => group,
        Err(why) => return machine::skipped("case_165_a_survivor_is_named", format!("{why:#}")),
    };
    let id = p.run("echo $$ > pid; exec sleep 1000");
    let pid = line_of(&p, "pid");
    frozen.set("cgroup.procs", &pid).unwrap();
    frozen.set("freezer.state", "FROZEN").unwrap();
    eventually("the freeze", || (frozen.get("freezer.state").unwrap() == "FROZEN").then_some(()));
    let answer = p.call(["kill", "--json", &id, "--grace", "0"]);
    let said = answer.json();
    assert_eq!((said["code"].as_str(), answer.code), (Some("survivors"), Some(1)), "{said}");
    assert!(said["error"].as_str().unwrap().contains(&pid), "{said}");
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["status"].as_str(), polled.get("exit_code")), (Some("running"), None), "{polled}");
    frozen.set("freezer.state", "THAWED").unwrap();
    let ended = p.wait(&id);
    assert_eq!((ended["signal"].as_str(), ended["completion_reason"].as_str()), (Some("SIGKILL"), Some("killed")), "{ended}");
}

#[test]
fn case_165_a_child_that_survives_is_named_though_its_parent_is_dead() {
    let p = product();
    let frozen = match Group::v1("freezer") {
        Ok(group) => group,
        Err(why) => return machine::skipped("case_165_a_child_that_survives_is_named", format!("{why:#}")),
    };
    let id = p.run("setsid sleep 1000 >/dev/null 2>&1 & echo $! > pid; sleep 1000");
    let pid = line_of(&p, "pid");
    frozen.set("cgroup.procs", &pid).unwrap();
    frozen.set("freezer.state", "FROZEN").unwrap();
    eventually("the freeze", || (frozen.get("freezer.state").unwrap() == "FROZEN").then_some(()));
    let said = p.json(["kill", &id, "--grace", "0.1"]);
    assert_eq!(said["code"], "survivors", "{said}");
    assert!(said["error"].as_str().unwrap().contains(&pid), "{said}");
    frozen.set("freezer.state", "THAWED").unwrap();
    assert!(wait_for_end(pid.parse().unwrap(), PATIENCE));
    assert_eq!(p.wait(&id)["completion_reason"], "killed");
}

#[test]
fn case_167_a_stop_of_what_vanished_is_not_an_error() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let meta = p.meta(&id);
    p.kill_engine();
    for pid in [meta.pump, meta.holder, meta.cmd] {
        freeze(pid);
    }
    for pid in [meta.pump, meta.holder, meta.cmd] {
        kill_and_wait(pid).unwrap();
    }
    let said = p.json(["kill", &id]);
    assert_eq!((said["status"].as_str(), said.get("exit_code")), (Some("already_exited"), Some(&Value::Null)), "{said}");
    assert_eq!(p.json(["poll", &id])["phase"], "lost");
}

/// Stops a process so that it can do nothing about what is done next.
fn freeze(pid: u32) {
    assert!(std::process::Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap().success());
    eventually("the stop", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?.rsplit_once(") ")?.1.starts_with('T').then_some(())
    });
}

/// Kills both keepers at the same instant, as far as the command can tell.
pub(crate) fn kill_both_keepers(p: &Product, id: &str) -> u32 {
    let meta = p.meta(id);
    for pid in [meta.holder, meta.pump] {
        freeze(pid);
    }
    for pid in [meta.holder, meta.pump] {
        kill_and_wait(pid).unwrap();
    }
    meta.cmd
}

#[test]
fn an_orphan_is_told_and_is_stopped_by_identity() {
    for config in ["", "engine.cgroup = false"] {
        let p = product();
        p.configure(config);
        let id = p.run(
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' & sleep 1000 & touch ready; while :; do sleep 0.05; done",
        );
        ready(&p);
        let cmd = kill_both_keepers(&p, &id);
        let polled = eventually("the orphan", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "orphaned"));
        assert_eq!((polled["status"].as_str(), polled["pid"].as_u64()), (Some("running"), Some(u64::from(cmd))), "{polled}");
        assert_eq!(polled.get("exit_code"), None, "no keeper has seen one: {polled}");
        let said = p.call(["poll", &id]).good().text();
        let next = format!("`outlast kill {id}` stops it, `outlast rerun {id}` runs its command again");
        assert!(said.contains("both of its keepers were killed: it keeps running") && said.contains(&next), "{said}");
        let killed = p.json(["kill", &id, "--grace", "0.2"]);
        assert_eq!((killed["status"].as_str(), killed["completion_reason"].as_str()), (Some("killed"), Some("killed")), "{killed}");
        assert_eq!(
            (killed.get("exit_code"), killed["termination_source"].as_str()),
            (Some(&Value::Null), Some("process.kill")),
            "{killed}"
        );
        assert_eq!(alive_in(&p.work()), [], "with {config:?}");
    }
}

#[test]
fn an_orphan_whose_keepers_were_out_of_reach_before_is_told_as_one() {
    let p = product();
    let id = p.run("touch ready; exec sleep 1000");
    ready(&p);
    // A holder that is frozen earlier still has the connection on which it told of the start.
    let meta = p.meta_at_rest(&id);
    freeze(meta.holder);
    // Without its socket no client waits for the other keeper to answer.
    std::fs::remove_file(p.socket_dir().unwrap().join(&id)).unwrap();
    kill_and_wait(meta.pump).unwrap();
    // One keeper holds the lock and can do nothing: that is no proof of anything.
    let polled = eventually("that no keeper answers", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "unreachable"));
    assert_eq!(polled["status"], "running", "{polled}");
    kill_and_wait(meta.holder).unwrap();
    eventually("the orphan", || (p.json(["poll", &id])["phase"] == "orphaned").then_some(()));
    assert_eq!(p.json(["kill", &id])["status"], "killed");
}

#[test]
fn an_orphan_that_ends_by_itself_is_lost_and_no_code_is_made_up() {
    let p = product();
    let id = p.run("touch ready; while [ ! -e gate ]; do sleep 0.01; done; exit 5");
    ready(&p);
    kill_both_keepers(&p, &id);
    eventually("the orphan", || (p.json(["poll", &id])["phase"] == "orphaned").then_some(()));
    std::fs::write(p.work().join("gate"), "").unwrap();
    let answer = p.call(["wait", "--json", &id, "--timeout", "60"]);
    let ended = answer.json();
    assert_eq!(
        (ended["completion_reason"].as_str(), ended["termination_source"].as_str()),
        (Some("lost"), Some("backend_lost")),
        "{ended}"
    );
    assert_eq!((ended.get("exit_code"), answer.code), (Some(&Value::Null), Some(125)), "{ended}");
    // Nor is a time of the end, or a run time.
    let polled = p.json(["poll", &id]);
    assert!(polled.get("ended_at").is_none() && polled["found_ended_at"] == ended["found_ended_at"], "{polled}");
    assert!(polled["found_ended_at"].is_string() && polled.get("last_output_at").is_none(), "{polled}");
    assert_eq!((&polled["uptime_seconds"], &polled["is_uptime_at_least"]), (&json!(0), &json!(true)), "{polled}");
    let listed = &p.json(["list", "--state", "lost"])["processes"][0];
    assert_eq!((&listed["found_ended_at"], &listed["uptime_seconds"]), (&polled["found_ended_at"], &json!(0)), "{listed}");
    let shown = p.call(["poll", &id]).good().text();
    assert!(shown.contains("unknown; found ended at ") && shown.contains("time       unknown\n"), "{shown}");
}

/// How long a stop of a hostile tree may take beyond its grace.
const BEYOND: Duration = Duration::from_secs(1);

fn stop_tree(p: &Product, tree: Tree, at: &Path) {
    std::fs::create_dir(at).unwrap();
    let id = p.run_with(&["--cwd", at.to_str().unwrap()], tree.line);
    eventually("the tree", || at.join("ready").exists().then_some(()));
    let grace = Duration::from_millis(400);
    let began = Instant::now();
    let killed = p.json(["kill", &id, "--grace", "0.4"]);
    let took = began.elapsed();
    assert_eq!(alive_in(at), [], "{}: {killed}", tree.name);
    assert_eq!(
        (killed["status"].as_str(), killed["completion_reason"].as_str()),
        (Some("killed"), Some("killed")),
        "{}: {killed}",
        tree.name
    );
    assert!(took < grace + BEYOND, "{} took {took:?}", tree.name);
}

#[test]
fn hostile_trees_are_gone_within_the_grace_and_a_second() {
    let p = product();
    for (n, tree) in trees::all().into_iter().enumerate() {
        stop_tree(&p, tree, &p.work().join(n.to_string()));
    }
}

#[test]
fn hostile_trees_without_a_cgroup_of_their_own_are_gone_just_as_fast() {
    let p = product();
    p.configure("engine.cgroup = false");
    for (n, tree) in trees::all().into_iter().enumerate() {
        stop_tree(&p, tree, &p.work().join(n.to_string()));
    }
    let status = p.json(["engine", "status"]);
    assert!(status["degraded"].to_string().contains("engine.cgroup"), "{status}");
}

#[test]
fn a_stop_that_lost_its_pump_continues() {
    for config in ["", "engine.cgroup = false"] {
        let p = product();
        p.configure(config);
        let id = p.run(trees::born_in_the_grace().line);
        ready(&p);
        let pump = p.meta(&id).pump;
        let stop = p.command(["kill", "--json", &id, "--grace", "1"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        // The stop is under way, and has made the tree grow.
        line_of(&p, "born");
        kill_and_wait(pump).unwrap();
        let killed = Answer::from(stop.wait_with_output().unwrap()).json();
        assert_eq!((killed["status"].as_str(), killed["completion_reason"].as_str()), (Some("killed"), Some("killed")), "{killed}");
        assert_eq!(alive_in(&p.work()), []);
    }
}

#[test]
fn a_tree_whose_holder_died_is_stopped_whole() {
    for config in ["", "engine.cgroup = false"] {
        let p = product();
        p.configure(config);
        let id = p.run(trees::leavers().line);
        ready(&p);
        let was = p.meta(&id).holder;
        kill_and_wait(was).unwrap();
        eventually("another holder", || Some(p.meta(&id).holder).filter(|h| *h != was));
        let killed = p.json(["kill", &id, "--grace", "0.3"]);
        assert_eq!((killed["status"].as_str(), killed["signal"].as_str()), (Some("killed"), Some("SIGKILL")), "{killed}");
        assert_eq!(alive_in(&p.work()), []);
    }
}

#[test]
fn what_comes_while_another_session_stops_the_engine_is_not_stopped_with_it() {
    let p = product();
    let own = p.run_with(&["--session", "a", "--on-stop", "kill"], "exec sleep 1000");
    let point = "engine_stop.allowed";
    p.points().arm(point).unwrap();
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| p.command(["engine", "stop"]).env("OUTLAST_SESSION", "a").output().unwrap());
        eventually("the stop is allowed", || p.points().held(point));
        let late = p.run_with(&["--session", "b", "--on-stop", "kill"], "exec sleep 1000");
        p.points().release(point).unwrap();
        Answer::from(stop.join().unwrap()).good();
        assert_eq!(p.json(["poll", &own])["termination_source"], "engine.stop");
        let polled = p.json(["poll", &late]);
        assert_eq!(polled["phase"], "running", "{polled}");
    });
}

#[test]
fn a_stop_of_many_continues_when_its_client_has_left() {
    let p = product();
    // More than are stopped at once.
    let ids: Vec<String> = (0..66).map(|_| p.run("trap '' TERM; exec sleep 1000")).collect();
    let mut call = p.command(["kill", "--all", "--grace", "1"]).spawn().unwrap();
    let is_stopping = |entry: &Value| entry["phase"] == "stopping";
    eventually("a stop under way", || p.json(["list"])["processes"].as_array()?.iter().any(is_stopping).then_some(()));
    call.kill().unwrap();
    call.wait().unwrap();
    eventually("nothing runs", || p.json(["list"])["processes"].as_array()?.is_empty().then_some(()));
    assert!(ids.iter().all(|id| p.json(["poll", id])["termination_source"] == "kill_all"));
}

/// Which keepers are killed before the stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dead {
    None,
    Holder,
    Both,
}

#[test]
fn a_stop_leaves_the_engine_and_processes_of_another_home_used_in_the_command() {
    // An engine without a cgroup of its own stays in the leaf of the command that started it.
    for (dead, config) in
        [(Dead::None, ""), (Dead::None, "engine.cgroup = false"), (Dead::Holder, ""), (Dead::Both, "engine.cgroup = false")]
    {
        let (p, other) = (product(), product());
        other.configure(config);
        let call = format!(
            "HOME={} OUTLAST_HOME={} {} run --json --",
            other.user().display(),
            other.home().root.display(),
            other.program().display()
        );
        let id = p.run(&format!("{call} 'exec sleep 1000' > inner; setsid sleep 1000 & touch ready; wait"));
        ready(&p);
        let inner: Value = serde_json::from_str(&line_of(&p, "inner")).unwrap();
        let engine = other.engine();
        match dead {
            Dead::None => {}
            Dead::Holder => {
                let holder = p.meta(&id).holder;
                kill_and_wait(holder).unwrap();
                eventually("another holder", || (![0, holder].contains(&p.meta(&id).holder)).then_some(()));
            }
            Dead::Both => _ = kill_both_keepers(&p, &id),
        }
        let killed = p.json(["kill", "--grace", "0.2", &id]);
        assert_eq!(killed["status"], "killed", "{dead:?} {config}: {killed}");
        let polled = other.json(["poll", inner["session_id"].as_str().unwrap()]);
        assert_eq!((&polled["phase"], &polled["pid"]), (&json!("running"), &inner["pid"]), "{dead:?} {config}");
        assert_eq!(other.engine(), engine, "{dead:?} {config}: the engine of the other home is still the same");
    }
}

#[test]
fn who_only_pretends_to_be_an_engine_or_a_keeper_does_not_escape_a_stop() {
    let p = product();
    let folder = p.home().process("proc_0123456789ab".parse().unwrap()).path;
    let sleep = "sleep 1000; :";
    let id = p.run(&format!(
        "sh -c '{sleep}' outlast __engine --home {} & sh -c '{sleep}' outlast-keeper {} & touch ready; wait",
        p.home().root.display(),
        folder.display()
    ));
    ready(&p);
    assert_eq!(p.json(["kill", "--grace", "0", &id])["status"], "killed");
    assert_eq!(alive_in(&p.work()), []);
}

#[test]
fn those_who_may_not_be_signalled_are_named() {
    use std::os::unix::fs::{PermissionsExt, chown};
    const NAME: &str = "kill::those_who_may_not_be_signalled_are_named";
    const NOBODY: u32 = 65534;
    if !machine::is_root() {
        return machine::skipped(NAME, "root, to become another user");
    }
    let p = product();
    if !machine::lets_others_in(p.work().parent().unwrap()) {
        return machine::skipped(NAME, "a temporary directory that other users may enter");
    }
    let call = |args: &[&str]| {
        let call = p.command(args);
        let mut other = std::process::Command::new("setpriv");
        other.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(call.get_program()).args(call.get_args());
        other.env_clear().envs(call.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(p.work());
        Answer::from(other.stdin(std::process::Stdio::null()).output().unwrap())
    };
    for dir in [p.work().parent().unwrap(), &p.work(), &p.user(), p.points().dir()] {
        chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    if call(&["--version"]).code != Some(0) {
        return machine::skipped(NAME, "a place for the program that others may enter");
    }
    // A set-uid root program, which makes its caller root.
    let become_root = p.work().join("become-root");
    std::fs::copy("/usr/bin/setpriv", &become_root).unwrap();
    std::fs::set_permissions(&become_root, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let line = "./become-root --reuid 0 --regid 0 --clear-groups sleep 1000 & echo $! > pid; touch ready; wait";
    let id = call(&["run", "--json", "--", line]).json()["session_id"].as_str().unwrap().to_owned();
    ready(&p);
    let root: u32 = line_of(&p, "pid").parse().unwrap();
    eventually("root", || std::fs::read_to_string(format!("/proc/{root}/comm")).ok().filter(|name| name == "sleep\n"));
    let killed = call(&["kill", "--json", "--grace", "0.1", &id]).json();
    assert_eq!(killed["code"], "survivors", "{killed}");
    assert!(killed["error"].as_str().is_some_and(|e| e.contains(&root.to_string())), "{killed}");
    kill_and_wait(root).unwrap();
    call(&["kill", &id]);
    eventually("its end", || p.meta(&id).ended);
    call(&["engine", "stop"]);
}

/// Root who may not look into processes of other users, as in Docker's default profile. Newer kernels let CAP_PERFMON and CAP_SYS_ADMIN
/// read an environment as well.
const WITHOUT_PTRACE: [&str; 3] =
    ["setpriv", "--bounding-set=-sys_ptrace,-perfmon,-sys_admin", "--inh-caps=-sys_ptrace,-perfmon,-sys_admin"];
const AS_NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

#[test]
fn descendants_of_other_users_that_cannot_be_examined_are_named_and_not_signalled() {
    const NAME: &str = "kill::descendants_of_other_users_that_cannot_be_examined_are_named_and_not_signalled";
    if !machine::is_root() {
        return machine::skipped(NAME, "root, to give up a capability and become another user");
    }
    let p = product();
    // A cgroup of its own would prove what belongs to it.
    p.configure("engine.cgroup = false");
    let call = |args: &[&str]| Answer::from(crate::places::by_way_of(&p, &WITHOUT_PTRACE, args).output().unwrap());
    if call(&["engine", "start"]).code != Some(0) {
        return machine::skipped(NAME, "setpriv, to give up a capability");
    }
    // One of another user in a session of its own, whose parents are dead: nothing proves what it belongs to. And one whose session was
    // made by a process that carries the mark.
    let line = format!(
        "({AS_NOBODY} setsid sleep 1000 & echo $! > alone); \
         (setsid sh -c '({AS_NOBODY} sleep 1000 & echo $! > in_session); touch ready; exec sleep 1000' &); exec sleep 1000"
    );
    let id = call(&["run", "--json", "--", &line]).json()["session_id"].as_str().unwrap().to_owned();
    ready(&p);
    let [alone, in_session] = ["alone", "in_session"].map(|file| line_of(&p, file).parse::<u32>().unwrap());
    for pid in [alone, in_session] {
        eventually("a process of another user", || outlast_store::os::command_name(pid).filter(|name| name == "sleep"));
    }
    eventually("a session of its own", || outlast_store::os::session_of(alone).filter(|session| *session == alone));
    kill_both_keepers(&p, &id);
    let killed = call(&["kill", "--json", "--grace", "0", &id]).json();
    assert_eq!(killed["status"], "killed", "{killed}");
    let warning = killed["warning"].as_str().unwrap_or_else(|| panic!("no warning: {killed}"));
    assert!(warning.contains("CAP_SYS_PTRACE") && warning.contains("other users may remain"), "{warning}");
    assert!(warning.split([' ', ',']).any(|word| word == alone.to_string()), "{alone} is not named: {warning}");
    assert!(!warning.split([' ', ',']).any(|word| word == in_session.to_string()), "{in_session} is gone: {warning}");
    assert!(outlast_store::os::lives(alone), "it was not proven to belong, and was signalled");
    assert!(!outlast_store::os::lives(in_session), "its session proves it");
    kill_and_wait(alone).unwrap();
}

#[test]
fn an_engine_that_can_examine_everything_warns_of_nothing() {
    if machine::is_root() && !machine::may_examine_others() {
        return machine::skipped("kill::an_engine_that_can_examine_everything_warns_of_nothing", "CAP_SYS_PTRACE");
    }
    let p = product();
    p.configure("engine.cgroup = false");
    let id = p.run("(setsid sleep 1000 & echo $! > detached); touch ready; exec sleep 1000");
    ready(&p);
    let detached: u32 = line_of(&p, "detached").parse().unwrap();
    kill_both_keepers(&p, &id);
    let killed = p.json(["kill", "--grace", "0", &id]);
    assert_eq!((&killed["status"], &killed["warning"]), (&json!("killed"), &Value::Null), "{killed}");
    assert!(!outlast_store::os::lives(detached));
}
