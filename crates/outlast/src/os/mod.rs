//! What only the operating system can tell. Everything that is Linux's own is in `linux`.

mod linux;

pub(crate) use linux::{Lasting, Sampler, Usage, cgroup_of, file_system, kernel, leave_parent, lingers, older_keepers, systemd_runs};
