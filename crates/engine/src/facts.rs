//! The facts about one process, and how they are read from its folder.

pub(crate) use crate::retain::EndSeen;
use outlast_core::{EnvironmentName, Phase, ProcessId, Record, Time, apply};
use outlast_store::dir::ProcessDir;
use outlast_store::meta::{MetaError, Snapshot};
use outlast_store::spec::Kept;
use outlast_store::{journal, lock};
use std::sync::Arc;

/// The facts about one process at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    /// The kept parts of the request.
    pub(crate) kept: Arc<Kept>,
    /// Where it stands.
    pub(crate) phase: Phase,
    /// When it began to run.
    pub(crate) started_at: Option<Time>,
    /// The known length of its log.
    pub(crate) log_end: u64,
    /// The byte up to which its journal was read.
    pub(crate) cursor: u64,
    /// Its disk use in bytes, once its facts are final.
    pub(crate) bytes: u64,
    /// Whether its owner has seen its end.
    pub(crate) consumed: EndSeen,
    /// Whether another program started it.
    pub(crate) detached: bool,
    /// Whether its keeper lives and does not answer.
    pub(crate) unreachable: bool,
}

impl Facts {
    /// The facts of a request that was just accepted.
    pub(crate) fn accepted(kept: impl Into<Arc<Kept>>) -> Self {
        Self {
            kept: kept.into(),
            phase: Phase::Accepted,
            started_at: None,
            log_end: 0,
            cursor: 0,
            bytes: 0,
            consumed: EndSeen::Not,
            detached: false,
            unreachable: false,
        }
    }

    pub(crate) fn id(&self) -> ProcessId {
        self.kept.id
    }

    /// Where the process is.
    pub(crate) fn place(&self) -> Whereabouts<'_> {
        match &self.kept.spec.on {
            None => Whereabouts::Here(LocalFacts(self)),
            Some(on) => Whereabouts::Sandbox(on),
        }
    }

    /// These facts, if the process is on this machine.
    pub(crate) fn local(&self) -> Option<LocalFacts<'_>> {
        match self.place() {
            Whereabouts::Here(facts) => Some(facts),
            Whereabouts::Sandbox(_) => None,
        }
    }

    /// When it ended, or was found gone.
    pub(crate) fn ended_at(&self) -> Option<Time> {
        match &self.phase {
            Phase::Lost { at, .. } => Some(*at),
            phase => phase.ending().map(|e| e.at),
        }
    }

    /// When it began to run, or when it was accepted if that is not known.
    pub(crate) fn since(&self) -> Time {
        self.started_at.unwrap_or(self.kept.accepted_at)
    }

    /// Whether the command is over.
    pub(crate) fn is_over(&self) -> bool {
        self.phase.status() == outlast_core::Status::Exited
    }

    /// These facts, updated by a look into the folder.
    pub(crate) fn with(&self, seen: &FolderLook) -> Self {
        let mut next = self.clone();
        let from_meta = seen.meta.iter().flat_map(Snapshot::records);
        for record in from_meta.chain(seen.journal.iter().map(|(_, record)| record.clone())) {
            match &record {
                Record::Adopted { .. } => next.detached = true,
                Record::Started { at, .. } => next.started_at = Some(*at),
                _ => {}
            }
            match apply(next.phase.clone(), record) {
                Ok(phase) => next.phase = phase,
                // The first recorded end counts.
                Err(error) => tracing::debug!(id = %self.id(), %error, "a record that cannot follow"),
            }
        }
        if let Some(meta) = &seen.meta {
            next.log_end = self.log_end.max(meta.log_end());
        }
        // A look may be older than these facts; no value goes back.
        next.cursor = self.cursor.max(seen.cursor);
        next.bytes = seen.bytes.unwrap_or(self.bytes);
        next
    }
}

/// Where a process is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Whereabouts<'a> {
    /// On this machine, and these are its facts.
    Here(LocalFacts<'a>),
    /// In this environment. Its pids mean nothing here.
    Sandbox(&'a EnvironmentName),
}

/// The facts of a process of this machine. What looks up, signals or stops one of its pids takes these, so that the pid of a process in a
/// sandbox is never taken for one of this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LocalFacts<'a>(&'a Facts);

impl std::ops::Deref for LocalFacts<'_> {
    type Target = Facts;

    fn deref(&self) -> &Facts {
        self.0
    }
}

/// The content of a folder, as one look found it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FolderLook {
    /// `meta`, if it is there and whole.
    pub(crate) meta: Option<Snapshot>,
    /// Why `meta` cannot be read.
    pub(crate) damage: Option<String>,
    /// The journal's records from the cursor on, each with the byte at which it begins.
    pub(crate) journal: Vec<(u64, Record)>,
    /// The byte after the last whole record.
    pub(crate) cursor: u64,
    /// Disk use, if nothing more will be written.
    pub(crate) bytes: Option<u64>,
}

impl FolderLook {
    /// Reads the folder. Blocks for as long as the disk takes.
    pub(crate) fn look(dir: &ProcessDir, cursor: u64) -> Self {
        let (meta, mut damage) = match Snapshot::read(dir) {
            Ok(meta) => {
                let damage = meta.damage.map(|what| format!("meta file {} is damaged: {what} cannot be read", dir.meta().display()));
                (Some(meta), damage)
            }
            Err(MetaError::Missing { .. }) => (None, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let mut seen = Self { cursor, ..Self::default() };
        loop {
            match journal::read_from(&dir.journal(), seen.cursor) {
                Ok(read) => {
                    seen.journal.extend(read.records);
                    seen.cursor = read.cursor;
                    damage = damage.or_else(|| read.damage.map(|d| d.to_string()));
                    if !read.more {
                        break;
                    }
                }
                Err(error) => {
                    damage = Some(format!("cannot read {}: {error}", dir.journal().display()));
                    break;
                }
            }
        }
        // Most processes have no journal. The last records of one may be final.
        let over = !seen.journal.is_empty() || meta.as_ref().is_some_and(|m| m.ended.is_some());
        seen.bytes = over.then(|| dir.disk_bytes().ok()).flatten();
        Self { meta, damage, ..seen }
    }
}

/// Whether a keeper supervises the process. If this is asked *before* [`FolderLook::look`] and the lock is free, the look shows the last
/// records of the keepers.
pub(crate) fn has_keeper(dir: &ProcessDir) -> bool {
    lock::is_held(&dir.meta()).unwrap_or_else(|error| {
        // If the lock cannot be checked, the keeper must not be taken for dead.
        tracing::warn!(path = %dir.path.display(), %error, "cannot ask for the lock");
        true
    })
}
