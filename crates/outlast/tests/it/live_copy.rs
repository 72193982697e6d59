//! An engine that may not open the live copy of `meta` in its keepers: it may do less than they may, so `/proc` refuses their descriptors.

use crate::places::by_way_of;
use crate::support::*;
use outlast_testkit::machine;
use outlast_testkit::os::Refusal;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs what follows as root who may do less. In a container CAP_SYS_PTRACE is missing already; CAP_MKNOD is not.
const WITH_LESS: [&str; 3] = ["setpriv", "--bounding-set=-sys_ptrace,-mknod", "--inh-caps=-sys_ptrace,-mknod"];

/// How often the command is made to print something.
const LINES: u32 = 10;

/// How long all of it may take to be shown. From the file alone each line takes about a second.
const SHOWN_WITHIN: Duration = Duration::from_secs(4);

#[test]
fn an_engine_with_fewer_capabilities_than_the_keepers_shows_output_at_once() {
    const NAME: &str = "live_copy::an_engine_with_fewer_capabilities_than_the_keepers_shows_output_at_once";
    let p = product();
    let Some(seen) = follow_with_less(&p, NAME) else { return };
    assert!(seen.took < SHOWN_WITHIN, "{LINES} lines took {:?}", seen.took);
    assert!(seen.processor < Duration::from_secs(1), "the engine took {:?} in {:?}", seen.processor, seen.took);
}

#[test]
fn an_engine_without_the_live_copy_reads_the_file_and_waits_in_between() {
    const NAME: &str = "live_copy::an_engine_without_the_live_copy_reads_the_file_and_waits_in_between";
    // The keepers cannot pass a descriptor, like those of an earlier version. The engine asks its fork server by the same call, and
    // executes keepers where that fails.
    let p = product().refusing(Refusal { number: libc::SYS_sendmsg, argument: None, errno: libc::EPERM });
    let Some(seen) = follow_with_less(&p, NAME) else { return };
    assert!(seen.took > SHOWN_WITHIN, "the engine has the live copy: {LINES} lines took {:?}", seen.took);
    assert!(seen.processor < seen.took / 5, "the engine took {:?} in {:?}", seen.processor, seen.took);
}

struct Seen {
    /// From the first line that was asked for until the last was shown.
    took: Duration,
    /// What the engine took of a processor meanwhile.
    processor: Duration,
}

/// Follows a command through an engine that was started after it and may do less than its keepers. Nothing where the machine does not allow
/// that.
fn follow_with_less(p: &Product, name: &str) -> Option<Seen> {
    if !machine::is_root() {
        machine::skipped(name, "root, to give up capabilities");
        return None;
    }
    let id = p.run("mkfifo words; echo ready; exec 3<>words; while read word <&3; do echo $word; [ $word = end ] && break; done");
    let meta = eventually("a command", || Some(p.meta(&id)).filter(|meta| meta.cmd != 0));
    p.kill_engine();
    let is_refused = |pid: u32| {
        let mut tried = Command::new(WITH_LESS[0]);
        let tried = tried.args(&WITH_LESS[1..]).args(["readlink", &format!("/proc/{pid}/fd/0")]).output();
        tried.is_ok_and(|tried| !tried.status.success())
    };
    if !is_refused(meta.pump) || !is_refused(meta.holder) {
        machine::skipped(name, "setpriv, and a kernel that keeps descriptors from who may do less");
        return None;
    }
    // A list starts the engine, with what its own caller may do.
    Answer::from(by_way_of(p, &WITH_LESS, &["list", "--json"]).output().unwrap()).good();
    let engine = p.engine();
    let mut follower = p.command(["log", &id, "--follow", "--raw"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || shown.next().expect("a line").expect("it can be read");
    assert_eq!(next(), "ready");
    let mut words = File::options().write(true).open(p.work().join("words")).unwrap();
    // The first one waits until the engine has connected to the keepers.
    writeln!(words, "first").unwrap();
    assert_eq!(next(), "first");
    let (began, before) = (Instant::now(), processor_of(engine));
    for line in 0..LINES {
        writeln!(words, "line-{line}").unwrap();
        assert_eq!(next(), format!("line-{line}"));
    }
    let seen = Seen { took: began.elapsed(), processor: processor_of(engine) - before };
    writeln!(words, "end").unwrap();
    assert_eq!(next(), "end");
    assert!(shown.next().is_none());
    assert!(follower.wait().unwrap().success());
    assert_eq!(p.wait(&id)["exit_code"], 0);
    assert_eq!(p.engine(), engine, "it is the same engine");
    Some(seen)
}

/// What a process has taken of a processor so far.
fn processor_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let fields: Vec<u64> = stat.rsplit(')').next().unwrap().split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // User and system time, in hundredths of a second.
    Duration::from_millis((fields[11] + fields[12]) * 10)
}
