//! `cargo xtask bench crash`: what is left of a hundred jobs after their manager was killed with `-9`, for each manager.

mod job;
mod others;
mod ours;

use super::harness::{Bench, Figure, Goal, Of, Unit, Who};
use super::peers::{Hermes, Pueue, Spooler, Tmux};
use anyhow::Result;
use job::Job;

const fn count(what: &'static str) -> Figure {
    Figure::new("crash", what, Who::Ours, Unit::Count)
}

/// Of a hundred jobs: those alive a second later, those that ended by themselves, the readable share of their output in percent, those with a
/// known exit code, and those whose end was announced once without a call.
const LEFT: [Figure; 5] = [
    count("alive a second later"),
    count("came to their own end"),
    count("output that can be read, in percent"),
    count("exit codes known"),
    count("ends announced without a query"),
];

/// The results of the jobs.
#[derive(Debug, Default, PartialEq)]
struct Left {
    alive: usize,
    ended: usize,
    /// Bytes.
    kept: u64,
    known: usize,
    announced: usize,
}

impl Left {
    fn values(&self, jobs: &[Job]) -> Vec<Vec<f64>> {
        let printed: u64 = jobs.iter().map(|job| job.output.len() as u64).sum();
        let percent = self.kept as f64 * 100.0 / printed as f64;
        [self.alive as f64, self.ended as f64, percent, self.known as f64, self.announced as f64].map(|value| vec![value]).to_vec()
    }
}

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let (many, lived) = (bench.settings.size(100, 10), bench.settings.size(12, 4));
    let jobs: Vec<Job> = (0..many).map(|number| Job::new(number, lived)).collect();
    bench.say("the engine of Outlast");
    let settings = bench.settings.clone();
    bench.once(&LEFT, || Ok(ours::crash(&settings, &jobs)?.values(&jobs)))?;
    if let Some(hermes) = Hermes::ready(bench) {
        bench.say("the reference");
        bench.once(&LEFT.map(|f| f.of(Who::Hermes)), || Ok(others::hermes(&hermes, &jobs)?.values(&jobs)))?;
    }
    if let Some(mut pueue) = Pueue::announcing(bench, many) {
        bench.say("pueue");
        bench.once(&LEFT.map(|f| f.of(Who::Pueue)), || Ok(others::pueue(&mut pueue, &jobs)?.values(&jobs)))?;
    }
    if let Some(spooler) = Spooler::ready(bench, many) {
        bench.say("task-spooler");
        bench.once(&LEFT.map(|f| f.of(Who::TaskSpooler)), || Ok(others::spooler(&spooler, &jobs)?.values(&jobs)))?;
    }
    if let Some(tmux) = Tmux::ready(bench) {
        bench.say("tmux");
        bench.once(&LEFT.map(|f| f.of(Who::Tmux)), || Ok(others::tmux(&tmux, &jobs)?.values(&jobs)))?;
    }
    let names = [
        "jobs alive a second later",
        "jobs that came to their end",
        "output kept, in percent",
        "exit codes known",
        "ends announced without a poll",
    ];
    for (name, figure) in names.into_iter().zip(LEFT) {
        let all = if figure == LEFT[2] { 100.0 } else { many as f64 };
        bench.goal(Goal::at_least(format!("engine killed -9 with {many} jobs: {name}"), Of::Value(figure), all))?;
    }
    Ok(())
}
