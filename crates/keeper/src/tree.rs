//! Who belongs to the command's tree, and how to signal them and nobody else.

use crate::os;
use crate::pair::Pair;
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;

/// The pids that descend from the command now, zombies aside.
///
/// Orphans of the tree pass to the holder, or to the pump once a holder has died: so what descends from either, themselves aside, is the tree.
/// The leaf adds what left by other ways. After a holder's death some may have passed to neither; those carry the process id in their environment.
pub(crate) fn members(pair: &Pair) -> BTreeSet<u32> {
    let (pump, holder) = keepers(pair);
    let mut found: BTreeSet<u32> = pair.leaf().map(|l| l.pids().into_iter().collect()).unwrap_or_default();
    let mut open: Vec<u32> = vec![pump, holder];
    let cmd = pair.live().cmd.load(SeqCst) as u32;
    if cmd != 0 && !is_reaped(pair) {
        open.push(cmd);
        found.insert(cmd);
    }
    open.extend(found.iter().copied());
    if pair.live().holder_deaths.load(SeqCst) > 0 {
        let marked = marked(&pair.id.to_string());
        open.extend(marked.iter().copied());
        found.extend(marked);
    }
    let mut seen = BTreeSet::new();
    while let Some(parent) = open.pop() {
        if seen.insert(parent) {
            let children = outlast_store::os::children_of(parent);
            open.extend(children.iter().copied());
            found.extend(children);
        }
    }
    found.remove(&pump);
    found.remove(&holder);
    found.retain(|p| std::path::Path::new(&format!("/proc/{p}")).exists() && !outlast_store::os::is_zombie(*p));
    found
}

fn keepers(pair: &Pair) -> (u32, u32) {
    (pair.live().pump.load(SeqCst) as u32, pair.live().holder.load(SeqCst) as u32)
}

fn is_reaped(pair: &Pair) -> bool {
    pair.live().has(outlast_store::meta::flag::REAPED)
}

/// Processes whose environment names this one.
fn marked(id: &str) -> Vec<u32> {
    let mark = format!("OUTLAST_PROCESS_ID={id}");
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| carries(*pid, &mark)).collect()
}

fn carries(pid: u32, mark: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|env| env.split(|b| *b == 0).any(|v| v == mark.as_bytes()))
}

/// A handle on a member, or nothing if the number no longer means one. Opened first and looked at second: while the handle's process is not
/// reaped its number is its own, so what is read of the number is true of the handle.
pub(crate) fn handle(pair: &Pair, pid: u32) -> Option<OwnedFd> {
    let fd = os::open_pidfd(i32::try_from(pid).ok()?).ok()?;
    let belongs = belongs(pair, pid);
    (belongs && os::send(fd.as_fd(), 0).is_ok()).then_some(fd)
}

fn belongs(pair: &Pair, pid: u32) -> bool {
    let (pump, holder) = keepers(pair);
    if pid == pump || pid == holder || pid <= 1 {
        return false;
    }
    if pid == pair.live().cmd.load(SeqCst) as u32 && !is_reaped(pair) {
        return true;
    }
    if pair.leaf().is_some_and(|l| l.pids().contains(&pid)) {
        return true;
    }
    let mut at = pid;
    // A chain of parents longer than this is a loop made by numbers passing on while we read.
    for _ in 0..10_000 {
        match outlast_store::os::parent_of(at) {
            Some(p) if p == pump || p == holder => return true,
            Some(p) if p > 1 => at = p,
            Some(_) | None => break,
        }
    }
    pair.live().holder_deaths.load(SeqCst) > 0 && carries(pid, &format!("OUTLAST_PROCESS_ID={}", pair.id))
}

/// Signals every member once. How many were reached.
pub(crate) fn signal_all(pair: &Pair, members: &BTreeSet<u32>, number: i32) -> u32 {
    let mut reached = 0;
    for pid in members {
        if let Some(fd) = handle(pair, *pid) {
            // Gone between look and signal: that is what was wanted.
            reached += u32::from(os::send(fd.as_fd(), number).is_ok());
        }
    }
    reached
}
