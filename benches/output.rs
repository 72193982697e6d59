//! `cargo xtask bench output`: how fast output is taken, what that costs, and whether it is all there.

mod data;
mod kept;

use super::harness::{Bench, Figure, Goal, Line, Of, Ours, Unit, Who, proc};
use super::limits;
use super::peers::{Dotfiles, Hermes};
use anyhow::{Context, Result, ensure};
use data::Data;
use outlast_client::Spec;
use outlast_testkit::product::PATIENCE;
use std::time::{Duration, Instant};

const fn speed(what: &'static str) -> Figure {
    Figure::new("output", what, Who::Ours, Unit::BytesPerSecond)
}

const fn cost(what: &'static str) -> Figure {
    Figure::new("output", what, Who::Ours, Unit::SecondsPerGb)
}

const DISK: Figure = Figure::new("output", "disk of 1 GB of output, at most", Who::Ours, Unit::Bytes);
const MEMORY: Figure = Figure::new("output", "memory of the pump, at most", Who::Ours, Unit::Bytes);
const WRONG: Figure = Figure::new("output", "bytes within retention missing or changed", Who::Ours, Unit::Count);
const PTY: Figure = speed("`yes` on a terminal");

/// What is kept of a log by default: a head, and a tail in segments of which one is being written.
const RETAINED: f64 = (1 + 64 + 4) as f64 * 1048576.0;
/// How often it is looked how far the log goes.
const LOOK: Duration = Duration::from_millis(2);
/// None of them is in any of the outputs, and the outputs have words that begin like them.
const PATTERNS: [&str; 10] = [
    "ERROR: bench-0",
    "FATAL bench-1",
    "panicked at 'bench-2",
    "Traceback (bench-3",
    "segmentation fault bench-4",
    "listening on port bench-5",
    "Build succeeded bench-6",
    "tests failed bench-7",
    "worker died bench-8",
    "yes, bench-9",
];

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let bytes = bench.settings.size(1_000_000_000, 150_000_000) as u64;
    let free = rustix::fs::statvfs(&bench.settings.disk)?;
    ensure!(free.f_bavail * free.f_frsize > 3 * bytes, "there is too little room in {}", bench.settings.disk.display());
    let all = data::all(&bench.settings)?;
    let home = Ours::new(&bench.settings, "", &[])?;
    let mut line = Line::new(&home, "bench:output")?;
    let hermes = Hermes::ready(bench);
    bench.rounds(|bench| {
        for data in &all {
            let command = data.command(bytes);
            bench.take_some(&[speed(data.plain).of(Who::Limit), cost(data.cost).of(Who::Limit)], || {
                limits::capture(&home.product.work(), &command, bytes).map(|(speed, cost)| vec![vec![speed], vec![cost]])
            })?;
            bench.take_some(&[speed(data.plain), cost(data.cost), WRONG, DISK, MEMORY], || {
                taken(&mut line, &home, data, bytes, |line| Spec::shell(line))
            })?;
            if !data.is_watched {
                continue;
            }
            let figures = [speed(data.watched), cost(data.watched_cost), WRONG, DISK, MEMORY];
            bench.take_some(&figures, || taken(&mut line, &home, data, bytes, watched))?;
            if let Some(hermes) = &hermes {
                by_reference(bench, hermes, data)?;
            }
        }
        let pty = |line: &str| Spec::shell(line).on_terminal();
        bench.take(PTY, || Ok(taken(&mut line, &home, &all[0], bytes / 20, pty)?.swap_remove(0)))
    })?;
    for goal in goals(&all) {
        bench.goal(goal)?;
    }
    Ok(())
}

fn goals(all: &[Data]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for data in all.iter().filter(|data| data.is_watched) {
        let (plain, watched) = (speed(data.plain), speed(data.watched));
        let (name, more) = (data.name, data.times_reference);
        goals.push(Goal::at_least(format!("{name} / the capture limit"), Of::Ratio(plain, vec![plain.of(Who::Limit)]), 0.9));
        goals.push(Goal::at_most(format!("{name}, processor time"), Of::Value(cost(data.cost)), 1.5));
        goals.push(Goal::at_least(format!("{name}, ten patterns / reference"), Of::Ratio(watched, vec![watched.of(Who::Hermes)]), more));
        goals.push(Goal::at_least(format!("{name}, ten patterns / none"), Of::Ratio(watched, vec![plain]), 0.8));
    }
    goals.push(Goal::at_most("bytes within retention missing or changed", Of::Sum(WRONG), 0.0));
    goals.push(Goal::at_most("disk of 1 GB of output, at most", Of::Worst(DISK), RETAINED * 1.1));
    goals.push(Goal::at_most("memory of the pump, at most", Of::Worst(MEMORY), 8.0 * 1048576.0));
    goals
}

fn watched(line: &str) -> Spec {
    let mut spec = Spec::shell(line);
    spec.tell.watch = PATTERNS.map(str::to_owned).to_vec();
    spec
}

/// Has Outlast take so much: bytes a second, processor time for a gigabyte of everything of ours, how many bytes are not as they were printed, disk, memory.
fn taken(line: &mut Line, ours: &Ours, data: &Data, bytes: u64, spec: impl Fn(&str) -> Spec) -> Result<Vec<Vec<f64>>> {
    // It stays until it has been looked at.
    let gate = ours.product.work().join("gate");
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0)?;
    let mut spec = spec(&format!("{}; read -r _ < {}", data.command(bytes), gate.display()));
    spec.tell.completion = false;
    let on_terminal = spec.pty;
    let engine = ours.product.engine();
    let before = proc::spent(engine)?;
    let began = Instant::now();
    let process = line.runtime.block_on(line.client.run(ours.run(spec)))?;
    let id = process.id().to_string();
    // A terminal ends its lines with one byte more.
    let expected = if on_terminal { bytes + bytes / 2 } else { bytes };
    let (meta, folder) = (ours.product.meta(&id), ours.product.folder(&id));
    let (mut disk, mut looks) = (0, 0_usize);
    while ours.product.meta(&id).commit.base < expected {
        ensure!(began.elapsed() < PATIENCE * 5, "it stops at {} bytes", ours.product.meta(&id).commit.base);
        // The mapping tells of no change, and looking takes time from what is measured.
        std::thread::sleep(LOOK);
        looks += 1;
        if looks.is_multiple_of(50) {
            disk = disk.max(folder.disk_bytes().unwrap_or(0));
        }
    }
    let took = began.elapsed().as_secs_f64();
    disk = disk.max(folder.disk_bytes()?);
    let cost = proc::spent(engine)? - before + proc::spent(meta.pump)? + proc::spent(meta.holder)?;
    let memory = proc::status_bytes(meta.pump, "VmHWM")?;
    drop(std::fs::OpenOptions::new().write(true).open(&gate)?);
    std::fs::remove_file(&gate)?;
    let ended = line.runtime.block_on(process.wait(None))?;
    // At the end of its input, `read` has read nothing.
    ensure!(ended.fate.exit_code == Some(Some(1)), "it ended with {:?}", ended.fate.exit_code);
    let wrong = if on_terminal { 0 } else { line.runtime.block_on(kept::wrong(&line.client, &id, &data.unit, bytes))? };
    line.runtime.block_on(process.remove()).context("it cannot be removed")?;
    let cost = cost / (expected as f64 / 1e9);
    Ok([expected as f64 / took, cost, wrong as f64, disk as f64, memory].map(|value| vec![value]).to_vec())
}

/// What the reference does of the same, on less: it is as fast on more.
fn by_reference(bench: &mut Bench, hermes: &Hermes, data: &Data) -> Result<()> {
    let plain = bench.settings.size(250_000_000, 20_000_000);
    let some = bench.settings.size(data.reference_bytes, 5_000_000);
    for (bytes, patterns, figures) in
        [(plain, &[][..], [speed(data.plain), cost(data.cost)]), (some, &PATTERNS[..], [speed(data.watched), cost(data.watched_cost)])]
    {
        let (size, command) = (bytes.to_string(), data.command(bytes as u64));
        let args: Vec<&str> = ["output", &size, &command].into_iter().chain(patterns.iter().copied()).collect();
        let figures = figures.map(|figure| figure.of(Who::Hermes));
        bench.take_some(&figures, || hermes.ask(Dotfiles::Clean, &args, &["rate", "processor"]))?;
    }
    Ok(())
}
