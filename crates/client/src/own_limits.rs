//! The resource limits of this process.

use outlast_core::{ProcessLimits, resource_limits};

/// The limits, priority and processors of this process. The I/O priority is missing: reading it takes an `unsafe` call, which this
/// crate does not make.
pub(crate) fn own_limits() -> ProcessLimits {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut limits = ProcessLimits::of_proc(&read("/proc/self/stat"), &read("/proc/self/status"));
    limits.resources = resource_limits(rustix::process::getrlimit);
    limits
}
