//! Which taker gets which notice, and how it is settled.

use super::*;

#[test]
fn case_110_of_two_that_ask_at_once_one_is_given_it_and_if_it_fails_the_other() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    let first = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert!(desk.gateway("a").is_empty());
    assert_eq!(desk.settle(&first[0], Some(&first[0].lease), &Verdict::Released), SettleReply::Done);
    let second = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert_eq!(second[0].notice.seq, seq);
    assert!(!second[0].notice.repeat, "who had it says that it was not told");
}

#[test]
fn case_111_of_nothing_nothing_is_given() {
    let mut desk = Desk::new();
    assert!(desk.drain("a").is_empty() && desk.gateway("").is_empty());
    assert_eq!(next_lapse(&desk.db, "a", desk.now).unwrap(), None);
}

#[test]
fn case_113_each_session_gets_its_own_notices() {
    let mut desk = Desk::new();
    let of = |s: &str, n| desk.put(&completion(n, owner(s, ""))).unwrap();
    let (a, b, person) = (of("a", 1), of("b", 2), of("", 3));
    assert_eq!(desk.drain("a"), [a]);
    assert_eq!(desk.drain("b"), [b]);
    assert_eq!(desk.drain(""), [person]);
}

#[test]
fn case_116_a_taker_that_dies_loses_nothing_and_the_next_is_told_so() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    let dead = desk.claim_as("a", "", TakerKind::Terminal, 10);
    assert_eq!(next_lapse(&desk.db, "a", desk.now).unwrap(), Some(Duration::from_secs(60)));
    desk.pass(60 * SECOND - 1);
    assert!(desk.drain("a").is_empty());
    desk.pass(1);
    let next = desk.claim_as("a", "", TakerKind::Terminal, 10);
    assert_eq!((next[0].notice.seq, next[0].notice.repeat, next[0].attempts), (seq, true, 2));
    // The taker that was thought dead comes back: it has lost its lease.
    assert_eq!(desk.settle(&next[0], Some(&dead[0].lease), &Verdict::Delivered), SettleReply::Lost);
    assert_eq!(desk.settle(&next[0], Some(&next[0].lease), &Verdict::Delivered), SettleReply::Done);
    assert_eq!(desk.settle(&next[0], Some(&next[0].lease), &Verdict::Delivered), SettleReply::Already);
}

#[test]
fn case_117_what_was_run_again_is_not_delivered_even_if_a_taker_had_it() {
    let mut desk = Desk::new();
    let waits = desk.put(&completion(1, owner("a", ""))).unwrap();
    supersede(&desk.db, &id(1).to_string(), &id(9).to_string(), desk.now).unwrap();
    assert_eq!(desk.state(waits).0, "superseded");

    let released = desk.put(&completion(2, owner("a", ""))).unwrap();
    let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
    supersede(&desk.db, &id(2).to_string(), &id(9).to_string(), desk.now).unwrap();
    assert_eq!(desk.state(released).0, "leased");
    desk.settle(&given[0], Some(&given[0].lease), &Verdict::Released);
    assert_eq!(desk.state(released), ("superseded".into(), format!("run again as {}", id(9))));

    let lapsed = desk.put(&completion(3, owner("a", ""))).unwrap();
    desk.drain("a");
    supersede(&desk.db, &id(3).to_string(), &id(9).to_string(), desk.now).unwrap();
    desk.pass(DAY);
    assert!(desk.drain("a").is_empty());
    assert_eq!(desk.state(lapsed).0, "superseded");
}

#[test]
fn a_lease_is_as_long_however_the_clock_is_set() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.drain("a");
    for step in [-1, 400 * DAY, -800 * DAY] {
        desk.now.utc = Time::from_micros(desk.now.utc.micros() + step);
        assert!(desk.drain("a").is_empty(), "a clock set by {step} ended a lease");
    }
    desk.pass(60 * SECOND);
    assert_eq!(desk.drain("a"), [seq]);
}

#[test]
fn a_push_is_due_however_the_clock_is_set() {
    let mut desk = Desk::new();
    insert(&desk.db, &completion(1, owner("a", "")), &hook(), desk.now).unwrap();
    desk.now.utc = Time::from_micros(DAY);
    let taken = take(&desk.db, "hook", 10, "w", 60 * SECOND, desk.now).unwrap();
    assert_eq!(taken.len(), 1);
    let again = PushResult::Again { after: Duration::from_secs(5), reason: "busy".into() };
    assert!(pushed(&desk.db, "hook", 1, "w", &again, desk.now).unwrap());
    desk.now.utc = Time::from_micros(SECOND);
    assert_eq!(next_due(&desk.db, "hook", desk.now).unwrap(), Some(Duration::from_secs(5)));
    desk.pass(5 * SECOND);
    assert_eq!(take(&desk.db, "hook", 10, "w", 60 * SECOND, desk.now).unwrap().len(), 1);
}

#[test]
fn after_a_reboot_all_leases_are_over_and_their_notices_may_be_repeats() {
    let mut desk = Desk::new();
    engine_started(&desk.db, "first", false, desk.now).unwrap();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.drain("a");
    engine_started(&desk.db, "first", false, desk.now).unwrap();
    assert!(desk.drain("a").is_empty(), "an engine that is started again leaves leases as they are");
    desk.now.up = SECOND;
    engine_started(&desk.db, "second", false, desk.now).unwrap();
    let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat), (seq, true));
}

#[test]
fn a_fact_that_is_read_again_uses_up_no_place() {
    let desk = Desk::new();
    let again = |n| desk.put(&completion(n, owner("a", "")));
    assert_eq!([again(1), again(1), again(1), again(2)], [Some(1), None, None, Some(2)]);
}

#[test]
fn a_release_without_the_token_marks_a_repeat() {
    let mut desk = Desk::new();
    desk.put(&completion(1, owner("a", ""))).unwrap();
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert_eq!(desk.settle(&given[0], None, &Verdict::Released), SettleReply::Done);
    assert!(desk.claim_as("a", "", TakerKind::Gateway, 10)[0].notice.repeat);
}

#[test]
fn no_session_settles_the_notices_of_another() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    let of = |session, lease| settle(&desk.db, &given[0].notice.event_id, session, lease, &Verdict::Delivered, desk.now).unwrap().settled;
    assert_eq!(of(Some("b"), Some(given[0].lease.as_str())), SettleReply::Unknown);
    assert_eq!(of(Some("a"), Some("guessed")), SettleReply::Lost);
    assert_eq!(desk.state(seq).0, "leased");
    assert_eq!(of(Some("a"), None), SettleReply::Done);
}

#[test]
fn a_life_that_has_ended_is_given_nothing_and_what_was_for_it_is_dropped() {
    let mut desk = Desk::new();
    note_generation(&desk.db, "a", "first", NamedBy::Client).unwrap();
    let old = desk.put(&completion(1, owner("a", "first"))).unwrap();
    note_generation(&desk.db, "a", "second", NamedBy::Client).unwrap();
    let new = desk.put(&completion(2, owner("a", "second"))).unwrap();
    let any = desk.put(&completion(3, owner("a", ""))).unwrap();
    assert!(desk.claim_as("a", "first", TakerKind::Terminal, 10).is_empty(), "it is not the one that is to be told any more");
    assert_eq!(desk.state(new).0, "pending");
    let given: Vec<u64> = desk.claim_as("a", "second", TakerKind::Terminal, 10).iter().map(|e| e.notice.seq).collect();
    assert_eq!(given, [new, any]);
    assert_eq!(desk.state(old), ("dropped".into(), "generation first of the conversation has ended".into()));
    let kept = read(&desk.db, &NoticeFilter { state: Some("dropped".into()), limit: 10, ..NoticeFilter::default() }).unwrap();
    assert_eq!(kept[0].notice.seq, old, "it stays readable");
}

#[test]
fn what_is_for_a_life_that_is_yet_to_come_waits_for_it() {
    let mut desk = Desk::new();
    note_generation(&desk.db, "a", "first", NamedBy::Client).unwrap();
    let next = desk.put(&posted("x", owner("a", "second"), "")).unwrap();
    assert!(desk.claim_as("a", "first", TakerKind::Terminal, 10).is_empty() && desk.claim_as("a", "", TakerKind::Gateway, 10).is_empty());
    assert_eq!(desk.state(next).0, "pending");
    assert_eq!(desk.claim_as("a", "second", TakerKind::Terminal, 10).iter().map(|e| e.notice.seq).collect::<Vec<_>>(), [next]);
}

#[test]
fn what_the_gateway_names_is_the_newest_whatever_any_other_client_names_later() {
    let mut desk = Desk::new();
    desk.names(NamedBy::Client, "a", "before");
    let gateway = |desk: &mut Desk, generation| {
        let claimed = desk.claim_named_by(NamedBy::Gateway, "a", generation, TakerKind::Gateway, 10);
        (claimed.given.iter().map(|e| e.notice.seq).collect::<Vec<_>>(), claimed.too_late)
    };
    assert_eq!(gateway(&mut desk, "1"), (vec![], 0));
    // The agent of a conversation of the same name in another home.
    desk.names(NamedBy::Client, "a", "elsewhere");
    let (own, foreign) = (desk.put(&completion(1, owner("a", "1"))).unwrap(), desk.put(&completion(2, owner("a", "elsewhere"))).unwrap());
    assert!(desk.claim_as("a", "elsewhere", TakerKind::Terminal, 10).is_empty(), "it is not the newest");
    assert_eq!(desk.state(own).0, "pending");
    assert_eq!(gateway(&mut desk, "1"), (vec![own], 1));
    assert_eq!(desk.state(foreign).0, "dropped");
    // A process that the first generation left names it late.
    assert_eq!(gateway(&mut desk, "2"), (vec![], 0));
    desk.names(NamedBy::Client, "a", "1");
    let new = desk.put(&completion(3, owner("a", "2"))).unwrap();
    assert_eq!(gateway(&mut desk, "2"), (vec![new], 0));
}

#[test]
fn a_gateway_whose_database_was_restored_from_a_copy_is_given_its_notices() {
    let mut desk = Desk::new();
    let gateway = |desk: &mut Desk, generation| desk.claim_named_by(NamedBy::Gateway, "a", generation, TakerKind::Gateway, 10);
    gateway(&mut desk, "1");
    gateway(&mut desk, "2");
    let old = desk.put(&completion(1, owner("a", "1"))).unwrap();
    let new = desk.put(&completion(2, owner("a", "2"))).unwrap();
    let claimed = gateway(&mut desk, "1");
    assert_eq!(claimed.given.iter().map(|e| e.notice.seq).collect::<Vec<_>>(), [old]);
    assert_eq!((claimed.too_late, desk.state(new).0.as_str()), (1, "dropped"), "it is reported, and does not wait for ever");
    gateway(&mut desk, "3");
    let next = desk.put(&completion(3, owner("a", "3"))).unwrap();
    assert_eq!(gateway(&mut desk, "3").given[0].notice.seq, next);
}

#[test]
fn the_start_of_an_agent_makes_a_new_generation_the_newest_and_a_late_one_does_not() {
    let mut desk = Desk::new();
    desk.claim_named_by(NamedBy::Gateway, "a", "1", TakerKind::Gateway, 10);
    desk.names(NamedBy::Client, "outlast:agent:a", "2");
    let second = desk.put(&completion(1, owner("a", "2"))).unwrap();
    desk.names(NamedBy::Client, "outlast:agent:a", "1");
    assert_eq!(desk.claim_as("a", "2", TakerKind::Terminal, 10)[0].notice.seq, second);
}

#[test]
fn the_gateway_is_not_started_for_ever_for_a_generation_that_it_never_made() {
    let mut desk = Desk::new();
    let never = desk.put(&posted("x", owner("a", "never made"), "")).unwrap();
    let claimed = desk.claim_named_by(NamedBy::Gateway, "a", "1", TakerKind::Gateway, 10);
    assert_eq!((claimed.given.len(), claimed.too_late), (0, 1));
    assert_eq!(desk.state(never).0, "dropped");
}

#[test]
fn a_barrier_opens_once_and_not_when_it_was_taken_away() {
    use crate::notices::barrier::{Barrier, ResolvedTarget, mark_open};
    let desk = Desk::new();
    let target = ResolvedTarget::Time { at_us: 0 };
    let barrier =
        Barrier { id: "bar_0".into(), owner: owner("a", ""), target, created_at: desk.now.utc, opened: "time".into(), hits: None };
    assert!(!mark_open(&desk.db, &barrier, desk.now.utc).unwrap());
    let row = "INSERT INTO barrier (id, session, task, generation, until, created_at) VALUES ('bar_0', 'a', '', '', '{}', 0)";
    desk.db.execute(row, []).unwrap();
    assert!(mark_open(&desk.db, &barrier, desk.now.utc).unwrap());
    assert!(!mark_open(&desk.db, &barrier, desk.now.utc).unwrap());
}

#[test]
fn what_is_given_at_once_fits_into_a_frame_with_its_texts() {
    let mut desk = Desk::new();
    // Each of these is three bytes in a text, and fills most of a frame.
    for n in 0..9 {
        desk.put(&posted(&n.to_string(), owner("a", ""), &"[".repeat(200_000))).unwrap();
    }
    let mut all = 0;
    loop {
        let given = desk.claim_as("a", "", TakerKind::Gateway, 1_000);
        if given.is_empty() {
            break;
        }
        let bytes = |entry: &NoticeEntry| {
            let text = serde_json::to_string(&outlast_text::announce(&entry.notice)).unwrap();
            serde_json::to_string(&entry.notice).unwrap().len() + 2 * text.len()
        };
        let together: usize = given.iter().map(bytes).sum();
        assert!(together < 4 << 20, "{} take {together}", given.len());
        all += given.len();
    }
    assert_eq!(all, 9);
    // A notice that is longer than the limit is given alone.
    let long = desk.put(&posted("long", owner("b", ""), &"x".repeat(5 << 20))).unwrap();
    desk.put(&posted("short", owner("b", ""), "x")).unwrap();
    assert_eq!(desk.gateway("b"), [long]);
}

#[test]
fn no_client_can_name_the_lease_of_an_answer() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    answer_begins(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    let held = by_seq(&desk.db, seq).unwrap().unwrap();
    for verdict in [Verdict::Released, Verdict::Delivered, Verdict::Dropped { reason: "no".into() }] {
        assert_eq!(desk.settle(&held, Some("answer"), &verdict), SettleReply::Lost);
    }
    assert!(desk.drain("a").is_empty(), "it is still held for the answer");
    answer_failed(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
    assert!(given[0].notice.repeat, "the client that waited may have read it");
}

/// Makes the event of a notice unreadable.
fn damage(desk: &Desk, seq: u64, event: &[u8]) {
    assert_eq!(desk.db.execute("UPDATE notice SET event = CAST(?2 AS TEXT) WHERE seq = ?1", params![seq as i64, event]).unwrap(), 1);
}

#[test]
fn a_row_with_bytes_that_are_no_text_keeps_no_other_from_being_told() {
    for column in ["event", "reason", "stale", "lease", "kind", "process", "task", "key", "id", "attempts", "lease_up", "lease_until"] {
        let mut desk = Desk::new();
        let put = |n| insert(&desk.db, &completion(n, owner("a", "")), &hook(), desk.now).unwrap().unwrap();
        let seqs = [put(1), put(2), put(3)];
        let is_number = column.starts_with("lease_") || column == "attempts";
        let value = if is_number { "-9223372036854775808" } else { "CAST(x'ff00' AS TEXT)" };
        desk.db.execute(&format!("UPDATE notice SET {column} = {value} WHERE seq = ?1"), params![seqs[1] as i64]).unwrap();
        desk.db
            .execute(&format!("UPDATE delivery SET reason = CAST(x'ff' AS TEXT), attempts = 1 << 40 WHERE seq = {}", seqs[0]), [])
            .unwrap();
        assert_eq!(failing(&desk.db, &hook(), desk.now).unwrap().len(), 1, "{column}");
        let found = read(&desk.db, &NoticeFilter { limit: 10, ..NoticeFilter::default() }).unwrap();
        assert_eq!(found.iter().map(|entry| entry.notice.seq).collect::<Vec<_>>(), seqs, "{column}");
        let pushed = take(&desk.db, "hook", 10, "word", SECOND, desk.now).unwrap();
        assert!(pushed.len() >= 2, "{column}");
        assert_eq!(dead(&desk.db, None, 10).unwrap().len(), 3 - pushed.len(), "{column}");
        let given: Vec<u64> = desk.claim_as("a", "", TakerKind::Gateway, 10).iter().map(|entry| entry.notice.seq).collect();
        assert!(given.contains(&seqs[0]) && given.contains(&seqs[2]), "{column}: {given:?}");
        next_lapse(&desk.db, "a", desk.now).unwrap();
    }
}

#[test]
fn a_barrier_that_cannot_be_read_keeps_no_other_from_opening() {
    let desk = Desk::new();
    for (id, until) in [("b1", &b"\xff"[..]), ("b2", br#"{"until": "time", "at_us": 7}"#), ("b3", b"{")] {
        let values = params![id, until];
        let put = "INSERT INTO barrier (id, session, task, generation, until, created_at) VALUES (?1, 'a', '', '', CAST(?2 AS TEXT), 0)";
        desk.db.execute(put, values).unwrap();
    }
    let found = crate::notices::barrier::all(&desk.db, None).unwrap();
    assert_eq!(found.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), ["b2"]);
}

#[test]
fn a_notice_that_cannot_be_read_keeps_no_other_from_its_sink() {
    let desk = Desk::new();
    let put = |n| insert(&desk.db, &completion(n, owner("a", "")), &hook(), desk.now).unwrap().unwrap();
    let (bad, also_bad, good) = (put(1), put(2), put(3));
    damage(&desk, bad, b"{");
    damage(&desk, also_bad, br#"{"type": "completion", "event_id": 7}"#);
    // One at a time: what cannot be read does not count.
    let taken = take(&desk.db, "hook", 1, "word", SECOND, desk.now).unwrap();
    assert_eq!(taken.iter().map(|owed| owed.entry.notice.seq).collect::<Vec<_>>(), [good]);
    let dead = dead(&desk.db, None, 10).unwrap();
    assert_eq!(dead.iter().map(|(_, owed)| owed.entry.notice.seq).collect::<Vec<_>>(), [bad, also_bad]);
    assert!(dead[0].1.reason.starts_with("it cannot be read: "), "{}", dead[0].1.reason);
}

#[test]
fn a_notice_that_cannot_be_read_is_in_the_history_and_can_be_settled() {
    let desk = Desk::new();
    let seqs: Vec<u64> = (1..=3).map(|n| desk.put(&completion(n, owner("a", ""))).unwrap()).collect();
    damage(&desk, seqs[1], b"\xff\0");
    for filter in [NoticeFilter::default(), NoticeFilter { session: Some("a".into()), ..NoticeFilter::default() }] {
        let found = read(&desk.db, &NoticeFilter { limit: 10, ..filter }).unwrap();
        assert_eq!(found.iter().map(|entry| entry.notice.seq).collect::<Vec<_>>(), seqs);
        let bad = &found[1].notice;
        let said = (bad.kind(), bad.session_key.as_str(), bad.session_id.as_str());
        assert_eq!(said, ("completion", "a", id(2).to_string().as_str()), "the columns are known");
        assert!(outlast_text::announce(bad).contains("The content of this notice cannot be read"), "{}", outlast_text::announce(bad));
    }
    let bad = by_seq(&desk.db, seqs[1]).unwrap().unwrap();
    assert_eq!(desk.settle(&bad, None, &Verdict::Dropped { reason: "damaged".into() }), SettleReply::Done);
}
