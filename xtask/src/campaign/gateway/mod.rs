//! `cargo xtask campaign gateway`: conversations, in which each participating program is killed.
//!
//! Without `--agent`, scripted agents answer (`rounds.rs`). With `--agent NAME`, a real agent from its package does, with a scripted model (`real.rs`).

mod agent;
mod books;
mod client;
mod close;
mod eyes;
mod plan;
mod real;
mod rounds;
mod scene;
mod stage;
mod strike;

pub(crate) use agent::main as agent;

use crate::Flags;
use anyhow::Result;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    match flags.get::<String>("--agent")? {
        Some(agent) => real::run(&agent, flags),
        None => rounds::run(flags),
    }
}
