//! Each rule by itself. Histories of any kind are in `histories`, takers at the same time in `takers`.

mod histories;
mod takers;

use super::table::*;
use crate::index;
use outlast_core::{Body, Completion, Owner, ProcessId, Reason, Route, Time, WatchMatch};
use rusqlite::{Connection, params};
use std::time::{Duration, Instant};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Tables as the index has them, in memory.
fn tables() -> Connection {
    let db = Connection::open_in_memory().unwrap();
    index::keep_questions_ready(&db).unwrap();
    db.execute_batch(index::CREATE).unwrap();
    db.execute_batch(CREATE).unwrap();
    db
}

fn id(n: u8) -> ProcessId {
    ProcessId::from_bytes([n; 6])
}

fn owner(session: &str, generation: &str) -> Owner {
    let part = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
    Owner { session: part(session), task: None, generation: part(generation) }
}

fn draft(key: String, process: Option<ProcessId>, owner: Owner, body: Body) -> Draft {
    Draft { key, at: Time::from_micros(DAY), process, owner, route: Route::default(), body, repeat: false }
}

fn completion(n: u8, owner: Owner) -> Draft {
    let body = Completion {
        command: "make".into(),
        exit_code: Some(0),
        signal: None,
        completion_reason: Reason::Exited,
        termination_source: String::new(),
        output: "done".into(),
        output_cut: None,
        started_at: None,
        ended_at: None,
        handoff_note: None,
    };
    draft(format!("{}/completion", id(n)), Some(id(n)), owner, Body::Completion(Box::new(body)))
}

fn matched(n: u8, at: u64, owner: Owner) -> Draft {
    let body = WatchMatch { command: "make".into(), pattern: "ERROR".into(), output: "ERROR".into(), suppressed: 0 };
    draft(format!("{}/watch_match/{at}", id(n)), Some(id(n)), owner, Body::WatchMatch(body))
}

fn posted(name: &str, owner: Owner, text: &str) -> Draft {
    let event = serde_json::json!({"type": "custom", "text": text});
    draft(format!("posted/{name}"), None, owner, Body::Posted(event.as_object().unwrap().clone()))
}

/// A row of a process, as far as anything here looks at it.
fn remember(db: &Connection, n: u8, session: &str) {
    db.prepare_cached(
        "INSERT INTO process (id, accepted_at, session, hash, kept, phase, final, log_end, cursor, bytes, consumed, detached, sum)
         VALUES (?1, 0, ?2, '', '', '', 1, 0, 0, 0, 0, 0, 0)",
    )
    .unwrap()
    .execute(params![id(n).to_string(), session])
    .unwrap();
}

/// Tables, a clock, and short words for what is done.
struct Desk {
    db: Connection,
    now: Moment,
    words: u32,
}

impl Desk {
    fn new() -> Self {
        Self { db: tables(), now: Moment { utc: Time::from_micros(100 * DAY), up: 1_000 * SECOND }, words: 0 }
    }

    fn pass(&mut self, micros: i64) {
        self.now = Moment { utc: Time::from_micros(self.now.utc.micros() + micros), up: self.now.up + micros };
    }

    fn put(&self, draft: &Draft) -> Option<u64> {
        insert(&self.db, draft, &[], self.now).unwrap()
    }

    fn claim_as(&mut self, session: &str, generation: &str, taker: Taker, limit: usize) -> Vec<Entry> {
        self.words += 1;
        let (session, generation, lease) = (session.to_owned(), generation.to_owned(), format!("word {}", self.words));
        claim(&self.db, &Claim { session, generation, taker, limit, lease, lease_for: 60 * SECOND, now: self.now }).unwrap()
    }

    /// The places of what a terminal is given.
    fn drain(&mut self, session: &str) -> Vec<u64> {
        self.claim_as(session, "", Taker::Terminal, 1_000).iter().map(|e| e.notice.seq).collect()
    }

    /// The places of what a gateway is given.
    fn gateway(&mut self, session: &str) -> Vec<u64> {
        self.claim_as(session, "", Taker::Gateway, 1_000).iter().map(|e| e.notice.seq).collect()
    }

    fn judge(&self, entry: &Entry, lease: Option<&str>, verdict: &Verdict) -> Settled {
        judge(&self.db, &entry.notice.event_id, None, lease, verdict, self.now.utc).unwrap().settled
    }

    fn state(&self, seq: u64) -> (String, String) {
        let sql = "SELECT state, reason FROM notice WHERE seq = ?1";
        self.db.query_row(sql, params![seq as i64], |r| Ok((r.get(0)?, r.get(1)?))).unwrap()
    }

    fn consume(&self, n: u8) {
        consume(&self.db, &id(n).to_string(), "wait", self.now).unwrap();
    }

    fn observe(&self, n: u8) {
        observe(&self.db, &id(n).to_string()).unwrap();
    }

    fn prune(&self, keep: i64, sinks: &[Push]) {
        let before = Time::from_micros(self.now.utc.micros() - keep);
        while prune(&self.db, before, sinks).unwrap() {}
        sweep(&self.db, before).unwrap();
    }
}

fn hook() -> Vec<Push> {
    vec![Push { name: "hook".into(), kinds: Vec::new(), sessions: Vec::new() }]
}

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
fn case_107_what_was_read_to_its_end_is_announced_by_nobody() {
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
    let given = desk.claim_as("a", "", Taker::Gateway, 10);
    assert_eq!(desk.judge(&given[0], Some(&given[0].lease), &Verdict::Delivered), Settled::Done);
    let line = desk.put(&matched(1, 7, owner("a", ""))).unwrap();
    assert!(desk.gateway("a").is_empty());
    assert_eq!(desk.state(line), ("dropped".into(), "the end of the process was told already".into()));
    assert_eq!(desk.put(&completion(1, owner("a", ""))), None, "the same end again is the same notice");
}

#[test]
fn case_110_of_two_that_ask_at_once_one_is_given_it_and_if_it_fails_the_other() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    let first = desk.claim_as("a", "", Taker::Gateway, 10);
    assert!(desk.gateway("a").is_empty());
    assert_eq!(desk.judge(&first[0], Some(&first[0].lease), &Verdict::Released), Settled::Done);
    let second = desk.claim_as("a", "", Taker::Gateway, 10);
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
fn case_113_each_conversation_is_given_its_own() {
    let mut desk = Desk::new();
    let of = |s: &str, n| desk.put(&completion(n, owner(s, ""))).unwrap();
    let (a, b, person) = (of("a", 1), of("b", 2), of("", 3));
    assert_eq!(desk.drain("a"), [a]);
    assert_eq!(desk.drain("b"), [b]);
    assert_eq!(desk.drain(""), [person]);
}

#[test]
fn case_115_what_was_consumed_stays_so_when_its_process_is_removed() {
    let mut desk = Desk::new();
    remember(&desk.db, 1, "a");
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    // Somebody has it while it is seen, and never comes back.
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
fn case_116_a_taker_that_dies_loses_nothing_and_the_next_is_told_so() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    let dead = desk.claim_as("a", "", Taker::Terminal, 10);
    assert_eq!(next_lapse(&desk.db, "a", desk.now).unwrap(), Some(Duration::from_secs(60)));
    desk.pass(60 * SECOND - 1);
    assert!(desk.drain("a").is_empty());
    desk.pass(1);
    let next = desk.claim_as("a", "", Taker::Terminal, 10);
    assert_eq!((next[0].notice.seq, next[0].notice.repeat, next[0].attempts), (seq, true, 2));
    // The dead one comes back after all: it is not its own any more.
    assert_eq!(desk.judge(&next[0], Some(&dead[0].lease), &Verdict::Delivered), Settled::Lost);
    assert_eq!(desk.judge(&next[0], Some(&next[0].lease), &Verdict::Delivered), Settled::Done);
    assert_eq!(desk.judge(&next[0], Some(&next[0].lease), &Verdict::Delivered), Settled::Already);
}

#[test]
fn case_117_what_was_run_again_is_not_told_even_if_somebody_had_it() {
    let mut desk = Desk::new();
    let waits = desk.put(&completion(1, owner("a", ""))).unwrap();
    supersede(&desk.db, &id(1).to_string(), &id(9).to_string(), desk.now).unwrap();
    assert_eq!(desk.state(waits).0, "superseded");

    let released = desk.put(&completion(2, owner("a", ""))).unwrap();
    let given = desk.claim_as("a", "", Taker::Terminal, 10);
    supersede(&desk.db, &id(2).to_string(), &id(9).to_string(), desk.now).unwrap();
    assert_eq!(desk.state(released).0, "leased");
    desk.judge(&given[0], Some(&given[0].lease), &Verdict::Released);
    assert_eq!(desk.state(released), ("superseded".into(), format!("run again as {}", id(9))));

    let lapsed = desk.put(&completion(3, owner("a", ""))).unwrap();
    desk.drain("a");
    supersede(&desk.db, &id(3).to_string(), &id(9).to_string(), desk.now).unwrap();
    desk.pass(DAY);
    assert!(desk.drain("a").is_empty());
    assert_eq!(desk.state(lapsed).0, "superseded");
}

#[test]
fn an_end_that_is_seen_while_somebody_tells_it_is_theirs_to_settle() {
    let mut desk = Desk::new();
    for (verdict, state) in [(Verdict::Delivered, "delivered"), (Verdict::Released, "consumed"), (Verdict::Dropped("no".into()), "dropped")]
    {
        let n = state.len() as u8;
        let seq = desk.put(&completion(n, owner("a", ""))).unwrap();
        let given = desk.claim_as("a", "", Taker::Gateway, 10);
        desk.consume(n);
        assert_eq!(desk.state(seq).0, "leased");
        assert_eq!(desk.judge(&given[0], Some(&given[0].lease), &verdict), Settled::Done);
        assert_eq!(desk.state(seq).0, state);
    }
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
    let again = Pushed::Again { after: Duration::from_secs(5), reason: "busy".into() };
    assert!(pushed(&desk.db, "hook", 1, "w", &again, desk.now).unwrap());
    desk.now.utc = Time::from_micros(SECOND);
    assert_eq!(next_due(&desk.db, "hook", desk.now).unwrap(), Some(Duration::from_secs(5)));
    desk.pass(5 * SECOND);
    assert_eq!(take(&desk.db, "hook", 10, "w", 60 * SECOND, desk.now).unwrap().len(), 1);
}

#[test]
fn after_a_reboot_nobody_has_anything_and_what_they_had_may_have_been_told() {
    let mut desk = Desk::new();
    begun(&desk.db, "first", false, desk.now.utc).unwrap();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.drain("a");
    begun(&desk.db, "first", false, desk.now.utc).unwrap();
    assert!(desk.drain("a").is_empty(), "an engine that is started again leaves leases as they are");
    desk.now.up = SECOND;
    begun(&desk.db, "second", false, desk.now.utc).unwrap();
    let given = desk.claim_as("a", "", Taker::Terminal, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat), (seq, true));
}

#[test]
fn an_engine_that_dies_over_an_answer_has_it_told_at_once_by_the_next() {
    let mut desk = Desk::new();
    begun(&desk.db, "b", false, desk.now.utc).unwrap();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    hold(&desk.db, &id(1).to_string(), desk.now).unwrap();
    assert!(desk.drain("a").is_empty() && desk.gateway("a").is_empty());
    begun(&desk.db, "b", false, desk.now.utc).unwrap();
    let given = desk.claim_as("a", "", Taker::Terminal, 10);
    assert_eq!((given[0].notice.seq, given[0].notice.repeat), (seq, true));
}

#[test]
fn an_answer_takes_over_from_a_taker_whose_time_is_over() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.drain("a");
    desk.pass(60 * SECOND);
    hold(&desk.db, &id(1).to_string(), desk.now).unwrap();
    assert!(desk.drain("a").is_empty(), "it is being answered");
    desk.consume(1);
    assert_eq!(desk.state(seq).0, "consumed");
}

#[test]
fn what_is_answered_while_a_taker_has_it_is_a_repeat_if_they_give_it_back() {
    let mut desk = Desk::new();
    desk.put(&completion(1, owner("a", ""))).unwrap();
    let given = desk.claim_as("a", "", Taker::Gateway, 10);
    hold(&desk.db, &id(1).to_string(), desk.now).unwrap();
    // Between the answer and the word that it was sent.
    assert_eq!(desk.judge(&given[0], Some(&given[0].lease), &Verdict::Released), Settled::Done);
    assert!(desk.claim_as("a", "", Taker::Gateway, 10)[0].notice.repeat);
}

#[test]
fn a_fact_that_is_read_again_uses_up_no_place() {
    let desk = Desk::new();
    let again = |n| desk.put(&completion(n, owner("a", "")));
    assert_eq!([again(1), again(1), again(1), again(2)], [Some(1), None, None, Some(2)]);
}

#[test]
fn whoever_left_before_the_answer_is_told_after_all() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    hold(&desk.db, &id(1).to_string(), desk.now).unwrap();
    let_go(&desk.db, &id(1).to_string()).unwrap();
    assert_eq!(desk.drain("a"), [seq]);
    let_go(&desk.db, &id(1).to_string()).unwrap();
    assert_eq!(desk.state(seq).0, "leased", "what a taker has is not let go of");
}

#[test]
fn an_observed_end_that_nobody_has_any_more_is_nothing_to_wait_for() {
    let mut desk = Desk::new();
    desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.gateway("a");
    desk.observe(1);
    desk.pass(DAY);
    assert!(desk.drain("a").is_empty());
    assert_eq!(next_lapse(&desk.db, "a", desk.now).unwrap(), None, "a terminal would ask again and again");
}

#[test]
fn who_releases_without_the_word_cannot_know_that_it_was_not_told() {
    let mut desk = Desk::new();
    desk.put(&completion(1, owner("a", ""))).unwrap();
    let given = desk.claim_as("a", "", Taker::Gateway, 10);
    assert_eq!(desk.judge(&given[0], None, &Verdict::Released), Settled::Done);
    assert!(desk.claim_as("a", "", Taker::Gateway, 10)[0].notice.repeat);
}

#[test]
fn nobody_settles_what_is_another_conversations() {
    let mut desk = Desk::new();
    let seq = desk.put(&completion(1, owner("a", ""))).unwrap();
    let given = desk.claim_as("a", "", Taker::Gateway, 10);
    let of =
        |session, lease| judge(&desk.db, &given[0].notice.event_id, session, lease, &Verdict::Delivered, desk.now.utc).unwrap().settled;
    assert_eq!(of(Some("b"), Some(given[0].lease.as_str())), Settled::Unknown);
    assert_eq!(of(Some("a"), Some("guessed")), Settled::Lost);
    assert_eq!(desk.state(seq).0, "leased");
    assert_eq!(of(Some("a"), None), Settled::Done);
}

#[test]
fn a_life_that_has_ended_is_given_nothing_and_what_was_for_it_is_dropped() {
    let mut desk = Desk::new();
    lives(&desk.db, "a", "first").unwrap();
    let old = desk.put(&completion(1, owner("a", "first"))).unwrap();
    lives(&desk.db, "a", "second").unwrap();
    let new = desk.put(&completion(2, owner("a", "second"))).unwrap();
    let any = desk.put(&completion(3, owner("a", ""))).unwrap();
    assert!(desk.claim_as("a", "first", Taker::Terminal, 10).is_empty(), "it is not the one that is to be told any more");
    assert_eq!(desk.state(new).0, "pending");
    let given: Vec<u64> = desk.claim_as("a", "second", Taker::Terminal, 10).iter().map(|e| e.notice.seq).collect();
    assert_eq!(given, [new, any]);
    assert_eq!(desk.state(old), ("dropped".into(), "generation first of the conversation has ended".into()));
    let kept = read(&desk.db, &Filter { state: Some("dropped".into()), limit: 10, ..Filter::default() }).unwrap();
    assert_eq!(kept[0].notice.seq, old, "it stays readable");
}

#[test]
fn a_replay_tells_again_what_was_delivered_and_says_so() {
    let mut desk = Desk::new();
    for n in 1..=3 {
        desk.put(&completion(n, owner(if n == 3 { "b" } else { "a" }, ""))).unwrap();
        let session = if n == 3 { "b" } else { "a" };
        let given = desk.claim_as(session, "", Taker::Gateway, 10);
        desk.judge(&given[0], Some(&given[0].lease), &Verdict::Delivered);
        assert!(is_consumed(&desk.db, &id(n).to_string()).unwrap());
    }
    assert_eq!(replay(&desk.db, 2, Some("a"), desk.now.utc).unwrap(), 1);
    assert!(!is_consumed(&desk.db, &id(2).to_string()).unwrap() && is_consumed(&desk.db, &id(3).to_string()).unwrap());
    let given = desk.claim_as("a", "", Taker::Gateway, 10);
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
    assert_eq!(read(&desk.db, &Filter { limit: 9, ..Filter::default() }).unwrap().len(), 0);
    assert_eq!(last_seq(&desk.db).unwrap(), first);
    assert_eq!(desk.put(&completion(2, owner("a", ""))), Some(first + 1));
    // An index that was lost does not know them, and goes on far behind them.
    let new = Desk::new();
    begun(&new.db, "b", true, new.now.utc).unwrap();
    assert!(new.put(&completion(2, owner("a", ""))).unwrap() > 1_000_000);
    begun(&new.db, "b", true, Time::from_micros(0)).unwrap();
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
    pushed(&desk.db, "hook", seq, "w", &Pushed::Dead { reason: "gone".into() }, desk.now).unwrap();
    desk.prune(7 * DAY, &hook());
    let letters = dead(&desk.db, None, 10).unwrap();
    assert_eq!((letters.len(), letters[0].1.reason.as_str()), (1, "gone"));
    assert_eq!(revive(&desk.db, None, Some("hook"), Some("a")).unwrap(), 1);
    let again = take(&desk.db, "hook", 10, "x", SECOND, desk.now).unwrap();
    assert!(again[0].entry.notice.repeat);
    pushed(&desk.db, "hook", seq, "x", &Pushed::Dead { reason: "gone".into() }, desk.now).unwrap();
    desk.pass(8 * DAY);
    desk.prune(7 * DAY, &hook());
    assert!(dead(&desk.db, None, 10).unwrap().is_empty());
    let left: i64 = desk.db.query_row("SELECT COUNT(*) FROM delivery", [], |r| r.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn what_a_sink_owes_that_nobody_configures_any_more_keeps_nothing() {
    let mut desk = Desk::new();
    insert(&desk.db, &completion(1, owner("a", "")), &hook(), desk.now).unwrap();
    desk.consume(1);
    desk.pass(8 * DAY);
    desk.prune(7 * DAY, &[]);
    assert!(read(&desk.db, &Filter { limit: 9, ..Filter::default() }).unwrap().is_empty());
}

#[test]
fn what_nobody_asks_for_is_dropped_in_the_end_with_a_reason() {
    let mut desk = Desk::new();
    let old = desk.put(&completion(1, owner("a", ""))).unwrap();
    desk.pass(20 * DAY);
    let new = desk.put(&completion(2, owner("a", ""))).unwrap();
    desk.pass(9 * DAY);
    let before = Time::from_micros(desk.now.utc.micros() - 28 * DAY);
    assert_eq!(expire(&desk.db, before, desk.now).unwrap(), 1);
    assert_eq!(desk.state(old), ("dropped".into(), "expired: nobody asked for it in 28 days".into()));
    assert_eq!(desk.drain("a"), [new]);
    desk.pass(SECOND);
    assert_eq!(expire(&desk.db, desk.now.utc, desk.now).unwrap(), 0, "what somebody has is not dropped under their hands");
}

#[test]
fn the_oldest_give_way_when_a_conversation_has_too_many() {
    let mut desk = Desk::new();
    let put = |desk: &Desk, names: std::ops::Range<u32>| {
        let all = desk.db.unchecked_transaction().unwrap();
        for n in names {
            desk.put(&posted(&n.to_string(), owner("a", ""), "")).unwrap();
        }
        all.commit().unwrap();
    };
    put(&desk, 0..2);
    let first = desk.claim_as("a", "", Taker::Terminal, 1);
    put(&desk, 2..14_000);
    let open: i64 = desk.db.query_row("SELECT COUNT(*) FROM notice WHERE state = 'pending'", [], |r| r.get(0)).unwrap();
    assert!((10_000..12_000).contains(&open), "{open}");
    assert_eq!(desk.state(first[0].notice.seq).0, "leased", "what somebody has is theirs");
    assert_eq!(desk.state(2), ("dropped".into(), "nobody asked for it, and 10000 newer ones of its conversation are open".into()));
    assert_eq!(desk.state(14_000).0, "pending");
}

#[test]
fn an_answer_fits_into_a_frame_however_long_notices_are() {
    let mut desk = Desk::new();
    let long = "x".repeat(256 << 10);
    for n in 0..40 {
        insert(&desk.db, &posted(&n.to_string(), owner("a", ""), &long), &hook(), desk.now).unwrap();
    }
    assert_eq!(desk.drain("a"), [1, 2, 3, 4], "a MiB of them");
    assert_eq!(desk.drain("a"), [5, 6, 7, 8], "the rest is there for the next");
    let read = |after| read(&desk.db, &Filter { after, limit: 1_000, ..Filter::default() }).unwrap();
    assert_eq!((read(0).len(), read(4)[0].notice.seq), (4, 5));
    assert_eq!(take(&desk.db, "hook", 1_000, "w", SECOND, desk.now).unwrap().len(), 4);
    assert_eq!(take(&desk.db, "hook", 1_000, "w", SECOND, desk.now).unwrap()[0].entry.notice.seq, 5);
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
fn a_barrier_opens_once_and_not_when_it_was_taken_away() {
    use crate::barrier::{Barrier, Target, mark_open};
    let desk = Desk::new();
    let target = Target::Time { at_us: 0 };
    let barrier = Barrier { id: "bar_0".into(), owner: owner("a", ""), target, created_at: desk.now.utc, opened: "time".into() };
    assert!(!mark_open(&desk.db, &barrier, desk.now.utc).unwrap());
    let row = "INSERT INTO barrier (id, session, task, generation, until, created_at) VALUES ('bar_0', 'a', '', '', '{}', 0)";
    desk.db.execute(row, []).unwrap();
    assert!(mark_open(&desk.db, &barrier, desk.now.utc).unwrap());
    assert!(!mark_open(&desk.db, &barrier, desk.now.utc).unwrap());
}

#[test]
fn lives_of_conversations_that_nothing_is_known_of_are_forgotten() {
    let mut desk = Desk::new();
    remember(&desk.db, 1, "a");
    for session in ["a", "b", "c"] {
        lives(&desk.db, session, "g").unwrap();
    }
    desk.put(&completion(2, owner("b", "g"))).unwrap();
    desk.pass(DAY);
    desk.prune(DAY, &[]);
    let mut left = desk.db.prepare("SELECT session FROM life ORDER BY session").unwrap();
    let left: Vec<String> = left.query_map([], |r| r.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(left, ["a", "b"]);
}

/// Fills tables with notices of this state, of one conversation or of twenty others, and with what a sink did with them.
fn filled(desk: &Desk, many: u32, session: &str, state: &str) {
    insert(&desk.db, &completion(1, owner(session, "")), &hook(), desk.now).unwrap();
    let settled = if state == "pending" { 0 } else { desk.now.utc.micros() };
    desk.db.execute("UPDATE notice SET state = ?1, settled_at = ?2", params![state, settled]).unwrap();
    desk.db
        .execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO notice (key, id, kind, process, session, task, generation, created_at, open_since, state, settled_at, event)
             SELECT key || i, id || i, kind, process || i, iif(session = '', 'other ' || (i % 20), session), task, generation, created_at,
                 open_since, state, settled_at, event FROM n, notice WHERE seq = 1",
            params![many],
        )
        .unwrap();
    desk.db.execute("INSERT INTO delivery (sink, seq, session, state, due_up) SELECT 'hook', seq, session, 'delivered', 0 FROM notice WHERE seq > 1", []).unwrap();
    desk.db.execute("UPDATE delivery SET state = 'delivered'", []).unwrap();
}

/// The median of a few tries, in microseconds.
fn time_of(mut what: impl FnMut()) -> u128 {
    let mut times: Vec<u128> = (0..15)
        .map(|_| {
            let began = Instant::now();
            what();
            began.elapsed().as_micros()
        })
        .collect();
    times.sort_unstable();
    times[7]
}

#[test]
fn a_claim_takes_as_long_whatever_else_there_is() {
    for (session, state) in [("a", "delivered"), ("", "pending")] {
        let mut desk = Desk::new();
        // A hundred thousand settled ones of the same conversation; or open ones of others.
        filled(&desk, 100_000, session, state);
        let mut n = 0;
        let mut figures = Vec::new();
        figures.push((
            "claim",
            time_of(|| {
                n += 1;
                desk.put(&posted(&n.to_string(), owner("a", ""), "")).unwrap();
                let given = desk.claim_as("a", "", Taker::Terminal, 10);
                assert_eq!(given.len(), 1);
                desk.judge(&given[0], None, &Verdict::Delivered);
            }),
        ));
        figures.push((
            "nothing",
            time_of(|| {
                assert!(desk.claim_as("a", "", Taker::Terminal, 10).is_empty());
                next_lapse(&desk.db, "a", desk.now).unwrap();
            }),
        ));
        figures.push(("last_seq", time_of(|| assert!(last_seq(&desk.db).unwrap() > 100_000))));
        figures.push((
            "hold",
            time_of(|| {
                n += 1;
                let id = ProcessId::from_bytes([9, 9, 9, 9, 9, n as u8]).to_string();
                hold(&desk.db, &id, desk.now).unwrap();
                consume(&desk.db, &id, "wait", desk.now).unwrap();
            }),
        ));
        figures.push((
            "route",
            time_of(|| {
                super::judge::route_of(&desk.db, "nobody").unwrap();
            }),
        ));
        figures.push((
            "history",
            time_of(|| {
                let filter = Filter { process: Some(id(7).to_string()), limit: 10, ..Filter::default() };
                assert!(read(&desk.db, &filter).unwrap().is_empty());
            }),
        ));
        figures.push((
            "take",
            time_of(|| {
                assert!(take(&desk.db, "hook", 10, "w", SECOND, desk.now).unwrap().is_empty());
                next_due(&desk.db, "hook", desk.now).unwrap();
                owed(&desk.db, &hook()).unwrap();
            }),
        ));
        figures.push(("dead", time_of(|| assert!(dead(&desk.db, None, 10).unwrap().is_empty()))));
        println!("{state}: {figures:?} µs");
        // Without optimisation and beside other tests; a look at every notice would be far above it.
        for (what, micros) in figures {
            assert!(micros < 5_000, "{what}: {micros} µs");
        }
        let began = Instant::now();
        desk.pass(8 * DAY);
        let more = prune(&desk.db, desk.now.utc, &hook()).unwrap();
        println!("{state}: {} µs to remove the first ({more})", began.elapsed().as_micros());
    }
}
