//! Whether the machine is idle.

use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// The share of the processors' time that has to be idle.
const ENOUGH: f64 = 0.93;
/// How long this is measured.
const WINDOW: Duration = Duration::from_millis(150);

/// How idle the machine was before a measurement.
pub(super) struct Quiet {
    pub(super) idle: f64,
}

impl Quiet {
    pub(super) fn is_noisy(&self) -> bool {
        self.idle < ENOUGH
    }
}

/// Waits until the machine is idle, at most this long.
pub(super) fn wait(at_most: Duration) -> Result<Quiet> {
    let began = Instant::now();
    loop {
        let before = ticks()?;
        std::thread::sleep(WINDOW);
        let after = ticks()?;
        let (idle, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
        let quiet = Quiet { idle: idle as f64 / all.max(1) as f64 };
        if !quiet.is_noisy() || began.elapsed() >= at_most {
            return Ok(quiet);
        }
    }
}

/// Idle ticks and all ticks of all processors since boot.
fn ticks() -> Result<(u64, u64)> {
    let numbers = numbers()?;
    Ok((numbers[3] + numbers[4], numbers.iter().sum()))
}

/// user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
fn numbers() -> Result<[u64; 8]> {
    let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = stat.lines().next().context("/proc/stat is empty")?;
    let mut numbers = [0; 8];
    for (number, word) in numbers.iter_mut().zip(line.split_whitespace().skip(1)) {
        *number = word.parse().with_context(|| format!("/proc/stat: {word}"))?;
    }
    Ok(numbers)
}

/// The share of the processors' time that the host took from a virtual machine.
pub(crate) struct Stolen([u64; 8]);

impl Stolen {
    /// If the host took more, a time says as much about the host as about the measured program.
    pub(crate) const MOST: f64 = 0.02;

    pub(crate) fn from_now_on() -> Result<Self> {
        numbers().map(Self)
    }

    /// Which part of all there was.
    pub(crate) fn part(&self) -> Result<f64> {
        let now = numbers()?;
        let all: u64 = now.iter().zip(self.0).map(|(now, then)| now.saturating_sub(then)).sum();
        Ok(now[7].saturating_sub(self.0[7]) as f64 / all.max(1) as f64)
    }
}
