//! How long finished processes are kept.

use crate::clock_jumps::ClockJumps;
use outlast_core::{ProcessId, Time};
use std::time::Duration;

/// How long a process is kept that was set aside. Its caller was not given its id, so only people look for it.
const KEEP_SET_ASIDE: Duration = Duration::from_secs(24 * 3600);

/// Whether the owner of a process has seen its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndSeen {
    /// No, as far as is known.
    Not,
    /// Yes.
    Seen,
    /// Yes, and all its output, in the answer to the call that started it. Lists for agents leave it out, and it is kept for a day.
    SetAside,
}

/// A process whose facts are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) id: ProcessId,
    pub(crate) ended_at: Time,
    pub(crate) bytes: u64,
    /// Whether its owner has seen its end. Such processes are removed first.
    pub(crate) consumed: EndSeen,
}

/// Which finished processes to remove: those that ended longer than `keep_for` ago, or a day ago if they were set aside, not counting jumps of
/// the clock. Of the rest, consumed ones first and then the oldest, until the others fit into `keep_bytes`.
pub(crate) fn too_much(mut finished: Vec<Finished>, now: Time, jumps: &ClockJumps, keep_for: Duration, keep_bytes: u64) -> Vec<ProcessId> {
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    finished.sort_unstable_by_key(|f| (f.consumed == EndSeen::Not, f.ended_at, f.id));
    for one in finished {
        let keep_for = if one.consumed == EndSeen::SetAside { keep_for.min(KEEP_SET_ASIDE) } else { keep_for };
        let old = jumps.age(one.ended_at, now.micros()) >= keep_for;
        if old { gone.push(one.id) } else { kept.push(one) }
    }
    let mut total: u64 = kept.iter().map(|f| f.bytes).sum();
    for one in kept {
        if total <= keep_bytes {
            break;
        }
        total -= one.bytes;
        gone.push(one.id);
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_micros(1_700_000_000_000_000);
    const DAY: i64 = 86_400_000_000;

    fn one(n: u8, days_ago: i64, bytes: u64, consumed: EndSeen) -> Finished {
        let ended_at = Time::from_micros(NOW.micros() - days_ago * DAY);
        Finished { id: ProcessId::from_bytes([n; 6]), ended_at, bytes, consumed }
    }

    fn gone(finished: &[Finished], keep_days: u64, keep_bytes: u64) -> Vec<u8> {
        let keep_for = Duration::from_secs(keep_days * 86_400);
        too_much(finished.to_vec(), NOW, &ClockJumps::default(), keep_for, keep_bytes).iter().map(|id| id.bytes()[0]).collect()
    }

    #[test]
    fn case_215_and_218_age_counts_from_the_end() {
        assert_eq!(gone(&[one(1, 8, 1, EndSeen::Not), one(2, 6, 1, EndSeen::Not), one(3, 0, 1, EndSeen::Seen)], 7, 100), [1]);
    }

    #[test]
    fn case_216_over_the_limit_consumed_and_oldest_go_first() {
        let all = [one(1, 3, 40, EndSeen::Not), one(2, 2, 40, EndSeen::Seen), one(3, 1, 40, EndSeen::Not), one(4, 1, 40, EndSeen::Seen)];
        assert_eq!(gone(&all, 7, 160), [0; 0]);
        assert_eq!(gone(&all, 7, 159), [2]);
        assert_eq!(gone(&all, 7, 100), [2, 4]);
        assert_eq!(gone(&all, 7, 60), [2, 4, 1]);
        assert_eq!(gone(&all, 7, 0), [2, 4, 1, 3]);
    }

    #[test]
    fn what_was_set_aside_is_kept_for_a_day() {
        let all = [one(1, 2, 1, EndSeen::SetAside), one(2, 2, 1, EndSeen::Seen), one(3, 0, 1, EndSeen::SetAside)];
        assert_eq!(gone(&all, 7, 100), [1]);
        assert_eq!(gone(&all, 0, 100).len(), 3);
    }

    #[test]
    fn a_clock_that_was_set_back_removes_nothing() {
        assert_eq!(gone(&[one(1, -30, 1, EndSeen::Not)], 7, 100), [0; 0]);
    }
}
