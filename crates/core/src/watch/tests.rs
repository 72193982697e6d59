use super::*;

const SECOND: u64 = 1_000_000;

/// A home in which facts are handled one after the other.
#[derive(Default)]
struct Home {
    rules: Rules,
    /// Whether the boot in which facts were observed is unknown.
    unsure: bool,
    breaker: Breaker,
    limiters: BTreeMap<u8, Limiter>,
}

impl Home {
    /// One matching line of process `of`, whose conversation has the same number, at second `at`.
    fn line(&mut self, at: u64, of: u8) -> Vec<WatchDecision> {
        self.lines(at, of, 1)
    }

    fn lines(&mut self, at: u64, of: u8, count: u64) -> Vec<WatchDecision> {
        let session = format!("s{of}");
        let up = at * SECOND;
        let seen = MatchSeen { up, here: (!self.unsure).then_some(up), process: process(of), session: &session, count };
        watch(&self.rules, self.limiters.entry(of).or_default(), &mut self.breaker, &seen)
    }

    fn limiter(&self, of: u8) -> &Limiter {
        &self.limiters[&of]
    }

    /// Fifteen processes from `from` on match, and the next one trips the breaker.
    fn trip(&mut self, at: u64, from: u8) -> Vec<WatchDecision> {
        for of in from..from + 15 {
            assert_eq!(self.line(at, of), [told(0)]);
        }
        self.line(at, from + 15)
    }
}

fn process(of: u8) -> ProcessId {
    ProcessId::from_bytes([0, 0, 0, 0, 0, of])
}

fn told(suppressed: u64) -> WatchDecision {
    WatchDecision::Match { suppressed }
}

fn struck_out(of: u8, suppressed: u64) -> WatchDecision {
    let message = format!(
        "Watch patterns disabled for process {} — 3 consecutive rate-limit windows triggered (min spacing 15s). Falling back to \
         notify_on_complete semantics; you'll get exactly one notification when the process exits.",
        process(of)
    );
    WatchDecision::Disabled { suppressed, message }
}

fn worn_out(of: u8, suppressed: u64) -> WatchDecision {
    let message = format!(
        "Watch patterns disabled for process {} — lifetime limit of 8 matches reached. Falling back to notify_on_complete semantics; \
         you'll get exactly one notification when the process exits.",
        process(of)
    );
    WatchDecision::Disabled { suppressed, message }
}

fn tripped(of: u8) -> WatchDecision {
    let message = "Watch-pattern overflow: >15 notifications in 10s across all processes. Suppressing further watch_match events for 30s.";
    WatchDecision::Tripped { session: format!("s{of}"), message: message.into() }
}

fn released(of: u8, suppressed: u64) -> WatchDecision {
    let message = format!("Watch-pattern notifications resumed. {suppressed} match event(s) were suppressed during the flood.");
    WatchDecision::Released { session: format!("s{of}"), suppressed, message }
}

#[test]
fn case_127_a_first_match_is_told_and_a_cooldown_begins() {
    let mut home = Home::default();
    assert_eq!(home.line(100, 1), [told(0)]);
    assert_eq!(home.limiter(1).hits(), 1);
    assert_eq!(home.line(114, 1), []);
}

#[test]
fn case_128_a_second_match_a_second_later_is_held_back_as_a_strike() {
    let mut home = Home::default();
    home.line(100, 1);
    assert_eq!(home.line(101, 1), []);
    assert_eq!((home.limiter(1).suppressed(), home.limiter(1).strikes()), (1, 1));
}

#[test]
fn case_129_one_window_is_one_strike_however_much_it_held_back() {
    let mut home = Home::default();
    home.line(100, 1);
    home.line(101, 1);
    for at in 102..112 {
        assert_eq!(home.line(at, 1), []);
    }
    assert_eq!((home.limiter(1).suppressed(), home.limiter(1).strikes()), (11, 1));
}

#[test]
fn case_130_a_third_strike_in_a_row_disables() {
    let mut home = Home::default();
    for at in [0, 15] {
        home.line(at, 1);
        assert_eq!(home.lines(at + 1, 1, 7), []);
    }
    assert_eq!(home.line(30, 1), [told(7)]);
    assert_eq!(home.lines(31, 1, 7), [struck_out(1, 7)]);
    assert!(home.limiter(1).is_disabled());
}

#[test]
fn case_131_a_disabled_process_is_promoted_once_and_says_nothing_more() {
    let mut home = Home::default();
    let told: Vec<WatchDecision> = (0..40).flat_map(|at| home.line(at, 1)).collect();
    assert_eq!(told.iter().filter(|v| matches!(v, WatchDecision::Disabled { .. })).count(), 1);
    assert!(home.limiter(1).is_disabled());
    assert_eq!(home.line(10_000, 1), []);
}

#[test]
fn case_132_a_clean_window_takes_the_strikes_back() {
    let mut home = Home::default();
    home.line(0, 1);
    home.line(1, 1);
    assert_eq!(home.line(15, 1), [told(1)]);
    assert_eq!(home.limiter(1).strikes(), 1);
    assert_eq!(home.line(30, 1), [told(0)]);
    assert_eq!(home.limiter(1).strikes(), 0);
}

#[test]
fn case_133_the_next_match_says_how_many_were_held_back() {
    let mut home = Home::default();
    home.line(0, 1);
    home.lines(1, 1, 3);
    home.line(2, 1);
    assert_eq!(home.line(16, 1), [told(4)]);
    assert_eq!(home.limiter(1).suppressed(), 0);
}

#[test]
fn case_134_a_match_exactly_at_the_end_of_the_cooldown_is_told() {
    let mut home = Home::default();
    home.line(3, 1);
    assert_eq!(home.line(18, 1), [told(0)]);
}

#[test]
fn case_139_eight_matches_are_the_most_of_a_life() {
    let mut home = Home::default();
    for i in 0..7 {
        assert_eq!(home.line(i * 20, 1), [told(0)]);
    }
    assert_eq!(home.line(140, 1), [told(0), worn_out(1, 0)]);
    assert!(home.limiter(1).is_disabled());
    assert_eq!(home.limiter(1).hits(), 8);
    assert_eq!(home.line(160, 1), []);
}

#[test]
fn without_a_lifetime_a_process_is_watched_for_ever() {
    let mut home = Home { rules: Rules { lifetime: None, ..Rules::default() }, ..Home::default() };
    for i in 0..1_000 {
        assert_eq!(home.line(i * 20, 1), [told(0)]);
    }
}

#[test]
fn the_end_of_a_life_is_told_though_the_breaker_drops_the_last_match() {
    let mut home = Home::default();
    for i in 0..7 {
        home.line(i * 20, 1);
    }
    home.trip(140, 10);
    assert_eq!(home.lines(141, 1, 5), [tripped(1), worn_out(1, 5)]);
    assert_eq!(home.limiter(1).hits(), 7);
    assert!(home.limiter(1).is_disabled());
}

#[test]
fn case_140_fifteen_of_eighteen_are_told_and_each_other_conversation_learns_why_not() {
    let mut home = Home::default();
    let all: Vec<WatchDecision> = (0..18).flat_map(|of| home.line(50, of)).collect();
    assert_eq!(all[..15], vec![told(0); 15]);
    assert_eq!(all[15..], [tripped(15), tripped(16), tripped(17)]);
}

#[test]
fn case_140_within_one_conversation_there_is_one_trip_notice() {
    let (rules, mut breaker) = (Rules::default(), Breaker::default());
    let mut all = Vec::new();
    for of in 0..18 {
        let seen = MatchSeen { up: SECOND, here: Some(SECOND), process: process(of), session: "one", count: 1 };
        all.extend(watch(&rules, &mut Limiter::default(), &mut breaker, &seen));
    }
    assert_eq!(all.iter().filter(|v| **v == told(0)).count(), 15);
    assert_eq!(all.iter().filter(|v| matches!(v, WatchDecision::Tripped { .. })).count(), 1);
}

#[test]
fn case_141_while_tripped_nothing_is_told_and_everything_counted() {
    let mut home = Home::default();
    assert_eq!(home.trip(50, 0), [tripped(15)]);
    assert_eq!(home.line(51, 15), []);
    assert_eq!(home.line(52, 15), []);
    assert_eq!(home.breaker.tick(80 * SECOND), [released(15, 3)]);
}

#[test]
fn case_142_the_release_comes_from_a_timer_and_only_once() {
    let mut home = Home::default();
    home.trip(50, 0);
    home.line(60, 16);
    assert_eq!(home.breaker.due(), Some(80 * SECOND));
    assert_eq!(home.breaker.tick(80 * SECOND - 1), []);
    assert_eq!(home.breaker.tick(80 * SECOND), [released(15, 1), released(16, 1)]);
    assert_eq!((home.breaker.due(), home.breaker.tick(81 * SECOND)), (None, vec![]));
}

#[test]
fn case_142_without_a_timer_the_next_match_releases_and_comes_second() {
    let mut home = Home::default();
    home.trip(50, 0);
    assert_eq!(home.line(80, 15), [released(15, 1), told(1)]);
}

#[test]
fn case_143_the_breaker_knows_matches_only() {
    // A process whose strikes are full is reported during a trip, too; this test counts matches only.
    let mut home = Home::default();
    for at in [0, 15, 30] {
        home.line(at, 1);
        if at < 30 {
            home.line(at + 1, 1);
        }
    }
    home.trip(41, 10);
    assert_eq!(home.line(42, 1), [struck_out(1, 1)]);
}

#[test]
fn case_144_the_window_slides() {
    let mut home = Home::default();
    home.line(0, 0);
    for of in 1..15 {
        assert_eq!(home.line(9, of), [told(0)]);
    }
    // The match at 0 no longer counts, the fourteen at 9 do.
    assert_eq!(home.line(10, 15), [told(0)]);
    assert_eq!(home.line(11, 16), [tripped(16)]);
    assert_eq!(home.breaker.due(), Some(41 * SECOND));
}

#[test]
fn case_145_a_refused_match_is_no_hit() {
    let mut home = Home::default();
    home.line(0, 1);
    home.lines(5, 1, 2);
    home.trip(20, 10);
    let before = home.limiter(1).clone();
    assert_eq!(home.lines(21, 1, 4), [tripped(1)]);
    assert_eq!(home.limiter(1), &Limiter { suppressed: 6, ..before });
    assert_eq!(home.line(50, 1), [released(1, 1), released(25, 1), told(6)]);
    assert_eq!((home.limiter(1).hits(), home.limiter(1).strikes()), (2, 1));
}

#[test]
fn case_146_a_clock_that_begins_anew_silences_nothing() {
    let day = 86_400;
    let mut home = Home { unsure: true, ..Home::default() };
    home.line(day, 1);
    home.trip(day + 10, 10);
    assert_eq!(home.line(5, 1), [released(25, 1), told(0)]);
    assert_eq!(home.line(6, 25), [told(1)]);

    let mut home = Home::default();
    home.line(day, 1);
    home.trip(day + 10, 10);
    assert_eq!(home.breaker.rebooted(), [released(25, 1)]);
    home.limiters.values_mut().for_each(Limiter::rebooted);
    assert_eq!((home.line(day - 1, 1), home.line(day - 1, 25)), (vec![told(0)], vec![told(1)]));
}

#[test]
fn a_fact_of_this_boot_releases_nothing_however_late_it_is_told() {
    let mut home = Home::default();
    home.trip(1_000, 10);
    assert_eq!(home.line(100, 1), [tripped(1)]);
    assert_eq!(home.breaker.tick(5 * SECOND), []);
    assert_eq!(home.breaker.due(), Some(1_030 * SECOND));
    assert_eq!(home.line(1_030, 2), [released(1, 1), released(25, 1), told(0)]);
}

#[test]
fn a_fact_of_another_boot_counts_as_of_now() {
    let mut home = Home::default();
    home.trip(50, 10);
    let late = |home: &mut Home, up: u64, now: u64| {
        let seen = MatchSeen { up: up * SECOND, here: Some(now * SECOND), process: process(1), session: "s1", count: 1 };
        watch(&home.rules, home.limiters.entry(1).or_default(), &mut home.breaker, &seen)
    };
    // By its own boot's time the trip would be over; by the home's time it is not.
    assert_eq!(late(&mut home, 86_400, 60), [tripped(1)]);
    assert_eq!(home.breaker.due(), Some(80 * SECOND));
    assert_eq!(late(&mut home, 86_400, 80), [released(1, 1), released(25, 1), told(1)]);
    // Its spacing counts in its own boot's time.
    assert_eq!(late(&mut home, 86_414, 500), []);
    assert_eq!(late(&mut home, 86_415, 501), [told(1)]);
}

#[test]
fn a_minute_of_constant_matching_is_three_matches_and_one_disabled() {
    let mut home = Home::default();
    let all: Vec<WatchDecision> = (0..60).flat_map(|at| home.lines(at, 1, 1_000)).collect();
    assert_eq!(all, [told(0), told(14_000), told(14_000), struck_out(1, 1_000)]);
}

#[test]
fn a_fact_told_late_counts_as_of_now() {
    let mut home = Home::default();
    home.trip(50, 0);
    assert_eq!(home.breaker.tick(80 * SECOND), [released(15, 1)]);
    assert_eq!(home.line(79, 16), [told(0)]);
    assert_eq!(home.line(20, 17), [told(0)]);
}

#[test]
fn the_ends_of_time_do_not_overflow() {
    let mut home = Home { rules: Rules { rest: Duration::MAX, spacing: Duration::MAX, ..Rules::default() }, ..Home::default() };
    for (i, up) in [0, u64::MAX, 0, u64::MAX - 1, u64::MAX].into_iter().enumerate() {
        for of in 0..20 {
            let here = [None, Some(up), Some(u64::MAX - up)][of as usize % 3];
            let seen = MatchSeen { up, here, process: process(of), session: "s", count: u64::MAX };
            watch(&home.rules, home.limiters.entry(of * (i as u8 % 2)).or_default(), &mut home.breaker, &seen);
            home.breaker.tick(u64::MAX - up);
        }
    }
}

/// The index keeps both, and the next release reads them.
#[test]
fn what_is_remembered_is_stored_the_same_way_in_every_release() {
    let limiter = Limiter { cooldown_until: Some(1), strike_candidate: true, strikes: 2, suppressed: 3, hits: 4, disabled: true };
    let text = r#"{"cooldown_until":1,"strike_candidate":true,"strikes":2,"suppressed":3,"hits":4,"disabled":true}"#;
    assert_eq!(serde_json::to_string(&limiter).unwrap(), text);
    assert_eq!(serde_json::from_str::<Limiter>(text).unwrap(), limiter);
    let tripped = Some(Trip { until: 9, suppressed: [("s".to_owned(), 7)].into() });
    let breaker = Breaker { last: 5, admitted: [4, 5].into(), tripped };
    let text = r#"{"last":5,"admitted":[4,5],"tripped":{"until":9,"suppressed":{"s":7}}}"#;
    assert_eq!(serde_json::to_string(&breaker).unwrap(), text);
    assert_eq!(serde_json::from_str::<Breaker>(text).unwrap(), breaker);
    // A release that has one more field reads what had none.
    assert_eq!(serde_json::from_str::<Limiter>("{}").unwrap(), Limiter::default());
    assert_eq!(serde_json::from_str::<Breaker>("{}").unwrap(), Breaker::default());
}
