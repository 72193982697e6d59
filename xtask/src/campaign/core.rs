//! `cargo xtask campaign core`: commands of known output, input and exit code, while one process of ours after another is killed.

use super::report::Report;
use super::{Game, round};
use crate::Flags;
use anyhow::Result;
use outlast_testkit::product::Product;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let (game, report) = (Game::of(flags)?, Report::default());
    std::thread::scope(|scope| {
        for _ in 0..game.homes {
            scope.spawn(|| {
                let product = Product::new(&game.program);
                while let Some(round) = game.round(&report) {
                    round::play(&product, game.seed, round, &report);
                }
                if let Err(e) = product.shut_down() {
                    report.bad(format!("left over at the end: {e:#}"));
                }
            });
        }
    });
    game.finish("core", &report, "0 lost, 0 doubled, 0 invented, 0 harmed, 0 started twice, 0 left over")
}
