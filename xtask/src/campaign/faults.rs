//! Who is killed, and when.

use crate::rng::Rng;
use outlast_store::dir::ProcessDir;
use outlast_store::meta::{Snapshot, flag};
use outlast_testkit::product::{Product, kill_and_wait};
use std::time::{Duration, Instant};

/// One of our processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Victim {
    Engine,
    Holder,
    Pump,
    /// What keepers are forked from.
    Nest,
    /// The next call of the command line.
    Cli,
}

/// Places at which a process can be held, and so be killed exactly there.
pub(crate) const POINTS: [&str; 36] = [
    "nest.asked",
    "pump.prepare",
    "pump.ready",
    "holder.go",
    "pump.fork.before",
    "pump.fork.after",
    "pump.started",
    "pump.scrubbed",
    "pump.batch.spliced",
    "pump.batch.teed",
    "pump.batch.written",
    "pump.batch.committed",
    "pump.batch.dropped",
    "pump.input.filled",
    "pump.input.moved",
    "pump.recorded",
    "pump.marked",
    "pump.told",
    "pump.released",
    "pump.done",
    "holder.start.before",
    "holder.start.marked",
    "holder.start.after",
    "holder.start.saved",
    "holder.scrubbed",
    "holder.told",
    "holder.waited",
    "holder.published",
    "holder.reap.before",
    "holder.reap.after",
    "holder.fork.after",
    "run.before_commit",
    "run.after_commit",
    "run.before_spawn",
    "run.after_spawn",
    "run.before_answer",
];

/// One kill.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// This one, after this many microseconds.
    After(Victim, u64),
    /// The first process that reaches this point.
    At(&'static str),
    /// This keeper; and then the other, right after it has forked a new one.
    AfterTakeover(Victim),
}

impl Fault {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        if rng.one_in(8) {
            return Self::AfterTakeover(*rng.pick(&[Victim::Holder, Victim::Pump]));
        }
        if rng.one_in(2) {
            return Self::At(rng.pick::<&str>(&POINTS));
        }
        let victim = *rng.pick(&[Victim::Engine, Victim::Holder, Victim::Pump, Victim::Nest, Victim::Cli]);
        // Most of what can go wrong happens in the first milliseconds.
        let span = *rng.pick(&[300, 3_000, 30_000, 200_000]);
        Self::After(victim, rng.below(span))
    }
}

/// Whether a process is alive; a zombie is not.
pub(crate) fn alive(pid: u32) -> bool {
    pid != 0 && outlast_store::os::lives(pid)
}

/// The engine's pid, if there is one.
pub(crate) fn engine(product: &Product) -> Option<u32> {
    product.processes().into_iter().find(|(pid, cmd)| cmd.contains("__engine") && alive(*pid)).map(|(pid, _)| pid)
}

/// The pid of what keepers are forked from, if there is one. Those that wait to be asked for are its children, and one more of the same name.
pub(crate) fn nest(product: &Product) -> Option<u32> {
    let engine = engine(product)?;
    let unnamed = product.processes().into_iter().filter(|(_, cmd)| cmd.contains(outlast_store::dir::UNNAMED)).map(|(pid, _)| pid);
    unnamed.into_iter().find(|pid| outlast_store::os::parent_of(*pid) == Some(engine))
}

/// Waits until both keepers live, so that the next kill is a single fault again. `None` once the process is over, or if that takes too long.
pub(crate) fn whole(dir: &ProcessDir, dead: &[u32]) -> Option<Snapshot> {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        if let Ok(meta) = Snapshot::read(dir) {
            if meta.has(flag::DONE) {
                return None;
            }
            if [meta.pump, meta.holder].iter().all(|p| alive(*p) && !dead.contains(p)) {
                return Some(meta);
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    None
}

/// Kills, and waits until it is dead: a second kill before that would be a double fault.
pub(crate) fn kill(pid: u32) -> bool {
    alive(pid) && kill_and_wait(pid).is_ok()
}
