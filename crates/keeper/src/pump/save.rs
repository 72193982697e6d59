//! When the pump copies the live copy of `meta` to the file.

use super::Pump;
use outlast_store::meta::{Stamp, flag};
use std::io;
use std::time::{Duration, Instant};

/// The least time between two writes of the file, unless an event must be saved at once, and the time before a refused write is tried
/// again.
const EVERY: Duration = Duration::from_secs(1);

/// The state of the file.
#[derive(Debug)]
pub(super) struct Saving {
    /// The state of the live copy at the last write.
    saved: Option<Stamp>,
    /// The earliest time of the next write.
    not_before: Instant,
    /// When the next write is due, if one is.
    due: Option<Instant>,
    /// Whether the record of the end was synced.
    pub(super) end_is_synced: bool,
    /// If the disk refused a write: the time before which nothing is written.
    refused_until: Option<Instant>,
}

impl Saving {
    pub(super) fn new() -> Self {
        Self { saved: None, not_before: Instant::now() + EVERY, due: None, end_is_synced: false, refused_until: None }
    }

    /// How long to wait for descriptors before the next write is due.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

impl Pump<'_> {
    /// Writes the changes since the last write, unless that was a moment ago.
    pub(super) fn save(&mut self) {
        let Ok(now) = self.pair.meta.stamp() else { return };
        let owes_end = self.pair.live().has(flag::RECORDED) && !self.saving.end_is_synced;
        if self.saving.saved.as_ref() == Some(&now) && !owes_end {
            self.saving.due = None;
            return;
        }
        if Instant::now() < self.saving.not_before {
            self.saving.due = Some(self.saving.not_before);
            return;
        }
        self.saving.not_before = Instant::now() + EVERY;
        let written = self.pair.meta.save().and_then(|()| if owes_end { self.pair.meta.sync() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.saving.end_is_synced |= owes_end;
                (self.saving.saved, self.saving.due, self.saving.refused_until) = (Some(now), None, None);
            }
            Err(e) => self.refused(&e),
        }
    }

    /// Writes the final state, and returns whether the file has it. Until then a keeper has to stay with the live copy.
    pub(super) fn hand_over(&mut self) -> bool {
        if self.saving.refused_until.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        let synced = self.saving.end_is_synced;
        let written = self.pair.meta.release().and_then(|()| if synced { Ok(()) } else { self.pair.meta.sync() });
        outlast_store::points::reach("pump.released");
        written.inspect_err(|e| self.refused(e)).is_ok()
    }

    /// Handles a refused write: the live copy has the change, and it is written later.
    pub(super) fn refused(&mut self, error: &io::Error) {
        let again = Instant::now() + EVERY;
        (self.saving.not_before, self.saving.due) = (again, Some(again));
        if self.saving.refused_until.replace(again).is_none() {
            crate::complain(&self.pair.dir.path, format_args!("{}: cannot write meta, and tries again: {error}", self.pair.id));
        }
    }
}
