//! Detects whether a process has changed.

use super::{Image, LEN, LIVE_AT, Live};
use crate::dir::ProcessDir;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The part of `meta` that changes while a process lives, as it was at one moment. If two stamps are equal, the process has not
/// changed; only the heartbeat of its pump may differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp([u8; size_of::<Live>()]);

impl Stamp {
    pub(super) fn read(meta: &File) -> io::Result<Self> {
        let mut live = [0; size_of::<Live>()];
        meta.read_exact_at(&mut live, LIVE_AT as u64)?;
        still(&mut live);
        Ok(Self(live))
    }
}

/// The bytes of a `meta` in which the heartbeat of the pump stands still. If they are equal, the process has not changed.
pub fn without_heartbeat(mut meta: [u8; LEN]) -> [u8; LEN] {
    still(&mut meta[LIVE_AT..]);
    meta
}

fn still(live: &mut [u8]) {
    let pulse = std::mem::offset_of!(Live, heartbeat);
    live[pulse..pulse + size_of::<u64>()].fill(0);
}

/// Where a process's stamp is read repeatedly: the live copy of its `meta`, or the file if there is none.
#[derive(Debug)]
pub enum Stamped {
    /// The live copy, while the process runs.
    Live(Arc<Image>),
    /// The file, after the process has ended or with keepers of earlier versions.
    File(File),
}

impl Stamped {
    /// Opens the live copy, or the file if there is none.
    pub fn open(dir: &ProcessDir) -> io::Result<Self> {
        let file = File::open(dir.meta())?;
        Ok(Image::of(dir, &super::bytes::read_settled(&file)?).map_or(Self::File(file), Self::Live))
    }

    /// Reads the stamp.
    pub fn read(&self) -> io::Result<Stamp> {
        match self {
            Self::Live(image) => Stamp::read(image.file()),
            Self::File(file) => Stamp::read(file),
        }
    }
}
