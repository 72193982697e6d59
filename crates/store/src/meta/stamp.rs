//! Whether anything has changed.

use super::{LIVE_AT, Live};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What changes in `meta` while a process lives, as it was at one time. Two that are equal show the same process: only the pulse of its pump may be another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp([u8; size_of::<Live>()]);

impl Stamp {
    /// Reads it from the open file.
    pub fn read(meta: &File) -> io::Result<Self> {
        let mut live = [0; size_of::<Live>()];
        meta.read_exact_at(&mut live, LIVE_AT as u64)?;
        let pulse = std::mem::offset_of!(Live, heartbeat);
        live[pulse..pulse + size_of::<u64>()].fill(0);
        Ok(Self(live))
    }
}
