//! Rounds with a real agent over ACP.

use crate::Flags;
use anyhow::{Result, bail};

pub(super) fn run(agent: &str, _flags: &Flags<'_>) -> Result<()> {
    bail!("not built yet: {agent}")
}
