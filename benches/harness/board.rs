//! What was measured: a series of rounds for each figure.

use super::goal::{Goal, Verdict};
use std::fmt;

/// Who was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Ours,
    /// What the machine can do at best.
    Limit,
    Hermes,
    Pueue,
    TaskSpooler,
    Tmux,
}

impl Who {
    /// Everyone who can be left out.
    pub(crate) const PEERS: [Self; 4] = [Self::Hermes, Self::Pueue, Self::TaskSpooler, Self::Tmux];

    /// The word for it in flags and in the samples.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Limit => "limit",
            Self::Hermes => "hermes",
            Self::Pueue => "pueue",
            Self::TaskSpooler => "tsp",
            Self::Tmux => "tmux",
        }
    }

    /// Its name in a table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "Outlast",
            Self::Limit => "the machine",
            Self::Hermes => "reference",
            Self::Pueue => "pueue",
            Self::TaskSpooler => "task-spooler",
            Self::Tmux => "tmux",
        }
    }
}

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    PerSecond,
    Bytes,
    BytesPerSecond,
    SecondsPerGb,
    Count,
    /// A part of another value.
    Part,
}

impl Unit {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::PerSecond => "1/s",
            Self::Bytes => "B",
            Self::BytesPerSecond => "B/s",
            Self::SecondsPerGb => "s/GB",
            Self::Count => "1",
            Self::Part => "part",
        }
    }
}

/// One thing that is measured of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figure {
    pub(crate) topic: &'static str,
    pub(crate) what: &'static str,
    pub(crate) who: Who,
    pub(crate) unit: Unit,
}

impl Figure {
    pub(crate) const fn new(topic: &'static str, what: &'static str, who: Who, unit: Unit) -> Self {
        Self { topic, what, who, unit }
    }

    /// The same of another.
    pub(crate) const fn of(self, who: Who) -> Self {
        Self { who, ..self }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.who.word())
    }
}

/// What the rounds gave for one figure.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) figure: Figure,
    pub(crate) rounds: Vec<Vec<f64>>,
    /// How many of the rounds began while the machine had something else to do.
    pub(crate) noisy: usize,
}

impl Series {
    /// One quantile of each round, over the rounds.
    pub(crate) fn at(&self, part: f64) -> Spread {
        Spread::over(self.rounds.iter().map(|values| quantile(values, part)))
    }

    /// The worst value of all.
    pub(crate) fn most(&self) -> f64 {
        self.rounds.iter().flatten().copied().fold(f64::MIN, f64::max)
    }
}

/// A value over rounds: the middle one, and how far they are apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mid: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn over(values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.collect();
        Self {
            mid: median(&values),
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            most: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// Everything measured and judged so far, in order.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(crate) all: Vec<Series>,
    pub(crate) verdicts: Vec<(Goal, Verdict)>,
}

impl Board {
    pub(super) fn add(&mut self, figure: Figure, values: Vec<f64>, noisy: bool) {
        let at = match self.all.iter().position(|s| s.figure == figure) {
            Some(at) => at,
            None => {
                self.all.push(Series { figure, rounds: Vec::new(), noisy: 0 });
                self.all.len() - 1
            }
        };
        self.all[at].rounds.push(values);
        self.all[at].noisy += usize::from(noisy);
    }

    pub(crate) fn series(&self, figure: Figure) -> Option<&Series> {
        self.all.iter().find(|s| s.figure == figure)
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which this part of them lies; not a number if there are none.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    match part {
        // The middle of two, so that few rounds are not read to one side.
        0.5 if sorted.len().is_multiple_of(2) && !sorted.is_empty() => (sorted[last / 2] + sorted[last / 2 + 1]) / 2.0,
        _ => sorted.get(((last as f64) * part).round() as usize).copied().unwrap_or(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_where_it_should() {
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], 0.5), 2.5);
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], 1.0), 4.0);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
