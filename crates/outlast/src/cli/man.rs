//! Manual pages, for packages.

use super::{Failure, help};
use clap::Args;
use std::path::PathBuf;

/// Write the manual pages into a directory.
#[derive(Debug, Args)]
pub(crate) struct Man {
    dir: PathBuf,
}

impl Man {
    pub(crate) fn perform(self) -> Result<i32, Failure> {
        let cannot = |e| Failure::fault(format!("cannot write manual pages into {}: {e}", self.dir.display()), "");
        std::fs::create_dir_all(&self.dir).map_err(cannot)?;
        clap_mangen::generate_to(help::with_all_examples(), &self.dir).map_err(cannot)?;
        Ok(0)
    }
}
