//! When to try again.
//!
//! Decision 54: docs/decisions/sinks.md.

use std::time::Duration;

/// How often and for how long something that failed is tried again.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// How the waits grow.
    pub growth: Growth,
    /// By how much a wait may be shortened at random, as a share of it: so that what failed together does not come back together.
    pub jitter: f64,
    /// How long all waits together may be. What has not succeeded by then is dead.
    pub give_up: Duration,
}

/// How the waits between attempts grow.
#[derive(Debug, Clone, PartialEq)]
pub enum Growth {
    /// These, and then the last of them again and again.
    Steps(Vec<Duration>),
    /// Twice as long each time.
    Doubling {
        /// The first wait.
        first: Duration,
        /// The longest.
        most: Duration,
    },
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HOUR: Duration = Duration::from_secs(60 * 60);

/// The example schedule of Standard Webhooks, as far as it goes within a day, and a last step that still fits in. The first attempt is made at once.
const STANDARD_WEBHOOKS: [Duration; 7] = [
    Duration::from_secs(5),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 60 * 60),
    Duration::from_secs(5 * 60 * 60),
    Duration::from_secs(10 * 60 * 60),
    Duration::from_secs(6 * 60 * 60),
];

/// No policy makes more attempts than these, whatever its waits.
const MOST_ATTEMPTS: u32 = 1_000;

impl Policy {
    /// For a hook: it runs on this machine, so what ails it is often mended soon. One second, doubled up to an hour, for a day.
    pub fn hook() -> Self {
        Self { growth: Growth::Doubling { first: Duration::from_secs(1), most: HOUR }, jitter: 0.2, give_up: DAY }
    }

    /// For a webhook: eight attempts within a day, as Standard Webhooks proposes.
    pub fn webhook() -> Self {
        Self { growth: Growth::Steps(STANDARD_WEBHOOKS.to_vec()), jitter: 0.2, give_up: DAY }
    }

    /// The wait after attempt `n`, counted from 1, without jitter.
    fn step(&self, n: u32) -> Option<Duration> {
        match &self.growth {
            Growth::Steps(steps) => steps.get(n as usize - 1).or(steps.last()).copied(),
            Growth::Doubling { first, most } => {
                let factor = 1u32.checked_shl(n - 1).unwrap_or(u32::MAX);
                Some(first.saturating_mul(factor).min(*most))
            }
        }
    }
}

/// How long to wait after attempt number `attempt` failed, counted from 1; nothing where it was the last. `random` is from 0 up to 1.
///
/// It depends on the number of attempts alone, not on the clock: an engine that was off for a week still makes the attempts that are left.
pub fn backoff(policy: &Policy, attempt: u32, random: f64) -> Option<Duration> {
    let attempt = attempt.max(1);
    if attempt >= MOST_ATTEMPTS {
        return None;
    }
    let mut all = Duration::ZERO;
    for n in 1..=attempt {
        all = all.saturating_add(policy.step(n)?);
        if all > policy.give_up {
            return None;
        }
    }
    let shortened = 1.0 - policy.jitter.clamp(0.0, 1.0) * random.clamp(0.0, 1.0);
    policy.step(attempt).map(|wait| wait.mul_f64(shortened))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waits(policy: &Policy, random: f64) -> Vec<u64> {
        (1..).map_while(|n| backoff(policy, n, random)).map(|d| d.as_secs()).collect()
    }

    #[test]
    fn a_webhook_keeps_to_the_standard_schedule_for_a_day() {
        let waits = waits(&Policy::webhook(), 0.0);
        assert_eq!(waits, [5, 300, 1_800, 7_200, 18_000, 36_000, 21_600]);
        assert!(waits.iter().sum::<u64>() <= 86_400);
    }

    #[test]
    fn a_hook_is_tried_each_second_first_and_each_hour_last() {
        let waits = waits(&Policy::hook(), 0.0);
        assert_eq!(waits[..5], [1, 2, 4, 8, 16]);
        assert_eq!(*waits.last().unwrap(), 3_600);
        let all: u64 = waits.iter().sum();
        assert!((82_800..=86_400).contains(&all), "{all}");
    }

    #[test]
    fn a_policy_without_steps_or_waits_ends() {
        let none = Policy { growth: Growth::Steps(Vec::new()), jitter: 0.0, give_up: DAY };
        assert_eq!(backoff(&none, 1, 0.0), None);
        let at_once = Policy { growth: Growth::Doubling { first: Duration::ZERO, most: Duration::ZERO }, jitter: 0.0, give_up: DAY };
        assert_eq!(backoff(&at_once, 1, 0.0), Some(Duration::ZERO));
        assert_eq!(waits(&at_once, 0.0).len() as u32, MOST_ATTEMPTS - 1);
        assert_eq!(backoff(&at_once, u32::MAX, 0.0), None);
    }

    #[test]
    fn a_longer_patience_repeats_the_last_step() {
        let policy = Policy { give_up: 3 * DAY, ..Policy::webhook() };
        let waits = waits(&policy, 0.0);
        assert_eq!(waits[waits.len() - 2..], [21_600, 21_600]);
        assert!(waits.iter().sum::<u64>() <= 3 * 86_400);
    }

    proptest! {
        #[test]
        fn waits_add_up_to_less_than_the_patience_whatever_chance_says(
            first in 0u64..100_000, most in 0u64..10_000_000, give_up in 0u64..1_000_000_000, jitter in 0.0f64..2.0, random in 0.0f64..1.0,
        ) {
            let ms = Duration::from_millis;
            let policy = Policy { growth: Growth::Doubling { first: ms(first), most: ms(most) }, jitter, give_up: ms(give_up) };
            let all: Duration = (1..).map_while(|n| backoff(&policy, n, random)).sum();
            prop_assert!(all <= policy.give_up);
            if let Some(wait) = backoff(&policy, 1, random) {
                prop_assert!(wait <= ms(first.min(most)));
            }
        }
    }
}
