//! What was found, as a part of a page.

use super::board::{Board, Series, Unit, Who};
use super::report::shown;
use super::{Bench, Figure, Verdict, svg};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- bench: begin -->";
pub(super) const END: &str = "<!-- bench: end -->";

/// Writes the figures and goals of a whole run into their pages, and draws the plots.
pub(crate) fn write(bench: &Bench, topics: &[&str], lines: &[Figure]) -> Result<()> {
    let (mut page, mut goals) = (intro(bench), goals_intro(bench));
    for topic in topics {
        write!(page, "\n### {topic}\n\n{}", figures(&bench.board, topic)).unwrap_or_default();
        write!(goals, "\n### {topic}\n\n{}", goals_of(&bench.board, topic)).unwrap_or_default();
        let lines = lines
            .iter()
            .filter(|figure| figure.topic == *topic)
            .filter_map(|figure| figure.what.split(|c: char| !c.is_alphanumeric()).next());
        for name in std::iter::once((*topic).to_owned()).chain(lines.map(|first| format!("{topic}-{first}"))) {
            write!(page, "\n![{topic}](benchmarks/{name}.svg)\n").unwrap_or_default();
        }
    }
    for (name, text) in [("benchmarks.md", page), ("goals.md", goals)] {
        let path = docs().join(name);
        let old = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        put(&path, &between(&old, &text).with_context(|| name.to_owned())?)?;
    }
    println!("written: docs/benchmarks.md and docs/goals.md");
    draw()
}

/// Draws the plots of the tables in the page on benchmarks.
pub(crate) fn draw() -> Result<()> {
    let plots = docs().join("benchmarks");
    std::fs::create_dir_all(&plots).with_context(|| format!("cannot make {}", plots.display()))?;
    let page = docs().join("benchmarks.md");
    let page = std::fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    for (name, plot) in svg::of_page(&page) {
        put(&plots.join(&name), &plot)?;
        println!("drawn: docs/benchmarks/{name}");
    }
    Ok(())
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn put(path: &PathBuf, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The text with this between its marks.
fn between(text: &str, page: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("the page has no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("the page has no {END}"))?;
    Ok(format!("{before}{BEGIN}\n{page}{END}{after}"))
}

fn intro(bench: &Bench) -> String {
    let (noisy, all) = bench.board.all.iter().fold((0, 0), |(noisy, all), s| (noisy + s.noisy, all + s.rounds.len()));
    let mut text = format!(
        "{} Medians of {} rounds in which everything was measured in turns, after one to warm up; in brackets the least and the most of the rounds. {noisy} \
         of {all} measurements began on a machine that was busy with something else.\n",
        bench.machine.sentence(),
        bench.settings.rounds,
    );
    for (who, why) in &bench.skipped {
        writeln!(text, "\nNot measured: {}: {why}.", who.name()).unwrap_or_default();
    }
    text
}

fn goals_intro(bench: &Bench) -> String {
    let met = bench.board.verdicts.iter().filter(|(_, v)| matches!(v, Verdict::Met { .. })).count();
    format!("{met} of {} goals are met.\n", bench.board.verdicts.len())
}

fn goals_of(board: &Board, topic: &str) -> String {
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
