//! One process whose folder is sent to the link as it changes.

use super::begin::{Starter, can_start};
use super::keeper_socket::Listener;
use super::sandbox_home::SandboxHome;
use super::settle::{Settled, never_started, settle};
use outlast_core::{ProcessId, StartFailure};
use outlast_store::dir::ProcessDir;
use outlast_store::meta::{Image, LEN, MetaError, Snapshot, without_heartbeat};
use outlast_store::os::now;
use outlast_store::segments::{Chunk, LogReader};
use outlast_store::spec::SpecFile;
use outlast_store::{journal, lock};
use outlast_wire::v1::sandbox::{FILE_CHUNK, FileOffsets, LOG_CHUNK, Piece, Update};
use rustix::event::PollFd;
use rustix::fd::OwnedFd;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many pairs of keepers are started for one command, if each leaves before it has started it.
const LAUNCHES: u32 = 3;
/// How long to wait before a pump that holds its lock and does not listen is tried again. A keeper may be replacing it, and no descriptor
/// tells when it is done.
const AGAIN: Duration = Duration::from_millis(20);

/// Who reports what is new.
#[derive(Debug)]
enum Reporter {
    /// A pump.
    Pump(Listener),
    /// None yet: a pump is tried again at this time.
    Sought(Instant),
    /// The kernel, which reports the end of a command without keepers.
    Orphan(OwnedFd),
    /// Nothing more will be new.
    Over,
}

/// An attached process.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) process: ProcessId,
    dir: ProcessDir,
    reader: LogReader,
    /// What was sent.
    log: u64,
    files: FileOffsets,
    meta: Option<Box<[u8; LEN]>>,
    is_over_sent: bool,
    /// The log may be sent up to here.
    upto: u64,
    reporter: Reporter,
    /// Whether the folder may have something new.
    is_dirty: bool,
    launches: u32,
}

impl Attached {
    pub(super) fn new(home: &SandboxHome, process: ProcessId, log: u64, files: FileOffsets, upto: u64) -> io::Result<Self> {
        let dir = home.home.process(process);
        let kept = SpecFile::read_kept(&dir).map_err(io::Error::other)?;
        // Without the live copy the file says nearly the same.
        let _found = Image::find_and_hold(&dir);
        let reader = LogReader::open(&dir, kept.keep);
        let reporter = Reporter::Sought(Instant::now());
        Ok(Self { process, dir, reader, log, files, meta: None, is_over_sent: false, upto, reporter, is_dirty: true, launches: 0 })
    }

    /// The same, with keepers that were just started and report on this connection.
    pub(super) fn started_with(mut self, listener: Listener) -> Self {
        (self.reporter, self.launches) = (Reporter::Pump(listener), 1);
        self
    }

    pub(super) fn allow(&mut self, upto: u64) {
        self.upto = self.upto.max(upto);
        self.is_dirty = true;
    }

    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        match &self.reporter {
            Reporter::Pump(listener) => Some(listener.poll_fd()),
            Reporter::Orphan(pidfd) => Some(PollFd::new(pidfd, rustix::event::PollFlags::IN)),
            Reporter::Sought(_) | Reporter::Over => None,
        }
    }

    /// When to look for a pump again.
    pub(super) fn due(&self) -> Option<Instant> {
        match &self.reporter {
            Reporter::Sought(at) => Some(*at),
            Reporter::Pump(_) | Reporter::Orphan(_) | Reporter::Over => None,
        }
    }

    /// Takes in what its descriptor reports.
    pub(super) fn hear(&mut self) {
        match &mut self.reporter {
            Reporter::Pump(listener) => {
                let report = listener.hear();
                self.is_dirty |= report.has_news || report.is_gone;
                if report.is_gone {
                    self.reporter = Reporter::Sought(Instant::now());
                }
            }
            Reporter::Orphan(_) => self.reporter = Reporter::Sought(Instant::now()),
            Reporter::Sought(_) | Reporter::Over => {}
        }
    }

    /// If nothing reports what is new: connects to the pump, or finds out what became of the process.
    pub(super) fn seek(&mut self, home: &SandboxHome, starter: &Starter) -> io::Result<()> {
        if !matches!(self.reporter, Reporter::Sought(at) if at <= Instant::now()) {
            return Ok(());
        }
        self.is_dirty = true;
        if lock::is_held(&self.dir.meta())? {
            self.reporter = match Listener::connect(&home.socket(self.process)) {
                Ok(listener) => Reporter::Pump(listener),
                Err(_) => Reporter::Sought(Instant::now() + AGAIN),
            };
            let _found = Image::find_and_hold(&self.dir);
            return Ok(());
        }
        // Writing into the folder is a change, which an earlier stream must not make.
        let Some(_turn) = home.turn()? else { return Err(io::ErrorKind::ConnectionAborted.into()) };
        self.reporter = match settle(&self.dir, now())? {
            Settled::Kept => Reporter::Sought(Instant::now() + AGAIN),
            Settled::Over => Reporter::Over,
            Settled::Orphan(of) => match outlast_store::os::pidfd_of(&of) {
                Ok(pidfd) => Reporter::Orphan(pidfd),
                Err(_) => Reporter::Sought(Instant::now() + AGAIN),
            },
            Settled::NotStarted => self.start(home, starter)?,
        };
        Ok(())
    }

    fn start(&mut self, home: &SandboxHome, starter: &Starter) -> io::Result<Reporter> {
        let failed = match can_start(&self.dir) {
            Ok(Some(_)) if self.launches < LAUNCHES => {
                self.launches += 1;
                match starter.start(home, &self.dir) {
                    Ok(listener) => return Ok(Reporter::Pump(listener)),
                    Err(e) => StartFailure { errno: e.raw_os_error().unwrap_or(0), what: format!("the keeper could not be started: {e}") },
                }
            }
            Ok(Some(_)) => {
                let what = "three keepers exited before they could start the command; engine.log in the sandbox's home says why";
                StartFailure { errno: 0, what: what.to_owned() }
            }
            Ok(None) => StartFailure { errno: 0, what: "what is needed to start the command is gone".to_owned() },
            Err(e) => StartFailure { errno: 0, what: e.to_string() },
        };
        let is_over = never_started(&self.dir, self.process, failed, now())?;
        Ok(if is_over { Reporter::Over } else { Reporter::Sought(Instant::now() + AGAIN) })
    }

    /// The next update, if there is something new that may be sent.
    pub(super) fn next_update(&mut self) -> io::Result<Option<(Update, Vec<u8>)>> {
        if !self.is_dirty {
            return Ok(None);
        }
        // Before the look: then what is read is the last that was written.
        let is_over = matches!(self.reporter, Reporter::Over);
        // `meta` first. What else is read is then at least as new, so that the link never learns of an end before what came before it.
        let found = match Snapshot::read_with_bytes(&self.dir) {
            Ok((snapshot, bytes)) => Some((snapshot, Box::new(without_heartbeat(bytes)))),
            Err(MetaError::Missing { .. }) => None,
            Err(error) => return Err(io::Error::other(error)),
        };
        let mut update = Update { log_end: found.as_ref().map_or(self.log, |(snapshot, _)| snapshot.log_end()), ..Update::default() };
        let journal_end = journal::read_from(&self.dir.journal(), self.files.journal)?.cursor;
        let (journal, journal_more) = piece(&self.dir.journal(), self.files.journal, Some(journal_end))?;
        let (lines, lines_more) = piece(&self.dir.lines(), self.files.lines, None)?;
        let (times, times_more) = piece(&self.dir.times(), self.files.times, None)?;
        let gaps = found.as_ref().map_or(&[][..], |(snapshot, _)| &snapshot.gaps);
        let (at, log) = self.next_log(update.log_end, gaps)?;
        update.log = Piece { at, len: log.len() as u64 };
        update.journal = Piece { at: self.files.journal, len: journal.len() as u64 };
        update.lines = Piece { at: self.files.lines, len: lines.len() as u64 };
        update.times = Piece { at: self.files.times, len: times.len() as u64 };
        let has_moved = at > self.log || !log.is_empty() || !journal.is_empty() || !lines.is_empty() || !times.is_empty();
        let log_to = at + log.len() as u64;
        let mut bytes = [log, journal, lines, times].concat();
        let is_whole = log_to >= update.log_end && !journal_more && !lines_more && !times_more;
        let mut has_meta = false;
        if let Some((_, meta)) = found.filter(|(snapshot, _)| is_whole || !has_end(snapshot))
            && self.meta.as_ref() != Some(&meta)
        {
            let (lengths, blocks) = Update::blocks(&meta);
            update.meta = Some(lengths);
            bytes.extend(blocks);
            self.meta = Some(meta);
            has_meta = true;
        }
        update.is_over = is_over && is_whole;
        let is_news = has_moved || has_meta || (update.is_over && !self.is_over_sent);
        self.log = log_to;
        self.files.journal += update.journal.len;
        self.files.lines += update.lines.len;
        self.files.times += update.times.len;
        self.is_over_sent |= update.is_over;
        // With more to send, it is looked at again at once. Without permission to send more, `allow` wakes it.
        self.is_dirty = !is_whole && (log_to < self.upto || journal_more || lines_more || times_more);
        if !self.is_dirty
            && is_whole
            && let Reporter::Pump(listener) = &mut self.reporter
        {
            // If it is gone, its descriptor says so.
            let _gone = listener.await_output(self.log);
        }
        Ok(is_news.then_some((update, bytes)))
    }

    /// The next bytes of the log that may be sent, and where they begin. What is missing is skipped.
    fn next_log(&self, end: u64, gaps: &[outlast_store::segments::Gap]) -> io::Result<(u64, Vec<u8>)> {
        let mut at = self.log;
        while at < end.min(self.upto) {
            let most = usize::try_from(self.upto.min(end) - at).unwrap_or(usize::MAX).min(LOG_CHUNK);
            match self.reader.read(at, end, most, gaps)? {
                Chunk::Bytes { at, bytes } => return Ok((at, bytes)),
                Chunk::Gap { to, .. } => at = to,
                Chunk::End => break,
            }
        }
        Ok((at, Vec::new()))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        Image::forget(&self.dir);
    }
}

/// Whether a `meta` says something that output must come before: the end of the command, or of its output.
fn has_end(meta: &Snapshot) -> bool {
    meta.ended.is_some() || meta.published.is_some() || meta.closed.is_some()
}

/// The next bytes of a file that only grows, up to `end` or to its own end, and whether there are more.
fn piece(path: &Path, from: u64, end: Option<u64>) -> io::Result<(Vec<u8>, bool)> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), false)),
        Err(e) => return Err(e),
    };
    let end = match end {
        Some(end) => end,
        None => file.metadata()?.len(),
    };
    let there = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; there.min(FILE_CHUNK)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], from + filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    bytes.truncate(filled);
    Ok((bytes, there > filled))
}

/// Whether the process has a record of its end, and no keepers.
pub(super) fn is_over(dir: &ProcessDir) -> io::Result<bool> {
    Ok(!lock::is_held(&dir.meta())? && super::settle::Standing::read(dir)?.phase.is_final())
}

/// How many bytes of input the process has taken.
pub(super) fn input_taken(dir: &ProcessDir) -> io::Result<u64> {
    Snapshot::read(dir).map(|meta| meta.input).map_err(io::Error::other)
}
