//! What a command leaves running is shown, named and stopped by a kill of the command, and by nothing else.

use crate::kill::kill_both_keepers;
use crate::support::*;
use outlast_testkit::machine;
use std::process::{Child, Stdio};
use std::time::Duration;

/// It holds the output of its command.
const HOLDS: &str = "sleep 1000 & echo $! > left; echo said; exit 3";
/// It has let go of the output of its command, left its session, and does not carry the process id.
const HIDES: &str =
    "env -i setsid sleep 1000 >/dev/null 2>&1 & echo $! > left; while [ \"$(cat /proc/$!/comm)\" != sleep ]; do :; done; echo said; exit 3";

/// A home whose processes have a cgroup leaf where one can be made, and one whose processes have none.
fn with_and_without_a_leaf() -> [Product; 2] {
    let without = product();
    without.configure("engine.cgroup = false");
    [product(), without]
}

/// Runs a command to its end. Its id, and the pid that it left running.
fn left_by(p: &Product, line: &str) -> (String, u32) {
    let id = p.run(line);
    p.wait(&id);
    let left = std::fs::read_to_string(p.work().join("left")).unwrap().trim().parse().unwrap();
    (id, left)
}

fn is_gone(pid: u32) -> bool {
    wait_for_end(pid, Duration::ZERO)
}

/// Waits until the keepers of a process have left, so that only its record is there.
fn until_alone(p: &Product, id: &str) {
    eventually("its keepers leave", || p.processes().iter().all(|(_, line)| !(line.contains("keeper") && line.contains(id))).then_some(()));
}

/// A kill of a process that is over says so as ever, and names what it stopped.
fn assert_stopped(answer: &Answer, left: u32) {
    let said = answer.json();
    assert_eq!((said["status"].as_str(), said["code"].as_str()), (Some("already_exited"), Some("already_exited")), "{said}");
    assert_eq!((said["exit_code"].as_i64(), answer.code), (Some(3), Some(1)), "{said}");
    assert_eq!(said["left_killed"], json!([{"pid": left, "command": "sleep 1000"}]), "{said}");
    assert!(said["id"].is_string() && said["id"] == said["session_id"], "{said}");
    assert!(is_gone(left), "{left}");
}

#[test]
fn what_holds_the_output_is_stopped_by_a_kill_and_then_the_process_can_be_removed() {
    for p in with_and_without_a_leaf() {
        let (id, left) = left_by(&p, HOLDS);
        assert_eq!(p.json(["poll", &id])["phase"], "draining");
        let refused = p.json(["rm", &id]);
        let error = format!("{id} has ended, but left 1 process running: {left} sleep 1000");
        assert_eq!((&refused["code"], &refused["error"]), (&json!("still_running"), &json!(error)), "it does not run itself");
        assert_eq!(p.call(["rm", &id]).err, format!("outlast: {error}\n  `outlast kill {id}` stops it\n"));
        assert_stopped(&p.call(["kill", "--json", &id]), left);
        let polled = p.json(["poll", &id]);
        assert_eq!((polled["phase"].as_str(), polled["exit_code"].as_i64()), (Some("exited"), Some(3)), "{polled}");
        let why = (polled["completion_reason"].as_str(), polled["termination_source"].as_str());
        assert_eq!(why, (Some("exited"), Some("")), "its end is its own");
        assert_eq!((polled.get("left"), polled.get("left_running")), (None, None), "{polled}");
        let again = p.call(["kill", "--json", &id]);
        assert_eq!((again.json().get("left_killed"), again.code), (None, Some(1)), "nothing is left");
        p.call(["rm", &id]).good();
    }
}

#[test]
fn what_has_let_go_of_the_output_is_stopped_by_a_kill_after_the_keepers_have_left() {
    for p in with_and_without_a_leaf() {
        for engine_is_new in [false, true] {
            let (id, left) = left_by(&p, HIDES);
            until_alone(&p, &id);
            if engine_is_new {
                p.kill_engine();
            }
            assert!(!is_gone(left), "nothing is killed unasked");
            assert_stopped(&p.call(["kill", "--json", &id]), left);
            p.call(["rm", &id]).good();
        }
    }
}

#[test]
fn a_process_that_has_left_something_running_is_neither_removed_nor_cleaned_away() {
    for p in with_and_without_a_leaf() {
        let (id, left) = left_by(&p, HIDES);
        until_alone(&p, &id);
        let refused = p.json(["rm", &id]);
        assert_eq!(
            (&refused["code"], &refused["error"]),
            (&json!("still_running"), &json!(format!("{id} has ended, but left 1 process running: {left} sleep 1000")))
        );
        assert_eq!(p.json(["clean", "--dry-run"])["count"], 0);
        assert_eq!(p.json(["clean"]), json!({"removed": 0, "freed_bytes": 0, "kept": 1}));
        assert!(!is_gone(left), "nothing is killed unasked");
        assert_stopped(&p.call(["kill", "--json", &id]), left);
        assert_eq!(p.json(["clean"])["removed"], 1);
    }
}

#[test]
fn what_a_lost_process_left_running_is_shown_and_keeps_its_record_until_it_is_stopped() {
    for p in with_and_without_a_leaf() {
        let line = "sleep 1000 >/dev/null 2>&1 & echo $! > made; mv made left; while :; do sleep 0.01; done";
        let id = p.run(line);
        let left = eventually("a pid", || std::fs::read_to_string(p.work().join("left")).ok()).trim().parse::<u32>().unwrap();
        kill_and_wait(kill_both_keepers(&p, &id)).unwrap();
        let polled = eventually("the loss", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "lost"));
        let is_shown = |shown: &Value| shown["left"] == json!([{"pid": left, "command": "sleep 1000"}]) && shown["left_running"] == 1;
        // The shell may have had a sleep of its own under way.
        let polled = if is_shown(&polled) { polled } else { eventually("one left", || Some(p.json(["poll", &id])).filter(is_shown)) };
        assert!(is_shown(&polled), "{polled}");
        let listed = p.json(["list"])["processes"][0].clone();
        assert!(is_shown(&listed) && listed["id"] == *id, "{listed}");
        let text = p.call(["list"]).text();
        assert!(text.contains("lost, 1 still running") && text.contains(&format!("  {left}  ")), "{text}");
        let text = p.call(["poll", &id]).text();
        assert!(text.contains("unknown, 1 still running\n") && text.contains(&format!("left running  {left} sleep 1000\n")), "{text}");
        let refused = p.json(["rm", &id]);
        assert_eq!(refused["error"], json!(format!("{id} has ended, but left 1 process running: {left} sleep 1000")), "{refused}");
        assert_eq!(p.json(["clean", "--dry-run"])["count"], 0);
        assert_eq!(p.json(["clean"]), json!({"removed": 0, "freed_bytes": 0, "kept": 1}));
        assert!(!is_gone(left), "nothing is killed unasked");
        let killed = p.json(["kill", &id]);
        assert_eq!(killed["left_killed"], json!([{"pid": left, "command": "sleep 1000"}]), "{killed}");
        assert!(is_gone(left));
        assert_eq!(p.json(["list"])["processes"], json!([]), "nothing runs");
        p.call(["rm", &id]).good();
    }
}

#[test]
fn a_kill_tells_a_person_what_it_stopped() {
    let p = product();
    let (id, left) = left_by(&p, HOLDS);
    let said = p.call(["kill", &id]);
    assert_eq!((said.err.as_str(), said.code), (format!("stopped what {id} had left running: {left} sleep 1000\n").as_str(), Some(1)));
    let again = p.call(["kill", &id]);
    assert!(
        again.code == Some(1) && again.err == format!("outlast: {id} has already finished\n  `outlast log {id}` shows its output\n"),
        "{again:?}"
    );
}

#[test]
fn a_tree_that_ignores_term_is_killed_after_the_grace_and_without_escalation_only_asked() {
    let p = product();
    let line =
        "(trap 'touch asked' TERM; echo $BASHPID > left; while :; do sleep 0.01; done) & while [ ! -s left ]; do sleep 0.01; done; exit 3";
    for redirected in ["", ">/dev/null 2>&1 "] {
        let _gone = std::fs::remove_file(p.work().join("left"));
        let (id, left) = left_by(&p, &line.replace(" & while", &format!(" {redirected}& while")));
        let asked = p.call(["kill", "--json", &id, "--no-escalate"]).json();
        assert_eq!(asked["status"], "already_exited", "{asked}");
        eventually("the request", || p.work().join("asked").exists().then_some(()));
        assert!(!is_gone(left));
        let killed = p.call(["kill", "--json", &id, "--grace", "0.2"]).json();
        let pids: Vec<_> = killed["left_killed"].as_array().unwrap().iter().map(|one| one["pid"].as_u64().unwrap()).collect();
        assert!(pids.contains(&left.into()) && is_gone(left), "{killed}");
        std::fs::remove_file(p.work().join("asked")).unwrap();
    }
}

#[test]
fn what_is_left_is_listed_with_its_pids_until_it_ends() {
    let p = product();
    for line in [HOLDS, HIDES] {
        let (id, left) = left_by(&p, line);
        for args in [&["list"][..], &["list", "--all"]] {
            let shown = p.call(args).text();
            let row = shown.lines().find(|l| l.contains(&id)).unwrap_or_else(|| panic!("{shown}")).to_owned();
            assert!(row.contains("exited 3, 1 still running") && row.contains(&format!("  {left}  ")), "{shown}");
        }
        let listed = p.json(["list"])["processes"][0].clone();
        let polled = p.json(["poll", &id]);
        for shown in [&listed, &polled] {
            assert_eq!((&shown["left_running"], &shown["left"]), (&json!(1), &json!([{"pid": left, "command": "sleep 1000"}])), "{shown}");
        }
        let text = p.call(["poll", &id]).text();
        assert!(
            text.contains("exited with code 3, 1 still running\n") && text.contains(&format!("left running  {left} sleep 1000\n")),
            "{text}"
        );
        kill_and_wait(left).unwrap();
        eventually("the end of the output", || (p.json(["poll", &id])["phase"] == "exited").then_some(()));
        assert_eq!(p.json(["poll", &id]).get("left"), None, "it has ended");
        assert_eq!(p.json(["list"])["processes"], json!([]), "nothing runs");
        assert!(p.call(["list", "--all"]).text().contains("exited 3  "), "{}", p.call(["list", "--all"]).text());
        p.call(["rm", &id]).good();
    }
}

#[test]
fn secrets_of_what_is_left_are_masked() {
    let p = product();
    let (id, left) = left_by(
        &p,
        "bash -c 'sleep 1000; :' x --password=hunter2hunter2 & echo $! > left; while [ \"$(cat /proc/$!/comm)\" != bash ]; do :; done; exit 3",
    );
    let shown = p.json(["poll", &id])["left"].to_string();
    assert!(shown.contains(&left.to_string()) && !shown.contains("hunter2"), "{shown}");
    p.call(["kill", &id]);
}

#[test]
fn a_secret_variable_in_the_arguments_of_what_is_left_is_masked() {
    let p = product().with_env("DEPLOY_TOKEN", "swordfish-and-chips");
    let line = "bash -c 'sleep 1000; :' x $DEPLOY_TOKEN & echo $! > left; while [ \"$(cat /proc/$!/comm)\" != bash ]; do :; done; exit 3";
    let id = p.run_with(&["--env", "DEPLOY_TOKEN"], line);
    let waited = p.json(["wait", &id]);
    let (polled, listed, killed) = (p.json(["poll", &id]), p.json(["list"]), p.json(["kill", &id]));
    for shown in [&waited["left"], &polled["left"], &listed["processes"][0]["left"], &killed["left_killed"]] {
        let shown = shown.to_string();
        assert!(shown.contains(" x *******************\"") && !shown.contains("swordfish"), "{shown}");
    }
}

#[test]
fn what_is_left_cannot_steer_the_terminal_by_its_arguments() {
    let p = product();
    let line = r#"bash -c "exec -a $'\033[31mevil\033]0;t\007\tname' sleep 1000" & echo $! > left; while [ "$(cat /proc/$!/comm)" != sleep ]; do :; done; exit 3"#;
    let (id, left) = left_by(&p, line);
    assert_eq!(p.json(["poll", &id])["left"], json!([{"pid": left, "command": "evil name 1000"}]));
    let said = p.call(["kill", &id]);
    assert!(said.err.contains(&format!("had left running: {left} evil name 1000\n")), "{:?}", said.err);
}

#[test]
fn a_kill_of_all_stops_what_finished_processes_left_in_the_scope() {
    let p = product();
    let (_, mine) = left_by(&p, HOLDS);
    let (_, also_mine) = left_by(&p, HIDES);
    let other = p.run_with(&["--session", "other"], HOLDS);
    p.wait(&other);
    let others: u32 = std::fs::read_to_string(p.work().join("left")).unwrap().trim().parse().unwrap();
    let runs = p.run_with(&["--session", "other"], "exec sleep 1000");
    let said = p.json(["kill", "--all", "--session", "other"]);
    assert_eq!((&said["killed"], &said["left_killed"]), (&json!(1), &json!([{"pid": others, "command": "sleep 1000"}])), "{said}");
    assert!(is_gone(others) && !is_gone(mine) && !is_gone(also_mine), "the scope counts");
    assert_eq!(p.json(["poll", &runs])["phase"], "exited");
    let said = p.call(["kill", "--all"]).good();
    assert_eq!(said.text(), "0 stopped\n");
    let remark = "also stopped what finished processes had left running: ";
    assert!(said.err.starts_with(remark) && said.err.contains(&format!("{mine} sleep 1000")), "{}", said.err);
    assert!(is_gone(mine) && is_gone(also_mine));
}

/// A kill under way, in JSON.
fn killing(p: &Product, id: &str) -> Child {
    p.command(["kill", "--json", id, "--grace", "30"]).stdout(Stdio::piped()).spawn().unwrap()
}

fn answer(call: Child) -> Answer {
    Answer::from(call.wait_with_output().unwrap())
}

#[test]
fn a_keeper_killed_in_the_middle_of_the_stop_loses_nothing_of_it() {
    for p in with_and_without_a_leaf() {
        for point in ["pump.left.asked", "pump.stop.asked"] {
            let (id, left) = left_by(&p, HOLDS);
            p.points().arm(point).unwrap();
            let kill = killing(&p, &id);
            let pump = eventually(&format!("the pump at {point}"), || p.points().held(point));
            assert_eq!(pump, p.meta(&id).pump);
            kill_and_wait(pump).unwrap();
            p.points().release(point).unwrap();
            assert_stopped(&answer(kill), left);
            p.call(["rm", &id]).good();
        }
    }
}

#[test]
fn a_keeper_finishes_the_stop_if_engine_and_client_are_killed() {
    let p = product();
    let (id, left) = left_by(&p, HOLDS);
    p.points().arm("pump.left.asked").unwrap();
    let kill = killing(&p, &id);
    eventually("the pump", || p.points().held("pump.left.asked"));
    let client = kill.id();
    kill_and_wait(client).unwrap();
    answer(kill);
    p.kill_engine();
    p.points().release("pump.left.asked").unwrap();
    assert!(wait_for_end(left, PATIENCE), "the stop is finished");
    let polled = eventually("the end of the output", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "exited"));
    assert_eq!((polled.get("left"), &polled["exit_code"]), (None, &json!(3)), "{polled}");
}

#[test]
fn an_engine_killed_in_the_middle_of_the_stop_is_asked_again() {
    let [_, p] = with_and_without_a_leaf();
    // It ignores the TERM, so that the next engine has something to stop.
    let line = "env -i setsid bash -c 'trap : TERM; echo $$ > left; while :; do sleep 0.01; done' >/dev/null 2>&1 & while [ ! -s left ]; do sleep 0.01; done; exit 3";
    let (id, left) = left_by(&p, line);
    until_alone(&p, &id);
    p.points().arm("orphan.asked").unwrap();
    let kill = p.command(["kill", "--json", &id, "--grace", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let engine = eventually("the engine", || p.points().held("orphan.asked"));
    kill_and_wait(engine).unwrap();
    p.points().release("orphan.asked").unwrap();
    let answer = answer(kill);
    let said = answer.json();
    assert_eq!((said["status"].as_str(), answer.code), (Some("already_exited"), Some(1)), "{said}");
    assert!(said["left_killed"].as_array().unwrap().iter().any(|one| one["pid"] == left), "{said}");
    assert!(is_gone(left));
    assert_ne!(p.engine(), engine);
}

#[test]
fn a_keeper_of_an_earlier_version_recorded_a_number_and_the_answer_says_so() {
    use std::os::unix::fs::FileExt;
    let [_, p] = with_and_without_a_leaf();
    let (id, left) = left_by(&p, HIDES);
    until_alone(&p, &id);
    // As such a keeper leaves it: the pid is not there.
    let file = std::fs::OpenOptions::new().read(true).write(true).open(p.folder(&id).meta()).unwrap();
    let mut meta = [0; 1024];
    file.read_exact_at(&mut meta, 0).unwrap();
    let places: Vec<usize> = (64..1024).step_by(4).filter(|at| meta[*at..at + 4] == left.to_le_bytes()).collect();
    assert_eq!((places.len(), p.meta(&id).left.len()), (1, 1));
    file.write_all_at(&[0; 4], places[0] as u64).unwrap();
    assert_eq!((p.meta(&id).left.len(), p.meta(&id).closed.unwrap().1.left_running), (0, 1));
    let said = p.call(["kill", "--json", &id]).json();
    assert_eq!((said["status"].as_str(), said.get("left_killed")), (Some("already_exited"), None), "{said}");
    assert!(said["warning"].as_str().unwrap().contains("did not record which"), "{said}");
    assert!(!is_gone(left), "nothing proves that it is part of it");
    kill_and_wait(left).unwrap();
}

#[test]
fn a_stranger_who_holds_the_output_is_not_touched_and_the_answer_says_so() {
    let p = product();
    // A shell of the test opens the command's own output.
    let id = p.run("echo $$ > left; while [ ! -e gate ]; do sleep 0.01; done; exit 3");
    let pid = eventually("a pid", || std::fs::read_to_string(p.work().join("left")).ok().filter(|t| t.ends_with('\n')));
    let mut stranger = std::process::Command::new("bash")
        .args(["-c", "exec 7>\"$0\"; touch open; exec sleep 1000", &format!("/proc/{}/fd/1", pid.trim())])
        .current_dir(p.work())
        .spawn()
        .unwrap();
    eventually("the stranger", || p.work().join("open").exists().then_some(()));
    std::fs::write(p.work().join("gate"), "").unwrap();
    p.wait(&id);
    let said = p.call(["kill", "--json", &id]).json();
    assert_eq!((said["status"].as_str(), said.get("left_killed")), (Some("already_exited"), None), "{said}");
    assert!(said["warning"].as_str().unwrap().contains("not part of its tree"), "{said}");
    assert!(stranger.try_wait().unwrap().is_none(), "it is not ours");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    eventually("the end of the output", || (p.json(["poll", &id])["phase"] == "exited").then_some(()));
}

#[test]
fn where_nothing_is_left_nothing_is_counted() {
    let p = product();
    let lines = [
        "true",
        "true &",
        "ls / | wc -l",
        "echo a | cat; echo b & echo c",
        "(sleep 0.01; echo z) &",
        "cat <(echo hi)",
        "echo hi | tee >(cat >&2)",
        "(true; (sleep 0.005; true)) & (sleep 0.005) & true | true &",
    ];
    let wrong: Vec<String> = (0..25).flat_map(|_| lines).filter_map(|line| wrong_count(&p, line)).collect();
    assert_eq!(wrong, Vec::<String>::new(), "of {}", 25 * lines.len());
}

/// What was recorded as left running by a command that leaves nothing that does not hold its output.
fn wrong_count(p: &Product, line: &str) -> Option<String> {
    let id = p.run(line);
    let meta = eventually("the end of the output", || Some(p.meta(&id)).filter(|meta| meta.ended.is_some() && meta.closed.is_some()));
    let counted = meta.closed.map_or(0, |(_, output)| output.left_running);
    (counted > 0).then(|| format!("{line}: {counted}, {:?}", meta.left))
}

#[test]
fn a_wait_names_what_is_left_on_the_error_stream() {
    let p = product();
    for line in [HOLDS, HIDES] {
        let said = p.call(["run", "--wait", "--", line]);
        let left: u32 = std::fs::read_to_string(p.work().join("left")).unwrap().trim().parse().unwrap();
        let id = p.json(["list"])["processes"][0]["session_id"].as_str().unwrap().to_owned();
        assert_eq!((said.text().as_str(), said.code), ("said\n", Some(3)));
        assert_eq!(said.err, format!("note: 1 process is still running: {left} sleep 1000; `outlast kill {id}` stops it\n"));
        let waited = p.json(["wait", &id]);
        assert_eq!(waited["left"], json!([{"pid": left, "command": "sleep 1000"}]), "{waited}");
        assert_stopped(&p.call(["kill", "--json", &id]), left);
        p.call(["rm", &id]).good();
    }
    let quiet = p.call(["run", "--wait", "--", "echo a > >(cat); sleep 0 & exit 0"]);
    assert_eq!((quiet.err.as_str(), quiet.code), ("", Some(0)), "helpers that end with it are not named");
}

#[test]
fn a_leaf_has_what_is_left_although_nothing_else_proves_it() {
    let p = product();
    let (id, left) = left_by(&p, "env -i setsid bash -c 'setsid sleep 1000 & echo $! > left' >/dev/null 2>&1; exit 3");
    if !p.meta(&id).has(outlast_store::meta::flag::LEAF) {
        kill_and_wait(left).unwrap();
        return machine::skipped("a_leaf_has_what_is_left_although_nothing_else_proves_it", "no cgroup leaf");
    }
    until_alone(&p, &id);
    assert_stopped(&p.call(["kill", "--json", &id]), left);
}

#[test]
fn a_copy_of_the_home_does_not_stop_what_a_process_of_the_original_left() {
    let (p, copy) = (product(), product());
    let (id, left) = left_by(&p, HOLDS);
    let copied = std::process::Command::new("cp").arg("-a").args([p.home().root, copy.home().root]).status().unwrap();
    assert!(copied.success());
    let polled = eventually("that it has no keepers here", || Some(copy.json(["poll", &id])).filter(|v| v["phase"] == "exited"));
    assert_eq!(polled.get("left"), None, "{polled}");
    let said = copy.json(["kill", &id, "--grace", "0"]);
    assert_eq!((said["status"].as_str(), said.get("left_killed")), (Some("already_exited"), None), "{said}");
    assert!(!is_gone(left), "it is the original's");
    assert_stopped(&p.call(["kill", "--json", &id]), left);
}

#[test]
fn what_is_left_when_both_keepers_are_killed_is_found_by_its_environment() {
    let p = product();
    let (id, left) = left_by(&p, HOLDS);
    let meta = p.meta(&id);
    for signal in ["-STOP", "-KILL"] {
        let sent = std::process::Command::new("kill").args([signal, &meta.pump.to_string(), &meta.holder.to_string()]).status();
        assert!(sent.unwrap().success());
    }
    let polled = eventually("that its keepers are dead", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "exited"));
    assert_eq!(polled["left"], json!([{"pid": left, "command": "sleep 1000"}]), "{polled}");
    assert_stopped(&p.call(["kill", "--json", &id]), left);
}
