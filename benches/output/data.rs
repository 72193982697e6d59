//! The output that is printed.

use crate::bench_suite::harness::Settings;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The length of the real log before it is repeated.
const LOG: usize = 64 << 20;
/// A line of a hundred bytes.
const LINE: &str = "2026-01-02T03:04:05.678901Z request handled by worker 7 in 12 ms with status 200, nothing to report";

/// An output: a text that is repeated as often as needed.
pub(super) struct Data {
    pub(super) name: &'static str,
    /// The names of its figures: speed and cost, without patterns and with ten.
    pub(super) plain: &'static str,
    pub(super) cost: &'static str,
    pub(super) watched: &'static str,
    pub(super) watched_cost: &'static str,
    /// The repeated text.
    pub(super) unit: Vec<u8>,
    /// Whether it is also measured with patterns and with other programs. If not, it has no goal.
    pub(super) is_watched: bool,
    /// How many bytes of it the reference gets with patterns.
    pub(super) reference_bytes: usize,
    /// The goal with patterns, as a multiple of the reference's speed.
    pub(super) times_reference: f64,
    printed: Printed,
}

enum Printed {
    Line(&'static str),
    File(PathBuf),
    Zeros,
}

impl Data {
    /// A shell line that prints this many bytes of it.
    pub(super) fn command(&self, bytes: u64) -> String {
        match &self.printed {
            Printed::Line(line) => format!("yes '{line}' | head -c {bytes}"),
            // Whole copies and a part of one, each without a pipe in between.
            Printed::File(path) => {
                let (whole, rest) = (bytes / self.unit.len() as u64, bytes % self.unit.len() as u64);
                let mut command = "cat".to_owned();
                for _ in 0..whole {
                    write!(command, " {}", path.display()).unwrap_or_default();
                }
                let whole = if whole > 0 { format!("{command}; ") } else { String::new() };
                format!("{whole}head -c {rest} {}", path.display())
            }
            Printed::Zeros => format!("dd if=/dev/zero bs=1M iflag=count_bytes count={bytes} status=none"),
        }
    }
}

pub(super) fn all(settings: &Settings) -> Result<Vec<Data>> {
    let (path, log) = log(&settings.place)?;
    Ok(vec![
        Data {
            name: "`yes`",
            plain: "`yes`",
            cost: "`yes`, processor time",
            watched: "`yes`, ten patterns",
            watched_cost: "`yes`, ten patterns, processor time",
            unit: b"y\n".to_vec(),
            is_watched: true,
            reference_bytes: 30_000_000,
            times_reference: 100.0,
            printed: Printed::Line("y"),
        },
        Data {
            name: "100-byte lines",
            plain: "100-byte lines",
            cost: "100-byte lines, processor time",
            watched: "100-byte lines, ten patterns",
            watched_cost: "100-byte lines, ten patterns, processor time",
            unit: format!("{LINE}\n").into_bytes(),
            is_watched: true,
            reference_bytes: 250_000_000,
            times_reference: 9.0,
            printed: Printed::Line(LINE),
        },
        Data {
            name: "a real log",
            plain: "a real log",
            cost: "a real log, processor time",
            watched: "a real log, ten patterns",
            watched_cost: "a real log, ten patterns, processor time",
            unit: log,
            is_watched: true,
            reference_bytes: 250_000_000,
            times_reference: 9.0,
            printed: Printed::File(path),
        },
        Data {
            name: "`dd bs=1M`",
            plain: "`dd bs=1M`",
            cost: "`dd bs=1M`, processor time",
            watched: "`dd bs=1M`, ten patterns",
            watched_cost: "`dd bs=1M`, ten patterns, processor time",
            unit: vec![0],
            is_watched: false,
            reference_bytes: 0,
            times_reference: 0.0,
            printed: Printed::Zeros,
        },
    ])
}

/// The recorded logs of real tools, one after another and again, as a file.
fn log(place: &Path) -> Result<(PathBuf, Vec<u8>)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/logs");
    let entries = std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "log"));
    paths.sort();
    let mut text = Vec::new();
    while text.len() < LOG {
        for path in &paths {
            text.extend(std::fs::read(path)?);
        }
    }
    text.truncate(LOG);
    let path = place.join("real.log");
    std::fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok((path, text))
}
