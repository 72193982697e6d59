//! The folder of a process that runs in a sandbox: the same files, written by the link from what the sandbox sends.
//!
//! Readers need not know that it is a mirror. Its `meta` never names a live copy, and its log is as long as what has arrived. The lock on
//! `meta` is held by the link. One more file, `mirror`, says which sandbox it mirrors and whether that can be reached.
//!
//! Decision 404: docs/decisions/anywhere.md.

use crate::dir::ProcessDir;
use crate::live::{LIVE_AT, Live, flag};
use crate::meta::{LEN, Meta, Snapshot};
use crate::segments::{self, Keep, LogReader, LogWriter};
use crate::{journal, lock};
use outlast_core::{Cause, Ending, Outcome, ProcessId, Record, StartFailure, Time};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

/// The boot id in the identity, and the checksum over both.
const BOOT_AT: std::ops::Range<usize> = 24..40;
/// What names a live copy. A mirror has none.
const LIVE_COPY_AT: std::ops::Range<usize> = 52..LIVE_AT;
/// The fields that an engine writes lie side by side.
const ENGINES_AT: std::ops::Range<usize> = LIVE_AT + offset_of!(Live, noted)..LIVE_AT + offset_of!(Live, shown_unsaved) + 8;
const _: () = assert!(offset_of!(Live, shown_unsaved) == offset_of!(Live, noted) + 8);

/// A file of which only the end is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrowingFile {
    /// The journal.
    Journal,
    /// The line index.
    Lines,
    /// When output arrived.
    Times,
}

/// What a mirror is known to mirror. Kept in the file `mirror`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MirrorState {
    /// The identity of the sandbox's home; absent until a start was about to be sent there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Why the sandbox cannot be reached, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    /// Why the process is lost, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    /// The length of the log in the sandbox, as far as is known.
    pub log_end: u64,
    /// Whether everything that the sandbox had of the process is here, so that the sandbox may forget it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
}

impl MirrorState {
    /// Reads the state. None if the folder is no mirror, or if it was never written.
    pub fn read(dir: &ProcessDir) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path(dir)).ok()?).ok()
    }

    fn write(&self, dir: &ProcessDir) -> io::Result<()> {
        let new = dir.path.join("mirror.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        io::Write::write_all(&mut file, &serde_json::to_vec(self)?)?;
        std::fs::rename(&new, path(dir))
    }
}

fn path(dir: &ProcessDir) -> PathBuf {
    dir.path.join("mirror")
}

/// Why a sandbox's `meta` is not taken.
#[derive(Debug, thiserror::Error)]
pub enum MirrorError {
    /// It is not what a keeper writes.
    #[error("the meta that the sandbox sent is damaged at byte {at}: {what}")]
    Damaged {
        /// The offset.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It is of another process, or claims to be of this machine.
    #[error("the meta that the sandbox sent is of {0}")]
    Another(&'static str),
    /// It says that the process has ended, and claims more output than was sent.
    #[error("the sandbox says that {claimed} bytes were written, and sent {sent}")]
    Incomplete {
        /// What it says.
        claimed: u64,
        /// What has arrived.
        sent: u64,
    },
    /// The disk refused it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The writer of a mirror. While it exists, the lock on `meta` is held.
#[derive(Debug)]
pub struct Mirror {
    dir: ProcessDir,
    id: ProcessId,
    meta: File,
    log: LogWriter,
    /// What the file has; none before the first one came.
    image: Option<Box<[u8; LEN]>>,
    /// How much of the log has arrived, and the newlines in it.
    end: u64,
    newlines: u64,
    state: MirrorState,
}

impl Mirror {
    /// Takes the lock on the folder of a process. None if another program has it.
    pub fn hold(dir: &ProcessDir, id: ProcessId, keep: Keep) -> io::Result<Option<Self>> {
        let meta = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(dir.meta())?;
        if !lock::try_hold(&meta)? {
            return Ok(None);
        }
        if meta.metadata()?.len() < LEN as u64 {
            Meta::allocate(&meta)?;
        }
        let mut image = Box::new([0; LEN]);
        meta.read_exact_at(&mut image[..], 0)?;
        let known = Snapshot::parse(&image[..]).ok();
        // After a power cut the file may know of bytes that the disk never had.
        let there = LogReader::open(dir, keep).found_end()?;
        let (end, newlines) = known.as_ref().map_or((0, 0), |known| (known.commit.base.min(there), known.commit.lines));
        let state = MirrorState::read(dir).unwrap_or_default();
        let image = known.map(|_| image);
        Ok(Some(Self { dir: dir.clone(), id, meta, log: LogWriter::open(dir, keep), image, end, newlines, state }))
    }

    /// The process.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// The folder.
    pub fn dir(&self) -> &ProcessDir {
        &self.dir
    }

    /// How much of the log has arrived.
    pub fn log_end(&self) -> u64 {
        self.end
    }

    /// How much of a file that only grows has arrived. A record of the journal that arrived in part does not count.
    pub fn file_end(&self, file: GrowingFile) -> io::Result<u64> {
        let length = |path: PathBuf| match std::fs::metadata(path) {
            Ok(found) => Ok(found.len()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(e) => Err(e),
        };
        length(self.path(file))
    }

    fn path(&self, file: GrowingFile) -> PathBuf {
        match file {
            GrowingFile::Journal => self.dir.journal(),
            GrowingFile::Lines => self.dir.lines(),
            GrowingFile::Times => self.dir.times(),
        }
    }

    /// Adds bytes to a file that only grows.
    pub fn add(&mut self, file: GrowingFile, at: u64, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        segments::open(&self.path(file), OFlags::CREATE | OFlags::WRONLY)?.write_all_at(bytes, at)
    }

    /// Adds bytes to the log. Those between its end and `at` are missing in the sandbox, too.
    pub fn add_log(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.log.write_at(at, bytes).map_err(|failure| failure.error)?;
        self.end = at + bytes.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        // What cannot be removed now is removed with the next segment.
        let _later = self.log.retain(self.end);
        Ok(())
    }

    /// Takes a `meta` of the sandbox, or only writes down how long the log is. Returns whether a fact about the process has changed.
    pub fn commit(&mut self, meta: Option<&[u8; LEN]>, boot: u128) -> Result<bool, MirrorError> {
        let before = self.snapshot();
        if let Some(meta) = meta {
            self.take(meta, boot)?;
        }
        let Some(mut image) = self.image.take() else { return Ok(false) };
        self.clamp(&mut image);
        let written = self.write(&image);
        self.image = Some(image);
        written?;
        Ok(before.map(facts) != self.snapshot().map(facts))
    }

    fn take(&mut self, meta: &[u8; LEN], boot: u128) -> Result<(), MirrorError> {
        let said = Snapshot::parse(meta).map_err(|(at, what)| MirrorError::Damaged { at, what })?;
        if said.id != self.id {
            return Err(MirrorError::Another("another process"));
        }
        if meta[BOOT_AT] != boot.to_le_bytes() || crate::os::boot_id().is_ok_and(|here| here == said.boot) {
            return Err(MirrorError::Another("another machine"));
        }
        if (said.ended.is_some() || said.closed.is_some()) && said.log_end() > self.end {
            return Err(MirrorError::Incomplete { claimed: said.log_end(), sent: self.end });
        }
        if said.log_end() == self.end {
            self.newlines = said.commit.lines;
        }
        let mut image = Box::new(*meta);
        image[LIVE_COPY_AT].fill(0);
        // What a keeper said of the input itself may be newer than this.
        let input = self.image.as_ref().map_or(0, |image| input_of(image)).max(input_of(&image));
        set_input(&mut image, input);
        self.image = Some(image);
        Ok(())
    }

    /// Makes the log as long as what has arrived.
    fn clamp(&self, image: &mut [u8; LEN]) {
        let at = |field: usize| LIVE_AT + field;
        let word = u64_at(image, at(offset_of!(Live, commit)));
        let slot = at(offset_of!(Live, slots)) + 32 * (word >> 1 & 1) as usize;
        image[slot..slot + 8].copy_from_slice(&self.end.to_le_bytes());
        image[slot + 8..slot + 16].copy_from_slice(&self.newlines.to_le_bytes());
    }

    /// The fields of the engine are left as they are.
    fn write(&self, image: &[u8; LEN]) -> io::Result<()> {
        self.meta.write_all_at(&image[..ENGINES_AT.start], 0)?;
        self.meta.write_all_at(&image[ENGINES_AT.end..], ENGINES_AT.end as u64)
    }

    /// What it says of the process; none before a `meta` came.
    pub fn snapshot(&self) -> Option<Snapshot> {
        Snapshot::parse(&self.image.as_ref()?[..]).ok()
    }

    /// A keeper has said how much input it has taken.
    pub fn input_taken(&mut self, bytes: u64) -> io::Result<()> {
        let Some(mut image) = self.image.take() else { return Ok(()) };
        let known = input_of(&image).max(bytes);
        set_input(&mut image, known);
        let written = self.write(&image);
        self.image = Some(image);
        written
    }

    /// What is known of the sandbox.
    pub fn state(&self) -> &MirrorState {
        &self.state
    }

    /// Writes down what is known of the sandbox, if that is new.
    pub fn set_state(&mut self, change: impl FnOnce(&mut MirrorState)) -> io::Result<bool> {
        let mut next = self.state.clone();
        change(&mut next);
        if next == self.state {
            return Ok(false);
        }
        next.write(&self.dir)?;
        self.state = next;
        Ok(true)
    }

    /// Waits until all of it is on disk.
    pub fn sync(&self) -> io::Result<()> {
        self.log.sync()?;
        if let Ok(journal) = File::open(self.dir.journal()) {
            rustix::fs::fdatasync(&journal)?;
        }
        Ok(rustix::fs::fdatasync(&self.meta)?)
    }

    /// Records that the process is lost: its sandbox is gone, or has it no more.
    pub fn lose(&mut self, why: &str, now: Time) -> io::Result<()> {
        self.set_state(|state| (state.lost, state.unreachable) = (Some(why.to_owned()), None))?;
        let mut journal = journal::Journal::open_for_append(&self.dir)?;
        journal.append(&Record::Lost { at: now })?;
        journal.sync()
    }

    /// Records that the process was refused by its sandbox, and never started. The lock is released.
    pub fn never_started(self, failure: StartFailure, now: Time) -> io::Result<()> {
        let (dir, id) = (self.dir.clone(), self.id);
        drop(self);
        let Some(meta) = Meta::hold(&dir, id, now)? else { return Err(io::ErrorKind::WouldBlock.into()) };
        let ending = Ending { outcome: Outcome::NeverStarted(failure), cause: Cause::OfItsOwn, at: now, oom: false };
        meta.live().closed_at.store(now.micros(), std::sync::atomic::Ordering::SeqCst);
        meta.live().set(flag::RECORDED | flag::OUTPUT_CLOSED | flag::DONE);
        meta.record_ended(&ending, 0, 0)?;
        meta.release()
    }
}

/// What clients are told of: everything but the lengths that change all the time.
fn facts(of: Snapshot) -> Snapshot {
    Snapshot { commit: crate::live::Commit::default(), input: 0, watched: crate::live::Watched::default(), ..of }
}

fn u64_at(bytes: &[u8; LEN], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

const INPUT_AT: usize = LIVE_AT + offset_of!(Live, in_client);

fn input_of(image: &[u8; LEN]) -> u64 {
    u64_at(image, INPUT_AT)
}

fn set_input(image: &mut [u8; LEN], bytes: u64) {
    image[INPUT_AT..INPUT_AT + 8].copy_from_slice(&bytes.to_le_bytes());
}

#[cfg(test)]
mod tests;
