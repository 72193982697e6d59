use super::*;
use crate::dir::ProcessDir;
use outlast_core::{Cause, Ending, Outcome, Owner, ProcessId, Stop, StopWay, Time};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

const ID: ProcessId = ProcessId::from_bytes([1, 2, 3, 4, 5, 6]);
const NOW: Time = Time::from_micros(1_700_000_000_000_000);

fn held() -> (tempfile::TempDir, ProcessDir, Meta) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = ProcessDir { path: tmp.path().to_owned() };
    let meta = Meta::hold(&dir, ID, NOW).unwrap().expect("nobody else holds it");
    (tmp, dir, meta)
}

fn ended() -> Ending {
    Ending { outcome: Outcome::Signal { number: 15, dumped_core: false }, cause: asked("process.kill"), at: NOW }
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
    // As if the writer had died after filling the other slot, before the store that makes it current.
    live.slots[0].base.store(99, SeqCst);
    assert_eq!(live.commit(), (Commit { base: 5, lines: 1, answered: 0, remain: 0 }, false));
}

#[test]
fn a_long_owner_is_left_out_rather_than_the_fact() {
    let (_tmp, dir, meta) = held();
    let long = Cause::Asked { by: Owner { session: Some("x".repeat(5000)), ..Owner::default() }, source: "process.kill".into() };
    meta.record_stop(&Stop { cause: long.clone(), way: StopWay::TermOnly }, NOW).unwrap();
    meta.record_ended(&Ending { cause: long, ..ended() }, 0, 0).unwrap();
    let s = Snapshot::read(&dir).unwrap();
    let nobody = Cause::Asked { by: Owner::default(), source: "process.kill".into() };
    assert_eq!(s.stop.unwrap().0.cause, nobody);
    assert_eq!(s.ended.unwrap().ending.cause, nobody);
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
