//! `cargo xtask bench queries`: how soon requests are answered.

use super::harness::{Bench, Figure, Goal, Line, Of, Ours, Unit, Who};
use super::limits;
use super::peers::{Dotfiles, Hermes};
use anyhow::{Context, Result, ensure};
use outlast_client::{Kill, Page, ProcessInfo, Scope, Spec};
use outlast_testkit::product::{PATIENCE, eventually, kill_and_wait};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The time between two checks whether all have printed.
const LOOK: Duration = Duration::from_millis(50);

const fn ours(what: &'static str) -> Figure {
    Figure::new("queries", what, Who::Ours, Unit::Seconds)
}

const POLL: Figure = ours("poll, 1,000 running");
const LIST: Figure = ours("list of 1,000 running");
const TAIL: Figure = ours("last 200 lines of a 64 MiB log");
const ATTACH: Figure = ours("engine killed, 1,000 running, to a truthful list");
const STOP: Figure = ours("stop of a tree of four");
const VERSION: Figure = ours("command line: --version");
const CLI: Figure = ours("command line: poll");
const CLI_RUN: Figure = ours("command line: run");
const TRIP: Figure = ours("64 bytes over a socket and back").of(Who::Limit);

/// A line of a server.
const LOGGED: &str = "request handled by worker 7 in 12 ms with status 200 and nothing else to say about it, as ever";
/// How many of these lines a process prints first: more than any preview shows.
const LINES: usize = 12;
/// A shell, two children, and a child that has left its session.
const TREE: &str = "sleep 1000 & setsid sleep 1000 & sleep 1000 & wait";

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let n = bench.settings.size(200, 20);
    let many = bench.settings.size(1000, 50);
    let home = Ours::new(&bench.settings, &format!("[limits]\nmax_running = {}\n", many + 20), &[])?;
    let mut line = Line::new(&home, "bench:queries")?;
    let log = long_log(&mut line, &home, bench.settings.size(64 << 20, 4 << 20))?;
    bench.say(&format!("{many} sleepers"));
    let sleeper = format!("for n in $(seq {LINES}); do echo '{LOGGED}'; done; exec sleep 100000");
    let some = sleepers(&line, &home, &sleeper, many)?;
    let mut echo = limits::Echo::new()?;
    let hermes = Hermes::ready(bench);
    bench.rounds(|bench| {
        bench.take(TRIP, || echo.trips(n * 10))?;
        bench.take(POLL, || polls(&line, &some, n * 5))?;
        bench.take(LIST, || lists(&line, many, n / 4))?;
        bench.take(TAIL, || tails(&line, &log, n))?;
        bench.take(STOP, || stops(&line, &home, n / 10))?;
        bench.take(VERSION, || calls(&home, &["--version"], n / 4))?;
        bench.take(CLI, || calls(&home, &["poll", &some], n / 4))?;
        bench.take(CLI_RUN, || calls(&home, &["run", "--", "/bin/true", "now"], n / 4))?;
        bench.take(ATTACH, || Ok(vec![attach(&home, many)?]))?;
        if let Some(hermes) = &hermes {
            let (many, n, stops) = (many.to_string(), n.to_string(), (n / 10).to_string());
            bench.take_some(&[LIST, POLL, TAIL].map(|figure| figure.of(Who::Hermes)), || {
                hermes.ask(Dotfiles::Clean, &["queries", &many, &n, &sleeper, LOGGED], &["list", "poll", "tail"])
            })?;
            bench.take(STOP.of(Who::Hermes), || Ok(hermes.ask(Dotfiles::Clean, &["stops", &stops], &["stop"])?.remove(0)))?;
        }
        Ok(())
    })?;
    drop(line);
    for goal in goals() {
        bench.goal(goal)?;
    }
    Ok(())
}

fn goals() -> Vec<Goal> {
    let reference = |figure: Figure| Of::Ratio(figure, vec![figure.of(Who::Hermes)]);
    vec![
        Goal::at_most("poll / socket trip", Of::Ratio(POLL, vec![TRIP]), 2.0),
        Goal::at_most("list of 1,000 / reference, in process", reference(LIST), 1.0),
        Goal::at_most("last 200 lines of a 64 MiB log / reference, of 200 KB in process", reference(TAIL), 0.3),
        Goal::at_most("engine killed, 1,000 running, to a truthful list", Of::Value(ATTACH), 0.150),
        Goal::at_most("stop of a tree / reference", reference(STOP), 0.1),
        Goal::at_most("command line: poll, start to end", Of::Value(CLI), 0.005),
    ]
}

/// Makes a log of this many bytes, which is kept whole, and returns the id of its process.
fn long_log(line: &mut Line, ours: &Ours, bytes: usize) -> Result<String> {
    let command = format!("yes '{LOGGED}' | head -c {bytes}");
    line.runtime.block_on(async {
        let process = line.client.run(ours.run(Spec::shell(command.as_str()))).await?;
        let ended = process.wait(None).await?;
        ensure!(ended.fate.exit_code == Some(Some(0)), "it ended with {:?}", ended.fate.exit_code);
        Ok(process.id().to_string())
    })
}

/// Starts this many processes that print a few lines and sleep, waits until all have printed, and returns the id of one.
fn sleepers(line: &Line, ours: &Ours, command: &str, many: usize) -> Result<String> {
    let printed = (LINES * (LOGGED.len() + 1)) as u64;
    line.runtime.block_on(async {
        ours.start_many(&line.client, &Spec::shell(command), many).await?;
        let began = Instant::now();
        loop {
            let all = line.client.list(&Scope::default(), false).await?;
            let silent = all.iter().filter(|p| p.output_bytes < printed).count();
            if silent == 0 {
                return Ok(all.first().context("something runs")?.session_id.to_string());
            }
            ensure!(began.elapsed() < PATIENCE, "{silent} of {many} print nothing");
            // No event reports output without a watch pattern.
            tokio::time::sleep(LOOK).await;
        }
    })
}

fn has_preview(info: &ProcessInfo) -> bool {
    info.output_preview.as_ref().is_some_and(|text| text.contains("as ever"))
}

fn polls(line: &Line, id: &str, many: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    line.runtime.block_on(async {
        for _ in 0..many {
            let began = Instant::now();
            let info = line.client.poll(id).await?;
            times.push(began.elapsed().as_secs_f64());
            ensure!(info.phase == "running", "it is {}", info.phase);
            ensure!(has_preview(&info), "its output is not shown: {:?}", info.output_preview);
        }
        Ok(times)
    })
}

fn lists(line: &Line, running: usize, many: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    line.runtime.block_on(async {
        for _ in 0..many {
            let began = Instant::now();
            let all = line.client.list(&Scope::default(), false).await?;
            times.push(began.elapsed().as_secs_f64());
            let shown = all.iter().filter(|info| has_preview(info)).count();
            ensure!(all.len() == running && shown == running, "{} of {running} are listed, {shown} with output", all.len());
        }
        Ok(times)
    })
}

fn tails(line: &Line, id: &str, many: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    line.runtime.block_on(async {
        for _ in 0..many {
            let began = Instant::now();
            let page = line.client.log(id, Page::last(200)).await?;
            times.push(began.elapsed().as_secs_f64());
            ensure!(page.output.lines().count() == 200, "{} lines came", page.output.lines().count());
        }
        Ok(times)
    })
}

fn stops(line: &Line, ours: &Ours, many: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    line.runtime.block_on(async {
        for _ in 0..many {
            let mut run = ours.run(Spec::shell(TREE));
            run.spec.tell.completion = false;
            let process = line.client.run(run).await?;
            // Wait until the shell has started all of them.
            let pid = process.poll().await?.pid.context("it runs")?;
            let tree = eventually("the whole tree", || Some(children(pid)).filter(|tree| tree.len() == 3));
            let began = Instant::now();
            let killed = process.kill(Kill::default()).await?;
            times.push(began.elapsed().as_secs_f64());
            ensure!(killed.status == "killed", "it is {}", killed.status);
            ensure!(!tree.iter().any(|pid| is_alive(*pid)), "some of the tree live on");
        }
        Ok(times)
    })
}

/// The children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Whether a process is alive and not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// How long a call of the program takes, from its start to its end.
fn calls(ours: &Ours, args: &[&str], many: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..many {
        let mut call = ours.product.command(args);
        let began = Instant::now();
        let done = call.output()?;
        times.push(began.elapsed().as_secs_f64());
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(times)
}

/// Kills the engine, and measures the time until the next one has answered with the whole list.
fn attach(ours: &Ours, running: usize) -> Result<f64> {
    kill_and_wait(ours.product.engine())?;
    let began = Instant::now();
    let answer = ours.product.call(["list", "--json"]);
    let took = began.elapsed().as_secs_f64();
    let list = answer.json();
    let is_told = |p: &Value| p["phase"] == "running" && p["output_preview"].as_str().is_some_and(|text| !text.is_empty());
    let alive = list["processes"].as_array().map_or(0, |all| all.iter().filter(|p| is_told(p)).count());
    ensure!(alive == running, "{alive} of {running} are listed as running, with output");
    Ok(took)
}
