//! `cargo xtask campaign core`: commands of known output, input and exit code, while one process of ours after another is killed.
//!
//! With `--home-on DIR` the homes are in that directory. With `--fill` its disk is filled and freed at random: output may then be missing,
//! if every missing byte is reported.

use super::report::Report;
use super::{Game, round};
use crate::Flags;
use crate::rng::Rng;
use anyhow::{Result, ensure};
use outlast_testkit::machine;
use outlast_testkit::product::Product;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let (game, report) = (Game::of(flags)?, Report::default());
    let (on, fills, over) = (flags.get::<PathBuf>("--home-on")?, flags.has("--fill"), AtomicBool::new(false));
    ensure!(on.is_some() || !fills, "--fill needs a small disk to fill: --home-on DIR");
    std::thread::scope(|scope| {
        if let Some(disk) = on.as_deref().filter(|_| fills) {
            let (seed, report, over) = (game.seed, &report, &over);
            scope.spawn(move || fill_and_free(disk, seed, report, over));
        }
        let homes: Vec<_> = (0..game.homes)
            .map(|n| {
                let (game, report, on) = (&game, &report, on.as_deref());
                scope.spawn(move || play(game, report, on.map(|disk| disk.join(format!("home-{n}"))), fills))
            })
            .collect();
        for home in homes {
            // A panic there was reported already. The disk must be freed all the same.
            let _failed = home.join();
        }
        over.store(true, SeqCst);
    });
    game.finish("core", &report, "0 lost, 0 doubled, 0 invented, 0 harmed, 0 started twice, 0 left over")
}

fn play(game: &Game, report: &Report, home: Option<PathBuf>, fills: bool) {
    let mut product = Product::new(&game.program);
    if let Some(home) = &home {
        product = product.with_home(home.clone());
    }
    while let Some(round) = game.round(report) {
        round::play(&product, game.seed, round, report, fills);
    }
    if let Err(e) = product.shut_down() {
        report.bad(format!("left over at the end: {e:#}"));
    }
    drop(product);
    if let Some(home) = home {
        // It lies on the caller's disk. If it cannot be removed now, the caller removes it.
        let _left = std::fs::remove_dir_all(home);
    }
}

/// Fills the disk, keeps it full for a while, and frees it again.
fn fill_and_free(disk: &Path, seed: u64, report: &Report, over: &AtomicBool) {
    let mut rng = Rng::new(seed, u64::MAX);
    while !over.load(SeqCst) {
        // Random pauses with a free and with a full disk are what this campaign tests; they wait for nothing.
        std::thread::sleep(Duration::from_millis(rng.below(900)));
        if machine::fill(disk).is_ok() {
            report.add("times the disk was full", 1);
            std::thread::sleep(Duration::from_millis(rng.below(700)));
        }
        if let Err(e) = machine::free(disk) {
            report.bad(format!("the disk cannot be freed: {e:#}"));
        }
    }
}
