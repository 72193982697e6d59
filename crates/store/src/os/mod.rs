//! Calls to the operating system. Everything specific to Linux is in `linux`.

mod linux;

pub(crate) use linux::try_call;
pub use linux::{
    Mapping, arguments_of, boot_id, boottime_ns, children_of, children_of_one_thread, command_name, group_of, incarnation_of, is_alive,
    is_busy, is_over, is_suspended, is_zombie, live_in_sandbox, lives, now, parent_of, pidfd_of, remove_cgroup, runs_on, send, session_of,
    signal, start_ticks,
};
