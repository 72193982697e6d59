//! Recovers the facts from rows and folders when an engine starts.

use crate::config::Clock;
use crate::facts::{Facts, FolderLook, has_keeper};
use crate::final_record::{self, FinalRecord};
use crate::index::{Index, Opened};
use crate::intake::MissedChange;
use outlast_core::{OutputEnd, Phase, ProcessId, Time};
use outlast_store::dir::{Home, ProcessDir};
use outlast_store::spec::SpecFile;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long recovery waits for keepers that have nothing to do to leave.
const LEAVING: Duration = Duration::from_secs(1);

/// The result of recovery.
pub(crate) struct Recovered {
    pub(crate) opened: Opened,
    /// Every process, and whether its folder was read just now.
    pub(crate) processes: Vec<(Facts, bool)>,
    /// The changes since the last engine that may lead to notices.
    pub(crate) missed: Vec<MissedChange>,
    /// What limits this engine, each in a sentence.
    pub(crate) degraded: Vec<String>,
}

/// The change, if it may lead to a notice.
fn missed_change(before: Facts, after: &Facts, seen: FolderLook, maybe_told: bool) -> Option<MissedChange> {
    let tells = !after.kept.spec.tell.is_nothing();
    tells.then(|| MissedChange { before, after: after.clone(), seen, maybe_told })
}

/// Reads the index and the folders of processes that were not finished. Blocks for as long as the disk takes.
pub(crate) fn recover(home: &Home, clock: &Clock) -> Result<Recovered, String> {
    let mut degraded = Vec::new();
    if let Err(error) = home.sweep() {
        tracing::warn!(%error, "cannot finish a removal");
    }
    let mut opened = Index::open(&home.index()).map_err(|e| e.to_string())?;
    let ids = home.ids().map_err(|e| format!("cannot list {}: {e}", home.processes().display()))?;
    let lost = "posted notices, acknowledgements and barriers that it held are gone, and ends may be delivered again, marked as repeats";
    match &opened.set_aside {
        Some(aside) => {
            degraded.push(format!("the index was damaged and was rebuilt from the folders: {lost}; the damaged one is {}", aside.display()))
        }
        None if opened.fresh && !ids.is_empty() => degraded.push(format!("the index was gone and was rebuilt from the folders: {lost}")),
        None => {}
    }
    let mut strays: BTreeSet<ProcessId> = ids.into_iter().collect();
    let mut changes = RowChanges::default();
    let (mut known, mut unsure, mut missed) = (Vec::new(), Vec::new(), Vec::new());
    for before in std::mem::take(&mut opened.rows) {
        let (id, is_final) = (before.id(), before.phase.is_final());
        match (strays.remove(&id), is_final) {
            (true, true) => known.push((before, false)),
            (true, false) => unsure.push(before),
            // Its removal was interrupted after the folder was removed.
            (false, true) => changes.forget.push(id),
            (false, false) => {
                let after = folder_gone(&before, clock.now());
                match missed_change(before, &after, FolderLook::default(), false) {
                    // Its row is written together with its notices.
                    Some(one) => missed.push(one),
                    None => changes.put.push(after.clone()),
                }
                known.push((after, false));
            }
        }
    }
    for (before, seen, after) in look_at(home, unsure, clock.now()) {
        let maybe_told = seen.meta.as_ref().is_some_and(|meta| meta.is_shown_unsaved);
        missed.extend(missed_change(before, &after, seen, maybe_told));
        known.push((after, true));
    }
    let rebuilt = opened.fresh;
    for id in strays {
        match stray(home, id, rebuilt) {
            RowlessFolder::Known(found) => {
                let (before, seen, facts) = *found;
                match missed_change(before, &facts, seen, rebuilt) {
                    Some(one) => missed.push(one),
                    None => changes.put.push(facts.clone()),
                }
                known.push((facts, true));
            }
            RowlessFolder::NeverAccepted => {
                wait_until_left(&home.process(id));
                if let Err(error) = home.process(id).remove() {
                    tracing::warn!(%id, %error, "cannot remove");
                }
            }
            RowlessFolder::Unreadable(why) => degraded.push(format!("a process cannot be listed: {why}")),
        }
    }
    changes.write(&opened.index);
    Ok(Recovered { opened, processes: known, missed, degraded })
}

/// Reads the folders of `rows`, several at a time: a thousand must not take long.
fn look_at(home: &Home, rows: Vec<Facts>, now: Time) -> Vec<(Facts, FolderLook, Facts)> {
    let look = |facts: Facts| {
        let dir = home.process(facts.id());
        outlast_store::points::reach(&format!("recover.look.{}", facts.id()));
        // Asked before the look, so that a free lock means that the look shows the keepers' last records.
        let kept = has_keeper(&dir);
        let mut seen = FolderLook::look(&dir, facts.cursor);
        if let Some(damage) = &seen.damage {
            tracing::error!(id = %facts.id(), damage, "damage");
        }
        let mut after = facts.with(&seen);
        if let (false, Some(_), Some(here)) = (kept, after.phase.alive(), after.local()) {
            // Its keepers are dead. Whether the command lives is checked now, so that no answer says that a dead one runs.
            match final_record::write(&dir, here, None, now) {
                Ok(FinalRecord::Written) => {
                    seen = FolderLook::look(&dir, facts.cursor);
                    after = facts.with(&seen);
                }
                Ok(FinalRecord::Refused { seen: known, error }) => {
                    tracing::error!(id = %facts.id(), %error, "cannot write the final record of a process into its folder");
                    seen = *known;
                    after = facts.with(&seen);
                }
                Ok(FinalRecord::Kept | FinalRecord::NotStarted) => {}
                // Its supervisor tries again.
                Err(error) => tracing::warn!(id = %facts.id(), %error, "cannot write the final record of a process yet"),
            }
        }
        (facts, seen, after)
    };
    // A panic over one folder must not keep the others waiting for an engine.
    let look = |known: Facts| {
        catch_unwind(AssertUnwindSafe(|| look(known.clone()))).unwrap_or_else(|_| {
            tracing::error!(id = %known.id(), "reading the folder of a process panicked: its last known state is shown until it is read again");
            (known.clone(), FolderLook::default(), known)
        })
    };
    let half = rows.len() / 2;
    let mut rows = rows;
    let second = rows.split_off(half);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| second.into_iter().map(look).collect::<Vec<_>>());
        let mut all: Vec<_> = rows.into_iter().map(look).collect();
        // A panic there is a panic here.
        all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        all
    })
}

/// The folder of an unfinished process was removed, so its result is unknown.
fn folder_gone(before: &Facts, now: Time) -> Facts {
    let mut facts = before.clone();
    tracing::error!(id = %facts.id(), "the folder of a process was removed");
    facts.phase = match facts.phase {
        // How it ended is known. The rest is not.
        Phase::Draining { ending } => Phase::Done { ending, output: OutputEnd { end: facts.log_end, left_running: 0 } },
        phase => Phase::Lost { last_seen: phase.alive(), at: now },
    };
    facts
}

enum RowlessFolder {
    Known(Box<(Facts, FolderLook, Facts)>),
    /// The engine was killed before the request was on disk for good, and no client was answered.
    NeverAccepted,
    Unreadable(String),
}

/// A folder without a row in the index.
fn stray(home: &Home, id: ProcessId, rebuilt: bool) -> RowlessFolder {
    let dir = home.process(id);
    let kept_by = has_keeper(&dir);
    let seen = FolderLook::look(&dir, 0);
    let kept = match SpecFile::read_kept(&dir) {
        Ok(kept) if kept.id == id => kept,
        Ok(kept) => return RowlessFolder::Unreadable(format!("{} holds the request of {}", dir.path.display(), kept.id)),
        Err(error) if !kept_by && !rebuilt && !has_begun(&dir, &seen) => {
            // A request that was cut off while it was written. Nothing was started.
            tracing::warn!(%id, %error, "a request that was cut short");
            return RowlessFolder::NeverAccepted;
        }
        Err(error) => return RowlessFolder::Unreadable(error.to_string()),
    };
    let before = Facts::accepted(kept);
    let facts = before.with(&seen);
    // A keeper that was not told to start its command has not, and is leaving.
    let begun = facts.phase != Phase::Accepted || seen.meta.as_ref().is_some_and(|m| m.cmd != 0 || m.begun);
    // With the index gone, it is unknown whether it was accepted; then nothing accepted is forgotten.
    if begun || rebuilt { RowlessFolder::Known(Box::new((before, seen, facts))) } else { RowlessFolder::NeverAccepted }
}

/// Whether the folder has anything that is written only once a command was started. After a power cut `meta` may be incomplete.
fn has_begun(dir: &ProcessDir, seen: &FolderLook) -> bool {
    let said = dir.journal().exists() || dir.segments().map_or(true, |some| !some.is_empty());
    said || seen.meta.as_ref().is_some_and(|m| m.cmd != 0 || m.begun)
}

/// Waits until keepers that were never told to start have left, so that they do not remove files of the next ones.
fn wait_until_left(dir: &ProcessDir) {
    let until = Instant::now() + LEAVING;
    while has_keeper(dir) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[derive(Default)]
struct RowChanges {
    put: Vec<Facts>,
    forget: Vec<ProcessId>,
}

impl RowChanges {
    /// Queues the changes for the index's writer. If they are lost, the next start finds the same.
    fn write(self, index: &Index) {
        if self.put.is_empty() && self.forget.is_empty() {
            return;
        }
        tracing::info!(put = self.put.len(), forget = self.forget.len(), "the index follows the folders");
        index.follow(self.put, self.forget);
    }
}

#[cfg(test)]
mod tests;
