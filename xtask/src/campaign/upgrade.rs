//! `cargo xtask campaign upgrade`: this build takes over processes that an earlier build started, and loses nothing of them.
//!
//! The earlier build is made from the history, in a target directory of its own, unless `--old` names its program. Its program is replaced
//! while its commands run, as a package manager does, and its engine is killed or stopped. The keepers stay those of the earlier build.

use super::program;
use crate::Flags;
use anyhow::{Context, Result, ensure};
use outlast_testkit::leftovers;
use outlast_testkit::product::{Product, eventually, kill_and_wait};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The last build whose keepers share the file `meta` itself.
const FROM: &str = "79945de";

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let from = flags.get::<String>("--from")?.unwrap_or_else(|| FROM.to_owned());
    let old = match (flags.get::<PathBuf>("--old")?, found(&from)) {
        (Some(old), _) => old,
        (None, Some(commit)) => build(&commit)?,
        (None, None) => {
            println!("skipped: upgrade: commit {from} is not in the history of this clone");
            return Ok(());
        }
    };
    let new = program(flags)?;
    for way in [Way::Killed, Way::Stopped] {
        upgrade(&old, &new, way).with_context(|| format!("the engine of {from} was {way:?}").to_lowercase())?;
    }
    println!("campaign upgrade: from {from}: 2 upgrades, each of 10 processes: 0 lost, 0 told twice, 0 not stopped");
    Ok(())
}

/// How the earlier engine ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Killed,
    Stopped,
}

fn found(commit: &str) -> Option<String> {
    let asked = Command::new("git").args(["rev-parse", "--verify", "--quiet", &format!("{commit}^{{commit}}")]).output().ok()?;
    asked.status.success().then(|| String::from_utf8_lossy(&asked.stdout).trim().to_owned())
}

/// Builds the `outlast` of a commit, with its keeper beside it.
fn build(commit: &str) -> Result<PathBuf> {
    let dir = std::env::current_exe()?.parent().and_then(Path::parent).context("a target directory")?.join("upgrade");
    let (source, target) = (dir.join(commit), dir.join("target"));
    if !source.join("Cargo.toml").exists() {
        std::fs::create_dir_all(&source)?;
        let line = format!("git archive {commit} | tar -x -C '{}'", source.display());
        ensure!(Command::new("sh").args(["-c", &line]).status()?.success(), "{commit} cannot be unpacked");
    }
    let mut call = crate::cargo();
    call.args(["build", "--quiet", "--package", "outlast", "--package", "outlast-keeper", "--bins"]).arg("--target-dir").arg(&target);
    ensure!(call.current_dir(&source).status()?.success(), "{commit} does not build");
    Ok(target.join("debug/outlast"))
}

/// Installs a program and its keeper over the existing ones.
fn install(program: &Path, at: &Path) -> Result<()> {
    for name in ["outlast", "outlast-keeper"] {
        let new = at.with_file_name(format!("{name}.new"));
        std::fs::copy(program.with_file_name(name), &new).with_context(|| format!("copy {name}"))?;
        std::fs::rename(&new, at.with_file_name(name))?;
    }
    Ok(())
}

fn upgrade(old: &Path, new: &Path, way: Way) -> Result<()> {
    let bin = tempfile::Builder::new().prefix("ol-bin-").tempdir()?;
    let at = bin.path().join("outlast");
    install(old, &at)?;
    let p = Product::new(&at);
    let gate = p.work().join("gate");
    let tell = ["--notify", "--session", "s"];
    let started = |flags: &[&str], line: &str| p.run_with(&[flags, &tell].concat(), line);
    let until = format!("while [ ! -e {} ]; do", gate.display());
    // Named, so that the same request can be made again.
    let (named, counts) = (["--id", "proc_0000000000aa"], format!("n=0; {until} n=$((n+1)); echo line $n; sleep 0.02; done; exit 3"));
    let prints = started(&named, &counts);
    let watched = started(&["--watch", "READY"], &format!("echo READY 1; {until} sleep 0.02; done; exit 4"));
    let late = started(&["--watch", "READY"], &format!("{until} sleep 0.02; done; echo READY; exit 9"));
    let terminal = started(&["--pty"], &format!("test -t 1 && echo tty; {until} sleep 0.02; done; stty size; exit 5"));
    let input = started(&["--stdin"], "while read -r line; do echo got $line; done; exit 6");
    let stopped = started(&[], "sleep 1000 & sleep 1000");
    let bereft = started(&[], "exec sleep 1000");
    let ends_alone = started(&[], &format!("while [ ! -e {}-alone ]; do sleep 0.02; done; exit 7", gate.display()));
    // Keepers of the earlier build have one of these, and only its record has the other.
    let holds = started(&[], "sleep 1000 & exit 11");
    let daemon = started(&[], "sleep 1000 >/dev/null 2>&1 & exit 12");
    let all = [&prints, &watched, &late, &terminal, &input, &stopped, &bereft, &ends_alone, &holds, &daemon];
    ensure!(p.json(["write", &input, "one\n", "--offset", "0"])["next_offset"] == 4, "input is taken");
    printed(&p, &watched, "READY 1");
    eventually("the match is told", || (told(&p, &watched) == ["watch_match"]).then_some(()));
    let given = p.json(["events", "next", "--session", "s", "--lease", "3600"]);
    let (event, lease) = (given["notices"][0]["event"]["event_id"].clone(), given["lease"].clone());
    let (event, lease) = (event.as_str().context("a notice is given")?, lease.as_str().context("with a token")?);
    let pids: Vec<u32> = all.iter().map(|id| p.meta(id).cmd).collect();
    let engine = p.engine();

    install(new, &at)?;
    match way {
        Way::Killed => kill_and_wait(engine)?,
        Way::Stopped => ensure!(p.call(["engine", "stop"]).code == Some(0), "the engine stops"),
    }
    // This end is reported by an engine that the keepers start.
    std::fs::write(p.work().join("gate-alone"), "")?;
    eventually("an engine that keepers started", || (told(&p, &ends_alone) == ["completion"]).then_some(()));
    ensure!(p.engine() != engine, "it is another engine");
    let program = std::fs::read_link(format!("/proc/{}/exe", p.engine()))?;
    ensure!(std::fs::read(&program)? == std::fs::read(new)?, "the engine is the new one: {}", program.display());

    for (id, pid) in all.iter().zip(&pids).take(7) {
        let polled = p.json(["poll", id]);
        ensure!(polled["phase"] == "running" && polled["pid"] == *pid, "taken over: {polled}");
    }
    ensure!(started(&named, &counts) == prints && p.meta(&prints).cmd == pids[0], "a request that is made again returns the same process");
    p.call(["events", "ack", "--session", "s", "--lease", lease, event]).good();
    let length = || p.json(["poll", &prints])["output_bytes"].as_u64();
    let before = length();
    eventually("more output", || (length() > before).then_some(()));
    ensure!(p.json(["write", &input, "one\ntwo\n", "--offset", "0"])["next_offset"] == 8, "input goes on where it was");
    // Its keepers still replace each other.
    let meta = p.meta(&prints);
    kill_and_wait(meta.pump)?;
    eventually("another pump", || Some(p.meta(&prints)).filter(|m| m.pump != meta.pump && m.pump != 0 && m.deaths.0 == 1));
    let killed = p.json(["kill", &stopped]);
    ensure!(killed["status"] == "killed" && killed["seen_dead"].as_u64() >= Some(2), "stopped: {killed}");
    for id in [&holds, &daemon] {
        let polled = p.json(["poll", id]);
        ensure!(polled["left_running"] == 1, "what it left is shown: {polled}");
        let killed = p.json(["kill", id]);
        ensure!(killed["left_killed"] == polled["left"], "what it left is stopped: {killed}");
        ensure!(p.json(["poll", id])["phase"] == "exited", "nothing holds its output");
    }
    // Without its keepers it is found by identity, as before.
    let meta = p.meta(&bereft);
    for signal in [rustix::process::Signal::STOP, rustix::process::Signal::KILL] {
        for pid in [meta.pump, meta.holder] {
            rustix::process::kill_process(rustix::process::Pid::from_raw(pid as i32).context("a pid")?, signal)?;
        }
    }
    eventually("an orphan", || (p.json(["poll", &bereft])["phase"] == "orphaned").then_some(()));
    ensure!(p.json(["kill", &bereft])["status"] == "killed", "an orphan is stopped");

    ensure!(p.json(["close", &input])["status"] == "ok", "input is closed");
    std::fs::write(&gate, "")?;
    for (id, code) in [(&prints, 3), (&watched, 4), (&late, 9), (&terminal, 5), (&input, 6), (&ends_alone, 7)] {
        let ended = p.wait(id);
        ensure!(ended["exit_code"] == code, "ended: {ended}");
    }
    let lines = p.call(["log", &prints, "--raw"]).text();
    let count = lines.lines().count();
    ensure!(lines == (1..=count).map(|n| format!("line {n}\n")).collect::<String>(), "each line once, in order");
    ensure!(p.call(["log", &input, "--raw"]).text() == "got one\ngot two\n", "input is there once");
    let tty = p.call(["log", &terminal, "--raw"]).text();
    ensure!(tty.starts_with("tty\r\n") && tty.lines().count() == 2, "a terminal: {tty:?}");
    // A new process in the same home has keepers of this build.
    ensure!(p.wait(&p.run("exit 8"))["exit_code"] == 8, "a new process runs");
    for id in all {
        eventually("its keepers leave", || leftovers::of_process(id).is_empty().then_some(()));
        let kinds = told(&p, id);
        let ends = kinds.iter().filter(|kind| *kind == "completion").count();
        ensure!(ends == 1, "{id}: the end is told once, not as {kinds:?}");
    }
    for id in [&watched, &late] {
        let matches = told(&p, id).iter().filter(|kind| *kind == "watch_match").count();
        ensure!(matches == 1, "a match is told once, not {matches} times");
    }
    p.shut_down()
}

fn printed(p: &Product, id: &str, text: &str) {
    eventually(text, || p.call(["log", id, "--raw"]).text().contains(text).then_some(()));
}

/// The kinds of all notices about a process, in any state.
fn told(p: &Product, id: &str) -> Vec<String> {
    let said: Value = p.json(["events", "history", "--process", id]);
    let notices = said["notices"].as_array().cloned().unwrap_or_default();
    notices.iter().filter_map(|n| n["event"]["type"].as_str().map(str::to_owned)).collect()
}
