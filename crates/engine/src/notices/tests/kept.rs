//! What is kept, for how long, and what is dropped.

use super::*;

#[test]
fn a_replay_tells_again_what_was_delivered_and_says_so() {
    let mut desk = Desk::new();
    for n in 1..=3 {
        desk.put(&completion(n, owner(if n == 3 { "b" } else { "a" }, ""))).unwrap();
        let session = if n == 3 { "b" } else { "a" };
        let given = desk.claim_as(session, "", TakerKind::Gateway, 10);
        desk.settle(&given[0], Some(&given[0].lease), &Verdict::Delivered);
        assert!(is_consumed(&desk.db, &id(n).to_string()).unwrap());
    }
    assert_eq!(desk.replay(2, Some("a"), &[]), 1);
    assert!(!is_consumed(&desk.db, &id(2).to_string()).unwrap() && is_consumed(&desk.db, &id(3).to_string()).unwrap());
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert_eq!((given.len(), given[0].notice.seq, given[0].notice.repeat), (1, 2, true));
    assert!(desk.gateway("b").is_empty());
}

#[test]
fn a_place_is_never_given_twice() {
    let mut desk = Desk::new();
    let first = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.consume(1);
    desk.pass(10 * DAY);
    desk.prune(7 * DAY, &[]);
    assert_eq!(read(&desk.db, &NoticeFilter { limit: 9, ..NoticeFilter::default() }).unwrap().len(), 0);
    assert_eq!(last_seq(&desk.db).unwrap(), first);
    assert_eq!(desk.put(&completion(2, owner("a", ""))), Some(first + 1));
    // A new index does not know the numbers of the lost one, and continues far above them.
    let new = Desk::new();
    engine_started(&new.db, "b", true, new.now).unwrap();
    assert!(new.put(&completion(2, owner("a", ""))).unwrap() > 1_000_000);
    engine_started(&new.db, "b", true, Moment { utc: Time::from_micros(0), ..new.now }).unwrap();
    assert!(new.put(&completion(3, owner("a", ""))).unwrap() > 1_000_000, "not even with a clock that was set back");
}

#[test]
fn a_dead_letter_is_kept_for_as_long_as_if_it_had_been_settled_when_it_died() {
    let mut desk = Desk::new();
    let seq = insert(&desk.db, &completion(1, owner("a", "")), &hook(), desk.now).unwrap().unwrap();
    desk.consume(1);
    desk.pass(8 * DAY);
    desk.prune(7 * DAY, &hook());
    assert_eq!(take(&desk.db, "hook", 10, "w", SECOND, desk.now).unwrap().len(), 1, "what is owed is kept");
    pushed(&desk.db, "hook", seq, "w", &PushResult::Dead { reason: "gone".into() }, desk.now).unwrap();
    desk.prune(7 * DAY, &hook());
    let letters = dead(&desk.db, None, 10).unwrap();
    assert_eq!((letters.len(), letters[0].1.reason.as_str()), (1, "gone"));
    assert_eq!(revive(&desk.db, None, Some("hook"), Some("a"), desk.now).unwrap(), 1);
    let again = take(&desk.db, "hook", 10, "x", SECOND, desk.now).unwrap();
    assert!(again[0].entry.notice.repeat);
    pushed(&desk.db, "hook", seq, "x", &PushResult::Dead { reason: "gone".into() }, desk.now).unwrap();
    desk.pass(8 * DAY);
    desk.prune(7 * DAY, &hook());
    assert!(dead(&desk.db, None, 10).unwrap().is_empty());
    let left: i64 = desk.db.query_row("SELECT COUNT(*) FROM delivery", [], |r| r.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn open_deliveries_of_a_sink_that_is_not_configured_keep_nothing() {
    let mut desk = Desk::new();
    insert(&desk.db, &completion(1, owner("a", "")), &hook(), desk.now).unwrap();
    desk.consume(1);
    desk.pass(8 * DAY);
    desk.prune(7 * DAY, &[]);
    assert!(read(&desk.db, &NoticeFilter { limit: 9, ..NoticeFilter::default() }).unwrap().is_empty());
}

#[test]
fn a_notice_that_no_taker_asks_for_is_dropped_in_the_end_with_a_reason() {
    let mut desk = Desk::new();
    let old = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.pass(20 * DAY);
    let new = desk.put(&completion(2, owner("a", ""))).unwrap();
    desk.pass(9 * DAY);
    let before = Time::from_micros(desk.now.utc.micros() - 28 * DAY);
    assert_eq!(expire(&desk.db, before, desk.now).unwrap(), 1);
    assert_eq!(desk.state(old), ("dropped".into(), "expired: not taken within 28 days".into()));
    assert_eq!(desk.drain("a"), [new]);
    desk.pass(SECOND);
    assert_eq!(expire(&desk.db, desk.now.utc, desk.now).unwrap(), 0, "a leased notice is not dropped");
}

#[test]
fn the_oldest_are_dropped_when_a_session_has_too_many() {
    let mut desk = Desk::new();
    let put = |desk: &Desk, names: std::ops::Range<u32>| {
        let all = desk.db.unchecked_transaction().unwrap();
        for n in names {
            desk.put(&posted(&n.to_string(), owner("a", ""), "")).unwrap();
        }
        all.commit().unwrap();
    };
    put(&desk, 0..2);
    let first = desk.claim_as("a", "", TakerKind::Terminal, 1);
    put(&desk, 2..14_000);
    let open: i64 = desk.db.query_row("SELECT COUNT(*) FROM notice WHERE state = 'pending'", [], |r| r.get(0)).unwrap();
    assert!((10_000..12_000).contains(&open), "{open}");
    assert_eq!(desk.state(first[0].notice.seq).0, "leased", "a leased notice stays leased");
    assert_eq!(desk.state(2), ("dropped".into(), "dropped: its session has over 10000 undelivered notices".into()));
    assert_eq!(desk.state(14_000).0, "pending");
}

#[test]
fn an_answer_fits_into_a_frame_however_long_notices_are() {
    let mut desk = Desk::new();
    let long = "x".repeat(256 << 10);
    for n in 0..40 {
        insert(&desk.db, &posted(&n.to_string(), owner("a", ""), &long), &hook(), desk.now).unwrap();
    }
    assert_eq!(desk.drain("a"), [1, 2, 3, 4, 5], "4 MiB of them, each with its text alone and among the others");
    assert_eq!(desk.drain("a"), [6, 7, 8, 9, 10], "the rest is there for the next");
    let read = |after| read(&desk.db, &NoticeFilter { after, limit: 1_000, ..NoticeFilter::default() }).unwrap();
    assert_eq!((read(0).len(), read(5)[0].notice.seq), (5, 6));
    assert_eq!(take(&desk.db, "hook", 1_000, "w", SECOND, desk.now).unwrap().len(), 5);
    assert_eq!(take(&desk.db, "hook", 1_000, "w", SECOND, desk.now).unwrap()[0].entry.notice.seq, 6);
}

#[test]
fn a_notice_that_cannot_be_read_does_not_stand_in_the_way() {
    let mut desk = Desk::new();
    let bad = desk.put(&completion(1, owner("a", ""))).unwrap();
    let good = desk.put(&completion(2, owner("a", ""))).unwrap();
    desk.db.execute("UPDATE notice SET event = '{' WHERE seq = ?1", params![bad as i64]).unwrap();
    assert_eq!(desk.drain("a"), [good]);
    assert_eq!(desk.state(bad).0, "dropped");
}

#[test]
fn generations_of_sessions_without_notices_and_processes_are_forgotten() {
    let mut desk = Desk::new();
    remember(&desk.db, 1, "a");
    for session in ["a", "b", "c"] {
        note_generation(&desk.db, session, "g").unwrap();
    }
    desk.put(&completion(2, owner("b", "g"))).unwrap();
    desk.pass(DAY);
    desk.prune(DAY, &[]);
    let mut left = desk.db.prepare("SELECT session FROM life ORDER BY session").unwrap();
    let left: Vec<String> = left.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(left, ["a", "b"]);
}
