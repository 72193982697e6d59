//! What trees of processes use, as `/proc` has it.

use std::collections::HashMap;
use std::time::Instant;

/// What a tree uses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Usage {
    /// Of one core, in percent; known from the second look on.
    pub(crate) cpu: Option<f64>,
    /// Resident bytes, with what several share counted for each.
    pub(crate) memory: u64,
    /// How many processes it has.
    pub(crate) processes: u32,
}

/// Looks again and again, and remembers what a tree had used the last time.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    last: HashMap<u32, Earlier>,
}

#[derive(Debug)]
struct Earlier {
    /// When the root began, which with its pid says who it is.
    began: u64,
    ticks: u64,
    at: Instant,
}

impl Sampler {
    /// What the trees of these roots use, by the root's pid. `/proc` is read once, however many there are.
    pub(crate) fn sample(&mut self, roots: &[u32]) -> HashMap<u32, Usage> {
        if roots.is_empty() {
            return HashMap::new();
        }
        let table = Table::read();
        let (pages, per_second) = (rustix::param::page_size() as u64, rustix::param::clock_ticks_per_second() as f64);
        let at = Instant::now();
        let mut last = HashMap::new();
        let mut found = HashMap::new();
        for &root in roots {
            let Some(began) = table.all.get(&root).map(|s| s.began) else { continue };
            let tree = table.tree(root);
            let ticks = tree.iter().map(|s| s.ticks).sum();
            let earlier = self.last.get(&root).filter(|e| e.began == began);
            let cpu = earlier.and_then(|e| {
                let passed = at.duration_since(e.at).as_secs_f64();
                // Of one whose parent did not wait for it the time is lost with it, and the sum may shrink.
                let used = ticks_since(ticks, e.ticks) as f64 / per_second;
                (passed > 0.0).then(|| used / passed * 100.0)
            });
            let memory = tree.iter().map(|s| s.pages * pages).sum();
            found.insert(root, Usage { cpu, memory, processes: u32::try_from(tree.len()).unwrap_or(u32::MAX) });
            last.insert(root, Earlier { began, ticks, at });
        }
        self.last = last;
        found
    }
}

fn ticks_since(now: u64, then: u64) -> u64 {
    now.saturating_sub(then)
}

/// What `/proc/PID/stat` says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProcessUsage {
    name: String,
    parent: u32,
    /// Of its own and of the children it has waited for.
    ticks: u64,
    began: u64,
    pages: u64,
}

impl ProcessUsage {
    /// The name is in brackets and may hold anything, brackets too.
    fn parse(text: &str) -> Option<Self> {
        let (before, after) = text.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_owned();
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        // The state is the third field of the file, and the first here.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            name,
            parent: u32::try_from(number(4)?).ok()?,
            ticks: number(14)? + number(15)? + number(16)? + number(17)?,
            began: number(22)?,
            pages: number(24)?,
        })
    }
}

/// Everybody there is.
#[derive(Debug, Default)]
struct Table {
    all: HashMap<u32, ProcessUsage>,
    children: HashMap<u32, Vec<u32>>,
}

impl Table {
    fn read() -> Self {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
        // One that ends meanwhile is not there any more, which is what is told.
        Self::of(pids.filter_map(|pid| {
            Some((pid, ProcessUsage::parse(&String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/stat")).ok()?))?))
        }))
    }

    fn of(stats: impl Iterator<Item = (u32, ProcessUsage)>) -> Self {
        let mut table = Self::default();
        for (pid, stat) in stats {
            table.children.entry(stat.parent).or_default().push(pid);
            table.all.insert(pid, stat);
        }
        table
    }

    /// The command, what descends from it, and what its keeper took in because its own parent ended.
    fn tree(&self, root: u32) -> Vec<&ProcessUsage> {
        let mut tree = Vec::new();
        let mut next = vec![root];
        next.extend(self.taken_in(root));
        while let Some(pid) = next.pop() {
            if let Some(stat) = self.all.get(&pid) {
                tree.push(stat);
                next.extend(self.children.get(&pid).into_iter().flatten());
            }
        }
        tree
    }

    fn taken_in(&self, root: u32) -> impl Iterator<Item = u32> {
        let parent = self.all.get(&root).map(|s| s.parent);
        let keeper = parent.and_then(|pid| Some((pid, self.all.get(&pid)?))).filter(|(_, s)| s.name.starts_with("outlast"));
        let others = keeper.and_then(|(pid, keeper)| Some((self.children.get(&pid)?, &keeper.name)));
        others.into_iter().flat_map(move |(children, name)| {
            children.iter().copied().filter(move |pid| *pid != root && self.all.get(pid).is_some_and(|s| s.name != *name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, parent: u32) -> ProcessUsage {
        ProcessUsage { name: name.into(), parent, ticks: 1, began: 7, pages: 2 }
    }

    #[test]
    fn a_name_may_hold_brackets() {
        let line = "42 (a) b (c) S 7 42 42 0 -1 4194304 100 0 0 0 11 12 13 14 20 0 1 0 555 1000000 250 18446744073709551615 1 1";
        let want = ProcessUsage { name: "a) b (c".into(), parent: 7, ticks: 50, began: 555, pages: 250 };
        assert_eq!(ProcessUsage::parse(line), Some(want));
        assert_eq!(ProcessUsage::parse("42 (short) S 7"), None);
    }

    #[test]
    fn a_tree_is_the_command_its_descendants_and_those_its_keeper_took_in() {
        let keeper = "outlast-keeper-";
        let all = [
            (10, stat(keeper, 1)),
            (11, stat(keeper, 10)),
            (12, stat("sh", 11)),
            (13, stat("node", 12)),
            (14, stat("left", 11)),
            (15, stat(keeper, 11)),
            (20, stat("other", 1)),
        ];
        let table = Table::of(all.into_iter());
        let mut names: Vec<&str> = table.tree(12).iter().map(|s| s.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["left", "node", "sh"]);
        // One without a keeper has no brothers.
        assert_eq!(table.tree(20).len(), 1);
    }

    #[test]
    fn what_is_used_is_told_from_the_second_look_on() {
        let mut sampler = Sampler::default();
        let own = std::process::id();
        let first = sampler.sample(&[own])[&own];
        assert_eq!(first.cpu, None);
        assert!(first.memory > 0 && first.processes >= 1);
        assert!(sampler.sample(&[own])[&own].cpu.is_some());
        assert!(sampler.sample(&[]).is_empty());
    }
}
