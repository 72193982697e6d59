//! `rerun`: the same command again, in the environment of now.

use crate::support::*;

#[test]
fn a_rerun_is_a_new_process_with_the_same_command_directory_and_flags() {
    let p = product();
    std::fs::create_dir(p.work().join("sub")).unwrap();
    let first = p.json([
        "run",
        "--cwd",
        "sub",
        "--name",
        "n",
        "--task",
        "t",
        "--env",
        "GIVEN=kept",
        "--pty",
        "--",
        "pwd; echo $GIVEN $NOW; test -t 1",
    ]);
    let id = first["session_id"].as_str().unwrap();
    assert_eq!(p.wait(id)["exit_code"], 0);
    let again = p.command(["rerun", "--json", id]).env("NOW", "now").current_dir("/").output().unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_ne!(again["session_id"], first["session_id"]);
    for same in ["command", "cwd", "name", "task_id", "pty"] {
        assert_eq!(again[same], first[same], "{same}: {again}");
    }
    let ended = p.wait(again["session_id"].as_str().unwrap());
    assert_eq!((&ended["exit_code"], &ended["output"]), (&json!(0), &json!(format!("{}/sub\nkept now\n", p.work().display()))), "{ended}");
}

#[test]
fn a_rerun_of_arguments_is_not_a_shell_line() {
    let p = product();
    let first = p.json(["run", "--", "echo", "$HOME", "a b"])["session_id"].as_str().unwrap().to_owned();
    p.wait(&first);
    let again = p.json(["rerun", &first])["session_id"].as_str().unwrap().to_owned();
    assert_eq!(p.wait(&again)["output"], "$HOME a b\n");
}

#[test]
fn a_rerun_refuses_where_a_secret_was_not_kept_and_takes_it_anew() {
    let p = product();
    let id = p.run_with(&["--env", "GITHUB_TOKEN=first", "--env", "PLAIN=kept"], "echo $GITHUB_TOKEN $PLAIN");
    p.wait(&id);
    let refused = p.call(["rerun", "--json", &id]);
    assert_eq!((refused.code, refused.json()["code"].as_str()), (Some(125), Some("scrubbed")), "{refused:?}");
    assert!(refused.json()["error"].as_str().unwrap().contains("GITHUB_TOKEN"), "{refused:?}");
    let again = p.json(["rerun", &id, "--env", "GITHUB_TOKEN=second"])["session_id"].as_str().unwrap().to_owned();
    p.wait(&again);
    assert_eq!(p.call(["log", &again, "--raw"]).text(), "second kept\n");
    // A command that held one cannot be run again at all.
    let id = p.run("echo ghp_0123456789abcdefghijklmnopqrstuvwxyz");
    p.wait(&id);
    assert_eq!(p.json(["rerun", &id])["code"], "scrubbed");
}

#[test]
fn what_still_runs_can_be_run_again_beside_it() {
    let p = product();
    let gate = crate::gate::Gate::new(&p, "gate");
    let id = p.run(&gate.wait());
    let again = p.json(["rerun", &id])["session_id"].as_str().unwrap().to_owned();
    assert_eq!(p.json(["list"])["processes"].as_array().unwrap().len(), 2);
    gate.open();
    gate.open();
    assert_eq!((p.wait(&id)["exit_code"].clone(), p.wait(&again)["exit_code"].clone()), (json!(0), json!(0)));
}
