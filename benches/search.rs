//! `cargo xtask bench search`: the search for watch patterns beside plain `aho-corasick`.
//!
//! The search for many patterns is code of our own. It stays as long as the best plain search falls below [`WORTH`] of its speed with 30 or
//! 100 patterns; the command fails if it never does. Ours is measured with all that a scanner does: lines, escape sequences, quotes. Speeds are
//! bytes for each second of processor time, since other load does not change that.

use crate::Flags;
use crate::bench_scan::{absent, median, ratios, write_lines};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, Span, packed};
use anyhow::{Context, Result, ensure};
use outlast_text::watch::{Cursor, Scanner};
use std::path::Path;
use std::time::Duration;

/// The share of our speed that a plain search has to reach to replace ours.
const WORTH: f64 = 0.8;
/// How much is searched for one measurement.
const BYTES: usize = 16 << 20;
/// How much a pump hands to the scanner at once.
const PIECE: usize = 64 << 10;

/// Searches pieces of whole lines, and counts those with a hit.
type Search = Box<dyn FnMut(&[u8]) -> u64>;

/// Prints the speeds on recorded logs and on lines that rarely match.
pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let rounds = flags.get("--rounds")?.unwrap_or(11_usize);
    let lines = tempfile::NamedTempFile::new()?;
    write_lines(lines.path(), false)?;
    let (logs, lines) = (logs()?, std::fs::read(lines.path())?);
    let mut bests = Vec::new();
    println!("medians of {rounds} rounds, taken in turns (least to most):");
    for (name, text) in [("recorded logs", &logs[..]), ("100-byte lines", &lines[..BYTES.min(lines.len())])] {
        for many in [30, 100] {
            let codes = (0..many).map(|n| format!("E{:04}", n * 7919 % 10_000)).collect();
            for (what, patterns) in [("texts", absent(many)), ("codes", codes)] {
                let mut searches = searches(&patterns)?;
                let mut speeds = vec![Vec::new(); searches.len()];
                let mut found: Vec<u64> = Vec::new();
                for _ in 0..rounds {
                    found = searches
                        .iter_mut()
                        .zip(&mut speeds)
                        .map(|((_, search), speeds)| measure(search, text, speeds))
                        .collect::<Result<_>>()?;
                }
                ensure!(found.iter().all(|n| *n == found[0]), "{name}, {many} {what}: the searches found {found:?} lines");
                let mut best: f64 = 0.0;
                for (n, (search, _)) in searches.iter().enumerate() {
                    let mut of_ours = ratios(&speeds[n], &speeds[0]);
                    let ratio = median(&mut of_ours);
                    if n > 0 {
                        best = best.max(ratio);
                    }
                    let speed = median(&mut speeds[n].clone());
                    let (least, most) = (of_ours[0], of_ours[of_ours.len() - 1]);
                    println!(
                        "  {name:<15} {many:>3} {what}  {search:<16} {speed:>6.2} GB/s {ratio:>6.2} of ours ({least:.2} to {most:.2})"
                    );
                }
                if what == "texts" {
                    bests.push(best);
                }
            }
        }
    }
    ensure!(bests.iter().any(|best| *best < WORTH), "a plain search has {bests:.2?} of the speed of ours, and could replace it");
    Ok(())
}

/// Ours first, then the plain ones.
fn searches(patterns: &[String]) -> Result<Vec<(String, Search)>> {
    let mut scanner = Scanner::new(patterns, Cursor::default());
    let ours = move |text: &[u8]| {
        scanner.push(text);
        scanner.take().map_or(0, |found| found.count)
    };
    let mut searches: Vec<(String, Search)> = vec![("ours".into(), Box::new(ours))];
    for size in [16, 32, 64, 127].into_iter().filter(|size| size / 2 < patterns.len()) {
        if let Some(parts) = patterns.chunks(size).map(packed_search).collect::<Option<Vec<_>>>() {
            searches.push((format!("packed, {size} each"), Box::new(move |text: &[u8]| hits_of_all(&parts, text))));
        }
    }
    for (name, kind) in [("automatic", None), ("automaton", Some(AhoCorasickKind::DFA))] {
        let whole = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).kind(kind).build(patterns)?;
        let search = move |text: &[u8]| lines_with(text, |from| whole.find(&text[from..]).map(|hit| from + hit.start()));
        searches.push((name.into(), Box::new(search)));
    }
    Ok(searches)
}

fn packed_search(patterns: &[String]) -> Option<packed::Searcher> {
    packed::Config::new().heuristic_pattern_limits(false).builder().extend(patterns).build()
}

/// Counts the lines that one of several searches finds. Each looks again only after its last hit.
fn hits_of_all(parts: &[packed::Searcher], text: &[u8]) -> u64 {
    let mut next: Vec<Option<usize>> = vec![Some(0); parts.len()];
    let mut is_first = true;
    lines_with(text, |from| {
        for (next, part) in next.iter_mut().zip(parts) {
            if is_first || next.is_some_and(|at| at < from) {
                *next = part.find_in(text, Span { start: from, end: text.len() }).map(|hit| hit.start());
            }
        }
        is_first = false;
        next.iter().flatten().min().copied()
    })
}

/// Counts the lines with a hit; `find` gives the next hit at or after a place.
fn lines_with(text: &[u8], mut find: impl FnMut(usize) -> Option<usize>) -> u64 {
    let (mut from, mut count) = (0, 0);
    while let Some(hit) = find(from) {
        count += 1;
        from = text[hit..].iter().position(|b| *b == b'\n').map_or(text.len(), |end| hit + end + 1);
    }
    count
}

/// Searches the text again and again, adds the speed in GB/s, and returns how many lines were found.
fn measure(search: &mut Search, text: &[u8], speeds: &mut Vec<f64>) -> Result<u64> {
    let (before, mut bytes, mut found) = (processor_time()?, 0, 0);
    while bytes < BYTES {
        found = pieces(text).map(&mut *search).sum();
        bytes += text.len();
    }
    speeds.push(bytes as f64 / (processor_time()? - before).as_secs_f64() / 1e9);
    Ok(found)
}

/// The processor time of this thread so far.
fn processor_time() -> Result<Duration> {
    Ok(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).try_into()?)
}

/// Pieces of whole lines.
fn pieces(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (head, tail) = rest.split_at(rest.len().min(PIECE));
        let more = if tail.is_empty() { 0 } else { tail.iter().position(|b| *b == b'\n').map_or(tail.len(), |end| end + 1) };
        let piece = &rest[..head.len() + more];
        rest = &rest[piece.len()..];
        (!piece.is_empty()).then_some(piece)
    })
}

/// All recorded logs without escape characters, which a plain search cannot see through.
fn logs() -> Result<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/logs");
    let mut paths: Vec<_> = std::fs::read_dir(&folder).context("fixtures/logs")?.map(|e| Ok(e?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "log"));
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let text = std::fs::read(path)?;
        all.extend(text.into_iter().filter(|b| *b != 0x1b));
        if !all.ends_with(b"\n") {
            all.push(b'\n');
        }
    }
    Ok(all)
}
