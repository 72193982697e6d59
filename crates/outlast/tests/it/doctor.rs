//! `doctor`: what is not as promised, why, what it means and what to do.

use crate::person::Person;
use crate::support::*;
use outlast_testkit::machine::{in_own_mounts, mount_tmpfs, remount, skipped};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn check<'a>(answer: &'a Value, name: &str) -> Vec<&'a Value> {
    answer["checks"].as_array().unwrap().iter().filter(|c| c["name"] == name).collect()
}

/// Everything that is not well says what it means or what to do about it.
fn is_explained(answer: &Value) {
    for check in answer["checks"].as_array().unwrap() {
        let well = check["state"] == "ok";
        assert!(check["what"].is_string() && (well || check["hint"].is_string()), "{check}");
        assert!(well || check["promises"].is_null() || check["means"].is_string(), "{check}");
    }
}

#[test]
fn the_exit_code_says_whether_something_is_degraded() {
    let p = product();
    let said = p.call(["doctor", "--json"]);
    let answer = said.json();
    is_explained(&answer);
    let want = match answer["status"].as_str().unwrap() {
        "ok" => 0,
        "degraded" => 3,
        other => panic!("{other}: {answer}"),
    };
    assert_eq!(said.code, Some(want));
    p.configure("[retention]\ndays = \"many\"\n");
    let worse = p.call(["doctor", "--json"]);
    assert_eq!((worse.code, check(&worse.json(), "config")[0]["state"].as_str()), (Some(3), Some("degraded")));
    assert!(p.call(["doctor"]).text().contains("degraded"));
}

#[test]
fn a_process_whose_keepers_were_killed_a_secret_and_a_sink_that_fails_are_told() {
    let p = product().with_env("OUTLAST_REDACT_SECRETS", "0");
    p.configure("[[hook]]\nname = \"ops\"\ncommand = \"exit 9\"\nretry_seconds = [3600]\n");
    let id = p.run("exec sleep 1000");
    let meta = p.meta(&id);
    // Stopped first: else the one that is killed second has made a new one by then.
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in [meta.pump, meta.holder] {
            kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
        }
    }
    eventually("the orphan to be known", || (p.json(["poll", &id])["phase"] == "orphaned").then_some(()));
    p.wait(&p.run_with(&["--notify"], "true"));
    let answer = eventually("the sink to have failed", || {
        let answer = p.json(["doctor"]);
        (!check(&answer, "sink").is_empty()).then_some(answer)
    });
    is_explained(&answer);
    assert!(check(&answer, "orphans")[0]["what"].as_str().unwrap().contains(&id), "{answer}");
    assert_eq!(check(&answer, "secrets")[0]["promises"], json!(["P8"]));
    let sink = check(&answer, "sink")[0];
    assert!(sink["what"].as_str().unwrap().contains("the sink ops did not take"), "{sink}");
}

#[test]
fn looking_is_not_being_told() {
    let p = product();
    let id = p.run_with(&["--notify"], "exit 3");
    eventually("its end", || (p.json(["list", "--all"])["processes"][0]["status"] == "exited").then_some(()));
    p.call(["doctor"]);
    let drained = p.json(["events", "drain"]);
    assert_eq!(drained["events"][0]["event"]["session_id"], *id, "{drained}");
}

#[test]
fn a_home_in_memory_or_with_little_room_is_told() {
    let name = "a_home_in_memory_or_with_little_room_is_told";
    let ran = in_own_mounts(|| {
        let p = product();
        mount_tmpfs(&p.home().root, "size=64m,mode=700").unwrap();
        p.engine();
        let answer = p.json(["doctor"]);
        is_explained(&answer);
        assert_eq!(check(&answer, "file system")[0]["promises"], json!(["P1", "P2", "P3"]), "{answer}");
        assert!(check(&answer, "disk space")[0]["what"].as_str().unwrap().contains("MiB are left"), "{answer}");
        p.shut_down().unwrap();
    });
    if let Err(why) = ran {
        skipped(name, format!("{why:#}"));
    }
}

#[test]
fn on_a_narrow_terminal_it_is_broken_between_words() {
    let p = product();
    p.engine();
    let mut person = Person::calls_at(&p, &["doctor"], 24, 60);
    person.sees("none was given up");
    person.ended();
    // The progress line is overwritten, and has no newline.
    for line in person.seen.split(['\n', '\r']) {
        let plain = outlast_text::strip(line);
        let paths = plain.contains('/');
        assert!(paths || plain.trim_end().chars().count() <= 60, "{plain:?}");
    }
}

/// Asserts that there is no scratch home.
const NONE: [PathBuf; 0] = [];

/// The scratch homes in a directory.
fn scratch_homes(dir: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(".outlast-doctor-")).collect()
}

/// The directory of the home, in which scratch homes are made.
fn beside(p: &Product) -> PathBuf {
    p.home().root.parent().unwrap().to_owned()
}

/// The processes of a scratch home of this product.
fn in_scratch_homes(p: &Product) -> Vec<(u32, String)> {
    let mut all = p.processes();
    all.retain(|(pid, line)| {
        let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        line.contains(".outlast-doctor-") || String::from_utf8_lossy(&env).contains("/.outlast-doctor-")
    });
    all
}

fn trial(answer: &Value) -> Vec<(String, String)> {
    let text = |check: &Value, field: &str| check[field].as_str().unwrap_or_default().to_owned();
    check(answer, "trial").iter().map(|check| (text(check, "state"), text(check, "what"))).collect()
}

#[test]
fn the_promises_are_tried_in_a_scratch_home_and_nothing_is_left() {
    let sockets = tempfile::tempdir().unwrap();
    let p = product().with_env("XDG_RUNTIME_DIR", sockets.path());
    p.configure(&format!("[[hook]]\nname = \"ops\"\ncommand = \"touch {}\"\n", p.work().join("called").display()));
    let id = p.run("exec sleep 1000");
    let (engine, meta) = (p.engine(), p.meta(&id));
    let answer = p.json(["doctor"]);
    is_explained(&answer);
    let seen = trial(&answer);
    assert!(seen.iter().all(|(state, _)| state == "ok"), "{seen:?}");
    let parts: Vec<&str> = seen.iter().map(|(_, what)| what.split(": ").next().unwrap()).collect();
    assert_eq!(parts, ["pipe", "terminal", "keepers", "engine"]);
    assert_eq!(scratch_homes(&beside(&p)), NONE);
    assert_eq!(in_scratch_homes(&p), []);
    let left: Vec<_> = std::fs::read_dir(p.socket_dir().unwrap().parent().unwrap()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the home itself has sockets: {left:?}");
    let now = p.meta(&id);
    assert_eq!((p.engine(), now.pump, now.holder), (engine, meta.pump, meta.holder), "the home itself is not touched");
    assert_eq!(p.json(["list", "--all"])["processes"].as_array().unwrap().len(), 1);
    assert!(!p.work().join("called").exists(), "a hook was called for a trial");
}

#[test]
fn a_quick_look_starts_nothing() {
    let p = product();
    p.engine();
    let changed = || std::fs::metadata(beside(&p)).unwrap().modified().unwrap();
    let before = changed();
    let answer = p.json(["doctor", "--quick"]);
    is_explained(&answer);
    assert_eq!(trial(&answer), []);
    assert_eq!(changed(), before, "a scratch home was made");
    assert!(!answer.to_string().contains("the trial"), "{answer}");
    p.json(["doctor"]);
    assert_ne!(changed(), before, "a whole one makes a scratch home");
}

/// A doctor in the middle of its trial.
fn in_its_trial(p: &Product) -> (std::process::Child, PathBuf) {
    let doctor = p.command(["doctor"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let scratch = eventually("an engine in a scratch home", || {
        scratch_homes(&beside(p)).into_iter().find(|home| std::fs::read_dir(home.join("proc")).is_ok_and(|mut all| all.next().is_some()))
    });
    (doctor, scratch)
}

#[test]
fn what_a_killed_doctor_leaves_is_removed_by_the_next() {
    let p = product();
    p.engine();
    let (mut doctor, scratch) = in_its_trial(&p);
    doctor.kill().unwrap();
    doctor.wait().unwrap();
    assert!(scratch.exists() && !in_scratch_homes(&p).is_empty(), "it was killed too late");
    let answer = p.json(["doctor"]);
    assert!(trial(&answer).iter().all(|(state, _)| state == "ok"), "{answer}");
    assert_eq!(scratch_homes(&beside(&p)), NONE);
    assert_eq!(in_scratch_homes(&p), []);
}

#[test]
fn an_interrupted_doctor_removes_its_scratch_home() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let p = product();
        p.engine();
        let (mut doctor, _) = in_its_trial(&p);
        kill_process(Pid::from_child(&doctor), signal).unwrap();
        assert_eq!(doctor.wait().unwrap().code(), Some(130));
        assert_eq!(scratch_homes(&beside(&p)), NONE);
        assert_eq!(in_scratch_homes(&p), []);
    }
}

#[test]
fn a_hang_is_reported_with_what_was_waited_for() {
    let p = product();
    p.engine();
    p.points().arm("holder.waited").unwrap();
    let answer = p.json(["doctor"]);
    p.points().release("holder.waited").unwrap();
    let seen = trial(&answer);
    assert_eq!(seen[0], ("broken".into(), "pipe: timed out after 10 s, waiting for a command to end".into()), "{seen:?}");
    assert!(seen[1..].iter().all(|(state, _)| state == "ok"), "one hang does not end the trial: {seen:?}");
    is_explained(&answer);
    assert_eq!(scratch_homes(&beside(&p)), NONE);
    assert_eq!(in_scratch_homes(&p), []);
}

#[test]
fn a_home_that_is_a_mount_of_its_own_is_tried_inside() {
    let ran = in_own_mounts(|| {
        for options in ["size=64m,mode=700", "size=64m,mode=700,noexec"] {
            let p = product();
            mount_tmpfs(&p.home().root, options).unwrap();
            let answer = p.json(["doctor"]);
            is_explained(&answer);
            // The trial's text is what a user sees.
            let runs = p.call(["run", "--wait", "--", "exit 3"]).code == Some(3);
            assert_eq!(trial(&answer).iter().all(|(state, _)| state == "ok"), runs, "{options}: {answer}");
            assert!(runs || answer["status"] == "broken", "{options}: {answer}");
            assert_eq!(scratch_homes(&p.home().root), NONE);
            p.shut_down().unwrap();
        }
    });
    if let Err(why) = ran {
        skipped("a_home_that_is_a_mount_of_its_own_is_tried_inside", format!("{why:#}"));
    }
}

#[test]
fn a_read_only_or_full_home_is_what_the_trial_reports() {
    let ran = in_own_mounts(|| {
        let p = product();
        let home = p.home().root;
        mount_tmpfs(&home, "size=48m,mode=700").unwrap();
        remount(&home, "ro").unwrap();
        let answer = p.json(["doctor"]);
        let seen = trial(&answer);
        assert!(seen.len() == 1 && seen[0].1.contains("cannot make a scratch home") && seen[0].1.contains("ead-only"), "{seen:?}");
        is_explained(&answer);
        remount(&home, "rw").unwrap();
        p.engine();
        std::fs::write(home.join("ballast"), vec![0; 64 << 20]).unwrap_err();
        let answer = p.json(["doctor"]);
        let seen = trial(&answer);
        let is_full = |what: &str| what.contains("disk full") || what.contains("No space left");
        assert!(seen.iter().any(|(state, what)| state != "ok" && is_full(what)), "{seen:?}");
        is_explained(&answer);
        std::fs::remove_file(home.join("ballast")).unwrap();
        assert_eq!(scratch_homes(&home), NONE);
        p.shut_down().unwrap();
    });
    if let Err(why) = ran {
        skipped("a_read_only_or_full_home_is_what_the_trial_reports", format!("{why:#}"));
    }
}

/// A container like Docker's default, as far as a test can make one: a PID namespace, a process 1 that does not reap, and no writable
/// cgroup.
struct Container {
    unshare: std::process::Child,
    init: u32,
}

impl Container {
    fn start() -> Result<Self, String> {
        if !outlast_testkit::machine::is_root() {
            return Err("only root may make namespaces".into());
        }
        let script = "mount -t tmpfs -o ro none /sys/fs/cgroup && echo up && exec sleep 1000";
        let mut call = std::process::Command::new("unshare");
        call.args(["--pid", "--fork", "--mount-proc", "sh", "-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut unshare = call.spawn().map_err(|e| format!("unshare: {e}"))?;
        let mut up = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(unshare.stdout.take().unwrap()), &mut up).unwrap();
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", unshare.id())).unwrap_or_default();
        match children.trim().parse() {
            Ok(init) if up == "up\n" => Ok(Self { unshare, init }),
            _ => {
                unshare.kill().and_then(|()| unshare.wait()).unwrap();
                Err("namespaces cannot be made".into())
            }
        }
    }

    /// A call of the program inside the container.
    fn call(&self, p: &Product, args: &[&str]) -> Answer {
        let here = p.command(args);
        let mut inside = std::process::Command::new("nsenter");
        inside.args(["--target", &self.init.to_string(), "--pid", "--mount"]).arg(here.get_program()).args(here.get_args());
        inside.env_clear().envs(here.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdin(Stdio::null());
        inside.current_dir(here.get_current_dir().unwrap()).output().unwrap().into()
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // The end of its process 1 ends everything inside.
        kill_and_wait(self.init).unwrap();
        self.unshare.wait().unwrap();
    }
}

#[test]
fn a_container_is_described_as_one() {
    let p = product();
    let container = match Container::start() {
        Ok(container) => container,
        Err(why) => return skipped("a_container_is_described_as_one", why),
    };
    let run = container.call(&p, &["run", "--wait", "--", "exit 3"]);
    assert_eq!((run.code, run.err.as_str()), (Some(3), ""), "no note about cgroups at each start");
    let doctor = container.call(&p, &["doctor", "--json"]);
    let answer = doctor.json();
    is_explained(&answer);
    assert_eq!((doctor.code, answer["status"].as_str()), (Some(3), Some("degraded")), "{answer}");
    assert!(trial(&answer).iter().all(|(state, _)| state == "ok") && trial(&answer).len() == 4, "{answer}");
    let cgroup = check(&answer, "cgroup")[0];
    assert_eq!((cgroup["state"].as_str(), &cgroup["promises"]), (Some("degraded"), &json!(["P6"])), "{cgroup}");
    assert!(cgroup["hint"].as_str().unwrap().starts_with("nothing has to be done"), "{cgroup}");
    let init = check(&answer, "init")[0];
    assert!(init["what"].as_str().unwrap().contains("(sleep) does not reap") && init["hint"].as_str().unwrap().contains("init"), "{init}");
    assert!(check(&answer, "place")[0]["what"].as_str().unwrap().contains("container"), "{answer}");
    assert!(check(&answer, "reboot").is_empty(), "a container does not restart with the machine");
    drop(container);
}

fn refusing(name: &str, errno: i32) -> Product {
    let call = outlast_store::calls::CALLS.iter().find(|call| call.name == name).unwrap();
    product().refusing(outlast_testkit::os::Refusal { number: call.number, argument: call.argument, errno })
}

#[test]
fn what_it_says_of_cgroups_is_so_whether_clone3_is_refused_or_not() {
    for p in [product(), refusing("clone3", libc::ENOSYS)] {
        let answer = p.json(["doctor"]);
        let seen = trial(&answer);
        assert!(seen.len() == 4 && seen.iter().all(|(state, _)| state == "ok"), "{seen:?}");
        let id = p.run("exec sleep 1000");
        let place = std::fs::read_to_string(format!("/proc/{}/cgroup", p.meta(&id).cmd)).unwrap();
        let has_leaf = place.lines().any(|line| line.starts_with("0::") && line.ends_with(&id));
        let cgroup = check(&answer, "cgroup")[0];
        assert_eq!(cgroup["what"].as_str().unwrap().contains("the trial saw each command in one of its own"), has_leaf, "{cgroup} {place}");
        assert_eq!(cgroup["state"] == "ok", has_leaf, "{cgroup}");
    }
}

#[test]
fn what_a_profile_refuses_is_found_by_trying() {
    let p = refusing("ioctl(PIDFD_GET_INFO)", libc::EPERM);
    let answer = p.json(["doctor"]);
    assert!(trial(&answer).iter().all(|(state, _)| state == "ok"), "{answer}");
    assert_eq!(check(&answer, "kernel")[0]["promises"], json!(["P3", "P5"]), "{answer}");

    let p = refusing("splice", libc::EPERM);
    let answer = p.json(["doctor"]);
    is_explained(&answer);
    let seen = trial(&answer);
    assert!(seen.iter().any(|(state, what)| state == "degraded" && what.contains("splice")), "{seen:?}");
    assert_eq!(answer["status"], "degraded", "{answer}");

    let p = refusing("pidfd_open", libc::EPERM);
    let answer = p.json(["doctor"]);
    is_explained(&answer);
    let seen = trial(&answer);
    assert!(seen.len() == 1 && seen[0].0 == "broken" && seen[0].1.contains("pidfd_open"), "{seen:?}");
    assert_eq!(scratch_homes(&beside(&p)), NONE);
}
