//! `meta`: 4 KiB, allocated before the command runs, so that a full disk cannot keep an end from being recorded.
//!
//! ```text
//!    0  identity   written once, checksummed
//!   64  live       atomics in a mapping both keepers share; readers see them through the page cache; one of them is the engine's
//! 1024  stop       who asked for the end, checksummed; written before the first signal
//! 2048  gaps       byte ranges that a full disk took
//! 3072  ended      the record of the end, checksummed and synced: the truth about it
//! ```

mod live;
mod read;
mod stamp;
mod v1;
mod write;

pub use live::{Commit, Live, Waiting, Watched, flag, noted};
pub use read::{Ended, MetaError, Snapshot};
pub use stamp::Stamp;
pub use write::Meta;

/// The length of the file.
pub const LEN: usize = 4096;
pub(crate) const LIVE_AT: usize = 64;
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
