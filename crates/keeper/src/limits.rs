//! Applies the caller's limits, priority and processors to the command, between clone and exec.

use crate::os;
use outlast_core::{ProcessLimits, Scheduler, kernel_limits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Limits in the kernel's form. Made before the clone, because the child must not allocate memory.
#[derive(Debug)]
pub(crate) struct PreparedLimits {
    cpus: Option<Vec<u8>>,
    scheduler: Option<Scheduler>,
    nice: Option<i32>,
    io_priority: Option<i32>,
    resources: Vec<(Resource, Rlimit)>,
}

impl PreparedLimits {
    pub(crate) fn new(limits: &ProcessLimits) -> Self {
        Self {
            cpus: limits.cpu_numbers().map(|all| mask(&all)),
            scheduler: limits.scheduler,
            nice: limits.nice,
            io_priority: limits.io_priority,
            resources: kernel_limits(&limits.resources),
        }
    }

    /// Applies the limits to this process. If one is not allowed, the closest allowed value is set; the engine has warned about it.
    pub(crate) fn apply(&self) {
        if let Some(cpus) = &self.cpus {
            os::set_cpus(cpus);
        }
        if let Some(Scheduler { policy, priority }) = self.scheduler {
            os::set_scheduler(policy, priority);
        }
        if let Some(nice) = self.nice {
            let _as_it_is = rustix::process::setpriority_process(None, nice);
        }
        if let Some(priority) = self.io_priority {
            os::set_io_priority(priority);
        }
        // Resource limits come last, because RLIMIT_NICE and RLIMIT_RTPRIO restrict the calls above.
        for (resource, wanted) in &self.resources {
            set(*resource, *wanted);
        }
    }
}

fn set(resource: Resource, wanted: Rlimit) {
    if setrlimit(resource, Rlimit { current: wanted.current, maximum: wanted.maximum }).is_ok() {
        return;
    }
    // Only a privileged process raises a hard limit.
    let most = getrlimit(resource).maximum;
    let limit = Rlimit { current: lower(wanted.current, most), maximum: lower(wanted.maximum, most) };
    let _as_it_is = setrlimit(resource, limit);
}

/// The lower of two limits; an absent one is unlimited.
fn lower(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}

/// The kernel's CPU mask: one bit for each processor.
fn mask(cpus: &[usize]) -> Vec<u8> {
    let words = cpus.iter().max().map_or(0, |most| most / 64 + 1);
    let mut bits = vec![0_u64; words];
    for cpu in cpus {
        bits[cpu / 64] |= 1 << (cpu % 64);
    }
    bits.into_iter().flat_map(u64::to_ne_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_limit_counts_and_none_is_the_highest() {
        assert_eq!(
            (lower(Some(1), Some(2)), lower(None, Some(2)), lower(Some(1), None), lower(None, None)),
            (Some(1), Some(2), Some(1), None)
        );
    }

    #[test]
    fn processors_become_bits() {
        assert_eq!(mask(&[]), [0_u8; 0]);
        assert_eq!(u64::from_ne_bytes(mask(&[0, 2]).try_into().unwrap()), 0b101);
        assert_eq!(mask(&[64]).len(), 16);
    }
}
