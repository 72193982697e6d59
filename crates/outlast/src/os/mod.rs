//! Facts from the operating system. The code for Linux is in `linux`.

mod linux;

#[allow(unused_imports)] // Only the gateway has a time of day.
pub(crate) use linux::utc_offset_seconds;
pub(crate) use linux::{
    Container, Lasting, Sampler, Surroundings, Usage, cgroup_of, client_above, conversation_above, file_system, io_priority, is_engine_of,
    is_suspended, keepers_of, kernel, kill_now, leave_parent, lingers, older_keepers, processes_of, stat, systemd_runs, this_process,
    unreaped_by_init, wait_for_end, working_dir,
};
