//! The age of a record, corrected for changes of the clock.
//!
//! Records on disk have the time of the clock. If the clock is set a week forward, all finished processes look a week old and would be
//! removed. So whenever the engine looks for what to remove, it also compares the clock with the time since boot, which cannot be set. A
//! jump forward is subtracted from every age that spans it. A jump back makes nothing older; it undoes an earlier jump forward. If it is
//! not certain on which side of a jump a process ended, the younger age counts. Across a reboot there is nothing to compare with, and the
//! clock is believed.
//!
//! Decision 166: docs/decisions/store.md.

use outlast_core::Time;
use outlast_store::dir::Home;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// A smaller difference is not a jump: clocks are adjusted all the time.
const SMALLEST_JUMP: Duration = Duration::from_secs(60);
/// How many jumps are remembered. If the clock is set more often, it is believed again.
const MAX_JUMPS: usize = 64;

/// The jumps forward that may lie within the age of a kept record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClockJumps {
    last: Option<Moment>,
    jumps: Vec<Jump>,
}

/// One instant, by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// Microseconds since 1970, by the wall clock.
    pub(crate) wall_us: i64,
    /// Microseconds since boot, sleep included.
    pub(crate) boot_us: i64,
    /// The boot id.
    pub(crate) boot: u128,
}

/// One jump of the wall clock forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Jump {
    /// The time that the clock would have shown without the jump, when the jump was found. A record with a later time was made after it.
    upto_us: i64,
    /// By how many microseconds.
    by_us: i64,
}

impl Jump {
    /// Whether a clock that counts microseconds can have jumped so far.
    fn is_possible(&self) -> bool {
        self.by_us > 0 && self.upto_us.checked_add(self.by_us).is_some()
    }
}

impl ClockJumps {
    /// Loads the jumps that were seen in this home. None if the file cannot be read, or holds values that no clock can have.
    pub(crate) fn load(home: &Home) -> Self {
        let read: Option<Self> = std::fs::read(home.clock()).ok().and_then(|text| serde_json::from_slice(&text).ok());
        read.filter(|read| read.jumps.iter().all(Jump::is_possible)).unwrap_or_default()
    }

    /// Saves them for the next engine.
    pub(crate) fn save(&self, home: &Home) -> io::Result<()> {
        let new = home.clock().with_extension("new");
        std::fs::write(&new, serde_json::to_vec(self).map_err(io::Error::from)?)?;
        std::fs::rename(&new, home.clock())
    }

    /// Compares the clocks with the last check, and forgets jumps that are older than `keep_for`: no kept record spans them.
    pub(crate) fn look(&mut self, now: Moment, keep_for: Duration) {
        if let Some(last) = self.last.filter(|last| last.boot == now.boot) {
            // Saturating, since the last look comes from a file.
            let upto_us = last.wall_us.saturating_add(now.boot_us.saturating_sub(last.boot_us));
            let by_us = now.wall_us.saturating_sub(upto_us);
            match by_us.unsigned_abs() >= SMALLEST_JUMP.as_micros() as u64 {
                true if by_us > 0 => self.jumps.push(Jump { upto_us, by_us }),
                true => self.undo(by_us.saturating_neg(), now.wall_us),
                false => {}
            }
        }
        self.last = Some(now);
        let same = self.clone();
        self.jumps.retain(|jump| jump.by_us > 0 && same.age(Time::from_micros(jump.upto_us), now.wall_us) <= keep_for);
        let surplus = self.jumps.len().saturating_sub(MAX_JUMPS);
        self.jumps.drain(..surplus);
    }

    /// Handles a clock that was set back, to where it had been before some of the jumps or to a little later.
    fn undo(&mut self, mut by_us: i64, wall_us: i64) {
        for jump in self.jumps.iter_mut().rev().filter(|jump| jump.upto_us <= wall_us) {
            let undone = by_us.min(jump.by_us);
            jump.by_us -= undone;
            by_us -= undone;
        }
    }

    /// How long ago `then` was, without the jumps since. `now_us` is what the clock shows now.
    pub(crate) fn age(&self, then: Time, now_us: i64) -> Duration {
        let jumped =
            self.jumps.iter().filter(|jump| then.micros() <= jump.upto_us).fold(0, |sum: i64, jump| sum.saturating_add(jump.by_us));
        Duration::from_micros(u64::try_from(now_us.saturating_sub(then.micros()).saturating_sub(jumped)).unwrap_or(0))
    }

    /// The sum of all jumps forward, for ages that are measured elsewhere.
    pub(crate) fn forward(&self) -> Duration {
        Duration::from_micros(self.jumps.iter().fold(0, |sum: u64, jump| sum.saturating_add(jump.by_us.max(0) as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;
    const DAY: i64 = 24 * HOUR;
    const WEEK: Duration = Duration::from_secs(7 * 86_400);
    const START: i64 = 1_700_000_000_000_000;

    fn at(wall: i64, boot_us: i64, boot: u128) -> Moment {
        Moment { wall_us: START + wall, boot_us, boot }
    }

    fn days(jumps: &ClockJumps, then: i64, now: i64) -> i64 {
        (jumps.age(Time::from_micros(START + then), START + now).as_micros() as i64) / DAY
    }

    #[test]
    fn a_jump_forward_makes_nothing_older() {
        let mut jumps = ClockJumps::default();
        jumps.look(at(0, 0, 1), WEEK);
        // The clock jumps by seven days, an hour later by the other clock.
        jumps.look(at(7 * DAY + HOUR, HOUR, 1), WEEK);
        assert_eq!(days(&jumps, -DAY, 7 * DAY + HOUR), 1);
        assert_eq!(days(&jumps, 7 * DAY + HOUR, 9 * DAY), 1, "what ended since is measured by the new time");
        assert_eq!(jumps.forward(), WEEK);
        // The clock is set right again. A process that ended before the jump has its real age. One that ended in between has age 0 until
        // the clock is there again.
        jumps.look(at(2 * HOUR, 2 * HOUR, 1), WEEK);
        assert_eq!((days(&jumps, -DAY, 2 * HOUR), days(&jumps, 7 * DAY + HOUR, 3 * DAY)), (1, 0));
        assert_eq!(jumps, ClockJumps { last: jumps.last, jumps: vec![] });
    }

    #[test]
    fn what_ended_between_the_last_look_and_a_jump_is_no_older_either() {
        let mut jumps = ClockJumps::default();
        jumps.look(at(0, 0, 1), WEEK);
        jumps.look(at(8 * DAY, HOUR, 1), WEEK);
        assert_eq!(days(&jumps, HOUR / 2, 8 * DAY), 0);
    }

    #[test]
    fn a_clock_that_was_wrong_and_is_set_right_gives_true_ages() {
        let mut jumps = ClockJumps::default();
        jumps.look(at(0, 0, 1), WEEK);
        jumps.look(at(-30 * DAY, HOUR, 1), WEEK);
        // A day later the clock is set right. A process that ended in between has a time of a month ago.
        jumps.look(at(DAY, DAY, 1), WEEK);
        assert_eq!((days(&jumps, -30 * DAY + HOUR, DAY), days(&jumps, -2 * DAY, DAY)), (0, 3));
    }

    #[test]
    fn time_that_passes_is_no_jump() {
        let mut jumps = ClockJumps::default();
        jumps.look(at(0, 0, 1), WEEK);
        jumps.look(at(8 * DAY, 8 * DAY + 30_000_000, 1), WEEK);
        jumps.look(at(20 * DAY, 5, 2), WEEK);
        assert_eq!(days(&jumps, 0, 20 * DAY), 20, "nor is what passes while the machine is off");
    }

    #[test]
    fn a_jump_that_nothing_kept_can_span_is_forgotten() {
        let mut jumps = ClockJumps::default();
        jumps.look(at(0, 0, 1), WEEK);
        jumps.look(at(30 * DAY, HOUR, 1), WEEK);
        jumps.look(at(36 * DAY, 6 * DAY + HOUR, 1), WEEK);
        assert_eq!(days(&jumps, 0, 36 * DAY), 6);
        jumps.look(at(38 * DAY, 8 * DAY + HOUR, 1), WEEK);
        assert_eq!(jumps.jumps, []);
    }

    #[test]
    fn jumps_are_found_again_by_the_next_engine() {
        let tmp = tempfile::tempdir().unwrap();
        let home = Home::new(tmp.path());
        let mut jumps = ClockJumps::load(&home);
        assert_eq!(jumps, ClockJumps::default());
        jumps.look(at(0, 0, u128::MAX), WEEK);
        jumps.look(at(2 * DAY, HOUR, u128::MAX), WEEK);
        jumps.save(&home).unwrap();
        assert_eq!(ClockJumps::load(&home), jumps);
        std::fs::write(home.clock(), "{").unwrap();
        assert_eq!(ClockJumps::load(&home), ClockJumps::default());
    }

    #[test]
    fn a_damaged_file_spoils_nothing() {
        let tmp = tempfile::tempdir().unwrap();
        let home = Home::new(tmp.path());
        let (least, most) = (i64::MIN, i64::MAX);
        let last = |wall: i64, boot: i64| format!(r#"{{"last":{{"wall_us":{wall},"boot_us":{boot},"boot":1}},"jumps":[]}}"#);
        let jump = |upto: i64, by: i64| format!(r#"{{"jumps":[{{"upto_us":{upto},"by_us":{by}}},{{"upto_us":{upto},"by_us":{by}}}]}}"#);
        for text in [last(most, least), last(least, most), last(least, least), jump(most, most), jump(0, most), jump(0, least)] {
            std::fs::write(home.clock(), &text).unwrap();
            let mut jumps = ClockJumps::load(&home);
            jumps.look(at(0, 0, 1), WEEK);
            assert_eq!(days(&jumps, -3 * DAY, 0), 3, "{text}");
            jumps.forward();
            // From then on the clock is normal again.
            jumps.look(at(30 * DAY, DAY, 1), WEEK);
            assert_eq!(days(&jumps, -3 * DAY, 30 * DAY), 4, "{text}");
        }
    }
}
