//! Which matches become notices: a limiter for each process, and a circuit breaker for the home.
//!
//! A pure function moves both states on, from one fact to the next. They are stored in one transaction with the notices that the
//! fact caused, so a replay produces the same notices. All times are microseconds since boot, which no clock change moves.
//!
//! Decisions 47 and 48: docs/decisions/watch.md.

use crate::ProcessId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// How much later than a newer fact of any process a fact may arrive if it is unknown in which boot it was observed. An older one
/// is taken for a fact of another boot, and times stored in that boot must not suppress it.
pub const MOST_LATE: Duration = Duration::from_secs(60);

/// How many matches become notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The least time between two match notices of one process.
    pub spacing: Duration,
    /// After matches were held back in this many spacings in a row, a process is no longer watched.
    pub strikes: u32,
    /// After this many match notices, a process is no longer watched.
    pub lifetime: Option<u32>,
    /// The most match notices of all processes within a window. The next match trips the breaker.
    pub burst: u32,
    /// How long a match counts towards the burst.
    pub window: Duration,
    /// How long a tripped breaker holds back all matches.
    pub rest: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            spacing: Duration::from_secs(15),
            strikes: 3,
            lifetime: Some(8),
            burst: 15,
            window: Duration::from_secs(10),
            rest: Duration::from_secs(30),
        }
    }
}

/// A fact: lines of a process matched.
#[derive(Debug, Clone, Copy)]
pub struct MatchSeen<'a> {
    /// When it was observed, by the clock of its own boot.
    pub up: u64,
    /// When it was observed, by the clock of the boot whose times the breaker holds. That is `up` if both are the same boot, else
    /// the time at which the fact is handled. None if the boot of the fact is unknown.
    pub here: Option<u64>,
    /// The process.
    pub process: ProcessId,
    /// The session that owns it.
    pub session: &'a str,
    /// How many lines matched.
    pub count: u64,
}

/// What the owner is notified of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchDecision {
    /// The match that was seen, to the process's owner.
    Match {
        /// How many earlier lines were held back.
        suppressed: u64,
    },
    /// The process is no longer watched. Its owner is notified of that now, and once of its end.
    Disabled {
        /// How many lines were held back since the last match notice.
        suppressed: u64,
        /// A text in the contract's wording.
        message: String,
    },
    /// Matches are held back for a while. One session is notified of that.
    Tripped {
        /// The session.
        session: String,
        /// A text in the contract's wording.
        message: String,
    },
    /// Matches are no longer held back. One session is notified of that.
    Released {
        /// The session.
        session: String,
        /// How many of its matches were held back.
        suppressed: u64,
        /// A text in the contract's wording.
        message: String,
    },
}

/// The state of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limiter {
    cooldown_until: Option<u64>,
    strike_candidate: bool,
    strikes: u32,
    suppressed: u64,
    hits: u32,
    disabled: bool,
}

/// The state of the home.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Breaker {
    /// The latest time of any fact.
    last: u64,
    /// The times of the match notices that still count towards the burst; never more than the burst allows.
    admitted: VecDeque<u64>,
    tripped: Option<Trip>,
}

/// A tripped breaker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Trip {
    until: u64,
    /// How many matches of each session were held back. There are no more sessions here than have running processes.
    suppressed: BTreeMap<String, u64>,
}

/// Takes in one fact, and returns what is to be reported, in this order.
///
/// The facts of one process come in the order of their times; those of several may be mixed a little. After a long silence of
/// the engine they are best merged by their times.
pub fn watch(rules: &Rules, limiter: &mut Limiter, breaker: &mut Breaker, seen: &MatchSeen<'_>) -> Vec<WatchDecision> {
    let mut told = match seen.here {
        Some(up) => breaker.tick(up),
        None => breaker.guess(seen.up),
    };
    breaker.last = breaker.last.max(seen.here.unwrap_or(seen.up));
    if limiter.disabled || seen.count == 0 {
        return told;
    }
    if limiter.is_cooling(rules, seen.up) {
        limiter.suppressed = limiter.suppressed.saturating_add(seen.count);
        if !limiter.strike_candidate {
            limiter.strike_candidate = true;
            limiter.strikes = limiter.strikes.saturating_add(1);
            if limiter.strikes >= rules.strikes {
                told.push(limiter.disable(strikes_message(rules, seen.process)));
            }
        }
        return told;
    }
    let last = rules.lifetime.is_some_and(|most| limiter.hits.saturating_add(1) >= most);
    match breaker.ask(rules, seen.session) {
        Answer::Admitted => told.push(limiter.hit(rules, seen.up)),
        Answer::Refused { tripped } => {
            limiter.suppressed = limiter.suppressed.saturating_add(seen.count);
            told.extend(tripped);
        }
    }
    // A breaker that refuses the last match does not grant the process another one: its owner has to know that no more will come.
    if last {
        told.push(limiter.disable(lifetime_message(rules, seen.process)));
    }
    told
}

impl Limiter {
    /// How many matches became notices.
    pub fn hits(&self) -> u32 {
        self.hits
    }

    /// How many lines were held back since the last match notice.
    pub fn suppressed(&self) -> u64 {
        self.suppressed
    }

    /// In how many spacings in a row matches were held back.
    pub fn strikes(&self) -> u32 {
        self.strikes
    }

    /// Whether the process is no longer watched. Its end then becomes one notice, requested or not.
    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Forgets times, which mean nothing after a reboot. Counts are kept.
    pub fn rebooted(&mut self) {
        self.cooldown_until = self.cooldown_until.map(|_| 0);
    }

    fn is_cooling(&self, rules: &Rules, up: u64) -> bool {
        let honest = micros(rules.spacing).saturating_add(micros(MOST_LATE));
        self.cooldown_until.is_some_and(|until| up < until && until - up <= honest)
    }

    fn hit(&mut self, rules: &Rules, up: u64) -> WatchDecision {
        if self.cooldown_until.is_some() && !self.strike_candidate {
            self.strikes = 0;
        }
        self.strike_candidate = false;
        self.cooldown_until = Some(up.saturating_add(micros(rules.spacing)));
        self.hits = self.hits.saturating_add(1);
        WatchDecision::Match { suppressed: std::mem::take(&mut self.suppressed) }
    }

    fn disable(&mut self, message: String) -> WatchDecision {
        self.disabled = true;
        WatchDecision::Disabled { suppressed: self.suppressed, message }
    }
}

enum Answer {
    Admitted,
    Refused { tripped: Option<WatchDecision> },
}

impl Breaker {
    /// When [`Breaker::tick`] has something to report.
    pub fn due(&self) -> Option<u64> {
        self.tripped.as_ref().map(|trip| trip.until)
    }

    /// Ends a rest that is over by `up`, a time of the same boot, and reports that to every session for which it held something back.
    pub fn tick(&mut self, up: u64) -> Vec<WatchDecision> {
        match &self.tripped {
            // A fact that arrives late finds the breaker as the latest fact left it.
            Some(trip) if up.max(self.last) >= trip.until => self.release(),
            _ => Vec::new(),
        }
    }

    /// The same by a time of some boot or other.
    fn guess(&mut self, up: u64) -> Vec<WatchDecision> {
        match self.last.saturating_sub(up) > micros(MOST_LATE) {
            true => self.rebooted(),
            false => self.tick(up),
        }
    }

    /// Whether it holds a time later than `up`, which cannot be of the same boot.
    pub fn is_ahead_of(&self, up: u64) -> bool {
        self.last > up
    }

    /// Forgets times, which mean nothing after the machine was started anew. A rest is over by that.
    pub fn rebooted(&mut self) -> Vec<WatchDecision> {
        let told = self.release();
        *self = Self::default();
        told
    }

    fn release(&mut self) -> Vec<WatchDecision> {
        let Some(trip) = self.tripped.take() else { return Vec::new() };
        // As if a timer had fired at that moment: a timer and a match end the trip alike.
        self.last = self.last.max(trip.until);
        let told = |(session, suppressed)| WatchDecision::Released { session, suppressed, message: released_message(suppressed) };
        trip.suppressed.into_iter().map(told).collect()
    }

    /// Whether a match may become a notice at the latest time.
    fn ask(&mut self, rules: &Rules, session: &str) -> Answer {
        let window = micros(rules.window);
        while self.admitted.front().is_some_and(|at| self.last.saturating_sub(*at) >= window) {
            self.admitted.pop_front();
        }
        if self.tripped.is_none() && self.admitted.len() < rules.burst as usize {
            self.admitted.push_back(self.last);
            return Answer::Admitted;
        }
        self.admitted.clear();
        let until = self.last.saturating_add(micros(rules.rest));
        let trip = self.tripped.get_or_insert_with(|| Trip { until, suppressed: BTreeMap::new() });
        if let Some(count) = trip.suppressed.get_mut(session) {
            *count = count.saturating_add(1);
            return Answer::Refused { tripped: None };
        }
        trip.suppressed.insert(session.to_owned(), 1);
        Answer::Refused { tripped: Some(WatchDecision::Tripped { session: session.to_owned(), message: tripped_message(rules) }) }
    }
}

fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

fn strikes_message(rules: &Rules, process: ProcessId) -> String {
    let (strikes, spacing) = (rules.strikes, rules.spacing.as_secs_f64());
    disabled_message(process, &format!("{strikes} consecutive rate-limit windows triggered (min spacing {spacing}s)"))
}

fn lifetime_message(rules: &Rules, process: ProcessId) -> String {
    disabled_message(process, &format!("lifetime limit of {} matches reached", rules.lifetime.unwrap_or_default()))
}

fn disabled_message(process: ProcessId, why: &str) -> String {
    format!(
        "Watch patterns disabled for process {process} — {why}. Falling back to notify_on_complete semantics; you'll get exactly one \
         notification when the process exits."
    )
}

fn tripped_message(rules: &Rules) -> String {
    format!(
        "Watch-pattern overflow: >{} notifications in {}s across all processes. Suppressing further watch_match events for {}s.",
        rules.burst,
        rules.window.as_secs_f64(),
        rules.rest.as_secs_f64()
    )
}

fn released_message(suppressed: u64) -> String {
    format!("Watch-pattern notifications resumed. {suppressed} match event(s) were suppressed during the flood.")
}

#[cfg(test)]
mod histories;
#[cfg(test)]
mod tests;
