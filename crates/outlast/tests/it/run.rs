//! `run`: how a command is started, and what its caller gets to know.

use crate::gate::{Gate, printed, until_printed};
use crate::person::Person;
use crate::support::*;
use rustix::pty::OpenptFlags;
use rustix::termios::{Action, tcflow};

#[test]
fn case_001_run_answers_at_once_with_id_and_pid_and_it_is_listed_as_running() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let started = p.json(["run", "--", &gate.wait()]);
    let id = started["session_id"].as_str().unwrap();
    let digits = id.strip_prefix("proc_").unwrap();
    assert!(digits.len() == 12 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')), "{id}");
    assert_eq!((&started["status"], &started["phase"]), (&json!("running"), &json!("running")), "{started}");
    let pid = started["pid"].as_u64().unwrap();
    let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(String::from_utf8_lossy(&environ).contains(&format!("OUTLAST_PROCESS_ID={id}")), "the pid is the command's own");
    let listed = p.json(["list"]);
    assert_eq!(listed["processes"][0]["session_id"], id);
    assert_eq!((&listed["processes"][0]["status"], &listed["processes"][0]["pid"]), (&json!("running"), &json!(pid)));
    gate.open();
    assert_eq!(p.wait(id)["exit_code"], 0);
}

#[test]
fn case_002_errors_are_in_the_same_log_as_output_in_the_order_they_came() {
    let p = product();
    let line = "for i in 1 2 3; do echo out $i; echo err $i >&2; done";
    assert_eq!(printed(&p, line), "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
}

#[test]
fn case_003_standard_input_without_a_flag_is_at_its_end() {
    let p = product();
    assert_eq!(printed(&p, "cat; echo over"), "over\n");
    let id = p.json(["run", "--", "wc", "-c"])["session_id"].as_str().unwrap().to_owned();
    assert_eq!(p.wait(&id)["output"], "0\n");
}

#[test]
fn case_007_a_directory_that_does_not_exist_is_refused_with_its_nearest_parent() {
    let p = product();
    let gone = p.work().join("gone/deeper");
    let refused = p.call(["run", "--json", "--cwd", gone.to_str().unwrap(), "--", "touch ran"]);
    let said = refused.json();
    assert_eq!((refused.code, said["code"].as_str()), (Some(125), Some("bad_spec")), "{said}");
    assert_eq!(said["error"], format!("directory {} does not exist", gone.display()));
    assert!(said["hint"].as_str().unwrap().starts_with(&format!("{} exists;", p.work().display())), "{said}");
    // A retry with an accepted id finds the process, also after its directory was removed.
    std::fs::create_dir_all(&gone).unwrap();
    let accepted = ["run", "--id", "proc_00000000aaab", "--cwd", gone.to_str().unwrap(), "--", "true"];
    let first = p.json(accepted);
    p.wait(first["session_id"].as_str().unwrap());
    std::fs::remove_dir(&gone).unwrap();
    assert_eq!(p.json(accepted)["session_id"], first["session_id"]);
    assert!(!p.work().join("ran").exists());
}

#[test]
fn a_directory_that_was_removed_under_the_caller_is_refused() {
    let p = product();
    let gone = p.work().join("gone");
    std::fs::create_dir(&gone).unwrap();
    // Neither variable names a directory to run in instead.
    for pwd in ["", "/"] {
        let line = format!("mkdir -p {0} && cd {0} && rmdir {0} && PWD={pwd} exec \"$@\"", gone.display());
        let call = p.command(["run", "--json", "--", "touch ran"]);
        let (program, args) = (call.get_program().to_owned(), call.get_args().map(ToOwned::to_owned).collect::<Vec<_>>());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line, "sh"]).arg(program).args(args);
        for (name, value) in call.get_envs() {
            if let Some(value) = value {
                shell.env(name, value);
            }
        }
        let said = Answer::from(shell.output().unwrap()).json();
        assert_eq!(said["error"], format!("directory {} does not exist", gone.display()), "{said}");
    }
}

#[test]
fn a_file_or_a_directory_that_cannot_be_entered_is_refused_and_nothing_is_written() {
    use std::os::unix::fs::PermissionsExt as _;
    const NAME: &str = "run::a_file_or_a_directory_that_cannot_be_entered_is_refused_and_nothing_is_written";
    let p = product();
    let (file, shut) = (p.work().join("file"), p.work().join("shut"));
    std::fs::write(&file, "").unwrap();
    std::fs::create_dir_all(shut.join("below")).unwrap();
    std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o600)).unwrap();
    // Root may enter every directory unless it gives that up.
    let drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"];
    let before: &[&str] = if outlast_testkit::machine::is_root() { &drop } else { &["env"] };
    if !crate::places::by_way_of(&p, before, &["--version"]).output().is_ok_and(|done| done.status.success()) {
        std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o700)).unwrap();
        return outlast_testkit::machine::skipped(NAME, "root cannot give up its rights over files");
    }
    let run = |dir: &std::path::Path| {
        let call = ["run", "--json", "--cwd", dir.to_str().unwrap(), "--", "true"];
        Answer::from(crate::places::by_way_of(&p, before, &call).output().unwrap())
    };
    for (dir, error, hint) in [
        (file.clone(), format!("{} is not a directory", file.display()), " is a directory; give a path to a directory"),
        (
            shut.clone(),
            format!("directory {} cannot be entered: permission denied", shut.display()),
            " can be entered; check the permissions",
        ),
        (shut.join("below"), format!("directory {}/below cannot be entered: permission denied", shut.display()), " can be entered; check"),
    ] {
        let refused = run(&dir);
        let said = refused.json();
        assert_eq!((refused.code, &said["code"], &said["error"]), (Some(125), &json!("bad_spec"), &json!(error)));
        assert!(said["hint"].as_str().unwrap().starts_with(&format!("{}{hint}", p.work().display())), "{said}");
    }
    std::fs::set_permissions(&shut, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
    assert_eq!(
        std::fs::read_dir(p.home().processes()).unwrap().flatten().filter(|e| e.file_name().to_string_lossy().starts_with("proc_")).count(),
        0
    );
}

#[test]
fn a_tilde_in_a_path_is_the_home_directory() {
    let p = product();
    std::fs::create_dir(p.user().join("sub")).unwrap();
    std::fs::write(p.user().join("vars"), "GREETING=hello\n").unwrap();
    for (given, meant) in [("~", p.user()), ("~/sub", p.user().join("sub"))] {
        let id = p.run_with(&["--cwd", given, "--env-file", "~/vars"], "pwd; echo $GREETING");
        assert_eq!(p.wait(&id)["output"], format!("{}\nhello\n", meant.display()));
    }
    let refused = p.call(["run", "--json", "--cwd", "~/typo", "--", "true"]).json();
    assert_eq!(refused["error"], format!("directory {}/typo does not exist", p.user().display()), "{refused}");
    // A directory of that name can still be given.
    std::fs::create_dir(p.work().join("~")).unwrap();
    let id = p.run_with(&["--cwd", "./~"], "pwd");
    assert_eq!(p.wait(&id)["output"], format!("{}/~\n", p.work().display()));
}

#[test]
fn the_directory_is_the_callers_or_the_one_asked_for() {
    let p = product();
    std::fs::create_dir(p.work().join("sub")).unwrap();
    assert_eq!(printed(&p, "pwd; echo $PWD"), format!("{0}\n{0}\n", p.work().display()));
    let id = p.run_with(&["--cwd", "sub"], "pwd");
    assert_eq!(p.wait(&id)["output"], format!("{}/sub\n", p.work().display()));
}

#[test]
fn case_008_a_start_that_cannot_be_written_down_is_refused_and_runs_nothing() {
    let p = product();
    p.engine();
    let (folders, aside) = (p.home().processes(), p.work().join("aside"));
    // Also for a superuser no folder can be made inside a file.
    std::fs::rename(&folders, &aside).unwrap();
    std::fs::write(&folders, "").unwrap();
    let refused = p.call(["run", "--json", "--", "touch ran"]);
    std::fs::remove_file(&folders).unwrap();
    std::fs::rename(&aside, &folders).unwrap();
    assert_eq!(refused.code, Some(125), "{refused:?}");
    assert!(refused.json()["error"].as_str().unwrap().contains("cannot make"), "{refused:?}");
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
    assert_eq!(p.json(["engine", "status"])["running"], 0);
    assert!(!p.processes().iter().any(|(_, c)| c.contains("touch")));
    // And the next one is none the worse for it.
    assert_eq!(p.call(["run", "--wait", "--", "test ! -e ran"]).code, Some(0));
}

#[test]
fn case_009_nothing_runs_before_its_request_is_durable() {
    let p = product();
    p.points().arm("run.before_commit").unwrap();
    let mut asking = p.command(["run", "--json", "--", "touch ran"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let engine = eventually("the engine at the point", || p.points().held("run.before_commit"));
    // Keepers may wait for it; of what they are to run nothing is there.
    let begun = || p.processes().iter().any(|(_, c)| !c.contains("keeper") && !c.contains("__engine"));
    assert!(!begun() && !p.work().join("ran").exists(), "{:?}", p.processes());
    kill_and_wait(engine).unwrap();
    p.points().release("run.before_commit").unwrap();
    let answer = {
        asking.wait().unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut asking.stdout.take().unwrap(), &mut text).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    // The client may have asked the next engine again; either way it ran once or not at all, and the list says which.
    let listed = p.json(["list", "--all"])["processes"].as_array().unwrap().len();
    match answer["session_id"].as_str() {
        Some(id) => {
            assert_eq!((p.wait(id)["exit_code"].clone(), listed), (json!(0), 1));
            assert!(p.work().join("ran").exists());
        }
        None => assert!(answer["error"].is_string() && listed == 0 && !p.work().join("ran").exists(), "{answer}"),
    }
}

#[test]
fn case_011_sixty_five_may_run_and_a_cap_refuses_clearly() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let ids: Vec<_> = (0..65).map(|_| p.run(&gate.wait())).collect();
    assert_eq!(p.json(["list"])["processes"].as_array().unwrap().len(), 65);
    for _ in &ids {
        gate.open();
    }
    for id in &ids {
        assert_eq!(p.wait(id)["exit_code"], 0);
    }

    let p = product();
    p.configure("limits.max_running = 2");
    let gate = Gate::new(&p, "gate");
    let ids = [p.run(&gate.wait()), p.run(&gate.wait())];
    let refused = p.call(["run", "--json", "--", "touch ran"]);
    assert_eq!((refused.code, refused.json()["code"].as_str()), (Some(125), Some("too_many_running")), "{refused:?}");
    assert!(refused.json()["error"].as_str().unwrap().contains('2'), "{refused:?}");
    // Those that run are not dropped, and room made is room again.
    gate.open();
    gate.open();
    for id in &ids {
        assert_eq!(p.wait(id)["exit_code"], 0);
    }
    assert_eq!(p.call(["run", "--wait", "--", "test ! -e ran"]).code, Some(0));
}

#[test]
fn case_012_a_command_that_ends_at_once_is_found_exited_and_never_running_again() {
    let p = product();
    for _ in 0..10 {
        let id = p.json(["run", "--", "true", "x"])["session_id"].as_str().unwrap().to_owned();
        assert_eq!(p.wait(&id)["exit_code"], 0);
        assert_eq!(p.json(["poll", &id])["status"], "exited");
        assert_eq!(p.json(["list"])["processes"], json!([]));
        assert_eq!(p.json(["active"])["running"], 0);
    }
    p.kill_engine();
    assert_eq!(p.json(["list"])["processes"], json!([]));
}

#[test]
fn case_015_the_same_command_twice_is_two_processes_in_the_list() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let flags = ["--session", "talk"];
    let ids = [p.run_with(&flags, &gate.wait()), p.run_with(&flags, &gate.wait())];
    let listed = p.json(["list", "--session", "talk"])["processes"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0]["command"], listed[1]["command"]);
    assert_eq!(ids.iter().filter(|id| listed.iter().any(|l| l["session_id"] == ***id)).count(), 2);
}

#[test]
fn case_017_a_trailing_ampersand_is_left_as_it_is() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let line = format!("({}; echo late) &", gate.wait());
    let id = p.run(&line);
    let ended = p.wait(&id);
    assert_eq!((&ended["exit_code"], &ended["command"]), (&json!(0), &json!(line)), "{ended}");
    gate.open();
    until_printed(&p, &id, "late");
}

#[test]
fn one_word_is_a_shell_line_and_several_are_a_program_with_its_arguments() {
    let p = product();
    assert_eq!(p.call(["run", "--wait", "--", "echo $((1 + 1)) *"]).good().text(), "2 *\n");
    assert_eq!(p.call(["run", "--wait", "--", "echo", "$((1 + 1))", "*", "", "a  b"]).good().text(), "$((1 + 1)) *  a  b\n");
    // A program of one word is a line too, which comes to the same.
    assert_eq!(p.call(["run", "--wait", "--", "true"]).code, Some(0));
}

#[test]
fn a_dash_reads_the_shell_line_from_standard_input() {
    let p = product();
    let answer = p.call_with_input(["run", "--wait", "--", "-"], b"echo one\necho \"two $((1+2))\"\n");
    assert_eq!(answer.good().text(), "one\ntwo 3\n");
    let empty = p.call_with_input(["run", "--json", "--", "-"], b"\n");
    assert_eq!((empty.code, empty.json()["code"].as_str()), (Some(125), Some("usage")), "{empty:?}");
}

#[test]
fn run_and_wait_exit_as_the_command_did() {
    let p = product();
    for (line, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        assert_eq!(p.call(["run", "--wait", "--", line]).code, Some(code), "{line}");
        let id = p.run(line);
        assert_eq!(p.call(["wait", &id]).code, Some(code), "{line}");
    }
    let killed = p.json(["run", "--wait", "--", "kill -KILL $$"]);
    assert_eq!((&killed["exit_code"], &killed["signal"], &killed["completion_reason"]), (&json!(-9), &json!("SIGKILL"), &json!("exited")));
}

#[test]
fn a_start_that_fails_exits_126_or_127_and_is_listed_and_pollable() {
    let p = product();
    std::fs::write(p.work().join("data"), "").unwrap();
    std::fs::write(p.work().join("script"), "#!/nonexistent/interpreter\n").unwrap();
    std::fs::set_permissions(p.work().join("script"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (program, code) in [("no-such-program", 127), ("./none", 127), ("./data", 126), ("./script", 127)] {
        let failed = p.call(["run", "--json", "--", program, "x"]);
        assert_eq!(failed.code, Some(code), "{program}: {failed:?}");
        let said = failed.json();
        assert_eq!((&said["code"], &said["phase"], &said["exit_code"]), (&json!("failed_start"), &json!("failed_start"), &Value::Null));
        assert!(said["error"].is_string() && said["hint"].is_string(), "{said}");
        let id = said["session_id"].as_str().unwrap();
        let polled = p.json(["poll", id]);
        assert_eq!((&polled["status"], &polled["completion_reason"]), (&json!("exited"), &json!("failed_start")), "{polled}");
        assert_eq!(polled["termination_source"], "failed_start");
        assert!(polled["start_error"].as_str().unwrap().contains(program.trim_start_matches("./")), "{polled}");
        assert_eq!(p.call(["wait", id]).code, Some(code));
        assert_eq!(p.call(["run", "--wait", "--", program, "x"]).code, Some(code), "{program}");
        assert_eq!(p.call(["run", "--follow", "--", program, "x"]).code, Some(code), "{program}");
    }
    assert_eq!(p.json(["list", "--all"])["processes"].as_array().unwrap().len(), 12);
    // A shell that finds nothing to run is a command that ran.
    assert_eq!(p.json(["run", "--wait", "--", "no-such-program"])["exit_code"], 127);
}

#[test]
fn a_timeout_ends_in_a_kill_by_timeout_and_124() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let ended = p.call(["run", "--json", "--wait", "--timeout", "0.1", "--", &gate.wait()]);
    assert_eq!(ended.code, Some(124), "{ended:?}");
    let said = ended.json();
    assert_eq!((&said["completion_reason"], &said["termination_source"]), (&json!("killed"), &json!("timeout")), "{said}");
    assert_eq!((&said["exit_code"], &said["signal"]), (&json!(-15), &json!("SIGTERM")), "{said}");
    // One that is done before is left alone.
    let done = p.json(["run", "--wait", "--timeout", "50", "--", "exit 3"]);
    assert_eq!((&done["exit_code"], &done["completion_reason"]), (&json!(3), &json!("exited")));
}

#[test]
fn a_wait_that_times_out_is_124_and_the_command_keeps_running() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("{}; exit 5", gate.wait()));
    assert_eq!(p.call(["wait", &id, "--timeout", "0.05"]).code, Some(124));
    gate.open();
    assert_eq!(p.call(["wait", &id]).code, Some(5));
}

#[test]
fn the_same_request_under_the_same_id_is_the_same_process() {
    let p = product();
    let id = "proc_0123456789ab";
    let ask = |line: &str, flags: &[&str]| p.call(["run", "--json", "--id", id].iter().chain(flags).chain(&["--", line]));
    let line = "echo ran >> runs";
    let (first, second) = (ask(line, &[]).good().json(), ask(line, &[]).good().json());
    assert_eq!((&first["session_id"], &first["started_at"]), (&second["session_id"], &second["started_at"]));
    assert_eq!(p.wait(id)["exit_code"], 0);
    // Also after its end, and to another engine.
    p.kill_engine();
    assert_eq!(ask(line, &[]).good().json()["status"], "exited");
    assert_eq!(std::fs::read_to_string(p.work().join("runs")).unwrap(), "ran\n");
    for other in [
        ask("echo other", &[]),
        ask(line, &["--env", "A=1"]),
        ask(line, &["--pty"]),
        ask(line, &["--cwd", "/"]),
        ask(line, &["--session", "s"]),
    ] {
        assert_eq!((other.code, other.json()["code"].as_str()), (Some(125), Some("id_taken")), "{other:?}");
    }
    assert_eq!(std::fs::read_to_string(p.work().join("runs")).unwrap(), "ran\n");
}

#[test]
fn the_same_id_asked_for_by_many_at_once_runs_once() {
    let p = product();
    let args = ["run", "--json", "--id", "proc_00000000cafe", "--", "echo ran >> runs"];
    let asking: Vec<_> = (0..6).map(|_| p.command(args).stdout(std::process::Stdio::piped()).spawn().unwrap()).collect();
    for one in asking {
        let said = one.wait_with_output().unwrap();
        assert!(said.status.success(), "{said:?}");
    }
    assert_eq!(p.wait("proc_00000000cafe")["exit_code"], 0);
    assert_eq!(std::fs::read_to_string(p.work().join("runs")).unwrap(), "ran\n");
}

#[test]
fn what_is_said_of_a_command_is_what_was_given() {
    let p = product();
    let started = p.json(["run", "--name", "build", "--task", "t1", "--session", "s1", "--", "true"]);
    assert_eq!((&started["name"], &started["task_id"], &started["session_key"]), (&json!("build"), &json!("t1"), &json!("s1")));
    let p = product().with_env("OUTLAST_SESSION", "s2").with_env("OUTLAST_TASK", "t2");
    let started = p.json(["run", "--", "true"]);
    assert_eq!((&started["task_id"], &started["session_key"]), (&json!("t2"), &json!("s2")));
}

#[test]
fn a_process_whose_caller_is_killed_keeps_running() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = "proc_00000000beef";
    for how in ["--wait", "--follow"] {
        let line = format!("{}; echo on", gate.wait());
        let mut caller = p.command(["run", how, "--id", id, "--", &line]).spawn().unwrap();
        eventually("it to run", || (p.json(["poll", id])["status"] == "running").then_some(()));
        caller.kill().unwrap();
        caller.wait().unwrap();
        gate.open();
        assert_eq!(p.wait(id)["output"], "on\n");
        p.call(["rm", id]).good();
    }
}

#[test]
fn flags_behind_the_command_are_explained_if_the_program_is_not_found() {
    let p = product();
    for words in [&["echo hi", "--name", "late"][..], &["no-such-program", "--notify"], &["no-such-program", "--label=a=b"]] {
        let failed = p.call(["run"].iter().chain(words));
        assert!(failed.code == Some(127) && failed.err.contains("flags of run go before it"), "{failed:?}");
        let hint = p.call(["run", "--json"].iter().chain(words)).json()["hint"].to_string();
        assert!(hint.contains("flags of run go before it"), "{hint}");
    }
    let failed = p.call(["run", "no-such-program", "-x"]);
    assert!(failed.code == Some(127) && !failed.err.contains("flags of run"), "{failed:?}");
}

#[test]
fn flags_that_went_to_the_command_are_named_on_a_terminal() {
    let p = product();
    let note = "note: `--name web` went to the command; flags of Outlast come before it";
    let shown = |args: &[&str]| Person::calls(&p, &[&["run"], args].concat()).until_the_end().0;
    assert!(shown(&["echo", "--name", "web"]).contains(note));
    for separated in [&["--", "echo", "--name", "web"][..], &["--name", "b5", "echo", "-f"]] {
        assert!(!shown(separated).contains("went to the command"), "{separated:?}");
    }
    assert_eq!(p.call(["run", "echo", "--name", "web"]).good().err, "", "a program reads no notes");
}

#[test]
fn a_command_that_ends_at_once_is_reported_as_ended_on_a_terminal() {
    let p = product();
    // The call prints the id on a terminal whose output is stopped, so it looks for the end only when that has come.
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let screen = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&screen).unwrap();
    rustix::pty::unlockpt(&screen).unwrap();
    let stopped = rustix::pty::ioctl_tiocgptpeer(&screen, flags).unwrap();
    tcflow(&stopped, Action::OOff).unwrap();
    let path = rustix::pty::ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
    let person = crate::shell::types(&p, &format!("outlast run --notify --name typo nosuchprogram > {path}"));
    eventually("the end", || (p.json(["list", "--all"])["processes"][0]["status"] == "exited").then_some(()));
    tcflow(&stopped, Action::OOn).unwrap();
    let (shown, code) = person.until_the_end();
    assert!(shown.contains("failed (exit 127); `outlast log typo` shows its output"), "{shown}");
    assert_eq!(code, Some(0), "it was started");
    assert!(p.call(["events"]).good().text().contains("typo failed (exit 127)"), "the notice comes all the same");
}

#[test]
fn an_empty_directory_and_the_part_of_an_id_are_refused() {
    let p = product();
    let refused = p.call(["run", "--cwd", "", "--", "true"]);
    assert!(refused.code == Some(125) && refused.err.contains("the directory of --cwd is empty"), "{refused:?}");
    for id in ["1234", "proc_1234", "myjob"] {
        let refused = p.call(["run", "--id", id, "--", "true"]);
        assert!(refused.code == Some(125) && refused.err.contains("is not a whole process id: give proc_ and 12 hex"), "{refused:?}");
    }
    for (args, want) in [
        (&["run", "--timeout", "-1", "--", "true"][..], "must be more than 0"),
        (&["kill", "--grace", "-1", "x"], "must be 0 or more"),
        (&["log", "-n", "0", "x"], "must be at least 1"),
        (&["log", "--limit", "0", "x"], "must be at least 1"),
    ] {
        let refused = p.call(args);
        assert!(refused.err.lines().next().is_some_and(|line| line.ends_with(want)), "{args:?}: {refused:?}");
    }
}

/// It exited with 0, and a script continued as if the command had succeeded.
#[test]
fn ctrl_c_ends_following_a_start_with_130_and_following_a_log_with_0() {
    let p = product();
    let line = "echo up; exec sleep 1000";
    for (args, code) in
        [(&["run", "--follow", "--name", "web", line][..], 130), (&["rerun", "web", "--follow"], 130), (&["log", "web", "--follow"], 0)]
    {
        let mut person = Person::calls(&p, args);
        // What is shown is followed.
        person.sees("up\r\n");
        person.types("\u{3}");
        person.sees("keeps running; come back with: outlast log ");
        assert_eq!(person.ended(), Some(code), "{args:?}");
    }
}

#[test]
fn a_start_on_a_terminal_names_what_the_command_left_running() {
    let p = product();
    let (seen, code) = Person::calls(&p, &["run", "--name", "left", "sleep 1000 & echo y"]).until_the_end();
    assert_eq!(code, Some(0), "{seen}");
    assert!(seen.contains("finished; `outlast log left` shows its output"), "{seen}");
    assert!(seen.contains("note: 1 process is still running: ") && seen.contains(" sleep 1000; `outlast kill proc_"), "{seen}");
    assert_eq!(p.call(["kill", "left"]).code, Some(1));
}

#[test]
fn what_only_a_shell_understands_is_explained() {
    let p = product();
    let said = |args: &[&str]| p.call([&["run"], args].concat()).err;
    assert!(said(&["exit", "3"]).ends_with("\n  a shell line is one word: outlast run 'exit 3'\n"), "{}", said(&["exit", "3"]));
    let variable = said(&["FOO=1", "env"]);
    assert!(variable.ends_with("\n  a variable is given with --env: outlast run --env FOO=1\n"), "{variable}");
    let name = p.call(["run", "--name", "-x", "true"]);
    assert!(name.code == Some(125) && name.err.contains("the name begins with a dash"), "{name:?}");
    let blank = p.call(["run", "--env", "A B=hunter2", "true"]);
    assert!(blank.code == Some(125) && blank.err.contains("a name with a blank in it") && !blank.err.contains("hunter2"), "{blank:?}");
}
