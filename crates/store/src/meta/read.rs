//! The readers' side of `meta`: one read of the file, parsed.

use super::bytes::{BEGUN, pid_at, read_settled, u32_at, u64_at};
use super::v1::{EndedV1, StopV1, unseal};
use super::{
    Commit, ENDED_AT, ENDED_LEN, GAPS_AT, GAPS_LEN, Image, LEN, LIVE_AT, Live, MAGIC, MAX_LEFT_RECORDED, NAMED_FD, STOP_AT, STOP_LEN,
    VERSION, Waiting, Watched, flag,
};
use crate::dir::ProcessDir;
use crate::lines::LineMap;
use crate::live::WatchSlot;
use crate::segments::Gap;
use crate::spec::SpecFile;
use outlast_core::{Cause, Ending, GapWhy, Incarnation, Outcome, OutputEnd, ProcessId, Record, StartFailure, Stop, Time};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The record of the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How, why and when the command ended.
    pub ending: Ending,
    /// The length of the output at that moment.
    pub log_end: u64,
    /// The newlines in it.
    pub lines: u64,
}

/// Why `meta` could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MetaError {
    /// It does not exist: no keeper has created it.
    #[error("there is no meta file {path}")]
    Missing {
        /// Its path.
        path: PathBuf,
    },
    /// It could not be read.
    #[error("cannot read meta file {path}: {error}")]
    Io {
        /// Its path.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Its contents are not valid.
    #[error("meta file {path} is damaged at byte {at}: {what}")]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// The offset of the damage.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// The contents of `meta` at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The process id.
    pub id: ProcessId,
    /// The boot it was made in.
    pub boot: u128,
    /// When it was made.
    pub created_at: Time,
    /// How far the log is committed.
    pub commit: Commit,
    /// The command's pid; 0 if it was never started or its pid is unknown.
    pub cmd: u32,
    /// Whether a start was begun, and every process that knew the pid died before the file had it.
    pub begun: bool,
    /// When that pid started, in ticks; 0 if that was not read yet.
    pub cmd_ticks: u64,
    /// When the command started.
    pub started_at: Option<Time>,
    /// The pump's pid.
    pub pump: u32,
    /// The holder's pid.
    pub holder: u32,
    /// Bits of [`flag`].
    pub flags: u32,
    /// The errno of a start that failed.
    pub exec_errno: i32,
    /// When the output was found to be closed, and what was known then.
    pub closed: Option<(Time, OutputEnd)>,
    /// The recorded descendants that were left running when the output was found to be closed. `closed` has their number.
    pub left: Vec<Incarnation>,
    /// How often a keeper was replaced: pumps, holders.
    pub deaths: (u32, u32),
    /// How many bytes of input were written, as callers count.
    pub input: u64,
    /// How many processes of the tree were observed to die by a stop.
    pub stop_dead: u32,
    /// Rows and columns.
    pub size: (u16, u16),
    /// Ranges of output that were lost to a full disk.
    pub gaps: Vec<Gap>,
    /// How far the output was searched, and which matches are not in the journal. On a full disk, this is their only record.
    pub watched: Watched,
    /// The end as the holder observed it, before the output was read to its end and the end was recorded.
    pub published: Option<Ended>,
    /// What an engine has stored: see [`noted`](super::noted).
    pub noted: u64,
    /// Whether an engine may have shown changes of the process that are not recorded.
    pub is_shown_unsaved: bool,
    /// The latest stop.
    pub stop: Option<(Stop, Time)>,
    /// The record of the end.
    pub ended: Option<Ended>,
    /// A damaged block that was ignored.
    pub damage: Option<&'static str>,
}

impl Snapshot {
    /// Reads the `meta` of a process.
    pub fn read(dir: &ProcessDir) -> Result<Self, MetaError> {
        Self::read_with_bytes(dir).map(|(snapshot, _)| snapshot)
    }

    /// Reads the `meta` of a process, and returns its bytes, too.
    pub fn read_with_bytes(dir: &ProcessDir) -> Result<(Self, [u8; LEN]), MetaError> {
        let path = dir.meta();
        let io = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => MetaError::Missing { path: path.clone() },
            _ => MetaError::Io { path: path.clone(), error },
        };
        let parsed = |bytes: &[u8]| Self::parse(bytes).map_err(|(at, what)| MetaError::Damaged { path: path.clone(), at, what });
        let file = std::fs::File::open(&path).map_err(io)?;
        let take = || {
            let len = file.metadata().map_err(io)?.len();
            let bytes = read_settled(&file).map_err(io)?;
            if len == LEN as u64 && bytes == [0; LEN] {
                // The space is allocated, and no keeper has written to it.
                return Err(MetaError::Missing { path: path.clone() });
            }
            Ok((parsed(&bytes[..LEN.min(len as usize)])?, bytes))
        };
        let (first, bytes) = take()?;
        if u32_at(&bytes, NAMED_FD) == 0 {
            return Ok((first, bytes));
        }
        if let Some(image) = Image::of(dir, &bytes) {
            let bytes = image.read().map_err(io)?;
            return Ok((parsed(&bytes)?, bytes));
        }
        // Keepers that exited in the meantime wrote everything to the file before they released the lock.
        let is_kept = crate::lock::is_held(&path).unwrap_or(true);
        let (last, bytes) = take()?;
        if is_kept || u32_at(&bytes, NAMED_FD) == 0 {
            return Ok((last, bytes));
        }
        // Every process with the live copy is dead. Bytes in the log after the length in the file are output, in order.
        Ok((Self { commit: found_commit(dir, last.commit), ..last }, bytes))
    }

    /// Stores what an engine has stored of a process. The keepers read it in the memory they share; no other field changes.
    pub fn note(dir: &ProcessDir, noted: u64) -> io::Result<()> {
        let file = std::fs::OpenOptions::new().read(true).open(dir.meta())?;
        match Image::of(dir, &read_settled(&file)?) {
            Some(image) => image.write_at(&noted.to_le_bytes(), LIVE_AT + offset_of!(Live, noted)),
            None => write_word(dir, offset_of!(Live, noted), noted),
        }
    }

    /// Stores whether an engine shows changes of a process that could not be saved. The file is written, too, if possible: only it
    /// is left when engine and keepers are dead.
    pub fn note_shown_unsaved(dir: &ProcessDir, is_shown: bool) -> io::Result<()> {
        let field = offset_of!(Live, shown_unsaved);
        let file = std::fs::OpenOptions::new().read(true).open(dir.meta())?;
        if let Some(image) = Image::of(dir, &read_settled(&file)?) {
            image.write_at(&u64::from(is_shown).to_le_bytes(), LIVE_AT + field)?;
        }
        write_word(dir, field, u64::from(is_shown))
    }

    /// Parses the bytes of a `meta`.
    pub fn parse(bytes: &[u8]) -> Result<Self, (usize, &'static str)> {
        if bytes.len() < LEN {
            return Err((bytes.len(), "it is cut short"));
        }
        if bytes[..8] != MAGIC {
            return Err((0, "it does not begin as one"));
        }
        if u32_at(bytes, 48) != crc32fast::hash(&bytes[..48]) {
            return Err((0, "the identity does not match its checksum"));
        }
        if u32_at(bytes, 8) != VERSION {
            return Err((8, "it was written by a newer version"));
        }
        let l = LIVE_AT;
        let word = u64_at(bytes, l + offset_of!(Live, commit));
        let slot = l + offset_of!(Live, slots) + 32 * (word >> 1 & 1) as usize;
        let commit = Commit {
            base: u64_at(bytes, slot),
            lines: u64_at(bytes, slot + 8),
            answered: u64_at(bytes, slot + 16),
            remain: u64_at(bytes, slot + 24),
        };
        let time = |at: usize| match u64_at(bytes, at) as i64 {
            0 => None,
            t => Some(Time::from_micros(t)),
        };
        let flags = u32_at(bytes, l + offset_of!(Live, flags));
        let left_running = u32_at(bytes, l + offset_of!(Live, left_running));
        let mut damage = None;
        let stop = unseal::<StopV1>(&bytes[STOP_AT..STOP_AT + STOP_LEN]).unwrap_or_else(|()| {
            damage = Some("the record of the stop");
            None
        });
        let ended = unseal::<EndedV1>(&bytes[ENDED_AT..ENDED_AT + ENDED_LEN]).unwrap_or_else(|()| {
            damage = Some("the record of the end");
            None
        });
        let ended = ended.map(|e| Ended { log_end: e.log_end, lines: e.lines, ending: e.into_ending() });
        let stop = stop.map(StopV1::into_core);
        // If the disk refused the record of the end, the end may still be published in the live fields. If the record is damaged,
        // they may be damaged, too.
        let published = if damage.is_none() { unrecorded(bytes, commit, stop.as_ref()) } else { None };
        let ended = ended.or_else(|| published.clone().filter(|_| flags & flag::RECORDED != 0));
        let size = u32_at(bytes, l + offset_of!(Live, size));
        let boot = u128::from_le_bytes(bytes[24..40].try_into().expect("sixteen bytes"));
        Ok(Self {
            id: ProcessId::from_bytes(bytes[16..22].try_into().expect("six bytes")),
            boot,
            created_at: Time::from_micros(u64_at(bytes, 40) as i64),
            commit,
            cmd: pid_at(bytes, l + offset_of!(Live, cmd)).unwrap_or(0),
            begun: u32_at(bytes, l + offset_of!(Live, cmd)) == BEGUN,
            cmd_ticks: u64_at(bytes, l + offset_of!(Live, cmd_ticks)),
            started_at: time(l + offset_of!(Live, started_at)),
            pump: u32_at(bytes, l + offset_of!(Live, pump)),
            holder: u32_at(bytes, l + offset_of!(Live, holder)),
            flags,
            exec_errno: u32_at(bytes, l + offset_of!(Live, exec_errno)) as i32,
            closed: time(l + offset_of!(Live, closed_at))
                .filter(|_| flags & flag::OUTPUT_CLOSED != 0)
                .map(|at| (at, OutputEnd { end: commit.base, left_running })),
            left: left(bytes, boot),
            deaths: (u32_at(bytes, l + offset_of!(Live, pump_deaths)), u32_at(bytes, l + offset_of!(Live, holder_deaths))),
            input: u64_at(bytes, l + offset_of!(Live, in_client)),
            stop_dead: u32_at(bytes, l + offset_of!(Live, stop_dead)),
            size: ((size >> 16) as u16, size as u16),
            gaps: gaps(bytes, u32_at(bytes, l + offset_of!(Live, gaps))),
            watched: watched(bytes),
            published,
            noted: u64_at(bytes, l + offset_of!(Live, noted)),
            is_shown_unsaved: u64_at(bytes, l + offset_of!(Live, shown_unsaved)) != 0,
            stop,
            ended,
            damage,
        })
    }

    /// Whether all `bits` are set.
    pub fn has(&self, bits: u32) -> bool {
        self.flags & bits == bits
    }

    /// The incarnation of the command, if it was started and its start time was read.
    pub fn command(&self) -> Option<Incarnation> {
        (self.cmd != 0 && self.cmd_ticks != 0).then_some(Incarnation { pid: self.cmd, start_ticks: self.cmd_ticks, boot: self.boot })
    }

    /// The length of the log that may be trusted.
    pub fn log_end(&self) -> u64 {
        self.ended.as_ref().map_or(self.commit.base, |e| self.commit.base.max(e.log_end))
    }

    /// The records that follow from it, in the order of the events.
    pub fn records(&self) -> Vec<Record> {
        let mut all = vec![Record::Accepted { at: self.created_at }];
        let never = matches!(&self.ended, Some(Ended { ending: Ending { outcome: Outcome::NeverStarted(StartFailure { .. }), .. }, .. }));
        if let Some(of) = self.command().filter(|_| !never && self.has(flag::STARTED)) {
            all.push(Record::Started { at: self.started_at.unwrap_or(self.created_at), of });
            if let Some((stop, at)) = &self.stop {
                all.push(Record::StopAsked { at: *at, stop: stop.clone() });
            }
        }
        let closed = self.closed.map(|(at, output)| Record::OutputClosed { at, output });
        let ended = self.ended.as_ref().map(|e| Record::Ended { ending: e.ending.clone(), log_end: e.log_end });
        // Descendants left running are counted at the end, so the latest facts about the output replace those from before the end.
        match never {
            true => all.extend(ended.into_iter().chain(closed)),
            false => all.extend(closed.into_iter().chain(ended)),
        }
        all
    }
}

/// Writes one word of the live fields to the file, whose space is allocated.
fn write_word(dir: &ProcessDir, field: usize, word: u64) -> io::Result<()> {
    std::fs::OpenOptions::new().write(true).open(dir.meta())?.write_all_at(&word.to_le_bytes(), (LIVE_AT + field) as u64)
}

/// The end according to the live fields.
fn unrecorded(bytes: &[u8], commit: Commit, stop: Option<&(Stop, Time)>) -> Option<Ended> {
    let l = LIVE_AT;
    let errno = u32_at(bytes, l + offset_of!(Live, exec_errno)) as i32;
    let outcome = match u64_at(bytes, l + offset_of!(Live, status)) {
        0 => return None,
        _ if errno != 0 => Outcome::NeverStarted(StartFailure { errno, what: "start the command".into() }),
        s if s >> 32 != 1 => Outcome::Unknown,
        s => Outcome::of_wait_status(s as u32 as i32),
    };
    let cause = stop.map_or(Cause::OfItsOwn, |(s, _)| s.cause.clone());
    let at = Time::from_micros(u64_at(bytes, l + offset_of!(Live, ended_at)) as i64);
    Some(Ended { ending: Ending { outcome, cause, at, oom: false }, log_end: commit.base, lines: commit.lines })
}

fn watched(bytes: &[u8]) -> Watched {
    let word = u64_at(bytes, LIVE_AT + offset_of!(Live, watch));
    let slot = LIVE_AT + offset_of!(Live, watch_slots) + size_of::<WatchSlot>() * (word & 1) as usize;
    let u64_of = |field: usize| u64_at(bytes, slot + field);
    let waiting = Waiting {
        count: u64_of(offset_of!(WatchSlot, count)),
        offset: u64_of(offset_of!(WatchSlot, offset)),
        pattern: u32_at(bytes, slot + offset_of!(WatchSlot, pattern)),
        at: u64_of(offset_of!(WatchSlot, at)) as i64,
        up: u64_of(offset_of!(WatchSlot, up)),
    };
    Watched {
        upto: u64_of(offset_of!(WatchSlot, upto)),
        counted: u32_at(bytes, slot + offset_of!(WatchSlot, counted)) != 0,
        waiting: (waiting.count > 0).then_some(waiting),
        begun: u64_of(offset_of!(WatchSlot, begun)).checked_sub(1),
    }
}

fn left(bytes: &[u8], boot: u128) -> Vec<Incarnation> {
    let at = |n: usize| {
        let pid = pid_at(bytes, LIVE_AT + offset_of!(Live, left_pids) + 4 * n)?;
        Some(Incarnation { pid, start_ticks: u64_at(bytes, LIVE_AT + offset_of!(Live, left_ticks) + 8 * n), boot })
    };
    (0..MAX_LEFT_RECORDED).filter_map(at).collect()
}

fn gaps(bytes: &[u8], used: u32) -> Vec<Gap> {
    (0..(used as usize).min(GAPS_LEN / 16))
        .map(|n| {
            let at = GAPS_AT + 16 * n;
            Gap { from: u64_at(bytes, at), to: u64_at(bytes, at + 8), why: GapWhy::DiskFull }
        })
        .filter(|g| g.from < g.to)
        .collect()
}

/// The end of the log, by its files or by `known`, whichever is later.
pub(super) fn found_commit(dir: &ProcessDir, known: Commit) -> Commit {
    let (mut base, mut lines) = (known.base, known.lines);
    for first in dir.segments().unwrap_or_default() {
        let Ok(file) = std::fs::File::open(dir.segment(first)) else { continue };
        if base < first {
            // Segments in between were deleted after the file was written. Readers show them as a gap.
            base = first;
            lines = noted_lines(dir, first).unwrap_or(lines);
        }
        let mut piece = [0; 4096];
        while let Ok(n) = file.read_at(&mut piece, base - first)
            && n > 0
        {
            base += n as u64;
            lines += memchr::memchr_iter(b'\n', &piece[..n]).count() as u64;
        }
    }
    Commit { base, lines, ..known }
}

/// The newlines before the segment that begins at `first`, from the line index.
fn noted_lines(dir: &ProcessDir, first: u64) -> Option<u64> {
    let keep = SpecFile::read_kept(dir).ok()?.keep;
    LineMap::open(dir, keep).ok()?.noted(first)
}
