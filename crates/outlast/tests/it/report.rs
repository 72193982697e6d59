//! `report`: a redacted bundle for a bug report.

use crate::gate::until_printed;
use crate::support::*;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

const SECRET: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

/// Writes a bundle, unpacks it, and gives the directory with its files.
fn bundle(p: &Product, args: &[&str]) -> (Answer, PathBuf) {
    let file = p.work().join(format!("bundle-{}.tar.gz", std::fs::read_dir(p.work()).unwrap().count()));
    let answer = p.call([&["report", "--to", file.to_str().unwrap()], args].concat());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let into = file.with_extension("d");
    std::fs::create_dir(&into).unwrap();
    let done = std::process::Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(&into).output().expect("tar runs");
    assert!(done.status.success(), "{done:?}");
    let directory = std::fs::read_dir(&into).unwrap().next().unwrap().unwrap().path();
    (answer, directory)
}

fn read(directory: &Path, name: &str) -> String {
    std::fs::read_to_string(directory.join(name)).unwrap()
}

/// Everything that is in it.
fn all(directory: &Path) -> String {
    std::fs::read_dir(directory).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

#[test]
fn a_report_counts_what_was_seen_apart_from_what_is_pending() {
    let p = product();
    let id = p.run_with(&["--notify"], "exit 1");
    eventually("the notice", || (p.json(["active"])["waiting"] == 1).then_some(()));
    p.call(["poll", &id]).good();
    p.run_with(&["--notify"], "exit 1");
    eventually("the notice", || (p.json(["active"])["waiting"] == 1).then_some(()));
    let (_, directory) = bundle(&p, &[]);
    let notices = read(&directory, "notices.txt");
    assert!(notices.starts_with("pending     1\nseen        1\nleased      0\n"), "{notices}");
}

#[test]
fn a_report_has_the_facts_and_no_secret_no_environment_and_no_output() {
    let p = product();
    p.configure("[retention]\ndays = 3\n\n[[webhook]]\nname = \"w\"\nurl = \"https://hooks.example.com/T0/s3cretpath\"\nsecret = \"whsec_s3cretword\"\n");
    let args = ["--name", "talker", "--session", "private-chat", "--notify", "--env", "PLAIN_VARIABLE=plain-value"];
    let id = p.run_with(&args, &format!("echo $((6 * 7))-is-printed; : --token {SECRET}; read -r _ </dev/zero"));
    until_printed(&p, &id, "42-is-printed");
    let (answer, directory) = bundle(&p, &[]);
    let path = answer.text();
    assert!(path.trim().ends_with(".tar.gz") && path.lines().count() == 1, "{answer:?}");
    for file in
        ["README.txt", "doctor.txt", "machine.txt", "config.txt", "engine.log", "gateway.log", "processes.json", "notices.txt", "home.txt"]
    {
        assert!(answer.err.contains(file) && directory.join(file).exists(), "{file}: {answer:?}");
    }
    let text = all(&directory);
    for absent in [SECRET, "42-is-printed", "plain-value", "PLAIN_VARIABLE", "s3cretpath", "s3cretword", "private-chat"] {
        assert!(!text.contains(absent), "{absent} in {text}");
    }
    let listed: Value = serde_json::from_str(&read(&directory, "processes.json")).unwrap();
    let process = &listed["processes"][0];
    assert_eq!((&process["id"], &process["phase"], &process["name"]), (&json!(id), &json!("running"), &json!("talker")), "{listed}");
    assert!(process["command"].as_str().unwrap().starts_with("echo $((6 * 7))-is-printed"), "{listed}");
    assert!(process.get("cwd").is_none() && process.get("output_preview").is_none(), "{listed}");
    let config = read(&directory, "config.txt");
    assert!(config.contains("https://hooks.example.com/***") && config.contains("security.redact_secrets = true  # default"), "{config}");
    assert!(read(&directory, "notices.txt").contains("pending     0"), "{text}");
    assert!(read(&directory, "home.txt").contains("index.db"), "{text}");
    assert!(read(&directory, "machine.txt").contains("kernel"), "{text}");
    assert!(read(&directory, "doctor.txt").contains("1 running of 1 known"), "{text}");
    // Without commands, names are left out with them.
    let (_, directory) = bundle(&p, &["--no-commands"]);
    let text = all(&directory);
    assert!(!text.contains("talker") && !text.contains("is-printed"), "{text}");
    assert!(read(&directory, "processes.json").contains(&id), "{text}");
}

#[test]
fn a_report_needs_no_engine_and_no_readable_configuration() {
    let p = product();
    let id = p.run("exit 3");
    p.wait(&id);
    p.kill_engine();
    p.configure(&format!("[retention\ntoken = \"{SECRET}\"\n"));
    let (_, directory) = bundle(&p, &[]);
    let text = all(&directory);
    assert!(!text.contains(SECRET), "{text}");
    assert!(read(&directory, "config.txt").contains("token = ***"), "{text}");
    assert!(read(&directory, "doctor.txt").contains("no engine runs"), "{text}");
    let listed = read(&directory, "processes.json");
    assert!(listed.contains("no engine runs") && listed.contains(&id), "{listed}");
    assert_eq!(p.json(["engine", "status"])["status"], "not_running", "none was started");
}

#[test]
fn a_report_does_not_quote_the_line_of_the_configuration_that_is_wrong() {
    for (wrong, line) in [("url = https://hooks.example.com/T0/czNjcmV0\n", 3), ("secret = \"\"\"\nczNjcmV0\n\"\"\"\nczNjcmV0==\n", 6)] {
        let p = product();
        p.configure(&format!("[[webhook]]\nname = \"w\"\n{wrong}"));
        // The engine logs what is wrong with the file, too.
        let id = p.run("exit 3");
        p.wait(&id);
        let (_, directory) = bundle(&p, &[]);
        let text = all(&directory);
        assert!(!text.contains("czNjcmV0"), "{text}");
        for file in ["doctor.txt", "config.txt", "engine.log"] {
            assert!(read(&directory, file).contains(&format!("config.toml: line {line}: ")), "{file}: {text}");
        }
    }
}

#[test]
fn a_report_does_not_quote_an_address_that_is_wrong_or_at_the_wrong_place() {
    const HIDDEN: &str = "T0s3cretB0";
    for wrong in [
        format!("[[webhook]]\nname = \"w\"\nurl = \"hooks.slack.com/services/{HIDDEN}\"\n"),
        format!("terminal.timeout = \"hooks.slack.com/services/{HIDDEN}\"\n"),
        format!("[[webhook]]\nname = \"w\"\nurl = \"https://a.example\"\ntimeout_seconds = \"hooks.slack.com/services/{HIDDEN}\"\n"),
    ] {
        let p = product();
        p.configure(&wrong);
        let id = p.run(&format!("true curl hooks.slack.com/services/{HIDDEN} https://discord.com/api/webhooks/1/{HIDDEN}"));
        p.wait(&id);
        let (_, directory) = bundle(&p, &[]);
        for file in std::fs::read_dir(&directory).unwrap() {
            let file = file.unwrap().path();
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(!text.contains(HIDDEN), "{}: {text}", file.display());
        }
        let engine_log = std::fs::read_to_string(p.home().root.join("engine.log")).unwrap();
        assert!(!engine_log.contains(HIDDEN), "{engine_log}");
        assert!(read(&directory, "config.txt").contains("hooks.slack.com/***"), "{}", read(&directory, "config.txt"));
        assert!(read(&directory, "processes.json").contains("discord.com/***"), "{}", read(&directory, "processes.json"));
    }
}

#[test]
fn a_report_of_a_home_that_does_not_exist_yet_is_written_and_makes_none() {
    let p = product();
    let (_, directory) = bundle(&p, &[]);
    assert!(read(&directory, "engine.log").contains("there is none"));
    assert!(!p.home().root.join("index.db").exists());
}

#[test]
fn a_file_that_exists_is_not_overwritten() {
    let p = product();
    let nowhere = p.call(["report", "--to", "/no/such/directory/x.tar.gz"]);
    assert!(nowhere.code == Some(1) && nowhere.err.starts_with("outlast: cannot write /no/such/directory/x.tar.gz: "), "{nowhere:?}");
    let file = p.work().join("mine.tar.gz");
    std::fs::write(&file, "mine").unwrap();
    let refused = p.call(["report", "--to", file.to_str().unwrap()]);
    assert!(refused.code == Some(1) && refused.err.contains("exists") && refused.err.contains("--to"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    // Without a name it is in the current directory, and programs get its contents as data.
    let said = p.json(["report"]);
    let path = PathBuf::from(said["path"].as_str().unwrap());
    assert!(path.exists() && path.file_name().unwrap().to_str().unwrap().starts_with("outlast-report-2"), "{said}");
    assert_eq!(said["files"][1]["name"], "doctor.txt", "{said}");
    std::fs::remove_file(path).unwrap();
}
