use super::*;
use crate::dir::ProcessDir;
use outlast_core::{Cause, Ending, Incarnation, Outcome, Owner, ProcessId, Stop, StopWay, Time};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

const ID: ProcessId = ProcessId::from_bytes([1, 2, 3, 4, 5, 6]);
const NOW: Time = Time::from_micros(1_700_000_000_000_000);

fn held() -> (tempfile::TempDir, ProcessDir, Meta) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = ProcessDir { path: tmp.path().to_owned() };
    let meta = Meta::hold(&dir, ID, NOW).unwrap().expect("no other process holds it");
    (tmp, dir, meta)
}

fn ended() -> Ending {
    Ending { outcome: Outcome::Signal { number: 15, dumped_core: false }, cause: asked("process.kill"), at: NOW, oom: false }
}

fn asked(source: &str) -> Cause {
    Cause::Asked { by: Owner { session: Some("s".into()), ..Owner::default() }, source: source.into() }
}

#[test]
fn what_is_written_is_read() {
    let (_tmp, dir, meta) = held();
    let live = meta.live();
    live.cmd.store(42, SeqCst);
    live.cmd_ticks.store(77, SeqCst);
    live.set(flag::STARTED);
    live.begin_drop(Commit { base: 10, lines: 2, answered: 0, remain: 0 });
    live.end_drop();
    let stop = Stop { cause: asked("process.kill"), way: StopWay::Escalate { grace: Duration::from_millis(2500) } };
    meta.record_stop(&stop, NOW).unwrap();
    meta.record_gap(3, 5).unwrap();
    meta.record_gap(5, 7).unwrap();
    meta.record_gap(5, 7).unwrap();
    meta.record_ended(&ended(), 10, 2).unwrap();
    let s = Snapshot::read(&dir).unwrap();
    assert_eq!((s.id, s.cmd, s.commit.base, s.commit.lines), (ID, 42, 10, 2));
    assert_eq!(s.stop, Some((stop, NOW)));
    assert_eq!(s.gaps.iter().map(|g| (g.from, g.to)).collect::<Vec<_>>(), [(3, 7)]);
    assert_eq!(live.dropped.load(SeqCst), 4);
    assert_eq!(s.ended, Some(Ended { ending: ended(), log_end: 10, lines: 2 }));
    assert_eq!(s.command().unwrap().start_ticks, 77);
    assert_eq!(s.damage, None);
}

#[test]
fn what_a_keeper_passes_is_held_only_if_it_is_the_live_copy_of_the_process() {
    let (_tmp, dir, meta) = held();
    let (_other_tmp, _other_dir, other) = held();
    let passed = |meta: &Meta| meta.live_copy().try_clone_to_owned().unwrap();
    assert!(!Image::hold_passed(&dir, passed(&other)), "the live copy of another process");
    assert!(!Image::hold_passed(&dir, std::fs::File::open("/dev/null").unwrap().into()));
    assert!(Image::hold_passed(&dir, passed(&meta)));
    meta.live().cmd.store(42, SeqCst);
    assert_eq!(Snapshot::read(&dir).unwrap().cmd, 42);
    Image::forget(&dir);
}

#[test]
fn the_lock_is_free_only_when_every_copy_is_closed() {
    let (_tmp, dir, meta) = held();
    assert!(Meta::hold(&dir, ID, NOW).unwrap().is_none());
    assert!(crate::lock::is_held(&dir.meta()).unwrap());
    drop(meta);
    assert!(!crate::lock::is_held(&dir.meta()).unwrap());
}

#[test]
fn a_kill_between_two_stores_of_a_commit_leaves_the_old_or_the_new() {
    let (_tmp, _dir, meta) = held();
    let live = meta.live();
    live.begin_drop(Commit { base: 5, lines: 1, answered: 0, remain: 0 });
    assert_eq!(live.commit(), (Commit { base: 5, lines: 1, answered: 0, remain: 0 }, true));
    live.end_drop();
    // As if the writer had died after it filled the other slot, before the store that makes it current.
    live.slots[0].base.store(99, SeqCst);
    assert_eq!(live.commit(), (Commit { base: 5, lines: 1, answered: 0, remain: 0 }, false));
}

#[test]
fn what_is_watched_is_stored_whole_or_not_at_all() {
    let (_tmp, dir, meta) = held();
    let live = meta.live();
    assert_eq!(live.watched(), Watched::default());
    let waiting = Waiting { count: 3, offset: 70, pattern: 2, at: -5, up: 9 };
    let first = Watched { upto: 100, counted: true, waiting: Some(waiting), begun: Some(0) };
    live.set_watched(&first);
    assert_eq!((live.watched(), Snapshot::read(&dir).unwrap().watched), (first, first));
    // As if the writer had died before the store that makes the other slot current.
    live.watch_slots[0].upto.store(200, SeqCst);
    assert_eq!(live.watched(), first);
    let second = Watched { upto: 200, ..Watched::default() };
    live.set_watched(&second);
    assert_eq!((live.watched(), Snapshot::read(&dir).unwrap().watched), (second, second));
}

#[test]
fn a_long_owner_is_left_out_rather_than_the_fact() {
    let (_tmp, dir, meta) = held();
    let long = Cause::Asked { by: Owner { session: Some("x".repeat(5000)), ..Owner::default() }, source: "process.kill".into() };
    meta.record_stop(&Stop { cause: long.clone(), way: StopWay::TermOnly }, NOW).unwrap();
    meta.record_ended(&Ending { cause: long, ..ended() }, 0, 0).unwrap();
    let s = Snapshot::read(&dir).unwrap();
    let no_client = Cause::Asked { by: Owner::default(), source: "process.kill".into() };
    assert_eq!(s.stop.unwrap().0.cause, no_client);
    assert_eq!(s.ended.unwrap().ending.cause, no_client);
}

#[test]
fn an_end_whose_record_the_disk_refused_is_known_from_what_was_seen() {
    let (_tmp, dir, meta) = held();
    let live = meta.live();
    live.publish_status(Some(3 << 8), NOW.micros());
    assert_eq!(Snapshot::read(&dir).unwrap().ended, None);
    live.set(flag::RECORDED);
    let ended = Snapshot::read(&dir).unwrap().ended.unwrap();
    assert_eq!(ended.ending, Ending { outcome: Outcome::Code(3), cause: Cause::OfItsOwn, at: NOW, oom: false });
}

#[test]
fn a_failure_made_of_control_characters_fits_into_its_place() {
    let (_tmp, dir, meta) = held();
    let what = "\u{1}".repeat(4000);
    let outcome = Outcome::NeverStarted(outlast_core::StartFailure { errno: 2, what });
    meta.record_ended(&Ending { outcome, ..ended() }, 0, 0).unwrap();
    let read = Snapshot::read(&dir).unwrap().ended.unwrap();
    assert!(matches!(read.ending.outcome, Outcome::NeverStarted(f) if f.errno == 2));
}

#[test]
fn cut_or_damaged_at_any_byte_it_invents_nothing() {
    let (_tmp, dir, meta) = held();
    meta.live().cmd.store(42, SeqCst);
    meta.record_ended(&ended(), 10, 2).unwrap();
    let whole = std::fs::read(dir.meta()).unwrap();
    let truth = Snapshot::parse(&whole).unwrap();
    for cut in 0..whole.len() {
        assert!(Snapshot::parse(&whole[..cut]).is_err(), "cut at {cut}");
    }
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        match Snapshot::parse(&bytes) {
            Err((_, what)) => assert!(at < 64, "{at}: {what}"),
            Ok(s) => assert!(s.ended == truth.ended || (s.ended.is_none() && s.damage.is_some()), "byte {at} invented an end"),
        }
    }
}

/// The folder whose other files `tests/fixtures.rs` reads.
fn fixture() -> ProcessDir {
    ProcessDir { path: concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/state-v1/proc/proc_0123456789ab").into() }
}

const FIXTURE_ID: ProcessId = ProcessId::from_bytes([0x01, 0x23, 0x45, 0x67, 0x89, 0xab]);

#[test]
fn fixture_state_v1_has_a_meta_that_is_readable() {
    let s = Snapshot::read(&fixture()).unwrap();
    assert_eq!((s.id, s.boot, s.created_at), (FIXTURE_ID, 7, NOW));
    assert_eq!((s.cmd, s.cmd_ticks, s.pump, s.holder), (4242, 99, 4240, 4241));
    assert_eq!((s.commit.base, s.commit.lines), (800, 20));
    assert_eq!((s.deaths, s.input, s.size), ((1, 2), 17, (30, 120)));
    assert_eq!(s.gaps.iter().map(|g| (g.from, g.to)).collect::<Vec<_>>(), [(700, 720)]);
    assert_eq!(s.stop.unwrap().0.cause, asked("process.kill"));
    assert_eq!(s.ended, Some(Ended { ending: ended(), log_end: 800, lines: 20 }));
    assert_eq!(s.closed.unwrap().1.left_running, 3);
    assert_eq!(s.left, [], "its keepers recorded the number alone");
}

/// A folder of keepers that record which descendants are left running.
fn fixture_with_left() -> ProcessDir {
    ProcessDir { path: concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/state-v1-left/proc/proc_0123456789ac").into() }
}

const LEFT_ID: ProcessId = ProcessId::from_bytes([0x01, 0x23, 0x45, 0x67, 0x89, 0xac]);

fn life(n: u32) -> Incarnation {
    Incarnation { pid: 5000 + n, start_ticks: u64::from(n) << 33 | 77, boot: 7 }
}

#[test]
fn fixture_state_v1_left_names_who_was_left_running() {
    let s = Snapshot::read(&fixture_with_left()).unwrap();
    assert_eq!((s.id, s.closed.unwrap().1.left_running), (LEFT_ID, 2));
    assert_eq!(s.left, [life(1), life(2)]);
}

#[test]
#[ignore = "writes into the repository"]
fn generate_the_meta_of_fixture_state_v1_left() {
    let dir = fixture_with_left();
    std::fs::create_dir_all(&dir.path).unwrap();
    let meta = Meta::hold(&dir, LEFT_ID, NOW).unwrap().expect("no other process holds it");
    let live = meta.live();
    live.cmd.store(4242, SeqCst);
    live.cmd_ticks.store(99, SeqCst);
    live.set_left(&[life(1), life(2)]);
    live.closed_at.store(NOW.micros() + 5, SeqCst);
    live.publish_status(Some(15), NOW.micros());
    live.set(flag::STARTED | flag::RECORDED | flag::OUTPUT_CLOSED | flag::DONE);
    meta.record_ended(&ended(), 0, 0).unwrap();
    meta.release().unwrap();
    // A fixture must not carry the boot id of the machine that wrote it.
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::OpenOptions::new().write(true).open(dir.meta()).unwrap(),
        &super::write::identity_block(LEFT_ID, 7, NOW),
        0,
    )
    .unwrap();
}

#[test]
fn more_are_left_running_than_can_be_recorded() {
    let (_tmp, dir, meta) = held();
    let boot = crate::os::boot_id().unwrap();
    let all: Vec<Incarnation> = (1..40).map(|n| Incarnation { boot, ..life(n) }).collect();
    meta.live().set_left(&all);
    meta.live().closed_at.store(1, SeqCst);
    meta.live().set(flag::OUTPUT_CLOSED);
    let s = Snapshot::read(&dir).unwrap();
    assert_eq!((s.closed.unwrap().1.left_running, s.left.as_slice()), (39, &all[..MAX_LEFT_RECORDED]));
    meta.live().set_left(&all[..1]);
    assert_eq!(Snapshot::read(&dir).unwrap().left, all[..1], "those that have ended since are gone");
}

#[test]
#[ignore = "writes into the repository"]
fn generate_the_meta_of_fixture_state_v1() {
    let dir = fixture();
    let meta = Meta::hold(&dir, FIXTURE_ID, NOW).unwrap().expect("no other process holds it");
    let live = meta.live();
    live.cmd.store(4242, SeqCst);
    live.cmd_ticks.store(99, SeqCst);
    live.pump.store(4240, SeqCst);
    live.holder.store(4241, SeqCst);
    live.pump_deaths.store(1, SeqCst);
    live.holder_deaths.store(2, SeqCst);
    live.in_client.store(17, SeqCst);
    live.size.store(30 << 16 | 120, SeqCst);
    live.left_running.store(3, SeqCst);
    live.closed_at.store(NOW.micros() + 5, SeqCst);
    live.publish_status(Some(15), NOW.micros());
    live.set(flag::STARTED | flag::RECORDED | flag::OUTPUT_CLOSED | flag::DONE);
    live.begin_drop(Commit { base: 800, lines: 20, answered: 0, remain: 0 });
    live.end_drop();
    meta.record_stop(&Stop { cause: asked("process.kill"), way: StopWay::Escalate { grace: Duration::from_secs(2) } }, NOW).unwrap();
    meta.record_gap(700, 720).unwrap();
    meta.record_ended(&ended(), 800, 20).unwrap();
    // A fixture must not carry the boot id of the machine that wrote it.
    std::os::unix::fs::FileExt::write_all_at(
        &std::fs::OpenOptions::new().write(true).open(dir.meta()).unwrap(),
        &super::write::identity_block(FIXTURE_ID, 7, NOW),
        0,
    )
    .unwrap();
}

#[test]
fn a_copy_of_the_folder_does_not_read_the_memory_of_the_original() {
    let (_tmp, dir, meta) = held();
    let copy = tempfile::tempdir().unwrap();
    let copied = ProcessDir { path: copy.path().to_owned() };
    meta.save().unwrap();
    std::fs::copy(dir.meta(), copied.meta()).unwrap();
    meta.live().begin_drop(Commit { base: 10, lines: 2, answered: 0, remain: 0 });
    assert_eq!(Snapshot::read(&dir).unwrap().commit.base, 10);
    assert_eq!(Snapshot::read(&copied).unwrap().commit.base, 0);
    Snapshot::note(&copied, 7).unwrap();
    assert_eq!(Snapshot::read(&dir).unwrap().noted, 0);
    assert_eq!(Snapshot::read(&copied).unwrap().noted, 7);
}

#[test]
fn a_log_whose_known_end_was_dropped_goes_on_with_the_first_segment_that_is_kept() {
    let tmp = tempfile::tempdir().unwrap();
    let (mut kept, launch) = crate::spec::tests::request();
    kept.keep = crate::segments::Keep { head: 4, segment: 4, tail: 8 };
    let home = crate::dir::Home::new(tmp.path().join("home"));
    home.create().unwrap();
    let dir = home.process(kept.id);
    dir.create().unwrap();
    crate::spec::SpecFile::create(&dir, &kept, &launch).unwrap();
    // Bytes 4 to 12 were dropped after the file said that the log has 8.
    for (first, bytes) in [(0, "a\nb\n"), (12, "x\ny\n"), (16, "z\n")] {
        std::fs::write(dir.segment(first), bytes).unwrap();
    }
    let known = Commit { base: 8, lines: 3, ..Commit::default() };
    let found = read::found_commit(&dir, known);
    assert_eq!((found.base, found.lines), (18, 6), "without a note the lines of the gap are not known");
    crate::lines::LineIndex::note(&dir, kept.keep.index_of(12), 9).unwrap();
    let found = read::found_commit(&dir, known);
    assert_eq!((found.base, found.lines), (18, 12));
}
