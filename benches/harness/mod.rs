//! What all benchmarks share: rounds taken in turns on an idle machine, samples kept, goals judged.

mod board;
pub(crate) mod docs;
mod goal;
mod idle;
mod line;
mod machine;
mod ours;
pub(crate) mod proc;
mod report;
mod settings;
mod svg;

pub(crate) use board::{Board, Figure, Unit, Who};
pub(crate) use goal::{Goal, Of, Verdict};
pub(crate) use idle::Stolen;
pub(crate) use line::{Line, PATIENCE};
pub(crate) use machine::Machine;
pub(crate) use ours::{Ours, environment};
pub(crate) use report::print;
pub(crate) use settings::{Settings, disk, target};

use anyhow::{Context, Result};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::rc::Rc;
use std::time::Instant;

/// A run of benchmarks: how it is to be done, and what it has found.
pub(crate) struct Bench {
    pub(crate) settings: Rc<Settings>,
    pub(crate) board: Board,
    pub(crate) machine: Machine,
    /// Peers that are not in the tables, and why.
    pub(crate) skipped: Vec<(Who, String)>,
    raw: File,
    /// The round that is under way; the warm-up is none.
    round: Option<usize>,
}

impl Bench {
    pub(crate) fn new(settings: Settings) -> Result<Self> {
        let path = settings.results.join("samples.jsonl");
        let raw = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let machine = Machine::look(&settings.disk)?;
        let settings = Rc::new(settings);
        let mut bench = Self { settings, board: Board::default(), machine, skipped: Vec::new(), raw, round: None };
        bench.keep(json!({ "machine": bench.machine.facts(), "rounds": bench.settings.rounds, "quick": bench.settings.quick }))?;
        Ok(bench)
    }

    /// Does `one` once to warm up, which does not count, and then in rounds. Within a round everything is measured in turns.
    pub(crate) fn rounds(&mut self, mut one: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        for round in 0..=self.settings.rounds {
            self.round = round.checked_sub(1);
            one(self).with_context(|| if round == 0 { "warm-up".to_owned() } else { format!("round {round}") })?;
        }
        self.round = None;
        Ok(())
    }

    /// Measures one figure, once the machine is idle, and keeps what it gave.
    pub(crate) fn take(&mut self, figure: Figure, measure: impl FnOnce() -> Result<Vec<f64>>) -> Result<()> {
        self.take_some(&[figure], || Ok(vec![measure()?]))
    }

    /// The same for what is measured together.
    pub(crate) fn take_some(&mut self, figures: &[Figure], measure: impl FnOnce() -> Result<Vec<Vec<f64>>>) -> Result<()> {
        let quiet = idle::wait(self.settings.idle_wait)?;
        let (began, stolen) = (Instant::now(), Stolen::from_now_on()?);
        let found = measure().with_context(|| figures.iter().map(|f| f.to_string()).collect::<Vec<_>>().join(", "))?;
        let stolen = stolen.part()?;
        let noisy = quiet.is_noisy() || stolen > Stolen::MOST;
        for (figure, values) in figures.iter().zip(found) {
            self.keep(json!({
                "topic": figure.topic, "what": figure.what, "who": figure.who.word(), "unit": figure.unit.word(),
                "round": self.round, "idle": quiet.idle, "stolen": stolen, "noisy": noisy, "took_s": began.elapsed().as_secs_f64(), "values": values,
            }))?;
            if self.round.is_some() {
                self.board.add(*figure, values, noisy);
            }
        }
        Ok(())
    }

    /// Measures once, outside of the rounds: what takes too long to be repeated.
    pub(crate) fn once(&mut self, figures: &[Figure], measure: impl FnOnce() -> Result<Vec<Vec<f64>>>) -> Result<()> {
        let before = self.round.replace(0);
        let taken = self.take_some(figures, measure);
        self.round = before;
        taken
    }

    /// Judges a goal by what has been measured.
    pub(crate) fn goal(&mut self, goal: Goal) -> Result<()> {
        let verdict = self.board.judge(&goal, &self.skipped);
        self.keep(json!({ "goal": goal.to_string(), "verdict": verdict.to_string() }))?;
        println!("  {:<5} {goal}: {verdict}", verdict.word());
        self.board.verdicts.push((goal, verdict));
        Ok(())
    }

    /// Says on the terminal what is being done.
    pub(crate) fn say(&self, what: &str) {
        eprintln!("… {what}");
    }

    fn keep(&mut self, line: serde_json::Value) -> Result<()> {
        writeln!(self.raw, "{line}").context("cannot keep the samples")
    }
}
