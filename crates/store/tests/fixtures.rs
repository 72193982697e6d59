//! Folders that earlier versions wrote must stay readable.

use outlast_core::{Cause, Ending, EnvVar, GapWhy, Incarnation, Outcome, OutputEnd, Owner, ProcessId, Record, Spec, Stop, StopWay, Time};
use outlast_store::dir::Home;
use outlast_store::journal::{Journal, read_from};
use outlast_store::lines::{LastLines, LineAt, LineIndex, LineMap, LineTotal, Told, Written};
use outlast_store::segments::{Gap, Keep, LogReader, LogWriter};
use outlast_store::spec::{Kept, Launch, SpecFile};
use std::time::Duration;

const ID: ProcessId = ProcessId::from_bytes([0x01, 0x23, 0x45, 0x67, 0x89, 0xab]);
const KEEP: Keep = Keep { head: 64, segment: 128, tail: 256 };

fn home() -> Home {
    Home::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/state-v1"))
}

fn output() -> Vec<u8> {
    (0..100).flat_map(|n| format!("line {n}\n").into_bytes()).chain(*b"no newline").collect()
}

fn at(seconds: i64) -> Time {
    Time::from_micros((1_700_000_000 + seconds) * 1_000_000 + 123_456)
}

fn records() -> Vec<Record> {
    let by = Owner { session: Some("agent:main".into()), task: Some("build".into()), generation: None };
    let asked = Cause::Asked { by, source: "process.kill".into() };
    vec![
        Record::Started {
            at: at(1),
            of: Incarnation { pid: 4242, start_ticks: 987_654_321, boot: 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff },
        },
        Record::Gap { at: at(2), from: 700, to: 720, why: GapWhy::DiskFull },
        Record::StopAsked { at: at(3), stop: Stop { cause: asked.clone(), way: StopWay::Escalate { grace: Duration::from_secs(2) } } },
        Record::Ended {
            ending: Ending { outcome: Outcome::Signal { number: 15, dumped_core: false }, cause: asked, at: at(4), oom: false },
            log_end: 800,
        },
        Record::OutputClosed { at: at(5), output: OutputEnd { end: 800, left_running: 0 } },
    ]
}

fn spec() -> Spec {
    let owner = Owner { session: Some("agent:main".into()), task: Some("build".into()), generation: Some("g1".into()) };
    let spec = Spec::shell("make all && curl -H …").in_dir("/work").with_env("TOKEN", "…").on_terminal().named("build").owned_by(owner);
    spec.at_most(Duration::from_millis(1_500)).ending_with_the_engine()
}

fn kept() -> Kept {
    Kept {
        id: ID,
        spec: spec(),
        hash: "0123456789abcdef".repeat(4),
        accepted_at: at(0),
        cwd: "/work".into(),
        shell: Some("/bin/bash".into()),
        command_scrubbed: true,
        masks: None,
        env_scrubbed: vec!["TOKEN".into()],
        warnings: vec!["no cgroup".into()],
        keep: KEEP,
    }
}

fn launch() -> Launch {
    Launch {
        program: "/bin/bash".into(),
        argv: vec!["bash".into(), "-c".into(), vec![0xff, 0xfe].into()],
        env: vec![
            EnvVar { name: "TOKEN".into(), value: "not a real one".into() },
            EnvVar { name: "BYTES".into(), value: vec![0x80].into() },
        ],
        cwd: "/work".into(),
        pty: Some((30, 120)),
        stdin: false,
        timeout: Some(Duration::from_millis(1_500)),
        keep: KEEP,
        home: "/home/user/.local/state/outlast".into(),
        run_dir: "/run/user/1000/outlast".into(),
        engine: Some("/usr/bin/outlast".into()),
        cgroup: Some("/sys/fs/cgroup/user.slice".into()),
        oom_score_adj: 200,
        grace: Duration::from_secs(2),
        umask: Some(0o022),
        nofile: Some(1_024),
        program_shown: None,
        cwd_shown: None,
        limits: None,
    }
}

const GAPS: [Gap; 1] = [Gap { from: 700, to: 720, why: GapWhy::DiskFull }];

/// Wrote the fixture, once. Run it again only for a version without a fixture: existing ones must stay readable.
#[test]
#[ignore = "writes into the repository"]
fn generate_fixture_state_v1() {
    let dir = home().process(ID);
    std::fs::create_dir_all(&dir.path).unwrap();
    SpecFile::create(&dir, &kept(), &launch()).unwrap();
    let mut journal = Journal::open_for_append(&dir).unwrap();
    for record in records() {
        journal.append(&record).unwrap();
    }
    let output = output();
    let mut writer = LogWriter::open(&dir, KEEP);
    for (from, to) in [(0, 700), (720, 800)] {
        writer.write_at(from as u64, &output[from..to]).unwrap();
    }
    writer.retain(800).unwrap();
    LineTotal::default().advance(KEEP, &output[..800], |index, count| LineIndex::note(&dir, index, count).unwrap());
}

#[test]
fn fixture_state_v1_is_readable() {
    let home = home();
    assert!(home.ids().unwrap().contains(&ID));
    let dir = home.process(ID);

    assert_eq!(SpecFile::read_kept(&dir).unwrap(), kept());
    assert_eq!(SpecFile::read_launch(&dir).unwrap().unwrap(), launch());

    let journal = read_from(&dir.journal(), 0).unwrap();
    assert_eq!(journal.records.into_iter().map(|(_, r)| r).collect::<Vec<_>>(), records());
    assert_eq!((journal.damage, journal.unknown.len()), (None, 0));

    let output = output();
    let reader = LogReader::open(&dir, KEEP);
    let mut raw = Vec::new();
    let copied = reader.copy_to(0, 800, &GAPS, &mut raw).unwrap();
    assert_eq!(raw, [&output[..64], &output[448..700], &output[720..800]].concat());
    assert_eq!(copied.gaps, [Gap { from: 64, to: 448, why: GapWhy::Retention }, GAPS[0]]);

    let newlines = output[..800].iter().filter(|&&b| b == b'\n').count() as u64;
    let log = Written { end: 800, gaps: &GAPS, total: LineTotal { at: 800, newlines } };
    let lines = LineMap::open(&dir, KEEP).unwrap();
    let begin = |line: u64| if line < 10 { 7 * line } else { 70 + 8 * (line - 10) };
    assert_eq!(lines.offset_of_line(&reader, 80, log).unwrap(), Told { value: LineAt::At(begin(80)), exact: true });
    assert_eq!(
        lines.offset_of_line(&reader, 20, log).unwrap(),
        Told { value: LineAt::Gone { first_kept_line: 57, offset: 448 }, exact: true }
    );
    assert_eq!(
        lines.last_lines(&reader, 2, 1 << 20, log).unwrap(),
        LastLines { offset: 782, line: 99, total: 101, cut: false, exact: true }
    );
}
