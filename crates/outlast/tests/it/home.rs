//! The home is removed or replaced while an engine serves it.

use crate::support::*;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than any call may take here, and shorter than the time-outs of two engines that fought over the socket.
const AT_ONCE: Duration = Duration::from_secs(10);

/// A home with an engine and a running command: its id, its pid and the engine's.
fn running(p: &Product) -> (String, u32, u32) {
    let started = p.json(["run", "--", "while :; do sleep 0.05; done"]);
    let id = started["session_id"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    p.meta_at_rest(&id);
    (id, started["pid"].as_u64().unwrap() as u32, p.engine())
}

/// The old engine exits. One engine serves the home that is there now, and knows only its own requests.
fn is_served_anew(p: &Product, old_engine: u32) {
    assert!(wait_for_end(old_engine, AT_ONCE), "the engine of the lost home is still there");
    let began = Instant::now();
    let id = p.run("echo new; exit 3");
    assert_eq!(p.wait(&id)["exit_code"], 3);
    p.json(["events", "post", "--session", "s", r#"{"type": "note"}"#]);
    assert_eq!(p.json(["events", "drain", "--session", "s"])["events"].as_array().map(Vec::len), Some(1));
    let all: Vec<String> = ids(&p.json(["list", "--all"]));
    assert_eq!(all, [id]);
    assert!(began.elapsed() < AT_ONCE, "it took {:?}", began.elapsed());
    assert_ne!(p.engine(), old_engine);
}

fn ids(list: &Value) -> Vec<String> {
    list["processes"].as_array().unwrap().iter().map(|one| one["session_id"].as_str().unwrap().to_owned()).collect()
}

fn keepers_of(p: &Product, id: &str) -> Vec<u32> {
    p.processes().into_iter().filter(|(_, line)| line.contains(id)).map(|(pid, _)| pid).collect()
}

/// Removes the home while its engine may still create files in it.
fn remove_home(p: &Product) {
    eventually("the home to be gone", || {
        let removed = std::fs::remove_dir_all(p.home().root);
        (removed.is_ok() || !p.home().root.exists()).then_some(())
    });
}

fn end_command(pid: u32) {
    kill_and_wait(pid).unwrap();
}

#[test]
fn an_engine_whose_home_was_removed_leaves_and_its_keepers_end_with_their_command() {
    let p = product();
    let (id, command, engine) = running(&p);
    remove_home(&p);
    is_served_anew(&p, engine);
    let keepers = keepers_of(&p, &id);
    assert_eq!(keepers.len(), 2, "the command is still kept: {:?}", p.processes());
    // The engine of the home that is there now does not wait for them.
    let began = Instant::now();
    p.call(["engine", "stop"]).good();
    assert!(began.elapsed() < AT_ONCE, "the stop took {:?}", began.elapsed());
    end_command(command);
    for keeper in keepers {
        assert!(wait_for_end(keeper, PATIENCE), "a keeper of a removed home stays after its command");
    }
}

#[test]
fn an_engine_whose_home_was_replaced_leaves_it_to_the_next() {
    let p = product();
    let (_, command, engine) = running(&p);
    let away = p.work().join("away");
    std::fs::rename(p.home().root, &away).unwrap();
    p.home().create().unwrap();
    is_served_anew(&p, engine);
    end_command(command);
}

#[test]
fn a_home_that_was_moved_away_and_back_has_its_processes_again() {
    let p = product();
    let (id, _, engine) = running(&p);
    let (home, away) = (p.home().root, p.work().join("away"));
    std::fs::rename(&home, &away).unwrap();
    is_served_anew(&p, engine);
    p.call(["engine", "stop"]).good();
    std::fs::remove_dir_all(&home).unwrap();
    std::fs::rename(&away, &home).unwrap();
    assert_eq!(ids(&p.json(["list"])), std::slice::from_ref(&id));
    let killed = p.json(["kill", &id, "--grace", "0"]);
    assert_eq!(killed["status"], "killed", "{killed}");
}

#[test]
fn a_copy_in_the_place_of_the_home_does_not_touch_what_the_original_runs() {
    let p = product();
    let (id, command, _) = running(&p);
    let (home, away) = (p.home().root, p.work().join("away"));
    std::fs::rename(&home, &away).unwrap();
    let copied = std::process::Command::new("cp").arg("-a").arg(&away).arg(&home).status().unwrap();
    assert!(copied.success());
    eventually("that it is lost here", || (p.json(["poll", &id])["phase"] == "lost").then_some(()));
    p.call(["kill", &id]);
    assert!(std::path::Path::new(&format!("/proc/{command}")).exists(), "the original's command runs");
    end_command(command);
}

#[test]
fn output_printed_while_the_home_is_elsewhere_is_kept() {
    let p = product();
    let gate = p.work().join("gate");
    // It has printed nothing yet, so the log's first file is created while the home is away.
    let id = p.run(&format!("while [ ! -e {} ]; do sleep 0.01; done; echo during; exit 3", gate.display()));
    p.meta_at_rest(&id);
    let (home, away) = (p.home().root, p.work().join("away"));
    let command = p.meta(&id).cmd;
    std::fs::rename(&home, &away).unwrap();
    std::fs::write(&gate, "").unwrap();
    assert!(wait_for_end(command as u32, PATIENCE), "the command ends");
    std::fs::rename(&away, &home).unwrap();
    let ended = p.wait(&id);
    assert_eq!((&ended["exit_code"], &ended["output"]), (&json!(3), &json!("during\n")), "{ended}");
}

#[test]
fn nothing_is_accepted_into_an_index_that_was_removed() {
    let p = product();
    let (id, _, engine) = running(&p);
    // The engine is held right before the commit, and the index is removed.
    p.points().arm("run.before_commit").unwrap();
    let call = p.command(["run", "--json", "--", "touch ran; sleep 60"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually("the commit", || p.points().held("run.before_commit"));
    remove_index(&p.home().index());
    p.points().release("run.before_commit").unwrap();
    let answer = Answer::from(call.wait_with_output().unwrap());
    assert!(wait_for_end(engine, AT_ONCE), "the engine without an index is still there");
    // The client asked again, and the next engine accepted the request. It has both processes, from their folders and rows.
    let second = answer.json()["session_id"].as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    let mut all = ids(&p.json(["list"]));
    all.sort_unstable();
    let mut both = vec![id, second];
    both.sort_unstable();
    assert_eq!(all, both);
}

fn remove_index(index: &Path) {
    for end in ["", "-wal"] {
        let mut path = index.as_os_str().to_owned();
        path.push(end);
        std::fs::remove_file(path).unwrap();
    }
}
