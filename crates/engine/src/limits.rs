//! The limits of the engine: safe ones for itself and its keepers, and each caller's own for its command.

use crate::os;
use outlast_core::{ProcessLimits, RESOURCES, resource_limits};
use rustix::process::{Rlimit, getrlimit, setrlimit};

/// Not raised: an unlimited stack changes the memory layout, and no keeper needs a larger stack or core file.
const LEFT_ALONE: [&str; 2] = ["stack", "core"];
/// Limits that end or cripple an engine when they are used up. A privileged engine removes them.
const FATAL: [(&str, &str); 4] =
    [("cpu", "seconds of CPU time"), ("fsize", "bytes in a file"), ("as", "bytes of memory"), ("data", "bytes of data")];

/// The limits that the engine got from its starter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inherited {
    /// Limits for commands whose client sends none: an earlier version of the client, whose commands always got these.
    pub(crate) limits: ProcessLimits,
    /// The engine's limits now, which its children cannot exceed. None if the engine may raise any limit.
    most: Option<ProcessLimits>,
}

impl Inherited {
    /// Raises the limits of this process as far as it may, and resets priority and processors to the usual ones. Called before any thread
    /// is started, because threads inherit them.
    pub(crate) fn leave_behind() -> Self {
        let mut limits = ProcessLimits::default();
        limits.resources = resource_limits(getrlimit);
        let may_raise = os::has_capability(os::CAP_SYS_RESOURCE);
        for (name, resource) in RESOURCES.into_iter().filter(|(name, _)| !LEFT_ALONE.contains(name)) {
            let now = getrlimit(resource);
            let most = if may_raise && FATAL.iter().any(|(fatal, _)| *fatal == name) { None } else { now.maximum };
            let raised = Rlimit { current: most, maximum: most };
            if let Err(error) = setrlimit(resource, raised) {
                tracing::debug!(name, %error, "a limit stays as it is");
            }
        }
        os::leave_priority();
        let mut now = os::priority();
        now.resources = resource_limits(getrlimit);
        Self { limits, most: (!may_raise).then_some(now) }
    }

    /// The limits that may end this engine, one sentence each.
    pub(crate) fn dangers(&self) -> Vec<String> {
        let of = |(name, what): &(&str, &str)| {
            let hard = self.most.as_ref()?.resources.get(*name)?.hard?;
            Some(format!(
                "a hard limit of its starter allows the engine and its keepers {hard} {what}: end the engine with `outlast engine stop` and start it without that limit"
            ))
        };
        FATAL.iter().filter_map(of).collect()
    }

    /// A sentence about limits of a client that its command cannot get.
    pub(crate) fn shortfall(&self, wanted: &ProcessLimits) -> Option<String> {
        let most = self.most.as_ref()?;
        let mut short: Vec<String> = Vec::new();
        for (name, limit) in &wanted.resources {
            let Some(ours) = most.resources.get(name).and_then(|ours| ours.hard) else { continue };
            // Only the soft limit counts: a hard limit that the client did not use needs no warning.
            if limit.soft.is_none_or(|soft| soft > ours) {
                let theirs = limit.soft.map_or("no limit".to_owned(), |soft| soft.to_string());
                short.push(format!("{name} {ours} instead of {theirs}"));
            }
        }
        if let (Some(ours), Some(theirs)) = (most.nice, wanted.nice)
            && theirs < ours
            && !os::has_capability(os::CAP_SYS_NICE)
            && !may_lower_nice(most, theirs)
        {
            short.push(format!("nice {ours} instead of {theirs}"));
        }
        let what = short.join(", ");
        (!short.is_empty()).then(|| {
            format!("the engine was started with lower limits than yours, and the command gets those: {what}; `outlast engine stop` lets the next call start it with yours")
        })
    }
}

/// Whether `RLIMIT_NICE` allows this nice value: the limit is 20 minus the lowest nice value.
fn may_lower_nice(most: &ProcessLimits, nice: i32) -> bool {
    most.resources
        .get("nice")
        .is_some_and(|limit| limit.soft.is_none_or(|soft| i64::try_from(soft).is_ok_and(|soft| 20 - soft <= i64::from(nice))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_core::ResourceLimit;

    fn limits(resources: &[(&str, Option<u64>)]) -> ProcessLimits {
        let one = |(name, limit): &(&str, Option<u64>)| ((*name).to_owned(), ResourceLimit { soft: *limit, hard: *limit });
        let mut all = ProcessLimits::default();
        all.resources = resources.iter().map(one).collect();
        all
    }

    #[test]
    fn a_command_that_gets_less_than_its_caller_has_is_warned_of() {
        let most = limits(&[("nofile", Some(100)), ("cpu", Some(5)), ("fsize", None)]);
        let of = |most: &ProcessLimits| Inherited { limits: ProcessLimits::default(), most: Some(most.clone()) };
        assert_eq!(of(&most).shortfall(&limits(&[("nofile", Some(100)), ("fsize", None)])), None);
        let short = of(&most).shortfall(&limits(&[("nofile", Some(200)), ("cpu", None), ("fsize", Some(1))])).unwrap();
        assert!(short.contains("cpu 5 instead of no limit, nofile 100 instead of 200;"), "{short}");
        assert_eq!(Inherited { most: None, ..of(&most) }.shortfall(&limits(&[("nofile", Some(200))])), None, "it may raise them");
        assert_eq!(of(&most).dangers().len(), 1);
        assert!(of(&most).dangers()[0].contains("5 seconds of CPU time"));
    }
}
