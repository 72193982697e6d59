//! `cargo xtask campaign core`: commands of known output, input and exit code, while one process of ours after another is killed.

use super::report::Report;
use super::round;
use crate::Flags;
use anyhow::{Result, bail};
use outlast_testkit::product::Product;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let rounds = flags.get("--rounds")?.unwrap_or(1000_u64);
    let seed = flags.get("--seed")?.unwrap_or(1_u64);
    let homes = flags.get("--homes")?.unwrap_or(4_u64);
    let only = flags.get::<u64>("--only")?;
    let program = super::program(flags)?;
    let report = Report::default();
    let next = AtomicU64::new(only.unwrap_or(0));
    let end = only.map_or(rounds, |r| r + 1);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..homes {
            scope.spawn(|| {
                let product = Product::new(&program);
                loop {
                    let round = next.fetch_add(1, SeqCst);
                    if round >= end || report.failures() > 20 {
                        break;
                    }
                    round::play(&product, seed, round, &report);
                    super::progress(round, end, began);
                }
                if let Err(e) = product.shut_down() {
                    report.bad(format!("left over at the end: {e:#}"));
                }
            });
        }
    });
    println!("campaign core: seed {seed}, {} rounds, {homes} homes, {:.0} s", report.count("rounds"), began.elapsed().as_secs_f64());
    report.print();
    match report.failures() {
        0 => {
            println!("0 lost, 0 doubled, 0 invented, 0 harmed, 0 started twice, 0 left over");
            Ok(())
        }
        n => bail!("{n} rounds broke a promise; repeat one with --seed {seed} --only ROUND"),
    }
}
