//! Stops what no keeper looks after: by identity, through pidfds, until nothing is left.

use crate::os::{Lives, pid_of_environment};
use crate::shared::Shared;
use outlast_core::{Incarnation, ProcessId, StopWay};
use outlast_store::os::{children_of, incarnation_of, is_alive, parent_of, session_of, signal, start_ticks};
use outlast_store::programs::program_of;
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// How long killed processes may take to go.
const DYING: Duration = Duration::from_secs(5);

/// A tree without a keeper.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    id: ProcessId,
    root: Incarnation,
    /// Whether descendants carry the process id in their environment.
    marked: bool,
    /// The cgroup in which it was started, if it is in one of its own.
    leaf: Option<PathBuf>,
    /// Where our own programs lie: nothing that runs from there is touched.
    bin: PathBuf,
}

/// What came of a stop.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) seen_dead: u32,
    pub(crate) survivors: Vec<u32>,
}

impl Tree {
    pub(crate) fn new(shared: &Shared, id: ProcessId, root: Incarnation, detached: bool) -> Self {
        Self { id, root, marked: !detached, leaf: leaf_of(root.pid, id), bin: shared.home.bin() }
    }

    /// Everything that belongs to it and lives. Each life is taken first and its evidence second, so that a number that passed on is not one of them.
    fn members(&self) -> Vec<Incarnation> {
        let mut lives = self.descendants();
        if let Some(leaf) = &self.leaf {
            let inside: Vec<Incarnation> = procs(leaf).into_iter().filter_map(|pid| incarnation_of(pid).ok()).collect();
            let still = procs(leaf);
            let theirs = self.theirs_in(&still);
            lives.extend(inside.into_iter().filter(|l| still.contains(&l.pid) && !theirs.contains(&l.pid)));
        }
        if self.marked {
            let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
            let numbers = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
            let taken = numbers.filter_map(|pid| incarnation_of(pid).ok());
            lives.extend(taken.filter(|l| self.is_marked(l.pid) && !is_ours(l.pid, &self.bin)));
        }
        lives.into_iter().filter(is_alive).collect()
    }

    /// Whether a process was started as part of this one, which its environment shows. If the environment may not be read (root without
    /// CAP_SYS_PTRACE, and a process of another user), its session shows it, unless the session's pid was reused.
    fn is_marked(&self, pid: u32) -> bool {
        let environment = std::fs::read(format!("/proc/{pid}/environ"));
        match environment {
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                let has_passed_on = start_ticks(self.root.pid).is_ok_and(|ticks| ticks != self.root.start_ticks);
                session_of(pid) == Some(self.root.pid) && !has_passed_on
            }
            _ => pid_of_environment(pid, self.id),
        }
    }

    /// Engines and keepers among these, with all their descendants: they could not leave the cgroup leaf.
    fn theirs_in(&self, pids: &HashSet<u32>) -> HashSet<u32> {
        let mut theirs: HashSet<u32> = pids.iter().copied().filter(|pid| is_ours(*pid, &self.bin)).collect();
        let mut open: Vec<u32> = theirs.iter().copied().collect();
        while let Some(parent) = open.pop() {
            open.extend(children_of(parent).into_iter().filter(|child| theirs.insert(*child)));
        }
        theirs
    }

    /// The root and those below it, for as long as it lives: its number may pass to a stranger, whose children are strangers too.
    fn descendants(&self) -> Vec<Incarnation> {
        let (mut found, mut open) = (HashSet::new(), vec![self.root]);
        while let Some(life) = open.pop() {
            if !is_alive(&life) || is_ours(life.pid, &self.bin) || !found.insert(life) {
                continue;
            }
            let taken = children_of(life.pid).into_iter().filter_map(|pid| incarnation_of(pid).ok());
            let children: Vec<Incarnation> = taken.filter(|c| parent_of(c.pid) == Some(life.pid)).collect();
            // If it ended meanwhile, they may be those of another.
            if is_alive(&life) {
                open.extend(children);
            }
        }
        found.into_iter().collect()
    }
}

fn procs(leaf: &Path) -> HashSet<u32> {
    let text = std::fs::read_to_string(leaf.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|l| l.parse().ok()).collect()
}

/// This engine, and every engine and keeper of any home: they are never part of a tree. Programs that run from `bin` count too, also before
/// they hold their lock.
pub(crate) fn is_ours(pid: u32, bin: &Path) -> bool {
    pid <= 1
        || pid == std::process::id()
        || std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe.starts_with(bin))
        || program_of(pid).is_some()
}

/// The cgroup that was made for this very process, if `pid` is in it.
fn leaf_of(pid: u32, id: ProcessId) -> Option<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    if Path::new(path).file_name()?.to_str()? != id.to_string() {
        return None;
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let mount = mounts.lines().find_map(|l| {
        let mut words = l.split(' ');
        let (_, at, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at))
    })?;
    Some(mount.join(path.trim_start_matches('/')))
}

/// Stops a tree: asks its root, then the rest, then kills what is left, and again what appeared meanwhile.
pub(crate) async fn stop(tree: Tree, way: StopWay) -> io::Result<Ended> {
    let mut targets = Targets::default();
    targets.add(tree.members());
    let grace = match way {
        StopWay::TermOnly => {
            ask(&tree.root)?;
            return Ok(Ended { seen_dead: 0, survivors: Vec::new() });
        }
        StopWay::Escalate { grace } => grace,
    };
    if !grace.is_zero() {
        let until = Instant::now() + grace;
        // The root alone at first: many programs end their children themselves, and better than we could.
        ask(&tree.root)?;
        if gone(&[tree.root], until).await {
            targets.add(tree.members());
            let rest = targets.alive();
            for life in &rest {
                ask(life)?;
            }
            gone(&rest, until).await;
        }
    }
    let until = Instant::now() + DYING;
    loop {
        targets.add(tree.members());
        let left = targets.alive();
        if left.is_empty() {
            break;
        }
        if let Some(leaf) = tree.leaf.as_ref().filter(|leaf| tree.theirs_in(&procs(leaf)).is_empty()) {
            // All at once, so that none can fork away. Where it cannot be had, the loop does the same.
            let _tried = std::fs::write(leaf.join("cgroup.kill"), "1");
        }
        for life in &left {
            tell(life, Signal::KILL)?;
        }
        if !gone(&left, until).await && Instant::now() >= until {
            break;
        }
    }
    let survivors: Vec<u32> = targets.alive().iter().map(|l| l.pid).collect();
    Ok(Ended { seen_dead: (targets.all.len() - survivors.len()) as u32, survivors })
}

/// Every life that was ever seen to belong.
#[derive(Default)]
struct Targets {
    all: HashMap<(u32, u64), Incarnation>,
}

impl Targets {
    fn add(&mut self, lives: Vec<Incarnation>) {
        self.all.extend(lives.into_iter().map(|l| ((l.pid, l.start_ticks), l)));
    }

    fn alive(&self) -> Vec<Incarnation> {
        self.all.values().filter(|l| is_alive(l)).copied().collect()
    }
}

fn ask(life: &Incarnation) -> io::Result<()> {
    tell(life, Signal::TERM)?;
    // A stopped process cannot act on TERM until it is continued.
    tell(life, Signal::CONT)
}

/// Signals a life. That it is over is what was wanted; that we may not is found by whoever counts the survivors.
fn tell(life: &Incarnation, what: Signal) -> io::Result<()> {
    match signal(life, what) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ESRCH | libc::EPERM)) || e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Waits until all of them are over; `false` if the time came first.
async fn gone(lives: &[Incarnation], until: Instant) -> bool {
    for life in lives {
        let Ok(handle) = Lives::of(life) else { continue };
        match tokio::time::timeout_at(until, handle.over()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return !is_alive(life),
        }
    }
    true
}

#[cfg(test)]
mod tests;
