//! The end: seen, recorded, told, reaped, in this order.
//!
//! Decision 9: docs/decisions/keeper.md; Decision 262: docs/decisions/stop.md.

use crate::os::{self, Waited};
use crate::pair::Pair;
use crate::spawn;
use outlast_core::{Cause, Ending, Outcome, StartFailure, StopWay, Time};
use outlast_store::meta::flag;
use outlast_store::points;
use rustix::fd::AsFd;
use std::sync::atomic::Ordering::SeqCst;

/// How long the heir of a command has to reap it.
const HEIR: std::time::Duration = std::time::Duration::from_secs(1);

/// Looks whether the command is over and publishes its status. The parent does it without reaping; if the parent is none of us, the
/// kernel or `/proc` may still tell. Whether the status is published now.
pub(crate) fn observe(pair: &Pair) -> bool {
    let live = pair.live();
    if live.wait_status().is_some() {
        return true;
    }
    let Some(cmd) = &pair.cmd else { return false };
    match os::peek(cmd.as_fd()) {
        Waited::Ended(status) => {
            points::reach("holder.waited");
            publish(pair, Some(status));
            points::reach("holder.published");
            true
        }
        Waited::NotYet => false,
        Waited::NotOurs => observe_as_stranger(pair),
    }
}

/// The command is not our child: either the other keeper's, who will publish, or its parent died and somebody else reaps it.
fn observe_as_stranger(pair: &Pair) -> bool {
    let live = pair.live();
    let Some(cmd) = &pair.cmd else { return false };
    if !os::is_over(cmd.as_fd()) {
        return false;
    }
    let pid = live.cmd.load(SeqCst) as u32;
    let ticks = live.cmd_ticks.load(SeqCst);
    // Its number may be a stranger's by now.
    let is_it = outlast_store::os::start_ticks(pid).is_ok_and(|t| ticks == 0 || t == ticks);
    let parent = outlast_store::os::parent_of(pid).filter(|_| is_it);
    let keepers = [live.holder.load(SeqCst) as u32, live.pump.load(SeqCst) as u32];
    if parent.is_some_and(|p| keepers.contains(&p)) && !pair.partner_is_over() {
        return false;
    }
    if let Some(status) = os::exit_info(cmd.as_fd()) {
        publish(pair, Some(status));
        return true;
    }
    let since = pair.over_since.get().unwrap_or_else(std::time::Instant::now);
    pair.over_since.set(Some(since));
    match parent {
        // Its heir reaps it at once, after which the kernel tells.
        Some(_) if os::keeps_status() && since.elapsed() < HEIR => false,
        // Or never: then the zombie itself tells those whom it trusts.
        Some(_) => match os::zombie_status(pid) {
            Some(status) => {
                publish(pair, Some(status));
                true
            }
            None => false,
        },
        None => {
            publish(pair, None);
            true
        }
    }
}

fn publish(pair: &Pair, status: Option<i32>) {
    pair.live().publish_status(status, outlast_store::os::now().micros());
}

/// Gives the pid back, once the record is safe. Until then nobody else can have it.
pub(crate) fn reap_if_recorded(pair: &Pair) {
    let live = pair.live();
    if !live.has(flag::RECORDED) || live.has(flag::REAPED) {
        return;
    }
    points::reach("holder.reap.before");
    if let Some(cmd) = &pair.cmd
        && let Waited::Ended(_) = os::reap(cmd.as_fd())
    {
        live.set(flag::REAPED);
        points::reach("holder.reap.after");
    }
}

/// Reaps what the tree has left to us, the command itself and the other keeper aside.
pub(crate) fn reap_orphans(pair: &Pair) {
    let live = pair.live();
    let kept = [live.cmd.load(SeqCst) as u32, live.holder.load(SeqCst) as u32, live.pump.load(SeqCst) as u32];
    for child in outlast_store::os::children_of_one_thread(std::process::id()) {
        if !kept.contains(&child) {
            // Still running, or gone already: either is fine.
            let _left = os::reap_pid(child);
        }
    }
}

/// How it ended, from what was published.
pub(crate) fn ending(pair: &Pair) -> Option<Ending> {
    let live = pair.live();
    let status = live.wait_status()?;
    let errno = live.exec_errno.load(SeqCst);
    let outcome = match status {
        _ if errno != 0 => {
            let step = spawn::step_name(live.exec_step.load(SeqCst));
            let about = if step.contains("directory") { &pair.settings.cwd } else { &pair.settings.program };
            Outcome::NeverStarted(StartFailure { errno, what: format!("{step} {}", about.to_lossy()) })
        }
        None => Outcome::Unknown,
        Some(s) => Outcome::of_wait_status(s),
    };
    let cause = match pair.meta.stop() {
        Some((stop, _)) if stop.way == StopWay::TermOnly && !by_term(&outcome) => Cause::OfItsOwn,
        Some((stop, _)) => stop.cause,
        None => Cause::OfItsOwn,
    };
    let oom = is_kill(&outcome) && live.stop_step.load(SeqCst) == 0 && pair.oom_kills.as_ref().is_some_and(os::OomKills::any_since);
    Some(Ending { outcome, cause, at: Time::from_micros(live.ended_at.load(SeqCst)), oom })
}

/// Whether KILL ended the command, or the last program that its shell ran.
fn is_kill(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Signal { number: 9, .. } | Outcome::Code(137))
}

/// Whether a TERM that was sent long ago can have been the reason.
fn by_term(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Signal { number: 15, .. } | Outcome::Code(143))
}
