//! The raw log: a head that is never dropped, and behind it segments named by their first byte, of which the last ones are kept.
//!
//! Whoever writes says how far it got elsewhere (`meta`); bytes past that may be written once more, at the same place and the same.
//! A hole is told as what it is: never read as zeros, never skipped without a word.
//!
//! Decision 18: docs/decisions/store.md.

use crate::dir::ProcessDir;
use outlast_core::{GapWhy, limits};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How a log is laid out, and how much of it is kept. Each is at least one byte: zero counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Length of the head.
    pub head: u64,
    /// Length of each segment behind it.
    pub segment: u64,
    /// How much of the end is kept, besides the head.
    pub tail: u64,
}

impl Default for Keep {
    fn default() -> Self {
        Self { head: limits::LOG_HEAD_BYTES, segment: limits::LOG_SEGMENT_BYTES, tail: limits::LOG_TAIL_BYTES }
    }
}

impl Keep {
    /// First byte and length of the segment that holds byte `offset`.
    pub fn segment_of(self, offset: u64) -> (u64, u64) {
        self.segment_at(self.index_of(offset))
    }

    /// The how-manieth segment holds byte `offset`. The head is number 0.
    pub fn index_of(self, offset: u64) -> u64 {
        match offset.checked_sub(self.head.max(1)) {
            None => 0,
            Some(behind) => (behind / self.segment.max(1)).saturating_add(1),
        }
    }

    /// First byte and length of segment `index`.
    pub fn segment_at(self, index: u64) -> (u64, u64) {
        match index.checked_sub(1) {
            None => (0, self.head.max(1)),
            Some(before) => (before.saturating_mul(self.segment.max(1)).saturating_add(self.head.max(1)), self.segment.max(1)),
        }
    }

    /// The first segment that is kept once the log is `end` long, the head aside.
    fn first_kept(self, end: u64) -> u64 {
        // The segment of the last byte always stays, and tells readers how far the writer has come.
        self.index_of(end.saturating_sub(self.tail.max(1))).max(1)
    }
}

/// Bytes that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first of them.
    pub from: u64,
    /// The first byte that is there again.
    pub to: u64,
    /// What took them.
    pub why: GapWhy,
}

/// Writes the log. One at a time: the caller holds the lock of the process.
#[derive(Debug)]
pub struct LogWriter {
    dir: ProcessDir,
    /// The folder itself: a segment is created in it also while the home is elsewhere. None if it could not be opened; then its path counts.
    folder: Option<OwnedFd>,
    keep: Keep,
    /// The segment written last, by number.
    open: Option<(u64, File)>,
    /// Every segment before this one is known to be gone, the head aside. `None`: not looked yet.
    dropped_to: Option<u64>,
}

/// A write that did not go through.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the log: {written} bytes were written")]
pub struct WriteFailure {
    /// How many bytes are in the file all the same.
    pub written: usize,
    /// What the system said.
    #[source]
    pub error: io::Error,
}

impl LogWriter {
    /// A writer for the log in `dir`. Nothing is created before the first byte.
    pub fn open(dir: &ProcessDir, keep: Keep) -> Self {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&dir.path, how, Mode::empty()).ok();
        Self { dir: dir.clone(), folder, keep, open: None, dropped_to: None }
    }

    /// Puts `bytes` at `at`. Doing it again changes nothing.
    pub fn write_at(&mut self, at: u64, bytes: &[u8]) -> Result<(), WriteFailure> {
        let mut written = 0;
        while written < bytes.len() {
            let here = at + written as u64;
            let (first, len) = self.keep.segment_of(here);
            let room = usize::try_from(first.saturating_add(len) - here).unwrap_or(usize::MAX);
            let piece = &bytes[written..written + room.min(bytes.len() - written)];
            let failed = |error| WriteFailure { written, error };
            let file = self.segment_file(here).map_err(failed)?;
            match rustix::io::pwrite(file, piece, here - first) {
                Ok(0) => return Err(failed(io::ErrorKind::WriteZero.into())),
                Ok(n) => written += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(failed(e.into())),
            }
        }
        Ok(())
    }

    /// Drops the segments that a log of length `end` no longer keeps. Does nothing unless a boundary was passed.
    pub fn retain(&mut self, end: u64) -> io::Result<()> {
        let first_kept = self.keep.first_kept(end);
        if first_kept <= self.dropped_to.unwrap_or(1) {
            return Ok(());
        }
        match self.dropped_to {
            Some(known) => {
                for index in known..first_kept {
                    self.drop_segment(self.keep.segment_at(index).0)?;
                    self.dropped_to = Some(index + 1);
                }
            }
            // Whoever wrote before may have been killed with some of it undone.
            None => {
                let kept_from = self.keep.segment_at(first_kept).0;
                for first in self.dir.segments()? {
                    if first > 0 && first < kept_from {
                        self.drop_segment(first)?;
                    }
                }
            }
        }
        self.dropped_to = Some(first_kept);
        if self.open.as_ref().is_some_and(|(index, _)| (1..first_kept).contains(index)) {
            self.open = None;
        }
        Ok(())
    }

    /// Waits until what was written to the current segment is on disk.
    pub fn sync(&self) -> io::Result<()> {
        match &self.open {
            Some((_, file)) => Ok(rustix::fs::fdatasync(file)?),
            None => Ok(()),
        }
    }

    fn segment_file(&mut self, offset: u64) -> io::Result<&File> {
        let index = self.keep.index_of(offset);
        // The old one is closed first: one descriptor is enough.
        let kept = self.open.take().filter(|(open, _)| *open == index);
        let file = match kept {
            Some((_, file)) => file,
            None => {
                let path = self.dir.segment(self.keep.segment_at(index).0);
                open_in(self.folder.as_ref(), &path, OFlags::CREATE | OFlags::WRONLY)?
            }
        };
        Ok(&self.open.insert((index, file)).1)
    }

    fn drop_segment(&self, first: u64) -> io::Result<()> {
        match std::fs::remove_file(self.dir.segment(first)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// A piece of the log, as a reader gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Output.
    Bytes {
        /// Where it begins.
        at: u64,
        /// What the process wrote.
        bytes: Vec<u8>,
    },
    /// Output that is not there any more.
    Gap {
        /// First missing byte.
        from: u64,
        /// First byte that is there again, or the end.
        to: u64,
        /// What took it.
        why: GapWhy,
    },
    /// There is no more.
    End,
}

/// A range of the log that is there, or that is missing for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub from: u64,
    /// First byte behind it.
    pub to: u64,
    /// Why it is missing; `None` where it is there.
    pub missing: Option<GapWhy>,
}

/// What a copy did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Copied {
    /// How many bytes were copied.
    pub bytes: u64,
    /// What was not there, in order.
    pub gaps: Vec<Gap>,
}

/// Reads the log, also while it is written and dropped.
#[derive(Debug, Clone)]
pub struct LogReader {
    dir: ProcessDir,
    keep: Keep,
}

impl LogReader {
    /// A reader of the log in `dir`, which may not have begun yet.
    pub fn open(dir: &ProcessDir, keep: Keep) -> Self {
        Self { dir: dir.clone(), keep }
    }

    /// How this log is laid out.
    pub fn keep(&self) -> Keep {
        self.keep
    }

    /// How far the files go, whatever anybody wrote down about it: for a log whose `meta` is damaged.
    pub fn found_end(&self) -> io::Result<u64> {
        let Some(last) = self.dir.segments()?.pop() else { return Ok(0) };
        Ok(last.saturating_add(std::fs::symlink_metadata(self.dir.segment(last))?.len()))
    }

    /// What there is at `from` of a log that is known to be `end` long: at most `max` bytes (at least one), or a whole gap.
    /// `gaps` are those on record; others are found. Fewer bytes than asked for do not mean the end.
    pub fn read(&self, from: u64, end: u64, max: usize, gaps: &[Gap]) -> io::Result<Chunk> {
        if from >= end {
            return Ok(Chunk::End);
        }
        if !gaps.iter().any(|g| (g.from..g.to).contains(&from)) {
            let until = gaps.iter().map(|g| g.from).filter(|&g| g > from).fold(end, u64::min);
            let bytes = self.bytes_at(from, until, max)?;
            if !bytes.is_empty() {
                return Ok(Chunk::Bytes { at: from, bytes });
            }
        }
        let extents = self.extents(end, gaps)?;
        let here = extents.iter().find(|e| (e.from..e.to).contains(&from));
        Ok(match here {
            Some(Extent { to, missing: Some(why), .. }) => Chunk::Gap { from, to: *to, why: *why },
            // It could not be read a moment ago. Only somebody who meddles with the folder can have brought it back.
            Some(_) | None => {
                let (first, len) = self.keep.segment_of(from);
                Chunk::Gap { from, to: end.min(first.saturating_add(len)), why: GapWhy::Lost }
            }
        })
    }

    /// The last bytes before `end`, at most `max_bytes` of them, with the gaps between them.
    pub fn read_back(&self, end: u64, max_bytes: usize, gaps: &[Gap]) -> io::Result<Vec<Chunk>> {
        let mut wanted = max_bytes as u64;
        let mut from = end;
        for extent in self.extents(end, gaps)?.iter().rev() {
            if wanted == 0 {
                break;
            }
            match extent.missing {
                Some(_) => from = extent.from,
                None => {
                    let taken = wanted.min(extent.to - extent.from);
                    from = extent.to - taken;
                    wanted -= taken;
                }
            }
        }
        let mut chunks = Vec::new();
        loop {
            let chunk = self.read(from, end, max_bytes, gaps)?;
            from = match &chunk {
                Chunk::Bytes { at, bytes } => at + bytes.len() as u64,
                Chunk::Gap { to, .. } => *to,
                Chunk::End => return Ok(chunks),
            };
            chunks.push(chunk);
        }
    }

    /// Writes the bytes of `[from, end)` that are there to `out`, and says which were not.
    pub fn copy_to(&self, from: u64, end: u64, gaps: &[Gap], out: &mut impl Write) -> io::Result<Copied> {
        let mut copied = Copied::default();
        let mut at = from;
        loop {
            match self.read(at, end, PIECE, gaps)? {
                Chunk::Bytes { bytes, .. } => {
                    out.write_all(&bytes)?;
                    at += bytes.len() as u64;
                    copied.bytes += bytes.len() as u64;
                }
                Chunk::Gap { from, to, why } => {
                    copied.gaps.push(Gap { from, to, why });
                    at = to;
                }
                Chunk::End => return Ok(copied),
            }
        }
    }

    /// What of the first `end` bytes is there and what is missing: touching ranges, neighbours always of different kinds.
    pub fn extents(&self, end: u64, gaps: &[Gap]) -> io::Result<Vec<Extent>> {
        let firsts: Vec<u64> = self.dir.segments()?.into_iter().filter(|&f| self.keep.segment_of(f).0 == f).collect();
        // The writer may have gone on since `end` was read, and dropped what `end` alone would keep.
        let written = firsts.last().map_or(0, |&last| last.saturating_add(self.keep.segment_of(last).1));
        let reached = gaps.iter().map(|g| g.to).fold(end.max(written), u64::max);
        let mut dropped_to = self.keep.segment_at(self.keep.first_kept(reached)).0;
        let head_end = self.keep.segment_at(1).0;
        let mut map = Extents { list: Vec::new(), end };
        for first in firsts {
            if first >= end {
                break;
            }
            let found = match std::fs::symlink_metadata(self.dir.segment(first)) {
                Ok(m) => m.len(),
                // Dropped since the folder was listed, and with it everything before.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    dropped_to = dropped_to.max(first.saturating_add(self.keep.segment_of(first).1));
                    continue;
                }
                Err(e) => return Err(e),
            };
            map.miss_until(first, head_end, dropped_to);
            let len = self.keep.segment_of(first).1;
            map.push(first.saturating_add(found.min(len)), None);
            map.push(first.saturating_add(len), Some(GapWhy::Lost));
        }
        map.miss_until(end, head_end, dropped_to);
        for gap in gaps {
            map.overlay(gap);
        }
        Ok(map.list)
    }

    /// Bytes of one segment, from `from` up to `until`. Empty if the segment is gone or too short.
    fn bytes_at(&self, from: u64, until: u64, max: usize) -> io::Result<Vec<u8>> {
        let (first, len) = self.keep.segment_of(from);
        let file = match open(&self.dir.segment(first), OFlags::RDONLY) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        let there = first.saturating_add(file.metadata()?.len().min(len)).min(until).saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(there).unwrap_or(usize::MAX).min(max.max(1))];
        let mut filled = 0;
        while filled < bytes.len() {
            match file.read_at(&mut bytes[filled..], from - first + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

/// How much is read at once.
pub(crate) const PIECE: usize = 64 << 10;

/// Extents in the making: from 0 on without a hole, merged, cut at the end.
struct Extents {
    list: Vec<Extent>,
    end: u64,
}

impl Extents {
    fn reached(&self) -> u64 {
        self.list.last().map_or(0, |e| e.to)
    }

    fn push(&mut self, to: u64, missing: Option<GapWhy>) {
        let (from, to) = (self.reached(), to.min(self.end));
        if to <= from {
            return;
        }
        match self.list.last_mut() {
            Some(last) if last.missing == missing => last.to = to,
            Some(_) | None => self.list.push(Extent { from, to, missing }),
        }
    }

    /// No file holds what comes before `to`. Only what lies between the head and the kept tail was dropped on purpose.
    fn miss_until(&mut self, to: u64, head_end: u64, dropped_to: u64) {
        self.push(to.min(head_end), Some(GapWhy::Lost));
        self.push(to.min(dropped_to), Some(GapWhy::Retention));
        self.push(to, Some(GapWhy::Lost));
    }

    fn overlay(&mut self, gap: &Gap) {
        let whole = std::mem::take(&mut self.list);
        for e in whole {
            self.push(e.to.min(gap.from), e.missing);
            if e.to > gap.from && e.from < gap.to {
                self.push(e.to.min(gap.to), Some(gap.why));
            }
            self.push(e.to, e.missing);
        }
    }
}

/// Opens a file of ours: private, closed on exec, never through a link.
pub(crate) fn open(path: &Path, how: OFlags) -> io::Result<File> {
    let fd = rustix::fs::open(path, how | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::RUSR | Mode::WUSR)?;
    Ok(fd.into())
}

/// The same for a file in `folder`, wherever that is by now; by its path if there is no descriptor of the folder.
fn open_in(folder: Option<&OwnedFd>, path: &Path, how: OFlags) -> io::Result<File> {
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => {
            let how = how | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            Ok(rustix::fs::openat(folder, name, how, Mode::RUSR | Mode::WUSR)?.into())
        }
        (None, _) | (_, None) => open(path, how),
    }
}

#[cfg(test)]
pub(crate) mod tests;
