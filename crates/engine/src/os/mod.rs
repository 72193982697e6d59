//! Calls to the operating system. Everything specific to Linux is in `linux`.

mod linux;

pub(crate) use linux::{
    CAP_SETUID, CAP_SYS_NICE, CAP_SYS_PTRACE, CAP_SYS_RESOURCE, ProcessHandle, Watch, changed, has_capability, id_of_environment, ids_in,
    leave_priority, leave_session, namespaces, pid_of_environment, pids_of_environment, priority, private_umask, room_for, writable,
};
