//! What only the operating system can tell or do. Everything that is Linux's own is in `linux`.

mod linux;

pub(crate) use linux::{
    Lives, Watch, id_of_environment, leave_session, nofile_to_the_limit, pid_of_environment, private_umask, room_for, writable,
};
