//! Whether the machine has nothing else to do.

use anyhow::{Context, Result};
use std::time::{Duration, Instant};

/// What part of the processors' time has to be idle.
const ENOUGH: f64 = 0.93;
/// How long it is looked at.
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
    let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let line = stat.lines().next().context("/proc/stat is empty")?;
    let numbers: Vec<u64> = line.split_whitespace().skip(1).filter_map(|w| w.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
    let idle = numbers.get(3).unwrap_or(&0) + numbers.get(4).unwrap_or(&0);
    Ok((idle, numbers.iter().take(8).sum()))
}
