//! When the file gets what the live copy of `meta` has.

use super::Pump;
use outlast_store::meta::{Stamp, flag};
use std::io;
use std::time::{Duration, Instant};

/// How often the file is written at most while nothing happens that it must have at once, and how often a write that the disk refused is tried again.
const EVERY: Duration = Duration::from_secs(1);

/// What the file has.
#[derive(Debug)]
pub(super) struct Saving {
    /// What the live copy was when it was last written.
    saved: Option<Stamp>,
    /// Not before this is it written again.
    not_before: Instant,
    /// When it is to be written, if it is to be.
    due: Option<Instant>,
    /// Whether the record of the end is on disk for good.
    pub(super) end_is_synced: bool,
    /// Until when the disk, which refused, is left alone.
    refused_until: Option<Instant>,
}

impl Saving {
    pub(super) fn new() -> Self {
        Self { saved: None, not_before: Instant::now() + EVERY, due: None, end_is_synced: false, refused_until: None }
    }

    /// When to go on though no descriptor says so.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

impl Pump<'_> {
    /// Writes what has changed since, unless it was written a moment ago.
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

    /// Writes the last word. Whether the file has it: until then there must be a keeper with the live copy.
    pub(super) fn hand_over(&mut self) -> bool {
        if self.saving.refused_until.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        let synced = self.saving.end_is_synced;
        let written = self.pair.meta.release().and_then(|()| if synced { Ok(()) } else { self.pair.meta.sync() });
        outlast_store::points::reach("pump.released");
        written.inspect_err(|e| self.refused(e)).is_ok()
    }

    /// The disk refuses. The live copy has it, and it is tried again.
    pub(super) fn refused(&mut self, error: &io::Error) {
        let again = Instant::now() + EVERY;
        (self.saving.not_before, self.saving.due) = (again, Some(again));
        if self.saving.refused_until.replace(again).is_none() {
            crate::complain(&self.pair.dir.path, format_args!("{}: cannot write meta, and tries again: {error}", self.pair.id));
        }
    }
}
