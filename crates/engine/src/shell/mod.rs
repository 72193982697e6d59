//! What a command is started with: which shell, where, and in which environment.
//!
//! Everything here is a function of its arguments. The caller's environment arrives with the
//! request, home and user are named by whoever starts the engine, and nothing below reads
//! `std::env`. The functions block: [`Snapshots::get`] for as long as a login shell takes, once,
//! the others not at all.
//!
//! A launch goes through this module in one line of thought: [`find()`] names the shell,
//! [`existing_cwd`] the directory, [`Snapshots::get`] what login files would have added, and
//! [`merge()`] makes argv and environment of it all.

mod blocked;
mod cwd;
mod find;
mod merge;
mod program;
mod snapshot;

pub(crate) use blocked::is_missed;
pub use blocked::{BlockReason, forced_name, is_blocked};
pub use cwd::{NoDirectory, existing_cwd};
pub use find::{Shell, ShellKind, find};
pub use merge::{
    CommandForm, LaunchInputs, LaunchPart, MergeError, MergedLaunch, OutputMode, STRING_LIMIT, TOTAL_LIMIT, VariableFault, VariableSource,
    merge, parse_variable,
};
pub use program::{ProgramError, resolve_program};
pub use snapshot::{DEFAULT_LIMIT, Snapshot, SnapshotRequest, SnapshotState, Snapshots, TakeFailure};

/// One environment variable, name and value, as the bytes they are.
pub type Variable = (Vec<u8>, Vec<u8>);

/// What PATH is where nobody says, and which of its entries count as the system's own.
pub(crate) const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[cfg(test)]
mod tests;
