//! `cargo xtask bench start`: how soon a start is acknowledged, and how soon the end of a short command is delivered.

use super::harness::{Bench, Figure, Goal, Line, Of, Ours, Unit, Who};
use super::limits;
use super::peers::{self, Dotfiles, Hermes, Pueue, Spooler, Tmux};
use anyhow::Result;
use outlast_client::Spec;
use std::process::Command;

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
const CLI: Figure = ours("a call of the command line that starts one");
const LOST: Figure = Figure::new("start", "events lost, one after another", Who::Hermes, Unit::Count);
const SPAWN: Figure = ours("posix_spawn").of(Who::Limit);
const LIFE: Figure = ours("one program, start to end seen").of(Who::Limit);
const SYNC: Figure = ours("256 bytes appended and fdatasync'ed").of(Who::Limit);
const TRIP: Figure = ours("64 bytes over a socket and back").of(Who::Limit);

/// Dotfiles that take as long as those of a user with a version manager: see the file.
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
    let hermes = Hermes::ready(bench);
    let (pueue, spooler, tmux) = (Pueue::ready(bench, 8), Spooler::ready(bench, 8), Tmux::ready(bench));
    bench.rounds(|bench| {
        bench.take_some(&[SPAWN, LIFE], || limits::lives(n).map(|(calls, lives)| vec![calls, lives]))?;
        bench.take(SYNC, || limits::sync(&clean.product.work(), n))?;
        bench.take(TRIP, || echo.trips(n * 10))?;
        bench.take_some(&[ACK, TOLD], || on_clean.starts(&clean, &program, n))?;
        bench.take_some(&[SHELL_ACK, SHELL_TOLD], || on_clean.starts(&clean, &line, n))?;
        bench.take_some(&[REAL_TOLD], || Ok(on_real.starts(&real, &line, slow)?.split_off(1)))?;
        bench.take_some(&[AT_FEW], || on_few.starts(&at_few, &program, few))?;
        bench.take_some(&[AT_MANY], || on_many.starts(&at_many, &program, few))?;
        if let Some(hermes) = &hermes {
            by_reference(bench, hermes, [n, slow, many, few])?;
        }
        bench.take(CLI, || peers::calls(1, few, |_| clean.product.command(["run", "--", "/bin/true", "now"])))?;
        if let Some(pueue) = &pueue {
            bench.take(CLI.of(Who::Pueue), || peers::calls(1, few, |_| with(pueue.command(), &["add", "--", "/bin/true"])))?;
        }
        if let Some(spooler) = &spooler {
            bench.take(CLI.of(Who::TaskSpooler), || peers::calls(1, few, |_| with(spooler.command(false), &["/bin/true"])))?;
        }
        if let Some(tmux) = &tmux {
            bench.take(CLI.of(Who::Tmux), || peers::calls(1, few, |_| with(tmux.command(), &["new-session", "-d", "/bin/true"])))?;
        }
        Ok(())
    })?;
    for goal in goals() {
        bench.goal(goal)?;
    }
    Ok(())
}

/// The same for the reference, with a new process for each command.
fn by_reference(bench: &mut Bench, hermes: &Hermes, [n, slow, many, few]: [usize; 4]) -> Result<()> {
    let of = |figure: Figure| figure.of(Who::Hermes);
    let [n, slow, many, few] = [n, slow, many, few].map(|number| number.to_string());
    bench.take_some(&[of(SHELL_ACK), of(SHELL_TOLD), LOST], || {
        hermes.ask(Dotfiles::Clean, &["start", &n, "true"], &["acknowledged", "told", "lost"])
    })?;
    bench.take(of(REAL_TOLD), || Ok(hermes.ask(Dotfiles::Real, &["start", &slow, "true"], &["told"])?.remove(0)))?;
    for (figure, running) in [(AT_FEW, "10"), (AT_MANY, &many)] {
        bench.take(of(figure), || Ok(hermes.ask(Dotfiles::Clean, &["beside", running, &few], &["acknowledged"])?.remove(0)))?;
    }
    Ok(())
}

fn with(mut call: Command, args: &[&str]) -> Command {
    call.args(args);
    call
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
