//! What was found, as a part of a page.

use super::board::{Board, Series, Unit, Who};
use super::report::shown;
use super::{Bench, Figure, Verdict, svg};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- bench: begin -->";
const END: &str = "<!-- bench: end -->";

/// Writes tables and plots of a whole run into the page on benchmarks.
pub(crate) fn write(bench: &Bench, topics: &[&str], lines: &[Figure]) -> Result<()> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let plots = docs.join("benchmarks");
    std::fs::create_dir_all(&plots).with_context(|| format!("cannot make {}", plots.display()))?;
    let mut page = intro(bench);
    for topic in topics {
        write!(page, "\n### {topic}\n\n{}\n{}", goals(&bench.board, topic), figures(&bench.board, topic)).unwrap_or_default();
        let lines = lines.iter().filter(|figure| figure.topic == *topic).filter_map(|figure| {
            Some((format!("{topic}-{}.svg", figure.what.split(|c: char| !c.is_alphanumeric()).next()?), svg::line(&bench.board, *figure)?))
        });
        let bars = svg::bars(&bench.board, topic).map(|plot| (format!("{topic}.svg"), plot));
        for (name, plot) in bars.into_iter().chain(lines) {
            put(&plots.join(&name), &plot)?;
            write!(page, "\n![{topic}](benchmarks/{name})\n").unwrap_or_default();
        }
    }
    let path = docs.join("benchmarks.md");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    put(&path, &between(&text, &page)?)?;
    println!("written: docs/benchmarks.md and the plots beside it");
    Ok(())
}

fn put(path: &PathBuf, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The text with this between its marks.
fn between(text: &str, page: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("docs/benchmarks.md has no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("docs/benchmarks.md has no {END}"))?;
    Ok(format!("{before}{BEGIN}\n{page}{END}{after}"))
}

fn intro(bench: &Bench) -> String {
    let (noisy, all) = bench.board.all.iter().fold((0, 0), |(noisy, all), s| (noisy + s.noisy, all + s.rounds.len()));
    let met = bench.board.verdicts.iter().filter(|(_, v)| matches!(v, Verdict::Met { .. })).count();
    let mut text = format!(
        "{} Medians of {} rounds in which everything was measured in turns, after one to warm up; in brackets the least and the most of the rounds. {noisy} \
         of {all} measurements began on a machine that was busy with something else. {met} of {} goals are met.\n",
        bench.machine.sentence(),
        bench.settings.rounds,
        bench.board.verdicts.len(),
    );
    for (who, why) in &bench.skipped {
        writeln!(text, "\nNot measured: {}: {why}.", who.name()).unwrap_or_default();
    }
    text
}

fn goals(board: &Board, topic: &str) -> String {
    let mut table = "| goal | | measured | |\n|---|---|---|---|\n".to_owned();
    for (goal, verdict) in board.verdicts.iter().filter(|(goal, _)| goal.topic == topic) {
        let word = match verdict {
            Verdict::Met { .. } => "met",
            Verdict::Missed { .. } => "**missed**",
            Verdict::Unknown { .. } => "not measured",
        };
        writeln!(table, "| {} | {} | {verdict} | {word} |", goal.what, goal.bound()).unwrap_or_default();
    }
    table
}

/// A row for each figure, a column for each who has one.
fn figures(board: &Board, topic: &str) -> String {
    let all: Vec<&Series> = board.all.iter().filter(|s| s.figure.topic == topic).collect();
    let mut columns: Vec<Who> = all.iter().map(|s| s.figure.who).collect();
    columns.sort();
    columns.dedup();
    let mut names: Vec<&str> = Vec::new();
    for series in &all {
        if !names.contains(&series.figure.what) {
            names.push(series.figure.what);
        }
    }
    let mut table =
        format!("| | {} |\n|---|{}\n", columns.iter().map(|who| who.name()).collect::<Vec<_>>().join(" | "), "---|".repeat(columns.len()));
    for name in names {
        let cell = |who: &Who| all.iter().find(|s| s.figure.what == name && s.figure.who == *who).map(|s| value(s)).unwrap_or_default();
        writeln!(table, "| {name} | {} |", columns.iter().map(cell).collect::<Vec<_>>().join(" | ")).unwrap_or_default();
    }
    table
}

fn value(series: &Series) -> String {
    let (unit, half) = (series.figure.unit, series.at(0.5));
    if series.rounds.len() == 1 && series.rounds[0].len() > 1 && unit != Unit::Seconds {
        // One after another: each counts.
        return series.rounds[0].iter().map(|v| shown(*v, unit)).collect::<Vec<_>>().join(", ");
    }
    let mut text = shown(half.mid, unit);
    if half.least < half.most {
        write!(text, " ({} to {})", shown(half.least, unit), shown(half.most, unit)).unwrap_or_default();
    }
    if unit == Unit::Seconds && series.rounds.iter().any(|r| r.len() >= 20) {
        write!(text, ", p99 {}", shown(series.at(0.99).mid, unit)).unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(between(&page, "new\n").unwrap(), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert!(between("nothing", "new").is_err());
    }
}
