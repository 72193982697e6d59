//! The keepers' side of `meta`.

use super::v1::{EndedV1, StopV1, seal};
use super::{ENDED_AT, ENDED_LEN, GAPS_AT, GAPS_LEN, LEN, Live, MAGIC, STOP_AT, STOP_LEN, VERSION};
use crate::dir::ProcessDir;
use crate::lock;
use crate::os::Mapping;
use outlast_core::{Cause, Ending, Outcome, Owner, ProcessId, Stop, Time};
use rustix::fd::AsFd;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::Ordering::SeqCst;

/// A process's `meta`, locked and mapped. Whoever has one may write in the process's folder.
#[derive(Debug)]
pub struct Meta {
    file: File,
    map: Mapping,
}

impl Meta {
    /// Opens or makes it and takes the lock. `None` if another pair of keepers has it.
    pub fn hold(dir: &ProcessDir, id: ProcessId, now: Time) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(dir.meta())?;
        if !lock::try_hold(&file)? {
            return Ok(None);
        }
        if file.metadata()?.len() < LEN as u64 {
            Self::allocate(&file)?;
        }
        let mut identity = [0; 64];
        file.read_exact_at(&mut identity, 0)?;
        if identity[..8] != MAGIC {
            file.write_all_at(&identity_block(id, crate::os::boot_id()?, now), 0)?;
        }
        let map = Mapping::new(file.as_fd(), LEN)?;
        Ok(Some(Self { file, map }))
    }

    /// Gives a file its full length, and the room for it.
    pub(crate) fn allocate(file: &File) -> io::Result<()> {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, LEN as u64) {
            Ok(()) => Ok(()),
            // Not every file system can; zeros take the room as well.
            Err(rustix::io::Errno::OPNOTSUPP) => file.write_all_at(&[0; LEN], 0),
            Err(e) => Err(e.into()),
        }
    }

    /// The fields both keepers share.
    pub fn live(&self) -> &Live {
        self.map.live()
    }

    /// Writes down who asked for the end, before anything is done about it. An owner too long for its place is left out rather than the fact.
    pub fn record_stop(&self, stop: &Stop, at: Time) -> io::Result<()> {
        let block = seal(&StopV1::new(stop.clone(), at), STOP_LEN)
            .or_else(|| seal(&StopV1::new(Stop { cause: anonymous(&stop.cause), ..stop.clone() }, at), STOP_LEN))
            .ok_or(io::ErrorKind::InvalidInput)?;
        self.file.write_all_at(&block, STOP_AT as u64)
    }

    /// Waits until all of it is on disk.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    /// Writes the record of the end and syncs it. Doing it again writes the same.
    pub fn record_ended(&self, ending: &Ending, log_end: u64, lines: u64) -> io::Result<()> {
        self.write_ended(ending, log_end, lines)?;
        self.sync()
    }

    /// Writes the record of the end. Until [`Meta::sync`] it outlives every process, and not the machine.
    pub fn write_ended(&self, ending: &Ending, log_end: u64, lines: u64) -> io::Result<()> {
        let block = seal(&EndedV1::new(ending.clone(), log_end, lines), ENDED_LEN)
            .or_else(|| seal(&EndedV1::new(brief(ending), log_end, lines), ENDED_LEN))
            .ok_or(io::ErrorKind::InvalidInput)?;
        self.file.write_all_at(&block, ENDED_AT as u64)
    }

    /// Notes that the log has no bytes in `from..to`. Once the table is full its last entry grows: rather too much said to be missing than too little.
    pub fn record_gap(&self, from: u64, to: u64) -> io::Result<()> {
        let live = self.live();
        let used = u64::from(live.gaps.load(SeqCst));
        let at = |n: u64| GAPS_AT as u64 + 16 * n;
        if used > 0 {
            let mut last = [0; 16];
            self.file.read_exact_at(&mut last, at(used - 1))?;
            let [start, end] = [0, 8].map(|i| u64::from_le_bytes(last[i..i + 8].try_into().expect("eight bytes")));
            // A batch that is written again after a kill must not be counted again.
            if end >= to {
                return Ok(());
            }
            if end >= from || used == GAPS_LEN as u64 / 16 {
                self.file.write_all_at(&to.to_le_bytes(), at(used - 1) + 8)?;
                live.dropped.fetch_add(to - from.max(end), SeqCst);
                debug_assert!(start <= from);
                return Ok(());
            }
        }
        let mut entry = [0; 16];
        entry[..8].copy_from_slice(&from.to_le_bytes());
        entry[8..].copy_from_slice(&to.to_le_bytes());
        self.file.write_all_at(&entry, at(used))?;
        live.gaps.store(used as u32 + 1, SeqCst);
        live.dropped.fetch_add(to - from, SeqCst);
        Ok(())
    }

    /// The stop that was asked for, if one was.
    pub fn stop(&self) -> Option<(Stop, Time)> {
        let mut block = [0; STOP_LEN];
        self.file.read_exact_at(&mut block, STOP_AT as u64).ok()?;
        super::v1::unseal::<StopV1>(&block).ok().flatten().map(StopV1::into_core)
    }
}

pub(super) fn identity_block(id: ProcessId, boot: u128, now: Time) -> [u8; 64] {
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
            // Control characters take six bytes each as JSON.
            let what = f.what.chars().map(|c| if c.is_control() { '?' } else { c }).take(120).collect();
            Outcome::NeverStarted(outlast_core::StartFailure { errno: f.errno, what })
        }
        other => other.clone(),
    };
    Ending { outcome, cause: anonymous(&ending.cause), at: ending.at }
}
