//! Processes that may have belonged to a tree and that the kernel does not let us examine.
//!
//! Root without CAP_SYS_PTRACE, as in Docker, may not read the environment of a process of another user. Once the parents of such a process
//! are dead, nothing proves what it was started as. It is named and never signalled.

use outlast_store::os::{group_of, parent_of, session_of};
use std::collections::HashSet;

/// How many pids a warning names.
const MOST_NAMED: usize = 16;

/// What links a process to others.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessLinks {
    pub(super) pid: u32,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
}

impl ProcessLinks {
    pub(super) fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, parent: parent_of(pid)?, group: group_of(pid)?, session: session_of(pid)? })
    }
}

/// Processes that a stop left, and that may be part of the tree.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Unexamined {
    /// The pids that a parent, a group or a session links to the tree, in order.
    linked: Vec<u32>,
    /// How many others began after the command.
    others: usize,
}

impl Unexamined {
    /// Sorts those that began after the command by what links them to the tree.
    ///
    /// `tree` has every pid that was ever seen in it. `heir` is the process that adopted the root and adopts those whose parents in the
    /// tree are dead. Without one, only links to the tree itself count.
    pub(super) fn sorted(all: &[ProcessLinks], tree: &HashSet<u32>, heir: Option<u32>) -> Self {
        let mut linked: HashSet<u32> = HashSet::new();
        loop {
            let is_known = |pid: u32| tree.contains(&pid) || linked.contains(&pid);
            let is_linked = |p: &ProcessLinks| heir == Some(p.parent) || [p.parent, p.group, p.session].into_iter().any(is_known);
            let more: Vec<u32> = all.iter().filter(|p| !linked.contains(&p.pid) && is_linked(p)).map(|p| p.pid).collect();
            if more.is_empty() {
                break;
            }
            linked.extend(more);
        }
        let others = if heir.is_some() { all.len() - linked.len() } else { 0 };
        let mut linked: Vec<u32> = linked.into_iter().collect();
        linked.sort_unstable();
        Self { linked, others }
    }

    /// A warning for the client that asked for the stop, if there is one.
    pub(crate) fn warning(&self) -> Option<String> {
        let begin = "descendants of other users may remain";
        if !self.linked.is_empty() {
            let named: Vec<String> = self.linked.iter().take(MOST_NAMED).map(ToString::to_string).collect();
            let more = match self.linked.len() - named.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            let named = named.join(", ");
            return Some(format!("{begin}: pid {named}{more} cannot be examined without CAP_SYS_PTRACE and got no signal"));
        }
        let processes = if self.others == 1 { "process" } else { "processes" };
        (self.others > 0).then(|| {
            format!("{begin}: {} {processes} that began after it cannot be examined without CAP_SYS_PTRACE and got no signal", self.others)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(pid: u32, parent: u32, group: u32, session: u32) -> ProcessLinks {
        ProcessLinks { pid, parent, group, session }
    }

    fn sorted(all: &[ProcessLinks], heir: Option<u32>) -> Unexamined {
        Unexamined::sorted(all, &HashSet::from([100, 101]), heir)
    }

    #[test]
    fn a_parent_a_group_or_a_session_of_the_tree_links() {
        let all = [place(200, 101, 200, 200), place(201, 7, 101, 201), place(202, 7, 202, 100), place(203, 7, 203, 203)];
        assert_eq!(sorted(&all, None).linked, [200, 201, 202]);
    }

    #[test]
    fn what_passed_to_the_same_parent_as_the_root_is_linked_with_all_below_it() {
        // The last one comes first, so that one look is not enough.
        let all = [place(302, 301, 300, 300), place(301, 300, 300, 300), place(300, 1, 300, 300), place(400, 50, 400, 400)];
        let found = sorted(&all, Some(1));
        assert_eq!((found.linked.as_slice(), found.others), (&[300, 301, 302][..], 1));
        assert_eq!(sorted(&all, None), Unexamined::default(), "an ordinary user sees processes of others at any time");
    }

    #[test]
    fn the_warning_names_pids_or_says_how_many_there_are() {
        assert_eq!(Unexamined::default().warning(), None);
        let named = Unexamined { linked: vec![5, 7], others: 3 }.warning().unwrap();
        assert_eq!(named, "descendants of other users may remain: pid 5, 7 cannot be examined without CAP_SYS_PTRACE and got no signal");
        let one = Unexamined { linked: vec![], others: 1 }.warning().unwrap();
        assert!(one.contains("1 process that began after it") && one.contains("CAP_SYS_PTRACE"), "{one}");
        let many = Unexamined { linked: (1..=20).collect(), others: 0 }.warning().unwrap();
        assert!(many.contains("15, 16 and 4 more"), "{many}");
    }
}
