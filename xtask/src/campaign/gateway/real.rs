//! Rounds with a real agent over ACP, from its package, with a scripted model on the loopback.
//!
//! Each round has a home of its own. The agent answers a message, so that it has a session. Then a message or a notice is on its way, and a process is killed when a
//! program is held at the point that the plan names, or while the model thinks. In the end the agent answers another message. What the model was given says
//! what was lost, what came twice, and whether the session went on.

mod agent;
mod model;
mod plan;
mod record;
mod round;

use self::agent::RealAgent;
use self::plan::RealPlan;
use self::round::Round;
use super::super::report::Report;
use super::super::{Game, agents};
use crate::Flags;
use anyhow::Result;

/// How many homes are played at once unless the flags say: an agent takes a processor for seconds to start.
const HOMES: u64 = 2;

pub(super) fn run(name: &str, flags: &Flags<'_>) -> Result<()> {
    let root = agents::root(flags)?;
    let agent = RealAgent::named(name, root.clone())?;
    if !agents::install(name, &root)? {
        return Ok(());
    }
    let mut game = Game::of(flags)?;
    game.homes = flags.get("--homes")?.unwrap_or(HOMES);
    println!("{name} {}", agent.version());
    let report = Report::default();
    std::thread::scope(|scope| {
        for _ in 0..game.homes {
            scope.spawn(|| {
                while let Some(number) = game.round(&report) {
                    let plan = RealPlan::draw(game.seed, number);
                    report.add("rounds", 1);
                    match Round::play(&game.program, &agent, &plan, &report) {
                        Ok(wrong) => wrong.into_iter().for_each(|what| report.bad(format!("round {number} ({plan}): {what}"))),
                        Err(e) => report.bad(format!("round {number} ({plan}): {e:#}")),
                    }
                }
            });
        }
    });
    let good = "0 lost, 0 answered twice, 0 repeats without a mark, every session went on";
    game.finish(&format!("gateway with {name}"), &report, good)
}
