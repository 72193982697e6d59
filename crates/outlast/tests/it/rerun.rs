//! `rerun`: the same command again, in the environment of now.

use crate::person::Person;
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
    let refused = p.call(["rerun", &id]).err;
    assert!(refused.contains("its command held a secret") && refused.contains(&format!("`outlast rerun {id} --edit`")), "{refused}");
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

/// An editor: a script that gets the file as its last argument.
fn editor(p: &Product, script: &str) -> String {
    let path = p.work().join("editor");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_rerun_under_another_name_leaves_the_first_its_own() {
    let p = product();
    let first = p.run_with(&["--name", "web", "--label", "app=shop"], "echo hi");
    p.wait(&first);
    let again = p.json(["rerun", "web", "--name", "web-2"]);
    assert_eq!((&again["name"], &again["labels"], &again["command"]), (&json!("web-2"), &json!({"app": "shop"}), &json!("echo hi")));
    assert_eq!((&p.json(["poll", "web"])["id"], &p.json(["poll", "web-2"])["id"]), (&json!(first), &again["id"]));
    let refused = p.call(["rerun", "web", "--name", ""]);
    assert!(refused.code == Some(125) && refused.err.contains("the name has 0 bytes"), "{refused:?}");
}

#[test]
fn a_followed_rerun_shows_the_output_and_exits_as_the_command_did() {
    let p = product();
    let first = p.run("echo one; echo two; exit 3");
    p.wait(&first);
    let again = p.call(["rerun", &first, "--follow"]);
    assert_eq!((again.code, again.text().as_str()), (Some(3), "one\ntwo\n"), "{again:?}");
    let mut person = Person::calls(&p, &["rerun", "-f", &first]);
    person.sees("two\r\n");
    assert_eq!(person.ended(), Some(3));
}

#[test]
fn an_edited_rerun_runs_what_was_saved() {
    let p = product();
    let first = p.run_with(&["--name", "greet"], "echo hello");
    p.wait(&first);
    let sed = editor(&p, r#"cp "$2" seen; ls -l "$2" >mode; sed -i "s/hello/$1 \$0 it's/" "$2""#);
    let edit = |args: &[&str], visual: &str| Answer::from(p.command(args).env("VISUAL", visual).env("TMPDIR", p.work()).output().unwrap());
    // VISUAL may have arguments, and comes before EDITOR.
    let again = edit(&["rerun", "--json", "greet", "--edit"], &format!("{sed} world")).good().json();
    assert_eq!((&again["command"], &again["name"]), (&json!("echo world $0 it's"), &json!("greet")), "{again}");
    assert_eq!(std::fs::read_to_string(p.work().join("seen")).unwrap(), "echo hello\n");
    assert!(std::fs::read_to_string(p.work().join("mode")).unwrap().starts_with("-rw-------"));
    let drafts = |p: &Product| {
        std::fs::read_dir(p.work())
            .unwrap()
            .filter(|f| f.as_ref().unwrap().file_name().to_string_lossy().starts_with("outlast-edit"))
            .count()
    };
    assert_eq!(drafts(&p), 0, "the file is removed");
    // A program with arguments is edited as a shell reads it, and stays one if nothing is changed.
    let args = p.json(["run", "--", "echo", "$HOME", "a b"])["id"].as_str().unwrap().to_owned();
    p.wait(&args);
    let same = edit(&["rerun", "--json", &args, "--edit"], "true").good().json();
    assert_eq!(p.wait(same["id"].as_str().unwrap())["output"], "$HOME a b\n");
    assert_eq!(edit(&["rerun", &args, "--edit"], "true").good().err, "the command was left unchanged; it runs as before\n");
    let changed = edit(&["rerun", "--json", &args, "--edit"], &editor(&p, r#"sed -i 's/echo/echo then/' "$1""#)).good().json();
    assert_eq!(p.wait(changed["id"].as_str().unwrap())["output"], "then $HOME a b\n");
    assert_eq!(drafts(&p), 0);
}

#[test]
fn a_user_who_leaves_the_command_unchanged_is_asked() {
    let p = product();
    let first = p.run("echo hello");
    p.wait(&first);
    for (answer, starts) in [("\r", false), ("y\r", true)] {
        let mut call = p.command(["rerun", &first, "--edit"]);
        call.env("VISUAL", "true").env("TMPDIR", p.work());
        let mut person = Person::runs(&p, call, 40, 100);
        person.sees("unchanged; run it anyway? [y/N] ");
        person.types(answer);
        let (seen, code) = person.until_the_end();
        assert_eq!((code, seen.contains("nothing was started")), (Some(if starts { 0 } else { 125 }), !starts), "{seen}");
        assert_eq!(p.json(["list", "--all"])["processes"].as_array().unwrap().len(), if starts { 2 } else { 1 });
    }
}

#[test]
fn an_editor_that_fails_or_saves_nothing_starts_nothing() {
    let p = product();
    let first = p.run("echo hello");
    p.wait(&first);
    let edit =
        |visual: &str| Answer::from(p.command(["rerun", &first, "--edit"]).env("EDITOR", visual).env("TMPDIR", p.work()).output().unwrap());
    let failing = editor(&p, r#"echo changed >"$1"; exit 3"#);
    for (visual, says) in [
        (failing.as_str(), "exited with code 3; nothing was started"),
        ("no-such-editor-anywhere", "the editor no-such-editor-anywhere exited with code 127; nothing was started"),
        ("truncate -s 0", "the edited command is empty; nothing was started"),
    ] {
        let refused = edit(visual);
        assert!(refused.code == Some(125) && refused.err.contains(says), "{visual}: {refused:?}");
    }
    assert_eq!(p.json(["list", "--all"])["processes"].as_array().unwrap().len(), 1);
}

#[test]
fn a_mask_in_an_edited_command_is_not_taken_for_the_secret() {
    let p = product();
    let first = p.run("echo a ghp_0123456789abcdefghijklmnopqrstuvwxyz");
    p.wait(&first);
    let shown = p.json(["poll", &first])["command"].as_str().unwrap().to_owned();
    let mask = shown.rsplit(' ').next().unwrap().to_owned();
    assert_ne!(shown, "echo a ghp_0123456789abcdefghijklmnopqrstuvwxyz");
    let edit = |script: &str| {
        let visual = editor(&p, script);
        Answer::from(p.command(["rerun", "--json", &first, "--edit"]).env("VISUAL", visual).output().unwrap()).json()
    };
    let refused = edit(r#"sed -i 's/echo a/echo b/' "$1""#);
    assert!(refused["code"] == "scrubbed" && refused["error"].as_str().unwrap().starts_with(&mask), "{refused}");
    let again = edit(r#"echo 'echo b $TOKEN' >"$1""#);
    assert_eq!(again["command"], "echo b $TOKEN", "{again}");
}

#[test]
fn dots_that_are_not_a_mask_may_stay_in_an_edited_command() {
    let p = product();
    let first = p.run("echo ./... ghp_0123456789abcdefghijklmnopqrstuvwxyz");
    p.wait(&first);
    let visual = editor(&p, r#"sed -i 's/ghp_.*/$TOKEN/' "$1""#);
    let again = Answer::from(p.command(["rerun", "--json", &first, "--edit"]).env("VISUAL", visual).output().unwrap()).json();
    assert_eq!(again["command"], "echo ./... $TOKEN", "{again}");
}

#[test]
fn a_rerun_is_waited_for_and_exits_as_the_command_does() {
    let p = product();
    let id = p.run("echo out; exit 3");
    p.wait(&id);
    let again = p.call(["rerun", &id, "--wait"]);
    assert_eq!((again.code, again.text().as_str()), (Some(3), "out\n"), "{again:?}");
    let answer = p.call(["rerun", &id, "--wait", "--json"]);
    assert_eq!((answer.code, &answer.json()["exit_code"], &answer.json()["output"]), (Some(3), &json!(3), &json!("out\n")));
}
