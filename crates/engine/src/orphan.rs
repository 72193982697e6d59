//! Finds and stops what no keeper looks after: by identity, through pidfds, until nothing is left.

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

/// How long killed processes may take to go.
const DYING: Duration = Duration::from_secs(5);

/// Where the programs and the cgroups of an engine are: what a search for a tree has to know.
#[derive(Debug, Clone)]
pub(crate) struct OwnPlaces {
    /// Our own programs. No process that runs one of them is touched.
    pub(crate) bin: PathBuf,
    pub(crate) cgroups: Option<cgroup::CgroupDir>,
}

/// A tree without a keeper.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    id: ProcessId,
    root: Incarnation,
    /// Those that were recorded as left running when the command was over.
    left: Vec<Incarnation>,
    /// The folder of the process after the end of its command: its keepers may live, to whom orphans of the tree pass, and those of a folder of which this
    /// one is a copy.
    ended_in: Option<ProcessDir>,
    /// Whether descendants carry the process id in their environment.
    marked: bool,
    /// The cgroup in which it was started, if it is in one of its own.
    leaf: Option<PathBuf>,
    /// Where our own programs lie: nothing that runs from there is touched.
    bin: PathBuf,
    /// The process to which the root passed when its keepers died, and to which all pass whose parents are dead. Set only if members may be
    /// processes of other users whose environment we may not read.
    heir: Option<u32>,
}

/// What came of a stop.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoppedTree {
    /// Those that were seen to die, in the order of their pids.
    pub(crate) seen_dead: Vec<TreeMember>,
    pub(crate) survivors: Vec<u32>,
    /// What may be part of it and could not be examined. It was not signalled.
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
        // The leaf is kept for as long as something is in it.
        let made = || own.cgroups.as_ref().map(|place| place.leaf(self.id)).filter(|leaf| leaf.exists());
        let of_left = || left.iter().filter(|of| is_alive(of)).find_map(|of| leaf_of(of.pid, self.id));
        let leaf = self.leaf.or_else(of_left).or_else(made);
        Self { left, ended_in: Some(dir), leaf, ..self }
    }

    /// Everything that belongs to it and lives.
    pub(crate) fn members(&self) -> Vec<Incarnation> {
        self.members_among(&Environments::read())
    }

    /// Everything that belongs to it and lives. Each life is taken first and its evidence second, so that a number that passed on is not one of them.
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

    /// The root while it is to be asked before the others. After the end of the command its number is that of another process, or of one that runs in the home
    /// of which this one is a copy.
    fn leader(&self) -> Option<Incarnation> {
        Some(self.root).filter(|root| self.ended_in.is_none() && is_alive(root))
    }

    /// Whether a process belongs to the home of which this one is a copy.
    fn is_of_others(&self, pid: u32) -> bool {
        self.ended_in.as_ref().is_some_and(|dir| keepers::is_of_others(pid, self.id, dir))
    }

    /// The children of the keepers that live: orphans of the tree pass to them.
    fn of_keepers(&self) -> Vec<Incarnation> {
        let Some(dir) = &self.ended_in else { return Vec::new() };
        let children = |keeper: &Incarnation| {
            let taken: Vec<Incarnation> = children_of(keeper.pid).into_iter().filter_map(|pid| incarnation_of(pid).ok()).collect();
            let found: Vec<Incarnation> = taken.into_iter().filter(|c| parent_of(c.pid) == Some(keeper.pid)).collect();
            // If it ended meanwhile, they may be those of another.
            if is_alive(keeper) { found } else { Vec::new() }
        };
        keepers::lives(dir).iter().flat_map(children).collect()
    }

    /// Whether a process is in a session that the root or another member made. Only descendants of its maker are in a session, and its
    /// number is not given to another while they are.
    fn is_in_session_of(&self, pid: u32, members: &HashMap<u32, Incarnation>) -> bool {
        let Some(session) = session_of(pid) else { return false };
        if session != self.root.pid {
            return members.get(&session).is_some_and(is_alive);
        }
        match self.ended_in {
            None => self.may_have_roots_number(),
            // The number may have been given to a stranger since, who made a session as well. It was not if a known member is still in the session.
            Some(_) => members.values().any(|life| session_of(life.pid) == Some(session) && is_alive(life)),
        }
    }

    /// Whether the number of the root is not known to be another process's by now.
    fn may_have_roots_number(&self) -> bool {
        let is_this_boot = boot_id().is_ok_and(|boot| boot == self.root.boot);
        is_this_boot && !start_ticks(self.root.pid).is_ok_and(|ticks| ticks != self.root.start_ticks)
    }

    /// Those that may be part of it, live, and cannot be examined. `tree` has everyone who was ever seen in it.
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

    /// Whether a process is one of ours or descends from one, below the heir of this tree: then it belongs to another process.
    fn is_of_other_keepers(&self, pid: u32) -> bool {
        let above = std::iter::successors(Some(pid), |pid| parent_of(*pid)).take_while(|pid| *pid > 1 && Some(*pid) != self.heir);
        // A chain of parents longer than this is a loop made by numbers passing on while we read.
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

    /// These and those below them, for as long as they live: a number may pass to a stranger, whose children are strangers too.
    fn descendants(&self, mut open: Vec<Incarnation>) -> Vec<Incarnation> {
        let mut found = HashSet::new();
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

/// What the environments of all processes say: as part of which process of ours they were started.
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

/// Stops a tree: asks its root, then the rest, then kills what is left, and again what appeared meanwhile.
pub(crate) async fn stop(tree: Tree, way: StopWay) -> io::Result<StoppedTree> {
    let mut targets = Targets::default();
    targets.add(tree.members());
    let grace = match way {
        StopWay::TermOnly => {
            // Of a tree without its root all are asked: no other process would pass it on to them.
            let asked = tree.leader().map_or_else(|| targets.alive(), |leader| vec![leader]);
            asked.iter().try_for_each(ask)?;
            return Ok(StoppedTree { seen_dead: Vec::new(), survivors: Vec::new(), unexamined: Unexamined::default() });
        }
        StopWay::Escalate { grace } => grace,
    };
    if !grace.is_zero() {
        let until = Instant::now() + grace;
        // The root alone at first: many programs end their children themselves, and better than we could.
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
    let mut tree_pids: HashSet<u32> = targets.all.keys().map(|life| life.pid).collect();
    if tree.may_have_roots_number() {
        tree_pids.insert(tree.root.pid);
    }
    let unexamined = tree.unexamined(&tree_pids);
    Ok(StoppedTree { seen_dead: targets.into_dead(), survivors, unexamined })
}

/// A life, and the arguments of its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeMember {
    pub(crate) life: Incarnation,
    pub(crate) arguments: Vec<String>,
}

impl TreeMember {
    /// A life with its arguments, which are empty if it has just ended.
    pub(crate) fn of(life: Incarnation) -> Self {
        Self { life, arguments: arguments_of(life.pid).filter(|_| is_alive(&life)).unwrap_or_default() }
    }
}

/// Every life that was ever seen to belong.
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

/// Signals a life. That it is over is what was wanted; that we may not is found when the survivors are counted.
fn tell(life: &Incarnation, what: Signal) -> io::Result<()> {
    match signal(life, what) {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ESRCH | libc::EPERM)) || e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Waits until all of them are over; `false` if the time came first.
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
