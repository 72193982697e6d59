//! Random histories against a second implementation of the rules. It keeps no state: each time it looks at everything that
//! happened. `cargo xtask campaign histories` plays any number of them.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq)]
enum Event {
    Fact { up: u64, here: Option<u64>, of: u8, session: u8, count: u64 },
    Timer { up: u64 },
    Reboot,
}

/// What the oracle makes of an event.
#[derive(Debug, Clone, PartialEq)]
enum Fate {
    /// It was no match, or its process was no longer watched.
    Nothing,
    Told,
    /// It came within the spacing of the match before.
    TooSoon,
    Refused,
}

#[derive(Debug)]
struct Past {
    event: Event,
    fate: Fate,
    /// The home's time when the event was handled.
    now: u64,
    /// The boot, counted from the first.
    era: u32,
    disabled: bool,
    /// Whether it tripped the breaker.
    tripped: bool,
    /// Whether it ended a trip.
    released: bool,
}

/// A second implementation of the rules.
struct Oracle {
    rules: Rules,
    past: Vec<Past>,
}

impl Oracle {
    fn tell(&mut self, event: Event) -> Vec<WatchDecision> {
        let late = micros(MOST_LATE);
        let before = self.past.last().map_or(0, |p| p.now);
        let era = self.past.last().map_or(0, |p| p.era);
        let anew = match event {
            // The boot is guessed only for facts whose boot is unknown.
            Event::Fact { up, here: None, .. } => before > up && before - up > late,
            Event::Fact { .. } | Event::Timer { .. } => false,
            Event::Reboot => true,
        };
        let era = era + u32::from(anew);

        // The current trip, if any, began at the last tripping event after which no event ended it.
        let trip = self.past.iter().rposition(|p| p.tripped);
        let on = trip.filter(|&i| !self.past[i + 1..].iter().any(|p| p.released));
        let end = on.map(|i| self.past[i].now.saturating_add(micros(self.rules.rest)));
        let time = match event {
            _ if anew => None,
            Event::Fact { up, here, .. } => Some(here.unwrap_or(up).max(before)),
            Event::Timer { up } => Some(up.max(before)),
            Event::Reboot => None,
        };
        let released = end.is_some_and(|end| time.is_none_or(|time| time >= end));
        let mut verdicts = Vec::new();
        if let (true, Some(i)) = (released, on) {
            for session in 0..=u8::MAX {
                let held = |p: &&Past| p.fate == Fate::Refused && matches!(p.event, Event::Fact { session: s, .. } if s == session);
                let suppressed = self.past[i..].iter().filter(held).count() as u64;
                if suppressed > 0 {
                    let message =
                        format!("Watch-pattern notifications resumed. {suppressed} match event(s) were suppressed during the flood.");
                    verdicts.push(WatchDecision::Released { session: name(session), suppressed, message });
                }
            }
        }
        // A timer that releases nothing is not an event in the home's time. One that does is, at the moment at which the trip was
        // over.
        let now = match event {
            Event::Reboot => 0,
            Event::Timer { .. } => end.filter(|_| released).map_or(before, |end| end.max(before)),
            Event::Fact { up, .. } if anew => up,
            Event::Fact { up, here, .. } => here.unwrap_or(up).max(before),
        };

        let mut this = Past { event: event.clone(), fate: Fate::Nothing, now, era, disabled: false, tripped: false, released };
        if let Event::Fact { up, of, session, count, .. } = event {
            self.judge(&mut this, &mut verdicts, (up, of, session, count), on.filter(|_| !released));
        }
        self.past.push(this);
        verdicts
    }

    fn judge(&self, this: &mut Past, verdicts: &mut Vec<WatchDecision>, fact: (u64, u8, u8, u64), on: Option<usize>) {
        let (up, of, session, count) = fact;
        let own = |p: &&Past| matches!(p.event, Event::Fact { of: o, .. } if o == of);
        if count == 0 || self.past.iter().filter(own).any(|p| p.disabled) {
            return;
        }
        let told: Vec<usize> = (0..self.past.len()).filter(|&i| own(&&self.past[i]) && self.past[i].fate == Fate::Told).collect();
        let since = |i: Option<usize>| self.past[i.map_or(0, |i| i + 1)..].iter();
        let held = |i: Option<usize>| -> u64 {
            let lines = |p: &Past| match p.event {
                Event::Fact { count, .. } if matches!(p.fate, Fate::TooSoon | Fate::Refused) => count,
                _ => 0,
            };
            since(i).filter(own).map(lines).fold(0, u64::saturating_add)
        };
        let last = told.last().copied();

        let too_soon = last.is_some_and(|i| {
            let Event::Fact { up: then, .. } = self.past[i].event else { unreachable!("only facts are told") };
            let same_boot = !since(Some(i)).any(|p| p.event == Event::Reboot) && up.saturating_add(micros(MOST_LATE)) >= then;
            same_boot && up < then.saturating_add(micros(self.rules.spacing))
        });
        if too_soon {
            this.fate = Fate::TooSoon;
            // A window is dirty if a match came too soon in it. The dirty ones in a row, up to this one:
            let dirty = |from: usize, to: usize| self.past[from..to].iter().filter(own).any(|p| p.fate == Fate::TooSoon);
            let first_here = !dirty(told[told.len() - 1], self.past.len());
            let row = 1 + told.windows(2).rev().take_while(|w| dirty(w[0], w[1])).count() as u32;
            if first_here && row >= self.rules.strikes {
                this.disabled = true;
                let why = format!(
                    "{} consecutive rate-limit windows triggered (min spacing {}s)",
                    self.rules.strikes,
                    self.rules.spacing.as_secs_f64()
                );
                verdicts.push(WatchDecision::Disabled { suppressed: held(last).saturating_add(count), message: disabled(of, &why) });
            }
            return;
        }

        let trip = self.past.iter().rposition(|p| p.tripped);
        let recent = |p: &&Past| p.fate == Fate::Told && p.era == this.era && this.now - p.now < micros(self.rules.window);
        let full = since(trip).filter(recent).count() >= self.rules.burst as usize;
        let mut left = 0;
        if on.is_some() || full {
            this.fate = Fate::Refused;
            this.tripped = on.is_none();
            let refused = |p: &Past| p.fate == Fate::Refused && matches!(p.event, Event::Fact { session: s, .. } if s == session);
            if !on.is_some_and(|i| self.past[i..].iter().any(refused)) {
                let (burst, window, rest) = (self.rules.burst, self.rules.window.as_secs_f64(), self.rules.rest.as_secs_f64());
                let message = format!(
                    "Watch-pattern overflow: >{burst} notifications in {window}s across all processes. Suppressing further watch_match events for {rest}s."
                );
                verdicts.push(WatchDecision::Tripped { session: name(session), message });
            }
            left = held(last).saturating_add(count);
        } else {
            this.fate = Fate::Told;
            verdicts.push(WatchDecision::Match { suppressed: held(last) });
        }
        if let Some(most) = self.rules.lifetime
            && told.len() as u32 + 1 >= most
        {
            this.disabled = true;
            let why = format!("lifetime limit of {most} matches reached");
            verdicts.push(WatchDecision::Disabled { suppressed: left, message: disabled(of, &why) });
        }
    }
}

fn name(session: u8) -> String {
    // Zero-padded, so that numbers and names sort the same way.
    format!("session {session:03}")
}

fn disabled(of: u8, why: &str) -> String {
    let process = ProcessId::from_bytes([of; 6]);
    format!(
        "Watch patterns disabled for process {process} — {why}. Falling back to notify_on_complete semantics; you'll get exactly one \
         notification when the process exits."
    )
}

/// What is stored for a home.
#[derive(Default, Serialize, Deserialize)]
struct Home {
    breaker: Breaker,
    limiters: BTreeMap<u8, Limiter>,
}

impl Home {
    fn tell(&mut self, rules: &Rules, event: &Event) -> Vec<WatchDecision> {
        match *event {
            Event::Fact { up, here, of, session, count } => {
                let session = name(session);
                let seen = MatchSeen { up, here, process: ProcessId::from_bytes([of; 6]), session: &session, count };
                watch(rules, self.limiters.entry(of).or_default(), &mut self.breaker, &seen)
            }
            Event::Timer { up } => self.breaker.tick(up),
            Event::Reboot => {
                self.limiters.values_mut().for_each(Limiter::rebooted);
                self.breaker.rebooted()
            }
        }
    }
}

fn rules() -> impl Strategy<Value = Rules> {
    let few = (1..4_u32, prop_oneof![Just(None), (1..5_u32).prop_map(Some)], 0..4_u32).prop_map(|(strikes, lifetime, burst)| Rules {
        strikes,
        lifetime,
        burst,
        ..Rules::default()
    });
    let quick = (0..3_u64, 0..3_u64, 0..3_u64, 0..4_u32).prop_map(|(spacing, window, rest, burst)| Rules {
        spacing: Duration::from_secs(spacing),
        window: Duration::from_secs(window),
        rest: Duration::from_secs(rest),
        burst,
        ..Rules::default()
    });
    prop_oneof![3 => Just(Rules::default()), 3 => few, 1 => quick]
}

/// What happens next, and how long after the step before.
#[derive(Debug, Clone)]
enum Step {
    /// Facts of several processes at once, from one on.
    Facts {
        after: i64,
        of: u8,
        many: u8,
        count: u64,
        boot: Boot,
    },
    Timer {
        after: i64,
    },
    /// The timer fires when it is due.
    Due,
    Reboot {
        up: u64,
    },
}

/// In which boot facts were observed.
#[derive(Debug, Clone, Copy)]
enum Boot {
    This,
    /// In another boot, which had been up for this long.
    Other(u64),
    Unknown,
}

fn gap() -> impl Strategy<Value = i64> {
    let edge = (prop::sample::select(vec![1_i64, 2, 9, 10, 15, 20, 29, 30, 45]), -1..=1_i64).prop_map(|(s, off)| s * 1_000_000 + off);
    prop_oneof![4 => Just(0), 4 => 0..1_000_000_i64, 6 => edge, 2 => 0..40_000_000_i64]
}

fn any_gap() -> impl Strategy<Value = i64> {
    let back = prop_oneof![4 => -5_000_000..0_i64, 2 => -70_000_000..0_i64, 1 => Just(-60_000_001), 1 => Just(-60_000_000)];
    prop_oneof![12 => gap(), 1 => back]
}

fn step(gap: impl Strategy<Value = i64> + Clone, reboots: u32) -> impl Strategy<Value = Step> {
    let many = prop_oneof![8 => Just(1_u8), 1 => 2..6_u8, 1 => 14..20_u8];
    let count = prop_oneof![8 => Just(1_u64), 4 => 0..40_u64, 1 => Just(u64::MAX)];
    let boot = prop_oneof![6 => Just(Boot::This), 3 => Just(Boot::Unknown), 1 => (0..200_000_000_u64).prop_map(Boot::Other)];
    let facts = (gap.clone(), 0..24_u8, many, count, boot);
    let facts = facts.prop_map(|(after, of, many, count, boot)| Step::Facts { after, of, many, count, boot });
    prop_oneof![
        20 => facts,
        2 => gap.prop_map(|after| Step::Timer { after }),
        2 => Just(Step::Due),
        reboots => (0..100_000_000_u64).prop_map(|up| Step::Reboot { up }),
    ]
}

/// Plays steps in order. `told` gets each event as it happens and returns when the next timer is due.
fn play(steps: &[Step], few: u8, mut told: impl FnMut(Event) -> Option<u64>) {
    let mut up = 100_000_000_u64;
    let mut due = None;
    for step in steps {
        match *step {
            Step::Facts { after, of, many, count, boot } => {
                up = up.saturating_add_signed(after);
                let (seen, here) = match boot {
                    Boot::This => (up, Some(up)),
                    Boot::Other(then) => (then, Some(up)),
                    Boot::Unknown => (up, None),
                };
                for of in of..of + many {
                    // Few processes for long histories of each, many for floods; four conversations.
                    let of = of % if many > 1 { 24 } else { few };
                    due = told(Event::Fact { up: seen, here, of, session: of % 4, count });
                }
            }
            Step::Timer { after } => {
                up = up.saturating_add_signed(after);
                due = told(Event::Timer { up });
            }
            Step::Due => {
                if let Some(at) = due {
                    up = up.max(at);
                    due = told(Event::Timer { up });
                }
            }
            Step::Reboot { up: then } => {
                up = then;
                due = told(Event::Reboot);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_verdicts_are_those_of_the_whole_history(rules in rules(), few in 1..6_u8, steps in vec(step(any_gap().boxed(), 1), 0..60)) {
        let mut oracle = Oracle { rules: rules.clone(), past: Vec::new() };
        let mut home = Home::default();
        let mut events = Vec::new();
        let mut wrong = None;
        play(&steps, few, |event| {
            let (have, want) = (home.tell(&rules, &event), oracle.tell(event.clone()));
            events.push(event);
            if have != want && wrong.is_none() {
                wrong = Some((events.clone(), have, want));
            }
            home.breaker.due()
        });
        prop_assert!(wrong.is_none(), "{rules:?}: {wrong:#?}");
        for (of, limiter) in &home.limiters {
            let hits = oracle.past.iter().filter(|p| p.fate == Fate::Told && matches!(p.event, Event::Fact { of: o, .. } if o == *of)).count();
            prop_assert_eq!(limiter.hits() as usize, hits);
        }
    }

    #[test]
    fn a_state_that_was_stored_goes_on_as_if_it_had_not_been(rules in rules(), few in 1..6_u8, steps in vec(step(any_gap().boxed(), 1), 0..60), at in 0..60_usize) {
        let (mut whole, mut stored) = (Home::default(), Home::default());
        let mut told = (Vec::new(), Vec::new());
        let mut n = 0;
        play(&steps, few, |event| {
            if n == at {
                stored = serde_json::from_str(&serde_json::to_string(&stored).unwrap()).unwrap();
            }
            n += 1;
            told.0.extend(whole.tell(&rules, &event));
            told.1.extend(stored.tell(&rules, &event));
            whole.breaker.due()
        });
        prop_assert_eq!(told.0, told.1);
    }

    #[test]
    fn a_timer_that_is_late_or_missing_changes_nothing_but_when_it_is_told(rules in rules(), few in 1..6_u8, steps in vec(step(gap().boxed(), 0), 0..60)) {
        let (mut timed, mut untimed) = (Home::default(), Home::default());
        let mut told = (Vec::new(), Vec::new());
        play(&steps, few, |event| {
            told.0.extend(timed.tell(&rules, &event));
            if matches!(event, Event::Fact { .. }) {
                told.1.extend(untimed.tell(&rules, &event));
            }
            timed.breaker.due()
        });
        told.0.extend(timed.breaker.tick(u64::MAX));
        told.1.extend(untimed.breaker.tick(u64::MAX));
        prop_assert_eq!(told.0, told.1);
    }
}
