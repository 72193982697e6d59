//! One set of tests for every environment: the same promises there, over a link that may be cut anywhere.

mod backends;

use crate::support::*;
use backends::Sandbox;
use std::time::Duration;

/// Runs a shell line there and returns its id.
fn run(p: &Product, sandbox: &Sandbox, flags: &[&str], line: &str) -> String {
    let on = ["run", "--on", &sandbox.on];
    let answer = p.json(on.iter().chain(flags).copied().chain([line]));
    answer["session_id"].as_str().unwrap_or_else(|| panic!("{answer}\n{}", sandbox.logs(p))).to_owned()
}

/// All of the output that is here.
fn output(p: &Product, id: &str) -> String {
    String::from_utf8(p.call(["log", id, "--raw"]).out).unwrap()
}

fn lines(upto: u64) -> String {
    (1..=upto).map(|n| format!("{n}\n")).collect()
}

/// Waits for output that a reader finds here.
fn until(p: &Product, id: &str, what: &str) {
    eventually(what, || output(p, id).contains(what).then_some(()));
}

fn ended(p: &Product, sandbox: &Sandbox, id: &str) -> Value {
    let ended = p.json(["wait", id]);
    assert_eq!(ended["status"], "exited", "{ended}\n{}", sandbox.logs(p));
    ended
}

fn a_command_runs_there_and_is_read_here(p: &Product, sandbox: &Sandbox) {
    let id = run(p, sandbox, &[], "echo here; echo there >&2; echo $OUTLAST_PROCESS_ID; exit 7");
    assert_eq!(ended(p, sandbox, &id)["exit_code"].as_i64(), Some(7));
    assert_eq!(output(p, &id), format!("here\nthere\n{id}\n"));
    let poll = p.json(["poll", &id]);
    assert_eq!(
        (poll["environment"].as_str(), &poll["pid"], poll["phase"].as_str()),
        (Some(sandbox.on.as_str()), &Value::Null, Some("exited"))
    );
    assert!(poll["environment_pid"].as_u64().is_some() && poll["unmirrored_bytes"].is_null(), "{poll}");
    eventually("the sandbox forgets what is here as a whole", || sandbox.folders().is_empty().then_some(()));
    let killed = run(p, sandbox, &[], "kill -9 $$");
    assert_eq!(ended(p, sandbox, &killed)["signal"], "SIGKILL");
    let missing = p.json(["run", "--on", &sandbox.on, "--", "no-such-program", "x"]);
    assert_eq!((missing["phase"].as_str(), missing["start_code"].as_i64()), (Some("failed_start"), Some(127)), "{missing}");
}

fn the_callers_environment_stays_here(p: &Product, sandbox: &Sandbox) {
    let id = p.command(["run", "--json", "--on", &sandbox.on, "--env", "GIVEN=yes", "env"]).env("OPENLY", "secret").output().unwrap();
    let id = serde_json::from_slice::<Value>(&id.stdout).unwrap()["session_id"].as_str().unwrap().to_owned();
    ended(p, sandbox, &id);
    let env = output(p, &id);
    assert!(env.contains("GIVEN=yes\n") && env.contains("TERM=dumb\n") && !env.contains("OPENLY"), "{env}");
    assert!(!env.contains("OUTLAST_HOME") && !env.contains("OUTLAST_TEST_POINTS"), "{env}");
}

fn input_arrives_once_and_in_order(p: &Product, sandbox: &Sandbox) {
    let id = run(p, sandbox, &["--stdin"], "cat");
    for n in 1..=5 {
        assert_eq!(p.json(["submit", &id, &n.to_string()])["bytes_written"].as_u64(), Some(2));
        if n == 3 {
            sandbox.cut();
        }
    }
    assert_eq!(p.json(["close", &id])["error"], Value::Null);
    assert_eq!(ended(p, sandbox, &id)["exit_code"].as_i64(), Some(0));
    assert_eq!(output(p, &id), lines(5));
}

fn a_terminal_is_one(p: &Product, sandbox: &Sandbox) {
    let id = run(p, sandbox, &["--pty"], "stty size; read word; echo got $word; test -t 1");
    until(p, &id, "\n");
    assert_eq!(p.json(["submit", &id, "hello"])["error"], Value::Null);
    assert_eq!(ended(p, sandbox, &id)["exit_code"].as_i64(), Some(0));
    assert!(output(p, &id).contains("got hello"), "{}", output(p, &id));
}

fn a_kill_reaches_the_whole_tree(p: &Product, sandbox: &Sandbox) {
    let id = run(p, sandbox, &[], "setsid sleep 1001 & (setsid sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1002; done' &); wait");
    until(p, &id, "ready");
    let killed = p.json(["kill", &id, "--grace", "200ms"]);
    assert_eq!(killed["status"], "killed", "{killed}\n{}", sandbox.logs(p));
    assert!(killed["seen_dead"].as_u64().is_some_and(|n| n >= 3), "{killed}");
    eventually("all of it is gone", || outlast_testkit::leftovers::of_process(&id).is_empty().then_some(()));
    assert_eq!(p.json(["poll", &id])["termination_source"], "process.kill");
}

fn a_match_and_an_end_become_notices(p: &Product, sandbox: &Sandbox) {
    let id = run(p, sandbox, &["--notify", "--watch", "NEEDLE", "--session", "s"], "echo hay; echo NEEDLE 1; sleep 0.2; exit 4");
    ended_elsewhere(p, &id);
    let mut kinds = Vec::new();
    eventually("both notices", || {
        let events = p.json(["events", "drain", "--session", "s"]);
        kinds.extend(events["events"].as_array().unwrap().iter().map(|e| e["event"]["type"].as_str().unwrap().to_owned()));
        (kinds.len() >= 2).then_some(())
    });
    kinds.sort();
    assert_eq!(kinds, ["completion", "watch_match"], "each once");
}

/// Waits for the end without being told of it: a wait of its owner would take the notice.
fn ended_elsewhere(p: &Product, id: &str) {
    eventually("it has ended", || (p.json(["poll", id])["status"] == "exited").then_some(()));
}

fn the_death_of_engine_or_link_harms_no_command(p: &Product, sandbox: &Sandbox) {
    let id = run(p, sandbox, &[], "for n in $(seq 1 300); do echo $n; sleep 0.005; done; exit 5");
    until(p, &id, "\n20\n");
    p.kill_engine();
    p.engine();
    until(p, &id, "\n60\n");
    assert!(sandbox.kill_link(p), "a link runs");
    until(p, &id, "\n120\n");
    sandbox.kill_link(p);
    p.kill_engine();
    assert_eq!(ended(p, sandbox, &id)["exit_code"].as_i64(), Some(5));
    assert_eq!(output(p, &id), lines(300));
}

fn a_stream_that_is_cut_loses_nothing(p: &Product, sandbox: &Sandbox) {
    let id = run(p, sandbox, &[], "seq 1 200000; for n in $(seq 200001 200100); do echo $n; sleep 0.01; done; exit 6");
    for _ in 0..5 {
        sandbox.cut();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(ended(p, sandbox, &id)["exit_code"].as_i64(), Some(6));
    assert!(output(p, &id) == lines(200_100), "{} bytes", output(p, &id).len());
}

fn what_ended_while_no_program_of_ours_was_here_is_found(p: &Product, sandbox: &Sandbox) {
    let id = run(p, sandbox, &["--notify", "--session", "s"], "sleep 0.3; echo late; exit 9");
    p.kill_engine();
    sandbox.kill_link(p);
    sandbox.cut();
    eventually("it has ended there", || sandbox.is_over(&id).then_some(()));
    ended_elsewhere(p, &id);
    let events = p.json(["events", "drain", "--session", "s"]);
    assert_eq!(events["events"].as_array().unwrap().len(), 1, "{events}");
    assert_eq!((output(p, &id).as_str(), p.json(["poll", &id])["exit_code"].as_i64()), ("late\n", Some(9)));
}

fn the_same_request_again_is_the_same_process(p: &Product, sandbox: &Sandbox) {
    let ask = || p.json(["run", "--on", &sandbox.on, "--id", "proc_00000000abcd", "echo once"]);
    assert_eq!(ask()["session_id"], "proc_00000000abcd");
    ended(p, sandbox, "proc_00000000abcd");
    assert_eq!(ask()["session_id"], "proc_00000000abcd");
    assert_eq!(output(p, "proc_00000000abcd"), "once\n");
    let here = p.json(["run", "--id", "proc_00000000abcd", "echo once"]);
    assert_eq!(here["code"], "id_taken", "another place is another request");
}

fn a_sandbox_that_is_gone_loses_its_processes(p: &Product, sandbox: &Sandbox) {
    let id = run(p, sandbox, &[], "echo here; exec sleep 1003");
    until(p, &id, "here");
    sandbox.destroy(p, &id);
    let ended = ended(p, sandbox, &id);
    assert_eq!((&ended["exit_code"], p.json(["poll", &id])["phase"].as_str()), (&Value::Null, Some("lost")), "{ended}");
    let poll = p.json(["poll", &id]);
    assert!(poll["warnings"].as_array().unwrap().iter().any(|w| w.as_str().unwrap().contains("it is lost: its sandbox is gone")), "{poll}");
    assert_eq!(output(p, &id), "here\n", "what was here stays");
}

fn a_hundred_processes_share_one_link(p: &Product, sandbox: &Sandbox) {
    let ids: Vec<String> = (0..100).map(|n| run(p, sandbox, &[], &format!("seq 1 100; exit {n}"))).collect();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(ended(p, sandbox, id)["exit_code"].as_u64(), Some(n as u64));
        assert_eq!(output(p, id), lines(100));
    }
}

macro_rules! conformance {
    ($backend:ident: $($test:ident)*) => {
        mod $backend {
            $(
                #[test]
                fn $test() {
                    let p = super::backends::$backend::product();
                    if let Some(sandbox) = super::backends::$backend::sandbox(&p) {
                        super::$test(&p, &sandbox);
                    }
                }
            )*
        }
    };
    ($($backend:ident)*) => {
        $(
            conformance!($backend:
                a_command_runs_there_and_is_read_here
                the_callers_environment_stays_here
                input_arrives_once_and_in_order
                a_terminal_is_one
                a_kill_reaches_the_whole_tree
                a_match_and_an_end_become_notices
                the_death_of_engine_or_link_harms_no_command
                a_stream_that_is_cut_loses_nothing
                what_ended_while_no_program_of_ours_was_here_is_found
                the_same_request_again_is_the_same_process
                a_sandbox_that_is_gone_loses_its_processes
                a_hundred_processes_share_one_link
            );
        )*
    };
}

conformance!(local bwrap);

#[test]
fn an_environment_that_cannot_be_used_is_refused_before_anything_is_written() {
    let p = product();
    for (on, code) in [
        ("nonsense", "bad_environment"),
        ("bwrap:relative", "bad_environment"),
        ("bwrap:/no/such/dir", "bad_environment"),
        ("local:/no/such/dir", "unreachable"),
    ] {
        let answer = p.json(["run", "--on", on, "true"]);
        assert_eq!(answer["code"], code, "{answer}");
        assert!(answer["error"].as_str().unwrap().starts_with(on), "{answer}");
    }
    assert_eq!(p.call(["run", "--on", "-x", "true"]).code, Some(125));
    assert_eq!(p.home().ids().unwrap(), []);
}

#[test]
fn a_process_whose_sandbox_is_away_is_unreachable_and_not_lost() {
    let p = product();
    let sandbox = backends::local::sandbox(&p).unwrap();
    let id = run(&p, &sandbox, &["--stdin"], "echo here; exec cat");
    until(&p, &id, "here");
    let away = sandbox.dir.with_extension("away");
    std::fs::rename(&sandbox.dir, &away).unwrap();
    sandbox.cut();
    eventually("it is unreachable", || (p.json(["poll", &id])["phase"] == "unreachable").then_some(()));
    let poll = p.json(["poll", &id]);
    assert!(
        poll["status"] == "running" && poll["warnings"][0].as_str().unwrap().contains("cannot be reached: there is no directory"),
        "{poll}"
    );
    assert_eq!(output(&p, &id), "here\n", "reading needs no link");
    assert_eq!(p.json(["submit", &id, "x"])["code"], "unreachable");
    assert_eq!(p.json(["kill", &id])["code"], "unreachable");
    std::fs::rename(&away, &sandbox.dir).unwrap();
    eventually("it is back", || (p.json(["poll", &id])["phase"] == "running").then_some(()));
    assert_eq!(p.json(["submit", &id, "again"])["error"], Value::Null);
    until(&p, &id, "again");
    assert_eq!(p.json(["kill", &id])["status"], "killed");
}
