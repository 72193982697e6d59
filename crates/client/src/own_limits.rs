//! What this process may use.

use outlast_core::{ProcessLimits, ResourceLimit};
use rustix::process::{Resource, Rlimit, getrlimit};

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

/// The limits, priority and processors of this process. Its I/O priority is not among them: it takes a system call that is not safe to make from here.
pub(crate) fn own_limits() -> ProcessLimits {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut limits = ProcessLimits::of_proc(&read("/proc/self/stat"), &read("/proc/self/status"));
    limits.resources = RESOURCES
        .into_iter()
        .map(|(name, resource)| {
            let Rlimit { current, maximum } = getrlimit(resource);
            (name.to_owned(), ResourceLimit { soft: current, hard: maximum })
        })
        .collect();
    limits
}
