//! The notices that were made last, for those who follow: what was just written need not be read from the disk to be sent on.

use super::table::NoticeEntry;
use crate::mutex::lock;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// How many are kept. Whoever is further behind reads them from the disk.
const MOST: usize = 64;
/// How long they may be together, in bytes of their JSON.
const MOST_BYTES: usize = 1 << 20;

/// The notices that were made last, while anybody follows. Copies are cheap.
#[derive(Clone, Default)]
pub(crate) struct Recent(Arc<Mutex<RecentBuffer>>);

/// What is kept: places without a gap between them, of which the last is the newest that anybody was told of. Or nothing.
#[derive(Default)]
struct RecentBuffer {
    followers: usize,
    made: VecDeque<Arc<NoticeEntry>>,
    bytes: usize,
    /// The newest place that was added, kept or not.
    newest: u64,
}

impl RecentBuffer {
    fn forget(&mut self) {
        self.made.clear();
        self.bytes = 0;
    }

    fn add(&mut self, entry: &NoticeEntry) {
        // Whoever wrote first need not come here first. Where one is missing, those behind it say nothing about it.
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
    /// These are on disk. Before anybody is told that there is something.
    pub(super) fn add<'a>(&self, made: impl IntoIterator<Item = &'a NoticeEntry>) {
        let mut kept = lock(&self.0);
        if kept.followers > 0 {
            made.into_iter().for_each(|entry| kept.add(entry));
        }
    }

    /// Something is on disk, and nobody says what.
    pub(super) fn forget(&self) {
        lock(&self.0).forget();
    }

    /// From now on what is made is kept, until this is dropped.
    pub(super) fn follow(&self) -> Following {
        lock(&self.0).followers += 1;
        Following(self.clone())
    }
}

/// Somebody who follows.
pub(crate) struct Following(Recent);

impl Following {
    /// All notices behind a place, of whatever conversation. Nothing if that is not known: then the disk knows.
    pub(crate) fn behind(&self, after: u64) -> Option<Vec<Arc<NoticeEntry>>> {
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
            // What is made from here on is not added, so that nothing may seem to follow.
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
        NoticeEntry { notice, state, reason, attempts: 0, observed: false, lease, lease_until: 0, settled_at: 0, bytes, unreadable: None }
    }

    fn add<const N: usize>(recent: &Recent, made: [(u64, usize); N]) {
        recent.add(&made.map(|(seq, bytes)| entry(seq, bytes)));
    }

    fn places(following: &Following, after: u64) -> Option<Vec<u64>> {
        Some(following.behind(after)?.iter().map(|e| e.notice.seq).collect())
    }

    #[test]
    fn what_was_made_is_there_in_its_order() {
        let recent = Recent::default();
        let following = recent.follow();
        add(&recent, [(4, 1), (5, 1), (6, 1)]);
        assert_eq!(places(&following, 3), None, "whether there was a third nobody knows");
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
    fn nothing_is_kept_for_nobody() {
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
    fn whoever_is_told_in_any_order_misses_nothing() {
        use proptest::prelude::*;
        // Places in the order in which they come, and after which of them the follower looks.
        let order = (1_usize..12)
            .prop_flat_map(|n| (Just((1..=n as u64).collect::<Vec<_>>()).prop_shuffle(), proptest::collection::vec(0..3_u8, n)));
        proptest!(|((order, looks) in order)| {
            let recent = Recent::default();
            let following = recent.follow();
            let (mut after, last) = (0, order.len() as u64);
            let look = |after: u64| {
                // All are on disk before the first comes here.
                let made = places(&following, after).unwrap_or_else(|| (after + 1..=last).collect());
                prop_assert!(made.iter().copied().eq(after + 1..=after + made.len() as u64), "{made:?} behind {after}");
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
