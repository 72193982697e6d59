//! The writers' side of `meta`: the keepers.

use super::bytes::{BEGUN, read_settled, u32_at, u64_at};
use super::read::found_commit;
use super::v1::{EndedV1, StopV1, seal};
use super::{
    ENDED_AT, ENDED_LEN, GAPS_AT, GAPS_LEN, Image, LEN, LIVE_AT, Live, MAGIC, NAMED_FD, NAMED_PID, STOP_AT, STOP_LEN, Snapshot, Stamp,
    VERSION, flag,
};
use crate::dir::ProcessDir;
use crate::lock;
use crate::os::Mapping;
use outlast_core::{Cause, Ending, Outcome, Owner, ProcessId, Stop, Time};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::Ordering::SeqCst;

const CMD_AT: usize = LIVE_AT + offset_of!(Live, cmd);

/// The locked `meta` of a process: the file, and the mapped live copy. The holder of this lock may write to the process's folder.
#[derive(Debug)]
pub struct Meta {
    file: File,
    image: Image,
    map: Mapping,
    /// How many dropped bytes of output are recorded in the file; none before the first save.
    dropped_in_file: Cell<Option<u64>>,
}

impl Meta {
    /// Opens or creates it, and takes the lock. `None` if another pair of keepers has the lock.
    pub fn hold(dir: &ProcessDir, id: ProcessId, now: Time) -> io::Result<Option<Self>> {
        Self::hold_with(dir, id, now, Image::new()?)
    }

    /// The same, with a live copy that the engine holds too. It is filled from the file.
    pub fn hold_with(dir: &ProcessDir, id: ProcessId, now: Time, image: Image) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(dir.meta())?;
        if !lock::try_hold(&file)? {
            return Ok(None);
        }
        if file.metadata()?.len() < LEN as u64 {
            Self::allocate(&file)?;
        }
        let mut bytes = [0; LEN];
        file.read_exact_at(&mut bytes, 0)?;
        if bytes[..8] != MAGIC {
            bytes[..LIVE_AT].copy_from_slice(&identity_block(id, crate::os::boot_id()?, now));
        }
        put_u32(&mut bytes, NAMED_FD, image.number() + 1);
        put_u32(&mut bytes, NAMED_PID, std::process::id());
        image.write_at(&bytes, 0)?;
        // A command that was started before gets no live copy.
        if u32_at(&bytes, CMD_AT) == 0 {
            file.write_all_at(&bytes[..LIVE_AT], 0)?;
        }
        let map = Mapping::new(image.as_fd(), LEN)?;
        Ok(Some(Self { file, image, map, dropped_in_file: Cell::new(None) }))
    }

    /// Creates the file with all its space, before any keeper writes to it. If there is no space, the request is refused before it
    /// is accepted.
    pub fn make_room(dir: &ProcessDir) -> io::Result<()> {
        Self::allocate(&OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.meta())?)
    }

    /// Gives a file its full length, and allocates its space.
    pub(crate) fn allocate(file: &File) -> io::Result<()> {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, LEN as u64) {
            Ok(()) => Ok(()),
            // Not every file system supports it, and some sandboxes refuse the call. Zeros allocate the space as well.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::INVAL) => file.write_all_at(&[0; LEN], 0),
            Err(e) => Err(e.into()),
        }
    }

    /// The fields both keepers share.
    pub fn live(&self) -> &Live {
        self.map.live()
    }

    /// The live copy, to pass to another program.
    pub fn live_copy(&self) -> BorrowedFd<'_> {
        self.image.as_fd()
    }

    /// Its contents now.
    pub fn snapshot(&self) -> Option<Snapshot> {
        Snapshot::parse(&self.image.read().ok()?).ok()
    }

    /// The fields that change while the process runs.
    pub fn stamp(&self) -> io::Result<Stamp> {
        Stamp::read(self.image.file())
    }

    /// Copies the live copy to the file.
    /// The other keeper may save at the same time, and a late write could replace newer bytes. So the live copy is compared with
    /// what was written: the keeper that writes last writes the newest state.
    pub fn save(&self) -> io::Result<()> {
        loop {
            let bytes = self.image.read()?;
            self.write_file(bytes, LIVE_AT)?;
            if !has_news(&bytes, &self.image.read()?) {
                return Ok(());
            }
        }
    }

    /// Writes the final state to the file. From then on there is no live copy.
    pub fn release(&self) -> io::Result<()> {
        let mut bytes = self.image.read()?;
        bytes[NAMED_FD..LIVE_AT].fill(0);
        self.write_file(bytes, 0)
    }

    fn write_file(&self, mut bytes: [u8; LEN], from: usize) -> io::Result<()> {
        let live = |field: usize| LIVE_AT + field;
        let may_start =
            u32_at(&bytes, live(offset_of!(Live, flags))) & flag::GO != 0 && u64_at(&bytes, live(offset_of!(Live, status))) == 0;
        if may_start && u32_at(&bytes, CMD_AT) == 0 {
            put_u32(&mut bytes, CMD_AT, BEGUN);
        }
        self.file.write_all_at(&bytes[from..], from as u64)?;
        self.dropped_in_file.set(Some(u64_at(&bytes, live(offset_of!(Live, dropped)))));
        Ok(())
    }

    /// Whether the file has every gap of the log. Tries to write missing ones. If a gap is not on disk, the output after it looks
    /// like output without a gap.
    pub fn saves_gaps(&self) -> bool {
        let dropped = self.live().dropped.load(SeqCst);
        dropped == 0 || self.dropped_in_file.get() == Some(dropped) || self.save().is_ok()
    }

    /// Records who requested the stop, before any signal is sent. If the owner is too long for the block, it is left out. An error
    /// comes from the disk; the live copy has the stop all the same.
    pub fn record_stop(&self, stop: &Stop, at: Time) -> io::Result<()> {
        let block = seal(&StopV1::new(stop.clone(), at), STOP_LEN)
            .or_else(|| seal(&StopV1::new(Stop { cause: anonymous(&stop.cause), ..stop.clone() }, at), STOP_LEN))
            .ok_or(io::ErrorKind::InvalidInput)?;
        self.image.write_at(&block, STOP_AT)?;
        self.save()
    }

    /// Waits until all of it is on disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    /// Writes the record of the end and syncs it. Repeating it changes nothing. An error comes from the disk; the live copy has the record
    /// all the same.
    pub fn record_ended(&self, ending: &Ending, log_end: u64, lines: u64) -> io::Result<()> {
        self.write_ended(ending, log_end, lines)?;
        self.sync()
    }

    /// Writes the record of the end. Until [`Meta::sync`] it survives the death of every process, but not a crash of the machine.
    pub fn write_ended(&self, ending: &Ending, log_end: u64, lines: u64) -> io::Result<()> {
        let block = seal(&EndedV1::new(ending.clone(), log_end, lines), ENDED_LEN)
            .or_else(|| seal(&EndedV1::new(brief(ending), log_end, lines), ENDED_LEN))
            .ok_or(io::ErrorKind::InvalidInput)?;
        self.image.write_at(&block, ENDED_AT)?;
        self.save()
    }

    /// Records that the log has no bytes in `from..to`. If the table is full, its last entry grows: it may report too much as
    /// missing, never too little.
    pub fn record_gap(&self, from: u64, to: u64) -> io::Result<()> {
        let live = self.live();
        let used = live.gaps.load(SeqCst) as usize;
        let at = |n: usize| GAPS_AT + 16 * n;
        if used > 0 {
            let bytes = self.image.read()?;
            let (start, end) = (u64_at(&bytes, at(used - 1)), u64_at(&bytes, at(used - 1) + 8));
            // A batch that is written again after a kill must not be counted again.
            if end >= to {
                return Ok(());
            }
            if end >= from || used == GAPS_LEN / 16 {
                self.image.write_at(&to.to_le_bytes(), at(used - 1) + 8)?;
                live.dropped.fetch_add(to - from.max(end), SeqCst);
                debug_assert!(start <= from);
                return Ok(());
            }
        }
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&from.to_le_bytes());
        entry[8..].copy_from_slice(&to.to_le_bytes());
        self.image.write_at(&entry, at(used))?;
        live.gaps.store(used as u32 + 1, SeqCst);
        live.dropped.fetch_add(to - from, SeqCst);
        Ok(())
    }

    /// The stop that was requested, if any.
    pub fn stop(&self) -> Option<(Stop, Time)> {
        let bytes = self.image.read().ok()?;
        super::v1::unseal::<StopV1>(&bytes[STOP_AT..STOP_AT + STOP_LEN]).ok().flatten().map(StopV1::into_core)
    }
}

/// Whether a fact was recorded between two reads: a pid, a stop, a gap, an end. The length of the log does not count, because it
/// changes constantly.
fn has_news(before: &[u8; LEN], after: &[u8; LEN]) -> bool {
    let live = [offset_of!(Live, cmd), offset_of!(Live, flags), offset_of!(Live, gaps)];
    before[STOP_AT..] != after[STOP_AT..] || live.iter().any(|field| u32_at(before, LIVE_AT + field) != u32_at(after, LIVE_AT + field))
}

/// Completes the file of dead keepers from their live copy if this program holds it, otherwise with the length of the log. From
/// then on there is only the file. `file` is the `meta` of `dir`, and the caller holds its lock.
pub fn retire(dir: &ProcessDir, file: &File) -> io::Result<()> {
    let mut bytes = read_settled(file)?;
    let Ok(in_file) = Snapshot::parse(&bytes) else { return Ok(()) };
    if u32_at(&bytes, NAMED_FD) == 0 {
        return Ok(());
    }
    match Image::of(dir, &bytes) {
        Some(image) => {
            bytes = image.read()?;
            // The live copy knows whether the command was started. If it was not, the permission to start it is withdrawn.
            let flags = LIVE_AT + offset_of!(Live, flags);
            let without_go = u32_at(&bytes, flags) & !flag::GO;
            if u32_at(&bytes, CMD_AT) == 0 {
                put_u32(&mut bytes, flags, without_go);
            }
        }
        None => {
            let commit = found_commit(dir, in_file.commit);
            let current = u64_at(&bytes, LIVE_AT + offset_of!(Live, commit)) >> 1 & 1;
            let slot = LIVE_AT + offset_of!(Live, slots) + 32 * current as usize;
            bytes[slot..slot + 8].copy_from_slice(&commit.base.to_le_bytes());
            bytes[slot + 8..slot + 16].copy_from_slice(&commit.lines.to_le_bytes());
        }
    }
    bytes[NAMED_FD..LIVE_AT].fill(0);
    file.write_all_at(&bytes, 0)?;
    Ok(rustix::fs::fdatasync(file)?)
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn identity_block(id: ProcessId, boot: u128, now: Time) -> [u8; 64] {
    let mut b = [0; 64];
    b[..8].copy_from_slice(&MAGIC);
    b[8..12].copy_from_slice(&VERSION.to_le_bytes());
    b[12..16].copy_from_slice(&(LEN as u32).to_le_bytes());
    b[16..22].copy_from_slice(&id.bytes());
    b[24..40].copy_from_slice(&boot.to_le_bytes());
    b[40..48].copy_from_slice(&now.micros().to_le_bytes());
    let crc = crc32fast::hash(&b[..48]);
    b[48..52].copy_from_slice(&crc.to_le_bytes());
    b
}

fn anonymous(cause: &Cause) -> Cause {
    match cause {
        Cause::Asked { source, .. } => Cause::Asked { by: Owner::default(), source: source.chars().take(64).collect() },
        other => other.clone(),
    }
}

fn brief(ending: &Ending) -> Ending {
    let outcome = match &ending.outcome {
        Outcome::NeverStarted(f) => {
            // As JSON, a control character takes six bytes.
            let what = f.what.chars().map(|c| if c.is_control() { '?' } else { c }).take(120).collect();
            Outcome::NeverStarted(outlast_core::StartFailure { errno: f.errno, what })
        }
        other => other.clone(),
    };
    Ending { outcome, cause: anonymous(&ending.cause), at: ending.at, oom: ending.oom }
}
