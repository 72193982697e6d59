//! Engine or keepers are killed, and nothing is lost.

use crate::gate::Gate;
use crate::support::*;

#[test]
fn case_204_output_and_exit_code_survive_a_kill_of_the_engine() {
    let p = product();
    let gate = p.work().join("gate");
    let id = p.run(&format!("echo before; while [ ! -e {} ]; do sleep 0.01; done; echo after; exit 7", gate.display()));
    eventually("the first line", || p.json(["log", &id])["output"].as_str().filter(|o| o.contains("before")).map(drop));
    let dead = p.kill_engine();
    std::fs::write(&gate, "").unwrap();
    let ended = p.wait(&id);
    assert_ne!(p.engine(), dead);
    assert_eq!((ended["status"].as_str(), ended["exit_code"].as_i64()), (Some("exited"), Some(7)), "{ended}");
    assert_eq!(ended["output"], "before\nafter\n");
}

#[test]
fn case_205_what_ended_while_nothing_of_ours_ran_but_its_keepers_is_known() {
    let p = product();
    let id = p.run("echo done; exit 3");
    eventually("the record of the end", || p.meta(&id).ended);
    p.kill_engine();
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["status"].as_str(), polled["exit_code"].as_i64()), (Some("exited"), Some(3)), "{polled}");
}

#[test]
fn a_keeper_with_news_starts_an_engine() {
    let p = product();
    let gate = p.work().join("gate");
    let id = p.run(&format!("while [ ! -e {} ]; do sleep 0.01; done", gate.display()));
    let dead = p.kill_engine();
    assert!(!p.processes().iter().any(|(_, c)| c.contains("__engine")));
    std::fs::write(&gate, "").unwrap();
    let engine = eventually("an engine", || p.processes().into_iter().find(|(_, c)| c.contains("__engine")).map(|(pid, _)| pid));
    assert_ne!(engine, dead);
    assert_eq!(p.wait(&id)["exit_code"], 0);
}

#[test]
fn a_pump_that_is_stopped_is_continued_and_loses_nothing() {
    let p = product();
    rustix::fs::mknodat(rustix::fs::CWD, p.work().join("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0)
        .unwrap();
    let id = p.run("echo first; read gate < fifo; seq 1 2000; exit 5");
    eventually("the first line", || (p.meta(&id).commit.base == 6).then_some(()));
    let pump = rustix::process::Pid::from_raw(p.meta(&id).pump as i32).unwrap();
    rustix::process::kill_process(pump, rustix::process::Signal::STOP).unwrap();
    // A quiet command does not notice a stopped keeper. One that prints would wait for it.
    std::fs::write(p.work().join("fifo"), "go\n").unwrap();
    let ended = p.wait(&id);
    assert_eq!(ended["exit_code"], 5, "{ended}");
    let want: String = std::iter::once("first\n".to_owned()).chain((1..=2000).map(|n| format!("{n}\n"))).collect();
    assert_eq!(p.call(["log", &id, "--raw"]).good().text(), want);
}

#[test]
fn processes_stay_reachable_when_the_directory_of_their_sockets_is_removed() {
    let p = product();
    let id = p.run_with(&["--stdin"], "read -r line; echo \"got $line\"; exit 6");
    p.kill_engine();
    std::fs::remove_dir_all(p.socket_dir().unwrap()).unwrap();
    let written = p.json(["submit", &id, "hello"]);
    assert_eq!(written["status"], "ok", "{written}");
    let ended = p.wait(&id);
    assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(6), Some("got hello\n")), "{ended}");
}

#[test]
fn both_keepers_killed_at_once_are_told_honestly() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let meta = p.meta(&id);
    // Stopped first: else the one that is killed second has made a new one by then.
    for signal in [rustix::process::Signal::STOP, rustix::process::Signal::KILL] {
        for pid in [meta.pump, meta.holder] {
            let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
        }
    }
    let polled = eventually("the orphan to be known", || Some(p.json(["poll", &id])).filter(|a| a["phase"] != "running"));
    assert_eq!((polled["phase"].as_str(), polled["status"].as_str()), (Some("orphaned"), Some("running")), "{polled}");
    for (args, code) in [(&["log", &id, "-f"][..], 1), (&["log", &id, "-f", "--grep", "x"], 1), (&["log", &id, "-f", "--prefix"], 1)] {
        let followed = p.call(args);
        assert!(
            followed.code == Some(code) && followed.err.contains("is orphaned: it keeps running, but its output has no reader"),
            "{followed:?}"
        );
        assert!(followed.err.contains(&format!("`outlast kill {id}` stops it, `outlast rerun {id}`")), "{followed:?}");
    }
    let killed = p.json(["kill", &id, "--grace", "0"]);
    assert_eq!((killed["status"].as_str(), killed["completion_reason"].as_str()), (Some("killed"), Some("killed")), "{killed}");
    assert!(wait_for_end(meta.cmd, PATIENCE));
    assert!(p.json(["poll", &id])["exit_code"].is_null());
}

#[test]
fn an_engine_first_called_from_within_a_command_is_not_stopped_with_it() {
    let p = product();
    let outlast = env!("CARGO_BIN_EXE_outlast");
    let a = p.run(&format!(
        "trap '' TERM; touch up; while [ ! -e go ]; do sleep 0.01; done; OUTLAST_HOME={} {outlast} run -- 'exec sleep 1000' > b; touch done; sleep 1000",
        p.home().root.display()
    ));
    eventually("the command is up", || p.work().join("up").exists().then_some(()));
    let first = p.kill_engine();
    std::fs::write(p.work().join("go"), "").unwrap();
    eventually("the call from within", || p.work().join("done").exists().then_some(()));
    let b = std::fs::read_to_string(p.work().join("b")).unwrap().lines().next().unwrap().to_owned();
    let second = p.engine();
    assert_ne!(first, second);
    let killed = p.json(["kill", &a, "--grace", "0.2"]);
    assert_eq!(killed["status"], "killed", "{killed}");
    assert_eq!(p.engine(), second, "the engine was taken for a part of the tree");
    assert_eq!(p.json(["poll", &b])["phase"], "running");
}

#[test]
fn asking_again_never_puts_a_stop_off() {
    let p = product();
    let id = p.run("trap '' TERM; touch ready; while :; do sleep 0.01; done");
    eventually("ready", || p.work().join("ready").exists().then_some(()));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| p.json(["kill", &id, "--grace", "0.5"]));
        eventually("the stop", || p.meta(&id).stop);
        let second = p.json(["kill", &id, "--grace", "10000"]);
        for answer in [first.join().unwrap(), second] {
            assert!(["killed", "already_exited"].iter().any(|s| answer["status"] == *s), "{answer}");
        }
    });
}

#[test]
fn what_the_first_caller_had_open_reaches_neither_engine_nor_command() {
    let p = product();
    let call = p.command(["run", "--wait", "--", "ls /proc/self/fd | sort -n | tr '\\n' ' '"]);
    let line = format!("exec 9>{}; exec \"$0\" \"$@\"", p.work().join("held").display());
    let mut shell = std::process::Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(line)
        .arg(call.get_program())
        .args(call.get_args())
        .stdin(std::process::Stdio::null())
        .env_clear()
        .current_dir(p.work());
    shell.envs(call.get_envs().filter_map(|(k, v)| Some((k, v?))));
    let out = shell.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "0 1 2 3", "{out:?}");
    let open: Vec<_> = std::fs::read_dir(format!("/proc/{}/fd", p.engine()))
        .unwrap()
        .flatten()
        .filter_map(|e| std::fs::read_link(e.path()).ok())
        .collect();
    assert!(!open.contains(&p.work().join("held")), "{open:?}");
}

#[test]
fn a_deadline_that_passes_after_the_end_keeps_no_keeper_busy() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run_with(&["--timeout", "0.2"], &format!("({}) & echo hi", gate.wait()));
    eventually("the end", || p.meta(&id).ended);
    eventually("the deadline", || (p.meta(&id).started_at?.micros() < now() - 250_000).then_some(()));
    let stat = format!("/proc/{}/stat", p.meta(&id).pump);
    let sleeps = || std::fs::read_to_string(&stat).unwrap().rsplit_once(')').unwrap().1.starts_with(" S");
    eventually("the pump to sleep", || (0..50).all(|_| sleeps()).then_some(()));
    gate.open();
    let polled = eventually("the end of the output", || Some(p.json(["poll", &id])).filter(|a| a["phase"] == "exited"));
    assert_eq!((polled["exit_code"].as_i64(), polled["completion_reason"].as_str()), (Some(0), Some("exited")), "{polled}");
}

fn now() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as i64
}

#[test]
fn an_end_that_was_recorded_but_not_told_is_told_by_the_next_pump() {
    let p = product();
    let id = p.run("while [ ! -e go ]; do sleep 0.01; done; exit 4");
    p.points().arm("pump.marked").unwrap();
    p.kill_engine();
    std::fs::write(p.work().join("go"), "").unwrap();
    let pump = eventually("the pump at its point", || p.points().held("pump.marked"));
    assert!(!p.processes().iter().any(|(_, c)| c.contains("__engine")), "no engine was started yet");
    kill_and_wait(pump).unwrap();
    p.points().release("pump.marked").unwrap();
    eventually("an engine", || p.processes().into_iter().find(|(_, c)| c.contains("__engine")));
    assert_eq!(p.wait(&id)["exit_code"], 4);
}

#[test]
fn a_terminals_question_is_answered_once_however_often_the_pump_dies() {
    let p = product();
    // Asks, takes the six bytes of the answer, waits, and counts what else has come.
    let ask = "stty raw -echo; printf '\\033[6n'; head -c 6 | od -An -tx1; touch asked; while [ ! -e go ]; do sleep 0.01; done; \
               stty min 0 time 1; printf 'more: '; cat | wc -c; exit 0";
    let id = p.run_with(&["--pty"], ask);
    eventually("the answer", || p.work().join("asked").exists().then_some(()));
    for _ in 0..3 {
        let pump = p.meta(&id).pump;
        kill_and_wait(pump).unwrap();
        eventually("another pump", || Some(p.meta(&id).pump).filter(|new| *new != pump && *new != 0));
        assert_eq!(p.json(["poll", &id])["phase"], "running");
    }
    std::fs::write(p.work().join("go"), "").unwrap();
    let output = p.wait(&id)["output"].as_str().unwrap().to_owned();
    assert!(output.contains("1b 5b 31 3b 31 52") && output.contains("more: 0"), "{output:?}");
}

#[test]
fn an_engine_started_by_a_keeper_has_the_settings_of_the_one_before() {
    let p = product();
    let settings = p.work().join("settings");
    std::fs::create_dir_all(settings.join("outlast")).unwrap();
    std::fs::write(settings.join("outlast/config.toml"), "[limits]\nmax_running = 1\n").unwrap();
    let p = p.with_env("XDG_CONFIG_HOME", &settings).with_env("OUTLAST_SESSION", "s");
    let id = p.run("while [ ! -e go ]; do sleep 0.01; done");
    p.kill_engine();
    std::fs::write(p.work().join("go"), "").unwrap();
    let engine = eventually("an engine", || p.processes().into_iter().find(|(_, c)| c.contains("__engine")).map(|(pid, _)| pid));
    let env = eventually("its environment", || std::fs::read(format!("/proc/{engine}/environ")).ok().filter(|e| !e.is_empty()));
    let env = String::from_utf8_lossy(&env).into_owned();
    assert!(env.contains(&format!("XDG_CONFIG_HOME={}", settings.display())), "{env:?}");
    assert!(!env.contains("OUTLAST_SESSION="), "{env:?}");
    assert_eq!(p.wait(&id)["exit_code"], 0);
}

#[test]
fn a_secret_beside_a_byte_that_is_no_text_is_masked_too() {
    use std::os::unix::ffi::OsStringExt as _;
    let p = product();
    let token = ["gh", "p_", &"a1B2".repeat(9)].concat();
    let line = std::ffi::OsString::from_vec([&b"true \xff "[..], token.as_bytes()].concat());
    let started = p.call([std::ffi::OsString::from("run"), "--json".into(), "--".into(), line]).json();
    assert!(!started.to_string().contains(&token), "{started}");
    let id = started["session_id"].as_str().unwrap().to_owned();
    p.wait(&id);
    for file in ["spec", "meta"] {
        let bytes = std::fs::read(p.folder(&id).path.join(file)).unwrap();
        assert!(!bytes.windows(token.len()).any(|w| w == token.as_bytes()), "{file}");
    }
}
