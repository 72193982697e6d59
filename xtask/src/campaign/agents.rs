//! `cargo xtask campaign agents`: real agents from their packages, with a scripted model on the loopback in place of a real one.

mod kimi_acp;
mod model;
mod npm;

use crate::Flags;
use anyhow::{Result, bail};

/// Plays with one agent, or with all.
pub(crate) fn run(name: Option<&str>, flags: &Flags<'_>) -> Result<()> {
    match name {
        None | Some("kimi-acp") => kimi_acp::run(flags),
        Some(other) => bail!("there is no agent {other}: known is kimi-acp"),
    }
}
