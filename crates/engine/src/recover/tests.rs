use super::*;
use crate::final_record::{self, FinalRecord};
use outlast_core::{Cause, Ending, Outcome, OutputEnd, Record, Spec, StartFailure, StopWay};
use outlast_store::meta::{Commit, Meta, flag};
use outlast_store::segments::Keep;
use outlast_store::spec::{Kept, Launch};
use std::sync::atomic::Ordering::SeqCst;

const NOW: Time = Time::from_micros(1_900_000_000_000_000);

struct World {
    _tmp: tempfile::TempDir,
    home: Home,
}

impl World {
    fn new() -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let home = Home::new(tmp.path().join("home"));
        home.create().unwrap();
        Self { _tmp: tmp, home }
    }

    fn recover(&self) -> Recovered {
        recover(&self.home, &Clock::of(|| NOW)).unwrap()
    }

    fn folder(&self, n: u8) -> ProcessId {
        let id = id(n);
        let dir = self.home.process(id);
        dir.create().unwrap();
        SpecFile::create(&dir, &kept(n), &launch()).unwrap();
        id
    }

    /// A folder as its keepers left it, and the lock if they are alive.
    fn meta(&self, n: u8, set: impl FnOnce(&Meta)) -> Meta {
        let meta = Meta::hold(&self.home.process(id(n)), id(n), NOW).unwrap().unwrap();
        set(&meta);
        meta.save().unwrap();
        meta
    }

    fn settled(&self, n: u8) -> (FinalRecord, Facts) {
        let dir = self.home.process(id(n));
        let before = Facts::accepted(kept(n)).with(&FolderLook::look(&dir, 0));
        let settled = final_record::write(&dir, before.local().unwrap(), None, NOW).unwrap();
        let after = before.with(&FolderLook::look(&dir, before.cursor));
        (settled, after)
    }
}

fn id(n: u8) -> ProcessId {
    ProcessId::from_bytes([n; 6])
}

fn kept(n: u8) -> Kept {
    Kept {
        id: id(n),
        spec: Spec::shell("x"),
        hash: String::new(),
        accepted_at: NOW,
        cwd: "/".into(),
        shell: None,
        command_scrubbed: false,
        masks: None,
        env_scrubbed: vec![],
        warnings: vec![],
        keep: Keep::default(),
    }
}

fn launch() -> Launch {
    Launch {
        program: "/bin/true".into(),
        argv: vec!["true".into()],
        env: vec![],
        cwd: "/".into(),
        pty: None,
        stdin: false,
        timeout: None,
        keep: Keep::default(),
        home: "/".into(),
        run_dir: "/".into(),
        engine: None,
        cgroup: None,
        oom_score_adj: 0,
        grace: std::time::Duration::ZERO,
        umask: None,
        nofile: None,
        program_shown: None,
        cwd_shown: None,
        limits: None,
    }
}

fn started(meta: &Meta, pid: u32, ticks: u64) {
    meta.live().cmd.store(pid as i32, SeqCst);
    meta.live().cmd_ticks.store(ticks, SeqCst);
    meta.live().set(flag::STARTED);
}

fn ended(meta: &Meta, code: i32) {
    let ending = Ending { outcome: Outcome::Code(code), cause: Cause::OfItsOwn, at: NOW, oom: false };
    meta.record_ended(&ending, 0, 0).unwrap();
}

fn closed(meta: &Meta) {
    meta.live().closed_at.store(NOW.micros(), SeqCst);
    meta.live().set(flag::OUTPUT_CLOSED);
}

fn phases(recovered: &Recovered) -> Vec<(u8, &'static str)> {
    let mut all: Vec<_> = recovered.processes.iter().map(|(f, _)| (f.id().bytes()[0], f.phase.word())).collect();
    all.sort_unstable();
    all
}

async fn put(recovered: &Recovered, facts: &Facts) {
    recovered.opened.index.put(facts.clone()).await.unwrap();
}

async fn close(recovered: Recovered) {
    recovered.opened.index.close().await;
    recovered.opened.writer.join();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_lost_is_rebuilt_from_the_folders() {
    let world = World::new();
    for n in 1..=4 {
        world.folder(n);
    }
    let me = outlast_store::os::incarnation_of(std::process::id()).unwrap();
    let _running = world.meta(2, |m| started(m, me.pid, me.start_ticks));
    drop(world.meta(3, |m| {
        started(m, 7, 7);
        ended(m, 5);
        closed(m);
    }));
    drop(world.meta(4, |m| {
        started(m, 7, 7);
        ended(m, 0);
    }));
    let first = tokio::task::block_in_place(|| world.recover());
    assert_eq!(phases(&first), [(1, "starting"), (2, "running"), (3, "exited"), (4, "draining")]);
    close(first).await;
    // Now that there are rows, the finished one is not looked at any more.
    let second = tokio::task::block_in_place(|| world.recover());
    assert_eq!(phases(&second), [(1, "starting"), (2, "running"), (3, "exited"), (4, "draining")]);
    assert_eq!(second.processes.iter().filter(|(_, looked)| *looked).count(), 3);
    let done = &second.processes.iter().find(|(f, _)| f.id() == id(3)).unwrap().0;
    assert_eq!(done.phase.ending().unwrap().outcome, Outcome::Code(5));
    close(second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_never_accepted_is_removed() {
    let world = World::new();
    close(tokio::task::block_in_place(|| world.recover())).await;
    world.folder(1);
    world.home.process(id(2)).create().unwrap();
    world.folder(3);
    std::fs::write(world.home.process(id(3)).spec(), b"OLSP").unwrap();
    // A keeper was asked for, and then the power went.
    for n in [5, 6] {
        world.folder(n);
        drop(world.meta(n, |_| {}));
        std::fs::write(world.home.process(id(n)).spec(), b"").unwrap();
    }
    std::fs::write(world.home.process(id(6)).meta(), b"OL").unwrap();
    // But what has begun is real, with or without a row.
    world.folder(4);
    drop(world.meta(4, |m| started(m, 7, 7)));
    let found = tokio::task::block_in_place(|| world.recover());
    assert_eq!(phases(&found), [(4, "running")]);
    assert_eq!(world.home.ids().unwrap(), [id(4)]);
    close(found).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_cut_short_leaves_no_ghost() {
    let world = World::new();
    world.folder(1);
    drop(world.meta(1, |m| {
        started(m, 7, 7);
        ended(m, 0);
        closed(m);
    }));
    close(tokio::task::block_in_place(|| world.recover())).await;
    // Killed after the rename: the row is there, the folder under its other name.
    let dir = world.home.process(id(1)).path;
    std::fs::rename(&dir, dir.with_extension("removed")).unwrap();
    let found = tokio::task::block_in_place(|| world.recover());
    assert!(phases(&found).is_empty());
    close(found).await;
    let again = tokio::task::block_in_place(|| world.recover());
    assert!(again.opened.rows.is_empty() && phases(&again).is_empty());
    close(again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_process_whose_folder_was_removed_is_lost_and_stays_listed() {
    let world = World::new();
    let first = tokio::task::block_in_place(|| world.recover());
    put(&first, &Facts::accepted(kept(1))).await;
    close(first).await;
    for _ in 0..2 {
        let found = tokio::task::block_in_place(|| world.recover());
        if found.processes.is_empty() {
            // Once it is over for good, a row without a folder is the rest of a removal.
            close(found).await;
            return;
        }
        assert_eq!(phases(&found), [(1, "lost")]);
        close(found).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_read_is_told_and_kept() {
    let world = World::new();
    world.folder(1);
    drop(world.meta(1, |m| started(m, 7, 7)));
    std::fs::write(world.home.process(id(1)).spec(), b"nonsense, and long enough").unwrap();
    let found = tokio::task::block_in_place(|| world.recover());
    let told = found.degraded.iter().any(|d| d.contains("cannot be listed"));
    assert!(found.processes.is_empty() && told, "{:?}", found.degraded);
    assert_eq!(world.home.ids().unwrap(), [id(1)]);
    close(found).await;
}

#[test]
fn without_keepers_a_living_command_is_orphaned_and_a_dead_one_lost() {
    let world = World::new();
    let me = outlast_store::os::incarnation_of(std::process::id()).unwrap();
    for (n, ticks, word) in [(1, me.start_ticks, "orphaned"), (2, me.start_ticks + 1, "lost")] {
        world.folder(n);
        drop(world.meta(n, |m| started(m, me.pid, ticks)));
        let (settled, facts) = world.settled(n);
        assert!(matches!(settled, FinalRecord::Written));
        assert_eq!(facts.phase.word(), word);
        // Settling again changes nothing.
        assert_eq!(world.settled(n).1.phase, facts.phase);
    }
}

#[test]
fn a_running_process_whose_meta_is_gone_is_lost_and_not_started_again() {
    let world = World::new();
    world.folder(1);
    let dir = world.home.process(id(1));
    let of = outlast_core::Incarnation { pid: 7, start_ticks: 7, boot: 7 };
    let known = Facts { phase: Phase::Running { of, closed: None }, ..Facts::accepted(kept(1)) };
    assert!(matches!(final_record::write(&dir, known.local().unwrap(), None, NOW).unwrap(), FinalRecord::Written));
    assert_eq!(known.with(&FolderLook::look(&dir, 0)).phase, Phase::Lost { last_seen: Some(of), at: NOW });
}

#[test]
fn keepers_that_died_after_the_end_leave_its_record() {
    let world = World::new();
    world.folder(1);
    drop(world.meta(1, |m| {
        started(m, 7, 7);
        m.live().begin_drop(Commit { base: 12, lines: 1, ..Commit::default() });
        m.live().end_drop();
        ended(m, 3);
    }));
    let (_, facts) = world.settled(1);
    let Phase::Done { ending, output } = facts.phase else { panic!("{:?}", facts.phase) };
    assert_eq!((ending.outcome, output), (Outcome::Code(3), OutputEnd { end: 12, left_running: 0 }));
}

#[test]
fn what_a_keeper_holds_is_left_alone() {
    let world = World::new();
    world.folder(1);
    let _held = world.meta(1, |m| started(m, 7, 7));
    assert!(matches!(world.settled(1).0, FinalRecord::Kept));
    assert!(!final_record::never_started(&world.home.process(id(1)), id(1), StartFailure { errno: 0, what: "x".into() }, NOW).unwrap());
}

#[test]
fn nothing_was_started_is_provable() {
    let world = World::new();
    world.folder(1);
    assert!(matches!(world.settled(1).0, FinalRecord::NotStarted), "no keeper came that far");
    world.folder(2);
    drop(world.meta(2, |_| {}));
    assert!(matches!(world.settled(2).0, FinalRecord::NotStarted), "one came and was killed before it forked");
    world.folder(3);
    std::fs::write(world.home.process(id(3)).meta(), b"").unwrap();
    assert!(matches!(world.settled(3).0, FinalRecord::NotStarted), "one was killed before it had written who it is");
    // Forked, and no keeper was left to record whether it was executed: never started twice.
    world.folder(4);
    drop(world.meta(4, |m| m.live().cmd.store(i32::MAX, SeqCst)));
    assert_eq!(world.settled(4).1.phase.word(), "lost");
}

#[test]
fn a_failed_start_is_an_end_like_any_other() {
    let world = World::new();
    world.folder(1);
    let dir = world.home.process(id(1));
    let failure = StartFailure { errno: libc::ENOENT, what: "no program".into() };
    assert!(final_record::never_started(&dir, id(1), failure, NOW).unwrap());
    let facts = Facts::accepted(kept(1)).with(&FolderLook::look(&dir, 0));
    assert!(facts.phase.is_final());
    assert_eq!(facts.phase.word(), "failed_start");
    assert_eq!(SpecFile::read_launch(&dir).unwrap(), None, "what it needed is scrubbed");
}

#[test]
fn an_orphan_that_was_asked_to_end_was_killed_and_one_that_was_not_is_lost() {
    let world = World::new();
    let dead = outlast_core::Incarnation { pid: 7, start_ticks: 7, boot: 7 };
    let stop =
        |source: &str, way| outlast_core::Stop { cause: Cause::Asked { by: outlast_core::Owner::default(), source: source.into() }, way };
    let hard = stop("process.kill", StopWay::Escalate { grace: std::time::Duration::ZERO });
    // That it was asked and left at that does not say why it ended.
    let soft = stop("another", StopWay::TermOnly);
    let cases = [
        (1, vec![], "backend_lost"),
        (2, vec![&hard], "process.kill"),
        (3, vec![&soft], "backend_lost"),
        (4, vec![&hard, &soft], "process.kill"),
    ];
    for (n, asked, source) in cases {
        world.folder(n);
        drop(world.meta(n, |_| {}));
        let dir = world.home.process(id(n));
        final_record::record(&dir, &[Record::Adopted { at: NOW, of: dead }]).unwrap();
        for stop in &asked {
            final_record::stop_asked(&dir, stop, NOW).unwrap();
        }
        // A stop that only asks, after one that kills, takes nothing back.
        assert_eq!(final_record::unfinished(&dir, NOW), asked.contains(&&hard).then_some(hard.way));
        let (_, facts) = world.settled(n);
        assert!(facts.detached && facts.phase.is_final());
        assert_eq!(facts.phase.source(), source);
        assert_eq!(crate::render::fate(&facts).exit_code, Some(None), "no keeper saw one");
    }
}

#[test]
fn a_stop_of_an_orphan_that_is_taken_up_again_has_what_is_left_of_its_grace() {
    let world = World::new();
    world.folder(1);
    drop(world.meta(1, |_| {}));
    let dir = world.home.process(id(1));
    let grace = |seconds| StopWay::Escalate { grace: std::time::Duration::from_secs(seconds) };
    let cause = Cause::Asked { by: outlast_core::Owner::default(), source: "process.kill".into() };
    final_record::stop_asked(&dir, &outlast_core::Stop { cause, way: grace(10) }, NOW).unwrap();
    for (after, left) in [(0, 10), (4, 6), (10, 0), (1_000, 0), (-5, 10)] {
        let now = Time::from_micros(NOW.micros() + after * 1_000_000);
        assert_eq!(final_record::unfinished(&dir, now), Some(grace(left)), "{after} s later");
    }
}

#[test]
fn secrets_do_not_stay_when_both_keepers_died_before_they_scrubbed() {
    let world = World::new();
    let me = outlast_store::os::incarnation_of(std::process::id()).unwrap();
    for (n, ticks, word) in [(1, me.start_ticks, "orphaned"), (2, me.start_ticks + 1, "lost")] {
        world.folder(n);
        drop(world.meta(n, |m| started(m, me.pid, ticks)));
        assert_eq!(world.settled(n).1.phase.word(), word);
        assert_eq!(SpecFile::read_launch(&world.home.process(id(n))).unwrap(), None);
    }
    // What was not started yet still needs them.
    world.folder(3);
    drop(world.meta(3, |_| {}));
    assert!(matches!(world.settled(3).0, FinalRecord::NotStarted));
    assert!(SpecFile::read_launch(&world.home.process(id(3))).unwrap().is_some());
}

#[test]
fn a_command_without_a_recorded_start_started_when_it_was_forked() {
    let world = World::new();
    world.folder(1);
    let mut child = std::process::Command::new("sleep").arg("1000").env("OUTLAST_PROCESS_ID", id(1).to_string()).spawn().unwrap();
    let forked_at = Time::from_micros(NOW.micros() - 5_000_000);
    drop(world.meta(1, |m| {
        m.live().started_at.store(forked_at.micros(), SeqCst);
        m.live().cmd.store(child.id() as i32, SeqCst);
    }));
    let (_, facts) = world.settled(1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((facts.phase.word(), facts.started_at), ("orphaned", Some(forked_at)));
}

#[tokio::test(flavor = "multi_thread")]
async fn how_a_process_ended_is_still_known_after_its_folder_was_removed() {
    let world = World::new();
    let first = tokio::task::block_in_place(|| world.recover());
    let ending = Ending { outcome: Outcome::Code(3), cause: Cause::OfItsOwn, at: NOW, oom: false };
    put(&first, &Facts { phase: Phase::Draining { ending: ending.clone() }, ..Facts::accepted(kept(1)) }).await;
    close(first).await;
    let found = tokio::task::block_in_place(|| world.recover());
    assert_eq!(found.processes[0].0.phase.ending(), Some(&ending));
    assert!(found.processes[0].0.phase.is_final());
    close(found).await;
}
