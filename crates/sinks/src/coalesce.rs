//! Decides which notices of one session are delivered together, and when: a pure function.

use std::time::Duration;

/// How a sink gathers the notices of one session. By default it does not: each is delivered at once, in a call of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gather {
    /// How long after the first notice the sink waits for others, to deliver them together.
    pub window: Duration,
    /// How often one session may be called.
    pub budget: Option<Budget>,
    /// The most notices in one call. If 1, each notice has its own call.
    pub most: usize,
}

/// A limit on the calls for one session in any stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The most calls. Zero counts as one: a sink that may never call would keep its notices for ever.
    pub count: usize,
    /// The length of the stretch.
    pub per: Duration,
}

/// The most notices in one call of a sink that gathers.
pub const MOST_TOGETHER: usize = 32;

impl Gather {
    /// Delivers each notice at once, in a call of its own.
    pub fn none() -> Self {
        Self { window: Duration::ZERO, budget: None, most: 1 }
    }

    /// Delivers the notices that arrive within `window` together, within the budget.
    pub fn together(window: Duration, budget: Option<Budget>) -> Self {
        Self { window, budget, most: MOST_TOGETHER }
    }

    /// Whether a call may carry several notices.
    pub fn gathers(&self) -> bool {
        self.most > 1
    }
}

/// What to do for a session now. Times count from any fixed instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Plan {
    /// No notice waits.
    Nothing,
    /// Decide again at this time.
    Wait(Duration),
    /// Deliver this many of the waiting notices, beginning with the first.
    Tell(usize),
}

/// Decides for one session. `arrived` has the time of each waiting notice, in the order of their `seq`; `calls` has the times of earlier
/// calls, oldest first.
pub fn plan(gather: &Gather, arrived: &[Duration], calls: &[Duration], now: Duration) -> Plan {
    let Some(first) = arrived.iter().min() else { return Plan::Nothing };
    let most = gather.most.max(1);
    // A full call cannot take more, so it does not wait.
    let gathered = if arrived.len() >= most { *first } else { first.saturating_add(gather.window) };
    let affordable = gather.budget.map_or(Duration::ZERO, |b| next_call(b, calls));
    let at = gathered.max(affordable);
    if at > now { Plan::Wait(at) } else { Plan::Tell(arrived.len().min(most)) }
}

/// The earliest instant at which one more call stays within the budget.
fn next_call(budget: Budget, calls: &[Duration]) -> Duration {
    match calls.len().checked_sub(budget.count.max(1)) {
        Some(oldest_that_counts) => calls[oldest_that_counts].saturating_add(budget.per),
        None => Duration::ZERO,
    }
}

/// How many of the oldest `calls` no longer matter at `now`.
pub(crate) fn forgotten(gather: &Gather, calls: &[Duration], now: Duration) -> usize {
    let per = gather.budget.map_or(Duration::ZERO, |b| b.per);
    calls.iter().take_while(|at| at.saturating_add(per) <= now).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_sink_that_does_not_gather_tells_each_at_once() {
        assert_eq!(plan(&Gather::none(), &[], &[], ms(5)), Plan::Nothing);
        assert_eq!(plan(&Gather::none(), &[ms(5), ms(5)], &[ms(5)], ms(5)), Plan::Tell(1));
    }

    #[test]
    fn the_window_opens_with_the_first() {
        let gather = Gather::together(ms(100), None);
        assert_eq!(plan(&gather, &[ms(10)], &[], ms(10)), Plan::Wait(ms(110)));
        assert_eq!(plan(&gather, &[ms(10), ms(90)], &[], ms(109)), Plan::Wait(ms(110)));
        assert_eq!(plan(&gather, &[ms(10), ms(90)], &[], ms(110)), Plan::Tell(2));
    }

    #[test]
    fn a_full_call_does_not_wait_for_its_window() {
        let gather = Gather { most: 2, ..Gather::together(ms(100), None) };
        assert_eq!(plan(&gather, &[ms(10), ms(11), ms(12)], &[], ms(12)), Plan::Tell(2));
    }

    #[test]
    fn beyond_the_budget_they_wait_and_go_together() {
        let gather = Gather::together(ms(0), Some(Budget { count: 2, per: ms(1_000) }));
        assert_eq!(plan(&gather, &[ms(100)], &[ms(0)], ms(100)), Plan::Tell(1));
        assert_eq!(plan(&gather, &[ms(200)], &[ms(0), ms(100)], ms(200)), Plan::Wait(ms(1_000)));
        assert_eq!(plan(&gather, &[ms(200), ms(300)], &[ms(0), ms(100)], ms(1_000)), Plan::Tell(2));
    }

    #[test]
    fn a_budget_of_nothing_is_one() {
        let gather = Gather::together(ms(0), Some(Budget { count: 0, per: ms(10) }));
        assert_eq!(plan(&gather, &[ms(0)], &[], ms(0)), Plan::Tell(1));
        assert_eq!(plan(&gather, &[ms(1)], &[ms(0)], ms(1)), Plan::Wait(ms(10)));
    }

    proptest! {
        /// Plays a session through: notices come at any time, calls take any time, one after the other.
        #[test]
        fn each_notice_is_told_once_in_order_within_the_budget(
            mut arrivals in prop::collection::vec(0u64..5_000, 0..40),
            took in prop::collection::vec(0u64..700, 1..8),
            window in 0u64..300, most in 1usize..6, count in 1usize..4, per in 1u64..2_000, limited: bool,
        ) {
            arrivals.sort_unstable();
            let budget = limited.then_some(Budget { count, per: ms(per) });
            let gather = Gather { window: ms(window), budget, most };
            let (mut now, mut next, mut waiting, mut told) = (ms(0), 0, Vec::new(), Vec::new());
            let mut calls: Vec<Duration> = Vec::new();
            let mut remembered: Vec<Duration> = Vec::new();
            while next < arrivals.len() || !waiting.is_empty() {
                while next < arrivals.len() && ms(arrivals[next]) <= now {
                    waiting.push((next, ms(arrivals[next])));
                    next += 1;
                }
                let arrived: Vec<Duration> = waiting.iter().map(|(_, at)| *at).collect();
                match plan(&gather, &arrived, &remembered, now) {
                    Plan::Nothing => now = ms(arrivals[next]),
                    Plan::Wait(until) => {
                        prop_assert!(until > now, "a wait that is over makes a busy loop");
                        now = until.min(arrivals.get(next).map_or(until, |at| ms(*at)));
                    }
                    Plan::Tell(n) => {
                        prop_assert!(n >= 1 && n <= most && n <= waiting.len());
                        told.extend(waiting.drain(..n).map(|(seq, at)| (seq, at, now)));
                        calls.push(now);
                        remembered.push(now);
                        remembered.drain(..forgotten(&gather, &remembered, now));
                        now += ms(took[calls.len() % took.len()]);
                    }
                }
            }
            let order: Vec<usize> = told.iter().map(|(seq, ..)| *seq).collect();
            prop_assert_eq!(order, (0..arrivals.len()).collect::<Vec<_>>());
            if let Some(budget) = budget {
                for together in calls.windows(budget.count + 1) {
                    prop_assert!(together[budget.count] - together[0] >= budget.per);
                }
            }
        }
    }
}
