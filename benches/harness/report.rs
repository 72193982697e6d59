//! What was found, on the terminal.

use super::Bench;
use super::board::{Series, Unit};

/// A value with its unit, in few digits.
pub(crate) fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if value < 1e-3 => format!("{:.0} µs", value * 1e6),
        Unit::Seconds if value < 0.1 => format!("{:.2} ms", value * 1e3),
        Unit::Seconds if value < 1.0 => format!("{:.0} ms", value * 1e3),
        Unit::Seconds => format!("{value:.2} s"),
        Unit::PerSecond => format!("{value:.0} /s"),
        Unit::Bytes if value < 1024.0 * 1024.0 => format!("{:.0} KiB", value / 1024.0),
        Unit::Bytes => format!("{:.1} MiB", value / 1024.0 / 1024.0),
        Unit::BytesPerSecond => format!("{:.0} MB/s", value / 1e6),
        Unit::SecondsPerGb => format!("{value:.2} s/GB"),
        Unit::Count => format!("{value:.0}"),
        Unit::Part => format!("{value:.2}"),
    }
}

/// The tables: goals first, then what was measured.
pub(crate) fn print(bench: &Bench) {
    println!("\n{}", bench.machine.sentence());
    if bench.settings.quick {
        println!("Small sizes, to see that it works: the figures mean nothing.");
    }
    println!("Medians of {} rounds taken in turns; in brackets the least and the most of the rounds' medians.\n", bench.settings.rounds);
    let width = bench.board.verdicts.iter().map(|(goal, _)| goal.what.chars().count()).max().unwrap_or(0);
    let mut topic = "";
    for (goal, verdict) in &bench.board.verdicts {
        if goal.topic != topic {
            topic = goal.topic;
            println!("{topic}");
        }
        let (what, bound) = (&goal.what, goal.bound());
        println!("  {:<4}  {what}{}  {bound:<12} {verdict}", verdict.word(), " ".repeat(width - what.chars().count()));
    }
    println!();
    for series in &bench.board.all {
        println!("  {:<8} {:<52} {:<12} {}", series.figure.topic, series.figure.what, series.figure.who.name(), line(series));
    }
    for (who, why) in &bench.skipped {
        println!("  skipped: {}: {why}", who.name());
    }
    println!("samples: {}", bench.settings.results.join("samples.jsonl").display());
}

fn line(series: &Series) -> String {
    let unit = series.figure.unit;
    let (half, most) = (series.at(0.5), series.at(0.99));
    let mut line = format!("{:>10}", shown(half.mid, unit));
    if half.least < half.most {
        line += &format!("  ({} to {})", shown(half.least, unit), shown(half.most, unit));
    }
    if series.rounds.iter().any(|r| r.len() > 1) {
        line += &format!("  p99 {}", shown(most.mid, unit));
    }
    if series.noisy > 0 {
        line += &format!("  [{} of {} rounds on a busy machine]", series.noisy, series.rounds.len());
    }
    line
}
