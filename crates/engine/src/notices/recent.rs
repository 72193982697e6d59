//! The newest notices in memory, for clients that follow: what was just written need not be read from the disk to be sent.

use super::table::NoticeEntry;
use crate::mutex::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// How many notices are kept. A follower that needs older ones reads them from the disk.
const MOST: usize = 64;
/// How many bytes of JSON are kept.
const MOST_BYTES: usize = 1 << 20;

/// The newest notices, while a client follows. Copies are cheap.
#[derive(Clone, Default)]
pub(crate) struct Recent(Arc<Mutex<RecentBuffer>>);

/// Notices with consecutive numbers, the last of which is the newest that was announced. Or none.
#[derive(Default)]
struct RecentBuffer {
    followers: usize,
    made: VecDeque<Arc<NoticeEntry>>,
    bytes: usize,
    /// The newest number that was added, kept or not.
    newest: u64,
}

impl RecentBuffer {
    fn forget(&mut self) {
        self.made.clear();
        self.bytes = 0;
    }

    fn add(&mut self, entry: &NoticeEntry) {
        // Tasks may come here in another order than they wrote. After a missing notice, the kept ones are useless to a follower.
        let follows = entry.notice.seq == self.newest + 1;
        self.newest = self.newest.max(entry.notice.seq);
        if !follows {
            return self.forget();
        }
        self.bytes += entry.bytes;
        self.made.push_back(Arc::new(entry.clone()));
        while self.made.len() > MOST || self.bytes > MOST_BYTES {
            let Some(oldest) = self.made.pop_front() else { return };
            self.bytes -= oldest.bytes;
        }
    }
}

impl Recent {
    /// Adds notices that are on disk. Called before they are announced.
    pub(super) fn add<'a>(&self, made: impl IntoIterator<Item = &'a NoticeEntry>) {
        let mut kept = lock(&self.0);
        if kept.followers > 0 {
            made.into_iter().for_each(|entry| kept.add(entry));
        }
    }

    /// Forgets the kept notices: others that are not known here may be on disk.
    pub(super) fn forget(&self) {
        lock(&self.0).forget();
    }

    /// Keeps new notices from now on, until the value is dropped.
    pub(super) fn follow(&self) -> Following {
        lock(&self.0).followers += 1;
        Following(self.clone())
    }
}

/// A client that follows.
pub(crate) struct Following(Recent);

impl Following {
    /// All notices after a number, of all sessions. None if they are not all in memory: then they must be read from the disk.
    pub(crate) fn after(&self, after: u64) -> Option<Vec<Arc<NoticeEntry>>> {
        let kept = lock(&self.0.0);
        let first = kept.made.front()?.notice.seq;
        (first.saturating_sub(1) <= after).then(|| kept.made.iter().filter(|entry| entry.notice.seq > after).cloned().collect())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut kept = lock(&self.0.0);
        kept.followers -= 1;
        if kept.followers == 0 {
            // New notices are not added from here on, so the kept ones are forgotten.
            kept.forget();
            kept.newest = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::{Body, Notice, Owner, Route, Time};

    fn entry(seq: u64, bytes: usize) -> NoticeEntry {
        let (at, owner, body) = (Time::from_micros(0), Owner::default(), Body::Posted(serde_json::Map::new()));
        let mut notice = Notice::new("evt_1".into(), at, None, &owner, Route::default(), body);
        notice.seq = seq;
        let none = String::new;
        let (state, reason, lease) = (none(), none(), none());
        NoticeEntry {
            notice,
            state,
            reason,
            attempts: 0,
            observed: false,
            earlier: false,
            lease,
            lease_until: 0,
            settled_at: 0,
            bytes,
            unreadable: None,
        }
    }

    fn add<const N: usize>(recent: &Recent, made: [(u64, usize); N]) {
        recent.add(&made.map(|(seq, bytes)| entry(seq, bytes)));
    }

    fn places(following: &Following, after: u64) -> Option<Vec<u64>> {
        Some(following.after(after)?.iter().map(|e| e.notice.seq).collect())
    }

    #[test]
    fn what_was_made_is_there_in_its_order() {
        let recent = Recent::default();
        let following = recent.follow();
        add(&recent, [(4, 1), (5, 1), (6, 1)]);
        assert_eq!(places(&following, 3), None, "it is unknown whether there was a third");
        assert_eq!(places(&following, 4), Some(vec![5, 6]));
        assert_eq!(places(&following, 6), Some(vec![]));
        recent.forget();
        assert_eq!(places(&following, 6), None);
        add(&recent, [(7, 1)]);
        assert_eq!(places(&following, 6), Some(vec![7]));
    }

    #[test]
    fn one_that_comes_late_is_looked_for_on_disk() {
        let recent = Recent::default();
        let following = recent.follow();
        add(&recent, [(1, 1), (3, 1)]);
        assert_eq!(places(&following, 0), None);
        assert_eq!(places(&following, 1), None, "the second is missing");
        add(&recent, [(2, 1)]);
        assert_eq!(places(&following, 1), None, "the third would be missed");
        add(&recent, [(4, 1)]);
        assert_eq!(places(&following, 1), None);
        assert_eq!(places(&following, 3), Some(vec![4]));
    }

    #[test]
    fn nothing_is_kept_without_a_follower() {
        let recent = Recent::default();
        let following = recent.follow();
        add(&recent, [(1, 1)]);
        drop(following);
        add(&recent, [(2, 1)]);
        let following = recent.follow();
        assert_eq!(places(&following, 0), None);
        add(&recent, [(3, 1)]);
        assert_eq!(places(&following, 2), None);
        add(&recent, [(4, 1)]);
        assert_eq!(places(&following, 3), Some(vec![4]));
    }

    #[test]
    fn there_are_never_many_and_never_long_ones() {
        let recent = Recent::default();
        let following = recent.follow();
        (1..=200).for_each(|seq| add(&recent, [(seq, 1)]));
        assert_eq!(places(&following, 0), None);
        assert_eq!(places(&following, 200 - MOST as u64).map(|all| all.len()), Some(MOST));
        add(&recent, [(201, MOST_BYTES / 2 + 1), (202, MOST_BYTES / 2)]);
        assert_eq!(places(&following, 200), None);
        assert_eq!(places(&following, 201), Some(vec![202]));
        add(&recent, [(203, MOST_BYTES + 1)]);
        assert_eq!(places(&following, 202), None, "too long to be kept");
    }

    #[test]
    fn a_follower_misses_nothing_in_any_order_of_announcements() {
        use proptest::prelude::*;
        // Numbers in the order in which they come, and after which of them the follower looks.
        let order = (1_usize..12)
            .prop_flat_map(|n| (Just((1..=n as u64).collect::<Vec<_>>()).prop_shuffle(), proptest::collection::vec(0..3_u8, n)));
        proptest!(|((order, looks) in order)| {
            let recent = Recent::default();
            let following = recent.follow();
            let (mut after, last) = (0, order.len() as u64);
            let look = |after: u64| {
                // All are on disk before the first comes here.
                let made = places(&following, after).unwrap_or_else(|| (after + 1..=last).collect());
                prop_assert!(made.iter().copied().eq(after + 1..=after + made.len() as u64), "{made:?} after {after}");
                Ok(after + made.len() as u64)
            };
            for (seq, what) in order.iter().zip(looks) {
                if what == 2 { recent.forget() } else { add(&recent, [(*seq, 1)]) }
                if what > 0 {
                    after = look(after)?;
                }
            }
            prop_assert_eq!(look(after)?, last);
        });
    }
}
