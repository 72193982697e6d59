//! Linux: what trees of processes use, and what the machine is like.

mod detach;
mod machine;
mod usage;

pub(crate) use detach::leave_parent;
pub(crate) use machine::{Lasting, cgroup_of, file_system, kernel, lingers, older_keepers, systemd_runs};
pub(crate) use usage::{Sampler, Usage};
