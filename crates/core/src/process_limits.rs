//! What the kernel grants a process: resource limits, priority and processors.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a caller may use, which its command gets as well. What is absent is not known, and left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ProcessLimits {
    /// By the name of the resource: `nofile` for `RLIMIT_NOFILE`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, ResourceLimit>,
    /// How far it stands back: -20 to 19.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// How it is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// Class and level of its I/O, as `ioprio_get` gives them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_priority: Option<i32>,
    /// On which processors it may run, as in `Cpus_allowed_list`: `0-3,7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
}

/// One resource limit. Absent means without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceLimit {
    /// What counts now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<u64>,
    /// How far the process may raise it by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<u64>,
}

/// A scheduling policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scheduler {
    /// The kernel's number for it: 0 for `SCHED_OTHER`, 3 for `SCHED_BATCH`, 5 for `SCHED_IDLE`.
    pub policy: i32,
    /// The priority of a real-time policy, 0 for the others.
    pub priority: i32,
}

impl ProcessLimits {
    /// Priority, policy and processors of a process, from its `/proc/PID/stat` and `/proc/PID/status`.
    pub fn of_proc(stat: &str, status: &str) -> Self {
        // Fields are counted from 1, and the first one after the name in brackets is the third.
        let field = |n: usize| stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(n - 3)?.parse::<i32>().ok();
        let scheduler = field(41).zip(field(40)).map(|(policy, priority)| Scheduler { policy, priority });
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(|list| list.trim().to_owned());
        Self { nice: field(19), scheduler, cpus, ..Self::default() }
    }

    /// The numbers of the processors in `cpus`. Nothing if there are none or the list cannot be read.
    pub fn cpu_numbers(&self) -> Option<Vec<usize>> {
        let mut all = Vec::new();
        for part in self.cpus.as_deref()?.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            // Far more than any kernel has: a list that was made up must not take all memory.
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
