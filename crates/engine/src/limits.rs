//! The engine's own limits: sane ones for itself and its keepers, and those of each caller for its command.

use crate::os;
use outlast_core::{ProcessLimits, ResourceLimit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Every resource that Linux limits, by the name it has in a request.
const RESOURCES: [(&str, Resource); 16] = [
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
/// Left as they are: a stack without limit changes how memory is laid out, and nothing of ours needs either.
const LEFT_ALONE: [&str; 2] = ["stack", "core"];
/// What ends or cripples an engine when it is used up. A privileged engine needs none of these limits.
const FATAL: [(&str, &str); 4] =
    [("cpu", "seconds of CPU time"), ("fsize", "bytes in a file"), ("as", "bytes of memory"), ("data", "bytes of data")];

/// What the engine's starter left it with.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inherited {
    /// What commands get whose caller does not say: what they got before limits were part of a request.
    pub(crate) limits: ProcessLimits,
    /// What the engine has now, and nothing it starts can exceed. Nothing where it may raise limits as it likes.
    most: Option<ProcessLimits>,
}

impl Inherited {
    /// Raises the limits of this process as far as it may, and undoes the priority and processors of its starter. Before any thread is made: they inherit it.
    pub(crate) fn leave_behind() -> Self {
        let mut limits = ProcessLimits::default();
        limits.resources = resources();
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
        now.resources = resources();
        Self { limits, most: (!may_raise).then_some(now) }
    }

    /// What may end this engine, in a sentence each.
    pub(crate) fn dangers(&self) -> Vec<String> {
        let of = |(name, what): &(&str, &str)| {
            let hard = self.most.as_ref()?.resources.get(*name)?.hard?;
            Some(format!(
                "a hard limit of its starter allows the engine and its keepers {hard} {what}: end the engine with `outlast engine stop` and start it without that limit"
            ))
        };
        FATAL.iter().filter_map(of).collect()
    }

    /// What a caller has and its command cannot have, in a sentence.
    pub(crate) fn shortfall(&self, wanted: &ProcessLimits) -> Option<String> {
        let most = self.most.as_ref()?;
        let mut short: Vec<String> = Vec::new();
        for (name, limit) in &wanted.resources {
            let Some(ours) = most.resources.get(name).and_then(|ours| ours.hard) else { continue };
            // What counts is what the caller has now; that it could have more is worth no warning.
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

/// Whether `RLIMIT_NICE` allows a priority that high: its number is 20 minus the nice value.
fn may_lower_nice(most: &ProcessLimits, nice: i32) -> bool {
    most.resources
        .get("nice")
        .is_some_and(|limit| limit.soft.is_none_or(|soft| i64::try_from(soft).is_ok_and(|soft| 20 - soft <= i64::from(nice))))
}

fn resources() -> std::collections::BTreeMap<String, ResourceLimit> {
    let of = |(name, resource): (&str, Resource)| {
        let Rlimit { current, maximum } = getrlimit(resource);
        (name.to_owned(), ResourceLimit { soft: current, hard: maximum })
    };
    RESOURCES.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
