//! Whether an engine has heard what somebody is to be told.
//!
//! News is owed until an engine has written it down, which it says in `meta`. A listener that goes away before that, or an engine that was just stopping, is no
//! one to have told: another is started. Whoever waits for a notice asks nobody, so nobody else would start one.
//!
//! Decisions 77 and 78: docs/decisions/keeper.md.

use crate::pair::Pair;
use crate::wake::{self, Waking};
use rustix::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often an engine is started at most, should it not stay.
const WAKE_AGAIN: Duration = Duration::from_secs(10);
/// Where an engine is there already: it may be about to leave, so it is looked again, at first soon.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_SELDOM: Duration = Duration::from_millis(100);
/// How long keepers stay for that when nothing else is left to do. The folder has the news, and the next engine finds it there.
const STAY: Duration = Duration::from_secs(10);

/// What has to be written down: the journal up to its last match, and the end if there was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owed {
    journal: u64,
    end: bool,
}

/// What an engine is told, and has perhaps not heard.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    owed: Option<Owed>,
    /// Since when the end is owed.
    since: Option<Instant>,
    /// The keepers have stayed for it as long as they may. What still keeps them has a time of its own.
    has_stayed: bool,
    /// An engine on its way, with what it finds when it comes.
    waking: Option<(Waking, Option<Owed>)>,
    /// Not before this is an engine looked for again, and how long after that.
    again: Option<(Instant, Duration)>,
}

impl Telling {
    /// Matches are in the journal up to `journal`.
    pub(crate) fn owe_matches(&mut self, journal: u64) {
        let end = self.owed.is_some_and(|o| o.end);
        self.owed = Some(Owed { journal, end });
    }

    /// The end is on record, and it was all but told.
    pub(crate) fn owe_end(&mut self, pair: &Pair, has_listener: bool) {
        let journal = self.owed.map_or(0, |o| o.journal);
        match pair.settings.tells {
            true => {
                self.owed = Some(Owed { journal, end: true });
                self.since = Some(Instant::now());
                (self.again, self.has_stayed) = (None, false);
            }
            // Nobody waits for it: once is enough.
            false if !has_listener => self.wake(pair),
            false => {}
        }
    }

    /// Looks whether it was heard, and starts an engine if there is nobody to hear it.
    pub(crate) fn go_on(&mut self, pair: &Pair, has_listener: bool) {
        self.end_stay();
        if self.owed.is_some_and(|owed| pair.live().is_noted(owed.journal, owed.end)) {
            (self.owed, self.again) = (None, None);
        }
        let too_soon = self.again.is_some_and(|(at, _)| Instant::now() < at);
        if self.owed.is_some() && self.waking.is_none() && !has_listener && !too_soon {
            self.wake(pair);
        }
    }

    fn end_stay(&mut self) {
        self.has_stayed = self.since.is_some_and(|since| since.elapsed() >= STAY);
    }

    fn wake(&mut self, pair: &Pair) {
        if !pair.is_in_home() {
            // An engine that is started there would not know this process. The home may be moved back, so the pump checks again, at long
            // intervals.
            self.again = Some((Instant::now() + WAKE_AGAIN, LOOK_SELDOM));
            return;
        }
        let (owed, last) = (self.owed, self.again.map_or(LOOK_AGAIN, |(_, pause)| pause));
        self.waking = wake::engine(pair).map(|waking| (waking, owed));
        let pause = if self.waking.is_some() { WAKE_AGAIN } else { last };
        self.again = Some((Instant::now() + pause, (last * 2).min(LOOK_SELDOM)));
    }

    /// Says when the engine that was started is there, or is not coming.
    pub(crate) fn ready(&self) -> Option<&OwnedFd> {
        self.waking.as_ref().map(|(waking, _)| &waking.ready)
    }

    /// It is there or not coming. Before it says so it has written down everything that it found.
    pub(crate) fn woken(&mut self) {
        let Some((waking, owed)) = self.waking.take() else { return };
        let is_up = matches!(rustix::io::read(&waking.ready, &mut [0_u8; 16]), Ok(n) if n > 0);
        if is_up && self.owed == owed {
            (self.owed, self.again) = (None, None);
        }
    }

    /// Whether the keepers have to stay for this.
    pub(crate) fn keeps(&self, pair: &Pair) -> bool {
        let heard_by_nobody = pair.settings.engine.is_none() || self.since.is_some_and(|t| t.elapsed() >= STAY);
        self.waking.is_some() || (self.owed.is_some() && !heard_by_nobody)
    }

    /// When to go on though no descriptor says so.
    pub(crate) fn due(&self, has_listener: bool) -> Option<Duration> {
        self.owed?;
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        let again = self.again.filter(|_| self.waking.is_none() && !has_listener).map(|(at, _)| left(at));
        // Whoever listens leaves when it is over; should it hang, we do.
        let stay = self.since.filter(|_| !self.has_stayed).map(|t| left(t + STAY));
        again.into_iter().chain(stay).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pump_that_a_full_disk_keeps_does_not_spin_after_its_stay() {
        let owed = Some(Owed { journal: 0, end: true });
        let mut telling = Telling { owed, since: Some(Instant::now()), ..Telling::default() };
        telling.end_stay();
        assert!(telling.due(true).is_some_and(|left| left <= STAY), "it wakes up to leave");
        telling.since = Instant::now().checked_sub(STAY);
        assert_eq!(telling.due(true), Some(Duration::ZERO), "it has not looked since");
        telling.end_stay();
        assert_eq!(telling.due(true), None, "nothing more is due");
    }
}
