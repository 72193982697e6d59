//! What the kernel grants a process: resource limits, priority and processors.

use rustix::process::{Resource, Rlimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Every resource that Linux limits, with its name in a request.
pub const RESOURCES: [(&str, Resource); 16] = [
    ("cpu", Resource::Cpu),
    ("fsize", Resource::Fsize),
    ("data", Resource::Data),
    ("stack", Resource::Stack),
    ("core", Resource::Core),
    ("rss", Resource::Rss),
    ("nproc", Resource::Nproc),
    ("nofile", Resource::Nofile),
    ("memlock", Resource::Memlock),
    ("as", Resource::As),
    ("locks", Resource::Locks),
    ("sigpending", Resource::Sigpending),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
];

/// The limits of every resource, read with `getrlimit`.
pub fn resource_limits(getrlimit: impl Fn(Resource) -> Rlimit) -> BTreeMap<String, ResourceLimit> {
    let of = |(name, resource): (&str, Resource)| {
        let Rlimit { current, maximum } = getrlimit(resource);
        (name.to_owned(), ResourceLimit { soft: current, hard: maximum })
    };
    RESOURCES.into_iter().map(of).collect()
}

/// The same limits in the kernel's form. Unknown names are skipped: a later version may send more.
pub fn kernel_limits(limits: &BTreeMap<String, ResourceLimit>) -> Vec<(Resource, Rlimit)> {
    let rlimit = |limit: &ResourceLimit| Rlimit { current: limit.soft, maximum: limit.hard };
    RESOURCES.into_iter().filter_map(|(name, resource)| Some((resource, rlimit(limits.get(name)?)))).collect()
}

/// Limits that a command inherits from its caller. An absent value is unknown and is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ProcessLimits {
    /// By the name of the resource: `nofile` for `RLIMIT_NOFILE`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, ResourceLimit>,
    /// The nice value, -20 to 19.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// The scheduling policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// I/O class and level, as `ioprio_get` returns them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_priority: Option<i32>,
    /// The processors it may run on, in the form of `Cpus_allowed_list`: `0-3,7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
}

/// One resource limit. An absent value means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceLimit {
    /// The limit that applies now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<u64>,
    /// The highest soft limit that an unprivileged process may set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<u64>,
}

/// A scheduling policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scheduler {
    /// The kernel's number: 0 for `SCHED_OTHER`, 3 for `SCHED_BATCH`, 5 for `SCHED_IDLE`.
    pub policy: i32,
    /// The priority of a real-time policy; 0 for other policies.
    pub priority: i32,
}

impl ProcessLimits {
    /// Priority, policy and processors of a process, from its `/proc/PID/stat` and `/proc/PID/status`.
    pub fn of_proc(stat: &str, status: &str) -> Self {
        // proc(5) counts fields from 1. The first field after the name in brackets is the third.
        let field = |n: usize| stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(n - 3)?.parse::<i32>().ok();
        let scheduler = field(41).zip(field(40)).map(|(policy, priority)| Scheduler { policy, priority });
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned());
        Self { nice: field(19), scheduler, cpus, ..Self::default() }
    }

    /// The processor numbers in `cpus`. None if the list is absent or invalid.
    pub fn cpu_numbers(&self) -> Option<Vec<usize>> {
        let mut all = Vec::new();
        for part in self.cpus.as_deref()?.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            // No kernel has this many processors. A made-up range must not use up the memory.
            if first > last || last >= 1 << 16 {
                return None;
            }
            all.extend(first..=last);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_policy_and_processors_are_read_from_proc() {
        let before = "7 (a ) b) R 1 7 7 0 -1 4194304 1 2 3 4 5 6 7 8 20 10 1 0 100 200 300";
        let stat = format!("{before} 18446744073709551615 1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 3 0");
        let found = ProcessLimits::of_proc(&stat, "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-2,7\n");
        assert_eq!((found.nice, found.scheduler), (Some(10), Some(Scheduler { policy: 3, priority: 0 })));
        assert_eq!(found.cpu_numbers(), Some(vec![0, 1, 2, 7]));
        assert_eq!(ProcessLimits::of_proc("", ""), ProcessLimits::default());
    }

    #[test]
    fn a_list_of_processors_that_was_made_up_is_none() {
        for cpus in ["", "x", "3-1", "0-99999999", "0,,1", "-"] {
            let limits = ProcessLimits { cpus: Some(cpus.into()), ..ProcessLimits::default() };
            assert_eq!(limits.cpu_numbers(), None, "{cpus}");
        }
    }

    #[test]
    fn every_resource_keeps_its_limit_and_unknown_names_are_skipped() {
        let read = |resource| Rlimit { current: Some(resource as u64), maximum: None };
        let mut limits = resource_limits(read);
        limits.insert("later".into(), ResourceLimit::default());
        let rlimits = kernel_limits(&limits);
        assert_eq!(rlimits.len(), RESOURCES.len());
        assert!(rlimits.iter().all(|(resource, limit)| *limit == read(*resource)));
    }

    #[test]
    fn an_unlimited_resource_is_written_as_absent() {
        let mut limits = ProcessLimits { nice: Some(5), ..ProcessLimits::default() };
        limits.resources.insert("cpu".into(), ResourceLimit::default());
        limits.resources.insert("nofile".into(), ResourceLimit { soft: Some(1_024), hard: None });
        let text = serde_json::to_string(&limits).unwrap();
        assert_eq!(text, r#"{"resources":{"cpu":{},"nofile":{"soft":1024}},"nice":5}"#);
        assert_eq!(serde_json::from_str::<ProcessLimits>(&text).unwrap(), limits);
        assert_eq!(serde_json::from_str::<ProcessLimits>(r#"{"later":1}"#).unwrap(), ProcessLimits::default());
    }
}
