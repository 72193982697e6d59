//! When output came.
//!
//! The pump notes in the file `times` the byte at which output begins that comes a second or more after the last note. So each byte came
//! within a second of the last note before it. Output of the first second has no note: it came within a second of the start. Notes are not
//! synced. Once there are 65,536, each new one takes the place of the oldest.
//!
//! ```text
//!  0  magic, 8 bytes
//!  8  version, u32
//! 12  zero, u32
//! 16  notes: byte, u64 · UTC microseconds, i64 · crc32 of both, u32
//! ```
//!
//! Decision 272: docs/decisions/store.md.

use crate::dir::ProcessDir;
use crate::segments;
use outlast_core::Time;
use rustix::fs::OFlags;
use std::io;
use std::os::unix::fs::FileExt;

const MAGIC: [u8; 8] = *b"OLTIMES\n";
const VERSION: u32 = 1;
const HEADER: usize = 16;
const NOTE: usize = 20;
/// How many notes are kept: 18 hours of output that never pauses.
const MOST_NOTES: u64 = 1 << 16;

/// At this time, output came that begins at this byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeNote {
    /// The byte.
    pub byte: u64,
    /// When.
    pub at: Time,
}

/// The notes of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TimeNotes {
    /// In the order of their bytes.
    pub notes: Vec<TimeNote>,
    /// Whether the oldest are gone.
    pub is_cut: bool,
    /// Where the next note goes.
    next: u64,
}

impl TimeNotes {
    /// Reads the notes in `dir`. That there are none is fine, and what is damaged is left out.
    pub fn read(dir: &ProcessDir) -> io::Result<Self> {
        let bytes = match segments::open(&dir.times(), OFlags::RDONLY) {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                io::Read::read_to_end(&mut file, &mut bytes)?;
                bytes
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(e) => return Err(e),
        };
        let Some((_, rest)) = bytes.split_at_checked(HEADER).filter(|(head, _)| *head == header()) else {
            return Ok(Self::default());
        };
        let mut found: Vec<(u64, TimeNote)> = (0..).zip(rest.chunks_exact(NOTE)).filter_map(|(n, note)| Some((n, decode(note)?))).collect();
        let slots = (rest.len() / NOTE) as u64;
        let newest = found.iter().max_by_key(|(_, note)| note.byte).map(|(n, _)| *n);
        let next = if slots < MOST_NOTES { slots } else { newest.map_or(0, |n| (n + 1) % MOST_NOTES) };
        found.sort_by_key(|(_, note)| note.byte);
        Ok(Self { notes: found.into_iter().map(|(_, note)| note).collect(), is_cut: slots >= MOST_NOTES, next })
    }

    /// When byte `byte` came, to the second; nothing if its note is gone. `started` is when the command was started.
    pub fn time_of(&self, byte: u64, started: Time) -> Option<Time> {
        match self.notes.partition_point(|note| note.byte <= byte).checked_sub(1) {
            Some(n) => Some(self.notes[n].at),
            None => (!self.is_cut).then_some(started),
        }
    }

    /// The first byte that came at `time` or later, up to a second too early. `end` is where the output ends.
    pub fn first_byte_since(&self, time: Time, started: Time, end: u64) -> u64 {
        let second = |at: Time| Time::from_micros(at.micros().saturating_add(1_000_000));
        let first = TimeNote { byte: 0, at: started };
        let all = std::iter::once(first).chain(self.notes.iter().copied());
        // Output of a note came within a second of it. What is older than every note is of an unknown time, and is not left out.
        all.clone()
            .find(|note| second(note.at) > time)
            .map_or(end, |note| if self.is_cut && Some(note) == self.notes.first().copied() { 0 } else { note.byte })
    }
}

/// Writes the notes of a process. One at a time: the caller holds the lock of the process.
#[derive(Debug, Default)]
pub struct TimeWriter {
    next: u64,
}

impl TimeWriter {
    /// Goes on behind the notes that are there.
    pub fn open(dir: &ProcessDir) -> Self {
        // Notes that cannot be read are written over, and readers leave out what is damaged.
        Self { next: TimeNotes::read(dir).unwrap_or_default().next }
    }

    /// Notes that output from `byte` on comes now.
    pub fn note(&mut self, dir: &ProcessDir, note: TimeNote) -> io::Result<()> {
        let file = segments::open(&dir.times(), OFlags::CREATE | OFlags::WRONLY)?;
        file.write_all_at(&header(), 0)?;
        file.write_all_at(&encode(note), HEADER as u64 + self.next * NOTE as u64)?;
        self.next = (self.next + 1) % MOST_NOTES;
        Ok(())
    }
}

fn header() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header
}

fn encode(note: TimeNote) -> [u8; NOTE] {
    let mut bytes = [0; NOTE];
    bytes[..8].copy_from_slice(&note.byte.to_le_bytes());
    bytes[8..16].copy_from_slice(&note.at.micros().to_le_bytes());
    let sum = crc32fast::hash(&bytes[..16]);
    bytes[16..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<TimeNote> {
    let (byte, rest) = bytes.split_first_chunk::<8>()?;
    let (at, sum) = rest.split_first_chunk::<8>()?;
    let note = TimeNote { byte: u64::from_le_bytes(*byte), at: Time::from_micros(i64::from_le_bytes(*at)) };
    (sum == crc32fast::hash(&bytes[..16]).to_le_bytes()).then_some(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, ProcessDir) {
        let dir = tempfile::tempdir().unwrap();
        let process = ProcessDir { path: dir.path().to_owned() };
        (dir, process)
    }

    fn at(seconds: i64) -> Time {
        Time::from_micros(seconds * 1_000_000)
    }

    fn note(byte: u64, seconds: i64) -> TimeNote {
        TimeNote { byte, at: at(seconds) }
    }

    #[test]
    fn each_byte_has_the_time_of_the_last_note_before_it() {
        let (_kept, dir) = folder();
        let empty = TimeNotes::read(&dir).unwrap();
        assert_eq!((empty.time_of(7, at(100)), empty.first_byte_since(at(200), at(100), 50)), (Some(at(100)), 50));
        let mut writer = TimeWriter::open(&dir);
        writer.note(&dir, note(10, 110)).unwrap();
        // Another pump goes on behind it.
        let mut writer = TimeWriter::open(&dir);
        writer.note(&dir, note(30, 200)).unwrap();
        let notes = TimeNotes::read(&dir).unwrap();
        let times = [0, 9, 10, 29, 30, 99].map(|byte| notes.time_of(byte, at(100)).unwrap().micros() / 1_000_000);
        assert_eq!(times, [100, 100, 110, 110, 200, 200]);
        let since = [0, 100, 101, 110, 111, 199, 200, 201].map(|time| notes.first_byte_since(at(time), at(100), 50));
        assert_eq!(since, [0, 0, 10, 10, 30, 30, 30, 50]);
    }

    #[test]
    fn the_oldest_notes_make_room_and_their_bytes_have_no_time() {
        let (_kept, dir) = folder();
        let mut writer = TimeWriter::open(&dir);
        for n in 0..MOST_NOTES + 3 {
            writer.note(&dir, note(n, n as i64)).unwrap();
        }
        let notes = TimeNotes::read(&dir).unwrap();
        assert_eq!((notes.notes.len() as u64, notes.notes[0], notes.is_cut), (MOST_NOTES, note(3, 3), true));
        assert_eq!((notes.time_of(2, at(0)), notes.time_of(3, at(0))), (None, Some(at(3))));
        let mut writer = TimeWriter::open(&dir);
        writer.note(&dir, note(MOST_NOTES + 3, 0)).unwrap();
        assert_eq!(TimeNotes::read(&dir).unwrap().notes[0], note(4, 4));
    }

    #[test]
    fn a_file_that_is_cut_or_damaged_gives_the_notes_that_are_whole() {
        let (_kept, dir) = folder();
        let mut writer = TimeWriter::open(&dir);
        (1..4).for_each(|n| writer.note(&dir, note(n, n as i64)).unwrap());
        let whole = std::fs::read(dir.times()).unwrap();
        for len in 0..whole.len() {
            std::fs::write(dir.times(), &whole[..len]).unwrap();
            assert_eq!(TimeNotes::read(&dir).unwrap().notes.len(), len.saturating_sub(HEADER) / NOTE);
        }
        let mut bytes = whole.clone();
        bytes[HEADER + NOTE] ^= 1;
        std::fs::write(dir.times(), bytes).unwrap();
        assert_eq!(TimeNotes::read(&dir).unwrap().notes, [note(1, 1), note(3, 3)]);
    }
}
