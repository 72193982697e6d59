//! Places other than an ordinary login: containers, users without an entry, directories that another user has taken.

use crate::support::*;
use outlast_testkit::machine::{self, in_own_mounts, mount_tmpfs};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A user who has no entry in the list of users.
const UNLISTED: u32 = 54_321;

/// The same call through another program: the first argument is that program, and the others come before the call.
pub(crate) fn by_way_of(p: &Product, before: &[&str], args: &[&str]) -> Command {
    let call = p.command(args);
    let mut whole = Command::new(before[0]);
    whole.args(&before[1..]).arg(call.get_program()).args(call.get_args());
    whole.env_clear().envs(call.get_envs().filter_map(|(n, v)| Some((n, v?)))).current_dir(p.work()).stdin(Stdio::null());
    whole
}

/// Whether this machine allows namespaces as a container has them; if not, why.
fn no_namespaces() -> Option<String> {
    let tried = Command::new("unshare").args(["--pid", "--fork", "--mount-proc", "true"]).output();
    match tried {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(format!("no namespaces: {}", String::from_utf8_lossy(&done.stderr).trim())),
        Err(e) => Some(format!("cannot run unshare: {e}")),
    }
}

#[test]
fn a_second_container_that_shares_the_home_is_refused_at_once() {
    const NAME: &str = "a_second_container_that_shares_the_home_is_refused_at_once";
    if let Some(why) = no_namespaces() {
        return machine::skipped(NAME, why);
    }
    let p = product();
    let id = p.run("exec sleep 1000");
    // A PID namespace and a /dev/shm of its own, as in two containers that share a volume. The shell stays as process 1, so that everything
    // ends with the call.
    let inside = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", "mount -t tmpfs tmpfs /dev/shm && \"$@\"", "sh"];
    for args in [&["run", "--json", "--", "touch never"][..], &["list", "--json"]] {
        let began = Instant::now();
        let answer = Answer::from(by_way_of(&p, &inside, args).output().unwrap());
        let said = answer.json();
        assert!(began.elapsed() < Duration::from_secs(10), "it took {:?}", began.elapsed());
        assert!(answer.code.is_some_and(|code| code != 0), "{said}");
        assert!(said["error"].as_str().is_some_and(|e| e.contains("another container")), "{said}");
        assert!(said["hint"].as_str().is_some_and(|h| h.contains("OUTLAST_HOME") && !h.contains("kill")), "{said}");
    }
    assert!(!p.work().join("never").exists());
    assert_eq!(p.json(["poll", &id])["status"], "running");
    // Without that engine, the second one serves the home, and cannot reach the keepers of the first.
    p.kill_engine();
    let answer = Answer::from(by_way_of(&p, &inside, &["kill", "--json", &id]).output().unwrap());
    let said = answer.json();
    assert!(said["error"].as_str().is_some_and(|e| e.contains("run in another container")), "{said}");
    // Its engine ended with the container.
    assert_eq!(p.json(["kill", &id, "--grace", "0"])["status"], "killed");
}

#[test]
fn a_caller_in_another_namespace_is_told_where_its_command_runs() {
    const NAME: &str = "a_caller_in_another_namespace_is_told_where_its_command_runs";
    if let Some(why) = no_namespaces() {
        return machine::skipped(NAME, why);
    }
    let p = product();
    p.engine();
    let inside = ["unshare", "--pid", "--fork", "--mount-proc"];
    let told = Answer::from(by_way_of(&p, &inside, &["run", "--json", "--", "true"]).output().unwrap()).json();
    let warnings = told["warnings"].as_array().cloned().unwrap_or_default();
    assert!(warnings.iter().any(|w| w.as_str().is_some_and(|w| w.contains("another pid and mount namespace"))), "{told}");
    let here = p.json(["run", "--", "true"]);
    assert!(!here.to_string().contains("namespace"), "{here}");
}

#[test]
fn an_engine_needs_no_home_directory_where_its_home_is_given() {
    const NAME: &str = "an_engine_needs_no_home_directory_where_its_home_is_given";
    if !machine::is_root() {
        return machine::skipped(NAME, "only root can become a user without an entry");
    }
    let tmp = tempfile::tempdir().unwrap();
    if !machine::lets_others_in(tmp.path()) {
        return machine::skipped(NAME, "a temporary directory that other users may enter");
    }
    chown(tmp.path(), Some(UNLISTED), Some(UNLISTED)).unwrap();
    let home = tmp.path().join("home");
    let call = |args: &[&str]| {
        let mut call = Command::new(env!("CARGO_BIN_EXE_outlast"));
        call.args(args).env_clear().env("PATH", "/usr/bin:/bin").current_dir("/").stdin(Stdio::null()).uid(UNLISTED).gid(UNLISTED);
        call
    };
    let mut engine = call(&["__engine", "--home", home.to_str().unwrap()]).stderr(Stdio::piped()).spawn().unwrap();
    let status = eventually("the engine", || {
        assert_eq!(engine.try_wait().unwrap(), None, "the engine has ended");
        home.join("run").exists().then_some(())?;
        let status = Answer::from(call(&["engine", "status", "--json"]).env("OUTLAST_HOME", &home).output().unwrap()).json();
        (status["pid"].as_u64() == Some(u64::from(engine.id()))).then_some(status)
    });
    assert_eq!(status["home"].as_str(), home.to_str(), "{status}");
    assert_eq!(call(&["engine", "stop"]).env("OUTLAST_HOME", &home).status().unwrap().code(), Some(0));
    engine.wait().unwrap();
}

#[test]
fn a_user_without_a_directory_is_told_of_outlast_home() {
    const NAME: &str = "a_user_without_a_directory_is_told_of_outlast_home";
    if !machine::is_root() {
        return machine::skipped(NAME, "only root can become a user without an entry");
    }
    let mut call = Command::new(env!("CARGO_BIN_EXE_outlast"));
    call.args(["list", "--json"]).env_clear().env("HOME", "/").current_dir("/").stdin(Stdio::null()).uid(UNLISTED).gid(UNLISTED);
    let answer = Answer::from(call.output().unwrap());
    let said = answer.json();
    assert!(answer.code.is_some_and(|c| c != 0), "{said}");
    assert!(said["hint"].as_str().is_some_and(|h| h.contains("OUTLAST_HOME") && !h.contains("engine.log")), "{said}");
}

#[test]
fn another_user_who_took_the_names_for_sockets_blocks_no_user() {
    let ran = in_own_mounts(|| {
        let us = rustix::process::geteuid().as_raw();
        // A tmpfs that belongs to another user stands for a directory of that user.
        let names = ["/dev/shm", "/tmp"].map(|place| Path::new(place).join(format!("outlast-{us}")));
        let made: Vec<&PathBuf> = names.iter().filter(|name| !name.exists()).collect();
        for taken in &names {
            mount_tmpfs(taken, &format!("uid={UNLISTED},mode=700")).unwrap();
        }
        let p = product();
        let id = p.run_with(&["--stdin"], "read line; echo $line; exit 4");
        assert_eq!(p.socket_dir(), Some(p.home().run_dir()));
        p.kill_engine();
        p.call(["submit", &id, "hello"]).good();
        let ended = p.wait(&id);
        assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(4), Some("hello\n")), "{ended}");
        p.shut_down().unwrap();
        names.iter().for_each(|taken| machine::unmount_all(taken).unwrap());
        // Other tests may use one by now.
        made.iter().for_each(|made| drop(std::fs::remove_dir(made)));
    });
    if let Err(why) = ran {
        machine::skipped("another_user_who_took_the_names_for_sockets_blocks_no_user", format!("{why:#}"));
    }
}

/// The one child of a process, once it runs this program and handles SIGTERM.
fn ready_child(parent: u32) -> Option<u32> {
    let child: u32 = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?.trim().parse().ok()?;
    let status = std::fs::read_to_string(format!("/proc/{child}/status")).ok()?;
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).and_then(|set| u64::from_str_radix(set.trim(), 16).ok())?;
    let is_ours = std::fs::read_link(format!("/proc/{child}/exe")).ok()? == Path::new(env!("CARGO_BIN_EXE_outlast"));
    (is_ours && caught >> (libc::SIGTERM - 1) & 1 == 1).then_some(child)
}

#[test]
fn the_first_process_of_a_container_ends_on_sigterm_and_the_command_keeps_running() {
    const NAME: &str = "the_first_process_of_a_container_ends_on_sigterm_and_the_command_keeps_running";
    if let Some(why) = no_namespaces() {
        return machine::skipped(NAME, why);
    }
    let p = product();
    p.engine();
    let waited = p.run("exec sleep 1000");
    let inside = ["unshare", "--pid", "--fork", "--mount-proc"];
    for args in [&["mcp"][..], &["wait", &waited], &["run", "--wait", "--", "exec sleep 1000"]] {
        let mut container = by_way_of(&p, &inside, args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let first = eventually("a first process that takes SIGTERM", || ready_child(container.id()));
        let sent = rustix::process::kill_process(rustix::process::Pid::from_raw(first as i32).unwrap(), rustix::process::Signal::TERM);
        sent.unwrap();
        assert!(wait_for_end(first, Duration::from_secs(10)), "{args:?} does not end");
        assert_eq!(container.wait().unwrap().code(), Some(128 + libc::SIGTERM), "{args:?}");
    }
    assert_eq!(p.json(["poll", &waited])["status"], "running");
}
