//! Plots of the tables in `docs/benchmarks.md`, drawn by hand: bars for figures that several have, a line for one that was measured again and again.
//!
//! The tables are the only source, so plots can be drawn again without a measurement (`cargo xtask bench plots`), and show what the tables say.

use std::fmt::Write as _;

const WIDTH: usize = 760;
const LEFT: usize = 20;
const BAR: usize = 14;
const LONGEST: f64 = 400.0;
const NAMES: usize = 110;

/// A value of a table with its unit, and the least and the most of the rounds.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    label: String,
    mid: f64,
    spread: Option<(f64, f64)>,
    better: Better,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
    /// A count, of which a plot says nothing by itself.
    Unknown,
}

/// A row of a table: what was measured, and the value of each who has one.
struct Row<'a> {
    what: &'a str,
    values: Vec<(&'a str, &'a str)>,
}

/// The plots that a page refers to, each with the name of its file.
pub(super) fn of_page(page: &str) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    // Tables after the mark are of other runs.
    let run = page.split(super::docs::END).next().unwrap_or_default();
    for section in run.split("\n### ").skip(1) {
        let topic = section.lines().next().unwrap_or_default().trim();
        let rows = rows(section);
        for name in section.split("](benchmarks/").skip(1).filter_map(|rest| rest.split_once(".svg)")).map(|(name, _)| name) {
            let plot = match name.strip_prefix(topic).and_then(|rest| rest.strip_prefix('-')) {
                Some(first) => rows
                    .iter()
                    .find(|row| row.what.starts_with(first) && row.values.iter().any(|(_, value)| value.contains(", ")))
                    .and_then(line),
                None => bars(topic, &rows),
            };
            plots.extend(plot.map(|plot| (format!("{name}.svg"), plot)));
        }
    }
    plots
}

/// The rows of the tables of figures in a section.
fn rows(section: &str) -> Vec<Row<'_>> {
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for line in section.lines() {
        let cells: Vec<&str> = match line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) {
            Some(line) => line.split('|').map(str::trim).collect(),
            None => {
                columns.clear();
                continue;
            }
        };
        match cells[..] {
            ["", ..] if columns.is_empty() => columns = cells[1..].to_vec(),
            [what, ..] if !columns.is_empty() && !what.starts_with("---") => {
                let values = columns.iter().copied().zip(cells[1..].iter().copied()).filter(|(_, value)| !value.is_empty()).collect();
                rows.push(Row { what, values });
            }
            _ => {}
        }
    }
    rows
}

/// `2.33 ms (2.06 ms to 2.71 ms), p99 10.02 ms`.
fn cell(text: &str, topic: &str) -> Option<Cell> {
    let text = text.split(", p99").next()?;
    let (mid, rest) = text.split_once(" (").map_or((text, None), |(mid, rest)| (mid, Some(rest)));
    let (value, better) = amount(mid)?;
    let spread = match rest {
        Some(rest) => {
            let (least, most) = rest.trim_end_matches(')').split_once(" to ")?;
            Some((amount(least)?.0, amount(most)?.0))
        }
        None => None,
    };
    // In a crash everything is counted that was saved.
    let better = if topic == "crash" { Better::Higher } else { better };
    Some(Cell { label: mid.to_owned(), mid: value, spread, better })
}

fn amount(text: &str) -> Option<(f64, Better)> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let (factor, better) = match unit {
        "µs" => (1e-6, Better::Lower),
        "ms" => (1e-3, Better::Lower),
        "s" | "s/GB" => (1.0, Better::Lower),
        "KiB" => (1024.0, Better::Lower),
        "MiB" => (1024.0 * 1024.0, Better::Lower),
        "/s" | "MB/s" => (1.0, Better::Higher),
        "" => (1.0, Better::Unknown),
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor, better))
}

/// For each figure that more than one has, a bar for each of them, with a line from the least to the most of the rounds.
fn bars(topic: &str, rows: &[Row<'_>]) -> Option<String> {
    let shared = rows.iter().filter_map(|row| {
        let cells: Vec<(&str, Cell)> = row.values.iter().filter_map(|(who, value)| Some((*who, cell(value, topic)?))).collect();
        (cells.len() > 1 && cells.iter().all(|(_, cell)| cell.better != Better::Unknown)).then_some((row.what, cells))
    });
    let shared: Vec<_> = shared.collect();
    if shared.is_empty() {
        return None;
    }
    let (mut body, mut y) = (String::new(), 44);
    for (what, cells) in shared {
        let better = if cells[0].1.better == Better::Lower { "lower is better" } else { "higher is better" };
        text(&mut body, LEFT, y + 10, "t", &format!("{what} ({better})"));
        y += 18;
        let longest =
            cells.iter().map(|(_, cell)| cell.spread.map_or(cell.mid, |(_, most)| most.max(cell.mid))).fold(f64::MIN_POSITIVE, f64::max);
        let length = |value: f64| (value / longest * LONGEST).max(1.0);
        for (who, cell) in cells {
            let x = (LEFT + NAMES) as f64;
            let mut end = x + length(cell.mid);
            text(&mut body, LEFT + 8, y + 11, "n", who);
            writeln!(body, "<rect x=\"{x:.0}\" y=\"{y}\" width=\"{:.1}\" height=\"{BAR}\" fill=\"{}\"/>", length(cell.mid), colour(who))
                .unwrap_or_default();
            if let Some((least, most)) = cell.spread {
                let (from, to, mid) = (x + length(least), x + length(most), y + BAR / 2);
                writeln!(body, "<path class=\"w\" d=\"M{from:.1} {mid}H{to:.1}M{from:.1} {}v6M{to:.1} {}v6\"/>", mid - 3, mid - 3)
                    .unwrap_or_default();
                end = end.max(to);
            }
            text(&mut body, end as usize + 8, y + 11, "t", &cell.label);
            y += BAR + 3;
        }
        y += 10;
    }
    let has_spread = body.contains("class=\"w\"");
    let note = if has_spread { ": medians; the thin line is the spread of the rounds" } else { ": what was left of 100 jobs" };
    Some(frame(&format!("Benchmark {topic}{note}"), y, &body))
}

/// One figure whose values came one after another.
fn line(row: &Row<'_>) -> Option<String> {
    let (who, values) = row.values.first()?;
    let values: Vec<(f64, &str)> = values.split(", ").filter_map(|value| Some((amount(value)?.0, value))).collect();
    let most = values.iter().map(|(value, _)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let height = 180;
    let at = |n: usize, value: f64| {
        let x = (LEFT + 40) as f64 + n as f64 * (WIDTH - 2 * LEFT - 120) as f64 / (values.len().max(2) - 1) as f64;
        (x, (height - 20) as f64 - value / most * (height - 90) as f64)
    };
    let points: Vec<String> =
        values.iter().enumerate().map(|(n, (value, _))| at(n, *value)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let mut body = format!("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points.join(" "), colour(who));
    for (n, (value, label)) in values.iter().enumerate() {
        let (x, y) = at(n, *value);
        text(&mut body, x as usize, y as usize - 8, "t", label);
    }
    Some(frame(&format!("{} (lower is better, flat is good)", row.what), height, &body))
}

fn colour(who: &str) -> &'static str {
    match who {
        "Outlast" => "#2f9e68",
        "the machine" => "#8b949e",
        "reference" => "#e5743a",
        "pueue" => "#9b6bf2",
        "task-spooler" => "#4b8bf5",
        _ => "#c98a1b",
    }
}

fn text(into: &mut String, x: usize, y: usize, class: &str, what: &str) {
    writeln!(into, "<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{}</text>", escaped(what)).unwrap_or_default();
}

fn escaped(what: &str) -> String {
    what.replace('&', "&amp;").replace('<', "&lt;").replace('`', "")
}

/// With a title, and with colours for light and for dark pages.
fn frame(title: &str, height: usize, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<style>.b{{fill:#fff}}.t,.h{{fill:#1f2328}}.n{{fill:#59636e}}.h{{font-size:14px;font-weight:600}}\
         .w{{stroke:#1f2328;fill:none}}@media (prefers-color-scheme:dark){{.b{{fill:#0d1117}}.t,.h{{fill:#f0f6fc}}.n{{fill:#9198a1}}.w{{stroke:#f0f6fc}}}}</style>\n\
         <rect class=\"b\" width=\"100%\" height=\"100%\"/>\n<text x=\"{LEFT}\" y=\"24\" class=\"h\">{title}</text>\n{body}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "intro\n### start\n\n| | Outlast | reference |\n|---|---|---|\n| a < b | 1.00 ms (0.50 ms to 2.00 ms), p99 9 ms | 4.00 ms |\n| alone | 2 ms | |\n\n![start](benchmarks/start.svg)\n\n\
                        ### memory\n\n| | Outlast |\n|---|---|\n| engine, every one | 1.0 MiB, 2.0 MiB |\n\n![memory](benchmarks/memory-engine.svg)\n";

    #[test]
    fn a_bar_is_as_long_as_its_value_and_shows_the_spread() {
        let plots = of_page(PAGE);
        let (name, plot) = &plots[0];
        assert_eq!(name, "start.svg");
        assert!(plot.contains("width=\"100.0\"") && plot.contains("width=\"400.0\""), "{plot}");
        assert!(plot.contains("a &lt; b (lower is better)") && plot.contains("M180.0 ") && plot.contains("H330.0"), "{plot}");
        assert!(!plot.contains("alone") && plot.contains("prefers-color-scheme:dark") && plot.contains("Benchmark start"), "{plot}");
    }

    #[test]
    fn tables_of_other_runs_are_not_drawn() {
        let end = super::super::docs::END;
        assert_eq!(of_page(&PAGE.replace("\n### memory", &format!("{end}\n### memory"))).len(), 1);
    }

    #[test]
    fn what_was_measured_again_and_again_is_a_line() {
        let plots = of_page(PAGE);
        assert_eq!(plots[1].0, "memory-engine.svg");
        assert!(plots[1].1.contains("<polyline") && plots[1].1.contains("2.0 MiB"), "{}", plots[1].1);
    }

    #[test]
    fn the_plots_in_the_repository_are_those_of_the_page() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let plots = of_page(&std::fs::read_to_string(docs.join("benchmarks.md")).unwrap());
        assert!(plots.len() > 5, "{}", plots.len());
        for (name, plot) in plots {
            let there = std::fs::read_to_string(docs.join("benchmarks").join(&name)).unwrap_or_default();
            assert!(there == plot, "docs/benchmarks/{name} is old: `cargo xtask bench plots` draws it again");
        }
    }
}
