//! Linux: processes and what they use, and facts about the machine.

mod detach;
mod local_time;
mod machine;
mod place;
mod procs;
mod usage;

pub(crate) use detach::leave_parent;
#[allow(unused_imports)] // Only the gateway has a time of day.
pub(crate) use local_time::utc_offset_seconds;
pub(crate) use machine::{Lasting, cgroup_of, file_system, io_priority, kernel, lingers, older_keepers, systemd_runs, working_dir};
pub(crate) use place::{Container, Surroundings};
pub(crate) use procs::{
    client_above, conversation_above, is_engine_of, is_suspended, keepers_of, kill_now, processes_of, stat, this_process, unreaped_by_init,
    wait_for_end,
};
pub(crate) use usage::{Sampler, Usage};
