//! How a command is started: its shell, directory and environment.
//!
//! Everything here is a function of its arguments. The caller's environment comes with the request, home and user are settings of the
//! engine, and nothing here reads `std::env`. [`Snapshots::get`] blocks for as long as a login shell takes, once; the other functions do
//! not block.
//!
//! For a launch, [`find()`] finds the shell, [`existing_cwd`] checks the directory, [`Snapshots::get`] gets what login files add, and
//! [`merge()`] makes argv and environment of all of it.

mod blocked;
mod cwd;
mod find;
mod merge;
mod program;
mod snapshot;

pub(crate) use blocked::{is_blocked, is_missed};
pub(crate) use cwd::{NoDirectory, existing_cwd};
pub(crate) use find::{Shell, ShellKind, find};
pub(crate) use merge::{CommandForm, LaunchInputs, MergeError, OutputMode, merge};
pub(crate) use program::{ProgramError, resolve_program};
pub(crate) use snapshot::{DEFAULT_LIMIT, Snapshot, SnapshotRequest, SnapshotState, Snapshots};

/// The name and value of an environment variable, as bytes.
pub(crate) type Variable = (Vec<u8>, Vec<u8>);

/// The default PATH. Its entries also count as the system's directories.
pub(crate) const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[cfg(test)]
mod tests;
