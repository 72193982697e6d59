//! `cargo xtask campaign stop`: stops hostile process trees. Each must be gone within its grace and a second, and no other process harmed.

use super::report::Report;
use crate::Flags;
use crate::rng::Rng;
use anyhow::{Context, Result, bail, ensure};
use outlast_store::meta::Snapshot;
use outlast_testkit::product::{Product, eventually, kill_and_wait};
use outlast_testkit::trees::{self, Tree, alive_in};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a stop may take beyond its grace.
const BEYOND: Duration = Duration::from_secs(1);

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let rounds = flags.get("--rounds")?.unwrap_or(200_u64);
    let seed = flags.get("--seed")?.unwrap_or(1_u64);
    let program = super::program(flags)?;
    let report = Report::default();
    let began = Instant::now();
    for wanted in [true, false] {
        let product = Product::new(&program);
        if !wanted {
            product.configure("[engine]\ncgroup = false\n");
        }
        // A container may have no writable cgroup.
        let leaf = wanted && has_leaf(&product)?;
        if wanted && !leaf {
            println!("skipped: stops with a leaf: no cgroup leaf can be made here");
            product.shut_down()?;
            continue;
        }
        for round in 0..rounds {
            let what = if leaf { "with a leaf" } else { "without a leaf" };
            match stop_one(&product, leaf, &mut Rng::new(seed, round), round) {
                Ok(tree) => {
                    report.add(format!("stopped {what}"), 1);
                    report.add(format!("stopped {what}: {}", tree.name), 1);
                }
                Err(e) => report.bad(format!("round {round} {what}: {e:#}")),
            }
        }
        if let Err(e) = product.shut_down() {
            report.bad(format!("left over at the end: {e:#}"));
        }
    }
    println!(
        "campaign stop: seed {seed}, {rounds} rounds with a leaf where there is one, {rounds} without, {:.0} s",
        began.elapsed().as_secs_f64()
    );
    report.print();
    ensure!(report.failures() == 0, "{} stops broke the promise", report.failures());
    Ok(())
}

/// Whether commands get a cgroup leaf here.
fn has_leaf(product: &Product) -> Result<bool> {
    let started = product.json(["run", "--", "true"]);
    let id = started["session_id"].as_str().with_context(|| format!("run answered {started}"))?;
    let has_leaf = Snapshot::read(&product.folder(id))?.has(outlast_store::meta::flag::LEAF);
    product.wait(id);
    Ok(has_leaf)
}

fn stop_one(product: &Product, leaf: bool, rng: &mut Rng, round: u64) -> Result<Tree> {
    let trees = trees::all();
    let tree = trees[round as usize % trees.len()];
    let grace = *rng.pick(&[0_u64, 200, 500]);
    let dir = product.work().join(format!("tree-{round}"));
    std::fs::create_dir(&dir)?;
    let bystander = Bystander::new()?;
    let started = product.json(["run", "--cwd", &dir.display().to_string(), "--", tree.line]);
    let id = started["session_id"].as_str().with_context(|| format!("run answered {started}"))?.to_owned();
    eventually("the tree stands", || dir.join("ready").exists().then_some(()));
    let meta = Snapshot::read(&product.folder(&id))?;
    ensure!(meta.has(outlast_store::meta::flag::LEAF) == leaf, "the leaf is not as it should be");
    // Some stops come while one keeper has just died.
    match rng.below(4) {
        0 => kill_and_wait(meta.pump)?,
        1 if leaf => kill_and_wait(meta.holder)?,
        _ => {}
    }
    let began = Instant::now();
    let killed = product.json(["kill", &id, "--grace", &format!("{}", grace as f64 / 1000.0)]);
    let took = began.elapsed();
    ensure!(killed["status"] == "killed", "{}: kill answered {killed}", tree.name);
    let left = alive_in(&dir);
    ensure!(left.is_empty(), "{}: left alive: {left:?}", tree.name);
    ensure!(took <= Duration::from_millis(grace) + BEYOND, "{}: took {took:?} with a grace of {grace} ms", tree.name);
    bystander.lives()?;
    Ok(tree)
}

/// A process that must not be harmed.
struct Bystander(Child);

impl Bystander {
    fn new() -> Result<Self> {
        Ok(Self(Command::new("/bin/sleep").arg("1000").stdin(Stdio::null()).spawn()?))
    }

    fn lives(mut self) -> Result<()> {
        match self.0.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("a bystander was harmed: {status}"),
        }
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        // Harmed already: then there is nothing to end.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}
