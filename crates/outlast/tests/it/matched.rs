//! A watched line is found once, also if engine or keeper is killed meanwhile.

use crate::support::*;
use outlast_core::{Matched, Record};
use outlast_store::meta::flag;
use outlast_testkit::keeper::{Nursery, Nursling};
use outlast_testkit::points::Points;
use std::io::Write as _;
use std::path::Path;

const KEEPER: &str = env!("CARGO_BIN_EXE_outlast-keeper");

struct Watched {
    nursery: Nursery,
    points: Points,
}

impl Watched {
    fn new() -> Self {
        let nursery = Nursery::new(&std::env::temp_dir()).unwrap();
        let points = Points::new(nursery.path().join("points")).unwrap();
        Self { nursery, points }
    }

    fn start(&self, patterns: &[&str], pty: bool, line: &str) -> Nursling {
        let mut launch = self.nursery.shell(line);
        launch.cwd = self.nursery.path().into();
        launch.pty = pty.then_some((30, 120));
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        self.nursery.start_watched(Path::new(KEEPER), launch, Some(self.points.dir()), &patterns).unwrap()
    }

    /// Runs to the end; the facts.
    fn facts(&self, patterns: &[&str], pty: bool, line: &str) -> Vec<Matched> {
        let mut child = self.start(patterns, pty, line);
        child.wait_gone().unwrap();
        facts(&child)
    }
}

fn facts(child: &Nursling) -> Vec<Matched> {
    let read = outlast_store::journal::read_from(&child.dir.journal(), 0).unwrap();
    assert_eq!(read.damage, None);
    let matched = |(_, record)| match record {
        Record::Matched(matched) => Some(matched),
        _ => None,
    };
    read.records.into_iter().filter_map(matched).collect()
}

fn total(facts: &[Matched]) -> u64 {
    assert!(facts.windows(2).all(|f| f[0].upto <= f[1].offset && f[0].up <= f[1].up), "each begins where the last one stopped: {facts:?}");
    facts.iter().map(|f| f.count).sum()
}

#[test]
fn case_119_nothing_that_matches_is_nothing_written() {
    let w = Watched::new();
    assert_eq!(w.facts(&["ERROR"], false, "seq 1 1000; echo error"), []);
}

#[test]
fn case_120_case_122_a_fact_has_pattern_line_and_place() {
    let w = Watched::new();
    for pty in [false, true] {
        let facts = w.facts(&["WARN", "ERROR"], pty, "echo INFO ok; echo 'ERROR: disk full  '; echo WARN: hmm");
        assert_eq!(total(&facts), 2);
        assert_eq!((facts[0].pattern.as_str(), facts[0].lines[0].as_str()), ("ERROR", "ERROR: disk full"));
        assert_eq!(facts[0].offset, if pty { 9 } else { 8 });
        assert!(facts[0].at.micros() > 0 && facts[0].up > 0);
    }
}

#[test]
fn case_137_w1_a_line_in_two_writes_is_quoted_whole() {
    let w = Watched::new();
    let facts = w.facts(&["ERROR"], false, "printf 'it says ERR'; sleep 0.05; printf 'OR and'; sleep 0.05; echo ' more'");
    assert_eq!((facts.len(), facts[0].count, facts[0].offset, facts[0].lines.join("|").as_str()), (1, 1, 0, "it says ERROR and more"));
}

#[test]
fn case_138_w1_colours_do_not_hide_what_is_seen() {
    let w = Watched::new();
    let facts = w.facts(&["Build succeeded"], true, r"printf '\033[1mBuild \033[32msucc\033[0meeded\n'");
    assert_eq!((total(&facts), facts[0].lines.join("|").as_str()), (1, "Build succeeded"));
}

#[test]
fn a_prompt_is_found_while_it_waits_and_once() {
    let w = Watched::new();
    for pty in [false, true] {
        let fifo = w.nursery.path().join(format!("fifo{pty}"));
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
        let mut child = w.start(&["Password:"], pty, &format!("printf 'Password: '; read go < {}; echo Password: again", fifo.display()));
        let found = eventually("the prompt", || facts(&child).pop());
        assert_eq!((found.count, found.offset, found.lines.join("|").as_str()), (1, 0, "Password:"));
        std::fs::write(&fifo, "go\n").unwrap();
        child.wait_gone().unwrap();
        assert_eq!(total(&facts(&child)), 1);
    }
}

#[test]
fn case_135_what_comes_after_the_end_does_not_count() {
    let w = Watched::new();
    let mut child = w.start(&["ERROR"], false, "(sleep 0.2; echo ERROR too late) & echo ERROR; printf 'ERROR at the end'");
    let meta = child.wait_gone().unwrap();
    let facts = facts(&child);
    assert_eq!(total(&facts), 2);
    let log_end = meta.ended.unwrap().log_end;
    assert!(facts.iter().all(|f| f.offset < log_end && f.upto <= log_end), "{facts:?} {log_end}");
    assert!(child.log().unwrap().ends_with(b"too late\n"));
}

#[test]
fn facts_of_a_second_are_one_record() {
    let w = Watched::new();
    let facts = w.facts(&["tick"], false, "for n in $(seq 1 150); do echo tick $n; sleep 0.01; done");
    assert_eq!(total(&facts), 150);
    assert!((2..=6).contains(&facts.len()), "{} records", facts.len());
    assert_eq!((facts[0].lines[0].as_str(), facts[1].lines.len(), facts[1].cut), ("tick 1", 20, true));
}

#[test]
fn every_line_of_a_flood_counts() {
    let w = Watched::new();
    let facts = w.facts(&["y", "1"], false, "yes | head -n 3000000; seq 1 300000");
    let with_1 = (1..=300_000).filter(|n: &u32| n.to_string().contains('1')).count() as u64;
    assert_eq!(total(&facts), 3_000_000 + with_1);
}

/// Killed exactly there, once: the facts are the same as without a kill.
fn killed_at(point: &str, pty: bool) {
    let w = Watched::new();
    w.points.arm(point).unwrap();
    let mut child =
        w.start(&["ERROR", "é!"], pty, "for n in 1 2 3 4; do echo ERROR $n; echo ok; printf 'caf'; sleep 0.3; echo 'é!'; done; exit 3");
    let victim = eventually(&format!("a process at {point}"), || w.points.held(point));
    kill_and_wait(victim).unwrap();
    w.points.release(point).unwrap();
    let meta = child.wait_gone().unwrap();
    let facts = facts(&child);
    assert_eq!(total(&facts), 8, "killed at {point}, pty {pty}: {facts:?}");
    assert_eq!(meta.deaths, (1, 0), "{point}");
    let quoted: Vec<&str> = facts.iter().flat_map(|f| f.lines.iter().map(String::as_str)).collect();
    assert_eq!(quoted, ["ERROR 1", "café!", "ERROR 2", "café!", "ERROR 3", "café!", "ERROR 4", "café!"], "killed at {point}, pty {pty}");
    assert_eq!(meta.watched.waiting, None);
}

const POINTS: [&str; 9] = [
    "pump.batch.written",
    "pump.batch.committed",
    "matched.search",
    "matched.stored",
    "matched.before-append",
    "matched.after-append",
    "matched.told",
    "matched.cleared",
    "pump.recorded",
];

#[test]
fn a_pump_killed_around_a_match_in_a_pipe_neither_loses_nor_doubles_it() {
    std::thread::scope(|scope| POINTS.iter().for_each(|point| drop(scope.spawn(|| killed_at(point, false)))));
}

#[test]
fn a_pump_killed_around_a_match_on_a_terminal_neither_loses_nor_doubles_it() {
    std::thread::scope(|scope| POINTS.iter().for_each(|point| drop(scope.spawn(|| killed_at(point, true)))));
}

#[test]
fn pumps_killed_again_and_again_count_every_line_once() {
    let w = Watched::new();
    let mut child = w.start(&["7"], false, "seq 1 400000; sleep 0.2; seq 1 1000");
    let (mut killed, mut upto) = (0, 0);
    let ended = |m: &outlast_store::meta::Snapshot| m.ended.is_some();
    while killed < 40 {
        // Only one that got on is killed: three that did not would be taken for victims of what they search.
        let meta = eventually("a pump that gets on, or the end", || {
            child.meta().ok().filter(|m| ended(m) || (m.watched.upto > upto && m.deaths.0 == killed && m.pump != 0))
        });
        if ended(&meta) {
            break;
        }
        kill_and_wait(meta.pump).unwrap();
        (killed, upto) = (killed + 1, meta.watched.upto);
        eventually("another pump", || child.meta().ok().filter(|m| m.pump != meta.pump && m.deaths.0 == killed));
    }
    child.wait_gone().unwrap();
    let with_7 = |to: u32| (1..=to).filter(|n| n.to_string().contains('7')).count() as u64;
    assert_eq!(total(&facts(&child)), with_7(400_000) + with_7(1000), "after {killed} kills");
    assert!(killed > 3, "{killed}");
}

#[test]
fn output_that_kills_every_pump_is_searched_no_more() {
    let w = Watched::new();
    let point = "matched.search";
    w.points.arm(point).unwrap();
    let mut child = w.start(&["ERROR"], false, "echo ERROR deadly; sleep 0.3; echo ERROR; seq 1 1000; exit 4");
    for time in 1..=3 {
        let victim = eventually("a pump that searches", || w.points.held(point));
        std::fs::remove_file(w.points.dir().join(format!("{point}.held.{victim}"))).unwrap();
        if time < 3 {
            w.points.arm(point).unwrap();
        }
        kill_and_wait(victim).unwrap();
    }
    let meta = child.wait_gone().unwrap();
    assert!(meta.has(flag::SCAN_OFF));
    assert_eq!(meta.deaths.0, 3);
    assert_eq!(facts(&child), []);
    assert_eq!(child.log().unwrap().split(|b| *b == b'\n').count(), 1003);
}

#[test]
fn a_journal_that_cannot_be_written_delays_a_match_and_nothing_else() {
    let w = Watched::new();
    let gate = w.nursery.path().join("gate");
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
    // With both directions open here, a reader of a line neither sees an end nor waits for a writer.
    let mut opened = std::fs::File::options().read(true).write(true).open(&gate).unwrap();
    let line = "read go < gate; echo ERROR 1; read go < gate; echo ERROR 2; read go < gate";
    let mut child = w.start(&["ERROR"], false, line);
    // A directory in its place refuses as a full disk does.
    std::fs::create_dir(child.dir.journal()).unwrap();
    for n in 1..=2 {
        opened.write_all(b"go\n").unwrap();
        let waits = eventually("a match in meta", || child.meta().ok()?.watched.waiting.filter(|w| w.count == n));
        assert_eq!(waits.offset, 0);
    }
    std::fs::remove_dir(child.dir.journal()).unwrap();
    let found = eventually("the record", || facts(&child).pop());
    assert_eq!((found.count, found.lines.join("|").as_str()), (2, "ERROR 1|ERROR 2"));
    opened.write_all(b"go\n").unwrap();
    let meta = child.wait_gone().unwrap();
    assert_eq!((facts(&child).len(), meta.watched.waiting), (1, None));
}

#[test]
fn a_match_that_could_never_be_written_stays_in_meta() {
    let w = Watched::new();
    let mut launch = w.nursery.shell("sleep 0.1; echo ERROR; exit 2");
    launch.keep.head = 1 << 20;
    let mut child = w.nursery.start_watched(Path::new(KEEPER), launch, None, &["ERROR".to_owned()]).unwrap();
    std::fs::create_dir(child.dir.journal()).unwrap();
    let meta = child.wait_gone().unwrap();
    assert_eq!(meta.watched.waiting.map(|w| (w.count, w.offset, w.pattern)), Some((1, 0, 0)));
    assert!(meta.ended.is_some());
}

#[test]
fn a_match_starts_an_engine_where_none_is() {
    let w = Watched::new();
    let mut launch = w.nursery.shell("echo ERROR; exec sleep 1000");
    launch.engine = Some(env!("CARGO_BIN_EXE_outlast").into());
    let mut child = w.nursery.start_watched(Path::new(KEEPER), launch, None, &["ERROR".to_owned()]).unwrap();
    let lock = w.nursery.home().lock();
    let engine: u32 = eventually("an engine", || {
        let held = outlast_store::lock::is_held(&lock).unwrap_or(false);
        held.then(|| std::fs::read_to_string(&lock).ok()?.trim().parse().ok()).flatten()
    });
    assert_eq!(total(&facts(&child)), 1);
    let cmd = child.meta().unwrap().cmd;
    kill_and_wait(cmd).unwrap();
    child.wait_gone().unwrap();
    // Asked to, it takes along what is its own, its cgroup too.
    rustix::process::kill_process(rustix::process::Pid::from_raw(engine as i32).unwrap(), rustix::process::Signal::TERM).unwrap();
    assert!(wait_for_end(engine, std::time::Duration::from_secs(20)), "the engine does not stop");
}
