//! Killed at each held point: exactly there, nothing is lost.

use crate::support::*;

/// Starts a command while `point` is armed, kills the process that is held there, and checks that the result is the same as without a kill.
fn killed_at(p: &Product, point: &str, flags: &[&str]) {
    let pty = flags.contains(&"--pty");
    p.points().arm(point).unwrap();
    let mark = p.work().join(point);
    let line = format!("echo started >> {}; seq 1 500; exit 9", mark.display());
    std::thread::scope(|scope| {
        let run = scope.spawn(|| p.run_with(flags, &line));
        let victim = eventually(&format!("a process at {point}"), || p.points().held(point));
        kill_and_wait(victim).unwrap();
        p.points().release(point).unwrap();
        let id = run.join().unwrap();
        let ended = p.wait(&id);
        assert_eq!((ended["status"].as_str(), ended["exit_code"].as_i64()), (Some("exited"), Some(9)), "killed at {point}: {ended}");
        let want: String = (1..=500).map(|n| format!("{n}{}", if pty { "\r\n" } else { "\n" })).collect();
        let got = p.call(["log", &id, "--raw"]).good();
        assert_eq!(got.text(), want, "killed at {point}");
        assert_eq!(std::fs::read_to_string(&mark).unwrap(), "started\n", "killed at {point}");
        // A keeper that is still exiting must not be held at the next point: that would be a second kill of the same pair.
        eventually("its keepers have left", || p.processes().iter().all(|(_, line)| !line.contains(&id)).then_some(()));
    });
}

#[test]
fn a_pump_killed_while_it_starts() {
    let p = product();
    for point in ["pump.prepare", "pump.fork.before", "pump.fork.after", "pump.started", "pump.scrubbed"] {
        killed_at(&p, point, &[]);
    }
}

#[test]
fn a_keeper_killed_around_its_word() {
    let p = product();
    for point in ["nest.asked", "pump.ready", "holder.go", "holder.scrubbed", "holder.told"] {
        killed_at(&p, point, &[]);
    }
}

#[test]
fn a_pump_killed_inside_a_batch_of_a_pipe() {
    let p = product();
    for step in ["spliced", "teed", "written", "committed", "dropped"] {
        killed_at(&p, &format!("pump.batch.{step}"), &[]);
    }
}

#[test]
fn a_pump_killed_inside_a_batch_of_a_terminal() {
    let p = product();
    for step in ["spliced", "teed", "written", "committed", "dropped"] {
        killed_at(&p, &format!("pump.batch.{step}"), &["--pty"]);
    }
}

#[test]
fn a_pump_killed_while_it_records_the_end() {
    let p = product();
    for point in ["pump.written", "pump.recorded", "pump.marked", "pump.told", "pump.released", "pump.done"] {
        killed_at(&p, point, &[]);
    }
}

#[test]
fn a_holder_killed_around_its_fork() {
    let p = product();
    for point in ["holder.start.before", "holder.start.marked", "holder.start.after", "holder.start.saved"] {
        killed_at(&p, point, &[]);
    }
}

/// Holds the holder at `point`, then kills it with the pump, and the engine before them if it is to die too. Returns the id, and the file
/// in which the command says that it ran.
fn all_killed_at(p: &Product, point: &str, and_engine: bool) -> (String, std::path::PathBuf) {
    let mark = p.work().join(format!("{point}-{and_engine}"));
    let id = format!("proc_0123456789{}{}", if and_engine { "a" } else { "b" }, if point.ends_with("marked") { "a" } else { "b" });
    p.points().arm(point).unwrap();
    let line = format!("echo started >> {}; exec sleep 1000", mark.display());
    let mut run = p.command(["run", "--json", "--id", &id, "--", &line]).stdout(std::process::Stdio::null()).spawn().unwrap();
    let holder = eventually(&format!("a process at {point}"), || p.points().held(point));
    let pump = p.meta(&id).pump;
    if and_engine {
        // Together with its caller, which would start another.
        kill_and_wait(run.id()).unwrap();
        p.kill_engine();
    }
    let held = crate::gate::Held::new(pump);
    kill_and_wait(holder).unwrap();
    kill_and_wait(pump).unwrap();
    drop(held);
    p.points().release(point).unwrap();
    run.wait().unwrap();
    (id, mark)
}

#[test]
fn a_command_is_never_started_twice_when_engine_and_keepers_die() {
    let p = product();
    p.engine();
    let ran = |mark: &std::path::Path| std::fs::read_to_string(mark).unwrap_or_default();
    for and_engine in [false, true] {
        // Before the clone: an engine with the live copy knows that nothing ran, and starts the command; another engine cannot know.
        let (id, mark) = all_killed_at(&p, "holder.start.marked", and_engine);
        let phase = eventually("an answer", || p.json(["poll", &id])["phase"].as_str().filter(|w| *w != "starting").map(str::to_owned));
        match and_engine {
            false => {
                assert_eq!(phase, "running");
                eventually("the command", || (ran(&mark) == "started\n").then_some(()));
            }
            true => assert_eq!((phase.as_str(), ran(&mark).as_str()), ("lost", "")),
        }
        // After the clone, before the pid is in the file: the command is found all the same.
        let (id, mark) = all_killed_at(&p, "holder.start.after", and_engine);
        eventually("an orphan", || (p.json(["poll", &id])["phase"] == "orphaned").then_some(()));
        assert_eq!(ran(&mark), "started\n");
        assert_eq!(p.json(["kill", &id, "--grace", "0"])["status"], "killed");
    }
}

#[test]
fn a_holder_killed_between_the_end_and_the_reaping() {
    let p = product();
    for point in ["holder.waited", "holder.published", "holder.reap.before", "holder.reap.after"] {
        killed_at(&p, point, &[]);
    }
}

#[test]
fn an_engine_killed_on_the_way_to_a_start() {
    let p = product();
    for step in ["before_commit", "after_commit", "before_spawn", "after_spawn", "before_answer"] {
        killed_at(&p, &format!("run.{step}"), &[]);
    }
}

#[test]
fn an_engine_killed_before_a_folder_has_its_name() {
    let p = product();
    let blanks = || {
        let all = std::fs::read_dir(p.home().processes()).unwrap().flatten().map(|e| e.path());
        all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(".blank-")).collect::<Vec<_>>()
    };
    p.wait(&p.run("true"));
    eventually("folders made ahead", || (!blanks().is_empty()).then_some(()));
    killed_at(&p, "blank.filled", &[]);
    // What was written into the spare folder belongs to no request, and is gone.
    assert!(blanks().iter().all(|blank| std::fs::metadata(blank.join("spec")).map_or(0, |spec| spec.len()) == 0));
}

#[test]
fn input_is_neither_lost_nor_doubled_by_a_killed_pump() {
    let p = product();
    for point in ["pump.input.filled", "pump.input.moved"] {
        for flags in [&["--stdin"][..], &["--pty"]] {
            let id = p.run_with(flags, "stty -echo 2>/dev/null; echo ready; while read -r line; do echo \"got $line\"; done");
            eventually("ready", || p.json(["log", &id])["output"].as_str().filter(|o| o.contains("ready")).map(drop));
            p.points().arm(point).unwrap();
            std::thread::scope(|scope| {
                let write = scope.spawn(|| p.json(["write", &id, "one\n", "--offset", "0"]));
                let victim = eventually(&format!("a process at {point}"), || p.points().held(point));
                kill_and_wait(victim).unwrap();
                p.points().release(point).unwrap();
                let written = write.join().unwrap();
                assert_eq!(
                    (written["status"].as_str(), written["next_offset"].as_u64()),
                    (Some("ok"), Some(4)),
                    "killed at {point}: {written}"
                );
            });
            assert_eq!(p.json(["write", &id, "one\ntwo\n", "--offset", "0"])["next_offset"], 8);
            assert_eq!(p.json(["close", &id])["status"], "ok");
            let output = p.wait(&id)["output"].as_str().unwrap().to_owned();
            assert_eq!(output, "ready\ngot one\ngot two\n", "killed at {point}");
        }
    }
}

#[test]
fn an_end_that_the_holder_saw_is_known_after_both_keepers_were_killed() {
    let p = product();
    p.points().arm("holder.published").unwrap();
    let gate = crate::gate::Gate::new(&p, "gate");
    let id = p.run(&format!("{}; exit 9", gate.wait()));
    let pump = p.meta(&id).pump;
    // Stopped before the end, so that it neither records the end nor sees the holder die.
    let stopped = crate::gate::Held::new(pump);
    gate.open();
    let holder = eventually("the holder", || p.points().held("holder.published"));
    kill_and_wait(holder).unwrap();
    kill_and_wait(pump).unwrap();
    drop(stopped);
    p.points().release("holder.published").unwrap();
    let ended = p.wait(&id);
    assert_eq!((ended["status"].as_str(), ended["exit_code"].as_i64()), (Some("exited"), Some(9)), "{ended}");
    let polled = p.json(["poll", &id]);
    assert!(polled["warnings"].to_string().contains("the last of its output may be missing"), "{polled}");
}
