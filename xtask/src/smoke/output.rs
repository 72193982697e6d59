//! Output and input, compared byte by byte.

use super::{ends_with, printed, until};
use crate::puppet::Part;
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::Product;

/// Starts a puppet, whose output is known to the byte.
pub(crate) fn puppet(p: &Product, flags: &[&str], part: &Part) -> Result<String> {
    let exe = std::env::current_exe()?.display().to_string();
    let mark = p.work().join(format!("mark-{}", part.seed));
    let words = part.args(&mark);
    let started = p.json(["run"].iter().chain(flags).chain(&["--"]).map(|s| (*s).to_owned()).chain([exe]).chain(words));
    Ok(started["session_id"].as_str().with_context(|| format!("run answered {started}"))?.to_owned())
}

pub(crate) fn three_megabytes(p: &Product) -> Result<()> {
    let part = Part { lines: 75_000, reads: false, code: 3, seed: 31 };
    let want = part.output(&[], false);
    ensure!(want.len() > 3_000_000, "the puppet prints {} bytes", want.len());
    let id = puppet(p, &[], &part)?;
    ends_with(p, &id, 3)?;
    printed(p, &id, &want)
}

pub(crate) fn many_writers(p: &Product) -> Result<()> {
    let id =
        p.run("for w in 1 2 3 4 5 6 7 8; do (n=0; while [ $n -lt 300 ]; do echo \"writer $w line $n\"; n=$((n+1)); done) & done; wait");
    ends_with(p, &id, 0)?;
    let text = p.call(["log", &id, "--raw"]).text();
    for w in 1..=8 {
        let of: Vec<&str> = text.lines().filter(|l| l.starts_with(&format!("writer {w} "))).collect();
        let want: Vec<String> = (0..300).map(|n| format!("writer {w} line {n}")).collect();
        ensure!(of == want, "writer {w}: {} lines, or not in order", of.len());
    }
    ensure!(text.lines().count() == 2400, "{} lines instead of 2400", text.lines().count());
    Ok(())
}

pub(crate) fn follow_to_the_end(p: &Product) -> Result<()> {
    let part = Part { lines: 4_000, reads: false, code: 0, seed: 32 };
    let id = puppet(p, &[], &part)?;
    let followed = p.call(["log", &id, "--follow", "--raw", "--from-byte", "0"]);
    ensure!(
        followed.out == part.output(&[], false),
        "followed {} bytes; log exited {:?}: {}",
        followed.out.len(),
        followed.code,
        followed.err
    );
    Ok(())
}

pub(crate) fn terminal_output(p: &Product) -> Result<()> {
    let part = Part { lines: 2_000, reads: false, code: 9, seed: 33 };
    let id = puppet(p, &["--pty"], &part)?;
    ends_with(p, &id, 9)?;
    printed(p, &id, &part.output(&[], true))
}

pub(crate) fn input(p: &Product) -> Result<()> {
    feed(p, &["--stdin"], 34)
}

pub(crate) fn terminal_input(p: &Product) -> Result<()> {
    feed(p, &["--pty"], 35)
}

fn feed(p: &Product, flags: &[&str], seed: u64) -> Result<()> {
    let part = Part { lines: 3, reads: true, code: 2, seed };
    let lines: Vec<String> = (0..5).map(|n| format!("input {n} {}", "y".repeat(n * 50))).collect();
    let id = puppet(p, flags, &part)?;
    until("the command to ask for input", || p.call(["log", &id, "--raw"]).text().contains("ready").then_some(()))?;
    for line in &lines {
        let written = p.json(["submit", &id, line]);
        ensure!(written["status"] == "ok", "submit answered {written}");
    }
    let closed = p.json(["close", &id]);
    ensure!(closed["status"] == "ok", "close answered {closed}");
    ends_with(p, &id, 2)?;
    printed(p, &id, &part.output(&lines, flags == ["--pty"]))
}
