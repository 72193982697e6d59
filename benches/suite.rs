//! `cargo xtask bench`: Outlast, others and the machine itself, measured in one run.

pub(crate) mod crash;
pub(crate) mod end;
pub(crate) mod harness;
pub(crate) mod limits;
pub(crate) mod memory;
pub(crate) mod output;
pub(crate) mod peers;
pub(crate) mod queries;
pub(crate) mod rate;
pub(crate) mod start;
pub(crate) mod tools;

use crate::Flags;
use anyhow::{Result, ensure};
use harness::{Bench, Settings, Verdict};

/// Measures one topic.
type Topic = fn(&mut Bench) -> Result<()>;

/// All benchmarks, in the order of the report.
const TOPICS: [(&str, Topic); 7] = [
    ("start", start::run),
    ("rate", rate::run),
    ("end", end::run),
    ("output", output::run),
    ("memory", memory::run),
    ("queries", queries::run),
    ("crash", crash::run),
];

/// Runs the named benchmarks, or all, and fails if a goal was missed.
pub(crate) fn run(only: &[String], flags: &Flags<'_>) -> Result<()> {
    let mut bench = Bench::new(Settings::read(flags)?)?;
    for (name, topic) in TOPICS.iter().filter(|(name, _)| only.is_empty() || only.iter().any(|only| only == name)) {
        bench.say(name);
        topic(&mut bench)?;
    }
    harness::print(&bench);
    if only.is_empty() && !bench.settings.quick {
        harness::docs::write(&bench, &TOPICS.map(|(name, _)| name), &memory::LINES)?;
    }
    let missed: Vec<String> =
        bench.board.verdicts.iter().filter(|(_, v)| matches!(v, Verdict::Missed { .. })).map(|(g, v)| format!("{g}: {v}")).collect();
    ensure!(missed.is_empty(), "{} goals were missed:\n  {}", missed.len(), missed.join("\n  "));
    Ok(())
}

/// Draws the plots of the recorded figures.
pub(crate) fn draw() -> Result<()> {
    harness::docs::draw()
}

/// `xtask __echo`.
pub(crate) fn echo() -> Result<()> {
    limits::echo()
}
