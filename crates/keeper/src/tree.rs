//! Who belongs to the command's tree, and how to signal them and nobody else.

use crate::os;
use crate::pair::Pair;
use outlast_store::dir::Home;
use outlast_store::lock;
use outlast_store::meta::Snapshot;
use outlast_store::os::{children_of, children_of_one_thread};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering::SeqCst;

/// The pids that descend from the command now, zombies aside.
///
/// Orphans of the tree pass to the holder, or to the pump once a holder has died: so what descends from either, themselves aside, is the tree.
/// The leaf adds what left by other ways. After a holder's death some may have passed to neither; those carry the process id in their environment.
/// An engine that was first called from within the tree descends from us too, with the keepers of others: they are not the tree.
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
            // It has ended, and its children are somebody else's.
            Some(_) => _ = seen.insert(cmd),
        }
    }
    open.extend(found.iter().copied());
    if pair.live().holder_deaths.load(SeqCst) > 0 {
        let marked = marked(&pair.id.to_string());
        open.extend(marked.iter().copied());
        found.extend(marked);
    }
    let ended: Vec<u32> = seen.iter().copied().collect();
    let mut foreign = BTreeSet::new();
    while let Some(parent) = open.pop() {
        if seen.insert(parent) {
            let is_keeper = parent == pump || parent == holder;
            if !is_keeper && is_outlast(pair, parent) {
                foreign.insert(parent);
                continue;
            }
            let children = if is_keeper { children_of_one_thread(parent) } else { children_of(parent) };
            open.extend(children.iter().copied());
            found.extend(children);
        }
    }
    found.retain(|p| *p != pump && *p != holder && !foreign.contains(p) && !ended.contains(p));
    found.retain(|p| outlast_store::os::lives(*p));
    found
}

fn keepers(pair: &Pair) -> (u32, u32) {
    (pair.live().pump.load(SeqCst) as u32, pair.live().holder.load(SeqCst) as u32)
}

/// Whether the command's number may be a stranger's by now: whoever reaped it, its handle says so.
fn is_reaped(pair: &Pair) -> bool {
    pair.cmd.as_ref().is_none_or(|cmd| os::send(cmd.as_fd(), 0).is_err_and(|e| e.raw_os_error() == Some(libc::ESRCH)))
}

/// Whether a process is the engine of our home, or a keeper of another process in it. Not by its name, which anybody can take, but by the locks they hold.
fn is_outlast(pair: &Pair, pid: u32) -> bool {
    let home = Home { root: pair.settings.home.as_path().to_owned() };
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let args: Vec<&[u8]> = line.split(|b| *b == 0).collect();
    if args.contains(&&b"__engine"[..]) {
        let owner = std::fs::read_to_string(home.lock()).ok().and_then(|t| t.trim().parse::<u32>().ok());
        return owner == Some(pid) && lock::is_held(&home.lock()).unwrap_or(false);
    }
    if args.contains(&home.nest().as_os_str().as_bytes()) {
        // It holds no lock, and whoever runs this program can be nothing else.
        let exe = |pid: &str| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        return exe(&pid.to_string()).is_some_and(|theirs| theirs.starts_with(home.bin()) || Some(theirs) == exe("self"));
    }
    let folder = args.iter().find_map(|a| std::path::Path::new(std::ffi::OsStr::from_bytes(a)).strip_prefix(home.processes()).ok());
    let Some(other) = folder.and_then(|f| f.to_str()).and_then(|f| f.parse().ok()) else { return false };
    let dir = home.process(other);
    other != pair.id && lock::is_held(&dir.meta()).unwrap_or(false) && Snapshot::read(&dir).is_ok_and(|m| m.pump == pid || m.holder == pid)
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
    if pid == pump || pid == holder || pid <= 1 || is_outlast(pair, pid) {
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
            Some(0 | 1) => break,
            Some(p) if p == pump || p == holder => return true,
            Some(p) if is_outlast(pair, p) => return false,
            Some(p) => at = p,
            None => break,
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
