//! `cargo xtask campaign flood`: a minute of nothing but matches. Three matches are reported, then that reports stop, then the end. No file and no memory grows.

use super::faults;
use crate::Flags;
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::Product;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How much a process of ours may grow from the first third of the time to the last.
const GROWTH: u64 = 2 << 10;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let seconds = flags.get("--seconds")?.unwrap_or(60_u64);
    let product = Product::new(super::program(flags)?);
    let id = product.run_with(&["--notify", "--watch", "needle", "--session", "flood"], &format!("timeout {seconds} yes needle; exit 0"));
    let engine = faults::engine(&product).context("no engine")?;
    let keepers = product.meta(&id);
    let ours = [("engine", engine), ("pump", keepers.pump), ("holder", keepers.holder)];
    let mut samples: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    let began = Instant::now();
    while product.json(["poll", &id])["status"] == "running" {
        for (name, pid) in ours {
            samples.entry(name).or_default().push(private(pid)?);
        }
        ensure!(began.elapsed() < Duration::from_secs(seconds * 2 + 30), "it does not end");
        std::thread::sleep(Duration::from_millis(500));
    }
    let told = product.json(["events", "history", "--process", &id, "--limit", "1000"]);
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for one in told["notices"].as_array().into_iter().flatten() {
        *kinds.entry(one["event"]["type"].as_str().unwrap_or("?").to_owned()).or_default() += 1;
    }
    let bytes = product.json(["poll", &id])["output_bytes"].as_u64().unwrap_or(0);
    println!("campaign flood: {seconds} s of `yes`, {:.1} GB, every line a match", bytes as f64 / 1e9);
    for (name, all) in &samples {
        let third = (all.len() / 3).max(1);
        let most = |part: &[u64]| part.iter().max().copied().unwrap_or(0);
        let (early, late) = (most(&all[..third.min(all.len())]), most(&all[all.len() - third..]));
        println!("  {name:<7} private memory: most {early} KiB in the first third, {late} KiB in the last");
        ensure!(late <= early + GROWTH, "the {name} grew");
    }
    println!("  told: {kinds:?}");
    let wanted = BTreeMap::from([("completion".to_owned(), 1), ("watch_disabled".to_owned(), 1), ("watch_match".to_owned(), 3)]);
    ensure!(kinds == wanted, "{wanted:?} was to be told");
    let drained = product.json(["events", "drain", "--session", "flood"]);
    let events = drained["events"].as_array().map_or(0, Vec::len);
    ensure!(events == 5, "{events} were drained: {}", short(&drained));
    Ok(())
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(400).collect()
}

/// Private memory of a process, in KiB.
fn private(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let of = |line: &str| line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    Ok(text.lines().filter(|l| l.starts_with("Private_")).map(of).sum())
}
