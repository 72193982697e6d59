//! A container's profile or an old kernel refuses a system call. Either everything works, or a start is refused at once.

use crate::support::*;
use outlast_store::calls::{CALLS, Call, Without};
use outlast_testkit::keeper::Nursery;
use outlast_testkit::os::Refusal;
use std::time::{Duration, Instant};

/// How long a refusal may take on a busy machine. It took 10 s and more when three attempts were made first.
const AT_ONCE: Duration = Duration::from_secs(3);

fn refusal(call: &Call, errno: i32) -> Refusal {
    Refusal { number: call.number, argument: call.argument, errno }
}

fn named(name: &str) -> &'static Call {
    CALLS.iter().find(|call| call.name == name).unwrap_or_else(|| panic!("{name} is not in the table"))
}

#[test]
fn every_call_of_the_table_is_refused_with_enosys() {
    refuse_all(libc::ENOSYS);
}

#[test]
fn every_call_of_the_table_is_refused_with_eperm() {
    refuse_all(libc::EPERM);
}

#[test]
fn every_call_of_the_table_is_refused_with_einval() {
    refuse_all(libc::EINVAL);
}

fn refuse_all(errno: i32) {
    let mut failed = Vec::new();
    for call in CALLS {
        // The C library creates threads with clone3, and falls back only on ENOSYS: neither the engine nor a client gets as far as our own
        // use of it. Keepers have no threads; they are tried below.
        if call.name == "clone3" && errno != libc::ENOSYS {
            continue;
        }
        eprintln!("refused with {errno}: {}", call.name);
        let tried = std::panic::catch_unwind(|| {
            let p = product().refusing(refusal(call, errno));
            match call.without {
                Without::NoStart(_) => starts_nothing(&p, call),
                _ => works(&p, call),
            }
        });
        if tried.is_err() {
            failed.push(call.name);
        }
    }
    assert!(failed.is_empty(), "refused with {errno}: {failed:?}");
}

/// A start is refused at once, with an error that names the call.
fn starts_nothing(p: &Product, call: &Call) {
    // The engine runs already, so that only the refusal is measured.
    p.call(["engine", "start"]);
    let began = Instant::now();
    let answer = p.call(["run", "--json", "--", "echo never"]);
    let took = began.elapsed();
    assert_ne!(answer.code, Some(0), "{answer:?}");
    // Without eventfd not even a caller can wait for an answer, and its error has the same form.
    let said = answer.json();
    let names = call.name.trim_end_matches(|c: char| c.is_ascii_digit());
    assert!(said["error"].as_str().is_some_and(|error| error.contains(names)), "{said}");
    assert_eq!(said["code"], "refused_call", "{said}");
    assert!(said["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{said}");
    assert!(took < AT_ONCE, "it took {took:?}");
}

#[test]
fn a_caller_that_may_open_no_more_files_answers_with_an_error_object() {
    let p = product();
    let call = p.command(["list", "--json"]);
    let mut limited = std::process::Command::new("sh");
    // Beside the standard streams one descriptor is left: too few for epoll and the event counter. What these tests inherited is closed first.
    limited
        .args(["-c", "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 4; exec \"$0\" \"$@\""])
        .arg(call.get_program())
        .args(call.get_args());
    limited.env_clear().envs(call.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let answer = Answer::from(limited.output().unwrap());
    let said = answer.json();
    assert_eq!((answer.code, &said["code"]), (Some(125), &json!("fault")), "{said}");
    assert!(said["hint"].as_str().is_some_and(|hint| hint.contains("ulimit -n")), "{said}");
}

/// Start, exit code, output, input, terminal, stop of a tree, and a kill of each keeper.
fn works(p: &Product, call: &Call) {
    let many = p.run("seq 1 20000; exit 3");
    let ended = p.wait(&many);
    assert_eq!(ended["exit_code"], 3, "{ended}");
    let all: String = (1..=20_000).map(|n| format!("{n}\n")).collect();
    assert!(p.call(["log", &many, "--raw"]).good().text() == all, "output is missing or doubled");

    let reads = p.run_with(&["--stdin"], "while read x; do echo got $x; done");
    p.call(["submit", &reads, "one"]).good();
    p.call(["submit", &reads, "two"]).good();
    p.call(["close", &reads]).good();
    assert_eq!(p.wait(&reads)["output"], "got one\ngot two\n");

    let terminal = p.json(["run", "--wait", "--pty", "--", "test -t 0 && test -t 1 && echo yes"]);
    assert!(terminal["output"].as_str().is_some_and(|o| o.contains("yes")), "{terminal}");
    let asks = p.run_with(&["--pty"], "read x; echo got $x");
    p.call(["submit", &asks, "three"]).good();
    assert!(p.wait(&asks)["output"].as_str().is_some_and(|o| o.contains("got three")));

    let tree = p.run("sleep 1000 & setsid sleep 1000 & echo up; wait");
    eventually("the tree", || p.json(["log", &tree])["output"].as_str().filter(|o| o.contains("up")).map(drop));
    let killed = p.json(["kill", "--grace", "0", &tree]);
    assert_eq!(killed["status"], "killed", "{killed}");

    for role in ["pump", "holder"] {
        let gate = p.work().join(role);
        let id = p.run(&format!("echo before; while [ ! -e {} ]; do sleep 0.01; done; echo after; exit 7", gate.display()));
        eventually("the first line", || p.json(["log", &id])["output"].as_str().filter(|o| o.contains("before")).map(drop));
        let meta = p.meta(&id);
        kill_and_wait(if role == "pump" { meta.pump } else { meta.holder }).unwrap();
        std::fs::write(&gate, "").unwrap();
        let ended = p.wait(&id);
        assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(7), Some("before\nafter\n")), "{role} killed: {ended}");
        let polled = p.json(["poll", &id]);
        let warned = polled["warnings"].to_string().contains("splice or tee is refused");
        assert_eq!(warned, ["splice", "tee"].contains(&call.name), "{polled}");
    }
}

#[test]
fn keepers_start_commands_however_clone3_is_refused() {
    for errno in [libc::ENOSYS, libc::EPERM, libc::EINVAL] {
        let nursery = Nursery::new(&std::env::temp_dir()).unwrap().refusing(refusal(named("clone3"), errno));
        let keeper = std::path::Path::new(env!("CARGO_BIN_EXE_outlast-keeper"));
        let mut child = nursery.start(keeper, nursery.shell("echo here; exit 5"), None).unwrap();
        child.wait_started().unwrap();
        let meta = child.wait_gone().unwrap();
        let ended = meta.ended.expect("an end");
        assert_eq!(ended.ending.outcome, outlast_core::Outcome::Code(5), "refused with {errno}");
        assert_eq!(child.log().unwrap(), b"here\n");
    }
}

#[test]
fn a_leaf_is_entered_without_clone3_and_holds_the_whole_tree() {
    const NAME: &str = "calls::a_leaf_is_entered_without_clone3_and_holds_the_whole_tree";
    let p = product().refusing(refusal(named("clone3"), libc::ENOSYS));
    p.engine();
    let status = p.json(["engine", "status"]);
    if status["degraded"].to_string().contains("cgroup") {
        return outlast_testkit::machine::skipped(NAME, "a cgroup of our own");
    }
    let id = p.run("setsid sleep 1000 & echo up; wait");
    eventually("the tree", || p.json(["log", &id])["output"].as_str().filter(|o| o.contains("up")).map(drop));
    let meta = p.meta(&id);
    assert!(meta.has(outlast_store::meta::flag::LEAF), "the command has a leaf");
    let place = std::fs::read_to_string(format!("/proc/{}/cgroup", meta.cmd)).unwrap();
    assert!(place.lines().any(|l| l.starts_with("0::") && l.ends_with(&id)), "and is in it: {place}");
    assert_eq!(p.json(["kill", "--grace", "0", &id])["status"], "killed");
}

#[test]
fn a_pump_killed_with_output_in_its_memory_is_told_and_nothing_is_invented() {
    let p = product().refusing(refusal(named("splice"), libc::EPERM));
    let gate = p.work().join("gate");
    p.points().arm("pump.hand.read").unwrap();
    let id = p.run(&format!("echo first; while [ ! -e {} ]; do sleep 0.01; done; echo last; exit 4", gate.display()));
    let pump = eventually("a pump with output in its memory", || p.points().held("pump.hand.read"));
    kill_and_wait(pump).unwrap();
    std::fs::write(&gate, "").unwrap();
    let ended = p.wait(&id);
    assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(4), Some("last\n")), "{ended}");
    let polled = p.json(["poll", &id]);
    assert!(polled["warnings"].to_string().contains("may be missing"), "{polled}");
}
