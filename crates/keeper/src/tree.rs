//! Which processes belong to the command's tree, and how to signal exactly those.
//!
//! Decision 8: docs/decisions/keeper.md; Decision 38: docs/decisions/stop.md.

use crate::os;
use crate::pair::Pair;
use outlast_core::Incarnation;
use outlast_store::os::{children_of, children_of_one_thread, incarnation_of, runs_on};
use outlast_store::programs::program_of;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;

/// The pids that descend from the command now, without zombies.
///
/// Orphans of the tree pass to the holder, or to the pump once a holder has died. So the descendants of either, except for the
/// keepers themselves, are the tree. The leaf adds those that left it in other ways. After a holder's death some may have passed to
/// neither keeper; they carry the process id in their environment. An engine that was started from within the tree descends from
/// the keepers, too, with the keepers of other processes, of this home or another. They are not part of the tree.
pub(crate) fn members(pair: &Pair) -> BTreeSet<u32> {
    let (pump, holder) = keepers(pair);
    let mut found: BTreeSet<u32> = pair.leaf().map(|l| l.pids().into_iter().collect()).unwrap_or_default();
    let mut open: Vec<u32> = [pump, holder].into_iter().filter(|p| *p != 0).collect();
    let cmd = pair.live().cmd.load(SeqCst) as u32;
    let mut seen = BTreeSet::new();
    if cmd != 0 && !is_reaped(pair) {
        match pair.live().wait_status() {
            None => {
                open.push(cmd);
                found.insert(cmd);
            }
            // It has ended, and its children have another parent.
            Some(_) => _ = seen.insert(cmd),
        }
    }
    open.extend(found.iter().copied());
    if pair.live().holder_deaths.load(SeqCst) > 0 {
        let marked = marked(pair);
        open.extend(marked.iter().copied());
        found.extend(marked);
    }
    let ended: Vec<u32> = seen.iter().copied().collect();
    let mut foreign = BTreeSet::new();
    while let Some(parent) = open.pop() {
        if seen.insert(parent) {
            let is_keeper = parent == pump || parent == holder;
            if !is_keeper && is_outlast(parent) {
                foreign.insert(parent);
                continue;
            }
            let children = if is_keeper { children_of_one_thread(parent) } else { children_of(parent) };
            open.extend(children.iter().copied());
            found.extend(children);
        }
    }
    // Those that could not leave the leaf are in it with all their descendants.
    let mut theirs: Vec<u32> = foreign.iter().copied().collect();
    while let Some(parent) = theirs.pop() {
        theirs.extend(children_of(parent).into_iter().filter(|child| foreign.insert(*child)));
    }
    found.retain(|p| *p != pump && *p != holder && !foreign.contains(p) && !ended.contains(p));
    found.retain(|p| outlast_store::os::lives(*p));
    found
}

/// The members that keep running. The last writer of an output may be about to exit when the output is found to be closed; it does
/// not count.
pub(crate) fn left(pair: &Pair) -> Vec<Incarnation> {
    members(pair).into_iter().filter_map(|pid| incarnation_of(pid).ok()).filter(runs_on).collect()
}

fn keepers(pair: &Pair) -> (u32, u32) {
    (pair.live().pump.load(SeqCst) as u32, pair.live().holder.load(SeqCst) as u32)
}

/// Whether the command's pid may be reused by now: its handle tells, no matter which process has reaped it.
fn is_reaped(pair: &Pair) -> bool {
    pair.cmd.as_ref().is_none_or(|cmd| outlast_store::os::send(cmd.as_fd(), 0).is_err_and(|e| e.raw_os_error() == Some(libc::ESRCH)))
}

/// Whether a process is an engine or a keeper of any home.
fn is_outlast(pid: u32) -> bool {
    program_of(pid).is_some()
}

/// The leaf, if everything in it may be killed at once. An engine or keeper of another process may have been unable to leave it.
pub(crate) fn leaf_of_ours_alone(pair: &Pair) -> Option<&os::Leaf> {
    pair.leaf().filter(|leaf| !leaf.pids().into_iter().any(is_outlast))
}

/// Processes whose environment names this one.
fn marked(pair: &Pair) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| is_marked(pair, *pid)).collect()
}

/// Whether a process was started as part of this one: its environment says so. If the environment may not be read (root without
/// CAP_SYS_PTRACE, and a process of another user), its session decides as long as the command is not reaped: no other session can
/// have that number.
fn is_marked(pair: &Pair, pid: u32) -> bool {
    let mark = format!("OUTLAST_PROCESS_ID={}", pair.id);
    match std::fs::read(format!("/proc/{pid}/environ")) {
        Ok(environment) => environment.split(|b| *b == 0).any(|v| v == mark.as_bytes()),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            let cmd = pair.live().cmd.load(SeqCst) as u32;
            cmd != 0 && !is_reaped(pair) && outlast_store::os::session_of(pid) == Some(cmd)
        }
        Err(_) => false,
    }
}

/// A handle on a member; none if the pid belongs to another process. Opened first, checked second: while the handle's process is
/// not reaped, its pid is not reused, so what is read about the pid is true of the handle.
pub(crate) fn handle(pair: &Pair, pid: u32) -> Option<OwnedFd> {
    let fd = os::open_pidfd(i32::try_from(pid).ok()?).ok()?;
    let belongs = belongs(pair, pid);
    (belongs && !is_gone(&fd)).then_some(fd)
}

/// Whether the process behind a handle has ended. A process that may not be signalled exists.
fn is_gone(fd: &OwnedFd) -> bool {
    outlast_store::os::send(fd.as_fd(), 0).is_err_and(|e| e.raw_os_error() != Some(libc::EPERM))
}

fn belongs(pair: &Pair, pid: u32) -> bool {
    let (pump, holder) = keepers(pair);
    if pid == pump || pid == holder || pid <= 1 || is_outlast(pid) {
        return false;
    }
    if pid == pair.live().cmd.load(SeqCst) as u32 && !is_reaped(pair) {
        return true;
    }
    let mut at = pid;
    // A longer chain of parents is a loop, made by pids that were reused while they were read.
    for _ in 0..10_000 {
        match outlast_store::os::parent_of(at) {
            Some(0 | 1) => break,
            Some(p) if p == pump || p == holder => return true,
            Some(p) if is_outlast(p) => return false,
            Some(p) => at = p,
            None => break,
        }
    }
    if pair.leaf().is_some_and(|l| l.pids().contains(&pid)) {
        return true;
    }
    pair.live().holder_deaths.load(SeqCst) > 0 && is_marked(pair, pid)
}

/// Signals every member once. Returns how many were reached.
pub(crate) fn signal_all(pair: &Pair, members: &BTreeSet<u32>, number: i32) -> u32 {
    let mut reached = 0;
    for pid in members {
        if let Some(fd) = handle(pair, *pid) {
            // It may be gone by now.
            reached += u32::from(outlast_store::os::send(fd.as_fd(), number).is_ok());
        }
    }
    reached
}
