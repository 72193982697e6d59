//! `cargo xtask bench recovery`: kills the engine of a thousand running processes, and measures how long until the list is correct again.

use crate::Flags;
use crate::bench_suite::harness::disk;
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::{Product, kill_and_wait};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The goal: the longest time until the list.
const LIMIT: Duration = Duration::from_millis(300);

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let count = flags.get("--processes")?.unwrap_or(1000_usize);
    let rounds = flags.get("--rounds")?.unwrap_or(5_usize);
    let program = match flags.get::<PathBuf>("--program")? {
        Some(path) => path.canonicalize().with_context(|| format!("{}", path.display()))?,
        None => release()?,
    };
    let disk = disk()?;
    let product = Product::in_dir(&program, disk.path());
    // The default limit is 1,024.
    product.configure(&format!("[limits]\nmax_running = {}\n", count + 10));

    let empty = median(&mut (0..rounds).map(|_| restart(&product, 0)).collect::<Result<Vec<_>>>()?);
    let began = Instant::now();
    start(&product, count)?;
    println!("{count} processes started in {:.1} s", began.elapsed().as_secs_f64());
    let before = pids(&product)?;
    ensure!(before.len() == count, "{} of {count} are running", before.len());

    let mut cold = Vec::new();
    for _ in 0..rounds {
        cold.push(restart(&product, count)?);
        let after = pids(&product)?;
        ensure!(
            after == before,
            "the list is not truthful: {} of {count} are as they were",
            after.iter().filter(|(k, v)| before.get(*k) == Some(v)).count()
        );
    }
    let mut warm = Vec::new();
    for _ in 0..rounds * 4 {
        let began = Instant::now();
        ensure!(pids(&product)?.len() == count, "the list is not whole");
        warm.push(began.elapsed());
    }
    let (cold_median, warm_median) = (median(&mut cold), median(&mut warm));
    let worst = cold.iter().max().copied().unwrap_or_default();
    println!("recovery, {count} running, engine killed -9, {rounds} rounds:");
    println!("  engine's start to truthful list    median {cold_median:>8.1?}   worst {worst:>8.1?}   limit {LIMIT:?}");
    println!("  the same in an empty home          median {empty:>8.1?}   ratio {:.1}", ratio(cold_median, empty));
    println!("  the same list from a warm engine   median {warm_median:>8.1?}   ratio {:.1}", ratio(cold_median, warm_median));
    ensure!(cold_median <= LIMIT, "slower than {LIMIT:?}");
    Ok(())
}

/// The program as users have it.
pub(crate) fn release() -> Result<PathBuf> {
    let built = crate::cargo().args(["build", "--quiet", "--release", "--package", "outlast"]).status()?;
    ensure!(built.success(), "outlast does not build");
    let debug = std::env::current_exe()?;
    let target = debug.parent().and_then(|d| d.parent()).context("a target directory")?;
    Ok(target.join("release/outlast"))
}

/// Kills the engine, calls `list`, which starts another engine, and measures the time until the answer.
fn restart(product: &Product, count: usize) -> Result<Duration> {
    kill_and_wait(product.engine())?;
    let began = Instant::now();
    let listed = product.call(["list", "--json"]);
    let took = began.elapsed();
    let listed = listed.json();
    ensure!(running(&listed).len() == count, "the first list shows {} of {count}", running(&listed).len());
    Ok(took)
}

fn start(product: &Product, count: usize) -> Result<()> {
    std::thread::scope(|scope| {
        let starters: Vec<_> = (0..8)
            .map(|n| {
                scope.spawn(move || {
                    for _ in (n..count).step_by(8) {
                        let started = product.json(["run", "--", "/bin/sleep", "100000"]);
                        ensure!(started["status"] == "running", "run answered {started}");
                    }
                    Ok(())
                })
            })
            .collect();
        starters.into_iter().try_for_each(|s| s.join().map_err(|_| anyhow::anyhow!("a starter failed"))?)
    })
}

fn pids(product: &Product) -> Result<BTreeMap<String, u64>> {
    Ok(running(&product.call(["list", "--json"]).json()))
}

fn running(listed: &Value) -> BTreeMap<String, u64> {
    let empty = Vec::new();
    let all = listed["processes"].as_array().unwrap_or(&empty);
    all.iter()
        .filter(|p| p["phase"] == "running")
        .filter_map(|p| Some((p["session_id"].as_str()?.to_owned(), p["pid"].as_u64()?)))
        .collect()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(1e-9)
}
