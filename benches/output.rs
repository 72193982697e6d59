//! `cargo xtask bench output`: how fast output is captured, what that costs, and whether it is complete.

mod data;
mod kept;

use super::harness::{Bench, Figure, Goal, Line, Of, Ours, Unit, Who, proc};
use super::limits;
use super::peers::{Dotfiles, Hermes};
use anyhow::{Context, Result, ensure};
use data::Data;
use outlast_client::{Body, Spec};
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

/// What is kept of a log by default: a head, and a tail in segments, of which one is being written.
const RETAINED: f64 = (1 + 64 + 4) as f64 * 1048576.0;
/// The time between two checks of the log's length.
const LOOK: Duration = Duration::from_millis(2);
/// Patterns that no data contain, although the data have words that begin like them.
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

/// What is printed behind the data, so that its last byte is known and one pattern is there to be found. It is there twice: the reference looks at pieces of 4,096
/// bytes, each for itself, and does not see what is cut by the end of one.
const LAST: &str = "\nyes, bench-9\nyes, bench-9\n";

/// How an output was captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Plain,
    Watched,
    OnTerminal,
}

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
                taken(&mut line, &home, data, bytes, How::Plain)
            })?;
            if !data.is_watched {
                continue;
            }
            let figures = [speed(data.watched), cost(data.watched_cost), WRONG, DISK, MEMORY];
            bench.take_some(&figures, || taken(&mut line, &home, data, bytes, How::Watched))?;
            if let Some(hermes) = &hermes {
                by_reference(bench, hermes, data)?;
            }
        }
        bench.take(PTY, || Ok(taken(&mut line, &home, &all[0], bytes / 20, How::OnTerminal)?.swap_remove(0)))
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

/// A shell line that prints this many bytes of the data, and then more.
fn printing(data: &Data, bytes: u64) -> String {
    format!("{}; printf '{}'", data.command(bytes), LAST.escape_default())
}

/// Lets Outlast capture this much. Returns bytes per second, the processor time of all our processes for a gigabyte, the number of wrong
/// bytes, disk and memory.
fn taken(line: &mut Line, ours: &Ours, data: &Data, bytes: u64, how: How) -> Result<Vec<Vec<f64>>> {
    // The process stays until its log was compared.
    let gate = ours.product.work().join("gate");
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0)?;
    let mut run = ours.run(Spec::shell(format!("{}; read -r _ < {}", printing(data, bytes), gate.display()).as_str()));
    run.spec.tell.completion = false;
    let printed = bytes + LAST.len() as u64;
    let expected = match how {
        How::Plain => printed,
        How::Watched => {
            run.spec.tell.watch = PATTERNS.map(str::to_owned).to_vec();
            printed
        }
        How::OnTerminal => {
            run.spec = run.spec.on_terminal();
            // On a terminal a line end has one more byte.
            printed + bytes / 2 + LAST.lines().count() as u64
        }
    };
    let engine = ours.product.engine();
    let before = proc::spent(engine)?;
    let began = Instant::now();
    let process = line.runtime.block_on(line.client.run(run))?;
    let id = process.id().to_string();
    let (meta, folder) = (ours.product.meta(&id), ours.product.folder(&id));
    let (mut disk, mut looks) = (0, 0_usize);
    while ours.product.meta(&id).commit.base < expected {
        ensure!(began.elapsed() < PATIENCE * 5, "it stops at {} bytes", ours.product.meta(&id).commit.base);
        // The mapping does not report changes, and polling takes time from the measured program.
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
    if how == How::Watched {
        matched(line, &id)?;
    }
    let wrong = match how {
        How::Plain | How::Watched => line.runtime.block_on(kept::wrong(&line.client, &id, &data.unit, bytes, LAST.as_bytes()))?,
        How::OnTerminal => 0,
    };
    line.runtime.block_on(process.remove()).context("it cannot be removed")?;
    let cost = cost / (expected as f64 / 1e9);
    Ok([expected as f64 / took, cost, wrong as f64, disk as f64, memory].map(|value| vec![value]).to_vec())
}

/// Checks that the one match became a notice.
fn matched(line: &mut Line, id: &str) -> Result<()> {
    let told = line.runtime.block_on(async { tokio::time::timeout(PATIENCE, line.events.next()).await }).context("no match was told")??;
    let Body::WatchMatch(seen) = &told.event.body else { anyhow::bail!("{} was told", told.event.kind()) };
    ensure!(told.event.session_id == id && LAST.contains(&seen.pattern), "{:?} of {} was told", seen.pattern, told.event.session_id);
    Ok(())
}

/// The same for the reference, with less output, which fills its buffer as well.
fn by_reference(bench: &mut Bench, hermes: &Hermes, data: &Data) -> Result<()> {
    let plain = bench.settings.size(250_000_000, 20_000_000);
    let some = bench.settings.size(data.reference_bytes, 5_000_000);
    for (bytes, patterns, figures) in
        [(plain, &[][..], [speed(data.plain), cost(data.cost)]), (some, &PATTERNS[..], [speed(data.watched), cost(data.watched_cost)])]
    {
        let (size, command) = ((bytes + LAST.len()).to_string(), printing(data, bytes as u64));
        let args: Vec<&str> = ["output", &size, LAST, &command].into_iter().chain(patterns.iter().copied()).collect();
        let figures = figures.map(|figure| figure.of(Who::Hermes));
        bench.take_some(&figures, || hermes.ask(Dotfiles::Clean, &args, &["rate", "processor"]))?;
    }
    Ok(())
}
