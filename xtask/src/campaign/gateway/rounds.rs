//! Rounds with scripted agents.

use crate::Flags;
use anyhow::{Result, bail};

pub(super) fn run(_flags: &Flags<'_>) -> Result<()> {
    bail!("not built yet")
}
