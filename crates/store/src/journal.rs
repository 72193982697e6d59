//! The records of a process, in order: an eight-byte header, then frames. A journal only grows.

use crate::dir::ProcessDir;
use crate::{frame, segments, v1};
use outlast_core::Record;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const HEADER: [u8; 8] = *b"OLJRNL1\n";
/// Records are far smaller. A length above this is damage, and no memory is allocated for it.
const FRAME_LIMIT: usize = 1 << 20;
/// How many bytes of a journal one read returns.
const READ_LIMIT: u64 = 8 << 20;

/// Writes a journal. There is one writer at a time: the caller holds the lock of the process.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Option<File>,
    end: u64,
    /// Whether a write failed half-way, and its remains could not be cut off yet.
    torn: bool,
    set_aside: Option<Damage>,
}

impl Journal {
    /// Opens the journal in `dir` after its last complete frame. The file is created with its first record.
    ///
    /// An incomplete frame of a killed writer is cut off. If frames are damaged, no reader gets past them. They and everything
    /// after them are moved to `journal.damaged`, which [`Journal::set_aside`] reports.
    pub fn open_for_append(dir: &ProcessDir) -> io::Result<Self> {
        let path = dir.journal();
        let mut journal = Self { path, file: None, end: 0, torn: false, set_aside: None };
        let file = match segments::open(&journal.path, OFlags::RDWR) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(journal),
            Err(e) => return Err(e),
        };
        let scan = scan(&file, 0, u64::MAX, |_, _, _| {})?;
        if scan.newer {
            let what = format!("{} was written by a newer version", journal.path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        if let Some(damage) = scan.damage {
            // If the copy fails, no record that could be read is lost.
            let _ = set_aside(&file, damage.offset, &dir.path.join("journal.damaged"));
            journal.set_aside = Some(damage);
        }
        journal.end = scan.cursor;
        journal.torn = file.metadata()?.len() != scan.cursor;
        journal.file = Some(file);
        journal.cut_off()?;
        Ok(journal)
    }

    /// The damage that was found when the journal was opened, and was cut off.
    pub fn set_aside(&self) -> Option<&Damage> {
        self.set_aside.as_ref()
    }

    /// Appends a record in one write, and returns where the next one will begin. After an error the record is not there.
    pub fn append(&mut self, record: &Record) -> io::Result<u64> {
        let mut bytes = Vec::with_capacity(256);
        if self.end == 0 {
            bytes.extend_from_slice(&HEADER);
        }
        frame::push(&mut bytes, v1::VERSION, &v1::Record::from(record), FRAME_LIMIT)?;
        self.cut_off()?;
        let file = match self.file.take() {
            Some(file) => file,
            None => segments::open(&self.path, OFlags::CREATE | OFlags::RDWR)?,
        };
        let written = file.write_all_at(&bytes, self.end);
        self.file = Some(file);
        match written {
            Ok(()) => {
                self.end += bytes.len() as u64;
                Ok(self.end)
            }
            Err(e) => {
                self.torn = true;
                // If this fails, too, it is tried again before the next record. Readers recognise a torn end.
                let _ = self.cut_off();
                Err(e)
            }
        }
    }

    /// Where the next record will begin.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Waits until all records are on disk.
    pub fn sync(&self) -> io::Result<()> {
        match &self.file {
            Some(file) => Ok(rustix::fs::fdatasync(file)?),
            None => Ok(()),
        }
    }

    fn cut_off(&mut self) -> io::Result<()> {
        if let (true, Some(file)) = (self.torn, &self.file) {
            file.set_len(self.end)?;
            self.torn = false;
        }
        Ok(())
    }
}

/// Damage that keeps readers from reading on, although the journal continues.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the journal is damaged at byte {offset}: {what}")]
pub struct Damage {
    /// The offset of the damaged frame.
    pub offset: u64,
    /// What is wrong with it.
    pub what: &'static str,
}

/// A complete frame that this version does not understand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Its offset.
    pub offset: u64,
    /// The version that wrote it.
    pub version: u8,
    /// The name of its record, if it could be read.
    pub kind: Option<String>,
}

/// The result of reading a journal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JournalRead {
    /// The records, each with its offset.
    pub records: Vec<(u64, Record)>,
    /// Frames that were skipped because a newer version wrote them.
    pub unknown: Vec<Unknown>,
    /// Where to read on.
    pub cursor: u64,
    /// Whether more can be read now: a long journal is returned in parts.
    pub more: bool,
    /// Damage after which nothing can be read.
    pub damage: Option<Damage>,
}

/// Reads the records from `cursor` on, which is 0 or the result of an earlier read. A missing file is an empty journal.
///
/// A frame that is being written, or was torn by a crash, is no damage: the cursor stays before it.
pub fn read_from(path: &Path, cursor: u64) -> io::Result<JournalRead> {
    let mut read = JournalRead { cursor, ..JournalRead::default() };
    let file = match segments::open(path, OFlags::RDONLY) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(read),
        Err(e) => return Err(e),
    };
    let scan = scan(&file, cursor, READ_LIMIT, |offset, version, payload| {
        let record = if version == v1::VERSION { serde_json::from_slice::<v1::Record>(payload).ok() } else { None };
        match record {
            Some(record) => read.records.push((offset, record.into())),
            // The checksum is right, so a newer version wrote it.
            None => read.unknown.push(Unknown { offset, version, kind: kind(payload) }),
        }
    })?;
    read.cursor = scan.cursor;
    read.more = scan.more;
    read.damage = scan.damage;
    Ok(read)
}

fn kind(payload: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Kind {
        record: String,
    }
    serde_json::from_slice::<Kind>(payload).ok().map(|k| k.record)
}

#[derive(Default)]
struct Scan {
    /// The end of the last complete frame.
    cursor: u64,
    more: bool,
    newer: bool,
    damage: Option<Damage>,
}

/// Visits complete frames from `cursor` on. Stops at the first incomplete one, or after `limit` bytes.
fn scan(file: &File, cursor: u64, limit: u64, mut found: impl FnMut(u64, u8, &[u8])) -> io::Result<Scan> {
    let end = file.metadata()?.len();
    let mut scan = Scan { cursor, ..Scan::default() };
    let damaged = |scan: &mut Scan, what| scan.damage = Some(Damage { offset: scan.cursor, what });
    if cursor > end {
        damaged(&mut scan, "it is shorter than it was");
        return Ok(scan);
    }
    let mut input = io::BufReader::with_capacity(8 << 10, file);
    if cursor == 0 {
        let mut header = [0; HEADER.len()];
        let len = fill(&mut input, &mut header)?;
        let text = &header[..header.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1)];
        if text != HEADER {
            let torn = HEADER.starts_with(text) && (len < HEADER.len() || only_zeros(&mut input)?);
            if !torn {
                scan.newer = text.len() == HEADER.len() && text.starts_with(b"OLJRNL") && text[6].is_ascii_digit() && text[7] == b'\n';
                let what = if scan.newer { "a newer version wrote it" } else { "it does not begin as a journal" };
                damaged(&mut scan, what);
            }
            return Ok(scan);
        }
        scan.cursor = HEADER.len() as u64;
    } else {
        input.seek(io::SeekFrom::Start(cursor))?;
    }
    let mut payload = Vec::new();
    loop {
        if scan.cursor - cursor >= limit && scan.cursor < end {
            scan.more = true;
            return Ok(scan);
        }
        let mut head = [0; frame::HEAD];
        if fill(&mut input, &mut head)? < head.len() {
            return Ok(scan);
        }
        let head = frame::Head::parse(head);
        if head.len as usize > FRAME_LIMIT {
            damaged(&mut scan, "a record claims to be too long");
            return Ok(scan);
        }
        payload.clear();
        (&mut input).take(u64::from(head.len)).read_to_end(&mut payload)?;
        if head.fits(&payload) {
            found(scan.cursor, head.version, &payload);
            scan.cursor += (frame::HEAD + payload.len()) as u64;
            continue;
        }
        // Incomplete. It is the torn end if nothing follows and the bytes can be the beginning of one record. The text of a record
        // holds no control characters, so a damaged length that would swallow the records after it is recognised. After a power cut
        // the rest may be zeros.
        let text = payload.iter().rposition(|&b| b != 0).map_or(&payload[..0], |last| &payload[..=last]);
        let one_record = head.version != v1::VERSION || text.iter().all(|&b| b >= b' ');
        if !(one_record && only_zeros(&mut input)?) {
            damaged(&mut scan, "a record does not match its checksum");
        }
        return Ok(scan);
    }
}

fn only_zeros(input: &mut impl Read) -> io::Result<bool> {
    let mut buf = [0; 1024];
    loop {
        match fill(input, &mut buf)? {
            0 => return Ok(true),
            n if buf[..n].iter().any(|&b| b != 0) => return Ok(false),
            _ => {}
        }
    }
}

/// Reads until `buf` is full or the file ends.
fn fill(input: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match input.read(&mut buf[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

fn set_aside(file: &File, from: u64, to: &Path) -> io::Result<()> {
    let mut rest = file;
    rest.seek(io::SeekFrom::Start(from))?;
    let mut out = segments::open(to, OFlags::CREATE | OFlags::WRONLY | OFlags::TRUNC)?;
    io::copy(&mut rest.take(READ_LIMIT), &mut out)?;
    Ok(())
}

#[cfg(test)]
mod tests;
