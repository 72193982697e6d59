//! What a command has in its environment.

use crate::gate::printed;
use crate::support::*;

/// The environment of a command, one variable a line.
fn env_of(p: &Product, flags: &[&str]) -> Vec<String> {
    let args: Vec<_> = ["run", "--json"].iter().chain(flags).chain(&["--", "env", "-0"]).map(ToString::to_string).collect();
    let id = p.call(args).json()["session_id"].as_str().unwrap().to_owned();
    p.wait(&id);
    let raw = p.call(["log", &id, "--raw"]).text();
    raw.split('\0').filter(|v| !v.is_empty()).map(str::to_owned).collect()
}

fn has(env: &[String], variable: &str) -> bool {
    env.iter().any(|v| v == variable)
}

fn names(env: &[String], name: &str) -> bool {
    env.iter().any(|v| v.split('=').next() == Some(name))
}

const BLOCKED: [&str; 8] = [
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "TELEGRAM_BOT_TOKEN",
    "DISCORD_BOT_TOKEN",
    "GITHUB_TOKEN",
    "MODAL_TOKEN_SECRET",
    "VIRTUAL_ENV",
];

#[test]
fn case_005_a_command_sees_ordinary_variables_and_not_the_agents_secrets() {
    let mut p = product().with_env("MY_SETTING", "kept").with_env("AWS_PROFILE", "work");
    for name in BLOCKED {
        p = p.with_env(name, "secret");
    }
    for flags in [&[][..], &["--pty"]] {
        let env = env_of(&p, flags);
        for name in BLOCKED {
            assert!(!names(&env, name), "{name}");
        }
        assert!(!env.iter().any(|v| v.contains("secret")), "{env:?}");
        for kept in ["MY_SETTING=kept", "AWS_PROFILE=work", "PYTHONUNBUFFERED=1", "LANG=C.UTF-8"] {
            assert!(has(&env, kept), "{kept}: {env:?}");
        }
    }
    // The same for a line of the shell.
    assert_eq!(printed(&p, "echo $MY_SETTING $PYTHONUNBUFFERED ${OPENAI_API_KEY-unset}"), "kept 1 unset\n");
}

#[test]
fn case_006_a_forced_name_is_seen_plain_and_never_with_its_prefix() {
    let p = product().with_env("_OUTLAST_FORCE_GITHUB_TOKEN", "inherited").with_env("_HERMES_FORCE_HF_TOKEN", "inherited");
    let env = env_of(&p, &["--env", "_OUTLAST_FORCE_OPENAI_API_KEY=forced", "--env", "_HERMES_FORCE_PLAIN=too"]);
    assert!(has(&env, "OPENAI_API_KEY=forced") && has(&env, "PLAIN=too"), "{env:?}");
    assert!(!env.iter().any(|v| v.contains("_FORCE_") || v.contains("inherited")), "{env:?}");
}

#[test]
fn a_blocked_name_that_is_asked_for_is_given() {
    let p = product().with_env("GITHUB_TOKEN", "from here").with_env("OPENAI_API_KEY", "not asked for");
    let env = env_of(&p, &["--env", "GITHUB_TOKEN", "--env", "ANTHROPIC_API_KEY=given"]);
    assert!(has(&env, "GITHUB_TOKEN=from here") && has(&env, "ANTHROPIC_API_KEY=given"), "{env:?}");
    assert!(!names(&env, "OPENAI_API_KEY"));
    let missing = p.call(["run", "--json", "--env", "NOT_SET_HERE", "--", "true"]);
    assert_eq!((missing.code, missing.json()["code"].as_str()), (Some(125), Some("usage")), "{missing:?}");
}

#[test]
fn the_environment_is_the_callers_and_not_the_engines() {
    let p = product();
    p.engine();
    let run = |value: &str| {
        let said = p.command(["run", "--wait", "--", "echo $WHOSE"]).env("WHOSE", value).output().unwrap();
        String::from_utf8(said.stdout).unwrap()
    };
    assert_eq!((run("first").as_str(), run("second").as_str()), ("first\n", "second\n"));
    assert_eq!(printed(&p, "echo ${WHOSE-unset} $OUTLAST_TEST_POINTS | cut -d' ' -f1"), "unset\n");
}

#[test]
fn without_a_terminal_nothing_pages_or_colours_unless_asked_to() {
    let p = product().with_env("TERM", "xterm").with_env("PAGER", "less");
    let env = env_of(&p, &[]);
    for set in ["TERM=dumb", "NO_COLOR=1", "PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "SYSTEMD_PAGER=cat"] {
        assert!(has(&env, set), "{set}: {env:?}");
    }
    let env = env_of(&p, &["--env", "PAGER=more", "--env", "TERM=vt100", "--env", "FORCE_COLOR=1", "--env", "PYTHONUNBUFFERED="]);
    assert!(has(&env, "PAGER=more") && has(&env, "TERM=vt100") && has(&env, "PYTHONUNBUFFERED=") && !names(&env, "NO_COLOR"), "{env:?}");
}

#[test]
fn python_prints_as_it_goes() {
    let p = product();
    let id = p.run_with(&["--stdin"], "exec /usr/bin/env python3 -c 'print(\"at once\"); input()'");
    // It waits for input, so what it printed came without a flush at its end.
    eventually("the line", || (p.json(["poll", &id])["output_preview"] == "at once\n").then_some(()));
    p.call(["submit", &id, ""]).good();
    assert_eq!(p.wait(&id)["exit_code"], 0);
}

#[test]
fn a_file_gives_variables_and_flags_win_over_it() {
    let p = product();
    let file = "# a comment\nPLAIN=one\nexport QUOTED='two words'\nDOUBLE=\"three\\nlines\"\n\nOVER=file\n";
    std::fs::write(p.work().join("vars"), file).unwrap();
    let env = env_of(&p, &["--env-file", "vars", "--env", "OVER=flag"]);
    for set in ["PLAIN=one", "QUOTED=two words", "DOUBLE=three\nlines", "OVER=flag"] {
        assert!(has(&env, set), "{set}: {env:?}");
    }
    let answer = p.call_with_input(["run", "--wait", "--env-file", "-", "--", "echo $FROM_STDIN"], b"FROM_STDIN=given\n");
    assert_eq!(answer.good().text(), "given\n");
    let none = p.call(["run", "--json", "--env-file", "none", "--", "true"]);
    assert_eq!((none.code, none.json()["code"].as_str()), (Some(125), Some("usage")), "{none:?}");
    std::fs::write(p.work().join("bad"), "SECRET_WITHOUT_EQUALS\n").unwrap();
    let bad = p.call(["run", "--env-file", "bad", "--", "true"]);
    assert!(bad.code == Some(125) && bad.err.contains("line 1") && !bad.err.contains("SECRET"), "{bad:?}");
}

#[test]
fn login_files_count() {
    let p = product();
    std::fs::write(p.user().join(".bash_profile"), "export FROM_LOGIN=yes PATH=$HOME/tools:$PATH CALLERS=login\n. ~/.bashrc\n").unwrap();
    std::fs::write(p.user().join(".bashrc"), "alias greet='echo hello'\nshout() { echo \"${1^^}\"; }\nexport OPENAI_API_KEY=leaked\n")
        .unwrap();
    std::fs::create_dir(p.user().join("tools")).unwrap();
    let tool = p.user().join("tools/own-tool");
    std::fs::write(&tool, "#!/bin/sh\necho tool $FROM_LOGIN\n").unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let p = p.with_env("CALLERS", "own");
    assert_eq!(
        printed(&p, "echo $FROM_LOGIN $CALLERS ${OPENAI_API_KEY-unset}; greet; shout loud; own-tool"),
        "yes own unset\nhello\nLOUD\ntool yes\n"
    );
    // A program with its arguments gets the variables, and is found on that PATH.
    assert_eq!(p.call(["run", "--wait", "--", "own-tool", "x"]).good().text(), "tool yes\n");
    assert!(has(&env_of(&p, &[]), "FROM_LOGIN=yes"));
}

#[test]
fn login_files_that_change_count_from_the_next_command_on() {
    let p = product();
    std::fs::write(p.user().join(".profile"), "export VERSION_OF=one\n").unwrap();
    assert_eq!(printed(&p, "echo $VERSION_OF"), "one\n");
    std::fs::write(p.user().join(".profile"), "export VERSION_OF=second\n").unwrap();
    assert_eq!(printed(&p, "echo $VERSION_OF"), "second\n");
}

#[test]
fn login_files_that_hang_or_fail_keep_no_command_from_running() {
    let p = product();
    p.configure("shell.snapshot_seconds = 0.3");
    std::fs::write(p.user().join(".profile"), "export SEEN=yes\nsleep 600\n").unwrap();
    assert_eq!(printed(&p, "echo runs ${SEEN-without}"), "runs without\n");
    let p = product();
    std::fs::write(p.user().join(".profile"), "export SEEN=yes\necho noise; echo noise >&2\nexit 1\n").unwrap();
    assert!(printed(&p, "echo runs").ends_with("runs\n"));
    assert!(!printed(&p, "echo runs").contains("noise"));
}

#[test]
fn a_variable_that_is_not_passed_on_is_named_to_a_user_at_a_terminal() {
    let p = product()
        .with_env("OPENAI_API_KEY", "sk-1")
        .with_env("GH_TOKEN", "")
        .with_env("GITHUB_TOKEN", "t")
        .with_env("VIRTUAL_ENV", "/venv")
        .with_env("_OUTLAST_FORCE_X", "1");
    let note = "note: GITHUB_TOKEN, OPENAI_API_KEY were not passed on; use --env NAME\r\n";
    let mut person = crate::person::Person::calls(&p, &["run", "--wait", "--id", "proc_00000000abcd", "--", "echo done"]);
    person.sees("exited with code 0");
    assert_eq!(person.ended(), Some(0));
    assert!(person.seen.contains(note), "{:?}", person.seen);
    let mut person = crate::person::Person::calls(&p, &["rerun", "proc_00000000abcd", "--env", "OPENAI_API_KEY"]);
    person.sees("shows its output");
    assert!(person.seen.contains("note: GITHUB_TOKEN was not passed on; use --env GITHUB_TOKEN\r\n"), "{:?}", person.seen);
    // With --env it is passed on, and there is nothing to say.
    let all = ["run", "--wait", "--env", "OPENAI_API_KEY", "--env", "GITHUB_TOKEN", "--", "echo $GITHUB_TOKEN"];
    let mut person = crate::person::Person::calls(&p, &all);
    person.sees("exited with code 0");
    assert!(!person.seen.contains("passed on"), "{:?}", person.seen);
    // In a pipe nothing is said; with --json it is a field.
    let piped = p.call(["run", "--", "true"]).good();
    assert_eq!(piped.err, "");
    for flags in [&[][..], &["--wait"], &["--follow"], &["--until", "said"], &["--until", "not said"]] {
        let answer = p.call(["run", "--json"].iter().chain(flags).chain(&["--", "echo said"])).json();
        assert_eq!(answer["not_passed_on"], json!(["GITHUB_TOKEN", "OPENAI_API_KEY"]), "{flags:?}: {answer}");
    }
}

#[test]
fn a_command_knows_its_process_and_its_directory() {
    let p = product();
    let id = p.run("echo $OUTLAST_PROCESS_ID; echo $PWD");
    assert_eq!(p.wait(&id)["output"], format!("{id}\n{}\n", p.work().display()));
}

#[test]
fn a_value_with_a_newline_and_one_that_is_no_text_arrive_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"a\nb \xff'\"$");
    let p = product().with_env("ODD", odd);
    let id = p.run("printf '%s' \"$ODD\"");
    p.wait(&id);
    assert_eq!(p.call(["log", &id, "--raw"]).out, odd.as_bytes());
}

#[test]
fn files_that_a_command_makes_have_the_callers_mode() {
    let p = product();
    printed(&p, "umask > mask; touch made");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(p.work().join("made")).unwrap().permissions());
    let own = std::process::Command::new("sh").args(["-c", "umask"]).output().unwrap();
    let own = u32::from_str_radix(String::from_utf8(own.stdout).unwrap().trim(), 8).unwrap();
    assert_eq!(mode & 0o777, 0o666 & !own);
}

/// Whether `text` is in a file.
fn holds(path: &std::path::Path, text: &str) -> bool {
    std::fs::read(path).unwrap().windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_value_given_under_a_secrets_name_is_shown_nowhere_but_raw() {
    const VALUE: &str = "hunter22-and-more";
    let p = product();
    let line = format!("echo password is $DB_PASSWORD; : {VALUE}; exit 3");
    let id = p.run_with(&["--env", &format!("DB_PASSWORD={VALUE}"), "--session", "s", "--notify", "--watch", "password is"], &line);
    assert_eq!(p.wait(&id)["exit_code"], 3);
    let masked = "password is *****************\n";
    let shown = |p: &Product| {
        let follow = p.call(["log", &id, "--follow"]).good().text();
        assert_eq!(follow, masked);
        let several = p.call(["log", "--prefix", "--follow", &id]).good().text();
        assert!(several.ends_with(masked) && !several.contains("hunter22"), "{several}");
        for answer in [p.json(["log", &id]), p.json(["poll", &id]), p.json(["list", "--all"]), p.json(["events", "history"])] {
            let text = answer.to_string();
            assert!(!text.contains("hunter22") && text.contains("password is *****************"), "{text}");
        }
        let raw = p.call(["log", &id, "--raw"]).good().text();
        assert_eq!(raw, format!("password is {VALUE}\n"));
    };
    shown(&p);
    assert!(p.json(["events", "history"])["notices"].as_array().unwrap().len() > 1, "the match and the end");
    let command = p.json(["poll", &id])["command"].to_string();
    assert!(command.contains(": ***; exit 3"), "{command}");
    // The next engine, and an index that is rebuilt from the folder, mask it as well.
    p.kill_engine();
    shown(&p);
    p.call(["engine", "stop"]).good();
    assert!(!holds(&p.home().index(), VALUE) && !holds(&p.folder(&id).spec(), VALUE));
    std::fs::remove_file(p.home().index()).unwrap();
    shown(&p);
}

#[test]
fn a_masked_value_that_comes_in_pieces_is_followed_without_showing_a_piece() {
    let p = product();
    let gate = p.work().join("gate");
    let line = format!(
        "printf 'a hunter22'; until [ -e {0} ]; do sleep 0.01; done; echo -and-more b; printf 'prompt: '; sleep 60",
        gate.display()
    );
    let id = p.run_with(&["--env", "DB_PASSWORD=hunter22-and-more"], &line);
    eventually("the first piece", || (p.meta(&id).log_end() == 10).then_some(()));
    let mut follow = p.command(["log", &id, "--follow"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::fs::write(&gate, "").unwrap();
    let mut text = String::new();
    let mut out = follow.stdout.take().unwrap();
    // An unfinished line that cannot become a value is shown after a while.
    while !text.ends_with("prompt: ") {
        let mut piece = [0; 64];
        let n = std::io::Read::read(&mut out, &mut piece).unwrap();
        assert!(n > 0, "{text:?}");
        text.push_str(std::str::from_utf8(&piece[..n]).unwrap());
    }
    p.call(["kill", &id, "--grace", "0"]).good();
    follow.wait().unwrap();
    assert_eq!(text, "a ***************** b\nprompt: ");
}

/// The files below a directory that hold `text`.
fn holders(dir: &std::path::Path, text: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| match path.symlink_metadata() {
            Ok(found) if found.is_dir() => holders(&path, text),
            Ok(found) if found.is_file() && holds(&path, text) => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn the_error_of_a_failed_start_holds_no_secret() {
    const VALUE: &str = "corr3cthorse-Q9";
    let p = product();
    let given = format!("DB_PASSWORD={VALUE}");
    // Executable, with an interpreter that does not exist: only the keeper finds out.
    let broken = p.work().join(VALUE);
    std::fs::write(&broken, "#!/nonexistent/interpreter\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let broken = broken.display().to_string();
    let commands: [&[&str]; 4] =
        [&["TOKEN=hunter22zz", "make"], &["TOKEN=a hunter22zz", "make"], &["/nope/corr3cthorse-Q9", "x"], &[&broken, "x"]];
    for command in commands {
        let mut args = vec!["run", "--json", "--session", "s", "--notify", "--env", &given, "--"];
        args.extend(command);
        let answer = p.call(&args);
        let said = format!("{}{}", answer.text(), answer.err);
        assert!(said.contains("***") && !said.contains(VALUE) && !said.contains("hunter22zz"), "{said}");
    }
    let nowhere = p.call(["run", "--env", &given, "--cwd", "/nope/corr3cthorse-Q9", "--", "true"]);
    assert!(nowhere.err.contains("/nope/***") && !nowhere.err.contains(VALUE), "{}", nowhere.err);
    let listed = p.json(["list", "--all"]);
    assert_eq!(listed["processes"].as_array().unwrap().len(), 4, "{listed}");
    for answer in [listed, p.json(["events", "history"])] {
        let text = answer.to_string();
        assert!(!text.contains(VALUE) && !text.contains("hunter22zz"), "{text}");
    }
    p.call(["engine", "stop"]).good();
    for secret in [VALUE, "hunter22zz"] {
        assert_eq!(holders(&p.home().root, secret), [""; 0].map(std::path::PathBuf::from));
    }
}

#[test]
fn a_given_value_is_masked_in_a_name_and_refused_in_a_pattern() {
    const VALUE: &str = "corr3cthorse-Q9";
    let p = product();
    let given = format!("DB_PASSWORD={VALUE}");
    let id = p.run_with(&["--env", &given, "--name", "n-corr3cthorse-Q9"], "true");
    p.wait(&id);
    assert_eq!(p.json(["poll", &id])["name"], "n-***");
    let refused = p.call(["run", "--env", &given, "--watch", VALUE, "--", "true"]);
    assert!(refused.err.contains("watch pattern 1 has a value in it") && !refused.err.contains(VALUE), "{}", refused.err);
    let refused = p.call(["run", "--env", &given, "--until", VALUE, "--", "true"]);
    assert_eq!(refused.code, Some(125));
    assert!(refused.err.contains("the text of --until has a value in it") && !refused.err.contains(VALUE), "{}", refused.err);
    p.call(["engine", "stop"]).good();
    assert_eq!(holders(&p.home().root, VALUE), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn a_pattern_with_the_form_of_a_secret_is_refused_and_not_kept() {
    let token = ["gh", "p_", &"a1B2c3D4".repeat(5)].concat();
    let p = product();
    for flag in ["--watch", "--until"] {
        let refused = p.call(["run", flag, &token, "--", "true"]);
        assert_eq!(refused.code, Some(125));
        assert!(refused.err.contains("has the form of a secret in it") && !refused.err.contains(&token), "{}", refused.err);
    }
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]), "nothing was started");
    p.call(["engine", "stop"]).good();
    assert_eq!(holders(&p.home().root, &token), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn a_token_that_is_joined_to_a_name_is_neither_shown_nor_kept() {
    let token = ["gh", "p_", &"a1B2c3D4".repeat(5)].concat();
    let p = product();
    let joined = format!("job-{token}");
    let label = format!("app={joined}");
    let id = p.run_with(&["--name", &joined, "--label", &label], &format!("echo {joined}"));
    p.wait(&id);
    let shown = p.json(["poll", &id]);
    assert_eq!((&shown["name"], &shown["output_preview"]), (&json!("job-ghp_a1...c3D4"), &json!("job-ghp_a1...c3D4\n")), "{shown}");
    assert_eq!((&shown["labels"]["app"], &shown["command"]), (&json!("job-ghp_a1...c3D4"), &json!("echo job-ghp_a1...c3D4")), "{shown}");
    p.call(["engine", "stop"]).good();
    // The output is kept as it is.
    let kept = holders(&p.home().root, &token);
    assert!(kept.iter().all(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log"))), "{kept:?}");
}

#[test]
fn a_secret_that_the_command_line_assigns_is_not_listed_and_not_kept() {
    let p = product();
    let id = p.run(
        "AWS_SECRET_ACCESS_KEY=hunter22/and+more sh -c 'export API_TOKEN=hunter22; test \"$AWS_SECRET_ACCESS_KEY\" = hunter22/and+more'",
    );
    assert_eq!(p.wait(&id)["exit_code"], 0, "the command itself has it");
    for answer in [p.json(["list", "--all"]), p.json(["poll", &id])] {
        let text = answer.to_string();
        assert!(text.contains("AWS_SECRET_ACCESS_KEY=*** sh -c 'export API_TOKEN=***;"), "{text}");
    }
    p.call(["engine", "stop"]).good();
    assert!(!holds(&p.folder(&id).spec(), "AWS_SECRET_ACCESS_KEY=hunter22"));
}
