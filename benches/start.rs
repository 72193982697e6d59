//! `cargo xtask bench start`: how soon a start is acknowledged, and how soon the end of something short is told.

use super::harness::{Bench, Figure, Goal, Line, Of, Ours, Unit, Who};
use super::limits;
use anyhow::Result;
use outlast_client::Spec;

const fn ours(what: &'static str) -> Figure {
    Figure::new("start", what, Who::Ours, Unit::Seconds)
}

const ACK: Figure = ours("one program, acknowledged");
const TOLD: Figure = ours("one program, start to event");
const SHELL_ACK: Figure = ours("shell line, acknowledged");
const SHELL_TOLD: Figure = ours("shell line, start to event");
const REAL_TOLD: Figure = ours("shell line, start to event, real dotfiles");
const AT_FEW: Figure = ours("acknowledged, 10 running");
const AT_MANY: Figure = ours("acknowledged, 1,000 running");
const SPAWN: Figure = ours("posix_spawn").of(Who::Limit);
const LIFE: Figure = ours("one program, start to end seen").of(Who::Limit);
const SYNC: Figure = ours("256 bytes appended and fdatasync'ed").of(Who::Limit);
const TRIP: Figure = ours("64 bytes over a socket and back").of(Who::Limit);

/// Dotfiles that work as long as those of somebody with a version manager: see the file.
pub(crate) const REAL: &str = include_str!("peers/real.bashrc");

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let (n, few, slow) = (bench.settings.size(200, 20), bench.settings.size(100, 10), bench.settings.size(20, 3));
    let many = bench.settings.size(1000, 50);
    let limits = format!("[limits]\nmax_running = {}\n", many + 20);
    let clean = Ours::new(&bench.settings, "", &[])?;
    let real = Ours::new(&bench.settings, "", &[(".bashrc", REAL), (".bash_profile", ". ~/.bashrc\n")])?;
    let (at_few, at_many) = (Ours::new(&bench.settings, "", &[])?, Ours::new(&bench.settings, &limits, &[])?);
    let mut lines = [&clean, &real, &at_few, &at_many].map(|ours| Line::new(ours, "bench:start"));
    let [Ok(on_clean), Ok(on_real), Ok(on_few), Ok(on_many)] = &mut lines else { anyhow::bail!("an engine is not there") };
    bench.say(&format!("{many} sleepers"));
    on_few.runtime.block_on(at_few.start_sleepers(&on_few.client, 10))?;
    on_many.runtime.block_on(at_many.start_sleepers(&on_many.client, many))?;
    let (program, line) = (Spec::argv(["/bin/true"]), Spec::shell("true"));
    let mut echo = limits::Echo::new()?;
    bench.rounds(|bench| {
        bench.take_some(&[SPAWN, LIFE], || limits::lives(n).map(|(calls, lives)| vec![calls, lives]))?;
        bench.take(SYNC, || limits::sync(&clean.product.work(), n))?;
        bench.take(TRIP, || echo.trips(n * 10))?;
        bench.take_some(&[ACK, TOLD], || on_clean.starts(&clean, &program, n))?;
        bench.take_some(&[SHELL_ACK, SHELL_TOLD], || on_clean.starts(&clean, &line, n))?;
        bench.take_some(&[REAL_TOLD], || Ok(on_real.starts(&real, &line, slow)?.split_off(1)))?;
        bench.take_some(&[AT_FEW], || on_few.starts(&at_few, &program, few))?;
        bench.take_some(&[AT_MANY], || on_many.starts(&at_many, &program, few))
    })?;
    for goal in goals() {
        bench.goal(goal)?;
    }
    Ok(())
}

fn goals() -> Vec<Goal> {
    let reference = |figure: Figure| figure.of(Who::Hermes);
    vec![
        Goal::at_most("durable start acknowledged / (posix_spawn + fdatasync + socket trip)", Of::Ratio(ACK, vec![SPAWN, SYNC, TRIP]), 2.0),
        Goal::at_most("durable start acknowledged / reference", Of::Ratio(SHELL_ACK, vec![reference(SHELL_ACK)]), 0.25),
        Goal::at_most("start at 1,000 running / at 10", Of::Ratio(AT_MANY, vec![AT_FEW]), 1.2),
        Goal::at_most("`true` as a shell line, start to event / reference", Of::Ratio(SHELL_TOLD, vec![reference(SHELL_TOLD)]), 0.5),
        Goal::at_most("the same with real dotfiles", Of::Ratio(REAL_TOLD, vec![reference(REAL_TOLD)]), 0.02),
    ]
}
