//! Many at once, too much at once.

use crate::support::*;
use outlast_testkit::machine::{self, Group};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn rss_anon_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    status.lines().find_map(|l| l.strip_prefix("RssAnon:")).unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn case_246_fifty_that_print_a_megabyte_a_second_slow_nothing_down() {
    let p = product();
    p.configure("log.tail_bytes = '1MiB'");
    assert!(Command::new("mkfifo").arg(p.work().join("never")).status().unwrap().success());
    // No other program is started for it: ten blocks of 100,000 bytes a second.
    let line = "printf -v b '%099999d' 0; exec 3<>never; while [ ! -e gate ]; do printf '%s\\n' \"$b\"; read -t 0.1 -u 3; done; exit 0";
    let ids: Vec<String> = (0..50).map(|_| p.run(line)).collect();
    for id in &ids {
        eventually("output", || (p.json(["poll", id])["output_bytes"].as_u64() >= Some(100_000)).then_some(()));
    }
    let mut took: Vec<Duration> = Vec::new();
    for id in ids.iter().cycle().take(60) {
        let began = Instant::now();
        let polled = p.json(["poll", id]);
        took.push(began.elapsed());
        assert_eq!(polled["status"], "running", "{polled}");
    }
    took.sort();
    assert!(took[30] < Duration::from_millis(500), "half of the polls took longer than {:?}", took[30]);
    let engine = rss_anon_kib(p.engine());
    assert!(engine < 64 << 10, "the engine has {engine} kB");
    for id in ids.iter().take(5) {
        let pump = rss_anon_kib(p.meta(id).pump);
        assert!(pump < 4 << 10, "a pump has {pump} kB");
    }
    std::fs::write(p.work().join("gate"), "").unwrap();
    for id in &ids {
        assert_eq!(p.wait(id)["exit_code"], 0);
    }
}

#[test]
fn case_247_a_reader_that_does_not_read_delays_nothing() {
    let p = product();
    let id = p.run("head -c 20000000 /dev/zero | tr '\\0' x; touch ready; while [ ! -e gate ]; do sleep 0.01; done; exit 1");
    let readers: Vec<_> = (0..3).map(|_| p.command(["log", "--raw", "--follow", &id]).stdout(Stdio::piped()).spawn().unwrap()).collect();
    // All output was taken from the command, although the readers do not read.
    eventually("the command to have printed", || p.work().join("ready").exists().then_some(()));
    eventually("all of it", || (p.json(["poll", &id])["output_bytes"] == 20_000_000).then_some(()));
    std::fs::write(p.work().join("gate"), "").unwrap();
    assert_eq!(p.wait(&id)["exit_code"], 1);
    for reader in readers {
        let all = reader.wait_with_output().unwrap();
        assert_eq!(all.stdout.len(), 20_000_000, "who reads late has missed nothing");
    }
}

#[test]
fn case_248_a_command_that_takes_all_memory_is_what_dies_of_it() {
    let p = product();
    let little = match Group::v1("memory") {
        Ok(group) => group,
        Err(why) => return machine::skipped("case_248_a_command_that_takes_all_memory_is_what_dies_of_it", format!("{why:#}")),
    };
    little.set("memory.limit_in_bytes", "200M").unwrap();
    // Everything of ours is in there with it.
    let started = Answer::from(little.around(&p.command(["run", "--json", "--", "exec tail /dev/zero"])).output().unwrap()).json();
    let id = started["session_id"].as_str().unwrap_or_else(|| panic!("{started}"));
    let engine = p.engine();
    let ended = p.wait(id);
    assert_eq!((ended["signal"].as_str(), ended["completion_reason"].as_str()), (Some("SIGKILL"), Some("exited")), "{ended}");
    assert_eq!(p.engine(), engine, "the engine lives");
    let next = p.run("exit 2");
    assert_eq!(p.wait(&next)["exit_code"], 2);
    p.shut_down().unwrap();
}

#[test]
fn case_248_commands_are_offered_before_us_when_memory_runs_out() {
    let p = product();
    let id = p.run("exec sleep 1000");
    let score = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap().trim().parse::<i32>().unwrap();
    let meta = p.meta(&id);
    for ours in [meta.pump, meta.holder, p.engine()] {
        assert!(score(meta.cmd) > score(ours));
    }
}

#[test]
fn case_249_what_an_abandoned_turn_started_is_seen_and_ends_by_its_deadline() {
    let p = product();
    let turn = [("OUTLAST_SESSION", "s"), ("OUTLAST_TASK", "turn")];
    let started = Answer::from(
        p.command(["run", "--json", "--timeout", "1", "--", "trap '' TERM; touch ready; while :; do sleep 0.01; done"])
            .envs(turn)
            .output()
            .unwrap(),
    );
    let id = started.json()["session_id"].as_str().unwrap().to_owned();
    // Client and engine are gone. The process is still listed, counts as active, and ends.
    p.kill_engine();
    assert_eq!(p.json(["list", "--session", "s"])["processes"].as_array().map(Vec::len), Some(1));
    assert_eq!(p.json(["active", "--session", "s"])["active"], true);
    let ended = p.wait(&id);
    assert_eq!((ended["completion_reason"].as_str(), ended["termination_source"].as_str()), (Some("killed"), Some("timeout")), "{ended}");
    assert_eq!(ended["signal"], "SIGKILL");
    assert_eq!(p.call(["wait", &id]).code, Some(124));
    assert_eq!(p.json(["active", "--session", "s"])["active"], false);
}

#[test]
fn a_process_with_a_thousand_followers_is_written_to_and_stopped_in_time() {
    use outlast_client::{Chunk, Client, Connect, From};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const NAME: &str = "load::a_process_with_a_thousand_followers_is_written_to_and_stopped_in_time";
    const FOLLOWERS: usize = 1_000;
    let limit = getrlimit(Resource::Nofile).maximum;
    if limit.is_some_and(|most| most < 4 * FOLLOWERS as u64) {
        return machine::skipped(NAME, "open files for a thousand connections");
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).unwrap();
    let p = product();
    // Only KILL ends it, so that the whole grace period is used.
    let id = p.run_with(&["--stdin"], "trap '' TERM; echo up; read x; echo got $x; while :; do sleep 0.1; done");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let follow = |n: usize| {
        let (to, id) = (Connect::to(p.home().root), id.clone());
        async move {
            let client = Client::connect(&to).await.unwrap_or_else(|e| panic!("follower {n}: {e}"));
            let mut chunks = client.follow_to_exit(&id, From::Byte(0));
            let first = chunks.next().await.unwrap();
            assert!(matches!(&first, Some(Chunk::Bytes { bytes, .. }) if bytes.starts_with(b"up\n")), "{first:?}");
            chunks
        }
    };
    // Each follower has read everything, and waits for more.
    let mut followers = Vec::new();
    for n in 0..FOLLOWERS {
        followers.push(runtime.block_on(follow(n)));
    }
    p.call(["submit", &id, "this"]).good();
    for chunks in &mut followers {
        let next = runtime.block_on(chunks.next()).unwrap();
        assert!(matches!(&next, Some(Chunk::Bytes { bytes, .. }) if bytes == b"got this\n"), "{next:?}");
    }
    let began = Instant::now();
    let killed = p.json(["kill", "--grace", "1", &id]);
    let took = began.elapsed();
    assert_eq!(killed["status"], "killed", "{killed}");
    eprintln!("stopped in {took:?} with {FOLLOWERS} followers");
    assert!(took < Duration::from_secs(2), "a grace of 1 s took {took:?}");
    for mut chunks in followers {
        assert_eq!(runtime.block_on(chunks.next()).unwrap(), None, "each follower is told that it is over");
    }
}

#[test]
fn a_command_that_the_kernel_killed_for_memory_says_so() {
    const NAME: &str = "load::a_command_that_the_kernel_killed_for_memory_says_so";
    let group = match Group::v1("memory").and_then(|group| group.set("memory.limit_in_bytes", "209715200").map(|()| group)) {
        Ok(group) => group,
        Err(why) => return machine::skipped(NAME, format!("{why:#}")),
    };
    // If swap is limited too, the command cannot use it. If not, most machines have none.
    let _no_swap = group.set("memory.memsw.limit_in_bytes", "209715200");
    let p = product();
    assert!(group.around(&p.command(["engine", "start"])).output().unwrap().status.success());
    // It keeps a line in memory until the line ends, which never happens.
    let hog = "exec tail /dev/zero";
    let id = p.run_with(&["--notify"], hog);
    let ended = p.wait(&id);
    assert_eq!((ended["signal"].as_str(), ended["oom"].as_bool()), (Some("SIGKILL"), Some(true)), "{ended}");
    assert_eq!(p.json(["poll", &id])["oom"], true);
    // Killed by hand, after memory had run out before.
    let id = p.run("kill -9 $$");
    let ended = p.wait(&id);
    assert_eq!((ended["signal"].as_str(), ended.get("oom")), (Some("SIGKILL"), None), "{ended}");
    p.shut_down().unwrap();
}
