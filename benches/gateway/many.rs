//! Many conversations, each with a turn at once: the time that the gateway itself adds to a turn, by its own log.
//!
//! This is the time from reading a message off its socket until it gives the prompt to the engine, and from the end of the answer until it
//! writes the end of the turn to the socket of the following terminal. It includes its commits, and its waiting for the processors and for
//! its other conversations. It does not include the engine, the keepers, the agent or the start of a process.

use super::home::{Conversation, GatewayHome};
use crate::bench_notices::{Spread, spread};
use crate::bench_suite::harness::proc;
use crate::bench_suite::tools::clock;
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// The turns of one kind of agent.
pub(super) struct Turns {
    pub(super) what: &'static str,
    pub(super) share: Spread,
    pub(super) given: Spread,
    pub(super) shown: Spread,
    /// From the message to the end of the turn, as the user sees it.
    pub(super) whole: Spread,
    /// The processor time of the gateway for one turn.
    pub(super) spent: Duration,
}

/// The memory of the gateway, in bytes.
pub(super) struct Memory {
    pub(super) peak: f64,
    pub(super) after: f64,
    pub(super) own: f64,
}

pub(super) fn measure(home: &GatewayHome, conversations: usize, rounds: usize) -> Result<(Vec<Turns>, Memory)> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut all = Vec::new();
    runtime.block_on(async {
        for (what, name, agent) in [("an agent that runs", "acp", home.acp()), ("a command per turn", "command", home.command())] {
            let mut open = home.open(name, &agent, conversations).await?;
            let (mut whole, spent) = (Vec::new(), proc::spent(home.gateway)?);
            for _ in 0..rounds {
                let (back, times) = at_once(open).await?;
                open = back;
                whole.extend(times);
            }
            let spent = (proc::spent(home.gateway)? - spent) / (conversations * rounds) as f64;
            let parts = shares(home, name, rounds)?;
            ensure!(parts.len() == conversations * rounds, "the log has {} turns of {}", parts.len(), conversations * rounds);
            all.push(Turns {
                what,
                share: spread(parts.iter().map(|(given, shown)| *given + *shown).collect()),
                given: spread(parts.iter().map(|(given, _)| *given).collect()),
                shown: spread(parts.iter().map(|(_, shown)| *shown).collect()),
                whole: spread(whole),
                spent: Duration::from_secs_f64(spent),
            });
        }
        anyhow::Ok(())
    })?;
    let memory = Memory {
        peak: proc::status_bytes(home.gateway, "VmHWM")?,
        after: proc::status_bytes(home.gateway, "VmRSS")?,
        own: proc::mapped_bytes(home.gateway, "Pss_Anon")?,
    };
    Ok((all, memory))
}

/// Runs a turn in every conversation, all at once.
async fn at_once(open: Vec<Conversation>) -> Result<(Vec<Conversation>, Vec<Duration>)> {
    let start = Arc::new(Barrier::new(open.len()));
    let mut talking = JoinSet::new();
    for mut conversation in open {
        let start = start.clone();
        talking.spawn(async move {
            start.wait().await;
            let began = clock();
            let seen = conversation.say("what is left to do?").await?;
            anyhow::Ok((conversation, Duration::from_nanos(seen.ended.saturating_sub(began))))
        });
    }
    let done = talking.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(done.into_iter().unzip())
}

/// One turn in the log.
#[derive(Default)]
struct Logged {
    come: Option<Duration>,
    given: Option<Duration>,
    /// When the engine was asked, and how long it took altogether to answer.
    asked: Option<Duration>,
    waited: Duration,
    said: Option<Duration>,
}

/// The times until the prompt was given, and from the answer until it was shown, of the last turns of each conversation of this kind.
fn shares(home: &GatewayHome, name: &str, rounds: usize) -> Result<Vec<(Duration, Duration)>> {
    let log = std::fs::read_to_string(home.product.home().root.join("gateway.log"))?;
    let mut open: HashMap<&str, Logged> = HashMap::new();
    let mut done: HashMap<&str, Vec<(Duration, Duration)>> = HashMap::new();
    for line in log.lines() {
        let Some((head, rest)) = line.split_once(" DEBUG ") else { continue };
        let Some((what, fields)) = rest.split_once(" key=\"") else { continue };
        let key = fields.split('"').next().unwrap_or_default();
        if !key.contains(&format!(":{name}-")) {
            continue;
        }
        let at = time_of_day(head)?;
        let turn = open.entry(key).or_default();
        match what {
            "a message has come" => *turn = Logged { come: Some(at), ..Logged::default() },
            "a line is given to the agent" | "a command is given to the engine" => turn.given = Some(at),
            "the engine is asked about a command" => turn.asked = Some(at),
            "the engine has answered about a command" => turn.waited += at.saturating_sub(turn.asked.context("it was asked")?),
            "an agent has said something" | "a command says nothing more" => turn.said = Some(at),
            "the end of a turn is shown" => {
                let turn = std::mem::take(turn);
                let (come, given) = (turn.come.context("a message comes first")?, turn.given.context("then it is given")?);
                let said = turn.said.context("then it is answered")?;
                done.entry(key).or_default().push((given.saturating_sub(come + turn.waited), at.saturating_sub(said)));
            }
            _ => {}
        }
    }
    // Earlier turns only started the agents.
    Ok(done.into_values().flat_map(|turns| turns[turns.len().saturating_sub(rounds)..].to_vec()).collect())
}

/// The time of day of a line: `2026-10-01T07:05:41.123456Z`.
fn time_of_day(head: &str) -> Result<Duration> {
    let time = head.trim().split_once('T').map(|(_, time)| time.trim_end_matches('Z')).with_context(|| format!("no time: {head:?}"))?;
    let numbers: Vec<f64> =
        time.split(':').map(|word| word.parse().with_context(|| format!("no time: {head:?}"))).collect::<Result<_>>()?;
    let [hours, minutes, seconds] = numbers[..] else { anyhow::bail!("no time: {head:?}") };
    Ok(Duration::from_secs_f64(hours * 3600.0 + minutes * 60.0 + seconds))
}
