//! `meta`: 4 KiB, in two copies. The live copy is an [`Image`] in memory. The file is the durable copy, and carries the lock.
//!
//! On a full disk that copies on write, a store to a mapped file kills the program. So the file is only written with `pwrite`: at the
//! start, at every takeover, stop and end, and otherwise at most once a second. A refused write is tried again.
//!
//! ```text
//!    0  identity   written once, checksummed; from 52 on which process has the live copy, as which descriptor (0: the file is all there is)
//!   64  live       atomics in a mapping both keepers share; one of them is the engine's
//! 1024  stop       who asked for the end, checksummed; written before the first signal
//! 2048  gaps       byte ranges that a full disk took
//! 3072  ended      the record of the end, checksummed and synced: the truth about it
//! ```

mod bytes;
mod image;
mod read;
mod stamp;
mod v1;
mod write;

pub use crate::live::{Commit, Live, MAX_LEFT_RECORDED, Waiting, Watched, flag, noted};
pub use image::{Found, Image};
pub use read::{Ended, MetaError, Snapshot};
pub use stamp::{Stamp, Stamped, without_heartbeat};
pub use write::{Meta, retire};

use crate::live::LIVE_AT;
#[cfg(test)]
pub(crate) use write::identity_block as identity_for_tests;

/// The length of the file.
pub const LEN: usize = 4096;
/// The descriptor number of the live copy in a keeper, plus one. 0: there is none.
const NAMED_FD: usize = 52;
/// The process that made the live copy.
const NAMED_PID: usize = 56;
const STOP_AT: usize = 1024;
const STOP_LEN: usize = 1024;
const GAPS_AT: usize = 2048;
const GAPS_LEN: usize = 1024;
const ENDED_AT: usize = 3072;
const ENDED_LEN: usize = 1024;

const MAGIC: [u8; 8] = *b"OLMETA1\n";
const VERSION: u32 = 1;
const _: () = assert!(LIVE_AT + size_of::<Live>() <= STOP_AT);

#[cfg(test)]
mod tests;
