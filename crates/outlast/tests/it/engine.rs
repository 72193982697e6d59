//! `engine`: started by hand, and with the machine.

use crate::sinks::{hears_of, hooked};
use crate::support::*;
use outlast_testkit::machine::skipped;
use outlast_testkit::reboot::reboot;
use std::path::PathBuf;
use std::process::Command;

/// Installs the unit and gives its path.
fn installed(p: &Product) -> PathBuf {
    let done = p.json(["engine", "install", "--force"]);
    assert_eq!(done["status"], "installed", "{done}");
    done["unit"].as_str().unwrap().into()
}

/// What systemd would run: the line and the environment of the unit.
fn started_by(p: &Product, unit: &str) -> Command {
    let value = |line: &str, key: &str| line.strip_prefix(key).map(str::to_owned);
    let line = unit.lines().find_map(|l| value(l, "ExecStart=")).unwrap();
    let mut call = Command::new("/bin/sh");
    call.args(["-c", &format!("exec {line}")]).env_clear().env("HOME", p.user()).env("USER", "tester").current_dir("/");
    for set in unit.lines().filter_map(|l| value(l, "Environment=")) {
        let (name, value) = set.trim_matches('"').split_once('=').unwrap();
        call.env(name, value);
    }
    call
}

#[test]
fn an_engine_can_be_started_and_is_started_once() {
    let p = product();
    let first = p.json(["engine", "start"]);
    assert_eq!(first["status"], "started", "{first}");
    let again = p.json(["engine", "start"]);
    assert_eq!((again["status"].as_str(), &again["pid"]), (Some("running"), &first["pid"]));
}

#[test]
fn the_unit_tells_what_a_restart_of_the_machine_ended_though_nobody_calls() {
    let (p, log) = hooked("");
    let lost = p.run_with(&["--notify"], "exec sleep 1000");
    let over = p.run_with(&["--notify"], "exit 3");
    hears_of(&log, &over);
    let unit = std::fs::read_to_string(installed(&p)).unwrap();
    reboot(&p).unwrap();
    assert!(started_by(&p, &unit).status().unwrap().success());
    let told = hears_of(&log, &lost);
    assert_eq!((&told["event"]["completion_reason"], &told["event"]["exit_code"]), (&json!("lost"), &Value::Null), "{told}");
    // The engine that the unit started serves whoever comes.
    assert!(p.json(["engine", "status", "--no-start"])["pid"].is_u64());
    assert_eq!(p.json(["poll", &lost])["phase"], "lost");
    assert_eq!(p.json(["poll", &over])["exit_code"], 3);
}

#[test]
fn installing_twice_changes_nothing_and_undoing_leaves_nothing() {
    use std::os::unix::fs::MetadataExt;
    let p = product();
    let unit = installed(&p);
    assert!(unit.starts_with(p.user().join(".config/systemd/user")), "{}", unit.display());
    assert_eq!(std::fs::metadata(&unit).unwrap().mode() & 0o777, 0o644);
    let wanted = unit.parent().unwrap().join("default.target.wants").join(unit.file_name().unwrap());
    assert_eq!(std::fs::canonicalize(&wanted).unwrap(), std::fs::canonicalize(&unit).unwrap());
    let inode = std::fs::metadata(&unit).unwrap().ino();
    assert_eq!(p.json(["engine", "install", "--force"])["status"], "unchanged");
    assert_eq!(std::fs::metadata(&unit).unwrap().ino(), inode);
    // In a container no unit starts an engine, and `doctor` says what does instead.
    let said = p.json(["doctor", "--quick"]).to_string();
    assert!(said.contains(unit.to_str().unwrap()) || said.contains("container"), "{said}");
    assert_eq!(p.json(["engine", "install", "--undo"])["status"], "removed");
    assert!(!unit.exists() && std::fs::symlink_metadata(&wanted).is_err());
    assert_eq!(p.json(["engine", "install", "--undo"])["status"], "absent");
}

#[test]
fn where_no_systemd_runs_the_unit_is_printed_and_not_written() {
    if std::path::Path::new("/run/systemd/system").exists() {
        return skipped("where_no_systemd_runs_the_unit_is_printed_and_not_written", "systemd runs here");
    }
    let p = product();
    let refused = p.call(["engine", "install"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("@reboot") && refused.err.contains("--print"), "{}", refused.err);
    let printed = p.call(["engine", "install", "--print"]).good().text();
    assert!(printed.contains("\nExecStart=\"") && printed.contains("WantedBy=default.target"), "{printed}");
    assert!(!p.user().join(".config/systemd").exists());
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit() {
    let p = product().with_env("OUTLAST_TERM_GRACE_SECONDS", "3 \"%h\" \\");
    let unit = installed(&p);
    let mut check = Command::new("systemd-analyze");
    check.args(["verify", "--user", "--man=no"]).arg(&unit).env("XDG_RUNTIME_DIR", p.work()).env("HOME", p.user());
    match check.output() {
        Err(e) => skipped("systemd_finds_nothing_wrong_with_the_unit", format!("systemd-analyze: {e}")),
        Ok(done) => assert!(done.status.success() && done.stderr.is_empty(), "{done:?}"),
    }
}

#[test]
fn a_secret_is_not_written_into_the_unit() {
    let p = product().with_env("OUTLAST_OPS_SECRET", "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
    p.configure("[[webhook]]\nname = \"ops\"\nurl = \"https://localhost:1/\"\nsecret_env = \"OUTLAST_OPS_SECRET\"\n");
    let done = p.call(["engine", "install", "--force", "--json"]).good().json();
    assert!(done["notes"].to_string().contains("OUTLAST_OPS_SECRET"), "{done}");
    assert!(!std::fs::read_to_string(done["unit"].as_str().unwrap()).unwrap().contains("whsec_"));
}
