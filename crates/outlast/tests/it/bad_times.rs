//! The machine does not play along: full, read-only, out of this or that.

use crate::gate::Gate;
use crate::sinks::{hooked, told};
use crate::support::*;
use crate::told::{drained, history};
use outlast_store::dir::UNNAMED;
use outlast_testkit::machine::{self, Group, in_own_mounts, mount_tmpfs, remount};
use outlast_testkit::trees::alive_in;
use std::os::unix::fs::chown;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn ready(p: &Product) {
    let file = p.work().join("ready");
    eventually("the file ready", || file.exists().then_some(()));
}

#[test]
fn a_home_that_cannot_be_written_is_told() {
    let ran = in_own_mounts(|| {
        let p = product();
        let home = p.home().root;
        mount_tmpfs(&home, "size=64m,mode=700").unwrap();
        // Empty at first, then with something in it.
        for _ in 0..2 {
            remount(&home, "ro").unwrap();
            for args in [&["run", "--json", "--", "true"][..], &["list", "--json"], &["poll", "--json", "proc_0123456789ab"]] {
                let answer = p.call(args);
                let said = answer.json();
                assert!(answer.code.is_some_and(|c| c != 0), "{args:?}: {said}");
                assert!(
                    said["error"].as_str().is_some_and(|e| e.contains(home.to_str().unwrap()) && e.contains("ead-only")),
                    "{args:?}: {said}"
                );
                assert!(said["hint"].as_str().is_some_and(|h| !h.is_empty()), "{args:?}: {said}");
            }
            let doctor = p.call(["doctor", "--json"]);
            assert_eq!((doctor.json()["status"].as_str(), doctor.code), (Some("broken"), Some(1)));
            remount(&home, "rw").unwrap();
            let id = p.run("exit 2");
            assert_eq!(p.wait(&id)["exit_code"], 2);
            p.call(["engine", "stop"]).good();
            // A process with a file open for writing keeps the file system from becoming read-only.
            eventually("the keepers to leave", || p.processes().is_empty().then_some(()));
        }
        p.shut_down().unwrap();
    });
    if let Err(why) = ran {
        machine::skipped("a_home_that_cannot_be_written_is_told", format!("{why:#}"));
    }
}

#[test]
fn a_disk_that_fills_up_takes_output_and_nothing_else() {
    let ran = in_own_mounts(|| {
        let p = product();
        let home = p.home().root;
        mount_tmpfs(&home, "size=40m,mode=700").unwrap();
        // Ready to start at once when there is no room any more.
        p.run("true");
        let id = p.run("echo begin; head -c 60000000 /dev/zero | tr '\\0' x; echo; echo end; touch ready; while [ ! -e gate ]; do sleep 0.01; done; exit 9");
        ready(&p);
        let polled = eventually("all of it", || Some(p.json(["poll", &id])).filter(|v| v["output_bytes"].as_u64() >= Some(60_000_011)));
        assert_eq!((polled["status"].as_str(), polled["output_bytes"].as_u64()), (Some("running"), Some(60_000_011)), "{polled}");
        let missing: u64 = polled["gaps"].as_array().unwrap().iter().map(|g| g["to"].as_u64().unwrap() - g["from"].as_u64().unwrap()).sum();
        assert!(polled["gaps"].as_array().unwrap().iter().all(|g| g["why"] == "disk_full"), "{polled}");
        assert!(missing > 10_000_000, "{polled}");
        let raw = p.call(["log", "--raw", &id]);
        assert_eq!(raw.out.len() as u64 + missing, 60_000_011, "what is not there is told to the byte");
        assert!(raw.out.starts_with(b"begin\nxxxx"));
        assert!(!raw.err.is_empty(), "and told where it is missing");
        // Nothing new can be written down, so nothing new is begun.
        let answer = p.call(["run", "--json", "--", "touch never"]);
        let said = answer.json();
        assert_eq!((said["code"].as_str(), answer.code), (Some("unavailable"), Some(125)), "{said}");
        assert!(said["hint"].as_str().is_some_and(|h| h.contains("space")), "{said}");
        assert!(!p.work().join("never").exists());
        // What runs keeps running. Its end is known, also if engine or keeper dies before.
        p.kill_engine();
        assert_eq!(p.json(["poll", &id])["status"], "running");
        std::fs::write(p.work().join("gate"), "").unwrap();
        let ended = p.wait(&id);
        assert_eq!((ended["exit_code"].as_i64(), ended["completion_reason"].as_str()), (Some(9), Some("exited")), "{ended}");
        // With room again, all is well.
        let removed = p.json(["rm", &id]);
        assert_eq!(removed["status"], "removed", "{removed}");
        let next = p.run("echo room; exit 3");
        assert_eq!((p.wait(&next)["exit_code"].as_i64(), p.json(["log", &next])["output"].as_str()), (Some(3), Some("room")));
        p.shut_down().unwrap();
    });
    if let Err(why) = ran {
        machine::skipped("a_disk_that_fills_up_takes_output_and_nothing_else", format!("{why:#}"));
    }
}

#[test]
fn what_is_to_be_told_waits_for_room_and_is_told_once() {
    let ran = in_own_mounts(|| {
        let (p, log) = hooked("kinds = [\"watch_match\", \"completion\"]");
        let home = p.home().root;
        mount_tmpfs(&home, "size=40m,mode=700").unwrap();
        let (line, end) = (Gate::new(&p, "line"), Gate::new(&p, "end"));
        let flags = ["--notify", "--watch", "READY", "--session", "s"];
        let id = p.run_with(&flags, &format!("{}; echo READY; {}; exit 3", line.wait(), end.wait()));
        p.json(["events", "post", "--session", "s", r#"{"type": "note", "n": 1}"#]);
        std::fs::write(home.join("ballast"), vec![0; 64 << 20]).unwrap_err();
        // Nothing is promised that cannot be written down.
        let post = ["events", "post", "--session", "s", r#"{"type": "note", "n": 2}"#];
        let calls =
            [&post[..], &["events", "drain", "--session", "s"], &["events", "next", "--session", "s"], &["until", "--no-wait", &id]];
        // At the same time, since each is tried for a while.
        let asked = calls.map(|call| p.command(call.iter().chain(&["--json"])).stdout(Stdio::piped()).spawn().unwrap());
        for (call, asked) in calls.iter().zip(asked) {
            let refused = Answer::from(asked.wait_with_output().unwrap()).json();
            assert_eq!(refused["code"], "unavailable", "{call:?}: {refused}");
            assert!(refused["error"].as_str().unwrap().contains("so nothing was changed"), "{call:?}: {refused}");
        }
        line.open();
        end.open();
        assert_eq!(p.wait(&id)["exit_code"], 3);
        // With room again, each notice is delivered once, to sinks and to takers.
        std::fs::remove_file(home.join("ballast")).unwrap();
        let kinds = ["note", "watch_match", "completion"];
        let written = eventually("the notices", || Some(history(&p, &[])).filter(|all| all.len() >= kinds.len()));
        let heard = eventually("the hook", || Some(told(&log)).filter(|all| all.len() >= 2));
        let of = |all: &[Value]| -> Vec<String> { all.iter().map(|t| t["event"]["type"].as_str().unwrap().to_owned()).collect() };
        assert_eq!((of(&written), of(&heard)), (kinds.map(String::from).to_vec(), kinds[1..].iter().map(ToString::to_string).collect()));
        let events = drained(&p, "s");
        assert_eq!(events.iter().map(|e| e["type"].as_str().unwrap()).collect::<Vec<_>>(), kinds);
        assert!(events.iter().all(|event| event.get("repeat").is_none()), "{events:?}");
        assert_eq!(drained(&p, "s"), [Value::Null; 0]);
        p.shut_down().unwrap();
    });
    if let Err(why) = ran {
        machine::skipped("what_is_to_be_told_waits_for_room_and_is_told_once", format!("{why:#}"));
    }
}

#[test]
fn a_stop_works_on_a_full_disk() {
    let ran = in_own_mounts(|| {
        let p = product();
        let home = p.home().root;
        mount_tmpfs(&home, "size=40m,mode=700").unwrap();
        let id = p.run("touch ready; trap '' TERM; while :; do sleep 0.01; done");
        ready(&p);
        std::fs::write(home.join("ballast"), vec![0; 64 << 20]).unwrap_err();
        let killed = p.json(["kill", &id, "--grace", "0.1"]);
        assert_eq!((killed["status"].as_str(), killed["signal"].as_str()), (Some("killed"), Some("SIGKILL")), "{killed}");
        assert_eq!(alive_in(&p.work()), []);
        p.kill_engine();
        let polled = p.json(["poll", &id]);
        assert_eq!((polled["completion_reason"].as_str(), polled["exit_code"].as_i64()), (Some("killed"), Some(-9)), "{polled}");
        p.shut_down().unwrap();
    });
    if let Err(why) = ran {
        machine::skipped("a_stop_works_on_a_full_disk", format!("{why:#}"));
    }
}

#[test]
fn a_home_whose_path_is_too_long_for_a_socket_works() {
    let deep = std::env::temp_dir().join(format!("{}-{}", "long".repeat(40), std::process::id()));
    std::fs::create_dir(&deep).unwrap();
    {
        let p = Product::in_dir(env!("CARGO_BIN_EXE_outlast"), &deep);
        assert!(p.home().root.as_os_str().len() > 108);
        // Where sockets would go first is too long as well.
        let runtime = p.work().join("runtime");
        std::fs::create_dir(&runtime).unwrap();
        let mut call = p.command(["run", "--json", "--stdin", "--", "read line; echo $line; exit 4"]);
        let started = Answer::from(call.env("XDG_RUNTIME_DIR", &runtime).output().unwrap()).json();
        let id = started["session_id"].as_str().unwrap_or_else(|| panic!("{started}"));
        p.kill_engine();
        p.call(["submit", id, "hello"]).good();
        let ended = p.wait(id);
        assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(4), Some("hello\n")), "{ended}");
    }
    std::fs::remove_dir(&deep).unwrap();
}

#[test]
fn a_home_of_another_user_is_not_used() {
    const NAME: &str = "a_home_of_another_user_is_not_used";
    if !machine::is_root() {
        return machine::skipped(NAME, "only root may give a directory away");
    }
    let p = product();
    let home = p.home().root;
    std::fs::create_dir(&home).unwrap();
    chown(&home, Some(12_345), Some(12_345)).unwrap();
    for args in [&["run", "--json", "--", "touch never"][..], &["list", "--json"]] {
        let answer = p.call(args);
        let said = answer.json();
        assert!(answer.code.is_some_and(|c| c != 0), "{said}");
        assert!(said["error"].as_str().is_some_and(|e| e.contains("12345") && e.contains(home.to_str().unwrap())), "{said}");
        assert!(said["hint"].as_str().is_some_and(|h| h.contains("OUTLAST_HOME")), "{said}");
    }
    assert!(std::fs::read_dir(&home).unwrap().next().is_none(), "nothing was put into it");
    // Another user cannot use our home either.
    chown(&home, Some(0), Some(0)).unwrap();
    let id = p.run("exec sleep 1000");
    let mut other = Command::new("setpriv");
    other.args(["--reuid", "12345", "--clear-groups"]).arg(env!("CARGO_BIN_EXE_outlast")).args(["kill", "--json", &id]);
    let template = p.command(["list"]);
    other.env_clear().envs(template.get_envs().filter_map(|(n, v)| Some((n, v?)))).current_dir("/");
    match other.output() {
        Ok(done) => assert!(!done.status.success(), "{done:?}"),
        Err(e) => machine::skipped(NAME, format!("half of it: cannot run setpriv: {e}")),
    }
    assert_eq!(p.json(["poll", &id])["status"], "running");
}

#[test]
fn a_home_that_is_a_file_is_told() {
    let p = product();
    let home = p.home().root;
    std::fs::write(&home, "x").unwrap();
    let answer = p.call(["list", "--json"]);
    let said = answer.json();
    assert!(answer.code.is_some_and(|c| c != 0) && said["error"].as_str().is_some_and(|e| e.contains(home.to_str().unwrap())), "{said}");
    std::fs::remove_file(&home).unwrap();
}

#[test]
fn the_log_of_an_engine_that_lives_long_stays_bounded() {
    use std::io::Write;
    let p = product();
    let engine = p.engine();
    let (log, old) = (p.home().engine_log(), p.home().old_engine_log());
    let socket = p.socket_dir().unwrap().join("engine");
    for round in ["first", "second"] {
        // Keepers share the log; this one is talkative.
        let mut shared = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        shared.write_all(format!("{round} ").repeat(200_000).as_bytes()).unwrap();
        // The engine says that its socket is gone, and then makes another.
        std::fs::remove_file(&socket).unwrap();
        eventually("another socket", || socket.exists().then_some(()));
        let (now, before) = (std::fs::read_to_string(&log).unwrap(), std::fs::read_to_string(&old).unwrap());
        assert!(now.len() < 1_000, "{now}");
        assert_eq!(["first ", "second "].map(|r| before.contains(r)), [round == "first", round == "second"], "one older is kept");
        assert!(before.contains("the socket is gone"), "it is written where it is looked for");
    }
    assert_eq!(p.engine(), engine);
}

#[test]
fn an_engine_out_of_descriptors_says_so_and_recovers() {
    let p = product();
    let mut first = Command::new("prlimit");
    let call = p.command(["list"]);
    first.args(["--nofile=80:80"]).arg(env!("CARGO_BIN_EXE_outlast")).args(["list", "--json"]);
    first.env_clear().envs(call.get_envs().filter_map(|(n, v)| Some((n, v?)))).current_dir(p.work());
    match first.output() {
        Ok(done) => assert!(done.status.success(), "{done:?}"),
        Err(e) => return machine::skipped("an_engine_out_of_descriptors_says_so_and_recovers", format!("cannot run prlimit: {e}")),
    }
    let engine = p.engine();
    let mut started = Vec::new();
    let refused = loop {
        let said = p.json(["run", "--", "exec sleep 1000"]);
        match said["session_id"].as_str() {
            Some(id) if said["status"] == "running" => started.push(id.to_owned()),
            _ => break said,
        }
        assert!(started.len() < 200, "eighty descriptors do for two hundred processes");
    };
    let told = refused["error"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(told.contains("open files"), "{refused}");
    assert!(started.len() > 5, "only {} were started", started.len());
    assert_eq!(p.engine(), engine, "it is still the same engine");
    for id in &started {
        assert_eq!(p.json(["poll", id])["status"], "running");
    }
    for id in &started[..started.len() / 2] {
        assert_eq!(p.json(["kill", id, "--grace", "0"])["status"], "killed");
    }
    let again = p.run("echo well; exit 6");
    assert_eq!((p.wait(&again)["exit_code"].as_i64(), p.engine()), (Some(6), engine));
}

#[test]
fn where_no_process_can_be_made_nothing_is_begun_and_later_all_is_well() {
    let p = product();
    let few = match Group::v1("pids") {
        Ok(group) => group,
        Err(why) => return machine::skipped("where_no_process_can_be_made_nothing_is_begun", format!("{why:#}")),
    };
    let started = Answer::from(few.around(&p.command(["run", "--json", "--", "exec sleep 1000"])).output().unwrap()).json();
    let running = started["session_id"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    // None at all, and then one, which a keeper, its other half and the nest all want.
    for more in [None, Some(0), Some(1)] {
        few.set("pids.max", "max").unwrap();
        // What the last try made would be counted, and then make room; so would what the nest has yet to make.
        eventually("the nest to be full, and only one pair", || {
            let (waiting, others): (Vec<_>, Vec<_>) = p.processes().into_iter().partition(|(_, line)| line.contains(UNNAMED));
            // The nest and its four; the engine, two keepers and the command.
            (waiting.len() == 5 && others.len() == 4).then_some(())
        });
        let count: u32 = few.get("pids.current").unwrap().parse().unwrap();
        few.set("pids.max", &more.map_or(1, |more| count + more).to_string()).unwrap();
        let answer = p.call(["run", "--json", "--", "touch never"]);
        let said = answer.json();
        assert!(answer.code.is_some_and(|c| c != 0), "with room for {more:?}: {said}");
        assert!(said["error"].as_str().is_some_and(|e| e.contains("temporarily unavailable")), "with room for {more:?}: {said}");
        assert_eq!(p.json(["poll", &running])["status"], "running");
        assert!(!p.work().join("never").exists());
    }
    few.set("pids.max", "max").unwrap();
    let id = p.run("exit 8");
    assert_eq!(p.wait(&id)["exit_code"], 8);
    assert_eq!(p.json(["kill", &running])["status"], "killed");
    p.shut_down().unwrap();
}

#[test]
fn a_keeper_that_dies_where_no_process_can_be_made_is_replaced_later() {
    let p = product();
    let few = match Group::v1("pids") {
        Ok(group) => group,
        Err(why) => return machine::skipped("a_keeper_that_dies_where_no_process_can_be_made", format!("{why:#}")),
    };
    let line = "echo one; touch ready; while [ ! -e gate ]; do read -t 0.01 <> fifo; done; echo two; exit 5";
    assert!(Command::new("mkfifo").arg(p.work().join("fifo")).status().unwrap().success());
    let started = Answer::from(few.around(&p.command(["run", "--json", "--", line])).output().unwrap()).json();
    let id = started["session_id"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    ready(&p);
    let was = p.meta(&id);
    few.set("pids.max", "1").unwrap();
    kill_and_wait(was.pump).unwrap();
    eventually("the death to be noted", || (p.meta(&id).deaths.0 > 0).then_some(()));
    std::fs::write(p.work().join("gate"), "").unwrap();
    few.set("pids.max", "max").unwrap();
    let ended = p.wait(&id);
    assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(5), Some("one\ntwo\n")), "{ended}");
    p.shut_down().unwrap();
}

#[test]
fn a_fork_bomb_is_stopped_whole() {
    for config in ["", "engine.cgroup = false"] {
        let p = product();
        p.configure(config);
        let few = match Group::v1("pids") {
            Ok(group) => group,
            Err(why) => return machine::skipped("a_fork_bomb_is_stopped_whole", format!("{why:#}")),
        };
        few.set("pids.max", "150").unwrap();
        let bomb = format!("echo $$ > {}/cgroup.procs; trap '' TERM; b() {{ b & b & b; }}; b 2>/dev/null", few.path.display());
        let id = p.run(&bomb);
        eventually("the bomb", || (few.get("pids.events").ok()? != "max 0").then_some(()));
        let began = Instant::now();
        let killed = p.json(["kill", &id, "--grace", "0.3"]);
        assert_eq!((killed["status"].as_str(), killed["completion_reason"].as_str()), (Some("killed"), Some("killed")), "{killed}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        assert_eq!(alive_in(&p.work()), []);
        assert_eq!(few.pids(), [0; 0]);
        let next = p.run("exit 0");
        assert_eq!(p.wait(&next)["exit_code"], 0);
    }
}

#[test]
fn a_line_that_never_ends_takes_no_memory_and_what_is_kept_is_right() {
    let p = product();
    const LEN: u64 = 256 << 20;
    let id = p.run(&format!("head -c {LEN} /dev/zero | tr '\\0' x; echo; exit 2"));
    assert_eq!(p.wait(&id)["exit_code"], 2);
    let peak = |pid: u32| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap_or("0 kB");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let (before, page) = (peak(p.engine()), p.json(["log", &id]));
    let polled = p.json(["poll", &id]);
    assert_eq!(polled["output_bytes"], LEN + 1, "{}", polled["gaps"]);
    let gaps = polled["gaps"].as_array().unwrap();
    assert_eq!((gaps.len(), gaps[0]["why"].as_str()), (1, Some("retention")), "{}", polled["gaps"]);
    let missing = gaps[0]["to"].as_u64().unwrap() - gaps[0]["from"].as_u64().unwrap();
    let raw = p.call(["log", "--raw", &id]).out;
    assert_eq!(raw.len() as u64 + missing, LEN + 1);
    assert!(raw.len() >= 65 << 20, "the head and 64 MiB of the end");
    assert!(raw[..raw.len() - 1].iter().all(|b| *b == b'x') && raw.last() == Some(&b'\n'));
    assert_eq!(page["total_lines"], 1, "{}", page["showing"]);
    assert!(page["output"].as_str().unwrap().len() <= 200_000);
    assert!(peak(p.engine()) < 100 << 10, "{} kB before, {} kB after", before, peak(p.engine()));
}

#[test]
fn the_pump_of_an_endless_line_stays_small() {
    let p = product();
    let id = p.run("head -c 64M /dev/zero | tr '\\0' x; touch ready; exec sleep 1000");
    ready(&p);
    eventually("all of it", || (p.json(["poll", &id])["output_bytes"] == 64 << 20).then_some(()));
    for pid in [p.meta(&id).pump, p.meta(&id).holder] {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let anon = status.lines().find_map(|l| l.strip_prefix("RssAnon:")).unwrap().trim().trim_end_matches(" kB").to_owned();
        assert!(anon.parse::<u64>().unwrap() < 4 << 10, "{anon} kB");
    }
}

#[test]
fn a_command_that_closes_its_output_and_runs_on_is_running() {
    let p = product();
    let id = p.run("echo said; exec >&- 2>&-; touch ready; while [ ! -e gate ]; do sleep 0.01; done; exit 4");
    ready(&p);
    let follower = p.command(["log", &id, "--follow"]).stdout(Stdio::piped()).spawn().unwrap();
    let polled = p.json(["poll", &id]);
    assert_eq!(
        (polled["status"].as_str(), polled["phase"].as_str(), polled.get("exit_code")),
        (Some("running"), Some("running"), None),
        "{polled}"
    );
    p.kill_engine();
    assert_eq!(p.json(["poll", &id])["phase"], "running");
    std::fs::write(p.work().join("gate"), "").unwrap();
    let ended = p.wait(&id);
    assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(4), Some("said\n")), "{ended}");
    assert_eq!(Answer::from(follower.wait_with_output().unwrap()).text(), "said\n");
    assert_eq!(p.json(["poll", &id])["phase"], "exited");
}

#[test]
fn a_daemon_that_holds_the_output_delays_its_end_and_not_that_of_the_command() {
    let p = product();
    let id = p.run("setsid sh -c 'echo $$ > daemon; while [ ! -e gate ]; do sleep 0.01; done; echo late' & while [ ! -s daemon ]; do sleep 0.01; done; echo early; exit 3");
    let ended = p.wait(&id);
    assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(3), Some("early\n")), "{ended}");
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["status"].as_str(), polled["phase"].as_str()), (Some("exited"), Some("draining")), "{polled}");
    p.kill_engine();
    let polled = p.json(["poll", &id]);
    assert_eq!((polled["phase"].as_str(), polled["exit_code"].as_i64()), (Some("draining"), Some(3)), "also after a crash: {polled}");
    assert_eq!(p.json(["rm", &id])["code"], "still_running", "there is more to come");
    std::fs::write(p.work().join("gate"), "").unwrap();
    let done = eventually("the end of the output", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "exited"));
    assert_eq!((done["exit_code"].as_i64(), done["output_preview"].as_str()), (Some(3), Some("early\nlate\n")), "{done}");
}

#[test]
fn a_daemon_that_lets_go_of_the_output_is_left_alone_and_counted() {
    let p = product();
    let id = p.run("setsid sh -c 'echo $$ > daemon; exec sleep 1000' >/dev/null 2>&1 & while [ ! -s daemon ]; do sleep 0.01; done; exit 0");
    p.wait(&id);
    let done = eventually("the end of the output", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "exited"));
    assert_eq!(done["left_running"], 1, "{done}");
    let daemon: u32 = std::fs::read_to_string(p.work().join("daemon")).unwrap().trim().parse().unwrap();
    assert!(!wait_for_end(daemon, Duration::ZERO), "nothing is killed unasked");
    kill_and_wait(daemon).unwrap();
}

#[test]
fn the_end_of_the_starters_whole_cgroup_harms_nothing() {
    let p = product();
    let group = match Group::v2() {
        Ok(group) if group.path.join("cgroup.kill").exists() => group,
        Ok(group) => {
            return machine::skipped(
                "the_end_of_the_starters_whole_cgroup_harms_nothing",
                format!("{} has no cgroup.kill", group.path.display()),
            );
        }
        Err(why) => return machine::skipped("the_end_of_the_starters_whole_cgroup_harms_nothing", format!("{why:#}")),
    };
    // The starter stays, as a shell or an agent would.
    let starter = "\"$0\" run --json -- 'echo one; touch ready; while [ ! -e gate ]; do sleep 0.01; done; echo two; exit 7' > started; exec sleep 1000";
    let mut call = Command::new("sh");
    call.args(["-c", starter]).arg(env!("CARGO_BIN_EXE_outlast"));
    let template = p.command(["list"]);
    call.env_clear().envs(template.get_envs().filter_map(|(n, v)| Some((n, v?)))).current_dir(p.work());
    let mut shell = group.around(&call).stdout(Stdio::null()).spawn().unwrap();
    ready(&p);
    let started = eventually("the answer", || std::fs::read_to_string(p.work().join("started")).ok().filter(|t| t.ends_with('\n')));
    let started: Value = serde_json::from_str(&started).unwrap();
    assert_eq!(started.get("warnings"), None, "{started}");
    let id = started["session_id"].as_str().unwrap();
    let engine = p.engine();
    // The call that printed the answer leaves; what it started is not there, or this never comes.
    eventually("the starter is alone in its cgroup", || (group.pids() == [shell.id()]).then_some(()));
    group.set("cgroup.kill", "1").unwrap();
    shell.wait().unwrap();
    assert_eq!(p.engine(), engine);
    assert_eq!(p.json(["poll", id])["phase"], "running");
    std::fs::write(p.work().join("gate"), "").unwrap();
    let ended = p.wait(id);
    assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(7), Some("one\ntwo\n")), "{ended}");
}

#[test]
fn a_home_from_which_nothing_may_be_executed_has_the_installed_keeper() {
    let tmp = tempfile::tempdir().unwrap();
    let ran = in_own_mounts(|| {
        mount_tmpfs(tmp.path(), "noexec").unwrap();
        let p = Product::in_dir(env!("CARGO_BIN_EXE_outlast"), tmp.path());
        let ended = p.json(["run", "--wait", "--", "echo here; exit 3"]);
        assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(3), Some("here\n")), "{ended}");
        let id = p.run("setsid sleep 1000 & touch ready; wait");
        eventually("the file ready", || p.work().join("ready").exists().then_some(()));
        kill_and_wait(p.meta(&id).pump).unwrap();
        p.kill_engine();
        // The keeper's socket is gone, and the engine signals the keeper to make another.
        std::fs::remove_file(p.socket_dir().unwrap().join(&id)).unwrap();
        assert_eq!(p.json(["kill", "--grace", "0", &id])["status"], "killed");
    });
    if let Err(why) = ran {
        machine::skipped("bad_times::a_home_from_which_nothing_may_be_executed_has_the_installed_keeper", format!("{why:#}"));
    }
}
