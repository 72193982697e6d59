//! `rm` and `clean`: forgetting what is over.

use crate::gate::Gate;
use crate::person::Person;
use crate::support::*;
use outlast_testkit::machine::{self, in_own_mounts, mount_tmpfs};

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
    let refused = p.call(["rm", &id]);
    assert_eq!(refused.err, format!("outlast: {id} is still running: stop it first\n  `outlast kill {id}` stops it\n"));
    let web = p.run_with(&["--name", "web"], "exec sleep 1000");
    let refused = p.call(["rm", "web"]);
    assert_eq!(refused.err, format!("outlast: web ({web}) is still running: stop it first\n  `outlast kill web` stops it\n"));
}

#[test]
fn a_failed_start_is_forgotten_like_any_other() {
    let p = product();
    let id = p.json(["run", "--", "no-such-program", "x"])["session_id"].as_str().unwrap().to_owned();
    assert_eq!(p.json(["rm", &id])["status"], "removed");
    assert!(!p.folder(&id).path.exists());
}

#[test]
fn a_user_is_told_which_processes_a_clean_has_removed() {
    let p = product();
    let web = p.run_with(&["--name", "web"], "true");
    p.wait(&web);
    let other = p.run("true");
    p.wait(&other);
    p.run("exec sleep 1000");
    let (shown, code) = Person::calls(&p, &["clean"]).until_the_end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("2 removed, "), "{shown}");
    let named = shown.lines().find_map(|line| line.trim_end().strip_prefix("removed: ")).unwrap();
    let mut named: Vec<&str> = named.split(", ").collect();
    named.sort_unstable();
    assert_eq!(named, [other.as_str(), &format!("web ({web})")]);
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

/// Mounts an overlay over the home whose lower layer is the home's contents, as in a container whose image has a home. Only in a mount
/// namespace of our own.
fn put_below_an_overlay(p: &Product) {
    let home = p.home().root;
    let layers = p.work().join("layers");
    mount_tmpfs(&layers, "mode=700").unwrap();
    let [lower, upper, work] = ["lower", "upper", "work"].map(|name| layers.join(name));
    let copied = std::process::Command::new("cp").arg("-a").arg(&home).arg(&lower).status().unwrap();
    assert!(copied.success());
    for dir in [&upper, &work] {
        std::fs::create_dir(dir).unwrap();
    }
    let [lower, upper, work] = [lower, upper, work].map(|dir| dir.display().to_string());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work},redirect_dir=off");
    let mounted = std::process::Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay"]).arg(&home).status().unwrap();
    assert!(mounted.success(), "mount -o {options}");
}

#[test]
fn what_lies_in_a_lower_layer_of_an_overlay_is_removed_even_if_the_engine_is_killed_meanwhile() {
    let ran = in_own_mounts(|| {
        let p = product();
        let ids: Vec<String> = (0..3).map(|n| p.run(&format!("echo {n}; exit {n}"))).collect();
        for id in &ids {
            p.wait(id);
        }
        p.call(["engine", "stop"]).good();
        eventually("the keepers to leave", || p.processes().is_empty().then_some(()));
        put_below_an_overlay(&p);
        let removed = p.json(["rm", &ids[0]]);
        assert_eq!(removed["status"], "removed", "{removed}");
        assert!(!p.folder(&ids[0]).path.exists());
        // Killed half-way: the rest of the folder does not count as a process.
        p.points().arm("remove.marked").unwrap();
        let call = p.command(["rm", &ids[1]]).stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        eventually("the mark", || p.points().held("remove.marked"));
        p.kill_engine();
        call.wait_with_output().unwrap();
        let left = p.json(["list", "--all"]);
        let left: Vec<&str> = left["processes"].as_array().unwrap().iter().map(|one| one["session_id"].as_str().unwrap()).collect();
        assert_eq!(left, [ids[2].as_str()]);
        assert!(!p.folder(&ids[1]).path.exists());
        p.call(["clean"]).good();
        assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
        assert!(!p.folder(&ids[2]).path.exists());
        p.shut_down().unwrap();
    });
    if let Err(why) = ran {
        machine::skipped("what_lies_in_a_lower_layer_of_an_overlay_is_removed_even_if_the_engine_is_killed_meanwhile", format!("{why:#}"));
    }
}
