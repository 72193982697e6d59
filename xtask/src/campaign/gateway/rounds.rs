//! Rounds with scripted agents: one message or notice each, and a kill on its way.
//!
//! A home is played until its gateway was killed three times; then its books are checked and the next home begins. So the pauses of the engine before it starts
//! another gateway, the breaker and the budget of unattended turns do in every home what they do for a person, and a plan can say what that is.

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
