//! What became of a process whose keepers are dead. No engine looks after a sandbox's home, so this is written here, under the lock.

use outlast_core::{Cause, Ending, Incarnation, Outcome, OutputEnd, Phase, ProcessId, Record, StartFailure, Time, apply};
use outlast_store::dir::ProcessDir;
use outlast_store::journal::{self, Journal};
use outlast_store::meta::{Ended, Meta, MetaError, Snapshot, flag, retire};
use outlast_store::spec::SpecFile;
use outlast_store::{lock, os};
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::SeqCst;

/// What is to be done about a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// Keepers look after it.
    Kept,
    /// It was never started, and has no keepers.
    NotStarted,
    /// The command runs without keepers.
    Orphan(Incarnation),
    /// Nothing more will be written.
    Over,
}

/// Where a process stands, by its `meta` and its journal.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) phase: Phase,
    meta: Option<Snapshot>,
    log_end: u64,
}

impl Standing {
    pub(super) fn read(dir: &ProcessDir) -> io::Result<Self> {
        let meta = match Snapshot::read(dir) {
            Ok(meta) => Some(meta),
            Err(MetaError::Missing { .. }) => None,
            Err(error) => return Err(io::Error::other(error)),
        };
        let mut records = meta.as_ref().map(Snapshot::records).unwrap_or_default();
        let mut cursor = 0;
        loop {
            let read = journal::read_from(&dir.journal(), cursor)?;
            records.extend(read.records.into_iter().map(|(_, record)| record));
            cursor = read.cursor;
            if !read.more {
                break;
            }
        }
        // A record that cannot follow changes nothing: the first recorded end counts.
        let phase = records.into_iter().fold(Phase::Accepted, |phase, record| apply(phase.clone(), record).unwrap_or(phase));
        let log_end = meta.as_ref().map_or(0, Snapshot::log_end);
        Ok(Self { phase, meta, log_end })
    }

    fn is_unstarted(&self) -> bool {
        self.meta.as_ref().is_none_or(|meta| meta.cmd == 0 && !meta.begun)
    }
}

/// Finds out what became of a process, and writes the records that no keeper can write any more.
pub(super) fn settle(dir: &ProcessDir, now: Time) -> io::Result<Settled> {
    let meta = match File::options().read(true).write(true).open(dir.meta()) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Settled::NotStarted),
        Err(e) => return Err(e),
    };
    if !lock::try_hold(&meta)? {
        return Ok(Settled::Kept);
    }
    retire(dir, &meta)?;
    let standing = Standing::read(dir)?;
    let output = || OutputEnd { end: standing.log_end, left_running: 0 };
    let (records, settled) = match &standing.phase {
        Phase::Done { .. } | Phase::Lost { .. } => (Vec::new(), Settled::Over),
        Phase::Draining { .. } => (vec![Record::OutputClosed { at: now, output: output() }], Settled::Over),
        Phase::Orphaned { of } if os::is_alive(of) => (Vec::new(), Settled::Orphan(*of)),
        Phase::Orphaned { .. } => (vec![Record::Lost { at: now }], Settled::Over),
        Phase::Running { of, .. } | Phase::Stopping { of, .. } if os::is_alive(of) => {
            (vec![Record::Orphaned { at: now, of: *of }], Settled::Orphan(*of))
        }
        Phase::Running { .. } | Phase::Stopping { .. } => match standing.meta.as_ref().and_then(|meta| meta.published.clone()) {
            Some(Ended { ending, log_end, .. }) if ending.outcome != Outcome::Unknown => {
                (vec![Record::Ended { ending, log_end }, Record::OutputClosed { at: now, output: output() }], Settled::Over)
            }
            Some(_) | None => (vec![Record::Lost { at: now }], Settled::Over),
        },
        Phase::Accepted if standing.is_unstarted() => return Ok(Settled::NotStarted),
        // It was cloned, and no keeper lived to record that it was executed.
        Phase::Accepted => match standing.meta.as_ref().and_then(|meta| Some((meta.command().filter(os::is_alive)?, meta.created_at))) {
            Some((of, at)) => (vec![Record::Started { at, of }, Record::Orphaned { at: now, of }], Settled::Orphan(of)),
            None => (vec![Record::Lost { at: now }], Settled::Over),
        },
    };
    // It is never started again, so its secrets are removed. A damaged request has none that could be used.
    let _damaged = SpecFile::scrub(dir);
    if !records.is_empty() {
        let mut journal = Journal::open_for_append(dir)?;
        records.iter().try_for_each(|record| journal.append(record).map(|_| ()))?;
        journal.sync()?;
    }
    Ok(settled)
}

/// Records that a process was never started. False if a keeper has its lock.
pub(super) fn never_started(dir: &ProcessDir, id: ProcessId, failure: StartFailure, now: Time) -> io::Result<bool> {
    let Some(meta) = Meta::hold(dir, id, now)? else { return Ok(false) };
    let ending = Ending { outcome: Outcome::NeverStarted(failure), cause: Cause::OfItsOwn, at: now, oom: false };
    meta.live().closed_at.store(now.micros(), SeqCst);
    meta.live().set(flag::RECORDED | flag::OUTPUT_CLOSED | flag::DONE);
    meta.record_ended(&ending, 0, 0)?;
    meta.release()?;
    let _damaged = SpecFile::scrub(dir);
    Ok(true)
}
