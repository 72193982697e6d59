//! The goals of the measurements.

use super::board::{Board, Figure, Series, Spread, Unit, Who};
use super::report::shown;
use std::fmt;

/// The value that a goal is about.
#[derive(Debug, Clone)]
pub(crate) enum Of {
    /// The median of one figure.
    Value(Figure),
    /// The worst sample of one figure.
    Worst(Figure),
    /// The sum of all samples of one figure.
    Sum(Figure),
    /// The median of one, as a multiple of the sum of the medians of others of the same round.
    Ratio(Figure, Vec<Figure>),
}

/// On which side of its bound a value has to be.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

/// A goal.
#[derive(Debug, Clone)]
pub(crate) struct Goal {
    pub(crate) topic: &'static str,
    pub(crate) what: String,
    of: Of,
    bound: Bound,
}

impl Goal {
    pub(crate) fn at_most(what: impl Into<String>, of: Of, bound: f64) -> Self {
        Self { topic: of.first().topic, what: what.into(), of, bound: Bound::AtMost(bound) }
    }

    pub(crate) fn at_least(what: impl Into<String>, of: Of, bound: f64) -> Self {
        Self { topic: of.first().topic, what: what.into(), of, bound: Bound::AtLeast(bound) }
    }

    /// The bound in words.
    pub(crate) fn bound(&self) -> String {
        match self.bound {
            Bound::AtMost(most) => format!("≤ {}", self.of.shown(most)),
            Bound::AtLeast(least) => format!("≥ {}", self.of.shown(least)),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.bound())
    }
}

impl Of {
    fn first(&self) -> Figure {
        match self {
            Self::Value(f) | Self::Worst(f) | Self::Sum(f) | Self::Ratio(f, _) => *f,
        }
    }

    fn figures(&self) -> Vec<Figure> {
        match self {
            Self::Value(f) | Self::Worst(f) | Self::Sum(f) => vec![*f],
            Self::Ratio(f, others) => [*f].iter().chain(others).copied().collect(),
        }
    }

    fn shown(&self, value: f64) -> String {
        match self {
            Self::Ratio(..) if value < 0.1 => format!("{value:.3} ×"),
            Self::Ratio(..) if value >= 100.0 => format!("{value:.0} ×"),
            Self::Ratio(..) => format!("{value:.2} ×"),
            Self::Value(f) | Self::Worst(f) | Self::Sum(f) => shown(value, f.unit),
        }
    }
}

/// Whether a goal was met.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    Met {
        value: String,
    },
    Missed {
        value: String,
    },
    /// There are no values.
    Unknown {
        why: String,
    },
}

impl Verdict {
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Met { .. } => "PASS",
            Self::Missed { .. } => "FAIL",
            Self::Unknown { .. } => "skip",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Met { value } | Self::Missed { value } => f.write_str(value),
            Self::Unknown { why } => f.write_str(why),
        }
    }
}

impl Board {
    pub(super) fn judge(&self, goal: &Goal, skipped: &[(Who, String)]) -> Verdict {
        let mut found = Vec::new();
        for figure in goal.of.figures() {
            match self.series(figure) {
                Some(series) => found.push(series),
                None => {
                    let why = skipped.iter().find(|(who, _)| *who == figure.who);
                    let why = why.map_or_else(|| "not measured".to_owned(), |(_, why)| why.clone());
                    return Verdict::Unknown { why: format!("{}: {why}", figure.who.name()) };
                }
            }
        }
        let spread = match &goal.of {
            Of::Value(_) => found[0].at(0.5),
            Of::Worst(_) => alone(found[0].most()),
            Of::Sum(f) => {
                debug_assert_eq!(f.unit, Unit::Count);
                alone(found[0].rounds.iter().flatten().sum())
            }
            Of::Ratio(..) => ratio(found[0], &found[1..]),
        };
        let met = match goal.bound {
            Bound::AtMost(most) => spread.mid <= most,
            Bound::AtLeast(least) => spread.mid >= least,
        };
        let value = match spread.least < spread.most {
            true => format!("{} ({} to {})", goal.of.shown(spread.mid), goal.of.shown(spread.least), goal.of.shown(spread.most)),
            false => goal.of.shown(spread.mid),
        };
        if met { Verdict::Met { value } } else { Verdict::Missed { value } }
    }
}

fn alone(value: f64) -> Spread {
    Spread { mid: value, least: value, most: value }
}

/// Compared round by round, so that a slow round affects both values.
fn ratio(one: &Series, others: &[&Series]) -> Spread {
    let median = super::board::median;
    let mid = |series: &Series, round: usize| {
        // A value that was measured once is compared with every round.
        series.rounds.get(round).or(series.rounds.last()).map_or(f64::NAN, |values| median(values))
    };
    let rounds = others.iter().map(|s| s.rounds.len()).chain([one.rounds.len()]).max().unwrap_or(0);
    Spread::over((0..rounds).map(|r| mid(one, r) / others.iter().map(|s| mid(s, r)).sum::<f64>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Figure = Figure::new("t", "a", Who::Ours, Unit::Seconds);

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        let mut board = Board::default();
        // The second round was slow for both.
        for (a, b, c) in [(2.0, 1.0, 1.0), (20.0, 10.0, 10.0), (3.0, 1.0, 1.0)] {
            board.add(A, vec![a], false);
            board.add(A.of(Who::Limit), vec![b], false);
            board.add(A.of(Who::Hermes), vec![c], false);
        }
        let of = Of::Ratio(A, vec![A.of(Who::Limit), A.of(Who::Hermes)]);
        assert!(
            matches!(board.judge(&Goal::at_most("x", of.clone(), 1.0), &[]), Verdict::Met { value } if value == "1.00 × (1.00 × to 1.50 ×)")
        );
        assert!(matches!(board.judge(&Goal::at_most("x", of, 0.9), &[]), Verdict::Missed { .. }));
    }

    #[test]
    fn who_was_left_out_is_named() {
        let mut board = Board::default();
        board.add(A, vec![1.0], false);
        let goal = Goal::at_most("x", Of::Ratio(A, vec![A.of(Who::Tmux)]), 1.0);
        let verdict = board.judge(&goal, &[(Who::Tmux, "left out".into())]);
        assert_eq!(verdict.to_string(), "tmux: left out");
    }
}
