//! Each process of Outlast is killed, and nothing is lost, doubled or made up.

use super::gate::Gate;
use super::output::puppet;
use super::{ends_with, printed, until};
use crate::campaign::{killed, nest_of, whole_pair};
use crate::puppet::Part;
use anyhow::{Context, Result, ensure};
use outlast_store::meta::Snapshot;
use outlast_testkit::product::{Product, kill_and_wait};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

pub(crate) fn engine_killed(p: &Product) -> Result<()> {
    let (gate, id) = waiting(p, &[], 11)?;
    p.kill_engine();
    gate.open()?;
    ends_with(p, &id, 11)?;
    printed(p, &id, b"before\nafter\n")
}

/// The fork server is killed: running commands keep running, and new commands start.
pub(crate) fn fork_server_killed(p: &Product) -> Result<()> {
    let (gate, id) = waiting(p, &[], 12)?;
    let nest = until("the fork server", || nest_of(p))?;
    kill_and_wait(nest)?;
    let next = p.run("exit 13");
    ends_with(p, &next, 13)?;
    gate.open()?;
    ends_with(p, &id, 12)
}

pub(crate) fn pump_killed(p: &Product) -> Result<()> {
    survives(p, &[], 14, |m| m.pump)
}

pub(crate) fn holder_killed(p: &Product) -> Result<()> {
    survives(p, &[], 15, |m| m.holder)
}

pub(crate) fn pump_killed_on_a_terminal(p: &Product) -> Result<()> {
    survives(p, &["--pty"], 16, |m| m.pump)
}

pub(crate) fn holder_killed_on_a_terminal(p: &Product) -> Result<()> {
    survives(p, &["--pty"], 17, |m| m.holder)
}

pub(crate) fn pump_killed_under_load(p: &Product) -> Result<()> {
    under_load(p, 41, |m| m.pump)
}

pub(crate) fn holder_killed_under_load(p: &Product) -> Result<()> {
    under_load(p, 42, |m| m.holder)
}

pub(crate) fn pump_killed_near_the_end(p: &Product) -> Result<()> {
    near_the_end(p, |m| m.pump)
}

pub(crate) fn holder_killed_near_the_end(p: &Product) -> Result<()> {
    near_the_end(p, |m| m.holder)
}

/// The keepers are killed one after the other, each when the pair is whole again. The output stays whole. Before Linux 6.15 the second
/// death may cost the exit code; `poll` says so beforehand, and no code is made up.
pub(crate) fn several_killed_in_turn(p: &Product) -> Result<()> {
    let (gate, id) = waiting(p, &[], 18)?;
    let mut dead = Vec::new();
    let victims: [fn(&Snapshot) -> u32; 3] = [|m| m.pump, |m| m.pump, |m| m.holder];
    let mut is_full = true;
    for victim in victims {
        let meta = whole_pair(&p.folder(&id), &dead).context("the pair was not made whole")?;
        is_full = p.json(["poll", &id])["protection"] == "full";
        let pid = victim(&meta);
        ensure!(killed(pid), "{pid} was not there to be killed");
        dead.push(pid);
        p.kill_engine();
    }
    gate.open()?;
    if is_full {
        ends_with(p, &id, 18)?;
    } else {
        let ended = p.wait(&id);
        let is_honest = ended["exit_code"] == 18 || ended["completion_reason"] == "lost" && ended["exit_code"].is_null();
        ensure!(is_honest, "wait answered {ended}");
    }
    printed(p, &id, b"before\nafter\n")
}

/// Both keepers are killed at once while the command lives: it is an orphan without an exit code, and can be stopped.
pub(crate) fn both_keepers_killed(p: &Product) -> Result<()> {
    let (_gate, id) = waiting(p, &[], 19)?;
    kill_both(&p.meta(&id));
    let polled = until("the orphan to be found", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "orphaned"))?;
    ensure!(polled["exit_code"].is_null(), "an exit code was made up: {polled}");
    let pid = polled["pid"].as_u64().context("the orphan's pid")? as u32;
    let stopped = p.json(["kill", &id, "--grace", "1"]);
    ensure!(stopped["status"] == "killed", "kill answered {stopped}");
    ensure!(!outlast_store::os::lives(pid), "{pid} is alive after kill answered {stopped}");
    Ok(())
}

/// Both keepers are killed at once, and then the command ends: it is lost, and its earlier output is kept.
pub(crate) fn both_keepers_killed_and_the_command_ended(p: &Product) -> Result<()> {
    let (gate, id) = waiting(p, &[], 20)?;
    kill_both(&p.meta(&id));
    gate.open()?;
    let polled = until("the loss to be found", || Some(p.json(["poll", &id])).filter(|v| v["phase"] == "lost"))?;
    ensure!(polled["exit_code"].is_null(), "an exit code was made up: {polled}");
    let log = p.call(["log", &id, "--raw"]).out;
    ensure!(log.starts_with(b"before\n"), "what was committed is gone: {:?}", String::from_utf8_lossy(&log));
    Ok(())
}

/// A command that has printed one line and waits.
fn waiting(p: &Product, flags: &[&str], code: u8) -> Result<(Gate, String)> {
    let gate = Gate::new(p)?;
    let id = p.run_with(flags, &format!("echo before; {}; echo after; exit {code}", gate.wait()));
    until("its first line", || p.call(["log", &id, "--raw"]).out.starts_with(b"before").then_some(()))?;
    Ok((gate, id))
}

fn survives(p: &Product, flags: &[&str], code: u8, victim: fn(&Snapshot) -> u32) -> Result<()> {
    let (gate, id) = waiting(p, flags, code)?;
    kill_and_wait(victim(&p.meta(&id)))?;
    gate.open()?;
    ends_with(p, &id, i64::from(code))?;
    printed(p, &id, if flags.is_empty() { b"before\nafter\n" } else { b"before\r\nafter\r\n" })
}

fn under_load(p: &Product, seed: u64, victim: fn(&Snapshot) -> u32) -> Result<()> {
    let part = Part { lines: 30_000, reads: false, code: 21, seed };
    let id = puppet(p, &[], &part)?;
    until("some output", || (p.meta(&id).commit.base > 50_000).then_some(()))?;
    kill_and_wait(victim(&p.meta(&id)))?;
    ends_with(p, &id, 21)?;
    printed(p, &id, &part.output(&[], false))
}

/// A keeper is killed as the last line is committed, ten times: before, while or after the end is recorded.
fn near_the_end(p: &Product, victim: fn(&Snapshot) -> u32) -> Result<()> {
    for _ in 0..10 {
        let (gate, id) = waiting(p, &[], 22)?;
        let meta = p.meta(&id);
        gate.open()?;
        until("its last line", || Snapshot::read(&p.folder(&id)).is_ok_and(|m| m.commit.base >= 13).then_some(()))?;
        kill_and_wait(victim(&meta))?;
        ends_with(p, &id, 22)?;
        printed(p, &id, b"before\nafter\n")?;
    }
    Ok(())
}

/// Both are suspended first. Otherwise the second one has replaced the first before it is killed.
pub(crate) fn kill_both(meta: &Snapshot) {
    let handles: Vec<_> = [meta.pump, meta.holder]
        .iter()
        .filter_map(|p| Pid::from_raw(*p as i32))
        .filter_map(|p| pidfd_open(p, PidfdFlags::empty()).ok())
        .collect();
    for signal in [Signal::STOP, Signal::KILL] {
        for handle in &handles {
            // A keeper that has exited already needs no signal.
            let _gone = pidfd_send_signal(handle, signal);
        }
    }
}
