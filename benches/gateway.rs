//! `cargo xtask bench gateway`: how soon the end of a process begins a turn, how soon `outlast chat` shows its prompt, and how much time the
//! gateway itself adds to a turn while many conversations have one.

#[path = "gateway/ends.rs"]
mod ends;
#[path = "gateway/home.rs"]
mod home;
#[path = "gateway/many.rs"]
mod many;
#[path = "gateway/prompt.rs"]
mod prompt;

use crate::Flags;
use crate::bench_notices::Spread;
use crate::bench_recovery::{ratio, release};
use crate::bench_suite::harness::{Stolen, target};
use crate::bench_suite::tools;
use anyhow::{Context, Result, ensure};
use home::GatewayHome;
pub(crate) use home::agent;
use std::path::PathBuf;
use std::time::Duration;

/// The goal for the median time from the end of a process to the turn that it begins.
const BEGUN: Duration = Duration::from_millis(5);
/// The goal for the median time from the call of `outlast chat` to its prompt.
const PROMPT: Duration = Duration::from_millis(50);
/// The goal for the 99th percentile of the time that the gateway adds to a turn.
const SHARE: Duration = Duration::from_millis(20);
/// The most memory of the gateway meanwhile.
const MEMORY: f64 = 60.0 * 1024.0 * 1024.0;
/// How often the reference looks for processes that have ended.
const REFERENCE_POLL: Duration = Duration::from_secs(5);

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let ends = flags.get("--ends")?.unwrap_or(200_usize);
    let opens = flags.get("--opens")?.unwrap_or(50_usize);
    let conversations = flags.get("--conversations")?.unwrap_or(200_usize);
    let rounds = flags.get("--rounds")?.unwrap_or(5_usize);
    let program = match flags.get::<PathBuf>("--program")? {
        Some(path) => path.canonicalize().with_context(|| format!("{}", path.display()))?,
        None => release()?,
    };
    let stamp = tools::stamp_in(&target()?.join("bench"))?;
    let home_on = flags.get::<PathBuf>("--home-on")?;
    let new_home = || GatewayHome::new(&program, &stamp, home_on.as_deref());
    let load = std::fs::read_to_string("/proc/loadavg")?;
    println!("gateway, one run; the load before it was {}", load.split(' ').next().unwrap_or_default());
    let stolen = Stolen::from_now_on()?;
    let mut missed = Vec::new();
    // A part that was not asked for is left out.
    if ends > 0 {
        missed.extend(tell_ends(&ends::measure(&new_home()?, &stamp, ends)?, ends));
    }
    if opens > 0 {
        missed.extend(tell_prompts(&prompt::measure(&new_home()?, opens)?, opens));
    }
    if conversations > 0 {
        let (turns, memory) = many::measure(&new_home()?, conversations, rounds)?;
        println!("\n{conversations} conversations with a turn each at once, {rounds} times");
        missed.extend(tell_turns(&turns, &memory));
    }
    let stolen = stolen.part()?;
    let host = if stolen > Stolen::MOST { ", which is too much for these times to be ours alone" } else { "" };
    println!("\nthe host took {:.1} % of the processors meanwhile{host}", stolen * 100.0);
    ensure!(missed.is_empty(), "missed: {}", missed.join("; "));
    Ok(())
}

/// Prints how soon ends began turns. Returns the goals that are missed.
fn tell_ends(begun: &ends::Ends, ends: usize) -> Vec<&'static str> {
    println!("\n{ends} ends of each, one after another, each of a process that is 20 ms old");
    for (what, spread) in &begun.rows {
        print_row(what, *spread, "");
    }
    let limit = begun.limit;
    print_row("the limit: three synced commits in a row, in three threads", limit, "");
    println!("  the reference looks every {REFERENCE_POLL:?}, so half of its turns begin later than {:?}", REFERENCE_POLL / 2);
    for (what, begun) in [("a command per turn", begun.command), ("an agent that runs", begun.acp)] {
        let goal = verdict(begun.half <= BEGUN);
        println!("  {what}: end to turn p50 {:.2?} (goal {BEGUN:?}, {goal}), {:.1} × the limit", begun.half, ratio(begun.half, limit.half));
    }
    let is_met = begun.command.half <= BEGUN && begun.acp.half <= BEGUN;
    if is_met { Vec::new() } else { vec!["the end of a process begins a turn too late"] }
}

/// Prints how soon prompts were shown. Returns the goals that are missed.
fn tell_prompts(shown: &prompt::Shown, opens: usize) -> Vec<&'static str> {
    println!("\n{opens} calls of `outlast chat` in a terminal, the gateway is there");
    let is_met = shown.prompt.half <= PROMPT;
    print_row("exec to prompt", shown.prompt, &format!("goal {PROMPT:?} for the p50, {}", verdict(is_met)));
    print_row("`outlast --version`, to its end", shown.version, &format!("{:.1} × less", ratio(shown.prompt.half, shown.version.half)));
    if is_met { Vec::new() } else { vec!["`outlast chat` shows its prompt too late"] }
}

/// Prints what many turns at once cost. Returns the goals that are missed.
fn tell_turns(turns: &[many::Turns], memory: &many::Memory) -> Vec<&'static str> {
    let mut missed = Vec::new();
    for kind in turns {
        let is_met = kind.share.most <= SHARE;
        print_row(
            &format!("{}: the gateway's own share", kind.what),
            kind.share,
            &format!("goal {SHARE:?} for the p99, {}", verdict(is_met)),
        );
        print_row(&format!("{}: … until its prompt is given", kind.what), kind.given, "");
        print_row(&format!("{}: … from its answer until that is shown", kind.what), kind.shown, "");
        print_row(&format!("{}: the whole turn", kind.what), kind.whole, "");
        println!("  {}: the gateway spends {:.0?} of a processor on a turn", kind.what, kind.spent);
        if !is_met {
            missed.push("the gateway adds too much to a turn");
        }
    }
    let mib = |bytes: f64| bytes / 1024.0 / 1024.0;
    let is_met = memory.peak <= MEMORY;
    println!(
        "  memory of the gateway: at most {:.1} MiB resident (goal {:.0} MiB, {}), {:.1} MiB afterwards, of which {:.1} MiB are its own",
        mib(memory.peak),
        mib(MEMORY),
        verdict(is_met),
        mib(memory.after),
        mib(memory.own)
    );
    if !is_met {
        missed.push("the gateway takes too much memory");
    }
    missed
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

fn print_row(what: &str, spread: Spread, beside: &str) {
    println!("  {what:<75} | {:>9.2?} | {:>9.2?} | {beside}", spread.half, spread.most);
}
