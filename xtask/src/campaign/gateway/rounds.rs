//! Rounds with scripted agents: one message or notice each, and a kill on its way.
//!
//! A home is used until its gateway was killed three times; then its records are checked and the next home begins. So the engine's pauses
//! between starts, the breaker and the budget of unattended turns work in every home as they do for a user, and a plan can predict them.

use super::super::Game;
use super::super::report::Report;
use super::plan::Plan;
use super::stage::Stage;
use crate::Flags;
use anyhow::Result;

pub(super) fn run(flags: &Flags<'_>) -> Result<()> {
    let (game, report) = (Game::of(flags)?, Report::default());
    std::thread::scope(|scope| {
        for _ in 0..game.homes {
            scope.spawn(|| {
                if let Err(e) = play(&game, &report) {
                    report.bad(format!("a home: {e:#}"));
                }
            });
        }
    });
    let good = "0 lost, 0 answered twice, 0 repeats without a mark, 0 conversations in another state than the plan names, 0 left over";
    game.finish("gateway", &report, good)
}

fn play(game: &Game, report: &Report) -> Result<()> {
    let mut stage: Option<Stage> = None;
    while let Some(round) = game.round(report) {
        let plan = Plan::draw(game.seed, round);
        if let Some(spent) = stage.take_if(|stage| !stage.has_room_for(&plan)) {
            spent.close(report)?;
        }
        let mut current = match stage.take() {
            Some(stage) => stage,
            None => Stage::new(&game.program)?,
        };
        report.add("rounds", 1);
        match current.play(&plan, report) {
            Ok(()) => stage = Some(current),
            Err(e) => {
                let kept = current.give_up()?;
                report.bad(format!("round {round} ({plan}): {e:#}; kept: {}", kept.display()));
            }
        }
    }
    match stage {
        Some(stage) => stage.close(report),
        None => Ok(()),
    }
}
