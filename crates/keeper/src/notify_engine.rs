//! Tracks whether an engine has stored what the owner is to be notified of.
//!
//! News is pending until an engine has stored it, which it notes in `meta`. If a listener goes away before that, or the engine is
//! shutting down, another engine is started. A taker that waits for a notice sends no request, so no other program would start one.
//!
//! Decisions 77 and 78: docs/decisions/keeper.md.

use crate::pair::Pair;
use crate::start_engine::{self, StartingEngine};
use rustix::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The least time between two starts of an engine, if it does not stay.
const START_AGAIN: Duration = Duration::from_secs(10);
/// If an engine runs, it may be about to leave, so the pump looks again: at first after this time.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
const LOOK_SELDOM: Duration = Duration::from_millis(100);
/// How long the keepers stay for pending news when all other work is done. The folder has the news, and the next engine finds it
/// there.
const STAY: Duration = Duration::from_secs(10);

/// What an engine has to store: the journal up to its last match, and the end if there was one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owed {
    journal: u64,
    end: bool,
}

/// News that were sent to engines, which may not have stored them.
#[derive(Debug, Default)]
pub(crate) struct PendingNews {
    owed: Option<Owed>,
    /// Since when the end is pending.
    since: Option<Instant>,
    /// The keepers have stayed for it as long as they may. Other reasons to stay have their own limits.
    has_stayed: bool,
    /// An engine that is being started, with the news that it will find.
    starting: Option<(StartingEngine, Option<Owed>)>,
    /// The earliest time to look for an engine again, and the pause after that.
    again: Option<(Instant, Duration)>,
}

impl PendingNews {
    /// The journal has matches up to `journal`.
    pub(crate) fn owe_matches(&mut self, journal: u64) {
        let end = self.owed.is_some_and(|o| o.end);
        self.owed = Some(Owed { journal, end });
    }

    /// The end is recorded, and is about to be sent to listeners.
    pub(crate) fn owe_end(&mut self, pair: &Pair, has_listener: bool) {
        let journal = self.owed.map_or(0, |o| o.journal);
        match pair.settings.tells {
            true => {
                self.owed = Some(Owed { journal, end: true });
                self.since = Some(Instant::now());
                (self.again, self.has_stayed) = (None, false);
            }
            // No notice depends on it: one attempt is enough.
            false if !has_listener => self.start_engine(pair),
            false => {}
        }
    }

    /// Checks whether an engine has stored the news, and starts one if none listens.
    pub(crate) fn advance(&mut self, pair: &Pair, has_listener: bool) {
        if pair.settings.engine.is_none() {
            // No engine can be started: in a sandbox there is none. The next reader of the folder finds the news.
            self.owed = None;
        }
        self.end_stay();
        if self.owed.is_some_and(|owed| pair.live().is_noted(owed.journal, owed.end)) {
            (self.owed, self.again) = (None, None);
        }
        let too_soon = self.again.is_some_and(|(at, _)| Instant::now() < at);
        if self.owed.is_some() && self.starting.is_none() && !has_listener && !too_soon {
            self.start_engine(pair);
        }
    }

    fn end_stay(&mut self) {
        self.has_stayed = self.since.is_some_and(|since| since.elapsed() >= STAY);
    }

    fn start_engine(&mut self, pair: &Pair) {
        if !pair.is_in_home() {
            // An engine that is started there would not know this process. The home may be moved back, so the pump checks again at
            // long intervals.
            self.again = Some((Instant::now() + START_AGAIN, LOOK_SELDOM));
            return;
        }
        let (owed, last) = (self.owed, self.again.map_or(LOOK_AGAIN, |(_, pause)| pause));
        self.starting = start_engine::start(pair).map(|engine| (engine, owed));
        let pause = if self.starting.is_some() { START_AGAIN } else { last };
        self.again = Some((Instant::now() + pause, (last * 2).min(LOOK_SELDOM)));
    }

    /// Readable when the engine that was started runs, or has failed.
    pub(crate) fn ready(&self) -> Option<&OwnedFd> {
        self.starting.as_ref().map(|(engine, _)| &engine.ready)
    }

    /// Handles the result of the start. An engine that runs has stored everything that it found.
    pub(crate) fn engine_started(&mut self) {
        let Some((engine, owed)) = self.starting.take() else { return };
        let is_up = matches!(rustix::io::read(&engine.ready, &mut [0_u8; 16]), Ok(n) if n > 0);
        if is_up && self.owed == owed {
            (self.owed, self.again) = (None, None);
        }
    }

    /// Whether the keepers have to stay for the news.
    pub(crate) fn keeps(&self, pair: &Pair) -> bool {
        let is_given_up = pair.settings.engine.is_none() || self.since.is_some_and(|t| t.elapsed() >= STAY);
        self.starting.is_some() || (self.owed.is_some() && !is_given_up)
    }

    /// When to check again although no descriptor reports anything.
    pub(crate) fn due(&self, has_listener: bool) -> Option<Duration> {
        self.owed?;
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        let again = self.again.filter(|_| self.starting.is_none() && !has_listener).map(|(at, _)| left(at));
        // A listening engine leaves when all is stored. If it hangs, the keepers leave.
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
        let mut news = PendingNews { owed, since: Some(Instant::now()), ..PendingNews::default() };
        news.end_stay();
        assert!(news.due(true).is_some_and(|left| left <= STAY), "it wakes up to leave");
        news.since = Instant::now().checked_sub(STAY);
        assert_eq!(news.due(true), Some(Duration::ZERO), "it has not looked since");
        news.end_stay();
        assert_eq!(news.due(true), None, "nothing more is due");
    }
}
