//! Finds and stops trees of processes that no keeper supervises: by identity, through pidfds, until nothing is left.

mod unexamined;

use crate::os::{CAP_SETUID, CAP_SYS_PTRACE, ProcessHandle, has_capability, ids_in};
use crate::points::point;
use crate::{cgroup, keepers};
use outlast_core::{Incarnation, ProcessId, StopWay};
use outlast_store::dir::ProcessDir;
use outlast_store::os::{arguments_of, boot_id, children_of, incarnation_of, is_alive, parent_of, session_of, signal, start_ticks};
use outlast_store::programs::program_of;
use rustix::process::Signal;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use unexamined::{ProcessLinks, Unexamined};

/// How long killed processes may take to exit.
const DYING: Duration = Duration::from_secs(5);

/// Where an engine's own programs and cgroups are. A search for a tree needs this.
#[derive(Debug, Clone)]
pub(crate) struct OwnPlaces {
    /// The directory of our own programs. No process that runs one of them is touched.
    pub(crate) bin: PathBuf,
    pub(crate) cgroups: Option<cgroup::CgroupDir>,
}

/// A tree without a keeper.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    id: ProcessId,
    root: Incarnation,
    /// Processes that were recorded as left running when the command ended.
    left: Vec<Incarnation>,
    /// The folder of the process, after the end of its command. Its keepers may live and adopt orphans of the tree. The folder may also be
    /// a copy of one whose keepers live.
    ended_in: Option<ProcessDir>,
    /// Whether descendants carry the process id in their environment.
    marked: bool,
    /// The cgroup in which it was started, if it is in one of its own.
    leaf: Option<PathBuf>,
    /// The directory of our own programs. No process that runs one of them is touched.
    bin: PathBuf,
    /// The process that became the parent of the root when its keepers died, and that adopts all whose parents are dead. Set only if
    /// members may be processes of other users whose environment we may not read.
    heir: Option<u32>,
}

/// The result of a stop.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoppedTree {
    /// The processes that were seen to die, in the order of their pids.
    pub(crate) seen_dead: Vec<TreeMember>,
    pub(crate) survivors: Vec<u32>,
    /// Processes that may be part of the tree and could not be examined. They were not signalled.
    pub(crate) unexamined: Unexamined,
}

impl Tree {
    pub(crate) fn new(own: &OwnPlaces, id: ProcessId, root: Incarnation, detached: bool) -> Self {
        let is_blind = has_capability(CAP_SETUID) && !has_capability(CAP_SYS_PTRACE);
        let heir = is_blind.then(|| parent_of(root.pid)).flatten().filter(|_| is_alive(&root));
        let leaf = leaf_of(root.pid, id);
        Self { id, root, left: Vec::new(), ended_in: None, marked: !detached, leaf, bin: own.bin.clone(), heir }
    }

    /// The same tree after the end of its root: `left` was recorded as left running.
    pub(crate) fn after_the_end(self, own: &OwnPlaces, left: Vec<Incarnation>, dir: ProcessDir) -> Self {
        // The leaf is not removed while a process is in it.
        let made = || own.cgroups.as_ref().map(|place| place.leaf(self.id)).filter(|leaf| leaf.exists());
        let of_left = || left.iter().filter(|of| is_alive(of)).find_map(|of| leaf_of(of.pid, self.id));
        let leaf = self.leaf.or_else(of_left).or_else(made);
        Self { left, ended_in: Some(dir), leaf, ..self }
    }

    /// The living members of the tree.
    pub(crate) fn members(&self) -> Vec<Incarnation> {
        self.members_among(&Environments::read())
    }

    /// The living members of the tree. Each incarnation is read before its evidence, so that a process with a reused pid is not taken for a
    /// member.
    pub(crate) fn members_among(&self, environments: &Environments) -> Vec<Incarnation> {
        let mut lives = self.descendants(std::iter::once(self.root).chain(self.left.iter().copied()).chain(self.of_keepers()).collect());
        if let Some(leaf) = &self.leaf {
            let inside: Vec<Incarnation> = procs(leaf).into_iter().filter_map(|pid| incarnation_of(pid).ok()).collect();
            let still = procs(leaf);
            let theirs = self.theirs_in(&still);
            lives.extend(inside.into_iter().filter(|l| still.contains(&l.pid) && !theirs.contains(&l.pid)));
        }
        if self.marked {
            // A descendant of another user has an environment that we may not read; its living parents and its session are proof as well.
            lives.extend(self.descendants(environments.of(self.id)));
            let known: HashMap<u32, Incarnation> = lives.iter().map(|life| (life.pid, *life)).collect();
            let proven = environments.unreadable.iter().filter(|life| self.is_in_session_of(life.pid, &known)).copied().collect();
            lives.extend(self.descendants(proven));
        }
        let all: HashSet<Incarnation> = lives.into_iter().filter(|life| !self.is_of_others(life.pid) && is_alive(life)).collect();
        all.into_iter().collect()
    }

    /// The root, if it is to be asked to end before the others. After the end of the command its pid may belong to another process, or to
    /// one in the home of which this one is a copy.
    fn leader(&self) -> Option<Incarnation> {
        Some(self.root).filter(|root| self.ended_in.is_none() && is_alive(root))
    }

    /// Whether a process belongs to the home of which this one is a copy.
    fn is_of_others(&self, pid: u32) -> bool {
        self.ended_in.as_ref().is_some_and(|dir| keepers::is_of_others(pid, self.id, dir))
    }

    /// The children of the living keepers, which adopt orphans of the tree.
    fn of_keepers(&self) -> Vec<Incarnation> {
        let Some(dir) = &self.ended_in else { return Vec::new() };
        let children = |keeper: &Incarnation| {
            let taken: Vec<Incarnation> = children_of(keeper.pid).into_iter().filter_map(|pid| incarnation_of(pid).ok()).collect();
            let found: Vec<Incarnation> = taken.into_iter().filter(|c| parent_of(c.pid) == Some(keeper.pid)).collect();
            // If it ended meanwhile, its pid may have been reused, and the children may be those of another process.
            if is_alive(keeper) { found } else { Vec::new() }
        };
        keepers::lives(dir).iter().flat_map(children).collect()
    }

    /// Whether a process is in a kernel session that the root or another member made. Only descendants of its maker are in a session, and
    /// its number is not reused while they live.
    fn is_in_session_of(&self, pid: u32, members: &HashMap<u32, Incarnation>) -> bool {
        let Some(session) = session_of(pid) else { return false };
        if session != self.root.pid {
            return members.get(&session).is_some_and(is_alive);
        }
        match self.ended_in {
            None => self.may_have_roots_number(),
            // The pid may have been reused by a process that made a session as well. It was not if a known member is still in the session.
            Some(_) => members.values().any(|life| session_of(life.pid) == Some(session) && is_alive(life)),
        }
    }

    /// Whether the root's pid may still be the root's: no other process is known to have it.
    fn may_have_roots_number(&self) -> bool {
        let is_this_boot = boot_id().is_ok_and(|boot| boot == self.root.boot);
        is_this_boot && !start_ticks(self.root.pid).is_ok_and(|ticks| ticks != self.root.start_ticks)
    }

    /// Living processes that may be part of the tree and cannot be examined. `tree` has every pid that was ever seen in it.
    fn unexamined(&self, tree: &HashSet<u32>) -> Unexamined {
        if !self.marked {
            return Unexamined::default();
        }
        let began_after = Environments::read()
            .unreadable
            .into_iter()
            .filter(|life| life.start_ticks >= self.root.start_ticks && !tree.contains(&life.pid));
        let may_be = began_after.filter(|life| is_alive(life) && !self.is_of_other_keepers(life.pid));
        let places: Vec<ProcessLinks> = may_be.filter_map(|life| ProcessLinks::of(life.pid)).collect();
        Unexamined::sorted(&places, tree, self.heir)
    }

    /// Whether a process is one of our programs or descends from one, below the heir of this tree. Then it belongs to another tree.
    fn is_of_other_keepers(&self, pid: u32) -> bool {
        let above = std::iter::successors(Some(pid), |pid| parent_of(*pid)).take_while(|pid| *pid > 1 && Some(*pid) != self.heir);
        // A longer chain of parents is a loop: pids were reused while it was read.
        above.take(10_000).any(|pid| is_ours(pid, &self.bin))
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

    /// These processes and their descendants. Each must be alive after its children were read: a reused pid would bring children of a
    /// stranger.
    fn descendants(&self, mut open: Vec<Incarnation>) -> Vec<Incarnation> {
        let mut found = HashSet::new();
        while let Some(life) = open.pop() {
            if !is_alive(&life) || is_ours(life.pid, &self.bin) || !found.insert(life) {
                continue;
            }
            let taken = children_of(life.pid).into_iter().filter_map(|pid| incarnation_of(pid).ok());
            let children: Vec<Incarnation> = taken.filter(|c| parent_of(c.pid) == Some(life.pid)).collect();
            // If it ended meanwhile, its pid may have been reused, and the children may be those of another process.
            if is_alive(&life) {
                open.extend(children);
            }
        }
        found.into_iter().collect()
    }
}

/// The environments of all processes: each names the process of ours as part of which it was started.
#[derive(Debug, Default)]
pub(crate) struct Environments {
    marked: HashMap<ProcessId, Vec<Incarnation>>,
    /// Processes whose environment we may not read: those of other users, for root without CAP_SYS_PTRACE.
    unreadable: Vec<Incarnation>,
}

impl Environments {
    /// Reads them all.
    pub(crate) fn read() -> Self {
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        let mut found = Self::default();
        for life in numbers.filter_map(|pid| incarnation_of(pid).ok()) {
            match std::fs::read(format!("/proc/{}/environ", life.pid)) {
                Ok(environment) => {
                    for id in ids_in(&environment) {
                        found.marked.entry(id).or_default().push(life);
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => found.unreadable.push(life),
                Err(_) => {}
            }
        }
        found
    }

    /// Whether a process carries this id.
    pub(crate) fn has(&self, id: ProcessId) -> bool {
        self.marked.contains_key(&id)
    }

    fn of(&self, id: ProcessId) -> Vec<Incarnation> {
        self.marked.get(&id).cloned().unwrap_or_default()
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

/// Stops a tree: asks its root to end, then the rest, then kills what is left, again and again for what appears meanwhile.
pub(crate) async fn stop(tree: Tree, way: StopWay) -> io::Result<StoppedTree> {
    let mut targets = Targets::default();
    targets.add(tree.members());
    let grace = match way {
        StopWay::TermOnly => {
            // Without the root all members are asked, because no process passes the request on to them.
            let asked = tree.leader().map_or_else(|| targets.alive(), |leader| vec![leader]);
            asked.iter().try_for_each(ask)?;
            return Ok(StoppedTree { seen_dead: Vec::new(), survivors: Vec::new(), unexamined: Unexamined::default() });
        }
        StopWay::Escalate { grace } => grace,
    };
    if !grace.is_zero() {
        let until = Instant::now() + grace;
        // The root alone at first: many programs end their children themselves, in the right order.
        let leader = tree.leader();
        leader.iter().try_for_each(ask)?;
        if gone(leader.as_slice(), until).await {
            targets.add(tree.members());
            let rest = targets.alive();
            for life in &rest {
                ask(life)?;
            }
            point!("orphan.asked");
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
        let is_ours_alone =
            |inside: HashSet<u32>| tree.theirs_in(&inside).is_empty() && !inside.into_iter().any(|pid| tree.is_of_others(pid));
        if let Some(leaf) = tree.leaf.as_ref().filter(|leaf| is_ours_alone(procs(leaf))) {
            // Kills all at once, so that none can fork away. If this is not possible, the loop does the same.
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
    let mut tree_pids: HashSet<u32> = targets.all.keys().map(|life| life.pid).collect();
    if tree.may_have_roots_number() {
        tree_pids.insert(tree.root.pid);
    }
    let unexamined = tree.unexamined(&tree_pids);
    Ok(StoppedTree { seen_dead: targets.into_dead(), survivors, unexamined })
}

/// An incarnation and the arguments of its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeMember {
    pub(crate) life: Incarnation,
    pub(crate) arguments: Vec<String>,
}

impl TreeMember {
    /// An incarnation with its arguments, which are empty if it has just ended.
    pub(crate) fn of(life: Incarnation) -> Self {
        Self { life, arguments: arguments_of(life.pid).filter(|_| is_alive(&life)).unwrap_or_default() }
    }
}

/// Every incarnation that was ever seen in the tree.
#[derive(Default)]
struct Targets {
    all: HashMap<Incarnation, TreeMember>,
}

impl Targets {
    fn add(&mut self, lives: Vec<Incarnation>) {
        for life in lives {
            self.all.entry(life).or_insert_with(|| TreeMember::of(life));
        }
    }

    fn alive(&self) -> Vec<Incarnation> {
        self.all.keys().filter(|l| is_alive(l)).copied().collect()
    }

    fn into_dead(self) -> Vec<TreeMember> {
        let mut dead: Vec<TreeMember> = self.all.into_values().filter(|named| !is_alive(&named.life)).collect();
        dead.sort_by_key(|named| named.life.pid);
        dead
    }
}

fn ask(life: &Incarnation) -> io::Result<()> {
    tell(life, Signal::TERM)?;
    // A stopped process cannot act on TERM until it is continued.
    tell(life, Signal::CONT)
}

/// Signals an incarnation. It is no error if it has ended. If the signal is not permitted, it is counted among the survivors.
fn tell(life: &Incarnation, what: Signal) -> io::Result<()> {
    match signal(life, what.as_raw()) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ESRCH | libc::EPERM)) || e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Waits until all of them have ended. `false` if the time came first.
async fn gone(lives: &[Incarnation], until: Instant) -> bool {
    for life in lives {
        let Ok(handle) = ProcessHandle::of(life) else { continue };
        match tokio::time::timeout_at(until, handle.exited()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => return !is_alive(life),
        }
    }
    true
}

#[cfg(test)]
mod tests;
