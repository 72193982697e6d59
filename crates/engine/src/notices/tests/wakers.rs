//! Sinks that wake agents.

use super::*;

const LEASE: i64 = 10 * SECOND;

fn waker(name: &str) -> Push {
    Push { wakes: true, ..Push::observer(name) }
}

impl Desk {
    fn put_for(&self, draft: &NoticeDraft, sinks: &[Push]) -> u64 {
        insert(&self.db, draft, sinks, self.now).unwrap().unwrap()
    }

    /// The numbers of the deliveries that the sink leases.
    fn lend(&self, word: &str) -> Vec<u64> {
        let owed = wake::take(&self.db, "waker", 10, word, LEASE, self.now).unwrap();
        owed.iter().map(|o| o.entry.notice.seq).collect()
    }

    /// The numbers of those that it may deliver, and whether each may be a repeat.
    fn begin(&self, seqs: &[u64], word: &str) -> Vec<(u64, bool)> {
        let lent: Vec<(u64, String)> = seqs.iter().map(|seq| (*seq, word.to_owned())).collect();
        let (go, _) = wake::begin(&self.db, "waker", &lent, self.now).unwrap();
        go.iter().map(|o| (o.entry.notice.seq, o.entry.notice.repeat)).collect()
    }

    fn pushed(&self, seq: u64, word: &str, how: &PushResult) -> (bool, Option<ProcessId>) {
        wake::pushed(&self.db, "waker", seq, word, how, self.now).unwrap()
    }

    fn owed(&self) -> u64 {
        owed(&self.db, &[waker("waker")], self.now).unwrap()
    }
}

fn failed() -> PushResult {
    PushResult::Again { after: Duration::from_secs(5), reason: "busy".into() }
}

#[test]
fn what_a_waking_sink_delivered_no_other_taker_gets() {
    let mut desk = Desk::new();
    let seq = desk.put_for(&completion(1, owner("a", "")), &[waker("waker")]);
    assert_eq!(desk.lend("w"), [seq]);
    // The sink has not begun: another taker may still get the notice.
    assert_eq!(desk.begin(&[seq], "w"), [(seq, false)]);
    assert!(desk.gateway("a").is_empty() && desk.drain("a").is_empty(), "no other taker gets it meanwhile");
    assert_eq!(desk.pushed(seq, "w", &PushResult::Delivered), (true, Some(id(1))));
    assert_eq!(desk.state(seq).0, "delivered");
    assert!(is_consumed(&desk.db, &id(1).to_string()).unwrap());
    assert!(desk.gateway("a").is_empty());
    assert_eq!(desk.owed(), 0);
}

#[test]
fn what_the_agent_has_seen_by_itself_wakes_it_no_more() {
    let desk = Desk::new();
    let sinks = [waker("waker"), Push::observer("looks-on")];
    let before = desk.put_for(&completion(1, owner("a", "")), &sinks);
    desk.consume(1);
    assert_eq!((desk.owed(), desk.lend("w")), (0, vec![]), "seen before it was lent");
    let lent = desk.put_for(&completion(2, owner("a", "")), &sinks);
    assert_eq!(desk.lend("w"), [lent]);
    desk.consume(2);
    assert_eq!(desk.begin(&[lent], "w"), [], "seen while it waited for its turn");
    desk.consume(3);
    desk.put_for(&completion(3, owner("a", "")), &sinks);
    assert_eq!(desk.owed(), 0, "seen before it was written");
    // Observing sinks get it all the same.
    assert_eq!(owed(&desk.db, &sinks[1..], desk.now).unwrap(), 3);
    assert_eq!(desk.state(before).0, "consumed");
}

#[test]
fn what_is_seen_while_a_waker_tells_it_is_not_tried_again() {
    let desk = Desk::new();
    let seq = desk.put_for(&completion(1, owner("a", "")), &[waker("waker")]);
    desk.lend("w");
    desk.begin(&[seq], "w");
    desk.consume(1);
    desk.pushed(seq, "w", &failed());
    assert_eq!((desk.state(seq).0.as_str(), desk.owed()), ("consumed", 0));
}

#[test]
fn a_delivery_waits_while_another_taker_has_the_notice() {
    let mut desk = Desk::new();
    let seq = desk.put_for(&completion(1, owner("a", "")), &[waker("waker")]);
    let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
    assert_eq!(desk.lend("w"), [0; 0]);
    assert_eq!(wake::next_due(&desk.db, "waker", desk.now).unwrap(), Some(Duration::from_secs(60)));
    desk.settle(&given[0], Some(&given[0].lease), &Verdict::Released);
    assert_eq!(desk.lend("w"), [seq], "they did not tell it");
    // Another taker was faster: the delivery is put back, and counts as no attempt.
    let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
    assert_eq!(desk.begin(&[seq], "w"), []);
    assert_eq!(desk.lend("x"), [0; 0]);
    desk.pass(60 * SECOND);
    assert_eq!(desk.lend("x"), [seq]);
    assert_eq!(desk.begin(&[seq], "x"), [(seq, true)], "the taker that had it may have delivered it");
    assert_eq!(desk.settle(&given[0], Some(&given[0].lease), &Verdict::Delivered), SettleReply::Lost);
    desk.pushed(seq, "x", &PushResult::Delivered);
    assert_eq!(desk.state(seq).0, "delivered");
}

#[test]
fn what_failed_to_wake_is_free_for_other_takers_and_may_be_a_repeat() {
    let mut desk = Desk::new();
    let seq = desk.put_for(&completion(1, owner("a", "")), &[waker("waker")]);
    desk.lend("w");
    desk.begin(&[seq], "w");
    desk.pushed(seq, "w", &failed());
    let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat), (seq, true));
    desk.settle(&given[0], Some(&given[0].lease), &Verdict::Delivered);
    desk.pass(5 * SECOND);
    assert_eq!((desk.lend("x"), desk.owed()), (vec![], 0));
}

#[test]
fn what_a_waking_sink_had_when_its_engine_died_is_delivered_again_as_a_repeat() {
    let mut desk = Desk::new();
    let told = desk.put_for(&completion(1, owner("a", "")), &[waker("waker")]);
    let lent = desk.put_for(&completion(2, owner("a", "")), &[waker("waker")]);
    desk.lend("w");
    desk.begin(&[told], "w");
    let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
    assert_eq!(given.iter().map(|e| e.notice.seq).collect::<Vec<_>>(), [lent], "the lease of another taker, which lives on");
    engine_started(&desk.db, "boot", false, desk.now).unwrap();
    engine_started(&desk.db, "boot", false, desk.now).unwrap();
    // After a reboot all leases are over; within a boot takers keep theirs.
    desk.settle(&given[0], Some(&given[0].lease), &Verdict::Delivered);
    assert_eq!(desk.lend("x"), [told]);
    assert_eq!(desk.begin(&[told], "x"), [(told, true)]);
}

#[test]
fn an_agent_has_one_waker_the_first_that_is_for_it() {
    let desk = Desk::new();
    let of = |name: &str, session: &str| Push { sessions: vec![session.into()], ..waker(name) };
    let sinks = [of("codex", "codex:*"), of("waker", "*"), of("late", "*")];
    desk.put_for(&posted("1", owner("codex:7", ""), "x"), &sinks);
    desk.put_for(&posted("2", owner("b", ""), "x"), &sinks);
    let count = |n: usize| owed(&desk.db, &sinks[n..=n], desk.now).unwrap();
    assert_eq!((count(0), count(1), count(2)), (1, 1, 0));
}

#[test]
fn what_is_for_a_life_to_come_is_left_alone_and_for_one_that_ended_dropped() {
    let desk = Desk::new();
    note_generation(&desk.db, "a", "g1", NamedBy::Client).unwrap();
    let to_come = desk.put_for(&posted("1", owner("a", "g2"), "x"), &[waker("waker")]);
    assert_eq!(desk.lend("w"), [to_come]);
    assert_eq!(desk.begin(&[to_come], "w"), []);
    assert_eq!(desk.lend("x"), [0; 0], "not at once again");
    assert_eq!(wake::next_due(&desk.db, "waker", desk.now).unwrap(), Some(Duration::from_secs(60)));
    note_generation(&desk.db, "a", "g2", NamedBy::Client).unwrap();
    note_generation(&desk.db, "a", "g3", NamedBy::Client).unwrap();
    let mut desk = desk;
    desk.pass(60 * SECOND);
    assert_eq!(desk.lend("y"), [to_come]);
    assert_eq!(desk.begin(&[to_come], "y"), []);
    assert_eq!((desk.state(to_come).0.as_str(), desk.owed()), ("dropped", 0));
}

#[test]
fn what_is_for_a_generation_to_come_holds_up_no_later_notice() {
    let mut desk = Desk::new();
    desk.names(NamedBy::Client, "a", "g1");
    let to_come = desk.put_for(&posted("1", owner("a", "g2"), "x"), &[waker("waker")]);
    assert_eq!(desk.lend("w"), [to_come]);
    assert_eq!(desk.begin(&[to_come], "w"), []);
    let [later, in_order] = ["2", "3"].map(|name| desk.put_for(&posted(name, owner("a", "g1"), "x"), &[waker("waker")]));
    assert_eq!(desk.lend("x"), [later, in_order], "g2 may never begin");
    // A notice of this generation that the sink puts off still comes first.
    assert!(desk.pushed(later, "x", &PushResult::Later { after: Duration::from_secs(5) }).0);
    desk.pass(LEASE);
    assert_eq!(desk.lend("y"), [later, in_order]);
    assert!(desk.pushed(later, "y", &PushResult::Later { after: Duration::from_secs(60) }).0);
    desk.pass(LEASE);
    assert_eq!(desk.lend("z"), [0; 0]);
}

#[test]
fn what_is_offered_again_wakes_again() {
    let desk = Desk::new();
    let seq = desk.put_for(&completion(1, owner("a", "")), &[waker("waker")]);
    desk.lend("w");
    desk.begin(&[seq], "w");
    desk.pushed(seq, "w", &PushResult::Delivered);
    desk.replay(seq, Some("a"), &[waker("waker")]);
    assert_eq!(desk.lend("x"), [seq]);
    assert_eq!(desk.begin(&[seq], "x"), [(seq, true)]);
}

#[test]
fn what_another_taker_delivered_wakes_once_it_is_offered_again() {
    for is_removed in [false, true] {
        let mut desk = Desk::new();
        let sinks = [waker("waker"), waker("late"), Push::observer("looks-on")];
        let seq = desk.put_for(&completion(1, owner("a", "")), &sinks);
        let given = desk.claim_as("a", "", TakerKind::Terminal, 10);
        desk.settle(&given[0], Some(&given[0].lease), &Verdict::Delivered);
        if is_removed {
            assert_eq!(desk.owed(), 0, "counting removes the delivery");
        }
        assert_eq!(desk.replay(seq, Some("a"), &sinks), 1);
        let count = |n: usize| owed(&desk.db, &sinks[n..=n], desk.now).unwrap();
        assert_eq!((count(0), count(1), count(2)), (1, 0, 1), "{is_removed}");
        assert_eq!(desk.lend("w"), [seq]);
        assert_eq!(desk.begin(&[seq], "w"), [(seq, true)]);
    }
}

#[test]
fn a_sink_that_asks_twice_to_wake_is_answered_twice_and_settles_once() {
    let mut desk = Desk::new();
    let seq = desk.put_for(&completion(1, owner("a", "")), &[waker("waker")]);
    desk.lend("w");
    assert_eq!(desk.begin(&[seq], "w"), [(seq, false)]);
    // The first answer was lost.
    desk.pass(SECOND);
    assert_eq!(desk.begin(&[seq], "w"), [(seq, false)]);
    assert!(desk.drain("a").is_empty(), "no other taker gets it meanwhile");
    assert_eq!(desk.pushed(seq, "w", &PushResult::Delivered), (true, Some(id(1))));
    assert_eq!((desk.state(seq).0.as_str(), desk.owed()), ("delivered", 0));
}

#[test]
fn a_notice_that_cannot_be_read_wakes_no_one() {
    let desk = Desk::new();
    let seq = desk.put_for(&completion(1, owner("a", "")), &[waker("waker")]);
    desk.lend("w");
    desk.db.execute("UPDATE notice SET event = '{' WHERE seq = ?1", params![seq as i64]).unwrap();
    assert_eq!(desk.begin(&[seq], "w"), []);
    assert_eq!((desk.state(seq).0.as_str(), desk.owed()), ("dropped", 0));
}
