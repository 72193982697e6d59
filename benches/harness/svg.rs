//! Plots, drawn by hand: bars for what several did, a line for what went on for long.

use super::board::{Board, Figure, Series, Unit, Who};
use super::report::shown;
use std::fmt::Write as _;

const WIDTH: usize = 760;
const LEFT: usize = 20;
const BAR: usize = 14;
const LONGEST: usize = 420;
const NAMES: usize = 110;

/// A plot of a topic: for each figure that more than one has, a bar for each of them, as long as its value, the longest of a figure at full length. Nothing if there
/// is no such figure.
pub(super) fn bars(board: &Board, topic: &str) -> Option<String> {
    let rows = shared(board, topic);
    if rows.is_empty() {
        return None;
    }
    let (mut body, mut y) = (String::new(), 20);
    for (what, row) in rows {
        text(&mut body, LEFT, y + 10, "#222", what);
        y += 18;
        let longest = row.iter().map(|series| series.at(0.5).mid).fold(f64::MIN_POSITIVE, f64::max);
        for series in row {
            let value = series.at(0.5).mid;
            let length = ((value / longest) * LONGEST as f64).max(1.0);
            let (x, colour) = (LEFT + NAMES, colour(series.figure.who));
            text(&mut body, LEFT + 8, y + 11, "#555", series.figure.who.name());
            writeln!(body, "<rect x=\"{x}\" y=\"{y}\" width=\"{length:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>").unwrap_or_default();
            text(&mut body, x + length as usize + 6, y + 11, "#222", &shown(value, series.figure.unit));
            y += BAR + 3;
        }
        y += 10;
    }
    Some(frame(y, &body))
}

/// A plot of one figure whose values came one after another.
pub(super) fn line(board: &Board, figure: Figure) -> Option<String> {
    let values = board.series(figure)?.rounds.first()?;
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let (mut body, height) = (String::new(), 160);
    text(&mut body, LEFT, 24, "#222", figure.what);
    let at = |n: usize, value: f64| {
        let x = (LEFT + 40) as f64 + n as f64 * (WIDTH - 2 * LEFT - 120) as f64 / (values.len().max(2) - 1) as f64;
        (x, (height - 20) as f64 - value / most * (height - 70) as f64)
    };
    let points: Vec<String> = values.iter().enumerate().map(|(n, value)| at(n, *value)).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    writeln!(body, "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>", points.join(" "), colour(figure.who))
        .unwrap_or_default();
    for (n, value) in values.iter().enumerate() {
        let (x, y) = at(n, *value);
        text(&mut body, x as usize, y as usize - 8, "#222", &shown(*value, figure.unit));
    }
    Some(frame(height, &body))
}

/// The figures of a topic that more than one has, and that are worth a bar.
pub(super) fn shared<'a>(board: &'a Board, topic: &str) -> Vec<(&'static str, Vec<&'a Series>)> {
    let mut rows: Vec<(&'static str, Vec<&Series>)> = Vec::new();
    for series in board.all.iter().filter(|s| s.figure.topic == topic) {
        match rows.iter_mut().find(|(what, _)| *what == series.figure.what) {
            Some((_, row)) => row.push(series),
            None => rows.push((series.figure.what, vec![series])),
        }
    }
    rows.retain(|(_, row)| row.len() > 1 && (topic == "crash" || row.iter().all(|s| s.figure.unit != Unit::Count)));
    rows
}

fn colour(who: Who) -> &'static str {
    match who {
        Who::Ours => "#1f7a4d",
        Who::Limit => "#9aa0a6",
        Who::Hermes => "#c2410c",
        Who::Pueue => "#7c3aed",
        Who::TaskSpooler => "#2563eb",
        Who::Tmux => "#b45309",
    }
}

fn text(into: &mut String, x: usize, y: usize, colour: &str, what: &str) {
    let what = what.replace('&', "&amp;").replace('<', "&lt;").replace('`', "");
    writeln!(into, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{what}</text>").unwrap_or_default();
}

fn frame(height: usize, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_of_a_figure_has_the_longest_bar() {
        let figure = Figure::new("t", "a < b", Who::Ours, Unit::Seconds);
        let mut board = Board::default();
        assert_eq!(bars(&board, "t"), None);
        board.add(figure, vec![0.001], false);
        board.add(figure.of(Who::Hermes), vec![0.004], false);
        let plot = bars(&board, "t").unwrap();
        assert!(plot.contains("width=\"105.0\"") && plot.contains("width=\"420.0\""), "{plot}");
        assert!(plot.contains("a &lt; b") && plot.contains("4.00 ms"), "{plot}");
    }
}
