//! Ends that an owner has seen.

use super::*;

#[test]
fn case_103_104_what_was_polled_is_for_a_gateway_and_not_for_a_drain() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.observe(1);
    assert!(!is_consumed(&desk.db, &id(1).to_string()).unwrap());
    assert!(desk.drain("a").is_empty());
    assert_eq!(desk.gateway("a"), [seq]);
}

#[test]
fn case_105_a_look_at_a_process_that_runs_changes_nothing() {
    let mut desk = Desk::new();
    desk.observe(1);
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    assert_eq!(desk.drain("a"), [seq]);
}

#[test]
fn case_107_what_was_read_to_its_end_is_not_announced() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.consume(1);
    assert!(desk.drain("a").is_empty() && desk.gateway("a").is_empty());
    assert_eq!(desk.state(seq), ("consumed".into(), "its end was seen by wait".into()));
}

#[test]
fn an_end_that_is_seen_before_its_notice_is_written_is_not_told() {
    let mut desk = Desk::new();
    desk.consume(1);
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    assert!(desk.gateway("a").is_empty());
    assert_eq!(desk.state(seq).0, "consumed");
}

#[test]
fn case_108_only_the_completion_is_skipped_in_a_drain() {
    let mut desk = Desk::new();
    let line = desk.put(&matched(1, 7, owner("a", ""))).unwrap();
    desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.consume(1);
    assert_eq!(desk.drain("a"), [line]);
}

#[test]
fn case_109_a_gateway_does_not_tell_lines_of_a_process_whose_end_it_told() {
    let mut desk = Desk::new();
    desk.put(&completion(1, owner("a", ""))).unwrap();
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert_eq!(desk.settle(&given[0], Some(&given[0].lease), &Verdict::Delivered), SettleReply::Done);
    let line = desk.put(&matched(1, 7, owner("a", ""))).unwrap();
    assert!(desk.gateway("a").is_empty());
    assert_eq!(desk.state(line), ("dropped".into(), "the end of the process was told already".into()));
    assert_eq!(desk.put(&completion(1, owner("a", ""))), None, "the same end again is the same notice");
}

#[test]
fn case_115_what_was_consumed_stays_so_when_its_process_is_removed() {
    let mut desk = Desk::new();
    remember(&desk.db, 1, "a");
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    // A taker has it while the end is seen, and never comes back.
    desk.drain("a");
    desk.consume(1);
    assert_eq!(desk.state(seq).0, "leased");
    desk.db.execute("DELETE FROM process", []).unwrap();
    desk.pass(DAY);
    desk.prune(SECOND, &[]);
    assert!(desk.drain("a").is_empty() && desk.gateway("a").is_empty());
    assert_eq!(desk.state(seq).0, "consumed");
}

#[test]
fn an_end_that_is_seen_while_a_taker_has_it_is_the_takers_to_settle() {
    let mut desk = Desk::new();
    for (verdict, state) in
        [(Verdict::Delivered, "delivered"), (Verdict::Released, "consumed"), (Verdict::Dropped { reason: "no".into() }, "dropped")]
    {
        let n = state.len() as u8;
        let seq = desk.put(&completion(n, owner("a", ""))).unwrap();
        let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
        desk.consume(n);
        assert_eq!(desk.state(seq).0, "leased");
        assert_eq!(desk.settle(&given[0], Some(&given[0].lease), &verdict), SettleReply::Done);
        assert_eq!(desk.state(seq).0, state);
    }
}

#[test]
fn an_engine_that_dies_over_an_answer_has_it_told_at_once_by_the_next() {
    let mut desk = Desk::new();
    engine_started(&desk.db, "b", false, desk.now).unwrap();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    answer_begins(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    assert!(desk.drain("a").is_empty() && desk.gateway("a").is_empty());
    engine_started(&desk.db, "b", false, desk.now).unwrap();
    let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat), (seq, true));
}

#[test]
fn an_answer_takes_over_from_a_taker_whose_time_is_over() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.drain("a");
    desk.pass(60 * SECOND);
    answer_begins(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    assert!(desk.drain("a").is_empty(), "it is being answered");
    desk.consume(1);
    assert_eq!(desk.state(seq).0, "consumed");
}

#[test]
fn what_is_answered_while_a_taker_has_it_is_a_repeat_if_they_give_it_back() {
    let mut desk = Desk::new();
    desk.put(&completion(1, owner("a", ""))).unwrap();
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    answer_begins(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    // Between the answer and the report that it was sent.
    assert_eq!(desk.settle(&given[0], Some(&given[0].lease), &Verdict::Released), SettleReply::Done);
    assert!(desk.claim_as("a", "", TakerKind::Gateway, 10)[0].notice.repeat);
}

#[test]
fn an_end_whose_waiting_client_left_before_the_answer_is_delivered() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    answer_begins(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    answer_failed(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    assert_eq!(desk.drain("a"), [seq]);
    answer_failed(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    assert_eq!(desk.state(seq).0, "leased", "what a taker has is not let go of");
}

#[test]
fn an_observed_end_without_a_lease_is_nothing_to_wait_for() {
    let mut desk = Desk::new();
    desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.gateway("a");
    desk.observe(1);
    desk.pass(DAY);
    assert!(desk.drain("a").is_empty());
    assert_eq!(next_lapse(&desk.db, "a", desk.now).unwrap(), None, "a terminal would ask again and again");
}

/// An end, reserved for a client that waits for it.
fn kept(desk: &Desk, n: u8, at_most: i64) -> u64 {
    let end = completion(n, owner("a", ""));
    let seq = desk.put(&end).unwrap();
    reserve(&desk.db, &end.key, at_most, desk.now).unwrap();
    seq
}

#[test]
fn a_notice_reserved_for_a_client_that_does_not_come_is_no_repeat() {
    let mut desk = Desk::new();
    let seq = kept(&desk, 1, ANNOUNCED_WAIT_TIMEOUT);
    assert!(desk.drain("a").is_empty() && desk.gateway("a").is_empty());
    assert_eq!(next_lapse(&desk.db, "a", desk.now).unwrap(), Some(Duration::from_secs(2)));
    desk.pass(ANNOUNCED_WAIT_TIMEOUT);
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat, given[0].attempts), (seq, false, 1));
}

#[test]
fn a_notice_reserved_for_a_client_that_leaves_is_free_at_once_and_no_repeat() {
    let mut desk = Desk::new();
    let seq = kept(&desk, 1, ANSWER_TIMEOUT);
    assert!(waiters_left(&desk.db, &completion(1, owner("a", "")).key, false, desk.now).unwrap());
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat), (seq, false));
    assert!(!waiters_left(&desk.db, &completion(1, owner("a", "")).key, false, desk.now).unwrap(), "what a taker has is not given back");
}

#[test]
fn a_prepared_answer_to_a_client_that_left_is_no_repeat() {
    let mut desk = Desk::new();
    let (seq, key) = (kept(&desk, 1, ANSWER_TIMEOUT), completion(1, owner("a", "")).key);
    answer_begins(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    assert!(!waiters_left(&desk.db, &key, false, desk.now).unwrap() && waiters_left(&desk.db, &key, true, desk.now).unwrap());
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat, given[0].attempts), (seq, false, 1));
    assert!(!waiters_left(&desk.db, &key, true, desk.now).unwrap(), "what a taker has is not taken back");
    let (_, key) = (kept(&desk, 2, ANSWER_TIMEOUT), completion(2, owner("a", "")).key);
    for _ in 0..2 {
        answer_begins(&desk.db, &end_key(id(2).to_string()), desk.now).unwrap();
    }
    assert!(!waiters_left(&desk.db, &key, true, desk.now).unwrap(), "another answer is under way");
}

#[test]
fn an_answer_with_a_reserved_notice_has_all_the_time_of_an_answer() {
    let mut desk = Desk::new();
    let seq = kept(&desk, 1, ANNOUNCED_WAIT_TIMEOUT);
    desk.pass(ANNOUNCED_WAIT_TIMEOUT - 1);
    answer_begins(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    desk.pass(ANSWER_TIMEOUT - 1);
    assert!(desk.gateway("a").is_empty());
    assert!(!waiters_left(&desk.db, &completion(1, owner("a", "")).key, false, desk.now).unwrap(), "an answer is under way");
    desk.pass(1);
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat), (seq, true), "a client may have been answered");
}

#[test]
fn a_client_that_waited_has_a_moment_to_come_back_to_the_next_engine() {
    let mut desk = Desk::new();
    engine_started(&desk.db, "b", false, desk.now).unwrap();
    let seq = kept(&desk, 1, ANSWER_TIMEOUT);
    engine_started(&desk.db, "b", false, desk.now).unwrap();
    desk.pass(ANNOUNCED_WAIT_TIMEOUT - 1);
    assert!(desk.gateway("a").is_empty());
    desk.pass(1);
    let given = desk.claim_as("a", "", TakerKind::Gateway, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat), (seq, false));
}

#[test]
fn a_reserved_notice_is_consumed_when_its_end_is_seen() {
    let desk = Desk::new();
    let seq = kept(&desk, 1, ANNOUNCED_WAIT_TIMEOUT);
    desk.consume(1);
    assert_eq!(desk.state(seq).0, "consumed");
}

#[test]
fn an_answer_has_no_token_that_could_be_shown() {
    let desk = Desk::new();
    let seq = kept(&desk, 1, ANNOUNCED_WAIT_TIMEOUT);
    let shown = || by_seq(&desk.db, seq).unwrap().unwrap();
    assert_eq!((shown().state.as_str(), shown().lease.as_str()), ("leased", ""));
    answer_begins(&desk.db, &end_key(id(1).to_string()), desk.now).unwrap();
    assert_eq!((shown().state.as_str(), shown().lease.as_str()), ("leased", ""));
}

#[test]
fn a_delivery_that_is_held_back_for_a_waiter_does_not_count_as_failing() {
    let mut desk = Desk::new();
    let end = completion(1, owner("a", ""));
    let until = desk.now.up + ANNOUNCED_WAIT_TIMEOUT;
    insert_for(&desk.db, &end, &hook(), WrittenFor::Waiter { until }, Some(until), desk.now).unwrap();
    assert!(take(&desk.db, "hook", 10, "w", 60 * SECOND, desk.now).unwrap().is_empty());
    desk.pass(ANNOUNCED_WAIT_TIMEOUT);
    assert_eq!(take(&desk.db, "hook", 10, "w", 60 * SECOND, desk.now).unwrap().len(), 1);
    assert_eq!(failing(&desk.db, &hook(), desk.now).unwrap(), []);
}

#[test]
fn a_delivery_that_is_held_back_is_removed_by_the_answer_and_freed_without_one() {
    let desk = Desk::new();
    let written = |n| {
        let until = desk.now.up + ANSWER_TIMEOUT;
        insert_for(&desk.db, &completion(n, owner("a", "")), &hook(), WrittenFor::Answer, Some(until), desk.now).unwrap().unwrap()
    };
    let (answered, failed, left) = (written(1), written(2), written(3));
    assert_eq!((answered.state.as_str(), answered.attempts, owed(&desk.db, &hook(), desk.now).unwrap()), ("leased", 1, 3));
    desk.consume(1);
    assert_eq!(owed(&desk.db, &hook(), desk.now).unwrap(), 2);
    answer_failed(&desk.db, &end_key(id(2).to_string()), desk.now).unwrap();
    assert!(waiters_left(&desk.db, &end_key(id(3)), true, desk.now).unwrap());
    let taken = take(&desk.db, "hook", 10, "w", SECOND, desk.now).unwrap();
    let taken: Vec<(u64, bool)> = taken.iter().map(|owed| (owed.entry.notice.seq, owed.entry.notice.repeat)).collect();
    assert_eq!(taken, [(failed.notice.seq, true), (left.notice.seq, false)], "another client may have read the answer that failed");
}

#[test]
fn of_two_clients_at_one_barrier_it_is_enough_that_one_is_answered() {
    let mut desk = Desk::new();
    let open = posted("barrier", owner("a", ""), "open");
    let seq = desk.put(&open).unwrap();
    reserve(&desk.db, &open.key, ANSWER_TIMEOUT, desk.now).unwrap();
    for _ in 0..2 {
        answer_begins(&desk.db, &open.key, desk.now).unwrap();
    }
    answer_failed(&desk.db, &open.key, desk.now).unwrap();
    answered(&desk.db, &open.key, desk.now).unwrap();
    assert_eq!(desk.state(seq), ("consumed".into(), "a client that waited was answered".into()));
    assert!(desk.gateway("a").is_empty());
}

/// The numbers of the deliveries that the hook leases.
fn taken(desk: &Desk, token: &str) -> Vec<u64> {
    take(&desk.db, "hook", 10, token, SECOND, desk.now).unwrap().iter().map(|owed| owed.entry.notice.seq).collect()
}

#[test]
fn a_delivery_that_is_held_back_for_a_waiter_does_not_hold_up_later_ones() {
    let mut desk = Desk::new();
    let until = desk.now.up + ANSWER_TIMEOUT;
    let quiet = completion(1, owner("a", ""));
    let quiet = insert_for(&desk.db, &quiet, &hook(), WrittenFor::Answer, Some(until), desk.now).unwrap().unwrap().notice.seq;
    let later = insert(&desk.db, &completion(2, owner("a", "")), &hook(), desk.now).unwrap().unwrap();
    assert_eq!(taken(&desk, "w"), [later], "the answer to the client may take a minute");
    // Once the sink had it, it is put off like any other.
    desk.pass(ANSWER_TIMEOUT);
    assert_eq!(taken(&desk, "x"), [quiet, later]);
    for (seq, token) in [(quiet, "x"), (later, "x")] {
        pushed(&desk.db, "hook", seq, token, &PushResult::Later { after: Duration::from_secs(60) }, desk.now).unwrap();
    }
    insert(&desk.db, &completion(3, owner("a", "")), &hook(), desk.now).unwrap().unwrap();
    assert_eq!(taken(&desk, "y"), [0; 0], "the sink wants them in order");
}
