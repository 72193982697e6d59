//! Campaigns: the product is broken on purpose, many times, and everything it promised is counted.

mod agents;
mod clients;
mod core;
mod faults;
mod flood;
mod fuzz;
mod gateway;
mod histories;
mod mcp;
mod nameserver;
mod notices;
mod places;
mod report;
mod round;
mod stop;
mod upgrade;

use self::report::Report;
use crate::Flags;
use anyhow::{Context, Result, bail, ensure};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Instant;

pub(crate) use self::agents::run as agents;
pub(crate) use self::clients::run as clients;
pub(crate) use self::core::run as core;
pub(crate) use self::faults::{alive as is_alive, kill as killed, nest as nest_of, whole as whole_pair};
pub(crate) use self::flood::run as flood;
pub(crate) use self::fuzz::run as fuzz;
pub(crate) use self::gateway::{agent as gateway_agent, run as gateway};
pub(crate) use self::histories::run as histories;
pub(crate) use self::mcp::run as mcp;
pub(crate) use self::nameserver::run as nameserver;
pub(crate) use self::notices::run as notices;
pub(crate) use self::places::{Daemon, IMAGE as SKELETON_IMAGE, run as places};
pub(crate) use self::stop::run as stop;
pub(crate) use self::upgrade::run as upgrade;

/// The program under test: the one named, or one built now, with test points.
fn program(flags: &Flags<'_>) -> Result<PathBuf> {
    if let Some(path) = flags.get::<PathBuf>("--program")? {
        return path.canonicalize().with_context(|| format!("{}", path.display()));
    }
    let built = crate::cargo().args(["build", "--quiet", "--package", "outlast", "--features", "test-points"]).status()?;
    ensure!(built.success(), "outlast does not build");
    let beside = std::env::current_exe()?;
    Ok(beside.with_file_name("outlast"))
}

/// How a campaign in rounds is played: repeatable by its seed, in several homes at once.
struct Game {
    program: PathBuf,
    seed: u64,
    homes: u64,
    next: AtomicU64,
    end: u64,
    began: Instant,
}

impl Game {
    fn of(flags: &Flags<'_>) -> Result<Self> {
        let only = flags.get::<u64>("--only")?;
        let rounds = flags.get("--rounds")?.unwrap_or(1000);
        Ok(Self {
            program: program(flags)?,
            seed: flags.get("--seed")?.unwrap_or(1),
            homes: flags.get("--homes")?.unwrap_or(4),
            next: AtomicU64::new(only.unwrap_or(0)),
            end: only.map_or(rounds, |round| round + 1),
            began: Instant::now(),
        })
    }

    /// The next round, for the first worker that asks. No rounds begin after too many failures.
    fn round(&self, report: &Report) -> Option<u64> {
        let round = self.next.fetch_add(1, SeqCst);
        if round >= self.end || report.failures() > 20 {
            return None;
        }
        self.show(round);
        Some(round)
    }

    /// Shown to a person, never to a pipe.
    fn show(&self, round: u64) {
        use std::io::{IsTerminal, Write};
        let mut err = std::io::stderr();
        if err.is_terminal() {
            // It fails if the terminal is gone.
            let _gone = write!(err, "\r{}/{} rounds, {:.0} s ", round + 1, self.end, self.began.elapsed().as_secs_f64());
        }
    }

    /// Prints what was counted, and `good` if nothing went wrong.
    fn finish(&self, name: &str, report: &Report, good: &str) -> Result<()> {
        let (seed, homes, took) = (self.seed, self.homes, self.began.elapsed().as_secs_f64());
        println!("campaign {name}: seed {seed}, {} rounds, {homes} homes, {took:.0} s", report.count("rounds"));
        report.print();
        match report.failures() {
            0 => {
                println!("{good}");
                Ok(())
            }
            n => bail!("{n} promises were broken; repeat a round with --seed {seed} --only ROUND"),
        }
    }
}
