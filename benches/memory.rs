//! `cargo xtask bench memory`: the memory of running and finished commands, and whether it grows.

use super::harness::{Bench, Figure, Goal, Of, Ours, Unit, Who, proc};
use super::peers::{Dotfiles, Hermes};
use super::rate::through;
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::PATIENCE;
use std::time::Instant;

const fn bytes(what: &'static str) -> Figure {
    Figure::new("memory", what, Who::Ours, Unit::Bytes)
}

const fn count(what: &'static str) -> Figure {
    Figure::new("memory", what, Who::Ours, Unit::Count)
}

const fn part(what: &'static str) -> Figure {
    Figure::new("memory", what, Who::Ours, Unit::Part)
}

const PRIVATE: Figure = bytes("holder and pump: private to one of the two");
const PAIR: Figure = bytes("holder and pump: with what only the two share");
const PSS: Figure = bytes("holder and pump: with their part of the program");
const ENGINE: Figure = bytes("manager, 1,000 running");
const THREADS: Figure = count("threads of the manager, 1,000 running");
const FINISHED: Figure = bytes("manager, 10,000 finished");
const GROWN_MEMORY: Figure = bytes("engine, every 10,000 of 50,000 short ones");
const GROWN_FDS: Figure = count("descriptors, every 10,000 of 50,000 short ones");
const GROWN_INODES: Figure = count("inodes of the home, every 10,000 of 50,000 short ones");
const GROWTH: [Figure; 3] = [GROWN_MEMORY, GROWN_FDS, GROWN_INODES];
/// The figures with a plot of their own.
pub(crate) const LINES: [Figure; 2] = [GROWN_MEMORY, GROWN_INODES];
/// The last step in relation to the first.
const BY: [Figure; 3] =
    [part("engine's memory, last / first"), part("descriptors, last / first"), part("inodes of the home, last / first")];

/// How many short commands run between two measurements, and how many measurements there are.
const STEP: usize = 10_000;
const STEPS: usize = 5;
/// Less disk than the first step takes, so that from then on as many commands are removed as are added.
const RETAIN: &str = "[retention]\nbytes = \"64MiB\"\n";

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let (many, step) = (bench.settings.size(1000, 30), bench.settings.size(STEP, 200));
    let (hermes, settings) = (Hermes::ready(bench), bench.settings.clone());
    bench.rounds(|bench| {
        bench.take_some(&[PRIVATE, PAIR, PSS, ENGINE, THREADS], || running(&Ours::new(&settings, &limits(many), &[])?, many))?;
        if let Some(hermes) = &hermes {
            let figures = [ENGINE, THREADS].map(|figure| figure.of(Who::Hermes));
            bench.take_some(&figures, || hermes.ask(Dotfiles::Clean, &["memory", &many.to_string()], &["memory", "threads"]))?;
        }
        Ok(())
    })?;
    bench.say(&format!("{step} short ones"));
    bench.once(&[FINISHED], || {
        let home = Ours::new(&settings, "", &[])?;
        through(&home, step)?;
        Ok(vec![vec![proc::status_bytes(home.product.engine(), "VmRSS")?]])
    })?;
    bench.say(&format!("{STEPS} times {step} short ones"));
    let grown = growth(bench, step)?;
    bench.once(&GROWTH, || Ok(grown.clone()))?;
    bench.once(&BY, || Ok(grown.iter().map(|values| vec![values[values.len() - 1] / values[0]]).collect()))?;
    for goal in goals(&settings.program) {
        bench.goal(goal)?;
    }
    Ok(())
}

fn limits(many: usize) -> String {
    format!("[limits]\nmax_running = {}\n", many + 10)
}

fn goals(program: &std::path::Path) -> Vec<Goal> {
    // The other C library names itself, in a static program by its tunables and in a dynamic one by its versions.
    let names_itself = |bytes: &[u8]| bytes.windows(6).any(|w| w.eq_ignore_ascii_case(b"glibc.") || w == b"GLIBC_");
    let of_musl = std::fs::read(program.with_file_name("outlast-keeper")).is_ok_and(|bytes| !names_itself(&bytes));
    let (pair, what) =
        if of_musl { (100.0, "holder and pump, private to them (musl)") } else { (160.0, "holder and pump, private to them") };
    vec![
        Goal::at_most(what, Of::Value(PAIR), pair * 1024.0),
        Goal::at_most("engine, 1,000 running", Of::Value(ENGINE), 32.0 * 1048576.0),
        Goal::at_most("threads of the engine, 1,000 running", Of::Value(THREADS), 8.0),
        Goal::at_most("engine, 10,000 finished", Of::Value(FINISHED), 64.0 * 1048576.0),
        Goal::at_most("engine's memory over 50,000 short ones, last / first", Of::Value(BY[0]), 1.05),
        Goal::at_most("descriptors over 50,000 short ones, last / first", Of::Value(BY[1]), 1.05),
        Goal::at_most("inodes over 50,000 short ones, last / first", Of::Value(BY[2]), 1.05),
    ]
}

/// The memory of this many sleeping processes: three measures of the two keepers of each, the engine, and its threads.
fn running(ours: &Ours, many: usize) -> Result<Vec<Vec<f64>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { ours.start_sleepers(&ours.client("bench:memory").await?, many).await })?;
    let (mut private, mut pair, mut pss) = (Vec::new(), Vec::new(), Vec::new());
    for id in ours.product.home().ids()? {
        let meta = ours.product.meta(&id.to_string());
        let both = |name: &str| -> Result<f64> { Ok(proc::mapped_bytes(meta.pump, name)? + proc::mapped_bytes(meta.holder, name)?) };
        private.push(both("Private_Clean")? + both("Private_Dirty")?);
        pair.push(both("Pss_Anon")?);
        pss.push(both("Pss")?);
    }
    ensure!(pair.len() == many, "{} of {many} run", pair.len());
    let engine = ours.product.engine();
    Ok(vec![private, pair, pss, vec![proc::status_bytes(engine, "VmRSS")?], vec![proc::threads(engine)? as f64]])
}

/// The memory, descriptors and inodes of an engine after the first few thousand short commands, and after each further step.
fn growth(bench: &Bench, step: usize) -> Result<Vec<Vec<f64>>> {
    let retain = if bench.settings.quick { RETAIN.replace("64MiB", "1MiB") } else { RETAIN.to_owned() };
    let home = Ours::new(&bench.settings, &retain, &[])?;
    let mut found = vec![Vec::new(); GROWTH.len()];
    for _ in 0..=STEPS {
        through(&home, step)?;
        let engine = home.product.engine();
        let began = Instant::now();
        // Removal takes a moment. The figures are read after it.
        let (inodes, fds) = loop {
            let before = (proc::below(&home.product.home().root).0, proc::descriptors(engine)?);
            std::thread::sleep(std::time::Duration::from_millis(500));
            let after = (proc::below(&home.product.home().root).0, proc::descriptors(engine)?);
            if before == after {
                break after;
            }
            ensure!(began.elapsed() < PATIENCE, "the home does not come to rest");
        };
        for (values, value) in found.iter_mut().zip([proc::status_bytes(engine, "VmRSS")?, fds as f64, inodes as f64]) {
            values.push(value);
        }
    }
    ensure!(found[2].last().context("a look")? / (step as f64) < (STEPS + 1) as f64, "nothing was removed");
    Ok(found)
}
