//! `engine`: started by hand, and with the machine.

use crate::person::Person;
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
fn a_user_who_stops_the_engine_is_told_what_keeps_running() {
    let p = product();
    p.run("exec sleep 1000");
    p.run_with(&["--on-stop", "kill"], "exec sleep 1000");
    let (seen, code) = Person::calls(&p, &["engine", "stop"]).until_the_end();
    assert!(code == Some(0) && seen.contains(") has ended; 1 process keeps running"), "{seen}");
    p.json(["engine", "start"]);
    assert_eq!(p.json(["engine", "stop"])["running"], 1);
}

#[test]
fn the_state_of_an_engine_is_broken_between_words() {
    let p = product();
    p.json(["engine", "start"]);
    let (seen, _) = Person::calls_at(&p, &["engine", "status"], 40, 60).until_the_end();
    let lines: Vec<&str> = seen.lines().skip_while(|line| !line.starts_with("running")).take(2).map(str::trim_end).collect();
    assert_eq!(lines, ["running  0 of 0 known, 0 already running when the engine", "         started"], "{seen}");
}

#[test]
fn the_unit_reports_what_a_restart_of_the_machine_ended_without_a_client() {
    let (p, log) = hooked("");
    let lost = p.run_with(&["--notify"], "exec sleep 1000");
    let over = p.run_with(&["--notify"], "exit 3");
    hears_of(&log, &over);
    let unit = std::fs::read_to_string(installed(&p)).unwrap();
    reboot(&p).unwrap();
    assert!(started_by(&p, &unit).status().unwrap().success());
    let told = hears_of(&log, &lost);
    assert_eq!((&told["event"]["completion_reason"], &told["event"]["exit_code"]), (&json!("lost"), &Value::Null), "{told}");
    // The engine that the unit started serves every client.
    assert!(p.json(["engine", "status"])["pid"].is_u64());
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

#[test]
fn why_an_engine_cannot_start_is_said_once() {
    let p = product();
    p.call(["list"]).good();
    p.call(["engine", "stop"]).good();
    // A directory in the place of the keeper's copy.
    let copy = std::fs::read_dir(p.home().bin()).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(&copy).unwrap();
    std::fs::create_dir_all(copy.join("x")).unwrap();
    let refused = p.call(["list", "--json"]).json();
    let error = refused["error"].as_str().unwrap();
    assert_eq!(error.matches("cannot copy the keeper").count(), 1, "{error}");
    std::fs::remove_dir_all(&copy).unwrap();
}

#[test]
fn a_restart_with_a_configuration_that_cannot_be_read_ends_nothing() {
    let p = product();
    let first = json!(p.engine());
    p.configure("[limits]\nmax_running = 1\n[[hook]]\nname = \"bad\n");
    for args in [&["engine", "restart"][..], &["engine", "restart", "--json"]] {
        let refused = p.call(args);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let said = refused.text() + &refused.err;
        assert!(said.contains("config.toml: ") && said.contains("line 4") && said.contains("correct the file and restart again"), "{said}");
    }
    p.configure("[limits]\nmax_running = 1\n");
    assert_eq!(p.json(["engine", "status"])["pid"], first, "it runs on");
    assert_eq!(p.json(["engine", "restart"])["status"], "restarted");
}

#[test]
fn hooks_and_webhooks_are_shown_without_secrets() {
    let p = product();
    std::fs::write(p.work().join("secret"), "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    let secret = p.work().join("secret");
    p.configure(&format!(
        "[[hook]]\nname = 'note'\ncommand = 'API_TOKEN=hunter2hunter2 notify --now'\n[[hook]]\nname = 'bad'\n\
         [[webhook]]\nname = 'ops'\nurl = 'https://hooks.example.com/services/T1/very-secret?a=b'\nsecret_file = {secret:?}\n"
    ));
    let shown = p.call(["config", "show"]).good();
    let text = shown.text();
    assert!(text.contains("[[hook]] note = API_TOKEN=*** notify --now\n"), "{text}");
    assert!(text.contains("[[webhook]] ops = https://hooks.example.com/***\n") && !text.contains("very-secret"), "{text}");
    assert!(!text.contains("bad") && shown.err.contains("the 2nd [[hook]] table in "), "{shown:?}");
    assert!(shown.err.contains(" is ignored: it has no `command`"), "{shown:?}");
    let sinks = p.json(["config", "show"])["sinks"].clone();
    assert_eq!(sinks[1], json!({"kind": "webhook", "name": "ops", "calls": "https://hooks.example.com/***"}), "{sinks}");
}

#[test]
fn a_changed_configuration_is_named_until_the_engine_was_restarted() {
    let p = product();
    let id = p.run_with(&["--on-stop", "kill"], "exec sleep 1000");
    let first = p.json(["engine", "status"])["pid"].clone();
    let shown = || p.json(["config", "show"]);
    assert_eq!((&shown()["engine"]["pid"], &shown()["engine"]["needs_restart"]), (&first, &json!(false)));
    p.configure("[limits]\nmax_running = 1\n[[hook]]\nname = 'h'\ncommand = 'true'\n");
    // The value that counts is the engine's, and the changed one is named beside it.
    let said = shown();
    assert_eq!(said["engine"]["needs_restart"], true, "{said}");
    assert_eq!(said["values"]["limits.max_running"]["value"], 1024, "{said}");
    assert_eq!(said["values"]["limits.max_running"]["configured"], json!({"value": 1, "from": "config.toml"}), "{said}");
    assert!(said["values"]["hook"]["configured"]["value"].is_string(), "{said}");
    let text = p.call(["config", "show"]).good();
    assert!(text.text().contains("now 1 in config.toml") && text.err.contains("`outlast engine restart`"), "{text:?}");
    assert!(text.text().contains("[[hook]] = none ") && text.text().contains("; tables were added in the file"), "{text:?}");
    assert!(text.text().contains("[[hook]] h = true  # not read yet\n"), "{text:?}");
    let checks = p.json(["doctor", "--quick"])["checks"].to_string();
    assert!(checks.contains("earlier values of hook, limits.max_running") && checks.contains("outlast engine restart"), "{checks}");
    let note = "note: the engine uses earlier settings (hook, limits.max_running); `outlast engine restart`";
    let mut person = Person::calls_at(&p, &["run", "--wait", "--", "true"], 24, 200);
    person.sees(note);
    person.sees("exited with code 0");
    // In a pipe the answer stays as it is.
    assert_eq!(p.call(["run", "--wait", "--", "true"]).good().err, "");

    let done = p.json(["engine", "restart"]);
    assert_eq!((&done["status"], &done["was"], &done["running"]), (&json!("restarted"), &first, &json!(1)), "{done}");
    assert_ne!(done["pid"], first);
    assert_eq!(p.json(["engine", "status"])["pid"], done["pid"]);
    assert_eq!(p.json(["poll", &id])["phase"], "running", "a restart stops nothing, also what ends with a stop");
    let said = shown();
    assert_eq!((&said["engine"]["needs_restart"], &said["values"]["limits.max_running"]["value"]), (&json!(false), &json!(1)), "{said}");
    assert_eq!(p.call(["run", "--json", "--", "true"]).json()["code"], "too_many_running", "the new limit counts");
    p.configure("[limits]\nmax_running = 1\n[[hook]]\nname = 'h'\ncommand = 'false'\n");
    let text = p.call(["config", "show"]).good().text();
    assert!(text.contains("; tables were changed in the file") && text.contains("[[hook]] h = false  # perhaps not read yet\n"), "{text}");
    p.configure("[limits]\nmax_running = 1\n");
    let text = p.call(["config", "show"]).good().text();
    assert!(text.contains("; all tables were removed in the file"), "{text}");
}

#[test]
fn a_setting_in_the_environment_of_one_caller_needs_no_restart() {
    let p = product();
    p.engine();
    let call =
        |env: &[(&str, &str)]| Answer::from(p.command(["config", "show", "--json"]).envs(env.iter().copied()).output().unwrap()).json();
    let said = call(&[("OUTLAST_TERM_GRACE_SECONDS", "9")]);
    assert_eq!(
        (&said["engine"]["needs_restart"], said["values"]["terminal.daemon_term_grace_seconds"]["value"].as_f64()),
        (&json!(false), Some(2.0))
    );
}

#[test]
fn a_restart_without_an_engine_starts_one_and_config_show_starts_none() {
    let p = product();
    assert_eq!(p.json(["config", "show"])["engine"], Value::Null);
    assert!(p.call(["config", "show"]).good().text().contains("# engine: none runs"));
    for flags in [&[][..], &["--no-start"]] {
        assert_eq!(p.json([&["engine", "status"][..], flags].concat())["status"], "not_running", "a status starts nothing");
        assert!(!p.home().root.exists(), "nor does it create a home");
    }
    let done = p.json(["engine", "restart"]);
    assert_eq!((&done["status"], &done["was"]), (&json!("started"), &Value::Null), "{done}");
}
