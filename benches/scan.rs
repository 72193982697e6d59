//! `cargo xtask bench scan`: how much of a pump's throughput watch patterns cost.
//!
//! A pump without an engine copies the output of a program as fast as it can, with and without patterns. The measurements alternate within
//! one run, so that other load affects all alike. The report also has the pump's processor time for each byte: on a busy machine it says
//! more than the speed, since it has no waiting time.

use crate::bench_suite::harness::Stolen;
use crate::{Flags, bench_recovery};
use anyhow::{Context, Result, ensure};
use outlast_testkit::keeper::Nursery;
use outlast_testkit::product::kill_and_wait;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The goal: the share of the speed that remains on plain lines that rarely match, with 10 patterns and with 100. Coloured lines, and lines
/// that all match, are reported without a goal.
const KEPT: [(&str, f64); 2] = [("10,", 0.80), ("100,", 0.60)];
/// Lines of about 100 bytes, each different. A line that repeats is a special case, which `yes` covers.
const LINES: usize = 640_000;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let rounds = flags.get("--rounds")?.unwrap_or(21_usize);
    let window = Duration::from_millis(flags.get("--millis")?.unwrap_or(400_u64));
    let keeper = match flags.get::<PathBuf>("--program")? {
        Some(path) => path.canonicalize().with_context(|| format!("{}", path.display()))?,
        None => bench_recovery::release()?.with_file_name("outlast-keeper"),
    };
    let nursery = Nursery::new(&std::env::temp_dir())?;
    let plain = nursery.path().join("plain");
    let coloured = nursery.path().join("coloured");
    write_lines(&plain, false)?;
    write_lines(&coloured, true)?;
    let again = |file: &Path| -> Vec<String> {
        std::iter::once("/bin/cat".to_owned()).chain(std::iter::repeat_n(file.display().to_string(), 1000)).collect()
    };
    let producers = [
        ("yes", vec!["/usr/bin/yes".to_owned()]),
        ("100-byte lines", again(&plain)),
        ("the same in colour", again(&coloured)),
        ("seq", vec!["/usr/bin/seq".to_owned(), "1".to_owned(), "100000000000".to_owned()]),
    ];
    let with = |first: &str, n: usize| -> Vec<String> { std::iter::once(first.to_owned()).chain(absent(n - 1)).collect() };
    let watches = [
        ("none", Vec::new()),
        ("10, absent", absent(10)),
        ("100, absent", absent(100)),
        ("10, one line in 1,000", with("#00", 10)),
        ("100, one line in 1,000", with("#00", 100)),
    ];
    let stolen = Stolen::from_now_on()?;
    let mut slow = Vec::new();
    println!("pump throughput, medians of {rounds} rounds of {window:?}, taken in turns:");
    for (name, argv) in &producers {
        let lines = *name != "yes" && *name != "seq";
        let (most, often) = match *name {
            "yes" => ("y", "10, every line"),
            "seq" => ("1", "10, most lines"),
            _ => ("2026", "10, every line"),
        };
        let watches = watches.iter().filter(|(what, _)| lines || !what.contains("in 1,000"));
        let watches: Vec<_> = watches.cloned().chain([(often, with(most, 10))]).collect();
        let (mut speeds, mut costs) = (vec![Vec::new(); watches.len()], vec![Vec::new(); watches.len()]);
        for _ in 0..rounds {
            for (n, (_, watch)) in watches.iter().enumerate() {
                let (speed, cost) = measure(&nursery, &keeper, argv, watch, window)?;
                speeds[n].push(speed);
                costs[n].push(cost);
            }
        }
        // Each is compared with the speed without patterns of the same round, so that other load affects both.
        let kept: Vec<f64> = speeds.iter().map(|of| median(&mut ratios(of, &speeds[0]))).collect();
        let more: Vec<f64> = costs.iter().map(|of| median(&mut ratios(of, &costs[0]))).collect();
        let speeds: Vec<f64> = speeds.iter_mut().map(|s| median(s)).collect();
        let costs: Vec<f64> = costs.iter_mut().map(|c| median(c)).collect();
        for (n, (what, _)) in watches.iter().enumerate() {
            let (speed, cost) = (speeds[n], costs[n]);
            println!(
                "  {name:<20} {what:<24} {:>6.0} MB/s {:>5.2} of none   {cost:>6.3} ns of processor a byte {:>5.2} of none",
                speed / 1e6,
                kept[n],
                more[n]
            );
            let limit = KEPT.iter().find(|(many, _)| what.starts_with(many)).map_or(0.0, |(_, kept)| *kept);
            if !name.contains("colour") && *what != often && kept[n] < limit {
                slow.push(format!("{name}, {what}: {:.2} of the speed is kept, and {limit:.2} is to be", kept[n]));
            }
        }
    }
    println!("the host took {:.1} % of the processors meanwhile", stolen.part()? * 100.0);
    ensure!(slow.is_empty(), "{}", slow.join("\n"));
    Ok(())
}

/// The ratio of each value to its neighbour.
pub(crate) fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

/// The bytes per second after the start, and the nanoseconds of the pump's processor time for each byte.
fn measure(nursery: &Nursery, keeper: &Path, argv: &[String], watch: &[String], window: Duration) -> Result<(f64, f64)> {
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let mut child = nursery.start_watched(keeper, nursery.argv(&argv), None, watch)?;
    let base = || child.meta().map(|m| m.commit.base).unwrap_or(0);
    let began = Instant::now();
    while base() < 32 << 20 {
        ensure!(began.elapsed() < Duration::from_secs(30), "{} prints nothing", argv[0]);
        // The mapping does not report changes.
        std::thread::sleep(Duration::from_millis(1));
    }
    let pump = child.meta()?.pump;
    let (from, spent, began) = (base(), processor_ns(pump)?, Instant::now());
    std::thread::sleep(window);
    let (to, spent, took) = (base(), processor_ns(pump)? - spent, began.elapsed());
    kill_and_wait(child.meta()?.cmd)?;
    child.wait_gone()?;
    std::fs::remove_dir_all(&child.dir.path)?;
    let bytes = (to - from) as f64;
    Ok((bytes / took.as_secs_f64(), spent as f64 / bytes))
}

fn processor_ns(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    Ok(text.split_whitespace().next().context("schedstat")?.parse()?)
}

/// Patterns as users write them. No line has any of them.
pub(crate) fn absent(n: usize) -> Vec<String> {
    let first =
        ["ERROR", "FATAL", "panic:", "Traceback (most", "segmentation fault", "listening on port", "Build succeeded", "tests failed"];
    let rest = ["error code", "worker died", "deployment finished", "assertion failed in", "exception"];
    let rest = (0..).map(|i: usize| format!("{} {}/{i}", rest[i % rest.len()], i * 7919 % 1000));
    first.iter().map(|p| (*p).to_owned()).chain(rest).take(n).collect()
}

pub(crate) fn write_lines(path: &Path, coloured: bool) -> Result<()> {
    const WORDS: [&str; 16] = [
        "request",
        "handled",
        "connection",
        "from",
        "worker",
        "thread",
        "status",
        "200",
        "GET",
        "/api/v1/items",
        "session",
        "latency",
        "cache",
        "compiling",
        "test",
        "passed",
    ];
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for number in 0..LINES {
        let mut line = format!("2026-01-02T03:04:{:02}.{:06}Z ", random() % 60, random() % 1_000_000);
        while line.len() < 90 {
            line.push_str(WORDS[(random() % 16) as usize]);
            line.push(' ');
        }
        let mark = if number % 1000 == 0 { "#00" } else { "-" };
        match coloured {
            true => writeln!(out, "\x1b[32m{line}\x1b[0m{mark}")?,
            false => writeln!(out, "{line}{mark}")?,
        }
    }
    Ok(out.flush()?)
}

pub(crate) fn median(speeds: &mut [f64]) -> f64 {
    speeds.sort_by(f64::total_cmp);
    speeds.get(speeds.len() / 2).copied().unwrap_or_default()
}
