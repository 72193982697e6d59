//! A full or read-only disk: no command is harmed, stops work, and ends are known before they can be written.

use crate::gate::{Gate, Held, until_printed};
use crate::support::*;
use outlast_store::meta::Snapshot;
use outlast_testkit::leftovers;
use outlast_testkit::machine::{self, fill, free, in_own_mounts, mount_image, mount_tmpfs};

/// Runs `what` with a home on a small file system of this kind, in a mount namespace of its own. A kind that cannot be made here is skipped
/// by name.
fn on(kind: &str, test: &str, what: impl FnOnce(&Product) + Send) {
    let ran = in_own_mounts(|| {
        let p = product();
        let made = match kind {
            "tmpfs" => mount_tmpfs(&p.home().root, "size=40m,mode=700"),
            kind => mount_image(&p.home().root, kind, 160),
        };
        match made {
            Ok(()) => {
                what(&p);
                p.shut_down().unwrap();
            }
            Err(why) => machine::skipped(test, format!("{kind}: {why:#}")),
        }
    });
    if let Err(why) = ran {
        machine::skipped(test, format!("{why:#}"));
    }
}

/// Reads the file alone, without the live copy.
fn in_file(p: &Product, id: &str) -> Snapshot {
    Snapshot::parse(&std::fs::read(p.folder(id).meta()).unwrap()).unwrap()
}

fn keepers(p: &Product, id: &str) -> Vec<u32> {
    let bin = p.home().bin();
    let is_one = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(&bin));
    leftovers::of_process(id).into_iter().map(|(pid, _)| pid).filter(is_one).collect()
}

/// Kills both keepers so that neither sees the other die.
fn kill_both(p: &Product, id: &str) {
    let pair = keepers(p, id);
    assert_eq!(pair.len(), 2, "{pair:?}");
    let held: Vec<Held> = pair.iter().map(|pid| Held::new(*pid)).collect();
    for pid in &pair {
        kill_and_wait(*pid).unwrap();
    }
    drop(held);
}

/// A command that prints until the gate opens, and then exits 7.
fn prints(gate: &Gate) -> String {
    format!("{{ {}; touch over; }} & while [ ! -e over ]; do echo line; sleep 0.02; done; exit 7", gate.wait())
}

fn a_command_outlives(kind: &str, p: &Product) {
    let gate = Gate::new(p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &prints(&gate));
    until_printed(p, &id, "line\nline\n");
    let home = p.home().root;
    fill(&home).unwrap();
    let before = p.meta(&id);
    // Output continues, written or counted as missing.
    eventually("more output", || (p.meta(&id).commit.base > before.commit.base + 100).then_some(()));
    for role in ["pump", "holder", "pump"] {
        let meta = p.meta(&id);
        let (dead, deaths) = (if role == "pump" { meta.pump } else { meta.holder }, meta.deaths.0 + meta.deaths.1);
        kill_and_wait(dead).unwrap();
        // Keepers are found although the disk may refuse their new pids.
        let whole = |m: &Snapshot| m.deaths.0 + m.deaths.1 > deaths && [m.pump, m.holder].iter().all(|k| *k != 0 && *k != dead);
        eventually("another keeper", || Snapshot::read(&p.folder(&id)).ok().filter(whole));
    }
    p.kill_engine();
    assert_eq!(p.json(["poll", &id])["phase"], "running");
    let base = p.meta(&id).commit.base;
    eventually("more output", || (p.meta(&id).commit.base > base + 100).then_some(()));
    gate.open();
    let ended = p.wait(&id);
    assert_eq!((ended["status"].as_str(), ended["exit_code"].as_i64()), (Some("exited"), Some(7)), "{kind}: {ended}");
    // The next engine knows it, too: from the file, or from keepers that stay until the file has it.
    p.kill_engine();
    assert_eq!(p.json(["poll", &id])["exit_code"], 7);
    free(&home).unwrap();
    eventually("the keepers to leave", || keepers(p, &id).is_empty().then_some(()));
    let known = in_file(p, &id);
    assert_eq!(known.ended.as_ref().and_then(|e| e.ending.outcome.exit_code()), Some(7));
    let raw = p.call(["log", &id, "--raw"]);
    let missing: u64 = known.gaps.iter().map(|g| g.to - g.from).sum();
    assert_eq!(raw.out.len() as u64 + missing, known.log_end(), "what is not there is told to the byte");
    assert!(raw.out.iter().all(|b| b"line\n".contains(b)), "nothing else is in the log");
    // The wait has seen the end, so its notice is settled, and there is exactly one.
    eventually("the notice", || (!crate::told::states(p, &id).is_empty()).then_some(()));
    p.kill_engine();
    assert_eq!(crate::told::states(p, &id).len(), 1);
}

#[test]
fn a_command_outlives_a_full_btrfs() {
    on("btrfs", "a_command_outlives_a_full_btrfs", |p| a_command_outlives("btrfs", p));
}

#[test]
fn a_command_outlives_a_full_ext4() {
    on("ext4", "a_command_outlives_a_full_ext4", |p| a_command_outlives("ext4", p));
}

#[test]
fn a_command_outlives_a_full_tmpfs() {
    on("tmpfs", "a_command_outlives_a_full_tmpfs", |p| a_command_outlives("tmpfs", p));
}

#[test]
fn lines_that_a_full_disk_took_before_the_first_one_are_told() {
    on("tmpfs", "lines_that_a_full_disk_took_before_the_first_one_are_told", |p| {
        let (full, freed) = (Gate::new(p, "full"), Gate::new(p, "freed"));
        let id = p.run(&format!("{}; echo lost; {}; echo kept; sleep 1000", full.wait(), freed.wait()));
        fill(&p.home().root).unwrap();
        full.open();
        eventually("the gap", || p.meta(&id).gaps.iter().any(|gap| gap.to == 5).then_some(()));
        free(&p.home().root).unwrap();
        freed.open();
        until_printed(p, &id, "kept");
        for page in [&["log", &id][..], &["log", "--offset", "0", &id]] {
            let page = p.json(page.iter().copied());
            assert_eq!(page["gaps"], json!([{"event": "gap", "from": 0, "to": 5, "why": "disk_full"}]), "{page}");
            assert_eq!(page["output"], "kept", "{page}");
        }
        // A client that continues where a page ended is not told again.
        assert_eq!(p.json(["log", "--from-byte", "5", &id])["gaps"], Value::Null);
        assert!(p.call(["log", &id]).good().err.contains("disk_full"), "a person is told, too");
    });
}

#[test]
fn times_that_a_full_disk_refused_are_unknown_and_not_wrong() {
    on("ext4", "times_that_a_full_disk_refused_are_unknown_and_not_wrong", |p| {
        let (full, freed) = (Gate::new(p, "full"), Gate::new(p, "freed"));
        // A time is noted of output that comes a second or more after the start.
        let id = p.run(&format!("{}; sleep 1.1; echo lost; {}; echo behind a gap; echo kept; exit 7", full.wait(), freed.wait()));
        fill(&p.home().root).unwrap();
        full.open();
        eventually("the gap", || p.meta(&id).gaps.iter().any(|gap| gap.to == 5).then_some(()));
        free(&p.home().root).unwrap();
        freed.open();
        assert_eq!(p.wait(&id)["exit_code"], 7);
        let shown = p.call(["log", &id, "--timestamps"]).good();
        assert_eq!(shown.text(), "--:--:-- kept\n", "{}", shown.err);
        assert!(shown.err.contains("its disk was full"), "{}", shown.err);
        let refused = p.call(["log", &id, "--since", "1h"]);
        assert!(refused.code == Some(1) && refused.err.contains("its disk was full"), "{}", refused.err);
    });
}

#[test]
fn a_stop_on_a_full_disk_is_carried_out() {
    on("btrfs", "a_stop_on_a_full_disk_is_carried_out", |p| {
        let id = p.run("echo up; sleep 1000");
        until_printed(p, &id, "up");
        fill(&p.home().root).unwrap();
        let killed = p.json(["kill", &id]);
        assert_eq!(killed["status"], "killed", "{killed}");
        let polled = p.json(["poll", &id]);
        assert_eq!((polled["phase"].as_str(), polled["termination_source"].as_str()), (Some("exited"), Some("process.kill")), "{polled}");
        free(&p.home().root).unwrap();
        eventually("the keepers to leave", || keepers(p, &id).is_empty().then_some(()));
        assert!(in_file(p, &id).stop.is_some());
    });
}

#[test]
fn keepers_that_are_killed_on_a_full_disk_are_missed_and_their_command_is_known() {
    on("btrfs", "keepers_that_are_killed_on_a_full_disk_are_missed_and_their_command_is_known", |p| {
        let [orphan, lost] = [(); 2].map(|()| p.run("exec sleep 1000"));
        fill(&p.home().root).unwrap();
        let pids = [&orphan, &lost].map(|id| p.meta(id).cmd);
        for id in [&orphan, &lost] {
            kill_both(p, id);
        }
        kill_and_wait(pids[1]).unwrap();
        let phase = |id: &str, word: &str| Some(p.json(["poll", id])).filter(|v| v["phase"] == word);
        let polled = eventually("an orphan", || phase(&orphan, "orphaned"));
        assert_eq!(polled["pid"], pids[0], "{polled}");
        eventually("a loss", || phase(&lost, "lost"));
        // The next engine finds the same.
        p.kill_engine();
        eventually("an orphan again", || phase(&orphan, "orphaned"));
        let killed = p.json(["kill", &orphan]);
        assert_eq!(killed["status"], "killed", "{killed}");
        assert_eq!(p.json(["poll", &orphan])["termination_source"], "process.kill");
        free(&p.home().root).unwrap();
    });
}

/// A process of session `s` that exits 9 on a full btrfs, and has been seen to.
fn ended_on_full_disk(p: &Product) -> String {
    let gate = Gate::new(p, "gate");
    let id = p.run_with(&["--notify", "--session", "s"], &format!("{}; exit 9", gate.wait()));
    fill(&p.home().root).unwrap();
    gate.open();
    eventually("its end", || (p.json(["poll", &id])["exit_code"] == 9).then_some(()));
    id
}

#[test]
fn a_process_whose_end_is_not_recorded_is_not_removed() {
    on("btrfs", "a_process_whose_end_is_not_recorded_is_not_removed", |p| {
        let id = ended_on_full_disk(p);
        let removed = p.call(["rm", "--json", &id]);
        assert_ne!(removed.code, Some(0), "{removed:?}");
        assert!(removed.json()["hint"].as_str().is_some_and(|hint| hint.contains("room")), "{removed:?}");
        p.kill_engine();
        free(&p.home().root).unwrap();
        let told = p.json(["events", "next", "--wait", "10", "--session", "s"]);
        assert_eq!(told["notices"][0]["event"]["exit_code"], 9, "{told}");
        eventually("it can be removed", || (p.call(["rm", &id]).code == Some(0)).then_some(()));
    });
}

#[test]
fn a_process_that_fills_the_disk_can_be_removed_and_its_end_is_told_with_what_is_missing() {
    on("tmpfs", "a_process_that_fills_the_disk_can_be_removed_and_its_end_is_told_with_what_is_missing", |p| {
        let id = p.run_with(&["--notify", "--session", "s"], "head -c 60000000 /dev/zero | tr '\\0' x; exit 9");
        eventually("its end", || (p.json(["poll", &id])["exit_code"] == 9).then_some(()));
        let waited = p.json(["wait", &id]);
        let missing = waited["output_missing"].as_u64().unwrap_or_else(|| panic!("{waited}"));
        p.call(["rm", &id]).good();
        let told = p.json(["events", "next", "--wait", "10", "--session", "s"]);
        let told = &told["notices"][0];
        assert_eq!((&told["event"]["exit_code"], &told["event"]["output_missing"]), (&json!(9), &json!(missing)), "{told}");
        assert!(told["text"].as_str().is_some_and(|text| text.contains(&format!("{missing} bytes of output are missing"))), "{told}");
    });
}

#[test]
fn an_end_that_was_seen_on_a_full_disk_is_told_again_as_a_repeat_only() {
    on("btrfs", "an_end_that_was_seen_on_a_full_disk_is_told_again_as_a_repeat_only", |p| {
        let id = ended_on_full_disk(p);
        assert_eq!(crate::told::call_in(p, "s", &["wait", "--json", &id]).json()["exit_code"], 9);
        // That it was seen is known to this engine alone.
        p.kill_engine();
        free(&p.home().root).unwrap();
        let told = p.json(["events", "next", "--wait", "10", "--session", "s"]);
        let told = &told["notices"][0];
        assert_eq!(told["event"]["session_id"], id.as_str(), "{told}");
        assert!(told["text"].as_str().is_some_and(|text| text.contains("repeat")), "{told}");
    });
}

#[test]
fn what_a_full_disk_refused_outlives_a_restarted_engine_and_both_keepers() {
    on("btrfs", "what_a_full_disk_refused_outlives_a_restarted_engine_and_both_keepers", |p| {
        let id = ended_on_full_disk(p);
        p.kill_engine();
        eventually("the end, from the live copy", || (p.json(["poll", &id])["exit_code"] == 9).then_some(()));
        // The engine holds the live copy, too, before the keepers go.
        let holds = |pid: u32| {
            let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            fds.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|to| to.to_string_lossy().contains("outlast-meta"))
        };
        eventually("the engine to hold it", || holds(p.engine()).then_some(()));
        kill_both(p, &id);
        free(&p.home().root).unwrap();
        eventually("the end in the file", || in_file(p, &id).ended);
    });
}

#[test]
fn the_engine_outlives_a_full_btrfs_that_it_writes_to() {
    on("btrfs", "the_engine_outlives_a_full_btrfs_that_it_writes_to", |p| {
        let gate = Gate::new(p, "gate");
        let id = p.run_with(&["--notify", "--session", "s"], &gate.wait());
        fill(&p.home().root).unwrap();
        let engine = p.engine();
        for _ in 0..5 {
            p.call(["run", "--json", "--", "true"]);
            p.call(["events", "history", "--json"]);
            std::process::Command::new("sync").arg("-f").arg(p.home().root).status().unwrap();
        }
        assert_eq!(p.engine(), engine, "its index has no mapping of a file");
        free(&p.home().root).unwrap();
        gate.open();
        assert_eq!(p.wait(&id)["exit_code"], 0);
    });
}

#[test]
fn what_a_read_only_disk_refuses_is_done_known_and_said() {
    on("ext4", "what_a_read_only_disk_refuses_is_done_known_and_said", |p| {
        let (home, gate) = (p.home().root, Gate::new(p, "gate"));
        let [stopped, orphan] = [(); 2].map(|()| p.run("exec sleep 1000"));
        let ends = p.run(&format!("{}; exit 7", gate.wait()));
        // This thread has mounts that the program's main thread does not have.
        let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap();
        let device = mounts.lines().find(|l| l.split(' ').nth(1) == home.to_str()).unwrap().split(' ').next().unwrap().to_owned();
        machine::remount(&home, "errors=remount-ro").unwrap();
        let trigger = format!("/sys/fs/ext4/{}/trigger_fs_error", device.trim_start_matches("/dev/"));
        std::fs::write(trigger, "1").unwrap();
        std::fs::write(home.join("never"), "").unwrap_err();
        kill_both(p, &orphan);
        eventually("an orphan", || (p.json(["poll", &orphan])["phase"] == "orphaned").then_some(()));
        for id in [&stopped, &orphan] {
            let killed = p.json(["kill", id]);
            assert_eq!(
                (killed["status"].as_str(), killed["termination_source"].as_str()),
                (Some("killed"), Some("process.kill")),
                "{killed}"
            );
            let warning = killed["warning"].as_str().unwrap_or_default();
            assert!(warning.starts_with("the stop could not be recorded: Read-only file system"), "{killed}");
        }
        gate.open();
        assert_eq!(p.wait(&ends)["exit_code"], 7);
        for id in [&stopped, &ends] {
            assert_eq!(in_file(p, id).ended, None);
            // The keepers would wait forever to write it. The engine knows what it has seen without them.
            kill_both(p, id);
        }
        assert_eq!(p.json(["poll", &ends])["exit_code"], 7);
        assert_eq!(p.json(["poll", &stopped])["termination_source"], "process.kill");
    });
}
