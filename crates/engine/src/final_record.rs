//! The final records of a process whose keepers are dead: the engine writes them if the lock is free and they are missing.

use crate::facts::{Facts, FolderLook, LocalFacts, has_keeper};
use crate::mutex::lock;
use outlast_core::{Cause, Ending, Incarnation, Outcome, OutputEnd, Phase, ProcessId, Record, StartFailure, Stop, StopWay, Time};
use outlast_store::dir::ProcessDir;
use outlast_store::journal::Journal;
use outlast_store::lock;
use outlast_store::meta::{Ended, Meta, Snapshot, flag};
use outlast_store::spec::SpecFile;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// The result of an attempt to write the final records.
#[derive(Debug)]
pub(crate) enum FinalRecord {
    /// A keeper holds the lock after all.
    Kept,
    /// The command was provably never started: it may be started now.
    NotStarted,
    /// Records were written, or were there already: look again.
    Written,
    /// The result is known, and the disk refuses its records. They are in `seen`, which counts although the folder does not have them.
    Refused {
        /// The contents of the folder, with those records added.
        seen: Box<FolderLook>,
        /// The disk's error.
        error: io::Error,
    },
}

/// Stops of orphans whose record the disk refused. They are known while the engine runs.
#[derive(Debug, Default)]
pub(crate) struct UnsavedStops(Mutex<HashMap<ProcessId, (Time, Stop)>>);

impl UnsavedStops {
    /// The latest stop of a process.
    pub(crate) fn of(&self, id: ProcessId) -> Option<(Time, Stop)> {
        lock(&self.0).get(&id).cloned()
    }

    pub(crate) fn keep(&self, id: ProcessId, at: Time, stop: Stop) {
        lock(&self.0).insert(id, (at, stop));
    }
}

/// Finds out how a process without keepers ended, and records it. Blocks for as long as the disk takes.
///
/// `unsaved` is a stop that was carried out although the disk refused its record.
pub(crate) fn write(dir: &ProcessDir, facts: LocalFacts<'_>, unsaved: Option<(Time, Stop)>, now: Time) -> io::Result<FinalRecord> {
    if !dir.meta().try_exists()? {
        if facts.phase == Phase::Accepted {
            return Ok(FinalRecord::NotStarted);
        }
        // A power cut or a person removed `meta`. A new one carries the lock while the final record is written.
        if let Some(meta) = Meta::hold(dir, facts.id(), now)? {
            meta.release()?;
        }
    }
    let Some(_lock) = lock_dead(dir)? else { return Ok(FinalRecord::Kept) };
    let retired = retire(dir);
    // Under the lock: no other program writes any more, so this look is final.
    let mut seen = FolderLook::look(dir, facts.cursor);
    let facts = facts.with(&seen);
    let meta = seen.meta.as_ref();
    let records = match &facts.phase {
        Phase::Done { .. } | Phase::Lost { .. } => Vec::new(),
        Phase::Draining { .. } => vec![Record::OutputClosed { at: now, output: output(dir, &facts) }],
        Phase::Orphaned { of } if outlast_store::os::is_alive(of) => Vec::new(),
        Phase::Orphaned { .. } => ended_orphan(dir, &facts, stops(dir).into_iter().chain(unsaved).collect(), now),
        Phase::Running { of, .. } | Phase::Stopping { of, .. } if outlast_store::os::is_alive(of) && !is_anothers(of.pid, dir) => {
            vec![Record::Orphaned { at: now, of: *of }]
        }
        Phase::Running { .. } | Phase::Stopping { .. } => match meta.and_then(|m| m.published.clone()) {
            // The holder had seen the end. It is unknown how much output the keepers had not read yet, and `poll` says so.
            Some(Ended { ending, log_end, .. }) if ending.outcome != Outcome::Unknown => {
                vec![Record::Ended { ending, log_end }, Record::OutputClosed { at: now, output: output(dir, &facts) }]
            }
            Some(_) | None => vec![Record::Lost { at: now }],
        },
        Phase::Accepted
            if meta.map_or_else(|| (seen.damage.is_none() || is_unwritten(dir)) && can_start(dir), |m| m.cmd == 0 && !m.begun) =>
        {
            // Another keeper may start the command only if the file says that it was not started.
            retired?;
            return Ok(FinalRecord::NotStarted);
        }
        Phase::Accepted => match meta.and_then(|m| Some((forked(m, facts.id())?, m.started_at.unwrap_or(m.created_at)))) {
            Some((of, _)) if is_anothers(of.pid, dir) => vec![Record::Lost { at: now }],
            // It was forked and may have begun to run; no keeper lived to record that.
            Some((of, at)) => vec![Record::Started { at, of }, Record::Orphaned { at: now, of }],
            None => vec![Record::Lost { at: now }],
        },
    };
    // A process that comes this far is never started again, so its secrets are removed.
    scrub(dir, facts.id());
    if records.is_empty() {
        return Ok(FinalRecord::Written);
    }
    match Journal::open_for_append(dir).and_then(|mut journal| append(&mut journal, &records)) {
        Ok(()) => Ok(FinalRecord::Written),
        Err(error) => {
            seen.journal.extend(records.into_iter().map(|record| (seen.cursor, record)));
            Ok(FinalRecord::Refused { seen: Box::new(seen), error })
        }
    }
}

/// The lock on the `meta` of dead keepers. None if a keeper lives, or another part of the engine holds the lock.
fn lock_dead(dir: &ProcessDir) -> io::Result<Option<File>> {
    // A lock needs no write access: the home may be read-only by now.
    let meta = File::open(dir.meta())?;
    Ok(lock::try_hold(&meta)?.then_some(meta))
}

fn retire(dir: &ProcessDir) -> io::Result<()> {
    outlast_store::meta::retire(dir, &File::options().read(true).write(true).open(dir.meta())?)
}

/// Whether the file of an ended process is complete. If its keepers are dead, this completes it first.
pub(crate) fn is_retired(dir: &ProcessDir) -> io::Result<bool> {
    let kept = lock_dead(dir)?.is_none();
    if !kept {
        retire(dir)?;
    }
    Ok(!kept)
}

/// Whether keepers in another home have a folder of the same process. Then this home is a copy, and must not touch what the original runs.
fn is_anothers(pid: u32, dir: &ProcessDir) -> bool {
    let Some(line) = outlast_store::os::parent_of(pid).and_then(|keeper| std::fs::read(format!("/proc/{keeper}/cmdline")).ok()) else {
        return false;
    };
    line.split(|&b| b == 0).map(|argument| Path::new(OsStr::from_bytes(argument))).any(|folder| {
        let names_it = folder.file_name() == dir.path.file_name();
        // This folder's lock is ours, so a living keeper with its path keeps a folder that was moved away.
        names_it && (folder == dir.path || has_keeper(&ProcessDir { path: folder.to_owned() }))
    })
}

/// Records that a process was never started. `false` if a keeper has its lock.
pub(crate) fn never_started(dir: &ProcessDir, id: ProcessId, failure: StartFailure, now: Time) -> io::Result<bool> {
    let Some(meta) = Meta::hold(dir, id, now)? else { return Ok(false) };
    let ending = Ending { outcome: Outcome::NeverStarted(failure), cause: Cause::OfItsOwn, at: now, oom: false };
    let live = meta.live();
    live.closed_at.store(now.micros(), SeqCst);
    live.set(flag::RECORDED | flag::OUTPUT_CLOSED | flag::DONE);
    meta.record_ended(&ending, 0, 0)?;
    meta.release()?;
    scrub(dir, id);
    Ok(true)
}

/// The facts of a process that never started, if the disk refuses to record them.
pub(crate) fn seen_never_started(dir: &ProcessDir, cursor: u64, failure: StartFailure, now: Time) -> FolderLook {
    let ending = Ending { outcome: Outcome::NeverStarted(failure), cause: Cause::OfItsOwn, at: now, oom: false };
    let output = OutputEnd { end: 0, left_running: 0 };
    let mut seen = FolderLook::look(dir, cursor);
    let records = [Record::Ended { ending, log_end: 0 }, Record::OutputClosed { at: now, output }];
    seen.journal.extend(records.map(|record| (seen.cursor, record)));
    seen
}

/// Removes the values that only the start needed. If they cannot be removed, they stay in a file that no other user can read.
fn scrub(dir: &ProcessDir, id: ProcessId) {
    if let Err(error) = SpecFile::scrub(dir) {
        tracing::warn!(%id, %error, "cannot scrub");
    }
}

/// Records that an orphan was asked to end, before it is signalled.
pub(crate) fn stop_asked(dir: &ProcessDir, stop: &Stop, now: Time) -> io::Result<()> {
    record(dir, &[Record::StopAsked { at: now, stop: stop.clone() }])
}

/// Records that a client asked to stop what an ended process left running. Skipped while keepers that are about to leave hold the journal.
pub(crate) fn stop_of_left_asked(dir: &ProcessDir, stop: &Stop, now: Time) -> io::Result<()> {
    match lock_dead(dir)? {
        Some(_lock) => append(&mut Journal::open_for_append(dir)?, &[Record::StopAsked { at: now, stop: stop.clone() }]),
        None => Ok(()),
    }
}

/// Writes records about a process that has no keeper and will have none. Waits for another writer, which can only be a task of this engine.
pub(crate) fn record(dir: &ProcessDir, records: &[Record]) -> io::Result<()> {
    let meta = File::open(dir.meta())?;
    lock::hold(&meta)?;
    append(&mut Journal::open_for_append(dir)?, records)
}

/// Whether a keeper was killed before it wrote its identity, which it does before it starts anything. Unknown after a power cut.
fn is_unwritten(dir: &ProcessDir) -> bool {
    let Ok(found) = std::fs::metadata(dir.meta()) else { return true };
    let made = found.modified().ok().and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    let made = made.map_or(Time::from_micros(0), |t| Time::from_micros(t.as_micros() as i64));
    found.len() < outlast_store::meta::LEN as u64 && made > booted_at(outlast_store::os::now())
}

/// Whether the request still has the values that a start needs. A start removes them, so without them there was a start.
fn can_start(dir: &ProcessDir) -> bool {
    matches!(SpecFile::read_launch(dir), Ok(Some(_)))
}

/// When the machine was started, by the clock that shows `now`.
pub(crate) fn booted_at(now: Time) -> Time {
    let up = outlast_store::os::boottime_ns() / 1_000;
    Time::from_micros(now.micros() - up as i64)
}

fn append(journal: &mut Journal, records: &[Record]) -> io::Result<()> {
    for record in records {
        journal.append(record)?;
    }
    if records.is_empty() { Ok(()) } else { journal.sync() }
}

fn output(dir: &ProcessDir, facts: &Facts) -> OutputEnd {
    // No keeper counted the left-over processes. Those that carry the process id can be found without that.
    let marked = crate::os::pids_of_environment(facts.id()).filter_map(|pid| outlast_store::os::incarnation_of(pid).ok());
    let is_left = |life: &Incarnation| {
        outlast_store::programs::program_of(life.pid).is_none()
            && !crate::keepers::is_of_others(life.pid, facts.id(), dir)
            && outlast_store::os::runs_on(life)
    };
    OutputEnd { end: facts.log_end, left_running: u32::try_from(marked.filter(is_left).count()).unwrap_or(u32::MAX) }
}

/// The rest of the last stop of an orphan, if it was to leave nothing alive. The engine that carried it out may have died before it was
/// done. Time that has passed counts towards the grace period, so that one engine after another cannot extend it.
pub(crate) fn unfinished(dir: &ProcessDir, now: Time) -> Option<StopWay> {
    let (at, stop) = stops(dir).into_iter().rfind(|(_, stop)| is_hard(stop))?;
    let passed = Duration::from_micros(u64::try_from(now.micros() - at.micros()).unwrap_or(0));
    Some(match stop.way {
        StopWay::Escalate { grace } => StopWay::Escalate { grace: grace.saturating_sub(passed) },
        StopWay::TermOnly => StopWay::TermOnly,
    })
}

/// The incarnation as which a process was started, if it was.
pub(crate) fn started_as(seen: &FolderLook) -> Option<Incarnation> {
    let started = |(_, record): &(u64, Record)| match record {
        Record::Started { of, .. } => Some(*of),
        _ => None,
    };
    seen.meta.as_ref().and_then(Snapshot::command).or_else(|| seen.journal.iter().find_map(started))
}

/// The recorded stops of an orphan, each with its time.
fn stops(dir: &ProcessDir) -> Vec<(Time, Stop)> {
    let asked = |(_, record)| match record {
        Record::StopAsked { at, stop } => Some((at, stop)),
        _ => None,
    };
    FolderLook::look(dir, 0).journal.into_iter().filter_map(asked).collect()
}

fn is_hard(stop: &Stop) -> bool {
    match stop.way {
        StopWay::Escalate { .. } => true,
        StopWay::TermOnly => false,
    }
}

fn ended_orphan(dir: &ProcessDir, facts: &Facts, stops: Vec<(Time, Stop)>, now: Time) -> Vec<Record> {
    // It may have survived a mere TERM.
    match stops.into_iter().rfind(|(_, stop)| is_hard(stop)) {
        // The engine ended it, and its status could not be seen.
        Some((_, stop)) => vec![
            Record::Ended { ending: Ending { outcome: Outcome::Unknown, cause: stop.cause, at: now, oom: false }, log_end: facts.log_end },
            Record::OutputClosed { at: now, output: output(dir, facts) },
        ],
        None => vec![Record::Lost { at: now }],
    }
}

/// The incarnation of a command that was forked, and whose start no keeper recorded, if it runs and is ours.
fn forked(meta: &Snapshot, id: ProcessId) -> Option<Incarnation> {
    let is_it = |of: &Incarnation| {
        // The pid alone proves nothing. The environment does.
        of.boot == meta.boot && outlast_store::os::is_alive(of) && crate::os::pid_of_environment(of.pid, id)
    };
    if meta.begun {
        // Every process that knew the pid is dead. The command is the oldest process that has the id in its environment.
        return crate::os::pids_of_environment(id)
            .filter_map(|pid| outlast_store::os::incarnation_of(pid).ok())
            .filter(is_it)
            .min_by_key(|of| of.start_ticks);
    }
    meta.command().or_else(|| outlast_store::os::incarnation_of(meta.cmd).ok()).filter(is_it)
}
