//! `cargo xtask bench end`: how long after an end a waiting client has the answer.

use super::harness::{Bench, Figure, Goal, Line, Of, Ours, PATIENCE, Unit, Who};
use super::peers::{Dotfiles, Hermes};
use super::{limits, tools};
use anyhow::{Context, Result, ensure};
use outlast_client::{Body, Spec};
use std::path::Path;

const fn ours(what: &'static str) -> Figure {
    Figure::new("end", what, Who::Ours, Unit::Seconds)
}

const ANSWERED: Figure = ours("end to the waiting client's answer");
const TOLD: Figure = ours("end to event");
const ORPHAN: Figure = ours("end to answer, pipe still held");
const ORPHAN_TOLD: Figure = ours("end to event, pipe still held for 2 s").of(Who::Hermes);
const SEEN: Figure = ours("end to pidfd").of(Who::Limit);
const LOST: Figure = Figure::new("end", "events lost, one after another", Who::Hermes, Unit::Count);
const RECORDED: Figure = ours("end to record fdatasync'ed").of(Who::Limit);

/// How long a command lives, in milliseconds, so that the client waits already when it ends.
const LIVED: &str = "20";
/// How long another process holds its pipe open, in seconds.
const HELD: &str = "2";

pub(crate) fn run(bench: &mut Bench) -> Result<()> {
    let (n, orphans) = (bench.settings.size(100, 10), bench.settings.size(10, 2));
    let stamp = tools::stamp(&bench.settings)?;
    let home = Ours::new(&bench.settings, "", &[])?;
    let mut line = Line::new(&home, "bench:end")?;
    let hermes = Hermes::ready(bench);
    bench.rounds(|bench| {
        bench.take_some(&[SEEN, RECORDED], || {
            limits::records(&stamp, &home.product.work(), n, LIVED).map(|(seen, recorded)| vec![seen, recorded])
        })?;
        bench.take(ANSWERED, || answers(&mut line, &home, &Spec::argv([stamp.as_os_str(), LIVED.as_ref()]), n))?;
        bench.take(TOLD, || events(&mut line, &home, &stamp, n))?;
        let held = format!("/bin/sleep {HELD} & exec {} {LIVED}", stamp.display());
        bench.take(ORPHAN, || answers(&mut line, &home, &Spec::shell(held.as_str()), orphans))?;
        if let Some(hermes) = &hermes {
            let (n, stamp) = (n.to_string(), stamp.to_string_lossy());
            let ask = |args: &[&str], names: &[&str]| hermes.ask(Dotfiles::Clean, args, names);
            bench.take_some(&[TOLD.of(Who::Hermes), LOST], || ask(&["end", &n, &stamp, LIVED], &["told", "lost"]))?;
            bench.take_some(&[ORPHAN_TOLD], || ask(&["orphan", &stamp, LIVED, HELD], &["told"]))?;
        }
        Ok(())
    })?;
    // The processes that hold the pipes end by themselves. Then the home may be closed.
    std::thread::sleep(std::time::Duration::from_secs(HELD.parse()?));
    for goal in goals() {
        bench.goal(goal)?;
    }
    Ok(())
}

fn goals() -> Vec<Goal> {
    let reference = || vec![TOLD.of(Who::Hermes)];
    vec![
        Goal::at_most("end to event / reference's event", Of::Ratio(TOLD, reference()), 0.6),
        Goal::at_most("end to the waiting client's answer, no event made / reference's event", Of::Ratio(ANSWERED, reference()), 0.6),
        Goal::at_most("end to the waiting client's answer / record fdatasync'ed", Of::Ratio(ANSWERED, vec![RECORDED]), 2.0),
        Goal::at_most("orphaned pipe: end of the direct child to the answer", Of::Value(ORPHAN), 0.010),
    ]
}

/// How long after its end the wait for a command is answered.
fn answers(line: &mut Line, ours: &Ours, spec: &Spec, many: usize) -> Result<Vec<f64>> {
    let (client, mut times) = (&line.client, Vec::new());
    line.runtime.block_on(async {
        for _ in 0..many {
            let mut run = ours.run(spec.clone());
            run.spec.tell.completion = false;
            let ended = client.run(run).await?.wait(Some(PATIENCE)).await?;
            let now = tools::clock();
            ensure!(ended.status == "exited", "it is {}", ended.status);
            times.push(tools::since(&ended.output, now)?);
        }
        Ok(times)
    })
}

/// How long after its end the event of a command is there.
fn events(line: &mut Line, ours: &Ours, stamp: &Path, many: usize) -> Result<Vec<f64>> {
    let (client, events, mut times) = (&line.client, &mut line.events, Vec::new());
    line.runtime.block_on(async {
        for _ in 0..many {
            client.run(ours.run(Spec::argv([stamp.as_os_str(), LIVED.as_ref()]))).await?;
            let told = tokio::time::timeout(PATIENCE, events.next()).await.context("an event is lost")??;
            let now = tools::clock();
            let Body::Completion(end) = &told.event.body else { anyhow::bail!("{} was told", told.event.kind()) };
            times.push(tools::since(&end.output, now)?);
        }
        Ok(times)
    })
}
