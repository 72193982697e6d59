//! `cargo xtask campaign gateway`: conversations, with every program that takes part killed on the way.
//!
//! Without `--agent`, scripted agents answer (`rounds.rs`). With `--agent NAME`, a real agent from its package does, with a scripted model (`real.rs`).

mod real;
mod rounds;

use crate::Flags;
use anyhow::Result;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    match flags.get::<String>("--agent")? {
        Some(agent) => real::run(&agent, flags),
        None => rounds::run(flags),
    }
}
