use super::*;
use crate::live::Commit;
use crate::meta::{Image, identity_for_tests};
use crate::segments::{Chunk, LogReader};

const ID: ProcessId = ProcessId::from_bytes([1, 2, 3, 4, 5, 6]);
const BOOT: u128 = 77;

fn folder() -> (tempfile::TempDir, ProcessDir) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = ProcessDir { path: tmp.path().join(ID.to_string()) };
    dir.create().unwrap();
    (tmp, dir)
}

/// A `meta` of a sandbox, as its keepers have it.
fn image(boot: u128, change: impl FnOnce(&Live)) -> Box<[u8; LEN]> {
    let image = Image::new().unwrap();
    let file = File::from(image.try_clone().unwrap());
    file.write_all_at(&identity_for_tests(ID, boot, Time::from_micros(3)), 0).unwrap();
    let map = crate::os::Mapping::new(rustix::fd::AsFd::as_fd(&image), LEN).unwrap();
    change(map.live());
    let mut bytes = Box::new([0; LEN]);
    file.read_exact_at(&mut bytes[..], 0).unwrap();
    bytes
}

fn commit(live: &Live, base: u64, lines: u64) {
    live.begin_drop(Commit { base, lines, ..Commit::default() });
    live.end_drop();
}

#[test]
fn a_reader_sees_as_much_as_has_arrived() {
    let (_tmp, dir) = folder();
    let mut mirror = Mirror::hold(&dir, ID, Keep::default()).unwrap().unwrap();
    assert!(lock::is_held(&dir.meta()).unwrap() && Snapshot::read(&dir).is_err());
    mirror.add_log(0, b"one\ntwo\n").unwrap();
    let far = image(BOOT, |live| {
        commit(live, 1000, 90);
        _ = live.set(flag::STARTED);
    });
    assert!(mirror.commit(Some(&far), BOOT).unwrap(), "it has started");
    let seen = Snapshot::read(&dir).unwrap();
    assert_eq!((seen.commit.base, seen.commit.lines, seen.has(flag::STARTED)), (8, 2, true));
    mirror.add_log(8, b"three\n").unwrap();
    assert!(!mirror.commit(None, BOOT).unwrap(), "more output is no news");
    assert_eq!(Snapshot::read(&dir).unwrap().commit.base, 14);
    drop(mirror);
    let again = Mirror::hold(&dir, ID, Keep::default()).unwrap().unwrap();
    assert_eq!((again.log_end(), again.file_end(GrowingFile::Journal).unwrap()), (14, 0));
    let chunk = LogReader::open(&dir, Keep::default()).read(0, 14, 100, &[]).unwrap();
    assert_eq!(chunk, Chunk::Bytes { at: 0, bytes: b"one\ntwo\nthree\n".to_vec() });
}

#[test]
fn what_an_engine_wrote_stays() {
    let (_tmp, dir) = folder();
    let mut mirror = Mirror::hold(&dir, ID, Keep::default()).unwrap().unwrap();
    mirror.commit(Some(&image(BOOT, |_| {})), BOOT).unwrap();
    Snapshot::note(&dir, 5).unwrap();
    Snapshot::note_shown_unsaved(&dir, true).unwrap();
    mirror.commit(Some(&image(BOOT, |live| commit(live, 0, 0))), BOOT).unwrap();
    mirror.input_taken(9).unwrap();
    mirror.commit(Some(&image(BOOT, |_| {})), BOOT).unwrap();
    let seen = Snapshot::read(&dir).unwrap();
    assert_eq!((seen.noted, seen.is_shown_unsaved, seen.input), (5, true, 9), "and an older meta takes no input back");
}

#[test]
fn a_sandbox_that_lies_is_not_believed() {
    let (_tmp, dir) = folder();
    let mut mirror = Mirror::hold(&dir, ID, Keep::default()).unwrap().unwrap();
    let here = crate::os::boot_id().unwrap();
    assert!(matches!(mirror.commit(Some(&image(here, |_| {})), here), Err(MirrorError::Another("another machine"))));
    assert!(matches!(mirror.commit(Some(&image(BOOT + 1, |_| {})), BOOT), Err(MirrorError::Another("another machine"))));
    assert!(matches!(mirror.commit(Some(&[7; LEN]), BOOT), Err(MirrorError::Damaged { .. })));
    let ended = image(BOOT, |live| {
        commit(live, 10, 1);
        live.closed_at.store(1, std::sync::atomic::Ordering::SeqCst);
        _ = live.set(flag::OUTPUT_CLOSED);
    });
    assert!(matches!(mirror.commit(Some(&ended), BOOT), Err(MirrorError::Incomplete { claimed: 10, sent: 0 })));
    assert!(mirror.snapshot().is_none() && Snapshot::read(&dir).is_err());
    let mut named = image(BOOT, |_| {});
    named[LIVE_COPY_AT].fill(1);
    mirror.commit(Some(&named), BOOT).unwrap();
    assert_eq!(std::fs::read(dir.meta()).unwrap()[LIVE_COPY_AT], [0; 12], "it names no live copy here");
}

#[test]
fn a_lost_process_and_a_refused_one_are_on_record() {
    let (_tmp, dir) = folder();
    let mut mirror = Mirror::hold(&dir, ID, Keep::default()).unwrap().unwrap();
    assert!(mirror.set_state(|state| state.unreachable = Some("no route".into())).unwrap());
    assert!(!mirror.set_state(|state| state.unreachable = Some("no route".into())).unwrap());
    assert_eq!(MirrorState::read(&dir).unwrap().unreachable.as_deref(), Some("no route"));
    mirror.lose("it was removed", Time::from_micros(5)).unwrap();
    assert_eq!(MirrorState::read(&dir).unwrap().lost.as_deref(), Some("it was removed"));
    let read = journal::read_from(&dir.journal(), 0).unwrap();
    assert!(matches!(read.records[..], [(_, Record::Lost { .. })]));
    let (_tmp, dir) = folder();
    let mirror = Mirror::hold(&dir, ID, Keep::default()).unwrap().unwrap();
    mirror.never_started(StartFailure { errno: 0, what: "refused".into() }, Time::from_micros(5)).unwrap();
    assert!(matches!(Snapshot::read(&dir).unwrap().ended.unwrap().ending.outcome, Outcome::NeverStarted(_)));
    assert!(!lock::is_held(&dir.meta()).unwrap());
}
