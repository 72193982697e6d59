//! `cargo xtask bench rate`: how many commands a second can run, and whether the end of each is delivered.

use super::harness::{Bench, Figure, Goal, Of, Ours, PATIENCE, Unit, Who};
use super::limits;
use super::peers::{self, Dotfiles, Hermes, Pueue, Spooler};
use anyhow::{Context, Result, ensure};
use outlast_client::{Client, Run, Spec};
use std::collections::BTreeSet;
use std::time::Instant;
use tokio::runtime::Runtime;

const fn ours(what: &'static str) -> Figure {
    Figure::new("rate", what, Who::Ours, Unit::PerSecond)
}

const BASH: Figure = ours("500 `bash -c` of 500 callers");
const SHELL: Figure = ours("500 shell lines of 500 callers");
const BURST: Figure = ours("500 `bash -c` in one loop").of(Who::Limit);
const LOST: Figure = Figure::new("rate", "events lost", Who::Ours, Unit::Count);
const FIRST: Figure = ours("1,000 programs, 8 connections, the first thousand");
const SECOND: Figure = ours("1,000 programs, 8 connections, the second thousand");
const CLI: Figure = ours("1,000 programs, a call for each, 8 at a time");

/// How often 500 commands at once are tried, in all rounds together.
const BURSTS: usize = 20;
/// How many commands run at once in the steady measurement.
const WIDE: usize = 8;

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let (callers, thousand) = (bench.settings.size(500, 50), bench.settings.size(1000, 100));
    let burst = Burst::new(bench, callers)?;
    let bash = Spec::argv(["/bin/bash", "-c", "true"]);
    let hermes = Hermes::ready(bench);
    bench.rounds(|bench| {
        bench.take(BURST, || Ok(vec![limits::burst(&["/bin/bash", "-c", "true"], callers)?]))?;
        bench.take_some(&[BASH, LOST], || burst.go(&bash))?;
        bench.take_some(&[SHELL, LOST], || burst.go(&Spec::shell("true")))?;
        // A new home each time, so that every first thousand is the first.
        let fresh = Ours::new(&bench.settings, "", &[])?;
        bench.take_some(&[FIRST, SECOND], || thousands(&fresh, thousand))?;
        drop(fresh);
        let fresh = Ours::new(&bench.settings, "", &[])?;
        bench.take(CLI, || by_calls(&fresh, thousand))?;
        drop(fresh);
        if let Some(hermes) = &hermes {
            let (figures, callers) = ([SHELL.of(Who::Hermes), LOST.of(Who::Hermes)], callers.to_string());
            bench.take_some(&figures, || hermes.ask(Dotfiles::Clean, &["burst", &callers], &["rate", "lost"]))?;
        }
        if let Some(pueue) = Pueue::ready(bench, WIDE) {
            bench.take(CLI.of(Who::Pueue), || by_pueue(&pueue, thousand))?;
        }
        if let Some(spooler) = Spooler::ready(bench, WIDE) {
            bench.take(CLI.of(Who::TaskSpooler), || by_spooler(&spooler, thousand))?;
        }
        Ok(())
    })?;
    let done = bench.board.series(LOST).map_or(0, |series| series.rounds.len());
    for _ in done..bench.settings.size(BURSTS, done) {
        bench.once(&[LOST], || Ok(burst.go(&bash)?.split_off(1)))?;
    }
    drop(burst);
    for goal in goals() {
        bench.goal(goal)?;
    }
    Ok(())
}

fn goals() -> Vec<Goal> {
    let mut goals = vec![
        Goal::at_least("500 `bash -c` of 500 callers / the machine's own burst", Of::Ratio(BASH, vec![BURST]), 0.6),
        Goal::at_least("500 shell lines of 500 callers / reference", Of::Ratio(SHELL, vec![SHELL.of(Who::Hermes)]), 3.0),
        Goal::at_most(format!("events lost in {BURSTS} × 500"), Of::Sum(LOST), 0.0),
        Goal::at_least("the second thousand / the first", Of::Ratio(SECOND, vec![FIRST]), 0.95),
    ];
    // The other programs have only a command line, so ours is also measured through its command line.
    for (who, times) in [(Who::Pueue, 25.0), (Who::TaskSpooler, 1.2)] {
        let what = format!("1,000 programs, 8 wide, over open connections / {}", who.name());
        goals.push(Goal::at_least(what, Of::Ratio(FIRST, vec![CLI.of(who)]), times));
    }
    goals
}

/// Many callers, each with its own connection, and one client that gets the notices.
struct Burst {
    // Declared first, so that the connections are closed before the engine is stopped.
    callers: Vec<Client>,
    runtime: Runtime,
    ours: Ours,
}

impl Burst {
    fn new(bench: &Bench, many: usize) -> Result<Self> {
        let ours = Ours::new(&bench.settings, "", &[])?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut callers = Vec::new();
        for _ in 0..many {
            callers.push(runtime.block_on(ours.client("bench:rate"))?);
        }
        Ok(Self { callers, runtime, ours })
    }

    /// Every caller starts a command at once. Returns how many ends were delivered in a second, and how many were not delivered.
    fn go(&self, spec: &Spec) -> Result<Vec<Vec<f64>>> {
        self.runtime.block_on(async {
            let mut events = self.callers.first().context("a caller")?.follow_notices(None);
            events.ready().await?;
            let runs: Vec<(Client, Run)> = self.callers.iter().map(|c| (c.clone(), self.ours.run(spec.clone()))).collect();
            let mut starting = tokio::task::JoinSet::new();
            let began = Instant::now();
            for (client, run) in runs {
                starting.spawn(async move { client.run(run).await });
            }
            let mut told = BTreeSet::new();
            while told.len() < self.callers.len() {
                let Ok(event) = tokio::time::timeout(PATIENCE, events.next()).await else { break };
                ensure!(told.insert(event?.event.session_id), "one end was told twice");
            }
            let took = began.elapsed().as_secs_f64();
            let mut missing = 0;
            while let Some(started) = starting.join_next().await {
                missing += usize::from(!told.contains(&started??.id().to_string()));
            }
            Ok(vec![vec![told.len() as f64 / took], vec![missing as f64]])
        })
    }
}

/// Runs the same program repeatedly, eight at a time: how many finish in a second.
fn thousands(ours: &Ours, many: usize) -> Result<Vec<Vec<f64>>> {
    Ok(vec![vec![through(ours, many)?], vec![through(ours, many)?]])
}

/// Runs one program this many times, eight at a time, and waits for each: how many finish in a second.
pub(crate) fn through(ours: &Ours, many: usize) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..WIDE {
            clients.push(ours.client("bench:rate").await?);
        }
        let mut going = tokio::task::JoinSet::new();
        let began = Instant::now();
        for (n, client) in clients.into_iter().enumerate() {
            let (run, mine) = (Run::new(Spec::argv(["/bin/true"]), ours.caller()), (n..many).step_by(WIDE).len());
            going.spawn(async move {
                for _ in 0..mine {
                    let ended = client.run(run.clone()).await?.wait(None).await?;
                    ensure!(ended.fate.exit_code == Some(Some(0)), "it ended with {:?}", ended.fate.exit_code);
                }
                Ok(())
            });
        }
        while let Some(done) = going.join_next().await {
            done??;
        }
        Ok(many as f64 / began.elapsed().as_secs_f64())
    })
}

/// The same with a call of our command line for each, which returns when its command has ended.
fn by_calls(ours: &Ours, many: usize) -> Result<Vec<f64>> {
    let began = Instant::now();
    peers::calls(WIDE, many, |_| ours.product.command(["run", "--wait", "--", "/bin/true", "now"]))?;
    Ok(vec![many as f64 / began.elapsed().as_secs_f64()])
}

/// The same with a call of pueue's command line for each: from the first call until all are done.
fn by_pueue(pueue: &Pueue, many: usize) -> Result<Vec<f64>> {
    let began = Instant::now();
    peers::calls(WIDE, many, |_| {
        let mut add = pueue.command();
        add.args(["add", "--", "/bin/true"]);
        add
    })?;
    pueue.until_done(many)?;
    Ok(vec![many as f64 / began.elapsed().as_secs_f64()])
}

/// The same with a call of task-spooler for each.
fn by_spooler(spooler: &Spooler, many: usize) -> Result<Vec<f64>> {
    let began = Instant::now();
    peers::calls(WIDE, many, |_| {
        let mut add = spooler.command(false);
        add.arg("/bin/true");
        add
    })?;
    spooler.until_done(many)?;
    Ok(vec![many as f64 / began.elapsed().as_secs_f64()])
}
