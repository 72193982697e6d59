//! `cargo xtask bench tokens`: recorded logs, shortened in three ways. Measures the tokens of each, and whether it shows the first error and the
//! result.

use anyhow::{Context, Result, ensure};
use outlast_text::{Brief, Log, Options, Redactor, brief, count_tokens, render};
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// The reference shows the last characters of a log, this many.
const REFERENCE_CHARS: usize = 2_000;
/// Codex shows both ends of a log, within this many tokens.
const CODEX_TOKENS: usize = 10_000;
/// A line counts as seen if this many of its characters are shown, from its start. Most lines are shorter.
const SEEN_CHARS: usize = 160;
/// The goal: the most tokens, in percent of Codex's view.
const LIMIT: usize = 50;

pub(crate) fn run() -> Result<()> {
    let before = resident()?;
    let began = Instant::now();
    count_tokens("x");
    let (loaded, after) = (began.elapsed(), resident()?);
    let rows = measure()?;
    println!("tokens, {} logs; `e` where the first error is in view, `s` where the final status is, `-` where not:", rows.len());
    println!("{:<18} {:>7} {:>7} {:>6} {:>13} {:>13} {:>13} {:>6}", "log", "lines", "KiB", "whole", "reference", "codex", "ours", "ratio");
    for row in &rows {
        println!(
            "{:<18} {:>7} {:>7} {:>6} {:>10} {} {:>10} {} {:>10} {} {:>4} %",
            row.name,
            row.lines,
            row.bytes / 1024,
            row.whole,
            row.reference.tokens,
            row.reference.marks(),
            row.codex.tokens,
            row.codex.marks(),
            row.ours.tokens,
            row.ours.marks(),
            row.percent()
        );
    }
    for (name, view) in [("reference", &(|r: &Row| r.reference) as &dyn Fn(&Row) -> View), ("codex", &|r| r.codex), ("ours", &|r| r.ours)] {
        let views: Vec<View> = rows.iter().map(view).collect();
        let tokens: usize = views.iter().map(|v| v.tokens).sum();
        let (errors, statuses) = (views.iter().filter(|v| v.error == Some(true)).count(), views.iter().filter(|v| v.status).count());
        let with_error = views.iter().filter(|v| v.error.is_some()).count();
        println!(
            "{name:<10} {tokens:>7} tokens in all, first error in view in {errors} of {with_error}, final status in {statuses} of {}",
            views.len()
        );
    }
    let slowest = rows.iter().max_by_key(|r| r.took).context("there are logs")?;
    let all: Duration = rows.iter().map(|r| r.took).sum();
    println!(
        "vocabulary: {loaded:.0?} and {} KiB, once; all logs in {all:.0?}, the slowest ({}) in {:.1?}",
        after - before,
        slowest.name,
        slowest.took
    );
    for row in &rows {
        row.check()?;
    }
    Ok(())
}

/// The results of the logs, in the order of their names.
fn measure() -> Result<Vec<Row>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/logs");
    let entries = std::fs::read_dir(&dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths: Vec<_> = entries.map(|e| Ok(e?.path())).collect::<Result<_>>()?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "log"));
    paths.sort();
    paths.iter().map(|path| measure_one(path).with_context(|| format!("{}", path.display()))).collect()
}

fn measure_one(path: &Path) -> Result<Row> {
    let name = path.file_stem().context("a log has a name")?.to_string_lossy().into_owned();
    let marks: Marks = toml::from_str(&std::fs::read_to_string(path.with_extension("toml"))?)?;
    let bytes = std::fs::read(path)?;
    let redactor = Redactor::new(true);
    // All three get the same text, without colours and redraws.
    let text = render(&bytes, &marks.command, &Options::new(&redactor)).text;
    let marked = |mark: &Mark| mark.find(&text);
    let status = marked(&marks.final_status)?;
    let error = marks.first_error.as_ref().map(marked).transpose()?;

    let began = Instant::now();
    let made = brief(&Log::whole(&text), None, &|lines| format!("outlast log proc_3f9c21ab70de --offset {} --limit 200", lines.start));
    let took = began.elapsed();
    let ours = View { tokens: made.tokens, error: error.as_ref().map(|e| e.is_in_brief(&made)), status: status.is_in_brief(&made) };
    let of_ranges =
        |shown: &[Range<usize>], tokens: usize| View { tokens, error: error.as_ref().map(|e| e.is_in(shown)), status: status.is_in(shown) };
    let last = text.char_indices().rev().nth(REFERENCE_CHARS - 1).map_or(0, |(at, _)| at);
    let reference = of_ranges(std::slice::from_ref(&(last..text.len())), count_tokens(&text[last..]));
    let (shown, tokens) = codex(&text);
    let codex = of_ranges(&shown, tokens);
    Ok(Row { name, lines: text.lines().count(), bytes: bytes.len(), whole: count_tokens(&text), ours, reference, codex, took })
}

/// The head and the tail of a text, half of the tokens each, and the tokens of both and the marker in between.
fn codex(text: &str) -> (Vec<Range<usize>>, usize) {
    let whole = count_tokens(text);
    if whole <= CODEX_TOKENS {
        return (vec![0..text.len(), 0..0], whole);
    }
    let marker = |omitted: usize| format!("\n... {omitted} bytes omitted ...\n");
    let half = (CODEX_TOKENS - count_tokens(&marker(text.len()))) / 2;
    let longest = |cost: &dyn Fn(usize) -> usize| {
        let (mut fits, mut not) = (0, text.len());
        while not - fits > 1 {
            let middle = (fits + not) / 2;
            if cost(middle) <= half { fits = middle } else { not = middle }
        }
        fits
    };
    // A character that is cut is left out.
    let up = |at: usize| (at..=text.len()).find(|&i| text.is_char_boundary(i)).unwrap_or(text.len());
    let down = |at: usize| (0..=at).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    let head = down(longest(&|n| count_tokens(&text[..down(n)])));
    let tail = up(text.len() - longest(&|n| count_tokens(&text[up(text.len() - n)..])));
    let shown = format!("{}{}{}", &text[..head], marker(tail - head), &text[tail..]);
    (vec![0..head, tail..text.len()], count_tokens(&shown))
}

/// The lines of a log that were marked by hand.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Marks {
    /// The command.
    command: String,
    /// The line that tells a person what failed, if something did.
    first_error: Option<Mark>,
    /// The line with the result.
    final_status: Mark,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    line: u64,
    text: String,
}

impl Mark {
    fn find(&self, text: &str) -> Result<Marked> {
        let line = outlast_text::lines(text).find(|l| l.number == self.line).with_context(|| format!("there is no line {}", self.line))?;
        ensure!(line.text == self.text, "line {} is {:?}, not {:?}", self.line, line.text, self.text);
        let start = line.text.as_ptr() as usize - text.as_ptr() as usize;
        let enough: String = line.text.chars().take(SEEN_CHARS).collect();
        Ok(Marked { number: self.line, bytes: start..start + enough.len(), enough })
    }
}

struct Marked {
    number: u64,
    bytes: Range<usize>,
    enough: String,
}

impl Marked {
    fn is_in(&self, shown: &[Range<usize>]) -> bool {
        shown.iter().any(|part| part.start <= self.bytes.start && self.bytes.end <= part.end)
    }

    fn is_in_brief(&self, made: &Brief) -> bool {
        made.text.lines().any(|l| l.starts_with(&self.enough)) && !made.left_out.iter().any(|left| left.lines.contains(&self.number))
    }
}

struct Row {
    name: String,
    lines: usize,
    bytes: usize,
    whole: usize,
    reference: View,
    codex: View,
    ours: View,
    took: Duration,
}

impl Row {
    fn percent(&self) -> usize {
        (self.ours.tokens * 100).div_ceil(self.codex.tokens)
    }

    fn check(&self) -> Result<()> {
        ensure!(self.ours.error != Some(false), "{}: the first error is not in view", self.name);
        ensure!(self.ours.status, "{}: the final status is not in view", self.name);
        ensure!(self.percent() <= LIMIT, "{}: {} % of Codex's view", self.name, self.percent());
        Ok(())
    }
}

/// The result of one way to shorten a log.
#[derive(Clone, Copy)]
struct View {
    tokens: usize,
    error: Option<bool>,
    status: bool,
}

impl View {
    fn marks(&self) -> String {
        let error = match self.error {
            Some(true) => 'e',
            Some(false) => '-',
            None => ' ',
        };
        format!("{error}{}", if self.status { 's' } else { '-' })
    }
}

/// KiB of memory in use.
fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).context("VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_log_shows_its_first_error_and_its_end_at_half_the_price() {
        let rows = measure().unwrap();
        assert!(rows.len() >= 20, "{} logs", rows.len());
        let wrong: Vec<String> = rows.iter().filter_map(|row| row.check().err()).map(|e| e.to_string()).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
